package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// TestPeopleAreTold: what an installation has to tell reaches a configured channel, signed, and no text or secret goes with it.
func TestPeopleAreTold(t *testing.T) {
	t.Parallel()
	const secret = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTQ3MTM="
	check, err := webhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var got []string
	soc := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = check.Verify(body, r.Header)
		}
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, string(body))
	}))
	t.Cleanup(soc.Close)
	in := start(t, setup{extra: "notify: {channels: [{name: soc, kind: webhook, language: zh, url: '" + soc.URL + "/in?token=planted-token', secret: '" + secret + "'}]}\n"})
	key := in.started.Welcome.APIKey.Reveal()
	in.send(http.MethodPost, "/v1/chat/completions", key, map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "planted-words"}}})
	eventually(t, "the usage to be recorded", func() bool { return in.usage("").Requests > 0 })
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "total", "limit_nano": 1}, new(any))
	in.restart() // a start looks at once
	eventually(t, "the spent budget to be told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return strings.Contains(strings.Join(got, "\n"), `"code":"billing.budget_spent"`)
	})
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(got, "\n") + in.logs.String()
	if !strings.Contains(all, "预算已用尽") {
		t.Errorf("not in the channel's language: %s", got)
	}
	for _, planted := range []string{"planted-words", "planted-token", key, secret} {
		if strings.Contains(all, planted) {
			t.Errorf("%q was told or logged", planted)
		}
	}
}
