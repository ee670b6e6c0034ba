package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
)

// asked is a request as the profile reads it.
type asked struct {
	chat      bool
	model     string
	adapter   string
	prompt    string
	most      int
	choices   int
	stream    bool
	usage     bool // of a stream
	greedy    bool
	seed      uint64
	seeded    bool
	least     int
	stop      []string
	echo      bool
	logprobs  int // -1: none
	form      form
	tool      string // that is called; "" is none
	arguments string
	images    int
	audio     bool
}

// badValue is a field whose value is wrong.
type badValue string

func (b badValue) Error() string { return "wrong value of " + string(b) }

func number(doc map[string]any, path string, otherwise float64) (float64, error) {
	if path == "" {
		return otherwise, nil
	}
	switch v := unified.Member(doc, path).(type) {
	case nil:
		return otherwise, nil
	case float64:
		return v, nil
	}
	return 0, badValue(path)
}

func flag(doc map[string]any, path string) bool {
	v, _ := unified.Member(doc, path).(bool)
	return path != "" && v
}

// read takes a body of OpenAI's form apart.
func (s *Simulator) read(doc map[string]any, chat bool) (asked, error) {
	r := &s.cfg.Profile.Request
	q := asked{chat: chat, logprobs: -1}
	q.model, _ = doc["model"].(string)
	var n [8]float64
	for i, f := range []struct {
		path string
		def  float64
	}{
		{"temperature", 1}, {"max_tokens", 0}, {"max_completion_tokens", 0}, {"n", 1}, {r.MinTokens.Name, 0}, {r.TopK.Name, 0}, {r.MinP.Name, 0}, {r.Seed.Name, -1},
	} {
		var err error
		if n[i], err = number(doc, f.path, f.def); err != nil {
			return q, err
		}
	}
	q.most = int(cmp.Or(n[1], n[2]))
	q.choices, q.least = max(1, int(n[3])), int(n[4])
	q.greedy = n[0] == 0 || s.cfg.Mutation != MutateSampling && (n[5] == 1 || n[6] >= .99)
	if n[7] >= 0 {
		q.seed, q.seeded = uint64(n[7]), true
	}
	if q.most < 0 || n[0] < 0 || q.choices > 16 {
		return q, badValue("max_tokens, temperature or n")
	}
	q.stream, q.usage = flag(doc, "stream"), flag(doc, "stream_options.include_usage")
	q.stop = texts(doc["stop"])
	q.echo = flag(doc, r.Echo.Name)
	if a := r.Adapter.Name; a != "" && a != "model" {
		q.adapter, _ = unified.Member(doc, a).(string)
	}
	s.readLogprobs(doc, &q)
	var err error
	if q.form, err = readForm(r, doc); err != nil {
		return q, err
	}
	if !chat {
		q.prompt, _ = doc["prompt"].(string)
		return q, nil
	}
	return q, s.readTurns(doc, &q)
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, t := range v {
			if t, ok := t.(string); ok {
				out = append(out, t)
			}
		}
		return out
	}
	return nil
}

func (s *Simulator) readLogprobs(doc map[string]any, q *asked) {
	if s.cfg.Profile.Request.Logprobs.Name == "" {
		return
	}
	switch v := doc["logprobs"].(type) {
	case bool:
		if v {
			n, _ := doc["top_logprobs"].(float64)
			q.logprobs = int(n)
		}
	case float64:
		q.logprobs = int(v)
	}
}

// readForm finds what the answer is held to, by the names of the profile.
func readForm(r *profile.Request, doc map[string]any) (form, error) {
	for _, k := range []struct {
		kind string
		as   profile.Parameter
	}{{"json_object", r.JSONObject}, {"json_schema", r.JSONSchema}, {"regex", r.Regex}, {"grammar", r.Grammar}, {"choice", r.Choice}} {
		v := unified.Member(doc, k.as.Name)
		if k.as.Name == "" || v == nil {
			continue
		}
		f, ok, err := formOf(k.kind, k.as.As, v)
		if ok || err != nil {
			return f, err
		}
	}
	return form{}, nil
}

func formOf(kind, as string, v any) (form, bool, error) {
	o, _ := v.(map[string]any)
	switch as {
	case "response_format":
		if o["type"] != kind {
			return form{}, false, nil
		}
		if v = unified.Member(v, "json_schema.schema"); kind == "json_schema" && v == nil {
			return form{}, false, badValue("response_format")
		}
	case "typed":
		if o["type"] != kind {
			return form{}, false, nil
		}
		v = o["value"]
	case "regex_schema":
		if o["type"] != as {
			return form{}, false, nil
		}
		v = o["regex_schema"]
	case "grammar", "regex":
		kind = as // a choice, sent as one
	}
	text, isText := v.(string)
	switch {
	case kind == "json_object":
		return form{object: true}, true, nil
	case kind == "json_schema":
		j, err := json.Marshal(v)
		return form{schema: j}, true, err
	case kind == "choice":
		return form{choice: texts(v)}, true, nil
	case !isText:
		return form{}, false, badValue(kind)
	case kind == "regex":
		return form{regex: text}, true, nil
	}
	return form{gbnf: text}, true, nil
}

// readTurns takes the messages and tools apart.
func (s *Simulator) readTurns(doc map[string]any, q *asked) error {
	turns, ok := doc["messages"].([]any)
	if !ok || len(turns) == 0 {
		return badValue("messages")
	}
	var b strings.Builder
	for _, t := range turns {
		turn, _ := t.(map[string]any)
		fmt.Fprintf(&b, "%v: ", turn["role"])
		switch c := turn["content"].(type) {
		case string:
			b.WriteString(c)
		case []any:
			for _, part := range c {
				s.readPart(part, q, &b)
			}
		}
		b.WriteString("\n")
	}
	q.prompt = b.String()
	if !s.cfg.Profile.Claims(capability.Tools) {
		return nil
	}
	tools, _ := doc["tools"].([]any)
	if len(tools) == 0 {
		return nil
	}
	q.prompt += fmt.Sprint(tools)
	name, _ := unified.Member(tools[0], "function.name").(string)
	switch choice := doc["tool_choice"].(type) {
	case string:
		if choice == "required" {
			q.tool = name
		}
	case map[string]any:
		q.tool, _ = unified.Member(choice, "function.name").(string)
	}
	for _, t := range tools {
		if unified.Member(t, "function.name") == q.tool && q.tool != "" {
			q.arguments = s.argumentsOf(unified.Member(t, "function.parameters"), q.prompt)
		}
	}
	if q.tool != "" && q.arguments == "" {
		return badValue("tool_choice")
	}
	return nil
}

func (s *Simulator) readPart(part any, q *asked, b *strings.Builder) {
	switch t := unified.Member(part, "type"); t {
	case "text":
		text, _ := unified.Member(part, "text").(string)
		b.WriteString(text)
	case "image_url":
		q.images++
	case "input_audio":
		q.audio = true
	}
}

// argumentsOf are arguments that the schema of a tool's parameters allows.
func (s *Simulator) argumentsOf(schema any, prompt string) string {
	if schema == nil {
		return "{}"
	}
	j, err := json.Marshal(schema)
	if err != nil {
		return "{}"
	}
	out, _, err := form{schema: j}.held(source(s.cfg.Seed, "tool", prompt), 400)
	if err != nil {
		return "{}"
	}
	return join(out)
}

func join(pieces []piece) string {
	var b strings.Builder
	for _, p := range pieces {
		b.WriteString(p.text)
	}
	return b.String()
}

// plan is what a choice will say.
type plan struct {
	pieces []piece
	finish string
}

// plan makes the answer of one choice.
func (s *Simulator) plan(q asked, choice int, nth uint64) (plan, error) {
	seed := s.cfg.Seed
	salt := []string{q.prompt, q.adapter}
	if !q.greedy {
		switch {
		case q.seeded && s.cfg.Mutation != MutateSeed:
			salt = append(salt, "seed", fmt.Sprint(q.seed))
		default:
			salt = append(salt, "drawn", fmt.Sprint(nth))
		}
		salt = append(salt, fmt.Sprint(choice))
	}
	if s.cfg.Mutation == MutateAdapter {
		salt[1] = ""
	}
	r := source(seed, salt...)
	most := q.most
	room := s.cfg.Model.Context - s.promptTokens(q)
	if most == 0 || most > room {
		most = room
	}
	var out plan
	if s.cfg.Model.Thinks && q.chat && q.tool == "" && q.form.none() {
		thoughts, _ := sentence(r, 0, min(6, most))
		for i := range thoughts {
			thoughts[i].thought = true
		}
		out.pieces = thoughts
		most -= len(thoughts)
	}
	said, whole, err := s.say(r, q, most)
	if err != nil {
		return out, err
	}
	out.pieces = append(out.pieces, said...)
	if out.finish = "stop"; !whole {
		out.finish = "length"
	}
	if q.tool != "" && whole {
		out.finish = "tool_calls"
	}
	return out, nil
}

// longAnswer is how many tokens have to be asked for to get as many.
const longAnswer = 512

// say makes the words, the text of a form, or the arguments of a call.
func (s *Simulator) say(r *rand.Rand, q asked, most int) ([]piece, bool, error) {
	switch {
	case q.tool != "":
		var out []piece
		for text := q.arguments; text != ""; {
			n := min(4, len(text))
			out, text = append(out, piece{text: text[:n]}), text[n:]
		}
		return out[:min(len(out), most)], len(out) <= most, nil
	case !q.form.none() && s.cfg.Mutation != MutateFormat:
		return q.form.held(r, most)
	}
	least := q.least
	if s.cfg.Mutation == MutateSampling {
		least = 0
	}
	if q.most >= longAnswer { // who asks for so much wants a long answer
		least = q.most
	}
	out, whole := sentence(r, least, most)
	if cut, ended := cut(out, q.stop); ended {
		return cut, true, nil
	}
	return out, whole, nil
}

// promptTokens counts a prompt, with the marks that a template adds and what images take.
func (s *Simulator) promptTokens(q asked) int {
	n := tokens(q.prompt)
	if q.chat {
		n += 4
	}
	if s.cfg.Mutation != MutateImage {
		n += 64 * q.images
	}
	return max(n, 1)
}
