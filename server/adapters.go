package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/modelstore"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/internal/fault"
)

// adaptersFolder lies below the folder of models. What a request of the management API names is looked for there and nowhere else.
const adaptersFolder = "adapters"

// loadAdapter loads an adapter whose path lies below the folder of adapters, and makes it callable: a model of its name gets a version.
// When that fails, the adapter is gone again. Where a worker has the model, and this process has not, the worker loads, from its own folder.
func (p *parts) loadAdapter(ctx context.Context, cfg native.AdapterConfig) (native.Adapter, error) {
	name, err := p.engineWith(ctx, cfg.Model)
	if err != nil {
		return native.Adapter{}, err
	}
	load, unload := p.loadAdapterFile, p.unloadNative
	if w := p.workers[name]; w != nil {
		load = func(ctx context.Context, cfg native.AdapterConfig) (native.Adapter, error) {
			a, err := w.LoadAdapter(ctx, worker.NewAdapter(cfg))
			return native.Adapter(a), err
		}
		unload = w.UnloadAdapter
	}
	a, err := load(ctx, cfg)
	if err != nil {
		return native.Adapter{}, err
	}
	if err := p.offerAdapter(ctx, name, a.ID); err != nil {
		return native.Adapter{}, errors.Join(err, unload(context.WithoutCancel(ctx), a.ID))
	}
	return a, nil
}

func (p *parts) unloadNative(_ context.Context, id engine.ModelID) error {
	return p.native.UnloadAdapter(id)
}

// engineWith returns the name of the engine of ours that has a model or an adapter: that of this process before a worker.
func (p *parts) engineWith(ctx context.Context, id engine.ModelID) (string, error) {
	names := slices.Sorted(maps.Keys(p.workers))
	if p.native != nil {
		names = slices.Insert(names, 0, nativeEngine)
	}
	for _, name := range names {
		models, err := p.engines[name].Models(ctx)
		if err != nil {
			continue // what cannot be asked has nothing now
		}
		if slices.ContainsFunc(models, func(m engine.Model) bool { return m.ID == id }) {
			return name, nil
		}
	}
	return "", fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
}

// adapters lists what this process and the workers have loaded, by id.
func (p *parts) adapters(ctx context.Context) ([]native.Adapter, error) {
	var out []native.Adapter
	if p.native != nil {
		out = p.native.Adapters()
	}
	for _, name := range slices.Sorted(maps.Keys(p.workers)) {
		theirs, err := p.workers[name].Adapters(ctx)
		if fault.Is(err, fault.CodeEngineUnavailable) {
			continue // its models cannot be asked for either
		}
		if err != nil {
			return nil, fmt.Errorf("list the adapters of %s: %w", name, err)
		}
		for _, a := range theirs {
			out = append(out, native.Adapter(a))
		}
	}
	slices.SortStableFunc(out, func(a, b native.Adapter) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// loadAdapterFile loads an adapter into the engine of this process.
func (p *parts) loadAdapterFile(_ context.Context, cfg native.AdapterConfig) (native.Adapter, error) {
	dir, err := os.MkdirTemp(p.cfg.Data, "adapter-")
	if err != nil {
		return native.Adapter{}, fmt.Errorf("load adapter: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays is a copy
	if cfg.Path, err = copyAdapter(filepath.Join(p.cfg.Downloads, modelstore.Models, adaptersFolder), cfg.Path, dir); err != nil {
		return native.Adapter{}, err
	}
	return p.native.LoadAdapter(cfg)
}

// offerAdapter registers a version for an adapter, unless one names it already: then its weights must be those of that version, since
// records about it are there.
func (p *parts) offerAdapter(ctx context.Context, engineName string, id engine.ModelID) error {
	if err := p.router.Load(ctx); err != nil {
		return err
	}
	known, err := p.router.Versions(ctx, string(id))
	if err != nil {
		return err
	}
	digest, err := p.router.Digest(engineName, id)
	if err != nil {
		return err
	}
	for _, v := range known {
		if v.Engine == engineName && v.EngineModel == id && v.Digest != digest {
			return fault.New(fault.CodeConflict, fault.Say("adapters.id_taken", id, v.Version)).WithParam("id")
		}
	}
	if len(known) > 0 {
		return nil
	}
	models, err := p.engines[engineName].Models(ctx)
	if err != nil {
		return err
	}
	for _, m := range models {
		if m.ID == id {
			return p.registerModel(ctx, engineName, m)
		}
	}
	return fault.New(fault.CodeModelNotFound, string(id)).WithParam("id") // it was unloaded meanwhile
}

// unloadAdapter forgets an adapter, also in the list of models that can be asked for.
func (p *parts) unloadAdapter(ctx context.Context, id engine.ModelID) error {
	name, err := p.engineWith(ctx, id)
	if err != nil {
		return err
	}
	unload := p.unloadNative
	if w := p.workers[name]; w != nil {
		unload = w.UnloadAdapter
	}
	if err := unload(ctx, id); err != nil {
		return err
	}
	if err := p.router.Load(ctx); err != nil { // the next look at the engines finds out anyway
		p.log.LogAttrs(ctx, slog.LevelWarn, "routes are read again later", slog.String("error", err.Error()))
	}
	return nil
}

// copyAdapter copies an adapter that lies at a relative path below a folder into a directory of ours, and returns where it is. What is read is
// what was opened below the folder, so nobody can put a link that leads out in its place between the look and the use, nor change the file that
// is mapped. Links that lead out are refused like paths that do.
func copyAdapter(folder, path, dir string) (string, error) {
	refuse := func(why fault.Phrase) error { return fault.New(fault.CodeInvalidValue, "path", why).WithParam("path") }
	if !filepath.IsLocal(path) {
		return "", refuse(fault.Say("adapters.folder"))
	}
	to := filepath.Join(dir, filepath.Base(path))
	err := copyBelow(folder, path, to)
	switch {
	case err == nil:
		return to, nil
	case errors.Is(err, os.ErrNotExist):
		return "", refuse(fault.Say("adapters.no_file"))
	}
	return "", fault.Wrap(fmt.Errorf("adapter %q: %w", path, err), fault.CodeInvalidValue, "path", fault.Say("adapters.outside")).WithParam("path")
}

// copyBelow copies a file, or of a directory the files that an adapter of PEFT may have.
func copyBelow(folder, path, to string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read only
	info, err := root.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(root, path, to)
	}
	below, err := root.OpenRoot(path)
	if err != nil {
		return err
	}
	defer below.Close() //nolint:errcheck // read only
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"} {
		// What is missing, the reader of adapters says.
		if err := copyFile(below, name, filepath.Join(to, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func copyFile(root *os.Root, name, to string) error {
	in, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for whoever writes
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // read only
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no regular file")
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
