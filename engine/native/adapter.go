package native

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/lora"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
)

// adapter is a LoRA adapter that is loaded.
type adapter struct {
	id      engine.ModelID
	model   engine.ModelID
	base    *generator
	weights *exec.Adapter
	digest  string
	tenants []string // who may use it; empty: everybody
}

// open reports whether a tenant may use the adapter.
func (a *adapter) open(tenant string) bool {
	return len(a.tenants) == 0 || slices.Contains(a.tenants, tenant)
}

func (e *Engine) adapter(id engine.ModelID) *adapter {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.adapters[id]
}

// Adapter describes an adapter that is loaded.
type Adapter struct {
	ID      engine.ModelID
	Model   engine.ModelID // what it changes
	Digest  string
	Bytes   int
	Tenants []string // who may use it; empty: everybody
}

// Adapters returns the loaded adapters by id.
func (e *Engine) Adapters() []Adapter {
	e.mu.RLock()
	defer e.mu.RUnlock()
	out := make([]Adapter, 0, len(e.adapters))
	for _, a := range e.adapters {
		out = append(out, a.describe())
	}
	slices.SortFunc(out, func(a, b Adapter) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

func (a *adapter) describe() Adapter {
	return Adapter{a.id, a.model, a.digest, a.weights.Bytes(), slices.Clone(a.tenants)}
}

// LoadAdapter makes an adapter available under its id, while others go on. It reads and checks the file first. Errors:
// CodeModelNotFound, CodeExists, CodeInvalidValue for files that are no adapter of the model or too large for the memory.
func (e *Engine) LoadAdapter(cfg AdapterConfig) (Adapter, error) {
	g, ok := e.generators[cfg.Model]
	if !ok {
		return Adapter{}, fault.New(fault.CodeModelNotFound, string(cfg.Model)).WithParam("model")
	}
	if e.taken(cfg.ID) { // before anything is read; what counts is the look below
		return Adapter{}, fault.New(fault.CodeExists, fault.Say("thing.model_or_adapter"), string(cfg.ID)).WithParam("id")
	}
	a, err := e.readAdapter(cfg, g.prog, g.supportsAdapters)
	if err != nil {
		return Adapter{}, err
	}
	if !e.register(a) {
		return Adapter{}, fault.New(fault.CodeExists, fault.Say("thing.model_or_adapter"), string(cfg.ID)).WithParam("id")
	}
	return a.describe(), nil
}

func (e *Engine) taken(id engine.ModelID) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return slices.ContainsFunc(e.models, func(m engine.Model) bool { return m.ID == id })
}

// register makes an adapter known. It returns false, and gives its memory back, when the id is taken.
func (e *Engine) register(a *adapter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(e.models, func(m engine.Model) bool { return m.ID == a.id }) {
		e.opener.budget.taken -= a.weights.Bytes()
		return false
	}
	a.base = e.generators[a.model]
	info := a.base.info
	info.ID, info.Base, info.Adapter, info.Audience = a.id, a.model, a.digest, engine.AudienceOf(a.tenants)
	e.adapters[a.id] = a
	if !slices.Contains(e.digests, a.digest) {
		e.digests = append(e.digests, a.digest)
	}
	e.models = append(e.models, info)
	e.sortModels()
	e.opener.log.Info("adapter loaded", slog.String("adapter", string(a.id)), slog.String("model", string(a.model)), slog.String("digest", a.digest),
		slog.Int("bytes", a.weights.Bytes()))
	return true
}

// UnloadAdapter forgets an adapter. Requests that use it end as if it were still there; its memory goes with the last of them.
func (e *Engine) UnloadAdapter(id engine.ModelID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.adapters[id]
	if !ok {
		return fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
	}
	delete(e.adapters, id)
	e.models = slices.DeleteFunc(e.models, func(m engine.Model) bool { return m.ID == id })
	e.opener.budget.taken -= a.weights.Bytes()
	e.opener.log.Info("adapter unloaded", slog.String("adapter", string(id)))
	return nil
}

// readAdapter packs the adapter of a file for a program, and counts its memory.
func (e *Engine) readAdapter(cfg AdapterConfig, prog *exec.Program, base lora.Base) (*adapter, error) {
	refuse := func(err error) error {
		reason := strings.ReplaceAll(err.Error(), cfg.Path, filepath.Base(cfg.Path)) // folders of this machine are nobody's business
		return fault.Wrap(fmt.Errorf("load adapter %s: %w", cfg.ID, err), fault.CodeInvalidValue, "path",
			fault.Say("native.adapter_unusable", reason)).WithParam("path")
	}
	f, err := lora.Open(cfg.Path, base)
	if err != nil {
		return nil, refuse(err)
	}
	weights, err := prog.NewAdapter(f.Factors())
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, refuse(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.opener.budget.take("adapter "+string(cfg.ID), weights.Bytes()); err != nil {
		return nil, refuse(err)
	}
	return &adapter{id: cfg.ID, model: cfg.Model, weights: weights, digest: f.Digest(), tenants: slices.Clone(cfg.Tenants)}, nil
}
