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
	Pending             int      // set by lists: of these, with a version whose vectors are another model's, which is found by its words until they are made anew
	Retention           Retention
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
	if err := c.Retention.check(); err != nil {
		return err
	}
	row, err := s.store.createCollection(ctx, c, encodeLabels(labels), s.now())
	if err != nil {
		return err
	}
	ci, err := newCollectionIndex(row, s.model.ID, s.newIndex(s.model.Dim), s.store.rules, s.now)
	if err != nil {
		return err
	}
	ci.revision, ci.light, ci.followed = row.Revision, row.Revision, row.Revision
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if old := (*s.collections.Load())[ci.key]; old != nil && old.id == ci.id { // followed already
		return ci.clear()
	}
	s.replace(ci.key, ci)
	return nil
}

// Reader is who asks, beside the tenant: what the access of collections, documents and passages is compared with.
type Reader struct {
	Labels     []string
	Principals []string // such as user:ID and key:ID
	Roles      []string
	Purpose    string // that a policy has taken; "" for none
	// Writes is set for whoever brings documents: lists show him what he brought besides what he may read, what is planned, and all collections.
	Writes bool
}

// bringer is who is kept as the one who brought a document: the person, if a key of his did.
func (r Reader) bringer() string {
	for _, p := range r.Principals {
		if strings.HasPrefix(p, "user:") {
			return p
		}
	}
	if len(r.Principals) == 0 {
		return ""
	}
	return r.Principals[0]
}

// plans reports whether lists show what has not begun.
func (r *Reader) plans() bool { return r == nil || r.Writes }

func (r Reader) viewer() viewer {
	return viewer{labels: r.Labels, principals: r.Principals, roles: r.Roles, purpose: r.Purpose}
}

// Collections returns those of the tenant, by name, that lists show to a reader, with the number of documents that they show him; nil is who sees all. Whoever
// writes sees all collections.
func (s *Service) Collections(_ context.Context, tenant string, reader *Reader) ([]Collection, error) {
	all := s.collections.Load()
	if all == nil {
		return nil, fault.Wrap(s.Ready(), fault.CodeDatabaseUnavailable)
	}
	var out []Collection
	for key, ci := range *all {
		if tenant == "" || key.tenant != tenant || !ci.listedTo(reader) {
			continue
		}
		c := Collection{
			Tenant: key.tenant, Name: key.name, Title: ci.title, Labels: slices.Clone(ci.labels), CreatedAt: time.UnixMicro(ci.created).UTC(),
		}
		c.Documents, c.Pending, c.Retention = ci.count(reader)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Collection) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// listedTo reports whether lists show the collection to a reader.
func (ci *collectionIndex) listedTo(r *Reader) bool {
	return r.plans() || permits(ci.labels, r.Labels)
}

// count returns how many documents lists show a reader, how many of these have vectors of another model, and the settings.
func (ci *collectionIndex) count(reader *Reader) (n, pending int, r Retention) {
	now := ci.rlock()
	defer ci.mu.RUnlock()
	for _, b := range ci.docs {
		if ci.lists(b, reader, now) {
			n++
			if b.foreign(ci.embedder) {
				pending++
			}
		}
	}
	return n, pending, Retention{KeepVersions: int(ci.row.KeepVersions), KeepDays: int(ci.row.KeepDays), Revision: ci.row.Settings}
}

// lists reports whether lists show a document to a reader: those of which he may see a passage of a version that has begun, and to whoever writes those that
// he brought. Who brought a document of a release before is not known: whoever writes sees it unless it has a rule. The caller holds mu.
func (ci *collectionIndex) lists(b *indexedDocument, r *Reader, now int64) bool {
	if r == nil {
		return true
	}
	if r.Writes && (b.Creator == "" && !b.ruled() || slices.Contains(r.Principals, b.Creator)) {
		return true
	}
	return permits(ci.labels, r.Labels) && b.shows(r.viewer(), now)
}

// shows reports whether a viewer may see any passage of a version that has begun.
func (b *indexedDocument) shows(v viewer, now int64) bool {
	return slices.ContainsFunc(b.versions, func(d datedVersion) bool {
		return !d.broken && d.from <= now && slices.ContainsFunc(d.parts, func(p attributed) bool { return permitted(p.conditions, v) })
	})
}

// DeleteCollection deletes a collection with all its documents. The next search does not find it.
func (s *Service) DeleteCollection(ctx context.Context, tenant, name string) error {
	ci, err := s.findFresh(ctx, tenant, name)
	if err != nil {
		return err
	}
	if err := s.store.deleteCollection(ctx, ci.id); err != nil {
		return err
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	s.deleted[ci.id] = true
	if now := (*s.collections.Load())[ci.key]; now != nil && now.id == ci.id {
		s.replace(ci.key, nil)
	}
	if err := ci.clear(); err != nil {
		s.log.Warn("rag: closing the index of a deleted collection failed", slog.Any("error", err))
	}
	return nil
}

// DocumentInfo describes a document by the version that is in effect; by its last one if none is.
type DocumentInfo struct {
	ID, Name, Title, MIME, Version string
	Labels                         []string
	Restricted                     bool // it, or a part of it, has a rule
	Chunks, Bytes                  int  // Bytes of the extracted text
	Digest                         string
	CreatedAt, UpdatedAt           time.Time
	ValidFrom, ValidUntil          time.Time // ValidUntil is zero for no end
	InEffect                       bool
	Versions                       int
	Revision                       int64 // grows with every change of the document
}

// Documents returns the documents of a collection that lists show to a reader, by name; nil is who sees all. A collection that they do not show him is
// answered like one that is not there.
func (s *Service) Documents(ctx context.Context, tenant, collection string, reader *Reader) ([]DocumentInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	if !ci.listedTo(reader) {
		return nil, noCollection(collection)
	}
	return ci.infos(reader), nil
}

// Document returns one document as [Service.Documents] lists it, without a look at the others; also one that another replica has brought a moment ago.
// Errors: CodeCollectionNotFound; CodeNotFound, also for one that lists do not show the reader.
func (s *Service) Document(ctx context.Context, tenant, collection, id string, reader *Reader) (DocumentInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err == nil && !ci.listedTo(reader) {
		err = noCollection(collection)
	}
	if err == nil && ci.document(id) == nil {
		_, _, err = s.known(ctx, tenant, collection, id, false)
	}
	if err != nil {
		return DocumentInfo{}, err
	}
	now := ci.rlock()
	defer ci.mu.RUnlock()
	b := ci.docs[id]
	if b == nil || !ci.lists(b, reader, now) {
		return DocumentInfo{}, fault.New(fault.CodeNotFound, fault.Say("thing.document"), id)
	}
	return b.info(now, reader.plans()), nil
}

// Manages reports, by its error, whether somebody who writes may change the dates of a document or delete it: those that lists show him. What cannot be
// read may be deleted by whoever writes: nobody can be told apart for it. Errors: those of [Service.Document].
func (s *Service) Manages(ctx context.Context, tenant, collection, id string, reader *Reader) error {
	if reader == nil {
		return nil
	}
	_, err := s.Document(ctx, tenant, collection, id, reader)
	if fault.Is(err, fault.CodeNotFound) {
		if ci, err2 := s.collection(tenant, collection); err2 == nil && ci.cannotRead(id) {
			return nil
		}
	}
	return err
}

func (ci *collectionIndex) cannotRead(id string) bool {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	return ci.unreadable[id]
}

func (ci *collectionIndex) infos(reader *Reader) []DocumentInfo {
	out := ci.listed(reader)
	slices.SortFunc(out, func(a, b DocumentInfo) int { return strings.Compare(a.Name, b.Name) }) // without the lock, behind which searches would wait
	return out
}

func (ci *collectionIndex) listed(reader *Reader) (out []DocumentInfo) {
	now := ci.rlock()
	defer ci.mu.RUnlock()
	for _, b := range ci.docs {
		if ci.lists(b, reader, now) {
			out = append(out, b.info(now, reader.plans()))
		}
	}
	return out
}

func (b *indexedDocument) ruled() bool { return b.damaged || !b.rule.none() }

// info describes it; without plans as if versions that have not begun were not there.
func (b *indexedDocument) info(now int64, plans bool) DocumentInfo {
	out := DocumentInfo{
		ID: b.ID, Name: b.Name, Labels: slices.Clone(b.labels), Restricted: b.ruled(), CreatedAt: time.UnixMicro(b.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(b.UpdatedAt).UTC(),
		Versions: len(b.spans), Revision: b.accessAt,
	}
	versions := b.versions
	if !plans {
		later := func(from int64) bool { return from > now }
		versions = slices.DeleteFunc(slices.Clone(versions), func(d datedVersion) bool { return later(d.from) })
		out.Versions -= len(slices.DeleteFunc(slices.Clone(b.spans), func(x span) bool { return !later(x.from) }))
	}
	if len(versions) == 0 {
		return out
	}
	v := versions[len(versions)-1]
	for _, d := range versions {
		if d.in(now) {
			v, out.InEffect = d, true
		}
	}
	out.Title, out.MIME, out.Version, out.Chunks, out.Bytes, out.Digest = v.Title, v.MIME, versionName(v.Version), v.Chunks, len(v.Content), v.Digest
	if !plans && slices.ContainsFunc(b.spans, func(x span) bool { return x.from > now && x.from == v.until }) {
		v.until = 0 // it ends when another begins
	}
	out.ValidFrom, out.ValidUntil = times(v.from, v.until)
	return out
}

// times are how dates are shown.
func times(from, until int64) (f, u time.Time) {
	if f = time.UnixMicro(from).UTC(); until != 0 {
		u = time.UnixMicro(until).UTC()
	}
	return f, u
}

// DeleteDocument deletes a document by name, with the texts and vectors of all its versions. The next search does not find it.
func (s *Service) DeleteDocument(ctx context.Context, tenant, collection, name string) error {
	return s.deleteDocument(ctx, tenant, collection, name, "")
}

// DeleteDocumentID deletes a document by its id.
func (s *Service) DeleteDocumentID(ctx context.Context, tenant, collection, id string) error {
	return s.deleteDocument(ctx, tenant, collection, "", id)
}

func (s *Service) deleteDocument(ctx context.Context, tenant, collection, name, id string) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	id, revision, err := s.store.deleteDocument(ctx, ci.id, name, id)
	if err != nil {
		return err
	}
	s.forgetDocument(ctx, ci, id, revision)
	return nil
}

// forgetDocument takes a document out of memory that was deleted here.
func (s *Service) forgetDocument(ctx context.Context, ci *collectionIndex, id string, revision int64) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	ci.gone[id] = revision
	delete(ci.pending, id)
	if err := ci.remove(ctx, id); err != nil {
		s.log.Warn("rag: removing a document from the index failed", slog.Any("error", err))
	}
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
