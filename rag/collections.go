package rag

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/segment"
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
func (s *Service) Collections(ctx context.Context, tenant string, reader *Reader) ([]Collection, error) {
	all := s.collections.Load()
	if all == nil {
		return nil, fault.Wrap(s.Ready(), fault.CodeDatabaseUnavailable)
	}
	var by []*collectionIndex
	for key, ci := range *all {
		if tenant != "" && key.tenant == tenant && ci.listedTo(reader) {
			by = append(by, ci)
		}
	}
	if len(by) == 0 {
		return nil, nil
	}
	slices.SortFunc(by, func(a, b *collectionIndex) int { return strings.Compare(a.key.name, b.key.name) })
	ids := make([]string, len(by))
	for i, ci := range by {
		ids[i] = ci.id
	}
	counts, err := s.store.count(ctx, ids, reader, s.now())
	if err != nil {
		return nil, err
	}
	out := make([]Collection, len(by))
	for i, ci := range by {
		row := ci.settings.Load()
		out[i] = Collection{
			Tenant: tenant, Name: ci.key.name, Title: ci.title, Labels: slices.Clone(ci.labels), CreatedAt: time.UnixMicro(ci.created).UTC(),
			Retention: Retention{KeepVersions: int(row.KeepVersions), KeepDays: int(row.KeepDays), Revision: row.Settings},
		}
		if out[i].Documents, err = s.count(ctx, ci, reader, counts[ci.id]); err == nil && s.trusted(ci) == nil {
			out[i].Pending, err = ci.foreign(reader)
		}
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeRetrievalFailed, ci.key.name)
		}
	}
	return out, nil
}

// listedTo reports whether lists show the collection to a reader.
func (ci *collectionIndex) listedTo(r *Reader) bool {
	return r.plans() || permits(ci.labels, r.Labels)
}

// count returns how many documents of a collection lists show a reader; counts are those of the tables. While the store cannot say whom the rules of
// parts let in, none of these are counted for him.
func (s *Service) count(ctx context.Context, ci *collectionIndex, r *Reader, counts []documentCount) (n int, err error) {
	for _, c := range counts {
		labels, err := decodeLabels(c.Labels)
		if err != nil { // nobody sees them
			continue
		}
		if r == nil || r.Writes && c.Whose != nobodys || !c.Ruled && c.Begun && permits(ci.labels, r.Labels) && permits(labels, r.Labels) {
			n += c.N
		}
	}
	if r == nil || !permits(ci.labels, r.Labels) || s.trusted(ci) != nil {
		return n, nil //nolint:nilerr // without those that only the store can tell
	}
	ruled, err := ci.ruledFor(r.viewer())
	if err != nil {
		return 0, err
	}
	n += ruled.Documents()
	if !r.Writes {
		return n, nil
	}
	own, err := s.store.ruledOf(ctx, ci.id, r.Principals)
	for _, id := range own { // they are among counts
		if slices.ContainsFunc(ruled.View().Find(id), ruled.HasAny) {
			n--
		}
	}
	return n, err
}

// lister decides what lists show a reader, and reads one view of the store for all documents.
type lister struct {
	s      *Service
	ci     *collectionIndex
	reader *Reader
	now    int64
	ruled  *segment.Filter // see ruledFor; read when it is needed
}

func (s *Service) lister(ci *collectionIndex, r *Reader) *lister {
	return &lister{s: s, ci: ci, reader: r, now: ci.time()}
}

// shows reports whether lists show a document: those of which he may see a passage of a version that has begun, and to whoever writes those that
// he brought. Who brought a document of a release before is not known: whoever writes sees it unless it has a rule. The tables say so; which passages a part of
// a rule keeps for others, the store.
func (l *lister) shows(b *indexedDocument) (_ bool, err error) {
	r := l.reader
	if r == nil {
		return true, nil
	}
	if r.Writes && (b.Creator == "" && !b.restricted() || slices.Contains(r.Principals, b.Creator)) {
		return true, nil
	}
	v := r.viewer()
	begun := slices.ContainsFunc(b.rows, func(row versionRow) bool { return row.ValidFrom <= l.now })
	if !begun || !permits(l.ci.labels, r.Labels) || !permitted(b.conditions(), v) {
		return false, nil
	}
	if len(b.rule.Parts) == 0 {
		return true, nil
	}
	if l.ruled == nil {
		if err := l.s.answers(l.ci); err != nil {
			return false, err
		}
		if l.ruled, err = l.ci.ruledFor(v); err != nil {
			return false, err
		}
	}
	return slices.ContainsFunc(l.ruled.View().Find(b.ID), l.ruled.HasAny), nil
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

// Documents returns the documents of a collection that lists show to a reader, by name; nil is who sees all. A collection that they do not show him is
// answered like one that is not there. Error: CodeRetrievalFailed while the collection cannot say whom the rules of parts let in.
func (s *Service) Documents(ctx context.Context, tenant, collection string, reader *Reader) ([]DocumentInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	if !ci.listedTo(reader) {
		return nil, noCollection(collection)
	}
	states, err := s.store.documents(ctx, ci.id)
	if err != nil {
		return nil, err
	}
	says, err := ci.said()
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
	}
	list := s.lister(ci, reader)
	var out []DocumentInfo
	for _, d := range states {
		b, err := s.document(d)
		if err != nil { // nobody sees it
			continue
		}
		shown, err := list.shows(b)
		if err != nil {
			return nil, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
		}
		if shown {
			out = append(out, b.info(says[b.ID], list.now, reader.plans()))
		}
	}
	slices.SortFunc(out, func(a, b DocumentInfo) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Document returns one document as [Service.Documents] lists it, without a look at the others; also one that another replica has brought a moment ago.
// Errors: CodeCollectionNotFound; CodeNotFound, also for one that lists do not show the reader.
func (s *Service) Document(ctx context.Context, tenant, collection, id string, reader *Reader) (DocumentInfo, error) {
	ci, b, err := s.known(ctx, tenant, collection, id, false)
	if ci != nil && !ci.listedTo(reader) {
		err = noCollection(collection)
	}
	if err != nil {
		return DocumentInfo{}, err
	}
	list := s.lister(ci, reader)
	shown, err := list.shows(b)
	if err == nil && !shown {
		return DocumentInfo{}, fault.New(fault.CodeNotFound, fault.Say("thing.document"), id)
	}
	details := map[int64]detail{}
	if err == nil {
		details, err = readDetails(ci.passages.View().Find(id))
	}
	if err != nil {
		return DocumentInfo{}, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
	}
	return b.info(details, list.now, reader.plans()), nil
}

// Manages reports, by its error, whether somebody who writes may change the dates of a document or delete it: those that lists show him. What cannot be
// read may be deleted by whoever writes: nobody can be told apart for it. Errors: those of [Service.Document].
func (s *Service) Manages(ctx context.Context, tenant, collection, id string, reader *Reader) error {
	if reader == nil {
		return nil
	}
	_, err := s.Document(ctx, tenant, collection, id, reader)
	if fault.Is(err, fault.CodeNotFound) {
		if ci, err2 := s.collection(tenant, collection); err2 == nil && s.cannotRead(ctx, ci, id) {
			return nil
		}
	}
	return err
}

// cannotRead reports whether the labels of a document of a collection cannot be read.
func (s *Service) cannotRead(ctx context.Context, ci *collectionIndex, id string) bool {
	d, found, err := s.store.state(ctx, id)
	if err != nil || !found || d.Collection != ci.id {
		return false
	}
	_, err = decodeLabels(d.Labels)
	return err != nil
}

// info describes a document; details are what the store says of its versions. Without plans it is as if versions that have not begun were not there.
func (b *indexedDocument) info(details map[int64]detail, now int64, plans bool) DocumentInfo {
	out := DocumentInfo{
		ID: b.ID, Name: b.Name, Labels: slices.Clone(b.labels), Restricted: b.restricted(), CreatedAt: time.UnixMicro(b.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(b.UpdatedAt).UTC(),
		Versions: len(b.rows), Revision: b.Revision,
	}
	rows := b.rows
	if !plans {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r versionRow) bool { return r.ValidFrom > now })
		out.Versions = len(rows)
	}
	if len(rows) == 0 {
		return out
	}
	v := rows[len(rows)-1]
	for _, r := range rows {
		if r.ValidFrom <= now && now < until0(r.ValidUntil) {
			v, out.InEffect = r, true
		}
	}
	d := details[v.Version]
	out.Title, out.Bytes, out.Digest = d.Title, d.Bytes, d.Digest
	out.MIME, out.Version, out.Chunks = v.MIME, versionName(v.Version), v.Chunks
	if !plans && slices.ContainsFunc(b.rows, func(r versionRow) bool { return r.ValidFrom > now && r.ValidFrom == v.ValidUntil }) {
		v.ValidUntil = 0 // it ends when another begins
	}
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
