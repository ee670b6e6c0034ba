package adminapi

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag"
)

// Managing a collection shows names and counts of everything in the tenant; searching it shows text, and passes the caller's own
// access labels like any other retrieval.

// ListCollections implements GET /rag/collections.
func (s *Server) ListCollections(c *gin.Context, _ ListCollectionsParams) {
	found, err := s.deps.RAG.AllCollections(c.Request.Context(), tenantOf(c))
	out := CollectionList{Items: []Collection{}}
	for _, x := range found {
		out.Items = append(out.Items, collectionView(x))
	}
	s.reply(c, http.StatusOK, out, err)
}

func collectionView(x rag.Collection) Collection {
	out := Collection{Name: x.Name, Title: x.Title, Labels: list(x.Labels), Documents: int64(x.Documents), CreatedAt: x.CreatedAt.UTC()}
	if x.Pending > 0 {
		pending := int64(x.Pending)
		out.PendingDocuments = &pending
	}
	return out
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
	found, err := s.deps.RAG.Documents(c.Request.Context(), tenantOf(c), collection)
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(found, params.Cursor, params.Limit)
	out := DocumentPage{Items: []Document{}, Next: next}
	for _, d := range part {
		out.Items = append(out.Items, Document{
			Id: d.ID, Collection: collection, Name: d.Name, Mime: d.MIME, Version: d.Version, Chunks: d.Chunks, Labels: list(d.Labels), CreatedAt: d.UpdatedAt.UTC(),
		})
	}
	s.reply(c, http.StatusOK, out, err)
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
	token, _ := bearer(c)
	d, err := s.deps.Pipeline.Ingest(c.Request.Context(), &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.RAGWrite, Tenant: tenantOf(c), RequestID: c.GetString(KeyRequestID), Source: c.ClientIP(),
		Route: c.Request.Method + " " + c.FullPath(), Dialect: "admin", Action: gateway.ActionIngest,
		Document: &rag.Document{Collection: collection, Name: in.Name, MIME: deref(in.Mime), Labels: deref(in.Labels), Body: body, Known: known},
	})
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, collection+"/"+d.ID, map[string]string{"version": d.Version})
	s.reply(c, http.StatusCreated, Document{
		Id: d.ID, Collection: collection, Name: in.Name, Mime: d.MIME, Version: d.Version, Chunks: d.Chunks, Labels: list(deref(in.Labels)), CreatedAt: s.now().UTC(),
	}, nil)
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
	ctx := c.Request.Context()
	found, err := s.deps.RAG.Documents(ctx, tenantOf(c), collection)
	i := slices.IndexFunc(found, func(d rag.DocumentInfo) bool { return d.ID == id })
	if err == nil && i < 0 {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.document"), id)
	}
	if err == nil {
		err = s.deps.RAG.DeleteDocument(ctx, tenantOf(c), collection, found[i].Name)
	}
	s.reply(c, http.StatusNoContent, nil, err)
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
	call.Query, call.RAG.TopK = in.Text, 5
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
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, nil)
}

// retrieval is a call of the signed-in user for passages.
func (s *Server) retrieval(c *gin.Context, action gateway.Action, collection string, purpose *PurposeHeader) (*gateway.Call, error) {
	if tenantOf(c) != caller(c).Tenant {
		return nil, fault.New(fault.CodeInvalidValue, "tenant", fault.Say("adminapi.own_tenant_search")).WithParam("tenant")
	}
	token, _ := bearer(c)
	return &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.RAGSearch, RequestID: c.GetString(KeyRequestID), Source: c.ClientIP(),
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
