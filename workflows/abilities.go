package workflows

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/internal/fault"
)

// Abilities is what a version of a model is known to do on at least one instance that takes requests. The zero value of a known version does nothing.
type Abilities struct {
	Features      []string `json:"features,omitempty"`       // ordered
	ContextTokens int      `json:"context_tokens,omitempty"` // prompt and completion; 0 is not known, which is no limit and no promise
}

// Sight is how much can be seen of what a version does.
type Sight uint8

// The sights, from none.
const (
	Absent  Sight = iota // no instance that takes requests has its model
	Partial              // one of those that have it has not told yet what it is
	Whole
)

// Lack is something that the candidate has to do and is not known to do at a look.
type Lack struct {
	Name  string `json:"name"`
	Since int64  `json:"since,omitempty"` // of the first of the looks in a row that found just this, UTC unix microseconds; 0: nobody can tell whether it does
	Both  bool   `json:"both,omitempty"`  // stable is seen, and does not do it any more either
	Lasts bool   `json:"lasts,omitempty"` // it was found at each look for the time of lasting
}

// lasting is for how long each look has to find a loss before it counts: an instance that was away for a moment, or is being replaced, comes back before.
const lasting = 2 * time.Minute

// contextLoss is how a shorter context is named among the features that are lost.
const contextLoss = "context_tokens"

// lost returns what is needed and not known of have, ordered, a context last.
func (needed Abilities) lost(have Abilities) []string {
	var out []string
	for _, f := range needed.Features {
		if !slices.Contains(have.Features, f) {
			out = append(out, f)
		}
	}
	if needed.ContextTokens > have.ContextTokens {
		out = append(out, contextLoss)
	}
	return out
}

// unaccepted returns the losses that nobody has accepted.
func (s Spec) unaccepted(losses []string) []string {
	return slices.DeleteFunc(losses, func(f string) bool { return slices.Contains(s.AcceptLosses, f) })
}

// losable reports whether a rollout can lose a feature of this name.
func losable(name string) bool {
	return name == contextLoss || slices.Contains(capability.Features(), capability.Feature(name))
}

// need returns what stable is known to do now, which the candidate has to do for the whole rollout. Errors: CodeConflict if nobody can tell what one of
// them does, CodeCandidateLacks.
func (s *Service) need(ctx context.Context, spec Spec, stable string) (*Abilities, error) {
	needed, sight, err := s.deps.Routes.Abilities(ctx, spec.Model, stable)
	switch {
	case err != nil:
		return nil, err
	case sight == Absent:
		return nil, fault.New(fault.CodeConflict, fault.Say("rollout.stable_absent"))
	}
	have, sight, err := s.deps.Routes.Abilities(ctx, spec.Model, spec.Candidate)
	switch {
	case err != nil:
		return nil, err
	case sight == Absent:
		return nil, fault.New(fault.CodeConflict, fault.Say("rollout.candidate_absent")).WithParam("candidate")
	}
	if losses := spec.unaccepted(needed.lost(have)); len(losses) > 0 {
		return nil, fault.New(fault.CodeCandidateLacks, strings.Join(losses, ", ")).WithParam("candidate")
	}
	return &needed, nil
}

// compare notes in the evidence what the candidate is no longer known to do. A rollout that an earlier release has started needs nothing.
func (a *activities) compare(ctx context.Context, in evaluateInput, ev *Evidence) error {
	if in.Needed == nil {
		return nil
	}
	have, sight, err := a.deps.Routes.Abilities(ctx, in.Model, in.Candidate)
	if err != nil {
		return err
	}
	if ev.Unseen = sight == Absent; ev.Unseen {
		return nil
	}
	losses := Spec{AcceptLosses: in.AcceptLosses}.unaccepted(in.Needed.lost(have))
	if len(losses) == 0 {
		return nil
	}
	st, err := a.store.get(ctx, in.Rollout)
	if err != nil {
		return err
	}
	still, err := a.still(ctx, in, st.Stable)
	if err != nil {
		return err
	}
	now := or(in.Now, a.now().UnixMicro())
	for _, name := range losses {
		l := Lack{Name: name, Both: !slices.Contains(still.lost(have), name)}
		if sight == Whole && (name != contextLoss || have.ContextTokens > 0) {
			l.Since = st.lackedSince(in.Phase, l, now)
			l.Lasts = now-l.Since >= lasting.Microseconds()
		}
		ev.Lacking = append(ev.Lacking, l)
		if l.Lasts && !l.Both {
			ev.Lost = append(ev.Lost, name)
		}
	}
	return nil
}

// still returns what stable does of what is needed: an upgrade that claims less takes it from both. Who cannot be seen as a whole still does everything.
func (a *activities) still(ctx context.Context, in evaluateInput, stable string) (Abilities, error) {
	needed := *in.Needed
	does, sight, err := a.deps.Routes.Abilities(ctx, in.Model, stable)
	switch {
	case fault.Is(err, fault.CodeNotFound):
		return needed, nil
	case err != nil:
		return Abilities{}, err
	case sight != Whole:
		return needed, nil
	}
	out := Abilities{ContextTokens: needed.ContextTokens}
	if does.ContextTokens > 0 {
		out.ContextTokens = min(needed.ContextTokens, does.ContextTokens)
	}
	for _, f := range needed.Features {
		if slices.Contains(does.Features, f) {
			out.Features = append(out.Features, f)
		}
	}
	return out, nil
}

// lackedSince returns since when each look of the phase has found the same, now if the last one did not.
func (s State) lackedSince(phase string, l Lack, now int64) int64 {
	if s.Seen == nil || s.Seen.Phase != phase {
		return now
	}
	for _, before := range s.Seen.Lacking {
		if before.Name == l.Name && before.Both == l.Both && before.Since > 0 {
			return before.Since
		}
	}
	return now
}

// unsettled returns what the candidate lacks and nothing has been decided about: it may be there again, or be lost.
func (e Evidence) unsettled() (names []string) {
	for _, l := range e.Lacking {
		if !l.Lasts || !l.Both {
			names = append(names, l.Name)
		}
	}
	return names
}
