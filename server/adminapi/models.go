package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
)

// ListModels implements GET /models.
func (s *Server) ListModels(c *gin.Context) {
	ctx := c.Request.Context()
	out := ModelList{Items: []Model{}}
	for _, known := range s.deps.Router.Models() {
		name := known.Name
		versions, err := s.deps.Router.Versions(ctx, name)
		if err != nil {
			s.Fail(c, err)
			return
		}
		m := Model{Name: name, Versions: []ModelVersion{}}
		for _, v := range versions {
			m.Versions = append(m.Versions, versionView(v))
		}
		if a, err := s.deps.Router.Assignment(ctx, name); err == nil {
			m.Stable, m.Candidate, m.Rollout = optional(a.Stable), optional(a.Candidate), optional(a.Rollout)
			if a.Candidate != "" {
				m.CandidateBasis = &a.Basis
			}
		}
		out.Items = append(out.Items, m)
	}
	s.reply(c, http.StatusOK, out, nil)
}

func versionView(v route.Version) ModelVersion {
	return ModelVersion{
		Model: v.Model, Version: v.Version, Engine: v.Engine, EngineModel: string(v.EngineModel), Digest: v.Digest, Precision: v.Precision,
		CreatedAt: micros(v.CreatedAt),
		Defaults:  ModelDefaults{Temperature: v.Defaults.Temperature, TopP: v.Defaults.TopP, MaxTokens: v.Defaults.MaxTokens},
	}
}

// RegisterModelVersion implements POST /model-versions.
func (s *Server) RegisterModelVersion(c *gin.Context) {
	in, err := decode[NewModelVersion](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	about(c, in.Model+"@"+in.Version, map[string]string{"engine": in.Engine, "engine_model": in.EngineModel})
	defaults := deref(in.Defaults)
	v := route.Version{
		Model: in.Model, Version: in.Version, Engine: in.Engine, EngineModel: engine.ModelID(in.EngineModel), Digest: deref(in.Digest), Precision: deref(in.Precision),
		Defaults:  route.Defaults{Temperature: defaults.Temperature, TopP: defaults.TopP, MaxTokens: defaults.MaxTokens},
		CreatedAt: s.now().UnixMicro(),
	}
	if err := s.deps.Router.Register(c.Request.Context(), v); err != nil {
		s.Fail(c, err)
		return
	}
	s.reply(c, http.StatusCreated, versionView(v), nil)
}
