package adminapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/accessreview"
)

// ListAccessReviews implements GET /access-reviews.
func (s *Server) ListAccessReviews(c *gin.Context, params ListAccessReviewsParams) {
	all, err := s.deps.Reviews.Campaigns(c.Request.Context(), tenantOf(c))
	if err != nil {
		s.Fail(c, err)
		return
	}
	part, next, err := page(all, params.Cursor, params.Limit)
	out := AccessReviewPage{Items: []AccessReview{}, Next: next}
	for _, r := range part {
		out.Items = append(out.Items, reviewView(r))
	}
	s.reply(c, http.StatusOK, out, err)
}

// StartAccessReview implements POST /access-reviews.
func (s *Server) StartAccessReview(c *gin.Context) {
	in, err := decode[NewAccessReview](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	r, err := s.deps.Reviews.Start(c.Request.Context(), accessreview.NewCampaign{Tenant: tenantOf(c), Name: in.Name, Owner: in.Owner, Due: in.DueAt}, caller(c))
	if err == nil {
		about(c, r.ID, map[string]string{"owner": r.Owner, "due": r.Due.UTC().Format(time.RFC3339), "entries": strconv.Itoa(r.All)})
	}
	s.reply(c, http.StatusCreated, reviewView(r), err)
}

// GetAccessReview implements GET /access-reviews/{id}.
func (s *Server) GetAccessReview(c *gin.Context, id IdPath, _ GetAccessReviewParams) {
	r, items, err := s.deps.Reviews.Campaign(c.Request.Context(), tenantOf(c), id)
	out := AccessReviewDetail{Review: reviewView(r), Items: []AccessReviewItem{}}
	for _, i := range items {
		out.Items = append(out.Items, reviewItemView(i))
	}
	s.reply(c, http.StatusOK, out, err)
}

// CancelAccessReview implements POST /access-reviews/{id}/cancel.
func (s *Server) CancelAccessReview(c *gin.Context, id IdPath, _ CancelAccessReviewParams) {
	in, err := decode[Reason](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, id, map[string]string{"reason": truncate(in.Reason, maxResource)})
	r, err := s.deps.Reviews.Cancel(c.Request.Context(), tenantOf(c), id, in.Reason, caller(c))
	s.reply(c, http.StatusOK, reviewView(r), err)
}

// DecideAccessReview implements POST /access-reviews/{id}/decisions.
func (s *Server) DecideAccessReview(c *gin.Context, id IdPath, _ DecideAccessReviewParams) {
	in, err := decode[AccessDecision](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	detail := map[string]string{"entry": string(in.Kind) + "/" + truncate(in.Id, maxResource), "keep": strconv.FormatBool(in.Keep)}
	if in.Reason != nil {
		detail["reason"] = truncate(*in.Reason, maxResource)
	}
	about(c, id, detail)
	i, err := s.deps.Reviews.Decide(c.Request.Context(), tenantOf(c), id, accessreview.Verdict{
		Kind: accessreview.Kind(in.Kind), ID: in.Id, Keep: in.Keep, Holds: deref(in.Holds), Reason: deref(in.Reason),
	}, caller(c))
	if i.Failure != "" {
		detail["failure"] = string(i.Failure)
	}
	s.reply(c, http.StatusOK, reviewItemView(i), err)
}

func reviewView(r accessreview.Campaign) AccessReview {
	return AccessReview{
		Id: r.ID, Tenant: r.Tenant, Name: r.Name, Owner: r.Owner, OwnerName: r.OwnerName, StartedBy: r.StartedBy, StartedName: r.StartedName,
		StartedAt: r.Started.UTC(), DueAt: r.Due.UTC(), EndedAt: optionalTime(r.Ended), CancelledBy: optional(r.CancelledBy), Cancellation: optional(r.Cancellation),
		Waiting: r.Waiting, Entries: r.All,
	}
}

func reviewItemView(i accessreview.Item) AccessReviewItem {
	out := AccessReviewItem{
		Kind: AccessReviewKind(i.Kind), Id: i.ID, Name: i.Name, Holds: list(i.Holds), DecidedBy: optional(i.By), DecidedName: optional(i.ByName),
		DecidedAt: optionalTime(i.Decided), Reason: optional(i.Reason), DoneAt: optionalTime(i.Done), Failure: optional(string(i.Failure)),
	}
	if i.Decision != "" {
		d := AccessReviewItemDecision(i.Decision)
		out.Decision = &d
	}
	return out
}
