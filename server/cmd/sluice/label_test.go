package main

import (
	"io"
	"strings"
	"syscall"
	"testing"
)

// TestLabelCommand: the label of an answer that a server gave is known again, and nobody else's, nor the same one in another place.
func TestLabelCommand(t *testing.T) {
	s := newSite(t, nil, quiet)
	p := s.up()
	res := p.post(t, `{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`)
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	got, id := res.Header.Get("X-Sluice-AI-Label"), res.Header.Get("X-Request-Id")
	s.run("audit", "label", "--tenant", "demo", got).wants(t, exitOK, "made here for tenant demo", "request "+id, "key lk_")
	s.run("audit", "label", "--tenant", "acme", got).wants(t, exitFindings, "not ours")
	s.run("audit", "label", "--tenant", "demo", strings.Replace(got, id, "0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001", 1)).wants(t, exitFindings, "not ours")
	s.run("audit", "label", got).wants(t, exitUsage, "--tenant")
	s.run("audit", "label", "--tenant", "demo", "{}").wants(t, exitUsage, "cannot be read")
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	// The master key is enough: nothing has to run. Another installation has another one, or none.
	s.run("audit", "label", "--tenant", "demo", got).wants(t, exitOK, "unaltered")
	newSite(t, nil, quiet).run("audit", "label", "--tenant", "demo", got).wants(t, exitFailed, "no master key")
}
