package gateway

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/rag"
)

// Citation says where a numbered passage comes from.
type Citation struct {
	Number     int     `json:"number"`
	Collection string  `json:"collection"`
	Document   string  `json:"document"`
	Title      string  `json:"title,omitempty"`
	Section    string  `json:"section,omitempty"`
	DocumentID string  `json:"document_id"`
	Version    string  `json:"version"`
	Chunk      int     `json:"chunk"`
	Start      int     `json:"start"` // byte offsets in the document's extracted text
	End        int     `json:"end"`
	Score      float64 `json:"score"`
	ByWords    bool    `json:"by_words,omitempty"` // found by its words only: its vector is another model's, until it is made anew

	// Of a chat, unless the caller wants none: what the passage says, as this caller may see it, at most MaxQuoteRunes characters of it.
	Text      string `json:"text,omitempty"`
	Truncated bool   `json:"text_truncated,omitempty"` // it says more
	Withheld  bool   `json:"text_withheld,omitempty"`  // the rules for answers do not let its text out
}

// MaxQuoteRunes is the most characters of a passage that a citation quotes.
const MaxQuoteRunes = 1000

// Head is what is known about a call once it is admitted.
type Head struct {
	Request   string
	Created   time.Time
	Model     AskedModel
	Receipt   string       // id of the admitted audit record
	Policy    string       // version of the policy in force
	Class     engine.Class // of the queue it waits in, as policy has it; "" where the engine has none
	Version   route.Version
	Rollout   string
	Arm       string
	Label     label.Label // zero for embeddings
	LabelText string      // the label as a header says it
	Rate      limit.State
	Citations []Citation
	Steps     audit.Steps   // before the engine was asked
	Embedding time.Duration // of Steps.Retrieve: an engine's time for the vectors of the question, and the wait for it

	// FallbackFrom is the model that the caller asked for, where Model answers in its place, and FallbackCause why.
	FallbackFrom  AskedModel
	FallbackCause route.Cause

	Subject      string // digest of the person whom the call is about
	PromptTokens int    // as the engine has counted them before it began; 0 where it could not
}

// Overhead is the time that the call's own steps took before the engine was asked, without the time of engines, the one
// that embeds the question included. What happens before the body is there, the first look at the credential included, is not in it, nor is the
// edge's reading and decoding.
func (h Head) Overhead() time.Duration { return overhead(h.Steps, h.Embedding) }

func overhead(s audit.Steps, embedding time.Duration) time.Duration {
	us := s.Authenticate + s.Limit + s.Policy + s.Route + s.Reserve + s.Retrieve + s.Record
	return time.Duration(us-embedding.Microseconds()) * time.Microsecond
}

// Finding is a finding of the record, with what only the reply says.
type Finding struct {
	audit.Finding

	Restored int `json:"restored,omitempty"` // how often values that the engine has as pseudonyms were put back for the caller
}

// Summary is what is known about a call once it has ended.
type Summary struct {
	Usage            audit.Usage
	Energy           energy.Figure // how that of Usage came about
	Findings         []Finding
	LogprobsWithheld bool // asked for, but they would have shown what the answer hides
	Outcome          string
	Replay           string          // see engine.Usage; "" when the engine cannot promise the same answer again
	Signature        string          // of the answer, see package signature; "" if nobody wants it signed
	Watermark        *engine.Marking // what came of it; nil if the policy wants none, or the answer broke off
	Evidence         *Evidence       // how an answer with passages came about; nil where the policy does not look
	Cache            string          // how the answer came: see Reply.Cache
}

// Reply is an admitted answer. Its events must be consumed or the reply closed; both settle it.
type Reply struct {
	Head

	run    *run
	events iter.Seq2[engine.Event, error]
	abort  func()
}

func (r *run) newReply(ctx context.Context) *Reply {
	r.shareAnswer()
	return &Reply{
		Head: r.head(), run: r,
		events: func(yield func(engine.Event, error) bool) { r.answerStream(ctx, yield) },
		abort:  func() { r.finish(ctx, ending{outcome: outcomeAborted}) },
	}
}

// Events returns the answer as the caller may see it: restored text, checked, labelled. The sequence is consumed once. Its last
// event carries the last Finish and Usage, after which Summary is complete; or it ends with one error.
func (r *Reply) Events() iter.Seq2[engine.Event, error] { return r.events }

// Summary returns what the call used. It is complete once the events have ended.
func (r *Reply) Summary() Summary { return r.run.summary() }

// Cache says how the answer comes: "miss" from an engine that was asked for it, "coalesced" from one that was asked by an equal call, "hit" as one
// was given that was kept, "stale" as one that is too old in the place of one that failed, "bypass" as one that is not shared; "" where the policy has
// none shared. It may change until the first event.
func (r *Reply) Cache() string {
	state, _, _ := r.run.cacheState()
	return state
}

// Close ends a reply whose events nobody wants any more. After the events have ended it does nothing.
func (r *Reply) Close() { r.abort() }

// Answer is a whole answer.
type Answer struct {
	Choices []AnswerChoice
	Usage   engine.Usage
}

// AnswerChoice is one alternative of a whole answer.
type AnswerChoice struct {
	Text      string
	Reasoning string
	Refusal   string
	Calls     []engine.ToolCall
	Logprobs  []engine.TokenLogprob
	Finish    engine.Finish
	StoppedBy int // as in engine.Event
}

// Collect consumes the events into a whole answer. A blocking reply is what the events say; there is no second code path.
func (r *Reply) Collect() (*Answer, error) {
	a := &Answer{Choices: make([]AnswerChoice, max(1, r.run.call.Choices))}
	collected := make([]struct {
		text, reasoning, refusal strings.Builder
		args                     []*strings.Builder
	}, len(a.Choices))
	for ev, err := range r.events {
		if err != nil {
			return nil, err
		}
		c, in := &a.Choices[ev.Choice], &collected[ev.Choice]
		in.text.WriteString(ev.Text)
		in.reasoning.WriteString(ev.Reasoning)
		in.refusal.WriteString(ev.Refusal)
		c.Logprobs = append(c.Logprobs, ev.Logprobs...)
		for _, d := range ev.Calls {
			if d.Index == len(c.Calls) {
				c.Calls = append(c.Calls, engine.ToolCall{ID: d.ID, Name: d.Name})
				in.args = append(in.args, &strings.Builder{})
			}
			in.args[d.Index].WriteString(d.Arguments)
		}
		if ev.Finish != engine.FinishNone {
			c.Finish, c.StoppedBy = ev.Finish, ev.StoppedBy
		}
		if ev.Usage != nil {
			a.Usage = *ev.Usage
		}
	}
	for i := range collected {
		in := &collected[i]
		a.Choices[i].Text, a.Choices[i].Reasoning, a.Choices[i].Refusal = in.text.String(), in.reasoning.String(), in.refusal.String()
		for k, b := range in.args {
			a.Choices[i].Calls[k].Arguments = b.String()
		}
	}
	return a, nil
}

// EmbedReply is the answer to an embedding call.
type EmbedReply struct {
	Head
	Summary
	Vectors [][]float32
}

// CountReply is how long the prompt of a call is.
type CountReply struct {
	Head
	Summary
	Tokens  int  // not less than there are
	Exact   bool // Tokens is the number itself; an upstream that does not count leaves a bound
	Context int  // of the model, in tokens; 0: unknown
}

// ModerateReply is what the policy would do to each text of a call, in order.
type ModerateReply struct {
	Head
	Summary
	Texts   []ExaminedText
	Classes []string // that were looked for, sorted
}

// ExaminedText is what the policy would do to a text.
type ExaminedText struct {
	Findings []Finding
	Flagged  bool // a request with it would be refused, or go on without some of its values
}

// TokensReply is a prompt in tokens.
type TokensReply struct {
	CountReply
	IDs   []int32  // nil: the engine does not tell them
	Texts []string // of each; nil if they were not asked for
}

// TextReply is the text of tokens, as the caller may see it.
type TextReply struct {
	Head
	Summary
	Text string
}

// ScoreReply is the answer to a call for scores: one for each document, in order, and the places of the best ones.
type ScoreReply struct {
	Head
	Summary
	Scores    []float64
	Best      []int
	Documents []string // at those places, as the caller may see them; nil if they were not asked for
}

// SearchReply is the answer to a search, or the passages that were asked for, in the order of their document.
type SearchReply struct {
	Head
	Summary
	Passages []rag.Passage
	Expanded []rag.Expansion // what the glossary has added to the question
}

// Refusal is the error of a call that was not answered, with what the edge tells the caller beside the error itself.
type Refusal struct {
	Receipt string      // id of the audit record: of the refusal, or of the admission where the engine failed; "" if there is none
	Rate    limit.State // where the caller's limits stand
	err     error
}

// Error implements error.
func (r *Refusal) Error() string { return r.err.Error() }

// Unwrap returns the cause, which carries the fault code.
func (r *Refusal) Unwrap() error { return r.err }
