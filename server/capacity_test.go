package server_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

// TestScheduleIsRemoved sets a schedule that throttles the engine and removes it: the configured concurrency holds again at once, a
// second time changes nothing, and each is in the audit log.
func TestScheduleIsRemoved(t *testing.T) {
	t.Parallel()
	in := &installation{t: t, dir: t.TempDir(), logs: &lockedBuffer{}}
	file := filepath.Join(in.dir, "sluice.yaml")
	text := fmt.Sprintf("engines: {native: {models: [{id: chat, path: %q}], context_tokens: 512, threads: 1, concurrency: 48}}\nrag: {embedding_model: \"\"}\nworkflows: {namespace: capacity, embedded: {binary: %q}}\n",
		testmodel.Path(t, testmodel.SmolLM2), devtest.Binary(t))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, map[string]any{"data": filepath.Join(in.dir, "data"), "listen": "127.0.0.1:0", "workflows.enabled": true, "console": false})
	if err != nil {
		t.Fatal(err)
	}
	in.run(cfg)
	type capacity struct {
		Scheduled               bool
		Configured, Concurrency int
		Schedule                *struct{ Timezone string }
	}
	ask := func(method string, body any) capacity {
		t.Helper()
		var c capacity
		in.admin(method, "/capacity", body, &c)
		return c
	}
	engine := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("an engine with %d", want), func() bool {
			var s struct {
				Items []struct {
					Limit int `json:"concurrency_limit"`
				}
			}
			var c struct{ Instances []adminapi.EngineInstance }
			in.admin(http.MethodGet, "/engine/scheduler", nil, &s)
			in.admin(http.MethodGet, "/capacity", nil, &c)
			return len(s.Items) == 1 && s.Items[0].Limit == want && len(c.Instances) == 1 && *c.Instances[0].ConcurrencyLimit == want
		})
	}
	free := capacity{Configured: 48, Concurrency: 48}
	if c := ask(http.MethodGet, nil); c != free {
		t.Errorf("before: %+v", c)
	}
	if c := ask(http.MethodDelete, nil); c != free {
		t.Errorf("removed without one: %+v", c)
	}
	tight := map[string]any{"timezone": "Asia/Shanghai", "peak": []any{}, "peak_concurrency": 1, "valley_concurrency": 1}
	if c := ask(http.MethodPut, tight); !c.Scheduled || c.Concurrency != 1 || c.Configured != 48 || c.Schedule == nil {
		t.Errorf("set: %+v", c)
	}
	engine(1)
	for range 2 {
		if c := ask(http.MethodDelete, nil); c != free {
			t.Errorf("removed: %+v", c)
		}
	}
	engine(48)
	if c := ask(http.MethodGet, nil); c != free {
		t.Errorf("after: %+v", c)
	}
}
