package enginetest_test

import (
	"errors"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

func TestScriptedPassesTheSuite(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
		models, err := enginetest.NewScripted(nil).Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range models { // what its plan would have to do
			models[i].HasFormats, models[i].HasTools, models[i].HasSampling = false, false, false
		}
		return enginetest.NewScripted(nil, models...), enginetest.Options{Generate: "scripted", Embed: "scripted-embed", Score: "scripted-rerank"}
	})
}

func TestScriptedRemembersAndFails(t *testing.T) {
	boom := errors.New("boom")
	s := enginetest.NewScripted(func(n int, _ *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"abcdefghi"}, Err: boom, FailAt: n}
	})
	for want := range 3 {
		got := 0
		for ev, err := range enginetest.Ask(t.Context(), s, &engine.Request{Model: "scripted", Prompt: "p", Logprobs: -1}) {
			if err != nil && !errors.Is(err, boom) {
				t.Fatal(err)
			}
			if ev.Text != "" {
				got++
			}
		}
		if got != want {
			t.Errorf("failed after %d text events, want %d", got, want)
		}
	}
	if r := s.Requests(); len(r) != 3 || r[0].Prompt != "p" {
		t.Errorf("remembered %+v", r)
	}
}
