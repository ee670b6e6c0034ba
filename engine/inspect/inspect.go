// Package inspect describes model files: what a file holds, how its model is computed, and what a precision plan makes of both. It computes no
// token and changes no file.
package inspect

import (
	"fmt"
	"io"

	"github.com/sluice-project/sluice/engine/arch"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/native"
)

// Config says what to look at.
type Config struct {
	Path    string   // a GGUF file, a packed file, or a directory with config.json and safetensors
	Plan    string   // the precision plan whose passes to apply; "" for none
	Without []string // passes to leave out
}

// PlanError means that there is no such precision plan, or no such pass to leave out.
type PlanError struct{ error }

// Unwrap returns the cause.
func (e *PlanError) Unwrap() error { return e.error }

// Model is an open model file. One goroutine uses it, for one call of [Model.Summary], [Model.WriteGraph] or [Model.WriteSteps]: the passes
// change the graph.
type Model struct {
	cfg   Config
	files *arch.Model
}

// Open opens a model file.
func Open(cfg Config) (*Model, error) {
	files, err := arch.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	return &Model{cfg: cfg, files: files}, nil
}

// Close closes the file.
func (m *Model) Close() error { return m.files.Close() }

// optimised runs the passes of the plan, those of the native plan without one.
func (m *Model) optimised() (*graph.Graph, *graph.Report, error) {
	p, err := native.Precision(m.cfg.Plan)
	if err != nil {
		return nil, nil, &PlanError{err}
	}
	r, err := graph.Optimize(m.files.Graph, p, m.cfg.Without...)
	if err != nil && r == nil { // no pass ran: one to leave out does not exist
		err = &PlanError{err}
	}
	return m.files.Graph, r, err
}

// WriteGraph writes the graph as the file describes it, or with a plan what its passes make of it and why they left something as it was.
func (m *Model) WriteGraph(w io.Writer) error {
	if m.cfg.Plan == "" {
		return m.files.Graph.WriteText(w)
	}
	g, r, err := m.optimised()
	if err != nil {
		return err
	}
	if err := g.WriteText(w); err != nil {
		return err
	}
	for _, s := range r.Skipped {
		if _, err := fmt.Fprintf(w, "# %s: %s\n", s.Pass, s); err != nil {
			return err
		}
	}
	return nil
}

// WriteSteps writes the flat steps that the passes of the plan leave, and where their results lie in memory.
func (m *Model) WriteSteps(w io.Writer) error {
	g, _, err := m.optimised()
	if err != nil {
		return err
	}
	plan, err := graph.NewPlan(g)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, plan.String())
	return err
}
