package main

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	aigc "github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/internal/keyring"
)

// TestContentCredentials: a picture is checked with the certificate of the installation alone.
func TestContentCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	authority := func(master byte) *c2pa.Authority {
		a, err := c2pa.NewAuthority(c2pa.Config{Keys: keyring.FromBytes(bytes.Repeat([]byte{master}, 32)), Producer: "Example \x1b[2JBank"})
		must(t, err)
		return a
	}
	labels, err := aigc.New(aigc.Config{}, keyring.FromBytes(make([]byte, 32)))
	must(t, err)
	var drawn bytes.Buffer
	must(t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 8, 8))))
	got, err := labelfile.Writer{Authority: authority(1)}.Write(labelfile.PNG, drawn.Bytes(), labels.Make("r1", "acme"), "")
	must(t, err)
	own, other := file("own.pem", authority(1).CertificatePEM()), file("other.pem", authority(2).CertificatePEM())
	signed, plain, longer := file("a.png", got.Data), file("b.png", drawn.Bytes()), file("c.png", append(bytes.Clone(got.Data), ' '))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--certificate", own, signed}, exitProven, "ProduceID: r1"},
		{[]string{"--certificate", own, "--json", signed}, exitProven, `"state": "trusted"`},
		{[]string{"--certificate", other, signed}, exitProblems, "所给证书均不能证明签署者"},
		{[]string{"--certificate", own, longer}, exitProblems, "assertion.dataHash.mismatch"},
		{[]string{"--certificate", own, plain}, exitFailed, "no content credentials"},
		{[]string{"--certificate", signed, signed}, exitFailed, "no certificate"},
		{[]string{"--certificate", "", signed}, exitFailed, "is empty"},
		{[]string{"--certificate", own, "--key", "x", signed}, exitFailed, "leave other keys out"},
	} {
		var out, failed strings.Builder
		code := run(t.Context(), c.args, &out, &failed, false)
		if text := out.String() + failed.String(); code != c.code || !strings.Contains(text, c.says) || strings.Contains(text, "\x1b") {
			t.Errorf("%v: %d\n%s", c.args, code, text)
		}
	}
}
