package checkpoint

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kinds of keys of the signed-note format.
const (
	algEd25519     = 1 // signs the text of a note
	algCosignature = 4 // signs the time and the text: a witness
)

// key is a named Ed25519 key of a kind.
type key struct {
	name    string
	alg     byte
	private ed25519.PrivateKey // nil where only the public half is known
	public  ed25519.PublicKey
}

func newKey(name string, alg byte, seed []byte) key {
	private := ed25519.NewKeyFromSeed(seed)
	return key{name, alg, private, private.Public().(ed25519.PublicKey)}
}

// hash names the key in a signature line, together with its name.
func (k key) hash() uint32 {
	sum := sha256.Sum256(append([]byte(k.name+"\n"), k.bytes()...))
	return binary.BigEndian.Uint32(sum[:4])
}

func (k key) bytes() []byte { return append([]byte{k.alg}, k.public...) }

// text is the public key in the form of the signed-note format: name+hash+base64.
func (k key) text() string {
	return fmt.Sprintf("%s+%08x+%s", k.name, k.hash(), base64.StdEncoding.EncodeToString(k.bytes()))
}

// Name and KeyHash implement note.Signer and note.Verifier for both kinds.
func (k key) Name() string    { return k.name }
func (k key) KeyHash() uint32 { return k.hash() }

func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && strings.IndexFunc(name, unicode.IsSpace) < 0 && !strings.Contains(name, "+")
}

type ed25519Signer struct{ key }

func (k ed25519Signer) Sign(msg []byte) ([]byte, error) { return ed25519.Sign(k.private, msg), nil }

func (k ed25519Signer) verifier() ed25519Verifier {
	return ed25519Verifier{key{k.name, k.alg, nil, k.public}}
}

type ed25519Verifier struct{ key }

func (k ed25519Verifier) Verify(msg, sig []byte) bool { return ed25519.Verify(k.public, msg, sig) }
