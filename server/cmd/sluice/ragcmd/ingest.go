package ragcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/rag/parse"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

func (a *app) ragIngestCommand(f *ragFlags) *cobra.Command {
	var create bool
	var known, from, until string
	cmd := &cobra.Command{
		Use: "ingest PATH…", Short: cli.Both("cli.rag_ingest.short"), Args: cli.AtLeast(1),
		Long: message.Both("cli.rag_ingest.long", "\n\n"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.collection == "" {
				return cli.Misuse("cli.rag.no_collection")
			}
			found, err := collect(args)
			if err != nil {
				return err
			}
			if known != "" {
				if f.known, err = readKnown(known); err != nil {
					return err
				}
			}
			if f.from, err = instant("valid-from", from); err != nil {
				return err
			}
			if f.until, err = instant("valid-until", until); err != nil {
				return err
			}
			r, err := a.Login(cmd.Context(), f.RemoteFlags)
			if err != nil {
				return err
			}
			if create {
				if err := createCollection(cmd.Context(), r, f); err != nil {
					return err
				}
			}
			return a.ingest(cmd.Context(), r, f, found)
		},
	}
	f.collectionFlag(cmd)
	cmd.Flags().StringSliceVar(&f.labels, "label", nil, cli.Both("cli.rag_ingest.label"))
	cmd.Flags().StringVar(&known, "known", "", cli.Both("cli.rag_ingest.known"))
	cmd.Flags().StringVar(&from, "valid-from", "", cli.Both("cli.rag_ingest.valid_from"))
	cmd.Flags().StringVar(&until, "valid-until", "", cli.Both("cli.rag_ingest.valid_until"))
	cmd.Flags().BoolVar(&create, "create", false, cli.Both("cli.rag_ingest.create"))
	return cmd
}

// createCollection creates the collection of the flags if it does not exist.
func createCollection(ctx context.Context, r *cli.Remote, f *ragFlags) error {
	in := *f
	in.labels = nil // those of the documents
	err := r.Call(ctx, http.MethodPost, "/rag/collections", in.newCollection(""), nil)
	if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeExists) {
		return nil
	}
	return err
}

// readKnown reads values, one a line, each behind its class and a tab unless it is a person's name. Values are in a file, since others see the
// arguments of a program; the server checks them. What would be taken for another value than was meant, and mask nothing, is refused here.
func readKnown(path string) ([]adminapi.KnownValue, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(content) {
		return nil, cli.Misuse("cli.rag_ingest.not_utf8", path)
	}
	var out []adminapi.KnownValue
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(content), "\ufeff")) {
		n++
		class, value, classed := strings.Cut(strings.Trim(line, " \r\n"), "\t")
		class, value = strings.TrimSpace(class), strings.TrimSpace(value)
		first, _, spaced := strings.Cut(class, " ")
		k := adminapi.KnownValue{Value: class}
		switch {
		case class == "" && value == "":
			continue
		case classed && (class == "" || value == ""):
			return nil, cli.Misuse("cli.rag_ingest.known_line", path, n)
		case classed:
			k = adminapi.KnownValue{Class: &class, Value: value}
		case spaced && slices.Contains(classify.Classes(), classify.Class(first)):
			return nil, cli.Misuse("cli.rag_ingest.known_tab", path, n, first)
		}
		out = append(out, k)
	}
	if len(out) == 0 {
		return nil, cli.Misuse("cli.rag_ingest.known_none", path)
	}
	return out, nil
}

// sources are the files to add.
type sources struct {
	files []source
	other int // files in the folders of types that cannot be added
}

type source struct{ path, name string }

// collect lists the files that args name. A file is taken whatever its type: the server says what is wrong with it.
func collect(args []string) (sources, error) {
	var out sources
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return sources{}, err
		}
		if !info.IsDir() {
			out.files = append(out.files, source{arg, filepath.Base(arg)})
			continue
		}
		if err := out.walk(arg); err != nil {
			return sources{}, err
		}
	}
	slices.SortFunc(out.files, func(x, y source) int { return strings.Compare(x.name, y.name) })
	for i := 1; i < len(out.files); i++ {
		if x, y := out.files[i-1], out.files[i]; x.name == y.name && x.path != y.path {
			return sources{}, cli.Misuse("cli.rag_ingest.same_name", x.path, y.path, x.name)
		}
	}
	out.files = slices.Compact(out.files)
	if len(out.files) == 0 {
		return sources{}, cli.Failed("cli.rag_ingest.no_files", strings.Join(args, ", "))
	}
	return out, nil
}

func (s *sources) walk(folder string) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != folder && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		if readable(path) {
			name, err := filepath.Rel(folder, path)
			s.files = append(s.files, source{path, filepath.ToSlash(name)})
			return err
		}
		s.other++
		return nil
	})
}

// readable reports whether files with the ending of path are read.
func readable(path string) bool {
	ending := strings.ToLower(filepath.Ext(path))
	for _, endings := range parse.Kinds() {
		if slices.Contains(endings, ending) {
			return true
		}
	}
	return false
}

// ingest adds the files one after the other and tells how each went. A file that cannot be read does not keep the others back.
func (a *app) ingest(ctx context.Context, r *cli.Remote, f *ragFlags, found sources) error {
	r.Unhurried() // a long document takes the model many minutes, and is paid for even if nobody waits
	before, err := documents(ctx, r, f)
	if p := (*cli.ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeCollectionNotFound) {
		return cli.Failed("cli.shared.and_remedy", err, message.Say("cli.rag_ingest.how_to_create"))
	}
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, d := range before {
		versions[d.Name] = d.Version
	}
	done := ingestion{app: a}
	for i, file := range found.files {
		fmt.Fprintf(a.Stdout, "[%d/%d] %s … ", i+1, len(found.files), file.name)
		if info, err := os.Stat(file.path); err == nil && info.Size() > 256<<10 {
			fmt.Fprint(a.Stdout, a.Say("cli.rag_ingest.large", info.Size()>>10)+" ")
		}
		start := time.Now()
		d, err := add(ctx, r, f, file)
		if err != nil && !ofFile(err) {
			fmt.Fprintln(a.Stdout)
			return cli.Failed("cli.rag_ingest.stopped", file.name, err, message.Say("cli.rag_ingest.interrupted", i, len(found.files)))
		}
		done.tell(file.name, versions[d.Name], d, time.Since(start).Round(10*time.Millisecond), err)
	}
	fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.summary", f.collection, done.added, done.updated, done.unchanged, len(done.failed), found.other))
	if len(done.failed) > 0 {
		return cli.Failed("cli.rag_ingest.failed", len(done.failed), strings.Join(done.failed, ", "))
	}
	return nil
}

// ingestion counts how the files of one run went.
type ingestion struct {
	app                       *app
	added, updated, unchanged int
	failed                    []string
}

// tell says how a file went. former is the version that the document had before, "" for none.
func (n *ingestion) tell(name, former string, d adminapi.Document, took time.Duration, err error) {
	a := n.app
	switch {
	case err != nil:
		n.failed = append(n.failed, name)
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.not_added", err))
	case former == "":
		n.added++
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.added", d.Chunks, took))
	case former == d.Version:
		n.unchanged++
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.unchanged"))
	default:
		n.updated++
		fmt.Fprintln(a.Stdout, a.Say("cli.rag_ingest.updated", former, d.Version, d.Chunks, took))
	}
	if err == nil && d.LeftOut != nil {
		for _, left := range *d.LeftOut {
			fmt.Fprintln(a.Stdout, "    "+a.Say("cli.rag_ingest.left_out", left))
		}
	}
}

// ofFile reports whether an error concerns one file only.
func ofFile(err error) bool {
	var p *cli.ProblemError
	if errors.As(err, &p) {
		return p.Code != string(fault.CodeCollectionNotFound) &&
			(p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge || p.Status == http.StatusConflict) // a conflict with its access rule
	}
	var unreadable *fs.PathError
	return errors.As(err, &unreadable)
}

// add sends a file as a document.
func add(ctx context.Context, r *cli.Remote, f *ragFlags, file source) (adminapi.Document, error) {
	content, err := os.ReadFile(file.path)
	if err != nil {
		return adminapi.Document{}, err
	}
	return send(ctx, r, f, file.name, content)
}

// send sends a document. Where a limit per minute is reached, or the server reads as many documents as it may, it goes on when the server says: a folder
// may have more documents than a minute has requests.
func send(ctx context.Context, r *cli.Remote, f *ragFlags, name string, content []byte) (adminapi.Document, error) {
	in := adminapi.NewDocument{Name: name, Content: &content, ValidFrom: f.from, ValidUntil: f.until}
	if len(f.labels) > 0 {
		in.Labels = &f.labels
	}
	if len(f.known) > 0 {
		in.Known = &f.known
	}
	for {
		var out adminapi.Document
		err := r.Call(ctx, http.MethodPost, f.path(""), in, &out)
		var p *cli.ProblemError
		if !errors.As(err, &p) || p.Status != http.StatusTooManyRequests && p.Code != string(fault.CodeDocumentsBusy) || p.After == 0 {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, cli.ErrInterrupted
		case <-time.After(p.After):
		}
	}
}

// documents lists a collection.
func documents(ctx context.Context, r *cli.Remote, f *ragFlags) ([]adminapi.Document, error) {
	return list[adminapi.Document](ctx, r, f, "documents")
}

// list returns all pages of what a collection has of a kind.
func list[T any](ctx context.Context, r *cli.Remote, f *ragFlags, kind string) ([]T, error) {
	var out []T
	for cursor := ""; ; {
		var page struct {
			Items []T
			Next  *string
		}
		path := "/rag/collections/" + url.PathEscape(f.collection) + "/" + kind + cli.Query("tenant", f.tenant, "cursor", cursor, "limit", "200")
		if err := r.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if page.Next == nil || *page.Next == "" {
			return out, nil
		}
		cursor = *page.Next
	}
}
