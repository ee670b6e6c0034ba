package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func TestProfilesCommands(t *testing.T) {
	r := runCommand(t.Context(), nil, "", "profiles", "list")
	r.wants(t, exitOK)
	for _, want := range []string{"vllm ", "magicmind", "assumed     E0", "llama.cpp", "E3"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the list lacks %q", want)
		}
	}
	r = runCommand(t.Context(), nil, "", "profiles", "show", "lmdeploy")
	r.wants(t, exitOK)
	if !strings.Contains(r.out, "name: min_new_tokens") || !strings.Contains(r.out, "path: /v1/models") {
		t.Errorf("what it says and what it inherits are not shown:\n%s", r.out)
	}
	runCommand(t.Context(), nil, "", "profiles", "show", "nobody").wants(t, exitUsage)
	good := file(t, "mine.yaml", "profile: mine\ntitle: Mine\nextends: openai\nfamily: openai\nkind: engine\nbasis: documented\nsources: {book: {url: \"https://example.com\", date: \"2026-11-26\"}}\n")
	runCommand(t.Context(), nil, "", "profiles", "lint", good).wants(t, exitOK)
	bad := file(t, "mine.yaml", "profile: mine\ntitle: Mine\nextends: openai\nfamily: openai\nkind: boat\nbasis: documented\n")
	r = runCommand(t.Context(), nil, "", "profiles", "lint", good, bad)
	r.wants(t, exitFindings)
	if !strings.Contains(r.out, bad+`: kind: "boat" must be one of`) || strings.Contains(r.out, good) {
		t.Errorf("%s", r.out)
	}
	r = runCommand(t.Context(), nil, "", "profiles", "show", "mine", "--profiles", good)
	r.wants(t, exitOK)
	heir := file(t, "heir.yaml", "profile: heir\ntitle: Heir\nextends: mine\nfamily: openai\nkind: engine\nbasis: family\n")
	runCommand(t.Context(), nil, "", "profiles", "lint", heir).wants(t, exitFindings)
	runCommand(t.Context(), nil, "", "profiles", "lint", heir, "--profiles", good).wants(t, exitOK)
	proud := file(t, "proud.yaml", `profile: proud
title: Proud
extends: vllm
family: vllm
kind: engine
basis: family
contract:
  features: {tools: {status: validated, grade: E3, owner: engine, source: vllm-docs}}
  exec: {modes: {graph: {status: claimed, grade: E2, owner: engine, source: vllm-docs}}}
  lora: {dynamic: {status: validated, grade: E3, owner: engine, source: vllm-docs}}
  models: [{match: "q-*", features: {seed: {status: validated, grade: E4, owner: engine, source: vllm-docs}}}]
`)
	r = runCommand(t.Context(), nil, "", "profiles", "lint", proud)
	r.wants(t, exitFindings)
	for _, where := range []string{"contract.features.tools", "contract.exec.modes.graph", "contract.lora.dynamic", "contract.models[0].features.seed"} {
		if !strings.Contains(r.out, proud+": "+where+": a file bears out no more than E1") {
			t.Errorf("%s is not named:\n%s", where, r.out)
		}
	}
}

// lines is what a command prints, while it runs.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// simulators starts `sluice simulate` and returns the addresses that it prints.
func simulators(t *testing.T, n int, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out := &lines{}
	root := newRoot(&cli.App{Stdout: out, Stderr: out})
	root.SetArgs(append([]string{"simulate"}, args...))
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("simulate: %v", err)
		}
	})
	deadline := time.After(10 * time.Second)
	for {
		if found := regexp.MustCompile(`http://\S+`).FindAllString(out.String(), -1); len(found) == n {
			return found
		}
		select {
		case err := <-ended:
			t.Fatalf("simulate ended: %v\n%s", err, out)
		case <-deadline:
			t.Fatalf("simulate says %s", out)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// TestConformCommand: a fleet from a file is examined; the report is signed, reads back, and says E2.
func TestConformCommand(t *testing.T) {
	dir := t.TempDir()
	fleet := file(t, "fleet.yaml", `instances:
  - {profile: tgi, listen: "127.0.0.1:0", machine: {step_overhead: 100us, bytes_per_second: 1e18, flops: 1e18}}
  - {profile: tgi, listen: "127.0.0.1:0", broken: usage-wrong, machine: {step_overhead: 100us, bytes_per_second: 1e18, flops: 1e18}}
`)
	url := simulators(t, 2, "--file", fleet)
	key, report, text := filepath.Join(dir, "key"), filepath.Join(dir, "r.json"), filepath.Join(dir, "r.md")
	r := runCommand(t.Context(), nil, "", "conform", "keygen", "lab", "--out", key)
	r.wants(t, exitOK)
	public := strings.TrimSpace(r.out)
	r = runCommand(t.Context(), nil, "", "conform", "--profile", "tgi", "--url", url[0], "--key", key, "--out", report, "--report", text)
	r.wants(t, exitOK)
	if !strings.Contains(r.out, "grade E2: a simulator") || !strings.Contains(r.out, public) {
		t.Errorf("%s", r.out)
	}
	r = runCommand(t.Context(), nil, "", "conform", "verify", report, "--key", public)
	r.wants(t, exitOK)
	md, err := os.ReadFile(text)
	if err != nil || !strings.Contains(string(md), "E2") {
		t.Errorf("%s, %v", md, err)
	}
	r = runCommand(t.Context(), []string{"SLUICE_LANG=zh"}, "", "conform", "--profile", "tgi", "--url", url[1], "--unsigned", "--only", "3")
	r.wants(t, exitFindings)
	if !strings.Contains(r.out, "未通过") {
		t.Errorf("%s", r.out)
	}
	for _, args := range [][]string{
		{"--url", url[0], "--unsigned"},
		{"--profile", "tgi", "--unsigned"},
		{"--profile", "nobody", "--url", url[0], "--unsigned"},
		{"--profile", "tgi", "--url", url[0], "--unsigned", "--only", "16"},
		{"--profile", "tgi", "--url", url[0], "--key", fleet},
		{"--data", filepath.Join(dir, "none"), "--profile", "tgi", "--url", url[0]},
	} {
		runCommand(t.Context(), nil, "", append([]string{"conform"}, args...)...).wants(t, exitUsage)
	}
	data := filepath.Join(dir, "data")
	if _, err := keyring.Create(filepath.Join(data, "keys", "master.key")); err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`\S+/conform\+\S+`)
	of := func(out string) string {
		r := runCommand(t.Context(), nil, "", "conform", "--data", data, "--profile", "tgi", "--url", url[0], "--only", "1", "--out", out)
		r.wants(t, exitOK)
		if !strings.Contains(r.out, "grade E2") {
			t.Errorf("asked for its health alone, a simulator gets %s", r.out)
		}
		return own.FindString(r.out)
	}
	signed := filepath.Join(dir, "own.json")
	public = of(signed)
	if again := of(filepath.Join(dir, "again.json")); public == "" || again != public {
		t.Errorf("an installation signs by %q, then by %q", public, again)
	}
	runCommand(t.Context(), nil, "", "conform", "verify", signed, "--key", public).wants(t, exitOK)
	runCommand(t.Context(), nil, "", "conform", "verify", report).wants(t, exitUsage)
	other := runCommand(t.Context(), nil, "", "conform", "keygen", "lab", "--out", filepath.Join(dir, "other"))
	runCommand(t.Context(), nil, "", "conform", "verify", report, "--key", strings.TrimSpace(other.out)).wants(t, exitFailed)
}

func TestWrongSimulators(t *testing.T) {
	for _, args := range [][]string{
		{"--profile", "nobody"}, {"--listen", "here"}, {"--count", "0"}, {"--fault", "rain"}, {"--fault", "slow:x"}, {"--fault", "slow:1:soon"},
	} {
		runCommand(t.Context(), nil, "", append([]string{"simulate"}, args...)...).wants(t, exitUsage)
	}
	runCommand(t.Context(), nil, "", "simulate", "--file", file(t, "f.yaml", "instances: []")).wants(t, exitFailed)
}
