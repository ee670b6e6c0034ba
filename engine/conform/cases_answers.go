package conform

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/internal/fault"
)

// health is CP-1: it says that it is ready, each time it is asked.
func (r *run) health(ctx context.Context) *verdict {
	v := &verdict{}
	for i := range 6 {
		for name, ask := range map[string]func(context.Context) (peer.State, error){"live": r.peer.Live, "ready": r.peer.Health} {
			s, err := ask(ctx)
			if errors.Is(err, peer.ErrNotTold) {
				if name == "ready" {
					return skip(NotApplicable, fault.Say("conform.no_way", "health"))
				}
				continue
			}
			if i == 0 {
				v.note("%s: %s", name, s)
			}
			if s != peer.Ready {
				v.fail(fault.Say("conform.health", string(s)))
			}
		}
	}
	return v
}

// models is CP-2: the model is listed, with its longest context where the profile says that it is told.
func (r *run) models(ctx context.Context) *verdict {
	list, err := r.peer.Models(ctx)
	if errors.Is(err, peer.ErrNotTold) {
		return skip(NotApplicable, fault.Say("conform.no_way", "models"))
	}
	v := &verdict{}
	if err != nil {
		v.fail(unusable("models", err))
		return v
	}
	v.note("models: %d", len(list))
	i := slices.IndexFunc(list, func(m peer.Model) bool { return m.ID == r.model })
	if i < 0 {
		v.fail(fault.Say("conform.models_missing"))
		return v
	}
	l := r.prof.Models
	v.note("longest context: %d", list[i].Context)
	if (l.Context != "" || l.ContextFrom.Path != "") && list[i].Context <= 0 {
		v.fail(fault.Say("conform.context"))
	}
	return v
}

// question is a prompt that every model has something to say to.
const question = "Name some things that can be found near a river, one after the other."

// knownFinish reports whether a reason is one that the profile knows.
func (r *run) knownFinish(reason string) bool {
	_, ok := r.prof.Stream.Finish[reason]
	return ok
}

// reason is a reason for an end that may stand in a report: a word that the profile knows.
func (r *run) reason(said string) string {
	if said == "" || r.knownFinish(said) {
		return said
	}
	return "unknown"
}

// checkAnswer looks at what every answer has to have.
func (r *run) checkAnswer(v *verdict, a answer, usage bool) {
	finishes := !r.ownForm() || r.prof.Endpoints.Form == "tgi"
	switch {
	case a.broken != "":
		v.fail(fault.Say("conform.answer", a.broken))
	case a.text == "" && a.thoughts == "" && len(a.calls) == 0 && (!a.usage || a.completion > 1): // a model may end at once
		v.fail(fault.Say("conform.answer", "content"))
	case finishes && a.finish == "":
		v.fail(fault.Say("conform.answer", "finish_reason"))
	case finishes && !r.knownFinish(a.finish):
		v.fail(fault.Say("conform.answer", "finish_reason"))
	case usage && finishes && !a.usage:
		v.fail(fault.Say("conform.answer", "usage"))
	}
}

// answer is CP-3: an answer in one piece has a text, a known end, and counts that add up.
func (r *run) answer(ctx context.Context) *verdict {
	v := &verdict{}
	claims := r.prof.Claims(capability.Usage)
	a, err := r.whole(ctx, r.ask(question, 8))
	if err != nil {
		v.fail(unusable("answer", err))
		return v
	}
	r.checkAnswer(v, a, claims)
	v.note("finish %q, prompt %d, completion %d, total %d", r.reason(a.finish), a.prompt, a.completion, a.total)
	if r.ownForm() {
		if a.usage && a.completion > 8 {
			v.fail(fault.Say("conform.usage", "completion_tokens"))
		}
		return v
	}
	if a.usage {
		r.checkUsage(ctx, v, a)
	}
	v.saw(v.result != Failed, capability.Usage)
	if r.prof.Endpoints.Chat != "" {
		v.saw(v.result != Failed, capability.Chat)
	}
	r.askOtherForms(ctx, v)
	return v
}

func (r *run) checkUsage(ctx context.Context, v *verdict, a answer) {
	switch {
	case a.completion <= 0 || a.completion > 8:
		v.fail(fault.Say("conform.usage", "completion_tokens"))
	case r.prof.Stream.Finish[a.finish] == "length" && a.completion != 8:
		v.fail(fault.Say("conform.usage", "completion_tokens"))
	case a.total != 0 && a.total != a.prompt+a.completion:
		v.fail(fault.Say("conform.usage", "total_tokens"))
	}
	longer, err := r.whole(ctx, r.ask(question+strings.Repeat(" Think of water and of stone.", 8), 8))
	if err != nil {
		v.fail(unusable("answer", err))
		return
	}
	v.note("a longer prompt: %d", longer.prompt)
	if longer.prompt <= a.prompt {
		v.fail(fault.Say("conform.usage", "prompt_tokens"))
	}
}

// askOtherForms asks in the further forms that the profile has.
func (r *run) askOtherForms(ctx context.Context, v *verdict) {
	e := r.prof.Endpoints
	if r.prof.Claims(capability.Completions) && e.Completions != "" && e.Chat != "" {
		a, err := r.wholeAt(ctx, e.Completions, body{"model": r.model, "temperature": 0, "max_tokens": 8, "prompt": question})
		if err != nil {
			v.fail(unusable("completions", err))
		} else {
			r.checkAnswer(v, a, r.prof.Claims(capability.Usage))
		}
		v.saw(err == nil, capability.Completions)
		v.note("completions: asked")
	}
	if e.Form != "tgi" && e.Form != "v2" {
		return
	}
	a, err := r.wholeAt(ctx, r.ownPath(false), ownBody(e.Form, question, 8))
	if err != nil {
		v.fail(unusable(e.Form, err))
	} else if a.broken != "" || a.text == "" {
		v.fail(fault.Say("conform.answer", a.broken))
	}
	v.note("form %s: asked", e.Form)
}

// streaming is CP-4: an answer in pieces has whole events, one end, counts where they are asked for, and an end mark.
func (r *run) streaming(ctx context.Context) *verdict {
	if !r.prof.Claims(capability.Stream) {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	v := &verdict{}
	a, err := r.stream(ctx, r.ask(question, 12), nil)
	if err != nil {
		v.fail(unusable("stream", err))
		return v
	}
	s := r.prof.Stream
	v.note("%d events, finish %q, usage %t, end mark %t", a.events, r.reason(a.finish), a.usage, a.done)
	switch finishes := !r.ownForm() || r.prof.Endpoints.Form == "tgi"; {
	case a.broken != "":
		v.fail(fault.Say("conform.stream", a.broken))
	case a.text == "" && a.thoughts == "":
		v.fail(fault.Say("conform.stream", "content"))
	case finishes && (a.finish == "" || !r.knownFinish(a.finish)):
		v.fail(fault.Say("conform.stream", "finish_reason"))
	case !r.ownForm() && s.Usage != "none" && s.Usage != "" && !a.usage:
		v.fail(fault.Say("conform.stream", "usage"))
	case !r.ownForm() && s.Done != "" && !a.done:
		v.fail(fault.Say("conform.stream", s.Done))
	case a.usage && (a.completion <= 0 || a.completion > 12):
		v.fail(fault.Say("conform.usage", "completion_tokens"))
	}
	v.saw(v.result != Failed, capability.Stream)
	return v
}

// weather is a tool.
func weather() any {
	return []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "get_weather", "description": "Tells the weather of a city.",
		"parameters": map[string]any{
			"type": "object", "properties": map[string]any{"city": map[string]any{"enum": []string{"Beijing", "Shanghai"}}}, "required": []string{"city"}, "additionalProperties": false,
		},
	}}}
}

// tools is CP-5: a call that is demanded is made, whole; thoughts are told apart.
func (r *run) tools(ctx context.Context) *verdict {
	if r.prof.Endpoints.Chat == "" || !r.prof.Claims(capability.Tools) && !r.prof.Claims(capability.Reasoning) {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	v := &verdict{}
	if r.prof.Claims(capability.Reasoning) {
		a, err := r.whole(ctx, r.ask(question, 48))
		if err != nil {
			v.fail(unusable("answer", err))
			return v
		}
		if strings.Contains(a.text, "<think>") || strings.Contains(a.text, "</think>") {
			v.fail(fault.Say("conform.thoughts"))
			v.saw(false, capability.Reasoning)
		}
		v.note("thoughts told apart: %t", a.thoughts != "")
		if a.thoughts != "" {
			v.saw(true, capability.Reasoning)
		}
	}
	for _, f := range []capability.Feature{capability.ToolsRequired, capability.ToolsNamed} {
		if r.prof.Claims(f) {
			r.demandCall(ctx, v, f)
		}
	}
	if len(v.evidence) == 0 { // tools that the model may call or not show nothing
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	return v
}

func (r *run) demandCall(ctx context.Context, v *verdict, f capability.Feature) {
	for _, streamed := range []bool{false, true} {
		b := r.ask("What is the weather in Beijing? Ask the tool.", 120).with("tools", weather())
		if f == capability.ToolsNamed && r.prof.Request.NamedTool != "alone" {
			b.with("tool_choice", map[string]any{"type": "function", "function": map[string]any{"name": "get_weather"}})
		} else {
			b.with("tool_choice", "required")
		}
		var a answer
		var err error
		if streamed {
			a, err = r.stream(ctx, b, nil)
		} else {
			a, err = r.whole(ctx, b)
		}
		ok, unseen := false, false
		switch {
		case err != nil:
			v.fail(unusable(string(f), err))
		case a.broken != "":
			v.fail(fault.Say("conform.call", a.broken))
		case len(a.calls) == 0 && r.prof.Claimed.Features[f].Fallback == capability.FallbackDiffers && r.prof.Stream.Finish[a.finish] != "tool_calls":
			unseen = true // the profile does not say that it always does
			v.unseen(fault.Say("conform.no_call"))
		case len(a.calls) == 0:
			v.fail(fault.Say("conform.no_call"))
		case a.calls[0].name != "get_weather":
			v.fail(fault.Say("conform.call", "name"))
		case !json.Valid([]byte(a.calls[0].arguments)):
			v.fail(fault.Say("conform.call", "arguments"))
		default:
			ok = true
		}
		v.note("%s, stream %t: %d calls, finish %q", f, streamed, len(a.calls), r.reason(a.finish))
		if !unseen {
			v.saw(ok, f, capability.Tools)
		}
	}
}

// shape is a form that an answer is asked to keep, and what holds the answer to it.
type shape struct {
	feature capability.Feature
	kind    string
	value   any
	holds   func(text string) bool
}

func shapes() []shape {
	object := func(text string) bool {
		var o map[string]any
		return json.Unmarshal([]byte(text), &o) == nil
	}
	schema := map[string]any{
		"type": "object", "properties": map[string]any{"wet": map[string]any{"type": "boolean"}}, "required": []string{"wet"}, "additionalProperties": false,
	}
	matches := func(re string) func(string) bool { return regexp.MustCompile(`^(?:` + re + `)$`).MatchString }
	return []shape{
		{capability.FormatObject, "json_object", nil, object},
		{capability.FormatSchema, "json_schema", schema, func(text string) bool {
			var o map[string]any
			_, isBool := o["wet"].(bool)
			if json.Unmarshal([]byte(text), &o) == nil {
				_, isBool = o["wet"].(bool)
			}
			return isBool && len(o) == 1
		}},
		{capability.FormatRegex, "regex", "[ab]{3}-[0-9]{2}", matches("[ab]{3}-[0-9]{2}")},
		{capability.FormatGrammar, "grammar", `root ::= "left" | "right"`, matches("left|right")},
		{capability.FormatChoice, "choice", []string{"yes", "no"}, matches("yes|no")},
	}
}

// formats is CP-6: what the profile calls the forms of answers is what the engine calls them.
func (r *run) formats(ctx context.Context) *verdict {
	v := &verdict{}
	asked := 0
	for _, s := range shapes() {
		p, _ := r.prof.Request.Parameter(s.feature)
		if !r.prof.Claims(s.feature) || p.Name == "" {
			continue
		}
		asked++
		prompt := "Is a river wet? Answer in the form that is asked for, such as JSON."
		a, err := r.whole(ctx, r.ask(prompt, 200).with(p.Name, p.Spell(s.kind, s.value)))
		switch {
		case err != nil:
			v.fail(unusable(s.kind, err))
		case !s.holds(strings.TrimSpace(a.text)):
			v.fail(fault.Say("conform.format", s.kind))
		}
		ok := err == nil && s.holds(strings.TrimSpace(a.text))
		v.note("%s as %s: %t, finish %q", s.kind, p.Name, ok, r.reason(a.finish))
		v.saw(ok, s.feature)
	}
	if asked == 0 {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	return v
}

// sampling is CP-7: log-probabilities come, a seed repeats a text, and fields have an effect.
func (r *run) sampling(ctx context.Context) *verdict {
	v := &verdict{}
	req, asked := &r.prof.Request, 0
	if r.prof.Claims(capability.Logprobs) {
		asked++
		r.askLogprobs(ctx, v)
	}
	if r.prof.Claims(capability.Seed) {
		asked++
		r.sameText(ctx, v, capability.Seed, func(b body, _ int) { b.with(req.Seed.Name, 4711) })
	}
	for f, value := range map[capability.Feature]any{capability.TopK: 1, capability.MinP: 1.0} {
		if p, _ := req.Parameter(f); r.prof.Claims(f) {
			asked++
			r.sameText(ctx, v, f, func(b body, i int) {
				b.with(p.Name, value)
				if req.Seed.Name != "" {
					b.with(req.Seed.Name, 100+i)
				}
			})
		}
	}
	if r.prof.Claims(capability.MinTokens) {
		asked++
		a, err := r.whole(ctx, r.ask("Say yes.", 60).with(req.MinTokens.Name, 40))
		ok := err == nil && a.completion >= 40
		if !ok {
			v.fail(fault.Say("conform.sampling", "min_tokens"))
		}
		v.note("min_tokens 40: %d", a.completion)
		v.saw(ok, capability.MinTokens)
	}
	if r.prof.Claims(capability.Stop) && !r.ownForm() {
		asked++
		r.stops(ctx, v)
	}
	if asked == 0 {
		return skip(NotApplicable, fault.Say("conform.not_claimed"))
	}
	return v
}

func (r *run) askLogprobs(ctx context.Context, v *verdict) {
	b := r.ask(question, 6)
	top := r.prof.Claims(capability.TopLogprobs)
	if r.prof.Endpoints.Chat == "" {
		b.with("logprobs", 2)
	} else if b.with("logprobs", true); top {
		b.with("top_logprobs", 2)
	}
	a, err := r.whole(ctx, b)
	if err != nil {
		v.fail(unusable("logprobs", err))
		return
	}
	v.note("log-probabilities of %d tokens, with %d alternatives", a.logprobs, a.top)
	if a.logprobs == 0 || top && a.top < 2 {
		v.fail(fault.Say("conform.logprobs"))
	}
	v.saw(a.logprobs > 0, capability.Logprobs)
	if top {
		v.saw(a.top >= 2, capability.TopLogprobs)
	}
}

// sameText asks twice with a high temperature; what is set has to make the answers the same.
func (r *run) sameText(ctx context.Context, v *verdict, f capability.Feature, set func(b body, i int)) {
	var said [2]string
	for i := range said {
		b := r.drawn(r.ask(question, 14))
		set(b, i)
		a, err := r.whole(ctx, b)
		if err != nil {
			v.fail(unusable(string(f), err))
			v.saw(false, f)
			return
		}
		said[i] = a.thoughts + "\x00" + a.text
	}
	ok := said[0] == said[1]
	v.note("%s: the same text %t", f, ok)
	if !ok && f == capability.Seed {
		v.fail(fault.Say("conform.seed"))
	} else if !ok {
		v.fail(fault.Say("conform.sampling", string(f)))
	}
	v.saw(ok, f)
}

// stops takes a word of an answer and asks again with it as a text to stop at.
func (r *run) stops(ctx context.Context, v *verdict) {
	a, err := r.whole(ctx, r.ask(question, 14))
	if err != nil {
		v.fail(unusable("stop", err))
		return
	}
	all := strings.Fields(a.text)
	if len(all) < 4 {
		return
	}
	word := all[2]
	again, err := r.whole(ctx, r.ask(question, 14).with("stop", []string{word}))
	ok := err == nil && !strings.Contains(again.text, word)
	if !ok {
		v.fail(fault.Say("conform.sampling", "stop"))
	}
	v.note("stop: %t", ok)
	v.saw(ok, capability.Stop)
}
