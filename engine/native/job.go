package native

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/grammar"
	"github.com/sluice-project/sluice/engine/native/draft"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/prefix"
	"github.com/sluice-project/sluice/engine/native/sample"
	"github.com/sluice-project/sluice/engine/native/sched"
	"github.com/sluice-project/sluice/engine/toolcall"
)

// job is one request on its way through the loop.
type job struct {
	ctx      context.Context //nolint:containedctx // the request's own; the loop has none
	model    *generator
	id       string
	tenant   string
	space    prefix.NamespaceID // of its keys and values
	draftKey string             // of its earlier texts
	class    int
	priority int
	deadline time.Time

	prompt    []int32
	echo      string // text of the prompt that is to be repeated
	choices   int
	limit     int // completion tokens per choice
	minTokens int // before these no choice ends
	rules     *sample.Rules
	logprobs  int
	stops     []string
	grammar   *grammar.Grammar
	calls     *toolcall.Options // nil: answers hold no calls
	triggered *grammar.Grammar  // of calls, once one has begun
	drafts    bool
	marks     []*sample.Mark  // of the choices; nil: none are marked
	marking   *engine.Marking // nil: no watermark was asked for
	shaped    bool            // a token was left out of the watermark for a call
	adapter   *adapter
	bytes     int // what it counts in the queue

	callerLeft atomic.Bool // the caller left

	// The loop's.
	open          int // sequences without an end, or not begun
	generated     int // completion tokens
	knownPrefix   int // prompt tokens that were in the cache when it came
	cached        int // prompt tokens that were found in the cache
	prefixMatched bool
	echoed        []engine.TokenLogprob
	submitted     time.Time
	admitted      time.Time
	first         time.Time // when the first token came
	queued        bool      // it counts in the queue
	forgotten     bool      // nothing of it is kept for others

	// Handed from the loop to the caller.
	mu      sync.Mutex
	events  []engine.Event
	err     error
	ended   bool
	holding bool          // while a step goes on
	held    *engine.Event // the last one, for the end of the step
	signal  chan struct{}
}

// sequence is one choice of a job: what the loop schedules. Its keys and values are those of the first computed tokens; what is computed
// next are the tokens behind them, be they a prompt, a text that lost its pages, or one new token. Logits of the last one give the next.
type sequence struct {
	job      *job
	choice   int
	tokens   []int32 // prompt and completion
	computed int
	cache    *exec.Cache // nil before the first chunk and while it waits
	running  bool        // it was admitted
	ended    bool
	echoed   bool // the prompt was repeated

	history *sample.History
	matcher *grammar.Matcher
	drafter *draft.Drafter
	drafts  []int32 // guessed for the coming step
	out     output
	calls   *toolcall.Parser
	mark    *sample.Mark

	last       time.Time        // when its latest token came
	lastStep   uint64           // in which it had a row
	shareState sched.ShareState // of its tenant, as of this step
	yielded    bool             // since its latest token it was left out for another tenant
	share      sched.Share
}

func newSequence(j *job, choice int) *sequence {
	s := &sequence{job: j, choice: choice, tokens: slices.Clone(j.prompt), out: output{stops: j.stops}}
	if j.rules.Counts() {
		s.history = sample.NewHistory(j.prompt, nil)
	}
	if j.grammar != nil {
		s.matcher = j.grammar.Matcher(j.model.formats.vocabulary(j.calls != nil))
	}
	if j.calls != nil {
		o := *j.calls
		o.Choice = choice
		s.calls = j.model.dialect.Parser(o)
	}
	if j.marks != nil {
		s.mark = j.marks[choice]
	}
	if j.drafts {
		s.drafter = draft.NewDrafter(j.model.texts, j.draftKey)
	}
	return s
}

// step is the number of tokens that the choice has.
func (s *sequence) step() int { return len(s.tokens) - len(s.job.prompt) }

// uncomputed is the number of tokens to be computed before the next one can be picked.
func (s *sequence) uncomputed() int { return len(s.tokens) - s.computed }

// expectedUncomputed estimates uncomputed before the prefix cache has been matched.
func (s *sequence) expectedUncomputed() int {
	if s.job.prefixMatched {
		return s.uncomputed()
	}
	return s.uncomputed() - s.job.knownPrefix
}

// decodes reports whether the sequence is past its prompt and computes a token or a few: its reader waits for each.
func (s *sequence) decodes() bool {
	return s.step() > 0 && s.cache != nil && s.uncomputed() <= decodeRows
}

// decodeRows is up to how many tokens a sequence still counts as decoding: more than one follow from a grammar that leaves no choice.
const decodeRows = 16

// candidate describes the sequence to the scheduler.
func (s *sequence) candidate() sched.Candidate {
	return sched.Candidate{Tenant: s.job.tenant, Class: s.job.class, Priority: s.job.priority, Arrived: s.job.submitted, Tokens: s.uncomputed()}
}

// dropped reports whether nobody waits for the job any more.
func (j *job) dropped() bool { return j.callerLeft.Load() || j.ctx.Err() != nil }

// over reports whether the job has its last event.
func (j *job) over() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended
}

// usage is what a job consumed.
func (j *job) usage(now time.Time) *engine.Usage {
	return &engine.Usage{
		Model:            engine.ReportedModel(j.model.name(j)),
		PromptTokens:     len(j.prompt),
		CachedTokens:     j.cached,
		CompletionTokens: j.generated,
		Replay:           replayToken(j.model.info, j.adapter, j.watermark(), j.rules.Seed()),
		Queue:            j.admitted.Sub(j.submitted),
		Prefill:          j.first.Sub(j.admitted),
		Decode:           now.Sub(j.first),
	}
}

// emit hands an event to the caller; it never blocks. What a slow reader has not taken yet grows by its text alone.
func (j *job) emit(ev engine.Event) {
	j.mu.Lock()
	if ev.Usage != nil && j.holding {
		j.held, j.ended = &ev, true
		j.mu.Unlock()
		return
	}
	j.add(ev)
	j.mu.Unlock()
	j.notify()
}

// holdLast keeps a last event back until releaseLast: whoever sees the end of an answer finds all of its steps in the log.
func (j *job) holdLast() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.holding = true
}

// releaseLast hands over what holdLast has kept back.
func (j *job) releaseLast() {
	j.mu.Lock()
	ev := j.held
	j.holding, j.held = false, nil
	if ev != nil {
		j.add(*ev)
	}
	j.mu.Unlock()
	if ev != nil {
		j.notify()
	}
}

// add appends an event to those that nobody took yet. The caller holds j.mu.
func (j *job) add(ev engine.Event) {
	if n := len(j.events); n > 0 && joins(&j.events[n-1], &ev) {
		last := &j.events[n-1]
		last.Text += ev.Text
		last.Logprobs = append(last.Logprobs, ev.Logprobs...)
		last.Finish, last.Usage, last.Marking = ev.Finish, ev.Usage, ev.Marking
	} else {
		j.events = append(j.events, ev)
	}
	j.ended = j.ended || ev.Usage != nil
}

// joins reports whether two events that nobody took yet can be one.
func joins(last, next *engine.Event) bool {
	return last.Choice == next.Choice && last.Finish == engine.FinishNone && len(last.Calls) == 0 && len(next.Calls) == 0
}

// fail ends the job with an error.
func (j *job) fail(err error) {
	j.mu.Lock()
	if !j.ended {
		j.err, j.ended = err, true
	}
	j.mu.Unlock()
	j.notify()
}

func (j *job) notify() {
	select {
	case j.signal <- struct{}{}:
	default:
	}
}

// take returns what has come since the last time, and whether that was all.
func (j *job) take() (events []engine.Event, err error, ended bool) { //nolint:revive // the error is data here
	j.mu.Lock()
	defer j.mu.Unlock()
	events, j.events = j.events, nil
	return events, j.err, j.ended && j.held == nil
}

// stream yields the events until the end, the caller's break, or the end of its context.
func (j *job) stream(yield func(engine.Event, error) bool) {
	for {
		events, err, ended := j.take()
		for _, ev := range events {
			if j.ctx.Err() != nil {
				break
			}
			if !yield(ev, nil) || ev.Usage != nil {
				return
			}
		}
		if ctxErr := j.ctx.Err(); ctxErr != nil {
			yield(engine.Event{}, cancelled(ctxErr))
			return
		}
		if ended {
			yield(engine.Event{}, err)
			return
		}
		select {
		case <-j.signal:
		case <-j.ctx.Done():
		}
	}
}
