package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// prompt has values that a policy masks, plainPrompt none.
const (
	prompt      = "Please summarise the status of order 48213 in one sentence. My name is Wang and my phone number is 13800138000."
	plainPrompt = "Please summarise the status of the order in one sentence, and say what the customer should do once the parcel has come."
)

// recordBytes is about what one audit record takes in the write-ahead log.
const recordBytes = 600

// pair collects, per round, what the gateway added to one measure.
type pair struct {
	added []float64
}

func (p *pair) add(direct, through float64) { p.added = append(p.added, through-direct) }

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}

func spread(v []float64) string {
	if len(v) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f…%.3f)", median(v), slices.Min(v), slices.Max(v))
}

// gatewayOptions say what is measured of gateways.
type gatewayOptions struct {
	binary, dir string // the built program; where its data lie, "" for the directory of temporary files
	setups      []setup
	dialects    []dialect // that each setup is asked in
	peers       []string
	connections []int
	rounds      int
	length      time.Duration
	against     string // another build, which takes turns with the first; "" for none
	profiles    string // a directory for profiles; "" for none
	body        int    // bytes of a request; 0 for a short prompt and latencies, else what becomes of a crowd is counted
}

// gatewaySide is a gateway under load: the built binary, or a peer.
type gatewaySide struct {
	target

	pid  int
	ours bool // its backlog of records counts
	row  gatewayRow
}

// speaking is the installation as a side that is asked in a dialect, which its name tells unless it is that of the upstream.
func (in *instance) speaking(d dialect) *gatewaySide {
	t := in.target
	t.dialect = d
	if d.name != chat().name {
		t.name += "/" + d.name
	}
	return &gatewaySide{target: t, pid: in.pid, ours: true}
}

// gatewayRow is what one side showed in the rounds of one row.
type gatewayRow struct {
	p50, p99        pair
	rates, cpu      []float64
	shipped, sealed []float64 // seconds until the database had all records and usage, and until a checkpoint covered them
	peak            []float64 // MiB
}

// measure loads a side and notes what that cost until nothing of it was left to do.
func (s *gatewaySide) measure(ctx context.Context, direct sample, connections int, length time.Duration) error {
	if err := resetPeak(s.pid); err != nil {
		return err
	}
	before, _, err := cpuSeconds(s.pid)
	if err != nil {
		return err
	}
	got, err := load(ctx, s.target, connections, length, s.dialect.body(prompt, false), false)
	if err != nil {
		return err
	}
	r := &s.row
	if s.ours {
		shipped, sealed, err := s.drain(ctx)
		if err != nil {
			return err
		}
		r.shipped, r.sealed = append(r.shipped, shipped.Seconds()), append(r.sealed, sealed.Seconds())
	}
	after, peak, err := cpuSeconds(s.pid)
	if err != nil {
		return err
	}
	r.p50.add(ms(direct.quantile(.5)), ms(got.quantile(.5)))
	r.p99.add(ms(direct.quantile(.99)), ms(got.quantile(.99)))
	r.rates = append(r.rates, got.rate())
	r.cpu = append(r.cpu, (after-before)/float64(len(got.latencies))*1000)
	r.peak = append(r.peak, float64(peak))
	return nil
}

// drain waits until nothing is left to do of a load that has just ended, and returns how long that took.
func (s *gatewaySide) drain(ctx context.Context) (shipped, sealed time.Duration, err error) {
	ended := time.Now()
	look := time.NewTicker(20 * time.Millisecond) // each look is work, too
	defer look.Stop()
	for {
		left, err := backlog(ctx, s.target)
		if err != nil {
			return 0, 0, err
		}
		took := time.Since(ended)
		if shipped == 0 && left.unshipped <= 0 {
			shipped = took
		}
		switch {
		case shipped > 0 && left.unsealed <= 0:
			return shipped, took, nil
		case took > time.Minute:
			return 0, 0, fmt.Errorf("a minute after the load %.0f records still wait for the database and %.0f for a checkpoint", left.unshipped, left.unsealed)
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-look.C:
		}
	}
}

// benchGateway holds the built binary, in each of its setups, against the upstream alone and against peers, taking turns.
func benchGateway(ctx context.Context, o gatewayOptions) error {
	dir, err := os.MkdirTemp(o.dir, "sluice-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := raiseFiles(2 * slices.Max(o.connections)); err != nil {
		return err
	}
	up, stopUpstream, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer stopUpstream()
	var sides []*gatewaySide
	for _, su := range o.builds() {
		gw, err := startSetup(ctx, o, su, filepath.Join(dir, su.name), up)
		if err != nil {
			return fmt.Errorf("start %s: %w", su.name, err)
		}
		defer gw.stop()
		for _, d := range o.dialects {
			sides = append(sides, gw.speaking(d))
		}
	}
	for _, name := range o.peers {
		t, peer, stop, err := startPeer(ctx, name, up)
		if err != nil {
			return fmt.Errorf("start peer %s: %w", name, err)
		}
		defer stop()
		sides = append(sides, &gatewaySide{target: t, pid: peer})
	}
	bars := newGatewayBars()
	if o.body > 0 {
		if err := benchCrowd(ctx, o, sides, bars); err != nil {
			return err
		}
		return bars.report(os.Stdout)
	}

	direct := target{name: "upstream", url: up, key: "none", dialect: chat()}
	fmt.Printf("\none request of Sluice = HTTP + key + what its setup says + 2 durable audit records; peers: their key only, if any; upstream answers at once; %d rounds of %s\n", o.rounds, o.length)
	headLoads(os.Stdout)
	for _, connections := range o.connections {
		if err := benchLoads(ctx, o, dir, direct, sides, connections); err != nil {
			return err
		}
		bars.loads(connections, sides)
	}
	if err := benchStreams(ctx, o, direct, sides, bars); err != nil {
		return err
	}
	return bars.report(os.Stdout)
}

// benchLoads measures one row: this many connections.
func benchLoads(ctx context.Context, o gatewayOptions, dir string, direct target, sides []*gatewaySide, connections int) error {
	for _, s := range sides {
		s.row = gatewayRow{}
	}
	var alone, disk []float64
	for n := range o.rounds {
		if connections == 1 { // then the disk decides
			each, err := syncRate(ctx, filepath.Join(dir, "disk"), recordBytes, o.length/4)
			if err != nil {
				return err
			}
			disk = append(disk, ms(each))
		}
		d, err := load(ctx, direct, connections, o.length, direct.dialect.body(prompt, false), false)
		if err != nil {
			return err
		}
		alone = append(alone, d.rate())
		for i := range sides {
			if err := sides[(i+n)%len(sides)].measure(ctx, d, connections, o.length); err != nil {
				return err
			}
		}
	}
	if o.profiles != "" {
		for _, s := range sides {
			if err := s.profile(ctx, o, connections); err != nil {
				return fmt.Errorf("profile %s: %w", s.name, err)
			}
		}
	}
	reportLoads(os.Stdout, connections, alone, disk, sides)
	return nil
}

// operationsToken reads the metrics of the gateways that are measured here.
const operationsToken = "bench-operations-token"

// waiting is how many durable records wait for the database, and how many for a signed checkpoint. Their usage is billed as they are shipped.
type waiting struct{ unshipped, unsealed float64 }

// backlog reads what still waits, of a server whose log began with it.
func backlog(ctx context.Context, t target) (waiting, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/metrics", nil)
	if err != nil {
		return waiting{}, err
	}
	req.Header.Set("Authorization", "Bearer "+operationsToken)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return waiting{}, err
	}
	defer func() { _ = res.Body.Close() }()
	appended, shipped, sealed := math.NaN(), math.NaN(), math.NaN()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "sluice_audit_records_appended_total %g", &appended)
		_, _ = fmt.Sscanf(lines.Text(), "sluice_audit_records_shipped_total %g", &shipped)
		_, _ = fmt.Sscanf(lines.Text(), "sluice_audit_sealed_records %g", &sealed)
	}
	left := waiting{appended - shipped, appended - sealed}
	if err := lines.Err(); err != nil || math.IsNaN(left.unshipped+left.unsealed) {
		return waiting{}, errors.Join(fmt.Errorf("%s/metrics does not say how many records wait (status %d)", t.url, res.StatusCode), err)
	}
	return left, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func startUpstream(ctx context.Context) (string, func(), error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, "upstream")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("start upstream: %w", err)
	}
	return strings.TrimSpace(line), stop, nil
}

// await reads the ready file once it is there, or fails when the process has ended.
func await(path string, ended <-chan struct{}) ([]byte, error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		raw, err := os.ReadFile(path)
		if err == nil || !errors.Is(err, os.ErrNotExist) {
			return raw, err
		}
		select {
		case <-ended:
			return nil, errors.New("the server ended; its reason stands above")
		case <-tick.C:
		}
	}
}
