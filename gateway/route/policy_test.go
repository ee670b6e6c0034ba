package route_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestPolicies: what is wrong is refused by its key.
func TestPolicies(t *testing.T) {
	many := strings.Split("a b c d e f g h i", " ")
	for want, p := range map[string][]route.Policy{
		"models[0].model":           {{}},
		"models[0].model:":          {{Model: "chat@v1"}},
		"models[1].model":           {{Model: "chat"}, {Model: "chat"}},
		"models[0].attempts":        {{Model: "chat", Attempts: 11}},
		"models[0].retry_percent":   {{Model: "chat", RetryPercent: 101}},
		"models[0].repeat_unknown":  {{Model: "chat", RepeatUnknown: "sometimes"}},
		"models[0].attempt_timeout": {{Model: "chat", AttemptTimeout: -time.Second}},
		"models[0].fallbacks":       {{Model: "*", Fallbacks: route.Fallbacks{Fault: []string{"chat"}}}},
		"models[0].fallbacks: ":     {{Model: "chat", Fallbacks: route.Fallbacks{Fault: []string{"chat"}}}},
		"models[0].fallbacks: at":   {{Model: "chat", Fallbacks: route.Fallbacks{Context: many}}},
	} {
		if err := (route.Config{Models: p}).Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := (route.Config{Models: []route.Policy{{Model: "*"}, {Model: "chat", Fallbacks: route.Fallbacks{Fault: []string{"other"}, Context: []string{"other"}}}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestPoliciesOfModels: a model has its own policy, else that of all others, else the default; its budget outlives a reload; what is no model has none.
func TestPoliciesOfModels(t *testing.T) {
	set := pool.Each(nil)
	r, err := route.New(route.Config{Models: []route.Policy{{Model: "*", Attempts: 2}, {Model: "chat", Attempts: 5}}}, dbtest.SQLite(t), set, discard(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Resilience("chat") != nil {
		t.Error("there are policies before there are models")
	}
	set.Replace("native", []pool.Member{{Name: "native", Engine: enginetest.NewScripted(nil)}})
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"chat", "other"} {
		if err := r.Register(t.Context(), route.Version{Model: model, Version: "v1", Engine: "native", EngineModel: "scripted"}); err != nil {
			t.Fatal(err)
		}
	}
	chat := r.Resilience("chat")
	if chat.Attempts != 5 || r.Resilience("other").Attempts != 2 || r.Resilience("chat@v1") != nil || r.Resilience("nobody") != nil {
		t.Errorf("%+v", chat.Policy)
	}
	for chat.Spend() {
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c, err := r.Pick(route.Ask{Model: "chat@v1"}); err != nil || c.Resilience != chat || c.Resilience.CanSpend() {
		t.Errorf("%v: the budget is new after a reload", err)
	}
}

// TestBudget: whatever runs at the same time spends no more than was earned and saved.
func TestBudget(t *testing.T) {
	r := route.NewResilience(route.Policy{RetryPercent: 20})
	var spent atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				r.Earn()
				if r.Spend() {
					spent.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := spent.Load(); n > 810 || n < 790 {
		t.Errorf("%d of 4000 were repeated, of a fifth and ten", n)
	}
	var none *route.Resilience
	if none.Earn(); none.Spend() || none.CanSpend() {
		t.Error("without a policy there are retries")
	}
}
