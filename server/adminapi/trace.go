package adminapi

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/internal/fault"
)

// TraceText implements POST /trace. The record of the act says how long the text was and how many answers were named, and nothing of the text.
func (s *Server) TraceText(c *gin.Context) {
	in, err := decode[TraceQuestion](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if wait := s.traces.waitOf(caller(c).ID, tracesPerMinute, s.now()); wait > 0 {
		s.Fail(c, fault.New(fault.CodeRateLimited, fault.Say("level.caller"), tracesPerMinute).WithRetryAfter(wait))
		return
	}
	found, err := s.deps.Registry.Trace(c.Request.Context(), tenantOf(c), in.Text)
	if err == nil {
		about(c, "", map[string]string{"characters": strconv.Itoa(found.Characters), "matches": strconv.Itoa(len(found.Matches))})
	}
	s.reply(c, http.StatusOK, traceView(found), err)
}

func traceView(t registry.Trace) TraceResult {
	out := TraceResult{Characters: t.Characters, Common: t.Common, Thinned: t.Thinned, Enabled: t.Enabled, More: t.More, Matches: []TraceMatch{}}
	if !t.Since.IsZero() {
		out.Since = &t.Since
	}
	for _, m := range t.Matches {
		spans := []TraceSpan{}
		for _, x := range m.Spans {
			spans = append(spans, TraceSpan{Start: x.Start, End: x.End})
		}
		out.Matches = append(out.Matches, TraceMatch{
			Record: m.Record, Request: m.Request, Choice: m.Choice, Time: m.Time, Evidence: TraceMatchEvidence(m.Evidence), Verified: m.Verified, Share: m.Share, OnlyCommon: m.OnlyCommon,
			Longest: m.Longest, Characters: m.Characters, Spans: spans,
		})
	}
	return out
}
