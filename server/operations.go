package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
)

const (
	longestCheck = 3 * time.Second // how long the parts may take to say how they are
	healthAge    = time.Second     // how long what they said is repeated
)

// mountOperations adds what only operators may read.
func (e *edge) mountOperations(mux *http.ServeMux) {
	mux.Handle("/metrics", readOnly(e.operator(promhttp.HandlerFor(e.parts.metrics, promhttp.HandlerOpts{}).ServeHTTP)))
	if !e.parts.cfg.Operations.Pprof {
		return
	}
	mux.Handle("/debug/pprof/", readOnly(e.operator(pprof.Index)))
	mux.Handle("/debug/pprof/cmdline", readOnly(e.operator(pprof.Cmdline)))
	mux.Handle("/debug/pprof/profile", readOnly(e.operator(pprof.Profile)))
	mux.Handle("/debug/pprof/trace", readOnly(e.operator(pprof.Trace)))
	mux.Handle("/debug/pprof/symbol", readOnly(e.operator(pprof.Symbol)))
}

// operator lets those through who may read what operators need.
func (e *edge) operator(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch o := e.parts.cfg.Operations; {
		case e.operated(r):
			next(w, r)
		case o.Token.Empty():
			http.Error(w, message.Both("operations.not_set", "\n"), http.StatusForbidden)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, message.Both("operations.no_token", "\n"), http.StatusUnauthorized)
		}
	}
}

// operated reports whether an operator asks: with the token, or without one on the listener that is for operators alone.
func (e *edge) operated(r *http.Request) bool {
	o := e.parts.cfg.Operations
	if o.Token.Empty() {
		return o.Listen != "" && r.Context().Value(operationsListener{}) != nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(o.Token.Reveal()))
	return strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// operationsListener marks the requests that came to the operators' listener.
type operationsListener struct{}

func fromOperations(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), operationsListener{}, true)))
	})
}

// health repeats for a moment what the parts said, so that probes cost the database and Temporal at most one question a second, whoever sends
// them. It is safe for concurrent use.
type health struct {
	check func(context.Context) []adminapi.SystemPart
	now   func() time.Time

	mu   sync.Mutex // held while the parts are asked: who comes meanwhile shares the answer
	at   time.Time
	last []adminapi.SystemPart
}

// parts returns the state of every part.
func (h *health) parts(ctx context.Context) []adminapi.SystemPart {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil || h.now().Sub(h.at) >= healthAge {
		h.last, h.at = h.check(context.WithoutCancel(ctx)), h.now() // others get the answer, too
	}
	return h.last
}

// checks returns the state of every part a request needs, and of those it does not.
func (e *edge) checks(ctx context.Context) []adminapi.SystemPart {
	ctx, cancel := context.WithTimeout(ctx, longestCheck)
	defer cancel()
	p := e.parts
	out := []adminapi.SystemPart{}
	add := func(name string, err error, needed bool) {
		part := adminapi.SystemPart{Name: name, Status: adminapi.SystemPartStatusOk}
		if err != nil {
			part.Status = adminapi.SystemPartStatusFailed
			if !needed {
				part.Status = adminapi.SystemPartStatusDegraded
			}
			text := err.Error()
			part.Detail = &text
		}
		out = append(out, part)
	}
	pool, err := p.db.DB()
	if err == nil {
		err = pool.PingContext(ctx)
	}
	add("database", err, false) // the write-ahead log bridges an outage, so its own word counts
	add("audit", p.audit.Ready(), true)
	add("billing", p.ledger.Ready(), true)
	alive, lastErr := false, error(nil)
	for name, eng := range p.engines {
		_, merr := eng.Models(ctx)
		add("engine "+name, merr, false)
		alive = alive || merr == nil
		if merr != nil {
			lastErr = merr
		}
	}
	if !alive {
		add("engines", lastErr, true)
	}
	if p.siem != nil {
		add("siem", p.siem.Ready(), false)
	}
	if err := p.secrets.Ready(); err != nil {
		add("secrets", err, false)
	}
	switch {
	case p.flows != nil:
		add("workflows", p.flows.Ready(ctx), false)
	default:
		out = append(out, adminapi.SystemPart{Name: "workflows", Status: adminapi.SystemPartStatusOff})
	}
	if p.rag == nil {
		out = append(out, adminapi.SystemPart{Name: "retrieval", Status: adminapi.SystemPartStatusOff})
	}
	return out
}

// ready answers the readiness probe: to operators with the state of each part, whose details are for signed-in administrators.
func (e *edge) ready(w http.ResponseWriter, r *http.Request) {
	type part struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	}
	answer := struct {
		Ready    bool   `json:"ready"`
		Draining bool   `json:"draining"`
		Parts    []part `json:"parts,omitempty"`
	}{Ready: !e.draining.Load(), Draining: e.draining.Load()}
	operator := e.operated(r)
	for _, c := range e.health.parts(r.Context()) {
		if operator {
			answer.Parts = append(answer.Parts, part{c.Name, string(c.Status)})
		}
		answer.Ready = answer.Ready && c.Status != adminapi.SystemPartStatusFailed
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(answer)
}
