package adminapi

import (
	"io"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/internal/fault"
)

// GetLogCheckpoint implements GET /audit/log/checkpoint.
func (s *Server) GetLogCheckpoint(c *gin.Context) {
	note, err := s.deps.Audit.CosignedCheckpoint(c.Request.Context())
	if err == nil && note == "" {
		err = fault.New(fault.CodeNotFound, fault.Say("thing.checkpoint"), "newest")
	}
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.Data(http.StatusOK, "text/plain; charset=utf-8", []byte(note))
}

// GetLogTile implements GET /audit/log/tile/{path}, whose parameter holds slashes.
func (s *Server) GetLogTile(c *gin.Context) {
	t, err := parseTile(strings.TrimPrefix(c.Param("path"), "/"))
	if err != nil {
		s.Fail(c, err)
		return
	}
	hashes, err := s.deps.Audit.HashTile(c.Request.Context(), t)
	if err != nil {
		s.Fail(c, err)
		return
	}
	if t.W == 1<<t.H {
		c.Header("Cache-Control", "private, max-age=31536000, immutable")
	}
	c.Data(http.StatusOK, "application/octet-stream", hashes)
}

// parseTile reads the path of a hash tile in the C2SP layout: the layout of tlog without the height, which is 8.
func parseTile(path string) (tlog.Tile, error) {
	t, err := tlog.ParseTilePath("tile/8/" + path)
	if err != nil || t.L < 0 {
		return tlog.Tile{}, fault.New(fault.CodeInvalidValue, "path", fault.Say("adminapi.tile_path")).WithParam("path")
	}
	return t, nil
}

// AddLogCosignature implements POST /audit/log/cosignatures.
func (s *Server) AddLogCosignature(c *gin.Context) {
	note, err := io.ReadAll(c.Request.Body) // the chain has bounded it
	if err != nil {
		s.Fail(c, genericViolation("body", err))
		return
	}
	s.reply(c, http.StatusNoContent, nil, s.deps.Audit.Cosign(c.Request.Context(), string(note)))
}
