package httpapi

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag"
)

const hello = `{"model":"chat","messages":[{"role":"user","content":"hello there"}]`

func TestChatReply(t *testing.T) {
	slow, err := limit.NewMemory(limit.Config{Key: limit.Limits{RequestsPerMinute: 2, TokensPerMinute: 50_000_000}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k := newKitWith(t, Config{}, nil, func(d *gateway.Deps) { d.Limits = slow }) // nothing is given back before the reply
	resp, body := k.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"I am SECRET1 <b>"}],"n":2}`, "X-Client-Request-Id", "mine-1")
	if resp.StatusCode != 200 {
		t.Fatal(body)
	}
	got := decode[map[string]any](t, body)
	choice := got["choices"].([]any)[1].(map[string]any)
	msg := choice["message"].(map[string]any)
	if msg["content"] != "I am SECRET1 <b>" || msg["role"] != "assistant" || choice["finish_reason"] != "stop" || choice["index"] != 1.0 {
		t.Errorf("choice %v", choice)
	}
	if v, ok := msg["refusal"]; !ok || v != nil {
		t.Error("refusal must be present and null")
	}
	if v, ok := choice["logprobs"]; !ok || v != nil {
		t.Error("logprobs must be present and null")
	}
	if !strings.HasPrefix(got["id"].(string), "chatcmpl-") || got["object"] != "chat.completion" || got["model"] != "chat" || got["created"].(float64) < 1.7e9 || got["system_fingerprint"] == "" {
		t.Errorf("%v", got)
	}
	usage := got["usage"].(map[string]any)
	if usage["total_tokens"] != usage["prompt_tokens"].(float64)+usage["completion_tokens"].(float64) {
		t.Errorf("usage %v", usage)
	}
	ext := got["sluice"].(map[string]any)
	finding := ext["findings"].([]any)[0].(map[string]any)
	if ext["receipt"] != "receipt-1" || ext["policy"] != "policy-7" || finding["class"] != "secret" || finding["count"] != 1.0 ||
		ext["label"].(map[string]any)["AIGC"].(map[string]any)["ProduceID"] != "x" || ext["model"].(map[string]any)["version"] != "v1" ||
		ext["energy"].(map[string]any)["microjoules"] != 42.0 || ext["cost"].(map[string]any)["currency"] != "CNY" || ext["request_id"] != resp.Header.Get("X-Request-Id") {
		t.Errorf("extension %v", ext)
	}
	for h, want := range map[string]string{
		"X-Sluice-Receipt": "receipt-1", "X-Ratelimit-Limit-Requests": "2",
		"X-Ratelimit-Remaining-Requests": "1", "X-Content-Type-Options": "nosniff", "Content-Type": "application/json; charset=utf-8",
	} {
		if got := resp.Header.Get(h); got != want {
			t.Errorf("%s: %q, want %q", h, got, want)
		}
	}
	for _, h := range []string{"X-Sluice-Overhead-Ms", "Server-Timing", "X-Ratelimit-Reset-Tokens", "X-Request-Id", label.Header} {
		if resp.Header.Get(h) == "" {
			t.Errorf("%s is missing", h)
		}
	}
	if e := k.last(); e.Detail["client_request"] != "mine-1" || e.Request == "mine-1" || e.Source != "127.0.0.1" || e.Route != "POST /v1/chat/completions" {
		t.Errorf("record %+v", e)
	}
}

// slowEmbedder is an engine whose vectors wait in a queue.
type slowEmbedder struct{ engine.Engine }

func (e slowEmbedder) Embed(ctx context.Context, r *engine.Prompt) (*engine.Embeddings, error) {
	time.Sleep(400 * time.Millisecond)
	return e.Engine.Embed(ctx, r)
}

// slowParts are parts of a pipeline that take times by which they are told apart, on the clock of a bubble.
type slowParts struct{ *kit }

func (s slowParts) Allow(who identity.Principal, perm access.Permission, what string) error {
	time.Sleep(3 * time.Millisecond)
	return s.kit.Allow(who, perm, what)
}

func (s slowParts) Pick(a route.Ask) (route.Choice, error) {
	time.Sleep(500 * time.Microsecond)
	choice, err := s.kit.Pick(a)
	choice.Instance = pool.Alone(slowEmbedder{choice.Instance.Engine})
	return choice, err
}

func (s slowParts) Search(ctx context.Context, q rag.Query) ([]rag.Passage, error) {
	if _, err := q.Embed(ctx, []string{q.Text}, false); err != nil {
		return nil, err
	}
	time.Sleep(7 * time.Millisecond)
	return kitRAG{}.Search(ctx, q)
}

func (s slowParts) Read(ctx context.Context, d rag.Document) (*rag.ParsedDocument, error) {
	return kitRAG{}.Read(ctx, d)
}

func (s slowParts) Store(ctx context.Context, d *rag.ParsedDocument, embed rag.EmbedFunc) (rag.IngestResult, error) {
	return kitRAG{}.Store(ctx, d, embed)
}

func (s slowParts) Passages(ctx context.Context, q rag.PassageRef) ([]rag.Passage, error) {
	return kitRAG{}.Passages(ctx, q)
}

func (s slowParts) AppendWith(ctx context.Context, e audit.Event, subject string, texts ...audit.Text) (audit.Receipt, error) {
	time.Sleep(11 * time.Millisecond)
	return s.kit.AppendWith(ctx, e, subject, texts...)
}

// TestOwnTimeInHeaders: Server-Timing lists the steps, and all of them but the embedding engine's add up to X-Sluice-Overhead-Ms. The answering engine is in
// neither, streamed or not.
func TestOwnTimeInHeaders(t *testing.T) {
	for name, c := range map[string]struct{ path, body, overhead, timing string }{
		"a chat": {"/v1/chat/completions", hello + `}`, "14.500", "authenticate;dur=3.000, route;dur=0.500, record;dur=11.000"},
		"a stream with a search": {
			"/v1/chat/completions", `{"stream":true,"rag":{"collection":"docs"},` + hello[1:] + `}`, "25.000",
			"authenticate;dur=6.000, route;dur=0.500, retrieve;dur=7.500, embed;dur=400.000, record;dur=11.000",
		},
		"a search": {
			"/v1/rag/search", `{"collection":"docs","query":"fees"}`, "21.500",
			"authenticate;dur=3.000, retrieve;dur=7.500, embed;dur=400.000, record;dur=11.000",
		},
		"vectors": {"/v1/embeddings", `{"model":"embed","input":"x"}`, "14.500", "authenticate;dur=3.000, route;dur=0.500, record;dur=11.000"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newEdge(t, Config{}, nil, func(d *gateway.Deps) {
					parts := slowParts{d.Router.(*kit)}
					d.Access, d.Router, d.Retriever, d.Audit, d.Embedding = parts, parts, parts, parts, route.Ask{Model: "embed", Need: route.Embed}
				})
				reply := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, c.path, strings.NewReader(c.body))
				r.Header.Set("Authorization", "Bearer "+goodKey)
				k.edge.ServeHTTP(reply, r)
				if h := reply.Header(); reply.Code != 200 || h.Get("X-Sluice-Overhead-Ms") != c.overhead || h.Get("Server-Timing") != c.timing {
					t.Errorf("%d, %s ms of %s", reply.Code, h.Get("X-Sluice-Overhead-Ms"), h.Get("Server-Timing"))
				}
				time.Sleep(time.Second) // the records of the question are written while nobody waits for them
			})
		})
	}
}

func TestStream(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"one two three SECRET1"}],"n":2,"stream":true,"stream_options":{"include_usage":true}}`)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get(label.Header) == "" {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	evs := events(t, body)
	if evs[len(evs)-1] != openai.Done {
		t.Fatalf("the last event is %s", evs[len(evs)-1])
	}
	var id string
	text, roles, finished := map[int]string{}, map[int]bool{}, map[int]bool{}
	sawUsage, sawExtension := false, false
	for i, ev := range evs[:len(evs)-1] {
		var c openai.ChatChunk
		if err := json.Unmarshal([]byte(ev), &c); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			id = c.ID
		}
		if c.ID != id || c.Object != openai.ObjectChatChunk || c.Model != "chat" || c.Created == 0 || !strings.Contains(ev, `"choices":`) {
			t.Errorf("chunk %s", ev)
		}
		if len(c.Choices) == 0 {
			u := decode[openai.Usage](t, string(c.Usage))
			if sawUsage = true; i != len(evs)-2 || u.TotalTokens == 0 {
				t.Errorf("usage chunk %s at %d", ev, i)
			}
			continue
		}
		if string(c.Usage) != "null" {
			t.Errorf("other chunks carry usage null: %s", ev)
		}
		ch := c.Choices[0]
		if finished[ch.Index] {
			t.Errorf("choice %d goes on after its finish", ch.Index)
		}
		if first := !roles[ch.Index]; first != (ch.Delta.Role == "assistant") {
			t.Errorf("the role belongs to the first delta: %s", ev)
		}
		roles[ch.Index] = true
		if ch.Delta.Content != nil {
			text[ch.Index] += *ch.Delta.Content
		}
		finished[ch.Index] = ch.FinishReason != nil
		if c.Sluice != nil {
			sawExtension = true
			if ch.FinishReason == nil || len(finished) != 2 {
				t.Errorf("the extension belongs to the last finish: %s", ev)
			}
		}
	}
	if text[0] != "one two three SECRET1" || text[1] != text[0] || !sawUsage || !sawExtension || !finished[0] || !finished[1] {
		t.Errorf("text %v, usage %v, extension %v, finished %v", text, sawUsage, sawExtension, finished)
	}
	if _, body := k.post(t, "/v1/chat/completions", hello+`,"stream":true}`); strings.Contains(body, `"usage"`) {
		t.Error("usage was sent though nobody asked for it")
	}
}

// TestStreamEqualsBlocking over both endpoints, with log-probabilities.
func TestStreamEqualsBlocking(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for path, req := range map[string]string{
		"/v1/chat/completions": `{"model":"chat","messages":[{"role":"user","content":"héllo 世界 and more"}],"logprobs":true,"top_logprobs":2`,
		"/v1/completions":      `{"model":"chat","prompt":"héllo 世界 and more","logprobs":2`,
	} {
		_, whole := k.post(t, path, req+"}")
		_, stream := k.post(t, path, req+`,"stream":true}`)
		w := decode[map[string]any](t, whole)["choices"].([]any)[0].(map[string]any)
		var text, finish string
		var tokens []any
		for _, ev := range events(t, stream) {
			if ev == openai.Done {
				continue
			}
			ch := decode[map[string]any](t, ev)["choices"].([]any)[0].(map[string]any)
			if d, ok := ch["delta"].(map[string]any); ok {
				s, _ := d["content"].(string)
				text += s
			} else {
				text += ch["text"].(string)
			}
			if lp, ok := ch["logprobs"].(map[string]any); ok {
				if c, ok := lp["content"].([]any); ok {
					tokens = append(tokens, c...)
				} else {
					tokens = append(tokens, lp["text_offset"].([]any)...)
				}
			}
			if f, ok := ch["finish_reason"].(string); ok {
				finish = f
			}
		}
		wantText, _ := w["text"].(string)
		wantTokens, _ := w["logprobs"].(map[string]any)["text_offset"].([]any)
		if m, ok := w["message"].(map[string]any); ok {
			wantText = m["content"].(string)
			wantTokens = w["logprobs"].(map[string]any)["content"].([]any)
		}
		if text != wantText || finish != w["finish_reason"] || fmt.Sprint(tokens) != fmt.Sprint(wantTokens) || len(tokens) == 0 {
			t.Errorf("%s: streamed %q (%s) %v, whole %q %v", path, text, finish, tokens, wantText, wantTokens)
		}
		k.post(t, path, req[:strings.Index(req, `,"logprobs"`)]+"}")
		asked := k.engine.Requests()
		if n := len(asked); asked[n-3].NonStreaming || asked[n-2].NonStreaming || !asked[n-1].NonStreaming {
			t.Errorf("%s: the engine was asked for one piece: %v with log-probabilities, %v for a stream, %v for a blocking reply", path, asked[n-3].NonStreaming, asked[n-2].NonStreaming, asked[n-1].NonStreaming)
		}
	}
}

func TestLogprobsAreWithheldWhenMasked(t *testing.T) {
	k := newKit(t, Config{}, nil)
	_, body := k.post(t, "/v1/chat/completions", `{"model":"chat","messages":[{"role":"user","content":"SECRET1"}],"logprobs":true}`)
	got := decode[map[string]any](t, body)
	if got["choices"].([]any)[0].(map[string]any)["logprobs"] != nil || got["sluice"].(map[string]any)["logprobs_withheld"] != true {
		t.Error(body)
	}
}

// TestEachEventIsFlushed: the engine makes piece k+1 only when the client has read piece k.
func TestEachEventIsFlushed(t *testing.T) {
	step := make(chan struct{})
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.URL+"/v1/chat/completions", strings.NewReader(`{"model":"chat","stream":true,"messages":[{"role":"user","content":"abcdefghi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	go func() { step <- struct{}{} }()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := openai.NewEventReader(resp.Body, 1<<20)
	for _, want := range []string{`"abc"`, `"def"`, `"ghi"`} {
		ev, err := r.Next()
		if err != nil || !strings.Contains(string(ev.Data), want) {
			t.Fatalf("%s, %v; want %s", ev.Data, err, want)
		}
		if want != `"ghi"` {
			step <- struct{}{}
		}
	}
}

func TestKeepAlive(t *testing.T) {
	start := make(chan struct{})
	k := newKit(t, Config{KeepAlive: time.Millisecond}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.URL+"/v1/chat/completions", strings.NewReader(hello+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+goodKey)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	for range 3 {
		line, err := br.ReadString('\n')
		if err != nil || line != ": keep-alive\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if _, err := br.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	close(start)
	rest, err := io.ReadAll(br)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestFailureBeforeAndAfterTheFirstByte(t *testing.T) {
	for at := range 2 {
		k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan {
			return enginetest.Plan{Err: fault.New(fault.CodeEngineOverloaded, "chat").WithRetryAfter(2 * time.Second), FailAt: at}
		})
		resp, body := k.post(t, "/v1/chat/completions", hello+`,"stream":true}`)
		if at == 0 {
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "2" || resp.Header.Get("X-Sluice-Receipt") == "" || !strings.Contains(body, `"engine_overloaded"`) {
				t.Errorf("before: %d %v %s", resp.StatusCode, resp.Header, body)
			}
			continue
		}
		evs := events(t, body)
		last := decode[openai.ErrorBody](t, evs[len(evs)-1])
		if resp.StatusCode != 200 || strings.Contains(body, "[DONE]") || last.Error.Code != "engine_overloaded" || last.Error.Message == "" || strings.Contains(body, "finish_reason\":\"") {
			t.Errorf("after: %d %s", resp.StatusCode, body)
		}
		if e := k.last(); e.Outcome != "failed" {
			t.Errorf("record %+v", e)
		}
		resp, body = k.post(t, "/v1/chat/completions", hello+`}`)
		if resp.StatusCode != 503 || resp.Header.Get("X-Sluice-Receipt") == "" {
			t.Errorf("blocking: %d %s", resp.StatusCode, body)
		}
	}
}

func TestClientLeaves(t *testing.T) {
	for _, stream := range []bool{true, false} {
		step := make(chan struct{})
		k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.URL+"/v1/chat/completions",
			strings.NewReader(fmt.Sprintf(`{"model":"chat","stream":%v,"messages":[{"role":"user","content":"abcdefghijklmnopqrstuvwxyz"}]}`, stream)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+goodKey)
		go func() {
			for range 3 {
				step <- struct{}{}
			}
			cancel()
		}()
		if resp, err := http.DefaultClient.Do(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		<-k.ended
		e := k.last()
		n := e.Usage.CompletionTokens // the third may lose the race against the departure
		if e.Outcome != "aborted" || n < 2 || n > 3 || !e.Usage.Estimated || k.engine.Aborted() != 1 {
			t.Errorf("stream %v: %+v, aborted %d", stream, e, k.engine.Aborted())
		}
	}
}

func TestEmbeddings(t *testing.T) {
	k := newKit(t, Config{}, nil)
	_, body := k.post(t, "/v1/embeddings", `{"model":"embed","input":["a","b"]}`)
	floats := decode[openai.EmbeddingList](t, body)
	resp, body := k.post(t, "/v1/embeddings", `{"model":"embed","input":["a","b"],"encoding_format":"base64","dimensions":32}`)
	packed := decode[openai.EmbeddingList](t, body)
	if resp.Header.Get("X-Sluice-Receipt") == "" || len(floats.Data) != 2 || floats.Usage.TotalTokens == 0 || floats.Data[1].Index != 1 || floats.Object != "list" {
		t.Fatalf("%+v", floats)
	}
	for i := range floats.Data {
		raw, err := base64.StdEncoding.DecodeString(packed.Data[i].Embedding.(string))
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range floats.Data[i].Embedding.([]any) {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])); float64(got) != float64(float32(want.(float64))) {
				t.Fatalf("vector %d[%d]: %v, %v", i, j, got, want)
			}
		}
	}
	if resp, body := k.post(t, "/v1/embeddings", `{"model":"embed","input":"a","dimensions":33}`); resp.StatusCode != 400 || !strings.Contains(body, `"dimensions"`) {
		t.Error(body)
	}
}

func TestModels(t *testing.T) {
	k := newKit(t, Config{}, nil)
	_, body := k.do(t, http.MethodGet, "/v1/models", nil, "Accept-Language", "zh-CN")
	want := `{"object":"list","data":[` +
		`{"id":"chat","object":"model","created":1700000000,"owned_by":"native","sluice":{"status":"ready",` +
		`"capabilities":["chat","completions","streaming","tools","response_formats","logprobs","sampling","deterministic"],` +
		`"response_formats":["text","json_object","json_schema","regex","choice","grammar"],"context_tokens":4096,` +
		`"price":{"currency":"CNY","price_book":"v2","prompt_per_million":1.5,"cached_prompt_per_million":0.15,"completion_per_million":0.007},` +
		`"version":"v1","precision":"none"}},` +
		`{"id":"org/embed","object":"model","created":0,"owned_by":"upstream","sluice":{"status":"ready",` +
		`"capabilities":["embeddings","deterministic"],"context_tokens":512,"embedding_dimensions":32,` +
		`"price":{"currency":"CNY","price_book":"v2","prompt_per_million":1.5},"version":"v1"}},` +
		`{"id":"away","object":"model","created":0,"owned_by":"upstream","sluice":{"status":"unavailable",` +
		`"reason":"模型 'away' 的推理引擎不可用。请稍后重试。","capabilities":[],"version":"v1"}}]}`
	if body != want {
		t.Errorf("%s\nwant\n%s", body, want)
	}
	if _, body := k.do(t, http.MethodGet, "/v1/models/org/embed", nil); decode[openai.Model](t, body).ID != "org/embed" {
		t.Error(body)
	}
	if resp, body := k.do(t, http.MethodGet, "/v1/models/nope", nil); resp.StatusCode != 404 || !strings.Contains(body, "model_not_found") {
		t.Error(body)
	}
}

func TestSearchAndRAG(t *testing.T) {
	k := newKit(t, Config{}, nil)
	_, body := k.post(t, "/v1/rag/search", `{"collection":"docs","query":"fee","top_k":3}`)
	hit := decode[map[string]any](t, body)["data"].([]any)[0].(map[string]any)
	if hit["text"] != "5 <b>" || hit["document"] != "Fees" || hit["start"] != 3.0 || hit["chunk"] != 2.0 {
		t.Error(body)
	}
	_, body = k.post(t, "/v1/chat/completions", hello+`,"rag":{"collection":"docs"}}`)
	cited := decode[map[string]any](t, body)["sluice"].(map[string]any)["citations"].([]any)[0].(map[string]any)
	if cited["number"] != 1.0 || cited["document_id"] != "d1" {
		t.Error(body)
	}
	if resp, body := k.post(t, "/v1/chat/completions", hello+`,"rag":{"collection":"nope"}}`); resp.StatusCode != 404 || !strings.Contains(body, "collection_not_found") {
		t.Error(body)
	}
}

// TestEveryRouteIsGuarded: without a key, and without its permission, no route answers.
func TestEveryRouteIsGuarded(t *testing.T) {
	bodies := map[string]string{
		"/v1/chat/completions": hello + "}", "/v1/completions": `{"model":"chat","prompt":"x"}`, "/v1/embeddings": `{"model":"embed","input":"x"}`,
		"/v1/rag/search": `{"collection":"docs","query":"x"}`, "/v1/rag/passages": `{"collection":"docs","document_id":"d1","version":"v1","chunk":2}`, "/v1/rerank": `{"model":"rank","query":"x","documents":["y"]}`,
		"/rerank": `{"model":"rank","query":"x","documents":["y"]}`, "/v1/score": `{"model":"rank","text_1":"x","text_2":"y"}`,
		"/v1/messages": `{"model":"chat","max_tokens":9,"messages":[{"role":"user","content":"x"}]}`, "/v1/responses": `{"model":"chat","input":"x"}`, "/v1/responses/input_tokens": `{"model":"chat","input":"x"}`, "/v1/messages/count_tokens": `{"model":"chat","messages":[{"role":"user","content":"x"}]}`,
		"/api/chat": `{"model":"chat","messages":[{"role":"user","content":"x"}]}`, "/api/generate": `{"model":"chat","prompt":"x"}`, "/api/show": `{"model":"chat"}`,
		"/api/embed": `{"model":"embed","input":"x"}`, "/api/embeddings": `{"model":"embed","prompt":"x"}`,
		"/v1/tokenize": `{"model":"chat","prompt":"x"}`, "/tokenize": `{"model":"chat","prompt":"x"}`, "/v1/detokenize": `{"model":"chat","tokens":[0]}`, "/detokenize": `{"model":"chat","tokens":[0]}`, "/v1/moderations": `{"input":"x"}`, "/v2/rerank": `{"model":"rank","query":"x","documents":["y"]}`, "/v2/models/*id": `{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["x"]}]}`,
	}
	k := newKit(t, Config{}, nil)
	for _, r := range Routes() {
		if r.Permission == "" {
			t.Errorf("%s declares no permission", r.Path)
		}
		path := strings.Replace(r.Path, "*id", "chat", 1)
		if r.Method == http.MethodPost {
			path = strings.Replace(r.Path, "*id", "embed/infer", 1)
		}
		want := http.StatusOK
		if r.Method+" "+r.Path == "GET /v1/chat/completions" { // without an upgrade
			want = http.StatusMethodNotAllowed
		}
		if r.Permission == access.BatchesUse || strings.Contains(path, "/responses/:id") { // this edge keeps none; package server drives one that does
			want = http.StatusNotFound
		}
		if resp, body := k.do(t, r.Method, path, strings.NewReader(bodies[r.Path])); resp.StatusCode != want {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
		for _, auth := range []string{"", "Bearer wrong", "Basic " + goodKey, goodKey, "Bearer  "} {
			resp, body := k.do(t, r.Method, path, strings.NewReader(bodies[r.Path]), "Authorization", auth)
			if resp.StatusCode != 401 || !strings.Contains(body, "invalid_api_key") || resp.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s with %q: %d %s", path, auth, resp.StatusCode, body)
			}
		}
		k.deny = r.Permission
		if resp, body := k.do(t, r.Method, path, strings.NewReader(bodies[r.Path])); resp.StatusCode != 403 || !strings.Contains(body, string(r.Permission)) {
			t.Errorf("%s without %s: %d %s", path, r.Permission, resp.StatusCode, body)
		}
		k.deny = ""
	}
	if resp, body := k.do(t, http.MethodGet, "/v1/chat/completions", nil); resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" || !strings.Contains(body, "method_not_allowed") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if n := len(k.engine.Requests()); n != 6 {
		t.Errorf("the engine was asked %d times", n)
	}
}

func TestBudgetRefusalIsNotRetried(t *testing.T) {
	k := newKit(t, Config{}, nil)
	k.fail["reserve"] = fault.New(fault.CodeTenantBudget, fault.Say("billing.monthly"), "acme", "1 CNY", "1 CNY", fault.Quote("it begins anew", "将重新计算"))
	resp, body := k.post(t, "/v1/chat/completions", hello+"}")
	if resp.StatusCode != 429 || resp.Header.Get("X-Should-Retry") != "false" || resp.Header.Get("X-Sluice-Receipt") == "" || resp.Header.Get("X-Ratelimit-Limit-Requests") == "" ||
		!strings.Contains(body, `"type":"insufficient_quota"`) || !strings.Contains(body, `"param":null`) {
		t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
}

// TestNothingLeaksIntoLogs: neither the key nor any text of requests and answers.
func TestNothingLeaksIntoLogs(t *testing.T) {
	k := newKit(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
		if n == 1 {
			return enginetest.Plan{Err: fault.New(fault.CodeUpstreamFailed, "chat"), FailAt: 1}
		}
		return enginetest.Plan{Texts: []string{"the answer text"}}
	})
	for _, body := range []string{`{"model":"chat","messages":[{"role":"user","content":"the prompt text SECRET1"}]}`, `{"model":"chat","stream":true,"messages":[{"role":"user","content":"the prompt text"}]}`, `{"the prompt text"`} {
		k.post(t, "/v1/chat/completions", body)
	}
	k.do(t, http.MethodGet, "/v1/models?key="+goodKey, nil)
	logs := k.logs.String()
	for _, planted := range []string{goodKey, "prompt text", "answer text", "SECRET"} {
		if strings.Contains(logs, planted) {
			t.Errorf("%q is in the log", planted)
		}
	}
	if !strings.Contains(logs, "route=/v1/chat/completions") {
		t.Errorf("no access line in %s", logs)
	}
}

type panicking struct{ pipeline }

func (panicking) Chat(context.Context, *gateway.Call) (*gateway.Reply, error) {
	panic("secret prompt text")
}

func TestPanic(t *testing.T) {
	k := newKit(t, Config{}, nil)
	k.api.pipeline = panicking{}
	resp, body := k.post(t, "/v1/chat/completions", hello+"}")
	if resp.StatusCode != 500 || strings.Contains(body, "goroutine") || strings.Contains(body, "secret") || resp.Header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if logs := k.logs.String(); !strings.Contains(logs, "stack=") || strings.Contains(logs, "secret prompt") {
		t.Error("the log must hold the stack and not the value")
	}
	if k.api.bodies.Held() != 0 {
		t.Error("body bytes were not given back")
	}
}

// TestPanicCutsAStream: what stops in the middle must not look like an answer that came to its end.
func TestPanicCutsAStream(t *testing.T) {
	k := newKit(t, Config{}, nil)
	e := gin.New()
	e.Use(k.api.Middleware())
	e.GET("/half", func(c *gin.Context) {
		c.String(http.StatusOK, "data: half\n\n")
		c.Writer.Flush()
		panic("secret prompt text")
	})
	s := httptest.NewServer(e)
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/half", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the cut stream %q ended like a whole one", got)
	}
	if logs := k.logs.String(); !strings.Contains(logs, "stack=") || strings.Contains(logs, "secret prompt") || !strings.Contains(logs, "route=/half") {
		t.Errorf("logged %s", logs)
	}
}

func TestPlayground(t *testing.T) {
	k := newKit(t, Config{}, nil)
	e := gin.New()
	e.Use(k.api.Middleware())
	e.POST("/api/v1/playground/chat/completions", k.api.Playground(func(c *gin.Context, err error) {
		c.String(fault.Public(err).Kind().Status(), "problem %s", fault.Public(err).Code())
	}))
	do := func(auth string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/playground/chat/completions", strings.NewReader(hello+"}"))
		req.Header.Set("Authorization", auth)
		e.ServeHTTP(rec, req)
		return rec
	}
	if rec := do("Bearer " + goodKey); rec.Code != 200 || !strings.Contains(rec.Body.String(), "hello there") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if e := k.last(); e.Route != "POST /api/v1/playground/chat/completions" {
		t.Errorf("%+v", e)
	}
	if rec := do("Bearer x"); rec.Code != 401 || rec.Body.String() != "problem invalid_api_key" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestOnBehalfOf: who a call is for comes from the header, else from the newer field of the body, else from the older; the record has a
// digest of it only.
func TestOnBehalfOf(t *testing.T) {
	const header, rank = "X-Sluice-On-Behalf-Of", `{"model":"rank","query":"a","documents":["b"]`
	k := newKit(t, Config{}, nil)
	digest := func(who string) string { return audit.Subject(keyring.FromBytes(make([]byte, 32)), "acme", who) }
	for _, test := range []struct {
		path, body string
		headers    []string
		want       string
	}{
		{"/v1/chat/completions", hello + `}`, nil, ""},
		{"/v1/chat/completions", hello + `,"user":"older"}`, nil, digest("older")},
		{"/v1/chat/completions", hello + `,"user":"older","safety_identifier":"newer"}`, nil, digest("newer")},
		{"/v1/chat/completions", hello + `,"user":"older","safety_identifier":""}`, nil, digest("older")},
		{"/v1/chat/completions", hello + `,"user":"older","safety_identifier":"newer"}`, []string{header, "张三"}, digest("张三")},
		{"/v1/completions", `{"model":"chat","prompt":"a","safety_identifier":"newer"}`, nil, digest("newer")},
		{"/v1/embeddings", `{"model":"embed","input":"a","user":"older"}`, nil, digest("older")},
		{"/v1/rerank", rank + `,"user":"older"}`, nil, digest("older")},
		{"/v1/score", `{"model":"rank","text_1":"a","text_2":"b","safety_identifier":"newer"}`, nil, digest("newer")},
		{"/v1/rag/search", `{"collection":"docs","query":"a"}`, []string{header, "alice"}, digest("alice")},
	} {
		resp, body := k.post(t, test.path, test.body, test.headers...)
		if resp.StatusCode != 200 {
			t.Fatal(test.path, body)
		}
		if e := k.last(); e.Actor.OnBehalfOf != test.want {
			t.Errorf("%s %s %v: %q, want %q", test.path, test.body, test.headers, e.Actor.OnBehalfOf, test.want)
		}
	}
	if resp, body := k.post(t, "/v1/embeddings", `{"model":"embed","input":"a","safety_identifier":1}`); resp.StatusCode != 400 {
		t.Error(body)
	}
}
