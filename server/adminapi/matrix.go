package adminapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/gateway/instances"
)

// The kinds of evidence of a row.
const (
	evidenceContract = "contract"
	evidenceListed   = "listed"
)

// GetEngineMatrix implements GET /engine-matrix.
func (s *Server) GetEngineMatrix(c *gin.Context) {
	out := EngineMatrix{Features: featureNames(capability.Features()), Rows: []EngineMatrixRow{}}
	for _, row := range s.deps.Instances.Matrix() {
		out.Rows = append(out.Rows, matrixRowView(row))
	}
	s.reply(c, http.StatusOK, out, nil)
}

func matrixRowView(row instances.MatrixRow) EngineMatrixRow {
	out := EngineMatrixRow{
		Pool: row.Pool, Instance: row.Instance, Kind: string(row.Kind), Profile: optional(row.Profile), State: string(row.State), Model: string(row.Model),
		EngineModel: row.EngineModel, Evidence: evidenceListed, Engine: optional(row.Engine), Version: optional(row.Version), Licence: optional(row.Licence),
		Modes: []EngineMatrixMode{}, Cells: []EngineMatrixCell{},
	}
	if row.Contract {
		out.Evidence = evidenceContract
	}
	if row.Vendor != "" || row.Family != "" || row.Generation != "" {
		out.Device = &EngineDevice{Vendor: optional(row.Vendor), Family: optional(row.Family), Generation: optional(row.Generation)}
	}
	if row.ContextTokens > 0 {
		out.ContextTokens = &row.ContextTokens
	}
	if len(row.Roles) > 0 {
		var roles []string
		for _, r := range row.Roles {
			roles = append(roles, string(r))
		}
		out.Roles = &roles
	}
	if demanded := featureNames(row.Demanded); len(demanded) > 0 {
		out.Demanded = &demanded
	}
	for _, m := range row.Modes {
		out.Modes = append(out.Modes, EngineMatrixMode{
			Mode: string(m.Mode), Status: string(m.Status), Grade: m.Grade.String(), When: optional(m.When.String()), Source: optional(m.Source),
		})
	}
	for _, cell := range row.Cells {
		out.Cells = append(out.Cells, matrixCellView(cell))
	}
	return out
}

func matrixCellView(c instances.MatrixCell) EngineMatrixCell {
	return EngineMatrixCell{
		Feature: string(c.Feature), Status: string(c.Status), Grade: c.Grade.String(), Usable: string(c.Usable), Why: optional(string(c.Why)),
		Owner: optional(string(c.Owner)), When: optional(c.When.String()), Fallback: optional(string(c.Fallback)), Source: optional(c.Source), Note: optional(c.Note),
	}
}

func featureNames(all []capability.Feature) []string {
	out := make([]string, 0, len(all))
	for _, f := range all {
		out = append(out, string(f))
	}
	return out
}
