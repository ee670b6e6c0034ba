package checkpoint

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"
)

// A kind says what a key signs and how. It stands in front of the public key, and so in the hash by which signatures name their key: the
// same key of another kind is another key. The signed-note format assigns one byte to a kind and 0xff, with a name of one's own behind it,
// to all others.
const (
	kindEd25519     = "\x01" // signs the text of a note
	kindCosignature = "\x04" // signs the time and the text: a witness
	kindSM2         = "\xff" + "sm2-sm3/v1\n"
	kindSM2Witness  = "\xff" + "sm2-sm3/cosignature/v1\n"
)

// seedSize is what a key of any kind is made from.
const seedSize = 32

// key is a named key of a kind.
type key struct {
	name   string
	kind   string
	public []byte
	sign   func(msg []byte) ([]byte, error) // nil where only the public half is known
	verify func(msg, sig []byte) bool
}

// newKey makes the key of a seed. Equal seeds give equal keys.
func newKey(name, kind string, seed []byte) (key, error) {
	if !validName(name) {
		return key{}, fmt.Errorf("%q cannot name a log or a witness: it must not be empty or hold spaces or a plus sign", name)
	}
	if len(seed) != seedSize {
		return key{}, fmt.Errorf("a seed has %d bytes, not %d", len(seed), seedSize)
	}
	if kind == kindSM2 || kind == kindSM2Witness {
		return newSM2(name, kind, seed)
	}
	private := ed25519.NewKeyFromSeed(seed)
	k, err := publicKey(name, kind, private.Public().(ed25519.PublicKey))
	k.sign = func(msg []byte) ([]byte, error) { return ed25519.Sign(private, msg), nil }
	return k, err
}

// publicKey is the public half of a key.
func publicKey(name, kind string, public []byte) (key, error) {
	k := key{name: name, kind: kind, public: public}
	if kind == kindSM2 || kind == kindSM2Witness {
		var err error
		k.verify, err = verifySM2(public)
		return k, err
	}
	if len(public) != ed25519.PublicKeySize {
		return key{}, fmt.Errorf("an Ed25519 key has %d bytes, not %d", ed25519.PublicKeySize, len(public))
	}
	k.verify = func(msg, sig []byte) bool { return ed25519.Verify(public, msg, sig) }
	return k, nil
}

// hash names the key in a signature line, together with its name.
func (k key) hash() uint32 {
	sum := sha256.Sum256(append([]byte(k.name+"\n"), k.bytes()...))
	return binary.BigEndian.Uint32(sum[:4])
}

func (k key) bytes() []byte { return append([]byte(k.kind), k.public...) }

// text is the public key in the form of the signed-note format: name+hash+base64.
func (k key) text() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.hash(), base64.StdEncoding.EncodeToString(k.bytes()))
}

// parseKey reads what text gives, of one of two kinds.
func parseKey(text string, kinds ...string) (key, error) {
	name, rest, ok := strings.Cut(text, "+")
	hash, data, ok2 := strings.Cut(rest, "+")
	if !ok || !ok2 || !validName(name) {
		return key{}, errors.New("it has not three parts")
	}
	b, err := base64.StdEncoding.Strict().DecodeString(data)
	if err != nil {
		return key{}, errors.New("its third part is not base64")
	}
	for _, kind := range kinds {
		public, ok := strings.CutPrefix(string(b), kind)
		if !ok {
			continue
		}
		k, err := publicKey(name, kind, []byte(public))
		if err == nil && fmt.Sprintf("%08x", k.hash()) != hash {
			return key{}, errors.New("its hash does not belong to it")
		}
		return k, err
	}
	return key{}, errors.New("it is of a kind that has another use, or that is unknown to this release")
}

// Name, KeyHash, Sign and Verify implement note.Signer and note.Verifier.
func (k key) Name() string                    { return k.name }
func (k key) KeyHash() uint32                 { return k.hash() }
func (k key) Sign(msg []byte) ([]byte, error) { return k.sign(msg) }
func (k key) Verify(msg, sig []byte) bool     { return k.verify(msg, sig) }

var (
	_ note.Signer   = key{}
	_ note.Verifier = key{}
)

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsSpace) < 0 && !strings.Contains(name, "+")
}
