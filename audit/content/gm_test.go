package content

import (
	"bytes"
	"encoding/hex"
	"testing"

	"github.com/emmansun/gmsm/sm4"

	"github.com/sluice-project/sluice/internal/keyring"
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
	aead, err := GM.aead(key)
	if err != nil {
		t.Fatal(err)
	}
	nonce, data := unhex(t, "00001234567800000000abcd"), unhex(t, "feedfacedeadbeeffeedfacedeadbeefabaddad2")
	text := unhex(t, "aaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbccccccccccccccccddddddddddddddddeeeeeeeeeeeeeeeeffffffffffffffffeeeeeeeeeeeeeeeeaaaaaaaaaaaaaaaa")
	const want = "17f399f08c67d5ee19d0dc9969c4bb7d5fd46fd3756489069157b282bb200735d82710ca5c22f0ccfa7cbf93d496ac15a56834cbcf98c397b4024a2691233b8d" +
		"83de3541e4c2b58177e065a9bf7b62ec"
	if got := aead.Seal(nil, nonce, text, data); hex.EncodeToString(got) != want {
		t.Errorf("SM4-GCM gives %x", got)
	}
	if aead.NonceSize()+aead.Overhead() != Overhead {
		t.Errorf("nonce and tag have %d bytes, not %d", aead.NonceSize()+aead.Overhead(), Overhead)
	}
}

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
		if err != nil || k.Suite != by || len(k.Wrapped) != Overhead+by.keySize() {
			t.Fatalf("%+v, %v", k, err)
		}
		sealed := data.Seal("r1", "request", []byte("text"))
		for _, reader := range []Suite{Intl, GM} {
			r, err := NewCipher(ring, reader)
			if err != nil {
				t.Fatal(err)
			}
			again, err := r.Unwrap(k)
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
		if _, err := c.Unwrap(other); err == nil {
			t.Errorf("a key of %s was unwrapped as one of %s", by, other.Suite)
		}
	}
	if bytes.Contains(ring.Derive("audit/content-key/v1"), ring.Derive("audit/content-key/sm4/v1")[:8]) {
		t.Error("the suites share a master key")
	}
}
