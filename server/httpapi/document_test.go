package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/server/httpapi/documenttest"
)

// described is the document of the data plane.
var described = sync.OnceValues(func() (*documenttest.Document, error) { return documenttest.Load(Document()) })

// asDescribed holds an answer to the document, whichever test asked for it. The race detector's run, which is the short one, leaves it out.
func asDescribed(t testing.TB, req *http.Request, resp *http.Response, body []byte) {
	t.Helper()
	if testing.Short() || strings.HasPrefix(req.URL.Path, "/play") { // the console's chat, which is of the management API
		return
	}
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Check(req, resp, body); err != nil {
		t.Error(err)
	}
}

// pathsOf are the paths by which the document calls a route.
func pathsOf(r Route) []string {
	switch r.Method + " " + r.Path {
	case "GET /v2/models/*id":
		return []string{"/v2/models/{id}", "/v2/models/{id}/ready", "/v2/models/{id}/versions/{version}", "/v2/models/{id}/versions/{version}/ready"}
	case "POST /v2/models/*id":
		return []string{"/v2/models/{id}/infer", "/v2/models/{id}/versions/{version}/infer"}
	}
	return []string{strings.NewReplacer("/:id", "/{id}", "/*id", "/{id}").Replace(r.Path)}
}

// TestDocumentHasTheRoutes: the document is valid, and has every route with its permission, the credential and the errors of its dialect, and no other.
func TestDocumentHasTheRoutes(t *testing.T) {
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.T.Validate(t.Context(), openapi3.EnableExamplesValidation()); err != nil {
		t.Errorf("%v", err)
	}
	want, got := map[string]string{}, map[string]string{}
	d := newDialects(Config{})
	for _, r := range Routes() {
		for _, path := range pathsOf(r) {
			want[r.Method+" "+path] = string(r.Permission) + " " + d.ofPath(path).name
		}
	}
	errorsOf := map[string]string{"OpenAIError": dialectOpenAI, "SocketError": dialectOpenAI, "OpenAIOrAnthropicError": dialectOpenAI, "AnthropicError": dialectAnthropic, "CohereError": dialectCohere, "PlainError": dialectOllama}
	for path, item := range doc.T.Paths.Map() {
		for method, op := range item.Operations() {
			ref := op.Responses.Default().Ref
			dialect := errorsOf[ref[strings.LastIndex(ref, "/")+1:]]
			if dialect == dialectOllama && inferencePath(path) {
				dialect = dialectOpenInference
			}
			got[method+" "+path] = fmt.Sprint(op.Extensions["x-permission"], " ", dialect)
			if keys := op.Security != nil; keys != (dialect == dialectAnthropic) {
				t.Errorf("%s %s shows its credential otherwise than its dialect", method, path)
			}
			if op.RequestBody == nil || slices.Contains([]string{"createModeration", "openPassage", "createFile", "ollamaShow"}, op.OperationID) {
				continue // no engine is given anything
			}
			if op.Parameters.GetByInAndName(openapi3.ParameterInHeader, headerDataGrade) == nil {
				t.Errorf("%s %s does not say that it takes %s", method, path, headerDataGrade)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%s is described as %q, want %q", key, got[key], want[key])
		}
		delete(got, key)
	}
	if len(got) > 0 {
		t.Errorf("described and not there: %v", got)
	}
}

// TestExamplesOfTheDocument asks every example of a request: it is answered.
func TestExamplesOfTheDocument(t *testing.T) {
	doc, err := described()
	if err != nil {
		t.Fatal(err)
	}
	k := newKit(t, Config{}, nil)
	asked := 0
	for path, item := range doc.T.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			media := op.RequestBody.Value.Content["application/json"]
			if media == nil {
				continue
			}
			if len(media.Examples) == 0 {
				t.Errorf("%s has no example", op.OperationID)
			}
			for name, e := range media.Examples {
				asked++
				raw, err := json.Marshal(e.Value.Value)
				if err != nil {
					t.Fatal(err)
				}
				body := strings.NewReplacer("smollm2-135m-instruct", "chat", "multilingual-e5-small", "embed", "bge-reranker-v2-m3", "rank", `"office"`, `"docs"`).Replace(string(raw))
				t.Run(op.OperationID+"/"+name, func(t *testing.T) { k.takesExample(t, method, path, op.OperationID, body) })
			}
		}
	}
	if asked < 20 {
		t.Errorf("%d examples", asked)
	}
}

func (k *kit) takesExample(t *testing.T, method, path, operation, body string) {
	t.Helper()
	switch operation { // of what is kept, which this server does not do
	case "createBatch":
		f, err := parse(body, 64)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := newBatch(f); err != nil || !slices.Contains(batch.Endpoints(), n.Endpoint) {
			t.Errorf("%+v: %v", n, err)
		}
		return
	case "createMessageBatch":
		in := &valueReader{from: strings.NewReader(body), most: 1 << 20, in: k.api.Bodies()}
		taken := 0
		err := k.api.newRequestReader(in, func(string, []byte) error { taken++; return nil }).read()
		if err != nil || taken == 0 {
			t.Errorf("%d requests, %v", taken, err)
		}
		return
	}
	path = strings.NewReplacer("{id}", "embed", "{version}", "v1").Replace(path)
	if resp, got := k.do(t, method, path, strings.NewReader(body)); resp.StatusCode != http.StatusOK {
		t.Errorf("%s %s %s: %d %s", method, path, body, resp.StatusCode, got)
	}
}

// TestDocumentIsServed gives it to whoever has a key.
func TestDocumentIsServed(t *testing.T) {
	k := newKit(t, Config{}, nil)
	resp, body := k.do(t, http.MethodGet, "/v1/openapi.yaml", nil)
	if resp.StatusCode != http.StatusOK || body != string(Document()) {
		t.Errorf("%d %.200s", resp.StatusCode, body)
	}
	if resp, _ := k.do(t, http.MethodGet, "/v1/openapi.yaml", nil, "Authorization", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger: %d", resp.StatusCode)
	}
}
