package safety

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"
)

// word is a word to be found: its letters, and how many separators must and may stand before each but the first.
type word struct {
	letters []rune
	gaps    []gap
	rules   []int // of a matcher
	except  bool  // a match of it voids those of its rules inside it
}

type gap struct{ least, most uint8 }

// word reads a spelling. whole: a text of just this spelling matches.
func (n *normaliser) word(s string, spread int) (w word, whole bool) {
	w = word{letters: make([]rune, 0, len(s)/2), gaps: make([]gap, 0, len(s)/2)}
	apart, between, broken := false, 0, false
	whole = true
	for _, r := range s {
		c, letters := n.of(r)
		switch c {
		case letter:
		case joint, breaking:
			apart, broken = true, broken || c == breaking
			between++
			continue
		case unseen:
			continue
		}
		for _, l := range letters {
			g := gap{0, uint8(max(2, spread))}
			if k := len(w.letters); k > 0 && spaced(w.letters[k-1]) && spaced(l) {
				if g = (gap{0, uint8(spread)}); apart {
					g = gap{1, MaxGap}
				}
			}
			if len(w.letters) > 0 && (broken || between > int(g.most)) {
				whole = false
			}
			w.letters, w.gaps, apart, between, broken = append(w.letters, l), append(w.gaps, g), false, 0, false
		}
	}
	return w, whole
}

// node is a state of an automaton: what of the text could be the beginning of a word.
type node struct {
	depth  int32
	letter rune  // that leads to it
	fail   int32 // the longest shorter beginning
	out    int32 // the next state on the way of fails that ends a word; 0: none
	words  []int32
	runes  []rune // sorted
	to     []int32
}

func (n *node) step(r rune) (int32, bool) {
	i, ok := slices.BinarySearch(n.runes, r)
	if !ok {
		return 0, false
	}
	return n.to[i], true
}

// Matcher finds the words of rules. It never changes, so it is safe for concurrent use.
type Matcher struct {
	nodes []node
	first map[rune]int32 // the steps of the root, which has many
	words []word
	rules []rule
	holds bool // a rule blocks or replaces in what is shown
}

// rule is a rule of a matcher.
type rule struct {
	hit   Hit
	scope Scope
}

// builtIn names what is no library, as hits name one.
const (
	builtInName    = "built-in"
	builtInVersion = "1"
	builtIn        = builtInName + "@" + builtInVersion
)

// Hit says which rule matched. It holds no text.
type Hit struct {
	Rule    string // its id
	Library string // name@version
	Risk    Risk
	Action  Action // as it was done
}

// Compile returns a matcher of the rules that hold on a day. act says what a rule does in place of its own action; "" leaves the rule out. nil: its own.
func Compile(libraries []*Library, day time.Time, act func(*Rule) Action) *Matcher {
	m := &Matcher{nodes: make([]node, 1), first: map[rune]int32{}}
	n, date := newNormaliser(), day.UTC().Format(time.DateOnly)
	edges := map[edge]int32{}
	index := map[string]int32{} // of words, by spelling and gaps
	var room []byte
	add := func(s string, spread, rule int, except bool) {
		forms, err := alternatives(s)
		if err != nil { // Validate has seen it
			panic(err)
		}
		for _, f := range forms {
			w, _ := n.word(f, spread)
			w.except = except
			room = w.key(room[:0])
			if at, ok := index[string(room)]; ok {
				if rules := m.words[at].rules; rules[len(rules)-1] != rule {
					m.words[at].rules = append(rules, rule)
				}
				continue
			}
			at := int32(len(m.words))
			index[string(room)], w.rules = at, []int{rule}
			m.words = append(m.words, w)
			state := int32(0)
			for _, r := range w.letters {
				next, ok := edges[edge{state, r}]
				if !ok {
					next = int32(len(m.nodes))
					edges[edge{state, r}] = next
					m.nodes = append(m.nodes, node{depth: m.nodes[state].depth + 1})
				}
				state = next
			}
			m.nodes[state].words = append(m.nodes[state].words, at)
		}
	}
	for _, l := range libraries {
		for i := range l.Rules {
			r := &l.Rules[i]
			action := r.Action
			if act != nil {
				action = act(r)
			}
			if action == "" || !r.holds(date) {
				continue
			}
			m.holds = m.holds || r.Scope != Input && (action == Block || action == Replace)
			at := len(m.rules)
			m.rules = append(m.rules, rule{Hit{r.ID, l.Name + "@" + l.Version, r.Risk, action}, r.Scope})
			for _, w := range r.Words {
				add(w, r.Spread, at, false)
			}
			for _, w := range r.Except {
				add(w, r.Spread, at, true)
			}
		}
	}
	m.link(edges)
	return m
}

// key adds what tells a word from others.
func (w *word) key(b []byte) []byte {
	if b = append(b, 0); w.except {
		b[0] = 1
	}
	for i, l := range w.letters {
		b = append(utf8.AppendRune(b, l), w.gaps[i].least, w.gaps[i].most)
	}
	return b
}

// edge is a step of an automaton that is being made.
type edge struct {
	from int32
	r    rune
}

// link sets where each state goes on when a letter does not fit, level by level.
func (m *Matcher) link(edges map[edge]int32) {
	for e, next := range edges {
		m.nodes[e.from].to = append(m.nodes[e.from].to, next)
		m.nodes[next].letter = e.r
	}
	for queue := []int32{0}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		here := &m.nodes[at]
		slices.SortFunc(here.to, func(a, b int32) int { return cmp.Compare(m.nodes[a].letter, m.nodes[b].letter) })
		here.runes = make([]rune, len(here.to))
		for i, next := range here.to {
			r := m.nodes[next].letter
			here.runes[i] = r
			queue = append(queue, next)
			if at == 0 {
				m.first[r] = next
				continue
			}
			m.nodes[next].fail = m.step(here.fail, r)
		}
		if f := m.nodes[here.fail]; len(f.words) > 0 {
			here.out = here.fail
		} else {
			here.out = f.out
		}
	}
}

// step returns the state behind another and a letter.
func (m *Matcher) step(state int32, r rune) int32 {
	for state != 0 {
		if next, ok := m.nodes[state].step(r); ok {
			return next
		}
		state = m.nodes[state].fail
	}
	return m.first[r]
}

// Empty reports whether nothing can match.
func (m *Matcher) Empty() bool { return m == nil || len(m.words) == 0 }
