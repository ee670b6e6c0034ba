package keyring_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/keyring"
)

func TestCreateThenOpenGivesTheSameKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys", "master.key")
	a, err := keyring.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := keyring.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Derive("x"), b.Derive("x")) {
		t.Error("the key changed between openings")
	}
	if bytes.Equal(a.Derive("x"), a.Derive("y")) {
		t.Error("two labels share a key")
	}
	if _, err := keyring.Create(path); err == nil {
		t.Error("Create overwrote a master key")
	}
}

func TestOpenRefusesReadableAndDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master.key")
	for name, tc := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"readable": {strings.Repeat("ab", 32), 0o644, "chmod 600"},
		"short":    {"abcd", 0o600, "64 hex digits"},
		"not hex":  {strings.Repeat("zz", 32), 0o600, "64 hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			_ = os.Remove(path)
			if err := os.WriteFile(path, []byte(tc.text), tc.mode); err != nil {
				t.Fatal(err)
			}
			if _, err := keyring.Open(path); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMACSeparatesParts(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	if bytes.Equal(r.MAC("l", "ab", "c"), r.MAC("l", "a", "bc")) {
		t.Error("two lists of parts share a digest")
	}
}

// TestBeginTakesTheRestInPieces: cuts do not matter, and what was begun with stays apart from what follows.
func TestBeginTakesTheRestInPieces(t *testing.T) {
	r := keyring.FromBytes(make([]byte, 32))
	code := func(begun string, pieces ...string) string {
		m := r.Begin("l", begun)
		for _, p := range pieces {
			_, _ = m.Write([]byte(p))
		}
		return string(m.Sum(nil))
	}
	if code("a", "bcd") != code("a", "b", "", "cd") {
		t.Error("cuts change the code")
	}
	if code("a", "bc") == code("ab", "c") {
		t.Error("two texts share a code")
	}
	if code("a") != string(r.MAC("l", "a")) {
		t.Error("the parts are taken in otherwise than MAC does")
	}
}

func TestSecretNeverShows(t *testing.T) {
	const canary = "hunter2-canary"
	s := struct{ Password keyring.Secret }{canary}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", slog.Any("password", s.Password), slog.Any("all", s))
	js, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{fmt.Sprintf("%v %+v %#v %s", s, s, s, s.Password), string(js), log.String()} {
		if strings.Contains(out, canary) {
			t.Errorf("the secret shows in %s", out)
		}
	}
	if s.Password.Reveal() != canary {
		t.Error("Reveal lost the text")
	}
}
