package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// traced is what the management API says of a text.
type traced struct {
	Characters int
	More       bool
	Matches    []struct {
		Record, Request string
		Choice          int
		Evidence        string
		Verified        int
		Share           float64
		Spans           []struct{ Start, End int }
	}
}

// TestTraceText traces answers over HTTP: whole, in part, changed a little and as a reader of pictures spells them, of dialects, alternatives, streams and
// repetitions; by the auditor of the tenant, and by that of another one, who finds nothing. No record has the text, and what is erased is found no more.
func TestTraceText(t *testing.T) {
	t.Parallel()
	english := "The committee met on the second floor and approved the revised budget for bridges, on condition that the river survey is repeated in spring."
	chinese := "委员会在二楼会议室开会，批准了修订后的桥梁预算，条件是春季重新进行河道勘测，并在三个月内提交书面报告，由财务处复核后归档备查。"
	in := start(t, setup{plan: func(_ int, req *engine.Request) enginetest.Plan {
		if strings.Contains(req.Messages[0].Content, "chinese") {
			return enginetest.Plan{Texts: []string{chinese}}
		}
		return enginetest.Plan{Texts: []string{english, "Quite another alternative, which nobody would take for the first one: the bridges are closed until further notice."}}
	}})
	const secret = "correct horse battery staple"
	in.admin(http.MethodPost, "/tenants", map[string]any{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/users", map[string]any{"tenant": "bank", "name": "checker", "password": secret, "roles": []string{"auditor"}}, new(any))
	var s struct {
		AccessToken string `json:"access_token"`
	}
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "checker", "password": secret}).decode(t, &s)
	own, foreign := in.signIn("auditor"), s.AccessToken
	trace := func(token, text string) (out traced) {
		t.Helper()
		got := in.send(http.MethodPost, "/api/v1/trace", token, map[string]string{"text": text})
		if got.status != http.StatusOK {
			t.Fatalf("trace: %d %s", got.status, got.body)
		}
		got.decode(t, &out)
		return out
	}

	key := in.started.Welcome.APIKey.Reveal()
	ask := func(path, user string, body map[string]any) string {
		t.Helper()
		body["model"] = "scripted"
		if user != "" {
			body["user"] = user
		}
		r := in.send(http.MethodPost, path, key, body)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, r.status, r.body)
		}
		return r.header.Get("X-Request-Id")
	}
	said := func(content string) []map[string]string {
		return []map[string]string{{"role": "user", "content": content}}
	}
	first := ask("/v1/chat/completions", "alice", map[string]any{"messages": said("english"), "n": 2})
	streamed := ask("/v1/chat/completions", "bob", map[string]any{"messages": said("chinese"), "stream": true})
	message := ask("/v1/messages", "", map[string]any{"messages": said("chinese, as a message"), "max_tokens": 100})
	for _, id := range []string{first, streamed, message} {
		in.records(id, 2)
	}

	if got := trace(own, "> "+strings.ToUpper(english)); len(got.Matches) != 1 || got.Matches[0].Request != first || got.Matches[0].Evidence == "exact" || got.Matches[0].Share != 1 {
		t.Errorf("the whole answer, quoted and in capitals: %+v", got)
	}
	if got := trace(own, strings.ReplaceAll(english, " ", "\n")); len(got.Matches) != 1 || got.Matches[0].Request != first || got.Matches[0].Evidence != "exact" || got.Matches[0].Record == "" {
		t.Errorf("the whole answer: %+v", got)
	}
	if got := trace(own, english[30:90]); len(got.Matches) != 1 || got.Matches[0].Request != first || got.Matches[0].Choice != 0 || got.Matches[0].Evidence == "exact" || got.Matches[0].Verified < 24 {
		t.Errorf("an excerpt: %+v", got)
	}
	if got := trace(own, "nobody would take for the first one: the bridges are closed"); len(got.Matches) != 1 || got.Matches[0].Choice != 1 {
		t.Errorf("the other alternative: %+v", got)
	}
	edited := strings.Replace(strings.Replace(english, "second", "third", 1), "river", "lake", 1)
	if got := trace(own, edited); len(got.Matches) != 1 || got.Matches[0].Share < 0.2 || got.Matches[0].Share > 0.95 || got.Matches[0].Evidence == "exact" {
		t.Errorf("an edited answer: %+v", got)
	}
	picture := strings.NewReplacer("，", ",", "。", ".", "二楼", "二 楼", "报告", "报 告").Replace(chinese) + "\n- 7 -"
	if got := trace(own, picture); len(got.Matches) != 2 || got.Matches[0].Share < 0.8 || got.Matches[0].Request != streamed || got.Matches[1].Request != message {
		t.Errorf("off a picture: %+v", got)
	}
	if got := trace(own, "There is no answer of this installation that has any of these words in this order, and so none is named here."); len(got.Matches) != 0 || got.Characters < 40 {
		t.Errorf("another text: %+v", got)
	}
	if got := trace(foreign, english); len(got.Matches) != 0 {
		t.Errorf("another tenant: %+v", got)
	}
	if r := in.send(http.MethodPost, "/api/v1/trace", own, map[string]string{"text": "too short"}); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), "40") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := in.send(http.MethodPost, "/api/v1/trace", foreign, map[string]string{"text": english, "tenant": "demo"}); r.status != http.StatusForbidden {
		t.Errorf("%d %s", r.status, r.body)
	}
	eventually(t, "the records of traces", func() bool {
		r := in.send(http.MethodGet, "/api/v1/audit/records?action=admin.traceText&limit=100", own, nil)
		if strings.Contains(string(r.body), "committee") || strings.Contains(string(r.body), "委员会") {
			t.Fatal("a record has the text")
		}
		return strings.Count(string(r.body), `"characters"`) >= 5
	})

	if r := in.send(http.MethodPost, "/api/v1/audit/erasures", in.signIn("compliance"), map[string]string{"subject": "alice"}); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if got := trace(own, english); len(got.Matches) != 0 {
		t.Errorf("what was erased: %+v", got)
	}
	if got := trace(own, chinese); len(got.Matches) != 2 {
		t.Errorf("what was not: %+v", got)
	}
}
