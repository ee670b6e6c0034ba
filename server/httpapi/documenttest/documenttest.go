// Package documenttest holds answers of the data plane to its OpenAPI document, whichever test asked for them.
package documenttest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
)

// Document is a document that answers are held to. It is safe for concurrent use.
type Document struct {
	T *openapi3.T

	paths []pattern
	mu    sync.Mutex
	seen  map[string]bool // shapes of answers that were held to it
}

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
	d := &Document{T: doc, seen: map[string]bool{}}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		param := `[^/]+`
		if strings.Contains(path, "/models/") { // names of models may have slashes
			param = `.+`
		}
		d.paths = append(d.paths, pattern{path, regexp.MustCompile("^" + regexp.MustCompile(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(path), param) + "$")})
	}
	// The longest goes first: it is the most definite.
	slices.SortStableFunc(d.paths, func(a, b pattern) int { return len(b.path) - len(a.path) })
	return d, nil
}

// Operation returns the operation of a request, and nil if the document has none.
func (d *Document) Operation(method, path string) *openapi3.Operation {
	for _, p := range d.paths {
		if !p.of.MatchString(path) {
			continue
		}
		if op := d.T.Paths.Value(p.path).GetOperation(method); op != nil {
			return op
		}
	}
	return nil
}

// Check holds an answer to the document: status, media type, required headers, the body, and each event of a stream. Answers of a form that was seen already are
// not looked at again, since there are thousands. What is answered where the document has no operation must be a refusal.
func (d *Document) Check(req *http.Request, res *http.Response, body []byte) error {
	op := d.Operation(req.Method, req.URL.Path)
	if op == nil {
		if res.StatusCode < http.StatusBadRequest {
			return fmt.Errorf("%s %s is answered with %d and described nowhere", req.Method, req.URL.Path, res.StatusCode)
		}
		return nil
	}
	if !d.first(op.OperationID, res, body) {
		return nil
	}
	answer := op.Responses.Status(res.StatusCode)
	if answer == nil && res.StatusCode >= http.StatusBadRequest {
		answer = op.Responses.Default()
	}
	if answer == nil {
		return fmt.Errorf("%s is answered with %d, which is described nowhere", op.OperationID, res.StatusCode)
	}
	if err := d.checkAnswer(answer.Value, res.Header, body); err != nil {
		return fmt.Errorf("%s is not answered (%d) as described: %w\n%.600s", op.OperationID, res.StatusCode, err, body)
	}
	return nil
}

func (d *Document) checkAnswer(answer *openapi3.Response, header http.Header, body []byte) error {
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
		return visit(media.Schema.Value, body)
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
			err := visit(d.T.Components.Schemas[fmt.Sprint(name)].Value, data)
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

func visit(s *openapi3.Schema, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	return s.VisitJSON(v, openapi3.EnableJSONSchema2020(), openapi3.MultiErrors())
}

// first reports whether no answer of this form was seen: the same members with values of the same kinds.
func (d *Document) first(operation string, res *http.Response, body []byte) bool {
	form := fmt.Sprint(operation, res.StatusCode, res.Header.Get("Content-Type"), formOf(body))
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.seen[form]
	d.seen[form] = true
	return !before
}

// formOf is what a text has outside its strings, with the names of members, and without numbers.
func formOf(body []byte) string {
	text := regexp.MustCompile(`"(?:[^"\\]|\\.)*"(\s*:)?|-?[0-9][0-9.eE+-]*`).ReplaceAllFunc(body, func(m []byte) []byte {
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
