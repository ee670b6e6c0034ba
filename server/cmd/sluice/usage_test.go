package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestExitCodes: every way to call the program wrongly says how to call it rightly and ends with 2; what fails for another reason
// ends with 1, what a check found with 3.
func TestExitCodes(t *testing.T) {
	s := newSite(t, nil, "")
	for _, c := range []struct {
		args  string
		code  int
		words []string
	}{
		{"", exitOK, []string{"Usage:", "sluice pull && sluice up", "Exit codes:"}},
		{"key", exitOK, []string{"Usage:", "create"}},
		{"version", exitOK, []string{"sluice dev, go1.", "kernels"}},
		{"version --json", exitOK, []string{`"version": "dev"`, `"kernels"`}},
		{"--version", exitOK, []string{"dev"}},
		{"config check", exitOK, nil},
		{"models list", exitOK, []string{"smollm2-135m-instruct-q4_1", "Apache-2.0", "temporal", "no"}},

		{"bogus", exitUsage, []string{`unknown command "bogus"`, "sluice --help"}},
		{"serv", exitUsage, []string{`unknown command "serv"`, "did you mean serve?"}},
		{"key bogus", exitUsage, []string{`unknown command "bogus"`, "sluice key --help"}},
		{"completion tcsh", exitUsage, []string{`unknown command "tcsh"`}},
		{"up --bogus", exitUsage, []string{"unknown flag: --bogus", "sluice up --help"}},
		{"key create --days soon x", exitUsage, []string{"--days", "sluice key create --help"}},
		{"up now", exitUsage, []string{"1 words given", "usage: sluice up [flags]"}},
		{"key create", exitUsage, []string{"usage: sluice key create NAME"}},
		{"key revoke a b", exitUsage, []string{"usage: sluice key revoke ID"}},
		{"rollout start a", exitUsage, []string{"usage: sluice rollout start MODEL CANDIDATE"}},
		{"rag ingest x", exitUsage, []string{"--collection"}},
		{"rag ingest", exitUsage, []string{"usage: sluice rag ingest PATH…"}},
		{"rag search x", exitUsage, []string{"--collection"}},
		{"pull --from file:/x", exitUsage, []string{"name it"}},
		{"chat hello", exitUsage, []string{"SLUICE_API_KEY", "sluice key create"}},
		{"key list", exitUsage, []string{"SLUICE_ADMIN_PASSWORD"}},

		{"migrate", exitFailed, []string{"there is no database", "is --data right?", "sluice up"}},
		{"migrate --check", exitFailed, []string{"there is no database"}},
		{"audit verify", exitFailed, []string{"no master key", "is --data right?", "--key"}},
		{"audit key", exitFailed, []string{"master key"}},
		{"serve", exitFailed, []string{"master key", "sluice up"}},
		{"pull nothing", exitFailed, []string{`no artefact "nothing"`, "smollm2"}},
		{"models verify smollm2-135m-instruct-q4_1", exitFailed, []string{"missing or incomplete", "sluice pull"}},

		{"doctor", exitFindings, []string{"FAILED  data directory", "sluice up", "there is no database"}},
		{"doctor --json", exitFindings, []string{`"ok": false`, `"state": "failed"`}},
	} {
		t.Run(c.args, func(t *testing.T) {
			r := s.run(strings.Fields(c.args)...)
			r.wants(t, c.code, c.words...)
			if (c.code == exitFailed || c.code == exitUsage) && r.out != "" {
				t.Errorf("a failure must leave stdout to scripts: %s", r.out)
			}
		})
	}
	if _, err := os.Stat(s.data); err == nil {
		t.Error("a command that only looks has made the data directory")
	}
}

// TestLookingMakesNothing: no command that reads creates a database in a directory that has none.
func TestLookingMakesNothing(t *testing.T) {
	s := newSite(t, nil, "workflows: {enabled: false}\n")
	if err := os.Mkdir(s.data, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"doctor"}, {"migrate", "--check"}, {"audit", "verify", "--key", "x"}, {"config", "print"}} {
		s.run(args...)
	}
	if left, err := os.ReadDir(s.data); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// TestConfigCommands: the example is accepted as it is and changes nothing, what is printed is what is in force, and no secret is
// printed.
func TestConfigCommands(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/home/you/.local/share")
	t.Setenv("XDG_CACHE_HOME", "/home/you/.cache")
	example := runCommand(t.Context(), nil, "", "config", "example")
	example.wants(t, exitOK, "SLUICE_HTTP_MAX_BODY_BYTES", "数据目录")
	file := filepath.Join(t.TempDir(), "example.yaml")
	if err := os.WriteFile(file, []byte(example.out), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := runCommand(t.Context(), nil, "", "config", "check", "--config", file); r.code != exitOK || r.out+r.err != "" {
		t.Errorf("the example is refused or talked about: %+v", r)
	}
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte("operations: {token: canary-canary-canary}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"config", "check"}, {"doctor"}} {
		r := runCommand(t.Context(), nil, "", append(args, "--config", secret)...)
		if !strings.Contains(r.out+r.err, "operations.token") || !strings.Contains(r.out+r.err, "env:NAME") || strings.Contains(r.out+r.err, "canary") || args[0] == "config" && r.code != exitOK {
			t.Errorf("%v of a secret that is written out: %+v", args, r)
		}
		r = runCommand(t.Context(), []string{"SLUICE_OPERATIONS_TOKEN=canary-canary-canary"}, "", args...)
		if strings.Contains(r.out+r.err, "operations.token") {
			t.Errorf("%v of a secret in the environment: %+v", args, r)
		}
	}
	plain, fromFile := runCommand(t.Context(), nil, "", "config", "print"), runCommand(t.Context(), []string{"SLUICE_CONFIG=" + file}, "", "config", "print")
	plain.wants(t, exitOK, "listen: 127.0.0.1:8080", "drain_timeout: 30s")
	if plain.out != fromFile.out {
		t.Errorf("the example changes the configuration:\n%s\n%s", plain.out, fromFile.out)
	}
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(plain.out), &tree); err != nil || len(tree) < 10 {
		t.Errorf("not YAML: %v, %d keys", err, len(tree))
	}
	env := []string{"SLUICE_DATABASE_URL=postgres://sluice:canary-password@db/sluice", "SLUICE_DRAIN_TIMEOUT=7s"}
	r := runCommand(t.Context(), env, "", "config", "print")
	r.wants(t, exitOK, "drain_timeout: 7s")
	if strings.Contains(r.out, "canary") {
		t.Errorf("a secret is printed:\n%s", r.out)
	}
}
