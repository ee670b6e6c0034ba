package rag

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

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
	id := uuid.NewString()
	s.reserve(id)
	defer s.release(id)
	row, err := s.store.createCollection(ctx, id, c, encodeLabels(labels), s.now())
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	ci, err := s.openFilled(ctx, row)
	if err != nil { // it is there: following the tables tries again
		return fault.Wrap(err, fault.CodeRetrievalFailed, c.Name)
	}
	if !s.publish(ci) {
		s.discard(ci)
	}
	return nil
}

// Reader is who asks, beside the tenant: what the access of collections, documents and passages is compared with.
type Reader struct {
	Labels     []string
	Principals []string // such as user:ID and key:ID
	Roles      []string
	Purpose    string // that a policy has taken; "" for none
}

func (r Reader) viewer() viewer {
	return viewer{labels: r.Labels, principals: r.Principals, roles: r.Roles, purpose: r.Purpose}
}

// Collections returns those of the tenant that a reader may see, by name, with the documents that he may see now. Error: CodeRetrievalFailed, beside the list,
// where one cannot say that now; it then counts none.
func (s *Service) Collections(_ context.Context, tenant string, r Reader) ([]Collection, error) {
	out, by, err := s.listCollections(tenant, func(ci *collectionIndex) bool { return permits(ci.labels, r.Labels) })
	who := r.viewer()
	for i := range out {
		if failed := s.answers(by[i]); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		var failed, failedToo error
		out[i].Documents, failed = by[i].shown(who, false)
		out[i].Pending, failedToo = by[i].foreign(&who, false)
		err = errors.Join(err, failed, failedToo)
	}
	return out, err
}

// AllCollections returns all of the tenant, by name, for those who manage them. Documents are counted as [Service.Documents] lists them; those with a rule are
// not counted for a reader while the collection cannot say whom it lets in.
func (s *Service) AllCollections(ctx context.Context, tenant string, reader *Reader) ([]Collection, error) {
	out, by, err := s.listCollections(tenant, func(*collectionIndex) bool { return true })
	if err != nil || len(out) == 0 {
		return out, err
	}
	ids := make([]string, len(by))
	for i, ci := range by {
		ids[i] = ci.id
	}
	counts, err := s.store.count(ctx, ids, reader == nil)
	for i, ci := range by {
		var who *viewer
		ruled, failed := 0, error(nil)
		if reader != nil {
			if s.trusted(ci) != nil {
				out[i].Documents = counts[ci.id]
				continue
			}
			v := reader.viewer()
			who = &v
			ruled, failed = ci.shown(v, true)
		}
		out[i].Documents = counts[ci.id] + ruled
		foreign, failedToo := ci.foreign(who, true)
		out[i].Pending = foreign
		err = errors.Join(err, failed, failedToo)
	}
	return out, err
}

func (s *Service) listCollections(tenant string, seen func(*collectionIndex) bool) (out []Collection, by []*collectionIndex, err error) {
	all := s.collections.Load()
	if all == nil {
		return nil, nil, fault.Wrap(s.Ready(), fault.CodeDatabaseUnavailable)
	}
	for key, ci := range *all {
		if tenant != "" && key.tenant == tenant && seen(ci) {
			by = append(by, ci)
		}
	}
	slices.SortFunc(by, func(a, b *collectionIndex) int { return strings.Compare(a.key.name, b.key.name) })
	for _, ci := range by {
		row := ci.settings.Load()
		out = append(out, Collection{
			Tenant: tenant, Name: ci.key.name, Title: ci.title, Labels: slices.Clone(ci.labels), CreatedAt: time.UnixMicro(ci.created).UTC(),
			Retention: Retention{KeepVersions: int(row.KeepVersions), KeepDays: int(row.KeepDays), Revision: row.Settings},
		})
	}
	return out, by, nil
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
	if gone := s.withdraw(ci.id, ci.key); gone != nil {
		s.discard(gone)
	}
	return nil
}

// withdraw hides a collection that was deleted, and returns it if nobody else has.
func (s *Service) withdraw(id string, key collectionKey) *collectionIndex {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	s.deleted[id] = true
	ci := (*s.collections.Load())[key]
	if ci == nil || ci.id != id {
		return nil
	}
	s.replace(key, nil)
	return ci
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

// Documents returns the documents of a collection, by name. Those who manage it see all of them, if reader is nil; a reader sees which of the documents
// with a rule let him in. Error: CodeRetrievalFailed for a reader while the collection cannot say that.
func (s *Service) Documents(ctx context.Context, tenant, collection string, reader *Reader) ([]DocumentInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	states, err := s.store.documents(ctx, ci.id)
	if err != nil {
		return nil, err
	}
	var who *viewer
	if reader != nil {
		if err := s.answers(ci); err != nil {
			return nil, err
		}
		v := reader.viewer()
		who = &v
	}
	listed, err := ci.listed(who)
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
	}
	now := ci.time()
	var out []DocumentInfo
	for _, d := range states {
		b, err := s.document(d)
		if err != nil { // nobody sees it
			continue
		}
		says := listed[b.ID]
		if reader == nil || !b.restricted() || says != nil && says.seen {
			out = append(out, b.info(says, now))
		}
	}
	slices.SortFunc(out, func(a, b DocumentInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// info describes a document; says is what the store says of it, nil for nothing yet.
func (b *indexedDocument) info(says *listed, now int64) DocumentInfo {
	out := DocumentInfo{
		ID: b.ID, Name: b.Name, Labels: slices.Clone(b.labels), Restricted: b.restricted(), CreatedAt: time.UnixMicro(b.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(b.UpdatedAt).UTC(),
		Versions: len(b.rows), Revision: b.Revision,
	}
	if len(b.rows) == 0 {
		return out
	}
	v := b.last()
	for _, r := range b.rows {
		if r.ValidFrom <= now && now < until0(r.ValidUntil) {
			v, out.InEffect = r, true
		}
	}
	if says != nil {
		d := says.details[v.Version]
		out.Title, out.Bytes, out.Digest = d.Title, d.Bytes, d.Digest
	}
	out.MIME, out.Version, out.Chunks = v.MIME, versionName(v.Version), v.Chunks
	out.ValidFrom, out.ValidUntil = times(v.ValidFrom, v.ValidUntil)
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
	s.show(ctx, ci, documentState{documentRow: documentRow{ID: id, Revision: revision}, gone: true})
	return nil
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
