// Package documenttest holds answers to the OpenAPI document of their API, whichever test asked for them.
package documenttest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Document is a document that answers are held to. It is safe for concurrent use.
type Document struct {
	T *openapi3.T
	// Every holds each answer to the document, also one of a form that was seen already.
	Every bool

	paths  []pattern
	values *regexp.Regexp // strings and numbers of a JSON text

	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema // by their places
	seen     map[string]bool               // forms of answers that were held to it
}

// at is where the document is for the compiler of schemas.
const at = "document.json"

// pattern finds the path of the document that a request goes to.
type pattern struct {
	path string
	of   *regexp.Regexp
}

// Load reads a document.
func Load(document []byte) (*Document, error) {
	doc, err := openapi3.NewLoader().LoadFromData(document)
	if err != nil {
		return nil, fmt.Errorf("load the document: %w", err)
	}
	raw, err := doc.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("spell the document: %w", err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	d := &Document{
		T: doc, compiler: jsonschema.NewCompiler(), schemas: map[string]*jsonschema.Schema{}, seen: map[string]bool{},
		values: regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?[0-9][0-9.eE+-]*`),
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	if err := d.compiler.AddResource(at, value); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		param := `[^/]+`
		if strings.Contains(path, "/models/") || takesRest(doc.Paths.Value(path)) { // names of models may have slashes
			param = `.+`
		}
		d.paths = append(d.paths, pattern{path, regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), param) + "$")})
	}
	// The longest goes first: it is the most definite.
	slices.SortStableFunc(d.paths, func(a, b pattern) int { return len(b.path) - len(a.path) })
	return d, nil
}

// takesRest reports whether a path's last parameter takes what follows, slashes included.
func takesRest(item *openapi3.PathItem) bool {
	for _, op := range item.Operations() {
		if rest, _ := op.Extensions["x-rest-of-path"].(bool); rest {
			return true
		}
	}
	return false
}

// Has reports whether the document has a path that a request goes to.
func (d *Document) Has(path string) bool {
	return slices.ContainsFunc(d.paths, func(p pattern) bool { return p.of.MatchString(path) })
}

// operation returns the operation of a request, with its path, and nil if the document has none.
func (d *Document) operation(method, path string) (*openapi3.Operation, string) {
	for _, p := range d.paths {
		if !p.of.MatchString(path) {
			continue
		}
		if op := d.T.Paths.Value(p.path).GetOperation(method); op != nil {
			return op, p.path
		}
	}
	return nil, ""
}

// Check holds an answer to the document: status, media type, required headers, the body, and each event of a stream. Answers of a form that was seen already are
// not looked at again unless Every is set, since there are thousands. What is answered where the document has no operation must be a refusal.
func (d *Document) Check(req *http.Request, res *http.Response, body []byte) error {
	op, path := d.operation(req.Method, req.URL.Path)
	if op == nil {
		if res.StatusCode < http.StatusBadRequest {
			return fmt.Errorf("%s %s is answered with %d and described nowhere", req.Method, req.URL.Path, res.StatusCode)
		}
		return nil
	}
	if !d.Every && !d.first(op.OperationID, res, body) {
		return nil
	}
	answer, status := op.Responses.Status(res.StatusCode), strconv.Itoa(res.StatusCode)
	if answer == nil && res.StatusCode >= http.StatusBadRequest {
		answer, status = op.Responses.Default(), "default"
	}
	if answer == nil {
		return fmt.Errorf("%s is answered with %d, which is described nowhere", op.OperationID, res.StatusCode)
	}
	place := answer.Ref
	if place == "" {
		place = "#/paths/" + escaped(path) + "/" + strings.ToLower(req.Method) + "/responses/" + status
	}
	if err := d.checkAnswer(answer.Value, place, res.Header, body); err != nil {
		return fmt.Errorf("%s is not answered (%d) as described: %w\n%.600s", op.OperationID, res.StatusCode, err, body)
	}
	return nil
}

// escaped is a name as pointers into JSON have it.
func escaped(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D").Replace(name)
}

func (d *Document) checkAnswer(answer *openapi3.Response, place string, header http.Header, body []byte) error {
	for name, h := range answer.Headers {
		if h.Value.Required && header.Get(name) == "" {
			return fmt.Errorf("the header %s is missing", name)
		}
	}
	if len(answer.Content) == 0 {
		return nil
	}
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the content type %q: %w", header.Get("Content-Type"), err)
	}
	media := answer.Content[kind]
	switch {
	case media == nil:
		return fmt.Errorf("the content type is %s", kind)
	case kind == "application/json":
		return d.visit(place+"/content/application~1json/schema", body)
	}
	if names, ok := media.Extensions["x-events"].([]any); ok {
		return d.checkEvents(names, body)
	}
	return nil
}

// checkEvents holds each event, or line, to one of the schemas. The end marker of OpenAI is no event; a stream that was cut off may end in half of one.
func (d *Document) checkEvents(names []any, body []byte) error {
	whole := body[:bytes.LastIndexByte(body, '\n')+1]
	for line := range bytes.Lines(whole) {
		data, isEvent := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !isEvent && (len(data) == 0 || data[0] != '{') || string(data) == "[DONE]" {
			continue
		}
		var all []error
		for _, name := range names {
			err := d.visit(fmt.Sprint("#/components/schemas/", name), data)
			if err == nil {
				all = nil
				break
			}
			all = append(all, fmt.Errorf("%v: %w", name, err))
		}
		if len(all) > 0 {
			return fmt.Errorf("the event %s: %w", data, errors.Join(all...))
		}
	}
	return nil
}

// visit holds a JSON text to the schema at a place of the document.
func (d *Document) visit(place string, body []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.schemas[place] == nil {
		if d.schemas[place], err = d.compiler.Compile(at + place); err != nil {
			return fmt.Errorf("the schema at %s: %w", place, err)
		}
	}
	return d.schemas[place].Validate(v)
}

// first reports whether no answer of this form was seen: the same members with values of the same kinds.
func (d *Document) first(operation string, res *http.Response, body []byte) bool {
	form := fmt.Sprint(operation, res.StatusCode, res.Header.Get("Content-Type"), d.formOf(body))
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.seen[form]
	d.seen[form] = true
	return !before
}

// formBytes is how much of a text its form is taken from.
const formBytes = 64 << 10

// formOf is what a text has outside its strings, with the names of members, and without numbers.
func (d *Document) formOf(body []byte) string {
	text := d.values.ReplaceAllFunc(body[:min(len(body), formBytes)], func(m []byte) []byte {
		switch {
		case bytes.HasSuffix(m, []byte(":")):
			return m
		case m[0] == '"':
			return []byte(`""`)
		}
		return []byte("0")
	})
	parts := strings.Split(string(text), "\n")
	slices.Sort(parts) // of a stream: which events it has, and not how many
	return strings.Join(slices.Compact(parts), "\n")
}
