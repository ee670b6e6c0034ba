package governance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

const ownClasses = `
custom:
  - class: employee
    tag: 工号
    pattern: 'E[0-9]{6}'
  - class: plan
    tag: 计划
    words: [青松计划, "Blue Whale"]
    actions: {request: block}
  - class: file
    tag: 卷号
    pattern: '[A-Z]{2}-?\d{4,8}'
    context: [卷宗]
    actions: {request: token, answer: redact}
allow: ["138-0013-8000", 4008123123]
`

func TestOwnClasses(t *testing.T) {
	g := withDefault(t)
	publish(t, g, "acme", "  default: {request: token, passage: token, answer: observe}\n"+ownClasses)
	text := "工号E123456，卷宗 AB-12345，电话13800138000或13900139000"
	before := text
	a, err := g.Admit(t.Context(), ask(&text))
	if err != nil {
		t.Fatal(err)
	}
	for part, want := range map[string]bool{"⟦工号·": true, "⟦卷号·": true, "13800138000": true, "E123456": false, "AB-12345": false, "13900139000": false} {
		if strings.Contains(text, part) != want {
			t.Errorf("%q in %q: %t", part, text, !want)
		}
	}
	r := a.Release()
	shown, err := r.Write(text + "；另见卷宗 CD-99999")
	if err != nil {
		t.Fatal(err)
	}
	rest, err := r.Close()
	if want := before + "；另见卷宗 〔已屏蔽:卷号〕"; err != nil || shown+rest != want {
		t.Errorf("%q, %v, want %q", shown+rest, err, want)
	}
	if got := fmt.Sprint(a.Findings()); !strings.Contains(got, "{request employee employee@") || !strings.Contains(got, "{answer file ") {
		t.Error(got)
	}
	text = "the blue whale"
	_, err = g.Admit(t.Context(), ask(&text))
	wantCode(t, err, fault.CodeBlockedContent)

	// The stored form decides the same.
	p, err := parsePolicy([]byte(policyWith(ownClasses)))
	if err != nil {
		t.Fatal(err)
	}
	back, err := readCanonical(p.canonical())
	if err != nil || fmt.Sprint(back.Custom, back.Allow, back.Entities) != fmt.Sprint(p.Custom, p.Allow, p.Entities) {
		t.Errorf("%+v, %v", back, err)
	}
}

func policyWith(more string) string {
	return "schema: 2\nname: x\nmodels: ['*']\ncollections: []\nentities:\n  default: {request: token, passage: token, answer: observe}\n" + more
}

func TestBadOwnClasses(t *testing.T) {
	for want, more := range map[string]string{
		"custom":            "custom: {}",
		"custom[0].tag":     "custom: [{class: ab, pattern: 'abc'}]",
		"custom[0].pattern": "custom: [{class: ab, tag: 甲, pattern: 'a+'}]",
		"custom[0].class":   "custom: [{class: email, tag: 甲, pattern: 'abc'}]",
		"custom[1].class":   "custom: [{class: ab, tag: 甲, pattern: 'abc'}, {class: ab, tag: 乙, pattern: 'abc'}]",
		"custom[1].tag":     "custom: [{class: ab, tag: 甲, pattern: 'abc'}, {class: cd, tag: 甲, pattern: 'abc'}]",
		"custom[0].check":   "custom: [{class: ab, tag: 甲, pattern: 'abc', check: crc}]",
		"custom[0].words":   "custom: [{class: ab, tag: 甲, words: [a]}]",
		"custom[0].actions": "custom: [{class: ab, tag: 甲, pattern: 'abc', actions: 1}]",
		"allow":             "allow: x",
		"allow[0]":          "allow: [[x]]",
	} {
		_, err := parsePolicy([]byte(policyWith(more)))
		f := fault.Public(err)
		if err == nil || f.Code() != fault.CodeInvalidPolicy || f.Param() != want {
			t.Errorf("%s: %v (%s)", more, err, f.Param())
		}
	}
}
