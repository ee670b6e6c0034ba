package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/keysource"
)

// launched starts `sluice serve` and waits until it answers with the key of an earlier start.
func (s *site) launched(key string) *process {
	s.t.Helper()
	_ = os.Remove(filepath.Join(s.dir, "ready.json"))
	p := s.launch("serve")
	p.awaitReady()
	s.env = append(s.env[:0:0], "SLUICE_URL="+strings.TrimSuffix(p.ready["base_url"], "/v1"), "SLUICE_API_KEY="+key)
	s.run("chat", "still there?").wants(s.t, exitOK, "still there?")
	s.env = nil
	return p
}

// TestKeyIsSealed takes an installation from its plain file to a key file, to shares and back from a recovery copy. Keys and the audit log stay
// valid all the time, and nobody is shown a key.
func TestKeyIsSealed(t *testing.T) {
	s := newSite(t, nil, quiet+"identity: {duties: merged}\n")
	before, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	configure := func(source string) { s.write(string(before) + "key_source: {" + source + "}\n") }
	p := s.up()
	apiKey := p.ready["api_key"]
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(s.data, "keys", "master.key")
	secret, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	run := func(code int, words string, args ...string) result {
		t.Helper()
		r := s.run(args...)
		r.wants(t, code, strings.Split(words, "|")...)
		shown.WriteString(r.out + r.err)
		return r
	}

	run(exitOK, "plain|master.key", "keys", "status")
	run(exitFailed, "key_source.kind", "keys", "seal")
	copied, safe := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "custodians")
	run(exitOK, copied, "keys", "export", "--out", copied)
	run(exitFailed, "exists", "keys", "export", "--out", copied)
	run(exitOK, "share-3.txt", "keys", "export", "--shares", "3", "--threshold", "2", "--out", safe)

	keyFile := filepath.Join(t.TempDir(), "key")
	configure("kind: file, file: " + keyFile)
	run(exitFailed, "plain file|sluice keys seal", "serve")
	s.env = []string{"SLUICE_LANG=zh"}
	run(exitFailed, "明文文件|sluice keys seal", "serve")
	s.env = nil
	s.stdin = "n\n"
	run(exitFailed, "recovery copy|stays", "keys", "seal")
	run(exitOK, "still lies beside", "keys", "status")
	if r := s.run("doctor"); !strings.Contains(r.out, "warning") || !strings.Contains(r.out, "sluice keys seal") {
		t.Errorf("doctor: %s", r.out)
	}
	s.stdin = "y\n"
	run(exitOK, "sealed under file", "keys", "seal")
	s.stdin = ""
	if _, err := os.Stat(plain); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the plain file: %v", err)
	}
	run(exitFailed, "sealed", "keys", "seal", "--yes")
	first := status(t, run(exitOK, `"kind": "file"`, "keys", "status", "--json"))
	if err := s.launched(apiKey).stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	run(exitOK, "opened by file, key "+first.KeyID+"|it is sealed only", "doctor")
	run(exitOK, "sealed anew under file", "keys", "reseal")
	if second := status(t, run(exitOK, "", "keys", "status", "--json")); second.KeyID == first.KeyID || second.Check != first.Check {
		t.Errorf("%+v after %+v", second, first)
	}

	// To people: the key file is needed once more, and the shares open from then on.
	configure("kind: shares, file: " + keyFile)
	run(exitFailed, "sluice keys reseal", "serve")
	run(exitUsage, "--out", "keys", "reseal", "--shares", "3", "--threshold", "2")
	run(exitFailed, "threshold", "keys", "reseal", "--shares", "3", "--threshold", "4", "--out", filepath.Join(s.dir, "none"))
	s.env = []string{"SLUICE_LANG=zh"}
	run(exitFailed, "门限", "keys", "reseal", "--shares", "3", "--threshold", "4", "--out", filepath.Join(s.dir, "none"))
	s.env = nil
	held := filepath.Join(s.dir, "held")
	run(exitOK, "sealed anew under shares", "keys", "reseal", "--shares", "3", "--threshold", "2", "--out", held)
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	run(exitOK, "2 of 3", "keys", "status")
	run(exitOK, "typed at a start", "doctor")
	run(exitFailed, "2 of 3 shares open the master key, and 0 were given", "serve")
	configure("kind: shares, share_files: [" + filepath.Join(held, "share-3.txt") + ", " + filepath.Join(held, "share-1.txt") + "]")
	if err := s.launched(apiKey).stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	run(exitOK, "share_files", "config", "print")
	run(exitOK, "OK: nothing was altered", "audit", "verify")
	db, err := database.Open(t.Context(), database.Config{URL: keyring.Inline("sqlite:" + filepath.Join(s.data, "sluice.db"))})
	if err != nil {
		t.Fatal(err)
	}
	var acts []string
	err = db.Raw("SELECT action FROM audit_events WHERE action LIKE 'installation.%_key' AND stage = 'outcome' AND outcome = 'ok' ORDER BY id").Scan(&acts).Error
	if err := errors.Join(err, database.Close(db)); err != nil {
		t.Fatal(err)
	}
	// Sealing was recorded twice: not confirmed, and confirmed.
	if got := strings.ReplaceAll(strings.Join(acts, " "), "installation.", ""); got != "export_key export_key seal_key seal_key reseal_key reseal_key" {
		t.Errorf("recorded: %s", got)
	}

	// The source is lost; two custodians have the copy.
	s.write(string(before))
	if err := os.RemoveAll(held); err != nil {
		t.Fatal(err)
	}
	run(exitFailed, "2 of 3 shares open the master key", "serve")
	run(exitFailed, "too few", "keys", "recover", filepath.Join(safe, "share-2.txt"))
	run(exitOK, "master.key|.replaced", "keys", "recover", filepath.Join(safe, "share-2.txt"), filepath.Join(safe, "share-3.txt"))
	if got, err := os.ReadFile(plain); err != nil || string(got) != string(secret) {
		t.Errorf("another key came back, %v", err)
	}
	if err := s.launched(apiKey).stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, hidden := range []string{strings.TrimSpace(string(secret)), "SLUICE1-"} {
		if strings.Contains(shown.String(), hidden) {
			t.Error("a key was shown")
		}
	}
}

func status(t *testing.T, r result) (st keysource.Status) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// TestNewInstallationIsSealed: with a source configured, a master key never lies in a plain file, not even at the first start.
func TestNewInstallationIsSealed(t *testing.T) {
	s := newSite(t, nil, quiet+"identity: {duties: merged}\nkey_source: {kind: env, env: KEY_OF_TEST}\n")
	s.run("up").wants(t, exitFailed, "KEY_OF_TEST", "is not set")
	s.env = []string{"KEY_OF_TEST=" + strings.Repeat("7a", 32)}
	p := s.up()
	apiKey := p.ready["api_key"]
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.data, "keys", "*")); len(left) != 1 || filepath.Base(left[0]) != "master.sealed.json" {
		t.Errorf("there is %q", left)
	}
	p = s.launch("serve")
	p.eventually("the server to listen", func() bool { return strings.Contains(p.out.String(), "127.0.0.1") })
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if apiKey == "" || strings.Contains(p.errs.String()+p.out.String(), strings.Repeat("7a", 32)) {
		t.Error("the key is in the log")
	}
	// The database is in use, so that a lost sealed file is not made anew.
	if err := os.Remove(filepath.Join(s.data, "keys", "master.sealed.json")); err != nil {
		t.Fatal(err)
	}
	p = s.launch("up")
	<-p.done
	if p.err == nil || !strings.Contains(p.errs.String(), "is missing") {
		t.Errorf("%v: %s", p.err, p.errs)
	}
}
