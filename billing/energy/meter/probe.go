package meter

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Probe is a meter and what it says now.
type Probe struct {
	Source
	Configured bool   `json:"configured"`
	Milliwatts *int64 `json:"milliwatts,omitempty"` // nil: not known
	Error      string `json:"error,omitempty"`      // why not
}

// Measure opens the meter, reads it for a time, and closes nothing, since nothing stays open. A meter that cannot be read is no error but a
// Probe that says so.
func Measure(ctx context.Context, c Config, d time.Duration) Probe {
	p := Probe{Source: c.source()}
	mw, source, err := measure(ctx, c, d)
	if source.Kind != "" {
		p.Source = source
	}
	if err != nil {
		p.Error = err.Error()
		return p
	}
	p.Milliwatts = &mw
	return p
}

func measure(ctx context.Context, c Config, d time.Duration) (int64, Source, error) {
	clock := Clock()
	m, err := Open(c, clock, d)
	if err != nil {
		return 0, Source{}, err
	}
	if err := m.Refresh(ctx); err != nil && c.Kind != kindModelled { // a model needs two looks
		return 0, m.Source(), err
	}
	if c.Kind == kindModelled {
		if err := pause(ctx, d); err != nil {
			return 0, m.Source(), err
		}
		if err := m.Refresh(ctx); err != nil {
			return 0, m.Source(), err
		}
	}
	from := clock()
	if _, err := m.Advance(from); err != nil && !errors.Is(err, ErrGap) {
		return 0, m.Source(), err
	}
	if err := pause(ctx, d); err != nil {
		return 0, m.Source(), err
	}
	to := clock()
	e, err := m.Advance(to)
	if err != nil {
		return 0, m.Source(), err
	}
	return int64(float64(e) * 1e6 / float64(max(1, to.Mono-from.Mono))), m.Source(), nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

var (
	socketEnergy = regexp.MustCompile(`^energy\d+_input$`)
	boardPower   = regexp.MustCompile(`^power\d+_(average|input)$`)
)

// Found returns configurations of what this machine seems to have: packages of processors, chips with energies or powers, tools on the path.
// root is that of the file system, "/" but in tests. A management controller behind Redfish is not looked for.
func Found(root string) []Config {
	var out []Config
	if zones, err := raplZones(filepath.Join(root, powercapRoot)); err == nil && len(zones) > 0 {
		out = append(out, Config{Kind: kindRAPL})
	}
	hwmon := filepath.Join(root, hwmonRoot)
	chips, _ := os.ReadDir(hwmon) // none without the kernel's support
	for _, e := range chips {
		name, err := readText(filepath.Join(hwmon, e.Name(), "name"))
		if err != nil {
			continue
		}
		if sensors := chipSensors(filepath.Join(hwmon, e.Name())); len(sensors) > 0 {
			if _, err := hwmonChip(hwmon, name); err != nil { // two of a name
				name = e.Name()
			}
			out = append(out, Config{Kind: kindHwmon, Chip: name, Sensors: sensors})
		}
	}
	for _, f := range []struct {
		tool string
		cfg  Config
	}{{"nvidia-smi", Config{Kind: kindNvidia}}, {"npu-smi", Config{Kind: kindAscend, Cards: []int{0}}}, {"ipmitool", Config{Kind: kindIPMI}}} {
		if _, err := exec.LookPath(f.tool); err == nil {
			out = append(out, f.cfg)
		}
	}
	return out
}

// chipSensors returns the energies of sockets that a chip has, else its first power. The label tells a socket (Esocket0) from its cores.
func chipSensors(dir string) []string {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var energies, powers []string
	for _, f := range files {
		switch {
		case socketEnergy.MatchString(f.Name()):
			label, err := readText(filepath.Join(dir, strings.TrimSuffix(f.Name(), "_input")+"_label"))
			if err != nil || strings.HasPrefix(label, "Esocket") {
				energies = append(energies, f.Name())
			}
		case boardPower.MatchString(f.Name()):
			powers = append(powers, f.Name())
		}
	}
	if len(energies) > 0 {
		return energies
	}
	return powers[:min(1, len(powers))]
}
