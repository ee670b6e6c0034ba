package grammar

import (
	"slices"
	"unicode/utf8"
)

// slice is a part of the vocabulary. Inside a string, most tokens are allowed for one and the same reason: they are ordinary text, and
// so many ordinary characters may follow. Where that holds of a state, the tokens of a slice are allowed without looking at each.
type slice struct {
	kind   sliceKind
	chars  int // of each token; 0: any number
	count  int // tokens
	tokens *tokens
	trie   *trie
}

type sliceKind uint8

const (
	sliceASCII sliceKind = iota // printable characters but " and \, which texts escape
	sliceText                   // these and all characters beyond ASCII
	sliceRest                   // everything else
)

// sliceChars is the number of characters of the longest tokens that have a slice; longer ones are in the rest.
const sliceChars = 20

// cutSlices sorts the tokens into slices.
func (v *Vocabulary) cutSlices(list []entry) {
	var lists [sliceRest + 1][sliceChars + 1][]entry
	for _, e := range list {
		kind, chars := v.sliceOf(e.text)
		lists[kind][chars] = append(lists[kind][chars], e)
	}
	for kind := range lists {
		for chars, part := range lists[kind] {
			if len(part) == 0 {
				continue
			}
			mask := make([]uint64, v.Words())
			for _, e := range part {
				mask[e.token>>6] |= 1 << (e.token & 63)
			}
			v.slices = append(v.slices, slice{
				kind: sliceKind(kind), chars: chars, count: len(part), tokens: newTokens(mask, len(part)), trie: newTrie(part),
			})
		}
	}
}

func (v *Vocabulary) sliceOf(text string) (kind sliceKind, chars int) {
	for i, r := range text {
		switch {
		case r < utf8.RuneSelf && !plainByte(byte(r)):
			return sliceRest, 0
		case r == utf8.RuneError && text[i] != 0xef: // a part of a character
			return sliceRest, 0
		case !v.spells([]byte(string(r))):
			return sliceRest, 0
		case r >= utf8.RuneSelf:
			kind = sliceText
		}
		chars++
	}
	if chars > sliceChars {
		return sliceRest, 0
	}
	return kind, chars
}

func plainByte(b byte) bool { return b >= ' ' && b <= '~' && b != '"' && b != '\\' }

// run is what is known of how many characters of a kind may follow a state.
type run struct {
	any, notAny   int16 // whichever so many may follow; whichever so many may not
	none, notNone int16 // no text of so many may, nor ends a lexeme on its way; some may
}

// holds reports whether any n characters of a kind may follow s, whichever they are.
func (sc *scanner) holds(s *state, kind sliceKind, n int) bool {
	known := &s.runs[kind]
	if n <= int(known.any) || known.notAny > 0 && n >= int(known.notAny) {
		return n <= int(known.any)
	}
	ok := true
	for _, seq := range sc.plain[kind] {
		if ok = sc.holdsSeq(s, seq, kind, n); !ok {
			break
		}
	}
	if ok {
		known.any = int16(n)
	} else {
		known.notAny = int16(n)
	}
	return ok
}

// maxBranches is the number of different states behind the same kind of character from which on it is not worth the trouble.
const maxBranches = 8

// holdsSeq is holds for texts that begin with a character whose encoding has the byte classes of seq.
func (sc *scanner) holdsSeq(s *state, seq [][]uint8, kind sliceKind, n int) bool {
	at, ok := sc.behind(s, seq, func(y *state) (passed, stop bool) { return false, y == sc.dead })
	if !ok {
		return false
	}
	for _, x := range at {
		if n > 1 && !sc.holds(x, kind, n-1) {
			return false
		}
	}
	return true
}

// behind returns the states behind s and a character whose encoding has the byte classes of seq. Of a state on the way, look says whether it
// is passed over, or else stops the search. It reports false then, and when there are too many.
func (sc *scanner) behind(s *state, seq [][]uint8, look func(*state) (passed, stop bool)) (at []*state, ok bool) {
	at = []*state{s}
	for _, classes := range seq {
		var next []*state
		for _, x := range at {
			for _, class := range classes {
				y := sc.step(x, class)
				passed, stop := look(y)
				switch {
				case passed || slices.Contains(next, y):
				case stop || len(next) == maxBranches:
					return nil, false
				default:
					next = append(next, y)
				}
			}
		}
		at = next
	}
	return at, true
}

// excludes reports whether no n characters of a kind may follow s, and no lexeme ends among them: then tokens of so many characters,
// of which the last may be anything, need not be looked at.
func (sc *scanner) excludes(s *state, kind sliceKind, n int) bool {
	known := &s.runs[kind]
	if known.none > 0 && n >= int(known.none) || n <= int(known.notNone) {
		return n > int(known.notNone)
	}
	ok := true
	for _, seq := range sc.plain[kind] {
		if ok = sc.excludesSeq(s, seq, kind, n); !ok {
			break
		}
	}
	if ok {
		known.none = int16(n)
	} else {
		known.notNone = int16(n)
	}
	return ok
}

func (sc *scanner) excludesSeq(s *state, seq [][]uint8, kind sliceKind, n int) bool {
	at, ok := sc.behind(s, seq, func(y *state) (passed, stop bool) { return y == sc.dead, y.accept != nil })
	if !ok {
		return false
	}
	for _, x := range at {
		if n == 1 || !sc.excludes(x, kind, n-1) {
			return false
		}
	}
	return true
}

// plainSeqs are the characters of each kind of slice, as far as the vocabulary spells them: of each kind of encoding, the byte
// classes at each position.
func (sc *scanner) plainSeqs() (plain [sliceRest][][][]uint8) {
	var ascii byteSet
	for b := range byte(utf8.RuneSelf) {
		if plainByte(b) {
			ascii.add(b)
		}
	}
	plain[sliceASCII] = [][][]uint8{{sc.classesOf(ascii)}}
	plain[sliceText] = plain[sliceASCII]
	for _, seq := range byteSeqs([]Range{{utf8.RuneSelf, utf8.MaxRune}}) {
		var classes [][]uint8
		for _, set := range seq {
			classes = append(classes, sc.classesOf(set))
		}
		if !slices.ContainsFunc(classes, func(c []uint8) bool { return len(c) == 0 }) {
			plain[sliceText] = append(plain[sliceText], classes)
		}
	}
	return plain
}

// classesOf are the classes of the bytes of set that the vocabulary spells.
func (sc *scanner) classesOf(set byteSet) []uint8 {
	var out []uint8
	set = set.and(sc.voc.units.bytes)
	for b := range 256 {
		if class := sc.of[b]; set.has(byte(b)) && !slices.Contains(out, class) {
			out = append(out, class)
		}
	}
	return out
}
