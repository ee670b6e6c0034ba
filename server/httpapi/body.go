package httpapi

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// inFlightLimiter bounds the bytes of bodies that are held at one time: of a key, of a tenant, and of all. It is safe for concurrent use.
type inFlightLimiter struct {
	all, perTenant, perKey int64

	mu      sync.Mutex
	held    int64
	tenants map[string]int64
	keys    map[string]int64 // by tenant and id
}

// callerKey is whose bytes they are.
type callerKey struct{ tenant, key string }

func callerKeyOf(who identity.Principal) callerKey {
	return callerKey{who.Tenant, who.Tenant + "\x00" + who.ID}
}

// fits refuses what n more bytes would be too much for: CodeBytesInFlight for the caller's own bounds, CodeOverloaded for the server's.
func (f *inFlightLimiter) fits(h callerKey, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refuse(h, n)
}

// acquire counts n more bytes, unless that is refused.
func (f *inFlightLimiter) acquire(h callerKey, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refuse(h, n); err != nil {
		return err
	}
	f.add(h, n)
	return nil
}

// release takes back n bytes that were taken.
func (f *inFlightLimiter) release(h callerKey, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(h, -n)
}

func (f *inFlightLimiter) refuse(h callerKey, n int64) error {
	own := func(whose fault.Phrase, limit int64) error {
		return fault.New(fault.CodeBytesInFlight, whose, limit).WithRetryAfter(time.Second)
	}
	switch {
	case f.keys[h.key]+n > f.perKey:
		return own(fault.Say("thing.caller"), f.perKey)
	case f.tenants[h.tenant]+n > f.perTenant:
		return own(fault.Say("thing.tenant"), f.perTenant)
	case f.held+n > f.all:
		return fault.New(fault.CodeOverloaded).WithRetryAfter(time.Second)
	}
	return nil
}

func (f *inFlightLimiter) add(h callerKey, n int64) {
	f.held += n
	for _, c := range []struct {
		counts map[string]int64
		of     string
	}{{f.tenants, h.tenant}, {f.keys, h.key}} {
		if c.counts[c.of] += n; c.counts[c.of] == 0 { // whoever holds nothing costs nothing
			delete(c.counts, c.of)
		}
	}
}

// metered counts what has arrived of a body: a client that announces much and sends little holds little.
type metered struct {
	from io.Reader
	in   *inFlightLimiter
	who  callerKey
	held int64
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	if refused := m.in.acquire(m.who, int64(n)); refused != nil {
		return 0, refused
	}
	m.held += int64(n)
	return n, err
}

const (
	firstRead = 64 << 10               // the most room that is made for a body before any of it has come
	lastRead  = 500 * time.Millisecond // how long a body is still read that nobody wants
)

// body reads the request body of a known caller within its bounds and parses it. done gives its bytes back; the caller calls it when the
// request has ended. It is never nil. What is refused before it has been read to its end closes the connection.
func (a *API) body(c *gin.Context, who identity.Principal) (f *fields, done func(), err error) {
	none := func() {}
	if enc := c.GetHeader("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		closeConnection(c)
		return nil, none, fault.New(fault.CodeUnsupported, "Content-Encoding", fault.Say("httpapi.compressed")).WithParam("Content-Encoding")
	}
	size := c.Request.ContentLength
	if size > a.cfg.MaxBodyBytes {
		closeConnection(c)
		return nil, none, fault.New(fault.CodeBodyTooLarge, a.cfg.MaxBodyBytes)
	}
	if err := a.bodies.fits(callerKeyOf(who), max(size, 0)); err != nil { // what cannot fit need not arrive
		closeConnection(c)
		return nil, none, err
	}
	in := &metered{from: http.MaxBytesReader(c.Writer, c.Request.Body, a.cfg.MaxBodyBytes), in: &a.bodies, who: callerKeyOf(who)}
	var raw bytes.Buffer
	raw.Grow(int(min(max(size, 0), firstRead)) + bytes.MinRead)
	_, err = raw.ReadFrom(in)
	a.metrics.bodies.Add(float64(in.held))
	done = func() {
		a.bodies.release(in.who, in.held)
		a.metrics.bodies.Sub(float64(in.held))
	}
	var tooLarge *http.MaxBytesError
	var refused *fault.Error
	switch {
	case errors.As(err, &refused):
		closeConnection(c)
		return nil, done, err
	case errors.As(err, &tooLarge):
		closeConnection(c)
		return nil, done, fault.New(fault.CodeBodyTooLarge, a.cfg.MaxBodyBytes)
	case err != nil: // the connection broke; nobody reads this
		return nil, done, fault.Wrap(err, fault.CodeInvalidJSON, raw.Len())
	}
	f, err = parse(raw.String(), a.cfg.MaxDepth)
	return f, done, err
}

// closeConnection closes the connection after the reply, so that nothing more of a body is waited for, nor of what a stranger sends next.
func closeConnection(c *gin.Context) {
	c.Header("Connection", "close")
	// The server reads what is left of a small body before it closes, to let the client see the reply; it gets a moment for that.
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(lastRead))
}
