package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
)

// canaries plants values that stand nowhere else, and remembers where each was put.
type canaries struct {
	places []string
	values map[string]string // value to place
}

// at returns a text with a mobile number, an address of mail, an identity number and a credential for one place.
func (c *canaries) at(place string) string {
	n := len(c.places)
	c.places = append(c.places, place)
	id := fmt.Sprintf("11010519%02d0307%03d", 50+n%50, 100+n)
	sum := 0
	for i, w := range []int{7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2} {
		sum += w * int(id[i]-'0')
	}
	id += string("10X98765432"[sum%11])
	values := []string{
		fmt.Sprintf("1391357%04d", 2460+n), fmt.Sprintf("canary-%d@bird%d.example.com", n, n), id, fmt.Sprintf("sk-proj-c4N4rY%02dq7Xb2Lw9Zt5Rk8Vd3Hs6Jm1Pf0Gy", n),
	}
	for _, v := range values {
		c.values[v] = place
	}
	return fmt.Sprintf("手机 %s，邮箱 %s，身份证 %s，api_key=%s", values[0], values[1], values[2], values[3])
}

// wire records what goes to the upstream, and fails as a request asks it to.
type wire struct {
	next http.Handler
	fail string // the body of its failures

	mu   sync.Mutex
	seen bytes.Buffer
}

func (w *wire) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.mu.Lock()
	_ = r.Header.Write(&w.seen)
	fmt.Fprintln(&w.seen, r.URL)
	w.seen.Write(body)
	w.mu.Unlock()
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusInternalServerError} {
		if bytes.Contains(body, fmt.Appendf(nil, "fail-with-%d", status)) {
			rw.Header().Set("X-Debug", w.fail)
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(status)
			_ = json.NewEncoder(rw).Encode(map[string]any{"error": map[string]string{"message": w.fail, "type": w.fail, "code": w.fail}})
			return
		}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	w.next.ServeHTTP(rw, r)
}

// TestCanariesAreNowhere: values planted in headers, bodies, tool definitions, arguments and results, documents, what models bring and what upstreams
// fail with are in no log, metric, audit record, file of the data directory and no request to the upstream. Documents themselves
// are kept, encrypted.
func TestCanariesAreNowhere(t *testing.T) {
	t.Parallel()
	c := &canaries{values: map[string]string{}}
	brought, calls := c.at("answer of the model"), c.at("call of the model")
	up := &wire{fail: c.at("error of the upstream")}
	in := start(t, setup{
		retrieval: true, remote: "[{id: scripted, tools: true}, {id: scripted-embed, embed_dim: 32}]",
		wire: func(next http.Handler) http.Handler { up.next = next; return up },
		plan: func(_ int, req *engine.Request) enginetest.Plan {
			if len(req.Tools) > 0 {
				args, _ := json.Marshal(map[string]string{"to": calls})
				return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "call_1", Name: "send", Arguments: string(args)}}}}
			}
			return enginetest.Plan{Texts: []string{req.Messages[len(req.Messages)-1].Content + brought}}
		},
	})
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": keepPolicy("masked")}, new(any))
	key := in.started.Welcome.APIKey.Reveal()
	line := func(place string) string { // of a header
		return strings.NewReplacer("手机", "mobile", "邮箱", "mail", "身份证", "id", "，", ", ").Replace(c.at(place))
	}
	headers := []string{
		"User-Agent", "client " + line("user agent"), "Cookie", "session=" + line("cookie"), "Referer", "https://app.example.com/?q=" + line("referer"),
		"X-Customer", line("header of their own"), "Baggage", "customer=" + line("baggage"), "X-Sluice-On-Behalf-Of", "planted-person",
	}
	message := func(role string, content any) map[string]any { return map[string]any{"role": role, "content": content} }
	arguments, _ := json.Marshal(map[string]string{"customer": c.at("arguments of a call")})
	result, _ := json.Marshal(map[string]any{"rows": []string{c.at("result of a call")}})
	conversation := []any{
		message("system", c.at("system")),
		message("user", []any{map[string]string{"type": "text", "text": c.at("part")}}),
		map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"id": "call_0", "type": "function", "function": map[string]string{"name": "find", "arguments": string(arguments)},
		}}},
		map[string]any{"role": "tool", "tool_call_id": "call_0", "content": string(result)},
		message("user", c.at("question")),
	}
	tools := []any{map[string]any{"type": "function", "function": map[string]any{
		"name": "send", "description": c.at("description of a tool"), "parameters": map[string]any{
			"type": "object", "properties": map[string]any{"to": map[string]any{"type": "string", "description": c.at("parameter of a tool")}},
		},
	}}}
	answered := 0
	ask := func(path string, body map[string]any) {
		t.Helper()
		if r := in.send(http.MethodPost, path, key, body, headers...); r.status == http.StatusOK {
			answered++
			in.records(r.header.Get("X-Request-Id"), 2)
		} else {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	for _, stream := range []bool{false, true} {
		ask("/v1/chat/completions", map[string]any{"model": "scripted", "stream": stream, "messages": conversation})
		ask("/v1/chat/completions", map[string]any{"model": "scripted", "stream": stream, "messages": conversation, "tools": tools})
		ask("/api/generate", map[string]any{"model": "scripted", "stream": stream, "prompt": c.at("question to Ollama"), "system": c.at("instructions to Ollama")})
	}
	ask("/v2/models/scripted-embed/infer", map[string]any{"inputs": []any{map[string]any{"name": "input", "datatype": "BYTES", "shape": []int{1}, "data": []string{c.at("tensor")}}}})
	ask("/v1/embeddings", map[string]any{"model": "scripted-embed", "input": []string{c.at("input of an embedding")}})

	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": "a.txt", "text": "供暖办事指南。" + c.at("document")}, new(any))
	ask("/v1/chat/completions", map[string]any{"model": "scripted", "rag": map[string]any{"collection": "kb"}, "messages": []any{message("user", "供暖办事指南")}})

	// What is refused, and what fails.
	for _, status := range []string{"400", "401", "500"} {
		r := in.send(http.MethodPost, "/v1/chat/completions", key, map[string]any{"model": "scripted", "messages": []any{message("user", "fail-with-"+status+c.at("question that fails"))}}, headers...)
		for value, place := range c.values {
			if r.status < 400 || bytes.Contains(r.body, []byte(value)) {
				t.Errorf("upstream says %s: %d, with the %s: %s", status, r.status, place, r.body)
			}
		}
	}
	for _, body := range []string{
		`{"model":"scripted","messages":[{"role":"user","content":` + quote(c.at("body cut short")), `{"model":` + quote(c.at("name of a model")) + `,"messages":[]}`,
		`{"model":"scripted","n":` + quote(c.at("wrong type")) + `}`, `{"model":"scripted",` + quote(c.at("unknown field")) + `:1,"messages":[{"role":"user","content":"x"}]}`,
		`{"model":"scripted","messages":[{"role":` + quote(c.at("unknown role")) + `,"content":"x"}]}`,
	} {
		in.send(http.MethodPost, "/v1/chat/completions", key, body, headers...)
	}
	in.send(http.MethodPost, "/v1/chat/completions", line("wrong key"), `{}`)
	in.send(http.MethodGet, "/v1/"+url.PathEscape(c.at("path"))+"?q="+url.QueryEscape(c.at("query")), key, nil)
	in.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "admin", "password": c.at("password")})

	// Records can be searched some time after they are durable, in the order they were written: once the last one is there, all are.
	ask("/v1/chat/completions", map[string]any{"model": "scripted", "messages": []any{message("user", "that was all")}})
	var records bytes.Buffer // of all that was asked
	asked := 0               // records of questions to models
	in.eachRecord("", func(e auditEvent, whole json.RawMessage) {
		records.Write(whole)
		if e.Action == "chat.completions" || e.Action == "embeddings" {
			asked++
		}
	})
	metrics := in.send(http.MethodGet, "/metrics", operationsToken, nil).body
	if err := in.stop(); err != nil {
		t.Fatal(err)
	}
	sinks := in.sinks(metrics)
	up.mu.Lock()
	sinks["the audit records"], sinks["the wire to the upstream"] = records.Bytes(), up.seen.Bytes()
	up.mu.Unlock()
	if len(sinks) < 8 || answered != 10 || asked < 20 || !bytes.Contains(sinks["the wire to the upstream"], []byte("⟦手机·")) {
		t.Fatalf("%d sinks, %d answers, %d records of questions", len(sinks), answered, asked)
	}
	for _, sink := range slices.Sorted(maps.Keys(sinks)) {
		for value, place := range c.values {
			if bytes.Contains(sinks[sink], []byte(value)) {
				t.Errorf("%s has what was planted in the %s: %s", sink, place, value)
			}
		}
	}
}
