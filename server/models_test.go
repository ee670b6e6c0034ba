package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestModelsSayWhatTheyAreFor reads the list of models as a developer does, and asks every surface for every wrong use: the answer names the
// models that do it, and of these only what the caller may use. What he may not use, he does not learn of.
func TestModelsSayWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	in := start(t, setup{remote: "[{id: scripted, tools: true, context_tokens: 4096}, {id: scripted-too}, {id: scripted-embed, embed_dim: 32}, {id: scripted-rerank, rerank: true}]"})
	key := in.started.Welcome.APIKey.Reveal()
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "other", "name": "Other"}, new(any))
	in.admin(http.MethodPost, "/policies", map[string]string{"tenant": "other", "yaml": strings.Replace(openPolicy, `models: ["*"]`, `models: [scripted, scripted-rerank]`, 1)}, new(any))
	narrow := in.issueKey(map[string]any{"name": "narrow", "tenant": "other"}).secret

	type described struct {
		ID      string
		Object  string
		OwnedBy string `json:"owned_by"`
		Sluice  struct {
			Status, Version string
			Capabilities    []string
			Formats         []string `json:"response_formats"`
			Context         int      `json:"context_tokens"`
			Dimensions      int      `json:"embedding_dimensions"`
			Price           *struct {
				Currency   string
				PriceBook  string   `json:"price_book"`
				Prompt     float64  `json:"prompt_per_million"`
				Cached     *float64 `json:"cached_prompt_per_million"`
				Completion *float64 `json:"completion_per_million"`
				Batch      *struct {
					Prompt     float64 `json:"prompt_per_million"`
					Cached     float64 `json:"cached_prompt_per_million"`
					Completion float64 `json:"completion_per_million"`
				}
			}
		}
	}
	list := func(key string) map[string]described {
		var got struct{ Data []described }
		in.send(http.MethodGet, "/v1/models", key, nil).decode(t, &got)
		out := map[string]described{}
		for _, m := range got.Data {
			out[m.ID] = m
		}
		return out
	}
	in.admin(http.MethodPost, "/price-books", map[string]string{"yaml": `schema: 1
currency: CNY
effective_from: 2026-01-01T00:00:00+08:00
models:
  - {model: "scripted", prompt: 2000, cached_prompt: 500, completion: 8001, batch_percent: 50}
  - {model: "*-embed", embedding: 700}
`}, new(any))
	var models map[string]described
	eventually(t, "the price book to be in force", func() bool {
		models = list(key)
		return models["scripted"].Sluice.Price != nil && models["scripted"].Sluice.Price.Prompt == 2
	})
	chat, embed, rerank := models["scripted"], models["scripted-embed"], models["scripted-rerank"]
	if len(models) != 4 || chat.Object != "model" || chat.OwnedBy != "upstream" || chat.Sluice.Status != "ready" || chat.Sluice.Context != 4096 || chat.Sluice.Version != "v1" ||
		!slices.Equal(chat.Sluice.Capabilities, []string{"chat", "completions", "streaming", "tools"}) || !slices.Equal(chat.Sluice.Formats, []string{"text"}) {
		t.Errorf("%+v", chat)
	}
	if p := chat.Sluice.Price; p.Currency != "CNY" || p.PriceBook != "v2" || *p.Cached != 0.5 || *p.Completion != 8.001 || p.Batch == nil || p.Batch.Prompt != 1 || p.Batch.Cached != 0.25 || p.Batch.Completion != 4.001 {
		t.Errorf("%+v", p)
	}
	in.whoCanWaitPaysLess(key)
	if p := embed.Sluice.Price; !slices.Equal(embed.Sluice.Capabilities, []string{"embeddings"}) || embed.Sluice.Dimensions != 32 || p == nil || p.Prompt != 0.7 || p.Batch != nil || p.Completion != nil {
		t.Errorf("%+v", embed)
	}
	if !slices.Equal(rerank.Sluice.Capabilities, []string{"rerank", "score"}) || rerank.Sluice.Price != nil || rerank.Sluice.Status != "unavailable" {
		t.Errorf("without a price: %+v", rerank)
	}
	if got := list(narrow); len(got) != 2 {
		t.Errorf("a narrow key sees %v", got)
	}
	var one described
	in.send(http.MethodGet, "/v1/models/scripted-embed", key, nil).decode(t, &one)
	if one.ID != "scripted-embed" || one.Sluice.Dimensions != 32 {
		t.Errorf("%+v", one)
	}
	if r := in.send(http.MethodGet, "/v1/models/scripted-embed", narrow, nil); r.status != http.StatusNotFound || !strings.Contains(string(r.body), "model_not_found") {
		t.Errorf("a model that the key may not use: %d %s", r.status, r.body)
	}

	words := []any{map[string]string{"role": "user", "content": "hello"}}
	bodies := map[string]map[string]any{
		"/v1/chat/completions": {"messages": words}, "/v1/completions": {"prompt": "hello"}, "/v1/embeddings": {"input": "hello"},
		"/v1/rerank": {"query": "a", "documents": []string{"b"}}, "/rerank": {"query": "a", "documents": []string{"b"}},
		"/api/chat": {"messages": words}, "/api/generate": {"prompt": "hello"}, "/api/embed": {"input": "hello"}, "/v2/rerank": {"query": "a", "documents": []string{"b"}},
		"/v1/score": {"text_1": "a", "text_2": "b"}, "/api/v1/playground/chat/completions": {"messages": words},
	}
	for path, body := range bodies {
		for _, model := range []string{"scripted", "scripted-embed", "scripted-rerank"} {
			good := map[string]string{"/v1/embeddings": "scripted-embed", "/v1/rerank": "scripted-rerank", "/rerank": "scripted-rerank", "/v2/rerank": "scripted-rerank", "/api/embed": "scripted-embed", "/v1/score": "scripted-rerank"}[path]
			if good == "" {
				good = "scripted"
			}
			if model == good {
				continue
			}
			for who, credential := range map[string]string{"first": key, "narrow": narrow} {
				instead := "use one of: " + good
				if strings.HasPrefix(path, "/api/v1") {
					credential = in.session()
				} else if who == "narrow" {
					if model == "scripted-embed" {
						continue // unknown to it
					}
					if good == "scripted-embed" {
						instead = "no model that you may use does embeddings"
					}
				}
				body["model"] = model
				r := in.send(http.MethodPost, path, credential, body)
				code, message, param := refusalOf(t, r)
				if r.status != http.StatusBadRequest || code != "model_not_capable" || param != "model" || !strings.Contains(message, "'"+model+"'") || !strings.Contains(message, instead) ||
					who == "narrow" && !strings.HasPrefix(path, "/api/v1") && (strings.Contains(message, "-embed") || strings.Contains(message, "-too")) {
					t.Errorf("%s of %s with the %s key: %d %s", path, model, who, r.status, r.body)
				}
			}
		}
		body["model"] = "nothing"
		credential := key
		if strings.HasPrefix(path, "/api/v1") {
			credential = in.session()
		}
		if r := in.send(http.MethodPost, path, credential, body); r.status != http.StatusNotFound {
			t.Errorf("%s of an unknown model: %d %s", path, r.status, r.body)
		}
		for _, name := range []string{"scripted-embed", "nothing"} { // one exists: nobody who may not use it can tell
			body["model"] = name
			a := in.send(http.MethodPost, path, narrow, body)
			if strings.HasPrefix(path, "/api/v1") {
				continue
			}
			if code, message, _ := refusalOf(t, a); a.status != http.StatusForbidden || code != "model_not_allowed" || strings.Contains(message, "embeddings") {
				t.Errorf("%s of %s with a narrow key: %d %s", path, name, a.status, a.body)
			}
		}
	}
	if n := len(in.scripted.Requests()) + len(in.scripted.Scores()); n != 2 {
		t.Errorf("the engine was asked %d times, and 2 requests were right", n)
	}
}

// refusalOf reads the code, the sentence and the field of a refusal in the shape of either plane.
func refusalOf(t *testing.T, r reply) (code, message, param string) {
	t.Helper()
	var body struct {
		Code, Detail, Message, Param string
		Errors                       []struct{ Field string }
		Error                        json.RawMessage
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatalf("%d %s", r.status, r.body)
	}
	switch {
	case body.Message != "": // Cohere's
		return body.Code, body.Message, body.Param
	case len(body.Error) > 0 && body.Error[0] == '"': // Ollama's
		_ = json.Unmarshal(body.Error, &message)
		return body.Code, message, body.Param
	case body.Code == "":
		var e struct{ Code, Message, Param string }
		if err := json.Unmarshal(body.Error, &e); err != nil {
			t.Fatalf("%d %s", r.status, r.body)
		}
		return e.Code, e.Message, e.Param
	}
	if len(body.Errors) == 1 {
		param = body.Errors[0].Field
	}
	return body.Code, body.Detail, param
}

// whoCanWaitPaysLess: the same request is billed at the price for batches where its class is batch, and the reports tell both apart.
func (in *installation) whoCanWaitPaysLess(key string) {
	in.t.Helper()
	for _, tier := range []string{"default", "flex"} {
		in.send(http.MethodPost, "/v1/chat/completions", key, map[string]any{
			"model": "scripted", "service_tier": tier, "messages": []any{map[string]string{"role": "user", "content": "hello"}},
		}).decode(in.t, new(any))
	}
	type row struct {
		PriceBook  string `json:"price_book"`
		Requests   int64
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Cost       int64 `json:"cost_nano"`
	}
	var report struct{ Rows []row }
	eventually(in.t, "both to be billed", func() bool {
		report.Rows = nil
		in.admin(http.MethodGet, "/usage?group_by=price_book", nil, &report)
		return len(report.Rows) == 2
	})
	for i, want := range []struct {
		book               string
		prompt, completion int64
	}{{"v2", 2000, 8001}, {"v2/batch", 1000, 4001}} {
		if r := report.Rows[i]; r.PriceBook != want.book || r.Requests != 1 || r.Cost == 0 || r.Cost != r.Prompt*want.prompt+r.Completion*want.completion {
			in.t.Errorf("%+v, want %+v", r, want)
		}
	}
}
