package native

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/gguf"
)

// TestForget: what a tenant's prompts left in the caches is gone, also what tenants share and what lies on disk; another tenant's stays.
func TestForget(t *testing.T) {
	for name, cache := range map[string]PrefixCache{"memory": {}, "disk": {SpillDir: t.TempDir(), SpillMebibytes: 4}} {
		t.Run(name, func(t *testing.T) {
			e := openTiny(t, newTiny(gguf.Q8_0), Config{PrefixCache: cache})
			ask := func(tenant string, shared bool) int {
				t.Helper()
				c := collect(t.Context(), e, &engine.Request{
					Model: tinyID, Prompt: strings.Repeat("a common beginning ", 8) + tenant, MaxTokens: 20, Logprobs: -1, Tenant: tenant, SharedPrefix: shared,
				})
				if c.err != nil {
					t.Fatal(c.err)
				}
				return c.usage.CachedTokens
			}
			for range 2 {
				ask("a", false)
				ask("b", false)
			}
			ask("c", true)
			settled(t, e)
			if name == "disk" {
				e.loop.mu.Lock()
				e.generators[tinyID].tree.Evict(1000)
				e.loop.mu.Unlock()
			}
			before := e.Scheduler()[0]
			if before.Drafts.Namespaces != 3 {
				t.Fatalf("%+v", before.Drafts)
			}
			e.Forget("a")
			settled(t, e)
			g := e.generators[tinyID]
			if n := g.texts.Stats().Namespaces; n != 2 {
				t.Errorf("%d tenants' texts are left", n)
			}
			if s := g.tree.Stats(); s.Namespaces != 1 {
				t.Errorf("%+v", s)
			}
			if n := ask("a", false); n != 0 {
				t.Errorf("%d tokens of a forgotten prompt were found", n)
			}
			if n := ask("d", true); n != 0 {
				t.Errorf("%d tokens of a shared prompt were found", n)
			}
			if n := ask("b", false); n == 0 {
				t.Error("another tenant's prompt was forgotten")
			}
		})
	}
}

// What is being computed when its tenant is forgotten leaves nothing behind.
func TestForgetWhatRuns(t *testing.T) {
	e := openTiny(t, newTiny(gguf.Q8_0), Config{})
	forgotten := false
	for ev, err := range enginetest.Ask(t.Context(), e, &engine.Request{Model: tinyID, Prompt: strings.Repeat("a common beginning ", 8), MaxTokens: 200, Logprobs: -1, Tenant: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Text != "" && !forgotten { // its prompt is kept by now, and its end is to come
			forgotten = true
			e.Forget("a")
		}
	}
	settled(t, e)
	g := e.generators[tinyID]
	if s, d := g.tree.Stats(), g.texts.Stats(); s.Namespaces != 0 || d.Namespaces != 0 {
		t.Errorf("%+v, %+v", s, d)
	}
}
