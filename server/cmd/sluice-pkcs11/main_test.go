//go:build pkcs11

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/keysource"
)

// TestMain lets the test binary act as the helper.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--module") {
		main()
	}
	os.Exit(m.Run())
}

const softHSM = "/usr/lib/softhsm/libsofthsm2.so"

// token initialises a token of SoftHSM of this test's own, and returns the command of a helper for its key.
func token(t *testing.T, key string) []string {
	t.Helper()
	dbtest.Programs(t, "softhsm2-util")
	dir := t.TempDir()
	conf := filepath.Join(dir, "softhsm2.conf")
	for path, text := range map[string]string{
		conf: fmt.Sprintf("directories.tokendir = %s/tokens\nobjectstore.backend = file\nlog.level = ERROR\n", dir), filepath.Join(dir, "pin"): "canary-1234\n", filepath.Join(dir, "wrong"): "canary-4321\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "tokens"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SOFTHSM2_CONF", conf)
	if out, err := exec.Command("softhsm2-util", "--init-token", "--free", "--label", "sluice", "--pin", "canary-1234", "--so-pin", "canary-5678").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{program, "--module", softHSM, "--token", "sluice", "--pin", "file:" + filepath.Join(dir, "pin"), "--key", key}
}

func create(t *testing.T, command []string) {
	t.Helper()
	var out bytes.Buffer
	if code := run(append(command[1:len(command):len(command)], "--create"), strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("%d: %s", code, out.String())
	}
}

// TestSoftHSM seals under a key of SoftHSM, opens, changes to another key, and is refused with the cause where it must be.
func TestSoftHSM(t *testing.T) {
	command := token(t, "first")
	dir := t.TempDir()
	cfg := keysource.Config{
		Kind: keysource.KindHelper, PlainFile: filepath.Join(dir, "master.key"), SealedFile: filepath.Join(dir, "sealed"), Suite: seal.Intl,
		Helper: keysource.Helper{Command: command, Environment: []string{"SOFTHSM2_CONF"}},
	}
	ring, err := keyring.Create(cfg.PlainFile)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(word string, change func(c *keysource.Config)) {
		t.Helper()
		other := cfg
		other.Helper.Command = append([]string{}, cfg.Helper.Command...)
		change(&other)
		_, err := keysource.New(other).Open(t.Context())
		if _, serr := os.Stat(cfg.SealedFile); serr != nil {
			err = keysource.New(other).Seal(t.Context(), keysource.Split{}, nil)
		}
		if !keysource.Is(err, "keysource.helper_refused") || !strings.Contains(err.Error(), ": "+word+": ") || strings.Contains(err.Error(), "canary") {
			t.Errorf("want %s: %v", word, err)
		}
	}
	refused("key", func(*keysource.Config) {}) // it is not made yet
	create(t, command)
	c := keysource.New(cfg)
	if err := c.Seal(t.Context(), keysource.Split{}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Shred(t.Context()); err != nil {
		t.Fatal(err)
	}
	opens := func(cfg keysource.Config, id string) {
		t.Helper()
		again, err := keysource.New(cfg).Open(t.Context())
		if err != nil || !bytes.Equal(again.Derive("x"), ring.Derive("x")) {
			t.Fatal(err)
		}
		if st, err := keysource.New(cfg).Status(); err != nil || st.KeyID != id {
			t.Errorf("%+v, %v", st, err)
		}
	}
	opens(cfg, "first")

	second := cfg
	second.Helper.Command = append(append([]string{}, command[:len(command)-1]...), "second")
	create(t, second.Helper.Command)
	opens(second, "first") // the id says with which key
	if err := keysource.New(second).Reseal(t.Context(), keysource.New(cfg), keysource.Split{}, nil); err != nil {
		t.Fatal(err)
	}
	opens(second, "second")

	set := func(flag, value string) func(c *keysource.Config) {
		return func(c *keysource.Config) {
			for i, word := range c.Helper.Command {
				if word == flag {
					c.Helper.Command[i+1] = value
				}
			}
		}
	}
	pin := command[6]
	refused("pin", set("--pin", strings.TrimSuffix(pin, "pin")+"wrong"))
	refused("options", set("--pin", "canary-1234"))
	refused("options", set("--pin", "file:/nowhere"))
	refused("token", set("--token", "elsewhere"))
	refused("module", set("--module", "/nowhere.so"))
	refused("options", set("--key", "two words"))
}

// TestAltered: a ciphertext opens with its key only, and unaltered.
func TestAltered(t *testing.T) {
	command := token(t, "first")
	create(t, command)
	create(t, append(append([]string{}, command[:len(command)-1]...), "second"))
	ask := func(line string) (string, int) {
		var out bytes.Buffer
		code := run(command[1:], strings.NewReader(line+"\n"), &out, &out)
		return out.String(), code
	}
	wrapped, code := ask("wrap 1 QUJDREVG")
	id, text, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(wrapped), "ok "), " ")
	if code != 0 || id != "first" || strings.Contains(text, "QUJDREVG") {
		t.Fatalf("%d: %s", code, wrapped)
	}
	if out, code := ask("unwrap 1 first " + text); code != 0 || out != "ok first QUJDREVG\n" {
		t.Errorf("%d: %s", code, out)
	}
	swap := map[byte]string{'A': "B"}
	other := swap[text[30]]
	if other == "" {
		other = "A"
	}
	for _, line := range []string{"unwrap 1 second " + text, "unwrap 1 first " + text[:30] + other + text[31:], "unwrap 1 first QUJD", "unwrap 1 third " + text, "unwrap 2 first " + text, "wrap 1", "", "wrap 1 %%", "unwrap 1  " + text} {
		if out, code := ask(line); code == 0 || !strings.HasPrefix(out, "error ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%q: %d, %s", line, code, out)
		}
	}
}
