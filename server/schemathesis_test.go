package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testpython"
	"github.com/sluice-project/sluice/server/httpapi"
)

// TestManagementAPIWithSchemathesis lets a program that we did not write make requests out of the document of the management API, right ones and wrong ones,
// as an administrator. No answer may be an internal error, or other than the document says in status, media type, headers and body; what is wrong by the
// document is refused, and so is a method that it does not have and a caller without a credential. The requests are the same each time. It takes minutes, so
// it belongs to the long form.
func TestManagementAPIWithSchemathesis(t *testing.T) {
	if os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("set SLUICE_TEST_LONG to make requests out of the document of the management API")
	}
	python := testpython.Python(t, "schemathesis", "python")
	in := start(t, setup{retrieval: true, extra: glass, overrides: map[string]any{"engines.registered.networks": []any{"127.0.0.0/8"}}})
	document, err := filepath.Abs("adminapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "schemathesis.toml"), []byte(in.namesOfThings()), 0o600); err != nil {
		t.Fatal(err)
	}
	in.asksByItself(python, dir, document, "/api/v1", []string{"--header", "Authorization: Bearer " + in.session()}, everyCheck, "--phases", "examples,coverage,fuzzing", "--max-examples", "25",
		"--exclude-operation-id", "logout") // it would end the session
}

// everyCheck are the checks of an answer.
const everyCheck = answerChecks + ",negative_data_rejection,unsupported_method,ignored_auth"

// answerChecks are those that hold whoever asks.
const answerChecks = "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance,response_headers_conformance"

// asksByItself has schemathesis make requests out of a document, the same ones each time. dir has its configuration, prefix is what paths begin with.
func (in *installation) asksByItself(python, dir, document, prefix string, credential []string, checks string, args ...string) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), 14*time.Minute) // the access token lives 15 minutes
	defer cancel()
	cmd := exec.CommandContext(ctx, python, slices.Concat([]string{
		"-m", "schemathesis.cli", "run", document, "--url", strings.TrimSuffix(in.started.BaseURL, "/v1") + prefix, "--generation-deterministic", "--checks", checks,
		"--continue-on-failure", "--suppress-health-check", "all", "--no-color", "--request-timeout", "30",
	}, credential, args)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "no_proxy=127.0.0.1", "PYTHONIOENCODING=utf-8")
	out, err := cmd.CombinedOutput()
	in.t.Logf("%s", out)
	if err != nil {
		in.t.Errorf("requests were answered otherwise than the document says: %v", err)
	}
}

// TestBusinessAPIWithSchemathesis does so with the document of the business API, in every dialect: with a key, under whose checks a request without one is
// refused, too, and then with none at all. The models are scripted, and files and batches are there to be asked for.
func TestBusinessAPIWithSchemathesis(t *testing.T) {
	if os.Getenv("SLUICE_TEST_LONG") == "" {
		t.Skip("set SLUICE_TEST_LONG to make requests out of the document of the business API")
	}
	python := testpython.Python(t, "schemathesis", "python")
	in := start(t, setup{
		retrieval: true,
		remote:    "[{id: scripted, tools: true, formats: true, sampling: true, logprobs: true, dialect: vllm, context_tokens: 4096}, {id: scripted-embed, embed_dim: 32}, {id: scripted-rerank, rerank: true}]",
		extra:     "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n",
	})
	dir := t.TempDir()
	document := filepath.Join(dir, "openapi.yaml")
	for path, text := range map[string]string{document: namingModels(t), filepath.Join(dir, "schemathesis.toml"): in.namesOfKeptThings()} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A WebSocket is no answer that it could read.
	exclude := []string{"--exclude-operation-id", "openChatSocket"}
	key := []string{"--header", "Authorization: Bearer " + in.started.Welcome.APIKey.Reveal()}
	in.asksByItself(python, dir, document, "", key, everyCheck, slices.Concat(exclude, []string{"--phases", "examples,coverage,fuzzing", "--max-examples", "15"})...)
	in.asksByItself(python, dir, document, "", nil, answerChecks, slices.Concat(exclude, []string{"--phases", "examples,coverage"})...)
}

// namingModels is the document of the business API with the names of the models that there are, so that most requests reach one, and with a deadline that can
// be met: whoever gives an engine a millisecond is rightly told that there was no answer in time.
func namingModels(t *testing.T) string {
	t.Helper()
	text := string(httpapi.Document())
	for schema, model := range map[string]string{"ChatModel": "scripted", "EmbedModel": "scripted-embed", "ScoreModel": "scripted-rerank"} {
		any := "    " + schema + ": {type: string, minLength: 1, maxLength: 200, description: 'Its name, or name@version'}\n"
		if !strings.Contains(text, any) {
			t.Fatalf("the document spells %s otherwise", schema)
		}
		text = strings.Replace(text, any, "    "+schema+": {type: string, enum: ["+model+"]}\n", 1)
	}
	const deadline = "{type: string, pattern: '^[1-9][0-9]{0,6}$'}, example: '60000'}"
	if !strings.Contains(text, deadline) {
		t.Fatal("the document spells the deadline otherwise")
	}
	text = strings.Replace(text, deadline, "{type: string, enum: ['60000']}}", 1)
	return strings.NewReplacer("smollm2-135m-instruct", "scripted", "multilingual-e5-small", "scripted-embed", "bge-reranker-v2-m3", "scripted-rerank").Replace(text)
}

// namesOfKeptThings keeps one of each thing that operations are about, and returns the configuration by which requests name it. What removes or ends things is
// left to invented names.
func (in *installation) namesOfKeptThings() string {
	in.t.Helper()
	key := in.started.Welcome.APIKey.Reveal()
	kept := func(path string, body any) string {
		var out struct{ ID string }
		in.send(http.MethodPost, path, key, body).decode(in.t, &out)
		return out.ID
	}
	ask := map[string]any{"model": "scripted", "max_tokens": 9, "messages": []any{map[string]any{"role": "user", "content": "hello"}}}
	in.admin(http.MethodPost, "/rag/collections", map[string]any{"name": "office"}, new(any))
	var file struct{ ID string }
	in.upload(key, "lines.jsonl", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"scripted","messages":[{"role":"user","content":"hello"}]}}`+"\n", true, "purpose", "batch").decode(in.t, &file)
	names := map[string]map[string]string{
		"/v1/responses/{id}":        {"id": kept("/v1/responses", map[string]any{"model": "scripted", "input": "hello"})},
		"/v1/files/{id}":            {"id": file.ID},
		"/v1/batches/{id}":          {"id": kept("/v1/batches", map[string]any{"input_file_id": file.ID, "endpoint": "/v1/chat/completions", "completion_window": "24h"})},
		"/v1/messages/batches/{id}": {"id": kept("/v1/messages/batches", map[string]any{"requests": []any{map[string]any{"custom_id": "a", "params": ask}}})},
		"/v1/models/{id}":           {"id": "scripted"},
		"/v2/models/{id}":           {"id": "scripted-embed"},
	}
	return requestsName(names)
}

// namesOfThings makes one of each thing that operations are about, and returns the configuration by which requests name it. What removes or ends things
// is left to invented names, or the other operations would find none.
func (in *installation) namesOfThings() string {
	in.t.Helper()
	made := func(path string, body map[string]any) string {
		var out struct{ ID string }
		in.admin(http.MethodPost, path, body, &out)
		return out.ID
	}
	made("/tenants", map[string]any{"id": "bank", "name": "Bank"})
	instance := map[string]any{"name": "a", "base_url": in.upstream.URL + "/v1", "models": []any{map[string]any{"id": "scripted", "context_tokens": 4096}}}
	in.admin(http.MethodPost, "/pools/fleet/instances", instance, new(any))
	in.admin(http.MethodPost, "/rag/collections", map[string]any{"name": "office"}, new(any))
	request := in.chat(map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": "hello"}}}).header.Get("X-Request-Id")
	due := time.Now().Add(30 * 24 * time.Hour).UTC().Format(time.RFC3339)
	return requestsName(map[string]map[string]string{
		"/users/{id}":                             {"id": made("/users", map[string]any{"name": "carol", "password": "nine copper lanterns swing", "roles": []string{"auditor"}})},
		"/keys/{id}":                              {"id": in.newKey("fuzzed").id},
		"/service-accounts/{id}":                  {"id": in.newProgram("fuzzed", nil, "auditor").Account.Id},
		"/projects/{id}":                          {"id": made("/projects", map[string]any{"id": "fuzzed", "name": "Fuzzed"})},
		"/organisations/{id}":                     {"id": made("/organisations", map[string]any{"id": "group", "name": "Group"})},
		"/tenants/{id}":                           {"id": "bank"},
		"/access-reviews/{id}":                    {"id": made("/access-reviews", map[string]any{"name": "autumn", "owner": "carol", "due_at": due})},
		"/audit/records/{id}":                     {"id": in.records(request, 2)[0].ID},
		"/audit/verifications/{id}":               {"id": made("/audit/verifications", nil)},
		"/billing/statements/{month}":             {"month": time.Now().UTC().Format("2006-01")},
		"/pools/{pool}/instances/{name}":          {"pool": "fleet", "name": "a"},
		"/rag/collections/{collection}/documents": {"collection": "office"},
	})
}

// requestsName is the configuration by which requests to paths name things.
func requestsName(things map[string]map[string]string) string {
	var config strings.Builder
	for path, names := range things {
		fmt.Fprintf(&config, "[[operations]]\ninclude-path-regex = '^%s'\nexclude-method = 'DELETE'\nexclude-path-regex = '(revoke|cancel|disable|suspend|reset)$'\nparameters = {", strings.NewReplacer("{", `\{`, "}", `\}`).Replace(path))
		for name, value := range names {
			fmt.Fprintf(&config, " %q = %q,", "path."+name, value)
		}
		config.WriteString(" }\n")
	}
	return strings.ReplaceAll(config.String(), ", }", " }")
}
