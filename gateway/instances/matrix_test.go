package instances

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// contracted is an engine that lists a model and knows more of it.
type contracted struct {
	engine.Engine

	model engine.Model
	known *capability.Verdicts
}

func (c *contracted) Models(context.Context) ([]engine.Model, error) {
	return []engine.Model{c.model}, nil
}

func (c *contracted) Capabilities(engine.ModelID) *capability.Verdicts { return c.known }

func condition(t *testing.T, text string) capability.Condition {
	t.Helper()
	c, err := capability.ParseCondition(text)
	ok(t, err)
	return c
}

// planted is a contract with a cell of every kind.
func planted(t *testing.T) *capability.Contract {
	t.Helper()
	claimed := func(when string) capability.Cell {
		return capability.Cell{Status: capability.Claimed, Grade: capability.E1, When: condition(t, when)}
	}
	same := claimed("batch <= 8")
	same.Fallback = capability.FallbackSame
	return &capability.Contract{
		Defaults: capability.Evidence{Owner: capability.OwnerEngine, Source: "docs"},
		Engine:   capability.Engine{Name: capability.Know("vllm"), Version: capability.Know("0.11.0"), Licence: capability.Know("Apache-2.0")},
		Hardware: capability.Hardware{Vendor: capability.Know("huawei"), Family: capability.Know("ascend"), Generation: capability.Know("910b")},
		Exec: capability.Exec{Modes: map[capability.Mode]capability.Cell{
			capability.Graph: claimed(`version.cann >= "8.0"`), capability.Eager: {Status: capability.Validated, Grade: capability.E3},
		}},
		Context: capability.Context{MaxIn: capability.Know(8192)},
		Models: []capability.ModelCells{
			{Match: "org/q*", MaxIn: capability.Know(2048), Features: map[capability.Feature]capability.Cell{capability.Rerank: claimed("")}},
		},
		Demands: map[string][]capability.Feature{"org/*": {capability.Chat}, "other": {capability.Reasoning}},
		Features: map[capability.Feature]capability.Cell{
			capability.Chat:         {Status: capability.Validated, Grade: capability.E3, Owner: capability.OwnerControl, Source: "report", Note: "ran here"},
			capability.Stream:       {Status: capability.Validated, Grade: capability.E2},
			capability.Tools:        claimed("batch <= 8"),
			capability.ToolsNamed:   claimed(`batch <= 8 and version.cann >= "8.0"`),
			capability.FormatSchema: same,
			capability.FormatRegex:  claimed(`device.vendor == "huawei"`),
			capability.FormatChoice: claimed(`device.vendor == "nvidia"`),
			capability.Logprobs:     claimed(`dtype == "bf16"`),
			capability.TopK:         {Status: capability.Roadmap},
			capability.MinP:         {Status: capability.Claimed, Grade: capability.E0},
			capability.Hook:         claimed(""),
			capability.ImageIn:      claimed("images <= 2 and prompt_tokens <= 1000"),
			capability.AudioIn:      claimed("images <= 2"),
			// Nobody has counted the tokens when a request is routed, and no instance runs none.
			capability.ToolsParallel: claimed("total_tokens < 4096 or output_tokens < 100"),
			capability.Stop:          claimed("batch < 1"),
		},
	}
}

func matrixOf(t *testing.T, members ...pool.Member) []MatrixRow {
	t.Helper()
	return matrixIn(t, newRegistry(t), members...)
}

func newRegistry(t *testing.T) *Registry {
	t.Helper()
	r, err := New(Config{}, snapshot.Config{}, Deps{DB: dbtest.SQLite(t), Pools: &pool.Set{}, Log: slog.New(slog.DiscardHandler)}, nil)
	ok(t, err)
	return r
}

// matrixIn is the matrix of a registry whose one pool has these members.
func matrixIn(t *testing.T, r *Registry, members ...pool.Member) []MatrixRow {
	t.Helper()
	r.deps.Pools.Replace("chat", members)
	r.deps.Pools.Refresh(t.Context())
	return r.Matrix()
}

func (row MatrixRow) cell(t *testing.T, f capability.Feature) MatrixCell {
	t.Helper()
	i := slices.IndexFunc(row.Cells, func(c MatrixCell) bool { return c.Feature == f })
	if i < 0 {
		t.Fatalf("no cell for %s", f)
	}
	return row.Cells[i]
}

// everything is a model that lists all that an engine can list.
func everything(id engine.ModelID) engine.Model {
	return engine.Model{
		ID: id, ContextTokens: 4096, CanGenerate: true, CanEmbed: true, CanScore: true, HasLogprobs: true, HasFormats: true, HasTools: true, HasHooks: true,
		HasClasses: true, HasSampling: true, HasTokens: true, HasDetokenize: true, EngineVersion: "listed",
	}
}

// TestEngineMatrix: a row says what the contract says, with the evidence of the whole contract where a cell has none, and no status above its grade.
func TestEngineMatrix(t *testing.T) {
	t.Parallel()
	e := &contracted{model: everything("qwen"), known: planted(t).For("org/qwen")}
	e.model.HasHooks = false
	rows := matrixOf(t,
		pool.Member{Name: "b", Kind: pool.KindRemote, Profile: "vllm", Engine: e},
		pool.Member{Name: "a", Kind: pool.KindNative, Engine: &contracted{model: engine.Model{ID: "small", CanGenerate: true, PromptOnly: true, HasTools: true}}},
	)
	if len(rows) != 2 || rows[0].Instance != "a" || rows[1].Instance != "b" {
		t.Fatalf("%+v", rows)
	}
	row := rows[1]
	if got := fmt.Sprint(row.Pool, row.Kind, row.Profile, row.State, row.Model, row.EngineModel, row.Contract, row.Engine, row.Version, row.Licence, row.Vendor,
		row.Family, row.Generation, row.ContextTokens, row.Demanded); got != "chatremotevllmreadyqwenorg/qwentruevllm0.11.0Apache-2.0huaweiascend910b2048 [chat]" {
		t.Error(got)
	}
	if m := row.Modes; len(m) != 2 || m[0].Mode != capability.Eager || m[0].Status != capability.Validated || m[1].Status != capability.Claimed ||
		m[1].When.String() != `version.cann >= "8.0"` || m[1].Owner != capability.OwnerEngine {
		t.Errorf("%+v", m)
	}
	if c := row.cell(t, capability.Chat); c.Status != capability.Validated || c.Owner != capability.OwnerControl || c.Source != "report" || c.Note != "ran here" {
		t.Errorf("%+v", c)
	}
	if c := row.cell(t, capability.Stream); c.Status != capability.Claimed || c.Owner != capability.OwnerEngine || c.Source != "docs" {
		t.Errorf("%+v: E2 bears out a claim", c)
	}
	for f, want := range map[capability.Feature]string{
		capability.Chat: "yes", capability.Stream: "yes", capability.FormatSchema: "yes", capability.FormatRegex: "yes", capability.Rerank: "yes",
		capability.Tools: "depends condition", capability.ToolsNamed: "no unknown", capability.ImageIn: "no unknown", capability.AudioIn: "yes",
		capability.ToolsParallel: "no unknown", capability.Stop: "no condition",
		capability.FormatChoice: "no condition", capability.Logprobs: "no unknown", capability.TopK: "no roadmap", capability.MinP: "no roadmap",
		capability.Hook: "no listing", capability.Seed: "no missing", capability.Embeddings: "no missing",
	} {
		c := row.cell(t, f)
		if got := string(c.Usable); got != want && got+" "+string(c.Why) != want {
			t.Errorf("%s: %s %s, want %s", f, got, c.Why, want)
		}
	}
}

// TestEngineMatrixListed: an engine that nothing is known of but its list has what it lists, proven by nothing.
func TestEngineMatrixListed(t *testing.T) {
	t.Parallel()
	all := everything("m")
	for name, m := range map[string]engine.Model{"all": all, "none": {ID: "m"}, "prompts": {ID: "m", CanGenerate: true, PromptOnly: true}} {
		row := matrixOf(t, pool.Member{Name: "only", Engine: &contracted{model: m}})[0]
		if row.Contract || row.EngineModel != "m" || row.Version != m.EngineVersion || row.ContextTokens != m.ContextTokens || len(row.Cells) != len(capability.Features()) {
			t.Errorf("%s: %+v", name, row)
		}
		for _, c := range row.Cells {
			if listed := c.Status == StatusListed; listed != (c.Usable == pool.UseYes) || c.Grade != capability.E0 || !listed && c.Status != StatusMissing {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if got, want := row.cell(t, capability.Chat).Usable == pool.UseYes, name == "all"; got != want {
			t.Errorf("%s: chat %v", name, got)
		}
		if got, want := row.cell(t, capability.Tools).Usable == pool.UseYes, name == "all"; got != want {
			t.Errorf("%s: tools %v", name, got)
		}
	}
}

// TestEngineMatrixOfParts: an instance that gets no request at all, for want of what the maker of its model demands or since it works on parts of
// requests, has no feature that may be used.
func TestEngineMatrixOfParts(t *testing.T) {
	t.Parallel()
	all := capability.Contract{Features: map[capability.Feature]capability.Cell{}}
	for _, f := range capability.Features() {
		if f != capability.Reasoning {
			all.Features[f] = capability.Cell{Status: capability.Validated, Grade: capability.E3}
		}
	}
	demanding, part := all, all
	demanding.Demands = map[string][]capability.Feature{"m": {capability.Reasoning}}
	part.Roles = capability.Know([]capability.Role{capability.RolePrefill})
	for why, contract := range map[capability.Why]*capability.Contract{WhyDemanded: &demanding, capability.WhyRole: &part} {
		row := matrixOf(t, pool.Member{Name: "only", Engine: &contracted{model: everything("m"), known: contract.For("m")}})[0]
		for _, c := range row.Cells {
			lacking := c.Feature == capability.Reasoning && c.Why == capability.WhyMissing
			if c.Usable != pool.UseNo || c.Why != why && !lacking {
				t.Errorf("%s: %+v", why, c)
			}
		}
	}
}

// anyCondition returns a condition over facts of every kind: what a load decides, what never changes, and what nobody knows when a request is routed.
func anyCondition(r *rand.Rand, depth int) string {
	if depth > 0 && r.IntN(3) > 0 {
		a, b := anyCondition(r, depth-1), anyCondition(r, depth-1)
		return []string{"(" + a + " and " + b + ")", "(" + a + " or " + b + ")", "not (" + a + ")"}[r.IntN(3)]
	}
	op := []string{"==", "!=", "<", "<=", ">", ">="}[r.IntN(6)]
	number := []string{"0", "1", "2", "2.5", "7", "8", "11", "40"}[r.IntN(8)]
	switch r.IntN(7) {
	case 0, 1, 2:
		return "batch " + op + " " + number
	case 3:
		return "batch in [" + number + ", 5]"
	case 4:
		return []string{"prompt_tokens", "output_tokens", "total_tokens", "images"}[r.IntN(4)] + " " + op + " " + number
	case 5:
		return []string{"version.engine", "version.cann"}[r.IntN(2)] + " " + op + ` "0.11.0"`
	default:
		return []string{`device.vendor == "huawei"`, `dtype == "bf16"`, `model == "m"`, `role == "joint"`}[r.IntN(4)]
	}
}

// TestEngineMatrixAgainstRouter: over random contracts and lists, what a cell says is what the router decides of a request that needs the feature, whatever
// the instance has to do. The load is the only fact that the router learns later.
func TestEngineMatrixAgainstRouter(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	maybe := func() capability.Condition {
		if r.IntN(2) == 0 {
			return capability.Condition{}
		}
		return condition(t, anyCondition(r, 2))
	}
	said, registry := map[pool.Use]int{}, newRegistry(t)
	for range 200 {
		contract := &capability.Contract{
			Engine: capability.Engine{Version: capability.Know("0.11.0")}, Hardware: capability.Hardware{Vendor: capability.Know("huawei")},
			Features: map[capability.Feature]capability.Cell{},
		}
		for _, f := range capability.Features() {
			if status := []capability.Status{"", capability.Roadmap, capability.Claimed, capability.Validated}[r.IntN(4)]; status != "" {
				contract.Features[f] = capability.Cell{
					Status: status, Grade: capability.Grade(r.IntN(4)), When: maybe(),
					Fallback: []capability.Fallback{"", capability.FallbackRefused, capability.FallbackSame}[r.IntN(3)],
				}
			}
		}
		if r.IntN(4) == 0 {
			contract.Roles = capability.Know([]capability.Role{capability.RoleDecode})
			contract.Roles.When = maybe()
		}
		if r.IntN(4) == 0 {
			contract.Demands = map[string][]capability.Feature{"m": {capability.Chat}}
		}
		model := everything("m")
		model.HasTools, model.HasFormats, model.CanEmbed = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
		e := &contracted{model: model}
		if r.IntN(8) > 0 {
			e.known = contract.For("m")
		}
		row := matrixIn(t, registry, pool.Member{Name: "only", Engine: e})[0]
		for _, c := range row.Cells {
			granted, loads := 0, 0
			for load := 1; load <= 60; load++ {
				loads++
				offer := pool.Offer{Model: &model, Known: e.known, Batch: load}
				if ok, _ := offer.Meets(&capability.Needs{Features: []capability.Feature{c.Feature}}); ok {
					granted++
				}
			}
			want := pool.UseDepends
			switch granted {
			case 0:
				want = pool.UseNo
			case loads:
				want = pool.UseYes
			}
			if said[want]++; c.Usable != want || (c.Why == "") != (want == pool.UseYes) {
				t.Fatalf("%s is %s (%s), and the router grants it at %d of %d loads: %+v", c.Feature, c.Usable, c.Why, granted, loads, contract.Features[c.Feature])
			}
		}
	}
	if said[pool.UseYes] < 100 || said[pool.UseNo] < 100 || said[pool.UseDepends] < 100 {
		t.Errorf("the test tries too little: %v", said)
	}
}
