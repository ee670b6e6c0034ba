package adminapi

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
)

// language picks the language of the answer: Chinese if Accept-Language names it before English.
func language(accept string) fault.Lang {
	for part := range strings.SplitSeq(strings.ToLower(accept), ",") {
		tag, _, _ := strings.Cut(strings.TrimSpace(part), ";")
		switch {
		case strings.HasPrefix(tag, "zh"):
			return fault.Chinese
		case strings.HasPrefix(tag, "en"):
			return fault.English
		}
	}
	return fault.English
}

// Fail renders err as a problem document and ends the request. It is the one place that does. Unexpected and unavailable errors
// are logged with their private text, once.
func (s *Server) Fail(c *gin.Context, err error) {
	public := fault.Public(err)
	status := public.Kind().Status()
	if status >= http.StatusInternalServerError {
		s.log.LogAttrs(c.Request.Context(), slog.LevelError, "admin request failed",
			slog.String("operation", c.GetString(keyOperation)), slog.String("request_id", c.GetString(KeyRequestID)), slog.String("error", err.Error()))
	}
	p := Problem{
		Type:      "urn:sluice:problem:" + string(public.Code()),
		Title:     http.StatusText(status),
		Status:    status,
		Detail:    public.Message(language(c.GetHeader("Accept-Language"))),
		Code:      string(public.Code()),
		RequestId: c.GetString(KeyRequestID),
	}
	nameFactors(&p, err)
	if public.Param() != "" {
		p.Errors = &[]FieldError{{Field: public.Param(), Detail: p.Detail}}
	}
	if d := public.RetryAfter(); d > 0 {
		c.Header("Retry-After", strconv.Itoa(int(d.Seconds()+0.999)))
	}
	if public.Kind() == fault.Unauthenticated {
		c.Header("WWW-Authenticate", "Bearer")
	}
	c.Set(keyFailure, public)
	body, merr := json.Marshal(p)
	if merr != nil {
		c.AbortWithStatus(http.StatusInternalServerError)
		return
	}
	c.Abort()
	c.Data(status, "application/problem+json; charset=utf-8", body)
}

// reply renders v with status, or err as a problem.
func (s *Server) reply(c *gin.Context, status int, v any, err error) {
	if err != nil {
		s.Fail(c, err)
		return
	}
	if v == nil {
		c.Status(status)
		c.Writer.WriteHeaderNow()
		return
	}
	c.JSON(status, v)
}
