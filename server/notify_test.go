package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sluice-project/sluice/internal/database"
)

const (
	listenerSecret = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTQ3MTM="
	listenerToken  = "planted-token"
)

// listener is a webhook that collects what people are told.
type listener struct {
	url string
	mu  sync.Mutex
	got []string
}

func listen(t *testing.T) *listener {
	t.Helper()
	check, err := webhooks.NewWebhook(listenerSecret)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = check.Verify(body, r.Header)
		}
		if err != nil {
			t.Error(err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.got = append(l.got, string(body))
	}))
	t.Cleanup(s.Close)
	l.url = s.URL
	return l
}

// config is the part of a configuration that names the listener.
func (l *listener) config() string {
	return "notify: {channels: [{name: soc, kind: webhook, language: zh, url: '" + l.url + "/in?token=" + listenerToken + "', secret: '" + listenerSecret + "'}]}\n"
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.got, "\n")
}

// waitFor waits until an alert is told.
func (l *listener) waitFor(t *testing.T, code string) {
	t.Helper()
	eventually(t, code+" to be told", func() bool { return strings.Contains(l.text(), `"code":"`+code+`"`) })
}

// TestPeopleAreTold: what an installation has to tell reaches a configured channel, signed, in its language, and no text or secret goes with it.
func TestPeopleAreTold(t *testing.T) {
	t.Parallel()
	soc := listen(t)
	in := start(t, setup{extra: soc.config()})
	key := in.started.Welcome.APIKey.Reveal()
	in.send(http.MethodPost, "/v1/chat/completions", key, map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "planted-words"}}})
	eventually(t, "the usage to be recorded", func() bool { return in.usage("").Requests > 0 })
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "total", "limit_nano": 1}, new(any))
	in.restart() // a start looks at once
	soc.waitFor(t, "billing.budget_near")
	soc.waitFor(t, "billing.budget_spent")
	in.loseUsage()
	if v := in.verify(); v.Report.OK {
		t.Fatal("the verification has not noticed")
	}
	soc.waitFor(t, "audit.verification_failed")
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	all := soc.text() + in.logs.String()
	if !strings.Contains(all, "预算已用尽") {
		t.Errorf("not in the channel's language: %s", all)
	}
	for _, planted := range []string{"planted-words", listenerToken, key, listenerSecret} {
		if strings.Contains(all, planted) {
			t.Errorf("%q was told or logged", planted)
		}
	}
}

// loseUsage removes usage from the books behind the server's back.
func (in *installation) loseUsage() {
	in.t.Helper()
	db, err := database.Open(in.t.Context(), in.cfg.Database)
	if err != nil {
		in.t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	var guards []string
	err = db.Raw("SELECT 'DROP TRIGGER ' || name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'billing_usage'").Scan(&guards).Error
	for _, q := range append(guards, "DELETE FROM billing_usage") {
		if err == nil {
			err = db.Exec(q).Error
		}
	}
	if err != nil {
		in.t.Fatal(err)
	}
}
