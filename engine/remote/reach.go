package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine/peer"
)

const (
	lookAlive  = 10 * time.Second // between looks at an upstream that takes requests
	lookDead   = 2 * time.Second  // and at one that does not
	deadAfter  = 2                // looks in a row that failed: one may be a moment's trouble
	learnEvery = 10 * time.Minute // between two times that an upstream is asked what it is
	firstLook  = 2 * time.Second  // how long whoever asks for the models of a new upstream waits for the first look
)

// errNotReady is why an upstream that answers gets no requests.
var errNotReady = errors.New("the upstream says that it is not ready")

// look says how the upstream is. An error is that it cannot be reached.
type look func(context.Context) (peer.State, error)

// dial connects.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// reach knows whether the upstream can be used. Nobody waits for a look: what the one before found holds until it is done.
type reach struct {
	ask    look
	learn  func(context.Context) error           // what it is: asked before one that was away counts as ready
	scrape func(ctx context.Context, ready bool) // its figures, after each look
	closed context.Context                       //nolint:containedctx // that of the engine
	now    func() time.Time

	idle  atomic.Bool    // it answers, and takes no requests yet
	fresh atomic.Bool    // it can be asked how it is, and no look has found that out yet
	told  atomic.Bool    // it has said what it is, once at least, or there is nothing to ask
	first chan struct{}  // closed when the first look is over
	until time.Time      // when nobody waits for that any more
	looks sync.WaitGroup // those on their way

	mu      sync.Mutex
	looked  time.Time // when the newest look was begun
	looking bool
	failed  int // looks in a row
	cause   error
	served  bool      // it has been ready
	learnt  time.Time // when it was asked what it is; zero: never, or it was away since
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

// state returns why the upstream cannot be used, nil if it can, does not take requests yet, or nobody has looked, and looks again if it is time.
func (r *reach) state() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	pause := lookAlive
	if r.failed > 0 || r.idle.Load() {
		pause = lookDead
	}
	if !r.looking && r.closed.Err() == nil && (r.looked.IsZero() || r.now().Sub(r.looked) >= pause) {
		r.looking, r.looked = true, r.now()
		r.looks.Go(r.look)
	}
	if r.failed < deadAfter {
		return nil
	}
	return r.cause
}

// await waits for the end of the first look, which somebody has begun, until ctx ends or the time for that is over. Later looks nobody waits for.
func (r *reach) await(ctx context.Context) {
	ctx, cancel := context.WithDeadline(ctx, r.until)
	defer cancel()
	select {
	case <-r.first:
	case <-ctx.Done():
	case <-r.closed.Done():
	}
}

// doubt has the next question look at once, since a request could not connect. What comes back may be something else.
func (r *reach) doubt() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.learnt = time.Time{}
	if r.failed == 0 {
		r.looked = time.Time{}
	}
}

// end waits for the looks that are on their way. The engine is closed: no more will begin.
func (r *reach) end() {
	r.mu.Lock()   // whoever is about to begin one has done so
	r.mu.Unlock() //nolint:staticcheck // see above
	r.looks.Wait()
}

func (r *reach) look() {
	state, err := r.ask(r.closed)
	if err == nil && (state == peer.NotReady || state != peer.Ready && r.busy()) {
		err = errNotReady
	}
	ready := err == nil && state == peer.Ready
	if ready {
		r.relearn()
	}
	r.note(state, err)
	r.scrape(r.closed, ready)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looking = false
	select {
	case <-r.first:
	default:
		close(r.first)
	}
}

// busy reports whether the upstream was ready at the look before: that it is not may be a moment's trouble.
func (r *reach) busy() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.served && r.failed == 0 && !r.idle.Load()
}

// relearn asks what the upstream is, if it is time. What fails is asked again at the next look.
func (r *reach) relearn() {
	r.mu.Lock()
	began, before := r.now(), r.learnt
	r.mu.Unlock()
	if !before.IsZero() && began.Sub(before) < learnEvery || r.learn(r.closed) != nil {
		return
	}
	r.told.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.learnt.Equal(before) { // nobody doubts it since
		r.learnt = began
	}
}

// note takes down what a look has found.
func (r *reach) note(state peer.State, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil:
		r.failed, r.cause = r.failed+1, err
		if state == peer.NotReady && !r.served { // there is no trouble of a moment to wait for
			r.idle.Store(true)
		}
	case state == peer.Ready:
		r.served = true
		fallthrough
	default:
		r.failed, r.cause = 0, nil
		r.idle.Store(state != peer.Ready)
		r.fresh.Store(false)
	}
	if err != nil || state != peer.Ready {
		r.learnt = time.Time{}
	}
}

// connects looks whether a connection can be made, and says nothing: the upstream has no work and no line in its log.
func connects(dial dial, address string, timeout time.Duration) look {
	return func(ctx context.Context) (peer.State, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		c, err := dial(ctx, "tcp", address)
		if err != nil {
			return peer.Unreachable, fmt.Errorf("the upstream cannot be reached: %w", err)
		}
		_ = c.Close()
		return peer.Ready, nil
	}
}
