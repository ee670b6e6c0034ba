package safety

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// StripHidden removes characters that nobody sees and that a model reads all the same: bidi controls, tags, characters without width,
// fillers. What text needs stays: joiners between letters and between the parts of an emoji, one variation selector behind a character, the
// tags of a flag. removed is how many went.
func StripHidden(text string) (out string, removed int) {
	if !strings.ContainsFunc(text, isUnseen) {
		return text, 0
	}
	var b strings.Builder
	prev, flag := rune(-1), false
	for at, r := range text {
		tag := r >= 0xE0020 && r <= 0xE007F
		flag = r == 0x1F3F4 || flag && tag
		keep := true
		switch {
		case !isUnseen(r):
		case r == 0x200C || r == 0x200D: // joiners
			next, _ := utf8.DecodeRuneInString(text[at+3:])
			keep = joins(prev) && joins(next)
		case r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF || r >= 0x180B && r <= 0x180D: // variation selectors
			keep = prev > ' ' && !isUnseen(prev)
		case tag:
			keep = flag
		default:
			keep = false
		}
		if !keep {
			removed++
			prev = r
			continue
		}
		prev = r
		if r == utf8.RuneError {
			_, size := utf8.DecodeRuneInString(text[at:])
			b.WriteString(text[at : at+size])
			continue
		}
		b.WriteRune(r)
	}
	return b.String(), removed
}

// joins reports whether a joiner beside a character means something: in scripts whose letters change with it, and in emoji.
func joins(r rune) bool {
	switch {
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0x1F3FB && r <= 0x1F3FF:
		return true
	case unicode.Is(unicode.So, r):
		return true
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return !unicode.In(r, unicode.Latin, unicode.Han, unicode.Cyrillic, unicode.Greek, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
	}
	return false
}
