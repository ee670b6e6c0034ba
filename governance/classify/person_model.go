package classify

import (
	_ "embed" // the weights
	"strconv"
	"strings"
	"sync"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// The model judges a surname and a given name by what is general about names: how usual their characters are in names, how well ordinary words
// explain the same characters together with their neighbours, and what kinds of words and marks stand on either side. Each of these
// observations is one of a few values, and each value has a weight that was fitted (see TestFitNames); the sum is the logarithm of the odds.

// How far the model looks at words.
const (
	wordsLeft  = 4
	wordsRight = 8
)

// lattice is the Chinese text around a start with all words in it, and the cheapest ways through it from either end.
type lattice struct {
	r          [wordsLeft + wordsRight]rune
	n, origin  int
	words      [wordsLeft + wordsRight][4]lexicon.WordCost
	to, from   [wordsLeft + wordsRight + 1]int   // what the words up to here cost, and those from here on
	last, next [wordsLeft + wordsRight + 1]uint8 // length of the last word up to here, and of the first one from here on
}

// fill reads the text around the start. It is ready unless n.open is set.
func (l *lattice) fill(n *namer) {
	left := 0
	for left < wordsLeft && isHan(n.w.at(n.start-left-1)) && n.start-left > n.w.named.end {
		left++
	}
	l.origin, l.n = left, 0
	for k := n.start - left; l.n < left+wordsRight; k++ {
		r := n.cell(k)
		if !isHan(r) {
			break
		}
		l.r[l.n] = r
		l.n++
	}
	if n.open {
		return
	}
	for i := range l.n {
		lexicon.WordCosts(l.r[i:l.n], &l.words[i])
	}
	for i := 1; i <= l.n; i++ {
		l.to[i] = 1 << 20
		for size := 1; size <= min(4, i); size++ {
			w := l.words[i-size][size-1]
			if c := l.to[i-size] + int(w.Cost); w.Part != 0 && c < l.to[i] {
				l.to[i], l.last[i] = c, uint8(size)
			}
		}
	}
	l.from[l.n] = 0
	for i := l.n - 1; i >= 0; i-- {
		l.from[i] = 1 << 20
		for size := 1; size <= min(4, l.n-i); size++ {
			w := l.words[i][size-1]
			if c := l.from[i+size] + int(w.Cost); w.Part != 0 && c < l.from[i] {
				l.from[i], l.next[i] = c, uint8(size)
			}
		}
	}
}

// observation is one value of a feature, as the index of its weight.
type observation uint16

// feature is a group of observations.
type feature uint8

// The features. Widths are how many values each has.
const (
	fRatio   feature = iota // the words of the place against the name, by length of the given name and by what bounds it
	fName                   // how usual the name is, by length
	fSurname                // what the surname is as a word
	fExact                  // the name is a word
	fGiven                  // the given name is a word
	fLeft                   // mark or word before
	fRight                  // mark or word behind
	fBoth                   // both, roughly
	fCueLeft
	fCueRight
	fNear   // numbers, sex and the like behind
	fTier   // the rarest character of the given name
	fSizes  // lengths of the words on either side
	fCross  // a word crosses the left, the right end
	fPrev   // the character before
	fNext   // the character behind
	fHead   // the beginning of the name is a word
	fFirst  // the surname
	fLast   // the last character
	fFixed  // a fixed term or a label begins with it
	fTitle  // the title, and what stands behind it
	fAround // who was named and what numbers stood before
	fSpaced // blanks in the name: where, what words its parts are and whether one goes on behind it
	fPart   // what part of speech the name is as a word, and whether people are known to be called so
	features
)

var widths = [features]int{24 * 4 * 4, 16 * 5, 32, 8, 8, 64, 64, 196, 24, 16, 16, 32, 16, 16, hanLast - hanFirst + 1, hanLast - hanFirst + 1, 8, hanLast - hanFirst + 1, hanLast - hanFirst + 1, 8, 64, 32, 256, 96} //nolint:gochecknoglobals // a constant table

// observed is what was seen of one candidate.
type observed struct {
	ids [features]observation
}

func clamp(v, low, high int) int { return min(max(v, low), high) }

// form is what a candidate consists of.
type form uint8

const (
	oneGiven  form = iota // a surname and one character
	twoGiven              // a surname and two
	nickname              // 小, 老 or 阿 and a surname
	addressed             // a surname, behind which a title stands
	forms
)

// shape is a candidate.
type shape struct {
	size, total int // characters of the surname, of all
	form        form
	title       int  // cells behind it that a title takes up, with a blank before it
	kind        rank // of the title behind the surname
}

func (c *shape) end(h *hanRun) int { return h.at[c.total-1] + 1 }

func (c *shape) spaced(h *hanRun) bool { return h.at[c.total-1]-h.at[0] != c.total-1 }

// cost is what the name costs as a name.
func (c *shape) cost(h *hanRun) int {
	sum := 0
	switch {
	case c.form == nickname:
		sum = 10
		if h.r[0] == '阿' {
			return sum + 4 + min(lexicon.NameCost(h.r[1], lexicon.AsSurname), lexicon.NameCost(h.r[1], lexicon.AsSingle))
		}
		return sum + lexicon.NameCost(h.r[1], lexicon.AsSurname)
	case c.size == 2:
		sum = 26
	default:
		sum = lexicon.NameCost(h.r[0], lexicon.AsSurname)
	}
	switch c.form {
	case addressed:
		return sum + 6
	case oneGiven:
		return sum + lexicon.NameCost(h.r[c.size], lexicon.AsSingle)
	}
	a, b := lexicon.NameCost(h.r[c.size], lexicon.AsFirst), lexicon.NameCost(h.r[c.size+1], lexicon.AsSecond)
	if h.r[c.size] == h.r[c.size+1] {
		b = min(b, 8)
	}
	return sum + a + b
}

// shapes lists the candidates at the start.
func (n *namer) shapes(h *hanRun, out []shape) []shape {
	n.gather(h, 6)
	if n.open || n.plain(h) {
		return nil
	}
	first := n.t.first(h.r[0])
	long := first&mayCompound != 0 && h.n >= 2 && n.t.compound(h.r[0], h.r[1]) != 0
	if first&mayNick != 0 && h.n >= 2 && n.t.compound(h.r[1], n.cell(h.at[1]+1)) == 0 {
		out = n.fitting(h, out, shape{size: 1, total: 2, form: nickname})
	}
	for size := 1; size <= 2; size++ {
		if size == 1 && first&isSurname == 0 || size == 2 && !long {
			continue
		}
		length, kind := n.titleAt(h.at[size-1] + 1)
		if length > 0 {
			out = n.fitting(h, out, shape{size: size, total: size, form: addressed, title: length, kind: kind})
		}
		for total := size + 1; total <= min(size+2, h.n); total++ {
			out = n.fitting(h, out, shape{size: size, total: total, form: form(total - size - 1), kind: kind})
		}
	}
	return out
}

// plain tells most of ordinary text at the price of a lookup: a usual word begins here, in the middle of other words and without a cue.
func (n *namer) plain(h *hanRun) bool {
	if !isHan(n.w.at(n.start-1)) || n.w.named.end == n.start {
		return false
	}
	var w [4]lexicon.WordCost
	lexicon.WordCosts(h.r[:min(h.n, 4)], &w)
	for size := 2; size <= 4; size++ {
		if w[size-1].Part != 0 && w[size-1].Cost <= usual {
			return !n.left().cued()
		}
	}
	return false
}

// usual is what a usual word costs at most: one in sixty thousand.
const usual = 27

// fitting adds a candidate unless it is out of the question.
func (n *namer) fitting(h *hanRun, out []shape, c shape) []shape {
	if c.form <= twoGiven && h.r[c.size] == '某' || !n.affordable(c.cost(h)) || c.spaced(h) && !n.joined(h, c.total) {
		return out
	}
	n.words()
	if n.fixed >= c.total+c.title && (n.label || !n.left().why.any(labelBefore|titled)) {
		return out
	}
	return append(out, c)
}

// titleAt returns how many cells a title at k takes up, a blank before it among them.
func (n *namer) titleAt(k int) (length int, kind rank) {
	blank := 0
	if r := n.cell(k); r == ' ' || r == '\n' {
		blank = 1
	}
	if r := n.cell(k + blank); !isHan(r) || r == '某' {
		return 0, 0
	}
	length, kind = n.t.behind(n, k+blank)
	if kind&isAlone == 0 {
		return 0, 0
	}
	return length + blank, kind
}

// markOf tells what stands at a cell as a mark: 0 for none, the edge of the text first.
func markOf(r rune) int {
	switch {
	case r == edge:
		return 1
	case r == '\n':
		return 2
	case isDigit(r):
		return 3
	case isLetter(r):
		return 4
	}
	for k, m := range [...]rune{' ', ':', ',', '。', '、', ';', '(', ')', '“', '”', '"', '/', '|', '\t', '-', '_', '.', '!', '?', '·', '[', ']', '【', '】', '《', '》', '=', '@', '→', '>', '&', '~', '…', '—'} {
		if r == m {
			return 5 + k
		}
	}
	return 39
}

// rough joins marks into a few.
func rough(m int) int {
	switch m {
	case 1, 2:
		return 0
	case 3:
		return 1
	case 4:
		return 2
	case 5, 18:
		return 3 // blank, tab
	case 6:
		return 4 // colon
	case 7, 8, 10, 22, 23, 42:
		return 5 // comma, full stop
	case 9, 16, 17:
		return 6 // list
	case 11, 12, 25, 26, 27, 28, 13, 14, 15:
		return 7 // brackets, quotes
	}
	return 8
}

func roughPart(p uint8) int {
	switch p {
	case 'v', 'w':
		return 10
	case 'p', 'c', 'd', 'u':
		return 11
	case 'n', 'z', 's', 'N':
		return 12
	case 'm', 'q', 't', 'r', 'f':
		return 13
	}
	return 9
}

const partLetters = "abcdfimnpqrstuvwxyzN"

func partIndex(p uint8) int {
	for i := range len(partLetters) {
		if partLetters[i] == p {
			return i
		}
	}
	return len(partLetters)
}

// observe looks at a candidate.
func (n *namer) observe(l *lattice, h *hanRun, c *shape, o *observed) {
	size, total := c.size, c.total
	end := c.end(h)
	set := func(f feature, v int) { o.ids[f] = observation(clamp(v, 0, widths[f]-1)) }
	left, right := n.left(), n.right(end)
	lr, rr := n.w.at(n.start-1), n.cell(end)
	name := c.cost(h)
	spaced := c.spaced(h)
	ratio := 0
	e := l.origin + total
	held := left.size >= 2 && left.why.any(labelBefore|titled|cueBefore) // a cue ends before: no word goes on into the name
	switch {
	case !spaced && held:
		ratio = l.from[l.origin] - l.from[e] - name
	case !spaced:
		ratio = l.to[l.n] - l.to[l.origin] - l.from[e] - name
	default:
		ratio = h.against(total) - name
	}
	bound := 0
	if !isHan(lr) {
		bound |= 1
	}
	if !isHan(rr) {
		bound |= 2
	}
	set(fRatio, (clamp(ratio/4+14, 0, 23)*4+int(c.form))*4+bound)
	kind := int(c.form)
	if size == 2 && c.form <= twoGiven {
		kind = 4
	}
	set(fName, clamp((name-14)/3, 0, 15)*5+kind)
	tier := n.tierOf(h, size)
	if c.form == nickname {
		tier = n.t.surname(h.r[1])
	}
	v := tier
	switch {
	case size == 2:
		v = 5
	case n.distinct():
		v += 6
	case n.wordy():
		v += 12
	}
	set(fSurname, v)
	exact := h.word(0, total)
	set(fExact, exact)
	if exact > 0 && total > 1 {
		v := 1 + partIndex(h.part(total))
		if lexicon.FullNameWord(h.r[:total]) == total {
			v += 24
		}
		if left.why.any(labelBefore | titled) {
			v += 48
		}
		set(fPart, v)
	}
	if c.form == twoGiven {
		set(fGiven, h.word(size, 2))
		set(fHead, h.word(0, 2))
	}
	cross := 0
	if lr == ' ' || lr == '\n' {
		if n.pair(n.w.at(n.start-2), h.r[0]) {
			cross |= 4
		}
	}
	if rr == ' ' || rr == '\n' {
		if n.pair(h.r[total-1], n.cell(end+1)) {
			cross |= 8
		}
	}
	if !spaced {
		if l.origin > 0 && !held && l.words[l.origin-1][1].Part != 0 {
			cross |= 1
		}
		if e < l.n && !right.strong && l.words[e-1][1].Part != 0 {
			cross |= 2
		}
	}
	set(fCross, cross)
	var a, b, ra, rb int
	switch {
	case n.w.named.end == n.start && n.w.named.end > n.w.named.start:
		a, ra = 62, 9
	case isHan(lr):
		w := int(l.last[l.origin])
		a = 40 + partIndex(l.words[l.origin-w][w-1].Part)
		ra = roughPart(l.words[l.origin-w][w-1].Part)
	default:
		a = markOf(lr)
		ra = rough(a)
	}
	if isHan(rr) {
		rb = 9
		if !spaced && e < l.n {
			b = 40 + partIndex(l.words[e][l.next[e]-1].Part)
			rb = roughPart(l.words[e][l.next[e]-1].Part)
		} else {
			b = 61
		}
	} else {
		b = markOf(rr)
		rb = rough(b)
	}
	set(fLeft, a)
	set(fRight, b)
	set(fBoth, ra*14+rb)
	if isHan(lr) {
		set(fPrev, int(lr)-hanFirst+1)
	} else if j, _ := n.skipLeft(); j > 0 && j < n.start && isHan(n.w.at(j-1)) {
		set(fPrev, int(n.w.at(j-1))-hanFirst+1)
	}
	if isHan(rr) {
		set(fNext, int(rr)-hanFirst+1)
	}
	cue := 0
	switch {
	case left.why.any(labelBefore) && left.strong:
		cue = 1
	case left.why.any(labelBefore):
		cue = 2
	case left.why.any(titled) && left.suffix:
		cue = 3
	case left.why.any(titled):
		cue = 4
	case left.why.any(cueBefore) && left.suffix:
		cue = 5
	case left.why.any(cueBefore) && left.weak:
		cue = 6
	case left.why.any(cueBefore):
		cue = 7
	case left.why.any(nearby):
		cue = 8
	}
	if left.delimited {
		cue += 10
	}
	set(fCueLeft, cue)
	cue = 0
	switch {
	case right.place:
		cue = 1
	case right.why.any(honorific):
		cue = 2
	case right.why.any(cueBehind) && right.strong:
		cue = 3
	case right.why.any(cueBehind):
		cue = 4
	case right.why.any(bounded):
		cue = 5
	}
	set(fCueRight, cue)
	near := 0
	if right.why.any(nearby) {
		near = 1
	}
	if spaced {
		near += 2
	}
	switch rr {
	case '、', ',', '/', ' ', '\n', '和', '与', '|', ';':
		if isHan(n.cell(end+1)) && n.nameAt(end+1) {
			near += 4
		}
	}
	if n.w.met(h.r[:total]) {
		near += 8
	}
	set(fNear, near)
	set(fAround, n.around())
	if spaced {
		set(fSpaced, n.gaps(h, c, rr))
	}
	set(fFirst, int(h.r[0])-hanFirst+1)
	set(fLast, int(h.r[total-1])-hanFirst+1)
	n.words()
	switch {
	case n.fixed >= total && n.label:
		set(fFixed, 1)
	case n.fixed > total:
		set(fFixed, 2)
	case n.fixed == total:
		set(fFixed, 3)
	case n.fixed >= 2:
		set(fFixed, 4)
	case n.word > total:
		set(fFixed, 5)
	case n.word == total:
		set(fFixed, 6)
	case n.word >= 2:
		set(fFixed, 7)
	}
	if c.form <= twoGiven {
		low, double := n.givenTier(h, size, total)
		if double {
			low = 4
		}
		set(fTier, low*2+int(c.form))
	} else {
		set(fTier, 12+int(c.form))
	}
	if c.form == addressed {
		v := 1 + n.behindTitle(end+c.title)
		if c.kind&isPolite != 0 {
			v += 16
		}
		if c.title > 1 {
			v += 32
		}
		set(fTitle, v)
	}
	if !spaced {
		sizes := 0
		if isHan(lr) {
			sizes = int(min(l.last[l.origin], 3))
		}
		if isHan(rr) && e < l.n {
			sizes += 4 * int(min(l.next[e], 3))
		}
		set(fSizes, sizes)
	}
}

// pair reports whether two characters are a word.
func (n *namer) pair(a, b rune) bool {
	if !isHan(a) || !isHan(b) {
		return false
	}
	var w [4]lexicon.WordCost
	r := [2]rune{a, b}
	lexicon.WordCosts(r[:], &w)
	return w[1].Part != 0
}

// word tells how usual a word of so many characters of the run is, 0 if it is none.
func (h *hanRun) word(at, length int) int {
	if at+length > h.n {
		return 0
	}
	var w [4]lexicon.WordCost
	lexicon.WordCosts(h.r[at:at+length], &w)
	if w[length-1].Part == 0 {
		return 0
	}
	return 1 + clamp((int(w[length-1].Cost)-14)/3, 0, 6)
}

// around tells how far before somebody was named, and how long the longest number is in the 24 cells before.
func (n *namer) around() int {
	v := 0
	if n.w.named.end > n.w.named.start {
		switch far := n.start - n.w.named.end; {
		case far <= 12:
			v = 1
		case far <= 40:
			v = 2
		default:
			v = 3
		}
	}
	run, most := 0, 0
	for k := max(n.start-24, 0); k < n.start; k++ {
		if !isDigit(n.w.cells[k].r) {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	switch {
	case most >= 11:
		v += 16
	case most >= 7:
		v += 12
	case most >= 4:
		v += 8
	case most >= 1:
		v += 4
	}
	return v
}

// gaps tells how the blanks in a name lie.
func (n *namer) gaps(h *hanRun, c *shape, behind rune) int {
	v, parts := 0, 1
	for k := 1; k < c.total; k++ {
		if h.blanks[k] {
			parts++
			v = min(k, 3)
			if size := n.wordAt(h.at[k]); size >= 2 {
				v |= 8
				if size > c.total-k {
					v |= 16
				}
			}
			if _, cue := n.t.behind(n, h.at[k]); cue != 0 {
				v |= 32
			}
			if n.nameAt(h.at[k]) {
				v |= 64
			}
		}
	}
	if parts == c.total {
		v |= 4
	}
	if isHan(behind) {
		v |= 128
	}
	return v
}

// part returns the part of speech of the word of the first characters.
func (h *hanRun) part(length int) uint8 {
	var w [4]lexicon.WordCost
	lexicon.WordCosts(h.r[:length], &w)
	return w[length-1].Part
}

// against is what the best words cost that cover the run, less what those behind its first total characters cost: blanks do not count.
func (h *hanRun) against(total int) int {
	var words [6][4]lexicon.WordCost
	var from [7]int
	for i := h.n - 1; i >= 0; i-- {
		lexicon.WordCosts(h.r[i:h.n], &words[i])
		from[i] = 1 << 20
		for size := 1; size <= min(4, h.n-i); size++ {
			if w := words[i][size-1]; w.Part != 0 {
				from[i] = min(from[i], int(w.Cost)+from[i+size])
			}
		}
	}
	return from[0] - from[total]
}

// behindTitle tells roughly what stands behind a title.
func (n *namer) behindTitle(k int) int {
	r := n.cell(k)
	if !isHan(r) {
		return rough(markOf(r))
	}
	over := n.wordAt(k - 1) // 李经理论
	if over >= 2 {
		return 13
	}
	if _, c := n.t.behind(n, k); c&isPlace != 0 {
		return 12
	} else if c != 0 {
		return 11
	}
	if n.wordAt(k) >= 2 {
		return 10
	}
	return 9
}

// What a name may cost at most in halves of nats: behind a label of names, nearly anything.
const (
	costliest = 58
	labelled  = 120
)

func (n *namer) affordable(cost int) bool {
	return cost <= costliest || cost <= labelled && n.left().strong && n.left().delimited
}

// enough is from which odds on a candidate is a name, in hundredths of a logit.
const enough = -10

// model holds the weights of all observations in hundredths of a logit.
type model struct {
	at      [features]int
	weights []int16
}

func (m *model) odds(o *observed) (sum int) {
	for f, id := range o.ids {
		sum += int(m.weights[m.at[f]+int(id)])
	}
	return sum
}

//go:embed lexicon/data/nameweights.txt
var weightText string

var nameWeights = sync.OnceValue(func() *model { return newModel(weightText) }) //nolint:gochecknoglobals // a constant table, made when first used

// newModel reads weights: a line for each feature, its name, then observation:weight for all that is not 0.
func newModel(text string) *model {
	m := &model{}
	all := 0
	for f, n := range widths {
		m.at[f] = all
		all += n
	}
	m.weights = make([]int16, all)
	f := 0
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for _, field := range strings.Fields(line)[1:] {
			id, weight, _ := strings.Cut(field, ":")
			i, err := strconv.Atoi(id)
			w, err2 := strconv.ParseInt(weight, 10, 16)
			if err != nil || err2 != nil || f >= len(widths) || i >= widths[f] {
				panic("classify: nameweights.txt is damaged at " + field) // part of the binary, read by every test
			}
			m.weights[m.at[f]+i] = int16(w)
		}
		f++
	}
	return m
}
