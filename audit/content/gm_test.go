package content

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/sluice-project/sluice/internal/keyring"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSuites: each suite reads what any of them kept, by what the key says, and a key of one is none of the other.
func TestSuites(t *testing.T) {
	ring := keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef"))
	for _, by := range []Suite{Intl, GM} {
		c, err := NewCipher(ring, by)
		if err != nil {
			t.Fatal(err)
		}
		k, data, err := c.NewKey("acme", "digest", 7)
		if err != nil || k.Suite != by || len(k.Wrapped) != Overhead+by.KeySize() {
			t.Fatalf("%+v, %v", k, err)
		}
		sealed := data.Seal("r1", "request", []byte("text"))
		for _, reader := range []Suite{Intl, GM} {
			r, err := NewCipher(ring, reader)
			if err != nil {
				t.Fatal(err)
			}
			again, err := r.Unwrap(nil, k)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := again.Open("r1", "request", sealed); err != nil || !bytes.Equal(got, []byte("text")) {
				t.Errorf("%s read by %s: %q, %v", by, reader, got, err)
			}
		}
		for i := range sealed {
			b := bytes.Clone(sealed)
			b[i] ^= 1
			if _, err := data.Open("r1", "request", b); err == nil {
				t.Fatalf("%s: byte %d was changed and the text was read", by, i)
			}
		}
		other := k
		if other.Suite = GM; by == GM {
			other.Suite = Intl
		}
		if _, err := c.Unwrap(nil, other); err == nil {
			t.Errorf("a key of %s was unwrapped as one of %s", by, other.Suite)
		}
	}
}

// TestKeptTextsAreFrozen: texts kept by this release are read by every later one.
func TestKeptTextsAreFrozen(t *testing.T) {
	c, err := NewCipher(keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")), Intl)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		suite                      Suite
		id, nonce, wrapped, sealed string
	}{
		{
			Intl, "7b5796553932bd35382a5d3f6f05358a", "ce37bd66c71204e17b3cb780b05783e8",
			"58cf16fbced46e74112085b7d1e589a1b564915b28bf3481b7978800c7f3842200d1ff21b7558549d4d6c4d04386dd7202ae926f99a4c77f7057333c",
			"5c899f84a1d0faf2db4520fb8a17c82726d0b66a1ff19e52a04e89720c4b7a2a",
		},
		{
			GM, "6d7a30554277170c0fac84d82f5d5c20", "fd221094b2c3fac55b62c2682ce7259a",
			"d520c6278872cace9e42e6e3bcdf023822bf2f17200aaddcc1129a76c5b48812dfac3418fffcb06200a2dff2",
			"d52f93cd2f1f05e7bf361493b5ce477c6edcc5fc5d8ad74af52babd443c29e40",
		},
	} {
		k := Key{ID: x.id, Nonce: x.nonce, Tenant: "acme", Subject: "digest", Suite: x.suite, Created: 7, Wrapped: unhex(t, x.wrapped)}
		data, err := c.Unwrap(nil, k)
		if err != nil {
			t.Errorf("%s: %v", x.suite, err)
			continue
		}
		if got, err := data.Open("r1", "request", unhex(t, x.sealed)); err != nil || string(got) != "text" {
			t.Errorf("%s: %q, %v", x.suite, got, err)
		}
	}
}
