package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// messageBatch is a batch as Anthropic's dialect shows it.
type messageBatch struct {
	ID, Type string
	Status   string `json:"processing_status"`
	Counts   struct {
		Processing, Succeeded, Errored, Canceled, Expired int64
	} `json:"request_counts"`
	CreatedAt         time.Time  `json:"created_at"`
	ExpiresAt         time.Time  `json:"expires_at"`
	EndedAt           *time.Time `json:"ended_at"`
	ArchivedAt        *time.Time `json:"archived_at"`
	CancelInitiatedAt *time.Time `json:"cancel_initiated_at"`
	ResultsURL        *string    `json:"results_url"`
}

// messageOutcome is a line of its results.
type messageOutcome struct {
	CustomID string `json:"custom_id"`
	Result   struct {
		Type    string
		Message struct {
			Type, ID string
			Content  []struct{ Text string }
		}
		Error struct {
			Type      string
			Error     struct{ Type, Code, Message string }
			RequestID string `json:"request_id"`
		}
	}
}

func message(id, text string) map[string]any {
	return map[string]any{"custom_id": id, "params": map[string]any{
		"model": "scripted", "max_tokens": 40, "messages": []any{map[string]any{"role": "user", "content": text}},
	}}
}

func (in *installation) untilEnded(key, id string) (b messageBatch) {
	in.t.Helper()
	eventually(in.t, "batch "+id+" to end", func() bool {
		b = messageBatch{}
		in.send(http.MethodGet, "/v1/messages/batches/"+id, key, nil).decode(in.t, &b)
		return b.Status == "ended"
	})
	return b
}

func (in *installation) messageResults(key string, b messageBatch) map[string]messageOutcome {
	in.t.Helper()
	r := in.send(http.MethodGet, "/v1/messages/batches/"+b.ID+"/results", key, nil)
	if r.status != http.StatusOK || r.header.Get("Content-Type") != "application/x-jsonl" || b.ResultsURL == nil || *b.ResultsURL != in.started.BaseURL+"/messages/batches/"+b.ID+"/results" {
		in.t.Fatalf("%d %v %s, of %+v", r.status, r.header, r.body, b)
	}
	out := map[string]messageOutcome{}
	for line := range bytes.Lines(r.body) {
		var o messageOutcome
		if err := json.Unmarshal(line, &o); err != nil {
			in.t.Fatalf("%s: %v", line, err)
		}
		out[o.CustomID] = o
	}
	return out
}

// testMessageBatch drives batches of messages in Anthropic's dialect: the same runner, with other words.
func (in *installation) testMessageBatch(key, foreign string, gate, waiting chan struct{}) {
	t := in.t
	const phone = "13800138123"
	odd := message("odd", "x")
	odd["params"].(map[string]any)["model"] = "none-such"
	var made messageBatch
	in.send(http.MethodPost, "/v1/messages/batches?beta=true", key, map[string]any{"betas": []any{}, "requests": []any{message("a", "call "+phone), odd, message("b", "hi")}}, "Anthropic-Version", "2023-06-01").decode(t, &made)
	if made.Type != "message_batch" || made.Status != "in_progress" || made.Counts.Processing != 3 || made.ExpiresAt.Sub(made.CreatedAt) != 24*time.Hour || made.EndedAt != nil || made.ResultsURL != nil || !strings.HasPrefix(made.ID, "msgbatch_") {
		t.Fatalf("%+v", made)
	}
	b := in.untilEnded(key, made.ID)
	if c := b.Counts; c.Processing != 0 || c.Succeeded != 2 || c.Errored != 1 || c.Canceled+c.Expired != 0 || b.EndedAt == nil || b.ArchivedAt != nil {
		t.Errorf("%+v", b)
	}
	all := in.messageResults(key, b)
	if o := all["a"].Result; len(all) != 3 || o.Type != "succeeded" || o.Message.Type != "message" || !strings.HasPrefix(o.Message.ID, "msg_") || !strings.Contains(o.Message.Content[0].Text, phone) {
		t.Errorf("%+v", all)
	}
	if o := all["odd"].Result; o.Type != "errored" || o.Error.Type != "error" || o.Error.Error.Type != "not_found_error" || o.Error.Error.Code != "model_not_found" || !strings.HasPrefix(o.Error.RequestID, b.ID) {
		t.Errorf("%+v", o)
	}
	in.nowhere(phone)
	events := in.records(b.ID+".1", 2)
	if raw := string(events[1].raw); events[1].Outcome != "ok" || !strings.Contains(raw, `"class":"batch"`) || !strings.Contains(raw, `"dialect":"anthropic"`) || !strings.Contains(raw, `"batch":"`+b.ID+`"`) {
		t.Errorf("%s", raw)
	}

	cut := in.cutMessageBatch(key, gate, waiting)
	in.testMessagePages(key, foreign, []string{cut, b.ID})
	in.testWrongMessageBatches(key)

	deleted := in.send(http.MethodDelete, "/v1/messages/batches/"+b.ID, key, nil)
	if string(deleted.body) != `{"id":"`+b.ID+`","type":"message_batch_deleted"}`+"\n" && string(deleted.body) != `{"id":"`+b.ID+`","type":"message_batch_deleted"}` {
		t.Errorf("%d %s", deleted.status, deleted.body)
	}
	for _, path := range []string{"", "/results"} {
		if r := in.send(http.MethodGet, "/v1/messages/batches/"+b.ID+path, key, nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "not_found_error") {
			t.Errorf("%d %s", r.status, r.body)
		}
	}
	if r := in.send(http.MethodGet, "/v1/files?purpose=batch_output", key, nil); strings.Contains(string(r.body), b.ID) {
		t.Errorf("its results are left: %s", r.body)
	}
	in.send(http.MethodDelete, "/v1/messages/batches/"+cut, key, nil)
}

// cutMessageBatch makes a batch and cancels it at work.
func (in *installation) cutMessageBatch(key string, gate, waiting chan struct{}) string {
	t := in.t
	requests := make([]any, 5)
	for i := range requests {
		requests[i] = message(fmt.Sprint("w", i), fmt.Sprint("wait ", i))
	}
	var b messageBatch
	in.send(http.MethodPost, "/v1/messages/batches", key, map[string]any{"requests": requests}).decode(t, &b)
	<-waiting
	<-waiting
	for _, early := range []reply{in.send(http.MethodDelete, "/v1/messages/batches/"+b.ID, key, nil), in.send(http.MethodGet, "/v1/messages/batches/"+b.ID+"/results", key, nil)} {
		if early.status != http.StatusConflict || early.header.Get("X-Should-Retry") != "false" || !strings.Contains(string(early.body), "invalid_request_error") {
			t.Errorf("%d %s", early.status, early.body)
		}
	}
	in.send(http.MethodPost, "/v1/messages/batches/"+b.ID+"/cancel", key, nil).decode(t, &b)
	if b.Status != "canceling" || b.CancelInitiatedAt == nil || b.Counts.Processing != 5 {
		t.Errorf("%+v", b)
	}
	gate <- struct{}{}
	gate <- struct{}{}
	b = in.untilEnded(key, b.ID)
	if c := b.Counts; c.Succeeded != 2 || c.Canceled != 3 || c.Errored+c.Expired+c.Processing != 0 {
		t.Errorf("%+v", b)
	}
	if all := in.messageResults(key, b); len(all) != 5 || all["w0"].Result.Type != "succeeded" || all["w4"].Result.Type != "canceled" {
		t.Errorf("%+v", all)
	}
	return b.ID
}

// testMessagePages lists batches of messages, of which newest are all.
func (in *installation) testMessagePages(key, foreign string, newest []string) {
	t := in.t
	type list struct {
		Data    []messageBatch
		Object  *string
		HasMore bool    `json:"has_more"`
		FirstID *string `json:"first_id"`
		LastID  *string `json:"last_id"`
	}
	var one, next, before, none list
	in.send(http.MethodGet, "/v1/messages/batches?limit=1", key, nil).decode(t, &one)
	if len(one.Data) != 1 || one.Data[0].ID != newest[0] || !one.HasMore || *one.FirstID != newest[0] || *one.LastID != newest[0] || one.Object != nil {
		t.Errorf("%+v", one)
	}
	in.send(http.MethodGet, "/v1/messages/batches?limit=1000&after_id="+newest[0], key, nil).decode(t, &next)
	if len(next.Data) != 1 || next.Data[0].ID != newest[1] || next.HasMore {
		t.Errorf("%+v", next)
	}
	in.send(http.MethodGet, "/v1/messages/batches?before_id="+newest[1], key, nil).decode(t, &before)
	if len(before.Data) != 1 || before.Data[0].ID != newest[0] || before.HasMore {
		t.Errorf("%+v", before)
	}
	in.send(http.MethodGet, "/v1/messages/batches", foreign, nil).decode(t, &none)
	if len(none.Data) != 0 || none.FirstID != nil {
		t.Errorf("another tenant: %+v", none)
	}
	if r := in.send(http.MethodGet, "/v1/batches", key, nil); strings.Contains(string(r.body), newest[0]) {
		t.Errorf("the other dialect lists it: %s", r.body)
	}
	for _, path := range []string{"/v1/batches/" + newest[0], "/v1/messages/batches/" + in.firstBatch(key)} { // each shows its own
		if r := in.send(http.MethodGet, path, key, nil); r.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, r := range []reply{
		in.send(http.MethodGet, "/v1/messages/batches/"+newest[0], foreign, nil), in.send(http.MethodDelete, "/v1/messages/batches/"+newest[0], foreign, nil),
		in.send(http.MethodGet, "/v1/messages/batches/"+newest[0]+"/results", foreign, nil), in.send(http.MethodPost, "/v1/messages/batches/"+newest[0]+"/cancel", foreign, nil),
	} {
		if r.status != http.StatusNotFound {
			t.Errorf("another tenant: %d %s", r.status, r.body)
		}
	}
}

// firstBatch returns the id of a batch of files.
func (in *installation) firstBatch(key string) string {
	in.t.Helper()
	var page struct{ Data []shownBatch }
	in.send(http.MethodGet, "/v1/batches?limit=1", key, nil).decode(in.t, &page)
	return page.Data[0].ID
}

// testWrongMessageBatches: what cannot be asked makes no batch, and the refusal names the place.
func (in *installation) testWrongMessageBatches(key string) {
	ok := `{"custom_id":"a","params":{}}`
	var long strings.Builder
	for i := range 400 {
		fmt.Fprintf(&long, `,{"custom_id":"n%d","params":{"note":"%s"}}`, i, strings.Repeat("x", 40))
	}
	for body, want := range map[string]string{
		`[]`: "400 invalid_type ", `{}`: "400 missing_required_parameter requests", `{"requests":[]}`: "400 missing_required_parameter requests",
		`{"requests":{}}`:                                                             "400 invalid_type requests",
		`{"requests":[` + ok + `],"requests":[]}`:                                     "400 invalid_value requests",
		`{"requests":[` + ok + `,` + ok + `]}`:                                        "400 invalid_value requests[1].custom_id",
		`{"requests":[7]}`:                                                            "400 invalid_type requests[0]",
		`{"requests":[{"params":{}}]}`:                                                "400 missing_required_parameter requests[0].custom_id",
		`{"requests":[{"custom_id":"a"}]}`:                                            "400 missing_required_parameter requests[0].params",
		`{"requests":[{"custom_id":"a","params":[]}]}`:                                "400 invalid_type requests[0].params",
		`{"requests":[` + ok[:8] + "\xff" + ok[9:] + `]}`:                             "400 invalid_utf8 requests[0]",
		`{"requests":[{"custom_id":"a","params":{"stream":true}}]}`:                   "400 invalid_value requests[0].params.stream",
		`{"requests":[{"custom_id":"` + strings.Repeat("a", 600) + `","params":{}}]}`: "400 invalid_value requests[0].custom_id",
		`{"requests":[{"custom_id":"a","params":` + strings.Repeat("[", 99) + strings.Repeat("]", 99) + `}]}`: "413 nesting_too_deep requests[0]",
		`{"requests":[` + ok: "400 invalid_json ", `{"requests":[` + ok + `]} x`: "400 invalid_json ", `{"requests":[` + ok + `,]}`: "400 invalid_json ",
		`{"requests":[` + ok + long.String() + `]}`: "413 file_too_large ",
	} {
		r := in.send(http.MethodPost, "/v1/messages/batches", key, body, "Content-Type", "application/json")
		var e struct {
			Type  string
			Error struct{ Code, Param string }
		}
		if err := json.Unmarshal(r.body, &e); err != nil || e.Type != "error" || fmt.Sprint(r.status, " ", e.Error.Code, " ", e.Error.Param) != want {
			in.t.Errorf("%.100s: %d %s, want %s", body, r.status, r.body, want)
		}
	}
	for _, r := range []reply{
		in.send(http.MethodPost, "/v1/messages/batches", key, `{"requests":[`+ok+`]}`, "Idempotency-Key", "k"),
		in.send(http.MethodPost, "/v1/messages/batches", key, `{"requests":[`+ok+`]}`, "Content-Encoding", "gzip"),
		in.send(http.MethodPost, "/v1/messages/batches", key, `{"requests":[`+ok+`]}`, "Anthropic-Version", "2022-01-01"),
		in.send(http.MethodGet, "/v1/messages/batches?after_id=a&before_id=b", key, nil), in.send(http.MethodGet, "/v1/messages/batches?limit=0", key, nil),
	} {
		if r.status != http.StatusBadRequest {
			in.t.Errorf("%d %s", r.status, r.body)
		}
	}
}
