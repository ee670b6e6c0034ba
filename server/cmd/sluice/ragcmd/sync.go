package ragcmd

import (
	"bytes"
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
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// stateName is the file in a folder that says what of it a collection has.
const stateName = ".sluice-sync.json"

// syncState is what a collection has of a folder, as far as syncs have brought it there.
type syncState struct {
	Collection string                `json:"collection"`
	Tenant     string                `json:"tenant,omitempty"`
	Documents  map[string]syncedFile `json:"documents"` // by name
}

// syncedFile is a file as it was when it was brought.
type syncedFile struct {
	ID      string `json:"id"` // of the document, which no other collection or installation has
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

func (a *app) ragSyncCommand(f *ragFlags) *cobra.Command {
	y := folderSync{app: a, flags: f}
	var create bool
	cmd := &cobra.Command{
		Use: "sync FOLDER", Short: cli.Both("cli.rag_sync.short"), Long: message.Both("cli.rag_sync.long", "\n\n"), Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return cli.Misuse("cli.rag.no_collection")
			}
			if info, err := os.Stat(args[0]); err != nil {
				return err
			} else if !info.IsDir() {
				return cli.Misuse("cli.rag_sync.no_folder", args[0])
			}
			found, err := collect(args) // a part that cannot be read is an error, and deletes nothing; nor does a folder without files
			if err != nil {
				return err
			}
			y.path = cmp.Or(y.path, filepath.Join(args[0], stateName))
			if y.state, err = readState(y.path, f); err != nil {
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
			return y.run(cmd.Context(), r, found)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().BoolVar(&y.remove, "delete", false, cli.Both("cli.rag_sync.delete"))
	cmd.Flags().BoolVar(&y.dry, "dry-run", false, cli.Both("cli.rag_sync.dry_run"))
	cmd.Flags().StringVar(&y.path, "state", "", cli.Both("cli.rag_sync.state"))
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.rag_ingest.label"))
	cmd.Flags().BoolVar(&create, "create", false, cli.Both("cli.rag_ingest.create"))
	return cmd
}

// readState reads what an earlier sync has noted; nothing, if there was none. What was noted of another collection is refused: its documents are not of this one.
func readState(path string, f *ragFlags) (syncState, error) {
	out := syncState{Collection: f.collection, Tenant: f.tenant, Documents: map[string]syncedFile{}}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var is syncState
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&is); err != nil || is.Documents == nil {
		return out, cli.Failed("cli.rag_sync.bad_state", path)
	}
	if is.Collection != f.collection || is.Tenant != f.tenant {
		return out, cli.Misuse("cli.rag_sync.other_state", path, is.Collection)
	}
	return is, nil
}

// save writes the state so that it is whole at any time.
func (y *folderSync) save() error {
	raw, err := json.MarshalIndent(y.state, "", "  ")
	if err != nil {
		return err
	}
	t, err := os.CreateTemp(filepath.Dir(y.path), ".sluice-sync-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(t.Name()) }() // if it was not renamed
	_, err = t.Write(append(raw, '\n'))
	if err = errors.Join(err, t.Sync(), t.Close()); err != nil {
		return err
	}
	return os.Rename(t.Name(), y.path)
}

// folderSync brings a collection up to date with a folder.
type folderSync struct {
	app    *app
	flags  *ragFlags
	remove bool
	dry    bool
	path   string // of the state
	state  syncState
}

// run brings new and changed files, and deletes the documents of files that are gone if that is asked for. The state is noted after each file, so that a sync that
// was interrupted goes on where it stopped.
func (y *folderSync) run(ctx context.Context, r *cli.Remote, found sources) error {
	a, f := y.app, y.flags
	r.Unhurried()
	there := map[string]adminapi.Document{} // by id
	docs, err := documents(ctx, r, f)
	if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeCollectionNotFound) {
		return cli.Failed("cli.shared.and_remedy", err, message.Say("cli.rag_ingest.how_to_create"))
	}
	if err != nil {
		return err
	}
	former := map[string]string{} // versions, by name
	for _, d := range docs {
		there[d.Id], former[d.Name] = d, d.Version
	}
	done := ingestion{app: a}
	changed, here := 0, map[string]bool{}
	for i, file := range found.files {
		here[file.name] = true
		sum, err := digestOf(file.path)
		if err == nil {
			if was, known := y.state.Documents[file.name]; known && was.SHA256 == sum && there[was.ID].Version == was.Version {
				done.unchanged++
				continue
			}
		}
		changed++
		if y.dry {
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.would_add", file.name))
			continue
		}
		fmt.Fprintf(a.Stdout, "[%d/%d] %s … ", i+1, len(found.files), file.name)
		start := time.Now()
		d, err := add(ctx, r, f, file)
		if err != nil && !ofFile(err) {
			fmt.Fprintln(a.Stdout)
			return cli.Failed("cli.rag_ingest.stopped", file.name, err, message.Say("cli.rag_ingest.interrupted", i, len(found.files)))
		}
		done.tell(file.name, former[file.name], d, time.Since(start).Round(10*time.Millisecond), err)
		if err != nil {
			continue
		}
		again, err := digestOf(file.path)
		if err != nil || again != sum { // it was changed while it was sent: the next sync sends it again
			sum = ""
		}
		y.state.Documents[file.name] = syncedFile{d.Id, d.Version, sum}
		if err := y.save(); err != nil {
			return cli.Failed("cli.rag_sync.not_noted", y.path, err)
		}
	}
	gone, err := y.deleteGone(ctx, r, here)
	if err != nil {
		return err
	}
	if y.dry {
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.dry_summary", f.collection, changed, done.unchanged, gone))
		return nil
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.summary", f.collection, done.added, done.updated, done.unchanged, len(done.failed), found.other))
	if len(done.failed) > 0 {
		return cli.Failed("cli.rag_ingest.failed", len(done.failed), strings.Join(done.failed, ", "))
	}
	return nil
}

// deleteGone deletes the documents of files that are gone, if that is asked for, and returns how many are gone. Only documents that a sync has brought from this
// folder are deleted: others of the collection, also one of the same name that somebody brought after he had deleted ours, have ids that the state does not name.
func (y *folderSync) deleteGone(ctx context.Context, r *cli.Remote, here map[string]bool) (gone int, err error) {
	a := y.app
	for _, name := range slices.Sorted(maps.Keys(y.state.Documents)) {
		if here[name] {
			continue
		}
		gone++
		switch {
		case !y.remove:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.kept", name))
			continue
		case y.dry:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.would_delete", name))
			continue
		}
		err := r.Call(ctx, http.MethodDelete, y.flags.path(y.state.Documents[name].ID), nil, nil)
		p := (*cli.ProblemError)(nil)
		switch {
		case err == nil:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_delete.deleted", name))
		case errors.As(err, &p) && p.Status == http.StatusNotFound:
			fmt.Fprintln(a.Stdout, a.Say("cli.rag_sync.not_there", name))
		default:
			return gone, fmt.Errorf("%s: %w", name, err)
		}
		delete(y.state.Documents, name)
		if err := y.save(); err != nil {
			return gone, cli.Failed("cli.rag_sync.not_noted", y.path, err)
		}
	}
	return gone, nil
}

// digestOf returns the SHA-256 of a file.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was read
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
