package gateway

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// bounding is an engine that only knows bounds of lengths, as a server elsewhere does.
type bounding struct{ engine.Engine }

func (b bounding) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	p, err := b.Engine.Prepare(ctx, w)
	if err == nil {
		p.Tokens, p.Exact = p.Tokens+1000, false
	}
	return p, err
}

// TestLimitsAreSettledOnThePrompt: what the limits hold of a call at the engine is its prompt as it was counted and the longest completion, no estimate.
// Where that does not fit, the call is refused before anything is reserved or recorded as admitted, with the time to wait, and gives back what it held.
func TestLimitsAreSettledOnThePrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perMinute, completion = 400, 50
		w := newWorld(t, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"yes"}} })
		w.principal.Limits = identity.Limits{Concurrent: 1, TokensPerMinute: perMinute}
		ask := func(text string) *Call {
			c, most := call(text), completion
			c.MaxTokens = &most
			return c
		}
		r, _ := chat(t, w, ask(strings.Repeat("x", 300)))
		used := int(r.Summary().Usage.PromptTokens + r.Summary().Usage.CompletionTokens)
		if prompt := int(w.ledger.asks[0].PromptTokens); prompt <= 300/bytesPerToken+1 || r.Rate.Tokens.Remaining != perMinute-prompt-completion {
			t.Errorf("a prompt of %d tokens leaves %+v", prompt, r.Rate.Tokens)
		}
		long := strings.Repeat("x", 900)
		p, err := w.engine.Prepare(t.Context(), &engine.Request{Model: "scripted", Messages: ask(long).Messages})
		if err != nil {
			t.Fatal(err)
		}
		left := perMinute - used
		if short := p.Tokens + completion - left; short <= 0 || len(long)/bytesPerToken+2+completion > left {
			t.Fatalf("%d tokens more than fit, the estimate must fit: the test proves nothing", short)
		}
		_, err = w.Chat(t.Context(), ask(long))
		refusal := new(Refusal)
		if !fault.Is(err, fault.CodeTokenRateLimited) || !errors.As(err, &refusal) || refusal.Rate.Tokens.Remaining > left || refusal.Rate.Tokens.Limit != perMinute {
			t.Fatalf("%v, %+v", err, refusal)
		}
		wait := fault.Public(err).RetryAfter()
		if want := time.Duration(p.Tokens+completion-left) * time.Minute / perMinute; wait != want {
			t.Errorf("told to wait %v, want %v", wait, want)
		}
		if len(w.ledger.asks) != 1 || len(w.engine.Requests()) != 1 || w.log.trail() != "admitted outcome/ok outcome/refused" || !w.slotFree(t) {
			t.Errorf("reserved %d times, asked %d times, %q", len(w.ledger.asks), len(w.engine.Requests()), w.log.trail())
		}
		time.Sleep(wait) // of the test's own clock
		if r, _ = chat(t, w, ask(long)); r.Rate.Tokens.Remaining != 0 {
			t.Errorf("after the wait %+v is left", r.Rate.Tokens)
		}
	})
}

// TestLimitsKeepTheEstimate: where lengths are bounds, the estimate stays until usage is reported.
func TestLimitsKeepTheEstimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.principal.Limits.TokensPerMinute = 400
		w.wrap = func(e engine.Engine) engine.Engine { return bounding{e} }
		c, most := call(strings.Repeat("x", 300)), 50
		c.MaxTokens = &most
		size := c.size()
		if r, _ := chat(t, w, c); r.Rate.Tokens.Remaining != 400-size/bytesPerToken-1-most || w.ledger.asks[0].PromptTokens < 1000 {
			t.Errorf("%+v, reserved %+v", r.Rate.Tokens, w.ledger.asks[0])
		}
	})
}

// TestLimitsOfVectorsAndScores: they are counted by the engine, too, each text once.
func TestLimitsOfVectorsAndScores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		e := &preparing{}
		w.wrap = func(inner engine.Engine) engine.Engine { e.Engine = inner; return e }
		w.principal.Limits.TokensPerMinute = 100
		c := func() *Call {
			return &Call{Credential: "good", Permission: access.InferenceEmbed, RequestID: "e", Model: "m", Action: ActionEmbed}
		}
		vectors := c()
		vectors.Input = []string{strings.Repeat("x", 90), strings.Repeat("y", 60)} // 50 tokens; the estimate says 38
		got, err := w.Embed(t.Context(), vectors)
		if err != nil || got.Rate.Tokens.Remaining != 50 || w.ledger.asks[0].PromptTokens != 50 || len(e.prompts) != 1 {
			t.Fatalf("%v, %+v, reserved %+v, prepared %d times", err, got, w.ledger.asks, len(e.prompts))
		}
		scores := c()
		scores.Action, scores.Queries, scores.Documents = ActionScore, []string{"aaa", "aaa", "bbb"}, []string{strings.Repeat("x", 60), "y", strings.Repeat("z", 81)} // 51 tokens
		if _, err = w.Score(t.Context(), scores); !fault.Is(err, fault.CodeTokenRateLimited) || fault.Public(err).RetryAfter() != time.Minute/100 || len(e.prompts) != 3 || len(w.engine.Scores()) != 0 {
			t.Errorf("%v, prepared %d times", err, len(e.prompts))
		}
		long := c()
		long.Input = []string{"x", strings.Repeat("x", 3*600)}
		if _, err = w.Embed(t.Context(), long); !fault.Is(err, fault.CodeTokenRateLimited) { // by the estimate, before anything is prepared
			t.Error(err)
		}
		time.Sleep(time.Minute)
		w.principal.Limits.TokensPerMinute = 1000
		if _, err = w.Embed(t.Context(), long); !fault.Is(err, fault.CodeContextLength) || len(w.ledger.asks) != 1 || len(w.engine.Inputs()) != 1 {
			t.Errorf("a text that is too long: %v, reserved %d times", err, len(w.ledger.asks))
		}
	})
}
