package adminapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/rag/faq"
)

// ListFAQEntries implements GET /rag/collections/{collection}/faq.
func (s *Server) ListFAQEntries(c *gin.Context, collection CollectionPath, params ListFAQEntriesParams) {
	found, err := s.deps.RAG.FAQ(c.Request.Context(), tenantOf(c), collection, s.reader(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := pageBehind(found, params.Cursor, params.Limit, rag.FAQOrder, strings.Compare)
	out := FAQEntryPage{Items: []FAQEntry{}, Next: next}
	for _, d := range part {
		e, failed := s.deps.RAG.FAQEntry(c.Request.Context(), d)
		if failed != nil {
			s.Fail(c, failed)
			return
		}
		view := FAQEntry{
			Id: e.ID, Question: e.Question, Similar: list(e.Similar), Negative: list(e.Negative), Answer: e.Answer, Labels: list(e.Labels), InEffect: e.InEffect,
			ValidFrom: &d.ValidFrom, ValidUntil: optionalTime(e.ValidUntil), Version: e.Version, Revision: e.Revision,
		}
		if e.Damaged {
			view.Damaged = &e.Damaged
		}
		out.Items = append(out.Items, view)
	}
	s.reply(c, http.StatusOK, out, err)
}

// PutFAQEntry implements POST /rag/collections/{collection}/faq. Its records are those of a document.
func (s *Server) PutFAQEntry(c *gin.Context, collection CollectionPath, _ PutFAQEntryParams) {
	in, err := decode[NewFAQEntry](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	d, err := s.deps.RAG.FAQDocument(c.Request.Context(), tenantOf(c), collection, deref(in.Id), faq.Entry{
		Question: in.Question, Similar: deref(in.Similar), Negative: deref(in.Negative), Answer: in.Answer,
	}, s.reader(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	d.Labels, d.ValidFrom, d.ValidUntil = deref(in.Labels), deref(in.ValidFrom), deref(in.ValidUntil)
	s.ingest(c, collection, d)
}
