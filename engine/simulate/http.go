package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
)

// Simulator is an engine that computes nothing. It answers on all of an engine's ports: give each port's listener the same handler.
type Simulator struct {
	cfg  Config
	core *core

	mu       sync.Mutex
	asked    uint64 // requests for text
	checked  int    // questions of health
	versions int    // questions of version
	started  time.Time
	used     time.Time // the newest request
	draining bool
	dead     context.Context //nolint:containedctx // ends the requests that run
	kill     context.CancelFunc
}

// New returns a simulator.
func New(cfg Config) (*Simulator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	cfg.Version = cmp.Or(cfg.Version, "0.0.0-simulated")
	if cfg.Clock == nil {
		cfg.Clock = Real{}
	}
	s := &Simulator{cfg: cfg, core: &core{cfg: cfg}, started: cfg.Clock.Now()}
	s.dead, s.kill = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the requests that run.
func (s *Simulator) Close() { s.kill() }

// Header is the header by which a simulator says what it is.
const Header = "X-Sluice-Simulator"

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := s.cfg.Profile
	w.Header().Set(Header, p.Name)
	path := r.URL.Path
	if s.cfg.Key != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.Key && r.Method == http.MethodPost {
		s.body(w, http.StatusUnauthorized, "invalid_api_key", "authentication_error", "the key is wrong")
		return
	}
	e, form := p.Endpoints, strings.ReplaceAll(p.Endpoints.Generate, "{model}", s.cfg.Model.Name)
	switch {
	case r.Method == http.MethodPost && path == e.Chat && e.Chat != "":
		s.generate(w, r, true)
	case r.Method == http.MethodPost && path == e.Completions && e.Completions != "":
		s.generate(w, r, false)
	case r.Method == http.MethodPost && form != "" && (path == form || path == form+"_stream"):
		s.own(w, r, path != form)
	case r.Method == http.MethodPost && path == e.Embeddings && e.Embeddings != "":
		s.embed(w, r)
	case r.Method == http.MethodPost && path == e.Rerank && e.Rerank != "":
		s.rerank(w, r)
	case path == p.Drain.Path && path != "":
		s.drain(w)
	case path == p.Metrics.Path && path != "":
		s.metrics(w)
	case path == p.Models.Path && path != "":
		s.models(w)
	default:
		s.probes(w, path)
	}
}

// probes answers what is asked about the engine itself. One path may tell several things.
func (s *Simulator) probes(w http.ResponseWriter, path string) {
	p, doc, status := s.cfg.Profile, map[string]any{}, 0
	for _, c := range []struct {
		check profile.Check
		ready bool
	}{{p.Health.Live, false}, {p.Health.Ready, true}} {
		if c.check.Path != path || path == "" {
			continue
		}
		status = s.health(c.check, c.ready, doc)
	}
	if p.Version.Path == path && path != "" {
		if status == 0 {
			status = http.StatusOK
		}
		s.version(w, doc)
	}
	if q := p.Models.ContextFrom; q.Path == path && path != "" {
		if status == 0 {
			status = http.StatusOK
		}
		put(doc, q.Member, s.context())
	}
	if status == 0 {
		http.NotFound(w, &http.Request{})
		return
	}
	reply(w, status, doc)
}

func (s *Simulator) context() int {
	if s.cfg.Mutation == MutateContext {
		return 0
	}
	return s.cfg.Model.Context
}

// health returns the status of a check, and puts what its body has to say.
func (s *Simulator) health(c profile.Check, ready bool, doc map[string]any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checked++
	ok := http.StatusOK
	if len(c.OK) > 0 {
		ok = c.OK[0]
	}
	loading := ready && len(c.Loading) > 0 && s.cfg.Clock.Now().Sub(s.started) < s.cfg.Machine.LoadTime
	flap := s.cfg.Mutation == MutateFlap && s.checked%3 == 0 || s.faultIs(FaultHealth, uint64(s.checked))
	sick := s.cfg.Mutation == MutateHealth || flap || ready && s.draining
	if c.Body != "" {
		v := c.Is
		if sick || loading {
			v = "un" + v
		}
		var typed any = v
		if v == "true" {
			typed = true
		}
		put(doc, c.Body, typed)
	}
	switch {
	case s.cfg.Mutation == MutateHealth || flap:
		return http.StatusInternalServerError
	case loading:
		return c.Loading[0]
	case sick:
		return http.StatusServiceUnavailable
	}
	return ok
}

func (s *Simulator) version(w http.ResponseWriter, doc map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions++
	v := s.cfg.Version
	if s.cfg.Mutation == MutateVersionFlap && s.versions%2 == 0 || s.faultIs(FaultVersion, uint64(s.versions)) {
		v += ".1"
	}
	if s.cfg.Mutation == MutateVersion {
		return
	}
	q := s.cfg.Profile.Version
	if q.Header != "" {
		w.Header().Set(q.Header, v)
		return
	}
	put(doc, cmp.Or(q.Member, "version"), v)
}

func (s *Simulator) models(w http.ResponseWriter) {
	l := s.cfg.Profile.Models
	list := []any{}
	names := append([]string{s.cfg.Model.Name}, s.cfg.Model.Adapters...)
	if s.cfg.Mutation == MutateModels || !s.listed() {
		names = nil
	}
	for i, name := range names {
		m := map[string]any{cmp.Or(l.ID, "id"): name, "object": "model", "created": 0, "owned_by": "simulator"}
		if i > 0 {
			m["parent"] = s.cfg.Model.Name
		}
		if l.Context != "" {
			put(m, l.Context, s.context())
		}
		list = append(list, m)
	}
	doc := map[string]any{"object": "list"}
	put(doc, cmp.Or(l.List, "data"), list)
	reply(w, http.StatusOK, doc)
}

// listed reports whether its models are in the list: where that list tells that it is ready, only while it is.
func (s *Simulator) listed() bool {
	c := s.cfg.Profile.Health.Ready
	return c.Some == "" || c.Path != s.cfg.Profile.Models.Path || s.health(c, true, map[string]any{}) == http.StatusOK
}

func (s *Simulator) metrics(w http.ResponseWriter) {
	if s.cfg.Mutation == MutateMetricPage {
		http.NotFound(w, &http.Request{})
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	if s.cfg.Profile.Metrics.Format == "json" {
		w.Header().Set("Content-Type", "application/json")
	}
	_, _ = w.Write([]byte(s.page()))
}

func (s *Simulator) drain(w http.ResponseWriter) {
	s.mu.Lock()
	s.draining = s.cfg.Mutation != MutateDrainOpen
	s.mu.Unlock()
	if s.cfg.Mutation == MutateDrain || !s.cfg.Profile.Drain.Waits {
		s.kill()
	}
	reply(w, http.StatusOK, map[string]any{"status": "stopping"})
}

func reply(w http.ResponseWriter, status int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(doc)
}

// faultIs reports whether a fault of a kind is due for the nth event, from 1.
func (s *Simulator) faultIs(kind FaultKind, nth uint64) bool {
	_, ok := s.fault(kind, nth)
	return ok
}

func (s *Simulator) fault(kind FaultKind, nth uint64) (Fault, bool) {
	i := slices.IndexFunc(s.cfg.Faults, func(f Fault) bool {
		every := uint64(max(1, f.Every))
		if kind == FaultVersion { // from then on
			return f.Kind == kind && nth >= every
		}
		return f.Kind == kind && (nth-1)%every == 0
	})
	if i < 0 {
		return Fault{}, false
	}
	return s.cfg.Faults[i], true
}

// refuse answers as the profile says of a kind of refusal: one of our codes, or "wrong_value".
func (s *Simulator) refuse(w http.ResponseWriter, kind, message string) {
	e := s.cfg.Profile.Errors
	status := map[string]int{
		string(fault.CodeModelNotFound): cmp.Or(e.WrongModel, http.StatusNotFound), "wrong_value": cmp.Or(e.WrongValue, http.StatusBadRequest),
		string(fault.CodeContextLength): http.StatusBadRequest, string(fault.CodeEngineOverloaded): cmp.Or(e.Overload, http.StatusTooManyRequests),
	}[kind]
	status = cmp.Or(status, http.StatusServiceUnavailable)
	code, kindOf := "", "invalid_request_error"
	if i := slices.IndexFunc(e.Rules, func(r profile.ErrorRule) bool { return r.Fault == kind && !r.Format }); i >= 0 {
		r := e.Rules[i]
		if len(r.Status) > 0 && !slices.Contains(r.Status, status) {
			status = r.Status[0]
		}
		code, kindOf = r.Code, cmp.Or(r.Type, kindOf)
		message = strings.TrimSpace(message + " " + r.Says)
		if r.Waiting {
			w.Header().Set("Retry-After", "1")
		}
	}
	if s.cfg.Mutation == MutateErrorStatus || s.cfg.Mutation == MutateOverload && kind == string(fault.CodeEngineOverloaded) {
		status, code, kindOf, message = http.StatusInternalServerError, "", "internal", "something went wrong"
	}
	s.body(w, status, code, kindOf, message)
}

// body writes an error in the profile's shape.
func (s *Simulator) body(w http.ResponseWriter, status int, code, kind, message string) {
	var c any = status
	if code != "" {
		c = code
	}
	switch s.cfg.Profile.Errors.Shape {
	case "flat":
		reply(w, status, map[string]any{"object": "error", "message": message, "type": kind, "param": nil, "code": c})
	case "detail":
		reply(w, status, map[string]any{"detail": message})
	case "error":
		reply(w, status, map[string]any{"error": message, "error_type": kind})
	case "error_text":
		reply(w, status, map[string]any{"error": message})
	default:
		reply(w, status, map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": c}})
	}
}

// accept does what comes before an answer: faults, the load of the model, and the checks of the request. It is false if it has answered.
func (s *Simulator) accept(w http.ResponseWriter, r *http.Request, q *asked) (nth uint64, ok bool) {
	s.mu.Lock()
	s.asked++
	nth = s.asked
	cold := len(s.cfg.Profile.Health.Ready.Loading) == 0 && s.cfg.Machine.LoadTime > 0 &&
		(s.used.IsZero() || s.cfg.Machine.KeepAlive > 0 && s.cfg.Clock.Now().Sub(s.used) > s.cfg.Machine.KeepAlive)
	s.used = s.cfg.Clock.Now()
	draining := s.draining
	s.mu.Unlock()
	if f, due := s.fault(FaultSlow, nth); due && s.cfg.Clock.Sleep(r.Context(), f.Delay) != nil {
		return nth, false
	}
	if cold && s.cfg.Clock.Sleep(r.Context(), s.cfg.Machine.LoadTime) != nil {
		return nth, false
	}
	switch {
	case draining:
		s.body(w, http.StatusServiceUnavailable, "", "unavailable", "the server is stopping")
	case s.faultIs(FaultError, nth):
		s.body(w, http.StatusInternalServerError, "", "internal", "an injected fault")
	case s.faultIs(FaultOverload, nth):
		s.refuse(w, string(fault.CodeEngineOverloaded), "an injected fault")
	default:
		return nth, s.sound(w, q)
	}
	return nth, false
}

// sound checks the model, the length and what is no text.
func (s *Simulator) sound(w http.ResponseWriter, q *asked) bool {
	if s.cfg.Mutation == MutateErrorAccepted {
		return true
	}
	m := s.cfg.Model
	if s.cfg.Profile.Request.Adapter.Name == "model" && slices.Contains(m.Adapters, q.model) {
		q.adapter = q.model
	} else if q.model != m.Name && s.cfg.Profile.Errors.WrongModel != 0 && s.cfg.Mutation != MutateAdapterUnknown {
		s.refuse(w, string(fault.CodeModelNotFound), "the model does not exist")
		return false
	}
	if q.adapter != "" && !slices.Contains(m.Adapters, q.adapter) && s.cfg.Mutation != MutateAdapterUnknown {
		s.refuse(w, "wrong_value", "the adapter does not exist")
		return false
	}
	if n := s.promptTokens(*q); n+max(1, q.most) > m.Context {
		s.refuse(w, string(fault.CodeContextLength), fmt.Sprintf("%d tokens are more than %d", n, m.Context))
		return false
	}
	if q.images > 0 && s.cfg.Mutation == MutateImageError {
		s.body(w, http.StatusInternalServerError, "", "internal", "no image today")
		return false
	}
	if q.images > 0 && !m.Vision || q.audio && !m.Audio {
		s.refuse(w, "wrong_value", "the model takes text only")
		return false
	}
	return true
}

// decode reads a body. It is false if it has answered.
func (s *Simulator) decode(w http.ResponseWriter, r *http.Request) (map[string]any, bool) {
	var doc map[string]any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 32<<20)).Decode(&doc); err != nil {
		s.refuse(w, "wrong_value", "the body is no JSON object")
		return nil, false
	}
	return doc, true
}

func (s *Simulator) generate(w http.ResponseWriter, r *http.Request, chat bool) {
	doc, ok := s.decode(w, r)
	if !ok {
		return
	}
	q, err := s.read(doc, chat)
	if err != nil && s.cfg.Mutation != MutateErrorAccepted {
		s.refuse(w, "wrong_value", err.Error())
		return
	}
	a, ok := s.begin(w, r, &q)
	if !ok {
		return
	}
	defer a.cancel()
	if q.stream {
		a.stream(w)
		return
	}
	a.whole(w)
}

// begin queues a request. It is false if it has answered.
func (s *Simulator) begin(w http.ResponseWriter, r *http.Request, q *asked) (*answering, bool) {
	nth, ok := s.accept(w, r, q)
	if !ok {
		return nil, false
	}
	plans, room := make([]plan, q.choices), 0
	for i := range plans {
		var err error
		if plans[i], err = s.plan(*q, i, nth); err != nil {
			s.refuse(w, "wrong_value", "the grammar or schema of response_format is wrong")
			return nil, false
		}
		room += max(1, len(plans[i].pieces)) // one that says nothing tells its end
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(s.dead, cancel) //nolint:contextcheck // the death of the server, not of the request
	out := make(chan emission, room)
	a := &answering{s: s, q: *q, nth: nth, plans: plans, out: out, ctx: ctx, cancel: func() { stop(); cancel() }}
	stuck, _ := s.fault(FaultStuck, nth)
	var jobs []*job
	for i, p := range plans {
		jobs = append(jobs, &job{ctx: ctx, choice: i, prompt: s.promptTokens(*q), plan: p.pieces, out: out, linger: stuck.Delay})
	}
	if err := s.core.submit(jobs); errors.Is(err, errOverloaded) { //nolint:contextcheck // each job holds its request's context
		a.cancel()
		s.refuse(w, string(fault.CodeEngineOverloaded), "too many requests")
		return nil, false
	}
	return a, true
}
