package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// shaped is a format whose texts are few and short, so that any model ends in time.
type shaped struct {
	name   string
	field  string // of engine.Format
	format engine.Format
	check  func(text string) error
}

func schema(text string) shaped {
	return shaped{"schema " + text, "JSONSchema", engine.Format{JSONSchema: json.RawMessage(text)}, func(got string) error { return validate(text, got) }}
}

func shapes() []shaped {
	pattern := regexp.MustCompile(`^(?:[A-C]{2}-\d{3}|none)$`)
	choices := []string{"red", "green", "深蓝色"}
	return []shaped{
		schema(`{"type":"object","properties":{"city":{"enum":["Paris","Rome"]},"warm":{"type":"boolean"}},"required":["city","warm"],"additionalProperties":false}`),
		schema(`{"type":"object","properties":{"place":{"type":"object","properties":{"row":{"type":"integer","minimum":1,"maximum":99}},"required":["row"],"additionalProperties":false},` +
			`"tags":{"type":"array","items":{"enum":["a","b"]},"minItems":1,"maxItems":2}},"required":["place","tags"],"additionalProperties":false}`),
		schema(`{"type":"object","properties":{"城市":{"enum":["北京","上海"]},"说明":{"type":"string","maxLength":3}},"required":["城市","说明"],"additionalProperties":false}`),
		schema(`{"type":"array","items":{"type":"integer","minimum":0,"maximum":9},"minItems":3,"maxItems":3}`),
		schema(`{"enum":["low","high",null,7]}`),
		{"grammar", "GBNF", engine.Format{GBNF: "root ::= (\"yes\" | \"no\") \", \" figure{2}\nfigure ::= [0-9]\n"}, func(got string) error {
			return matches(regexp.MustCompile(`^(?:yes|no), \d\d$`), got)
		}},
		{"expression", "Regex", engine.Format{Regex: `[A-C]{2}-\d{3}|none`}, func(got string) error { return matches(pattern, got) }},
		{"choice", "Choice", engine.Format{Choice: choices}, func(got string) error {
			if !slices.Contains(choices, got) {
				return fmt.Errorf("%q is none of the choices", got)
			}
			return nil
		}},
	}
}

func matches(re *regexp.Regexp, text string) error {
	if !re.MatchString(text) {
		return fmt.Errorf("%q does not match", text)
	}
	return nil
}

// validate holds JSON to a schema, with a validator that shares nothing with an engine.
func validate(schema, text string) error {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err = c.AddResource("schema.json", doc); err != nil {
		return err
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	if err = compiled.Validate(value); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// formats: what is held to a format has it, however it is drawn, and ends by itself.
func (s *suite) formats() {
	s.need(s.generate.HasFormats, "formats")
	hot := []float64{0, 1.2}
	if testing.Short() {
		hot = hot[:1]
	}
	for _, c := range shapes() {
		req := s.request()
		req.Format, req.MaxTokens, req.Seed = &c.format, 60, numbered(5)
		if s.lacks(c.field, req) {
			continue
		}
		for _, req.Temperature = range hot {
			s.formed(c, s.ok(req), 0)
		}
		if !testing.Short() && s.generate.HasLogprobs { // tokens without a choice have their entries, too
			req.Temperature, req.Logprobs, req.Choices = 0, 0, 2
			r := s.ok(req)
			for i := range 2 {
				s.formed(c, r, i)
				if got := spelled(r.logprobs[i]); strings.TrimSpace(got) != strings.TrimSpace(r.text[i]) {
					s.Errorf("%s: tokens spell %q, the text is %q", c.name, got, r.text[i])
				}
			}
		}
	}
	s.object()
}

// formed holds a choice to its format. Formats of others may leave room for white space without end, in which a text runs into its limit.
func (s *suite) formed(c shaped, r result, choice int) {
	s.Helper()
	err := c.check(r.text[choice])
	if r.finish[choice] == engine.FinishLength && !s.opt.OwnFormats && (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) {
		return
	}
	if err != nil || r.finish[choice] != engine.FinishStop {
		s.Errorf("%s: %v (%s, %q)", c.name, err, r.finish[choice], r.text[choice])
	}
}

func spelled(lps []engine.TokenLogprob) string {
	var b strings.Builder
	for _, lp := range lps {
		b.Write(lp.Bytes)
	}
	return b.String()
}

// object: JSON without a schema may be long; what there is of it is the beginning of an object.
func (s *suite) object() {
	s.Helper()
	req := s.request()
	req.Messages[0].Content += " Answer in JSON."
	req.Format, req.MaxTokens = &engine.Format{JSONObject: true}, 30
	if s.lacks("JSONObject", req) {
		return
	}
	r := s.ok(req)
	var object map[string]any
	err := json.NewDecoder(strings.NewReader(r.text[0])).Decode(&object)
	if r.finish[0] == engine.FinishLength && errors.Is(err, io.ErrUnexpectedEOF) && strings.HasPrefix(strings.TrimSpace(r.text[0]), "{") {
		return
	}
	if err != nil || object == nil {
		s.Errorf("%q (%s) is no object: %v", r.text[0], r.finish[0], err)
	}
}

// invalidFormats: what means nothing is refused before anything is generated, and the caller learns which field it was.
func (s *suite) invalidFormats() {
	s.need(s.generate.HasFormats, "formats")
	for _, c := range []struct {
		field  string
		format engine.Format
	}{
		{"GBNF", engine.Format{GBNF: `root ::= "a" missing`}},
		{"GBNF", engine.Format{GBNF: `root ::= ("a"`}},
		{"JSONSchema", engine.Format{JSONSchema: json.RawMessage(`{"type":"colour"}`)}},
		{"JSONSchema", engine.Format{JSONSchema: json.RawMessage(`{"$ref":"#/$defs/missing"}`)}},
		{"Regex", engine.Format{Regex: `a(b`}},
		{"Regex", engine.Format{Regex: `[z-a]`}},
	} {
		req := s.request()
		req.Format = &c.format
		if !s.lacks(c.field, req) {
			s.refused(c.field, req)
		}
	}
}

func (s *suite) refused(what string, req *engine.Request) {
	s.Helper()
	r := s.collect(s.ctx, req)
	if !fault.Is(r.err, fault.CodeInvalidValue) || fault.Public(r.err).Param() != "response_format" || r.events > 0 {
		s.Errorf("%s: %d events, %v", what, r.events, r.err)
	}
}
