package capability

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

func (c *Contract) meets(n Needs, s State) (bool, Reason) {
	least := max(n.Least, E1)
	s = c.stateOf(n, s)
	if r, ok := c.meetsFeatures(n, least, s); !ok {
		return false, r
	}
	if r, ok := c.meetsLimits(n, s); !ok {
		return false, r
	}
	if r, ok := c.meetsAdapter(n, least, s); !ok {
		return false, r
	}
	if n.LowBit != "" {
		cell := c.lowBit(n.Model, n.LowBit)
		if why, ok := cell.Holds(least, s); !ok {
			return false, Reason{Why: why, Detail: "lowbit " + n.LowBit, When: cell.When}
		}
	}
	role := n.Role
	if role == "" {
		role = RoleJoint
	}
	if roles := valueIn(c.Roles, s, []Role{RoleJoint}); !slices.Contains(roles, role) {
		return false, Reason{Why: WhyRole, Detail: string(role)}
	}
	if n.Strict && (!c.Engine.Licence.Known || c.Engine.Licence.Value == "" || c.Engine.Licence.Value == "unknown") {
		return false, Reason{Why: WhyLicence}
	}
	return true, Reason{}
}

// stateOf joins what is known of the instance, of its state and of the request.
func (c *Contract) stateOf(n Needs, s State) State {
	out := c.facts()
	maps.Copy(out, s)
	if n.Model != "" {
		out["model"] = n.Model
	}
	out["images"] = strconv.Itoa(n.Images)
	if n.PromptTokens > 0 {
		out["prompt_tokens"] = strconv.Itoa(n.PromptTokens)
	}
	if n.OutputTokens > 0 {
		out["output_tokens"] = strconv.Itoa(n.OutputTokens)
	}
	if n.PromptTokens > 0 && n.OutputTokens > 0 {
		out["total_tokens"] = strconv.Itoa(n.PromptTokens + n.OutputTokens)
	}
	return out
}

// cell returns what is known of a feature of a model: the first row of its own, or that of the contract.
func (c *Contract) cell(model string, f Feature) (Cell, bool) {
	for i := range c.Models {
		if cell, ok := c.Models[i].Features[f]; ok && matches(c.Models[i].Match, model) {
			return cell, true
		}
	}
	cell, ok := c.Features[f]
	return cell, ok
}

func (c *Contract) lowBit(model, format string) Cell {
	for i := range c.Models {
		if cell, ok := c.Models[i].LowBit[format]; ok && matches(c.Models[i].Match, model) {
			return cell
		}
	}
	return c.LowBit[format]
}

func matches(pattern, model string) bool {
	ok, err := path.Match(pattern, model)
	return err == nil && ok
}

// needed returns the features that are needed, with what the maker of the model demands.
func (c *Contract) needed(n Needs) []Feature {
	out := n.Features
	for _, pattern := range slices.Sorted(maps.Keys(c.Demands)) {
		if matches(pattern, n.Model) {
			out = append(slices.Clip(out), c.Demands[pattern]...)
		}
	}
	return out
}

func (c *Contract) meetsFeatures(n Needs, least Grade, s State) (Reason, bool) {
	for _, f := range c.needed(n) {
		cell, ok := c.cell(n.Model, f)
		if !ok {
			return Reason{Why: WhyMissing, Feature: f}, false
		}
		why, ok := cell.Holds(least, s)
		if ok {
			continue
		}
		r := Reason{Why: why, Feature: f, When: cell.When}
		switch why {
		case WhyGrade:
			r.Detail = cell.Grade.String()
		case WhyCondition, WhyUnknown:
			r.Detail = cell.When.String()
		default:
		}
		return r, false
	}
	return Reason{}, true
}

// valueIn returns the value of a fact that holds in a state, or another one.
func valueIn[T any](f Fact[T], s State, otherwise T) T {
	if f.Known && f.When.Eval(s) == Yes {
		return f.Value
	}
	return otherwise
}

// bound returns the bound that a fact sets in a state. A bound whose condition may hold binds.
func bound(f Fact[int], s State) (int, bool) {
	return f.Value, f.Known && f.When.Eval(s) != No
}

// maxIn returns the longest prompt and completion together that a model takes in a state: that of the first row of its own, or that of the contract.
func (c *Contract) maxIn(model string, s State) (int, bool) {
	for i := range c.Models {
		if m := &c.Models[i]; matches(m.Match, model) {
			if v, ok := bound(m.MaxIn, s); ok {
				return v, true
			}
		}
	}
	return bound(c.Context.MaxIn, s)
}

func (c *Contract) meetsLimits(n Needs, s State) (Reason, bool) {
	most, known := c.maxIn(n.Model, s)
	if known && n.PromptTokens+max(n.OutputTokens, 1) > most {
		return Reason{Why: WhyContext, Detail: strconv.Itoa(most)}, false
	}
	if out, ok := bound(c.Context.MaxOut, s); ok && n.OutputTokens > out {
		return Reason{Why: WhyContext, Detail: strconv.Itoa(out)}, false
	}
	// Shapes that a graph does not cover run eagerly, where that is allowed; without, the last bucket is a limit.
	if b := c.Exec.Buckets; b.Known && len(b.Value) > 0 && b.When.Eval(s) != No {
		eager := c.Exec.Modes[Eager]
		if _, ok := eager.Holds(E1, s); !ok && !valueIn(c.Exec.DynamicShape, s, false) && n.PromptTokens > slices.Max(b.Value) {
			return Reason{Why: WhyShape, Detail: strconv.Itoa(slices.Max(b.Value))}, false
		}
	}
	if most, ok := bound(c.Modalities.MaxImages, s); ok && n.Images > most {
		return Reason{Why: WhyImages, Detail: strconv.Itoa(most)}, false
	}
	return Reason{}, true
}

func (c *Contract) meetsAdapter(n Needs, least Grade, s State) (Reason, bool) {
	if n.Adapter == "" || slices.Contains(c.LoRA.Loaded, n.Adapter) {
		return Reason{}, true
	}
	if _, ok := c.LoRA.Dynamic.Holds(least, s); ok {
		return Reason{}, true
	}
	return Reason{Why: WhyAdapter}, false
}

func (c *Contract) facts() State {
	s := State{}
	set := func(name string, f Fact[string]) {
		if f.Known && f.Value != "" {
			s[name] = f.Value
		}
	}
	for component, f := range c.Matrix {
		set(versionPrefix+component, f)
	}
	set(versionPrefix+"engine", c.Engine.Version)
	set("device.vendor", c.Hardware.Vendor)
	set("device.family", c.Hardware.Family)
	set("device.generation", c.Hardware.Generation)
	set("kv_dtype", c.KV.DType)
	if c.Hardware.Devices.Known {
		s["device.count"] = strconv.Itoa(c.Hardware.Devices.Value)
	}
	if r := c.Roles; r.Known && len(r.Value) == 1 {
		s["role"] = string(r.Value[0])
	}
	return s
}

func (c Contract) observe(o Observation) Contract {
	seen := Evidence{Grade: &o.Grade, Owner: OwnerEngine, Source: o.Source}
	if o.Version != "" {
		c.Engine.Version = Fact[string]{o.Version, seen, true}
	}
	c.Matrix = maps.Clone(c.Matrix)
	for component, v := range o.Matrix {
		if c.Matrix == nil {
			c.Matrix = map[string]Fact[string]{}
		}
		c.Matrix[component] = Fact[string]{v, seen, true}
	}
	if len(o.Models) > 0 {
		c.Models = c.observeModels(o.Models, seen)
	}
	if o.Adapters != nil {
		c.LoRA.Loaded = slices.Clone(o.Adapters)
	}
	if o.Features != nil {
		c.Features = observeFeatures(c.Features, o)
		c.Models = slices.Clone(c.Models)
		for i := range c.Models {
			c.Models[i].Features = observeFeatures(c.Models[i].Features, o)
		}
	}
	return c
}

// observeModels puts a row for each model that was seen, with the shorter context, in front of the others.
func (c *Contract) observeModels(models map[string]int, seen Evidence) []ModelCells {
	var out []ModelCells
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if length := models[name]; length > 0 {
			if f := c.Context.MaxIn; f.Known { // the new row hides it, whatever its condition
				length = min(length, f.Value)
			}
			for _, m := range c.Models {
				if m.MaxIn.Known && matches(m.Match, name) {
					length = min(length, m.MaxIn.Value)
				}
			}
			out = append(out, ModelCells{Match: literal(name), MaxIn: Fact[int]{length, seen, true}})
		}
	}
	return append(out, c.Models...)
}

// literal is the pattern that matches a name alone.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}

func observeFeatures(have map[Feature]Cell, o Observation) map[Feature]Cell {
	out := maps.Clone(have)
	for f, worked := range o.Features {
		cell, ok := out[f]
		switch {
		case !ok:
			continue
		case !worked:
			cell.Status, cell.Note = Roadmap, fmt.Sprintf("a check found that it does not work (%s)", o.Source)
		case cell.Status != Roadmap && o.Grade > cell.Grade:
			cell.Grade = o.Grade
			if o.Grade >= E3 && cell.Status == Claimed {
				cell.Status = Validated
			}
		}
		out[f] = cell
	}
	return out
}

func needsOf(w engine.Work) Needs {
	switch q := w.(type) {
	case *engine.EmbedRequest:
		return Needs{Model: string(q.Model), Features: []Feature{Embeddings}}
	case *engine.ScoreRequest:
		return Needs{Model: string(q.Model), Features: []Feature{Rerank}}
	case *engine.Request:
		return generation(q)
	}
	return Needs{}
}

// asked is a feature with whether a request needs it.
type asked struct {
	feature Feature
	yes     bool
}

func generation(q *engine.Request) Needs {
	n := Needs{Model: string(q.Model), OutputTokens: q.MaxTokens}
	calls := len(q.Tools) > 0
	for _, m := range q.Messages {
		calls = calls || len(m.ToolCalls) > 0
	}
	f := q.Format
	if f == nil {
		f = &engine.Format{}
	}
	for _, a := range []asked{
		{Chat, q.Messages != nil},
		{Completions, q.Messages == nil},
		{Stream, !q.NonStreaming},
		{Tools, calls},
		{ToolsRequired, len(q.Tools) > 0 && q.ToolChoice.Mode == engine.ToolRequired},
		{ToolsNamed, len(q.Tools) > 0 && q.ToolChoice.Mode == engine.ToolFunction},
		{ToolsParallel, len(q.Tools) > 0 && !q.ParallelTools},
		{FormatObject, f.JSONObject},
		{FormatSchema, f.JSONSchema != nil},
		{FormatRegex, f.Regex != ""},
		{FormatGrammar, f.GBNF != ""},
		{FormatChoice, f.Choice != nil},
		{Logprobs, q.Logprobs >= 0},
		{TopLogprobs, q.Logprobs > 0},
		{Seed, q.Seed != nil},
		{Choices, q.Choices > 1},
		{Stop, len(q.Stop) > 0},
		{Echo, q.Echo},
		{TopK, q.TopK > 0},
		{MinP, q.MinP > 0},
		{MinTokens, q.MinTokens > 0},
		{RepetitionPenalty, q.RepetitionPenalty != 0 && q.RepetitionPenalty != 1},
		{FrequencyPenalty, q.FrequencyPenalty != 0},
		{PresencePenalty, q.PresencePenalty != 0},
		{LogitBias, len(q.LogitBias) > 0},
		{Hook, q.Hook != nil},
	} {
		if a.yes {
			n.Features = append(n.Features, a.feature)
		}
	}
	return n
}

func (r Reason) phrase() fault.Phrase {
	what := string(r.Feature)
	if what == "" {
		what = r.Detail
	}
	switch r.Why {
	case WhyMissing:
		return fault.Say("capability.missing", what)
	case WhyListing:
		return r.denied()
	case WhyRoadmap:
		return fault.Say("capability.roadmap", what)
	case WhyGrade:
		return fault.Say("capability.grade", what, r.Detail)
	case WhyCondition:
		return fault.Say("capability.condition", what, r.When.String())
	case WhyUnknown:
		return fault.Say("capability.unknown", what, strings.Join(r.When.Names(), ", "))
	case WhyContext:
		return fault.Say("capability.context", r.Detail)
	case WhyShape:
		return fault.Say("capability.shape", r.Detail)
	case WhyImages:
		return fault.Say("capability.images", r.Detail)
	case WhyAdapter:
		return fault.Say("capability.adapter")
	case WhyRole:
		return fault.Say("capability.role", r.Detail)
	case WhyLicence:
		return fault.Say("capability.licence")
	}
	return fault.Say("capability.met")
}

// denied says what a model does not do whose engine does not list it.
func (r Reason) denied() fault.Phrase {
	switch r.Feature {
	case Chat, Completions:
		return fault.Say("model.no_generation")
	case Embeddings:
		return fault.Say("model.no_embedding")
	case Rerank:
		return fault.Say("model.no_scoring")
	case Tools, ToolsRequired, ToolsNamed, ToolsParallel:
		return fault.Say("model.no_tools")
	case FormatObject, FormatSchema, FormatRegex, FormatGrammar, FormatChoice:
		return fault.Say("model.no_formats")
	case Logprobs, TopLogprobs:
		return fault.Say("model.no_logprobs")
	case Tokens:
		return fault.Say("model.no_tokens")
	case Detokenize:
		return fault.Say("model.no_detokenize")
	default:
		return fault.Say("model.unsupported")
	}
}

// Claim returns the contract with features that an operator vouches for: known at E1, guaranteed by the control plane. What a check has switched off, or a
// roadmap names, stays so only if the operator does not vouch for it; a better-known cell stays as it is.
func (c Contract) Claim(features []Feature, source string) Contract {
	c.Features = maps.Clone(c.Features)
	if c.Features == nil {
		c.Features = map[Feature]Cell{}
	}
	for _, f := range features {
		if cell, ok := c.Features[f]; !ok || cell.Proven() == Roadmap {
			c.Features[f] = Cell{Status: Claimed, Grade: E1, Owner: OwnerControl, Source: source}
		}
	}
	return c
}

// Limit returns the contract with no cell above a grade: what rests on a document is known no better than the document bears out.
func (c Contract) Limit(most Grade) Contract {
	c.Features, c.LowBit, c.Spec = limited(c.Features, most), limited(c.LowBit, most), limited(c.Spec, most)
	c.Exec.Modes, c.Context.Long = limited(c.Exec.Modes, most), limited(c.Context.Long, most)
	c.Models = slices.Clone(c.Models)
	for i := range c.Models {
		m := &c.Models[i]
		m.Features, m.LowBit = limited(m.Features, most), limited(m.LowBit, most)
	}
	for _, cell := range []*Cell{
		&c.KV.PrefixCache, &c.KV.AnyPosition, &c.KV.Migrate, &c.Sched.Continuous, &c.Sched.ChunkedPrefill, &c.Sched.Priority, &c.Sched.Preempt,
		&c.LoRA.Dynamic, &c.Modalities.EncoderCache, &c.Realtime.Interrupt, &c.Realtime.Resume,
		&c.Ops.Metrics, &c.Ops.Traces, &c.Ops.Health, &c.Ops.Drain, &c.Ops.Rollback, &c.Ops.Canary,
	} {
		cell.Grade = min(cell.Grade, most)
	}
	return c
}

// limited returns cells with no grade above a bound. Those that it is given stay as they are.
func limited[K comparable](cells map[K]Cell, most Grade) map[K]Cell {
	out := maps.Clone(cells)
	for k, cell := range out {
		cell.Grade = min(cell.Grade, most)
		out[k] = cell
	}
	return out
}
