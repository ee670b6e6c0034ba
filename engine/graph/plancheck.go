package graph

import (
	"fmt"
	"slices"
)

// Check replays the plan and proves that every operand is still intact when a step reads it, whatever the symbols are. It knows nothing of how NewPlan chose the
// places, so that it also guards a plan that was read back from a cache.
func (p *Plan) Check() error {
	if len(p.Steps) != len(p.Graph.Nodes) || len(p.Outputs) != len(p.Graph.Outputs) {
		return fmt.Errorf("plan %s: has %d steps for %d nodes", p.Graph.Name, len(p.Steps), len(p.Graph.Nodes))
	}
	r := &replay{plan: p, last: lastUses(p.Graph), at: map[*Value]Buffer{}}
	for i, s := range p.Steps {
		if err := r.step(i, s); err != nil {
			return fmt.Errorf("plan %s: step %d, %s %s: %w", p.Graph.Name, i, s.Node.Op, s.Node.Out.ref(), err)
		}
	}
	for i, v := range p.Graph.Outputs {
		if err := r.holds(v, p.Outputs[i]); err != nil {
			return fmt.Errorf("plan %s: output: %w", p.Graph.Name, err)
		}
	}
	return nil
}

// replay knows which values are intact and where.
type replay struct {
	plan *Plan
	last map[*Value]int
	at   map[*Value]Buffer
}

// holds checks that b is where v is, and that v was not overwritten. Inputs and weights live elsewhere.
func (r *replay) holds(v *Value, b Buffer) error {
	have, ok := r.at[v]
	if !ok && (v.Weight != nil || slices.Contains(r.plan.Graph.Inputs, v)) {
		if b != (Buffer{}) {
			return fmt.Errorf("%s is not in an arena but has the buffer %s", v.ref(), b)
		}
		return nil
	}
	if !ok || have != b {
		return fmt.Errorf("%s is not in %s any more", v.ref(), b)
	}
	return nil
}

func (r *replay) step(i int, s Step) error {
	if s.Node != r.plan.Graph.Nodes[i] || len(s.In) != len(s.Node.In) {
		return fmt.Errorf("is not node %d of the graph", i)
	}
	for j, v := range s.Node.In {
		if err := r.holds(v, s.In[j]); err != nil {
			return err
		}
	}
	if err := r.fits(s.Node.Out, s.Out); err != nil {
		return err
	}
	for v, b := range r.at {
		if b.Symbol != s.Out.Symbol || b.Offset+b.RowBytes <= s.Out.Offset || s.Out.Offset+s.Out.RowBytes <= b.Offset {
			continue
		}
		read := slices.Contains(s.Node.In, v)
		switch {
		case r.last[v] > i:
			return fmt.Errorf("overwrites %s, which is read later", v.ref())
		case read && (b != s.Out || !s.Node.mayOverwrite(v)):
			return fmt.Errorf("overwrites its operand %s", v.ref())
		}
		delete(r.at, v)
	}
	r.at[s.Node.Out] = s.Out
	return nil
}

// fits checks the size and place of a buffer by itself.
func (r *replay) fits(v *Value, b Buffer) error {
	want, err := bufferOf(v)
	if err != nil {
		return err
	}
	arena := slices.IndexFunc(r.plan.Arenas, func(a Arena) bool { return a.Symbol == b.Symbol })
	if b.Symbol != want.Symbol || b.RowBytes != want.RowBytes || b.Offset < 0 || b.Offset%alignment != 0 {
		return fmt.Errorf("the buffer %s does not fit %s", b, v.Type)
	}
	if arena < 0 || b.Offset+b.RowBytes > r.plan.Arenas[arena].RowBytes {
		return fmt.Errorf("the buffer %s ends outside the arena", b)
	}
	return nil
}
