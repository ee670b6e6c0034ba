package gateway

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
)

// signedAnswers are the alternatives of an answer as a signature is checked.
func signedAnswers(a *Answer) []signature.Answer {
	out := make([]signature.Answer, len(a.Choices))
	for i, c := range a.Choices {
		out[i] = signature.Answer{Text: c.Text, Reasoning: c.Reasoning, Refusal: c.Refusal}
		for _, k := range c.Calls {
			out[i].Calls = append(out[i].Calls, signature.Call{Name: k.Name, Arguments: k.Arguments})
		}
	}
	return out
}

// TestSignedAnswers: what is signed is what the caller has got, values put back and sentence included, however it came.
func TestSignedAnswers(t *testing.T) {
	for name, plan := range map[string]enginetest.Plan{
		"texts": {Texts: []string{"Dear ⟦1⟧, yes.", "No."}},
		"calls": {Texts: []string{"", "Wait."}, Calls: [][]engine.ToolCall{{{ID: "c", Name: "send", Arguments: `{"to":"⟦1⟧"}`}, {ID: "d", Name: "send", Arguments: `{}`}}}},
	} {
		for _, how := range []string{"stream", "blocking", "in one piece", "answer first"} {
			blocking := how != "stream"
			w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return plan })
			w.principal.LabelMode = identity.LabelText
			w.whole, w.answers = how == "in one piece", how == "answer first"
			if w.whole {
				w.wrap = func(e engine.Engine) engine.Engine { return onePiece{e} }
			}
			c := toolCall()
			c.Choices, c.Signature, c.Blocking = 2, signature.JWS, blocking
			r, a := chat(t, w, c)
			signer, err := w.Signer(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			x, err := signature.Verify(r.Summary().Signature, []signature.Key{signer.Key})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !x.Matches(signedAnswers(a)) {
				t.Errorf("%s, %s: %+v is about another answer than %+v", name, how, x, a)
			}
			w.Drain()
			outcome := w.log.events[len(w.log.events)-1]
			if x.Issuer != "test.local/audit" || x.Tenant != "acme" || x.Request != "req-1" || x.Receipt != r.Receipt || x.Time != outcome.Time ||
				x.Model != (signature.Model{Name: "chat", Version: "v1", Digest: "sha256:w", Precision: "q4"}) || !strings.Contains(string(x.Label), `"ProduceID":"req-1"`) || x.Policy != r.Policy {
				t.Errorf("%+v", x)
			}
			if outcome.Detail["signature_key"] != signer.ID {
				t.Errorf("the record says %v", outcome.Detail)
			}
		}
	}
}

func TestWhatIsNotSigned(t *testing.T) {
	w := newWorld(t, nil)
	if r, _ := chat(t, w, call("hello")); r.Summary().Signature != "" {
		t.Error("nobody asked, and it is signed")
	}
	w.signs = true
	if r, _ := chat(t, w, call("hello")); r.Summary().Signature == "" {
		t.Error("the policy has every answer signed, and this one is not")
	}
	w = newWorld(t, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"a long answer"}, Err: errBroken, FailAt: 1}
	})
	c := call("hello")
	c.Signature = signature.JWS
	r, err := w.Chat(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Collect(); err == nil || r.Summary().Signature != "" {
		t.Errorf("half an answer is signed: %v", err)
	}
	w = newWorld(t, nil)
	c = call("")
	c.Action, c.Input, c.Signature = ActionEmbed, []string{"text"}, signature.CMS
	if _, err := w.Embed(t.Context(), c); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != signature.Header {
		t.Errorf("vectors are signed: %v", err)
	}
}

// TestNoKeyNoAnswer: who wants a signature that cannot be had is told so before an engine works.
func TestNoKeyNoAnswer(t *testing.T) {
	w := newWorld(t, nil)
	w.signErr = fault.Wrap(errors.New("the database is away"), fault.CodeDatabaseUnavailable)
	c := call("hello")
	c.Signature = signature.JWS
	if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeDatabaseUnavailable) || len(w.engine.Requests()) > 0 || w.log.trail() != "outcome/refused" {
		t.Errorf("%v, trail %q", err, w.log.trail())
	}
}
