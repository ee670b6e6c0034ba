package instances

import (
	"context"
	"fmt"
	"log/slog"
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
		Demands: map[string][]capability.Feature{"org/*": {capability.Reasoning}},
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
		},
	}
}

func matrixOf(t *testing.T, members ...pool.Member) []MatrixRow {
	t.Helper()
	pools := &pool.Set{}
	r, err := New(Config{}, snapshot.Config{}, Deps{
		DB: dbtest.SQLite(t), Pools: pools, Log: slog.New(slog.DiscardHandler), Configured: map[string][]pool.Member{"chat": members},
	}, nil)
	ok(t, err)
	pools.Refresh(t.Context())
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
		HasClasses: true, HasSampling: true, EngineVersion: "listed",
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
		row.Family, row.Generation, row.ContextTokens, row.Demanded); got != "chatremotevllmreadyqwenorg/qwentruevllm0.11.0Apache-2.0huaweiascend910b2048 [reasoning]" {
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
		capability.Tools: "depends unknown", capability.ToolsNamed: "depends unknown", capability.ImageIn: "depends unknown",
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
			if listed := c.Status == StatusListed; listed != (c.Usable == UsableYes) || c.Grade != capability.E0 || !listed && c.Status != StatusMissing {
				t.Errorf("%s: %+v", name, c)
			}
		}
		if got, want := row.cell(t, capability.Chat).Usable == UsableYes, name == "all"; got != want {
			t.Errorf("%s: chat %v", name, got)
		}
		if got, want := row.cell(t, capability.Tools).Usable == UsableYes, name == "all"; got != want {
			t.Errorf("%s: tools %v", name, got)
		}
	}
}

// TestEngineMatrixAgainstRouter: what the matrix calls usable the contract grants in every state, what it calls unusable in none, and of what depends there
// are states of both kinds, unless a fact that nobody knows stands in its way.
func TestEngineMatrixAgainstRouter(t *testing.T) {
	t.Parallel()
	contract := planted(t)
	contract.Demands = nil
	known := contract.For("org/qwen")
	row := matrixOf(t, pool.Member{Name: "only", Engine: &contracted{model: everything("qwen"), known: known}})[0]
	for _, c := range row.Cells {
		granted, states := 0, 0
		for _, batch := range []int{1, 8, 9, 500} {
			for _, length := range []int{1, 1000, 1001, 2000} {
				for images := range 4 {
					states++
					needs := capability.Needs{Features: []capability.Feature{c.Feature}, PromptTokens: length, Images: images, OutputTokens: 7}
					if yes, _ := known.Meets(&needs, batch); yes {
						granted++
					}
				}
			}
		}
		switch {
		case c.Usable == UsableYes && granted != states, c.Usable == UsableNo && granted != 0:
			t.Errorf("%s is %s, and the router grants it in %d of %d states", c.Feature, c.Usable, granted, states)
		case c.Usable == UsableDepends && (granted == states || granted == 0 && c.Feature != capability.ToolsNamed):
			t.Errorf("%s depends, and the router grants it in %d of %d states", c.Feature, granted, states)
		}
	}
}
