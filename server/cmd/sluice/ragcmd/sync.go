package ragcmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) ragSyncCommand(f *ragFlags) *cobra.Command {
	y := folderSync{app: a, flags: f}
	var create bool
	var known, statePath string
	cmd := &cobra.Command{
		Use: "sync FOLDER", Short: cli.Both("cli.rag_sync.short"), Long: message.Both("cli.rag_sync.long", "\n\n"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if f.collection == "" {
				return cli.Misuse("cli.rag.no_collection")
			}
			folder, err := absolute(args[0])
			if err != nil {
				return err
			}
			if info, err := os.Stat(folder); err != nil {
				return err
			} else if !info.IsDir() {
				return cli.Misuse("cli.rag_sync.no_folder", args[0])
			}
			if y.root, err = os.OpenRoot(folder); err != nil {
				return err
			}
			defer y.root.Close()             //nolint:errcheck // it was read
			if err := y.list(); err != nil { // a part that cannot be read is an error, and deletes nothing; nor does a folder without files
				return err
			}
			slices.Sort(y.names)
			if len(y.names) == 0 {
				return cli.Failed("cli.rag_ingest.no_files", args[0])
			}
			if known != "" {
				if f.known, err = readKnown(known); err != nil {
					return err
				}
			}
			of := syncHead{URL: strings.TrimSuffix(f.URL, "/"), Tenant: f.tenant, Collection: f.collection}
			if statePath == "" {
				if statePath, err = a.statePath(of, folder); err != nil {
					return err
				}
			}
			if y.state, err = openState(statePath, of, y.dry); err != nil {
				return err
			}
			defer func() {
				if failed := y.state.close(); failed != nil && err == nil {
					err = cli.Failed("cli.rag_sync.not_noted", statePath, failed)
				}
			}()
			if err := y.checkKnown(); err != nil {
				return err
			}
			r, err := a.Login(cmd.Context(), f.RemoteFlags)
			if err != nil {
				return err
			}
			if create && !y.dry {
				if err := createCollection(cmd.Context(), r, f); err != nil {
					return err
				}
			}
			return y.run(cmd.Context(), r)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().BoolVar(&y.remove, "delete", false, cli.Both("cli.rag_sync.delete"))
	cmd.Flags().IntVar(&y.most, "max-delete", -1, cli.Both("cli.rag_sync.max_delete"))
	cmd.Flags().BoolVar(&y.takeOver, "take-over", false, cli.Both("cli.rag_sync.take_over"))
	cmd.Flags().BoolVar(&y.dry, "dry-run", false, cli.Both("cli.rag_sync.dry_run"))
	cmd.Flags().StringVar(&statePath, "state", "", cli.Both("cli.rag_sync.state"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.rag_ingest.label"))
	cmd.Flags().StringVar(&known, "known", "", cli.Both("cli.rag_sync.known"))
	cmd.Flags().BoolVar(&create, "create", false, cli.Both("cli.rag_ingest.create"))
	return cmd
}

// absolute returns where a folder is, whatever links lead there.
func absolute(folder string) (string, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	return filepath.Abs(folder)
}

// statePath returns where the notes of a folder and a collection are. It is not in the folder: whoever can write there must not say what is deleted.
func (a *app) statePath(of syncHead, folder string) (string, error) {
	base := a.Getenv("XDG_STATE_HOME")
	if base == "" {
		home := a.Getenv("HOME")
		if home == "" {
			return "", cli.Misuse("cli.rag_sync.no_home")
		}
		base = filepath.Join(home, ".local", "state")
	}
	raw, err := json.Marshal([]any{of, folder})
	return filepath.Join(base, "sluice", "sync", digest(raw)[:32]+".jsonl"), err
}

// folderSync brings a collection up to date with a folder.
type folderSync struct {
	app                   *app
	flags                 *ragFlags
	remove, dry, takeOver bool
	most                  int // documents that may be deleted; less than 0: half of those that were brought, or fewDeleted
	root                  *os.Root
	names                 []string // of the files
	other                 int      // files that are not read
	state                 *syncState
	there                 map[string]adminapi.Document // by name
}

// fewDeleted is how many documents may be deleted without being asked for by number, however few were brought.
const fewDeleted = 5

// list lists the regular files of the folder that are read. Links are not followed: whoever may write the folder could have anything sent that this user may read.
func (y *folderSync) list() error {
	return fs.WalkDir(y.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
		case d.Type().IsRegular() && readable(name):
			y.names = append(y.names, name)
		default:
			y.other++
		}
		return nil
	})
}

// read reads a regular file of the folder. It follows no link, and waits for no pipe.
func (y *folderSync) read(name string) ([]byte, error) {
	irregular := &fs.PathError{Op: "read", Path: name, Err: cli.Failed("cli.rag_sync.irregular")}
	before, err := y.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, irregular
	}
	f, err := y.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was read
	is, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(before, is) { // it was replaced meanwhile
		return nil, irregular
	}
	return io.ReadAll(f)
}

// gone reports whether nothing stands where a file was. What cannot be looked behind, such as a link to a folder, is not gone.
func (y *folderSync) gone(name string) (bool, error) {
	for i, c := range name + "/" {
		if c != '/' {
			continue
		}
		info, err := y.root.Lstat(name[:i])
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		if err != nil || !info.IsDir() {
			return false, err
		}
	}
	return true, nil // a folder has its name
}

// checkKnown refuses to bring documents without the values to mask that they were brought with.
func (y *folderSync) checkKnown() error {
	for _, name := range slices.Sorted(maps.Keys(y.state.files)) {
		if len(y.flags.known) == 0 && y.state.files[name].Known != "" {
			return cli.Misuse("cli.rag_sync.needs_known", name)
		}
	}
	return nil
}

// run brings new and changed files, and deletes the documents of files that are gone if that is asked for. Each file is noted before it is sent and after, so that a
// sync that was interrupted goes on where it stopped.
func (y *folderSync) run(ctx context.Context, r *cli.Remote) error {
	a, f := y.app, y.flags
	r.Unhurried()
	docs, err := documents(ctx, r, f)
	if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeCollectionNotFound) {
		return cli.Failed("cli.shared.and_remedy", err, message.Say("cli.rag_ingest.how_to_create"))
	}
	if err != nil {
		return err
	}
	y.there = map[string]adminapi.Document{}
	for _, d := range docs {
		y.there[d.Name] = d
	}
	known := ""
	if len(f.known) > 0 {
		raw, err := json.Marshal(f.known)
		if err != nil {
			return err
		}
		known = digest(raw)
	}
	done := ingestion{app: a}
	changed := 0
	for i, name := range y.names {
		now := syncedFile{Known: known}
		content, err := y.read(name)
		now.SHA256 = digest(content)
		if err == nil && y.unchanged(name, now) {
			done.unchanged++
			continue
		}
		changed++
		if err == nil && !y.ours(name) {
			err = cli.Failed("cli.rag_sync.foreign", name)
		}
		if y.dry {
			if err != nil {
				done.tell(name, "", adminapi.Document{}, 0, err)
			} else {
				fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.would_add", name))
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "[%d/%d] %s … ", i+1, len(y.names), name)
		start := time.Now()
		var d adminapi.Document
		if err == nil {
			if d, err = y.send(ctx, r, name, content, now); err != nil && (y.state.failed || !ofFile(err)) {
				fmt.Fprintln(a.Stdout)
				return cli.Failed("cli.rag_ingest.stopped", name, err, message.Say("cli.rag_ingest.interrupted", i, len(y.names)))
			}
		}
		done.tell(name, y.there[name].Version, d, time.Since(start).Round(10*time.Millisecond), err)
	}
	gone, err := y.deleteGone(ctx, r, len(done.failed) > 0)
	if err != nil {
		return err
	}
	if y.dry {
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.dry_summary", f.collection, changed-len(done.failed), done.unchanged, gone))
	} else {
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.summary", f.collection, done.added, done.updated, done.unchanged, len(done.failed), y.other))
	}
	if len(done.failed) > 0 {
		return cli.Failed("cli.rag_ingest.failed", len(done.failed), strings.Join(done.failed, ", "))
	}
	return nil
}

// unchanged reports whether the collection has a file as it is now, as far as this folder has brought it, with the labels that were asked for.
func (y *folderSync) unchanged(name string, now syncedFile) bool {
	was, d := y.state.files[name], y.there[name]
	if was.ID == "" || was.ID != d.Id || was.Version != d.Version || was.SHA256 != now.SHA256 || was.Known != now.Known {
		return false
	}
	return len(y.flags.labels) == 0 || slices.Equal(sorted(y.flags.labels), sorted(d.Labels))
}

func sorted(labels []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(labels)))
}

// ours reports whether the document of a name may get a version from this folder: there is none, this folder has brought it, or it was being sent when a sync was
// interrupted and has that one version.
func (y *folderSync) ours(name string) bool {
	d, there := y.there[name]
	was, noted := y.state.files[name]
	if !there || y.takeOver || noted && was.ID == d.Id {
		return true
	}
	return noted && was.ID == "" && d.Versions != nil && *d.Versions == 1
}

// send sends a file, and notes it.
func (y *folderSync) send(ctx context.Context, r *cli.Remote, name string, content []byte, now syncedFile) (adminapi.Document, error) {
	_, there := y.there[name]
	if !there {
		if err := y.state.note(name, &syncedFile{}); err != nil {
			return adminapi.Document{}, err
		}
	}
	d, err := send(ctx, r, y.flags, name, content)
	if err != nil {
		if !there && ofFile(err) { // else it may be stored
			err = errors.Join(err, y.state.note(name, nil))
		}
		return d, err
	}
	now.ID, now.Version = d.Id, d.Version
	return d, y.state.note(name, &now)
}

// deleteGone deletes the documents of files that are gone, if that is asked for, and returns how many are gone. Only documents that this folder has brought are
// deleted, and only as they were brought: others of the name have another id, and one that somebody has given another version has that. A sync in which something
// failed deletes nothing, nor one that would delete too many: the content may stand there under another name, or a part of the folder may not be there today.
func (y *folderSync) deleteGone(ctx context.Context, r *cli.Remote, failed bool) (int, error) {
	a := y.app
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(y.state.files)) {
		if _, here := slices.BinarySearch(y.names, name); here {
			continue
		}
		is, err := y.gone(name)
		switch {
		case err != nil:
			return 0, err
		case !is:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.present", name))
		default:
			gone = append(gone, name)
		}
	}
	most := y.most
	if most < 0 {
		most = max(fewDeleted, len(y.state.files)/2)
	}
	if y.remove && len(gone) > most {
		return len(gone), cli.Failed("cli.rag_sync.too_many", len(gone), most)
	}
	if y.remove && failed && len(gone) > 0 {
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.none_deleted"))
		return len(gone), nil
	}
	for _, name := range gone {
		was, d := y.state.files[name], y.there[name]
		forget := false
		switch {
		case was.ID == "" || was.ID != d.Id:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.not_there", name))
			forget = true
		case was.Version != d.Version:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.changed_there", name))
		case !y.remove:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.kept", name))
		case y.dry:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.would_delete", name))
		default:
			if err := r.Call(ctx, http.MethodDelete, y.flags.path(d.Id), nil, nil); err != nil {
				return len(gone), fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_delete.deleted", name))
			forget = true
		}
		if forget && y.remove && !y.dry {
			if err := y.state.note(name, nil); err != nil {
				return len(gone), err
			}
		}
	}
	return len(gone), nil
}

// digest is the SHA-256 of a text, in hex.
func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// syncHead says of what a state is.
type syncHead struct {
	URL        string `json:"url"`
	Tenant     string `json:"tenant,omitempty"`
	Collection string `json:"collection"`
}

// syncedFile is a file as it was when it was brought.
type syncedFile struct {
	ID      string `json:"id,omitempty"` // of the document; none while it is sent for the first time
	Version string `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	Known   string `json:"known,omitempty"` // digest of the values to mask
}

// syncLine is a line of a state: a name and what is noted of it now, nothing if it is forgotten. The last line of a name holds.
type syncLine struct {
	Name string      `json:"name"`
	File *syncedFile `json:"file,omitempty"`
}

// syncState is what a collection has of a folder, as far as syncs have brought it there. Its file has a head and then a line for each change; a line that was not
// written to its end is none. One sync at a time uses it.
type syncState struct {
	path   string
	files  map[string]syncedFile // by name
	file   *os.File              // nil: nothing is noted
	lock   *os.File
	failed bool // something could not be noted
}

// openState reads what earlier syncs have noted; nothing, if there was none. What was noted of another collection or server is refused: its documents are not of this
// one. With readOnly nothing is written.
func openState(path string, of syncHead, readOnly bool) (*syncState, error) {
	s := &syncState{path: path, files: map[string]syncedFile{}}
	if readOnly {
		return s, s.read(of)
	}
	if err := s.acquire(); err != nil {
		return nil, err
	}
	err := s.read(of)
	if err == nil {
		err = s.rewrite(of)
	}
	if err != nil {
		_ = s.lock.Close()
		return nil, err
	}
	return s, nil
}

func (s *syncState) read(of syncHead) error {
	raw, err := os.ReadFile(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.parse(string(raw), of)
}

// acquire waits for nobody: two syncs of one folder at a time would send everything twice.
func (s *syncState) acquire() (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return cli.Failed("cli.rag_sync.not_noted", s.path, err)
	}
	if s.lock, err = os.OpenFile(s.path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return cli.Failed("cli.rag_sync.not_noted", s.path, err)
	}
	if err := syscall.Flock(int(s.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = s.lock.Close()
		return cli.Failed("cli.rag_sync.busy", s.path)
	}
	return nil
}

func (s *syncState) parse(raw string, of syncHead) error {
	bad := cli.Failed("cli.rag_sync.bad_state", s.path)
	head := true
	for line := range strings.Lines(raw) {
		if !strings.HasSuffix(line, "\n") && !head { // whoever wrote it was killed
			break
		}
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if head {
			var is syncHead
			if d.Decode(&is) != nil || is.Collection == "" {
				return bad
			}
			if is != of {
				return cli.Misuse("cli.rag_sync.other_state", s.path, is.Collection, is.URL)
			}
			head = false
			continue
		}
		var l syncLine
		if d.Decode(&l) != nil || !fs.ValidPath(l.Name) {
			return bad
		}
		if l.File == nil {
			delete(s.files, l.Name)
		} else {
			s.files[l.Name] = *l.File
		}
	}
	if head {
		return bad
	}
	return nil
}

// rewrite writes a state with a line for each name in place of the one that is there, and opens it for what is noted later.
func (s *syncState) rewrite(of syncHead) error {
	t, err := os.CreateTemp(filepath.Dir(s.path), ".sluice-sync-*")
	if err != nil {
		return cli.Failed("cli.rag_sync.not_noted", s.path, err)
	}
	defer func() { _ = os.Remove(t.Name()) }() // if it was not renamed
	e := json.NewEncoder(t)
	err = e.Encode(of)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		file := s.files[name]
		err = cmp.Or(err, e.Encode(syncLine{name, &file}))
	}
	if err = cmp.Or(err, t.Sync()); err == nil {
		err = os.Rename(t.Name(), s.path)
	}
	if err != nil {
		return cli.Failed("cli.rag_sync.not_noted", s.path, errors.Join(err, t.Close()))
	}
	s.file = t
	return nil
}

// note notes a file; nil forgets it.
func (s *syncState) note(name string, file *syncedFile) error {
	raw, err := json.Marshal(syncLine{name, file})
	if err != nil {
		return err
	}
	if _, err := s.file.Write(append(raw, '\n')); err != nil {
		s.failed = true
		return cli.Failed("cli.rag_sync.not_noted", s.path, err)
	}
	if file == nil {
		delete(s.files, name)
	} else {
		s.files[name] = *file
	}
	return nil
}

// close ends the notes, and lets the next sync begin.
func (s *syncState) close() error {
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Sync(), s.file.Close(), s.lock.Close())
}
