package remote

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"
)

const (
	lookAlive = 10 * time.Second // between looks at an upstream that answers
	lookDead  = 2 * time.Second  // and at one that does not
	deadAfter = 2                // looks in a row that failed: one may be a moment's trouble
)

// reach knows whether connections to the upstream can be made. Nobody waits for a look: what the one before found holds until it is done. It
// connects and says nothing, so that the upstream has no work and no line in its log.
type reach struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	address string
	timeout time.Duration
	closed  context.Context //nolint:containedctx // that of the engine
	now     func() time.Time

	mu      sync.Mutex
	looked  time.Time // when the newest look was begun
	looking bool
	failed  int // looks in a row
	cause   error
}

// hostPort is where the connections of a root go to.
func hostPort(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// state returns why the upstream cannot be reached, nil if it can or nobody has looked, and looks again if it is time.
func (r *reach) state() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := lookAlive
	if r.failed > 0 {
		pause = lookDead
	}
	if !r.looking && r.closed.Err() == nil && (r.looked.IsZero() || r.now().Sub(r.looked) >= pause) {
		r.looking, r.looked = true, r.now()
		go r.look()
	}
	if r.failed < deadAfter {
		return nil
	}
	return r.cause
}

// doubt has the next question look at once, since a request could not connect.
func (r *reach) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed == 0 {
		r.looked = time.Time{}
	}
}

func (r *reach) look() {
	ctx, cancel := context.WithTimeout(r.closed, r.timeout)
	defer cancel()
	c, err := r.dial(ctx, "tcp", r.address)
	if err == nil {
		_ = c.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
	if err == nil {
		r.failed, r.cause = 0, nil
		return
	}
	r.failed, r.cause = r.failed+1, fmt.Errorf("the upstream cannot be reached: %w", err)
}
