package egress

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/jsontext"
)

// TestCutCalls: what the completion limit cuts off leaves as far as it goes.
func TestCutCalls(t *testing.T) {
	for _, full := range []string{`{"a":"b ⟦1⟧ c","n":[1234567,true]}`} {
		for n := range len(full) {
			if full[n]&0xC0 == 0x80 {
				continue
			}
			a := arguments{open: func() Release { return &fakeRelease{} }}
			out, err := a.write(full[:n])
			if err != nil {
				t.Fatal(err)
			}
			rest, err := a.close(true)
			if err != nil {
				t.Fatalf("%q: %v", full[:n], err)
			}
			if whole := restore(full); !strings.HasPrefix(whole, out) || len(out+rest) > len(whole) {
				t.Errorf("%q became %q + %q", full[:n], out, rest)
			}
		}
	}
}

// quoting restores ⟦1⟧ to a value that JSON must escape, and hides numbers of seven digits and more.
type quoting struct{ fakeRelease }

const awkward = "a\"b\\c\n\t\x01世"

func (q *quoting) swap(s string, err error) (string, error) {
	s = strings.ReplaceAll(s, "SECRET1", awkward)
	return strings.ReplaceAll(s, "7777777", "[hidden]"), err
}
func (q *quoting) Write(s string) (string, error)  { return q.swap(q.fakeRelease.Write(s)) }
func (q *quoting) Close(...string) (string, error) { return q.swap(q.fakeRelease.Close()) }

// swapped does to a decoded value what quoting does to a stream.
func swapped(v any) any {
	text := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(restore(s), "SECRET1", awkward), "7777777", "[hidden]")
	}
	switch v := v.(type) {
	case string:
		return text(v)
	case json.Number:
		if s := text(string(v)); s != string(v) && len(v) > jsontext.MaxPlain {
			return s
		}
		return v
	case []any:
		for i := range v {
			v[i] = swapped(v[i])
		}
	case map[string]any:
		out := map[string]any{}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[text(k)] = swapped(v[k])
		}
		return out
	}
	return v
}

func decodeJSON(s string) (v any, err error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// FuzzArguments: what is an object stays one, its values are what the rules make of them, and before that what they were, and cuts do not
// matter; everything else is an error.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":"⟦1⟧"}`, `{"a":[7777777,-1.5e3,"\u27e61⟧"],"⟦1⟧":{"b":null}}`, ` {"a" : "\ud83d\ude00\ud83d" } `, `{"a":"\ud83dx\u12"}`, `{"a":"\d\"\\"}`,
		`{"a":1,}`, `{"a"`, `[]`, `{"a":true,"b":false}`, `{"a":"\ud800\ud800\udc00"}`,
	} {
		f.Add(s, uint8(3))
	}
	f.Fuzz(func(t *testing.T, in string, cut uint8) {
		in = strings.ToValidUTF8(in, "?")
		run := func(pieces []string) (out, masked string, err error) {
			a := arguments{open: func() Release { return &quoting{} }}
			for _, p := range pieces {
				s, err := a.write(p)
				if err != nil {
					return "", "", err
				}
				out, masked = out+s, masked+a.masked
			}
			rest, err := a.close(false)
			return out + rest, masked + a.masked, err
		}
		whole, masked, err := run([]string{in})
		var pieces []string
		for _, r := range in {
			if n := len(pieces) - 1; n >= 0 && len(pieces[n]) <= int(cut%7) {
				pieces[n] += string(r)
				continue
			}
			pieces = append(pieces, string(r))
		}
		again, maskedAgain, err2 := run(pieces)
		if (err == nil) != (err2 == nil) || err == nil && (whole != again || masked != maskedAgain) {
			t.Fatalf("whole %q, %q %v, cut %q, %q %v", whole, masked, err, again, maskedAgain, err2)
		}
		source, bad := decodeJSON(in)
		_, object := source.(map[string]any)
		if bad == nil && object && json.Valid([]byte(in)) {
			if err != nil {
				t.Fatalf("%q was refused", in)
			}
			got, bad := decodeJSON(whole)
			if bad != nil || !strings.Contains(in, "⟦") && !reflect.DeepEqual(got, swapped(source)) {
				t.Fatalf("%q became %q: %v", in, whole, bad)
			}
			source, _ := decodeJSON(in) // swapped changes it in place
			if kept, bad := decodeJSON(masked); bad != nil || !reflect.DeepEqual(kept, source) {
				t.Fatalf("%q is kept as %q: %v", in, masked, bad)
			}
		}
		if err == nil && (!json.Valid([]byte(whole)) || !json.Valid([]byte(masked))) {
			t.Fatalf("%q became %q, kept as %q, which is no JSON", in, whole, masked)
		}
	})
}

// TestJSONAnswers: an answer that was asked to be JSON, cut anywhere, is the same text; what is no JSON, or stops being it, is text.
func TestJSONAnswers(t *testing.T) {
	for in, want := range map[string]string{
		`{"a": "⟦1⟧ \"x\"", "b":[1234567, true,{}], "c":null} `: `{"a": "SECRET1 \"x\"", "b":[1234567, true,{}], "c":null} `,
		`"⟦1⟧"`:                         `"SECRET1"`,
		`[]`:                            `[]`,
		` -12.5e3`:                      ` -12.5e3`,
		`tru`:                           `tru`,
		`{"a":tru`:                      `{"a":tru`,
		`{"a":"b ⟦1⟧`:                   `{"a":"b SECRET1`,
		`{"a":tru, "b":1}`:              `{"a":tru, "b":1}`,
		`Sure: {"a":"⟦1⟧"}`:             `Sure: {"a":"SECRET1"}`,
		"```json\n{\"a\":\"⟦1⟧\"}\n```": "```json\n{\"a\":\"SECRET1\"}\n```",
		`{"a":1} and ⟦2⟧`:               `{"a":1} and SECRET2`,
		`世界⟦2⟧`:                         `世界SECRET2`,
		``:                              ``,
	} {
		for size := 1; size < 30; size++ {
			j := newJSONRelease(func() Release { return &fakeRelease{} })
			got := ""
			for rest := in; rest != ""; {
				n := min(size, len(rest))
				for n < len(rest) && rest[n]&0xC0 == 0x80 {
					n++
				}
				out, err := j.Write(rest[:n])
				if err != nil {
					t.Fatal(err)
				}
				got, rest = got+out, rest[n:]
			}
			out, err := j.Close()
			if got += out; err != nil || got != want {
				t.Fatalf("%q in pieces of %d became %q, %v", in, size, got, err)
			}
		}
	}
}
