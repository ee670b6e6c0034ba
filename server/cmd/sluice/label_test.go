package main

import (
	"io"
	"os"
	"path/filepath"
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
	s.run("label", "check", "--tenant", "demo", got).wants(t, exitOK, "made here for tenant demo", "request "+id, "key lk_")
	s.run("label", "check", "--tenant", "acme", got).wants(t, exitFindings, "not ours")
	s.run("label", "check", "--tenant", "demo", strings.Replace(got, id, "0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001", 1)).wants(t, exitFindings, "not ours")
	s.run("label", "check", got).wants(t, exitUsage, "--tenant")
	s.run("label", "check", "--tenant", "demo", "{}").wants(t, exitUsage, "cannot be read")
	file := filepath.Join(t.TempDir(), "answer.md")
	if err := os.WriteFile(file, []byte("# Trees\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	marked := strings.Replace(file, ".md", ".labelled.md", 1)
	s.run("label", "read", file).wants(t, exitFindings, "no label", "visible label: no")
	s.run("label", "--tenant", "demo", file).wants(t, exitUsage, "--request")
	s.run("label", "--request", id, file).wants(t, exitUsage, "--tenant")
	s.run("label", "--tenant", "demo", "--request", id, "--text", "hello", file).wants(t, exitUsage, "no visible label")
	s.run("label", "--tenant", "acme", "--label", got, file).wants(t, exitFailed, "not ours")
	s.run("label", "--tenant", "demo", "--label", got, file).wants(t, exitOK, marked+" is labelled", id)
	s.run("label", "--tenant", "demo", "--label", got, file).wants(t, exitFailed, "exists")
	s.run("label", "--tenant", "demo", "--request", id, marked).wants(t, exitFailed, "has a label already")
	s.run("label", "read", "--tenant", "demo", marked).wants(t, exitOK, "front matter: ", "made here for tenant demo", "visible label: yes")
	s.run("label", "read", "--tenant", "acme", marked).wants(t, exitFindings, "not ours")
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
	// The master key is enough: nothing has to run. Another installation has another one, or none.
	s.run("label", "check", "--tenant", "demo", got).wants(t, exitOK, "unaltered")
	newSite(t, nil, quiet).run("label", "check", "--tenant", "demo", got).wants(t, exitFailed, "no master key")
}
