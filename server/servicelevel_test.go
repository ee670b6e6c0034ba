package server_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestServiceLevel: what was asked shows in the report of the service level, as it ended: what the upstream broke is the service's, what the caller got wrong
// his own. Filters, documents and the tenant of the caller hold, and a span without traffic has no figures.
func TestServiceLevel(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	in := start(t, setup{
		extra: "sla: {objectives: [{model: scripted, availability: 99.9, first_token: {percent: 95, within: 1m}}]}\n",
		plan: func(int, *engine.Request) (p enginetest.Plan) {
			if broken.Load() {
				p.Err = errors.New("the engine broke")
			}
			return p
		},
	})
	say := func(text, model string) {
		in.chat(map[string]any{"model": model, "messages": []any{map[string]string{"role": "user", "content": text}}})
	}
	say("hello", "scripted")
	say("hello", "scripted")
	in.chat(map[string]any{"model": "scripted", "stream": true, "messages": []any{map[string]string{"role": "user", "content": "a long hello"}}})
	broken.Store(true)
	say("hello", "scripted")
	say("hello", "there-is-no-such-model")
	var level adminapi.ServiceLevel
	eventually(t, "five requests", func() bool {
		level = adminapi.ServiceLevel{}
		in.admin(http.MethodGet, "/sla", nil, &level)
		return level.Total.Requests == 5
	})
	if n := level.Total; n.Answered != 3 || n.Failures != 1 || n.Refused != 1 || n.Left != 0 || n.Judged != 4 || n.Good != 3 || n.Availability == nil || *n.Availability != 0.75 {
		t.Errorf("%+v", n)
	}
	if len(level.Lines) != 2 || *level.Lines[0].Model != "" || *level.Lines[1].Model != "scripted" || level.Lines[1].Total == nil || level.Lines[1].FirstToken.Requests != 1 || level.Lines[1].BetweenTokens == nil || len(level.Lines[1].Budgets) != 2 || level.HoursWithTraffic < 1 {
		t.Errorf("%+v", level.Lines)
	}
	read := func(query string) (out adminapi.ServiceLevel) {
		in.admin(http.MethodGet, "/sla?"+query, nil, &out)
		return out
	}
	if n := read("tenant=*&group_by=tenant,model").Total.Requests; n != 5 {
		t.Errorf("all tenants have %d requests", n)
	}
	if n := read("model=scripted").Total.Requests; n != 4 {
		t.Errorf("the model has %d requests", n)
	}
	if x := read("from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z"); x.Total.Availability != nil || x.Total.Requests != 0 || x.HoursWithTraffic != 0 || x.HoursOver != 24 {
		t.Errorf("a day without traffic: %+v", x.Total)
	}
	for query, want := range map[string]string{"month=2026-13": "month", "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z": "to", "from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z": "to"} {
		if r := in.admin(http.MethodGet, "/sla?"+query, nil, nil); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), want) {
			t.Errorf("%s: %d %s", query, r.status, r.body)
		}
	}
	month := time.Now().UTC().Format("2006-01")
	for format, want := range map[string]string{"csv": "scripted", "md": "75.0000", "pdf": "%PDF-", "docx": "PK"} {
		for _, language := range []string{"en", "zh-CN"} {
			if r := in.send(http.MethodGet, "/api/v1/sla?month="+month+"&format="+format, in.token, nil, "Accept-Language", language); r.status != http.StatusOK || !strings.Contains(string(r.body), want) {
				t.Errorf("%s: %d %.300s", format, r.status, r.body)
			}
		}
	}
	// Who is of another tenant sees his own, and no other.
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "other", "name": "Other"}, nil)
	stranger := in.newAccount("stranger", map[string]any{"tenant": "other"}, identity.RoleAuditor)
	if r := in.send(http.MethodGet, "/api/v1/sla?tenant=*", stranger.token, nil); r.status != http.StatusForbidden {
		t.Errorf("a stranger sees everybody's: %d %s", r.status, r.body)
	}
	if r := in.send(http.MethodGet, "/api/v1/sla", stranger.token, nil); r.status != http.StatusOK || !strings.Contains(string(r.body), `"requests":0`) {
		t.Errorf("a stranger's own: %d %s", r.status, r.body)
	}
}
