package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/erasure"
)

// TestErasingAPerson keeps what two people say, lets those read it who may, erases one over the API and the other from the command line beside
// the running server: their texts are gone, everybody else's stay, and the log verifies.
func TestErasingAPerson(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		erasing(t, setup{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		erasing(t, setup{database: dbtest.PostgresURL(t)})
	})
}

func erasing(t *testing.T, s setup) {
	in := start(t, s)
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": keepPolicy("masked")}, new(any))
	records := map[string][]string{}
	for _, who := range []string{"alice", "bob", "carol"} {
		r := in.chat(map[string]any{"model": "scripted", "user": who, "messages": []any{map[string]string{"role": "user", "content": "I am who asks: " + who}}})
		if r.status != http.StatusOK {
			t.Fatalf("%d %s", r.status, r.body)
		}
		for _, e := range in.eventsOf(r.header.Get("X-Request-Id"), 2) {
			records[who] = append(records[who], e.ID)
		}
	}
	officer, auditor := in.signIn("compliance"), in.signIn("auditor")
	type texts struct {
		Items []struct {
			Direction, Form, Text string
			Erased                bool
		}
	}
	kept := func(who string) (said string, erased int) {
		t.Helper()
		for _, id := range records[who] {
			var got texts
			r := in.send(http.MethodGet, "/api/v1/audit/records/"+id+"/content", officer, nil)
			if r.decode(t, &got); r.status != http.StatusOK || len(got.Items) != 1 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			said += got.Items[0].Direction + ":" + got.Items[0].Text
			if got.Items[0].Erased {
				erased++
			}
		}
		return said, erased
	}
	wants := func(who string, gone int) {
		t.Helper()
		said, erased := kept(who)
		if erased != gone || (gone == 0) != strings.Contains(said, "I am who asks: "+who) {
			t.Errorf("%s: %q, %d erased", who, said, erased)
		}
	}
	wants("alice", 0)
	wants("bob", 0)
	path := "/api/v1/audit/records/" + records["alice"][0] + "/content"
	for name, status := range map[string]int{
		"an auditor": in.send(http.MethodGet, path, auditor, nil).status, "nobody": in.send(http.MethodGet, path, "", nil).status,
		"of another tenant":      in.send(http.MethodGet, path+"?tenant=other", officer, nil).status,
		"erasing, as an auditor": in.send(http.MethodPost, "/api/v1/audit/erasures", auditor, map[string]string{"subject": "alice"}).status,
		"erasing elsewhere":      in.send(http.MethodPost, "/api/v1/audit/erasures", officer, map[string]string{"subject": "alice", "tenant": "other"}).status,
	} {
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
	for name, body := range map[string]map[string]string{
		"nobody": {}, "two": {"subject": "alice", "digest": strings.Repeat("a", 64)}, "no digest": {"digest": "alice"}, "empty": {"subject": ""},
	} {
		if r := in.send(http.MethodPost, "/api/v1/audit/erasures", officer, body); r.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}

	var done struct {
		Subject, Record string
		Keys, Contents  int64
	}
	r := in.send(http.MethodPost, "/api/v1/audit/erasures", officer, map[string]string{"subject": "alice"})
	if r.decode(t, &done); r.status != http.StatusCreated || done.Keys != 1 || done.Contents != 2 {
		t.Errorf("%d %s", r.status, r.body)
	}
	looked, err := server.PreviewErasure(t.Context(), in.cfg, "demo", "bob", slog.New(slog.DiscardHandler))
	if err != nil || looked.Goes.Keys != 1 {
		t.Errorf("%+v, %v", looked, err)
	}
	eventually(t, "the record of a look on the command line", func() bool {
		r := in.send(http.MethodGet, "/api/v1/audit/records?action=admin.previewErasure", auditor, nil)
		return strings.Count(string(r.body), looked.Subject) >= 2 && strings.Contains(string(r.body), `"command"`) && !strings.Contains(string(r.body), `"bob"`)
	})
	again, err := server.Erase(t.Context(), in.cfg, "demo", "bob", slog.New(slog.DiscardHandler))
	if err != nil || again.Gone.Keys != 1 || again.Gone.Contents != 2 {
		t.Errorf("%+v, %v", again, err)
	}
	wants("alice", 2)
	wants("bob", 2)
	wants("carol", 0)
	for _, e := range in.eventsOf(r.header.Get("X-Request-Id"), 2) { // of the interceptor
		b, err := json.Marshal(e)
		if err != nil || strings.Contains(string(b), "alice") || e.Stage == "outcome" && e.Resource != done.Subject {
			t.Errorf("%s, %v", b, err)
		}
	}
	list, err := server.Erasures(t.Context(), in.cfg, "demo", slog.New(slog.DiscardHandler))
	if err != nil || len(list) != 2 || list[0].Record != done.Record || list[1].Record != again.Record {
		t.Errorf("%+v, %v", list, err)
	}
	var said []string
	if err := server.EraseAgain(t.Context(), in.cfg, list, func(e erasure.Result) { said = append(said, e.Subject) }, slog.New(slog.DiscardHandler)); err != nil ||
		!slices.Equal(said, []string{list[0].Subject, list[1].Subject}) {
		t.Errorf("%v, %v", said, err)
	}
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Errorf("%+v", v)
	}
}
