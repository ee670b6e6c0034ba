package server_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testpython"
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
	ctx, cancel := context.WithTimeout(t.Context(), 14*time.Minute) // the access token lives 15 minutes
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-m", "schemathesis.cli", "run", document,
		"--url", strings.TrimSuffix(in.started.BaseURL, "/v1")+"/api/v1", "--header", "Authorization: Bearer "+in.session(),
		"--phases", "examples,coverage,fuzzing", "--max-examples", "25", "--generation-deterministic",
		"--checks", "not_a_server_error,response_schema_conformance,status_code_conformance,content_type_conformance,response_headers_conformance,"+
			"negative_data_rejection,unsupported_method,ignored_auth",
		"--exclude-operation-id", "logout", // it would end the session
		"--continue-on-failure", "--suppress-health-check", "all", "--no-color", "--request-timeout", "30")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "no_proxy=127.0.0.1", "PYTHONIOENCODING=utf-8")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("requests were answered otherwise than the document says: %v", err)
	}
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
	var config strings.Builder
	for path, names := range map[string]map[string]string{
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
	} {
		fmt.Fprintf(&config, "[[operations]]\ninclude-path-regex = '^%s'\nexclude-method = 'DELETE'\nexclude-path-regex = '(revoke|cancel|disable|suspend|reset)$'\nparameters = {", strings.NewReplacer("{", `\{`, "}", `\}`).Replace(path))
		for name, value := range names {
			fmt.Fprintf(&config, " %q = %q,", "path."+name, value)
		}
		config.WriteString(" }\n")
	}
	return strings.ReplaceAll(config.String(), ", }", " }")
}
