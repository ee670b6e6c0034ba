package jsontext

import (
	"encoding/json"
	"testing"
)

// FuzzText: taken apart and put together, a text is what it was; with every string changed, it is JSON of the same shape.
func FuzzText(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"b":["c",1234567,{"d":"e"}],"f":"g"},"h":"\u0022"}`, `"x"`, `[[],{"":""}]`, `-1`, `{"a":1234567.5e+9}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		j, ok := Parse([]byte(in))
		if ok != json.Valid([]byte(in)) {
			t.Fatalf("%q: %v", in, ok)
		}
		if !ok {
			return
		}
		if got := string(j.Join()); got != in {
			t.Fatalf("%q became %q", in, got)
		}
		n := 0
		for i := range j.Parts {
			if !j.Parts[i].IsKey {
				j.Parts[i].Text = "\"\\⟦\n" + j.Parts[i].Text
				n++
			}
		}
		out := string(j.Join())
		if !json.Valid([]byte(out)) || n > 0 && out == in {
			t.Fatalf("%q became %q", in, out)
		}
	})
}

func TestKeys(t *testing.T) {
	j, _ := Parse([]byte(`{"a":{"b":["x",{"c":"y"},"z"],"d":"w"},"e":["v"]}`))
	got := ""
	for _, p := range j.Parts {
		if !p.IsKey {
			got += p.Key + "=" + p.Text + " "
		}
	}
	if got != "b=x c=y b=z d=w e=v " {
		t.Error(got)
	}
}
