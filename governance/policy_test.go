package governance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
)

func TestDefaultPolicy(t *testing.T) {
	p, err := parsePolicy(defaultPolicy)
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range classify.Types() {
		c := typ.Class
		if !strings.Contains(string(defaultPolicy), string(c)) {
			t.Errorf("the comments of the default policy do not name %s", c)
		}
		if typ.Optional {
			for _, d := range directions() {
				if a := p.action("chat", c, d); a != mask.ActionAllow {
					t.Errorf("%s is looked for although no policy names it: %s", c, a)
				}
			}
			continue
		}
		wantAnswer := mask.ActionObserve
		if c == classify.Secret {
			wantAnswer = mask.ActionRedact
		}
		if p.action("chat", c, DirectionRequest) != mask.ActionToken || p.action("chat", c, DirectionPassage) != mask.ActionToken || p.action("chat", c, DirectionAnswer) != wantAnswer {
			t.Errorf("%s: %+v", c, p.Entities[string(c)])
		}
	}
	if p.action("", classify.Email, "sideways") != mask.ActionBlock {
		t.Error("an unknown direction must be blocked")
	}
}

// TestCanonicalForm pins the digest: stored digests and audit records depend on it.
func TestCanonicalForm(t *testing.T) {
	p, err := parsePolicy([]byte("name: 测试\nschema: 2\nentities:\n  email: {answer: block}\n  default: {request: token, passage: token, answer: observe}\nmodels: [b, a]\ncollections: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, digest := p.canonical()
	const want = `{"schema":2,"name":"测试","models":["b","a"],"purposes":[],"pseudonyms":"session","label":"metadata","collections":[],` +
		`"default":{"request":"token","passage":"token","answer":"observe"},"entities":{"email":{"request":"token","passage":"token","answer":"block"}}}`
	if text != want {
		t.Errorf("canonical form\n%s\nwant\n%s", text, want)
	}
	back, err := readCanonical(text, digest)
	if err != nil {
		t.Fatal(err)
	}
	if again, d := back.canonical(); again != text || d != digest {
		t.Error("the canonical form does not read back")
	}
	p.Record = RecordMasked
	if kept, other := p.canonical(); !strings.Contains(kept, `"collections":[],"record":"masked","default"`) || other == digest {
		t.Errorf("canonical form %s", kept)
	}
	if _, err := readCanonical(text+" ", digest); err == nil {
		t.Error("a changed text must not match its digest")
	}
}

// TestFirstSchemaIsReadOn: documents that were published before actions had their names are in force as they were, under their digest.
func TestFirstSchemaIsReadOn(t *testing.T) {
	const text = `{"schema":1,"name":"测试","models":["b","a"],"purposes":[],"pseudonyms":"session","label":"metadata","collections":[],` +
		`"default":{"request":"mask","passage":"mask","answer":"pass"},"entities":{"email":{"request":"pass","passage":"mask","answer":"block"},"api_secret":{"request":"mask","passage":"block","answer":"mask"}}}`
	p, err := readCanonical(text, "0665b306a86f99b2f246fbe7d01487b44fe114a728c8cbde9a513d2dbf6daef2")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class classify.Class
		want  [3]mask.Action
	}{
		{classify.Mobile, [3]mask.Action{mask.ActionToken, mask.ActionToken, mask.ActionObserve}},
		{classify.Email, [3]mask.Action{mask.ActionObserve, mask.ActionToken, mask.ActionBlock}},
		{classify.Secret, [3]mask.Action{mask.ActionToken, mask.ActionBlock, mask.ActionRedact}},
		{classify.Company, [3]mask.Action{mask.ActionAllow, mask.ActionAllow, mask.ActionAllow}},
	} {
		for n, d := range directions() {
			if got := p.action("chat", c.class, d); got != c.want[n] {
				t.Errorf("%s %s: %s, want %s", c.class, d, got, c.want[n])
			}
		}
	}
}

// richPolicy adds what schema 2 has and the default document has not.
const richPolicy = `
custom: [{class: ward, tag: 病区, words: [三病区], actions: {answer: hash}}]
channels:
  embeddings: {cn_mobile: {request: partial}, company: {request: redact}, ward: {request: observe}}
reveal:
  keep: 90m
  rules:
    - {roles: [compliance], purposes: [complaint], classes: ["*"], grade: 4, show: clear}
    - {roles: [developer, compliance], classes: [cn_mobile, cn_resident_id], grade: 3, show: partial}
`

func TestChannelsGradesAndReveal(t *testing.T) {
	p, err := parsePolicy([]byte(string(defaultPolicy) + richPolicy))
	if err != nil {
		t.Fatal(err)
	}
	text, digest := p.canonical()
	if p, err = readCanonical(text, digest); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		channel string
		class   classify.Class
		d       Direction
		want    mask.Action
	}{
		{"embeddings", classify.Mobile, DirectionRequest, mask.ActionPartial},
		{"embeddings", classify.Mobile, DirectionPassage, mask.ActionToken},
		{"chat", classify.Mobile, DirectionRequest, mask.ActionToken},
		{"", classify.Mobile, DirectionRequest, mask.ActionToken},
		{"embeddings", classify.Company, DirectionRequest, mask.ActionRedact},
		{"embeddings", classify.Company, DirectionAnswer, mask.ActionAllow},
		{"embeddings", "ward", DirectionRequest, mask.ActionObserve},
		{"embeddings", "ward", DirectionAnswer, mask.ActionHash},
		{"rerank", "ward", DirectionRequest, mask.ActionToken},
	} {
		if got := p.action(c.channel, c.class, c.d); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for class, want := range map[classify.Class]int{classify.ResidentID: 4, classify.Email: 2, classify.Mobile: 3, "ward": 3} {
		if got := p.grade(class); got != want {
			t.Errorf("%s: grade %d", class, got)
		}
	}
	if (&policy{}).grade(classify.Email) != maxGrade {
		t.Error("what nobody graded is the most sensitive")
	}
	if p.keep() != 90*time.Minute || p.Reveal.Second != defaultSecond || (&policy{}).keep() != 0 {
		t.Errorf("%+v", p.Reveal)
	}
	for _, c := range []struct {
		roles   string
		purpose string
		class   classify.Class
		want    reveal.Visibility
	}{
		{"compliance", "complaint", classify.ResidentID, reveal.VisibleClear},
		{"compliance", "complaint", "ward", reveal.VisibleClear},
		{"compliance", "curiosity", classify.ResidentID, reveal.VisibleToken}, // grade 4 is above the other rule's
		{"compliance", "curiosity", classify.Mobile, reveal.VisiblePartial},
		{"compliance", "", classify.Mobile, reveal.VisibleToken},
		{"developer", "complaint", classify.Mobile, reveal.VisiblePartial},
		{"developer", "complaint", classify.Email, reveal.VisibleToken},
		{"auditor", "complaint", classify.Mobile, reveal.VisibleToken},
		{"auditor developer", "x", classify.Mobile, reveal.VisiblePartial},
		{"", "complaint", classify.Mobile, reveal.VisibleToken},
	} {
		if got := p.visibility(strings.Fields(c.roles), c.purpose, c.class); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	p.Reveal.Rules = append(p.Reveal.Rules, revealRule{Roles: []string{"compliance"}, Purposes: []string{"audit", "complaint"}})
	for roles, want := range map[string]string{"compliance auditor": "[audit complaint]", "developer": "[]", "": "[]"} {
		if got := fmt.Sprint(p.revealPurposes(strings.Fields(roles))); got != want {
			t.Errorf("purposes for %q: %s", roles, got)
		}
	}
	if (&policy{}).revealPurposes([]string{"compliance"}) != nil {
		t.Error("purposes without rules")
	}
	if (&policy{}).visibility([]string{"compliance"}, "complaint", classify.Mobile) != reveal.VisibleToken {
		t.Error("without rules nobody sees anything")
	}
}

func TestInvalidPoliciesNameThePath(t *testing.T) {
	good := string(defaultPolicy)
	edit := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("the default policy has no %q", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for name, c := range map[string]struct{ doc, path string }{
		"empty":           {"", "document"},
		"no mapping":      {"- a", "document"},
		"syntax":          {"a: [", "document"},
		"two documents":   {good + "\n---\n" + good, "document"},
		"utf-8":           {good + "#\xff", "document"},
		"too large":       {good + strings.Repeat("#", maxPolicySize), "document"},
		"schema":          {edit("schema: 2", "schema: 3"), "schema"},
		"purpose":         {edit("purposes: []", "purposes: [support, 客服]"), "purposes[1]"},
		"spaced purpose":  {edit("purposes: []", "purposes: ['customer support']"), "purposes[0]"},
		"old schema":      {edit("schema: 2", "schema: 1"), "schema"},
		"channel":         {good + "channels: {fax: {email: {request: redact}}}\n", "channels"},
		"channel default": {good + "channels: {chat: {default: {request: redact}}}\n", "channels.chat"},
		"channel action":  {good + "channels: {chat: {email: {request: mask}}}\n", "channels.chat.email.request"},
		"grade":           {edit("email: 2", "email: 6"), "grades.email"},
		"grade as text":   {edit("default: 3", "default: '3'"), "grades.default"},
		"graded nothing":  {edit("email: 2", "passport: 2"), "grades"},
		"reveal no rules": {good + "reveal: {keep: 24h}\n", "reveal.rules"},
		"reveal empty":    {good + "reveal: {rules: []}\n", "reveal.rules"},
		"reveal keep":     {good + "reveal: {keep: forever, rules: [{roles: [compliance], classes: ['*'], show: clear}]}\n", "reveal.keep"},
		"reveal long":     {good + "reveal: {keep: 721h, rules: [{roles: [compliance], classes: ['*'], show: clear}]}\n", "reveal.keep"},
		"reveal role":     {good + "reveal: {rules: [{roles: [boss], classes: ['*'], show: clear}]}\n", "reveal.rules[0].roles[0]"},
		"reveal class":    {good + "reveal: {rules: [{roles: [compliance], classes: [email, passport], show: clear}]}\n", "reveal.rules[0].classes[1]"},
		"reveal show":     {good + "reveal: {rules: [{roles: [compliance], classes: ['*'], show: token}]}\n", "reveal.rules[0].show"},
		"reveal second":   {good + "reveal: {second: 0, rules: [{roles: [compliance], classes: ['*'], show: clear}]}\n", "reveal.second"},
		"missing name":    {edit("name: Default", ""), "name"},
		"unknown key":     {edit("name: Default", "name: Default\nmodel: [x]"), "document"},
		"twice":           {edit("name: Default", "name: Default\nname: Other"), "name"},
		"models text":     {edit(`models: ["*"]`, "models: all"), "models"},
		"models number":   {edit(`models: ["*"]`, "models: [a, 7]"), "models[1]"},
		"pseudonyms":      {edit("pseudonyms: session", "pseudonyms: forever"), "pseudonyms"},
		"label":           {edit("label: metadata", "label: none"), "label"},
		"visible label":   {edit("visible_label: application", "visible_label: nobody"), "visible_label"},
		"unknown class":   {edit("api_secret: {answer: redact}", "passport: {answer: redact}"), "entities"},
		"unknown action":  {edit("api_secret: {answer: redact}", "api_secret: {answer: hide}"), "entities.api_secret.answer"},
		"unknown way":     {edit("api_secret: {answer: redact}", "api_secret: {reply: redact}"), "entities.api_secret"},
		"no default":      {edit("default: {request: token, passage: token, answer: observe}", ""), "entities.default"},
		"partial default": {edit("passage: token, ", ""), "entities.default.passage"},
		"class as text":   {edit("api_secret: {answer: redact}", "api_secret: redact"), "entities.api_secret"},
		"alias":           {edit("api_secret: {answer: redact}", "email: &x {answer: redact}\n  api_secret: *x"), "entities.email"},
		"merge":           {edit("api_secret: {answer: redact}", "api_secret: {<<: {answer: redact}}"), "entities.api_secret"},
	} {
		_, err := parsePolicy([]byte(c.doc))
		if !fault.Is(err, fault.CodeInvalidPolicy) || fault.Public(err).Param() != c.path {
			t.Errorf("%s: %v at %q, want path %q", name, err, fault.Public(err).Param(), c.path)
		}
		if m := fault.Public(err).Message(fault.Chinese); regexp.MustCompile(`[a-z]{2,} [a-z]{2,}`).MatchString(m) {
			t.Errorf("in Chinese: %s", m)
		}
	}
}

// TestVisibleLabelOfPolicies: who puts the visible label in is what the policy says, whoever older policies without a word leave it to; a key changes the mode, not the rule.
func TestVisibleLabelOfPolicies(t *testing.T) {
	for text, demands := range map[string]bool{"": false, "visible_label: application": false, "visible_label: agreement": true} {
		p, err := parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\nvisible_label: application\n", "\n"+text+"\n", 1)))
		if err != nil {
			t.Fatal(err)
		}
		canonical, digest := p.canonical()
		back, err := readCanonical(canonical, digest)
		if err != nil || strings.Contains(canonical, "visible_label") != (text != "") {
			t.Errorf("%s: %s, %v", text, canonical, err)
			continue
		}
		for _, p := range []*policy{p, back} {
			if a := (&Admission{active: activePolicy{policy: p}}); a.DemandsAgreement() != demands || a.LabelMode(identity.LabelMetadata) != identity.LabelMetadata {
				t.Errorf("%s: an agreement is demanded: %t", text, a.DemandsAgreement())
			}
		}
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add(defaultPolicy)
	f.Add([]byte(string(defaultPolicy) + richPolicy))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? {a: b}\n: c"))
	f.Add([]byte("schema: !!int 1\nname: \"\\x00\"\n"))
	f.Fuzz(func(t *testing.T, source []byte) {
		p, err := parsePolicy(source)
		if err != nil {
			if !fault.Is(err, fault.CodeInvalidPolicy) {
				t.Fatalf("%v", err)
			}
			return
		}
		text, digest := p.canonical()
		back, err := readCanonical(text, digest)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range classify.Classes() {
			for _, d := range directions() {
				switch got := back.action("chat", c, d); {
				case slices.Contains(mask.Actions(), got):
					if got != p.action("chat", c, d) {
						t.Fatal("the stored form decides otherwise")
					}
				default:
					t.Fatalf("action %q", got)
				}
			}
		}
	})
}

// TestInvalidPoliciesNameThePlace: whoever writes a policy finds the line and the column, in the language asked for.
func TestInvalidPoliciesNameThePlace(t *testing.T) {
	_, err := parsePolicy([]byte("schema: 2\nname: x\nmodels:\n  - a\n  -   7\n"))
	m := fault.Public(err)
	if en, zh := m.Message(fault.English), m.Message(fault.Chinese); !strings.Contains(en, "(line 5, column 7)") || !strings.Contains(zh, "（第 5 行第 7 列）") {
		t.Errorf("%q, %q", en, zh)
	}
}
