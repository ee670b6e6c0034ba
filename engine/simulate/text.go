package simulate

import (
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/grammar/jsonschema"
)

// words are what answers are made of. Each is one token, with the space before it.
func words() []string {
	return strings.Fields("the water river stone light morning house road tree window hand day year green small long open quiet clear north " +
		"work time place line paper ship wind field glass bread door hill cloud song table book rain fire moon sand")
}

// source returns random numbers that follow from texts and numbers alone.
func source(seed uint64, texts ...string) *rand.Rand {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t))
		_, _ = h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64())) //nolint:gosec // it has to be the same every time
}

// sentence makes an answer: at least some tokens, and as many as it likes up to most.
func sentence(r *rand.Rand, least, most int) (out []piece, whole bool) {
	all := words()
	n := max(least, 12+r.IntN(24))
	for i := range min(n, most) {
		w := all[r.IntN(len(all))]
		if i > 0 {
			w = " " + w
		}
		out = append(out, piece{text: w})
	}
	return out, n <= most
}

// cut ends an answer before the first of some texts. A text may begin in one token and end in another.
func cut(in []piece, stops []string) ([]piece, bool) {
	text := ""
	for i, p := range in {
		text += p.text
		for _, stop := range stops {
			at := strings.Index(text, stop)
			if at < 0 || stop == "" {
				continue
			}
			out := in[:i:i]
			if keep := at - (len(text) - len(p.text)); keep > 0 {
				return append(out, piece{text: p.text[:keep]}), true
			}
			return out, true
		}
	}
	return in, false
}

// form is what an answer is held to: one member is set.
type form struct {
	object bool
	schema json.RawMessage
	regex  string
	gbnf   string
	choice []string
}

func (f form) none() bool {
	return !f.object && f.schema == nil && f.regex == "" && f.gbnf == "" && f.choice == nil
}

func (f form) grammar() (*grammar.Grammar, error) {
	var limits grammar.Limits
	switch {
	case f.object:
		return jsonschema.Parse(json.RawMessage(`{"type":"object","properties":{"answer":{"enum":["yes","no"]}},"required":["answer"],"additionalProperties":false}`), jsonschema.Options{}, limits)
	case f.schema != nil:
		return jsonschema.Parse(f.schema, jsonschema.Options{}, limits)
	case f.regex != "":
		return grammar.ParseRegex(f.regex, limits)
	case f.gbnf != "":
		return grammar.ParseGBNF(f.gbnf, limits)
	}
	return grammar.Choice(f.choice, limits)
}

// endToken ends a text; the tokens below it are the printable characters.
const endToken = 95

// held makes a text of a form, ending it as soon as it may.
func (f form) held(r *rand.Rand, most int) (out []piece, whole bool, err error) {
	g, err := f.grammar()
	if err != nil {
		return nil, false, err
	}
	v := grammar.NewVocabulary(func(id int32) []byte { return []byte{byte(' ' + id)} }, endToken+1, []int32{endToken})
	if err := g.Fit(v); err != nil {
		return nil, false, err
	}
	m := g.Matcher(v)
	mask := make([]uint64, v.Words())
	for range most {
		if m.Done() {
			return out, true, nil
		}
		if err := m.Mask(mask); err != nil {
			return nil, false, err
		}
		id, ok := choose(r, mask, len(out))
		if !ok {
			return out, true, nil
		}
		if id == endToken {
			return out, true, nil
		}
		if err := m.Accept(id); err != nil {
			return nil, false, err
		}
		out = append(out, piece{text: string(' ' + id)})
	}
	return out, m.Done(), nil
}

// choose takes the end where it may, what closes something after a while, and else any character that is no space.
func choose(r *rand.Rand, mask []uint64, length int) (int32, bool) {
	allowed := func(id int32) bool { return mask[id/64]&(1<<(id%64)) != 0 }
	if allowed(endToken) {
		return endToken, true
	}
	if length > 24 {
		for _, c := range `"}]` {
			if allowed(c - ' ') {
				return c - ' ', true
			}
		}
	}
	var open []int32
	for id := int32(0); id < endToken; id++ {
		if allowed(id) && (id != 0 || length > 200) {
			open = append(open, id)
		}
	}
	if len(open) == 0 {
		return 0, allowed(0)
	}
	return open[r.IntN(len(open))], true
}

// tokens counts what a text has: of each word a token for its first eight bytes, and one for each further eight, begun or whole.
func tokens(text string) int {
	n := 0
	for _, w := range strings.Fields(text) {
		n += 1 + (len(w)-1)/8
	}
	return n
}
