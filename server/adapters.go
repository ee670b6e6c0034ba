package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/internal/fault"
)

// adaptersFolder lies below the folder of models. What a request of the management API names is looked for there and nowhere else.
const adaptersFolder = "adapters"

// loadAdapter loads an adapter whose path lies below the folder of adapters, and makes it callable: a model of its name gets a version.
// When that fails, the adapter is gone again.
func (p *parts) loadAdapter(ctx context.Context, cfg native.AdapterConfig) (native.Adapter, error) {
	var err error
	if cfg.Path, err = inside(filepath.Join(p.cfg.Downloads, modelstore.Models, adaptersFolder), cfg.Path); err != nil {
		return native.Adapter{}, err
	}
	a, err := p.native.LoadAdapter(cfg)
	if err != nil {
		return native.Adapter{}, err
	}
	if err := p.offerAdapter(ctx, a.ID); err != nil {
		return native.Adapter{}, errors.Join(err, p.native.UnloadAdapter(a.ID))
	}
	return a, nil
}

// offerAdapter registers a version for an adapter, unless one names it already: then its weights must be those of that version, since
// records about it are there.
func (p *parts) offerAdapter(ctx context.Context, id engine.ModelID) error {
	if err := p.router.Load(ctx); err != nil {
		return err
	}
	known, err := p.router.Versions(ctx, string(id))
	if err != nil {
		return err
	}
	digest, err := p.router.Digest(nativeEngine, id)
	if err != nil {
		return err
	}
	for _, v := range known {
		if v.Engine == nativeEngine && v.EngineModel == id && v.Digest != digest {
			return fault.New(fault.CodeConflict, fault.Say("adapters.id_taken", id, v.Version)).WithParam("id")
		}
	}
	if len(known) > 0 {
		return nil
	}
	models, err := p.native.Models(ctx)
	if err != nil {
		return err
	}
	for _, m := range models {
		if m.ID == id {
			return p.registerModel(ctx, nativeEngine, m)
		}
	}
	return fault.New(fault.CodeModelNotFound, string(id)).WithParam("id") // it was unloaded meanwhile
}

// unloadAdapter forgets an adapter, also in the list of models that can be asked for.
func (p *parts) unloadAdapter(ctx context.Context, id engine.ModelID) error {
	if err := p.native.UnloadAdapter(id); err != nil {
		return err
	}
	if err := p.router.Load(ctx); err != nil { // the next look at the engines finds out anyway
		p.log.LogAttrs(ctx, slog.LevelWarn, "routes are read again later", slog.String("error", err.Error()))
	}
	return nil
}

// inside returns the place of a relative path below a folder. Links that lead out of it are refused like paths that do.
func inside(folder, path string) (string, error) {
	refuse := func(why fault.Phrase) error { return fault.New(fault.CodeInvalidValue, "path", why).WithParam("path") }
	if !filepath.IsLocal(path) {
		return "", refuse(fault.Say("adapters.folder"))
	}
	root, err := os.OpenRoot(folder)
	if err == nil {
		_, err = root.Stat(path)
		err = errors.Join(err, root.Close())
	}
	if errors.Is(err, os.ErrNotExist) {
		return "", refuse(fault.Say("adapters.no_file"))
	}
	if err != nil {
		return "", fault.Wrap(fmt.Errorf("adapter %q: %w", path, err), fault.CodeInvalidValue, "path", fault.Say("adapters.outside")).WithParam("path")
	}
	return filepath.Join(folder, path), nil
}
