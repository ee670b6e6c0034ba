package adminapi

import (
	_ "embed"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/governance/access"
)

//go:embed openapi.yaml
var document []byte

// Prefix is where the API is mounted.
const Prefix = "/api/v1"

// operation is what the document says about one route.
type operation struct {
	id           string
	method       string
	permission   access.Permission // "" when public or for any signed-in user
	own          access.Permission // with this one instead, the caller acts on what is his own
	public       bool
	recorded     bool // it leaves a record
	namesTenant  bool // its body may
	organisation bool // it may name an organisation in the place of a tenant
	secondPerson bool // while the duties of administrators are separated
	breakGlass   bool // an emergency session may do it
	stepUp       bool // a second factor that the caller has was shown a short time ago
	streams      bool // its body goes to the handler as it comes, which reads and bounds it
	late         bool // its handler writes them, since the first says what the act has found
	item         *openapi3.PathItem
	op           *openapi3.Operation
	path         string // as in the document: /keys/{id}/revoke
}

// Route is one operation with what it needs, for the generated route × role test.
type Route struct {
	Method, Path, Operation string
	Permission              access.Permission // "" if Public or for any signed-in user
	Own                     access.Permission // in place of Permission, for what is the caller's own; "" for most
	Public                  bool
}

var pathParam = regexp.MustCompile(`\{([^}]+)\}`)

// description is the embedded document, with its operations by "METHOD gin-path". Nothing changes it once it is read.
type description struct {
	doc        *openapi3.T
	operations map[string]operation
}

// described reads the document once for all servers of the process: it takes a tenth of a second.
var described = sync.OnceValues(readDocument) //nolint:gochecknoglobals // what is embedded, read once and never changed

func readDocument() (*description, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("load openapi.yaml: %w", err)
	}
	ops := map[string]operation{}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			o := operation{id: op.OperationID, method: method, item: item, op: op, path: path}
			if p, ok := op.Extensions["x-permission"].(string); ok {
				o.permission = access.Permission(p)
			}
			if p, ok := op.Extensions["x-permission-own"].(string); ok {
				o.own = access.Permission(p)
			}
			o.public, _ = op.Extensions["x-public"].(bool)
			o.organisation, _ = op.Extensions["x-organisation"].(bool)
			o.secondPerson, _ = op.Extensions["x-second-person"].(bool)
			stepUp, _ := op.Extensions["x-step-up"].(bool)
			o.stepUp = stepUp || o.secondPerson
			o.streams, _ = op.Extensions["x-stream-body"].(bool)
			o.breakGlass, _ = op.Extensions["x-break-glass"].(bool)
			authenticated, _ := op.Extensions["x-authenticated"].(bool)
			if o.permission == "" && !o.public && !authenticated {
				return nil, fmt.Errorf("load openapi.yaml: %s %s declares neither x-permission, x-authenticated nor x-public", method, path)
			}
			o.recorded, o.late = recorded(o), o.id == "reveal" || o.id == "eraseValues"
			o.namesTenant = namesTenant(op)
			route := Prefix + pathParam.ReplaceAllString(path, ":$1")
			if rest, _ := op.Extensions["x-rest-of-path"].(bool); rest { // the last parameter takes what follows, slashes included
				at := strings.LastIndex(route, ":")
				route = route[:at] + "*" + route[at+1:]
			}
			ops[method+" "+route] = o
		}
	}
	return &description{doc, ops}, nil
}

// namesTenant reports whether the body of an operation may name the tenant that it is about.
func namesTenant(op *openapi3.Operation) bool {
	if op.RequestBody == nil {
		return false
	}
	for _, media := range op.RequestBody.Value.Content {
		if media.Schema != nil && hasProperty(media.Schema.Value, "tenant") {
			return true
		}
	}
	return false
}

func hasProperty(s *openapi3.Schema, name string) bool {
	if _, ok := s.Properties[name]; ok {
		return true
	}
	return slices.ContainsFunc(slices.Concat(s.AllOf, s.AnyOf, s.OneOf), func(part *openapi3.SchemaRef) bool { return hasProperty(part.Value, name) })
}

// recorded decides which operations the interceptor writes to the audit log: writes, every read of the log, and who has taken which statement. The playground, the search, the reading of a passage, and files and batches record themselves: they
// run the gateway's pipeline. Renewing a session every few minutes is not an act. A witness sees hashes only, and a record of its
// looking would bring about the next checkpoint to look at; its cosignatures are kept as such. The state of the log holds no record, and
// pages look at it all the time; so does whoever waits for an approval at the list of them, which names nobody. What a
// security key is to sign is no act; that it was shown is. How
// large an export would be is asked for every period that somebody thinks of. The list of a FAQ shows what documents say,
// which the pipeline has not masked, to whoever edits it. Whoever looks at an invitation changes nothing, and is nobody yet.
func recorded(o operation) bool {
	if o.permission == access.AuditWitness || slices.Contains([]string{
		"getAuditStatus", "listErasureApprovals", "sizeAuditExport", "playgroundChat", "previewSearch", "readPassage", "refreshSession", "showInvitation", "askSecurityKey",
		"storeBatchFile", "createBatch", "cancelBatch",
	}, o.id) {
		return false
	}
	return o.method != http.MethodGet || o.id == "getStatement" || o.id == "listFAQEntries" || strings.HasPrefix(string(o.permission), "audit.")
}

// Routes lists every operation of the document.
func Routes() ([]Route, error) {
	api, err := described()
	if err != nil {
		return nil, err
	}
	out := make([]Route, 0, len(api.operations))
	for key, o := range api.operations {
		method, path, _ := strings.Cut(key, " ")
		out = append(out, Route{Method: method, Path: path, Operation: o.id, Permission: o.permission, Own: o.own, Public: o.public})
	}
	return out, nil
}
