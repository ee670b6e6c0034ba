package capability_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/internal/fault"
)

// oracle decides from the members alone, one need after the other, in another order than the product does.
func oracle(c *capability.Contract, n capability.Needs, s capability.State, conditions map[string]made) bool {
	holds := func(cell capability.Cell) bool {
		if cell.Status == capability.Roadmap || cell.Status == "" || cell.Grade == capability.E0 || cell.Grade < n.Least {
			return false
		}
		if cell.Fallback == capability.FallbackSame || cell.When.IsZero() {
			return true
		}
		return conditions[cell.When.String()].eval(s) == capability.Yes
	}
	if n.Strict && (!c.Engine.Licence.Known || c.Engine.Licence.Value == "unknown") {
		return false
	}
	if n.Adapter != "" && !slices.Contains(c.LoRA.Loaded, n.Adapter) && !holds(c.LoRA.Dynamic) {
		return false
	}
	role := n.Role
	if role == "" {
		role = capability.RoleJoint
	}
	if c.Roles.Known && !slices.Contains(c.Roles.Value, role) || !c.Roles.Known && role != capability.RoleJoint {
		return false
	}
	if c.Modalities.MaxImages.Known && n.Images > c.Modalities.MaxImages.Value {
		return false
	}
	limit := c.Context.MaxIn
	if len(c.Models) > 0 && c.Models[0].Match == n.Model && c.Models[0].MaxIn.Known {
		limit = c.Models[0].MaxIn
	}
	if limit.Known && n.PromptTokens+max(1, n.OutputTokens) > limit.Value {
		return false
	}
	for _, f := range n.Features {
		cell, ok := c.Features[f]
		if len(c.Models) > 0 && c.Models[0].Match == n.Model {
			if own, has := c.Models[0].Features[f]; has {
				cell, ok = own, true
			}
		}
		if !ok || !holds(cell) {
			return false
		}
	}
	return true
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomCell(t *testing.T, r *rand.Rand, conditions map[string]made) capability.Cell {
	cell := capability.Cell{
		Status: pick(r, capability.Roadmap, capability.Claimed, capability.Validated, capability.Reproducible, capability.Claimed),
		Grade:  capability.Grade(r.IntN(5)), Owner: capability.OwnerEngine,
		Fallback: pick(r, capability.FallbackUnknown, capability.FallbackRefused, capability.FallbackIgnored, capability.FallbackDiffers, capability.FallbackSame),
	}
	if r.IntN(2) == 0 {
		m := randomCondition(r, 2)
		cell.When = parse(t, m.text)
		conditions[cell.When.String()] = m
	}
	return cell
}

func randomContract(t *testing.T, r *rand.Rand, conditions map[string]made) *capability.Contract {
	c := &capability.Contract{Features: map[capability.Feature]capability.Cell{}}
	for _, f := range capability.Features()[:8] {
		if r.IntN(5) > 0 {
			c.Features[f] = randomCell(t, r, conditions)
		}
	}
	if r.IntN(2) == 0 {
		c.Context.MaxIn = capability.Know(r.IntN(40))
	}
	if r.IntN(2) == 0 {
		c.Modalities.MaxImages = capability.Know(r.IntN(3))
	}
	if r.IntN(3) == 0 {
		c.Roles = capability.Know([]capability.Role{pick(r, capability.RoleJoint, capability.RolePrefill, capability.RoleDecode)})
	}
	c.Engine.Licence = pick(r, capability.Know("Apache-2.0"), capability.Know("unknown"), capability.Fact[string]{})
	c.LoRA.Loaded, c.LoRA.Dynamic = pick(r, []string{"a"}, nil), randomCell(t, r, conditions)
	if r.IntN(2) == 0 {
		m := capability.ModelCells{Match: "m", Features: map[capability.Feature]capability.Cell{pick(r, capability.Features()[:8]...): randomCell(t, r, conditions)}}
		if r.IntN(2) == 0 {
			m.MaxIn = capability.Know(r.IntN(40))
		}
		c.Models = []capability.ModelCells{m}
	}
	return c
}

func randomNeeds(r *rand.Rand) capability.Needs {
	n := capability.Needs{
		Model: pick(r, "m", "other"), PromptTokens: r.IntN(30), OutputTokens: r.IntN(10), Images: r.IntN(3), Least: capability.Grade(r.IntN(4)), Strict: r.IntN(3) == 0,
		Adapter: pick(r, "", "", "a", "b"), Role: pick(r, "", "", capability.RolePrefill, capability.RoleDecode),
	}
	for _, f := range capability.Features()[:8] {
		if r.IntN(5) == 0 {
			n.Features = append(n.Features, f)
		}
	}
	return n
}

// TestNeedsAgainstOracle: over random contracts, needs and states, needs are met exactly where the oracle says so; what is not met has a reason with a
// sentence, and a feature on the roadmap is never what was met.
func TestNeedsAgainstOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	met, why := 0, map[capability.Why]int{}
	for range 20000 {
		conditions := map[string]made{}
		c, n, s := randomContract(t, r, conditions), randomNeeds(r), randomState(r)
		all := capability.State{"images": fmt.Sprint(n.Images)}
		if n.PromptTokens > 0 {
			all["prompt_tokens"] = fmt.Sprint(n.PromptTokens)
		}
		if c.Roles.Known {
			all["role"] = string(c.Roles.Value[0])
		}
		for k, v := range s {
			all[k] = v
		}
		want := oracle(c, n, all, conditions)
		got, reason := c.Meets(n, s)
		if got != want {
			t.Fatalf("%+v of %+v in %v: %t (%+v), want %t", n, c, s, got, reason, want)
		}
		if got {
			met++
			continue
		}
		why[reason.Why]++
		if reason.Phrase().In(fault.English) == "" || reason.Phrase().In(fault.Chinese) == reason.Phrase().In(fault.English) {
			t.Fatalf("%+v has no sentences", reason)
		}
	}
	if met < 500 {
		t.Errorf("only %d were met: the test tries too little", met)
	}
	for _, w := range []capability.Why{
		capability.WhyMissing, capability.WhyRoadmap, capability.WhyGrade, capability.WhyCondition, capability.WhyUnknown, capability.WhyContext, capability.WhyImages,
		capability.WhyAdapter, capability.WhyRole, capability.WhyLicence,
	} {
		if why[w] == 0 {
			t.Errorf("nothing failed by %s", w)
		}
	}
}

// TestFlippedCondition: the same contract answers otherwise for the next request, with nothing in between.
func TestFlippedCondition(t *testing.T) {
	c := &capability.Contract{Features: map[capability.Feature]capability.Cell{
		capability.Tools: {Status: capability.Claimed, Grade: capability.E1, When: parse(t, `mode == "eager"`)},
	}}
	n := capability.Needs{Features: []capability.Feature{capability.Tools}}
	for _, step := range []struct {
		mode string
		why  capability.Why
	}{{"eager", ""}, {"graph", capability.WhyCondition}, {"eager", ""}, {"", capability.WhyUnknown}} {
		s := capability.State{}
		if step.mode != "" {
			s["mode"] = step.mode
		}
		if ok, why := c.Meets(n, s); ok != (step.why == "") || why.Why != step.why {
			t.Errorf("%q: %t, %+v", step.mode, ok, why)
		}
	}
}

func TestShapesAndLowBit(t *testing.T) {
	c := &capability.Contract{
		Exec:    capability.Exec{Buckets: capability.Know([]int{128, 512})},
		LowBit:  map[string]capability.Cell{"w4a16": {Status: capability.Claimed, Grade: capability.E1, When: parse(t, `device.family == "a"`)}},
		Models:  []capability.ModelCells{{Match: "q-*", LowBit: map[string]capability.Cell{"w4a16": {Status: capability.Roadmap}}}},
		Demands: map[string][]capability.Feature{"d-*": {capability.Reasoning}},
	}
	met := func(n capability.Needs, s capability.State) capability.Why {
		_, why := c.Meets(n, s)
		return why.Why
	}
	if w := met(capability.Needs{PromptTokens: 513}, nil); w != capability.WhyShape {
		t.Errorf("a shape without a bucket: %q", w)
	}
	c.Exec.Modes = map[capability.Mode]capability.Cell{capability.Eager: {Status: capability.Claimed, Grade: capability.E1}}
	if w := met(capability.Needs{PromptTokens: 513}, nil); w != "" {
		t.Errorf("it may run eagerly: %q", w)
	}
	a := capability.State{"device.family": "a"}
	if w := met(capability.Needs{LowBit: "w4a16"}, a); w != "" {
		t.Errorf("w4a16: %q", w)
	}
	if w := met(capability.Needs{LowBit: "w4a16", Model: "q-1"}, a); w != capability.WhyRoadmap {
		t.Errorf("w4a16 of a model that is marked no: %q", w)
	}
	if w := met(capability.Needs{LowBit: "w4a16"}, capability.State{"device.family": "b"}); w != capability.WhyCondition {
		t.Errorf("w4a16 elsewhere: %q", w)
	}
	if w := met(capability.Needs{LowBit: "fp4"}, a); w != capability.WhyRoadmap {
		t.Errorf("a format that nobody names: %q", w)
	}
	if w := met(capability.Needs{Model: "d-1"}, nil); w != capability.WhyMissing {
		t.Errorf("what a model demands: %q", w)
	}
}

func TestProven(t *testing.T) {
	for _, c := range []struct {
		status capability.Status
		grade  capability.Grade
		want   capability.Status
	}{
		{capability.Reproducible, capability.E0, capability.Roadmap},
		{capability.Reproducible, capability.E2, capability.Claimed},
		{capability.Validated, capability.E1, capability.Claimed},
		{capability.Validated, capability.E3, capability.Validated},
		{capability.Reproducible, capability.E4, capability.Reproducible},
		{capability.Roadmap, capability.E4, capability.Roadmap},
	} {
		if got := (capability.Cell{Status: c.status, Grade: c.grade}).Proven(); got != c.want {
			t.Errorf("%s at %s stands as %s, want %s", c.status, c.grade, got, c.want)
		}
	}
}

// TestObserveNarrows: an observation takes away and proves; it never adds.
func TestObserveNarrows(t *testing.T) {
	claimed := capability.Cell{Status: capability.Claimed, Grade: capability.E1, Owner: capability.OwnerEngine}
	c := capability.Contract{
		Context:  capability.Context{MaxIn: capability.Know(1000)},
		Features: map[capability.Feature]capability.Cell{capability.Tools: claimed, capability.Seed: claimed, capability.Echo: {Status: capability.Roadmap}},
	}
	seen := c.Observe(capability.Observation{
		Version: "1.2", Models: map[string]int{"a[1]": 4000, "b": 500, "c": 0}, Grade: capability.E3, Source: "r", Adapters: []string{"x"},
		Features: map[capability.Feature]bool{capability.Tools: true, capability.Seed: false, capability.Echo: true, capability.Logprobs: true},
	})
	if got := seen.Features[capability.Tools]; got.Status != capability.Validated || got.Grade != capability.E3 {
		t.Errorf("what passed: %+v", got)
	}
	for _, f := range []capability.Feature{capability.Seed, capability.Echo, capability.Logprobs} {
		if ok, _ := seen.Meets(capability.Needs{Features: []capability.Feature{f}}, nil); ok {
			t.Errorf("%s may be used", f)
		}
	}
	for model, longest := range map[string]int{"a[1]": 1000, "b": 500, "c": 1000} {
		for n, want := range map[int]bool{longest - 1: true, longest: false} {
			if ok, _ := seen.Meets(capability.Needs{Model: model, PromptTokens: n}, nil); ok != want {
				t.Errorf("%s with %d tokens: %t", model, n, ok)
			}
		}
	}
	sometimes := c
	sometimes.Context.MaxIn.When = parse(t, `device.vendor == "a"`)
	probed := sometimes.Observe(capability.Observation{Models: map[string]int{"m": 4000}, Grade: capability.E3})
	for _, s := range []capability.State{{"device.vendor": "a"}, nil} {
		n := capability.Needs{Model: "m", PromptTokens: 2000}
		before, _ := sometimes.Meets(n, s)
		if after, _ := probed.Meets(n, s); before || after {
			t.Errorf("%v: 2000 tokens fit %t, and once 4000 were observed %t", s, before, after)
		}
	}
	if seen.State()["version.engine"] != "1.2" || c.Features[capability.Seed].Status != capability.Claimed || len(c.Models) > 0 {
		t.Errorf("%v; the contract before: %+v", seen.State(), c)
	}
	if sim := c.Observe(capability.Observation{Grade: capability.E2, Features: map[capability.Feature]bool{capability.Tools: true}}); sim.Features[capability.Tools].Proven() != capability.Claimed {
		t.Error("a simulator has validated a feature")
	}
}

// TestFieldsAreMembers: each field of the list is in the contract, and each member of the contract is a field.
func TestFieldsAreMembers(t *testing.T) {
	covered := map[string]bool{}
	for i, f := range capability.Fields() {
		if f.Number != i+1 || f.Name == "" || f.Meaning == "" {
			t.Errorf("row %d is %+v", i+1, f)
		}
		for _, path := range f.Members {
			v := reflect.TypeFor[capability.Contract]()
			for _, name := range strings.Split(path, ".") {
				m, ok := v.FieldByName(name)
				if !ok {
					t.Fatalf("field %d names %s, which there is not", f.Number, path)
				}
				v = m.Type
			}
			covered[path] = true
		}
	}
	if len(capability.Fields()) != 45 {
		t.Errorf("%d fields", len(capability.Fields()))
	}
	for m := range reflect.TypeFor[capability.Contract]().Fields() {
		if covered[m.Name] {
			continue
		}
		for inner := range m.Type.Fields() {
			if !covered[m.Name+"."+inner.Name] {
				t.Errorf("%s.%s is no field of the list", m.Name, inner.Name)
			}
		}
	}
}

const document = `
defaults: {grade: E1, owner: engine, source: manual}
engine: {name: x, licence: {value: MIT, source: licence, grade: E3}, route: plug-in}
exec: {buckets: [1, 2], modes: {graph: {status: claimed, grade: E1, owner: engine, when: 'batch <= 8', fallback: same}}}
context: {max_in: {value: 8192, when: 'device.vendor == "a"'}}
features: {tools: {status: claimed, grade: E1, owner: engine}}
`

func read(t *testing.T, text string) capability.Contract {
	t.Helper()
	var c capability.Contract
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDocumentReadsBack(t *testing.T) {
	c := read(t, document)
	if errs := c.Check(); len(errs) > 0 {
		t.Fatal(errs)
	}
	if c.Engine.Name.Value != "x" || c.Engine.Licence.Source != "licence" || c.Exec.Modes[capability.Graph].When.String() != "batch <= 8" || c.Context.MaxOut.Known {
		t.Errorf("%+v", c)
	}
	j, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var again capability.Contract
	if err := json.Unmarshal(j, &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, again) {
		t.Errorf("by JSON:\n%+v\n%+v", c, again)
	}
	y, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if by := read(t, string(y)); !reflect.DeepEqual(c, by) {
		t.Errorf("by YAML:\n%s", y)
	}
}

// TestCheckFinds: each thing that may be wrong with a contract is told.
func TestCheckFinds(t *testing.T) {
	for text, want := range map[string]string{
		"engine: {name: x}":                                "nobody guarantees",
		"defaults: {owner: me}":                            `"me" must be one of`,
		"engine: {route: {value: by-road, owner: engine}}": "engine.route",
		"features: {fly: {status: claimed, grade: E1, owner: engine, source: s}}":                    "no feature",
		"features: {tools: {status: validated, grade: E2, owner: engine, source: s}}":                "bears out no more",
		"features: {tools: {status: claimed, grade: E1, owner: engine}}":                             "needs one",
		"features: {tools: {status: claimed, grade: E1, source: s}}":                                 "nobody guarantees",
		"features: {tools: {status: sure, grade: E1, owner: engine, source: s}}":                     "status",
		"features: {tools: {grade: E1, owner: engine, source: s}}":                                   "must be set",
		"features: {tools: {status: claimed, grade: E1, owner: engine, source: s, fallback: maybe}}": "fallback",
		"context: {max_in: {value: -1, owner: engine}}":                                              "negative",
		"models: [{match: '['}]": "no pattern",
		"models: [{match: a, features: {tools: {status: claimed, grade: E0, owner: engine}}}]": "bears out no more",
		"roles: {value: [cook], owner: engine}":                                                "roles",
		"exec: {modes: {lazy: {status: claimed, grade: E1, owner: engine, source: s}}}":        "modes",
		"model_demands: {a: [fly]}":                                                            "no feature",
		"interfaces: {value: [soap], owner: engine}":                                           "interfaces",
		"carrier: {value: pigeon, owner: engine}":                                              "carrier",
	} {
		c := read(t, text)
		errs := c.Check()
		if !slices.ContainsFunc(errs, func(err error) bool { return strings.Contains(err.Error(), want) }) {
			t.Errorf("%s: %v, want %q", text, errs, want)
		}
	}
	for _, text := range []string{"context: {max_in: {valu: 3}}", "features: {tools: {when: 'batch <'}}", "features: {tools: {grade: E9}}"} {
		var c capability.Contract
		if yaml.Unmarshal([]byte(text), &c) == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// TestNeedsOfRequests: each field of a request that an engine has to honour is a need.
func TestNeedsOfRequests(t *testing.T) {
	seed := uint64(1)
	for f, set := range map[capability.Feature]func(r *engine.Request){
		capability.Tools:             func(r *engine.Request) { r.Tools = []engine.Tool{{Name: "f"}} },
		capability.ToolsRequired:     func(r *engine.Request) { r.Tools, r.ToolChoice.Mode = []engine.Tool{{Name: "f"}}, engine.ToolRequired },
		capability.ToolsNamed:        func(r *engine.Request) { r.Tools, r.ToolChoice.Mode = []engine.Tool{{Name: "f"}}, engine.ToolFunction },
		capability.FormatObject:      func(r *engine.Request) { r.Format = &engine.Format{JSONObject: true} },
		capability.FormatSchema:      func(r *engine.Request) { r.Format = &engine.Format{JSONSchema: json.RawMessage("{}")} },
		capability.FormatRegex:       func(r *engine.Request) { r.Format = &engine.Format{Regex: "a"} },
		capability.FormatGrammar:     func(r *engine.Request) { r.Format = &engine.Format{GBNF: "a"} },
		capability.FormatChoice:      func(r *engine.Request) { r.Format = &engine.Format{Choice: []string{"a"}} },
		capability.Logprobs:          func(r *engine.Request) { r.Logprobs = 0 },
		capability.TopLogprobs:       func(r *engine.Request) { r.Logprobs = 2 },
		capability.Seed:              func(r *engine.Request) { r.Seed = &seed },
		capability.Choices:           func(r *engine.Request) { r.Choices = 2 },
		capability.Stop:              func(r *engine.Request) { r.Stop = []string{"a"} },
		capability.Echo:              func(r *engine.Request) { r.Echo = true },
		capability.TopK:              func(r *engine.Request) { r.TopK = 1 },
		capability.MinP:              func(r *engine.Request) { r.MinP = .1 },
		capability.MinTokens:         func(r *engine.Request) { r.MinTokens = 1 },
		capability.RepetitionPenalty: func(r *engine.Request) { r.RepetitionPenalty = 1.1 },
		capability.FrequencyPenalty:  func(r *engine.Request) { r.FrequencyPenalty = 1 },
		capability.PresencePenalty:   func(r *engine.Request) { r.PresencePenalty = 1 },
		capability.LogitBias:         func(r *engine.Request) { r.LogitBias = map[int32]float64{1: 1} },
		capability.Hook:              func(r *engine.Request) { r.Hook = func(*engine.Draw) error { return nil } },
	} {
		plain := &engine.Request{Model: "m", Prompt: "x", Logprobs: -1, NonStreaming: true, RepetitionPenalty: 1}
		if n := capability.Of(plain); !slices.Equal(n.Features, []capability.Feature{capability.Completions}) {
			t.Fatalf("a plain request needs %v", n.Features)
		}
		set(plain)
		if n := capability.Of(plain); !slices.Contains(n.Features, f) {
			t.Errorf("%s is not among %v", f, n.Features)
		}
	}
	if n := capability.Of(&engine.Request{Messages: []engine.Message{{}}, MaxTokens: 7, Logprobs: -1}); !slices.Equal(n.Features, []capability.Feature{capability.Chat, capability.Stream}) || n.OutputTokens != 7 {
		t.Errorf("%+v", n)
	}
	if n := capability.Of(&engine.EmbedRequest{Model: "e"}); !slices.Equal(n.Features, []capability.Feature{capability.Embeddings}) || n.Model != "e" {
		t.Errorf("%+v", n)
	}
	if n := capability.Of(&engine.ScoreRequest{}); !slices.Equal(n.Features, []capability.Feature{capability.Rerank}) {
		t.Errorf("%+v", n)
	}
}

// cellsOf calls f with every cell of a value, and the place where it stands. Maps of cells get one, and lists of models one row.
func cellsOf(where string, v reflect.Value, f func(where string, c capability.Cell) capability.Cell) {
	switch {
	case v.Type() == reflect.TypeFor[capability.Cell]():
		c := f(where, v.Interface().(capability.Cell))
		v.Set(reflect.ValueOf(c))
	case v.Kind() == reflect.Map && v.Type().Elem() == reflect.TypeFor[capability.Cell]():
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("x").Convert(v.Type().Key()), reflect.Zero(v.Type().Elem()))
		}
		for _, k := range v.MapKeys() {
			v.SetMapIndex(k, reflect.ValueOf(f(where, v.MapIndex(k).Interface().(capability.Cell))))
		}
	case v.Type() == reflect.TypeFor[[]capability.ModelCells]():
		if v.IsNil() {
			v.Set(reflect.ValueOf([]capability.ModelCells{{Match: "*"}}))
		}
		cellsOf(where, v.Index(0), f)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				cellsOf(where+"."+v.Type().Field(i).Name, v.Field(i), f)
			}
		}
	default:
	}
}

// TestLimitOfGrades: no cell, wherever it stands, is above the limit; one that is below stays, and so does the contract that was limited.
func TestLimitOfGrades(t *testing.T) {
	var c capability.Contract
	cells := 0
	cellsOf("", reflect.ValueOf(&c).Elem(), func(string, capability.Cell) capability.Cell {
		cells++
		return capability.Cell{Status: capability.Validated, Grade: capability.E4, Owner: capability.OwnerEngine}
	})
	if cells < 20 || len(c.LowBit) == 0 || len(c.Models[0].LowBit) == 0 || c.LoRA.Dynamic.Grade != capability.E4 {
		t.Fatalf("%d cells: %+v", cells, c)
	}
	limited := c.Limit(capability.E1)
	cellsOf("", reflect.ValueOf(&limited).Elem(), func(where string, cell capability.Cell) capability.Cell {
		if cell.Grade != capability.E1 {
			t.Errorf("%s is at %s", where, cell.Grade)
		}
		return cell
	})
	cellsOf("", reflect.ValueOf(&c).Elem(), func(where string, cell capability.Cell) capability.Cell {
		if cell.Grade != capability.E4 {
			t.Errorf("%s of the contract itself is at %s", where, cell.Grade)
		}
		return cell
	})
	if again := limited.Limit(capability.E3); again.LoRA.Dynamic.Grade != capability.E1 {
		t.Errorf("a limit has raised %s", again.LoRA.Dynamic.Grade)
	}
	none := c.Limit(capability.E0)
	for what, n := range map[string]capability.Needs{"adapter": {Adapter: "a"}, "lowbit": {LowBit: "x"}, "lowbit of a model": {Model: "m", LowBit: "x"}} {
		before, _ := c.Meets(n, nil)
		if after, _ := none.Meets(n, nil); !before || after {
			t.Errorf("%s: %t, and of what was only named %t", what, before, after)
		}
	}
}
