package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

// fakeRegistry has one key for all tenants.
type fakeRegistry struct{ fail error }

func (f fakeRegistry) Key(context.Context, string) (*fingerprint.Key, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	return fingerprint.NewKey(seal.Intl, make([]byte, fingerprint.SecretSize))
}

// expected is what is kept of an answer.
func expected(t *testing.T, a *Answer) string {
	t.Helper()
	key, err := fakeRegistry{}.Key(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	all := registry.NewAnswers(key, "")
	for i, c := range a.Choices {
		all.Text(i, c.Text)
		all.Reasoning(i, c.Reasoning)
		all.Refusal(i, c.Refusal)
		for k, call := range c.Calls {
			all.Call(i, k, call.Arguments)
		}
	}
	return string(all.Data())
}

// TestRegisteredAnswers: what is registered is what the caller has got, values put back and sentence included, however it came; with the outcome, and with whom it is about.
func TestRegisteredAnswers(t *testing.T) {
	for _, how := range []string{"stream", "blocking", "in one piece", "answer first"} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Texts: []string{"Dear ⟦1⟧, " + strings.Repeat("this is a long answer. ", 5), "No."}}
		})
		w.deps.Registry = fakeRegistry{}
		w.principal.LabelMode = identity.LabelText
		w.whole, w.answers = how == "in one piece", how == "answer first"
		if w.whole {
			w.wrap = func(e engine.Engine) engine.Engine { return onePiece{e} }
		}
		c := call("hello")
		c.Choices, c.Blocking = 2, how != "stream"
		_, a := chat(t, w, c)
		w.Drain()
		var marks []string
		for _, x := range w.log.kept {
			if x.form == audit.DirectionMark+"/" {
				marks = append(marks, x.text)
				if x.stage != audit.StageOutcome || x.subject == "" {
					t.Errorf("%s: a mark of the record %s, about %q", how, x.stage, x.subject)
				}
			}
		}
		if len(marks) != 1 || marks[0] != expected(t, a) {
			t.Errorf("%s: %d marks, of another answer than %+v", how, len(marks), a)
		}
	}
}

// TestLabelsLengthenNothing: an answer that is too short to be kept, because it could be guessed, is not kept for the sentence behind it.
func TestLabelsLengthenNothing(t *testing.T) {
	for text, want := range map[string]bool{"Approved by the directors.": false, "Approved by the directors, all of whom were there.": true} {
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{text}} })
		w.deps.Registry = fakeRegistry{}
		w.principal.LabelMode = identity.LabelText
		chat(t, w, call("hello"))
		w.Drain()
		kept := false
		for _, x := range w.log.kept {
			kept = kept || x.form == audit.DirectionMark+"/" && x.text != ""
		}
		if kept != want {
			t.Errorf("%q is kept: %t", text, kept)
		}
	}
}

// TestUnregistered: an answer that could not be registered is not asked for; without a registry nothing is kept.
func TestUnregistered(t *testing.T) {
	w := newWorld(t, nil)
	chat(t, w, call("hello"))
	for _, x := range w.log.kept {
		if x.form == audit.DirectionMark+"/" {
			t.Error("there is no registry")
		}
	}
	w.deps.Registry = fakeRegistry{fault.New(fault.CodeDatabaseUnavailable)}
	if _, err := w.Chat(t.Context(), call("hello")); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("%v", err)
	}
	count := call("hello")
	count.Action = ActionTokenize
	if _, err := w.Tokenize(t.Context(), count); fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("tokens are no answer: %v", err)
	}
	if n := len(w.engine.Requests()); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}
