package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// peerKey is what callers of a peer show.
const peerKey = "sk-bench-peer"

// startPeer prepares and starts another gateway in front of the upstream, by the script bench/peers/NAME.sh: "prepare" fetches and builds
// what CACHE lacks, "run" replaces itself by the gateway, which listens at 127.0.0.1:PORT, takes KEY as a bearer token and passes the model
// "scripted" to UPSTREAM, an OpenAI-compatible base URL that ends in /v1; "headers" may print headers that each request has to have, a line
// each. A path in place of a name is a script of one's own.
func startPeer(ctx context.Context, name, upstreamURL string) (target, int, func(), error) {
	script := name
	if !strings.Contains(name, "/") {
		script = filepath.Join("bench", "peers", name+".sh")
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return target{}, 0, nil, err
	}
	cache = filepath.Join(cache, "sluice", "bench-gateways", strings.TrimSuffix(filepath.Base(script), ".sh"))
	if err := os.MkdirAll(cache, 0o755); err != nil { //nolint:gosec // a cache of public things
		return target{}, 0, nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return target{}, 0, nil, err
	}
	environ := append(os.Environ(), "CACHE="+cache, "KEY="+peerKey, "UPSTREAM="+upstreamURL+"/v1", fmt.Sprintf("PORT=%d", port))
	prepare := exec.CommandContext(ctx, "bash", script, "prepare")
	prepare.Env, prepare.Stdout, prepare.Stderr = environ, os.Stderr, os.Stderr
	if err := prepare.Run(); err != nil {
		return target{}, 0, nil, fmt.Errorf("prepare: %w", err)
	}
	ask := exec.CommandContext(ctx, "bash", script, "headers")
	ask.Env, ask.Stderr = environ, os.Stderr
	lines, err := ask.Output()
	if err != nil {
		return target{}, 0, nil, fmt.Errorf("headers: %w", err)
	}
	headers, err := headersOf(string(lines))
	if err != nil {
		return target{}, 0, nil, err
	}
	log, err := os.Create(filepath.Join(cache, "run.log"))
	if err != nil {
		return target{}, 0, nil, err
	}
	cmd := exec.CommandContext(ctx, "bash", script, "run")
	cmd.Env, cmd.Stdout, cmd.Stderr = environ, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return target{}, 0, nil, err
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
	}
	t := target{name: strings.TrimSuffix(filepath.Base(script), ".sh"), url: fmt.Sprintf("http://127.0.0.1:%d", port), key: peerKey, headers: headers, dialect: chat()}
	if err := answers(ctx, t); err != nil {
		stop()
		return target{}, 0, nil, fmt.Errorf("%w; see %s", err, log.Name())
	}
	return t, cmd.Process.Pid, stop, nil
}

// answers waits until a gateway answers a chat.
func answers(ctx context.Context, t target) error {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		_, err := once(ctx, http.DefaultClient, t, t.dialect.body(prompt, false))
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer after two minutes: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// headersOf reads lines such as "X-Name: value".
func headersOf(lines string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(lines) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || name == "" {
			return nil, fmt.Errorf("headers: %q is none", line)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}
