package gateway

import (
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestModelsOfOtherTenants: a model that is for other tenants is not listed, not named instead of another, and asked for as if there were none;
// one that is gone may have been for others.
func TestModelsOfOtherTenants(t *testing.T) {
	w := newWorld(t, nil)
	names := func(tenant string) (out []string) {
		w.principal.Tenant = tenant
		got, err := w.Pipeline.Models(t.Context(), &Call{Credential: "good", Permission: access.ModelsRead, Action: ActionModels})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range got {
			out = append(out, m.Name)
		}
		return out
	}
	for tenant, want := range map[string]bool{"acme": false, "globex": true, "acme-2": true, "acm": false, "lobex": false} {
		found := false
		for _, n := range names(tenant) {
			found = found || n == "theirs"
			if n == "gone" {
				t.Errorf("%s sees a model that is gone", tenant)
			}
		}
		if found != want {
			t.Errorf("%s sees the model of globex and acme-2: %v", tenant, found)
		}
	}
	w.principal.Tenant, w.audience = "acme", engine.AudienceOf([]string{"globex"})
	_, err := w.Pipeline.Chat(t.Context(), call("hello"))
	if !fault.Is(err, fault.CodeModelNotFound) || len(w.engine.Requests()) != 0 {
		t.Errorf("a chat with another tenant's model: %v, the engine was asked %d times", err, len(w.engine.Requests()))
	}
	c := call("hello")
	c.Action = ActionEmbed // which it cannot: what it can is nobody's business either
	r := w.newRun(c, route.Generate)
	r.caller.Tenant = "acme"
	if err := r.route(t.Context()); !fault.Is(err, fault.CodeModelNotFound) {
		t.Errorf("asked for vectors: %v", err)
	}
	w.audience = engine.AudienceOf([]string{"acme"})
	if r, a := chat(t, w, call("hello")); r == nil || a == nil {
		t.Error("its own tenant gets no answer")
	}
}

// TestEnergyIsOfThisMachine: what was declared for this machine is not attributed to the work of another one.
func TestEnergyIsOfThisMachine(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		w := newWorld(t, nil)
		w.elsewhere = elsewhere
		chat(t, w, call("hello"))
		u := w.log.events[1].Usage
		if u.CompletionTokens == 0 || (u.Energy == 0) != elsewhere || (u.EnergyMethod == "") != elsewhere {
			t.Errorf("elsewhere %v: %+v", elsewhere, u)
		}
	}
}
