// Package checkpoint signs and reads what a log states about itself: that this many records have this root. A checkpoint is a signed note in
// the C2SP tlog-checkpoint format; witnesses add cosignatures in the tlog-cosignature format. It reads no files and knows no database.
package checkpoint

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Tree is what a checkpoint states: this many records have this root.
type Tree struct {
	Size int64
	Root tlog.Hash
}

// Signer signs the checkpoints of one log.
type Signer struct {
	origin string
	keys   []key
}

// NewSigner returns the signer of the log called origin with Ed25519 keys. Each seed of 32 bytes is a key, and every checkpoint carries a
// signature of each: while a new key is introduced there are two, so that those who know one of them can read all checkpoints.
func NewSigner(origin string, seeds ...[]byte) (Signer, error) {
	return newSigner(origin, kindEd25519, seeds)
}

// NewSM2Signer does what NewSigner does, with SM2 keys.
func NewSM2Signer(origin string, seeds ...[]byte) (Signer, error) {
	return newSigner(origin, kindSM2, seeds)
}

func newSigner(origin, kind string, seeds [][]byte) (Signer, error) {
	s := Signer{origin: origin}
	for _, seed := range seeds {
		k, err := newKey(origin, kind, seed)
		if err != nil {
			return Signer{}, fmt.Errorf("make checkpoint key: %w", err)
		}
		s.keys = append(s.keys, k)
	}
	if len(s.keys) == 0 {
		return Signer{}, errors.New("make checkpoint key: there is no seed")
	}
	return s, nil
}

// Join returns a signer with the keys of several of the same log, in their order.
func Join(signers ...Signer) (Signer, error) {
	if len(signers) == 0 {
		return Signer{}, errors.New("make checkpoint key: there is none")
	}
	all := Signer{origin: signers[0].origin}
	for _, s := range signers {
		if s.origin != all.origin {
			return Signer{}, fmt.Errorf("make checkpoint key: keys of two logs, %s and %s", all.origin, s.origin)
		}
		all.keys = append(all.keys, s.keys...)
	}
	return all, nil
}

// Key is the public keys as text for [NewVerifier], one per line.
func (s Signer) Key() string {
	var lines []string
	for _, k := range s.keys {
		lines = append(lines, k.text())
	}
	return strings.Join(lines, "\n")
}

// Verifier opens what the signer signed.
func (s Signer) Verifier() Verifier {
	v := Verifier{origin: s.origin}
	for _, k := range s.keys {
		k.sign = nil
		v.keys = append(v.keys, k)
	}
	return v
}

// Sign returns the signed note for t: origin, size, root, what the tree is hashed with, blank line, signatures.
func (s Signer) Sign(t Tree) (string, error) {
	text, err := s.sign(body(s.origin, t))
	if err != nil {
		return "", fmt.Errorf("sign checkpoint: %w", err)
	}
	return text, nil
}

// SignText signs a text about the log that is no checkpoint. Its first line must begin with the origin and a slash, so that it can be
// taken for nothing else.
func (s Signer) SignText(text string) (string, error) {
	if !strings.HasPrefix(text, s.origin+"/") {
		return "", fmt.Errorf("sign text: it does not begin with %s/", s.origin)
	}
	signed, err := s.sign(text)
	if err != nil {
		return "", fmt.Errorf("sign text: %w", err)
	}
	return signed, nil
}

func (s Signer) sign(text string) (string, error) {
	var signers []note.Signer
	for _, k := range s.keys {
		signers = append(signers, k)
	}
	b, err := note.Sign(&note.Note{Text: text}, signers...)
	return string(b), err
}

// TreeHash is the hash suite of the trees this release makes and reads: RFC 6962 with SHA-256, whatever the signatures are made with. A
// checkpoint says so in an extension line behind the root, and one that says something else is not opened. Checkpoints without the line
// are of earlier releases and of foreign logs, which know nothing else.
const TreeHash = "sha256"

const hashLine = "hash "

func body(origin string, t Tree) string {
	return fmt.Sprintf("%s\n%d\n%s\n%s%s\n", origin, t.Size, t.Root, hashLine, TreeHash)
}

// Verifier opens checkpoints of one log with its public keys alone.
type Verifier struct {
	origin string
	keys   []key
}

// NewVerifier reads the public keys of a log as [Signer.Key] gives them: one, or several of the same log with white space between them,
// of any suite.
func NewVerifier(keys string) (Verifier, error) {
	var v Verifier
	for _, text := range strings.Fields(keys) {
		k, err := parseKey(text, kindEd25519, kindSM2)
		if err != nil {
			return Verifier{}, fmt.Errorf("read verifier key: want name+hash+base64, as the owner of the log publishes it: %w", err)
		}
		if v.origin == "" {
			v.origin = k.name
		} else if v.origin != k.name {
			return Verifier{}, fmt.Errorf("read verifier key: keys of two logs, %s and %s", v.origin, k.name)
		}
		v.keys = append(v.keys, k)
	}
	if len(v.keys) == 0 {
		return Verifier{}, errors.New("read verifier key: there is none; want name+hash+base64, as the owner of the log publishes it")
	}
	return v, nil
}

// Origin is the name of the log.
func (v Verifier) Origin() string { return v.origin }

// verifiers are the keys as the note package takes them.
func (v Verifier) verifiers() []note.Verifier {
	var out []note.Verifier
	for _, k := range v.keys {
		out = append(out, k)
	}
	return out
}

// Open checks that one of the keys signed a checkpoint, and reads it. Lines after the third are extensions: that of the hash suite must
// name the one there is, others are signed but ignored.
func (v Verifier) Open(text string) (Tree, error) {
	n, err := note.Open([]byte(text), note.VerifierList(v.verifiers()...))
	if err != nil {
		return Tree{}, fmt.Errorf("open checkpoint: %w", err)
	}
	return v.read(n)
}

// maxSize is far above any log and keeps the arithmetic of package tlog, which trusts its sizes, from running over.
const maxSize = 1 << 48

// canonical reports that the signatures are written in the one way there is: the note package ignores the unused bits of the last digit.
func canonical(n *note.Note) bool {
	for _, s := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
			return false
		}
	}
	return true
}

func (v Verifier) read(n *note.Note) (Tree, error) {
	if !canonical(n) {
		return Tree{}, errors.New("open checkpoint: the signature is not in its canonical form")
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) < 4 || lines[0] != v.origin {
		return Tree{}, errors.New("open checkpoint: it is not a checkpoint of " + v.origin)
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 || size > maxSize || strconv.FormatInt(size, 10) != lines[1] {
		return Tree{}, errors.New("open checkpoint: malformed size")
	}
	root, err := tlog.ParseHash(lines[2])
	if err != nil {
		return Tree{}, fmt.Errorf("open checkpoint: %w", err)
	}
	for _, line := range lines[3:] {
		if suite, ok := strings.CutPrefix(line, hashLine); ok && suite != TreeHash {
			return Tree{}, fmt.Errorf("open checkpoint: its tree is hashed with %q, this release reads %s only", suite, TreeHash)
		}
	}
	return Tree{Size: size, Root: root}, nil
}

// OpenText checks that one of the keys signed a text, as [Signer.SignText] does, and returns it.
func (v Verifier) OpenText(signed string) (string, error) {
	n, err := note.Open([]byte(signed), note.VerifierList(v.verifiers()...))
	if err != nil {
		return "", fmt.Errorf("open signed text: %w", err)
	}
	if !canonical(n) {
		return "", errors.New("open signed text: the signature is not in its canonical form")
	}
	if !strings.HasPrefix(n.Text, v.origin+"/") {
		return "", errors.New("open signed text: it is not about " + v.origin)
	}
	return n.Text, nil
}
