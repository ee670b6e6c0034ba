package evidence

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

// parcel makes a parcel of two files, signed by a key made from seed.
func parcel(t *testing.T, seed byte) (b []byte, v checkpoint.Verifier) {
	t.Helper()
	s, err := checkpoint.NewSigner("log.example/a", bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	p := NewParcelWriter(&out, "tenant-export", map[string]string{"tenant": "acme"}, time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC))
	for name, text := range map[string]string{"a.txt": "first", "documents/b.txt": "second"} {
		w, err := p.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"a.txt", "", "/x", "../x", "a//b", "manifest.json", "SHA256SUMS", "c:\\x", "a\nb"} {
		if _, err := p.Create(bad); err == nil {
			t.Errorf("%q is the name of a file", bad)
		}
	}
	if _, _, err := p.Close("log.example/a", s.Key(), s.SignText); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), s.Verifier()
}

// rewritten copies a parcel and lets change say what becomes of each file: nil drops it.
func rewritten(t *testing.T, b []byte, change func(name string, text []byte) []byte, more ...string) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	add := func(name string, text []byte) {
		w, err := z.Create(name)
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if text = change(f.Name, text); text != nil {
			add(f.Name, text)
		}
	}
	for _, name := range more {
		add(name, []byte("more"))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestParcels: one that is whole verifies, and nothing that was changed, taken, added, doubled or signed by somebody else.
func TestParcels(t *testing.T) {
	t.Parallel()
	b, v := parcel(t, 1)
	_, stranger := parcel(t, 2)
	same := func(_ string, text []byte) []byte { return text }
	drop := func(name string) func(string, []byte) []byte {
		return func(n string, text []byte) []byte {
			if n == name {
				return nil
			}
			return text
		}
	}
	swap := func(name, from, to string) func(string, []byte) []byte {
		return func(n string, text []byte) []byte {
			if n == name {
				return []byte(strings.ReplaceAll(string(text), from, to))
			}
			return text
		}
	}
	for what, c := range map[string]struct {
		b  []byte
		v  checkpoint.Verifier
		ok bool
	}{
		"as it is":                    {b, v, true},
		"packed anew":                 {rewritten(t, b, same), v, true},
		"by another key":              {b, stranger, false},
		"a file that was changed":     {rewritten(t, b, swap("a.txt", "first", "worst")), v, false},
		"a longer file":               {rewritten(t, b, swap("a.txt", "first", "first and more")), v, false},
		"a file that is missing":      {rewritten(t, b, drop("documents/b.txt")), v, false},
		"a file more":                 {rewritten(t, b, same, "c.txt"), v, false},
		"a file twice":                {rewritten(t, b, same, "a.txt"), v, false},
		"another tenant":              {rewritten(t, b, swap("manifest.json", "acme", "bank")), v, false},
		"without its manifest":        {rewritten(t, b, drop("manifest.json")), v, false},
		"without its signature":       {rewritten(t, b, drop("manifest.note")), v, false},
		"with two manifests":          {rewritten(t, b, same, "manifest.json"), v, false},
		"with a key file of somebody": {rewritten(t, b, swap("key.txt", "log", "evil")), v, true}, // nobody reads it who was given a key
	} {
		r, err := VerifyParcel(bytes.NewReader(c.b), int64(len(c.b)), c.v)
		if err != nil || r.OK != c.ok || r.OK != (len(r.Problems) == 0) {
			t.Errorf("%s: %+v, %v", what, r, err)
		}
	}
	if key, yes := IsParcel(bytes.NewReader(b), int64(len(b))); !yes || !strings.HasPrefix(key, "log.example/a+") {
		t.Errorf("%q, %v", key, yes)
	}
	if _, yes := IsParcel(strings.NewReader("PK"), 2); yes {
		t.Error("two bytes are a parcel")
	}
	if _, err := VerifyParcel(strings.NewReader("PK"), 2, v); err == nil {
		t.Error("two bytes are a file")
	}
}

// TestParcelsAreReadAgain: a manifest that nobody could read again is refused, by the file that makes it too long and before it is signed.
func TestParcelsAreReadAgain(t *testing.T) {
	t.Parallel()
	const length = 60_000
	name := strings.Repeat("<", length) // six bytes each in JSON
	p := NewParcelWriter(io.Discard, "tenant-export", nil, time.Unix(0, 0))
	fit := 0
	for ; ; fit++ {
		_, err := p.Create(fmt.Sprint(fit, name))
		if errors.Is(err, errParcelFull) {
			break
		}
		if err != nil || fit > maxParcelManifest/(6*length) {
			t.Fatalf("%d files: %v", fit, err)
		}
	}
	if fit < maxParcelManifest/(6*length+1000) {
		t.Errorf("only %d files", fit)
	}
	signed := errors.New("it is signed")
	if _, _, err := p.Close("log.example/a", "key", func(string) (string, error) { return "", signed }); !errors.Is(err, signed) {
		t.Errorf("what fits is refused: %v", err)
	}
	p = NewParcelWriter(io.Discard, "tenant-export", map[string]string{"tenant": strings.Repeat("x", maxParcelManifest)}, time.Unix(0, 0))
	if _, _, err := p.Close("log.example/a", "key", func(string) (string, error) { return "", signed }); !errors.Is(err, errParcelFull) {
		t.Error(err)
	}
}
