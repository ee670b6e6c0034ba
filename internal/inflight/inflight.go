// Package inflight is a leaf: it bounds the bytes of request bodies that are held at one time, of a caller, of a tenant and of all, and reads bodies
// within these bounds. All listeners of a process share one [Limiter], since they share its memory.
package inflight

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// Config sets the bounds.
type Config struct{ All, PerTenant, PerCaller int64 }

// Caller is whose bytes they are. A stranger has no tenant and is told apart by his address.
type Caller struct{ Tenant, ID string }

// Limiter counts. It is safe for concurrent use.
type Limiter struct {
	cfg Config

	mu      sync.Mutex
	held    int64
	tenants map[string]int64
	callers map[Caller]int64
}

// New returns a limiter that holds nothing.
func New(cfg Config) *Limiter {
	return &Limiter{cfg: cfg, tenants: map[string]int64{}, callers: map[Caller]int64{}}
}

// Held returns how many bytes are held now.
func (l *Limiter) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// PerCaller is the most that one caller may hold.
func (l *Limiter) PerCaller() int64 { return l.cfg.PerCaller }

// Fits refuses what n more bytes would be too much for: CodeBytesInFlight for the caller's own bounds, CodeOverloaded for the server's.
func (l *Limiter) Fits(c Caller, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refuse(c, n)
}

// Acquire counts n more bytes, unless that is refused as Fits does.
func (l *Limiter) Acquire(c Caller, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refuse(c, n); err != nil {
		return err
	}
	l.add(c, n)
	return nil
}

// Release takes back n bytes that were acquired.
func (l *Limiter) Release(c Caller, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(c, -n)
}

func (l *Limiter) refuse(c Caller, n int64) error {
	own := func(whose fault.Phrase, limit int64) error {
		return fault.New(fault.CodeBytesInFlight, whose, limit).WithRetryAfter(time.Second)
	}
	switch {
	case l.callers[c]+n > l.cfg.PerCaller:
		return own(fault.Say("thing.caller"), l.cfg.PerCaller)
	case c.Tenant != "" && l.tenants[c.Tenant]+n > l.cfg.PerTenant:
		return own(fault.Say("thing.tenant"), l.cfg.PerTenant)
	case l.held+n > l.cfg.All:
		return fault.New(fault.CodeOverloaded).WithRetryAfter(time.Second)
	}
	return nil
}

func (l *Limiter) add(c Caller, n int64) {
	l.held += n
	if l.callers[c] += n; l.callers[c] == 0 { // whoever holds nothing costs nothing
		delete(l.callers, c)
	}
	if l.tenants[c.Tenant] += n; l.tenants[c.Tenant] == 0 {
		delete(l.tenants, c.Tenant)
	}
}

// metered counts what has arrived of a body: a client that announces much and sends little holds little.
type metered struct {
	from io.Reader
	in   *Limiter
	who  Caller
	held int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if refused := m.in.Acquire(m.who, int64(n)); refused != nil {
		return 0, refused
	}
	m.held += int64(n)
	return n, err
}

const (
	firstRead = 64 << 10               // the most room that is made for a body before any of it has come
	lastRead  = 500 * time.Millisecond // how long a body is still read that nobody wants
)

// Body reads the body of a request of at most limit bytes. release gives its bytes back, when nobody needs what came of them any more; it is never nil.
// What is refused before it has been read to its end closes the connection. Errors: those of Fits, CodeBodyTooLarge, CodeInvalidJSON for a
// connection that broke.
func (l *Limiter) Body(w http.ResponseWriter, r *http.Request, c Caller, limit int64) (body []byte, release func(), err error) {
	none := func() {}
	size := max(r.ContentLength, 0)
	if size > limit {
		HangUp(w, r)
		return nil, none, fault.New(fault.CodeBodyTooLarge, limit)
	}
	if err := l.Fits(c, size); err != nil { // what cannot fit need not arrive
		HangUp(w, r)
		return nil, none, err
	}
	in := &metered{from: http.MaxBytesReader(w, r.Body, limit), in: l, who: c}
	var raw bytes.Buffer
	raw.Grow(int(min(size, firstRead)) + bytes.MinRead)
	_, err = raw.ReadFrom(in)
	release = func() { l.Release(c, in.held) }
	var tooLarge *http.MaxBytesError
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		HangUp(w, r)
		return nil, release, err
	case errors.As(err, &tooLarge):
		HangUp(w, r)
		return nil, release, fault.New(fault.CodeBodyTooLarge, limit)
	case err != nil: // the connection broke; nobody reads this
		return nil, release, fault.Wrap(err, fault.CodeInvalidJSON, raw.Len())
	}
	return raw.Bytes(), release, nil
}

// HangUp closes the connection after the reply, so that nothing more of a body is waited for, nor of what a stranger sends next. Over HTTP/2, where
// others share the connection, it ends the stream alone.
func HangUp(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 2 {
		w.Header().Set("Connection", "close")
	}
	// The server reads what is left of a small body before it closes, to let the client see the reply; it gets a moment for that.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lastRead))
}
