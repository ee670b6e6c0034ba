package conform_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/conform"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

func key(t *testing.T, name string, b byte) conform.Key {
	t.Helper()
	k, err := conform.NewKey(name, bytes.Repeat([]byte{b}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestSignature: a report reads back with the key that signed it. Any change of what it says, another key, another name and no signature are refused.
func TestSignature(t *testing.T) {
	p, err := profiles(t).Get("ollama")
	if err != nil {
		t.Fatal(err)
	}
	r := examine(t, simulated(p), conform.Health, conform.Answer, conform.Overload)
	k := key(t, "lab", 1)
	file, err := r.Write(&k)
	if err != nil {
		t.Fatal(err)
	}
	got, err := conform.Read(file, k.Public())
	if err != nil || got.Profile != "ollama" || len(got.Cases) != 3 || !got.Uses(p) || got.Grade != r.Grade {
		t.Fatalf("%+v, %v", got, err)
	}
	if !strings.Contains(string(file), `grade E2\nCP-1 pass\nCP-3 pass\nCP-11 pass\n`) {
		t.Errorf("the signed text does not carry the grade:\n%s", file)
	}
	for _, change := range [][2]string{{`"grade": "E2"`, `"grade": "E4"`}, {`"result": "pass"`, `"result": "fail"`}, {`"simulated": true`, `"simulated": false`}, {`grade E2\n`, `grade E4\n`}, {`"software": "test"`, `"software": "other"`}} {
		changed := strings.Replace(string(file), change[0], change[1], 1)
		if changed == string(file) {
			t.Fatalf("%s is not in the file", change[0])
		}
		if _, err := conform.Read([]byte(changed), k.Public()); !errors.Is(err, conform.ErrNotSigned) {
			t.Errorf("%s: %v", change[1], err)
		}
	}
	for name, other := range map[string]conform.Key{"another key": key(t, "lab", 2), "another name": key(t, "home", 1)} {
		if _, err := conform.Read(file, other.Public()); !errors.Is(err, conform.ErrNotSigned) {
			t.Errorf("%s: %v", name, err)
		}
	}
	plain, err := r.Write(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conform.Read(plain, k.Public()); !errors.Is(err, conform.ErrNotSigned) {
		t.Errorf("no signature: %v", err)
	}
	if _, err := conform.Read(plain, ""); err != nil {
		t.Errorf("unproven: %v", err)
	}
	for _, bad := range []string{"", "{}x", `{"report":{},"more":1}`, `{"report":{"speed":1}}`} {
		if _, err := conform.Read([]byte(bad), ""); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestKeys(t *testing.T) {
	one, again, other := key(t, "lab", 1).Public(), key(t, "lab", 1).Public(), key(t, "lab", 2).Public()
	if one != again || one == other {
		t.Error("keys do not follow from their seeds")
	}
	if _, err := conform.NewKey("lab", []byte("short")); err == nil {
		t.Error("a short seed was taken")
	}
	for _, text := range []string{"", "PRIVATE+KEY+a+00000000+AAAA", key(t, "lab", 1).Public()} {
		if _, err := conform.ParseKey(text); err == nil || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestDocuments: the report for people carries grade and reasons in both languages, and no text of a model.
func TestDocuments(t *testing.T) {
	p, err := profiles(t).Get("vllm")
	if err != nil {
		t.Fatal(err)
	}
	c := simulated(p)
	c.Mutation = "format-ignored"
	r := examine(t, c, conform.Answer, conform.Formats, conform.Drain)
	for l, wants := range map[message.Lang][]string{
		message.English: {"1 cases failed; what passed bears grade E2", "an answer does not keep to its form", "not applicable"},
		message.Chinese: {"1 个用例未通过；已通过的部分等级为 E2", "应答未遵守格式", "不适用"},
	} {
		var b bytes.Buffer
		if err := report.Write(&b, report.Markdown, r.Document(l)); err != nil {
			t.Fatal(err)
		}
		for _, w := range wants {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%v lacks %q:\n%s", l, w, b.String())
			}
		}
		for _, word := range []string{" river stone ", "lighthouse"} {
			if strings.Contains(b.String(), word) {
				t.Errorf("a text of the model is in the report: %q", word)
			}
		}
	}
	o := r.Observation("lab")
	if o.Grade != r.Grade || o.Features["format.regex"] || !o.Features["chat"] {
		t.Errorf("%+v", o)
	}
	seen := p.Contract().Observe(o)
	if seen.Features["format.regex"].Proven() != "roadmap" || seen.Features["chat"].Grade != r.Grade {
		t.Errorf("%+v", seen.Features)
	}
}
