package httpapi

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
)

// maxHeld is how many events at most leave together.
const maxHeld = 8

// sse writes one event stream. An event leaves at once, or together with those behind it that have come already. Until the first event or
// comment nothing is sent, so that an early failure still gets its status.
type sse struct {
	a    *API
	c    *gin.Context
	form *framing
	head gateway.Head
	buf  []byte

	mu      sync.Mutex // guards the writer against the keep-alive timer
	started bool
	flushed bool // the first event has left
	held    int  // events that have not
	closed  bool
	timer   *time.Timer
	err     error
}

func (a *API) stream(c *gin.Context, head gateway.Head) *sse {
	c.Set(keySubject, head.Subject)
	s := &sse{a: a, c: c, form: &a.dialect(c).stream, head: head}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = time.AfterFunc(a.cfg.KeepAlive, s.keepAlive)
	return s
}

// setCache says how the answer comes, before its first event leaves.
func (s *sse) setCache(reply *gateway.Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.flushed {
		setCache(s.c, reply)
	}
}

// keepAlive writes what readers skip when nothing else was written for a while; proxies and clients then know that we live.
func (s *sse) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.err != nil || s.form.keepAlive == nil {
		return
	}
	s.write(s.form.keepAlive)
	s.flushNow()
	s.timer.Reset(s.a.cfg.KeepAlive)
}

// send writes v as one event without a name, which leaves with the next flush. It reports whether the client is still there.
func (s *sse) send(v any) bool { return s.named("", v) }

// named writes v as one event, as send does.
func (s *sse) named(name string, v any) bool {
	j, err := encode(v)
	if err != nil {
		s.a.log.Error("encode event", slog.String("request", s.head.Request), slog.Any("error", err))
		return false
	}
	return s.raw(name, j)
}

func (s *sse) raw(name string, data []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf = s.form.event(s.buf[:0], name, data)
	s.write(s.buf)
	s.timer.Reset(s.a.cfg.KeepAlive)
	return s.err == nil
}

// flush lets out what was written. Where more is there already, it may wait for that, but for the first event of a stream. It reports whether
// the client is still there.
func (s *sse) flush(more bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 && !(more && s.flushed && s.held < maxHeld) {
		s.flushNow()
	}
	return s.err == nil
}

// flushNow needs the lock.
func (s *sse) flushNow() {
	if s.err == nil {
		s.err = http.NewResponseController(s.c.Writer).Flush()
		s.flushed, s.held = true, 0
	}
}

// write needs the lock.
func (s *sse) write(b []byte) {
	if !s.started {
		s.started = true
		h := s.c.Writer.Header()
		h.Set("Content-Type", s.form.contentType)
		h.Set("Cache-Control", "no-cache, no-transform")
		h.Set("X-Accel-Buffering", "no")
		s.a.headHeaders(s.c, s.head)
		s.c.Writer.WriteHeader(http.StatusOK)
	}
	if s.held == 0 { // for all that leaves together
		s.a.deadline(s.c)
	}
	_, s.err = s.c.Writer.Write(b)
	s.held++
}

// fail ends the stream with an error: with a status if nothing was sent, else with what w writes and without the end marker.
func (s *sse) fail(err error, w eventWriter) error {
	s.mu.Lock()
	started := s.started
	s.closed = !started // a keep-alive must not get in before the status
	s.mu.Unlock()
	if !started {
		return err
	}
	if !s.a.gone(s.c, err) {
		s.a.log.Warn("stream failed", slog.String("request", s.head.Request), slog.Any("error", err))
		_ = w.fail(s, err) && s.flush(false)
	}
	return nil
}

// failure writes an error as the event that the dialect has for it.
func (s *sse) failure(err error) bool {
	_, body := s.a.refusal(s.c, err)
	return s.named(s.form.failure, body)
}

// close stops the keep-alive; nothing is written after it returns.
func (s *sse) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.timer.Stop()
}
