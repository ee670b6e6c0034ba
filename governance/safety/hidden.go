package safety

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// StripHidden removes characters that nobody sees and that a model reads all the same: bidi controls, tags, characters without width,
// fillers. What text needs stays: joiners between letters and between the parts of an emoji, the variation selector of a character that has variants, the
// tags of the three flags that there are. removed is how many went.
func StripHidden(text string) (out string, removed int) {
	if !strings.ContainsFunc(text, isUnseen) {
		return text, 0
	}
	var b strings.Builder
	prev, flag := rune(-1), 0 // flag: the end of the tags that are one of a flag
	for at, r := range text {
		if r == 0x1F3F4 {
			flag = at + 4 + flagTags(text[at+4:])
		}
		keep := true
		switch {
		case !isUnseen(r):
		case r == 0x200C || r == 0x200D: // joiners
			next, _ := utf8.DecodeRuneInString(text[at+3:])
			keep = joins(prev) && joins(next)
		case at < flag:
		case r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF || r >= 0x180B && r <= 0x180F: // variation selectors
			keep = varies(prev, r)
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

// HiddenHit is the hit of a text that [StripHidden] takes something from.
func HiddenHit(action Action) Hit {
	return Hit{Rule: "hidden", Library: builtIn, Risk: RiskHidden, Action: action}
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

// flagTags returns how many bytes at the beginning of a text are the tags of England, Scotland or Wales.
func flagTags(text string) int {
	for _, region := range []string{"gbeng", "gbsct", "gbwls"} {
		n := 0
		for _, want := range region + "\x7f" {
			if r, size := utf8.DecodeRuneInString(text[n:]); r == 0xE0000+want {
				n += size
			}
		}
		if n == 4*(len(region)+1) {
			return n
		}
	}
	return 0
}

// varies reports whether a selector behind a character chooses one of its variants: an emoji or a symbol as text or picture, an ideograph, a
// Mongolian letter.
func varies(r, selector rune) bool {
	switch {
	case selector == 0xFE0E || selector == 0xFE0F:
		return unicode.In(r, unicode.So, unicode.Sm) || r >= '0' && r <= '9' || r == '#' || r == '*' || r == 0x203C || r == 0x2049 || r == 0x2139 || r == 0x3030
	case selector >= 0x180B && selector <= 0x180F:
		return unicode.Is(unicode.Mongolian, r) && !isUnseen(r)
	case selector >= 0xE0100, selector <= 0xFE02:
		return unicode.Is(unicode.Han, r)
	}
	return false
}
