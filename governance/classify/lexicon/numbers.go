package lexicon

import (
	_ "embed" // the data files
	"strconv"
	"strings"
	"sync"
)

//go:embed data/bins.txt
var binText string

//go:embed data/areacodes.txt
var areaText string

// cards are the issuers of six-digit prefixes, and the schemes' prefixes.
type cards struct {
	issuers map[uint32]issuer
	schemes []scheme
}

type issuer struct {
	bank    string
	lengths uint32 // bit n: n digits
}

// scheme is a range of prefixes of equal length.
type scheme struct {
	name    string
	low     uint32
	high    uint32
	digits  int
	lengths uint32
}

var loadCards = sync.OnceValue(func() *cards {
	t := &cards{issuers: make(map[uint32]issuer)}
	for _, s := range sections(binText) {
		head := strings.Fields(s.key)
		if len(head) < 2 {
			malformed("bins.txt", s.key)
		}
		lengths := cardLengths(head[len(head)-1])
		for _, w := range s.words {
			if head[0] == "scheme" {
				t.schemes = append(t.schemes, newScheme(head[1], w, lengths))
				continue
			}
			prefix, ok := number(w, 6)
			if !ok {
				malformed("bins.txt", w)
			}
			t.issuers[prefix] = issuer{head[0], t.issuers[prefix].lengths | lengths}
		}
	}
	return t
})

// cardLengths reads "16", "13,16,19" or "13-19".
func cardLengths(text string) (lengths uint32) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, found := strings.Cut(part, "-")
		if !found {
			high = low
		}
		from, err := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err != nil || err2 != nil || from < 12 || to > 19 || to < from {
			malformed("bins.txt", text)
		}
		for n := from; n <= to; n++ {
			lengths |= 1 << n
		}
	}
	return lengths
}

// newScheme reads a prefix ("62") or a range of prefixes ("2221-2720").
func newScheme(name, prefixes string, lengths uint32) scheme {
	low, high, found := strings.Cut(prefixes, "-")
	if !found {
		high = low
	}
	from, ok := number(low, len(low))
	to, ok2 := number(high, len(low))
	if !ok || !ok2 || to < from {
		malformed("bins.txt", prefixes)
	}
	return scheme{name: name, low: from, high: to, digits: len(low), lengths: lengths}
}

// CardBank returns the Chinese bank whose cards begin with the first six digits of a number, or "", and whether the number has as many
// digits as cards with that prefix usually have. Many true prefixes are not in the list.
func CardBank(digits string) (bank string, length bool) {
	if len(digits) < 6 {
		return "", false
	}
	prefix, ok := number(digits[:6], 6)
	if !ok {
		return "", false
	}
	found := loadCards().issuers[prefix]
	return found.bank, found.bank != "" && len(digits) <= 19 && found.lengths>>len(digits)&1 != 0
}

// CardScheme returns the card scheme ("unionpay", "visa") whose prefixes and numbers of digits a number fits, the longest prefix first,
// or "".
func CardScheme(digits string) string {
	if len(digits) < 12 || len(digits) > 19 {
		return ""
	}
	name, best := "", 0
	for _, s := range loadCards().schemes {
		if s.digits <= best || s.lengths>>len(digits)&1 == 0 {
			continue
		}
		if n, ok := number(digits[:s.digits], s.digits); ok && n >= s.low && n <= s.high {
			name, best = s.name, s.digits
		}
	}
	return name
}

var loadAreas = sync.OnceValue(func() map[string]string {
	t := make(map[string]string)
	for _, s := range sections(areaText) {
		t[s.words[0]] = strings.Join(s.words[1:], "、")
	}
	return t
})

// AreaCode returns the length of the mainland area code that a number begins with, its 0 included, and the cities that have it, or zeros.
func AreaCode(digits string) (n int, cities string) {
	for n = 3; n <= 4 && n <= len(digits); n++ {
		if cities = loadAreas()[digits[:n]]; cities != "" {
			return n, cities
		}
	}
	return 0, ""
}
