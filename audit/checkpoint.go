package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/internal/keyring"
)

// tree is what a checkpoint states: this many records have this root.
type tree struct {
	size int64
	root tlog.Hash
}

// signer signs and opens checkpoints of one origin.
type signer struct {
	origin   string
	sign     note.Signer
	verifier verifier
}

// verifier opens checkpoints with the public key alone.
type verifier struct {
	origin string
	note   note.Verifier
}

const algEd25519 = 1 // of the signed-note format

func newSigner(origin string, keys *keyring.Ring) (signer, string, error) {
	key := ed25519.NewKeyFromSeed(keys.Derive("audit/checkpoint/v1"))
	public := key.Public().(ed25519.PublicKey)
	vkey, err := note.NewEd25519VerifierKey(origin, public)
	if err != nil {
		return signer{}, "", fmt.Errorf("derive checkpoint key: %w", err)
	}
	v, err := newVerifier(vkey)
	if err != nil {
		return signer{}, "", err
	}
	// The note package takes private keys as text only.
	id := sha256.Sum256(append([]byte(origin+"\n"), append([]byte{algEd25519}, public...)...))
	secret := base64.StdEncoding.EncodeToString(append([]byte{algEd25519}, key.Seed()...))
	s, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", origin, binary.BigEndian.Uint32(id[:4]), secret))
	if err != nil {
		return signer{}, "", fmt.Errorf("derive checkpoint key: %w", err)
	}
	return signer{origin: origin, sign: s, verifier: v}, vkey, nil
}

func newVerifier(key string) (verifier, error) {
	v, err := note.NewVerifier(strings.TrimSpace(key))
	if err != nil {
		return verifier{}, fmt.Errorf("read verifier key: want name+hash+base64, as the owner of the log publishes it: %w", err)
	}
	return verifier{origin: v.Name(), note: v}, nil
}

// checkpoint returns the signed note for t: origin, size, root, blank line, signature.
func (s signer) checkpoint(t tree) (string, error) {
	text := fmt.Sprintf("%s\n%d\n%s\n", s.origin, t.size, t.root)
	b, err := note.Sign(&note.Note{Text: text}, s.sign)
	if err != nil {
		return "", fmt.Errorf("sign checkpoint: %w", err)
	}
	return string(b), nil
}

// open checks the signature of a checkpoint and reads it. Lines after the third are extensions and are signed but ignored.
func (v verifier) open(text string) (tree, error) {
	n, err := note.Open([]byte(text), note.VerifierList(v.note))
	if err != nil {
		return tree{}, fmt.Errorf("open checkpoint: %w", err)
	}
	for _, s := range slices.Concat(n.Sigs, n.UnverifiedSigs) { // the note package ignores the unused bits of the last digit
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return tree{}, errors.New("open checkpoint: the signature is not in its canonical form")
		}
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 || lines[0] != v.origin {
		return tree{}, errors.New("open checkpoint: it is not a checkpoint of " + v.origin)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != lines[1] {
		return tree{}, errors.New("open checkpoint: malformed size")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return tree{}, fmt.Errorf("open checkpoint: %w", err)
	}
	return tree{size: size, root: root}, nil
}
