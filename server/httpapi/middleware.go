package httpapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	textlanguage "golang.org/x/text/language"

	"github.com/sluice-project/sluice/internal/fault"
)

// Keys of values in the gin context.
const (
	keyRequestID = "request_id" // the management API reads it too
	keyReceived  = "received"
	keyStatus    = "status" // of a refusal that HTTP tells by none
)

// Middleware gives every request its id, the security headers and an access line without any body, and turns a panic into an
// internal error.
//
// The id is always ours: it is the identity under which usage is billed once, so no caller may choose it. A caller's own id, in
// X-Client-Request-Id or X-Request-Id, is recorded beside it.
func (a *API) Middleware() gin.HandlerFunc {
	return func(c *gin.Context) {
		began := a.now()
		id := lineOf(c.Request.Context()).request // of a line of a batch, which keeps its id
		if id == "" {
			id = uuid.Must(uuid.NewV7()).String()
		}
		c.Set(keyRequestID, id)
		c.Set(keyReceived, began)
		set := headerWriter{into: c.Writer.Header(), values: make([]string, 0, 5)}
		set.header("X-Request-Id", id)
		set.header("X-Content-Type-Options", "nosniff")
		set.header("Referrer-Policy", "no-referrer")
		set.header("X-Frame-Options", "DENY")
		if c.Request.TLS != nil {
			set.header("Strict-Transport-Security", "max-age=31536000")
		}
		defer a.finish(c, began, id)
		c.Next()
	}
}

// finish recovers from a panic and writes the access line.
func (a *API) finish(c *gin.Context, began time.Time, id string) {
	v := recover()
	if v == http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is thrown
		panic(v)
	}
	if v != nil {
		// The value and the stack go to the log only; both may name code, neither holds a request's text by our own doing.
		a.log.Error("panic", slog.String("request", id), slog.String("panic", fmt.Sprintf("%T", v)), slog.String("stack", string(debug.Stack())))
		switch {
		case !c.Writer.Written():
			a.WriteError(c, fault.New(fault.CodeInternal))
		case c.Writer.Status() < http.StatusInternalServerError:
			defer panic(http.ErrAbortHandler) // cuts the connection: nobody may take the beginning of an answer for the whole
		}
	}
	path := c.FullPath()
	if path == "" {
		path = "none"
	}
	took := a.now().Sub(began)
	status := cmp.Or(c.GetInt(keyStatus), c.Writer.Status())
	a.metrics.observe(path, status, took)
	a.log.LogAttrs(c.Request.Context(), slog.LevelInfo, "request",
		slog.String("request", id), slog.String("method", truncate(c.Request.Method)), slog.String("route", path),
		slog.Int("status", status), slog.Int("bytes", c.Writer.Size()), slog.Duration("took", took),
		slog.String("source", c.ClientIP()))
}

// acceptLanguage picks English or Chinese by Accept-Language.
func acceptLanguage(header string) fault.Lang {
	if len(header) > 256 || !strings.Contains(header, "zh") {
		return fault.English
	}
	tags, _, err := textlanguage.ParseAcceptLanguage(header)
	if err != nil {
		return fault.English
	}
	_, i, _ := textlanguage.NewMatcher([]textlanguage.Tag{textlanguage.English, textlanguage.Chinese}).Match(tags...)
	if i == 1 {
		return fault.Chinese
	}
	return fault.English
}
