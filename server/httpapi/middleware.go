package httpapi

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
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
)

// Middleware gives every request its id, the security headers and an access line without any body, and turns a panic into an
// internal error.
//
// The id is always ours: it is the identity under which usage is billed once, so no caller may choose it. A caller's own id, in
// X-Client-Request-Id or X-Request-Id, is recorded beside it.
func (a *API) Middleware() gin.HandlerFunc {
	return func(c *gin.Context) {
		began := a.now()
		id := uuid.Must(uuid.NewV7()).String()
		c.Set(keyRequestID, id)
		c.Set(keyReceived, began)
		h := c.Writer.Header()
		h.Set("X-Request-Id", id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		if c.Request.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
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
	a.metrics.observe(path, c.Writer.Status(), took)
	a.log.LogAttrs(c.Request.Context(), slog.LevelInfo, "request",
		slog.String("request", id), slog.String("method", clip(c.Request.Method)), slog.String("route", path),
		slog.Int("status", c.Writer.Status()), slog.Int("bytes", c.Writer.Size()), slog.Duration("took", took),
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

// budget bounds a sum of bytes.
type budget struct {
	limit int64
	used  atomic.Int64
}

func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

var errBusy = errors.New("the budget of body bytes is spent")

// metered counts what has arrived of a body against the budget: a client that announces much and sends little holds little.
type metered struct {
	from   io.Reader
	budget *budget
	held   int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if !m.budget.take(int64(n)) {
		return 0, errBusy
	}
	m.held += int64(n)
	return n, err
}

// body reads the request body within its bounds and parses it. done gives its bytes back to the budget; the caller calls it when
// the request has ended. It is never nil.
func (a *API) body(c *gin.Context) (f *fields, done func(), err error) {
	none := func() {}
	if enc := c.GetHeader("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, none, fault.New(fault.CodeUnsupported, "Content-Encoding", fault.Say("send the body uncompressed", "请发送未压缩的请求体")).WithParam("Content-Encoding")
	}
	size := c.Request.ContentLength
	if size > a.cfg.MaxBodyBytes {
		return nil, none, fault.New(fault.CodeBodyTooLarge, a.cfg.MaxBodyBytes)
	}
	if size > a.bodies.limit-a.bodies.used.Load() { // what cannot fit need not arrive
		return nil, none, fault.New(fault.CodeOverloaded).WithRetryAfter(time.Second)
	}
	in := &metered{from: http.MaxBytesReader(c.Writer, c.Request.Body, a.cfg.MaxBodyBytes), budget: &a.bodies}
	raw, err := io.ReadAll(in)
	a.metrics.bodies.Add(float64(in.held))
	done = func() {
		a.bodies.give(in.held)
		a.metrics.bodies.Sub(float64(in.held))
	}
	var tooLarge *http.MaxBytesError
	switch {
	case errors.Is(err, errBusy):
		return nil, done, fault.New(fault.CodeOverloaded).WithRetryAfter(time.Second)
	case errors.As(err, &tooLarge):
		return nil, done, fault.New(fault.CodeBodyTooLarge, a.cfg.MaxBodyBytes)
	case err != nil: // the connection broke; nobody reads this
		return nil, done, fault.Wrap(err, fault.CodeInvalidJSON, len(raw))
	}
	f, err = parse(raw, a.cfg.MaxDepth)
	return f, done, err
}
