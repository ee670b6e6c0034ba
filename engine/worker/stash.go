package worker

import (
	"container/list"
	"crypto/rand"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
)

const (
	stashTime  = time.Minute // a prompt is run within moments, or never
	stashBytes = 256 << 20   // of the requests that prompts came in
	stashMost  = 4096
)

// stash holds the prompts that were prepared and have not run yet. Each is taken once: who runs it again sends it again.
type stash struct {
	now   func() time.Time
	bytes int // it may hold

	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of *stashed, oldest first
	held  int
	sweep *time.Timer // runs while there is something
}

type stashed struct {
	id     string
	prompt *engine.Prompt
	bytes  int
	until  time.Time
}

func newStash() *stash {
	return &stash{now: time.Now, bytes: stashBytes, byID: map[string]*list.Element{}, order: list.New()}
}

// put keeps a prompt that came in so many bytes, and returns its id, which nobody can guess.
func (s *stash) put(p *engine.Prompt, bytes int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &stashed{id: rand.Text(), prompt: p, bytes: bytes, until: s.now().Add(stashTime)}
	s.byID[in.id] = s.order.PushBack(in)
	s.held += bytes
	for s.held > s.bytes && s.order.Len() > 1 || s.order.Len() > stashMost {
		s.remove(s.order.Front())
	}
	if s.sweep == nil {
		s.sweep = time.AfterFunc(stashTime, s.expire)
	}
	return in.id
}

// take returns a prompt and forgets it; nil if it is not there.
func (s *stash) take(id string) *engine.Prompt {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byID[id]
	if !ok {
		return nil
	}
	s.remove(e)
	in := e.Value.(*stashed)
	if !s.now().Before(in.until) {
		return nil
	}
	return in.prompt
}

// forget drops the prompts of a tenant.
func (s *stash) forget(tenant string) {
	s.drop(func(in *stashed) bool { return tenantOf(in.prompt) == tenant })
}

// clear drops all.
func (s *stash) clear() { s.drop(func(*stashed) bool { return true }) }

func (s *stash) drop(which func(*stashed) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Front(); e != nil; {
		next := e.Next()
		if which(e.Value.(*stashed)) {
			s.remove(e)
		}
		e = next
	}
}

// expire drops what nobody has run in time, and comes again while there is more.
func (s *stash) expire() {
	now := s.now()
	s.drop(func(in *stashed) bool { return !now.Before(in.until) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep = nil
	if s.order.Len() > 0 {
		s.sweep = time.AfterFunc(stashTime/4, s.expire)
	}
}

// remove takes an entry out. The caller holds the lock.
func (s *stash) remove(e *list.Element) {
	in := s.order.Remove(e).(*stashed)
	delete(s.byID, in.id)
	s.held -= in.bytes
}

func tenantOf(p *engine.Prompt) string {
	switch {
	case p.Request != nil:
		return p.Request.Tenant
	case p.Embed != nil:
		return p.Embed.Tenant
	case p.Score != nil:
		return p.Score.Tenant
	}
	return ""
}
