package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const prompt = "Please summarise the status of order 48213 in one sentence. My name is Wang and my phone number is 13800138000."

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

// gatewaySide is a gateway under load: the built binary, or a peer.
type gatewaySide struct {
	target

	pid      int
	governed bool // its backlog of records counts

	p50, p99   pair
	rates, cpu []float64
	drain      []float64 // seconds until the backlog was empty
}

// measure loads a side and notes what that cost until nothing of it was left to do.
func (s *gatewaySide) measure(ctx context.Context, direct sample, connections int, length time.Duration) error {
	before, _, err := cpuSeconds(s.pid)
	if err != nil {
		return err
	}
	got, err := load(ctx, s.target, connections, length, body(false), false)
	if err != nil {
		return err
	}
	ended := time.Now()
	for left := 1.0; s.governed && left > 0; {
		if left, err = unshipped(ctx, s.target); err != nil {
			return err
		}
		if time.Since(ended) > time.Minute {
			return fmt.Errorf("%.0f records still wait for the database a minute after the load", left)
		}
	}
	s.drain = append(s.drain, time.Since(ended).Seconds())
	after, _, err := cpuSeconds(s.pid)
	if err != nil {
		return err
	}
	s.p50.add(ms(direct.quantile(.5)), ms(got.quantile(.5)))
	s.p99.add(ms(direct.quantile(.99)), ms(got.quantile(.99)))
	s.rates = append(s.rates, got.rate())
	s.cpu = append(s.cpu, (after-before)/float64(len(got.latencies))*1000)
	return nil
}

// benchGateway holds the built binary, governed, against the upstream alone and against peers, taking turns.
func benchGateway(ctx context.Context, binary string, peers []string, counts []int, rounds int, length time.Duration) error {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	up, stopUpstream, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer stopUpstream()
	gw, pid, stopGateway, err := startGateway(ctx, binary, dir, up)
	if err != nil {
		return err
	}
	defer stopGateway()
	sides := []*gatewaySide{{target: gw, pid: pid, governed: true}}
	for _, name := range peers {
		t, peer, stop, err := startPeer(ctx, name, up)
		if err != nil {
			return fmt.Errorf("start peer %s: %w", name, err)
		}
		defer stop()
		sides = append(sides, &gatewaySide{target: t, pid: peer})
	}

	direct := target{name: "upstream", url: up, key: "none"}
	fmt.Printf("\none request = HTTP + key + limits + masking of a phone number + budget check + 2 durable audit records; peers: their key only; upstream answers at once; %d rounds of %s\n", rounds, length)
	fmt.Printf("%-12s %-12s %-26s %-26s %-28s %-22s %-22s\n", "connections", "side", "added p50 ms (min…max)", "added p99 ms (min…max)", "requests/s", "CPU s/1000", "sluice ÷ it, requests/s")
	for _, connections := range counts {
		for _, s := range sides {
			s.p50, s.p99, s.rates, s.cpu, s.drain = pair{}, pair{}, nil, nil, nil
		}
		var alone []float64
		for n := range rounds {
			d, err := load(ctx, direct, connections, length, body(false), false)
			if err != nil {
				return err
			}
			alone = append(alone, d.rate())
			for i := range sides {
				if err := sides[(i+n)%len(sides)].measure(ctx, d, connections, length); err != nil {
					return err
				}
			}
		}
		fmt.Printf("%-12d %-12s %-26s %-26s %-28s\n", connections, "upstream", "", "", spread(alone))
		for _, s := range sides {
			ratio := make([]float64, rounds)
			for n := range ratio {
				ratio[n] = sides[0].rates[n] / s.rates[n]
			}
			fmt.Printf("%-12d %-12s %-26s %-26s %-28s %-22s %-22s\n", connections, s.name, spread(s.p50.added), spread(s.p99.added), spread(s.rates), spread(s.cpu), spread(ratio))
		}
		fmt.Printf("%-12d backlog of records empty after s: %s\n", connections, spread(sides[0].drain))
	}

	var first, chunk pair
	for range rounds {
		d, err := load(ctx, direct, 1, length, body(true), true)
		if err != nil {
			return err
		}
		g, err := load(ctx, gw, 1, length, body(true), true)
		if err != nil {
			return err
		}
		first.add(ms(quantile(d.firstToken, .5)), ms(quantile(g.firstToken, .5)))
		perChunk := func(s sample) float64 { return ms(s.quantile(.5)-quantile(s.firstToken, .5)) / words }
		chunk.add(perChunk(d), perChunk(g))
	}
	_, peak, err := cpuSeconds(pid)
	if err != nil {
		return err
	}
	fmt.Printf("streaming, 1 connection, masked: added first byte p50 ms %s, added per chunk ms %s\n", spread(first.added), spread(chunk.added))
	fmt.Printf("peak resident set of the gateway: %d MiB\n", peak)
	return nil
}

// unshipped is how many durable records still wait for the database.
func unshipped(ctx context.Context, t target) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	var appended, shipped float64
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		_, _ = fmt.Sscanf(lines.Text(), "sluice_audit_records_appended_total %g", &appended)
		_, _ = fmt.Sscanf(lines.Text(), "sluice_audit_records_shipped_total %g", &shipped)
	}
	return appended - shipped, lines.Err()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func body(stream bool) []byte {
	raw, err := json.Marshal(map[string]any{
		"model": "scripted", "stream": stream, "max_tokens": 64, "messages": []map[string]string{{"role": "user", "content": prompt}},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

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

// startGateway starts the binary with the upstream as its only engine.
func startGateway(ctx context.Context, binary, dir, upstreamURL string) (target, int, func(), error) {
	return startSluice(ctx, binary, dir, fmt.Sprintf(`engines:
  native: {models: []}
  remote:
    - {name: scripted, base_url: "%s/v1", allow_private: [127.0.0.1/32], models: [{id: scripted}]}
`, upstreamURL))
}

// startSluice starts the binary as an operator would, with these engines.
func startSluice(ctx context.Context, binary, dir, engines string) (target, int, func(), error) {
	config := filepath.Join(dir, "sluice.yaml")
	text := `log: {level: error}
` + engines + `rag: {embedding_model: ""}
limits: # counted, never reached
  key: {requests_per_minute: 60000000, tokens_per_minute: 60000000, concurrent: 10000}
  tenant: {requests_per_minute: 60000000, tokens_per_minute: 60000000, concurrent: 10000}
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return target{}, 0, nil, err
	}
	ready := filepath.Join(dir, "ready.json")
	cmd := exec.CommandContext(ctx, binary, "up", "--config", config, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0",
		"--no-temporal", "--no-console", "--ready-file", ready)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return target{}, 0, nil, fmt.Errorf("start %s (run `make build` first): %w", binary, err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	}
	raw, err := await(ready, ended)
	var started struct {
		BaseURL string `json:"base_url"`
		APIKey  string `json:"api_key"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &started)
	}
	if err != nil {
		stop()
		return target{}, 0, nil, fmt.Errorf("start sluice: %w", err)
	}
	return target{name: "sluice", url: strings.TrimSuffix(started.BaseURL, "/v1"), key: started.APIKey}, cmd.Process.Pid, stop, nil
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
