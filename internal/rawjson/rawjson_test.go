package rawjson

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// seeds have every rule of the grammar, kept and broken.
func seeds() []string {
	return []string{
		``, ` `, `null`, ` true `, `false`, `nul`, `nulL`, `tru`, `truex`, `fals`, `0`, `-0`, `01`, `-`, `--1`, `1.`, `1.5`, `.5`, `1e`, `1e5`, `1E+5`, `1e-`, `-1.25e-3`, `1 2`, `1x`, `+1`,
		`""`, `"`, `"a`, `"\"`, `"\\"`, `"\\\""`, `"a\u0041b"`, `"\u00"`, `"\u00zz"`, `"\uD83D\uDE00"`, `"\ud800"`, `"\ud800\u0041"`, `"\ud800\ud800\udc00"`, `"\udc00"`, `"\x"`, "\"\n\"", "\"\x00\"", "\x00", "\"\u007f\"",
		`"\/\b\f\n\r\t"`, `"你好\u4f60"`, `[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2`, `[`, `]`, `[1]]`, `[[],{},"]"]`, "[\t1 ,\r\n\"a,]\" , null ]",
		`{}`, `{ }`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,}`, `{a:1}`, `{"a" : 1 , "b":[{"c":"}"}]}`, `{"a":1,"a":2}`, `{"\u0061":1,"a":{"a":2}}`, `{"a":1}}`, `{1:2}`, `{"a":"\\"}`, `{"a":"\"}"}`, `{"":""}`,
		`{"a":1 "b":2}`, `{"a"::1}`, `{,}`, `{"a":[}`, `[{]`, ` [ true , false , null ] x`, strings.Repeat("[", 70), strings.Repeat("[", 20) + strings.Repeat("]", 20), strings.Repeat(`{"a":`, 20) + "1" + strings.Repeat("}", 20),
		`{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":0,"k":1,"l":2,"m":3,"n":4,"o":5,"p":6,"q":7,"a":8,"q":9,"r":0}`,
	}
}

// agree holds a text against encoding/json: what is accepted, where an error is seen, and every value.
func agree(t *testing.T, s string) {
	t.Helper()
	const deep = 1000
	read, err := Check(s, deep)
	if errors.Is(err, ErrDeep) {
		if n := strings.Count(s, "[") + strings.Count(s, "{"); n <= deep {
			t.Fatalf("%q: too deep with %d brackets", s, n)
		}
		return
	}
	var want any
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	wrong := json.Unmarshal([]byte(s), new(json.RawMessage))
	if (err == nil) != (wrong == nil) {
		t.Fatalf("%q: %v, encoding/json says %v", s, err, wrong)
	}
	if err != nil {
		var syntax *json.SyntaxError
		if !errors.As(wrong, &syntax) || int64(read) != syntax.Offset {
			t.Fatalf("%q: wrong after %d bytes, encoding/json says %v", s, read, wrong)
		}
		return
	}
	if read != len(s) {
		t.Fatalf("%q: %d bytes read", s, read)
	}
	if !utf8.ValidString(s) { // encoding/json replaces what is no text; bodies with it are refused before
		return
	}
	if err := dec.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if got := whole(t, Trim(s)); !reflect.DeepEqual(got, want) {
		t.Fatalf("%q:\n got %#v\nwant %#v", s, got, want)
	}
}

// whole reads a value to the last.
func whole(t *testing.T, value string) any {
	if s, ok := Text(value); ok {
		return s
	}
	if items, ok := Items(value); ok {
		out := []any{}
		for _, item := range items {
			out = append(out, whole(t, item))
		}
		return out
	}
	if m, ok := Object(value); ok {
		out := map[string]any{}
		for _, member := range m.All() {
			if _, twice := out[member.Name]; twice {
				t.Fatalf("%q twice", member.Name)
			}
			if v, ok := m.Get(member.Name); !ok || v != member.Value {
				t.Fatalf("%q: %q, %v", member.Name, v, ok)
			}
			out[member.Name] = whole(t, member.Value)
		}
		if v, ok := m.Get("nobody's name"); ok && out["nobody's name"] == nil {
			t.Fatalf("%q", v)
		}
		return out
	}
	switch value {
	case "true":
		return true
	case "false":
		return false
	}
	if Null(value) {
		return nil
	}
	return json.Number(value)
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, s := range seeds() {
		agree(t, s)
	}
	// Texts made of the grammar's pieces, so that many are nearly JSON.
	pieces := []string{
		`{`, `}`, `[`, `]`, `:`, `,`, `"a"`, `"`, `\`, `\"`, `\\`, `\u00e9`, `\ud83d`, `\ude00`, ` `, "\n", `1`, `-2.5e1`, `0`, `true`, `false`, `null`, `"b":`, `"好"`, "\x1f", `[]`, `{}`, `"\n"`, `,"a":`, `x`,
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 60_000 {
		var b strings.Builder
		for range 1 + r.IntN(8) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		agree(t, b.String())
	}
	for range 1000 {
		s := random(r, 3)
		agree(t, s)
		at := r.IntN(len(s) + 1)
		agree(t, s[:at])
		agree(t, s[:at]+pieces[r.IntN(len(pieces))]+s[at:])
	}
}

// random writes a value.
func random(r *rand.Rand, depth int) string {
	space := func() string { return strings.Repeat(" ", r.IntN(2)) }
	scalars := []string{`"a\\"`, `"\"]}"`, `"{[,:"`, `""`, `-1.5`, `7`, `true`, `null`, `"\ud83d\ude00好"`}
	if depth == 0 || r.IntN(3) == 0 {
		return scalars[r.IntN(len(scalars))]
	}
	names := r.IntN(2) == 0
	var parts []string
	for range r.IntN(20) {
		part := random(r, depth-1)
		if names {
			part = []string{`"a"`, `"b"`, `"\u0061"`, `"c,"`, `"d\\"`, `"` + strings.Repeat("e", 1+r.IntN(20)) + `"`}[r.IntN(6)] + space() + ":" + space() + part
		}
		parts = append(parts, space()+part+space())
	}
	all := strings.Join(parts, ",")
	if names {
		return "{" + all + "}"
	}
	return "[" + all + "]"
}

// TestDepth: brackets inside strings do not count, and a text may be exactly as deep as is allowed.
func TestDepth(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]error{
		`[{"a":[1]}]`: nil, `[{"a":[[1]]}]`: ErrDeep, `"[[[["`: nil, `[[],[[]],{"[[[[":1}]`: nil, `[[[[`: ErrDeep, `[[[`: ErrSyntax, `[x[[[[`: ErrSyntax,
	} {
		if _, err := Check(s, 3); !errors.Is(err, want) {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestNothingIsCopied: a string without escapes and every value are parts of the text.
func TestNothingIsCopied(t *testing.T) {
	text := `{"messages":[{"content":"` + strings.Repeat("word ", 10_000) + `"}]}`
	if n := testing.AllocsPerRun(10, func() {
		if _, err := Check(text, 64); err != nil {
			t.Fatal(err)
		}
		m, _ := Object(text)
		v, _ := m.Get("messages")
		items, _ := Items(v)
		m, _ = Object(items[0])
		v, _ = m.Get("content")
		if s, _ := Text(v); len(s) != 50_000 {
			t.Fatal(len(s))
		}
	}); n > 6 {
		t.Errorf("%v allocations", n)
	}
}

// TestOfOtherTexts: what did not pass the check makes no function panic or run forever.
func TestOfOtherTexts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 50_000 {
		b := make([]byte, r.IntN(12))
		for k := range b {
			b[k] = `{}[]:,"\u0d8 a`[r.IntN(14)]
		}
		for _, s := range []string{string(b), "{" + string(b), "[" + string(b), `"` + string(b) + `"`} {
			_, _ = Text(s)
			_, _ = Items(s)
			_, _ = Object(s)
		}
	}
}

func FuzzAgrees(f *testing.F) {
	for _, s := range seeds() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { agree(t, s) })
}
