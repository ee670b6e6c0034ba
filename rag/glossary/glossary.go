// Package glossary finds the terms of a glossary in questions, and says how each question would read with the other names of what it is about.
//
// Names are found by an Aho–Corasick automaton over the units of the lexical index (lexical.Units): characters of Chinese, stems of other words, folded from
// traditional to simplified characters, from full width and from upper case. So a name is found in whichever way it is written, and never inside another word. The
// longest name counts, from left to right. A question that has none of them is left as it is.
package glossary

import (
	"slices"
	"strings"

	"github.com/sluice-project/sluice/rag/lexical"
)

// What a glossary has at most.
const (
	MaxSynonyms = 15  // of one term
	MaxName     = 128 // bytes of a term or synonym
	maxForms    = 1 + MaxSynonyms
	maxMatches  = 32 // of one question, the first ones
	maxShared   = 8  // terms that share a name, the first ones
)

// Term is something with several names.
type Term struct {
	Name     string // the one that documents use, or should
	Synonyms []string
}

// Key returns what is equal for names that are found alike; "" for one that cannot be found, as it has no letters or a sentence ends in it.
func Key(name string) string {
	_, units := lexical.Units(name)
	texts := make([]string, 0, len(units))
	for i, u := range units {
		if u.Text == "" {
			if i == len(units)-1 { // a mark at the end, such as of an abbreviation
				break
			}
			return ""
		}
		texts = append(texts, u.Text)
	}
	return strings.Join(texts, " ")
}

// Glossary is a set of terms. It is immutable, and safe for concurrent use; nil has no terms.
type Glossary struct {
	terms   [][]string // the names of each, that of the term first
	symbols map[string]int32
	nodes   []node
	next    map[edge]int32
}

type edge struct{ node, symbol int32 }

// node is a beginning of names. The root is 0.
type node struct {
	depth int   // units from the root
	fail  int32 // the longest beginning that ends this one
	out   int32 // the nearest along fail, from here on, that is a whole name; -1 for none
	terms []ref // those whose name it is
}

// ref is a name of a term.
type ref struct{ term, name int }

// Compile returns a glossary of terms. Names without a [Key] are left out.
func Compile(terms []Term) *Glossary {
	g := &Glossary{symbols: map[string]int32{}, nodes: []node{{out: -1}}, next: map[edge]int32{}}
	for _, t := range terms {
		var names []string
		for _, name := range append([]string{t.Name}, t.Synonyms...) {
			key := Key(name)
			if key == "" {
				continue
			}
			g.add(key, ref{len(g.terms), len(names)})
			names = append(names, name)
		}
		g.terms = append(g.terms, names)
	}
	g.link()
	return g
}

func (g *Glossary) add(key string, r ref) {
	at := int32(0)
	for unit := range strings.SplitSeq(key, " ") {
		symbol, known := g.symbols[unit]
		if !known {
			symbol = int32(len(g.symbols))
			g.symbols[unit] = symbol
		}
		to, there := g.next[edge{at, symbol}]
		if !there {
			to = int32(len(g.nodes))
			g.next[edge{at, symbol}] = to
			g.nodes = append(g.nodes, node{depth: g.nodes[at].depth + 1, out: -1})
		}
		at = to
	}
	if n := &g.nodes[at]; len(n.terms) < maxShared {
		n.terms = append(n.terms, r)
	}
}

// link sets where a beginning that does not go on leads, in order of depth.
func (g *Glossary) link() {
	type step struct {
		edge
		to int32
	}
	steps := make([]step, 0, len(g.next))
	for e, to := range g.next {
		steps = append(steps, step{e, to})
	}
	slices.SortFunc(steps, func(a, b step) int { return g.nodes[a.to].depth - g.nodes[b.to].depth })
	for _, s := range steps {
		n := &g.nodes[s.to]
		if s.node != 0 {
			n.fail = g.after(g.nodes[s.node].fail, s.symbol)
		}
		if n.out = g.nodes[n.fail].out; len(n.terms) > 0 {
			n.out = s.to
		}
	}
}

// after returns the longest beginning that ends what a node has with a symbol behind it.
func (g *Glossary) after(at, symbol int32) int32 {
	for {
		if to, ok := g.next[edge{at, symbol}]; ok {
			return to
		}
		if at == 0 {
			return 0
		}
		at = g.nodes[at].fail
	}
}

// match is a name in a text.
type match struct {
	first, end int // units
	terms      []ref
}

// matches returns the first names in a text: of those that overlap the one that begins first, and of these the longest.
func (g *Glossary) matches(units []lexical.Unit) (out []match) {
	longest := make([]int32, len(units)) // by the unit that it begins with; 0 for none
	at := int32(0)
	for i, u := range units {
		symbol, known := g.symbols[u.Text]
		if !known {
			at = 0
			continue
		}
		at = g.after(at, symbol)
		for n := g.nodes[at].out; n >= 0; n = g.nodes[g.nodes[n].fail].out {
			first := i + 1 - g.nodes[n].depth
			if l := longest[first]; l == 0 || g.nodes[n].depth > g.nodes[l].depth {
				longest[first] = n
			}
		}
	}
	for i := 0; i < len(units) && len(out) < maxMatches; {
		n := longest[i]
		if n == 0 {
			i++
			continue
		}
		out = append(out, match{i, i + g.nodes[n].depth, g.nodes[n].terms})
		i += g.nodes[n].depth
	}
	return out
}

// Expansion is what a name in a question has added to it.
type Expansion struct {
	Term  string   // whose name it is
	Found string   // the name, as the glossary has it
	Added []string // the other names of the term
}

// Forms returns the question, and how it reads with other names in place of those that it has: one form for each name of the terms, at most [MaxSynonyms] of them,
// each found name with the name of the same number, or that of the term where it has fewer. It says what of the glossary it has found, each once.
func (g *Glossary) Forms(question string) (forms []string, found []Expansion) {
	forms = []string{question}
	if g == nil || len(g.terms) == 0 {
		return forms, nil
	}
	folded, units := lexical.Units(question)
	matches := g.matches(units)
	if len(matches) == 0 {
		return forms, nil
	}
	most := 0
	names := make([][]string, len(matches)) // that each may stand for
	seen := map[ref]bool{}
	for i, m := range matches {
		for _, r := range m.terms {
			of := g.terms[r.term]
			names[i] = append(names[i], of...)
			if !seen[r] {
				seen[r] = true
				found = append(found, Expansion{of[0], of[r.name], slices.Delete(slices.Clone(of), r.name, r.name+1)})
			}
		}
		most = max(most, len(names[i]))
	}
	same := map[string]bool{Key(question): true, folded: true}
	for n := range min(most, maxForms) {
		var b strings.Builder
		end := 0
		for i, m := range matches {
			name := names[i][0]
			if n < len(names[i]) {
				name = names[i][n]
			}
			b.WriteString(folded[end:units[m.first].Start])
			b.WriteString(name)
			end = units[m.end-1].End
		}
		b.WriteString(folded[end:])
		again, _ := lexical.Units(b.String())
		if !same[again] && len(forms) < maxForms {
			same[again] = true
			forms = append(forms, again)
		}
	}
	return forms, found
}
