package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// running is a server under measurement.
type running struct {
	endpoint

	pid  int
	stop func()
}

// startOpen starts the ungoverned server: this program again, in a process of its own.
func startOpen(ctx context.Context, c openConfig) (*running, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "open", string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, errors.New("our server did not start; its reason stands above")
	}
	return &running{
		endpoint: endpoint{name: "Sluice", url: strings.TrimSpace(line), model: servedModel, least: true, client: newClient()},
		pid:      cmd.Process.Pid, stop: stop,
	}, nil
}

// startGoverned starts the product as an operator would, with the model in its own process.
func startGoverned(ctx context.Context, binary string, c openConfig) (*running, error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, err
	}
	in, err := startSluice(ctx, binary, dir, fmt.Sprintf(`engines:
  native: {models: [{id: %s, path: %q}], threads: %d, concurrency: %d, cache_dir: %q}
`, servedModel, c.Model, c.Threads, c.Slots, c.Packed)+bounds(true, true))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &running{
		endpoint: endpoint{name: "Sluice, governed", url: in.url, key: in.key, model: servedModel, least: true, client: newClient()},
		pid:      in.pid, stop: func() { in.stop(); _ = os.RemoveAll(dir) },
	}, nil
}

// peerSetting is one way to run the peer's server.
type peerSetting struct {
	build   int
	unified bool // one pool of keys and values for all slots
}

func (p *peer) serverName(s peerSetting) string {
	if s.unified {
		return p.builds[s.build].name + ", unified keys and values"
	}
	return p.builds[s.build].name
}

// startServer starts the peer's server with its defaults (continuous batching, prompt cache, flash attention as it likes), but for
// threads, the number of slots and the context that each of them has.
func (p *peer) startServer(ctx context.Context, s peerSetting, model string, threads, slots, perSlot int) (*running, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		"-m", model, "-t", strconv.Itoa(threads), "-np", strconv.Itoa(slots), "-c", strconv.Itoa(slots * perSlot),
		"--host", "127.0.0.1", "--port", strconv.Itoa(port),
	}
	if s.unified {
		args = append(args, "--kv-unified")
	}
	logs, err := os.Create(filepath.Join(p.dir, "server.log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, p.program("llama-server"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+filepath.Join(p.buildDir(s.build), "bin"))
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, logs.Close())
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		_ = logs.Close()
		close(ended)
	}()
	r := &running{
		endpoint: endpoint{
			name: "llama-server", url: "http://127.0.0.1:" + strconv.Itoa(port), key: "none", model: servedModel,
			exact: map[string]any{"ignore_eos": true}, client: newClient(),
		},
		pid:  cmd.Process.Pid,
		stop: func() { _ = cmd.Process.Kill(); <-ended },
	}
	if err := r.healthy(ctx, ended); err != nil {
		r.stop()
		return nil, fmt.Errorf("llama-server %s: %w; see %s", strings.Join(args, " "), err, logs.Name())
	}
	return r, nil
}

// healthy waits until a server says that it can answer.
func (r *running) healthy(ctx context.Context, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/health", nil)
		if err != nil {
			return err
		}
		if res, err := r.client.Do(req); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("it ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// freePort returns a port that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // a TCP listener
	return port, l.Close()
}
