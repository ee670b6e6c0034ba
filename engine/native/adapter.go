package native

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/lora"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/internal/fault"
)

// adapter is a LoRA adapter that is loaded.
type adapter struct {
	id      engine.ModelID
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

// LoadAdapter makes an adapter available under its id, while others go on. It reads and checks the file first.
func (e *Engine) LoadAdapter(cfg AdapterConfig) error {
	g, ok := e.generators[cfg.Model]
	if !ok {
		return fault.New(fault.CodeModelNotFound, string(cfg.Model)).WithParam("model")
	}
	weights, digest, err := g.readAdapter(cfg.Path)
	if err != nil {
		return fmt.Errorf("native engine: load adapter %s: %w", cfg.ID, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if slices.ContainsFunc(e.models, func(m engine.Model) bool { return m.ID == cfg.ID }) {
		return fault.New(fault.CodeExists, string(cfg.ID))
	}
	info := g.info
	info.ID, info.Base, info.Adapter = cfg.ID, cfg.Model, digest
	e.adapters[cfg.ID] = &adapter{id: cfg.ID, base: g, weights: weights, digest: digest, tenants: slices.Clone(cfg.Tenants)}
	e.models = append(e.models, info)
	e.sortModels()
	e.opener.log.Info("adapter loaded", slog.String("adapter", string(cfg.ID)), slog.String("model", string(cfg.Model)), slog.String("digest", digest))
	return nil
}

// UnloadAdapter forgets an adapter. Requests that use it end as if it were still there; its memory goes with the last of them.
func (e *Engine) UnloadAdapter(id engine.ModelID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.adapters[id]; !ok {
		return fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
	}
	delete(e.adapters, id)
	e.models = slices.DeleteFunc(e.models, func(m engine.Model) bool { return m.ID == id })
	return nil
}

// readAdapter packs the adapter of a file.
func (g *generator) readAdapter(path string) (*exec.Adapter, string, error) {
	f, err := lora.Open(path, g.adapts)
	if err != nil {
		return nil, "", err
	}
	a, err := g.prog.NewAdapter(f.Factors())
	return a, f.Digest(), errors.Join(err, f.Close())
}
