package adminapi

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// Lists show what the caller may see, and what he brought; all of it to those who say who sees what. Searching shows text, and passes the caller's own
// access labels like any other retrieval.

// ListCollections implements GET /rag/collections.
func (s *Server) ListCollections(c *gin.Context, _ ListCollectionsParams) {
	found, err := s.deps.RAG.Collections(c.Request.Context(), tenantOf(c), s.reader(c))
	out := CollectionList{Items: []Collection{}}
	for _, x := range found {
		out.Items = append(out.Items, collectionView(x))
	}
	s.reply(c, http.StatusOK, out, err)
}

func collectionView(x rag.Collection) Collection {
	out := Collection{Name: x.Name, Title: x.Title, Labels: list(x.Labels), Documents: int64(x.Documents), CreatedAt: x.CreatedAt.UTC(), Retention: Retention{
		KeepVersions: x.Retention.KeepVersions, KeepDays: x.Retention.KeepDays, Revision: max(1, x.Retention.Revision),
	}}
	if x.Pending > 0 {
		pending := int64(x.Pending)
		out.PendingDocuments = &pending
	}
	return out
}

// reader is whose rights lists go by: nobody's for those who say who sees documents, and so have to see all there are.
func (s *Server) reader(c *gin.Context) *rag.Reader {
	who, tenant := caller(c), tenantOf(c)
	if s.deps.Access.Allow(who, access.RAGAccess, tenant) == nil {
		return nil
	}
	r := readerOf(who)
	if tenant != who.Tenant { // labels and roles are those of another
		r.Labels, r.Roles = nil, nil
	}
	r.Writes = s.deps.Access.Allow(who, access.RAGWrite, tenant) == nil
	return &r
}

// managed reports whether the caller may change a document; else the answer is given, as for one that is not there.
func (s *Server) managed(c *gin.Context, collection, id string) bool {
	err := s.deps.RAG.Manages(c.Request.Context(), tenantOf(c), collection, id, s.reader(c))
	if err != nil {
		s.Fail(c, err)
	}
	return err == nil
}

// readerOf is somebody as access rules see him, without a purpose.
func readerOf(who identity.Principal) rag.Reader {
	r := rag.Reader{Labels: who.Labels, Principals: []string{who.Kind + ":" + who.ID}, Roles: who.Roles}
	if who.Owner != "" {
		r.Principals = append(r.Principals, "user:"+who.Owner)
	}
	return r
}

// SetRetention implements PUT /rag/collections/{collection}.
func (s *Server) SetRetention(c *gin.Context, collection CollectionPath, _ SetRetentionParams) {
	in, err := decode[Retention](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, collection, map[string]string{"keep_versions": strconv.Itoa(in.KeepVersions), "keep_days": strconv.Itoa(in.KeepDays)})
	ctx := c.Request.Context()
	if err := s.deps.RAG.SetRetention(ctx, tenantOf(c), collection, rag.Retention{KeepVersions: in.KeepVersions, KeepDays: in.KeepDays, Revision: in.Revision}); err != nil {
		s.Fail(c, err)
		return
	}
	found, err := s.deps.RAG.Collections(ctx, tenantOf(c), s.reader(c))
	i := slices.IndexFunc(found, func(x rag.Collection) bool { return x.Name == collection })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeCollectionNotFound, collection).WithParam("collection")
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusOK, collectionView(found[i]), nil)
}

// CreateCollection implements POST /rag/collections.
func (s *Server) CreateCollection(c *gin.Context) {
	in, err := decode[NewCollection](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Name, nil)
	x := rag.Collection{Tenant: tenantOf(c), Name: in.Name, Title: deref(in.Title), Labels: deref(in.Labels)}
	if x.Title == "" {
		x.Title = x.Name
	}
	if err := s.deps.RAG.CreateCollection(c.Request.Context(), x); err != nil {
		s.Fail(c, err)
		return
	}
	x.CreatedAt = s.now()
	s.reply(c, http.StatusCreated, collectionView(x), nil)
}

// DeleteCollection implements DELETE /rag/collections/{collection}.
func (s *Server) DeleteCollection(c *gin.Context, collection CollectionPath, _ DeleteCollectionParams) {
	s.reply(c, http.StatusNoContent, nil, s.deps.RAG.DeleteCollection(c.Request.Context(), tenantOf(c), collection))
}

// ListDocuments implements GET /rag/collections/{collection}/documents.
func (s *Server) ListDocuments(c *gin.Context, collection CollectionPath, params ListDocumentsParams) {
	found, err := s.deps.RAG.Documents(c.Request.Context(), tenantOf(c), collection, s.reader(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := pageBehind(found, params.Cursor, params.Limit, func(d rag.DocumentInfo) string { return d.Name }, strings.Compare)
	out := DocumentPage{Items: []Document{}, Next: next}
	for _, d := range part {
		out.Items = append(out.Items, documentView(collection, d))
	}
	s.reply(c, http.StatusOK, out, err)
}

func documentView(collection string, d rag.DocumentInfo) Document {
	return Document{
		Id: d.ID, Collection: collection, Name: d.Name, Mime: d.MIME, Version: d.Version, Chunks: d.Chunks, Labels: list(d.Labels), CreatedAt: d.UpdatedAt.UTC(),
		Restricted: &d.Restricted, InEffect: &d.InEffect, ValidFrom: &d.ValidFrom, ValidUntil: optionalTime(d.ValidUntil), Versions: &d.Versions, Revision: &d.Revision,
	}
}

// pageBehind returns the items behind the one whose key the cursor has, in the order of compare: whatever comes and goes meanwhile, none is shown twice and
// none of the others left out.
func pageBehind[T any](items []T, cursor *string, limit *int, key func(T) string, compare func(a, b string) int) (out []T, next *string, err error) {
	n := 50
	if limit != nil {
		n = *limit
	}
	if cursor != nil {
		last, err := base64.RawURLEncoding.DecodeString(*cursor)
		if err != nil {
			return nil, nil, fault.Wrap(err, fault.CodeInvalidValue, "cursor", fault.Say("adminapi.cursor")).WithParam("cursor")
		}
		items = slices.DeleteFunc(slices.Clone(items), func(x T) bool { return compare(key(x), string(last)) <= 0 })
	}
	if len(items) <= n {
		return items, nil, nil
	}
	c := base64.RawURLEncoding.EncodeToString([]byte(key(items[n-1])))
	return items[:n], &c, nil
}

// IngestDocument implements POST /rag/collections/{collection}/documents. The act has its records; the work of the embedding model takes the
// gateway's path, and has records of its own.
func (s *Server) IngestDocument(c *gin.Context, collection CollectionPath, _ IngestDocumentParams) {
	in, err := decode[NewDocument](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if (in.Text == nil) == (in.Content == nil) {
		s.Fail(c, fault.New(fault.CodeInvalidValue, "text", fault.Say("adminapi.text_or_content")).WithParam("text"))
		return
	}
	body := []byte(deref(in.Text))
	if in.Content != nil {
		body = *in.Content
	}
	known, err := knownValues(deref(in.Known))
	if err != nil {
		s.Fail(c, err)
		return
	}
	var rule *rag.Rule
	if in.Access != nil {
		r := ruleOf(*in.Access)
		rule = &r
	}
	s.ingest(c, collection, &rag.Document{
		Name: in.Name, MIME: deref(in.Mime), Labels: deref(in.Labels), Rule: rule, ValidFrom: deref(in.ValidFrom), ValidUntil: deref(in.ValidUntil), Body: body, Known: known,
	})
}

// ingest has the pipeline take a document in, in the name of whoever calls, and answers with it.
func (s *Server) ingest(c *gin.Context, collection string, in *rag.Document) {
	if r := s.reader(c); r != nil {
		in.By = *r
	} else {
		in.By = readerOf(caller(c))
	}
	grade, err := governance.StatedDataGrade(c.Request.Header.Values(governance.DataGradeHeader))
	if err != nil {
		s.Fail(c, err)
		return
	}
	in.Collection = collection
	token, _ := bearer(c)
	d, err := s.deps.Pipeline.Ingest(c.Request.Context(), &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.RAGWrite, Tenant: tenantOf(c), RequestID: c.GetString(KeyRequestID), Source: c.ClientIP(),
		Route: c.Request.Method + " " + c.FullPath(), Dialect: "admin", Action: gateway.ActionIngest, DataGrade: grade, Document: in,
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{"version": d.Version}
	if d.Access.After != "" {
		detail["before"], detail["after"] = d.Access.Before, d.Access.After
	}
	about(c, collection+"/"+d.ID, detail)
	out := Document{
		Id: d.ID, Collection: collection, Name: in.Name, Mime: d.MIME, Version: d.Version, Chunks: d.Chunks, Labels: list(in.Labels), CreatedAt: s.now().UTC(),
	}
	if is, err := s.deps.RAG.Document(c.Request.Context(), tenantOf(c), collection, d.ID, nil); err == nil {
		out = documentView(collection, is)
		out.Version, out.Chunks, out.Mime = d.Version, d.Chunks, d.MIME // of what came, also if it is dated later
	}
	if len(d.Left) > 0 {
		left := make([]string, len(d.Left))
		for i, l := range d.Left {
			left[i] = l.In(language(c.GetHeader("Accept-Language")))
		}
		out.LeftOut = &left
	}
	s.reply(c, http.StatusCreated, out, nil)
}

// ruleOf reads an access rule.
func ruleOf(in AccessRule) rag.Rule {
	out := rag.Rule{Restricted: in.Restricted, Allow: allowsOf(deref(in.Allow))}
	for _, p := range deref(in.Parts) {
		out.Parts = append(out.Parts, rag.PartRule{Section: deref(p.Section), Version: deref(p.Version), Chunks: deref(p.Chunks), Allow: allowsOf(p.Allow)})
	}
	return out
}

func allowsOf(in []AccessAllowance) []rag.Allow {
	var out []rag.Allow
	for _, a := range in {
		out = append(out, rag.Allow{Principals: deref(a.Principals), Roles: deref(a.Roles), Labels: deref(a.Labels), Purposes: deref(a.Purposes)})
	}
	return out
}

func ruleView(r rag.Rule) AccessRule {
	allow, parts := allowsView(r.Allow), []AccessPart{}
	for _, p := range r.Parts {
		v := AccessPart{Section: optional(p.Section), Version: optional(p.Version), Allow: allowsView(p.Allow)}
		if len(p.Chunks) > 0 {
			v.Chunks = &p.Chunks
		}
		parts = append(parts, v)
	}
	return AccessRule{Restricted: r.Restricted, Allow: &allow, Parts: &parts}
}

func allowsView(in []rag.Allow) []AccessAllowance {
	out := []AccessAllowance{}
	some := func(values []string) *[]string {
		if len(values) == 0 {
			return nil
		}
		return &values
	}
	for _, a := range in {
		out = append(out, AccessAllowance{Principals: some(a.Principals), Roles: some(a.Roles), Labels: some(a.Labels), Purposes: some(a.Purposes)})
	}
	return out
}

// GetDocumentAccess implements GET /rag/collections/{collection}/documents/{id}/access.
func (s *Server) GetDocumentAccess(c *gin.Context, collection CollectionPath, id IdPath, _ GetDocumentAccessParams) {
	a, err := s.deps.RAG.DocumentAccess(c.Request.Context(), tenantOf(c), collection, id)
	s.reply(c, http.StatusOK, accessView(a), err)
}

func accessView(a rag.Access) DocumentAccess {
	out := DocumentAccess{Labels: list(a.Labels), Rule: ruleView(a.Rule), Revision: a.Revision, Sections: []DocumentSection{}}
	for _, x := range a.Sections {
		out.Sections = append(out.Sections, DocumentSection{Id: x.ID, Version: x.Version, First: x.First, Last: x.Last})
	}
	return out
}

// SetDocumentAccess implements PUT /rag/collections/{collection}/documents/{id}/access. Its record has digests, and nothing of the rule.
func (s *Server) SetDocumentAccess(c *gin.Context, collection CollectionPath, id IdPath, _ SetDocumentAccessParams) {
	in, err := decode[NewDocumentAccess](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, collection+"/"+id, nil)
	changed, err := s.deps.RAG.SetAccess(c.Request.Context(), tenantOf(c), collection, id, rag.Access{Labels: in.Labels, Rule: ruleOf(in.Rule), Revision: in.Revision})
	if changed.Before != "" { // also if it is stored and an index failed
		about(c, collection+"/"+id, map[string]string{"before": changed.Before, "after": changed.After})
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	// It is done: nothing that fails now may look as if it were not.
	s.reply(c, http.StatusOK, accessView(s.deps.RAG.AccessAfterChange(tenantOf(c), collection, changed)), nil)
}

// ExplainDocument implements POST /rag/collections/{collection}/documents/{id}/explain.
func (s *Server) ExplainDocument(c *gin.Context, collection CollectionPath, id IdPath, _ ExplainDocumentParams) {
	in, err := decode[Reader](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	r := rag.Reader{Labels: deref(in.Labels), Principals: deref(in.Principals), Roles: deref(in.Roles), Purpose: deref(in.Purpose)}
	if in.Labels == nil && in.Principals == nil && in.Roles == nil {
		r = readerOf(caller(c))
		r.Purpose = deref(in.Purpose)
	}
	about(c, collection+"/"+id, nil)
	found, err := s.deps.RAG.Explain(c.Request.Context(), tenantOf(c), collection, id, r, deref(in.AsOf))
	out := DocumentExplanation{Reasons: []DocumentExplanationReasons{}, Version: optional(found.Version), Passages: found.Passages, Shown: found.Shown}
	for _, why := range found.Reasons {
		out.Reasons = append(out.Reasons, DocumentExplanationReasons(why))
	}
	s.reply(c, http.StatusOK, out, err)
}

// ListDocumentVersions implements GET /rag/collections/{collection}/documents/{id}/versions.
func (s *Server) ListDocumentVersions(c *gin.Context, collection CollectionPath, id IdPath, params ListDocumentVersionsParams) {
	ctx := c.Request.Context()
	reader := s.reader(c)
	_, err := s.deps.RAG.Document(ctx, tenantOf(c), collection, id, reader)
	var all []rag.VersionInfo
	if err == nil {
		all, err = s.deps.RAG.Versions(ctx, tenantOf(c), collection, id)
	}
	if reader != nil && !reader.Writes {
		all = begun(all, s.now())
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := pageBehind(all, params.Cursor, params.Limit, func(v rag.VersionInfo) string { return v.Version }, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(b, a)) // the newest first
	})
	out := DocumentVersionPage{Items: []DocumentVersion{}, Next: next}
	for _, v := range part {
		out.Items = append(out.Items, documentVersionView(v))
	}
	s.reply(c, http.StatusOK, out, err)
}

// begun returns versions as if those that have not begun were not there.
func begun(all []rag.VersionInfo, now time.Time) (out []rag.VersionInfo) {
	for _, v := range all {
		if v.ValidFrom.After(now) {
			continue
		}
		if slices.ContainsFunc(all, func(o rag.VersionInfo) bool { return o.ValidFrom.After(now) && o.ValidFrom.Equal(v.ValidUntil) }) {
			v.ValidUntil = time.Time{} // it ends when that one begins
		}
		out = append(out, v)
	}
	return out
}

func documentVersionView(v rag.VersionInfo) DocumentVersion {
	return DocumentVersion{
		Version: v.Version, Mime: v.MIME, Chunks: v.Chunks, CreatedAt: v.CreatedAt, ValidFrom: v.ValidFrom, ValidUntil: optionalTime(v.ValidUntil), InEffect: v.InEffect, Damaged: &v.Damaged,
		Revision: v.Revision,
	}
}

// DateDocumentVersion implements PATCH /rag/collections/{collection}/documents/{id}/versions/{version}.
func (s *Server) DateDocumentVersion(c *gin.Context, collection CollectionPath, id IdPath, version DocumentVersionPath, _ DateDocumentVersionParams) {
	in, err := decode[Validity](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, collection+"/"+id, map[string]string{"version": version})
	if !s.managed(c, collection, id) {
		return
	}
	v, err := s.deps.RAG.SetValidity(c.Request.Context(), tenantOf(c), collection, id, version, in.Revision, rag.Validity{
		From: deref(in.ValidFrom), Until: deref(in.ValidUntil), NoEnd: deref(in.NoEnd),
	})
	if err == nil {
		detail := map[string]string{"version": version, "was": dates(v.WasFrom, v.WasUntil), "is": dates(v.ValidFrom, v.ValidUntil)}
		about(c, collection+"/"+id, detail)
	}
	s.reply(c, http.StatusOK, documentVersionView(v), err)
}

// dates are those of a version as records have them: ISO 8601's interval, open without an end.
func dates(from, until time.Time) string {
	end := ".."
	if !until.IsZero() {
		end = until.UTC().Format(time.RFC3339Nano)
	}
	return from.UTC().Format(time.RFC3339Nano) + "/" + end
}

// DeleteDocumentVersion implements DELETE /rag/collections/{collection}/documents/{id}/versions/{version}.
func (s *Server) DeleteDocumentVersion(c *gin.Context, collection CollectionPath, id IdPath, version DocumentVersionPath, _ DeleteDocumentVersionParams) {
	about(c, collection+"/"+id, map[string]string{"version": version})
	if !s.managed(c, collection, id) {
		return
	}
	s.reply(c, http.StatusNoContent, nil, s.deps.RAG.DeleteVersion(c.Request.Context(), tenantOf(c), collection, id, version))
}

// knownValues are the values that a document names, each of a class of the rules.
func knownValues(in []KnownValue) ([]rag.Known, error) {
	var out []rag.Known
	for i, k := range in {
		class := classify.Person
		if k.Class != nil {
			class = classify.Class(*k.Class)
		}
		if _, ok := classify.TypeOf(class); !ok {
			field := "known[" + strconv.Itoa(i) + "].class"
			return nil, fault.New(fault.CodeInvalidValue, field, fault.Say("value.class")).WithParam(field)
		}
		out = append(out, rag.Known{Class: string(class), Value: k.Value})
	}
	return out, nil
}

// DeleteDocument implements DELETE /rag/collections/{collection}/documents/{id}.
func (s *Server) DeleteDocument(c *gin.Context, collection CollectionPath, id IdPath, _ DeleteDocumentParams) {
	if !s.managed(c, collection, id) {
		return
	}
	s.reply(c, http.StatusNoContent, nil, s.deps.RAG.DeleteDocumentID(c.Request.Context(), tenantOf(c), collection, id))
}

// PreviewSearch implements POST /rag/search. It is the gateway's own search, with its limits, policy and records: the management
// plane is no way around them. Since it sees what the signed-in user may see, it stays in that user's tenant.
func (s *Server) PreviewSearch(c *gin.Context, params PreviewSearchParams) {
	in, err := decode[SearchRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	call, err := s.retrieval(c, gateway.ActionSearch, in.Collection, params.XSluicePurpose)
	if err != nil {
		s.Fail(c, err)
		return
	}
	call.Query, call.RAG.TopK, call.RAG.AsOf = in.Text, 5, deref(in.AsOf)
	if in.TopK != nil {
		call.RAG.TopK = *in.TopK
	}
	found, err := s.deps.Pipeline.Search(c.Request.Context(), call)
	if err != nil {
		s.Fail(c, err)
		return
	}
	out := PassageList{Items: []Passage{}, Findings: []Finding{}}
	for _, f := range found.Findings {
		view := Finding{Direction: f.Direction, Class: f.Class, Detector: &f.Detector, Action: f.Action, Count: f.Count}
		if f.Restored > 0 {
			view.Restored = &f.Restored
		}
		out.Findings = append(out.Findings, view)
	}
	for _, p := range found.Passages {
		view := Passage{
			Collection: p.Collection, Document: p.Document, DocumentId: p.DocumentID, Version: p.Version, Chunk: p.Chunk, Text: p.Text,
			Start: p.Start, End: p.End, Score: p.Score,
		}
		if p.ByWords {
			view.ByWords = &p.ByWords
		}
		if p.Duplicates > 0 {
			view.Duplicates = &p.Duplicates
		}
		if p.FAQ != nil {
			view.FaqScore = &p.FAQ.Score
			if p.FAQ.Vetoed {
				view.FaqVetoed = &p.FAQ.Vetoed
			}
		}
		out.Items = append(out.Items, view)
	}
	if e := found.Evidence; e != nil && e.AnsweredBy != "" {
		out.AnsweredBy = &e.AnsweredBy
	}
	if len(found.Expanded) > 0 {
		expanded := make([]Expansion, len(found.Expanded))
		for i, e := range found.Expanded {
			expanded[i] = Expansion{Term: e.Term, Found: e.Found, Added: list(e.Added)}
		}
		out.Expanded = &expanded
	}
	s.reply(c, http.StatusOK, out, nil)
}

// retrieval is a call of the signed-in user for passages.
func (s *Server) retrieval(c *gin.Context, action gateway.Action, collection string, purpose *PurposeHeader) (*gateway.Call, error) {
	if tenantOf(c) != caller(c).Tenant {
		return nil, fault.New(fault.CodeInvalidValue, "tenant", fault.Say("adminapi.own_tenant_search")).WithParam("tenant")
	}
	grade, err := governance.StatedDataGrade(c.Request.Header.Values(governance.DataGradeHeader))
	if err != nil {
		return nil, err
	}
	token, _ := bearer(c)
	return &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.RAGSearch, DataGrade: grade, RequestID: c.GetString(KeyRequestID), Source: c.ClientIP(),
		Route: c.Request.Method + " " + c.FullPath(), Dialect: "admin", Purpose: deref(purpose),
		Action: action, RAG: &gateway.RAG{Collection: collection},
	}, nil
}

// ReadPassage implements POST /rag/passages. Like a search it takes the gateway's path, in the tenant of the signed-in user.
func (s *Server) ReadPassage(c *gin.Context, params ReadPassageParams) {
	in, err := decode[PassageRequest](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	call, err := s.retrieval(c, gateway.ActionPassage, in.Collection, params.XSluicePurpose)
	if err != nil {
		s.Fail(c, err)
		return
	}
	call.RAG.AsOf = deref(in.AsOf)
	call.Passage = &gateway.Passage{DocumentID: in.DocumentId, Version: in.Version, Chunk: in.Chunk, Context: 1}
	if in.Neighbours != nil {
		call.Passage.Context = *in.Neighbours
	}
	found, err := s.deps.Pipeline.Passage(c.Request.Context(), call)
	if err != nil {
		s.Fail(c, err)
		return
	}
	of := found.Passages[0]
	out := PassageView{Collection: of.Collection, Document: of.Document, Title: optional(of.Title), DocumentId: of.DocumentID, Version: of.Version}
	for _, p := range found.Passages {
		out.Items = append(out.Items, PassagePiece{
			Chunk: p.Chunk, Section: optional(p.Section), Start: p.Start, End: p.End, Text: p.Text, Quoted: p.Chunk == in.Chunk,
		})
	}
	s.reply(c, http.StatusOK, out, nil)
}
