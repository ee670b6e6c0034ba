// Package ground is a leaf: it holds the sentences of an answer against the passages that it is made from.
//
// A sentence is supported if one passage has a span, one sentence or two neighbours, that shares enough of its words and denies where it denies, and if every
// number, date, name in Latin letters, quoted title and pseudonym of the sentence stands in that passage. A sentence that cites passages, such as [2] or [1, 3],
// must be supported by one of them. This looks at words: it finds what was made up, and figures that were changed, and no conclusion that says something else
// in the same words. It says no to a true sentence in words of its own. What a sentence denies is known of the whole of it, not of its clauses.
//
// Numbers are read in digits, with places behind them (3万), in Chinese numerals, in the formal ones of amounts (壹拾) and in English words up to twenty. A number in words
// of its own, such as a dozen or half, is none. What costs time goes with the length of the texts.
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

// MaxPassages is how much of all passages together is looked at, in bytes; behind it nothing bears anything out.
const MaxPassages = 512 << 10

// Checker holds sentences against passages. It is immutable and safe for concurrent use.
type Checker struct{ passages []passage }

type passage struct {
	folded string
	// letters are those and the digits alone, in one script.
	letters string
	values  map[string]bool // numbers, as plain digits
	terms   map[string]bool // of all spans
	titles  []string        // that stand in 《》, letters alone
	spans   []span
}

type span struct {
	terms    map[string]bool
	negative bool
}

// New returns a checker of passages, which sentences cite by their number, from 1.
func New(passages []string) *Checker {
	c, left := &Checker{passages: make([]passage, len(passages))}, MaxPassages
	for i, text := range passages {
		if len(text) > MaxPassage {
			text = strings.ToValidUTF8(text[:MaxPassage], "")
		}
		if left < len(text) {
			text = strings.ToValidUTF8(text[:left], "")
		}
		left -= len(text)
		p := passage{folded: fold(text), letters: lexical.Fold(text), values: map[string]bool{}, terms: words(text)}
		for _, m := range title.FindAllStringSubmatch(text, -1) {
			p.titles = append(p.titles, lexical.Fold(m[1]))
		}
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
			if k > 0 && p.spans[len(p.spans)-1].negative == negative(all[k-1]) { // else what one denies would be denied of the other
				p.spans = append(p.spans, newSpan(all[k-1]+" "+s))
			}
		}
		c.passages[i] = p
	}
	return c
}

func newSpan(text string) span { return span{words(text), negative(text)} }

// Result says what became of a sentence.
type Result struct {
	// Text is the sentence without its citations of passages that there are not, or, if it is supported, of those that do not bear it out.
	Text string
	// Empty: it says nothing that could be true or false, such as a line of a table's frame.
	Empty bool
	// Supported: passage Passage, from 1, bears it out.
	Supported bool
	Passage   int
	Cites     bool // it names passages itself
}

// citation is how answers cite: one passage, or a few.
var citation = regexp.MustCompile(`[\[【［]\d{1,3}(?:\s?[,，、;；]\s?\d{1,3}){0,7}[\]】］]`)

// maxCitation is the longest citation, in bytes.
const maxCitation = 80

// reference is a citation in a sentence.
type reference struct {
	from, to int
	numbers  []int
}

// references returns the citations of a sentence: what stands where they do, before punctuation, one another or the end. Elsewhere it is a number in brackets.
func references(sentence string) []reference {
	var out []reference
	at := citation.FindAllStringIndex(sentence, -1)
	for i := len(at) - 1; i >= 0; i-- {
		from, to := at[i][0], at[i][1]
		rest := strings.TrimLeftFunc(sentence[to:], unicode.IsSpace)
		after, _ := utf8.DecodeRuneInString(rest)
		before := len(out) > 0 && len(sentence)-len(rest) == out[len(out)-1].from
		if rest != "" && !before && !unicode.IsPunct(after) && after != '|' {
			continue
		}
		r := reference{from: from, to: to}
		for _, n := range digitRun.FindAllString(sentence[from:to], -1) {
			v, _ := strconv.Atoi(n) // three digits
			r.numbers = append(r.numbers, v)
		}
		out = append(out, r)
	}
	slices.Reverse(out)
	return out
}

var digitRun = regexp.MustCompile(`\d+`)

// citing returns a sentence whose references name only what holds; one that names nothing else goes, with the space before it.
func citing(sentence string, refs []reference, holds func(passage int) bool) string {
	var out strings.Builder
	done := 0
	for _, r := range refs {
		var kept []string
		for _, n := range r.numbers {
			if holds(n) {
				kept = append(kept, strconv.Itoa(n))
			}
		}
		text := sentence[done:r.from]
		switch len(kept) {
		case len(r.numbers):
			text = sentence[done:r.to]
		case 0:
			text = strings.TrimRight(text, " ")
		default:
			text += "[" + strings.Join(kept, ", ") + "]"
		}
		out.WriteString(text)
		done = r.to
	}
	return out.String() + sentence[done:]
}

// Check looks for support of a sentence.
func (c *Checker) Check(sentence string) Result {
	refs := references(sentence)
	claim, cited := sentence, map[int]bool{}
	for _, r := range slices.Backward(refs) {
		claim = claim[:r.from] + " " + claim[r.to:]
		for _, n := range r.numbers {
			cited[n] = true
		}
	}
	claim = withoutMark(claim)
	out := Result{Cites: len(refs) > 0, Text: citing(sentence, refs, func(n int) bool { return n >= 1 && n <= len(c.passages) })}
	if !strings.ContainsFunc(claim, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		out.Empty = true
		return out
	}
	have := words(claim)
	if len(have) == 0 {
		return out
	}
	need, no, best, least := needs(claim), negative(claim), 0.0, enough
	if len(have) <= 3 { // of so few words one makes another claim
		least = 1
	}
	holds := map[int]bool{}
	for i := range c.passages {
		if len(refs) > 0 && !cited[i+1] || !c.passages[i].hasAll(need) {
			continue
		}
		s := c.passages[i].support(have, no)
		if holds[i+1] = s >= least; holds[i+1] && s > best {
			best, out.Supported, out.Passage = s, true, i+1
		}
	}
	if out.Supported {
		out.Text = citing(sentence, refs, func(n int) bool { return holds[n] })
	}
	return out
}

// support returns the highest share of words, of which there are some, that a span has, among the spans that deny where the sentence does.
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
		best = max(best, float64(n)/float64(len(have)))
	}
	return best
}

// need is what a passage must have as it stands.
type need struct {
	values []string // plain digits
	names  []string // in Latin letters, folded
	first  string   // the stem of a first word, which may be a name; ""
	titles []string // letters alone
	texts  []string
}

var (
	bullet   = regexp.MustCompile(`^\s*(?:-\s|[*•>#]+)\s*`)
	listMark = regexp.MustCompile(`^\s*\(?\d{1,3}[.)、]\**`)
	title    = regexp.MustCompile(`《([^》]{1,80})》`)
	latin    = regexp.MustCompile(`[A-Za-z][A-Za-z0-9'’-]*`)
	quoted   = regexp.MustCompile(`“([^”]{1,80})”|「([^」]{1,80})」|⟦[^⟧]{1,80}⟧`)
)

// withoutMark returns a line without the bullet or the number of a list. What has nothing behind it, or a digit, is no number of a list.
func withoutMark(line string) string {
	line = bullet.ReplaceAllString(line, "")
	at := listMark.FindStringIndex(line)
	if at == nil {
		return line
	}
	rest := line[at[1]:]
	after, _ := utf8.DecodeRuneInString(rest)
	if unicode.IsNumber(after) || !strings.ContainsFunc(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return line
	}
	return rest
}

// needs returns what of a sentence must not be made up. The first word of a sentence is no name for its capital letter, but if it is a word at all, the
// passage has it in some form.
func needs(claim string) need {
	out := need{values: numbers(fold(claim))}
	for _, m := range title.FindAllStringSubmatch(claim, -1) {
		out.titles = append(out.titles, lexical.Fold(m[1]))
	}
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
		} else if first && unicode.IsUpper(rune(w[0])) && !slices.Contains(beginnings, fold(w)) {
			for stem := range words(w) {
				out.first = stem
			}
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
	if n.first != "" && !p.terms[n.first] {
		return false
	}
	for _, t := range n.titles {
		longer := slices.ContainsFunc(p.titles, func(of string) bool { return strings.Contains(of, t) })
		if !strings.Contains(p.letters, t) || longer && !slices.Contains(p.titles, t) {
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
	return strings.ToLower(plainNumerals.Replace(norm.NFKC.String(text)))
}

//nolint:gochecknoglobals // constant tables
var (
	plainNumerals  = strings.NewReplacer("萬", "万", "億", "亿", "兩", "两", "廿", "二十", "卅", "三十")
	formalNumerals = strings.NewReplacer("壹", "一", "贰", "二", "貳", "二", "叁", "三", "肆", "四", "伍", "五", "陆", "六", "陸", "六", "柒", "七", "捌", "八", "玖", "九",
		"拾", "十", "佰", "百", "仟", "千")
	// english are the numbers in words, from one.
	english = strings.Fields("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty")
	// beginnings are words that sentences begin with, and no names.
	beginnings = strings.Fields(`all also although any because before after both but during each either every here how however if in it its many most must no not of on once one only or
		other our please several she he so some such the their then there these they this those to under until upon we what when where whether which while who with within without yes you your
		according additionally based furthermore moreover note per since therefore thus a an and as at by for from that is are was can may`)
)

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
	// In this order, since the first that fits holds: shares, digits with their sign and places, Chinese numerals, English words.
	number = regexp.MustCompile(`([百千])分之(` + amount + `)|(` + han + `)分之(` + han + `)|(-|−|负|零下)?(\d+(?:,\d{3})*(?:\.\d+)?)([十百千万亿]{0,3})(\s?(?:%|percent\b|per cent\b))?|(` + han + `)|\b(` + strings.Join(english, "|") + `)\b`)
	// Numerals of amounts are ordinary ones where there are several, or where what is counted follows.
	formal = regexp.MustCompile(`[壹贰貳叁肆伍陆陸柒捌玖拾佰仟零]{2,}|[壹贰貳叁肆伍陆陸柒捌玖拾佰仟][万亿元圆个天日月年份]|[壹叁]`)
	// Words that have a numeral and mean no number.
	numberless = regexp.MustCompile(`一般|一定|一起|统一|万一|一些|一直|一样|一旦|一律|一并|一致|一切|一下|一边|同一|唯一|之一|进一步|一方面|一经|一概|一同|一体|单一|逐一|一站式|一网通办|十分[^钟之]|千万[不别要]|百姓|百货|千瓦|万能|四川|三亚|九江|六安`)
)

const (
	han    = `[零〇一二两三四五六七八九十百千万亿]+`
	amount = han + `(?:点` + han + `)?|\d+(?:\.\d+)?`
)

// numbers returns the numbers of a folded text as plain digits: with a minus, or with what they are a share of (5%, 1/3).
func numbers(text string) []string {
	text = numberless.ReplaceAllString(text, " ")
	text = formal.ReplaceAllStringFunc(text, formalNumerals.Replace)
	var out []string
	for _, at := range number.FindAllStringSubmatchIndex(text, -1) {
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		switch {
		case group(1) != "":
			out = append(out, decimal(group(2))+map[string]string{"百": "%", "千": "‰"}[group(1)])
		case group(3) != "":
			out = append(out, decimal(group(4))+"/"+decimal(group(3)))
		case group(6) != "":
			v := shift(strings.ReplaceAll(group(6), ",", ""), group(7))
			before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
			if sign := group(5); sign != "" && (sign != "-" || !unicode.IsDigit(before) && (before > utf8.RuneSelf || !unicode.IsLetter(before))) { // 3-5 and b-12 have none
				v = "-" + v
			}
			if group(8) != "" {
				v += "%"
			}
			out = append(out, v)
		case group(9) != "":
			if run := group(9); !strings.Contains("百千万亿", run) { // alone they are a unit, or part of a word
				out = append(out, decimal(run))
			}
		default:
			out = append(out, strconv.Itoa(slices.Index(english, group(10))+1))
		}
	}
	return out
}

// decimal reads a number in numerals, which may have a point, or in digits. What cannot be read stands for itself.
func decimal(text string) string {
	whole, part, point := strings.Cut(text, "点")
	v, ok := numeral(whole)
	if !ok {
		if whole != "" && unicode.IsDigit(rune(whole[0])) {
			return shift(text, "")
		}
		return text
	}
	if !point {
		return v
	}
	for _, r := range part {
		d, _ := numeral(string(r))
		v += map[bool]string{true: "", false: "."}[strings.Contains(v, ".")] + d
	}
	return shift(v, "")
}

// shift multiplies digits by the places behind them, such as 千万, and leaves out zeros that say nothing.
func shift(digits, places string) string {
	whole, part, _ := strings.Cut(digits, ".")
	for _, r := range places {
		for range map[rune]int{'十': 1, '百': 2, '千': 3, '万': 4, '亿': 8}[r] {
			if part == "" {
				part = "0"
			}
			whole, part = whole+part[:1], part[1:]
		}
	}
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		whole = "0"
	}
	if part = strings.TrimRight(part, "0"); part != "" {
		return whole + "." + part
	}
	return whole
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
	if run == "" || strings.ContainsFunc(run, func(r rune) bool { return digit(r) < 0 && !strings.ContainsRune("十百千万亿", r) }) {
		return "", false
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
		if unicode.IsDigit(first) || strings.Trim(string(term), "零〇一二两三四五六七八九十百千万亿") == "" { // see numbers
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
	denial = regexp.MustCompile(`(?i)\b(?:not|no|never|neither|nor|without|cannot|none|prohibit\w*|forb[ai]d\w*|refus\w*|reject\w*|unable|den(?:y|ies|ied)|ban(?:s|ned)?)\b|n['’]t\b|不|没|无|未|勿|非|禁止|严禁|拒绝|谢绝`)
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
			cited, whole := citationAt(rest, size)
			if cited == 0 {
				return n, whole // else the rest of the citation may be on its way
			}
			n += cited
		default:
			return n, true
		}
	}
	return n, false
}

// citationAt returns the length of the citation that a text begins with, whose bracket has some bytes; 0 if it has none. It is whole if no more text changes that.
func citationAt(text string, bracket int) (n int, whole bool) {
	for i, r := range text[bracket:] {
		i += bracket
		switch {
		case i > maxCitation:
			return 0, true
		case strings.ContainsRune("]】］", r):
			end := i + utf8.RuneLen(r)
			if at := citation.FindStringIndex(text[:end]); at != nil && at[0] == 0 && at[1] == end {
				return end, true
			}
			return 0, true
		case unicode.IsDigit(r), unicode.IsSpace(r), strings.ContainsRune(",，、;；", r):
		default:
			return 0, true
		}
	}
	return 0, len(text) > maxCitation
}
