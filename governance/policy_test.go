package governance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
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
		if typ.Quiet {
			for _, d := range []Direction{DirectionRequest, DirectionPassage, DirectionAnswer} {
				if a := p.action(c, d); a != mask.ActionAllow {
					t.Errorf("%s is looked for although no policy names it: %s", c, a)
				}
			}
			continue
		}
		wantAnswer := mask.ActionPass
		if c == classify.Secret {
			wantAnswer = mask.ActionMask
		}
		if p.action(c, DirectionRequest) != mask.ActionMask || p.action(c, DirectionPassage) != mask.ActionMask || p.action(c, DirectionAnswer) != wantAnswer {
			t.Errorf("%s: %+v", c, p.Entities[string(c)])
		}
	}
	if p.action(classify.Email, "sideways") != mask.ActionBlock {
		t.Error("an unknown direction must be blocked")
	}
}

// TestCanonicalForm pins the digest: stored digests and audit records depend on it.
func TestCanonicalForm(t *testing.T) {
	p, err := parsePolicy([]byte("name: 测试\nschema: 1\nentities:\n  email: {answer: block}\n  default: {request: mask, passage: mask, answer: pass}\nmodels: [b, a]\ncollections: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	text, digest := p.canonical()
	const want = `{"schema":1,"name":"测试","models":["b","a"],"purposes":[],"pseudonyms":"session","label":"metadata","collections":[],` +
		`"default":{"request":"mask","passage":"mask","answer":"pass"},"entities":{"email":{"request":"mask","passage":"mask","answer":"block"}}}`
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
		"schema":          {edit("schema: 1", "schema: 2"), "schema"},
		"missing name":    {edit("name: Default", ""), "name"},
		"unknown key":     {edit("name: Default", "name: Default\nmodel: [x]"), "document"},
		"twice":           {edit("name: Default", "name: Default\nname: Other"), "name"},
		"models text":     {edit(`models: ["*"]`, "models: all"), "models"},
		"models number":   {edit(`models: ["*"]`, "models: [a, 7]"), "models[1]"},
		"pseudonyms":      {edit("pseudonyms: session", "pseudonyms: forever"), "pseudonyms"},
		"label":           {edit("label: metadata", "label: none"), "label"},
		"unknown class":   {edit("api_secret: {answer: mask}", "passport: {answer: mask}"), "entities"},
		"unknown action":  {edit("api_secret: {answer: mask}", "api_secret: {answer: hide}"), "entities.api_secret.answer"},
		"unknown way":     {edit("api_secret: {answer: mask}", "api_secret: {reply: mask}"), "entities.api_secret"},
		"no default":      {edit("default: {request: mask, passage: mask, answer: pass}", ""), "entities.default"},
		"partial default": {edit("passage: mask, ", ""), "entities.default.passage"},
		"class as text":   {edit("api_secret: {answer: mask}", "api_secret: mask"), "entities.api_secret"},
		"alias":           {edit("api_secret: {answer: mask}", "email: &x {answer: mask}\n  api_secret: *x"), "entities.email"},
		"merge":           {edit("api_secret: {answer: mask}", "api_secret: {<<: {answer: mask}}"), "entities.api_secret"},
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

func FuzzParsePolicy(f *testing.F) {
	f.Add(defaultPolicy)
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
			for _, d := range []Direction{DirectionRequest, DirectionPassage, DirectionAnswer} {
				switch got := back.action(c, d); got {
				case mask.ActionMask, mask.ActionBlock, mask.ActionPass, mask.ActionAllow:
					if got != p.action(c, d) {
						t.Fatal("the stored form decides otherwise")
					}
				default:
					t.Fatalf("action %q", got)
				}
			}
		}
	})
}
