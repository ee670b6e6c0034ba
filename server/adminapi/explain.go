package adminapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/internal/fault"
)

// The library that holds a request against the document says whether it fits. Why it does not is found out here, in sentences for people:
// the library's own are for programmers, in English only, and name its insides.

// explain says what is wrong with a request that the library refused, by the field that is wrong.
func explain(c *gin.Context, re *openapi3filter.RequestError, body []byte) *fault.Error {
	if re.Parameter != nil {
		return explainParameter(c, re.Parameter, re)
	}
	if errors.Is(re, openapi3filter.ErrInvalidRequired) {
		return missing("body")
	}
	content := re.RequestBody.Content.Get(c.GetHeader("Content-Type"))
	if content == nil {
		kinds := strings.Join(slices.Sorted(maps.Keys(re.RequestBody.Content)), ", ")
		return wrongValue("Content-Type", fault.Say("adminapi.content_type", kinds))
	}
	var value any = string(body)
	if !strings.HasSuffix(strings.ToLower(mediaType(c)), "json") {
		if why := violation(content.Schema.Value, value, "body"); why != nil {
			return why
		}
		return genericViolation("body", re)
	}
	in := json.NewDecoder(bytes.NewReader(body))
	in.UseNumber()
	if err := in.Decode(&value); err != nil || in.More() {
		return fault.New(fault.CodeInvalidJSON, in.InputOffset())
	}
	if why := violation(content.Schema.Value, value, ""); why != nil {
		return why
	}
	return genericViolation("body", re)
}

// mediaType is the type of a request's body without its parameters.
func mediaType(c *gin.Context) string {
	kind, _, _ := strings.Cut(c.GetHeader("Content-Type"), ";")
	return strings.TrimSpace(kind)
}

// genericViolation is what is left to say where the fault cannot be named.
func genericViolation(field string, err error) *fault.Error {
	return fault.Wrap(err, fault.CodeInvalidValue, field, fault.Say("adminapi.not_as_described")).WithParam(field)
}

func explainParameter(c *gin.Context, p *openapi3.Parameter, re *openapi3filter.RequestError) *fault.Error {
	if errors.Is(re, openapi3filter.ErrInvalidRequired) {
		return missing(p.Name)
	}
	raw := ""
	switch p.In {
	case openapi3.ParameterInPath:
		raw = strings.TrimPrefix(c.Param(p.Name), "/")
	case openapi3.ParameterInQuery:
		raw = c.Query(p.Name)
	case openapi3.ParameterInHeader:
		raw = c.GetHeader(p.Name)
	}
	if why := violation(p.Schema.Value, typedParam(p.Schema.Value, raw), p.Name); why != nil {
		return why
	}
	return genericViolation(p.Name, re)
}

// typedParam is the value that a parameter's text stands for: what its schema wants if it can be read as that, else the text.
func typedParam(s *openapi3.Schema, raw string) any {
	if s.Type.Includes(openapi3.TypeInteger) || s.Type.Includes(openapi3.TypeNumber) {
		if _, err := strconv.ParseFloat(raw, 64); err == nil {
			return json.Number(raw)
		}
	}
	if s.Type.Includes(openapi3.TypeBoolean) && (raw == "true" || raw == "false") {
		return raw == "true"
	}
	return raw
}

// format is one that texts of the document have; the library's own checks let through what cannot be decoded.
type format struct {
	fits func(string) bool
	want fault.Phrase
}

func formats() map[string]format {
	return map[string]format{
		"date-time": {
			func(v string) bool { _, err := time.Parse(time.RFC3339, v); return err == nil },
			fault.Say("adminapi.time"),
		},
		"byte": {
			func(v string) bool { _, err := base64.StdEncoding.DecodeString(v); return err == nil },
			fault.Say("adminapi.base64"),
		},
	}
}

// formatValidators makes the library look at formats as closely as we do.
func formatValidators() map[string]openapi3.StringFormatValidator {
	out := map[string]openapi3.StringFormatValidator{}
	for name, f := range formats() {
		out[name] = openapi3.NewCallbackValidator(func(v string) error {
			if !f.fits(v) {
				return errors.New("not of the format " + name)
			}
			return nil
		})
	}
	return out
}

func missing(field string) *fault.Error {
	return fault.New(fault.CodeMissing, field).WithParam(field)
}

func wrongValue(field string, why fault.Phrase) *fault.Error {
	return fault.New(fault.CodeInvalidValue, field, why).WithParam(field)
}

// violation returns the first thing in which a value differs from its schema, nil if it is none that is looked for. field is "" for the
// body itself.
func violation(s *openapi3.Schema, value any, field string) *fault.Error {
	name := field
	if name == "" {
		name = "body"
	}
	if value == nil && s.Type != nil && !s.Type.Includes(openapi3.TypeNull) || !typed(s, value) {
		return fault.New(fault.CodeInvalidType, name, typeName(s)).WithParam(name)
	}
	if len(s.Enum) > 0 && !slices.ContainsFunc(s.Enum, func(e any) bool { return same(e, value) }) {
		var words []string
		for _, e := range s.Enum {
			word, _ := json.Marshal(e)
			words = append(words, strings.Trim(string(word), `"`))
		}
		return wrongValue(name, fault.Say("value.one_of", strings.Join(words, ", ")))
	}
	switch v := value.(type) {
	case string:
		return textViolation(s, v, name)
	case json.Number:
		return numberViolation(s, v, name)
	case []any:
		return listViolation(s, v, field, name)
	case map[string]any:
		return objectViolation(s, v, field)
	}
	return nil
}

func same(enum, value any) bool {
	a, errA := json.Marshal(enum)
	b, errB := json.Marshal(value)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// typed reports whether a value is of the kind that a schema wants.
func typed(s *openapi3.Schema, value any) bool {
	if s.Type == nil || value == nil {
		return true
	}
	switch v := value.(type) {
	case string:
		return s.Type.Includes(openapi3.TypeString)
	case bool:
		return s.Type.Includes(openapi3.TypeBoolean)
	case json.Number:
		f, err := v.Float64()
		whole := err == nil && f == math.Trunc(f)
		return s.Type.Includes(openapi3.TypeNumber) || whole && s.Type.Includes(openapi3.TypeInteger)
	case []any:
		return s.Type.Includes(openapi3.TypeArray)
	case map[string]any:
		return s.Type.Includes(openapi3.TypeObject)
	}
	return false
}

func typeName(s *openapi3.Schema) fault.Phrase {
	switch {
	case s.Type.Includes(openapi3.TypeObject):
		return fault.Say("type.object")
	case s.Type.Includes(openapi3.TypeArray):
		return fault.Say("type.array")
	case s.Type.Includes(openapi3.TypeInteger):
		return fault.Say("type.integer")
	case s.Type.Includes(openapi3.TypeNumber):
		return fault.Say("type.number")
	case s.Type.Includes(openapi3.TypeBoolean):
		return fault.Say("type.boolean")
	default:
		return fault.Say("type.string")
	}
}

func textViolation(s *openapi3.Schema, v, name string) *fault.Error {
	n := uint64(utf8.RuneCountInString(v))
	switch {
	case n == 0 && s.MinLength > 0:
		return wrongValue(name, fault.Say("value.empty"))
	case n < s.MinLength:
		return wrongValue(name, fault.Say("value.characters_at_least", s.MinLength))
	case s.MaxLength != nil && n > *s.MaxLength:
		return wrongValue(name, fault.Say("value.characters_at_most", *s.MaxLength))
	}
	if s.Pattern != "" {
		if form, err := regexp.Compile(s.Pattern); err == nil && !form.MatchString(v) {
			return wrongValue(name, fault.Say("value.pattern", s.Pattern))
		}
	}
	if form, ok := formats()[s.Format]; ok && !form.fits(v) {
		return wrongValue(name, form.want)
	}
	return nil
}

func numberViolation(s *openapi3.Schema, v json.Number, name string) *fault.Error {
	f, err := v.Float64()
	low, high := math.Inf(-1), math.Inf(1)
	if s.Min != nil {
		low = *s.Min
	}
	if s.Max != nil {
		high = *s.Max
	}
	if s.Type.Includes(openapi3.TypeInteger) { // what it is decoded into holds no more
		low, high = max(low, math.MinInt64), min(high, math.MaxInt64)
	}
	if err == nil && f >= low && f <= high {
		return nil
	}
	switch {
	case s.Max == nil && s.Min != nil && f < low:
		return wrongValue(name, fault.Say("value.at_least", low))
	case s.Min == nil && s.Max != nil && f > high:
		return wrongValue(name, fault.Say("value.at_most", high))
	case s.Min == nil || s.Max == nil:
		return wrongValue(name, fault.Say("value.out_of_range"))
	}
	return wrongValue(name, fault.Say("value.between", low, high))
}

func listViolation(s *openapi3.Schema, v []any, field, name string) *fault.Error {
	n := uint64(len(v))
	switch {
	case n < s.MinItems && n == 0:
		return wrongValue(name, fault.Say("value.empty"))
	case n < s.MinItems:
		return wrongValue(name, fault.Say("value.items_at_least", s.MinItems))
	case s.MaxItems != nil && n > *s.MaxItems:
		return wrongValue(name, fault.Say("value.item_count", *s.MaxItems))
	}
	if s.Items == nil {
		return nil
	}
	for i, item := range v {
		if why := violation(s.Items.Value, item, field+"["+strconv.Itoa(i)+"]"); why != nil {
			return why
		}
	}
	return nil
}

func objectViolation(s *openapi3.Schema, v map[string]any, field string) *fault.Error {
	under := func(name string) string { return strings.TrimPrefix(field+"."+name, ".") }
	for _, name := range s.Required {
		if _, ok := v[name]; !ok {
			return missing(under(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		property := s.Properties[name]
		switch {
		case property != nil:
			if why := violation(property.Value, v[name], under(name)); why != nil {
				return why
			}
		case s.AdditionalProperties.Has != nil && !*s.AdditionalProperties.Has:
			known := strings.Join(slices.Sorted(maps.Keys(s.Properties)), ", ")
			return fault.New(fault.CodeUnsupported, under(shownName(name)), fault.Say("adminapi.fields", known)).WithParam(under(shownName(name)))
		case s.AdditionalProperties.Schema != nil:
			if why := violation(s.AdditionalProperties.Schema.Value, v[name], under(shownName(name))); why != nil {
				return why
			}
		}
	}
	return nil
}

// shownName is a name that a caller made up, as far as a sentence repeats it.
func shownName(name string) string {
	return truncate(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, name), maxTenant)
}
