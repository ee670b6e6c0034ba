package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

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
	dir, err := os.MkdirTemp(p.cfg.Data, "adapter-")
	if err != nil {
		return native.Adapter{}, fmt.Errorf("load adapter: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays is a copy
	if cfg.Path, err = copyAdapter(filepath.Join(p.cfg.Downloads, modelstore.Models, adaptersFolder), cfg.Path, dir); err != nil {
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
