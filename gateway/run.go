package gateway

import (
	"cmp"
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/rag"
)

// run is one call in progress: a value for each step that it has passed. The step makes its value from earlier ones, and nobody changes it
// afterwards; values of later steps are zero. So the record of a call is complete up to wherever it ended. There are three exceptions: masking
// consumes what was received, and chooses the instance anew by what it finds; and the answer is under way for a while, moved on by its methods. A test reads the code for this.
//
// One goroutine uses a run, but for finish, which may race with Close.
type run struct {
	p    *Pipeline
	need route.Need

	call     Call  // who asks for what; without its texts and secrets
	received *Call // as it came; nil once it is masked, or examined, so that no later step can read it and its memory is free

	caller    caller              // authenticate, and authorize
	slot      slot                // limit
	admission admission           // admit
	choice    route.Choice        // route
	markable  bool                // route: an instance that can mark may serve the call
	demand    *demand             // route: what its instance was chosen by, and how; nil before
	sources   sources             // retrieve
	document  *rag.ParsedDocument // retrieve, of a document that is taken in
	decoded   decoded             // retrieve, of tokens that are spelt
	masked    masked              // mask
	examined  examined            // mask, of texts that are only examined
	prompt    prompt              // reserve
	receipt   receipt             // record
	answer    answer              // generate and egress
	outcome   outcome

	steps audit.Steps // how long each took
	once  sync.Once   // for the outcome
}

// caller is the authenticated caller.
type caller struct {
	identity.Principal

	known      bool
	onBehalfOf string // digest of the person

	changesAccess bool // of who brings a document: he may say who sees one that is there
}

// slot is what the limits have granted.
type slot struct {
	ticket *limit.Permit
	rate   limit.State
}

// admission is the decision of the policy, with digests of the texts before masking.
type admission struct {
	class        engine.Class // as the policy has it
	decision     Decision     // nil before
	policy       governance.PolicyRef
	recordForm   string // the form in which texts are kept
	conversation string // the conversation
	generation   uint64 // of the shared answers, before any text was masked or retrieved
	promptDigest string
	subject      string // digest of the person whom it is about
	visible      visibleLabel
	placing      governance.Placing // of a part that has no decision of its own
}

// sources are the passages that the call uses.
type sources struct {
	question  string          // as it was searched with
	passages  []rag.Passage   // as they are stored
	expanded  []rag.Expansion // of the question, as the glossary has them
	known     []classify.Known
	faq       *rag.Passage  // the entry of a FAQ that the question asks, above the threshold of the policy; nil for none, and of a chat that it may not answer
	embedding time.Duration // what the child call waited for its engine
}

// decoded is the text of tokens.
type decoded struct {
	text   string
	digest string
}

// masked are the texts as an engine may read them.
type masked struct {
	call  *Call  // with masked texts; nil before
	clear string // the prompt as the caller sent it, where it is kept so

	prefix []uint64 // the hashes of its beginnings, where instances are compared by them
	maskedPassages
}

// examined is what the policy would do to texts that go nowhere.
type examined struct {
	texts   []ExaminedText
	classes []string // that were looked for
}

type maskedPassages struct {
	passages  []rag.Passage
	citations []Citation
}

// prompt is what the engine is given, with its token count, what is left of the limits, and the reservation of its worst-case cost.
type prompt struct {
	text        *engine.Prompt   // of a generation; nil before it is prepared, and of other calls
	inputs      []*engine.Prompt // of vectors and scores, but for those of a part, whose texts come later
	tokens      int              // not less than there are
	exact       bool             // they are the number itself
	citations   []Citation       // of the passages that it keeps, with what they say
	rate        limit.State      // zero where the slot's stays
	reservation Reservation
	verdict     verdict
}

// request is what the engine is given of a generation; nil before it is prepared, and of other calls.
func (p *prompt) request() *engine.Request {
	if p.text == nil {
		return nil
	}
	return p.text.Request
}

// maxCompletion is the most tokens that the answer may have.
func (p *prompt) maxCompletion() int {
	if p.text == nil {
		return 0
	}
	return p.text.Request.MaxTokens * p.text.Request.Choices
}

// receipt is the proof of the admission.
type receipt struct {
	id        string
	label     label.Label
	labelText string // the label as a header says it
	labelKey  string
	signing   *signing // nil: the answer is not signed
	// registered takes in the answer for the registry; nil: it enters none.
	registered *registry.Answers
	after      time.Duration // since the arrival
}

// outcome is how the call ended.
type outcome struct {
	tally     egress.Tally // of the answer
	record    string       // its id
	recordErr error        // why there is none
	energy    energy.Figure

	mu      sync.Mutex // guards summary, which anybody may read
	summary Summary
}

// newRun begins a run of the call, which the pipeline owns from now on.
func (p *Pipeline) newRun(c *Call, need route.Need) *run {
	described := c.withoutTexts()
	if described.Received.IsZero() {
		described.Received = p.now()
	}
	if described.As != nil {
		described.Class = engine.ClassBatch
	}
	r := c.authenticated
	if c.authenticated = nil; r == nil {
		return &run{p: p, need: need, call: described, received: c}
	}
	*r = run{p: p, need: need, call: described, received: c}
	return r
}

// asked is the model that is asked for; of a part, that of the index, which nobody names.
func (r *run) asked() AskedModel {
	if r.call.parent != "" {
		return AskedModel(r.p.deps.Embedding.Model)
	}
	return r.call.Model
}

// class is the queue class: as the policy has it, once that is known.
func (r *run) class() engine.Class { return cmp.Or(r.admission.class, r.call.Class) }

// rate is where the caller's limits stand.
func (r *run) rate() limit.State { return cmp.Or(r.prompt.rate, r.slot.rate) }

// citedPassages returns the passages that the engine is given, else all that were found.
func (r *run) citedPassages() ([]rag.Passage, []Citation) {
	switch {
	case r.prompt.text != nil:
		return r.sources.passages[:r.prompt.text.SegmentsKept], r.prompt.citations
	case r.masked.citations != nil:
		return r.sources.passages, r.masked.citations
	default:
		return r.sources.passages, r.answer.citations
	}
}
