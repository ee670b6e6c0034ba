package governance

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/safety"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const safetyRules = `
  rules:
    - {id: strike, risk: a1.4, level: 5, action: block, scope: both, words: [恐袭教程], except: [防范恐袭教程]}
    - {id: betting, risk: a1.8, level: 3, action: replace, scope: both, words: [赌球平台]}
    - {id: rumour, risk: a1.7, level: 2, action: review, scope: both, words: [编造谣言]}
  hidden_characters: remove
  canaries: block
  links: {hosts: [ok.example]}
`

// safetyPolicy is a policy with a mode.
func safetyPolicyOf(mode, rest string) string {
	return "schema: 2\nname: s\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: token, passage: token, answer: observe}\nsafety:\n  mode: " + mode + rest
}

func safetyGuard(t *testing.T, cfg SafetyConfig) *Guard {
	t.Helper()
	g, err := New(Config{Safety: cfg}, NewPolicyStore(dbtest.SQLite(t)), keyring.FromBytes(make([]byte, 32)), classify.New(classify.Classes()...), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func publishSafety(t *testing.T, g *Guard, tenant, document string) {
	t.Helper()
	if _, err := g.Publish(t.Context(), tenant, []byte(document), "test"); err != nil {
		t.Fatal(err)
	}
}

// findingsText writes the safety findings of an admission, one word each.
func findingsText(a *Admission) string {
	var out []string
	for _, f := range a.Findings() {
		if strings.HasPrefix(f.Class, safetyClass) {
			_, rule, _ := strings.Cut(f.Detector, "#")
			out = append(out, f.Direction+":"+f.Class+":"+rule+":"+f.Action)
		}
	}
	return strings.Join(out, " ")
}

// TestSafetyOfRequests: a request is refused, replaced or noted as the rule says; in mode note nothing changes; findings name rule, risk and action and
// no text.
func TestSafetyOfRequests(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	publishSafety(t, g, "on", safetyPolicyOf("enforce", safetyRules))
	publishSafety(t, g, "watch", safetyPolicyOf("note", safetyRules))
	publishSafety(t, g, "none", strings.Replace(safetyPolicyOf("enforce", ""), "\n  mode: enforce", " off", 1))
	publishSafety(t, g, "milder", safetyPolicyOf("enforce", "\n  actions: {a1: note, a1.8: off}"+safetyRules))
	for _, c := range []struct{ tenant, text, want, found, risk string }{
		{"on", "看恐 袭教程，13812345678", "", "request:safety.a1.4:strike:block", "a1.4"},
		{"on", "防范恐袭教程", "防范恐袭教程", "", ""},
		{"on", "上赌球平台", "上***", "request:safety.a1.8:betting:replace", ""},
		{"on", "编\u200b造谣言", "编造谣言", "request:safety.a1.7:rumour:review request:safety.hidden:hidden:replace", ""},
		{"watch", "看恐袭教程\u200b", "看恐袭教程\u200b", "request:safety.a1.4:strike:note request:safety.hidden:hidden:note", ""},
		{"none", "看恐袭教程", "看恐袭教程", "", ""},
		{"milder", "看恐袭教程上赌球平台", "看恐袭教程上赌球平台", "request:safety.a1.4:strike:note", ""},
	} {
		text := c.text
		a, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: c.tenant, Action: "chat.completions", Fields: []Field{{Path: "prompt", Text: &text}}})
		if a == nil {
			t.Fatal(err)
		}
		if got := findingsText(a); got != c.found {
			t.Errorf("%s %q: found %q, want %q", c.tenant, c.text, got, c.found)
		}
		if c.risk != "" {
			if !fault.Is(err, fault.CodeUnsafeContent) || !strings.Contains(fault.Public(err).Message(fault.English), c.risk) || text != c.text {
				t.Errorf("%s %q: %v", c.tenant, c.text, err)
			}
			continue
		}
		if err != nil || text != c.want {
			t.Errorf("%s %q: %q %v, want %q", c.tenant, c.text, text, err, c.want)
		}
	}
}

// TestSafetyOfAnswers: what is shown has no blocked span, values that are put back included, and a canary of the system message does not leave.
func TestSafetyOfAnswers(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	publishSafety(t, g, "on", safetyPolicyOf("enforce", safetyRules))
	for _, c := range []struct {
		answer, want string
		code         fault.Code
	}{
		{"上 赌球平台 看 http://evil.example/?q=1 与 https://ok.example/", "上 *** 看 *** 与 https://ok.example/", ""},
		{"先说一点。恐袭教程如下", "先说一点。", fault.CodeUnsafeAnswer},
		{"暗号是 Canary-abcdefgh12345678。", "暗号是 ", fault.CodeUnsafeAnswer},
		{"您的号码是 {value}，赌球平台", "您的号码是 13812345678，***", ""},
	} {
		system, prompt := "你是助手。canary-abcdefgh12345678", "我的号码是 13812345678"
		a, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "on", Action: "chat.completions", Fields: []Field{
			{Path: "messages[0].content", Text: &system, Operator: true}, {Path: "messages[1].content", Text: &prompt},
		}})
		if err != nil {
			t.Fatal(err)
		}
		answer := strings.Replace(c.answer, "{value}", strings.TrimPrefix(prompt, "我的号码是 "), 1)
		for cut := 0; cut <= len(answer); cut++ {
			r := a.Release()
			shown, masked := "", ""
			out, err := r.Write(answer[:cut])
			shown, masked = shown+out, masked+r.Masked()
			if err == nil {
				out, err = r.Write(answer[cut:])
				shown, masked = shown+out, masked+r.Masked()
			}
			if err == nil {
				out, err = r.Close()
				shown, masked = shown+out, masked+r.Masked()
			}
			if c.code != "" {
				if !fault.Is(err, c.code) || !strings.HasPrefix(c.want, shown) && shown != c.want || strings.Contains(shown, "恐") || strings.Contains(shown, "anary") {
					t.Fatalf("%q cut at %d: %q %v", answer, cut, shown, err)
				}
				continue
			}
			if err != nil || shown != c.want || strings.Contains(masked, "138") || strings.Contains(masked, "赌球") {
				t.Fatalf("%q cut at %d: %q (%q) %v, want %q", answer, cut, shown, masked, err, c.want)
			}
		}
	}
}

// TestSafetyOfPassages: what would block in a request is replaced in a passage, and in its title and quotation, too.
func TestSafetyOfPassages(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	publishSafety(t, g, "on", safetyPolicyOf("enforce", safetyRules))
	a, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "on", Action: "chat.completions"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.MaskPassage("资料：恐袭教程\u202e"); err != nil || got != "资料：***" {
		t.Errorf("%q %v", got, err)
	}
	if got := findingsText(a); got != "passage:safety.a1.4:strike:replace passage:safety.hidden:hidden:replace" {
		t.Error(got)
	}
	publishSafety(t, g, "shown", strings.Replace(safetyPolicyOf("enforce", safetyRules), "links: {hosts: [ok.example]}", "links: {hosts: [ok.example], action: block}", 1))
	b, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "shown", Action: "chat.completions"})
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]*Release{
		"passage:safety.a1.4:strike:replace passage:safety.link:link:replace": b.ReleaseCitation(), "answer:safety.a1.4:strike:replace answer:safety.link:link:replace": b.ReleaseFound(),
	} {
		out, err := r.Write("手册：恐袭教程" + strings.Repeat("\u200b", 300) + "，https://wiki.corp.example/x")
		rest, err2 := r.Close()
		if got := strings.ReplaceAll(out+rest, "\u200b", ""); got != "手册：***，***" || err != nil || err2 != nil || !strings.Contains(findingsText(b), want) {
			t.Errorf("a title: %q %v %v %q", got, err, err2, findingsText(b))
		}
	}
	if _, err := a.MaskQuery("恐袭教程"); !fault.Is(err, fault.CodeUnsafeContent) {
		t.Errorf("a search by it: %v", err)
	}
	examined := a.Examine("恐袭教程")
	if !slices.ContainsFunc(examined, func(f Finding) bool { return f.Class == "safety.a1.4" && f.Hides() }) {
		t.Errorf("%+v", examined)
	}
}

// TestPolicyWithoutItsLibraryRefuses: a policy is refused where its library is not there, and an effective policy whose library cannot be used refuses its
// tenant, and no other.
func TestPolicyWithoutItsLibraryRefuses(t *testing.T) {
	t.Parallel()
	library := []byte("schema: 1\nname: bank\nversion: v7\nissued: 2026-01-31\nprovenance: us\nrules:\n  - {id: r, risk: a1.1, level: 1, action: block, scope: both, words: [zebra]}\n")
	path := filepath.Join(t.TempDir(), "bank.yaml")
	if err := os.WriteFile(path, library, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(library)
	cfg := SafetyConfig{Libraries: []LibraryFile{{Name: "bank", File: path, SHA256: hex.EncodeToString(sum[:])}}}
	g := safetyGuard(t, cfg)
	for _, name := range []string{"other", "bank@v8", "starter@1"} {
		_, err := g.Publish(t.Context(), "t", []byte(safetyPolicyOf("enforce", "\n  libraries: ["+name+"]")), "test")
		if !fault.Is(err, fault.CodeInvalidPolicy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	publishSafety(t, g, "t", safetyPolicyOf("note", "\n  libraries: [bank@v7]"))
	publishSafety(t, g, "u", safetyPolicyOf("enforce", safetyRules))
	text := "a zebra"
	a, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "t", Action: "chat.completions", Fields: []Field{{Path: "prompt", Text: &text}}})
	if err != nil || findingsText(a) != "request:safety.a1.1:r:note" || !strings.HasPrefix(a.Findings()[0].Detector, "bank@v7#") {
		t.Fatalf("%v %+v", err, a)
	}
	if err := os.WriteFile(path, append(library, '#'), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := New(Config{Safety: cfg}, g.store, g.keys, classify.New(classify.Classes()...), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "t", Action: "chat.completions"}); !fault.Is(err, fault.CodePolicyUnavailable) {
		t.Errorf("a tenant whose library is another one: %v", err)
	}
	if _, err := other.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "u", Action: "chat.completions"}); err != nil {
		t.Errorf("another tenant: %v", err)
	}
}

// TestRisksAreNamed: whoever is refused reads the risk by its id and in his language, each by a name of its own.
func TestRisksAreNamed(t *testing.T) {
	t.Parallel()
	risks := []safety.Risk{safety.RiskInjection, safety.RiskHidden, safety.RiskLink, safety.RiskCanary}
	for _, r := range safety.Risks() {
		risks = append(risks, r.ID)
	}
	seen := map[string]bool{}
	for _, r := range risks {
		for _, err := range []error{fault.New(fault.CodeUnsafeContent, riskPhrase(r)), answerFault(&safety.BlockedError{Risk: r})} {
			for _, lang := range []fault.Lang{fault.English, fault.Chinese} {
				text := fault.Public(err).Message(lang)
				if !strings.Contains(text, string(r)) || seen[strings.ReplaceAll(text, string(r), "")] || fault.Public(err).Portable().Error(nil).Message(lang) != text {
					t.Errorf("%s: %s", r, text)
				}
				seen[strings.ReplaceAll(text, string(r), "")] = true
			}
		}
	}
	if got := fault.New(fault.CodeUnsafeContent, riskPhrase("a1.4")).Message(fault.English); !strings.Contains(got, "'a1.4: Promoting terrorism or extremism'") {
		t.Error(got)
	}
}

// TestSafetyPolicyIsStrict: what a policy says wrongly is refused with its place.
func TestSafetyPolicyIsStrict(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	for rest, want := range map[string]string{
		"\n  actions: {a9: note}":               "safety.actions",
		"\n  actions: {a1.1: shout}":            "safety.actions.a1.1",
		"\n  libraries: [nowhere]":              "safety.libraries[0]",
		"\n  links: {hosts: [\"EXAMPLE.com\"]}": "safety.links.hosts[0]",
		"\n  rules: [{id: x, risk: a1.1, level: 1, action: note, scope: both, words: [x]}]":                                             "safety.rules[0]",
		"\n  rules: [{id: x, risk: a1.1, level: 1, action: note, scope: both, words: [\"项目：天鹰\"]}]":                                     "safety.rules[0]",
		"\n  rules: [{id: x, risk: a1.1, level: 1, action: note, scope: both, words: [\"" + strings.Repeat("{aaaa|bbbb}", 12) + "\"]}]": "safety.rules[0]",
		"\n  hidden_characters: keep": "safety.hidden_characters",
	} {
		err := g.Validate([]byte(safetyPolicyOf("note", rest)))
		if p := fault.Public(err); !fault.Is(err, fault.CodeInvalidPolicy) || p.Param() != want {
			t.Errorf("%s: %v at %q, want %q", rest, err, p.Param(), want)
		}
	}
	if err := g.Validate([]byte(strings.Replace(safetyPolicyOf("enforce", ""), "\n  mode: ", " ", 1))); !fault.Is(err, fault.CodeInvalidPolicy) {
		t.Errorf("a mode with nothing to look for: %v", err)
	}
}

// TestDatedRulesFollowTheClock: a rule with a last day ends with it, without a new policy.
func TestDatedRulesFollowTheClock(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	now := time.Date(2026, 2, 28, 23, 59, 0, 0, time.UTC)
	g.now = func() time.Time { return now }
	publishSafety(t, g, "t", safetyPolicyOf("enforce", "\n  rules: [{id: r, risk: a1.1, level: 1, action: block, scope: both, words: [zebra], until: \"2026-02-28\"}]"))
	for _, want := range []bool{true, false} {
		text := "zebra"
		_, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "t", Action: "chat.completions", Fields: []Field{{Path: "prompt", Text: &text}}})
		if fault.Is(err, fault.CodeUnsafeContent) != want {
			t.Errorf("%s: %v", now, err)
		}
		now = now.Add(2 * time.Minute)
	}
}

// TestPreviewShowsSafety: a preview says what safety blocks, replaces and finds, of the effective policy and of a draft, of which nothing is kept.
func TestPreviewShowsSafety(t *testing.T) {
	t.Parallel()
	g := safetyGuard(t, SafetyConfig{})
	publishSafety(t, g, "on", safetyPolicyOf("enforce", safetyRules))
	draft := []byte(safetyPolicyOf("enforce", "\n  rules: [{id: draft, risk: a1.1, level: 1, action: replace, scope: both, words: [zebra]}]"))
	kept := len(g.libraries.matchers)
	for _, c := range []struct {
		direction       Direction
		document        []byte
		text, want, hit string
		blocked         bool
	}{
		{DirectionRequest, nil, "恐袭教程", "恐袭教程", "safety.a1.4 block", true},
		{DirectionAnswer, nil, "恐袭教程", "恐袭教程", "safety.a1.4 block", true},
		{DirectionPassage, nil, "恐袭教程", "***", "safety.a1.4 replace", false},
		{DirectionAnswer, nil, "赌球平台 https://evil.example/", "*** ***", "safety.a1.8 replace", false},
		{DirectionRequest, draft, "a zebra", "a ***", "safety.a1.1 replace", false},
	} {
		p, err := g.Preview(t.Context(), PreviewRequest{Tenant: "on", Text: c.text, Direction: c.direction, Document: c.document})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(p.Safety, func(f Finding) bool { return f.Class+" "+f.Action == c.hit })
		if p.Masked != c.want || p.Blocked != c.blocked || !found || c.blocked && p.Restored != "" {
			t.Errorf("%s %q: %+v", c.direction, c.text, p)
		}
	}
	if len(g.libraries.matchers) != kept {
		t.Error("a draft was kept")
	}
}

// TestBrokenPoliciesAreToldOnce: policies are read again for one that lacks a library, and for no other that cannot be used; each is told of in the log once.
func TestBrokenPoliciesAreToldOnce(t *testing.T) {
	t.Parallel()
	library := []byte("schema: 1\nname: bank\nversion: v7\nissued: 2026-01-31\nprovenance: us\nrules:\n  - {id: r, risk: a1.1, level: 1, action: block, scope: both, words: [zebra]}\n")
	path := filepath.Join(t.TempDir(), "bank.yaml")
	if err := os.WriteFile(path, library, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(library)
	cfg := SafetyConfig{Libraries: []LibraryFile{{Name: "bank", File: path, SHA256: hex.EncodeToString(sum[:])}}}
	first := safetyGuard(t, cfg)
	publishSafety(t, first, "whole", safetyPolicyOf("enforce", safetyRules))
	insert := "INSERT INTO policy_documents VALUES (?, 9, 'x', 'x', 'x', 'x', 1, 'x')"
	if err := first.store.db.Exec(insert, "broken").Error; err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	start := func() *Guard {
		log.Reset()
		g, err := New(Config{Safety: cfg}, first.store, first.keys, classify.New(classify.Classes()...), slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return g
	}
	for lacking, again := range []bool{false, true} {
		if again {
			publishSafety(t, first, "lacking", safetyPolicyOf("note", "\n  libraries: [bank]"))
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		g := start()
		all, _ := g.policies.Last()
		loaded := all["whole"].safety
		g.tendSafety(t.Context())
		g.tendSafety(t.Context())
		all, _ = g.policies.Last()
		if (all["whole"].safety != loaded) != again {
			t.Errorf("with %d policies that lack a library they were read again: %v", lacking, !again)
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1+lacking {
			t.Errorf("%d errors for %d policies:\n%s", n, 1+lacking, log.String())
		}
	}
	g := start()
	if err := first.store.db.Exec(strings.Replace(insert, "9", "10", 1), "broken").Error; err != nil {
		t.Fatal(err)
	}
	if err := g.Load(t.Context()); err != nil || strings.Count(log.String(), "level=ERROR") != 3 {
		t.Errorf("another version that cannot be used is not told of: %v\n%s", err, log.String())
	}
}

// TestSafetyIsTended: in the last hour of a day the rules of the next are ready, those of days and policies that have gone are forgotten, and a policy
// whose library comes back is used again.
func TestSafetyIsTended(t *testing.T) {
	t.Parallel()
	library := []byte("schema: 1\nname: bank\nversion: v7\nissued: 2026-01-31\nprovenance: us\nrules:\n  - {id: r, risk: a1.1, level: 1, action: block, scope: both, words: [zebra], until: 2026-12-31}\n")
	path := filepath.Join(t.TempDir(), "bank.yaml")
	sum := sha256.Sum256(library)
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(library)
	cfg := SafetyConfig{Libraries: []LibraryFile{{Name: "bank", File: path, SHA256: hex.EncodeToString(sum[:])}}}
	first := safetyGuard(t, cfg)
	publishSafety(t, first, "t", safetyPolicyOf("enforce", "\n  libraries: [bank]"))
	write(nil)
	g, err := New(Config{Safety: cfg}, first.store, first.keys, classify.New(classify.Classes()...), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	g.now = func() time.Time { return now }
	if err := g.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	admit := func() error {
		_, err := g.Admit(t.Context(), AdmitRequest{Request: "r", Tenant: "t", Action: "chat.completions"})
		return err
	}
	if err := admit(); !fault.Is(err, fault.CodePolicyUnavailable) || testutil.ToFloat64(g.metrics.unusable) != 1 {
		t.Fatalf("%v, %v unusable", err, testutil.ToFloat64(g.metrics.unusable))
	}
	write(library)
	g.tendSafety(t.Context())
	if err := admit(); err != nil || testutil.ToFloat64(g.metrics.unusable) != 0 {
		t.Fatalf("the library is back: %v", err)
	}
	days := func() string {
		var out []string
		for k := range g.libraries.matchers {
			out = append(out, k.day)
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	for at, want := range map[time.Duration]string{0: " 2026-02-27", 11*time.Hour + 30*time.Minute: " 2026-02-27 2026-02-28", 13 * time.Hour: " 2026-02-28"} {
		now = time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC).Add(at)
		g.tendSafety(t.Context())
		if got := days(); got != want {
			t.Errorf("after %s: %q, want %q", at, got, want)
		}
	}
	now = time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	publishSafety(t, g, "t", safetyPolicyOf("enforce", safetyRules))
	g.tendSafety(t.Context())
	if got := days(); got != " " {
		t.Errorf("a policy that has gone left %q", got)
	}
}
