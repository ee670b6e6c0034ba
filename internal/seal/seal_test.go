package seal

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/emmansun/gmsm/sm4"
)

// TestNationalVectors holds the cipher to the examples printed in GB/T 32907 appendix A and RFC 8998 appendix A.1.
func TestNationalVectors(t *testing.T) {
	key := unhex(t, "0123456789abcdeffedcba9876543210")
	block, err := sm4.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]byte, 16)
	if block.Encrypt(out, key); hex.EncodeToString(out) != "681edf34d206965e86b3e94f536e4246" {
		t.Errorf("SM4 gives %x", out)
	}
	k, err := NewKey(GM, key)
	if err != nil {
		t.Fatal(err)
	}
	nonce, data := unhex(t, "00001234567800000000abcd"), unhex(t, "feedfacedeadbeeffeedfacedeadbeefabaddad2")
	text := unhex(t, "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccddddddddddddddddeeeeeeeeeeeeeeeeffffffffffffffffeeeeeeeeeeeeeeeeaaaaaaaaaaaaaaaa")
	const want = "17f399f08c67d5ee19d0dc9969c4bb7d5fd46fd3756489069157b282bb200735d82710ca5c22f0ccfa7cbf93d496ac15a56834cbcf98c397b4024a2691233b8d" +
		"83de3541e4c2b58177e065a9bf7b62ec"
	if got := k.aead.Seal(nil, nonce, text, data); hex.EncodeToString(got) != want {
		t.Errorf("SM4-GCM gives %x", got)
	}
	if got, err := k.Open(append(nonce, unhex(t, want)...), data); err != nil || !bytes.Equal(got, text) {
		t.Errorf("opened %x, %v", got, err)
	}
	if k.aead.NonceSize()+k.aead.Overhead() != Overhead {
		t.Errorf("nonce and tag have %d bytes, not %d", k.aead.NonceSize()+k.aead.Overhead(), Overhead)
	}
}

func TestOpensOnlyInItsPlace(t *testing.T) {
	for _, s := range []Suite{Intl, GM} {
		k, err := NewKey(s, Random(s.KeySize()))
		if err != nil {
			t.Fatal(err)
		}
		other, err := NewKey(s, Random(s.KeySize()))
		if err != nil {
			t.Fatal(err)
		}
		text, label := []byte("13800138000"), Label("acme", "K7Q2F")
		c := k.Seal(text, label)
		if len(c) != len(text)+Overhead || bytes.Contains(c, text) || bytes.Equal(c, k.Seal(text, label)) {
			t.Errorf("%s: %x", s, c)
		}
		if got, err := k.Open(c, label); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%s: %q, %v", s, got, err)
		}
		for i := range c {
			b := bytes.Clone(c)
			b[i] ^= 1
			if _, err := k.Open(b, label); err == nil {
				t.Fatalf("%s: byte %d was changed and nobody noticed", s, i)
			}
		}
		for n := range c {
			if _, err := k.Open(c[:n], label); err == nil {
				t.Fatalf("%s: opened the first %d bytes", s, n)
			}
		}
		if _, err := k.Open(c, Label("acmeK", "7Q2F")); err == nil {
			t.Errorf("%s: another label opened it", s)
		}
		if _, err := other.Open(c, label); err == nil {
			t.Errorf("%s: another key opened it", s)
		}
	}
}

func TestKeysOfNoSuite(t *testing.T) {
	for s, size := range map[Suite]int{"rot13": 32, Intl: 16, GM: 32, "": 0} {
		if _, err := NewKey(s, make([]byte, size)); err == nil {
			t.Errorf("%q took a key of %d bytes", s, size)
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add("a", "b", "ab", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if bytes.Equal(Label(a, b), Label(c, d)) != (a == c && b == d) {
			t.Errorf("%q %q and %q %q", a, b, c, d)
		}
	})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
