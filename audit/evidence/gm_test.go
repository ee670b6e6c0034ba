package evidence

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// gmLog is a log that signs with SM2, and one on its way there that signs with both.
func gmLog(t testing.TB, n int) (gm, both *testLog) {
	t.Helper()
	gm = newLog(t, n)
	var err error
	gm.signer, err = checkpoint.NewSM2Signer("log.example/audit", seed(5))
	must(t, err)
	other := *gm
	other.signer, err = checkpoint.Join(newSigner(t, 1), gm.signer)
	must(t, err)
	return gm, &other
}

// TestBundlesOfSuites: a bundle of a log that signs with SM2 verifies with its key, one of the time of both keys with either of them.
func TestBundlesOfSuites(t *testing.T) {
	gm, both := gmLog(t, 20)
	ed := newSigner(t, 1)
	for name, c := range map[string]struct {
		log  *testLog
		keys checkpoint.Signer
		ok   bool
	}{
		"SM2": {gm, gm.signer, true}, "both, by both": {both, both.signer, true}, "both, by Ed25519": {both, ed, true}, "both, by SM2": {both, gm.signer, true},
		"SM2, by Ed25519": {gm, ed, false}, "SM2, by both": {gm, both.signer, true},
	} {
		cfg := c.log.config(t)
		b := c.log.bundle(t, cfg)
		r, err := VerifyBundle(t.Context(), bytes.NewReader(b), int64(len(b)), c.keys.Verifier(), checkpoint.Witnesses{}, nil)
		must(t, err)
		if r.OK != c.ok || c.ok && (r.Manifest.Hash != "sha256" || r.Proven != 20) || !c.ok && !r.has("signature", -1) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestWitnessWithTwoKeys: a witness that goes from Ed25519 to SM2 has two keys and signs with one; that is one witness, who cosigned.
func TestWitnessWithTwoKeys(t *testing.T) {
	gm, _ := gmLog(t, 4)
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	old, err := checkpoint.NewWitness("a.example", seed(20), now)
	must(t, err)
	next, err := checkpoint.NewSM2Witness("a.example", seed(20), now)
	must(t, err)
	keys, err := checkpoint.NewWitnesses(old.Key() + " " + next.Key())
	must(t, err)
	for name, by := range map[string][]checkpoint.Witness{"the old key": {old}, "the new key": {next}, "both": {old, next}, "nobody": nil} {
		cfg := gm.config(t)
		for _, w := range by {
			line, err := w.Cosign(cfg.Checkpoint)
			must(t, err)
			cfg.Checkpoint = checkpoint.Add(cfg.Checkpoint, line)
		}
		b := gm.bundle(t, cfg)
		r, err := VerifyBundle(t.Context(), bytes.NewReader(b), int64(len(b)), gm.signer.Verifier(), keys, nil)
		must(t, err)
		if r.OK != (len(by) > 0) || len(r.Cosignatures) != len(by) || len(by) == 0 && !strings.Contains(r.Problems[0].Cause, "a.example") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestHashSuiteOfBundle: a bundle of a tree that is hashed otherwise is refused, whoever signed it, and one of before has no word on it.
func TestHashSuiteOfBundle(t *testing.T) {
	l := newLog(t, 4)
	for hash, ok := range map[string]bool{"": true, "sha256": true, "sm3": false} {
		p := unzip(t, l.bundle(t, l.config(t)))
		p.seal(t, l.signer, func(m *Manifest) { m.Hash = hash })
		if r := l.verify(t, p.pack(t)); ok != r.OK || !ok && !r.has("manifest", -1) {
			t.Errorf("%q: %+v", hash, r)
		}
	}
}

// TestByHandWithSM2 follows the instructions of a bundle with a key of each suite, then with an openssl that does not know SM2.
func TestByHandWithSM2(t *testing.T) {
	dbtest.Programs(t, "python3", "openssl")
	_, l := gmLog(t, 9)
	p := unzip(t, l.bundle(t, l.config(t)))
	good := clone(p)
	keys := strings.Fields(l.signer.Key())
	check := func(key, path string) (string, error) {
		dir := t.TempDir()
		script := regexp.MustCompile(`(?ms)^# check\.py.*?^# end$`).FindString(string(p.get(readmeName)))
		must(t, os.WriteFile(filepath.Join(dir, "check.py"), []byte(script), 0o600))
		for _, x := range p {
			must(t, os.WriteFile(filepath.Join(dir, x.name), x.data, 0o600))
		}
		cmd := exec.CommandContext(t.Context(), "python3", "check.py", key)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, key := range keys {
		if out, err := check(key, "/nowhere"); err != nil || out != "9 records are in the log log.example/audit of 9 records\n" {
			t.Errorf("%s: %s%v", key, out, err)
		}
	}
	// Signed by Ed25519 rightly, by SM2 with another key under the name of this one.
	forged := strings.Split(string(p.get(signatureName)), "\n")
	last := len(forged) - 2
	sig := []byte(forged[last])
	if sig[60] ^= 1; sig[60] == '=' || sig[60] == '+'^1 || sig[60] == '/'^1 {
		sig[60] = 'A'
	}
	forged[last] = string(sig)
	p.set(signatureName, []byte(strings.Join(forged, "\n")))
	if out, err := check(keys[0], "/nowhere"); err != nil {
		t.Errorf("who knows the Ed25519 key alone is not concerned: %s%v", out, err)
	}
	if out, err := check(keys[1], "/nowhere"); err == nil {
		t.Errorf("an SM2 signature that does not hold went unnoticed: %s", out)
	}
	// An old openssl: all but the signature is checked, and nobody can overlook that.
	p = good
	old := t.TempDir()
	must(t, os.WriteFile(filepath.Join(old, "openssl"), []byte("#!/bin/sh\n[ \"$1\" = ecparam ] && echo secp256k1\n"), 0o700))
	out, err := check(keys[1], old)
	if err == nil || !strings.Contains(out, "9 records are in the log") || !strings.Contains(out, "NOT CHECKED: the SM2 signature of manifest.sig and of checkpoint") {
		t.Errorf("%s%v", out, err)
	}
	if out, err := check("log.example/audit+00000000+"+strings.SplitN(keys[1], "+", 3)[2], "/nowhere"); err == nil {
		t.Errorf("a key with another number was taken: %s", out)
	}
}
