package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/server/config"
)

// parseUnit returns the values of every key by section; a key may come more than once.
func parseUnit(t *testing.T, text string) map[string]map[string][]string {
	t.Helper()
	out := map[string]map[string][]string{}
	section := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			section = strings.Trim(line, "[]")
			out[section] = map[string][]string{}
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("line %d: %q", i+1, line)
			}
			out[section][key] = append(out[section][key], value)
		}
	}
	return out
}

func TestUnitsRunUnprivileged(t *testing.T) {
	t.Parallel()
	t.Run("server", func(t *testing.T) { unprivileged(t, "systemd/sluice.service", "sluice", "serve") })
	t.Run("engine", func(t *testing.T) { unprivileged(t, "systemd/sluice-engine.service", "sluice-engine", "engine serve") })
}

// unprivileged holds a unit to the account, the directory and the hardening that it needs.
func unprivileged(t *testing.T, file, directory, command string) {
	t.Helper()
	u := parseUnit(t, read(t, file))
	s := u["Service"]
	one := func(key string) string {
		t.Helper()
		if len(s[key]) != 1 {
			t.Fatalf("%s is set %d times", key, len(s[key]))
		}
		return s[key][0]
	}
	words := strings.Fields(one("ExecStart"))
	if words[0] != "/usr/bin/sluice" || !strings.HasPrefix(strings.Join(words[1:], " "), command+" --config ") {
		t.Errorf("it starts %v", words)
	}
	checkCommand(t, "ExecStart", words[1:])
	if user := one("User"); user == "root" || !strings.Contains(read(t, "systemd/sluice.sysusers.conf"), "\nu "+user+" ") {
		t.Errorf("the account %q is not made", user)
	}
	for key, want := range map[string]string{
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
		"CapabilityBoundingSet": "", "RestrictNamespaces": "yes", "LockPersonality": "yes", "MemoryDenyWriteExecute": "yes",
		"RestrictSUIDSGID": "yes", "ProtectKernelModules": "yes", "SystemCallArchitectures": "native", "UMask": "0077",
		"StateDirectory": directory, "StateDirectoryMode": "0700", "Restart": "on-failure", "KillSignal": "SIGTERM", "Type": "exec",
	} {
		if got := one(key); got != want {
			t.Errorf("%s=%s, want %s", key, got, want)
		}
	}
	stop, err := time.ParseDuration(one("TimeoutStopSec"))
	if err != nil || stop <= config.Default().DrainTimeout {
		t.Errorf("it is killed after %s, before the drain of %s is over (%v)", stop, config.Default().DrainTimeout, err)
	}
	if got := u["Install"]["WantedBy"]; !slices.Equal(got, []string{"multi-user.target"}) {
		t.Errorf("wanted by %v", got)
	}
	for _, kv := range s["Environment"] {
		if name, _, _ := strings.Cut(kv, "="); !knownVariables()[name] {
			t.Errorf("%s is no key of the configuration", name)
		}
	}
	cfg, err := config.Load("", s["Environment"], nil)
	if err != nil || cfg.Data != "/var/lib/"+one("StateDirectory") {
		t.Errorf("the data directory is not the one that may be written: %v", err)
	}
}

// TestSystemdAcceptsTheUnit asks systemd itself, with a program that exists in place of ours.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sluice.service", "sluice-engine.service"} {
		systemdAccepts(t, name)
	}
}

func systemdAccepts(t *testing.T, name string) {
	t.Helper()
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SLUICE_REQUIRE"), ","), "systemd") {
			t.Fatal("systemd-analyze is required (SLUICE_REQUIRE) but missing")
		}
		t.Skip("systemd-analyze is not installed, so this test is skipped")
	}
	text := read(t, "systemd/"+name)
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program to put in place of ours")
	}
	unit := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(unit, []byte(strings.Replace(text, "ExecStart=/usr/bin/sluice", "ExecStart="+program, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), name+":") {
		t.Errorf("verify: %v\n%s", err, out)
	}
	// 20 is an exposure of 2.0 of 10; a service without hardening has 9.6.
	out, err := exec.Command(tool, "security", "--offline=true", "--threshold=20", "--no-pager", unit).CombinedOutput()
	if err != nil && strings.Contains(string(out), "xposure level") {
		t.Errorf("security: %v\n%s", err, out)
	} else if err != nil {
		t.Logf("this systemd cannot judge a file: %v", err)
	}
}
