package adminapi

import (
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/internal/fault"
)

// ExplainRoute implements GET /route/explain.
func (s *Server) ExplainRoute(c *gin.Context, q ExplainRouteParams) {
	out, err := s.explainRoute(c, q)
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) explainRoute(c *gin.Context, q ExplainRouteParams) (out RouteExplanation, err error) {
	grade, _ := governance.ParseDataGrade(string(deref(q.Grade))) // which the chain has validated
	tenant := tenantOf(c)
	placing, err := s.deps.Guard.PlacingOf(tenant, "", grade)
	if err != nil {
		return out, err
	}
	if !slices.Contains(s.deps.Guard.Models(c.Request.Context(), tenant, "", []string{q.Model}), q.Model) {
		return out, fault.New(fault.CodeModelNotAllowed, q.Model).WithParam("model")
	}
	need := map[ExplainRouteParamsUse]route.Need{ExplainRouteParamsUseEmbed: route.Embed, ExplainRouteParamsUseScore: route.Score}[deref(q.Use)]
	e, err := s.deps.Router.Explain(route.Ask{Model: q.Model, Unit: deref(q.Session), Need: need}, tenant, func(p pool.Place) bool { return placing.Allows(string(p)) })
	if err != nil {
		return out, err
	}
	out = RouteExplanation{
		Model: q.Model, Version: e.Version.Version, Pool: e.Version.Engine, Rollout: optional(e.Rollout), Arm: optional(e.Arm), Grade: optional(placing.Grade.String()),
		Places: placing.Allowed(), Chosen: optional(e.Chosen), Instances: []RouteConsidered{}, More: e.More,
	}
	for _, x := range e.Considered {
		y := RouteConsidered{Instance: x.Instance, Place: string(x.Place), Verdict: string(x.Verdict), Why: optional(x.Why), Running: x.Running}
		if x.Score != (pool.Score{}) {
			y.Score = &RouteScore{Sum: x.Score.Sum, Load: x.Score.Load, Prefix: x.Score.Prefix, Cost: x.Score.Cost, Energy: x.Score.Energy, Session: x.Score.Session}
		}
		out.Instances = append(out.Instances, y)
	}
	return out, nil
}
