package main

import (
	"errors"
	"net/http"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// TestSecondSignal: whoever does not want to wait for the open streams asks again, and the process ends at once.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	step := begun()
	defer close(step)
	s := newSite(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"one two three four"}, Step: step}
	}, quiet+"drain_timeout: 10m\n")
	p := s.up()
	res := p.post(t, `{"model":"scripted","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	defer func() { _ = res.Body.Close() }()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.eventually("new connections to be refused", func() bool {
		_, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get(p.url("/healthz"))
		return err != nil
	})
	tick := time.NewTicker(50 * time.Millisecond) // the first signal may have closed the listener before it has given up the second
	defer tick.Stop()
	for ended := false; !ended; {
		_ = p.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-p.done:
			ended = true
		case <-tick.C:
		}
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGINT {
		t.Errorf("end: %v", p.err)
	}
	s.run("audit", "verify").wants(t, exitOK, "OK: nothing was altered")
}
