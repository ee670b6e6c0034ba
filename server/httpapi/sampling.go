package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// sampling decodes what chat and completions share.
func sampling(f *fields, choices int, c *gateway.Call) options {
	c.Temperature = f.number("temperature", 0, 2)
	c.TopP = topP(f)
	if s := f.integer("seed", -1<<63, 1<<63-1); s != nil {
		u := uint64(*s) // a seed is bits, not a quantity
		c.Seed = &u
	}
	if n := f.integer("n", 1, int64(min(choices, maxChoices))); n != nil {
		c.Choices = int(*n)
	}
	tokenLimit(f, c)
	c.Stop = stops(f, "stop", maxStops)
	extras(f, c)
	format(f, c)
	c.Logprobs = -1
	o := options{stream: f.flag("stream") || f.streams}
	if so, ok := f.object("stream_options"); ok {
		if !o.stream {
			f.invalid("stream_options", fault.Say("httpapi.needs_stream"))
		}
		o.includeUsage = so.flag("include_usage")
		so.flag("include_obfuscation")
		f.join(so)
	}
	urgency(f, c)
	onBehalfOf(f, c)
	return o
}

// stops decodes a list of stop strings.
func stops(f *fields, field string, limit int) []string {
	out := f.strings(field, fault.Say("type.strings"), limit)
	for _, s := range out {
		if s == "" || len(s) > maxStopBytes {
			f.invalid(field, fault.Say("httpapi.string_bytes", maxStopBytes))
		}
	}
	return out
}

// topP decodes the nucleus. An empty one still holds the likeliest token.
func topP(f *fields) *float64 {
	p := f.number("top_p", 0, 1)
	if p != nil && *p == 0 {
		*p = 1e-9
	}
	return p
}

// extras decodes the sampling fields that not every model honours.
func extras(f *fields, c *gateway.Call) {
	value := func(field string, low, high float64) float64 {
		if v := f.number(field, low, high); v != nil {
			return *v
		}
		return 0
	}
	if k := f.integer("top_k", -1, maxTokens); k != nil { // -1 and 0 mean all
		c.TopK = max(0, int(*k))
	}
	c.MinP = value("min_p", 0, 1)
	c.RepetitionPenalty = value("repetition_penalty", 0, 2)
	if _, ok := f.raw("repetition_penalty"); ok && c.RepetitionPenalty == 0 {
		f.invalid("repetition_penalty", fault.Say("httpapi.repetition_penalty"))
	}
	c.FrequencyPenalty = value("frequency_penalty", -2, 2)
	c.PresencePenalty = value("presence_penalty", -2, 2)
	if n := f.integer("min_tokens", 0, maxTokens); n != nil {
		c.MinTokens = int(*n)
	}
	if c.MaxTokens != nil && c.MinTokens > *c.MaxTokens {
		f.invalid("min_tokens", fault.Say("httpapi.above_limit"))
	}
	c.LogitBias = logitBias(f)
}

// logitBias decodes an object of token ids.
func logitBias(f *fields) map[int32]float64 {
	in, ok := f.object("logit_bias")
	if !ok || len(in.m.All()) == 0 {
		return nil
	}
	if len(in.m.All()) > maxBiases {
		f.invalid("logit_bias", fault.Say("value.item_count", maxBiases))
	}
	out := make(map[int32]float64, len(in.m.All()))
	for _, member := range in.m.All() {
		id := member.Name
		token, err := strconv.ParseInt(id, 10, 32)
		if err != nil || token < 0 {
			f.invalid("logit_bias", fault.Say("httpapi.token_ids"))
			continue
		}
		if v := in.number(id, -100, 100); v != nil {
			out[int32(token)] = *v
		}
	}
	f.join(in)
	return out
}

// format decodes what the answer is held to: OpenAI's response_format, and the fields that vLLM and llama.cpp's server added.
func format(f *fields, c *gateway.Call) {
	keep := func(field string, v *engine.Format) {
		if c.Format != nil && v != nil {
			f.invalid(field, fault.Say("httpapi.one_format", c.FormatField))
		}
		if v != nil {
			c.Format, c.FormatField = v, field
		}
	}
	if rf, ok := f.object("response_format"); ok {
		keep("response_format", responseFormat(rf))
		f.join(rf)
	}
	if so, ok := f.object("structured_outputs"); ok {
		for _, field := range []string{"json", "regex", "choice", "grammar"} {
			keep("structured_outputs."+field, constraint(so, field, field))
		}
		f.join(so)
	}
	for _, v := range [][2]string{
		{"guided_json", "json"},
		{"guided_regex", "regex"},
		{"guided_choice", "choice"},
		{"guided_grammar", "grammar"},
		{"grammar", "grammar"},
		{"json_schema", "json"},
	} {
		keep(v[0], constraint(f, v[0], v[1]))
	}
}

func responseFormat(rf *fields) *engine.Format {
	var schema *engine.Format
	js, ok := rf.object("json_schema")
	if ok { // what is wrong is refused, wanted or not
		schema = namedSchema(js)
		rf.join(js)
	}
	switch kind := rf.needText("type"); kind {
	case "text":
		return nil
	case "json_object":
		return &engine.Format{JSONObject: true}
	case "json_schema":
		if !ok {
			rf.fail(fault.CodeMissing, "json_schema")
		}
		return schema
	default:
		rf.invalid("type", fault.Say("httpapi.format_type"))
		return nil
	}
}

// namedSchema decodes a schema with its name. An answer is always held to it, strict or not.
func namedSchema(f *fields) *engine.Format {
	functionName(f, maxNameBytes)
	f.text("description")
	f.flag("strict")
	schema := schemaOf(f, "schema")
	if schema == nil {
		f.fail(fault.CodeMissing, "schema")
	}
	return &engine.Format{JSONSchema: schema}
}

// constraint decodes one of the other ways to hold an answer to a form.
func constraint(f *fields, field, kind string) *engine.Format {
	raw, ok := f.raw(field)
	if !ok {
		return nil
	}
	switch kind {
	case "json":
		if raw[0] == '"' { // some clients send the schema as a text
			text, _ := f.text(field)
			if _, err := rawjson.Check(text, schemaDepth); err != nil {
				f.invalid(field, fault.Say("httpapi.json_schema"))
				return nil
			}
			inner := &fields{path: f.path, m: rawjson.One(field, rawjson.Trim(text))}
			schema := schemaOf(inner, field)
			f.join(inner)
			return &engine.Format{JSONSchema: schema}
		}
		return &engine.Format{JSONSchema: schemaOf(f, field)}
	case "choice":
		list := f.strings(field, fault.Say("type.string_array"), maxAnswers)
		for _, s := range list {
			if s == "" {
				f.invalid(field, fault.Say("httpapi.empty_items"))
			}
		}
		if len(list) == 0 {
			f.invalid(field, fault.Say("value.empty"))
		}
		return &engine.Format{Choice: list}
	}
	text, _ := f.text(field)
	switch {
	case text == "":
		f.invalid(field, fault.Say("value.empty"))
		return nil
	case kind == "regex":
		return &engine.Format{Regex: text}
	}
	return &engine.Format{GBNF: text}
}

// schemaDepth bounds the nesting of JSON that comes inside a string.
const schemaDepth = 64

// schemaOf decodes a JSON schema: an object.
func schemaOf(f *fields, field string) json.RawMessage {
	if _, ok := f.object(field); !ok {
		return nil
	}
	raw, _ := f.raw(field)
	return json.RawMessage(raw)
}

// urgency decodes how soon an answer is wanted: the queue class by service_tier unless a header has named it, and the priority.
func urgency(f *fields, c *gateway.Call) {
	var class engine.Class
	switch tier, ok := f.text("service_tier"); {
	case !ok || tier == "auto" || tier == "default" || tier == "scale":
		class = engine.ClassStandard
	case tier == "priority":
		class = engine.ClassInteractive
	case tier == "flex":
		class = engine.ClassBatch
	default:
		f.invalid("service_tier", fault.Say("httpapi.service_tier"))
	}
	if c.Class == "" {
		c.Class = class
	}
	if p := f.integer("priority", -maxPriority, maxPriority); p != nil {
		c.Priority = int(*p)
	}
}

// tierOf says how urgently an answer was made, in the words of service_tier. Policy may have made it less urgent than was asked for.
func tierOf(c engine.Class) string {
	switch c {
	case engine.ClassInteractive:
		return "priority"
	case engine.ClassStandard:
		return "default"
	case engine.ClassBatch:
		return "flex"
	default: // the engine knows no classes
		return ""
	}
}

// urgencyHeaders decodes the headers that say how soon an answer is wanted.
func urgencyHeaders(class, timeout string, c *gateway.Call) error {
	switch v := engine.Class(class); v {
	case "", engine.ClassInteractive, engine.ClassStandard, engine.ClassBatch:
		c.Class = v
	default:
		return fault.New(fault.CodeInvalidValue, headerClass, fault.Say("httpapi.queue_class")).WithParam(headerClass)
	}
	if timeout == "" {
		return nil
	}
	ms, err := strconv.Atoi(timeout)
	if err != nil || ms < 1 || ms > maxFirstTokenTimeout {
		return fault.New(fault.CodeInvalidValue, headerFirstTokenTimeout,
			fault.Say("httpapi.patience", maxFirstTokenTimeout)).WithParam(headerFirstTokenTimeout)
	}
	c.FirstTokenTimeout = time.Duration(ms) * time.Millisecond
	return nil
}

// dataGradeHeader decodes the header that says how sensitive the data of a request is.
func dataGradeHeader(grades []string, c *gateway.Call) (err error) {
	c.DataGrade, err = governance.StatedDataGrade(grades)
	return err
}

// signHeader decodes the header that asks for a signed answer.
func signHeader(form string, c *gateway.Call) error {
	if form != "" && !signature.Form(form).Known() {
		return fault.New(fault.CodeInvalidValue, signature.Header, fault.Say("httpapi.signature_form")).WithParam(signature.Header)
	}
	c.Signature = signature.Form(form)
	return nil
}

// role decodes what the texts of an embedding request are.
func role(f *fields, c *gateway.Call) {
	for _, field := range []string{"input_type", "task"} {
		switch v, ok := f.text(field); {
		case !ok:
		case v == "query" || v == "search_query" || v == "retrieval.query":
			c.Role = engine.RoleQuery
		case v == "passage" || v == "document" || v == "search_document" || v == "retrieval.passage":
			c.Role = engine.RolePassage
		default:
			f.invalid(field, fault.Say("httpapi.input_type"))
		}
	}
}
