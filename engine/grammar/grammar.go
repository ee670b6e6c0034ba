package grammar

import (
	"errors"
	"sync"

	"github.com/sluice-project/sluice/internal/fault"
)

// Grammar is a language of texts. It is immutable to its users and safe for concurrent use: what it learns about its states is shared
// by all matchers of a vocabulary and guarded by one lock for each, so calls of two such matchers wait for each other.
type Grammar struct {
	src *source

	mu     sync.Mutex
	fitted map[*Vocabulary]*fitting
}

// source is what a grammar is made of.
type source struct {
	limits Limits
	nodes  []node
	rules  []rule
	start  int32
}

// fitting is a grammar made ready for a vocabulary, once.
type fitting struct {
	once sync.Once
	a    *automaton
	err  error
}

// maxFitted bounds the vocabularies that a grammar is kept ready for.
const maxFitted = 8

// newGrammar checks src by making it ready for a vocabulary that can spell everything.
func newGrammar(src *source, strict bool) (*Grammar, error) {
	if _, err := newAutomaton(src, nil, strict); err != nil {
		return nil, err
	}
	return &Grammar{src: src, fitted: map[*Vocabulary]*fitting{}}, nil
}

// Fit makes the grammar ready for a vocabulary, which Matcher would do otherwise. It takes about as long as Build. An error means that
// the vocabulary cannot spell any text of the grammar.
func (g *Grammar) Fit(v *Vocabulary) error { return g.fit(v).err }

func (g *Grammar) fit(v *Vocabulary) *fitting {
	g.mu.Lock()
	f := g.fitted[v]
	if f == nil {
		if len(g.fitted) >= maxFitted {
			clear(g.fitted)
		}
		f = &fitting{}
		g.fitted[v] = f
	}
	g.mu.Unlock()
	f.once.Do(func() {
		f.a, f.err = newAutomaton(g.src, v, false)
		if e := (*Error)(nil); errors.As(f.err, &e) && e.Limit == "" {
			f.err = wrong(fault.Say("grammar.unspellable"))
		}
	})
	return f
}

// Matcher returns a matcher at the beginning of a text. What Fit would report, its Mask does.
func (g *Grammar) Matcher(v *Vocabulary) *Matcher {
	f := g.fit(v)
	if f.err != nil {
		return &Matcher{err: f.err, words: v.Words()}
	}
	return &Matcher{a: f.a, at: f.a.first, words: v.Words()}
}
