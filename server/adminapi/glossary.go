package adminapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/rag"
)

// ListGlossaryTerms implements GET /rag/collections/{collection}/glossary.
func (s *Server) ListGlossaryTerms(c *gin.Context, collection CollectionPath, params ListGlossaryTermsParams) {
	found, err := s.deps.RAG.Glossary(c.Request.Context(), tenantOf(c), collection)
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := pageBehind(found, params.Cursor, params.Limit, rag.GlossaryTerm.Order, strings.Compare)
	out := GlossaryTermPage{Items: []GlossaryTerm{}, Next: next}
	for _, t := range part {
		view := GlossaryTerm{Id: t.ID, Term: t.Term, Synonyms: list(t.Synonyms), UpdatedAt: t.UpdatedAt}
		if t.Damaged {
			view.Damaged = &t.Damaged
		}
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// AddGlossaryTerms implements POST /rag/collections/{collection}/glossary. Its record has no text.
func (s *Server) AddGlossaryTerms(c *gin.Context, collection CollectionPath, _ AddGlossaryTermsParams) {
	in, err := decode[NewGlossaryTerms](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, collection, map[string]string{"terms": strconv.Itoa(len(in.Terms))})
	terms := make([]rag.GlossaryTerm, len(in.Terms))
	for i, t := range in.Terms {
		terms[i] = rag.GlossaryTerm{Term: t.Term, Synonyms: t.Synonyms}
	}
	s.reply(c, http.StatusNoContent, nil, s.deps.RAG.PutGlossary(c.Request.Context(), tenantOf(c), collection, terms))
}

// DeleteGlossaryTerm implements DELETE /rag/collections/{collection}/glossary/{id}.
func (s *Server) DeleteGlossaryTerm(c *gin.Context, collection CollectionPath, id IdPath, _ DeleteGlossaryTermParams) {
	about(c, collection+"/"+id, nil)
	s.reply(c, http.StatusNoContent, nil, s.deps.RAG.DeleteGlossaryTerm(c.Request.Context(), tenantOf(c), collection, id))
}
