package adminapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit/export"
	"github.com/sluice-project/sluice/internal/fault"
)

// ExportAudit implements GET /audit/export. The bundle is whole and checked before the first byte leaves: a download that broke off midway
// must not look like evidence.
func (s *Server) ExportAudit(c *gin.Context, params ExportAuditParams) {
	x := export.Selection{Tenant: tenantOf(c), By: caller(c).Name}
	var err error
	if x.From, x.To, err = period(params.From, params.To); err != nil {
		s.Fail(c, err)
		return
	}
	f, err := os.CreateTemp("", "sluice-evidence-*.zip")
	if err != nil {
		s.Fail(c, fmt.Errorf("export audit records: %w", err))
		return
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }()
	size, err := s.export(c, f, x)
	if err != nil {
		s.Fail(c, err)
		return
	}
	c.DataFromReader(http.StatusOK, size, "application/zip", f, map[string]string{
		"Content-Disposition": `attachment; filename="evidence-` + s.now().UTC().Format("20060102T150405Z") + `.zip"`,
	})
}

// SizeAuditExport implements GET /audit/export/size.
func (s *Server) SizeAuditExport(c *gin.Context, params SizeAuditExportParams) {
	from, to, err := period(params.From, params.To)
	if err != nil {
		s.Fail(c, err)
		return
	}
	n, more, err := s.deps.Audit.CountPeriod(c.Request.Context(), tenantOf(c), from, to)
	s.reply(c, http.StatusOK, ExportSize{Records: n, More: more}, err)
}

// period reads a period in unix microseconds; 0 is open.
func period(since, before *time.Time) (from, to int64, err error) {
	if since != nil {
		from = since.UnixMicro()
	}
	if before != nil {
		to = before.UnixMicro()
	}
	if to != 0 && to <= from {
		return 0, 0, fault.New(fault.CodeInvalidValue, "to", fault.Say("value.end_before_start")).WithParam("to")
	}
	return from, to, nil
}

// export writes and checks a bundle, and returns its size. The file is at its beginning then.
func (s *Server) export(c *gin.Context, f *os.File, x export.Selection) (int64, error) {
	if _, err := s.deps.Audit.ExportChecked(c.Request.Context(), f, x); err != nil {
		return 0, err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return 0, fmt.Errorf("export audit records: %w", err)
	}
	return size, nil
}
