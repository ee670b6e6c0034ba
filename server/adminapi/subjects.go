package adminapi

import (
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// lookupsPerMinute is how many names one caller may ask the digest of. A person looks up a few; who tries a list of names does not get far.
	lookupsPerMinute = 20
	// maxLookups bounds the callers remembered.
	maxLookups = 10_000
	// tracesPerMinute is how many texts one caller may trace. It is for people, and for the few programs that ask in their name.
	tracesPerMinute = 60
)

// LookUpSubject implements POST /audit/subjects. The name comes in a body, since addresses end up in logs and histories; the record of the
// act holds the digest.
func (s *Server) LookUpSubject(c *gin.Context) {
	in, err := decode[SubjectLookup](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	digest := s.deps.Audit.Subject(tenantOf(c), in.Subject)
	about(c, digest, nil)
	if wait := s.lookups.wait(caller(c).ID, s.now()); wait > 0 {
		s.Fail(c, fault.New(fault.CodeRateLimited, fault.Say("level.caller"), lookupsPerMinute).WithRetryAfter(wait))
		return
	}
	s.reply(c, http.StatusOK, SubjectDigest{Digest: digest}, nil)
}

// lookupLimiter counts the look-ups of each caller in the minute that began with the first. Its zero value is ready.
type lookupLimiter struct {
	mu      sync.Mutex
	callers map[string]lookupCount
}

type lookupCount struct {
	since time.Time
	n     int
}

// wait counts a look-up, or returns how long the caller has to wait for the next.
func (l *lookupLimiter) wait(caller string, now time.Time) time.Duration {
	return l.waitOf(caller, lookupsPerMinute, now)
}

// waitOf is wait with another number of look-ups a minute.
func (l *lookupLimiter) waitOf(caller string, most int, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.callers[caller]
	age := now.Sub(at.since)
	if age >= time.Minute || age < 0 { // the clock may have been set back
		at = lookupCount{since: now}
	}
	if at.n >= most {
		return time.Minute - age
	}
	at.n++
	if l.callers == nil || len(l.callers) >= maxLookups {
		l.forget(now)
	}
	l.callers[caller] = at
	return 0
}

// forget drops the callers whose minute is over. Callers are users of this installation: more than maxLookups of them in one minute would
// start anew.
func (l *lookupLimiter) forget(now time.Time) {
	kept := map[string]lookupCount{}
	for caller, at := range l.callers {
		if now.Sub(at.since) < time.Minute {
			kept[caller] = at
		}
	}
	if len(kept) >= maxLookups {
		clear(kept)
	}
	l.callers = kept
}
