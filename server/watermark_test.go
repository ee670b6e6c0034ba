package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server/adminapi"
)

// markPolicy has answers marked, as mode says.
func markPolicy(mode string) string {
	return "schema: 2\nname: marks\nmodels: ['*']\ncollections: ['*']\nwatermark: " + mode + "\nentities: {default: {request: token, passage: token, answer: observe}}\n"
}

// toldMark is what a reply says of its watermark.
type toldMark struct {
	Applied             bool
	Scheme, Key, Reason string
	Tokens              int
}

const markedModel = "smollm2-135m-instruct"

// markQuestion is a chat of which a seed decides the answer, which has so many tokens. The temperature leaves so much choice that the mark is found by any key.
func markQuestion(seed, tokens int, more string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"Tell me about the town where you were born."}],"temperature":1.6,"seed":%d,"max_tokens":%d,"min_tokens":%d%s}`, markedModel, seed, tokens, tokens, more)
}

// asked returns the texts of a chat, and what it says of the watermark.
func (in *installation) markedChat(key, body string) (texts []string, m *toldMark, r reply) {
	in.t.Helper()
	r = in.send(http.MethodPost, "/v1/chat/completions", key, body)
	if r.status != http.StatusOK {
		in.t.Fatalf("%d %s", r.status, r.body)
	}
	var a struct {
		Choices []struct{ Message struct{ Content string } }
		Sluice  struct{ Watermark *toldMark }
	}
	r.decode(in.t, &a)
	for _, c := range a.Choices {
		texts = append(texts, c.Message.Content)
	}
	return texts, a.Sluice.Watermark, r
}

func (in *installation) detected(text, tenant string) (f adminapi.WatermarkFinding) {
	in.t.Helper()
	path := "/watermark/detect"
	if tenant != "" {
		path += "?tenant=" + tenant
	}
	in.admin(http.MethodPost, path, map[string]string{"text": text}, &f)
	return f
}

// TestWatermarks: answers of the real model are marked as the policy says, in every dialect, and found by the keys of their tenant alone, after rotations too;
// what cannot carry a mark is byte for byte as without one.
func TestWatermarks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	in := start(t, setup{
		plan:      func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Texts: []string{"from elsewhere"}} },
		overrides: map[string]any{"engines.native.models": []any{map[string]any{"id": markedModel, "path": testmodel.Path(t, "smollm2-135m-instruct-q4_1.gguf")}}},
	})
	key := in.started.Welcome.APIKey.Reveal()
	shape := `,"response_format":{"type":"json_object"}`
	cold := strings.Replace(markQuestion(3, 12, ""), `"temperature":1.6`, `"temperature":0`, 1)
	shaped, none, _ := in.markedChat(key, markQuestion(3, 12, shape))
	coldest, _, _ := in.markedChat(key, cold)
	if none != nil {
		t.Errorf("nobody wants a watermark: %+v", none)
	}
	in.publish(markPolicy("on"))
	elsewhere := `{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`
	if texts, m, _ := in.markedChat(key, elsewhere); texts[0] != "from elsewhere" || m == nil || m.Applied || m.Reason != "engine" || m.Key != "" {
		t.Errorf("an engine that cannot mark: %q, %+v", texts, m)
	}
	if again, m, _ := in.markedChat(key, cold); again[0] != coldest[0] || m == nil || m.Applied || m.Reason != "temperature" {
		t.Errorf("temperature 0: %q, %+v; without a mark %q", again, m, coldest)
	}
	if f := in.detected("hello", ""); f.Verdict != "cannot_say" || *f.Reason != "key" {
		t.Errorf("nothing was to be marked: %+v", f)
	}

	if again, m, _ := in.markedChat(key, markQuestion(3, 12, shape)); again[0] != shaped[0] || m == nil || m.Applied || m.Reason != "structured" {
		t.Errorf("JSON: %q, %+v; without a mark %q", again, m, shaped)
	}
	if _, m, _ := in.markedChat(key, markQuestion(3, 12, `,"top_k":1`)); m == nil || m.Applied || m.Reason != "certain" {
		t.Errorf("one candidate: %+v", m)
	}

	first, m, r := in.markedChat(key, markQuestion(3, 96, ""))
	if m == nil || !m.Applied || m.Scheme != "gumbel" || m.Tokens < 64 || m.Reason != "" {
		t.Fatalf("%+v", m)
	}
	events := in.eventsOf(r.header.Get("X-Request-Id"), 2)
	if e := events[1]; e.Watermark != m.Key || !strings.Contains(e.Model.Replay, "gumbel-"+m.Key) || events[0].Watermark != "" {
		t.Errorf("the records say %q and %q, %q", events[0].Watermark, e.Watermark, e.Model.Replay)
	}
	in.found(t, first[0], m.Key)
	in.streamsAlike(t, key, first[0], m)
	in.dialectsTell(t, key, m.Key)
	in.batchTells(t, key, m.Key)

	two, both, _ := in.markedChat(key, markQuestion(4, 12, `,"n":2`))
	if two[0] == two[1] || !both.Applied || both.Tokens > 24 {
		t.Errorf("two choices: %q, %+v", two, both)
	}
	in.rotated(t, key, first[0], m.Key)
	in.revoked(t, key, first[0], m.Key)
	in.otherTenant(t, first[0])

	in.publish(markPolicy("required"))
	before := len(in.scripted.Requests())
	if r := in.send(http.MethodPost, "/v1/chat/completions", key, elsewhere); r.status != http.StatusBadRequest || !strings.Contains(string(r.body), `"code":"unsupported_parameter"`) || !strings.Contains(string(r.body), "watermark") || len(in.scripted.Requests()) > before {
		t.Errorf("an engine that cannot mark: %d %s", r.status, r.body)
	}
	in.publish(markPolicy("{mode: on, scheme: kgw, delta: 8, greedy: true}"))
	_, m, _ = in.markedChat(key, strings.Replace(markQuestion(3, 12, ""), `"temperature":1.6`, `"temperature":0`, 1))
	if m == nil || !m.Applied || m.Scheme != "kgw" {
		t.Errorf("%+v", m)
	}
	in.detectionsEnd(t)
}

// found expects the mark of a key, and nothing of the text in the record of whoever asks.
func (in *installation) found(t *testing.T, text, key string) {
	t.Helper()
	f := adminapi.WatermarkFinding{}
	r := in.admin(http.MethodPost, "/watermark/detect", map[string]string{"text": text}, &f)
	if f.Verdict != "found" || f.P > 1e-9 || f.Key == nil || f.Key.Id != key || f.Key.Number != 1 || f.CountedTokens < f.LeastTokens || *f.End <= *f.Begin || *f.BeginByte != 0 || *f.EndByte != len(text) {
		t.Errorf("%+v", f)
	}
	e := in.eventsOf(r.header.Get("X-Request-Id"), 1)
	last := e[len(e)-1]
	if last.Action != "admin.detectWatermark" || last.Detail["verdict"] != "found" || last.Detail["key"] != key {
		t.Errorf("%+v", last)
	}
	if f := in.detected(text[:40], ""); f.Verdict != "cannot_say" || *f.Reason != "short" || f.LeastTokens != 64 {
		t.Errorf("a short text: %+v", f)
	}
	plain := strings.Repeat("The council met on Tuesday and put off what it had to decide. ", 2) + "Nobody in the small harbour knew why the boats had come back so early that day, with nothing in their nets but weed and an old boot. " +
		"A lamp burned in the chandler's window. Somewhere behind the church a dog was barking at the tide, and the women who mend sails looked up from their work, one after another, and said nothing at all about it."
	if f := in.detected(plain, ""); f.Verdict != "not_found" || f.P < 1e-6 {
		t.Errorf("a text that nobody marked: %+v", f)
	}
}

// streamsAlike: with a seed, a stream has the bytes of a blocking answer, and its last event tells the same.
func (in *installation) streamsAlike(t *testing.T, key, want string, mark *toldMark) {
	t.Helper()
	r := in.send(http.MethodPost, "/v1/chat/completions", key, markQuestion(3, 96, `,"stream":true`))
	text, told := "", (*toldMark)(nil)
	for line := range strings.Lines(string(r.body)) {
		data, ok := strings.CutPrefix(line, "data: {")
		if !ok {
			continue
		}
		var ev struct {
			Choices []struct{ Delta struct{ Content string } }
			Sluice  struct{ Watermark *toldMark }
		}
		if err := json.Unmarshal([]byte("{"+data), &ev); err != nil {
			t.Fatal(err)
		}
		for _, c := range ev.Choices {
			text += c.Delta.Content
		}
		if ev.Sluice.Watermark != nil {
			told = ev.Sluice.Watermark
		}
	}
	if text != want || told == nil || *told != *mark {
		t.Errorf("%q, %+v\nwant %q, %+v", text, told, want, mark)
	}
}

// dialectsTell: every dialect says what came of the mark.
func (in *installation) dialectsTell(t *testing.T, key, mark string) {
	t.Helper()
	for path, body := range map[string]string{
		"/v1/completions": `{"model":%q,"prompt":"Once upon a time","max_tokens":12}`, "/v1/messages": `{"model":%q,"messages":[{"role":"user","content":"hello"}],"max_tokens":12}`,
		"/v1/responses": `{"model":%q,"input":"hello","max_output_tokens":16}`, "/api/chat": `{"model":%q,"stream":false,"messages":[{"role":"user","content":"hello"}],"options":{"num_predict":12}}`,
	} {
		r := in.send(http.MethodPost, path, key, fmt.Sprintf(body, markedModel))
		var a struct {
			Sluice struct{ Watermark *toldMark }
		}
		r.decode(t, &a)
		if m := a.Sluice.Watermark; r.status != http.StatusOK || m == nil || m.Scheme != "gumbel" || m.Key != mark || m.Applied != (m.Reason == "") {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
}

// batchTells: so does a line of a batch.
func (in *installation) batchTells(t *testing.T, key, mark string) {
	t.Helper()
	file := in.mustUpload(key, `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":`+markQuestion(5, 12, "")+"}\n")
	b := in.untilBatch(key, in.makeBatch(key, file.ID, "/v1/chat/completions").ID, "completed")
	line := in.results(key, b.Output)["a"]
	if line.Response == nil || !strings.Contains(string(line.Response.Body), `"watermark":{"applied":true,"scheme":"gumbel","key":"`+mark+`"`) {
		t.Errorf("%+v", line)
	}
}

// rotated: a rotation changes the mark, and what was marked before is found.
func (in *installation) rotated(t *testing.T, key, text, mark string) {
	t.Helper()
	var list adminapi.WatermarkKeyList
	in.admin(http.MethodPost, "/watermark/keys/rotate", nil, &list)
	if len(list.Items) != 2 || list.Items[1].Id != mark || list.Items[1].RetiredAt == nil || list.Items[0].RetiredAt != nil || list.Items[0].Number != 2 {
		t.Fatalf("%+v", list)
	}
	if _, m, _ := in.markedChat(key, markQuestion(3, 12, "")); m.Key != list.Items[0].Id {
		t.Errorf("%+v, want the key %s", m, list.Items[0].Id)
	}
	if f := in.detected(text, ""); f.Verdict != "found" || f.Key.Id != mark || f.Keys != 2 {
		t.Errorf("after a rotation: %+v", f)
	}
}

// revoked: what a revoked key finds proves nothing, and the verdict says why.
func (in *installation) revoked(t *testing.T, key, text, mark string) {
	t.Helper()
	var gone adminapi.WatermarkKey
	r := in.admin(http.MethodPost, "/watermark/keys/"+mark+"/revoke", nil, &gone)
	if gone.Id != mark || gone.RevokedAt == nil {
		t.Fatalf("%+v", gone)
	}
	if e := in.eventsOf(r.header.Get("X-Request-Id"), 2)[1]; e.Action != "admin.revokeWatermarkKey" || e.Resource != mark {
		t.Errorf("%+v", e)
	}
	if f := in.detected(text, ""); f.Verdict != "indication" || f.Key.Id != mark || f.Key.RevokedAt == nil {
		t.Errorf("after it was revoked: %+v", f)
	}
	var v adminapi.ProvenanceVerdict
	in.admin(http.MethodPost, "/audit/provenance", map[string]any{"text": text}, &v)
	if m := v.Marks.Watermark; m.Reason != "watermark_gone" || m.Result != "indicated" || m.Confidence != "none" {
		t.Errorf("%+v", m)
	}
}

// otherTenant: its keys find nothing.
func (in *installation) otherTenant(t *testing.T, text string) {
	t.Helper()
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	in.admin(http.MethodPost, "/watermark/keys/rotate?tenant=bank", nil, new(any))
	if f := in.detected(text, "bank"); f.Verdict != "not_found" || f.P < 1e-6 || f.Key != nil || f.Keys != 1 {
		t.Errorf("another tenant: %+v", f)
	}
}

// detectionsEnd: nobody asks without end.
func (in *installation) detectionsEnd(t *testing.T) {
	t.Helper()
	for range 21 {
		if r := in.send(http.MethodPost, "/api/v1/watermark/detect", in.session(), map[string]string{"text": "x"}); r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" {
			return
		}
	}
	t.Error("somebody may ask for findings without end")
}
