package gateway

import (
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/rag"
)

// run is one call in progress: a value for each step that it has passed. A step makes its value from earlier ones, and nobody changes it
// afterwards, but for what is let go early: the credential, and a clear prompt that has been recorded. Values of later steps are zero. So the record of a call is complete up to wherever it ended.
//
// One goroutine uses a run, but for finish, which may race with Close.
type run struct {
	p      *Pipeline
	need   route.Need
	call   *Call  // as it was received; from the step mask on, a copy whose texts are masked
	parent string // the request that this run is a part of; "" for a request itself

	caller    caller       // authenticate, and authorize
	slot      slot         // limit
	admission admission    // admit
	choice    route.Choice // route
	sources   sources      // retrieve, and search
	masked    masked       // mask, and search
	prompt    prompt       // reserve
	receipt   receipt      // record
	answer    answer       // generate and egress
	outcome   outcome

	steps     audit.Steps   // how long each took
	embedding time.Duration // of steps.Retrieve: what the child call waited for its engine
	once      sync.Once     // for the outcome
}

// caller is the authenticated caller.
type caller struct {
	identity.Principal

	known      bool
	onBehalfOf string // digest of the person
}

// slot is what the limits have granted.
type slot struct {
	ticket *limit.Permit
	rate   limit.State
}

// admission is the decision of the policy, with digests of the texts before masking.
type admission struct {
	decision     Decision // nil before
	policy       governance.PolicyRef
	recordForm   string // the form in which texts are kept
	conversation string // the conversation
	promptDigest string
}

// sources are the passages that the call uses, or the document that it ingests.
type sources struct {
	question string        // as it was searched with
	passages []rag.Passage // as they are stored
	known    []classify.Known
	document *rag.ParsedDocument // a document that is taken in
}

// masked is what masking produces besides the texts of the call.
type masked struct {
	clear     string // the prompt as the caller sent it, where it is kept so
	passages  []rag.Passage
	citations []Citation
}

// prompt is the engine's input with its token count, and the reservation of its worst-case cost.
type prompt struct {
	*engine.Prompt // nil before; without a request where numbers are asked for

	citations   []Citation // of the passages that it keeps, with what they say
	reservation Reservation
}

// request is what the engine is given of a generation; nil before it is prepared, and of other calls.
func (p *prompt) request() *engine.Request {
	if p.Prompt == nil {
		return nil
	}
	return p.Request
}

// receipt is the proof of the admission.
type receipt struct {
	id        string
	label     label.Label
	labelText string // the label as a header says it
	labelKey  string
	after     time.Duration // since the arrival
}

// answer is the progress of the engine's answer.
type answer struct {
	askedAt     time.Time
	engineTime  time.Duration // by an engine that was asked for vectors
	peak        int           // runs at work when this one began, itself included
	firstToken  time.Duration
	notReached  bool // the engine was never reached
	usage       *engine.Usage
	out         *egress.Answer // nil until the engine is asked for text
	streaming   bool           // it comes in events
	wholeEvents []engine.Event // of one that does not
	leavingBuf  [1]engine.Event
	shown       []shown // of a search
}

// shown is the text of a released passage, with values restored and masked.
type shown struct{ text, masked string }

// outcome is how the call ended.
type outcome struct {
	tally     egress.Tally // of the answer
	record    string       // its id
	recordErr error        // why there is none
	priceBook string

	mu      sync.Mutex // guards summary, which anybody may read
	summary Summary
}

func (p *Pipeline) newRun(c *Call, need route.Need) *run {
	if c.Received.IsZero() {
		c.Received = p.now()
	}
	r := c.authenticated
	if c.authenticated = nil; r == nil {
		return &run{p: p, call: c, need: need}
	}
	*r = run{p: p, call: c, need: need}
	return r
}

// citedPassages returns the passages that the engine is given, else all that were found.
func (r *run) citedPassages() ([]rag.Passage, []Citation) {
	if r.prompt.request() != nil {
		return r.sources.passages[:r.prompt.SegmentsKept], r.prompt.citations
	}
	return r.sources.passages, r.masked.citations
}
