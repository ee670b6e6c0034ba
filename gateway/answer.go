package gateway

import (
	"encoding/json"
	"time"

	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/answercache"
	"github.com/sluice-project/sluice/gateway/egress"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/internal/fault"
)

// answer is the progress of the engine's answer. Only its own methods change it, while the engine is at work.
type answer struct {
	askedAt     time.Time        // zero before
	engineTime  time.Duration    // by an engine that was asked for vectors, or that worked for several
	peak        int              // runs at work when this one began, itself included
	firstToken  time.Duration    // since the arrival
	notReached  bool             // the engine was never reached
	declined    bool             // the model or its engine cannot do what is asked
	serving     route.Choice     // where it runs, if not where its route led
	tried       []*pool.Instance // that did not take it, or failed before they began
	attempts    []attempt        // of these
	began       bool             // an engine has begun to answer
	usage       *engine.Usage
	marking     *engine.Marking // of a complete answer; nil: no watermark was wanted
	out         *egress.Answer  // nil until the engine is asked for text
	grounding   *grounding      // what is looked at before it goes out; nil: nothing is
	streaming   bool            // it comes in events
	wholeEvents []engine.Event  // of one that does not
	leavingBuf  [1]engine.Event

	shared   *answercache.Share[sharedAt] // nil: the call has its answer for itself
	tookOver bool                         // the engine works on the call's account since askedAt, and has worked on another's before
	bypassed string                       // why, where the policy has answers shared
	unworked bool                         // no engine has worked on the call's account
	drew     energy.Figure                // what meters say of the engine's work for all who shared the answer, if the call led it to its end

	maskedPassages         // of a search
	shown          []shown // of them, as they went out
}

// shown is the text of a released passage, with values restored and masked.
type shown struct{ text, masked string }

// ask notes that an engine is asked now, and how many runs are at work. It reports whether this is the first time.
func (a *answer) ask(now time.Time, running int) (first bool) {
	if first = a.askedAt.IsZero(); first {
		a.askedAt = now
	}
	a.peak = max(a.peak, running)
	return first
}

// open says which way the text goes out, and what it is held against; nil: against nothing.
func (a *answer) open(out *egress.Answer, g *grounding) { a.out, a.grounding = out, g }

// move notes that another instance serves the call than those that were tried.
func (a *answer) move(to route.Choice, tried []*pool.Instance) { a.serving, a.tried = to, tried }

// startFrom has the engine asked, also again, by where the call has been to before.
func (a *answer) startFrom(at route.Choice, tried []*pool.Instance, attempts []attempt) {
	a.serving, a.tried, a.attempts = at, tried, attempts
}

// attempt is what became of an instance that did not answer the call.
type attempt struct {
	instance string
	cause    fault.Code // "" if it was only slower than the other one
	took     time.Duration
	moved    bool // it has not had the request, or has too little room for it
	hedged   bool
}

// note notes an attempt that failed.
func (a *answer) note(t attempt) { a.attempts = append(a.attempts, t) }

// attempted is how many instances have had the request and failed it, without those for which it is too long.
func (a *answer) attempted() (n int) {
	for _, t := range a.attempts {
		if !t.moved {
			n++
		}
	}
	return n
}

// maxRecorded bounds the attempts that a record tells of.
const maxRecorded = 16

// attemptsText says what became of the attempts, as records have it: the instance, its error and milliseconds; "" if there were none.
func (a *answer) attemptsText() string {
	if len(a.attempts) == 0 {
		return ""
	}
	type said struct {
		Instance string `json:"instance"`
		Error    string `json:"error,omitempty"`
		Reached  bool   `json:"reached"`
		Hedged   bool   `json:"hedged,omitempty"`
		Millis   int64  `json:"ms"`
	}
	var all []said
	for _, t := range a.attempts[:min(maxRecorded, len(a.attempts))] {
		all = append(all, said{
			Instance: t.instance, Error: string(t.cause), Reached: !t.moved || t.cause == fault.CodeContextLength, // which it says of what it has had
			Hedged: t.hedged, Millis: t.took.Milliseconds(),
		})
	}
	text, err := json.Marshal(all)
	if err != nil { // texts and numbers
		return ""
	}
	return string(text)
}

// engineBegan notes that an engine has begun to answer.
func (a *answer) engineBegan() { a.began = true }

// decline notes that the model or its engine cannot do what is asked.
func (a *answer) decline() { a.declined = true }

// miss notes why the engine was not reached, if it was not.
func (a *answer) miss(notReached bool) { a.notReached = notReached }

// use notes what the call has used until now.
func (a *answer) use(u *engine.Usage) { a.usage = u }

// mark notes what came of the watermark that req asks for. An engine that says nothing of it cannot mark.
func (a *answer) mark(m *engine.Marking, req *engine.Request) {
	if a.marking = m; m == nil && req != nil {
		a.marking = req.Unmarked(engine.MarkReasonEngine)
	}
}

// useMore adds what an engine has read in some time.
func (a *answer) useMore(model engine.ReportedModel, promptTokens int) {
	if a.usage == nil {
		a.usage = &engine.Usage{Model: model}
	}
	a.usage.PromptTokens += promptTokens
}

func (a *answer) work(d time.Duration) { a.engineTime += d }

// begin notes when the first text came.
func (a *answer) begin(after time.Duration) { a.firstToken = after }

// keep adds an event to an answer that comes in one piece.
func (a *answer) keep(ev engine.Event) { a.wholeEvents = append(a.wholeEvents, ev) }

// takeWhole returns the events that were kept, which are then forgotten.
func (a *answer) takeWhole() []engine.Event {
	kept := a.wholeEvents
	a.wholeEvents = nil
	return kept
}

// stream notes that the answer comes in events.
func (a *answer) stream() { a.streaming = true }

// one returns a list of one event, which is valid until the next.
func (a *answer) one(ev engine.Event) []engine.Event {
	a.leavingBuf[0] = ev
	return a.leavingBuf[:]
}

// show notes the passages that were found for an answer, and how they go out.
func (a *answer) show(found maskedPassages, out []shown) { a.maskedPassages, a.shown = found, out }
