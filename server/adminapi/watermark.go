package adminapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

// DetectWatermark implements POST /watermark/detect. The record has the verdict, and nothing of the text.
func (s *Server) DetectWatermark(c *gin.Context, _ DetectWatermarkParams) {
	in, err := decode[WatermarkQuestion](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if wait := s.detections.wait(caller(c).ID, s.now()); wait > 0 {
		s.Fail(c, fault.New(fault.CodeRateLimited, fault.Say("level.caller"), lookupsPerMinute).WithRetryAfter(wait))
		return
	}
	q := tenantmark.Question{Tenant: tenantOf(c), Text: in.Text}
	if in.Key != nil {
		q.Key = *in.Key
	}
	f, err := s.deps.Watermarks.Detect(c.Request.Context(), q)
	if err == nil {
		detail := map[string]string{"verdict": string(f.Verdict), "bytes": strconv.Itoa(len(in.Text))}
		if f.Key != nil {
			detail["key"] = f.Key.ID
		}
		about(c, "watermark", detail)
	}
	s.reply(c, http.StatusOK, watermarkView(f), err)
}

// ListWatermarkKeys implements GET /watermark/keys.
func (s *Server) ListWatermarkKeys(c *gin.Context, _ ListWatermarkKeysParams) {
	keys, err := s.deps.WatermarkKeys.List(tenantOf(c))
	s.reply(c, http.StatusOK, watermarkKeysView(keys), err)
}

// RotateWatermarkKeys implements POST /watermark/keys/rotate.
func (s *Server) RotateWatermarkKeys(c *gin.Context, _ RotateWatermarkKeysParams) {
	keys, err := s.deps.WatermarkKeys.Rotate(c.Request.Context(), tenantOf(c))
	if err == nil && len(keys) > 0 { // there is none if the tenant has left meanwhile
		about(c, keys[0].ID, nil)
	}
	s.reply(c, http.StatusCreated, watermarkKeysView(keys), err)
}

// RevokeWatermarkKey implements POST /watermark/keys/{id}/revoke.
func (s *Server) RevokeWatermarkKey(c *gin.Context, id IdPath, _ RevokeWatermarkKeyParams) {
	k, err := s.deps.WatermarkKeys.Revoke(c.Request.Context(), tenantOf(c), id)
	s.reply(c, http.StatusOK, watermarkKeyView(k), err)
}

func watermarkView(f tenantmark.Finding) WatermarkFinding {
	out := WatermarkFinding{
		Verdict: WatermarkFindingVerdict(f.Verdict), P: f.P, Log10P: f.Log10P, Tokens: f.Tokens, CountedTokens: f.Counted, LeastTokens: tenantmark.LeastTokens,
		Keys: f.Keys, UntriedKeys: f.Untried, Readings: f.Readings,
	}
	if len(f.Unreadable) > 0 {
		out.UnreadableKeys = &f.Unreadable
	}
	if f.Reason != "" {
		out.Reason = new(WatermarkFindingReason(f.Reason))
	}
	if f.Key != nil {
		out.Key, out.Begin, out.End = new(watermarkKeyView(*f.Key)), &f.Begin, &f.End
	}
	if f.Passage != nil {
		out.BeginByte, out.EndByte = &f.Passage.Begin, &f.Passage.End
	}
	return out
}

func watermarkKeysView(keys []tenantmark.Key) WatermarkKeyList {
	out := WatermarkKeyList{Items: []WatermarkKey{}}
	for _, k := range keys {
		out.Items = append(out.Items, watermarkKeyView(k))
	}
	return out
}

func watermarkKeyView(k tenantmark.Key) WatermarkKey {
	out := WatermarkKey{Id: k.ID, Number: k.Number, Scheme: WatermarkKeyScheme(k.Params.Scheme), CreatedAt: k.Created, RetiredAt: optionalTime(k.Retired), RevokedAt: optionalTime(k.Revoked)}
	if k.Params.Scheme == watermark.KGW {
		out.Context, out.Gamma, out.Delta = &k.Params.Context, &k.Params.Gamma, &k.Params.Delta
	}
	return out
}
