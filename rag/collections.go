package rag

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-project/sluice/internal/fault"
)

// Collection is a set of documents of one tenant.
type Collection struct {
	Tenant, Name, Title string
	Labels              []string // a principal needs one of these; empty: every principal of the tenant
	Documents           int      // set by lists
	Pending             int      // set by lists: of these, whose vectors another model made and that are found by their words until they are made anew
	CreatedAt           time.Time
}

// CreateCollection creates an empty collection. Its name, unique in the tenant, consists of letters, digits and . _ -
func (s *Service) CreateCollection(ctx context.Context, c Collection) error {
	if c.Tenant == "" {
		return fault.New(fault.CodeMissing, "tenant").WithParam("tenant")
	}
	if !validName(c.Name, 64, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-", r) }) {
		return fault.New(fault.CodeInvalidValue, "name", fault.Say("rag.name")).WithParam("name")
	}
	if !utf8.ValidString(c.Title) || len(c.Title) > 400 || strings.ContainsFunc(c.Title, unicode.IsControl) {
		return fault.New(fault.CodeInvalidValue, "title", fault.Say("rag.description")).WithParam("title")
	}
	labels, err := cleanLabels(c.Labels)
	if err != nil {
		return err
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	row, err := s.store.createCollection(ctx, c, encodeLabels(labels), s.now())
	if err != nil {
		return err
	}
	ci, err := newCollectionIndex(row, s.model.ID, s.newIndex(s.model.Dim))
	if err != nil {
		return err
	}
	ci.revision = row.Revision
	s.replace(ci.key, ci)
	return nil
}

// Collections returns those of the tenant that a principal with these labels may see, by name.
func (s *Service) Collections(_ context.Context, tenant string, labels []string) ([]Collection, error) {
	return s.listCollections(tenant, func(ci *collectionIndex) bool { return permits(ci.labels, labels) }, func(b *indexedDocument) bool { return permits(b.labels, labels) })
}

// AllCollections returns all of the tenant, by name, for those who manage them.
func (s *Service) AllCollections(_ context.Context, tenant string) ([]Collection, error) {
	return s.listCollections(tenant, func(*collectionIndex) bool { return true }, func(*indexedDocument) bool { return true })
}

func (s *Service) listCollections(tenant string, seen func(*collectionIndex) bool, counted func(*indexedDocument) bool) ([]Collection, error) {
	all := s.collections.Load()
	if all == nil {
		return nil, fault.Wrap(s.Ready(), fault.CodeDatabaseUnavailable)
	}
	var out []Collection
	for key, ci := range *all {
		if tenant == "" || key.tenant != tenant || !seen(ci) {
			continue
		}
		c := Collection{
			Tenant: key.tenant, Name: key.name, Title: ci.title, Labels: slices.Clone(ci.labels), CreatedAt: time.UnixMicro(ci.created).UTC(),
		}
		for _, b := range ci.documents() {
			if counted(b) {
				c.Documents++
				if b.Embedder != ci.embedder {
					c.Pending++
				}
			}
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Collection) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// DeleteCollection deletes a collection with all its documents. The next search does not find it.
func (s *Service) DeleteCollection(ctx context.Context, tenant, name string) error {
	ci, err := s.findFresh(ctx, tenant, name)
	if err != nil {
		return err
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if err := s.store.deleteCollection(ctx, ci.id); err != nil {
		return err
	}
	s.replace(ci.key, nil)
	if err := ci.clear(); err != nil {
		s.log.Warn("rag: closing the index of a deleted collection failed", slog.Any("error", err))
	}
	return nil
}

// DocumentInfo describes a document.
type DocumentInfo struct {
	ID, Name, Title, MIME, Version string
	Labels                         []string
	Chunks, Bytes                  int // Bytes of the extracted text
	Digest                         string
	CreatedAt, UpdatedAt           time.Time
}

// Documents returns all documents of a collection, by name, for those who manage them.
func (s *Service) Documents(ctx context.Context, tenant, collection string) ([]DocumentInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	var out []DocumentInfo
	for _, b := range ci.documents() {
		out = append(out, DocumentInfo{
			ID: b.ID, Name: b.Name, Title: b.Title, MIME: b.MIME, Version: versionName(b.Version), Labels: slices.Clone(b.labels),
			Chunks: len(b.chunks), Bytes: len(b.Content), Digest: b.Digest,
			CreatedAt: time.UnixMicro(b.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(b.UpdatedAt).UTC(),
		})
	}
	slices.SortFunc(out, func(a, b DocumentInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// DeleteDocument deletes a document by name, with its text and vectors. The next search does not find it.
func (s *Service) DeleteDocument(ctx context.Context, tenant, collection, name string) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	id, err := s.store.deleteDocument(ctx, ci.id, name)
	if err != nil {
		return err
	}
	if err := ci.remove(ctx, id); err != nil {
		s.log.Warn("rag: removing a document from the index failed", slog.Any("error", err))
	}
	return nil
}

func (ci *collectionIndex) documents() []*indexedDocument {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	return slices.Collect(maps.Values(ci.docs))
}

// known returns the ids of all documents, also of those that cannot be read.
func (ci *collectionIndex) documentIDs() []string {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	return slices.AppendSeq(slices.Collect(maps.Keys(ci.docs)), maps.Keys(ci.unreadable))
}

func versionName(n int64) string { return fmt.Sprintf("v%d", n) }

func validName(s string, most int, ok func(rune) bool) bool {
	return s != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) })
}

// cleanLabels sorts labels and drops repeated ones.
func cleanLabels(labels []string) ([]string, error) {
	out := append([]string{}, labels...)
	slices.Sort(out)
	out = slices.Compact(out)
	for _, l := range out {
		if !validName(l, 64, func(r rune) bool {
			return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("._-:/", r)
		}) {
			return nil, fault.New(fault.CodeInvalidValue, "labels", fault.Say("rag.label")).WithParam("labels")
		}
	}
	if len(out) > 64 {
		return nil, fault.New(fault.CodeInvalidValue, "labels", fault.Say("rag.label_count")).WithParam("labels")
	}
	return out, nil
}
