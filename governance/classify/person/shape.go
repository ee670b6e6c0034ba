package person

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

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
	cost        int  // as a name
}

func (c *shape) end(h *hanRun) int { return h.at[c.total-1] + 1 }

func (c *shape) spaced(h *hanRun) bool { return h.at[c.total-1]-h.at[0] != c.total-1 }

// cost is what a candidate costs as a name.
func (n *namer) cost(h *hanRun, c *shape) int {
	var sum int
	costs := n.t.costs
	switch {
	case c.form == nickname:
		sum = 10
		if h.r[0] == '阿' {
			return sum + 4 + min(costs.Name(h.r[1], lexicon.AsSurname), costs.Name(h.r[1], lexicon.AsSingle))
		}
		return sum + costs.Name(h.r[1], lexicon.AsSurname)
	case c.size == 2:
		sum = 26
	default:
		sum = costs.Name(h.r[0], lexicon.AsSurname)
	}
	if c.form == addressed {
		return sum + 6
	}
	if c.form == oneGiven {
		return sum + costs.Name(h.r[c.size], lexicon.AsSingle)
	}
	a, b := costs.Name(h.r[c.size], lexicon.AsFirst), costs.Name(h.r[c.size+1], lexicon.AsSecond)
	if h.r[c.size] == h.r[c.size+1] {
		b = min(b, 8)
	}
	return sum + a + b
}

// shapes lists the candidates at the start.
func (n *namer) shapes(h *hanRun, out []shape) []shape {
	n.gather(h, 6)
	if n.open {
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

// plain tells most of ordinary text at the price of two or three lookups: a usual word begins here or lies across the start, in the middle of other
// words and without a cue.
func (n *namer) plain() bool {
	if n.start == 0 || n.prior.End == n.start {
		return false
	}
	before, first, next := n.w.Cell(n.start-1), n.w.Cell(n.start), n.w.At(n.start+1)
	if !text.IsHan(before.R) || !text.IsHan(next) || next == '某' {
		return false
	}
	if n.t.usual(before, first.R) {
		return !n.cued()
	}
	if n.t.cell(first).rank&mayCompound != 0 && n.t.compound(first.R, next) > tierRare {
		return false // 诸葛 is a word, too
	}
	if n.t.usual(first, next) {
		return !n.cued()
	}
	var w [4]lexicon.WordCost
	n.w.wordCosts(n.start, len(w), &w)
	return (w[2].Usual() || w[3].Usual()) && !n.cued()
}

// cued reports whether a cue stands before the start, behind a Chinese character.
func (n *namer) cued() bool {
	may := n.contextRead || n.start-n.prior.End <= 3 || n.t.first(n.w.At(n.start-1))&endsCue != 0
	return may && n.preceding().cued()
}

// fitting adds a candidate unless it is out of the question.
func (n *namer) fitting(h *hanRun, out []shape, c shape) []shape {
	c.cost = n.cost(h, &c)
	if c.form <= twoGiven && h.r[c.size] == '某' || !n.affordable(c.cost) || c.spaced(h) && !n.joined(h, c.total) {
		return out
	}
	return append(out, c)
}

// isTerm reports whether a candidate is a fixed term, or begins one, and nothing says that it is a name.
func (n *namer) isTerm(c *shape) bool {
	n.terms()
	return n.fixed >= c.total+c.title && (n.label || !n.preceding().why.Any(finding.LabelBefore|finding.Titled))
}

// titleAt returns how many cells a title at k takes up, a blank before it among them.
func (n *namer) titleAt(k int) (length int, kind rank) {
	blank := 0
	if r := n.cell(k); r == ' ' || r == '\n' {
		blank = 1
	}
	if r := n.cell(k + blank); !text.IsHan(r) || r == '某' {
		return 0, 0
	}
	length, kind = n.t.behind(n, k+blank)
	if kind&isAlone == 0 {
		return 0, 0
	}
	return length + blank, kind
}

// What a name may cost at most in halves of nats: behind a label of names, nearly anything.
const (
	costliest = 58
	labelled  = 120
)

func (n *namer) affordable(cost int) bool {
	return cost <= costliest || cost <= labelled && n.preceding().strong && n.preceding().delimited
}
