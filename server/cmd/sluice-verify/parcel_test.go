package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/evidence"
)

// TestRunParcel: the export of a tenant is told from a bundle, and checked with the key that was given, or with its own and an exit code that says so.
func TestRunParcel(t *testing.T) {
	t.Parallel()
	signer := newSigner(t, 1)
	var b bytes.Buffer
	p := evidence.NewParcelWriter(&b, "tenant-export", map[string]string{"tenant": "acme"}, time.Unix(1_700_000_000, 0))
	w, err := p.Create("a.txt")
	must(t, err)
	_, err = io.WriteString(w, strings.Repeat("words ", 400))
	must(t, err)
	_, _, err = p.Close("log.example/audit", signer.Key(), signer.SignText)
	must(t, err)
	path := filepath.Join(t.TempDir(), "acme.zip")
	must(t, os.WriteFile(path, b.Bytes(), 0o600))
	bent := filepath.Join(t.TempDir(), "bent.zip")
	must(t, os.WriteFile(bent, bytes.Replace(b.Bytes(), []byte("a.txt"), []byte("b.txt"), 2), 0o600))
	other := newSigner(t, 2)
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--key", signer.Key(), path}, exitProven, "acme"},
		{[]string{path}, exitConsistent, "files / 文件: 1"},
		{[]string{"--json", "--key", signer.Key(), path}, exitProven, `"key_given": true`},
		{[]string{"--key", other.Key(), path}, exitProblems, "manifest"},
		{[]string{"--key", signer.Key(), bent}, exitProblems, "b.txt"},
	} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), c.args, &out, &errs, false); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%v: %d\n%s%s", c.args, code, out.String(), errs.String())
		}
	}
}
