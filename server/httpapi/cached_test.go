package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance"
)

// TestKeptAnswersOverHTTP: an equal request gets the answer that was kept, in its own dialect, as a stream where it asked for one, with a receipt of its own;
// header, body and record say so. Another tenant, another body and another policy get none.
func TestKeptAnswersOverHTTP(t *testing.T) {
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{"one two three four five"}}
	})
	exact := governance.Caching{On: true, Keep: true, TTL: time.Minute, Bytes: 1 << 20}
	k.cache = exact
	const chat = `{"model":"chat","temperature":0,"messages":[{"role":"user","content":"hello"}]`
	receipts := map[string]bool{}
	ask := func(path, body, want string) string {
		t.Helper()
		resp, got := k.post(t, path, body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Sluice-Cache") != want || want != "" && !strings.Contains(got, `"cache":"`+want+`"`) || want == "" && strings.Contains(got, `"cache"`) {
			t.Errorf("%s: %d, %q instead of %q: %s", path, resp.StatusCode, resp.Header.Get("X-Sluice-Cache"), want, got)
		}
		if r := resp.Header.Get("X-Sluice-Receipt"); receipts[r] {
			t.Errorf("two requests have the receipt %s", r)
		} else {
			receipts[r] = true
		}
		return got
	}
	ask("/v1/chat/completions", chat+"}", "miss")
	if got := ask("/v1/chat/completions", chat+"}", "hit"); !strings.Contains(got, "one two three four five") || !strings.Contains(got, `"cached_tokens":`) {
		t.Error(got)
	}
	if got := ask("/v1/chat/completions", chat+`,"stream":true}`, "hit"); strings.Count(got, "data: ") < 5 || !strings.HasSuffix(strings.TrimSpace(got), "data: [DONE]") {
		t.Errorf("the stream is %s", got)
	}
	k.tenant = "globex"
	ask("/v1/chat/completions", chat+"}", "miss")
	k.tenant = ""
	ask("/v1/chat/completions", chat+`,"max_tokens":7}`, "miss")
	ask("/v1/chat/completions", strings.Replace(chat, `"temperature":0`, `"temperature":1`, 1)+"}", "bypass")
	k.cache = governance.Caching{}
	ask("/v1/chat/completions", chat+"}", "")
	if n := len(k.engine.Requests()); n != 5 {
		t.Errorf("an engine was asked %d times", n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	states := map[string]int{}
	for _, e := range k.events {
		if e.Stage == audit.StageOutcome {
			states[e.Detail["cache"]]++
		}
	}
	if states["miss"] != 3 || states["hit"] != 2 || states["bypass"] != 1 || states[""] != 1 {
		t.Errorf("the records say %v", states)
	}
}
