package fingerprint

import (
	"crypto/hmac"
	"hash"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"
)

// pieceSize is how many bytes the digest takes at once.
const pieceSize = 1 << 10

// exact digests a text as it is read: white space between two characters is one space whatever it is, characters that are composed or of full width are what they
// look like, and all else counts, such as case, signs, accents and raised figures.
type exact struct {
	mac    hash.Hash
	canon  *normalised
	piece  []byte
	spaced bool // white space came behind the last character
	begun  bool
}

func (k *Key) newExact() *exact {
	mac := hmac.New(k.hash, k.whole)
	return &exact{mac: mac, canon: &normalised{out: mac}}
}

// add takes in a character.
func (e *exact) add(r rune) {
	if unicode.IsSpace(r) {
		e.spaced = e.begun
		return
	}
	if e.spaced {
		e.piece = append(e.piece, ' ')
		e.spaced = false
	}
	e.begun = true
	if r >= formsFirst && r <= formsLast {
		if folded := width.LookupRune(r).Folded(); folded != 0 {
			r = folded
		}
	}
	e.piece = utf8.AppendRune(e.piece, r)
	if len(e.piece) >= pieceSize {
		e.flush()
	}
}

// formsFirst to formsLast is the block of characters of half and full width.
const formsFirst, formsLast = 0xFF01, 0xFFEF

func (e *exact) flush() {
	e.canon.write(e.piece)
	e.piece = e.piece[:0]
}

// sum returns the digest of all that was taken in.
func (e *exact) sum(to []byte) {
	e.flush()
	e.canon.end()
	copy(to, e.mac.Sum(nil))
}

// normalised writes text in the normal form C, as it comes in pieces of whole characters.
type normalised struct {
	out  hash.Hash
	held []byte // behind the last boundary: what follows may compose with it
}

func (n *normalised) write(b []byte) {
	n.held = append(n.held, b...)
	at := norm.NFC.LastBoundary(n.held)
	if at <= 0 && len(n.held) > 4*pieceSize { // nothing but marks upon marks
		at = len(n.held)
	}
	if at <= 0 {
		return
	}
	n.out.Write(norm.NFC.Bytes(n.held[:at]))
	n.held = n.held[:copy(n.held, n.held[at:])]
}

func (n *normalised) end() {
	n.out.Write(norm.NFC.Bytes(n.held))
	n.held = n.held[:0]
}
