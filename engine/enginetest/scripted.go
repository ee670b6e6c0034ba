package enginetest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Plan says how Scripted answers one generation. The zero value echoes the last message, or does the least that a format or a
// required tool asks for.
type Plan struct {
	Texts   []string            // the answer of each choice; missing ones echo
	Calls   [][]engine.ToolCall // the calls of each choice, which come after its text; with them, a missing text is empty
	Err     error               // fail with this error
	FailAt  int                 // after this many text events; 0 fails before the first
	Start   <-chan struct{}     // wait for it before the first event
	Step    <-chan struct{}     // receive from it before every text event
	Pieces  []int               // runes of the text events, cycled; nil means one token per event
	NoUsage bool                // end without Usage, which breaks the contract: for tests of callers' defences
}

// Scripted is an engine for tests. It answers as its plan says, deterministically, and keeps a copy of everything it was given,
// so that a test can assert what never reached a model. A token is a run of up to three runes. It takes every field of a request,
// and leaves it to its plan to answer accordingly. It passes the suite of this package, as far as no plan is needed for it.
type Scripted struct {
	models []engine.Model
	plan   func(n int, req *engine.Request) Plan

	mu       sync.Mutex
	requests []engine.Request
	inputs   []engine.EmbedRequest
	scores   []engine.ScoreRequest
	aborted  int
	names    []string         // of the tokens that were told, by their number
	ids      map[string]int32 // of them
	closed   chan struct{}
	once     sync.Once
}

// NewScripted returns an engine with the given models; without any it has "scripted", which generates, "scripted-embed" and
// "scripted-rerank".
// plan is asked for each generation with its number, from 0; nil echoes always.
func NewScripted(plan func(n int, req *engine.Request) Plan, models ...engine.Model) *Scripted {
	if len(models) == 0 {
		models = []engine.Model{
			{
				ID: "scripted", Digest: "sha256:" + strings.Repeat("0", 64), Precision: "none", ContextTokens: 4096,
				CanGenerate: true, HasLogprobs: true, HasFormats: true, HasTools: true, HasSampling: true, HasClasses: true, HasTokens: true, HasDetokenize: true, Deterministic: true, Local: true,
			},
			{ID: "scripted-embed", ContextTokens: 512, EmbedDim: 32, CanEmbed: true, Deterministic: true, Local: true},
			{ID: "scripted-rerank", ContextTokens: 512, CanScore: true, Deterministic: true, Local: true},
		}
	}
	if plan == nil {
		plan = func(int, *engine.Request) Plan { return Plan{} }
	}
	return &Scripted{models: models, plan: plan, names: []string{turnMark}, ids: map[string]int32{}, closed: make(chan struct{})}
}

// Requests returns copies of the generations asked for so far.
func (s *Scripted) Requests() []engine.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Inputs returns copies of the embedding requests so far.
func (s *Scripted) Inputs() []engine.EmbedRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.inputs)
}

// Scores returns copies of the requests for scores so far.
func (s *Scripted) Scores() []engine.ScoreRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.scores)
}

// Aborted returns how many generations were stopped by their consumer or their context.
func (s *Scripted) Aborted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.aborted
}

// Models implements engine.Engine.
func (s *Scripted) Models(ctx context.Context) ([]engine.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := slices.Clone(s.models)
	slices.SortFunc(out, func(a, b engine.Model) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out, nil
}

func (s *Scripted) model(id engine.ModelID) (engine.Model, error) {
	select {
	case <-s.closed:
		return engine.Model{}, fault.New(fault.CodeEngineUnavailable, string(id))
	default:
	}
	for _, m := range s.models {
		if m.ID == id {
			return m, nil
		}
	}
	return engine.Model{}, fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
}

// writer is a model that generates text.
func (s *Scripted) writer(id engine.ModelID) (engine.Model, error) {
	m, err := s.model(id)
	if err == nil && !m.CanGenerate {
		err = fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_generation")).WithParam("model")
	}
	return m, err
}

// Prepare implements engine.Engine; it is exact.
func (s *Scripted) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch q := w.(type) {
	case *engine.Request:
		return s.prepareText(q)
	case *engine.EmbedRequest:
		return s.prepareEmbed(q)
	case *engine.ScoreRequest:
		return s.prepareScore(q)
	default:
		return nil, engine.ErrOtherWork
	}
}

func (s *Scripted) prepareText(req *engine.Request) (*engine.Prompt, error) {
	m, err := s.writer(req.Model)
	if err != nil {
		return nil, err
	}
	p, err := engine.FitPrompt(req, engine.TokenCounts{
		Context: m.ContextTokens, Base: promptTokens(req), Exact: true,
		Segment: func(i int) (int, error) { return len(tokens(req.Segments[i])), nil },
	})
	if err == nil {
		p.Prepared = s
	}
	return p, err
}

func (s *Scripted) prepareEmbed(req *engine.EmbedRequest) (*engine.Prompt, error) {
	m, err := s.model(req.Model)
	if err != nil {
		return nil, err
	}
	if !m.CanEmbed {
		return nil, fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_embedding")).WithParam("model")
	}
	if req.Dimensions < 0 || req.Dimensions > m.EmbedDim {
		return nil, fault.New(fault.CodeInvalidValue, "dimensions", fault.Say("model.vector_size", m.EmbedDim)).WithParam("dimensions")
	}
	p := &engine.Prompt{Embed: req, Exact: true, Prepared: s}
	for i, text := range req.Input {
		n := len(tokens(text))
		if n > m.ContextTokens {
			return nil, fault.New(fault.CodeContextLength, m.ContextTokens, n).WithParam(fmt.Sprintf("input[%d]", i))
		}
		p.Tokens += n
	}
	return p, nil
}

func (s *Scripted) prepareScore(req *engine.ScoreRequest) (*engine.Prompt, error) {
	m, err := s.model(req.Model)
	if err != nil {
		return nil, err
	}
	if !m.CanScore {
		return nil, fault.New(fault.CodeUnsupported, "model", fault.Say("model.no_scoring")).WithParam("model")
	}
	p := &engine.Prompt{Score: req, Exact: true, Prepared: s}
	for _, d := range req.Documents {
		p.Tokens += len(tokens(req.Query)) + len(tokens(d))
	}
	return p, nil
}

// prepared returns p if this engine has prepared it, else p prepared again.
func (s *Scripted) prepared(ctx context.Context, p *engine.Prompt, w engine.Work) (*engine.Prompt, error) {
	if p.Prepared == s {
		return p, ctx.Err()
	}
	return s.Prepare(ctx, w)
}

func promptTokens(req *engine.Request) int {
	if req.Messages == nil {
		return len(tokens(req.Prompt))
	}
	n := 1
	for _, m := range req.Messages {
		n += 2 + len(tokens(m.Content))
		for _, c := range m.ToolCalls {
			n += 2 + len(tokens(c.Name)) + len(tokens(c.Arguments))
		}
	}
	for _, t := range req.Tools {
		n += 2 + len(tokens(t.Name)) + len(tokens(t.Description)) + len(tokens(string(t.Parameters)))
	}
	return n
}

// tokens cuts text into runs of up to three runes.
func tokens(text string) []string {
	return cut(text, []int{3})
}

func cut(text string, sizes []int) []string {
	var out []string
	for i := 0; text != ""; i++ {
		end := 0
		for range max(1, sizes[i%len(sizes)]) {
			if end < len(text) {
				_, w := utf8.DecodeRuneInString(text[end:])
				end += w
			}
		}
		out = append(out, text[:end])
		text = text[end:]
	}
	return out
}

// Generate implements engine.Engine.
func (s *Scripted) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	return func(yield func(engine.Event, error) bool) {
		var err error
		if p.Request == nil {
			err = engine.ErrOtherWork
		} else if p.Prepared != s {
			p, err = s.Prepare(ctx, p.Request)
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		req := p.Request
		m, err := s.writer(req.Model)
		if err == nil {
			err = unsupported(m, req)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && !req.Deadline.IsZero() && time.Now().After(req.Deadline) {
			err = fault.Wrap(engine.ErrCallerLimit, fault.CodeEngineOverloaded, string(req.Model)).WithRetryAfter(time.Second)
		}
		if err != nil {
			yield(engine.Event{}, err)
			return
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, clone(req))
		s.mu.Unlock()
		g := &generation{s: s, m: m, req: req, prompt: p.Tokens, plan: s.plan(n, req), yield: yield}
		g.run(ctx)
	}
}

// unsupported refuses what a model does not promise.
func unsupported(m engine.Model, req *engine.Request) error {
	sampling := req.TopK > 0 || req.MinP > 0 || req.MinTokens > 0 || req.Echo || len(req.LogitBias) > 0 ||
		req.RepetitionPenalty != 0 && req.RepetitionPenalty != 1 || req.FrequencyPenalty != 0 || req.PresencePenalty != 0
	for _, c := range []struct {
		has, asked bool
		field      string
	}{
		{m.HasFormats, req.Format != nil, "response_format"},
		{m.HasTools, len(req.Tools) > 0, "tools"},
		{m.HasHooks, req.Hook != nil, "hook"},
		{m.HasSampling, sampling, "sampling"},
	} {
		if c.asked && !c.has {
			return fault.New(fault.CodeUnsupported, c.field, fault.Say("model.no_such_ability")).WithParam(c.field)
		}
	}
	return nil
}

func clone(req *engine.Request) engine.Request {
	c := *req
	c.Messages = slices.Clone(req.Messages)
	for i := range c.Messages {
		c.Messages[i].ToolCalls = slices.Clone(c.Messages[i].ToolCalls)
	}
	c.Stop = slices.Clone(req.Stop)
	c.Tools = slices.Clone(req.Tools)
	return c
}

// generation is one run of a plan.
type generation struct {
	s      *Scripted
	m      engine.Model
	req    *engine.Request
	prompt int // tokens
	plan   Plan
	yield  func(engine.Event, error) bool
	sent   int // events with text or calls so far
}

// choice is the precomputed answer of one choice.
type choice struct {
	pieces []piece
	tokens int
	finish engine.Finish

	stoppedBy int
}

// piece is what one event brings: text, or a part of a call.
type piece struct {
	text   string
	call   *engine.ToolDelta
	echoed bool // text of the prompt
}

func (g *generation) run(ctx context.Context) {
	choices := make([]choice, max(1, g.req.Choices))
	longest := 0
	for i := range choices {
		choices[i] = g.answer(i)
		longest = max(longest, len(choices[i].pieces))
	}
	if err := g.wait(ctx, g.plan.Start); err != nil {
		g.fail(ctx, err)
		return
	}
	usage := &engine.Usage{Model: engine.ReportedModel(g.m.ID), PromptTokens: g.prompt}
	for _, c := range choices {
		usage.CompletionTokens += c.tokens
	}
	if g.plan.NoUsage {
		usage = nil
	}
	for step := range longest + 1 { // choices interleave
		for i := range choices {
			last := i == len(choices)-1 && step == longest
			if !g.event(ctx, i, step, &choices[i], last, usage) {
				return
			}
		}
	}
}

// event yields the step-th event of a choice: a piece of text, or its finish, or nothing if it has finished before.
func (g *generation) event(ctx context.Context, i, step int, c *choice, last bool, usage *engine.Usage) bool {
	ev := engine.Event{Choice: i}
	switch {
	case step < len(c.pieces):
		if g.plan.Err != nil && g.sent == g.plan.FailAt {
			g.yield(engine.Event{}, g.plan.Err)
			return false
		}
		if err := g.wait(ctx, g.plan.Step); err != nil {
			return g.fail(ctx, err)
		}
		g.sent++
		p := c.pieces[step]
		if ev.Text = p.text; p.call != nil {
			ev.Calls = []engine.ToolDelta{*p.call}
		}
		if g.req.Logprobs >= 0 && g.m.HasLogprobs {
			ev.Logprobs = logprobs(ev.Text, g.req.Logprobs)
			if p.echoed && step == 0 && len(ev.Logprobs) > 0 {
				ev.Logprobs[0].Logprob, ev.Logprobs[0].Top = math.NaN(), nil
			}
		}
	case step == len(c.pieces):
		if g.plan.Err != nil && g.sent <= g.plan.FailAt {
			g.yield(engine.Event{}, g.plan.Err)
			return false
		}
		ev.Finish, ev.StoppedBy = c.finish, c.stoppedBy
	}
	if last {
		ev.Usage, ev.Marking = usage, g.req.Unmarked(engine.MarkReasonEngine)
	}
	if ev.Text == "" && len(ev.Calls) == 0 && ev.Finish == engine.FinishNone && ev.Usage == nil {
		return true
	}
	if err := ctx.Err(); err != nil {
		return g.fail(ctx, err)
	}
	if !g.yield(ev, nil) {
		g.abort()
		return false
	}
	return true
}

// wait returns once ch (nil never blocks) lets it, or with the reason to stop.
func (g *generation) wait(ctx context.Context, ch <-chan struct{}) error {
	if ch != nil {
		select {
		case <-ctx.Done():
		case <-g.s.closed:
		case <-ch:
		}
	}
	select {
	case <-g.s.closed:
		return fault.New(fault.CodeEngineUnavailable, string(g.m.ID))
	default:
		return ctx.Err()
	}
}

func (g *generation) fail(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		g.abort()
	}
	g.yield(engine.Event{}, err)
	return false
}

func (g *generation) abort() {
	g.s.mu.Lock()
	g.s.aborted++
	g.s.mu.Unlock()
}

// answer computes a choice: the planned text, cut at the earliest stop string and at the token limit, then the planned calls.
func (g *generation) answer(i int) choice {
	text := g.req.Prompt
	if n := len(g.req.Messages); n > 0 {
		text = g.req.Messages[n-1].Content
	}
	var calls []engine.ToolCall
	if forced, call, ok := forcedAnswer(g.req); ok {
		text, calls = forced, call
	}
	if i < len(g.plan.Calls) {
		calls, text = g.plan.Calls[i], ""
	}
	if i < len(g.plan.Texts) {
		text = g.plan.Texts[i]
		if i >= len(g.plan.Calls) {
			calls = nil
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	c := choice{finish: engine.FinishStop}
	for k, stop := range g.req.Stop {
		if at := strings.Index(text, stop); stop != "" && at >= 0 {
			text, c.stoppedBy = text[:at], 1+k
		}
	}
	parts := tokens(text)
	if limit := g.req.MaxTokens; len(parts) > limit {
		parts, c.finish, c.stoppedBy = parts[:limit], engine.FinishLength, 0
	}
	c.tokens = len(parts)
	if g.plan.Pieces != nil {
		parts = cut(strings.Join(parts, ""), g.plan.Pieces)
	}
	if g.req.Echo {
		for _, t := range tokens(g.req.Prompt) {
			c.pieces = append(c.pieces, piece{text: t, echoed: true})
		}
	}
	for _, p := range parts {
		c.pieces = append(c.pieces, piece{text: p})
	}
	for k, call := range calls {
		c.add(k, call, g.plan.Pieces)
	}
	return c
}

// add appends the k-th call: its name first, then its arguments, in pieces of the given sizes.
func (c *choice) add(k int, call engine.ToolCall, sizes []int) {
	if sizes == nil {
		sizes = []int{3}
	}
	c.finish, c.stoppedBy = engine.FinishTools, 0
	c.tokens += 1 + len(tokens(call.Arguments))
	c.pieces = append(c.pieces, piece{call: &engine.ToolDelta{Index: k, ID: call.ID, Name: call.Name}})
	for _, part := range cut(call.Arguments, sizes) {
		c.pieces = append(c.pieces, piece{call: &engine.ToolDelta{Index: k, Arguments: part}})
	}
}

// logprobs gives each token of text a value that depends on the token alone.
func logprobs(text string, top int) []engine.TokenLogprob {
	var out []engine.TokenLogprob
	for _, t := range tokens(text) {
		lp := engine.TokenLogprob{Token: t, Bytes: []byte(t), Logprob: -float64(len(t)) / 8}
		for k := range top {
			alt := engine.TokenLogprob{Token: t, Bytes: []byte(t), Logprob: lp.Logprob}
			if k > 0 {
				alt.Token = strings.Repeat("~", k)
				alt.Bytes, alt.Logprob = []byte(alt.Token), lp.Logprob-3*float64(k)
			}
			lp.Top = append(lp.Top, alt)
		}
		out = append(out, lp)
	}
	return out
}

// Score implements engine.Engine: the share of the query's tokens that a document has.
func (s *Scripted) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	req := p.Score
	if req == nil {
		return nil, engine.ErrOtherWork
	}
	p, err := s.prepared(ctx, p, req)
	if err != nil {
		return nil, err
	}
	m, err := s.model(req.Model) // it may have been closed since
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	asked := *req
	asked.Documents = slices.Clone(req.Documents)
	s.scores = append(s.scores, asked)
	s.mu.Unlock()
	query := tokens(req.Query)
	out := &engine.Scores{Model: engine.ReportedModel(m.ID), PromptTokens: p.Tokens}
	for _, d := range req.Documents {
		n := 0
		for _, t := range query {
			if strings.Contains(d, t) {
				n++
			}
		}
		out.Scores = append(out.Scores, float64(n)/float64(max(1, len(query))))
	}
	return out, nil
}

// Embed implements engine.Engine: a unit vector that is a function of the text.
func (s *Scripted) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	req := p.Embed
	if req == nil {
		return nil, engine.ErrOtherWork
	}
	p, err := s.prepared(ctx, p, req)
	if err != nil {
		return nil, err
	}
	m, err := s.model(req.Model) // it may have been closed since
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	asked := *req
	asked.Input = slices.Clone(req.Input)
	s.inputs = append(s.inputs, asked)
	s.mu.Unlock()
	out := &engine.Embeddings{Model: engine.ReportedModel(m.ID), PromptTokens: p.Tokens}
	for _, text := range req.Input {
		out.Vectors = append(out.Vectors, unit(text, cmp.Or(req.Dimensions, m.EmbedDim)))
	}
	return out, nil
}

// unit returns the first dim values of the text's vector, scaled to length one.
func unit(text string, dim int) []float32 {
	v := make([]float32, dim)
	var norm float64
	sum := sha256.Sum256([]byte(text))
	for i := range v {
		if i > 0 && i%8 == 0 {
			sum = sha256.Sum256(sum[:])
		}
		x := float64(binary.LittleEndian.Uint32(sum[i%8*4:]))/(1<<31) - 1
		v[i] = float32(x)
		norm += x * x
	}
	for i := range v {
		v[i] /= float32(math.Sqrt(norm))
	}
	return v
}

// Close implements engine.Engine.
func (s *Scripted) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
