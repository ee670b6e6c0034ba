package provenance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/internal/report"
)

const (
	tenant = "acme"
	answer = "The counter is open from nine to five on working days, and until noon on Saturdays."
)

// kit is a service over parts that answer what a test says.
type kit struct {
	*Service
	labels *label.Labeler
	signer *signature.Signer
	deps   *Deps
}

func newKit(t *testing.T, change func(d *Deps)) *kit {
	t.Helper()
	labels, err := label.New(label.Config{Producer: "示例公司"}, keyring.FromBytes(make([]byte, 32)))
	must(t, err)
	signer, err := signature.NewSigner(signature.EdDSA, make([]byte, 32))
	must(t, err)
	d := Deps{
		Issuer: "sluice.example", Labels: labels, Origin: "sluice.example/audit", Now: func() time.Time { return time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) },
		Read: func(_ string, data []byte) (Content, error) { return Content{Kind: "txt", Text: string(data)}, nil },
		Keys: func(of string) ([]signature.Key, error) {
			if of != tenant {
				return nil, nil
			}
			return []signature.Key{{ID: signer.ID, Algorithm: signer.Algorithm, Public: signer.Public}}, nil
		},
		Watermark: func(context.Context, string, string) (Watermark, error) {
			return Watermark{Result: Absent, Reason: WatermarkNone, Log10P: -0.4, Tokens: 80, Least: 40}, nil
		},
		Registry: func(context.Context, string, string) (Trace, error) {
			return Trace{Result: Absent, Reason: RegistryNone}, nil
		},
		Records: func(_ context.Context, _, request string) ([]Record, error) {
			return []Record{{ID: request + "-1", Model: "m", Version: "1", Time: time.Unix(2, 0)}, {ID: request + "-2", Time: time.Unix(3, 0)}}, nil
		},
		Prove: func(context.Context, string) (evidence.ProofFile, error) {
			return evidence.ProofFile{}, errors.New("not here")
		},
		Sign: func(text string) (string, error) { return text, nil },
	}
	if change != nil {
		change(&d)
	}
	s, err := New(d)
	must(t, err)
	return &kit{s, labels, signer, &d}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sign signs a text as the answer to a request.
func (k *kit) sign(t *testing.T, text, request string) string {
	t.Helper()
	digests := signature.NewDigester(signature.EdDSA, 1)
	digests.Text(0, text)
	out, err := k.signer.Sign(signature.Statement{
		Schema: signature.Schema, Issuer: "sluice.example", Tenant: tenant, Request: request, Digest: signature.DigestSHA256, Model: signature.Model{Name: "m", Version: "1"},
		Answers: []signature.Digests{digests.Digests(0, "stop")},
	}, signature.JWS)
	must(t, err)
	return out
}

// found is a registry that leads to requests.
func found(result Result, reason Reason, share float64, requests ...string) func(context.Context, string, string) (Trace, error) {
	return func(context.Context, string, string) (Trace, error) {
		x := Trace{Result: result, Reason: reason}
		for _, r := range requests {
			x.Matches = append(x.Matches, Match{Result: result, Request: r, Share: share, Verified: 40})
		}
		return x, nil
	}
}

// TestConclusions: what the marks say together.
func TestConclusions(t *testing.T) {
	plain := newKit(t, nil)
	own, other := plain.labels.Make("r1", tenant), plain.labels.Make("r2", tenant)
	altered := own
	altered.ProduceID = "r9"
	foreign := label.Label{Label: "1", ContentProducer: "somebody", ProduceID: "x"}
	passed := plain.labels.Propagate(foreign, "p1", tenant)
	part := found(Partial, RegistryPart, 0.9, "r1")
	quoted := found(Partial, RegistryPart, 0.3, "r1")
	common := func(result Result, reason Reason, share float64) func(context.Context, string, string) (Trace, error) {
		return func(context.Context, string, string) (Trace, error) {
			return Trace{Result: result, Reason: reason, Common: 0.4, Matches: []Match{{Result: result, Request: "r1", Share: share}}}, nil
		}
	}
	mixed := func(more bool, first Result, then ...Match) func(context.Context, string, string) (Trace, error) {
		return func(context.Context, string, string) (Trace, error) {
			return Trace{Result: first, Reason: RegistryPart, Matches: append([]Match{{Result: first, Request: "r1", Share: 0.9}}, then...), More: more}, nil
		}
	}
	for name, c := range map[string]struct {
		labels        []label.Label
		credentials   *c2pa.Report
		signature     string
		text          string
		registry      func(context.Context, string, string) (Trace, error)
		mark          Result
		want          Conclusion
		contradiction Contradiction
		requests      []string
	}{
		"nothing":                    {want: NothingFound},
		"signed":                     {signature: plain.sign(t, answer, "r1"), want: Unchanged, requests: []string{"r1"}},
		"signed, line break lost":    {signature: plain.sign(t, answer+"\n", "r1"), want: Unchanged, requests: []string{"r1"}},
		"signed, line break added":   {signature: plain.sign(t, answer, "r1"), text: answer + "\r\n", want: Unchanged, requests: []string{"r1"}},
		"signed, other line breaks":  {signature: plain.sign(t, "a\nb", "r1"), text: "a\r\nb", want: Unchanged, requests: []string{"r1"}},
		"signed, a space added":      {signature: plain.sign(t, answer, "r1"), text: answer + " ", want: OtherText},
		"registered":                 {registry: found(Confirmed, RegistryExact, 1, "r1"), want: Derived, requests: []string{"r1"}},
		"edited":                     {registry: part, want: Derived, requests: []string{"r1"}},
		"edited, with its signature": {registry: part, signature: plain.sign(t, "before", "r1"), want: OtherText, requests: []string{"r1"}},
		"edited, with its label":     {registry: part, labels: []label.Label{own}, want: Derived, requests: []string{"r1"}},
		"marked":                     {mark: Confirmed, want: Wording},
		"weakly marked":              {mark: Indicated, want: Hint},
		"weakly registered":          {registry: found(Indicated, RegistryWeak, 0.1, "r1"), want: Hint, requests: []string{"r1"}},
		"one phrase registered":      {registry: found(Indicated, RegistryWeak, 0.05, "r1"), want: Hint},
		"quoted, labelled by a copy": {registry: quoted, labels: []label.Label{altered}, want: Hint, requests: []string{"r1"}},
		"quoted, and signed before":  {registry: quoted, signature: plain.sign(t, "before", "r1"), want: OtherText, requests: []string{"r1"}},
		"quoted, and marked":         {registry: quoted, mark: Confirmed, want: Wording, requests: []string{"r1"}},
		"quoted, with its own label": {registry: quoted, labels: []label.Label{other}, want: Hint, requests: []string{"r1", "r2"}},
		"registered, and a label of a copy": {
			registry: found(Confirmed, RegistryExact, 1, "r1"), labels: []label.Label{altered}, want: Contradictory, contradiction: AlteredLabel, requests: []string{"r1"},
		},
		"equal alternatives":             {registry: mixed(false, Confirmed, Match{Result: Confirmed, Request: "r1", Share: 1}), want: Derived, requests: []string{"r1"}},
		"what others say besides":        {registry: mixed(false, Confirmed, Match{Result: Partial, Request: "r2", Share: 0.5}), want: Derived, requests: []string{"r1"}},
		"label of what others say":       {registry: mixed(false, Partial, Match{Result: Indicated, Request: "r2", Share: 0.1}), labels: []label.Label{other}, want: Derived, requests: []string{"r1", "r2"}},
		"label of what may be not named": {registry: mixed(true, Partial, Match{Result: Indicated, Request: "r3", Share: 0.1}), labels: []label.Label{other}, want: Derived, requests: []string{"r1", "r2"}},
		"label of what may be common":    {registry: common(Partial, RegistryPart, 0.6), labels: []label.Label{other}, want: Derived, requests: []string{"r1", "r2"}},
		"one of what is mostly common":   {registry: common(Confirmed, RegistryExact, 1), labels: []label.Label{other}, want: Contradictory, contradiction: BorrowedLabel, requests: []string{"r1", "r2"}},
		"issued":                         {labels: []label.Label{own}, credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &own}, want: IssuedHere, requests: []string{"r1"}},
		"issued, and found in part":      {registry: part, credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &own}, want: Derived, requests: []string{"r1"}},
		"issued, and quoting":            {registry: quoted, credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &other}, want: IssuedHere, requests: []string{"r1", "r2"}},
		"issued for somebody else":       {credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &foreign}, want: SignedHere},
		"passed on for this tenant":      {credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &passed}, want: SignedHere},
		"issued without a label":         {credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true}, want: SignedHere},
		"issued, and changed":            {labels: []label.Label{own}, credentials: &c2pa.Report{State: c2pa.Broken, Proven: true, Code: c2pa.CodeFileChanged, Label: &own}, want: OtherFile, requests: []string{"r1"}},
		"issued, changed, and found":     {registry: part, credentials: &c2pa.Report{State: c2pa.Broken, Proven: true, Code: c2pa.CodeFileChanged, Label: &own}, want: OtherFile, requests: []string{"r1"}},
		"issued, its history changed":    {labels: []label.Label{own}, credentials: &c2pa.Report{State: c2pa.Broken, Proven: true, Code: c2pa.CodeUnreferenced, Label: &own}, want: OtherFile, requests: []string{"r1"}},
		"issued for another answer":      {registry: part, credentials: &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: &other}, want: Contradictory, contradiction: BorrowedCreds, requests: []string{"r1", "r2"}},
		"changed, signed elsewhere":      {credentials: &c2pa.Report{State: c2pa.Broken, Code: c2pa.CodeFileChanged, Label: &own}, want: NothingFound},
		"credentials of nobody":          {labels: []label.Label{own}, credentials: &c2pa.Report{State: c2pa.UnknownSigner, Label: &own}, want: LabelledHere, requests: []string{"r1"}},
		"credentials unread":             {credentials: &c2pa.Report{State: c2pa.Unjudged, Code: c2pa.CodeAlgorithm}, want: NothingFound},
		"labelled":                       {labels: []label.Label{own}, want: LabelledHere, requests: []string{"r1"}},
		"labelled elsewhere":             {labels: []label.Label{foreign}, want: LabelledAway},
		"label of the same name":         {labels: []label.Label{altered}, want: LabelledAway},
		"label altered":                  {labels: []label.Label{altered}, signature: plain.sign(t, answer, "r1"), want: Contradictory, contradiction: AlteredLabel, requests: []string{"r1"}},
		"label twice, not the same":      {labels: []label.Label{own, other}, want: NothingFound},
		"label of another answer":        {labels: []label.Label{other}, registry: part, want: Contradictory, contradiction: BorrowedLabel, requests: []string{"r1", "r2"}},
		"signature of another text":      {signature: plain.sign(t, "another", "r2"), want: OtherText},
		"signature of another request":   {signature: plain.sign(t, "another", "r2"), registry: part, want: Contradictory, contradiction: BorrowedSign, requests: []string{"r1"}},
		"signature changed":              {signature: flip(plain.sign(t, answer, "r1")), want: Contradictory, contradiction: AlteredSignature},
		"label and signature differ":     {signature: plain.sign(t, answer, "r1"), labels: []label.Label{other}, want: Contradictory, contradiction: TwoRequests, requests: []string{"r1", "r2"}},
		"signature of nobody":            {signature: "a.b.c", want: NothingFound},
		"cannot be judged": {
			mark: CannotSay, registry: func(context.Context, string, string) (Trace, error) {
				return Trace{Result: CannotSay, Reason: RegistryShort}, nil
			}, want: TooLittle,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t, func(d *Deps) {
				d.Read = func(_ string, data []byte) (Content, error) {
					return Content{Kind: "txt", Text: string(data), Labels: c.labels, Bindable: true, Credentials: c.credentials}, nil
				}
				if c.registry != nil {
					d.Registry = c.registry
				}
				if c.mark != "" {
					d.Watermark = func(context.Context, string, string) (Watermark, error) {
						return Watermark{Result: c.mark, Reason: WatermarkFound, Log10P: -12}, nil
					}
				}
			})
			if c.text == "" {
				c.text = answer
			}
			v, err := k.Judge(t.Context(), Question{Tenant: tenant, Name: "a.txt", Data: []byte(c.text), Signature: c.signature})
			must(t, err)
			var requests []string
			for _, r := range v.Requests {
				requests = append(requests, r.ID)
				if len(r.Records) != 2 || r.Model != "m" || !r.Time.Equal(time.Unix(2, 0)) {
					t.Errorf("request %+v", r)
				}
			}
			if v.Conclusion != c.want || !slices.Equal(requests, c.requests) {
				t.Errorf("%s, requests %v; want %s, %v\n%+v", v.Conclusion, requests, c.want, c.requests, v.Marks)
			}
			if c.contradiction == "" && len(v.Contradictions) > 0 || c.contradiction != "" && !slices.Equal(v.Contradictions, []Contradiction{c.contradiction}) {
				t.Errorf("contradictions %v, want %v", v.Contradictions, c.contradiction)
			}
		})
	}
}

// flip changes the last byte of a signature.
func flip(jws string) string {
	cut := strings.LastIndexByte(jws, '.') + 1
	c := byte('A')
	if jws[cut] == c {
		c = 'B'
	}
	return jws[:cut] + string(c) + jws[cut+1:]
}

// TestTextsThatAreShared: a label of one of many equal answers contradicts nothing, though the registry does not name its request.
func TestTextsThatAreShared(t *testing.T) {
	k := newKit(t, func(d *Deps) {
		d.Registry = func(context.Context, string, string) (Trace, error) {
			return Trace{Result: Confirmed, Reason: RegistryExact, More: true, Matches: []Match{{Result: Confirmed, Request: "r1", Share: 1}}}, nil
		}
	})
	own := k.labels.Make("r7", tenant)
	k.Service.deps.Read = func(_ string, data []byte) (Content, error) {
		return Content{Kind: "txt", Text: string(data), Labels: []label.Label{own, own}}, nil
	}
	v, err := k.Judge(t.Context(), Question{Tenant: tenant, Name: "a.txt", Data: []byte(answer)})
	must(t, err)
	if v.Conclusion != Derived || !v.MoreRequests || len(v.Contradictions) > 0 {
		t.Errorf("%+v", v)
	}
}

// TestOtherTenantsLearnNothing: what is signed and labelled for one tenant is nobody's that another one can check.
func TestOtherTenantsLearnNothing(t *testing.T) {
	k := newKit(t, nil)
	v, err := k.Judge(t.Context(), Question{Tenant: "other", Data: []byte(answer), Signature: k.sign(t, answer, "r1")})
	must(t, err)
	if v.Marks.Signature.Result != Foreign || len(v.Requests) > 0 || v.Conclusion != LabelledAway {
		t.Errorf("%+v", v)
	}
}

// TestBodies: the body of an answer has its text and its signature.
func TestBodies(t *testing.T) {
	k := newKit(t, nil)
	body, err := json.Marshal(map[string]any{
		"choices": []any{map[string]any{"message": map[string]any{"content": answer}}}, "sluice": map[string]any{"signature": k.sign(t, answer, "r1")},
	})
	must(t, err)
	v, err := k.Judge(t.Context(), Question{Tenant: tenant, Data: body})
	must(t, err)
	if v.Conclusion != Unchanged || v.Subject.Characters != len(answer) {
		t.Errorf("%+v", v)
	}
	v, err = k.Judge(t.Context(), Question{Tenant: tenant, Data: []byte(strings.Replace(string(body), "nine", "ten", 1))})
	must(t, err)
	if v.Conclusion != OtherText || len(v.Requests) > 0 {
		t.Errorf("%+v", v)
	}
	// A signature that came beside a body covers its calls, too.
	forged := strings.Replace(string(body), `"message":{`, `"message":{"tool_calls":[{"function":{"name":"pay","arguments":"{}"}}],`, 1)
	v, err = k.Judge(t.Context(), Question{Tenant: tenant, Data: []byte(forged), Signature: k.sign(t, answer, "r1")})
	must(t, err)
	if forged == string(body) || v.Conclusion != OtherText {
		t.Errorf("%+v", v)
	}
}

// TestWhatAFileHasBeside: a signature of the text that was read from a file does not speak for the rest of the file, and none is held against a file without text.
func TestWhatAFileHasBeside(t *testing.T) {
	text := answer
	k := newKit(t, func(d *Deps) {
		d.Read = func(string, []byte) (Content, error) { return Content{Kind: "docx", Text: text}, nil }
	})
	v, err := k.Judge(t.Context(), Question{Tenant: tenant, Name: "a.docx", Data: []byte("PK"), Signature: k.sign(t, answer, "r1")})
	must(t, err)
	if v.Conclusion != Derived || v.Marks.Signature.Reason != SignatureRead || len(v.Requests) != 1 {
		t.Errorf("%+v", v)
	}
	text = ""
	v, err = k.Judge(t.Context(), Question{Tenant: tenant, Name: "a.pdf", Data: []byte("%PDF"), Signature: k.sign(t, answer, "r1")})
	must(t, err)
	if v.Conclusion != TooLittle || v.Marks.Signature.Reason != SignatureBare {
		t.Errorf("%+v", v)
	}
}

// TestProbabilityIsRoundedUp: nobody is told that chance is less likely than it is.
func TestProbabilityIsRoundedUp(t *testing.T) {
	for log10, want := range map[float64]string{-9.6: "10^-9", -40.6: "10^-40", -400.2: "10^-400", 0: "1", -0.4: "0.399", -2: "0.01"} {
		if got := probability(log10); got != want {
			t.Errorf("%v: %s, want %s", log10, got, want)
		}
	}
}

func TestWhatIsNoQuestion(t *testing.T) {
	k := newKit(t, nil)
	for name, q := range map[string]Question{
		"empty": {}, "space": {Data: []byte(" \n")}, "no UTF-8": {Data: []byte{0xff, 'a'}}, "large": {Data: []byte(strings.Repeat("a", MaxText+1))},
		"large file": {Name: "a.bin", Data: make([]byte, MaxFile+1)},
	} {
		var f *fault.Error
		if _, err := k.Judge(t.Context(), q); !errors.As(err, &f) || f.Code() != fault.CodeInvalidValue {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHalfAVerdictIsNone: a part that cannot answer ends the verdict.
func TestHalfAVerdictIsNone(t *testing.T) {
	broken := errors.New("down")
	for name, breakIt := range map[string]func(d *Deps){
		"keys": func(d *Deps) { d.Keys = func(string) ([]signature.Key, error) { return nil, broken } },
		"watermark": func(d *Deps) {
			d.Watermark = func(context.Context, string, string) (Watermark, error) { return Watermark{}, broken }
		},
		"registry": func(d *Deps) {
			d.Registry = func(context.Context, string, string) (Trace, error) { return Trace{}, broken }
		},
		"read": func(d *Deps) { d.Read = func(string, []byte) (Content, error) { return Content{}, broken } },
		"records": func(d *Deps) {
			d.Registry = found(Confirmed, RegistryExact, 1, "r1")
			d.Records = func(context.Context, string, string) ([]Record, error) { return nil, broken }
		},
	} {
		k := newKit(t, breakIt)
		if v, err := k.Judge(t.Context(), Question{Tenant: tenant, Name: "a.txt", Data: []byte(answer), Signature: "a.b.c"}); !errors.Is(err, broken) || v.Conclusion != "" {
			t.Errorf("%s: %v, %+v", name, err, v)
		}
	}
}

// TestEveryIDHasATextInBothLanguages: whatever a verdict says is in the catalogues, and its document can be written.
func TestEveryIDHasATextInBothLanguages(t *testing.T) {
	results := []Result{Confirmed, Partial, Indicated, Refuted, Foreign, Absent, CannotSay}
	reasons := []Reason{
		LabelOwn, LabelUnproven, LabelForeign, LabelBroken, LabelNone, LabelBareText, CredentialsOwn, CredentialsPassed, CredentialsOther, CredentialsUnknown, CredentialsChanged, CredentialsBroken, CredentialsUnjudged, CredentialsNone, CredentialsNoPlace, SignatureOwn, SignatureRead, SignatureBare, SignatureText, SignatureCut, SignatureKey, SignatureGone, SignatureBad,
		SignatureNone, WatermarkFound, WatermarkWeak, WatermarkNone, WatermarkShort, WatermarkNoKey, WatermarkNoText, WatermarkLong, WatermarkKeys, WatermarkOff, RegistryExact, RegistryPart,
		RegistryWeak, RegistryNone, RegistryEmpty, RegistryShort, RegistryLong, RegistryNoText, RegistryOff,
	}
	share, p := 0.5, -12.0
	v := Verdict{Issuer: "i", Time: time.Unix(1_800_000_000, 0), Subject: Subject{Name: "x.docx", SHA256: "00"}}
	for _, c := range []Conclusion{Unchanged, Derived, Wording, IssuedHere, SignedHere, OtherText, OtherFile, Hint, LabelledHere, LabelledAway, NothingFound, TooLittle, Contradictory} {
		for i, r := range reasons {
			v.Conclusion, v.Contradictions = c, []Contradiction{AlteredLabel, AlteredSignature, BorrowedSign, BorrowedLabel, TwoRequests}
			m := Mark{Result: results[i%len(results)], Reason: r, Confidence: []Confidence{ByPublicKey, BySecretKey, ByStatistics, ByComparison, Declared, None}[i%6], Log10P: &p, Passage: &Passage{1, 2}, Share: &share, Verified: 3, Letters: 6, Since: &v.Time, Least: 4}
			v.Marks = Marks{m, m, m, m, m}
			v.Requests = []Request{{ID: "r", By: []string{"label", "credentials", "signature", "registry"}, Records: []string{"a"}}, {ID: "s"}}
			for _, l := range []message.Lang{message.English, message.Chinese} {
				var text strings.Builder
				must(t, report.Write(&text, report.Markdown, v.Document(l, "e.zip")))
				if strings.Contains(text.String(), "provenance.") || strings.Contains(text.String(), "%!") {
					t.Fatalf("a text is missing:\n%s", text.String())
				}
			}
		}
	}
}

// TestSubjectNames: a name that a caller chose becomes an ending at most.
func TestSubjectNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "subject.txt", "a.DOCX": "subject.docx", "../../x.sh/": "subject.bin", "a.": "subject.bin", "a.b c": "subject.bin", "a": "subject.bin", "报告.pdf": "subject.pdf",
	} {
		if got := (Verdict{Subject: Subject{Name: name}}).subjectName(); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	sum := sha256.Sum256([]byte(answer))
	k := newKit(t, nil)
	v, err := k.Judge(t.Context(), Question{Tenant: tenant, Data: []byte(answer)})
	must(t, err)
	if v.Subject.SHA256 != hex.EncodeToString(sum[:]) {
		t.Error(v.Subject.SHA256)
	}
}

// TestLimitsDeny: in Chinese each limit says by itself what is not proved. Without those words it would say the opposite, under a heading that a reader may miss.
func TestLimitsDeny(t *testing.T) {
	t.Parallel()
	catalogue, err := os.ReadFile("../../internal/message/zh.txt")
	if err != nil {
		t.Fatal(err)
	}
	console, err := os.ReadFile("../../web/src/locales/zh.json")
	if err != nil {
		t.Fatal(err)
	}
	const denial = "不能证明"
	seen := 0
	for line := range strings.Lines(string(catalogue)) {
		if id, text, _ := strings.Cut(line, ": "); strings.HasPrefix(id, "provenance.limits_") {
			if seen++; !strings.HasPrefix(text, denial) {
				t.Errorf("%s: %s", id, text)
			}
			if !strings.Contains(string(console), strings.TrimSpace(text)) {
				t.Errorf("%s: the console says something else", id)
			}
		}
	}
	if seen < 7 {
		t.Errorf("%d limits", seen)
	}
}

// TestWhoseCredentials: what this tenant passed on says so, and what another had signed does not say that there is another; a name is told where the signature holds.
func TestWhoseCredentials(t *testing.T) {
	t.Parallel()
	k := newKit(t, nil)
	foreign := label.Label{Label: "1", ContentProducer: "somebody", ProduceID: "x"}
	mine, other := k.labels.Propagate(foreign, "p1", "acme"), k.labels.Propagate(foreign, "p2", "other")
	for want, l := range map[Reason]*label.Label{CredentialsPassed: &mine, CredentialsOther: &other} {
		r := &c2pa.Report{State: c2pa.Trusted, Proven: true, Label: l, Signer: "Sluice"}
		m := k.credentials(subject{Question: Question{Tenant: "acme"}, content: Content{Bindable: true, Credentials: r}})
		if m.Reason != want || m.Result != Confirmed || m.Signer != "Sluice" || m.Producer != "" || len(m.Requests) > 0 {
			t.Errorf("%s: %+v", want, m)
		}
	}
}
