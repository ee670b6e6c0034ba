package gateway

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
)

// run is one call on its way through the steps. One goroutine uses it, but for finish, which may race with Close.
type run struct {
	p    *Pipeline
	call *Call
	need route.Need

	// Filled by the steps, in order.
	principal    identity.Principal
	known        bool // the principal is
	ticket       *limit.Ticket
	rate         limit.State
	steps        audit.Steps
	onBehalfOf   string // digest of the person
	unit         string // the conversation
	promptDigest string
	keep         string // the form in which texts are kept
	original     string // the prompt as the caller sent it, until it is kept clear
	admission    Admission
	policy       governance.PolicyRef
	choice       route.Choice
	request      *engine.Request
	count        engine.Count
	allowance    int    // tokens kept for passages
	texts        *texts // as the caller sent them, until the passages are known
	reservation  Reservation
	citations    []Citation
	documents    []string
	label        label.Label
	receipt      string
	admitTime    time.Duration

	// Filled while the engine works.
	asked      time.Time
	peak       int // runs at work when this one began, itself included
	firstToken time.Duration
	unasked    bool // the engine was never reached
	usage      *engine.Usage
	answer     *egress.Answer // nil until the engine is asked
	streams    bool           // the answer comes in events
	pieces     []engine.Event // of one that does not
	leaving    [1]engine.Event
	shown      []passage // of a search
	priceBook  string

	// Filled once, at the end.
	once    sync.Once
	tally   egress.Tally // of the answer
	closing string       // id of the outcome record
	lost    error        // why there is none
	mu      sync.Mutex
	final   Summary
}

func (p *Pipeline) begin(c *Call, need route.Need) *run {
	if c.Received.IsZero() {
		c.Received = p.now()
	}
	return &run{p: p, call: c, need: need}
}

// authenticate is step 1: who calls, and whether the route is open to them. It takes headers only.
func (r *run) authenticate(ctx context.Context) error {
	var err error
	if r.principal, err = r.p.deps.Identity.Authenticate(ctx, r.call.Plane, r.call.Credential); err != nil {
		return err
	}
	r.known = true
	// What somebody asks with a key of his own he asks himself, unless he names another.
	r.onBehalfOf = audit.Subject(r.p.deps.Keys, r.principal.Tenant, cmp.Or(r.call.OnBehalfOf, r.principal.Owner))
	return r.p.deps.Access.Allow(r.principal, r.call.Permission, r.principal.Tenant)
}

// authorize takes step 1, again where the edge has taken it before the body came: a key may have been revoked since. It ends step 2: what
// the body names is open to the caller, too.
func (r *run) authorize(ctx context.Context) error {
	if err := r.authenticate(ctx); err != nil {
		return err
	}
	r.call.Credential = ""
	if r.call.RAG != nil && r.call.Permission != access.RAGSearch {
		if err := r.p.deps.Access.Allow(r.principal, access.RAGSearch, r.principal.Tenant); err != nil {
			return err
		}
	}
	if m := r.call.Model; m != "" && !r.principal.MayUse(string(m)) {
		return fault.New(fault.CodeModelNotAllowed, string(m)).WithParam("model")
	}
	return nil
}

// limit is step 3. Tokens are taken by an estimate that needs no engine, and corrected at the end.
func (r *run) limit(ctx context.Context) error {
	l := r.principal.Limits
	var err error
	r.ticket, r.rate, err = r.p.deps.Limits.Acquire(ctx, limit.Ask{
		Tenant: r.principal.Tenant, Key: r.principal.ID, Tokens: r.estimate(),
		Limits: limit.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrent: l.Concurrent},
	})
	return err
}

// estimate is a quarter of the text's bytes, and the completion asked for.
func (r *run) estimate() int {
	n := r.call.size()/4 + 1
	if r.need == route.Generate {
		n += max(1, r.call.Choices) * r.completion(route.Defaults{})
	}
	return n
}

// completion is the limit of one choice: what the caller says, else the version, else the installation.
func (r *run) completion(d route.Defaults) int {
	switch {
	case r.call.MaxTokens != nil:
		return *r.call.MaxTokens
	case d.MaxTokens != nil:
		return *d.MaxTokens
	default:
		return r.p.cfg.DefaultTokens
	}
}

// admit is step 4. What identifies the conversation and the prompt is taken before the guard rewrites the text.
func (r *run) admit(ctx context.Context) error {
	texts, err := r.call.texts()
	if err != nil {
		return err
	}
	if r.call.RAG != nil { // documents may say that more of it is sensitive
		r.texts = texts.keep()
	}
	r.unit = r.conversation()
	original := r.call.prompt()
	r.promptDigest = audit.Digest(r.p.deps.Keys, r.principal.Tenant, original)
	a, err := r.p.deps.Guard.Admit(ctx, governance.Ask{
		Request: r.call.RequestID, Tenant: r.principal.Tenant, Session: r.unit, Name: r.call.Session, Subject: r.person(), Action: string(r.call.Action),
		Model: string(r.call.Model), Purpose: r.call.Purpose, Fields: texts.fields, Known: r.call.Known,
	})
	if a != nil {
		r.admission, r.policy, r.keep = a, a.Policy(), a.Record()
	}
	if r.keep == governance.RecordClear {
		r.original = original
	}
	if err == nil {
		err = texts.apply()
	}
	if err == nil {
		r.call.Class = engine.Class(a.Urgency(string(r.call.Class)))
	}
	if err == nil && r.call.RAG != nil && !a.AllowsCollection(r.call.RAG.Collection) {
		err = r.noCollection()
	}
	return err
}

// noCollection says that the collection of the call does not exist for this caller, by the name of its field.
func (r *run) noCollection() error {
	field := "rag.collection"
	if r.call.Action != ActionChat {
		field = "collection"
	}
	return fault.New(fault.CodeCollectionNotFound, r.call.RAG.Collection).WithParam(field)
}

// conversation names what rollouts keep on one side and pseudonyms are stable in: the caller's own session, else the system
// message and the first user message, which every turn of a chat repeats, else the prompt. Embeddings of one key stay together,
// since vectors of two versions do not compare. It is a keyed digest, bound to the caller.
func (r *run) conversation() string {
	kind, text := "session", []string{r.call.Session}
	if r.call.Session == "" {
		kind, text = "opening", nil
		for _, m := range r.call.Messages {
			if m.Role == "system" || m.Role == "user" {
				text = append(text, m.Role, m.Content)
			}
			if m.Role == "user" {
				break
			}
		}
		if r.call.Action == ActionCompletion {
			text = []string{r.call.Prompt}
		}
	}
	parts := append([]string{r.principal.Tenant, r.principal.ID, kind}, text...)
	return hex.EncodeToString(r.p.deps.Keys.MAC("gateway/conversation/v1", parts...)[:16])
}

// route is step 6; the version's defaults fill what the caller left unset.
func (r *run) route(ctx context.Context) error {
	choice, err := r.p.deps.Router.Pick(route.Ask{Model: string(r.call.Model), Unit: r.unit, Need: r.need})
	if fault.Is(err, fault.CodeModelNotCapable) || err == nil && !r.call.Action.Can(choice.Info) {
		return r.notCapable(ctx, choice.Info)
	}
	if r.choice = choice; err != nil {
		return err
	}
	if err := r.call.fits(r.need, r.choice.Info); err != nil || r.need != route.Generate {
		return err
	}
	c, d := r.call, r.choice.Version.Defaults
	r.request = &engine.Request{
		Model: r.choice.Version.EngineModel, Messages: c.Messages, Prompt: c.Prompt, Choices: max(1, c.Choices),
		Tools: c.Tools, ToolChoice: c.ToolChoice, ParallelTools: c.ParallelTools, Format: c.Format,
		ID: c.RequestID, Tenant: r.principal.Tenant, Class: c.Class, Priority: c.Priority, SharedPrefix: r.admission.SharesPrefixes(),
		Whole:       c.Blocking && c.Logprobs < 0 && r.admission.WholeAnswers(), // log-probabilities are large
		Temperature: first(1, c.Temperature, d.Temperature), TopP: first(1, c.TopP, d.TopP), Seed: c.Seed, Stop: c.Stop, Logprobs: c.Logprobs,
		TopK: c.TopK, MinP: c.MinP, RepetitionPenalty: c.RepetitionPenalty, FrequencyPenalty: c.FrequencyPenalty,
		PresencePenalty: c.PresencePenalty, LogitBias: c.LogitBias, MinTokens: c.MinTokens, Echo: c.Echo,
	}
	if c.Patience > 0 {
		r.request.Deadline = c.Received.Add(c.Patience)
	}
	return nil
}

// first returns the first value that is set.
func first(otherwise float64, values ...*float64) float64 {
	for _, v := range values {
		if v != nil {
			return *v
		}
	}
	return otherwise
}

// reserve is step 7: the prompt, the room for passages and the longest completion, priced.
func (r *run) reserve(ctx context.Context) error {
	ask := billing.Ask{
		Request: r.call.RequestID, Tenant: r.principal.Tenant, Key: r.principal.ID, Model: r.choice.Version.Model, At: r.call.Received,
		Embed: r.need != route.Generate,
	}
	if r.need != route.Generate {
		// A token has at least one byte; four mark the ends of a text, or of the two of a pair.
		r.count.Tokens = r.call.size() + 4*(len(r.call.Input)+len(r.call.Documents))
		ask.PromptTokens = int64(r.count.Tokens)
	} else {
		if err := r.size(ctx); err != nil {
			return err
		}
		ask.PromptTokens = int64(r.count.Tokens + r.allowance)
		ask.Choices = int64(r.request.Choices)
		ask.MaxCompletion = int64(r.request.MaxTokens) * ask.Choices
	}
	var err error
	r.reservation, err = r.p.deps.Ledger.Reserve(ctx, ask)
	return err
}

// size counts the prompt and bounds the completion by what the context still holds.
func (r *run) size(ctx context.Context) error {
	var err error
	if r.count, err = r.choice.Engine.Count(ctx, r.request); err != nil {
		return err
	}
	limit, room := r.completion(r.choice.Version.Defaults), r.p.cfg.MaxTokens
	if whole := r.choice.Info.ContextTokens; whole > 0 {
		if r.call.RAG != nil {
			r.allowance = min(r.p.cfg.PassageTokens, whole/2)
		}
		room = whole - r.count.Tokens - r.allowance
		if room < 1 && r.count.Exact {
			return fault.New(fault.CodeContextLength, whole, r.count.Tokens+r.allowance+1).WithParam("messages")
		}
		if room < 1 { // the count is a bound; the engine decides
			room = limit
			r.count.Tokens = min(r.count.Tokens, whole)
		}
	} else if r.call.RAG != nil {
		r.allowance = r.p.cfg.PassageTokens
	}
	r.request.MaxTokens = min(limit, room)
	return nil
}

// admitted is step 9. What people may see again is stored before anything says that the request went on.
func (r *run) admitted(ctx context.Context) error {
	if err := r.admission.Keep(ctx); err != nil {
		return err
	}
	if r.need == route.Generate || r.call.Action == ActionSearch { // numbers are not labelled
		r.label = r.p.deps.Labels.Make(r.call.RequestID, r.principal.Tenant)
	}
	r.admitTime = r.p.now().Sub(r.call.Received)
	e := r.event(audit.StageAdmitted)
	e.Decision = decisionAllow
	got, err := r.p.deps.Audit.AppendWith(ctx, e, r.subject(), r.keptPrompt()...)
	if err != nil {
		return unrecorded(err)
	}
	r.receipt, r.original = got.ID, ""
	return nil
}

// unrecorded gives a failure of the log its code, if it has none.
func unrecorded(err error) error {
	var coded *fault.Error
	if errors.As(err, &coded) || errors.Is(err, context.Canceled) {
		return err
	}
	return fault.Wrap(err, fault.CodeAuditUnavailable)
}
