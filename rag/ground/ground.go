// Package ground is a leaf: it holds the sentences of an answer against the passages that it is made from.
//
// A sentence is supported if one passage has a span, one sentence or two neighbours, that shares enough of its words, and if every number, date, name in Latin
// letters, quoted title and pseudonym of the sentence stands in that passage. A sentence that cites passages, such as [2], must be supported by one of them. This
// looks at words: it finds what was made up, and figures that were changed, and no conclusion that says something else in the same words. It says no to a
// true sentence in words of its own.
package ground

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/rag/lexical"
)

// enough is the share of a sentence's words that a span must have.
const enough = 0.55

// MaxPassage is how much of a passage is looked at, in bytes.
const MaxPassage = 32 << 10

// Checker holds sentences against passages. It is immutable and safe for concurrent use.
type Checker struct{ passages []passage }

type passage struct {
	folded string
	// letters are those and the digits alone, in one script.
	letters string
	values  map[string]bool // numbers, as plain digits
	spans   []span
}

type span struct {
	terms    map[string]bool
	negative bool
}

// New returns a checker of passages, which sentences cite by their number, from 1.
func New(passages []string) *Checker {
	c := &Checker{passages: make([]passage, len(passages))}
	for i, text := range passages {
		if len(text) > MaxPassage {
			text = strings.ToValidUTF8(text[:MaxPassage], "")
		}
		p := passage{folded: fold(text), letters: lexical.Fold(text), values: map[string]bool{}}
		for _, v := range numbers(p.folded) {
			p.values[v] = true
		}
		var all []string
		for rest := text; rest != ""; {
			n := End(rest)
			if n == 0 {
				n = len(rest)
			}
			all = append(all, rest[:n])
			rest = rest[n:]
		}
		for k, s := range all {
			p.spans = append(p.spans, newSpan(s))
			if k+1 < len(all) {
				p.spans = append(p.spans, newSpan(s+" "+all[k+1]))
			}
		}
		c.passages[i] = p
	}
	return c
}

func newSpan(text string) span { return span{words(text), negative(text)} }

// Result says what became of a sentence.
type Result struct {
	// Empty: it says nothing that could be true or false, such as a line of a table's frame.
	Empty bool
	// Supported: passage Passage, from 1, bears it out.
	Supported bool
	Passage   int
	Cites     bool // it names passages itself
}

// citation is how answers cite.
var citation = regexp.MustCompile(`[\[【［](\d{1,3})[\]】］]`)

// Check looks for support of a sentence.
func (c *Checker) Check(sentence string) Result {
	var cited []int
	for _, m := range citation.FindAllStringSubmatch(sentence, -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		cited = append(cited, n)
	}
	claim := citation.ReplaceAllString(sentence, " ")
	out := Result{Cites: len(cited) > 0}
	if !strings.ContainsFunc(claim, func(r rune) bool { return unicode.IsLetter(r) }) && len(numbers(fold(listMark.ReplaceAllString(claim, "")))) == 0 {
		out.Empty = true
		return out
	}
	need, have := needs(claim), words(claim)
	no, best, least := negative(claim), 0.0, enough
	if len(have) <= 3 { // of so few words one makes another claim
		least = 1
	}
	for i := range c.passages {
		if len(cited) > 0 && !slices.Contains(cited, i+1) || !c.passages[i].hasAll(need) {
			continue
		}
		if s := c.passages[i].support(have, no); s >= least && s > best {
			best, out.Supported, out.Passage = s, true, i+1
		}
	}
	return out
}

// support returns the highest share of words that a span has, among the spans that deny where the sentence does.
func (p *passage) support(have map[string]bool, no bool) float64 {
	best := 0.0
	for _, s := range p.spans {
		if no != s.negative {
			continue
		}
		n := 0
		for w := range have {
			if s.terms[w] {
				n++
			}
		}
		if len(have) > 0 {
			best = max(best, float64(n)/float64(len(have)))
		}
	}
	return best
}

// need is what a passage must have as it stands.
type need struct {
	values []string // plain digits
	names  []string // in Latin letters, folded
	texts  []string
}

var (
	listMark = regexp.MustCompile(`^\s*(?:[-*•>#]+|\(?\d{1,3}[.)、])\s*`)
	latin    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9'’-]*`)
	quoted   = regexp.MustCompile(`《([^》]{1,80})》|“([^”]{1,80})”|「([^」]{1,80})」|⟦[^⟧]{1,80}⟧`)
)

// needs returns what of a sentence must not be made up. The first word of a sentence is no name for its capital letter.
func needs(claim string) need {
	claim = listMark.ReplaceAllString(claim, "")
	out := need{values: numbers(fold(claim))}
	for _, m := range quoted.FindAllStringSubmatch(claim, -1) {
		for _, inner := range m[1:] {
			if inner != "" {
				out.texts = append(out.texts, inner)
			}
		}
		if strings.HasPrefix(m[0], "⟦") {
			out.texts = append(out.texts, m[0])
		}
	}
	for _, at := range latin.FindAllStringIndex(claim, -1) {
		w := claim[at[0]:at[1]]
		inside := strings.IndexFunc(w[1:], unicode.IsUpper) >= 0 || strings.ContainsFunc(w, unicode.IsDigit)
		first := !strings.ContainsFunc(claim[:at[0]], unicode.IsLetter)
		if w != "I" && (inside || !first && unicode.IsUpper(rune(w[0]))) {
			out.names = append(out.names, fold(strings.TrimSuffix(strings.TrimSuffix(w, "'s"), "’s")))
		}
	}
	return out
}

func (p *passage) hasAll(n need) bool {
	for _, v := range n.values {
		if !p.values[v] {
			return false
		}
	}
	for _, name := range n.names {
		if !within(p.folded, name) {
			return false
		}
	}
	for _, t := range n.texts {
		if !strings.Contains(p.letters, lexical.Fold(t)) {
			return false
		}
	}
	return true
}

// fold makes texts that differ in case and width equal.
func fold(text string) string {
	return strings.ToLower(strings.NewReplacer("萬", "万", "億", "亿", "兩", "两").Replace(norm.NFKC.String(text)))
}

// within reports whether a text has a name as a whole word, where its ends are Latin letters or digits.
func within(text, name string) bool {
	plain := func(r rune) bool { return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	for from := 0; ; {
		i := strings.Index(text[from:], name)
		if i < 0 || name == "" {
			return name == ""
		}
		begin, end := from+i, from+i+len(name)
		before, _ := utf8.DecodeLastRuneInString(text[:begin])
		after, _ := utf8.DecodeRuneInString(text[end:])
		firstRune, _ := utf8.DecodeRuneInString(name)
		lastRune, _ := utf8.DecodeLastRuneInString(name)
		if !(plain(before) && plain(firstRune)) && !(plain(after) && plain(lastRune)) {
			return true
		}
		from = begin + 1
	}
}

var (
	digits = regexp.MustCompile(`\d+(?:[,，]\d{3})*(?:\.\d+)?`)
	// A run of Chinese numerals is a number if it is longer than one, or if a unit follows.
	numerals = regexp.MustCompile(`[零〇一二两三四五六七八九十百千万亿]+`)
)

// counted are units after which one numeral is a number, too.
const counted = "年月日号天元岁条倍楼届"

// numbers returns the numbers of a folded text as plain digits.
func numbers(text string) []string {
	var out []string
	for _, m := range digits.FindAllString(text, -1) {
		m = strings.NewReplacer(",", "", "，", "").Replace(m)
		if whole, part, ok := strings.Cut(m, "."); ok { // 5.50 is 5.5
			if part = strings.TrimRight(part, "0"); part == "" {
				m = whole
			} else {
				m = whole + "." + part
			}
		}
		if m = strings.TrimLeft(m, "0"); m == "" || m[0] == '.' {
			m = "0" + m
		}
		out = append(out, m)
	}
	for _, at := range numerals.FindAllStringIndex(text, -1) {
		run := text[at[0]:at[1]]
		after, _ := utf8.DecodeRuneInString(text[at[1]:])
		if utf8.RuneCountInString(run) == 1 && !strings.ContainsRune(counted, after) {
			continue
		}
		if v, ok := numeral(run); ok {
			out = append(out, v)
		}
	}
	return out
}

// numeral reads Chinese numerals: with places (三百二十), or digit by digit (二〇二四).
func numeral(run string) (string, bool) {
	const ones = "零一二三四五六七八九"
	digit := func(r rune) int {
		switch r {
		case '〇':
			return 0
		case '两':
			return 2
		}
		if i := strings.IndexRune(ones, r); i >= 0 {
			return utf8.RuneCountInString(ones[:i])
		}
		return -1
	}
	if !strings.ContainsAny(run, "十百千万亿") {
		out := ""
		for _, r := range run {
			out += strconv.Itoa(digit(r))
		}
		if out = strings.TrimLeft(out, "0"); out == "" {
			out = "0"
		}
		return out, true
	}
	var total, section, now int64
	seen := false // a digit is waiting for its place
	for _, r := range run {
		if d := digit(r); d >= 0 {
			now, seen = int64(d), true
			continue
		}
		switch place := map[rune]int64{'十': 10, '百': 100, '千': 1000, '万': 1e4, '亿': 1e8}[r]; {
		case place < 1e4:
			if !seen {
				now = 1
			}
			section += now * place
		case place == 1e4:
			total += (section + now) * place
			section = 0
		default:
			total = (total + section + now) * place
			section = 0
		}
		if now, seen = 0, false; total > 1e9*1e4 || section > 1e6 { // more is written in digits, and would not fit after some more places
			return "", false
		}
	}
	if total += section + now; total == 0 {
		return "", false // 千万 and its like are words
	}
	return strconv.FormatInt(total, 10), true
}

// words returns the words of a text that say something: words of more than two letters or digits, pairs of Han characters.
func words(text string) map[string]bool {
	out := map[string]bool{}
	lexical.EachTerm(text, func(term []byte) {
		n := utf8.RuneCount(term)
		first, _ := utf8.DecodeRune(term)
		if unicode.IsDigit(first) { // see numbers
			return
		}
		if first < utf8.RuneSelf && n > 2 && !common(string(term)) || first >= utf8.RuneSelf && n > 1 {
			out[string(term)] = true
		}
	})
	return out
}

// common are English words that every sentence has; terms are stems.
func common(stem string) bool {
	switch stem {
	case "the", "and", "for", "are", "was", "were", "that", "this", "with", "has", "have", "had", "its", "you", "your", "from", "will", "can", "may", "which", "there", "their", "they", "been", "also", "into", "than":
		return true
	}
	return false
}

var (
	denial = regexp.MustCompile(`(?i)\b(?:not|no|never|neither|nor|without|cannot|none)\b|n['’]t\b|不|没|无|未|勿|非|禁止`)
	// What looks like a denial in Chinese and is none.
	affirmed = regexp.MustCompile(`不同|不仅|不但|不断|不少|不过|不论|不管|不妨|不久|无论|未来|非常|除非|是不是|能不能|不动产|无障碍`)
)

func negative(text string) bool { return denial.MatchString(affirmed.ReplaceAllString(text, " ")) }

// End returns where the first sentence of a text ends, with its citations and the white space behind it, in bytes; 0 if it may go on. A line is a sentence.
func End(text string) int {
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			continue
		}
		switch r {
		case '\n':
			return next
		case '。', '！', '？', '!', '?', '；', '.':
			rest := text[next:]
			if rest == "" {
				return 0
			}
			after, _ := utf8.DecodeRuneInString(rest)
			if r == '.' || r == '!' || r == '?' {
				if !unicode.IsSpace(after) && !strings.ContainsRune("[【［\"”’)", after) {
					continue
				}
				if r == '.' && abbreviated(text[:i]) {
					continue
				}
			}
			n, done := tail(rest)
			if !done {
				return 0
			}
			return next + n
		}
	}
	return 0
}

// abbreviated reports whether a point behind a text is no end: the number of a list, or one letter.
func abbreviated(text string) bool {
	last := text[strings.LastIndexFunc(text, unicode.IsSpace)+1:]
	_, err := strconv.Atoi(last)
	return err == nil && strings.TrimSpace(text) == last || len(last) == 1 && unicode.IsLetter(rune(last[0])) || slices.Contains([]string{"Mr", "Mrs", "Ms", "Dr", "No", "e.g", "i.e", "St", "vs"}, last)
}

// tail returns how much of a text still belongs to the sentence before it: closing quotes, citations, space. It is done if something else follows.
func tail(text string) (n int, done bool) {
	for n < len(text) {
		rest := text[n:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == '\n':
			return n + size, true
		case unicode.IsSpace(r) || strings.ContainsRune("\"”’」》)）", r):
			n += size
		case strings.ContainsRune("[【［", r):
			at := citation.FindStringIndex(rest)
			if at == nil || at[0] != 0 {
				return n, len(rest) > 12 // else the rest of the citation may be on its way
			}
			n += at[1]
		default:
			return n, true
		}
	}
	return n, false
}
