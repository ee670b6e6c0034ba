package label

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/keyring"
)

func labeler(t testing.TB, producer string) *Labeler {
	t.Helper()
	l, err := New(Config{Producer: producer}, keyring.FromBytes(bytes.Repeat([]byte{9}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestVector pins the bytes: labels that are out in the world must verify with every later version.
func TestVector(t *testing.T) {
	l := labeler(t, "示例公司")
	x := l.Make("0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001", "acme")
	const want = `{"Label":"1","ContentProducer":"\u793a\u4f8b\u516c\u53f8","ProduceID":"0194b3c2-7e7b-7c2a-9d1f-3f1f5b8a0001",` +
		`"ReservedCode1":"hmac-sha256:CODE","ContentPropagator":"","PropagateID":"","ReservedCode2":""}`
	got := x.HeaderValue()
	if got != strings.Replace(want, "hmac-sha256:CODE", vectorCode, 1) {
		t.Errorf("header %s", got)
	}
	if err := l.Verify(x, "acme"); err != nil {
		t.Error(err)
	}
}

// vectorCode was computed apart, with another HKDF and HMAC implementation.
const vectorCode = "hmac-sha256:m8fmUhEI9y60XJ4bfiEN7t7L5ZflUgrKGDqVifs33R8"

// TestHeaderValueIsOneText: the short way to it spells every label as the long one does.
func TestHeaderValueIsOneText(t *testing.T) {
	plain := 0
	for c := range rune(0x300) {
		for _, s := range []string{string(c), "a" + string(c) + "b", string([]byte{byte(c)})} {
			x := Label{Label: "1", ContentProducer: s, ProduceID: "id", ReservedCode1: "hmac-sha256:x", ContentPropagator: s, ReservedCode2: s + s}
			if got, want := x.HeaderValue(), x.escaped(); got != want {
				t.Errorf("%q: %s, want %s", s, got, want)
			}
			if _, ok := x.plain(); ok {
				plain++
			}
		}
	}
	if plain < 200 {
		t.Errorf("%d of the labels go the short way", plain)
	}
}

func TestEveryFieldIsCovered(t *testing.T) {
	l := labeler(t, "p")
	good := l.Make("r1", "acme")
	for i := range reflect.TypeFor[Label]().NumField() {
		x := good
		f := reflect.ValueOf(&x).Elem().Field(i)
		f.SetString(f.String() + "x")
		name := reflect.TypeFor[Label]().Field(i).Name
		propagator := name == "ContentPropagator" || name == "PropagateID" || name == "ReservedCode2"
		if err := l.Verify(x, "acme"); (err == nil) != propagator {
			t.Errorf("%s changed: %v", name, err)
		}
	}
	if !errors.Is(l.Verify(good, "other"), ErrForeign) {
		t.Error("a label is for one tenant")
	}
	other, err := New(Config{}, keyring.FromBytes(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(other.Verify(good, "acme"), ErrForeign) || !errors.Is(l.Verify(Label{}, "acme"), ErrForeign) {
		t.Error("a foreign label must not verify")
	}
	// Moving a character from one field to the next must not keep the code.
	a, b := labeler(t, "ab").Make("c", "acme"), labeler(t, "a").Make("bc", "acme")
	if a.ReservedCode1 == b.ReservedCode1 {
		t.Error("fields run together")
	}
}

func TestHeaderIsASCIIAndReadsBack(t *testing.T) {
	for _, producer := range []string{"Sluice", "示例公司", "a\"b\\c", "😀<&>", "é\u2028"} {
		l := labeler(t, producer)
		x := l.Make("r", "acme")
		h := x.HeaderValue()
		for i := range len(h) {
			if h[i] < ' ' || h[i] >= 0x7f {
				t.Fatalf("byte %#x in header of %q", h[i], producer)
			}
		}
		back, err := Parse(h)
		if err != nil || back != x || l.Verify(back, "acme") != nil {
			t.Errorf("%q: %+v %v", producer, back, err)
		}
		b, err := json.Marshal(x.Extension())
		if err != nil {
			t.Fatal(err)
		}
		if back, err = Parse(string(b[len(`{"AIGC":`) : len(b)-1])); err != nil || back != x {
			t.Errorf("extension %s: %v", b, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := labeler(t, "p").Make("r", "acme").HeaderValue()
	for name, bad := range map[string]string{
		"empty": "", "array": "[]", "null": "null", "missing": strings.Replace(good, `"ReservedCode2"`, `"Reserved"`, 1),
		"number": strings.Replace(good, `"1"`, `1`, 1), "extra": strings.Replace(good, `{`, `{"More":"",`, 1),
		"null field": strings.Replace(good, `"1"`, `null`, 1), "twice": strings.Replace(good, `{`, `{"Label":"2",`, 1), "long": `{"a":"` + strings.Repeat("x", 9000) + `"}`, "tail": good + "x",
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

func TestText(t *testing.T) {
	for answer, want := range map[string]string{
		"今天天气很好。": TextChinese, "The weather is fine.": TextEnglish, "": TextChinese, "42": TextChinese,
		"请使用 OpenAI SDK 调用接口": TextChinese, "In Chinese, tea is 茶; it is drunk everywhere in the country.": TextEnglish,
	} {
		var whole, pieces Sentence
		whole.Read(answer)
		for _, r := range answer {
			pieces.Read(string(r))
		}
		if got := whole.Text(); got != "\n\n"+want || pieces.Text() != got {
			t.Errorf("%q: %q, in pieces %q", answer, got, pieces.Text())
		}
	}
	// The standard asks for an AI element and a generated element.
	if !strings.Contains(TextChinese, "人工智能") || !strings.Contains(TextChinese, "生成") || !strings.Contains(TextEnglish, "AI") {
		t.Error("the visible label lacks an element")
	}
}

func TestConfig(t *testing.T) {
	for _, bad := range []string{strings.Repeat("x", 200), "a\nb", "\xff"} {
		if _, err := New(Config{Producer: bad}, nil); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if labeler(t, "").Make("r", "t").ContentProducer != "Sluice" {
		t.Error("default producer")
	}
}

func FuzzParse(f *testing.F) {
	l := labeler(f, "示例")
	f.Add(l.Make("r", "acme").HeaderValue())
	f.Add(`{"Label":"\ud800"}`)
	f.Add(`{}`)
	f.Fuzz(func(t *testing.T, s string) {
		x, err := Parse(s)
		if err != nil {
			if len(s) > 20 && strings.Contains(err.Error(), s) {
				t.Error("the error quotes its input")
			}
			return
		}
		if again, err := Parse(x.HeaderValue()); err != nil || again != x {
			t.Errorf("%+v became %+v: %v", x, again, err)
		}
	})
}

// TestKeyID: one tenant's labels name one key, those of another tenant or under another master key another.
func TestKeyID(t *testing.T) {
	other, err := New(Config{}, keyring.FromBytes(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	a := labeler(t, "p").KeyID("acme")
	if len(a) != 19 || a != labeler(t, "q").KeyID("acme") || a == labeler(t, "p").KeyID("other") || a == other.KeyID("acme") {
		t.Errorf("key id %q", a)
	}
}

// TestMarks: a visible label is known, in the words of others too, and no title or denial is taken for one.
func TestMarks(t *testing.T) {
	for _, c := range Channels() {
		for _, chinese := range []bool{true, false} {
			if w := Wording(c, chinese); !Marks(w) || !Seen("Text\n\n"+w+"\n") {
				t.Errorf("%s: %q is none", c, w)
			}
		}
	}
	for text, want := range map[string]bool{
		"AI-generated": true, "This image was generated by artificial intelligence.": true, "内容由AI生成，仅供参考": true, "以上内容由人工智能合成": true, "* AI-Generated *": true,
		"EMAIL REPORT, auto-generated": false, "Not generated by AI": false, "本文非人工智能生成": false, "不含AI生成的内容": false, "AI and generated electricity": false,
		"AI": false, "Generated": false, "<!-- AI-generated content -->": false, "Is this AI-generated?": false, "MAIL generated": false, "": false,
		strings.Repeat("AI-generated ", 40): false,
	} {
		if Marks(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
	if Seen("Text\nAI-generated content\nmore") {
		t.Error("a line between others is no label of the text")
	}
}

// TestVerifyWhole: what somebody wrote into the fields of the propagator is not taken for ours.
func TestVerifyWhole(t *testing.T) {
	l := labeler(t, "p")
	good := l.Make("r1", "acme")
	passed := l.Propagate(good, "id", "acme")
	forged, cut, made := good, passed, passed
	forged.ContentPropagator, cut.ReservedCode2, made.ReservedCode1 = "Example Bank", "", "x"
	for name, c := range map[string]struct {
		x    Label
		want bool
	}{"empty": {good, true}, "ours": {passed, true}, "invented": {forged, false}, "cut": {cut, false}, "of others": {made, false}, "of another tenant": {l.Propagate(good, "id", "other"), false}} {
		if err := l.VerifyWhole(c.x, "acme"); (err == nil) != c.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestConfigOfContentCredentials: a value that nobody knows is no way to switch them on or off.
func TestConfigOfContentCredentials(t *testing.T) {
	for _, c := range []struct {
		cfg Config
		ok  bool
	}{
		{Config{}, true},
		{Config{ContentCredentials: CredentialsAlways, CredentialsKey: maxCredentialsKey}, true},
		{Config{ContentCredentials: CredentialsNever}, true},
		{Config{ContentCredentials: "off"}, false},
		{Config{CredentialsKey: -1}, false},
		{Config{CredentialsRevoked: []string{"2026-0", "2027-12"}}, true},
		{Config{CredentialsRevoked: []string{"2026"}}, false},
		{Config{CredentialsRevoked: []string{"2026-00"}}, false},
		{Config{CredentialsRevoked: []string{"2026-1001"}}, false},
		{Config{CredentialsKey: maxCredentialsKey + 1}, false},
	} {
		if err := c.cfg.Validate(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
}
