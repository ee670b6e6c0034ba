package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// State is how far a worker is.
type State string

// The states. Only a ready worker takes work.
const (
	Starting    State = "starting" // it loads
	Warming     State = "warming"  // it runs for the first time
	Ready       State = "ready"
	Draining    State = "draining" // it was asked to end; what runs goes on
	Failed      State = "failed"
	Unreachable State = "unreachable" // the client's word: the worker does not answer
)

// Load is what one model of a worker has to do, and what it may take for that. What a worker does not report is zero.
type Load struct {
	Model      engine.ModelID `json:"model"`
	Running    int            `json:"running_sequences"`
	Waiting    int            `json:"waiting_sequences"`
	Slots      int            `json:"concurrency_limit,omitzero"` // sequences of all models of the worker
	Pages      int            `json:"kv_pages"`
	PagesInUse int            `json:"kv_pages_in_use"`
	PageTokens int            `json:"kv_page_tokens,omitzero"`
	PageBytes  int            `json:"kv_page_bytes,omitzero"`
}

// Adapter describes an adapter that a worker has loaded.
type Adapter struct {
	ID      engine.ModelID `json:"id"`
	Model   engine.ModelID `json:"model"` // what it changes
	Digest  string         `json:"digest"`
	Bytes   int            `json:"bytes"`
	Tenants []string       `json:"tenants,omitempty"` // who may use it; empty: everybody
}

// NewAdapter names an adapter to be loaded.
type NewAdapter struct {
	ID      engine.ModelID `json:"id"`
	Model   engine.ModelID `json:"model"`
	Path    string         `json:"path"` // below the worker's own folder of adapters
	Tenants []string       `json:"tenants,omitempty"`
}

// Adapters lists, loads and unloads the adapters of an engine.
type Adapters interface {
	List() []Adapter
	Load(ctx context.Context, a NewAdapter) (Adapter, error)
	Unload(id engine.ModelID) error
}

// Backend is what a server exposes. All but Engine may be nil: then nothing is kept of tenants, nothing is known of load, there are no adapters or
// no metrics.
type Backend struct {
	Engine   engine.Engine
	Forget   func(tenant string)
	Load     func() []Load
	Adapters Adapters
	Metrics  http.Handler
}

const (
	maxWork   = 64 << 20  // bytes of one request
	maxBodies = 512 << 20 // of all that are being read
	lastBytes = 5 * time.Second
	prefix    = "/sluice-engine/v1/"
)

// Server exposes an engine. It starts in state Starting, without one. It is safe for concurrent use.
type Server struct {
	log      *slog.Logger
	instance string // tells a restarted process from the one before
	prompts  *stash
	bodies   *inflight.Limiter
	mux      *http.ServeMux

	mu      sync.Mutex
	state   State
	backend Backend
	running int
	idle    chan struct{} // closed when a draining server has nothing to do any more
}

// NewServer returns a server that takes no work yet.
func NewServer(log *slog.Logger) *Server {
	s := &Server{
		log: log.With(slog.String("component", "worker")), instance: rand.Text(), prompts: newStash(), state: Starting,
		bodies: inflight.New(inflight.Config{All: maxBodies, PerTenant: maxBodies, PerCaller: maxBodies}), mux: http.NewServeMux(),
	}
	s.mux.HandleFunc("GET "+prefix+"health", s.health)
	s.mux.HandleFunc("POST "+prefix+"prepare", s.working(s.prepare))
	s.mux.HandleFunc("POST "+prefix+"generate", s.working(s.generate))
	s.mux.HandleFunc("POST "+prefix+"embed", s.working(s.embed))
	s.mux.HandleFunc("POST "+prefix+"score", s.working(s.score))
	s.mux.HandleFunc("POST "+prefix+"tokens", s.working(s.tokens))
	s.mux.HandleFunc("POST "+prefix+"detokenize", s.working(s.detokenize))
	s.mux.HandleFunc("POST "+prefix+"forget", s.forget)
	s.mux.HandleFunc("GET "+prefix+"adapters", s.listAdapters)
	s.mux.HandleFunc("POST "+prefix+"adapters", s.loadAdapter)
	s.mux.HandleFunc("DELETE "+prefix+"adapters/{id}", s.unloadAdapter)
	s.mux.HandleFunc("GET "+prefix+"metrics", s.metrics)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Warm shows what there is; work is still refused.
func (s *Server) Warm(b Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.backend, s.state = b, Warming
}

// Ready shows what there is and takes work, unless the server is draining already.
func (s *Server) Ready(b Backend) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.backend = b; s.state != Draining {
		s.state = Ready
	}
}

// Fail says that there will be no engine.
func (s *Server) Fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = Failed
}

// State returns the state.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Serve answers on l until ctx ends, then drains: new work is refused, and what runs has so much time to finish before it is cut. It returns nil
// after a stop that cut nothing.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // handshakes of strangers
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the engine: %w", err)
	case <-ctx.Done():
	}
	err := s.drain(context.WithoutCancel(ctx), drain)
	s.prompts.clear()
	if err == nil { // the last bytes of answers are still on their way out
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastBytes)
		defer cancel()
		err = server.Shutdown(end)
	}
	return errors.Join(err, server.Close())
}

// drain refuses new work and waits until nothing runs.
func (s *Server) drain(ctx context.Context, longest time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	s.mu.Lock()
	s.state, s.idle = Draining, make(chan struct{})
	if s.running == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain the engine: requests still ran after %s and were cut", longest)
	}
}

// begin counts a request in, or says why it cannot be taken.
func (s *Server) begin() (Backend, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != Ready {
		return Backend{}, fmt.Errorf("the worker is %s: %w", s.state, engine.ErrNotReached)
	}
	s.running++
	return s.backend, nil
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running--; s.running == 0 && s.idle != nil {
		close(s.idle)
	}
}

// exchange is a request for work.
type exchange struct {
	http.ResponseWriter

	r      *http.Request
	engine engine.Engine
	work   *work
	bytes  int // the work came in
}

// working takes a request for work, or refuses it before anything has worked on it.
func (s *Server) working(handle func(*exchange)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, release, err := s.bodies.Body(w, r, inflight.Caller{ID: "gateway"}, maxWork)
		defer release()
		if err != nil {
			s.refuse(w, err)
			return
		}
		asked, err := strictjson.Decode[work](body)
		if err != nil { // what the decoder says may quote a text
			s.refuse(w, fault.Wrap(errors.New("the work is not what this release knows"), fault.CodeUnsupported, "request", fault.Say("worker.unknown_work")))
			return
		}
		b, err := s.begin()
		if err != nil {
			s.refuse(w, fault.Wrap(err, fault.CodeEngineUnavailable, string(asked.model())).WithRetryAfter(time.Second))
			return
		}
		defer s.end()
		handle(&exchange{ResponseWriter: w, r: r, engine: b.Engine, work: &asked, bytes: len(body)})
	}
}

func (w *work) model() engine.ModelID {
	switch {
	case w.Generate != nil:
		return w.Generate.Model
	case w.Embed != nil:
		return w.Embed.Model
	case w.Score != nil:
		return w.Score.Model
	case w.Detokenize != nil:
		return w.Detokenize.Model
	}
	return ""
}

// refuse answers with an error.
func (s *Server) refuse(w http.ResponseWriter, err error) {
	body, status := s.refusal(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON, for a program
}

// refusal is what of an error crosses. What has no code is logged here: its reader learns that something is wrong, and nothing more.
func (s *Server) refusal(err error) (body []byte, status int) {
	if errors.Is(err, context.Canceled) { // nobody reads it
		err = fault.Wrap(err, fault.CodeEngineUnavailable, "")
	}
	public := fault.Public(err)
	if public.Code() == fault.CodeInternal {
		s.log.Error("the engine failed", slog.String("error", err.Error()))
	}
	body, encodeErr := encode(refusal{Portable: public.Portable(), NotReached: errors.Is(err, engine.ErrNotReached), CallerLimit: errors.Is(err, engine.ErrCallerLimit)})
	if encodeErr != nil { // a number that JSON has no form for
		body, _ = encode(refusal{Portable: fault.New(fault.CodeInternal).Portable()})
	}
	return body, public.Kind().Status()
}

// reply answers with JSON.
func (s *Server) reply(w http.ResponseWriter, v any) {
	body, err := encode(v)
	if err != nil {
		s.refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// prompt is what is to be run: one that is held, or one that is prepared now. It is nil where the answer is given.
func (s *Server) prompt(x *exchange) *engine.Prompt {
	if x.work.Prompt != "" {
		p := s.prompts.take(x.work.Prompt)
		if p == nil {
			x.WriteHeader(http.StatusGone)
		}
		return p
	}
	w, err := x.work.work(time.Now())
	if err != nil {
		s.refuse(x, err)
		return nil
	}
	p, err := x.engine.Prepare(x.r.Context(), w)
	if err != nil {
		s.refuse(x, err)
		return nil
	}
	return p
}

func (s *Server) prepare(x *exchange) {
	x.work.Prompt = ""
	p := s.prompt(x)
	if p == nil {
		return
	}
	out := preparedReply{Tokens: p.Tokens, Exact: p.Exact, SegmentsKept: p.SegmentsKept}
	if p.Request != nil {
		out.MaxTokens = p.Request.MaxTokens
	}
	out.Prompt = s.prompts.put(p, x.bytes)
	s.reply(x, out)
}

func (s *Server) generate(x *exchange) {
	p := s.prompt(x)
	if p == nil {
		return
	}
	x.Header().Set("Content-Type", "application/octet-stream")
	flusher, _ := x.ResponseWriter.(http.Flusher)
	var body, frame []byte // used again by the next event
	for ev, err := range x.engine.Generate(x.r.Context(), p) {
		if err != nil {
			refused, _ := s.refusal(err)
			_, _ = x.Write(appendFrame(frame[:0], frameFault, refused))
			return
		}
		body = appendEvent(body[:0], &ev)
		if len(body) > maxFrame {
			refused, _ := s.refusal(fmt.Errorf("an event has %d bytes", len(body)))
			_, _ = x.Write(appendFrame(frame[:0], frameFault, refused))
			return
		}
		frame = appendFrame(frame[:0], frameEvent, body)
		if _, err := x.Write(frame); err != nil {
			return // the reader left
		}
		if !ev.More && ev.Usage == nil && flusher != nil {
			flusher.Flush()
		}
	}
}

func (s *Server) embed(x *exchange) {
	if p := s.prompt(x); p != nil {
		out, err := x.engine.Embed(x.r.Context(), p)
		result(s, x, out, err, appendEmbeddings)
	}
}

func (s *Server) score(x *exchange) {
	if p := s.prompt(x); p != nil {
		out, err := x.engine.Score(x.r.Context(), p)
		result(s, x, out, err, appendScores)
	}
}

func (s *Server) tokens(x *exchange) {
	p := s.prompt(x)
	if p == nil {
		return
	}
	got, err := x.engine.Tokens(x.r.Context(), p)
	if err != nil {
		s.refuse(x, err)
		return
	}
	s.reply(x, tokensReply(*got))
}

func (s *Server) detokenize(x *exchange) {
	q := x.work.Detokenize
	if q == nil {
		s.refuse(x, engine.ErrOtherWork)
		return
	}
	asked := engine.DetokenizeRequest(*q)
	text, err := x.engine.Detokenize(x.r.Context(), &asked)
	if err != nil {
		s.refuse(x, err)
		return
	}
	s.reply(x, textReply{text})
}

func result[T any](s *Server, x *exchange, v *T, err error, form func([]byte, *T) []byte) {
	if err != nil {
		s.refuse(x, err)
		return
	}
	x.Header().Set("Content-Type", "application/octet-stream")
	_, _ = x.Write(appendFrame(nil, frameResult, form(nil, v)))
}
