package gateway

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/refusal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/ground"
)

// verdict is what the policy makes of the passages that were found, before an engine is asked.
type verdict struct {
	rule    governance.Answering
	score   float64        // how likely they answer
	refusal refusal.Reason // "": the model answers
	direct  bool           // an entry of a FAQ answers
}

// unasked reports whether no model is asked: what the caller gets is a sentence of ours, or what a person has written.
func (v verdict) unasked() bool { return v.refusal != "" || v.direct }

// judge says whether the model is asked. Only chats that cite are judged.
func (r *run) judge() (verdict, error) {
	if r.call.RAG == nil || r.need != route.Generate || r.call.Action.runsNothing() || r.admission.decision == nil {
		return verdict{}, nil
	}
	v := r.weigh(len(r.sources.passages))
	if r.direct() {
		v.refusal, v.direct = "", true
		return v, nil
	}
	if v.rule.Checks() && r.masked.call.Format != nil { // a citation would break it, and a short form has nothing to look at
		field := cmp.Or(r.call.FormatField, formatField)
		return verdict{}, fault.New(fault.CodeUnsupported, field, fault.Say("gateway.checked_format")).WithParam(field)
	}
	return v, nil
}

// weigh holds what was found against the thresholds: so many of the passages, best first, as the model is given. Where what they do not bear out is dropped,
// a model without any is not asked either, since nothing of its answer would leave.
func (r *run) weigh(given int) verdict {
	v := verdict{rule: r.admission.decision.Answering(r.call.RAG.Collection)}
	if given > 0 {
		if p := r.sources.passages[given-1].Evidence; p >= 0 && p <= 1 { // what is no number is no evidence
			v.score = p
		}
	}
	switch {
	case !v.rule.Judges() && v.rule.Unsupported != governance.UnsupportedDrop:
	case len(r.sources.passages) == 0:
		v.refusal = refusal.NoPassages
	case given == 0: // none has room beside the question
		v.refusal = refusal.WeakEvidence
	case v.score < v.rule.RefuseBelow:
		v.refusal = refusal.WeakEvidence
	case v.score < v.rule.AskBelow:
		v.refusal = refusal.UnclearQuestion
	}
	return v
}

// sayOurs says the sentence of the refusal, or the answer of the entry of a FAQ, in the place of an engine, in each choice. It asks back as an answer does, where an
// answer is prose. The answer of an entry is masked, as a model's would be, and is put back for the caller on its way out.
func (r *run) sayOurs(yield func(engine.Event, error) bool) {
	why, req := r.prompt.verdict.refusal, r.prompt.request()
	said := why.Sentence().In(r.questionLanguage())
	for i := range req.Choices {
		ev := engine.Event{Choice: i, Finish: engine.FinishStop, Refusal: said}
		if why.AsksBack() && r.masked.call.Format == nil {
			ev.Text, ev.Refusal = said, ""
		}
		if r.prompt.verdict.direct {
			ev.Text, ev.Refusal = r.masked.passages[0].FAQ.Answer, ""
		}
		if !yield(ev, nil) {
			return
		}
	}
	yield(engine.Event{Usage: &engine.Usage{}}, nil)
}

func (r *run) questionLanguage() fault.Lang {
	if chinese(r.sources.question) {
		return fault.Chinese
	}
	return fault.English
}

// Evidence says how an answer with passages came about.
type Evidence struct {
	// Refusal is why there is no answer of a model; "" if there is one.
	// Of a search it is why a chat with the same question would get none.
	Refusal refusal.Reason `json:"refusal,omitempty"`
	// Judgement is nil of what an entry of a FAQ has answered: it had no part in that.
	*Judgement
	// AnsweredBy is "faq" where a person has written the answer, as an entry of a FAQ, and no model was asked; "" else. Of a search it is what a chat with the same
	// question would get. FAQScore is how likely the question asks that entry, 0…1, and not below DirectAbove.
	AnsweredBy  string  `json:"answered_by,omitempty"`
	FAQScore    float64 `json:"faq_score,omitempty"`
	DirectAbove float64 `json:"direct_above,omitempty"` // 0: the policy has the model answer always
	// Sentences are those of the answer, in order, by choice; nil where the policy does not look at them.
	Sentences   []Sentence `json:"sentences,omitempty"`
	Supported   int        `json:"supported,omitempty"`
	Unsupported int        `json:"unsupported,omitempty"`
	Policy      string     `json:"unsupported_are,omitempty"` // mark, or drop
}

// Judgement is how likely the passages answer, 0…1: below RefuseBelow the policy refuses, below AskBelow it asks back.
type Judgement struct {
	Score       float64 `json:"score"`
	RefuseBelow float64 `json:"refuse_below"`
	AskBelow    float64 `json:"ask_below"`
}

// Sentence is what became of one sentence. It has no text: what was dropped is shown nowhere.
type Sentence struct {
	Choice    int  `json:"choice"`
	Supported bool `json:"supported"`
	Passage   int  `json:"passage,omitempty"` // the number of the citation that bears it out
}

// shownEvidence is what the reply says: of a chat that the policy looks at, and of every search, what a chat would come to.
func (r *run) shownEvidence(end ending) *Evidence {
	if r.call.Action == ActionSearch && end.outcome == outcomeOK {
		return r.evidenceOf(r.weigh(len(r.sources.passages)))
	}
	return r.evidence()
}

// evidence is what is noted of a chat; nil where the policy does not look.
func (r *run) evidence() *Evidence {
	v := r.prompt.verdict
	if !v.rule.Judges() && !v.rule.Checks() && v.rule.DirectAbove == 0 {
		return nil
	}
	e := r.evidenceOf(v)
	if g := r.answer.grounding; g != nil {
		e.Policy, e.Sentences = v.rule.Unsupported, g.sentences
		for _, s := range g.sentences {
			if s.Supported {
				e.Supported++
			}
		}
		e.Unsupported = len(g.sentences) - e.Supported
		if r.emptied() {
			e.Refusal = refusal.UnsupportedAnswer
		}
	}
	return e
}

// byFAQ is what AnsweredBy says.
const byFAQ = "faq"

// evidenceOf is what a verdict comes to, with the entry of a FAQ that answers, or would answer a chat.
func (r *run) evidenceOf(v verdict) *Evidence {
	e := &Evidence{Refusal: v.refusal, DirectAbove: v.rule.DirectAbove}
	if !v.direct {
		e.Judgement = &Judgement{v.score, v.rule.RefuseBelow, v.rule.AskBelow}
	}
	if hit := r.sources.faq; hit != nil {
		e.Refusal, e.AnsweredBy, e.FAQScore = "", byFAQ, hit.FAQ.Score
	}
	return e
}

// direct reports whether an entry of a FAQ answers in the place of a model.
func (r *run) direct() bool { return r.need == route.Generate && r.sources.faq != nil }

// mayAnswerDirectly reports whether an entry of a FAQ may answer the call, which has its texts still. It answers in prose, and the first question of a
// conversation: where a tool has to be called, a format kept to or an answer continued, or something was said before, the model does.
func (r *run) mayAnswerDirectly() bool {
	c := r.received
	said := func(m engine.Message) bool { return m.Role != "system" && m.Role != "developer" }
	switch n := len(c.Messages); {
	case r.call.Action.runsNothing(), c.Format != nil, c.Echo, n == 0, c.Messages[n-1].Role != "user", slices.ContainsFunc(c.Messages[:n-1], said),
		c.ToolChoice.Mode == engine.ToolRequired, c.ToolChoice.Mode == engine.ToolFunction:
		return false
	}
	return true
}

// emptied reports whether nothing of an engine's answer was borne out and left: each choice is a sentence of ours.
func (r *run) emptied() bool {
	g := r.answer.grounding
	if g == nil {
		return false
	}
	for i := range g.choices {
		if !g.empties(i) {
			return false
		}
	}
	return true
}

// ours reports whether all that the caller gets is a sentence of ours, or what a person has written. Nothing then says that a model has said it.
func (r *run) ours() bool { return r.prompt.verdict.unasked() || r.emptied() }

// noteVerdict notes scores, thresholds and counts in a record.
func (r *run) noteVerdict(e *audit.Event) {
	v := r.evidence()
	if v == nil {
		return
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }
	if j := v.Judgement; j != nil {
		e.Detail["evidence"], e.Detail["refuse_below"], e.Detail["ask_below"] = number(j.Score), number(j.RefuseBelow), number(j.AskBelow)
	}
	if v.Refusal != "" {
		e.Detail["refusal"] = string(v.Refusal)
	}
	if v.DirectAbove > 0 {
		e.Detail["direct_above"] = number(v.DirectAbove)
	}
	if v.AnsweredBy != "" {
		e.Detail["answered_by"], e.Detail["faq_score"] = v.AnsweredBy, number(v.FAQScore)
	}
	if e.Stage == audit.StageOutcome && r.answer.grounding != nil {
		e.Detail["sentences_supported"], e.Detail["sentences_unsupported"] = strconv.Itoa(v.Supported), strconv.Itoa(v.Unsupported)
		e.Detail["unsupported"] = v.Policy
	}
}

// The results of answers and of sentences, in metrics.
const (
	resultAnswered    = "answered"
	resultSupported   = "supported"
	resultUnsupported = "unsupported"
)

func (m *metrics) countVerdict(e *Evidence) {
	if e == nil {
		return
	}
	m.verdicts.WithLabelValues(cmp.Or(string(e.Refusal), e.AnsweredBy, resultAnswered)).Inc()
	m.sentences.WithLabelValues(resultSupported).Add(float64(e.Supported))
	m.sentences.WithLabelValues(resultUnsupported).Add(float64(e.Unsupported))
}

// maxSentence is how much of a text is held until it ends a sentence, in bytes. What is longer is looked at as it is.
const maxSentence = 8 << 10

// grounding holds the sentences of an answer against its passages before anything else sees them: a sentence leaves when it has ended and was looked at. It
// belongs to one goroutine.
type grounding struct {
	check   *ground.Checker
	drop    bool
	mark    string // behind a sentence that is not borne out
	nothing string // what is said where nothing is left
	choices []groundedChoice

	sentences []Sentence
	swallowed int // events with text, of which none has left
}

type groundedChoice struct {
	held    strings.Builder
	left    bool // something of its text has left, or a call
	cut     bool // something was dropped
	lastCut bool // the last sentence
	refused bool // the model says why it does not answer
	emptied bool // nothing of it was left
}

// newGrounding returns what looks at the answer; nil if nothing does. The model was given masked passages and writes in their terms.
func (r *run) newGrounding() *grounding {
	v := r.prompt.verdict
	if !v.rule.Checks() || v.unasked() {
		return nil
	}
	texts := make([]string, r.prompt.text.SegmentsKept)
	for i := range texts {
		p := r.masked.passages[i]
		texts[i] = strings.Join([]string{p.Title, p.Section, p.Text}, "\n")
	}
	lang := r.questionLanguage()
	return &grounding{
		check: ground.New(texts), drop: v.rule.Unsupported != governance.UnsupportedMark, choices: make([]groundedChoice, r.prompt.request().Choices),
		mark: fault.Say("gateway.unsupported_mark").In(lang), nothing: refusal.UnsupportedAnswer.Sentence().In(lang),
	}
}

// kept is how many events of the engine with text nobody has seen.
func (g *grounding) kept() int {
	if g == nil {
		return 0
	}
	return g.swallowed
}

// empties reports whether nothing of a choice was left: what the caller gets of it is a sentence of ours.
func (g *grounding) empties(choice int) bool { return g.choices[choice].emptied }

// pass returns what of an event may go on. Reasoning is not looked at: where sentences are dropped, it does not leave, since it may say the same. Why a model does
// not answer is looked at as its answer is: it may say anything there.
func (g *grounding) pass(ev engine.Event) engine.Event {
	if ev.Choice < 0 || ev.Choice >= len(g.choices) {
		return ev // which package egress refuses
	}
	said := ev.HasOutput()
	c := &g.choices[ev.Choice]
	c.held.WriteString(ev.Text)
	if ev.Refusal != "" {
		if !c.refused && c.held.Len() > 0 {
			c.held.WriteString("\n")
		}
		c.held.WriteString(ev.Refusal)
		c.refused, ev.Refusal = true, ""
	}
	ev.Text, ev.Logprobs = g.sentencesOf(c, ev.Choice, ev.Finish != engine.FinishNone), nil
	if g.drop {
		ev.Reasoning = ""
	}
	if c.left = c.left || strings.TrimSpace(ev.Text) != "" || len(ev.Calls) > 0; c.lastCut {
		ev.StoppedBy = 0 // it would tell a word of what was dropped
	}
	if ev.Finish != engine.FinishNone && c.cut && !c.left {
		ev.Refusal = g.nothing
		c.emptied = true
	}
	if said && !ev.HasOutput() {
		g.swallowed++
	}
	return ev
}

// sentencesOf returns what leaves of the sentences that have ended.
func (g *grounding) sentencesOf(c *groundedChoice, choice int, last bool) string {
	text := c.held.String()
	var out strings.Builder
	for text != "" {
		n := ground.End(text)
		if n == 0 && (last || len(text) >= maxSentence) {
			n = len(text)
		}
		if n == 0 {
			break
		}
		g.sentence(c, choice, text[:n], &out)
		text = text[n:]
	}
	c.held.Reset()
	c.held.WriteString(text)
	return out.String()
}

// sentence judges one sentence, and says what leaves of it: one that is borne out and does not say by what is given its citation.
func (g *grounding) sentence(c *groundedChoice, choice int, text string, out *strings.Builder) {
	got := g.check.Check(text)
	if got.Empty {
		if !c.cut || c.left { // a list's mark without what follows it is nothing
			out.WriteString(got.Text)
		}
		return
	}
	g.sentences = append(g.sentences, Sentence{Choice: choice, Supported: got.Supported, Passage: got.Passage})
	body := strings.TrimRight(got.Text, " \t\r\n")
	space := got.Text[len(body):]
	c.lastCut = !got.Supported && g.drop
	switch {
	case got.Supported:
		out.WriteString(body)
		if !got.Cites {
			out.WriteString(" [" + strconv.Itoa(got.Passage) + "]")
		}
		out.WriteString(space)
		c.left = true
	case g.drop:
		c.cut = true
	default:
		out.WriteString(body)
		if mark := strings.TrimSpace(g.mark); strings.HasPrefix(mark, "[") {
			out.WriteString(" " + mark)
		} else {
			out.WriteString(mark)
		}
		out.WriteString(space)
		c.left = true
	}
}
