package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// newKeeping returns a kit that keeps answers.
func newKeeping(t *testing.T, cfg Config, plan func(n int, req *engine.Request) enginetest.Plan) *kit {
	t.Helper()
	k := newKit(t, cfg, plan)
	store, err := replies.New(replies.Config{
		DB: dbtest.SQLite(t), Keys: keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), Suite: seal.Intl, Log: slog.New(slog.DiscardHandler), Life: time.Hour, ClaimLife: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	k.api.Keep(nil, nil, store)
	return k
}

// TestOneAnswerForOneKey: a request that is sent again with its key gets the answer that it had, whatever the dialect, and the engine is asked once.
func TestOneAnswerForOneKey(t *testing.T) {
	k := newKeeping(t, Config{}, nil)
	asked := 0
	for path, body := range map[string]string{
		"/v1/chat/completions": hello + "}", "/v1/completions": `{"model":"chat","prompt":"x"}`, "/v1/messages": ask + "}", "/v1/responses": `{"model":"chat","input":"x"}`,
		"/v1/embeddings": `{"model":"embed","input":"x"}`, "/v1/rerank": `{"model":"rank","query":"x","documents":["y"]}`,
	} {
		once := func(body string) (*http.Response, string) {
			return k.do(t, http.MethodPost, path, strings.NewReader(body), "Idempotency-Key", "key of "+path)
		}
		first, answer := once(body)
		if first.StatusCode != http.StatusOK || first.Header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%s: %d %s", path, first.StatusCode, answer)
		}
		records := len(k.events)
		again, same := once(body)
		if again.StatusCode != http.StatusOK || same != answer || again.Header.Get("Idempotent-Replayed") != "true" || len(k.events) != records || again.Header.Get("Content-Type") != first.Header.Get("Content-Type") {
			t.Errorf("%s: %d %s, want %s", path, again.StatusCode, same, answer)
		}
		if strings.HasPrefix(path, "/v1/embed") || strings.HasPrefix(path, "/v1/rerank") {
			continue
		}
		asked++
		other, refusal := once(strings.Replace(body, `"model":"chat"`, `"model":"chat","temperature":0.5`, 1))
		if other.StatusCode != http.StatusBadRequest || !strings.Contains(refusal, "idempotency_key_reused") {
			t.Errorf("%s: another request: %d %s", path, other.StatusCode, refusal)
		}
		streamed, refusal := k.do(t, http.MethodPost, path, strings.NewReader(strings.Replace(body, `"model":"chat"`, `"model":"chat","stream":true`, 1)), "Idempotency-Key", "stream of "+path)
		if streamed.StatusCode != http.StatusBadRequest || !strings.Contains(refusal, `"Idempotency-Key"`) {
			t.Errorf("%s: a stream: %d %s", path, streamed.StatusCode, refusal)
		}
	}
	if n := len(k.engine.Requests()); n != asked {
		t.Errorf("the engine was asked %d times, want %d", n, asked)
	}
	for _, key := range []string{strings.Repeat("k", 256), "a\tb", "键"} {
		resp, body := k.do(t, http.MethodPost, "/v1/chat/completions", strings.NewReader(hello+"}"), "Idempotency-Key", key)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, `"param":"Idempotency-Key"`) {
			t.Errorf("%q: %d %s", key, resp.StatusCode, body)
		}
	}
}

// TestFailedRequestsGiveTheirKeyBack: what had no answer runs again, and what is at work is told to come back.
func TestFailedRequestsGiveTheirKeyBack(t *testing.T) {
	hold := make(chan struct{})
	plans := []enginetest.Plan{{Err: fault.New(fault.CodeEngineOverloaded, "chat")}, {Start: hold}}
	begun := make(chan struct{}, 1)
	k := newKeeping(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
		if n == 1 {
			begun <- struct{}{}
		}
		return plans[min(n, 1)]
	})
	send := func() (*http.Response, string) {
		return k.do(t, http.MethodPost, "/v1/chat/completions", strings.NewReader(hello+"}"), "Idempotency-Key", "k1")
	}
	if resp, body := send(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, body := k.do(t, http.MethodPost, "/v1/chat/completions", strings.NewReader("{"), "Idempotency-Key", "k1"); resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	answered := make(chan string)
	go func() {
		_, body := send()
		answered <- body
	}()
	<-begun
	resp, body := send()
	if resp.StatusCode != http.StatusConflict || !strings.Contains(body, "request_in_progress") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	close(hold)
	first := <-answered
	if _, body := send(); body != first || !strings.Contains(first, `"choices"`) {
		t.Errorf("%s, want %s", body, first)
	}
	if n := len(k.engine.Requests()); n != 2 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// TestPreviousResponses: a response goes on from an earlier one, with all that came before, and shows what was kept.
func TestPreviousResponses(t *testing.T) {
	k := newKeeping(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
		return enginetest.Plan{Texts: []string{fmt.Sprintf("answer %d", n)}}
	})
	respond := func(body string) readResponse {
		t.Helper()
		resp, got := k.post(t, "/v1/responses", `{"model":"chat",`+body+`}`)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, got)
		}
		if strings.HasPrefix(got, "event: ") {
			return streamedResponse(t, got)
		}
		return decode[readResponse](t, got)
	}
	first := respond(`"input":"one","instructions":"be kind"`)
	second := respond(`"input":[{"role":"user","content":"two"}],"previous_response_id":"` + first.ID + `","stream":true`)
	third := respond(`"input":"three","previous_response_id":"` + second.ID + `"`)
	var told []string
	for _, m := range k.engine.Requests()[2].Messages {
		told = append(told, m.Role+" "+m.Content)
	}
	if got, want := strings.Join(told, "; "), "user one; assistant answer 0; user two; assistant answer 1; user three"; got != want { // instructions are not carried on
		t.Errorf("%s, want %s", got, want)
	}
	_, shown := k.do(t, http.MethodGet, "/v1/responses/"+second.ID, nil)
	if r := decode[readResponse](t, shown); r.ID != second.ID || r.Output[0].Content[0].Text != "answer 1" || r.Status != "completed" || !strings.Contains(shown, `"store":true`) {
		t.Error(shown)
	}
	if e := k.last(); e.Action != "responses.read" || e.Resource != second.ID || e.Outcome != "ok" {
		t.Errorf("recorded %+v", e)
	}
	_, listed := k.do(t, http.MethodGet, "/v1/responses/"+third.ID+"/input_items", nil)
	if !strings.Contains(listed, `"text":"three"`) || strings.Contains(listed, "one") || !strings.Contains(listed, `"has_more":false`) {
		t.Error(listed)
	}
	_, deleted := k.do(t, http.MethodDelete, "/v1/responses/"+first.ID, nil)
	if !strings.Contains(deleted, `"deleted":true`) {
		t.Error(deleted)
	}
	respond(`"input":"four","previous_response_id":"` + third.ID + `"`) // the later ones have what they need
	for _, id := range []string{first.ID, "resp_none", "none", second.ID} {
		if id == second.ID {
			k.tenant = "other"
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if resp, body := k.do(t, method, "/v1/responses/"+id, nil); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %d %s", method, id, resp.StatusCode, body)
			}
		}
		resp, body := k.post(t, "/v1/responses", `{"model":"chat","input":"x","previous_response_id":"`+id+`"}`)
		if e := decode[openai.ErrorBody](t, body).Error; resp.StatusCode != http.StatusNotFound || deref(e.Param) != "previous_response_id" {
			t.Errorf("%s: %d %s", id, resp.StatusCode, body)
		}
	}
}

// TestForgottenResponses: nothing is kept where the caller or the installation does not want it, and the response says so.
func TestForgottenResponses(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		extra string
	}{"caller": {Config{}, `,"store":false`}, "installation": {Config{ForgetResponses: true}, `,"store":true`}, "too long": {Config{MaxBodyBytes: 1000}, `,"instructions":"` + strings.Repeat("x", 900) + `"`}} {
		k := newKeeping(t, c.cfg, nil)
		resp, body := k.post(t, "/v1/responses", `{"model":"chat","input":"x"`+c.extra+`}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"store":false`) {
			t.Fatalf("%s: %d %s", name, resp.StatusCode, body)
		}
		if resp, body := k.do(t, http.MethodGet, "/v1/responses/"+decode[readResponse](t, body).ID, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}
