package signature

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func algorithms() []Algorithm { return []Algorithm{EdDSA, SM2SM3} }

func seed(b byte) []byte { return bytes.Repeat([]byte{b}, SeedSize) }

func signer(t testing.TB, a Algorithm, b byte) *Signer {
	t.Helper()
	s, err := NewSigner(a, seed(b))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// said is an answer with two alternatives; statement is about it.
func said() []Answer {
	return []Answer{
		{Text: "The parcel has come.\n\n(AI-generated content)", Reasoning: "Think."},
		{Refusal: "No.", Calls: []Call{{"find", `{"a":"<&>"}`}, {"tell", ""}}},
	}
}

func statement(a Algorithm, answers []Answer) Statement {
	x := Statement{
		Schema: Schema, Issuer: "sluice.example/log", Tenant: "acme", Request: "r1", Receipt: "a1", Time: 1_795_000_000_000_000,
		Model: Model{Name: "m", Version: "v1", Digest: "sha256:1"}, Policy: "p@3", Label: json.RawMessage(`{"Label":"1","ContentProducer":"示例","ProduceID":"r1"}`),
		Digest: a.Digest(),
	}
	for i, said := range answers {
		d := digestsOf(a, said)
		d.Finish = []string{"stop", "tool_calls"}[i%2]
		x.Answers = append(x.Answers, d)
	}
	return x
}

func forms() []Form { return []Form{JWS, CMS} }

func sign(t testing.TB, s *Signer, x Statement, form Form) string {
	t.Helper()
	text, err := s.Sign(x, form)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestSignatures(t *testing.T) {
	for i, a := range append(algorithms(), algorithms()...) {
		form := forms()[i/2]
		t.Run(string(a)+" "+string(form), func(t *testing.T) {
			s, other := signer(t, a, 7), signer(t, a, 8)
			x := statement(a, said())
			text := sign(t, s, x, form)
			if text != sign(t, signer(t, a, 7), x, form) {
				t.Error("the same key signs the same in two ways")
			}
			got, err := Verify(" "+text+"\n", []Key{other.Key, s.Key})
			if err != nil || got.Receipt != "a1" || string(got.Label) != string(x.Label) || !got.Matches(said()) {
				t.Fatalf("%+v, %v", got, err)
			}
			if id, err := KeyOf(text); err != nil || id != s.ID {
				t.Errorf("%s, %v", id, err)
			}
			retired := s.Key
			retired.Retired = time.Now()
			if _, err := Verify(text, []Key{retired}); err != nil {
				t.Errorf("a retired key: %v", err)
			}
			revoked := s.Key
			revoked.Revoked = time.Now()
			if got, err := Verify(text, []Key{revoked}); !errors.Is(err, ErrRevoked) || got.Request != "r1" {
				t.Errorf("a revoked key: %+v, %v", got, err)
			}
			if _, err := Verify(text, []Key{other.Key}); !errors.Is(err, ErrUnknownKey) {
				t.Errorf("another key: %v", err)
			}
			stolen := other.Key
			stolen.ID = s.ID // somebody puts his key under our name
			if _, err := Verify(text, []Key{stolen}); !errors.Is(err, ErrAltered) {
				t.Errorf("another key under the name: %v", err)
			}
			mixed := s.Key
			mixed.Algorithm = algorithms()[(slices.Index(algorithms(), a)+1)%2]
			if _, err := Verify(text, []Key{mixed}); !errors.Is(err, ErrAltered) {
				t.Errorf("another algorithm: %v", err)
			}
		})
	}
}

// TestEveryByteCounts: whatever byte of a signature is changed, it proves nothing any more.
func TestEveryByteCounts(t *testing.T) {
	for n, a := range append(algorithms(), algorithms()...) {
		s := signer(t, a, 7)
		text := sign(t, s, statement(a, said()), forms()[n/2])
		for i := range len(text) {
			for _, b := range []string{string(rune(text[i] ^ 1)), ".", "A", "", text[i:i+1] + "\n", text[i:i+1] + text[i:i+1]} {
				changed := text[:i] + b + text[i+1:]
				if strings.TrimSpace(changed) == text {
					continue
				}
				if _, err := Verify(changed, []Key{s.Key}); err == nil {
					t.Fatalf("%s: byte %d may be %q", a, i, b)
				}
			}
		}
	}
}

// TestEveryByteOfAnAnswer: whatever byte of an answer is changed, dropped or doubled, the statement is about another one.
func TestEveryByteOfAnAnswer(t *testing.T) {
	for _, a := range algorithms() {
		x := statement(a, said())
		fields := func(answers []Answer) []*string {
			return []*string{
				&answers[0].Text, &answers[0].Reasoning, &answers[0].Refusal, &answers[1].Text, &answers[1].Refusal,
				&answers[1].Calls[0].Name, &answers[1].Calls[0].Arguments, &answers[1].Calls[1].Name, &answers[1].Calls[1].Arguments,
			}
		}
		for n, whole := range fields(said()) {
			for i := 0; i <= len(*whole); i++ {
				edits := []string{(*whole)[:i] + " " + (*whole)[i:]}
				if i < len(*whole) {
					edits = append(edits, (*whole)[:i]+(*whole)[i+1:], (*whole)[:i]+string((*whole)[i]^1)+(*whole)[i+1:])
				}
				for _, e := range edits {
					if sameJSON(e, *whole) { // spaces between the tokens of arguments do not count
						continue
					}
					answers := said()
					*fields(answers)[n] = e
					if x.Matches(answers) {
						t.Fatalf("%s: field %d may be %q", a, n, e)
					}
				}
			}
		}
		for name, answers := range map[string][]Answer{
			"none": nil, "one": said()[:1], "swapped": {said()[1], said()[0]}, "three": append(said(), Answer{}),
		} {
			if x.Matches(answers) {
				t.Errorf("%s: %s", a, name)
			}
		}
		if x.MatchesText(said()[0].Text) != 0 || x.MatchesText("The parcel has come.") != -1 || x.MatchesText("") != -1 {
			t.Error("the text of an alternative is not found")
		}
	}
}

func sameJSON(a, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, []byte(a)) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
}

// TestPieces: digests do not depend on how an answer came.
func TestPieces(t *testing.T) {
	for _, a := range algorithms() {
		whole := digestsOf(a, Answer{Text: "两个字节 and more", Calls: []Call{{"f", `{"x":1}`}}})
		d := NewDigester(a, 2)
		for i := range len("两个字节 and more") {
			d.Text(1, "两个字节 and more"[i:i+1])
			d.Text(0, "x")
		}
		d.Call(1, 0, "f", "")
		for i := range `{"x":1}` {
			d.Call(1, 0, "", `{"x":1}`[i:i+1])
		}
		if got := d.Digests(1, ""); got != whole {
			t.Errorf("%s: %+v, %+v", a, got, whole)
		}
	}
}

// TestTheirReader: what is signed with Ed25519 is a JSON Web Signature that a library checks which is not ours.
func TestTheirReader(t *testing.T) {
	s := signer(t, EdDSA, 7)
	text := sign(t, s, statement(EdDSA, said()), JWS)
	claims := jwt.MapClaims{}
	got, err := jwt.NewParser(jwt.WithValidMethods([]string{"EdDSA"})).ParseWithClaims(text, claims, func(*jwt.Token) (any, error) {
		return ed25519.PublicKey(s.Public), nil
	})
	if err != nil || !got.Valid || got.Header["kid"] != s.ID || claims["receipt"] != "a1" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestKeptForms holds the form to signatures that an earlier release made: results are kept for years.
func TestKeptForms(t *testing.T) {
	for a, want := range map[Algorithm]string{EdDSA: keptEdDSA, SM2SM3: keptSM2} {
		s := signer(t, a, 7)
		if got := sign(t, s, statement(a, said()), JWS); got != want {
			t.Errorf("%s: the form has changed:\n%s", a, got)
		}
	}
}

func TestMalformed(t *testing.T) {
	s := signer(t, EdDSA, 7)
	text := sign(t, s, statement(EdDSA, said()), JWS)
	part := strings.Split(text, ".")
	coded := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for name, bad := range map[string]string{
		"nothing": "", "dots": "..", "two parts": part[0] + "." + part[1], "four parts": text + ".x", "padding": text + "=",
		"no header": "." + part[1] + "." + part[2], "another type": coded(`{"alg":"EdDSA","kid":"k","typ":"JWT"}`) + "." + part[1] + "." + part[2],
		"none": coded(`{"alg":"none","kid":"k"}`) + "." + part[1] + ".", "another schema": part[0] + "." + coded(`{"schema":"sluice.result/2"}`) + "." + part[2],
		"long": strings.Repeat("a", maxSize+1), "a line break in it": part[0] + "." + part[1][:9] + "\n" + part[1][9:] + "." + part[2], "and in its last part": part[0] + "." + part[1] + "." + part[2][:9] + "\r\n" + part[2][9:],
	} {
		if _, err := Verify(bad, []Key{s.Key}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewSigner("HS256", seed(1)); err == nil {
		t.Error("an unknown algorithm was taken")
	}
	if _, err := NewSigner(SM2SM3, make([]byte, SeedSize)); err == nil {
		t.Error("the number 0 is an SM2 key")
	}
	if _, err := NewSigner(EdDSA, seed(1)[1:]); err == nil {
		t.Error("a short seed was taken")
	}
}

func FuzzVerify(f *testing.F) {
	s, other := signer(f, EdDSA, 7), signer(f, SM2SM3, 8)
	var made []string
	for _, form := range forms() {
		made = append(made, sign(f, s, statement(EdDSA, said()), form), sign(f, other, statement(SM2SM3, said()), form))
	}
	for _, text := range made {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		der := base64.StdEncoding.EncodeToString([]byte(text)) // which stands for itself
		if _, err := Verify(text, []Key{s.Key, other.Key}); err == nil && !slices.Contains(made, strings.TrimSpace(text)) && !slices.Contains(made, der) {
			t.Errorf("a signature that nobody made: %q", text)
		}
	})
}

func BenchmarkSign(b *testing.B) {
	for _, a := range algorithms() {
		for _, form := range forms() {
			b.Run(string(a)+" "+string(form), func(b *testing.B) {
				s, x := signer(b, a, 7), statement(a, said())
				for b.Loop() {
					_, _ = s.Sign(x, form)
				}
			})
		}
	}
}

// TestKeySets: keys come back from their published form, with what is known of them.
func TestKeySets(t *testing.T) {
	now := time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)
	keys := []Key{signer(t, EdDSA, 7).Key, signer(t, SM2SM3, 8).Key}
	keys[0].Created, keys[1].Created, keys[1].Retired, keys[1].Revoked = now, now, now.Add(time.Hour), now.Add(2*time.Hour)
	text, err := MarshalKeys(keys)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseKeys(text)
	if err != nil || !reflect.DeepEqual(got, keys) {
		t.Errorf("%+v, %v from %s", got, err, text)
	}
	if got, err := ParseKeys([]byte(`{"keys":[{"kty":"RSA","alg":"RS256"}]}`)); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "[]", strings.Replace(string(text), keys[0].ID, keys[1].ID, 1), strings.Replace(string(text), `"x":"`, `"x":"A`, 1)} {
		if _, err := ParseKeys([]byte(bad)); err == nil {
			t.Errorf("%.60q was taken", bad)
		}
	}
	if _, err := MarshalKeys([]Key{{Algorithm: "HS256"}}); err == nil {
		t.Error("an unknown algorithm was written")
	}
}

// TestBodies: an answer is found in the body that a program has kept, in each dialect that has it whole.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := signer(t, EdDSA, 7)
	for name, c := range map[string]struct {
		body string
		said []Answer
	}{
		"chat":       {`"choices":[{"message":{"content":"Yes.","reasoning_content":"Think."}},{"message":{"content":null,"refusal":"No.","tool_calls":[{"function":{"name":"f","arguments":"{ \"a\": 1 }"}}]}}]`, []Answer{{Text: "Yes.", Reasoning: "Think."}, {Refusal: "No.", Calls: []Call{{"f", `{"a":1}`}}}}},
		"completion": {`"choices":[{"text":"Yes."}]`, []Answer{{Text: "Yes."}}},
		"response":   {`"output":[{"type":"reasoning","content":[{"type":"reasoning_text","text":"Think."}]},{"type":"message","content":[{"type":"output_text","text":"Yes."},{"type":"refusal","refusal":"No."}]},{"type":"function_call","name":"f","arguments":"{}"}]`, []Answer{{Text: "Yes.", Reasoning: "Think.", Refusal: "No.", Calls: []Call{{"f", "{}"}}}}},
		"message":    {`"content":[{"type":"thinking","thinking":"Think."},{"type":"text","text":"Yes."},{"type":"tool_use","name":"f","input":{"a": 1, "A": 2}}]`, []Answer{{Text: "Yes.", Reasoning: "Think.", Calls: []Call{{"f", `{"a":1,"A":2}`}}}}},
		"refusal":    {`"content":[{"type":"text","text":"No."}]`, []Answer{{Refusal: "No."}}},
		"cut off":    {`"content":[{"type":"tool_use","name":"f","input":{"_incomplete_arguments":"{\"a"}}]`, []Answer{{Calls: []Call{{"f", `{"a`}}}}},
	} {
		text := sign(t, s, statement(EdDSA, c.said), JWS)
		b, ok := ParseBody([]byte(`{"id":"x",` + c.body + `,"sluice":{"signature":"` + text + `"}}`))
		x, err := Verify(b.Signature, []Key{s.Key})
		if !ok || err != nil || !x.MatchesBody(b) {
			t.Errorf("%s: %t, %v, %+v", name, ok, err, b)
		}
	}
}

// TestUnclearBodies: nothing that two readers read in two ways passes for an answer that was signed.
func TestUnclearBodies(t *testing.T) {
	t.Parallel()
	s := signer(t, EdDSA, 7)
	sig := `"sluice":{"signature":"` + sign(t, s, statement(EdDSA, []Answer{{Text: "Yes."}}), JWS) + `"}`
	for name, body := range map[string]string{
		"names in another case": `{"choices":[{"message":{"content":"FAKE","Content":"Yes."}}],` + sig + `}`, "only in another case": `{"choices":[{"message":{"Content":"Yes."}}],` + sig + `}`,
		"two kinds": `{"choices":[{"message":{"content":"Yes."}}],"output":[{"type":"message","content":[{"type":"output_text","text":"FAKE"}]}],` + sig + `}`,
		"twice":     `{"choices":[{"message":{"content":"Yes."}}],"choices":[{"message":{"content":null}}],` + sig + `}`, "a part that nobody knows": `{"content":[{"type":"text","text":"Yes."},{"type":"html","text":"FAKE"}],` + sig + `}`,
		"an item that nobody knows": `{"output":[{"type":"message","content":[{"type":"output_text","text":"Yes."}]},{"type":"custom","content":[]}],` + sig + `}`,
		"a list of parts":           `{"choices":[{"message":{"content":[{"type":"text","text":"Yes."}]}}],` + sig + `}`, "something behind it": `{"choices":[{"message":{"content":"Yes."}}],` + sig + `} FAKE`,
		"a letter that folds to one": `{"choices":[{"message":{"content":"FAKE"},"me\u017fſage":{"content":"Yes."}}],` + sig + `}`, "the list so": `{"choiceſ":[{"message":{"content":"Yes."}}],` + sig + `}`,
		"nested without end": strings.Repeat("[", 8<<20),
		"both texts":         `{"choices":[{"text":"FAKE","message":{"content":"Yes."}}],` + sig + `}`, "none": `{` + sig + `}`, "no signature": `{"choices":[{"text":"Yes."}]}`, "no object": `[]`, "a text": `Yes.`,
	} {
		if b, ok := ParseBody([]byte(body)); ok {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
