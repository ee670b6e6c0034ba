package toolcall

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// call is what the deltas of one call come to.
type call struct{ name, arguments string }

type answer struct {
	text  string
	calls []call
	open  bool
}

func (a answer) equal(b answer) bool {
	return a.text == b.text && a.open == b.open && slices.Equal(a.calls, b.calls)
}

// parse feeds the pieces and checks what holds for every answer.
func parse(t testing.TB, d Dialect, opt Options, pieces ...string) answer {
	t.Helper()
	p := d.Parser(opt)
	var out answer
	take := func(text string, deltas []Delta) {
		out.text += text
		for _, delta := range deltas {
			if delta.Index == len(out.calls) {
				if delta.ID != ID(opt.Seed, opt.Choice, delta.Index) || delta.Name == "" {
					t.Fatalf("%q: a call begins with %+v", pieces, delta)
				}
				out.calls = append(out.calls, call{delta.Name, ""})
			} else if delta.ID != "" || delta.Name != "" || delta.Index != len(out.calls)-1 {
				t.Fatalf("%q: a call goes on with %+v", pieces, delta)
			}
			out.calls[delta.Index].arguments += delta.Arguments
		}
	}
	for _, piece := range pieces {
		take(p.Write(piece))
	}
	take(p.Close())
	out.open = p.Open()
	if p.Calls() != len(out.calls) {
		t.Fatalf("%q: Calls is %d of %d", pieces, p.Calls(), len(out.calls))
	}
	for i, c := range out.calls {
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.arguments), &object); (err != nil || object == nil) && (!out.open || i+1 < len(out.calls)) {
			t.Fatalf("%q: arguments %q: %v", pieces, c.arguments, err)
		}
		if !slices.Contains(opt.Names, c.name) {
			t.Fatalf("%q: called %q", pieces, c.name)
		}
	}
	return out
}

var offered = []string{"get_weather", "now", "f"}

// Answers as models of each family give them, good and bad.
var answers = []struct {
	dialect Dialect
	answer  string
	text    string
	calls   []call
}{
	{Hermes, "Hello!", "Hello!", nil},
	{Hermes, " \n", " \n", nil},
	{Hermes, "  indented", "  indented", nil},
	{Hermes, "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"上海\", \"unit\": \"c\"}}\n</tool_call>", "", []call{{"get_weather", `{"place": "上海", "unit": "c"}`}}},
	{Hermes, "<think>\nThe user wants <tool things>.\n</think>\n\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", "<think>\nThe user wants <tool things>.\n</think>\n\n", []call{{"now", "{}"}}},
	{Hermes, "\n\n<tool_call>{\"name\":\"now\"}</tool_call>\n<tool_call>\n{\"arguments\": {\"a\": [1, {\"b\": \"}\\\"{\"}]}, \"name\": \"f\"}\n</tool_call>\n", "", []call{{"now", "{}"}, {"f", `{"a": [1, {"b": "}\"{"}]}`}}},
	{Hermes, "One. <tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call> Two.", "One.  Two.", []call{{"now", "{}"}}},
	{Hermes, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}", "", []call{{"now", "{}"}}},                                                                                          // end of text for the closing tag
	{Hermes, "<tool_call>[{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"f\", \"arguments\": {\"x\": -1.5e+3}}]</tool_call>", "", []call{{"now", "{}"}, {"f", `{"x": -1.5e+3}`}}}, // SmolLM2
	{Hermes, `<tool_call>{"name": "f", "arguments": "{\"a\": 1}"}</tool_call>`, "", []call{{"f", `{"a": 1}`}}},
	{Hermes, `<tool_call>{"name": "f", "parameters": {"a": null}, "reason": ["x"]}</tool_call>`, "", []call{{"f", `{"a": null}`}}},
	{Hermes, `<tool_call>{"name": "g", "arguments": {}}</tool_call>`, `<tool_call>{"name": "g", "arguments": {}}</tool_call>`, nil},
	{Hermes, "<tool_call>\n{'name': 'f', 'arguments': {}}\n</tool_call>", "<tool_call>\n{'name': 'f', 'arguments': {}}\n</tool_call>", nil},
	{Hermes, `<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>`, `<tool_call>{"name": "f", "arguments": {"a": 1,}}</tool_call>`, nil},
	{Hermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"two\nlines\"}}</tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"two\nlines\"}}</tool_call>", nil},
	{Hermes, `<tool_call>{"name": "f", "arguments": [1]}</tool_call>`, `<tool_call>{"name": "f", "arguments": [1]}</tool_call>`, nil},
	{Hermes, `<tool_call>{"name": "f", "arguments": "no object"}</tool_call>`, `<tool_call>{"name": "f", "arguments": "no object"}</tool_call>`, nil},
	{Hermes, `<tool_call>{"name": "f", "name": "now"}</tool_call>`, `<tool_call>{"name": "f", "name": "now"}</tool_call>`, nil},
	{Hermes, `<tool_call>{"name": "f", "arguments": {"a": 01}}`, `<tool_call>{"name": "f", "arguments": {"a": 01}}`, nil},
	{Hermes, `<tool_call>{"name": "f", "arguments": {}, "parameters": {"a": 1}}</tool_call>`, `<tool_call>{"name": "f", "arguments": {}, "parameters": {"a": 1}}</tool_call>`, nil},
	{Hermes, `<tool_call>{"arguments": {}}</tool_call>`, `<tool_call>{"arguments": {}}</tool_call>`, nil},
	{Hermes, "<tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n", []call{{"now", "{}"}}},
	{Hermes, `<tool_call>{"name": "f", "arguments": {"path": "/data`, `<tool_call>{"name": "f", "arguments": {"path": "/data`, nil},
	{Hermes, "<tool_call>", "<tool_call>", nil},
	{Hermes, "a <tool_cal", "a <tool_cal", nil},
	{Hermes, `<tool_call>{"name": "now"}</tool_cal`, "</tool_cal", []call{{"now", "{}"}}},
	{Hermes, `<tool_call>[{"name": "now"}, {"name": "g"}]</tool_call>`, `, {"name": "g"}]</tool_call>`, []call{{"now", "{}"}}},
	{Hermes, `<tool_call>[]</tool_call>`, `<tool_call>[]</tool_call>`, nil},
	{Hermes, `{"name": "now", "arguments": {}}`, `{"name": "now", "arguments": {}}`, nil},

	{Llama, `{"name": "get_weather", "parameters": {"place": "Paris"}}`, "", []call{{"get_weather", `{"place": "Paris"}`}}},
	{Llama, "\n" + `<|python_tag|>{"type": "function", "name": "now", "parameters": {}}`, "", []call{{"now", "{}"}}},
	{Llama, `{"name": "now", "parameters": {}}; {"name": "f", "parameters": {"a": true}}` + "\n" + `{"name": "now", "parameters": {}}`, "", []call{{"now", "{}"}, {"f", `{"a": true}`}, {"now", "{}"}}},
	{Llama, `{"name": "now", "parameters": {}}; and more`, "; and more", []call{{"now", "{}"}}},
	{Llama, `{"answer": 42, "name": "f"}`, `{"answer": 42, "name": "f"}`, nil},
	{Llama, `{"name": "Ada", "parameters": {}}`, `{"name": "Ada", "parameters": {}}`, nil},
	{Llama, `<|python_tag|>brave_search.call(query="x")`, `<|python_tag|>brave_search.call(query="x")`, nil},
	{Llama, `Sure: {"name": "now", "parameters": {}}`, `Sure: {"name": "now", "parameters": {}}`, nil},
	{Llama, `Sure.<|python_tag|>{"name": "now", "parameters": {}}`, "Sure.", []call{{"now", "{}"}}},

	{Mistral, `[TOOL_CALLS] [{"name": "get_weather", "arguments": {"place": "Lyon"}}, {"name": "now", "arguments": {}, "id": "abcDEF123"}]`, "", []call{{"get_weather", `{"place": "Lyon"}`}, {"now", "{}"}}},
	{Mistral, `Je regarde.[TOOL_CALLS][{"name": "now", "arguments": {}}]`, "Je regarde.", []call{{"now", "{}"}}},
	{Mistral, `[TOOL_CALLS]none`, `[TOOL_CALLS]none`, nil},
	{Mistral, `[TOOL_CALL`, `[TOOL_CALL`, nil},
	{MistralArgs, `[TOOL_CALLS]get_weather[ARGS]{"place": "Nice"}[TOOL_CALLS]now[CALL_ID]a1B2c3D4e[ARGS]{}`, "", []call{{"get_weather", `{"place": "Nice"}`}, {"now", "{}"}}},
	{MistralArgs, `[TOOL_CALLS]now{}`, "", []call{{"now", "{}"}}},
	{MistralArgs, `[TOOL_CALLS]rm_rf[ARGS]{}`, `[TOOL_CALLS]rm_rf[ARGS]{}`, nil},
	{MistralArgs, `[TOOL_CALLS]now[ARGS]{"a"}`, `[TOOL_CALLS]now[ARGS]{"a"}`, nil},
	{MistralArgs, `[TOOL_CALLS]now[CALL_ID]x[CALL_ID]y[ARGS]{}`, `[TOOL_CALLS]now[CALL_ID]x[CALL_ID]y[ARGS]{}`, nil},
	{MistralArgs, `[TOOL_CALLS]now[ARG`, `[TOOL_CALLS]now[ARG`, nil},

	{None, `<tool_call>{"name": "now"}</tool_call>`, `<tool_call>{"name": "now"}</tool_call>`, nil},
}

func TestAnswersOfModels(t *testing.T) {
	for _, c := range answers {
		want := answer{c.text, c.calls, false}
		if got := parse(t, c.dialect, Options{Names: offered, Parallel: true}, c.answer); !got.equal(want) {
			t.Errorf("%s %q:\n got  %+v\n want %+v", c.dialect, c.answer, got, want)
		}
	}
}

func TestAnyCutGivesTheSame(t *testing.T) {
	for _, guaranteed := range []bool{false, true} {
		opt := Options{Names: offered, Parallel: true, Guaranteed: guaranteed}
		for _, c := range answers {
			if guaranteed && c.calls == nil {
				continue // no grammar lets it through
			}
			want := parse(t, c.dialect, opt, c.answer)
			for i := range c.answer {
				for j := i; j < len(c.answer); j++ {
					if got := parse(t, c.dialect, opt, c.answer[:i], c.answer[i:j], c.answer[j:]); !got.equal(want) {
						t.Fatalf("%s %q|%q|%q:\n got  %+v\n want %+v", c.dialect, c.answer[:i], c.answer[i:j], c.answer[j:], got, want)
					}
				}
			}
			if got := parse(t, c.dialect, opt, strings.Split(c.answer, "")...); !got.equal(want) {
				t.Errorf("%s %q by characters:\n got  %+v\n want %+v", c.dialect, c.answer, got, want)
			}
		}
	}
}

func TestTextIsHeldBackOnlyWhileItMayBeginACall(t *testing.T) {
	p := Hermes.Parser(Options{Names: offered})
	for _, c := range []struct{ piece, text string }{
		{"Hi ", "Hi "},
		{"a <", "a "},
		{"tool", ""},
		{"s", "<tools"},
		{"<tool_call>", ""},
		{"x", "<tool_call>x"},
		{"<tool_call>{\"name\": \"", ""},
		{"secret", ""},
		{"\", ", "<tool_call>{\"name\": \"secret\", "},
	} {
		if text, _ := p.Write(c.piece); text != c.text {
			t.Errorf("after %q: text %q, want %q", c.piece, text, c.text)
		}
	}
}

func TestGuaranteedArgumentsAreStreamed(t *testing.T) {
	for d, prefix := range map[Dialect]string{
		Hermes: "<tool_call>\n{\"name\": \"f\", \"arguments\": ", Llama: `{"name": "f", "parameters": `, Mistral: `[TOOL_CALLS][{"name": "f", "arguments": `, MistralArgs: "[TOOL_CALLS]f[ARGS]",
	} {
		p := d.Parser(Options{Names: offered, Guaranteed: true, Seed: 7})
		if text, deltas := p.Write(prefix); text != "" || len(deltas) != 0 {
			t.Errorf("%s: %q, %+v before the arguments", d, text, deltas)
		}
		for i, piece := range []string{`{"a"`, `: "x`, `y`} {
			text, deltas := p.Write(piece)
			if text != "" || len(deltas) == 0 || deltas[len(deltas)-1].Arguments != piece || (len(deltas) == 2) != (i == 0) {
				t.Errorf("%s: %q, %+v after %q", d, text, deltas, piece)
			}
		}
		if text, deltas := p.Close(); text != "" || deltas != nil || !p.Open() || p.Calls() != 1 {
			t.Errorf("%s: a cut answer ends with %q, %+v, open %t", d, text, deltas, p.Open())
		}
	}
}

// A limit may cut an answer that a grammar holds to calls anywhere behind the first marker: what is not whole then is no text.
func TestCutAnswersLeaveNoMarkers(t *testing.T) {
	for d, text := range map[Dialect]string{
		Hermes:      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>",
		Llama:       `{"name": "f", "parameters": {"a": 1}}; {"name": "now", "parameters": {}}`,
		Mistral:     `[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}, {"name": "now", "arguments": {}}]`,
		MistralArgs: `[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]now[ARGS]{}`,
	} {
		marker, _ := d.Trigger()
		for cut := len(marker); cut <= len(text); cut++ {
			got := parse(t, d, Options{Names: offered, Parallel: true, Guaranteed: true}, text[:cut])
			if got.text != "" {
				t.Errorf("%s: %q leaves the text %q", d, text[:cut], got.text)
			}
		}
	}
}

func TestOneCallUnlessParallel(t *testing.T) {
	for d, text := range map[Dialect]string{
		Hermes:      `<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "f"}</tool_call>`,
		Llama:       `{"name": "now"};{"name": "f"}`,
		Mistral:     `[TOOL_CALLS][{"name": "now"},{"name": "f"}]`,
		MistralArgs: `[TOOL_CALLS]now[ARGS]{}[TOOL_CALLS]f[ARGS]{}`,
	} {
		got := parse(t, d, Options{Names: offered}, text)
		if len(got.calls) != 1 || got.calls[0].name != "now" || !strings.Contains(got.text, "f") {
			t.Errorf("%s: %+v", d, got)
		}
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		for n := range 27 {
			seen[ID(uint64(n/9), n/3%3, n%3)] = true
		}
	}
	if len(seen) != 27 || len(ID(1, 2, 3)) != len("call_")+24 {
		t.Errorf("%d different IDs, such as %s", len(seen), ID(1, 2, 3))
	}
}

// A long answer takes memory, and so time, in proportion to its length, whatever it is made of.
func TestLongAnswersAreLinear(t *testing.T) {
	const n = 1500
	for _, start := range []string{"", `<tool_call>{"name": "f", "arguments": {"a": "`, `{"name": "now"}`, `[TOOL_CALLS][{"name": "now"}`} {
		for _, piece := range []string{"<", "<tool_call>", "<tool_call>{", `<tool_call>{"name": "`, `{"a": `, "[TOOL_CALLS]", "[TOOL_CALLS]f", " ", `"<tool_call>`, "[", ";"} {
			for _, d := range []Dialect{Hermes, Llama, Mistral, MistralArgs} {
				once, more := allocated(d, start, piece, n), allocated(d, start, piece, 8*n)
				if more > 16*once+1<<16 {
					t.Errorf("%s, %q and %q: %d bytes for %d pieces, %d for %d", d, start, piece, once, n, more, 8*n)
				}
			}
		}
	}
}

func allocated(d Dialect, start, piece string, n int) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := d.Parser(Options{Names: offered, Parallel: true})
	p.Write(start)
	for range n {
		p.Write(piece)
	}
	p.Close()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzParser(f *testing.F) {
	for _, c := range answers {
		f.Add(uint8(c.dialect), c.answer, uint64(1))
	}
	f.Fuzz(func(t *testing.T, dialect uint8, answer string, seed uint64) {
		d := Dialect(dialect % 5)
		opt := Options{Names: offered, Parallel: seed%2 == 0, Seed: seed}
		want := parse(t, d, opt, answer)
		if len(want.calls) == 0 && want.text != answer {
			t.Fatalf("%s: %q became %q without calls", d, answer, want.text)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := answer; rest != ""; {
			n := 1 + rng.IntN(min(len(rest), 8))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if got := parse(t, d, opt, pieces...); !got.equal(want) {
			t.Fatalf("%s %q:\n got  %+v\n want %+v", d, pieces, got, want)
		}
	})
}

// The scanner takes exactly what encoding/json takes.
func FuzzScanner(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a": [1, -0.5e-7, true, null, "\u00e9\n"], "b": {}}`, "[01]", "[1.]", "[-]", "[1e]", `{"a" 1}`, `{"a":1,}`, "[1,]", `["\x"]`, `["\u12g4"]`, "[tru]", "[[]]", "[] []", "{]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") || strings.Count(text, "[")+strings.Count(text, "{") > maxNesting {
			return
		}
		var s scanner
		ok := true
		for i := range len(text) {
			if ok = s.step(text[i]); !ok {
				break
			}
		}
		if got := ok && s.state == finished; got != json.Valid([]byte(text)) {
			t.Fatalf("%q: %t, encoding/json says %t", text, got, !got)
		}
	})
}

func BenchmarkParser(b *testing.B) {
	text := "I will look that up for you, one moment. " + `<tool_call>` + fmt.Sprintf(`{"name": "f", "arguments": {"text": %q}}`, strings.Repeat("word ", 100)) + "</tool_call>"
	pieces := strings.SplitAfter(text, " ")
	b.ReportMetric(float64(len(pieces)), "pieces/op")
	for b.Loop() {
		p := Hermes.Parser(Options{Names: offered})
		for _, piece := range pieces {
			p.Write(piece)
		}
		p.Close()
	}
}
