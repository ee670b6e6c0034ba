// Package deploy_test reads the files of this folder the way their programs do and holds what an operator relies on. It needs
// neither Docker nor systemd.
package deploy_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/server/config"
)

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// knownVariables returns the SLUICE_* variables that are configuration keys.
func knownVariables() map[string]bool {
	out := map[string]bool{}
	for _, key := range config.Keys() {
		out[config.EnvName(key)] = true
	}
	return out
}

// commands returns the sub-commands and flags that the binary has, as its source declares them.
func commands(t *testing.T) (names, flags map[string]bool) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../server/cmd/sluice/*.go", "../server/cmd/sluice/*/*.go"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("the commands are not where they were: %v", err)
		}
		files = append(files, found...)
	}
	names, flags = map[string]bool{}, map[string]bool{}
	use := regexp.MustCompile(`Use:\s+"([a-z]+)`)
	flag := regexp.MustCompile(`Flags\(\)\.\w+\((?:&[\w.]+, )?"([a-z-]+)"`)
	for _, f := range files {
		for _, m := range use.FindAllStringSubmatch(read(t, f), -1) {
			names[m[1]] = true
		}
		for _, m := range flag.FindAllStringSubmatch(read(t, f), -1) {
			flags["--"+m[1]] = true
		}
	}
	return names, flags
}

// checkCommand holds that the words after the binary's name are a command of it and its flags.
func checkCommand(t *testing.T, where string, args []string) {
	t.Helper()
	names, flags := commands(t)
	if len(args) == 0 || !names[args[0]] {
		t.Errorf("%s: there is no command %v", where, args)
		return
	}
	for _, a := range args[1:] {
		if strings.HasPrefix(a, "-") && !flags[a] {
			t.Errorf("%s: sluice %s has no flag %s", where, args[0], a)
		}
	}
}

// pinned matches an image with at least major.minor in its tag, which therefore never moves to another series by itself.
var pinned = regexp.MustCompile(`^[a-z0-9]+([./-][a-z0-9]+)*:v?\d+\.\d+(\.\d+)?(-[a-z0-9.]+)*$`)

// instruction is one of a Dockerfile. Stage counts the FROMs before it.
type instruction struct {
	name, flags, rest string
	stage             int
}

// parseDockerfile joins continued lines, drops comments and splits off flags.
func parseDockerfile(t *testing.T, text string) []instruction {
	t.Helper()
	known := []string{
		"FROM", "ARG", "ENV", "RUN", "COPY", "ADD", "USER", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT",
		"CMD", "LABEL",
	}
	var out []instruction
	stage, pending := -1, ""
	for _, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if head, more := strings.CutSuffix(line, `\`); more {
			pending += head
			continue
		}
		line, pending = pending+line, ""
		name, rest, _ := strings.Cut(line, " ")
		in := instruction{name: strings.ToUpper(name)}
		if !slices.Contains(known, in.name) {
			t.Fatalf("unknown instruction %q", line)
		}
		for strings.HasPrefix(strings.TrimSpace(rest), "--") {
			var f string
			f, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
			in.flags += f + " "
		}
		if in.name == "FROM" {
			stage++
		}
		in.rest, in.stage = strings.TrimSpace(rest), stage
		out = append(out, in)
	}
	if pending != "" {
		t.Fatal("the last line is continued")
	}
	return out
}

func execForm(rest string) (args []string, ok bool) {
	err := json.Unmarshal([]byte(rest), &args)
	return args, err == nil && len(args) > 0
}

func TestDockerfileBuildsEveryStageFromPinnedImages(t *testing.T) {
	t.Parallel()
	stages := map[string]bool{}
	for _, in := range parseDockerfile(t, read(t, "Dockerfile")) {
		switch in.name {
		case "FROM":
			image, name, _ := strings.Cut(in.rest, " AS ")
			if image != "scratch" && !pinned.MatchString(image) {
				t.Errorf("%s is not pinned", image)
			}
			stages[name] = true
		case "ADD":
			t.Error("ADD fetches and unpacks; use COPY")
		case "COPY":
			if from, ok := strings.CutPrefix(in.flags, "--from="); ok {
				if from = strings.Fields(from)[0]; !stages[from] {
					t.Errorf("COPY from the unknown stage %s", from)
				}
				continue
			}
			words := strings.Fields(in.rest)
			for _, src := range words[:len(words)-1] {
				if _, err := os.Stat(filepath.Join("..", src)); err != nil {
					t.Errorf("COPY: %v", err)
				}
			}
		case "ARG", "ENV":
			if regexp.MustCompile(`(?i)passw|secret|token|_key=`).MatchString(in.rest) {
				t.Errorf("a secret would stay in the image: %s", in.rest)
			}
			if in.name == "ARG" && strings.Contains(in.rest, "://") {
				t.Errorf("where packages come from is the builder's choice, or its tools' default: %s", in.rest)
			}
		case "RUN":
			if regexp.MustCompile(`curl|wget|apt-get`).MatchString(in.rest) {
				t.Errorf("the build downloads outside of the package managers' locks: %s", in.rest)
			}
		}
	}
}

func TestDockerfileToolsMatchTheProject(t *testing.T) {
	t.Parallel()
	text := read(t, "Dockerfile")
	goMod := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	image := regexp.MustCompile(`FROM golang:(\d+\.\d+)\.`).FindStringSubmatch(text)
	if goMod == nil || image == nil || goMod[1] != image[1] {
		t.Errorf("go.mod asks for Go %v, the image has %v", goMod, image)
	}
	var pkg struct{ Engines struct{ Node string } }
	if err := json.Unmarshal([]byte(read(t, "../web/package.json")), &pkg); err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(\d+)\.(\d+)`).FindStringSubmatch(pkg.Engines.Node)
	node := regexp.MustCompile(`FROM node:(\d+)\.(\d+)`).FindStringSubmatch(text)
	if want == nil || node == nil || node[1] != want[1] || node[2] < want[2] {
		t.Errorf("the console asks for Node %q, the image has %v", pkg.Engines.Node, node)
	}
	if !strings.Contains(text, "CGO_ENABLED=0") || !strings.Contains(text, "-tags nomsgpack,console") || !strings.Contains(text, "-trimpath") {
		t.Error("the binary is not static, lacks the console, or names build paths")
	}
}

func TestImageIsEmptyAndUnprivileged(t *testing.T) {
	t.Parallel()
	all := parseDockerfile(t, read(t, "Dockerfile"))
	last := all[len(all)-1].stage
	got := map[string]string{}
	env := map[string]string{}
	certificates := false
	for _, in := range all {
		if in.stage != last {
			continue
		}
		got[in.name] = in.rest
		switch in.name {
		case "RUN":
			t.Error("an empty base has nothing to run")
		case "ENV":
			for _, kv := range strings.Fields(in.rest) {
				k, v, _ := strings.Cut(kv, "=")
				env[k] = v
				if !knownVariables()[k] {
					t.Errorf("%s is no key of the configuration", k)
				}
			}
		case "COPY":
			certificates = certificates || strings.HasSuffix(in.rest, "/etc/ssl/certs/ca-certificates.crt")
			if !strings.Contains(in.flags, "--from=") {
				t.Errorf("the final stage copies from the checkout: %s", in.rest)
			}
			if strings.HasSuffix(in.rest, " /var/lib/sluice") && !strings.Contains(in.flags, "--chmod=0700 ") {
				t.Errorf("others may read the data directory, which `sluice doctor` calls a failure: COPY %s%s", in.flags, in.rest)
			}
		}
	}
	if got["FROM"] != "scratch" {
		t.Errorf("the base is %q", got["FROM"])
	}
	if !regexp.MustCompile(`^[1-9]\d{3,}:[1-9]\d{3,}$`).MatchString(got["USER"]) {
		t.Errorf("the user %q is not a number that a cluster can check", got["USER"])
	}
	if !certificates {
		t.Error("the certificates are missing: no https call would work")
	}
	if v, ok := execForm(got["VOLUME"]); !ok || v[0] != env["SLUICE_DATA"] {
		t.Errorf("the volume %v is not the data directory %s", v, env["SLUICE_DATA"])
	}
	if !strings.HasSuffix(env["SLUICE_LISTEN"], ":"+got["EXPOSE"]) {
		t.Errorf("it listens on %s and exposes %s", env["SLUICE_LISTEN"], got["EXPOSE"])
	}
	entry, ok1 := execForm(got["ENTRYPOINT"])
	cmd, ok2 := execForm(got["CMD"])
	_, probe, _ := strings.Cut(got["HEALTHCHECK"], "CMD ")
	health, ok3 := execForm(probe)
	if !ok1 || !ok2 || !ok3 {
		t.Fatal("without a shell every command must be in exec form")
	}
	if entry[0] != "/sluice" || health[0] != "/sluice" {
		t.Errorf("entry point %v, health check %v", entry, health)
	}
	checkCommand(t, "CMD", cmd)
	checkCommand(t, "HEALTHCHECK", health[1:])
	if _, err := config.Load("", environ(env), nil); err != nil {
		t.Errorf("the image's environment: %v", err)
	}
}

func environ(env map[string]string) []string {
	var out []string
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

func TestBuildContextLeavesSecretsOut(t *testing.T) {
	t.Parallel()
	ignored := strings.Fields(regexp.MustCompile(`(?m)^#.*$`).ReplaceAllString(read(t, "Dockerfile.dockerignore"), ""))
	for _, want := range []string{".git", "data", "**/.env", "**/node_modules"} {
		if !slices.Contains(ignored, want) {
			t.Errorf("%s is sent to the builder", want)
		}
	}
	for _, need := range []string{"go.mod", "web", "server", "migrations", "engine", "LICENSE"} {
		if slices.Contains(ignored, need) {
			t.Errorf("%s is needed", need)
		}
	}
}

func TestScriptsParse(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no shell")
	}
	scripts, err := filepath.Glob("compose/*.sh")
	if err != nil || len(scripts) < 3 {
		t.Fatalf("%v %v", scripts, err)
	}
	for _, s := range scripts {
		if out, err := exec.Command(sh, "-n", s).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", s, err, out)
		}
		if text := read(t, s); !strings.HasPrefix(text, "#!/bin/sh\n") || !strings.Contains(text, "\nset -eu\n") {
			t.Errorf("%s goes on after an error", s)
		}
	}
}
