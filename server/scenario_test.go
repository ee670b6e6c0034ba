package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestScenarios runs testdata/e2e/*.txtar, each against fresh installations on both databases, over HTTP only. The sections of a file:
//
//	config.yaml   keys appended to the configuration
//	policy.yaml   a policy the administrator publishes first
//	setup.http    management API requests made first, blank line between: METHOD PATH then a JSON line
//	retrieval     (its content does not matter) documents are embedded by the real model; without it the scenario is skipped
//	keys.json     keys made first: their names, and what the management API is sent for each
//	plan.json     what the scripted engine does, one object per generation: {"text": "…"} or {"fail": "code"}; absent: it echoes
//	N.restart     (its content does not matter) the server is stopped and started on its data before request N
//	N.request     method and path, headers, blank line, body; the first key is used unless there is an Authorization header:
//	              a credential, "none", or "key " and a name of keys.json
//	N.response    status, headers to match, blank line, body to match
//	engine.jsonl  what the engine was given, one request a line
//	forbidden     strings that neither engine, nor log, nor audit record may contain
//	audit.jsonl   the records of all requests, in order
//	usage.json    the total of the usage report
//
// JSON is matched as a subset; "*" matches any non-empty string, "~x" one that contains x. A text body matches line by line: each
// line must be contained in the answer.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/e2e/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for name, database := range map[string]func(testing.TB) string{"sqlite": func(testing.TB) string { return "" }, "postgres": dbtest.PostgresURL} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					runScenario(t, txtar.Parse(raw), database(t))
				})
			}
		})
	}
}

type scenario map[string]string

func runScenario(t *testing.T, archive *txtar.Archive, database string) {
	s := scenario{}
	for _, f := range archive.Files {
		s[f.Name] = string(f.Data)
	}
	_, retrieval := s["retrieval"]
	in := start(t, setup{database: database, extra: s["config.yaml"], plan: s.plan(t), retrieval: retrieval})
	if doc := s["policy.yaml"]; doc != "" {
		in.admin(http.MethodPost, "/policies", map[string]string{"yaml": doc}, new(any))
	}
	for _, block := range strings.Split(strings.TrimSpace(s["setup.http"]), "\n\n") {
		if line, body, ok := strings.Cut(block, "\n"); ok {
			method, path, _ := strings.Cut(line, " ")
			in.admin(method, path, body, new(any))
		}
	}
	keys := s.keys(t, in)
	var requests []string
	for n := 1; s[strconv.Itoa(n)+".request"] != ""; n++ {
		name := strconv.Itoa(n)
		if _, ok := s[name+".restart"]; ok {
			in.restart()
		}
		answer := in.raw(s[name+".request"], keys)
		if id := answer.header.Get("X-Request-Id"); id != "" {
			requests = append(requests, id)
		} else {
			t.Errorf("request %s: no X-Request-Id", name)
		}
		matchReply(t, "response "+name, s[name+".response"], answer)
	}
	s.checkRecords(t, in, requests)
	if want := s["usage.json"]; want != "" {
		var report struct{ Total map[string]any }
		given, _ := parse(t, "usage.json", want).(map[string]any)
		eventually(t, "usage of "+fmt.Sprint(given["requests"])+" requests", func() bool { // nobody waited for the records of questions
			in.admin(http.MethodGet, "/usage", nil, &report)
			return fmt.Sprint(report.Total["requests"]) == fmt.Sprint(given["requests"])
		})
		match(t, "usage", given, report.Total)
	}
	if want := s["engine.jsonl"]; want != "" {
		given := in.scripted.Requests()
		lines := strings.Split(strings.TrimSpace(want), "\n")
		if len(lines) != len(given) {
			t.Errorf("the engine was asked %d times, want %d", len(given), len(lines))
		}
		for i := range min(len(lines), len(given)) {
			match(t, fmt.Sprintf("engine request %d", i+1), parse(t, "engine.jsonl", lines[i]), toJSON(t, plain(given[i])))
		}
	}
	s.checkForbidden(t, in, requests)
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Errorf("the audit log does not verify: %+v", v)
	}
}

// keys makes the keys and returns their credentials by name.
func (s scenario) keys(t *testing.T, in *installation) map[string]string {
	t.Helper()
	out := map[string]string{}
	if s["keys.json"] == "" {
		return out
	}
	for name, body := range parse(t, "keys.json", s["keys.json"]).(map[string]any) {
		var made struct{ Secret string }
		in.admin(http.MethodPost, "/keys", body, &made)
		out[name] = made.Secret
	}
	return out
}

func (s scenario) plan(t *testing.T) func(int, *engine.Request) enginetest.Plan {
	if s["plan.json"] == "" {
		return nil
	}
	var steps []struct {
		Text, Fail string
		After      int
	}
	if err := json.Unmarshal([]byte(s["plan.json"]), &steps); err != nil {
		t.Fatalf("plan.json: %v", err)
	}
	return func(n int, _ *engine.Request) enginetest.Plan {
		if n >= len(steps) {
			return enginetest.Plan{}
		}
		p := enginetest.Plan{FailAt: steps[n].After}
		if steps[n].Text != "" {
			p.Texts = []string{steps[n].Text}
		}
		if steps[n].Fail != "" {
			p.Err = fault.Wrap(errors.New("scripted"), fault.Code(steps[n].Fail), "scripted")
		}
		return p
	}
}

// checkRecords holds the audit records of all requests against audit.jsonl.
func (s scenario) checkRecords(t *testing.T, in *installation, requests []string) {
	t.Helper()
	if s["audit.jsonl"] == "" {
		return
	}
	lines := strings.Split(strings.TrimSpace(s["audit.jsonl"]), "\n")
	var got []auditEvent
	eventually(t, "the audit records", func() bool {
		got = nil
		for _, id := range requests {
			got = append(got, in.records(id, 0)...)
		}
		return len(got) >= len(lines)
	})
	if len(got) != len(lines) {
		t.Errorf("%d audit records, want %d", len(got), len(lines))
	}
	for i := range min(len(got), len(lines)) {
		match(t, fmt.Sprintf("audit record %d", i+1), parse(t, "audit.jsonl", lines[i]), parse(t, "record", string(got[i].raw)))
	}
}

// plain is what of a request can be written as JSON: all but its hook.
func plain(r engine.Request) any {
	return struct {
		engine.Request
		Hook any
	}{Request: r}
}

func (s scenario) checkForbidden(t *testing.T, in *installation, requests []string) {
	t.Helper()
	for _, secret := range strings.Fields(s["forbidden"]) {
		for i, r := range in.scripted.Requests() {
			if raw, err := json.Marshal(plain(r)); err != nil || strings.Contains(string(raw), secret) {
				t.Errorf("engine request %d contains %q", i+1, secret)
			}
		}
		if strings.Contains(in.logs.String(), secret) {
			t.Errorf("the log contains %q", secret)
		}
		for _, id := range requests {
			for _, e := range in.records(id, 0) {
				if strings.Contains(string(e.raw), secret) {
					t.Errorf("audit record %s contains %q", e.ID, secret)
				}
			}
		}
	}
}

// raw sends a request written as text.
func (in *installation) raw(text string, keys map[string]string) reply {
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	credential := in.started.Welcome.APIKey.Reveal()
	var header []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Authorization" {
			credential = strings.TrimPrefix(value, "none")
			if key, ok := strings.CutPrefix(value, "key "); ok {
				credential = keys[key]
			}
			continue
		}
		header = append(header, name, value)
	}
	if strings.TrimSpace(body) == "" {
		return in.send(method, path, credential, nil, header...)
	}
	return in.send(method, path, credential, strings.TrimSuffix(body, "\n"), header...)
}

func matchReply(t *testing.T, what, want string, got reply) {
	t.Helper()
	head, body, _ := strings.Cut(want, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	if status := strconv.Itoa(got.status); lines[0] != status {
		t.Errorf("%s: status %s, want %s: %s", what, status, lines[0], got.body)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		match(t, what+" header "+name, value, got.header.Get(name))
	}
	body = strings.TrimSpace(body)
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		match(t, what+" body", parse(t, what, body), parse(t, what, string(got.body)))
		return
	}
	for _, line := range strings.Split(body, "\n") {
		if !strings.Contains(string(got.body), line) {
			t.Errorf("%s: the body lacks %q: %s", what, line, got.body)
		}
	}
}

// match reports where got lacks what want asks for.
func match(t *testing.T, where string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: got %v, want an object", where, got)
			return
		}
		for k, v := range w {
			match(t, where+"."+k, v, g[k])
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s: got %v, want %d elements", where, got, len(w))
			return
		}
		for i := range w {
			match(t, fmt.Sprintf("%s[%d]", where, i), w[i], g[i])
		}
	case string:
		g, ok := got.(string)
		switch {
		case !ok && got != nil:
			t.Errorf("%s: got %v, want %q", where, got, w)
		case w == "*" && g == "":
			t.Errorf("%s: empty", where)
		case w == "*":
		case strings.HasPrefix(w, "~"):
			if !strings.Contains(g, w[1:]) {
				t.Errorf("%s: got %q, want it to contain %q", where, g, w[1:])
			}
		case g != w:
			t.Errorf("%s: got %q, want %q", where, g, w)
		}
	default:
		if want != got {
			t.Errorf("%s: got %v, want %v", where, got, want)
		}
	}
}

func parse(t *testing.T, what, text string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s is not JSON: %v: %s", what, err, text)
	}
	return v
}

func toJSON(t *testing.T, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, "value", string(raw))
}
