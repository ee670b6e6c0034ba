package meter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

const (
	// toolTime is how long a program may take to answer.
	toolTime = 5 * time.Second
	// maxOutput bounds what is kept of what it says.
	maxOutput = 64 << 10
)

// runTool runs a program with a deadline and without a shell, and returns what it said. What it says beyond maxOutput is an error.
func runTool(ctx context.Context, command string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command, args...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.WaitDelay = time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that what it starts ends with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out := &bounded{full: cancel}
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fmt.Errorf("%s: %w", command, err)
	}
	return string(out.kept), nil
}

// bounded keeps so much, and ends who says more.
type bounded struct {
	kept []byte // not a bytes.Buffer, which would be filled past Write
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(b.kept)+len(p) > maxOutput {
		b.full()
		return 0, errors.New("it says too much")
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

var (
	watts    = regexp.MustCompile(`^(\d{1,6})(?:\.(\d{1,6}))?$`)
	gpuName  = regexp.MustCompile(`^(GPU|MIG)-[0-9a-fA-F-]{8,64}$`)
	dcmiLine = regexp.MustCompile(`^(\d{1,6}) Watts$`)
)

// milliwatts reads a decimal number of watts, cut to whole milliwatts.
func milliwatts(text string) (int64, error) {
	m := watts.FindStringSubmatch(text)
	if m == nil {
		return 0, fmt.Errorf("%q is no power in watts", short(text))
	}
	var out int64
	for _, c := range m[1] + (m[2] + "000")[:3] {
		out = out*10 + int64(c-'0')
	}
	return out, nil
}

// short cuts a text of a foreign program for an error.
func short(text string) string {
	if len(text) > 40 {
		text = text[:40]
	}
	return text
}

// nvidiaArgs ask for one line a board: its name and its power in watts.
func nvidiaArgs() []string {
	return []string{"--query-gpu=uuid,power.draw", "--format=csv,noheader,nounits"}
}

// parseNvidia reads the answer of nvidia-smi. A board without a power, which it writes as [N/A] or [Not Supported], is an error: a sum
// without it would be too small.
func parseNvidia(text string) (total int64, boards int, err error) {
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ",")
		name = strings.TrimSpace(name)
		if !ok || !gpuName.MatchString(name) || seen[name] {
			return 0, 0, fmt.Errorf("nvidia-smi: a line that is no board and its power, or a board twice: %q", short(line))
		}
		seen[name] = true
		mw, err := milliwatts(strings.TrimSpace(value))
		if err != nil {
			return 0, 0, fmt.Errorf("nvidia-smi: %w", err)
		}
		total += mw
	}
	if len(seen) == 0 {
		return 0, 0, errors.New("nvidia-smi: it lists no board")
	}
	return total, len(seen), nil
}

// ascendArgs ask for the power of one card.
func ascendArgs(card int) []string { return []string{"info", "-t", "power", "-i", fmt.Sprint(card)} }

// parseAscend reads the answer of npu-smi for one card: lines of a key, a colon and a value, of which one or several are powers of its
// chips. The keys are those of the driver packages for 310P (Power Dissipation) and 910 (NPU Real-time Power).
func parseAscend(text string) (total int64, err error) {
	found := 0
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		switch strings.TrimSpace(key) {
		case "Power Dissipation(W)", "NPU Real-time Power(W)", "Real-time Power(W)":
			mw, err := milliwatts(strings.TrimSpace(value))
			if err != nil {
				return 0, fmt.Errorf("npu-smi: %w", err)
			}
			total += mw
			found++
		}
	}
	if found == 0 || found > 64 {
		return 0, fmt.Errorf("npu-smi: %d powers in its answer", found)
	}
	return total, nil
}

// parseDCMI reads the answer of `ipmitool dcmi power reading`. A controller that does not measure says so in the state.
func parseDCMI(text string) (int64, error) {
	now, state := "", ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Instantaneous power reading":
			if now != "" {
				return 0, errors.New("ipmitool: two readings")
			}
			now = value
		case "Power reading state is":
			state = value
		}
	}
	m := dcmiLine.FindStringSubmatch(now)
	switch {
	case state != "activated":
		return 0, fmt.Errorf("ipmitool: the state of the power reading is %q", short(state))
	case m == nil:
		return 0, fmt.Errorf("ipmitool: %q is no reading in watts", short(now))
	}
	return milliwatts(m[1])
}

// parseRedfish reads the Power resource of a chassis (DSP0266, schema Power 1.x): the one PowerControl that has a PowerConsumedWatts. With
// several nobody can tell from outside whether one is the sum of the others.
func parseRedfish(body []byte) (int64, error) {
	var in struct {
		PowerControl []struct {
			PowerConsumedWatts *json.Number `json:"PowerConsumedWatts"`
		} `json:"PowerControl"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return 0, fmt.Errorf("redfish: %w", err)
	}
	found := ""
	for _, c := range in.PowerControl {
		if c.PowerConsumedWatts == nil {
			continue
		}
		if found != "" {
			return 0, errors.New("redfish: several powers; name the chassis of the whole machine")
		}
		found = c.PowerConsumedWatts.String()
	}
	if found == "" {
		return 0, errors.New("redfish: no PowerConsumedWatts")
	}
	return milliwatts(found)
}
