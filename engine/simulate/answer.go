package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/openai"
)

// answering is a request whose tokens come.
type answering struct {
	s      *Simulator
	q      asked
	nth    uint64
	plans  []plan
	out    <-chan emission
	ctx    context.Context //nolint:containedctx // that of the request
	cancel context.CancelFunc
	began  []bool
}

// next returns the next token, false when the request is over.
func (a *answering) next() (emission, bool) {
	select {
	case e := <-a.out:
		return e, true
	case <-a.ctx.Done():
		return emission{}, false
	}
}

// finish is the engine's word for how a choice ended.
func (a *answering) finish(choice int) string {
	ours := a.plans[choice].finish
	if a.s.cfg.Mutation == MutateFinish {
		return "whatever"
	}
	known := a.s.cfg.Profile.Stream.Finish
	if known[ours] == ours {
		return ours
	}
	for _, theirs := range slices.Sorted(maps.Keys(known)) {
		if known[theirs] == ours {
			return theirs
		}
	}
	return ours
}

func (a *answering) usage() map[string]any {
	prompt, n := a.s.promptTokens(a.q), 0
	for _, p := range a.plans {
		n += len(p.pieces)
	}
	if a.s.cfg.Mutation == MutateUsageWrong || a.s.faultIs(FaultUsage, a.nth) {
		n += 3
	}
	return map[string]any{"prompt_tokens": prompt, "completion_tokens": n, "total_tokens": prompt + n}
}

// content is the text of a choice, with the prompt if it is echoed.
func (a *answering) content(choice int) (text, thoughts string) {
	if a.q.echo && !a.q.chat {
		text = a.q.prompt
	}
	for _, p := range a.plans[choice].pieces {
		if p.thought {
			thoughts += p.text
		} else {
			text += p.text
		}
	}
	if thoughts != "" && (a.s.cfg.Mutation == MutateReasoning || a.s.cfg.Profile.Stream.Reasoning == "") {
		return "<think>" + thoughts + "</think>" + text, ""
	}
	return text, thoughts
}

// call is a call of the tool, or a part of one.
func (a *answering) call(first bool, arguments string) map[string]any {
	f := map[string]any{"arguments": arguments}
	c := map[string]any{"index": 0, "function": f}
	if first {
		c["id"], c["type"], f["name"] = fmt.Sprintf("call_%d", a.nth), "function", a.q.tool
	}
	return c
}

// arguments are those of a call.
func (a *answering) arguments(text string) string {
	if a.s.cfg.Mutation == MutateToolArguments {
		return strings.ReplaceAll(text, `"`, "'")
	}
	return text
}

// logprobs are those of pieces, in the chat's form or in columns.
func (a *answering) logprobs(pieces []piece) any {
	if a.q.logprobs < 0 || a.s.cfg.Mutation == MutateLogprobs {
		return nil
	}
	var list []openai.TokenLogprob
	columns := openai.CompletionLogprobs{Tokens: []string{}, TokenLogprobs: []*float64{}, TopLogprobs: []map[string]float64{}, TextOffset: []int{}}
	at := 0
	for _, p := range pieces {
		v := -math.Abs(math.Sin(float64(len(p.text) + at)))
		t := openai.TokenLogprob{Token: p.text, Logprob: v, Bytes: []byte(p.text), TopLogprobs: []openai.TopLogprob{}}
		top := map[string]float64{}
		for i := range a.q.logprobs {
			name, less := p.text, v-float64(i)/4
			if i > 0 {
				name = words()[(len(p.text)+i)%len(words())]
			}
			t.TopLogprobs = append(t.TopLogprobs, openai.TopLogprob{Token: name, Logprob: less, Bytes: []byte(name)})
			top[name] = less
		}
		list = append(list, t)
		columns.Tokens, columns.TokenLogprobs = append(columns.Tokens, p.text), append(columns.TokenLogprobs, &v)
		columns.TopLogprobs, columns.TextOffset = append(columns.TopLogprobs, top), append(columns.TextOffset, at)
		at += len(p.text)
	}
	if a.q.chat {
		return map[string]any{"content": list}
	}
	return columns
}

// whole answers in one piece.
func (a *answering) whole(w http.ResponseWriter) {
	for left := len(a.plans); left > 0; {
		e, ok := a.next()
		if !ok {
			panic(http.ErrAbortHandler)
		}
		if e.last {
			left--
		}
	}
	var choices []any
	for i, p := range a.plans {
		text, thoughts := a.content(i)
		c := map[string]any{"index": i, "finish_reason": a.finish(i), "logprobs": a.logprobs(p.pieces)}
		switch {
		case !a.q.chat:
			c["text"] = text
		case a.q.tool != "" && a.s.cfg.Mutation != MutateToolsText:
			c["message"] = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{a.call(true, a.arguments(text))}}
		default:
			m := map[string]any{"role": "assistant", "content": text}
			if thoughts != "" {
				m[a.s.cfg.Profile.Stream.Reasoning] = thoughts
			}
			c["message"] = m
		}
		choices = append(choices, c)
	}
	doc := a.head(choices)
	if a.s.cfg.Mutation != MutateUsageMissing {
		doc["usage"] = a.usage()
	}
	reply(w, http.StatusOK, doc)
}

// head is what every answer and event of it has.
func (a *answering) head(choices []any) map[string]any {
	object, id := openai.ObjectCompletion, "cmpl"
	if a.q.chat {
		object, id = openai.ObjectChat, "chatcmpl"
		if a.q.stream {
			object = openai.ObjectChatChunk
		}
	}
	return map[string]any{"id": fmt.Sprintf("%s-%d", id, a.nth), "object": object, "created": a.s.started.Unix(), "model": a.q.model, "choices": choices}
}

// events writes events of a stream.
type events struct {
	w    http.ResponseWriter
	sent int
}

func (e *events) send(data []byte) {
	if e.sent == 0 {
		e.w.Header().Set("Content-Type", "text/event-stream")
	}
	e.sent++
	_, _ = e.w.Write(openai.AppendEvent(nil, data)) //nolint:gosec // G705: an event stream of JSON, not a page
	_ = http.NewResponseController(e.w).Flush()
}

func (e *events) object(doc any) {
	j, _ := json.Marshal(doc) // maps of texts and numbers
	e.send(j)
}

// stream answers in pieces.
func (a *answering) stream(w http.ResponseWriter) {
	out := &events{w: w}
	a.began = make([]bool, len(a.plans))
	cutAfter, cuts := a.s.fault(FaultCut, a.nth)
	wrongAfter, wrong := a.s.fault(FaultMalformed, a.nth)
	for left := len(a.plans); left > 0; {
		e, ok := a.next()
		if !ok || cuts && out.sent > cutAfter.After {
			panic(http.ErrAbortHandler)
		}
		if wrong && out.sent == wrongAfter.After || a.s.cfg.Mutation == MutateStreamJSON && out.sent == 1 {
			out.send([]byte(`{"choices":[{"index":0,`))
			out.sent++
		}
		if e.last {
			left--
		}
		a.event(out, e)
	}
	if s := a.s.cfg.Profile.Stream; (a.q.usage && s.Usage == "asked" || s.Usage == "always") && a.s.cfg.Mutation != MutateStreamUsage {
		doc := a.head([]any{})
		doc["usage"] = a.usage()
		out.object(doc)
	}
	if done := a.s.cfg.Profile.Stream.Done; done != "" && a.s.cfg.Mutation != MutateDone {
		out.send([]byte(done))
	}
}

// event writes a token.
func (a *answering) event(out *events, e emission) {
	text := e.piece.text
	first := !a.began[e.choice]
	a.began[e.choice] = true
	c := map[string]any{"index": e.choice, "finish_reason": nil}
	if a.q.logprobs >= 0 {
		c["logprobs"] = a.logprobs([]piece{e.piece})
	}
	delta := map[string]any{}
	if first {
		delta["role"] = "assistant"
	}
	switch {
	case !a.q.chat:
		if first && a.q.echo {
			text = a.q.prompt + text
		}
		c["text"] = text
	case a.q.tool != "" && a.s.cfg.Mutation != MutateToolsText:
		delta["tool_calls"] = []any{a.call(first, a.arguments(text))}
	case e.piece.thought && a.s.cfg.Profile.Stream.Reasoning != "" && a.s.cfg.Mutation != MutateReasoning:
		delta[a.s.cfg.Profile.Stream.Reasoning] = text
	case e.piece.thought && first:
		delta["content"] = "<think>" + text
	default:
		delta["content"] = text
	}
	if a.q.chat {
		c["delta"] = delta
	}
	doc := a.head([]any{c})
	if e.last && a.s.cfg.Mutation != MutateStreamFinish {
		c["finish_reason"] = a.finish(e.choice)
		if a.s.cfg.Profile.Stream.Usage == "last" && a.s.cfg.Mutation != MutateStreamUsage {
			doc["usage"] = a.usage()
		}
	}
	out.object(doc)
}

// own answers in the engine's own form: that of TGI, or of the generate extension of v2.
func (s *Simulator) own(w http.ResponseWriter, r *http.Request, stream bool) {
	doc, ok := s.decode(w, r)
	if !ok {
		return
	}
	q := asked{model: s.cfg.Model.Name, choices: 1, greedy: true, logprobs: -1, stream: stream}
	text, most := "text_input", "parameters.max_tokens"
	if s.cfg.Profile.Endpoints.Form == "tgi" {
		text, most = "inputs", "parameters.max_new_tokens"
	}
	q.prompt, ok = doc[text].(string)
	n, err := number(doc, most, 0)
	if q.most = int(n); (!ok || err != nil || n < 0) && s.cfg.Mutation != MutateErrorAccepted {
		s.refuse(w, "wrong_value", "the input is no text, or a number is none")
		return
	}
	a, ok := s.begin(w, r, &q)
	if !ok {
		return
	}
	defer a.cancel()
	out := &events{w: w}
	made := 0
	for {
		e, ok := a.next()
		if !ok {
			panic(http.ErrAbortHandler)
		}
		made++
		if stream {
			if s.cfg.Mutation == MutateStreamJSON && made == 2 {
				out.send([]byte(`{"token":`))
			}
			out.object(a.ownEvent(e, made))
		}
		if e.last {
			break
		}
	}
	if !stream {
		reply(w, http.StatusOK, a.ownWhole())
	}
}

// ownFinish is TGI's word for how an answer ended.
func (a *answering) ownFinish() string {
	if a.s.cfg.Mutation == MutateFinish {
		return "whatever"
	}
	if a.plans[0].finish == "length" {
		return "length"
	}
	return "eos_token"
}

func (a *answering) ownWhole() map[string]any {
	text, _ := a.content(0)
	n := len(a.plans[0].pieces)
	if a.s.cfg.Mutation == MutateUsageWrong {
		n += 3
	}
	if a.s.cfg.Profile.Endpoints.Form != "tgi" {
		if a.s.cfg.Mutation == MutateUsageMissing || a.s.cfg.Mutation == MutateFinish { // the form has neither counts nor reasons: the text is what can be missing
			return map[string]any{"model_name": a.q.model, "model_version": "1"}
		}
		return map[string]any{"model_name": a.q.model, "model_version": "1", "text_output": text}
	}
	doc := map[string]any{"generated_text": text}
	if a.s.cfg.Mutation != MutateUsageMissing {
		doc["details"] = map[string]any{"finish_reason": a.ownFinish(), "generated_tokens": n, "prefill": []any{}, "tokens": []any{}}
	}
	return doc
}

func (a *answering) ownEvent(e emission, made int) map[string]any {
	if a.s.cfg.Profile.Endpoints.Form != "tgi" {
		return map[string]any{"model_name": a.q.model, "model_version": "1", "text_output": e.piece.text}
	}
	doc := map[string]any{"token": map[string]any{"id": made, "text": e.piece.text, "logprob": -1, "special": false}, "generated_text": nil, "details": nil}
	if e.last && a.s.cfg.Mutation != MutateStreamFinish {
		text, _ := a.content(0)
		doc["generated_text"] = text
		doc["details"] = map[string]any{"finish_reason": a.ownFinish(), "generated_tokens": made}
	}
	return doc
}

// embed answers with vectors that follow from the texts.
func (s *Simulator) embed(w http.ResponseWriter, r *http.Request) {
	doc, ok := s.decode(w, r)
	if !ok {
		return
	}
	if s.cfg.Model.Embedding == 0 {
		s.refuse(w, "wrong_value", "the model makes no vectors")
		return
	}
	var data []any
	n := 0
	for i, text := range texts(doc["input"]) {
		rnd, v := source(s.cfg.Seed, "vector", text), make([]float64, s.cfg.Model.Embedding)
		sum := 0.0
		for j := range v {
			v[j] = rnd.NormFloat64()
			sum += v[j] * v[j]
		}
		for j := range v {
			v[j] /= math.Sqrt(sum)
		}
		n += tokens(text)
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": v})
	}
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": data, "model": doc["model"], "usage": map[string]any{"prompt_tokens": n, "total_tokens": n}})
}

// rerank answers with the share of the query's words that a document has.
func (s *Simulator) rerank(w http.ResponseWriter, r *http.Request) {
	doc, ok := s.decode(w, r)
	if !ok {
		return
	}
	query, _ := doc["query"].(string)
	asked := strings.Fields(query)
	var results []any
	n := tokens(query)
	for i, text := range texts(doc["documents"]) {
		hit := 0
		for _, word := range asked {
			if strings.Contains(text, word) {
				hit++
			}
		}
		n += tokens(text)
		results = append(results, map[string]any{"index": i, "relevance_score": float64(hit) / float64(max(1, len(asked)))})
	}
	reply(w, http.StatusOK, map[string]any{"model": doc["model"], "results": results, "usage": map[string]any{"total_tokens": n}})
}
