package checkpoint

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

func seed(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func at(n int64) func() time.Time { return func() time.Time { return time.Unix(n, 0) } }

var some = Tree{Size: 7, Root: tlog.RecordHash([]byte("x"))}

func TestSeveralKeys(t *testing.T) {
	old, both, next := must(NewSigner("log.example/audit", seed(1)))(t), must(NewSigner("log.example/audit", seed(1), seed(2)))(t), must(NewSigner("log.example/audit", seed(2)))(t)
	for name, k := range map[string]struct {
		by    Signer
		known Signer
		ok    bool
	}{
		"old by old": {old, old, true}, "both by old": {both, old, true}, "both by next": {both, next, true}, "next by next": {next, next, true},
		"next by both": {next, both, true}, "old by both": {old, both, true}, "next by old": {next, old, false}, "old by next": {old, next, false},
	} {
		text := must(k.by.Sign(some))(t)
		v := must(NewVerifier(k.known.Key()))(t)
		if got, err := v.Open(text); k.ok != (err == nil) || k.ok && got != some {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := NewVerifier(old.Key() + " " + must(NewSigner("other.example", seed(3)))(t).Key()); err == nil {
		t.Error("keys of two logs were accepted as one's")
	}
	for name, err := range map[string]error{
		"no seed": second(NewSigner("a")), "short seed": second(NewSigner("a", []byte("x"))), "no name": second(NewSigner("", seed(1))),
		"a plus": second(NewSigner("a+b", seed(1))), "a space": second(NewSigner("a b", seed(1))), "no key": second(NewVerifier(" \n")), "nonsense": second(NewVerifier("x")),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestCosignatures(t *testing.T) {
	log := must(NewSigner("log.example/audit", seed(1)))(t)
	v := log.Verifier()
	text := must(log.Sign(some))(t)
	one, two := must(NewWitness("one.example", seed(7), at(1_700_000_000)))(t), must(NewWitness("two.example", seed(8), at(1_700_000_100)))(t)
	known := must(NewWitnesses(one.Key() + "\n" + two.Key()))(t)
	signed := Add(Add(text, must(one.Cosign(text))(t)), must(two.Cosign(text))(t))
	got, sigs, err := v.OpenCosigned(signed, known)
	if err != nil || got != some || len(sigs) != 2 || sigs[0] != (Cosignature{"one.example", time.Unix(1_700_000_000, 0).UTC()}) {
		t.Fatalf("%+v %+v %v", got, sigs, err)
	}
	if again := Add(signed, must(one.Cosign(text))(t)); again != signed {
		t.Error("the same cosignature was added twice")
	}
	if _, err := v.Open(signed); err != nil { // who knows no witness reads it all the same
		t.Error(err)
	}
	if _, sigs, err := v.OpenCosigned(signed, must(NewWitnesses(two.Key()))(t)); err != nil || len(sigs) != 1 || sigs[0].Witness != "two.example" {
		t.Errorf("%+v %v", sigs, err)
	}
	other := must(log.Sign(Tree{Size: 8, Root: some.Root}))(t)
	for name, bad := range map[string]string{
		"a cosignature of another checkpoint": Add(other, must(one.Cosign(text))(t)),
		"without the log's own signature":     text[:strings.Index(text, "— ")] + must(one.Cosign(text))(t),
		"another time":                        Add(text, swap(t, must(one.Cosign(text))(t))),
	} {
		if tree, sigs, err := v.OpenCosigned(bad, known); err == nil {
			t.Errorf("%s: accepted as %+v %+v", name, tree, sigs)
		}
	}
	for name, key := range map[string]string{
		"a log's key": log.Key(), "nonsense": "x", "another name": strings.Replace(one.Key(), "one", "two", 1), "cut": one.Key()[:len(one.Key())-4],
	} {
		if _, err := NewWitnesses(key); err == nil {
			t.Errorf("%s: accepted as a witness", name)
		}
	}
	if _, err := one.Cosign("no note"); err == nil {
		t.Error("cosigned what is no note")
	}
}

// swap changes the time in a cosignature line.
func swap(t *testing.T, line string) string {
	t.Helper()
	w := must(NewWitness("one.example", seed(7), at(1_800_000_000)))(t)
	forged := must(w.Cosign("x\n\n"))(t)
	prefix := strings.Index(line, "one.example ") + len("one.example ")
	return line[:prefix] + forged[prefix:prefix+16] + line[prefix+16:]
}

func TestSignedTexts(t *testing.T) {
	s := must(NewSigner("log.example/audit", seed(1), seed(2)))(t)
	text := "log.example/audit/evidence\nabc\n"
	signed := must(s.SignText(text))(t)
	if got, err := s.Verifier().OpenText(signed); err != nil || got != text {
		t.Errorf("%q %v", got, err)
	}
	if _, err := s.Verifier().Open(signed); err == nil {
		t.Error("a text was taken for a checkpoint")
	}
	if _, err := s.Verifier().OpenText(must(s.Sign(some))(t)); err == nil {
		t.Error("a checkpoint was taken for a text")
	}
	if _, err := s.SignText("log.example/audit\n7\nx\n"); err == nil {
		t.Error("something like a checkpoint was signed as a text")
	}
	if _, err := s.Verifier().OpenText(strings.Replace(signed, "abc", "abd", 1)); err == nil {
		t.Error("a changed text was accepted")
	}
}

func TestSizesAreBounded(t *testing.T) {
	s := must(NewSigner("log.example/audit", seed(1)))(t)
	for size, ok := range map[int64]bool{0: true, 1 << 48: true, 1<<48 + 1: false, 1<<63 - 1: false, -1: false} {
		if _, err := s.Verifier().Open(must(s.Sign(Tree{Size: size, Root: some.Root}))(t)); ok != (err == nil) {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

func FuzzOpen(f *testing.F) {
	s, err := NewSigner("log.example/audit", seed(1))
	if err != nil {
		f.Fatal(err)
	}
	w, err := NewWitness("one.example", seed(7), at(1))
	if err != nil {
		f.Fatal(err)
	}
	known, err := NewWitnesses(w.Key())
	if err != nil {
		f.Fatal(err)
	}
	text, _ := s.Sign(some)
	line, _ := w.Cosign(text)
	f.Add(text)
	f.Add(text + line)
	f.Add(line)
	f.Fuzz(func(t *testing.T, text string) {
		tree, _, err := s.Verifier().OpenCosigned(text, known)
		if err == nil && tree != some {
			t.Fatalf("%q was read as %+v", text, tree)
		}
		if _, err := s.Verifier().Open(text); err == nil && !strings.HasPrefix(text, "log.example/audit\n7\n") {
			t.Fatalf("%q was accepted", text)
		}
	})
}
