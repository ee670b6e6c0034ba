package capability_test

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
)

// TestVerdictsAgree: over random contracts, needs and batches, the verdicts of a model say what the contract says, with the same reason.
func TestVerdictsAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	met := 0
	for n := range 20000 {
		conditions := map[string]made{}
		c, needs, batch := randomContract(t, r, conditions), randomNeeds(r), r.IntN(4)
		if n%2 == 0 { // those that ask for features alone are the ones that are decided beforehand
			needs = capability.Needs{Features: needs.Features, PromptTokens: needs.PromptTokens, OutputTokens: needs.OutputTokens}
		}
		model := pick(r, "m", "other")
		v := c.For(model)
		needs.Model = "whatever"
		got, why := v.Meets(&needs, batch)
		asked := needs
		asked.Model = model
		want, wantWhy := c.Meets(asked, capability.State{"batch": strconv.Itoa(batch)})
		if got != want || why.Why != wantWhy.Why || why.Feature != wantWhy.Feature {
			t.Fatalf("%+v of %+v, batch %d: %t %+v, want %t %+v", needs, c, batch, got, why, want, wantWhy)
		}
		if got {
			met++
			for _, f := range needs.Features {
				if cell, _ := v.Cell(f); cell.Proven() == capability.Roadmap {
					t.Fatalf("%s is on a roadmap, and was met", f)
				}
			}
		}
	}
	if met < 500 {
		t.Errorf("only %d were met: the test tries too little", met)
	}
}

// TestVerdictsAllocateNothing: they are asked for every request.
func TestVerdictsAllocateNothing(t *testing.T) {
	c := capability.Own(engine.Model{CanGenerate: true, HasTools: true, HasSampling: true})
	c.Context.MaxIn = capability.Know(4096)
	v := c.For("m")
	n := &capability.Needs{Features: []capability.Feature{capability.Chat, capability.Stream, capability.Tools, capability.TopK}, OutputTokens: 100}
	if got := testing.AllocsPerRun(100, func() {
		if ok, why := v.Meets(n, 3); !ok {
			t.Error(why)
		}
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

// TestOwn: the contract of our own engine has what a model lists and nothing else, and is a document without faults.
func TestOwn(t *testing.T) {
	for _, tc := range []struct {
		model     engine.Model
		has, lack []capability.Feature
	}{
		{
			engine.Model{CanGenerate: true, HasTools: true, HasFormats: true, HasLogprobs: true, HasSampling: true, HasHooks: true, HasClasses: true},
			[]capability.Feature{
				capability.Chat, capability.Completions, capability.Stream, capability.Seed, capability.Stop, capability.Choices, capability.ToolsParallel,
				capability.FormatGrammar, capability.TopLogprobs, capability.Echo, capability.Hook, capability.Classes,
			},
			[]capability.Feature{capability.Embeddings, capability.Rerank, capability.ImageIn, capability.Adapters},
		},
		{engine.Model{CanGenerate: true, PromptOnly: true}, []capability.Feature{capability.Completions}, []capability.Feature{capability.Chat, capability.Tools, capability.FormatObject, capability.Logprobs, capability.TopK}},
		{engine.Model{CanEmbed: true}, []capability.Feature{capability.Embeddings}, []capability.Feature{capability.Chat, capability.Rerank}},
		{engine.Model{CanScore: true}, []capability.Feature{capability.Rerank}, []capability.Feature{capability.Chat, capability.Embeddings}},
	} {
		c := capability.Own(tc.model)
		if errs := c.Check(); len(errs) > 0 {
			t.Error(errs)
		}
		v := c.For("m")
		for _, f := range capability.Features() {
			ok, why := v.Meets(&capability.Needs{Features: []capability.Feature{f}, Least: capability.E3}, 1)
			if want := slices.Contains(tc.has, f); want && !ok || ok && slices.Contains(tc.lack, f) {
				t.Errorf("%+v: %s: %t %v", tc.model, f, ok, why.Why)
			}
		}
	}
}

// TestReasonsNameParameters: whoever is refused reads which member of his request it was.
func TestReasonsNameParameters(t *testing.T) {
	for f, want := range map[capability.Feature]string{
		capability.Chat: "messages", capability.ToolsNamed: "tool_choice", capability.ToolsParallel: "parallel_tool_calls", capability.FormatRegex: "response_format",
		capability.Choices: "n", capability.Seed: "seed", capability.Stop: "stop", capability.TopK: "top_k", capability.LogitBias: "logit_bias", capability.TopLogprobs: "top_logprobs",
		capability.Completions: "prompt", capability.Embeddings: "model", capability.Stream: "stream", capability.Tools: "tools", capability.Logprobs: "logprobs",
	} {
		if got := (capability.Reason{Feature: f}).Parameter(); got != want {
			t.Errorf("%s: %s, want %s", f, got, want)
		}
	}
}

// TestBusy: that an instance would meet the needs with less to do is told apart from that it would not.
func TestBusy(t *testing.T) {
	for when, want := range map[string]bool{"batch <= 8": true, `batch <= 8 and device.vendor == "huawei"`: false, "batch > 20": false} {
		c := &capability.Contract{
			Hardware: capability.Hardware{Vendor: capability.Know("nvidia")},
			Features: map[capability.Feature]capability.Cell{capability.Seed: {Status: capability.Claimed, Grade: capability.E1, Owner: capability.OwnerEngine, When: parse(t, when)}},
		}
		if ok, why := c.For("m").Meets(&capability.Needs{Features: []capability.Feature{capability.Seed}}, 9); ok || why.Busy != want {
			t.Errorf("%s: %t, busy %t", when, ok, why.Busy)
		}
	}
}
