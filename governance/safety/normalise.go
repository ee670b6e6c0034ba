package safety

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/internal/hanfold"
)

// class says what a character is to a matcher.
type class uint8

const (
	letter   class = iota // it may be one of a word
	joint                 // it may stand between the characters of a word
	breaking              // it ends a sentence or a part of one: no word goes on behind it
	unseen                // it has no width: it is nothing
)

// Letters of other scripts that are drawn like Latin ones. Case is folded before.
const (
	lookalikeFrom = "авсенкмортхуіјѕԁԛԝһӏαβερτυοικνχɑɡɩօսա"
	lookalikeTo   = "abcehkmoptxyijsdqwhlabeptuoiknxagiouw"
)

// normaliser makes characters of a matcher out of those of a text. Each is treated alone, so that pieces of a text need not wait for each other.
type normaliser struct {
	fold  *hanfold.Table
	looks map[rune]rune
	room  []rune
}

func newNormaliser() *normaliser { return &normaliser{fold: hanfold.Folding(), looks: lookalikes()} }

var lookalikes = sync.OnceValue(func() map[rune]rune { //nolint:gochecknoglobals // a table
	out, to := map[rune]rune{}, []rune(lookalikeTo)
	for i, r := range []rune(lookalikeFrom) {
		out[r] = to[i]
	}
	return out
})

// classOf says what a character is.
func classOf(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		switch {
		case 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9':
			return letter
		case r == '!' || r == '?' || r == ';' || r == ':' || r == ',':
			return breaking
		case r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f:
			return unseen
		}
		return joint
	case r >= 0x3400 && r < 0xA000:
		return letter
	case strings.ContainsRune("。！？；：，、", r):
		return breaking
	case isUnseen(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
		return unseen
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Mc, r):
		return letter
	case unicode.Is(unicode.So, r) && norm.NFKC.QuickSpanString(string(r)) == 0: // letters in circles and squares
		return letter
	}
	return joint
}

// isUnseen reports whether nobody sees a character: format characters, bidi controls, tags, variation selectors and fillers.
func isUnseen(r rune) bool {
	switch {
	case unicode.Is(unicode.Cf, r), r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0100 && r <= 0xE01EF, r >= 0x180B && r <= 0x180F:
		return true
	case r == 0x115F, r == 0x1160, r == 0x3164, r == 0xFFA0, r == 0x034F, r == 0x17B4, r == 0x17B5, r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return false
}

// of returns what a character is, and the letters that it stands for. They are good until the next call.
func (n *normaliser) of(r rune) (class, []rune) {
	c := classOf(r)
	if c != letter {
		return c, nil
	}
	n.room = n.room[:0]
	if r < utf8.RuneSelf {
		return c, append(n.room, unicode.ToLower(r))
	}
	if r >= 0x3400 && r < 0xA000 {
		return c, append(n.room, n.fold.Fold(r))
	}
	for _, part := range norm.NFKD.String(string(r)) {
		if k := classOf(part); k != letter {
			continue
		}
		part = n.fold.Fold(unicode.ToLower(part))
		if l, ok := n.looks[part]; ok {
			part = l
		}
		n.room = append(n.room, part)
	}
	if len(n.room) == 0 {
		return joint, nil
	}
	return c, n.room
}

// spaced reports whether words of the script of a letter are written apart, so that its word ends where the letters end.
func spaced(r rune) bool {
	if r < 0x0E00 {
		return true
	}
	if r >= 0x3400 && r < 0xA000 {
		return false
	}
	return !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
