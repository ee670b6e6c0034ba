package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// newKeeping returns a kit that keeps answers.
func newKeeping(t *testing.T, cfg Config, plan func(n int, req *engine.Request) enginetest.Plan) (*kit, *gorm.DB) {
	t.Helper()
	k, db := newKit(t, cfg, plan), dbtest.SQLite(t)
	store, err := replies.New(replies.Config{
		DB: db, Keys: keyring.FromBytes(bytes.Repeat([]byte{7}, 32)), Suite: seal.Intl, Log: slog.New(slog.DiscardHandler), Life: time.Hour, ClaimLife: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	k.api.Keep(nil, nil, store)
	return k, db
}

// TestOneAnswerForOneKey: a request that is sent again with its key gets the answer that it had, whatever the dialect, and the engine is asked once.
func TestOneAnswerForOneKey(t *testing.T) {
	k, db := newKeeping(t, Config{}, nil)
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
	var kept, nobodys int64
	if err := db.Table("reply_replies").Count(&kept).Error; err != nil || kept != 7 { // and the response itself
		t.Errorf("%d answers are kept, %v", kept, err)
	}
	if err := db.Table("reply_replies").Where("subject = ''").Count(&nobodys).Error; err != nil || nobodys > 0 { // an erasure would not find them
		t.Errorf("%d answers are for nobody known, %v", nobodys, err)
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
	k, _ := newKeeping(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
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
	k, _ := newKeeping(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
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
	if resp, got := k.do(t, http.MethodGet, "/v1/responses/"+third.ID+"/input_items?order=up", nil); resp.StatusCode != http.StatusBadRequest || !strings.Contains(got, `"param":"order"`) {
		t.Errorf("an unknown order: %d %s", resp.StatusCode, got)
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
		k, _ := newKeeping(t, c.cfg, nil)
		resp, body := k.post(t, "/v1/responses", `{"model":"chat","input":"x"`+c.extra+`}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"store":false`) {
			t.Fatalf("%s: %d %s", name, resp.StatusCode, body)
		}
		if resp, body := k.do(t, http.MethodGet, "/v1/responses/"+decode[readResponse](t, body).ID, nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
}

// TestAnotherRequestWithAKey: where a request goes, and the headers that decide its answer or its record, are part of what its key stands for.
func TestAnotherRequestWithAKey(t *testing.T) {
	k, _ := newKeeping(t, Config{}, nil)
	send := func(path string, headers ...string) (*http.Response, string) {
		return k.do(t, http.MethodPost, path, strings.NewReader(hello+"}"), append([]string{"Idempotency-Key", "k"}, headers...)...)
	}
	if resp, body := send("/v1/chat/completions"); resp.StatusCode != http.StatusOK {
		t.Fatal(body)
	}
	for name, headers := range map[string][]string{
		"person": {"X-Sluice-On-Behalf-Of", "zhang"}, "purpose": {"X-Sluice-Purpose", "other"}, "session": {"X-Sluice-Session", "s"}, "class": {"X-Sluice-Class", "batch"},
	} {
		if resp, body := send("/v1/chat/completions", headers...); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "idempotency_key_reused") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	if resp, body := send("/v1/chat/completions?x=1"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("another query: %d %s", resp.StatusCode, body)
	}
	k.deny = access.InferenceGenerate
	if resp, body := send("/v1/chat/completions"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("who may no longer ask: %d %s", resp.StatusCode, body)
	}
}

// TestLostConnections: a request with a key is answered although its caller has left, so that it gets the answer when it asks again.
func TestLostConnections(t *testing.T) {
	hold, begun := make(chan struct{}), make(chan struct{}, 1)
	k, _ := newKeeping(t, Config{}, func(int, *engine.Request) enginetest.Plan {
		begun <- struct{}{}
		return enginetest.Plan{Start: hold}
	})
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.URL+"/v1/chat/completions", strings.NewReader(hello+"}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	req.Header.Set("Idempotency-Key", "k")
	left := make(chan error)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		left <- err
	}()
	<-begun
	leave()
	if err := <-left; err == nil {
		t.Fatal("the caller has not left")
	}
	close(hold)
	<-k.ended
	for { // the first one keeps its answer just after its outcome
		resp, body := k.do(t, http.MethodPost, "/v1/chat/completions", strings.NewReader(hello+"}"), "Idempotency-Key", "k")
		if resp.StatusCode == http.StatusConflict {
			continue
		}
		if resp.Header.Get("Idempotent-Replayed") != "true" || resp.Header.Get("X-Sluice-Receipt") == "" || !strings.Contains(body, `"choices"`) {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
		}
		break
	}
	if n := len(k.engine.Requests()); n != 1 || k.last().Outcome != "ok" {
		t.Errorf("the engine was asked %d times, %+v", n, k.last())
	}
}

// TestOtherPeoplesResponses: a conversation that goes on for another person is not stored, since an erasure of the first would not find it.
func TestOtherPeoplesResponses(t *testing.T) {
	k, _ := newKeeping(t, Config{}, nil)
	respond := func(person, previous string) readResponse {
		t.Helper()
		_, body := k.do(t, http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"chat","input":"x"`+previous+`}`), "X-Sluice-On-Behalf-Of", person)
		return decode[readResponse](t, body)
	}
	first := respond("zhang", "")
	same := respond("zhang", `,"previous_response_id":"`+first.ID+`"`)
	other := respond("li", `,"previous_response_id":"`+first.ID+`"`)
	for id, want := range map[string]int{first.ID: 200, same.ID: 200, other.ID: 404} {
		if resp, body := k.do(t, http.MethodGet, "/v1/responses/"+id, nil); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d: %s", id, resp.StatusCode, want, body)
		}
	}
	if other.Status != "completed" {
		t.Errorf("%+v", other)
	}
}

// TestAsksStayWhatTheyAre: what is kept under a key was asked with the digest of an earlier release, which had no headers for signatures and grades.
func TestAsksStayWhatTheyAre(t *testing.T) {
	t.Parallel()
	ask := func(header ...string) []byte {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
		for i := 0; i+1 < len(header); i += 2 {
			c.Request.Header.Set(header[i], header[i+1])
		}
		return asks(c)
	}
	before := seal.Label("POST", "/v1/chat/completions", "", "", "", "", "", "", "", string(make([]byte, sha256.Size)))
	if !bytes.Equal(ask(), before) {
		t.Errorf("%q, and before it was %q", ask(), before)
	}
	for _, grade := range []string{"L1", "L4"} {
		if bytes.Equal(ask(headerDataGrade, grade), before) || grade != "L4" && bytes.Equal(ask(headerDataGrade, grade), ask(headerDataGrade, "L4")) {
			t.Error("data of another grade is another request")
		}
	}
	if bytes.Equal(ask(signature.Header, string(signature.JWS)), before) {
		t.Error("an answer without a signature is given to who wants one")
	}
}
