package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/rag"
)

// masked is a server with the real rules, whose engine is another server behind the real client: what that server is sent and what it
// says are bytes of the test's.
type masked struct {
	*kit

	t        testing.TB
	upstream *fakeUpstream
	guard    *governance.Guard
	rag      *fixedRAG
	rpc      *rpcKit // of tests that ask over gRPC
}

// fakeUpstream answers with what the test scripts.
type fakeUpstream struct {
	mu     sync.Mutex
	bodies []string
	status int                       // instead of 200
	answer func(value string) string // the body, for the pseudonym of the caller's first value
	cut    int                       // after how many bytes the answer is cut in two writes; 0: not
	hold   chan struct{}             // waited for between the two
}

func (u *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // a question about itself
		http.NotFound(w, r)
		return
	}
	raw, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.bodies = append(u.bodies, string(raw))
	answer, status, cut, hold := u.answer(regexp.MustCompile(`⟦[^⟧]+⟧`).FindString(string(raw))), u.status, u.cut, u.hold
	u.mu.Unlock()
	if strings.HasPrefix(answer, "data:") {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	if status != 0 {
		w.WriteHeader(status)
	}
	if cut > 0 && cut < len(answer) {
		_, _ = io.WriteString(w, answer[:cut])
		_ = http.NewResponseController(w).Flush()
		answer = answer[cut:]
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
				return
			}
		}
	}
	_, _ = io.WriteString(w, answer)
}

func (u *fakeUpstream) says(answer func(value string) string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answer, u.status, u.cut = answer, 0, 0
}

// sent are the bodies so far.
func (u *fakeUpstream) sent() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.bodies, "\n")
}

// fixedRAG finds what the test put there.
type fixedRAG struct{ passages []rag.Passage }

func (f *fixedRAG) Passages(ctx context.Context, _ rag.PassageRef) ([]rag.Passage, error) {
	return f.Search(ctx, rag.Query{})
}

func (*fixedRAG) Read(context.Context, rag.Document) (*rag.ParsedDocument, error) {
	return &rag.ParsedDocument{}, nil
}

func (*fixedRAG) Store(context.Context, *rag.ParsedDocument, rag.EmbedFunc) (rag.IngestResult, error) {
	return rag.IngestResult{}, nil
}

func (f *fixedRAG) Search(context.Context, rag.Query) ([]rag.Passage, error) {
	return append([]rag.Passage(nil), f.passages...), nil
}

type fixedRoute struct{ e engine.Engine }

func (f fixedRoute) Pick(a route.Ask) (route.Choice, error) {
	all, err := f.e.Models(context.Background())
	if err != nil {
		return route.Choice{}, err
	}
	for _, m := range all {
		if string(m.ID) == a.Model {
			return route.Choice{Version: route.Version{Model: a.Model, Version: "v1", Engine: "upstream", EngineModel: m.ID}, Instance: pool.Alone(f.e), Info: m}, nil
		}
	}
	return route.Choice{}, fmt.Errorf("no model %s", a.Model)
}

func (fixedRoute) Again(route.Choice, []*pool.Instance) (route.Choice, error) {
	return route.Choice{}, errors.New("there is no other")
}
func (fixedRoute) Models() []route.Model { return nil }

// newMasked returns a server under the policy that treats every class so in answers.
func newMasked(t testing.TB, answer string, change ...func(*gateway.Deps)) *masked {
	t.Helper()
	m := &masked{t: t, upstream: &fakeUpstream{}, rag: &fixedRAG{}}
	up := httptest.NewServer(m.upstream)
	t.Cleanup(up.Close)
	e, err := remote.New(remote.Config{BaseURL: up.URL + "/v1", AllowPrivate: []string{"127.0.0.0/8"}, Models: []remote.ModelConfig{
		{ID: "chat", ContextTokens: 100_000, Logprobs: true, Tools: true, Formats: true, Sampling: true, Dialect: "vllm"},
		{ID: "embed", EmbedDim: 2, ContextTokens: 100_000},
		{ID: "rank", Rerank: true, ContextTokens: 100_000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	log := slog.New(slog.DiscardHandler)
	m.guard, err = governance.New(governance.Config{}, governance.NewPolicyStore(dbtest.SQLite(t)), keyring.FromBytes(make([]byte, 32)), classify.New(), log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.guard.Publish(t.Context(), governance.EveryTenant, []byte(policyFor(answer)), "test"); err != nil {
		t.Fatal(err)
	}
	m.kit = newKitWith(t, Config{}, nil, func(d *gateway.Deps) {
		d.Guard, d.Router, d.Retriever = gateway.FromGuard(m.guard), fixedRoute{e}, m.rag
		for _, c := range change {
			c(d)
		}
	})
	return m
}

func policyFor(answer string) string {
	return "schema: 2\nname: T\nmodels: [\"*\"]\ncollections: [\"*\"]\nrecord: masked\nentities:\n  default: {request: token, passage: token, answer: " + answer + "}\n"
}

// said is what an answer shows of one choice, put together.
type said struct {
	Content, Reasoning, Refusal string
	Calls                       []openai.ToolCall
	Logprobs                    []openai.TokenLogprob
	Finish                      string
}

// whole reads an answer of any endpoint, streamed or not.
func whole(t testing.TB, body string) []said {
	t.Helper()
	switch {
	case strings.HasPrefix(body, "event: response."), strings.Contains(body, `"object":"response"`):
		return wholeResponse(t, body)
	case strings.HasPrefix(body, "event: "), strings.Contains(body, `"type":"message"`):
		return wholeMessage(t, body)
	}
	if strings.Contains(body, `"created_at":"`) {
		return wholeOllama(t, body)
	}
	chunks := []string{body}
	if strings.HasPrefix(body, "data:") {
		chunks = events(t, body)
		if chunks[len(chunks)-1] != openai.Done {
			t.Fatalf("the stream ends with %s", chunks[len(chunks)-1])
		}
		chunks = chunks[:len(chunks)-1]
	}
	var out []said
	for _, c := range chunks {
		var chunk struct {
			Choices []struct {
				Index          int
				Text           string
				Delta, Message struct {
					Content, Refusal *string
					Reasoning        *string           `json:"reasoning_content"`
					Calls            []openai.ToolCall `json:"tool_calls"`
				}
				Logprobs struct{ Content []openai.TokenLogprob }
				Finish   *string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(c), &chunk); err != nil {
			t.Fatalf("%v in %s", err, c)
		}
		for _, ch := range chunk.Choices {
			for len(out) <= ch.Index {
				out = append(out, said{})
			}
			o := &out[ch.Index]
			o.Content += ch.Text + deref(ch.Delta.Content) + deref(ch.Message.Content)
			o.Reasoning += deref(ch.Delta.Reasoning) + deref(ch.Message.Reasoning)
			o.Refusal += deref(ch.Delta.Refusal) + deref(ch.Message.Refusal)
			o.Logprobs = append(o.Logprobs, ch.Logprobs.Content...)
			o.Finish += deref(ch.Finish)
			for i, call := range append(ch.Delta.Calls, ch.Message.Calls...) {
				if call.Index != nil {
					i = *call.Index
				}
				for len(o.Calls) <= i {
					o.Calls = append(o.Calls, openai.ToolCall{})
				}
				o.Calls[i].ID += call.ID
				o.Calls[i].Function.Name += call.Function.Name
				o.Calls[i].Function.Arguments += call.Function.Arguments
			}
		}
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// stream joins chunks as an upstream sends them.
func stream(chunks ...string) string {
	return "data: " + strings.Join(chunks, "\n\ndata: ") + "\n\ndata: [DONE]\n\n"
}

// pieces cuts a text into so many runes, and puts each where the verb stands.
func pieces(format, text string, runes int) []string {
	var out []string
	for rest := []rune(text); len(rest) > 0; {
		n := min(runes, len(rest))
		j, _ := json.Marshal(string(rest[:n]))
		out, rest = append(out, fmt.Sprintf(format, j)), rest[n:]
	}
	return out
}

func (fixedRoute) Resilience(string) *route.Resilience { return nil }
