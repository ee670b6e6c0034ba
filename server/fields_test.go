package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/testmodel"
	"github.com/sluice-project/sluice/server/config"
)

// TestWhatIsRecorded asks real models over HTTP and looks at every field of the records: a cited and streamed chat of somebody's, a refusal, an
// embedding, and a stream whose caller leaves. A field that is empty has to be on a list with the reason.
func TestWhatIsRecorded(t *testing.T) {
	t.Parallel()
	in := startRecorded(t)
	key := in.started.Welcome.APIKey.Reveal()
	t.Run("chat", func(t *testing.T) { in.chatIsRecorded(t, key) })
	t.Run("refusal", func(t *testing.T) { in.refusalIsRecorded(t, key) })
	t.Run("embedding", func(t *testing.T) { in.embeddingIsRecorded(t, key) })
	t.Run("abort", func(t *testing.T) { in.abortIsRecorded(t, key) })
}

// startRecorded runs a server with a model that chats, one that embeds, a collection, and a policy that asks for a purpose and has texts kept.
func startRecorded(t *testing.T) *installation {
	t.Helper()
	in := &installation{t: t, dir: t.TempDir(), logs: &lockedBuffer{}}
	file := filepath.Join(in.dir, "sluice.yaml")
	text := fmt.Sprintf(`engines: {native: {models: [{id: chat, path: %q}, {id: embed, path: %q}], context_tokens: 1024, threads: 2}}
rag: {embedding_model: embed}
audit: {region: cn-north}
`, testmodel.Path(t, testmodel.SmolLM2), testmodel.Path(t, testmodel.MiniLM))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil, map[string]any{
		"data": filepath.Join(in.dir, "data"), "listen": "127.0.0.1:0", "workflows.enabled": false, "console": false,
	})
	if err != nil {
		t.Fatal(err)
	}
	in.run(cfg)
	in.admin(http.MethodPost, "/policies", map[string]string{"yaml": `schema: 2
name: recorded
models: ["*"]
purposes: [support]
collections: ["*"]
record: masked
entities:
  default: {request: token, passage: token, answer: observe}
  cn_resident_id: {request: block}
`}, new(any))
	in.admin(http.MethodPost, "/rag/collections", map[string]string{"name": "kb"}, new(any))
	in.admin(http.MethodPost, "/rag/collections/kb/documents", map[string]string{"name": "trees.txt", "text": "Ask Ms Li, 13800138000, about trees."}, new(any))
	return in
}

// spoken are the headers and the body of a chat of alice's.
func spoken(stream bool, content string) (body map[string]any, header []string) {
	body = map[string]any{
		"model": "chat", "stream": stream, "max_tokens": 32, "temperature": 0, "seed": 7, "user": "alice",
		"messages": []any{map[string]string{"role": "user", "content": content}},
	}
	return body, []string{"X-Sluice-Session", "talk-1", "X-Client-Request-Id", "mine-1", "X-Sluice-Purpose", "support", "X-Sluice-Class", "batch"}
}

// eventsOf are the records of a request as they were hashed, once there are n.
func (in *installation) eventsOf(request string, n int) []record.Event {
	in.t.Helper()
	var out []record.Event
	for _, e := range in.records(request, n) {
		event, err := record.Decode(e.raw)
		if err != nil {
			in.t.Fatalf("%v: %s", err, e.raw)
		}
		out = append(out, event)
	}
	return out
}

func (in *installation) chatIsRecorded(t *testing.T, key string) {
	body, header := spoken(true, "My number is 13900139000. Who knows about trees?")
	body["rag"] = map[string]any{"collection": "kb", "top_k": 1}
	r := in.send(http.MethodPost, "/v1/chat/completions", key, body, header...)
	if r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	events := in.eventsOf(r.header.Get("X-Request-Id"), 2)
	admitted, e := events[0], events[1]
	keys, err := keyring.Open(in.cfg.MasterKeyFile)
	if err != nil {
		t.Fatal(err)
	}
	var shown struct {
		Sluice struct {
			Receipt   string
			Citations []struct {
				DocumentID string `json:"document_id"`
				Version    string
			}
		}
	}
	for line := range strings.Lines(string(r.body)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: {"); ok && strings.Contains(data, `"sluice"`) {
			if err := json.Unmarshal([]byte("{"+data), &shown); err != nil {
				t.Fatal(err)
			}
		}
	}
	if shown.Sluice.Receipt != admitted.ID || r.header.Get("X-Sluice-Receipt") != admitted.ID || len(shown.Sluice.Citations) != 1 {
		t.Errorf("the receipt %s, the record %s, %+v", r.header.Get("X-Sluice-Receipt"), admitted.ID, shown)
	}
	cited := shown.Sluice.Citations[0]

	// The codes of pseudonyms are new in each run, so that the limit may fall into one.
	e.Findings = slices.DeleteFunc(e.Findings, func(f record.Finding) bool { return f.Action == "cut" })

	// What can be said for certain, field by field; the rest has to be there.
	want := e
	want.Schema, want.Stage, want.Request, want.Tenant, want.Project, want.Region = 3, "outcome", r.header.Get("X-Request-Id"), "demo", "default", "cn-north"
	want.Actor = record.Actor{Kind: "key", ID: e.Actor.ID, Name: "first key", OnBehalfOf: audit.Subject(keys, "demo", "alice")}
	want.Source, want.Action, want.Resource, want.Route, want.Dialect = "127.0.0.1", "chat.completions", "kb", "POST /v1/chat/completions", "openai"
	want.Model.Asked, want.Model.Routed, want.Model.Reported, want.Model.Version, want.Model.Precision = "chat", "chat", "chat", "v1", "native"
	want.Policy, want.Decision, want.Outcome, want.Status = "demo@1", "allow", "ok", 200
	want.Findings = []record.Finding{
		{Direction: "passage", Class: "cn_mobile", Detector: classify.Detector(classify.Mobile), Action: "token", Count: 1},
		{Direction: "passage", Class: "person", Detector: classify.Detector(classify.Person), Action: "token", Count: 1},
		{Direction: "request", Class: "cn_mobile", Detector: classify.Detector(classify.Mobile), Action: "token", Count: 1},
	}
	want.Documents = []string{"kb/" + cited.DocumentID + "@" + cited.Version + "#0"}
	want.Usage.Currency = "CNY"
	digest := audit.NewAnswerDigest(keys, "demo")
	_, _ = digest.WriteString(answerText(t, r.body))
	want.AnswerDigest = digest.String()
	want.Detail = map[string]string{"class": "batch", "client_request": "mine-1", "purpose": "support", "place": "centre"}
	if d := cmp.Diff(want, e); d != "" {
		t.Errorf("the outcome record:\n%s", d)
	}
	for prefix, got := range map[string]string{
		"sha256:": e.Model.Digest, "native/": e.Model.Engine, "lk_": e.LabelKey, `{"Label":"1"`: e.Label, "r": e.Model.Replay,
	} {
		if !strings.HasPrefix(got, prefix) {
			t.Errorf("%q does not begin with %q", got, prefix)
		}
	}
	empty(t, e, map[string]string{
		"Model.Adapter": "none is loaded; TestEngineAPI has one", "Rollout": "TestRollout has one", "Arm": "the same", "Safety[0]": "no such rules yet",
		"Watermark": "no such feature yet", "ErrorKind": "it went well", "ErrorCode": "the same", "Usage.CachedTokens": "the first of its prompt",
		"Usage.Estimated": "the engine counts",
		"Latency.Queue":   "it may have waited for less than a microsecond",
	})
	if len(e.Contents) != 1 || e.Contents[0].Direction != "answer" || e.Contents[0].Form != "masked" || len(admitted.Contents) != 1 || admitted.Contents[0].Direction != "request" {
		t.Errorf("contents %+v, then %+v", admitted.Contents, e.Contents)
	}
	if l, s := e.Latency, e.Steps; l.Admit > l.FirstToken || l.FirstToken > l.Total || s.Authenticate+s.Limit+s.Policy+s.Route+s.Reserve+s.Retrieve > l.Admit || s.Prefill+s.Decode > l.Total {
		t.Errorf("latency %+v, steps %+v", l, s)
	}
	empty(t, admitted, map[string]string{
		"Model.Adapter": "", "Rollout": "", "Arm": "", "Safety[0]": "", "Watermark": "", "ErrorKind": "", "ErrorCode": "",
		"Model.Reported": "not yet", "Model.Replay": "not yet", "PriceBook": "not yet", "Usage.*": "not yet", "AnswerDigest": "not yet", "Outcome": "not yet",
		"Status": "not yet", "Latency.Queue": "not yet", "Latency.FirstToken": "not yet", "Latency.Total": "not yet", "Steps.Record": "not yet",
		"Steps.Prefill": "not yet", "Steps.Decode": "not yet",
	})
}

// empty fails for every field that is empty and not on the list, and for every one that is on the list and never could be.
func empty(t *testing.T, e record.Event, reasons map[string]string) {
	t.Helper()
	known := map[string]bool{}
	var visit func(v reflect.Value, path string)
	visit = func(v reflect.Value, path string) {
		group, _, _ := strings.Cut(path, ".")
		_, one := reasons[path]
		_, all := reasons[group+".*"]
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				visit(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."))
			}
			return
		case v.Kind() == reflect.Slice && v.Len() > 0:
			visit(v.Index(0), path+"[0]")
			return
		case v.Kind() == reflect.Slice:
			path += "[0]"
			_, one = reasons[path]
		}
		known[path], known[group+".*"] = true, true
		if v.IsZero() && !one && !all {
			t.Errorf("the %s record has no %s", e.Stage, path)
		}
	}
	visit(reflect.ValueOf(e), "")
	for path := range reasons {
		if !known[path] {
			t.Errorf("there is no field %s", path)
		}
	}
}

func (in *installation) refusalIsRecorded(t *testing.T, key string) {
	body, header := spoken(false, "My id is 11010519491231002X.")
	r := in.send(http.MethodPost, "/v1/chat/completions", key, body, header...)
	events := in.eventsOf(r.header.Get("X-Request-Id"), 1)
	if r.status != http.StatusForbidden || len(events) != 1 {
		t.Fatalf("%d, %d records", r.status, len(events))
	}
	e := events[0]
	if e.Stage != "outcome" || e.Outcome != "refused" || e.Decision != "refuse" || e.Status != 403 || e.ErrorKind != "blocked" || e.ErrorCode != "blocked_content" ||
		!slices.Equal(e.Findings, []record.Finding{{Direction: "request", Class: "cn_resident_id", Detector: classify.Detector(classify.ResidentID), Action: "block", Count: 1}}) {
		t.Errorf("%+v", e)
	}
	empty(t, e, map[string]string{
		"Resource": "no collection", "Model.Routed": "refused before", "Model.Reported": "", "Model.Version": "", "Model.Digest": "", "Model.Precision": "", "Model.Template": "",
		"Model.Engine": "", "Model.Adapter": "", "Model.Replay": "", "PriceBook": "", "Rollout": "", "Arm": "", "Safety[0]": "", "Documents[0]": "", "Usage.*": "", "Label": "nothing was made",
		"LabelKey": "", "Watermark": "", "AnswerDigest": "", "Contents[0]": "nothing is kept of what is refused", "Latency.Admit": "it was not", "Latency.Queue": "", "Latency.FirstToken": "",
		"Steps.Route": "", "Steps.Reserve": "", "Steps.Retrieve": "", "Steps.Record": "", "Steps.Prefill": "", "Steps.Decode": "",
	})
}

func (in *installation) embeddingIsRecorded(t *testing.T, key string) {
	_, header := spoken(false, "")
	r := in.send(http.MethodPost, "/v1/embeddings", key, map[string]any{"model": "embed", "input": "mail bob@example.com", "safety_identifier": "alice"}, header...)
	events := in.eventsOf(r.header.Get("X-Request-Id"), 2)
	if r.status != http.StatusOK || len(events) != 2 {
		t.Fatalf("%d %s", r.status, r.body)
	}
	e := events[1]
	if e.Outcome != "ok" || e.Action != "embeddings" || e.Model.Reported != "embed" || len(e.Findings) != 1 || e.Findings[0].Detector != classify.Detector(classify.Email) || e.Usage.PromptTokens == 0 {
		t.Errorf("%+v", e)
	}
	if len(events[0].Contents) != 1 || events[0].Contents[0].Direction != "request" {
		t.Errorf("contents %+v", events[0].Contents)
	}
	empty(t, e, map[string]string{
		"Resource": "no collection", "Model.Template": "it does not chat", "Model.Adapter": "", "Model.Replay": "vectors are not drawn", "Rollout": "", "Arm": "", "Safety[0]": "",
		"Documents[0]": "", "Usage.CachedTokens": "", "Usage.CompletionTokens": "vectors", "Usage.Estimated": "", "Label": "numbers are not labelled", "LabelKey": "",
		"Watermark": "", "AnswerDigest": "numbers are no text", "Contents[0]": "the same", "ErrorKind": "", "ErrorCode": "", "Latency.Queue": "", "Latency.FirstToken": "",
		"Steps.Retrieve": "", "Steps.Prefill": "engines do not tell", "Steps.Decode": "",
	})
}

func (in *installation) abortIsRecorded(t *testing.T, key string) {
	body, header := spoken(true, "Tell a long story.")
	body["max_tokens"] = 900
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, in.started.BaseURL+"/chat/completions", strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < 4 && lines.Scan(); {
		if strings.Contains(lines.Text(), `"content":"`) {
			n++
		}
	}
	leave()
	e := in.eventsOf(res.Header.Get("X-Request-Id"), 2)[1]
	if e.Outcome != "aborted" || e.Status != 499 || e.Decision != "allow" || !e.Usage.Estimated || e.Usage.CompletionTokens == 0 || e.Usage.Cost == 0 {
		t.Errorf("%+v", e)
	}
	empty(t, e, map[string]string{
		"Resource": "no collection", "Model.Reported": "the engine was stopped before it told", "Model.Adapter": "", "Model.Replay": "the same", "Rollout": "", "Arm": "", "Findings[0]": "nothing found",
		"Safety[0]": "", "Documents[0]": "", "Usage.CachedTokens": "the same", "Watermark": "", "ErrorKind": "a caller may leave", "ErrorCode": "", "Latency.Queue": "the same",
		"Steps.Retrieve": "", "Steps.Prefill": "the same", "Steps.Decode": "the same",
	})
}
