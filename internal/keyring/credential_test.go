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

const planted = "canary-4711"

func parse(t *testing.T, text string) keyring.Credential {
	t.Helper()
	var c keyring.Credential
	if err := c.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestReferencesLeadToSecrets(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	environment := func(name string) (string, bool) {
		text, ok := map[string]string{"KEY": planted, "EMPTY": ""}[name]
		return text, ok
	}
	for content, want := range map[string]string{
		planted: planted, planted + "\n": planted, planted + "\r\n": planted, " " + planted + " \n": " " + planted + " ", "": "", "\n": "",
		strings.Repeat("x", 64<<10): strings.Repeat("x", 64<<10), strings.Repeat("x", 64<<10+1): "",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := parse(t, "file:"+file).Read(environment)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("a file of %d bytes gives %d, %v", len(content), len(got), err)
		}
	}
	for text, want := range map[string]string{"env:KEY": planted, "env:EMPTY": "", "env:NONE": "", "file:" + file + ".not": "", planted: planted} {
		got, err := parse(t, text).Read(environment)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s gives %q, %v", text, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(text, "file:")) {
			t.Errorf("%s: the error does not name it: %v", text, err)
		}
	}
	var c keyring.Credential
	if err := c.UnmarshalText([]byte("file:keys/key")); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path is taken: %v", err)
	}
}

// TestCopiesFollow: who was handed a credential before it changed has what it is now.
func TestCopiesFollow(t *testing.T) {
	a := parse(t, "env:KEY")
	b := a
	if !b.Empty() {
		t.Errorf("%q before it is read", b.Reveal())
	}
	if before := a.Set("one"); before != "" || b.Reveal() != "one" {
		t.Errorf("before %q, the copy has %q", before, b.Reveal())
	}
	if before := b.Set("two"); before != "one" || a.Reveal() != "two" {
		t.Errorf("before %q, the original has %q", before, a.Reveal())
	}
}

func TestCredentialsNeverShow(t *testing.T) {
	referred := parse(t, "env:KEY")
	referred.Set(planted)
	for name, c := range map[string]keyring.Credential{"[secret, 11 bytes]": keyring.Inline(planted), "env:KEY": referred, "": {}} {
		s := struct{ Password keyring.Credential }{c}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", slog.Any("password", c), slog.Any("all", s))
		js, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{fmt.Sprint(c), fmt.Sprintf("%v", s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), string(js), log.String()} {
			if strings.Contains(out, planted) || !strings.Contains(out, name) {
				t.Errorf("%q shows as %s", name, out)
			}
		}
	}
}
