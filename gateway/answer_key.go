package gateway

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/answercache"
	"github.com/sluice-project/sluice/gateway/route"
)

// keyParts are what an answer depends on, one after the other. Each list goes with its length, so that no two lists of values are one list of parts.
type keyParts []string

func (k *keyParts) text(s ...string)    { *k = append(*k, s...) }
func (k *keyParts) count(n int)         { k.text(strconv.Itoa(n)) }
func (k *keyParts) flag(b bool)         { k.text(strconv.FormatBool(b)) }
func (k *keyParts) list(l []string)     { k.count(len(l)); k.text(l...) }
func (k *keyParts) number(f float64)    { k.text(strconv.FormatUint(math.Float64bits(f), 16)) }
func (k *keyParts) set(l []string)      { k.list(slices.Sorted(slices.Values(l))) }
func (k *keyParts) instant(t time.Time) { k.text(t.UTC().Format(time.RFC3339Nano)) }

// answerKey is the digest of all that the answer of the call depends on, as the engine is given it: of two calls with one key the engine would be asked the
// same, for callers who may be told the same. A test goes through the fields of all that a call consists of: each is in the key, or has a reason.
func (r *run) answerKey() answercache.Key {
	var k keyParts
	k.text(r.caller.Tenant, r.caller.Project, r.caller.Organisation, string(r.call.Action))
	k.set(r.caller.Roles)
	k.set(r.caller.Labels)
	a := r.admission
	k.text(a.policy.Version, a.policy.Digest, a.policy.Purpose, string(r.class()))
	k.flag(a.visible.sentence)
	k.flag(a.visible.demanded)
	k.text(a.visible.agreement)
	masked, scope := a.decision.Masked(), ""
	if masked { // pseudonyms are those of a conversation
		scope = a.conversation
	}
	k.flag(masked)
	k.text(scope)
	if rag := r.call.RAG; rag != nil {
		k.text(rag.Collection)
		k.instant(rag.AsOf)
		k.count(rag.TopK)
	}
	passages, _ := r.citedPassages()
	k.count(len(passages))
	for i := range passages {
		p := &passages[i]
		k.text(p.Collection, p.DocumentID, p.Version)
		k.count(p.Chunk)
	}
	v, info := r.choice.Version, r.choice.Info
	k.text(v.Model, v.Version, v.Engine, string(v.EngineModel), v.Digest, v.Precision)
	k.text(string(info.ID), info.Digest, info.Template, info.Precision, info.EngineVersion, string(info.Base), info.Adapter)
	placing := r.placing()
	k.count(int(placing.Grade))
	k.list(placing.Allowed())
	k.flag(r.nonStreaming())
	k.flag(r.fallsBack(route.CauseContent)) // else what a filter has emptied is an answer
	k.request(r.prompt.text.Request)
	return answercache.Key(r.p.deps.Keys.MAC("gateway/answer/v1", k...))
}

// request adds a request to an engine.
func (k *keyParts) request(q *engine.Request) {
	k.text(string(q.Model), q.Prompt, q.Tenant, string(q.Class))
	k.count(q.Priority)
	k.count(len(q.Messages))
	for i := range q.Messages {
		k.message(&q.Messages[i])
	}
	k.list(q.Segments)
	k.count(q.SegmentTokens)
	k.count(len(q.Tools))
	for _, t := range q.Tools {
		k.text(t.Name, t.Description, string(t.Parameters))
		k.flag(t.Strict)
	}
	k.text(string(q.ToolChoice.Mode), q.ToolChoice.Name)
	for _, b := range []bool{q.ParallelTools, q.OmitBegin, q.Echo} {
		k.flag(b)
	}
	for _, n := range []int{q.MaxTokens, q.MinTokens, q.Choices, q.TopK, q.Logprobs} {
		k.count(n)
	}
	for _, f := range []float64{q.Temperature, q.TopP, q.MinP, q.RepetitionPenalty, q.FrequencyPenalty, q.PresencePenalty} {
		k.number(f)
	}
	k.count(len(q.LogitBias))
	tokens := make([]int32, 0, len(q.LogitBias))
	for t := range q.LogitBias {
		tokens = append(tokens, t)
	}
	slices.Sort(tokens)
	for _, t := range tokens {
		k.count(int(t))
		k.number(q.LogitBias[t])
	}
	k.flag(q.Seed != nil)
	if q.Seed != nil {
		k.text(strconv.FormatUint(*q.Seed, 10))
	}
	k.list(q.Stop)
	k.flag(q.Format != nil)
	if f := q.Format; f != nil {
		k.flag(f.JSONObject)
		k.text(string(f.JSONSchema), f.GBNF, f.Regex)
		k.list(f.Choice)
	}
	k.flag(q.Watermark != nil)
	if w := q.Watermark; w != nil {
		k.text(w.Scheme, w.Key)
		k.count(int(w.Epoch))
		k.flag(w.Greedy)
	}
}

func (k *keyParts) message(m *engine.Message) {
	k.text(m.Role, m.Content, m.Name, m.ToolCallID)
	k.count(len(m.ToolCalls))
	for _, c := range m.ToolCalls {
		k.text(c.ID, c.Name, c.Arguments)
	}
}
