package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/server/adminapi"
)

// unrecorded are the operations that change something or read the audit log and leave no record of the management API, and why. A read of
// anything else leaves none. Do not add one without saying so in the guide.
var unrecorded = map[string]string{
	"playgroundChat":       "the pipeline records the chat",
	"previewSearch":        "the pipeline records the search",
	"readPassage":          "the pipeline records the reading",
	"createBatch":          "the pipeline records the batch, under its own action",
	"storeBatchFile":       "the pipeline records the file",
	"cancelBatch":          "the pipeline records it",
	"refreshSession":       "renewing a session every few minutes is no act",
	"logout":               "without a session there is nothing to end; TestTenancy looks at the others",
	"showInvitation":       "whoever looks at an invitation is nobody yet, and strangers must not fill the log",
	"acceptInvitation":     "the same of one that does not exist; TestInvitations looks at the others",
	"askSecurityKey":       "what a security key is to sign is no act; that it was shown is",
	"getAuditStatus":       "it shows no record, and the console asks for it again and again",
	"sizeAuditExport":      "it shows no record, and is asked for every period that somebody thinks of",
	"listErasureApprovals": "it names nobody, and whoever waits for an approval asks for it again and again",
	"getLogCheckpoint":     "a witness sees hashes only, and a record of its looking would bring about the next checkpoint to look at",
	"getLogTile":           "the same",
	"addLogCosignature":    "the same; its cosignature is kept",
}

// recordedReads are the reads that leave a record though they are not of the audit log, and why.
var recordedReads = map[string]string{
	"getStatement":   "a statement goes to people outside, and who took it may be asked for",
	"listFAQEntries": "it shows what documents say as they are stored, to whoever edits it",
}

// act is a request of the walk, and the records it has to leave: how it went, by whom.
type act struct {
	name, request string
	operation     string
	actor         string
	want          []string
}

// TestEveryActIsRecorded walks the document: whatever changes something, and whatever reads the audit log, leaves its two records when it is
// allowed and one when it is refused, and everything else none. One place in the server writes them, so a handler cannot forget it.
func TestEveryActIsRecorded(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	in.checkActs(in.walk(func(path string) bool { return !strings.HasPrefix(path, "/rag/") }))
}

// TestEveryActOnDocumentsIsRecorded is the same for retrieval, which needs a model.
func TestEveryActOnDocumentsIsRecorded(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true})
	in.checkActs(in.walk(func(path string) bool { return strings.HasPrefix(path, "/rag/") }))
}

// walk asks for every operation, as somebody who may do everything and as somebody who may not do it.
func (in *installation) walk(chosen func(path string) bool) []act {
	in.t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		in.t.Fatal(err)
	}
	tokens := map[string]string{}
	for _, role := range []string{"developer", "witness"} {
		tokens[role] = in.signIn(role)
	}
	in.admin(http.MethodGet, "/me", nil, nil)
	var acts []act
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		for method, op := range doc.Paths.Find(path).Operations() {
			if op.OperationID == "login" || op.OperationID == "openBreakGlass" || !chosen(path) { // TestTenancy looks at sign-ins, TestBreakGlass at emergencies
				continue
			}
			permission, _ := op.Extensions["x-permission"].(string)
			recorded := unrecorded[op.OperationID] == "" && (method != http.MethodGet || strings.HasPrefix(permission, "audit.") || recordedReads[op.OperationID] != "")
			target, body := sampleRequest(path, op)
			got := in.send(method, adminapi.Prefix+target, in.token, body)
			a := act{name: method + " " + path, request: got.header.Get("X-Request-Id"), operation: op.OperationID, actor: in.started.Welcome.AdminUser}
			if recorded {
				a.want = []string{"admitted", outcomeOf(got.status)}
			}
			acts = append(acts, a)
			if permission == "" {
				continue
			}
			role := lacking(in.t, permission, slices.Sorted(maps.Keys(tokens)))
			got = in.send(method, adminapi.Prefix+target, tokens[role], body)
			if got.status != http.StatusForbidden {
				in.t.Errorf("%s %s as %s: %d", method, path, role, got.status)
			}
			acts = append(acts, act{
				name: method + " " + path + " as " + role, request: got.header.Get("X-Request-Id"), operation: op.OperationID, actor: "user-" + role,
				want: []string{"outcome refused 403 refuse"},
			})
		}
	}
	return acts
}

func outcomeOf(status int) string {
	switch {
	case status < 400:
		return fmt.Sprintf("outcome ok %d allow", status)
	case status >= 500:
		return fmt.Sprintf("outcome failed %d allow", status)
	case status == http.StatusForbidden:
		return fmt.Sprintf("outcome refused %d refuse", status)
	default:
		return fmt.Sprintf("outcome refused %d allow", status)
	}
}

// lacking names a role without the permission.
func lacking(t *testing.T, permission string, roles []string) string {
	t.Helper()
	for _, r := range access.Roles() {
		if slices.Contains(roles, r.ID) && !slices.Contains(r.Permissions, access.Permission(permission)) {
			return r.ID
		}
	}
	t.Fatalf("every role has %s", permission)
	return ""
}

func (in *installation) checkActs(acts []act) {
	in.t.Helper()
	if len(acts) < 10 {
		in.t.Fatalf("only %d acts", len(acts))
	}
	// Records are shipped in order: when those of the last act are there, those of every act are that will ever be.
	last := acts[len(acts)-1]
	in.records(last.request, len(last.want))
	for _, a := range acts {
		if a.request == "" {
			in.t.Errorf("%s: no request id", a.name)
			continue
		}
		var got []string
		for _, e := range in.records(a.request, 0) {
			var more struct {
				Status   int
				Decision string
				Source   string
				Route    string
			}
			if err := json.Unmarshal(e.raw, &more); err != nil {
				in.t.Fatal(err)
			}
			if strings.HasPrefix(e.Action, "admin.") {
				s := e.Stage
				if s == "outcome" {
					s = fmt.Sprintf("outcome %s %d %s", e.Outcome, more.Status, more.Decision)
				}
				got = append(got, s)
				if e.Action != "admin."+a.operation || e.Actor.Name != a.actor || e.Actor.Kind != "user" || e.Actor.ID == "" || more.Source != "127.0.0.1" || e.Tenant == "" || more.Route == "" {
					in.t.Errorf("%s: %s", a.name, e.raw)
				}
			}
		}
		if !slices.Equal(got, a.want) {
			in.t.Errorf("%s (%s): records %q, want %q", a.name, a.operation, got, a.want)
		}
	}
}

// sampleRequest makes a well-formed request of an operation, which need not make sense: it has to reach the handler, not to succeed.
func sampleRequest(path string, op *openapi3.Operation) (target string, body any) {
	query := url.Values{}
	for _, p := range op.Parameters {
		v := fmt.Sprint(sample(p.Value.Schema.Value, p.Value.Name))
		switch {
		case p.Value.In == "path" && p.Value.Name == "path": // of a tile
			path = strings.ReplaceAll(path, "{path}", "0/000")
		case p.Value.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Value.Name+"}", url.PathEscape(v))
		case p.Value.In == "query" && p.Value.Required:
			query.Set(p.Value.Name, v)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if op.RequestBody == nil {
		return path, nil
	}
	if json := op.RequestBody.Value.Content.Get("application/json"); json != nil && json.Schema != nil {
		return path, sample(json.Schema.Value, "body")
	}
	return path, "none"
}

// sample is a value of a schema: the least there is.
func sample(s *openapi3.Schema, name string) any {
	for _, list := range []openapi3.SchemaRefs{s.OneOf, s.AnyOf, s.AllOf} {
		if len(list) > 0 {
			return sample(list[0].Value, name)
		}
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Includes("object"):
		out := map[string]any{}
		for _, k := range s.Required {
			out[k] = sample(s.Properties[k].Value, k)
		}
		return out
	case s.Type.Includes("array"):
		out := []any{}
		for range s.MinItems {
			out = append(out, sample(s.Items.Value, name))
		}
		return out
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		if s.Min != nil {
			return *s.Min
		}
		return 1
	case s.Type.Includes("boolean"):
		return false
	case s.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	case s.Format == "date":
		return "2026-01-01"
	case strings.HasPrefix(s.Pattern, "^([01][0-9]") || strings.HasPrefix(s.Pattern, "^(([01][0-9]"):
		return "10:00"
	case s.Pattern == "^[0-9a-f]{64}$":
		return strings.Repeat("0", 64)
	default:
		return "none" + strings.Repeat("x", max(0, int(s.MinLength)-4))
	}
}
