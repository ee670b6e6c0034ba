package server_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// insides match the words of libraries, and of Go, that a sentence for people must not have.
var insides = regexp.MustCompile(`(?i)jsonschema|json-schema|kin-openapi|openapi3|schema\.json|example\.com/schema|schema|unmarshal|strconv|\bint64\b|\bfloat64\b|\bstruct\b|adminapi\.|parsing "|invalid character|doesn't match|additionalProperties|minLength|maxLength|regexp|regular expression`)

// TestWrongManagementRequests makes of every operation of the document the requests that its schemas forbid: a field left out, of another
// kind, unknown, too long, too short, out of range, out of its list. Each is refused in both languages with a sentence of ours that names
// the field.
func TestWrongManagementRequests(t *testing.T) {
	t.Parallel()
	in := start(t, setup{retrieval: true})
	token := in.session()
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range slices.Sorted(maps.Keys(doc.Paths.Map())) {
		item := doc.Paths.Value(path)
		for method, op := range item.Operations() {
			target, body := sampleRequest(path, op)
			if op.RequestBody != nil {
				if content := op.RequestBody.Value.Content.Get("application/json"); content != nil && content.Schema != nil {
					for _, w := range wrongValues(content.Schema.Value, body, "", 0) {
						if _, ok := decodedLater[op.OperationID]; ok && w.how == tooLarge {
							continue
						}
						if text, ok := w.body.(string); ok { // else it would be sent as it is
							w.body = json.RawMessage(strconv.Quote(text))
						}
						n++
						in.isToldWhy(t, method, target, token, w)
					}
				}
			}
			for _, p := range append(slices.Clone(op.Parameters), item.Parameters...) {
				if longest := p.Value.Schema.Value.MaxLength; p.Value.In == openapi3.ParameterInPath && longest != nil {
					n++
					long := strings.Replace(path, "{"+p.Value.Name+"}", strings.Repeat("x", int(*longest)+1), 1)
					in.isToldWhy(t, method, strings.ReplaceAll(regexp.MustCompile(`\{\w+\}`).ReplaceAllString(long, "none"), " ", ""), token, wrong{"too long", p.Value.Name, body})
				}
				if p.Value.In != openapi3.ParameterInQuery {
					continue
				}
				for _, w := range wrongValues(p.Value.Schema.Value, sample(p.Value.Schema.Value, p.Value.Name), p.Value.Name, 0) {
					text, ok := inQuery(p.Value.Schema.Value, w.body)
					if !ok {
						continue
					}
					n++
					at, _ := url.Parse(target)
					q := at.Query()
					q.Set(p.Value.Name, text)
					at.RawQuery = q.Encode()
					w.body = body
					in.isToldWhy(t, method, at.String(), token, w)
				}
				if p.Value.Required {
					n++
					at, _ := url.Parse(target)
					q := at.Query()
					q.Del(p.Value.Name)
					at.RawQuery = q.Encode()
					in.isToldWhy(t, method, at.String(), token, wrong{"left out", p.Value.Name, body})
				}
			}
		}
	}
	for how, c := range map[string]struct{ kind, body, code, field string }{
		"no JSON":           {"application/json", `{"user":`, "invalid_json", ""},
		"more than JSON":    {"application/json", `{"user":"a","password":"b"} x`, "invalid_json", ""},
		"nothing":           {"application/json", "", "missing_required_parameter", "body"},
		"another kind":      {"text/plain", `{"user":"a","password":"b"}`, "invalid_value", "Content-Type"},
		"an empty object":   {"application/json", "{}", "missing_required_parameter", "user"},
		"a null":            {"application/json", `{"user":null,"password":"b"}`, "invalid_type", "user"},
		"a name of control": {"application/json", `{"user":"a","password":"b","x\u0007y":1}`, "unsupported_parameter", "xy"},
	} {
		r := in.send(http.MethodPost, "/api/v1/session", "", c.body, "Content-Type", c.kind)
		if code, sentence, field := refusalOf(t, r); r.status != http.StatusBadRequest || code != c.code || field != c.field || insides.MatchString(sentence) {
			t.Errorf("%s: %d %s", how, r.status, r.body)
		}
	}
	if n < 300 {
		t.Errorf("only %d wrong requests were made", n)
	}
}

// tooLarge is a number that no integer of ours holds. It is found when a body is decoded, which some operations do after other checks.
const tooLarge = "too large for anything"

var decodedLater = map[string]string{
	"playgroundChat": "its decoder, which TestBadInput is about, looks at fields in its own order",
	"startRollout":   "workflows are off here, which is said first",
}

// wrong is a body that a schema forbids, or a value of a parameter, and the field that is at fault.
type wrong struct {
	how, field string
	body       any
}

// isToldWhy sends a wrong request in both languages.
func (in *installation) isToldWhy(t *testing.T, method, target, token string, w wrong) {
	t.Helper()
	for _, lang := range []string{"en", "zh-CN"} {
		r := in.send(method, "/api/v1"+target, token, w.body, "Accept-Language", lang)
		var p struct {
			Code, Detail string
			Errors       []struct{ Field, Detail string }
		}
		if err := json.Unmarshal(r.body, &p); err != nil || r.status != http.StatusBadRequest {
			t.Errorf("%s %s with %s %s: %d %.200s", method, target, w.field, w.how, r.status, r.body)
			return
		}
		chinese := strings.ContainsFunc(p.Detail, func(c rune) bool { return c >= 0x4e00 && c <= 0x9fff })
		if len(p.Errors) != 1 || p.Errors[0].Field != w.field || !strings.Contains(p.Detail, w.field) || insides.MatchString(p.Detail) || chinese != (lang == "zh-CN") {
			t.Errorf("%s %s with %s %s (%s): %s", method, target, w.field, w.how, lang, r.body)
		}
	}
}

// inQuery writes a wrong value into a query, where everything is text.
func inQuery(s *openapi3.Schema, v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != "" && (s.Type.Includes("string") || v == "planted")
	case float64, int:
		return fmt.Sprint(v), !s.Type.Includes("string")
	}
	return "", false
}

// wrongValues are values that a schema forbids, made from one that it allows. field is "" for the body.
func wrongValues(s *openapi3.Schema, good any, field string, depth int) []wrong {
	name := field
	if name == "" {
		name = "body"
	}
	var out []wrong
	add := func(how string, v any) { out = append(out, wrong{how, name, v}) }
	free := s.Type == nil || depth > 4
	if free {
		return nil
	}
	if s.Type.Includes("string") {
		add("of another kind", map[string]any{"planted": 1})
		add("a number", 7)
	} else {
		add("of another kind", "planted")
	}
	switch {
	case len(s.Enum) > 0:
		add("none of the list", "planted-word")
	case s.Type.Includes("string"):
		if s.MinLength > 0 {
			add("empty", "")
		}
		if s.MaxLength != nil && *s.MaxLength < 1<<20 {
			add("too long", strings.Repeat("長", int(*s.MaxLength)+1))
		}
		if s.Pattern != "" || s.Format == "date-time" {
			add("of another form", "planted form!")
		}
		if s.Format == "date-time" {
			add("no such day", "2026-02-30T00:00:00Z")
		}
		if s.Format == "byte" {
			add("of another form", "pla*nted")
		}
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		if s.Min != nil {
			add("too small", *s.Min-1)
		}
		if s.Max != nil {
			add("too large", *s.Max+1)
		}
		if s.Type.Includes("integer") {
			add(tooLarge, 1e30)
			if s.Min == nil || *s.Min <= 1 {
				add("a fraction", 1.5)
			}
		}
	case s.Type.Includes("array"):
		if s.MinItems > 0 {
			add("empty", []any{})
		}
		item := sample(s.Items.Value, field)
		if s.MaxItems != nil && *s.MaxItems < 5000 {
			add("too many", slices.Repeat([]any{item}, int(*s.MaxItems)+1))
		}
		for _, w := range wrongValues(s.Items.Value, item, field+"[0]", depth+1) {
			out = append(out, wrong{w.how, w.field, []any{w.body}})
		}
	case s.Type.Includes("object"):
		out = append(out, wrongObjects(s, good, field, depth)...)
	}
	return out
}

func wrongObjects(s *openapi3.Schema, good any, field string, depth int) []wrong {
	whole, _ := good.(map[string]any)
	with := func(name string, v any, there bool) map[string]any {
		out := maps.Clone(whole)
		if out == nil {
			out = map[string]any{}
		}
		if delete(out, name); there {
			out[name] = v
		}
		return out
	}
	under := func(name string) string { return strings.TrimPrefix(field+"."+name, ".") }
	var out []wrong
	for _, name := range s.Required {
		out = append(out, wrong{"left out", under(name), with(name, nil, false)})
	}
	if s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has {
		out = append(out, wrong{"unknown", under("planted_field"), with("planted_field", 1, true)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name].Value
		for _, w := range wrongValues(p, sample(p, name), under(name), depth+1) {
			out = append(out, wrong{w.how, w.field, with(name, w.body, true)})
		}
	}
	return out
}

// A body that is text is judged as text: one that is too long is no broken JSON.
func TestWrongText(t *testing.T) {
	t.Parallel()
	in := start(t, setup{})
	r := in.send(http.MethodPost, "/api/v1/audit/log/cosignatures", in.session(), strings.Repeat("x", 70_000), "Content-Type", "text/plain; charset=utf-8")
	if r.status != http.StatusBadRequest || !strings.Contains(string(r.body), `"invalid_value"`) || !strings.Contains(string(r.body), "65536") {
		t.Errorf("%d %s", r.status, r.body)
	}
}
