package content_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/internal/keyring"
)

func cipherOf(t testing.TB, master string) *content.Cipher {
	t.Helper()
	c, err := content.NewCipher(keyring.FromBytes([]byte(master)), content.Intl)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const master, other = "0123456789abcdef0123456789abcdef", "another master key of 32 bytes!!"

func TestSealedTextIsReadOnlyInItsPlace(t *testing.T) {
	c := cipherOf(t, master)
	k, data, err := c.NewKey("acme", "digest", 7)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte("the quarterly figures")
	sealed := data.Seal("r1", "request", text)
	if bytes.Contains(sealed, text[:8]) || len(sealed) != len(text)+content.Overhead {
		t.Errorf("%d bytes: %q", len(sealed), sealed)
	}
	if bytes.Equal(sealed, data.Seal("r1", "request", text)) {
		t.Error("one nonce was used twice")
	}
	again, err := c.Unwrap(nil, k)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Open("r1", "request", sealed); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%q, %v", got, err)
	}
	_, foreign, err := c.NewKey("acme", "digest", 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() ([]byte, error){
		"another record":    func() ([]byte, error) { return again.Open("r2", "request", sealed) },
		"another direction": func() ([]byte, error) { return again.Open("r1", "answer", sealed) },
		"another key":       func() ([]byte, error) { return foreign.Open("r1", "request", sealed) },
		"cut":               func() ([]byte, error) { return again.Open("r1", "request", sealed[:len(sealed)-1]) },
		"nothing":           func() ([]byte, error) { return again.Open("r1", "request", nil) },
	} {
		if got, err := read(); err == nil {
			t.Errorf("%s: read %q", name, got)
		}
	}
	for i := range sealed {
		b := slices.Clone(sealed)
		b[i] ^= 1
		if _, err := again.Open("r1", "request", b); err == nil {
			t.Fatalf("a flipped bit in byte %d went unnoticed", i)
		}
	}
}

func TestUnwrapRefusesChangedKeys(t *testing.T) {
	c := cipherOf(t, master)
	k, _, err := c.NewKey("acme", "digest", 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*content.Key){
		"tenant":  func(k *content.Key) { k.Tenant = "other" },
		"subject": func(k *content.Key) { k.Subject = "" },
		"created": func(k *content.Key) { k.Created++ },
		"id":      func(k *content.Key) { k.ID = k.ID[1:] },
		"suite":   func(k *content.Key) { k.Suite = "none" },
		"wrapped": func(k *content.Key) { k.Wrapped = append([]byte{k.Wrapped[0] ^ 1}, k.Wrapped[1:]...) },
		"empty":   func(k *content.Key) { k.Wrapped = nil },
		"foreign": func(k *content.Key) { // a key of someone else under this one's id
			x, _, _ := c.NewKey("acme", "else", 7)
			k.Wrapped = x.Wrapped
		},
	} {
		changed := k
		change(&changed)
		if _, err := c.Unwrap(nil, changed); err == nil {
			t.Errorf("%s: unwrapped", name)
		}
	}
	if _, err := cipherOf(t, other).Unwrap(nil, k); err == nil {
		t.Error("unwrapped with another master key")
	}
}

func TestUnknownSuite(t *testing.T) {
	if _, err := content.NewCipher(keyring.FromBytes([]byte(master)), "rot13"); err == nil {
		t.Error("taken")
	}
}

func FuzzParseKey(f *testing.F) {
	k, _, err := cipherOf(f, master).NewKey("acme", "digest", 7)
	if err != nil {
		f.Fatal(err)
	}
	b, err := k.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)-1])
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := content.ParseKey(b)
		if err != nil {
			return
		}
		again, err := k.Encode()
		if err != nil && len(b) <= content.MaxKey/6 { // an escape is at most six bytes for one
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if same, err := content.ParseKey(again); err != nil || same.ID != k.ID || !bytes.Equal(same.Wrapped, k.Wrapped) {
			t.Fatalf("%+v became %+v: %v", k, same, err)
		}
	})
}
