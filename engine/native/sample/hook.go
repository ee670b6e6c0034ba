package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"github.com/sluice-project/sluice/engine"
)

// hooked lets the request's hook weigh the candidates anew and draws among them, in the order of their ids. At temperature 0 the
// heaviest is taken: best if it is among the heaviest, so that a hook that changes nothing changes nothing, else the lowest id.
func (s *Sampler) hooked(r *Rules, best int32, at *Position, narrowed bool, u float64) (int32, error) {
	s.candidates(narrowed)
	s.draw.Choice, s.draw.Prompt, s.draw.Completion = at.Choice, at.Prompt, at.Completion
	candidates := s.draw.Candidates
	err := guarded(func() error { return r.hook(&s.draw) })
	s.draw = engine.Draw{Candidates: candidates} // whatever the hook did to it
	if err != nil {
		return 0, fmt.Errorf("hook: %w", err)
	}
	total, heaviest, err := s.checked(candidates, best)
	if err != nil {
		return 0, err
	}
	if mark := at.Mark.at(r.temperature); mark != nil {
		s.weighed = s.weighed[:0]
		for _, c := range candidates {
			s.weighed = append(s.weighed, c.Weight)
		}
		if id, marked, err := s.marked(mark, r, best, at, true, u); marked || err != nil {
			return id, err
		}
	}
	if r.temperature == 0 {
		return candidates[heaviest].Token, nil
	}
	target := u * total
	last, mass := best, 0.0
	for _, c := range candidates {
		if c.Weight > 0 {
			last = c.Token
			mass += float64(c.Weight)
			if mass > target {
				break
			}
		}
	}
	return last, nil
}

// checked returns the sum of the weights that a hook has left, and the place of the heaviest.
func (s *Sampler) checked(candidates []engine.Candidate, best int32) (total float64, heaviest int, err error) {
	heaviest = -1
	for i, c := range candidates {
		w := float64(c.Weight)
		switch {
		case c.Token != s.ids[i]:
			return 0, 0, errors.New("hook: it changed the token of a candidate; it may change weights only")
		case !(w >= 0) || math.IsInf(w, 0):
			return 0, 0, fmt.Errorf("hook: the weight of token %d became %v; weights are numbers from 0 on", c.Token, w)
		}
		total += w
		if heaviest < 0 || c.Weight > candidates[heaviest].Weight || c.Token == best && c.Weight == candidates[heaviest].Weight {
			heaviest = i
		}
	}
	if total == 0 {
		return 0, 0, errors.New("hook: it left no token with a weight above zero")
	}
	return total, heaviest, nil
}

// candidates prepares what the hook sees.
func (s *Sampler) candidates(narrowed bool) {
	if !narrowed {
		s.gather(0)
	}
	out := s.draw.Candidates[:0]
	for _, k := range s.keys {
		out = append(out, engine.Candidate{Token: token(k), Weight: float32(weight(k))})
	}
	if narrowed {
		slices.SortFunc(out, func(a, b engine.Candidate) int { return cmp.Compare(a.Token, b.Token) })
	}
	s.ids = s.ids[:0]
	for _, c := range out {
		s.ids = append(s.ids, c.Token)
	}
	s.draw.Candidates = out
}

// guarded turns a panic of somebody else's function into an error: it runs on the goroutine that computes everybody's tokens.
func guarded(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			err = fmt.Errorf("it panicked: %w", p)
		default:
			err = fmt.Errorf("it panicked with a %T", p) // the value may hold text of the request
		}
	}()
	return f()
}
