package workflows

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/internal/fault"
)

// Abilities is what a version of a model is known to do on at least one instance that takes requests. The zero value of a known version does nothing.
type Abilities struct {
	Features      []string `json:"features,omitempty"`       // ordered
	ContextTokens int      `json:"context_tokens,omitempty"` // prompt and completion; 0 is not known, which is no limit and no promise
}

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
	needed, seen, err := s.deps.Routes.Abilities(ctx, spec.Model, stable)
	switch {
	case err != nil:
		return nil, err
	case !seen:
		return nil, fault.New(fault.CodeConflict, fault.Say("rollout.stable_absent"))
	}
	have, seen, err := s.deps.Routes.Abilities(ctx, spec.Model, spec.Candidate)
	switch {
	case err != nil:
		return nil, err
	case !seen:
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
	have, seen, err := a.deps.Routes.Abilities(ctx, in.Model, in.Candidate)
	if err != nil {
		return err
	}
	if ev.Unseen = !seen; seen {
		ev.Lost = Spec{AcceptLosses: in.AcceptLosses}.unaccepted(in.Needed.lost(have))
	}
	return nil
}
