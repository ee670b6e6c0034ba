package mask

import (
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/governance/classify"
)

// Redacted returns what stands for a value that must not be shown, with the tag of its class. It cannot be restored.
func Redacted(tag string) string { return "〔已屏蔽:" + tag + "〕" }

// Partial returns a value of which only its ends are left, as people know it by them: 138****8000, 张*, z***@example.com. Of kinds that
// say too much by any part, and of values that are too short, nothing is left: they are as [Redacted] with tag.
func Partial(c classify.Class, tag, value string) string {
	n := len([]rune(strings.Map(onlySigns, value)))
	var head, tail int
	switch c {
	case classify.Mobile:
		head, tail = max(3, n-8), 4 // with what stands before the eleven digits, such as +86
	case classify.BankCard, classify.BankAccount:
		head, tail = 4, 4
	case classify.ResidentID, classify.USCC:
		head, tail = 6, 2
	case classify.VIN, classify.Landline:
		head, tail = 2, 2
	case classify.Plate:
		head, tail = 2, 1
	case classify.Person:
		return partialName(tag, value)
	case classify.Email:
		return partialAddress(tag, value)
	default:
		return Redacted(tag)
	}
	if n < head+tail+4 { // too much of it would show
		return Redacted(tag)
	}
	return stars(value, head, n-tail)
}

// stars replaces the letters and digits of a value from the from-th to the one before the to-th; marks and blanks between them stay.
func stars(value string, from, to int) string {
	n := -1
	return strings.Map(func(r rune) rune {
		if onlySigns(r) < 0 {
			return r
		}
		if n++; n >= from && n < to {
			return '*'
		}
		return r
	}, value)
}

func onlySigns(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsNumber(r) {
		return r
	}
	return -1
}

// partialName leaves the surname of a Chinese name, or the first letter of one in letters.
func partialName(tag, value string) string {
	n := len([]rune(strings.Map(onlySigns, value)))
	if n < 2 {
		return Redacted(tag)
	}
	return stars(value, 1, n)
}

// partialAddress leaves the first character of an address's local part, and its host.
func partialAddress(tag, value string) string {
	local, host, ok := strings.Cut(value, "@")
	if !ok || len(local) < 2 {
		return Redacted(tag)
	}
	r := []rune(local)
	return string(r[:1]) + "***@" + host
}
