package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
)

// trace matches what must never reach a caller: goroutine dumps, source positions, statements, paths of ours.
var trace = regexp.MustCompile(`goroutine \d+|\.go:\d+|panic|runtime error|(?i:SELECT .* FROM)|sqlite|/data/|0x[0-9a-f]{6,}`)

// TestBadInput sends every mistake that an application can make. Each is refused with its status and code in an OpenAI error body
// whose sentence is for people, and leaves nothing behind: no question to the engine, no usage, no reservation, no admitted record
// without its outcome.
func TestBadInput(t *testing.T) {
	t.Parallel()
	in := start(t, setup{extra: "http: {max_body_bytes: 65536}\n", plan: func(_ int, req *engine.Request) enginetest.Plan {
		return enginetest.Plan{Err: fault.Wrap(errors.New("planted-secret"), fault.CodeEngineUnavailable, string(req.Model))}
	}})
	first := in.started.Welcome.APIKey.Reveal()
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "limit_nano": int64(1e15)}, new(any))
	ask := `{"model":"scripted","messages":[{"role":"user","content":"planted-secret 13800138000"}]`
	in.admin(http.MethodPost, "/tenants", map[string]string{"id": "other", "name": "Other"}, new(any))
	in.admin(http.MethodPost, "/policies", map[string]string{"tenant": "other", "yaml": strings.Replace(openPolicy, `models: ["*"]`, `models: [theirs]`, 1)}, new(any))
	foreign := in.issueKey(map[string]any{"name": "theirs", "tenant": "other"})
	broke := in.issueKey(map[string]any{"name": "broke"})
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "key": broke.id, "limit_nano": 0}, new(any))
	tight := in.issueKey(map[string]any{"name": "tight"})
	in.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "key": tight.id, "limit_nano": 1}, new(any))

	for _, c := range []struct {
		name, key, body string
		status          int
		kind, code      string
		param, remedy   string // remedy: a part of the sentence that says what to do
		header          string
	}{
		{"malformed JSON", first, `{"model":"scripted",,}`, 400, "invalid_request_error", "invalid_json", "", "Check quotes", ""},
		{"empty body", first, ``, 400, "invalid_request_error", "invalid_json", "", "Check quotes", ""},
		{"wrong type", first, `{"model":"scripted","messages":"planted-secret"}`, 400, "invalid_request_error", "invalid_type", "messages", "expected", ""},
		{"wrong type deep", first, `{"model":"scripted","messages":[{"role":"user","content":{"a":1}}]}`, 400, "invalid_request_error", "invalid_type", "messages[0].content", "expected", ""},
		{"value out of range", first, ask + `,"temperature":9}`, 400, "invalid_request_error", "invalid_value", "temperature", "between", ""},
		{"unknown model", first, strings.Replace(ask, "scripted", "gpt-9", 1) + "}", 404, "invalid_request_error", "model_not_found", "model", "GET /v1/models", ""},
		{"oversize body", first, ask + `,"user":"` + strings.Repeat("x", 70_000) + `"}`, 413, "invalid_request_error", "request_too_large", "", "Send less", ""},
		{"10,000 levels", first, ask + `,"x":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}", 413, "invalid_request_error", "nesting_too_deep", "", "Flatten", ""},
		{"10,000 levels left open", first, strings.Repeat(`{"a":`, 10_000), 413, "invalid_request_error", "nesting_too_deep", "", "Flatten", ""},
		{"invalid UTF-8", first, "{\"model\":\"scripted\",\"messages\":[{\"role\":\"user\",\"content\":\"planted-secret \xff\xfe\"}]}", 400, "invalid_request_error", "invalid_utf8", "", "UTF-8", ""},
		{"no key", "", ask + "}", 401, "authentication_error", "invalid_api_key", "", "Authorization: Bearer", ""},
		{"garbage key", "planted-secret", ask + "}", 401, "authentication_error", "invalid_api_key", "", "console", ""},
		{"key of another installation", "sk-sluice-AAAAAAAAAAAA-" + strings.Repeat("A", 43), ask + "}", 401, "authentication_error", "invalid_api_key", "", "console", ""},
		{"secret cut short", first[:len(first)-1], ask + "}", 401, "authentication_error", "invalid_api_key", "", "console", ""},
		{"session in place of a key", in.session(), ask + "}", 401, "authentication_error", "invalid_api_key", "", "console", ""},
		{"key of a tenant without the model", foreign.secret, ask + "}", 403, "permission_error", "model_not_allowed", "model", "GET /v1/models", ""},
		{"budget of the key spent", broke.secret, ask + "}", 429, "insufficient_quota", "project_spend_limit_exceeded", "", "an administrator of the tenant can raise it", "X-Should-Retry"},
		{"more than the budget of the key has left", tight.secret, ask + "}", 429, "insufficient_quota", "request_exceeds_budget", "", "0.000000001 CNY is left", "X-Should-Retry"},
		{"retrieval that is off", first, ask + `,"rag":{"collection":"nowhere"}}`, 503, "server_error", "retrieval_unavailable", "", "cannot be searched", ""},
		{"engine that fails", first, ask + "}", 503, "server_error", "engine_unavailable", "", "Try again", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, stream := range []string{"", `,"stream":true`} {
				body := c.body
				if stream != "" {
					if !strings.HasPrefix(body, ask) { // the broken ones cannot ask for a stream
						continue
					}
					body = ask + stream + body[len(ask):]
				}
				r := in.send(http.MethodPost, "/v1/chat/completions", c.key, body)
				checkRefusal(t, r, c.status, c.kind, c.code, c.param, c.remedy)
				if c.header != "" && r.header.Get(c.header) == "" {
					t.Errorf("the header %s is missing", c.header)
				}
			}
		})
	}
	if r := in.send(http.MethodGet, "/api/v1/keys", first, nil); r.status != 403 || strings.Contains(string(r.body), first) {
		t.Errorf("an API key on the management API: %d %s", r.status, r.body)
	}
	in.nothingLeft(0)
	for _, secret := range []string{"planted-secret", "13800138000", first, foreign.secret, broke.secret} {
		if strings.Contains(in.logs.String(), secret) {
			t.Errorf("the log contains %q", secret)
		}
	}
}

// TestKeysEnd: an expired key and a revoked one are refused within two seconds, and say so.
func TestKeysEnd(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	ask := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
	expiry := time.Now().UTC().Add(10 * time.Second) // enough for the requests below on a slow machine
	short := in.issueKey(map[string]any{"name": "short", "expires_at": expiry.Format(time.RFC3339Nano)})
	long := in.issueKey(map[string]any{"name": "long"})
	for _, k := range []issuedKey{short, long} {
		if r := in.send(http.MethodPost, "/v1/chat/completions", k.secret, ask); r.status != http.StatusOK && time.Now().Before(expiry) {
			t.Fatalf("a fresh key: %d %s", r.status, r.body)
		}
	}
	in.admin(http.MethodPost, "/keys/"+long.id+"/revoke", nil, nil)
	for _, c := range []struct {
		name string
		key  issuedKey
		from time.Time
	}{{"revoked", long, time.Now()}, {"expired", short, expiry}} {
		var r reply
		eventually(t, "the "+c.name+" key to be refused", func() bool {
			r = in.send(http.MethodPost, "/v1/chat/completions", c.key.secret, ask)
			return r.status != http.StatusOK
		})
		if late := time.Since(c.from); late > 2*time.Second {
			t.Errorf("the %s key was taken for %s", c.name, late)
		}
		checkRefusal(t, r, 401, "authentication_error", "expired_api_key", "", "Create a new one")
	}
	in.nothingLeft(len(in.scripted.Requests()))
}

const openPolicy = `schema: 2
name: open
models: ["*"]
purposes: []
pseudonyms: session
label: metadata
collections: ["*"]
entities:
  default: {request: token, passage: token, answer: observe}
`

// checkRefusal holds a reply against the wire format: four keys, the request id, a sentence with its remedy, no insides of ours.
func checkRefusal(t *testing.T, r reply, status int, kind, code, param, remedy string) {
	t.Helper()
	var body struct {
		Error map[string]json.RawMessage
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		t.Fatalf("%d, not an error body: %s", r.status, r.body)
	}
	text := func(key string) string {
		raw, ok := body.Error[key]
		if !ok {
			t.Errorf("the error lacks %q: %s", key, r.body)
		}
		var s string
		_ = json.Unmarshal(raw, &s) // null is ""
		return s
	}
	message := text("message")
	if r.status != status || text("type") != kind || text("code") != code || text("param") != param {
		t.Errorf("got %d %s, want %d type %s code %s param %q", r.status, r.body, status, kind, code, param)
	}
	if !strings.Contains(message, remedy) || strings.Contains(message, "%!") {
		t.Errorf("the sentence %q does not say %q", message, remedy)
	}
	if trace.Match(r.body) || strings.Contains(string(r.body), "planted-secret") || strings.Contains(string(r.body), "sk-sluice-") {
		t.Errorf("the error shows too much: %s", r.body)
	}
	if r.header.Get("X-Request-Id") == "" || r.header.Get("Content-Type") != "application/json; charset=utf-8" {
		t.Errorf("headers: %v", r.header)
	}
}

// nothingLeft fails unless nothing is half-written: the log verifies, no admitted record lacks its outcome, every reservation was
// settled, and usage was charged for so many generations.
func (in *installation) nothingLeft(charged int) {
	in.t.Helper()
	for _, gauge := range []string{"sluice_billing_open_reservations", "sluice_gateway_running_requests", "sluice_http_body_bytes"} {
		eventually(in.t, gauge+" to be 0", func() bool { return in.gauge(gauge) == "0" })
	}
	eventually(in.t, fmt.Sprintf("%d requests in the usage report", charged), func() bool { return in.usage("").Requests == int64(charged) })
	var job struct{ ID string }
	in.admin(http.MethodPost, "/audit/verifications", nil, &job)
	var v struct {
		Status string
		Report struct {
			OK                 bool
			Problems, Findings []struct{ Kind, Record, Cause string }
		}
	}
	eventually(in.t, "the verification to finish", func() bool {
		in.admin(http.MethodGet, "/audit/verifications/"+job.ID, nil, &v)
		return v.Status != "running"
	})
	if v.Status != "finished" || !v.Report.OK {
		in.t.Errorf("the audit log does not verify: %+v", v)
	}
	for _, f := range v.Report.Findings {
		if f.Kind == "unfinished" || f.Kind == "unbooked" {
			in.t.Errorf("left behind: %+v", f)
		}
	}
}

// gauge returns the value of a metric without labels.
func (in *installation) gauge(name string) string {
	in.t.Helper()
	for line := range strings.Lines(string(in.send(http.MethodGet, "/metrics", operationsToken, nil).body)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	in.t.Fatalf("no metric %s", name)
	return ""
}

type issuedKey struct{ id, secret string }

func (in *installation) issueKey(what map[string]any) issuedKey {
	in.t.Helper()
	var out struct {
		Key    struct{ ID string }
		Secret string
	}
	in.admin(http.MethodPost, "/keys", what, &out)
	return issuedKey{out.Key.ID, out.Secret}
}

// session returns the administrator's session token.
func (in *installation) session() string {
	in.admin(http.MethodGet, "/me", nil, nil)
	return in.token
}
