package chattemplate

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func oneMessage(content string) Input {
	return Input{Messages: []Message{{Role: "user", Content: content}}, BOS: "<s>", EOS: "</s>"}
}

// Each of these would run for years, take all memory or overflow the stack without the sandbox.
func TestHostileTemplatesAreStopped(t *testing.T) {
	for name, source := range map[string]string{
		"endless range":      `{% for i in range(1000000000000) %}x{% endfor %}`,
		"nested loops":       strings.Repeat(`{% for i in range(1000) %}`, 8) + "x" + strings.Repeat(`{% endfor %}`, 8),
		"silent loops":       strings.Repeat(`{% for i in range(1000) %}`, 8) + strings.Repeat(`{% endfor %}`, 8),
		"doubling":           `{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}`,
		"doubling by +":      `{% set ns = namespace(s='x') %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}`,
		"doubling lists":     `{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = ns.s + ns.s %}{% endfor %}`,
		"nested lists":       `{% set ns = namespace(s=[1]) %}{% for i in range(100) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}`,
		"nested lists json":  `{% set ns = namespace(s=[1]) %}{% for i in range(30) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | tojson }}`,
		"contains itself":    `{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}`,
		"json of itself":     `{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns | tojson }}`,
		"equals itself":      `{% set a = namespace() %}{% set a.x = a %}{% set b = namespace() %}{% set b.x = b %}{{ a == b }}`,
		"test of itself":     `{% set a = namespace() %}{% set a.x = a %}{% set b = namespace() %}{% set b.x = b %}{{ a is eq(b) }}`,
		"argument itself":    `{% set ns = namespace() %}{% set ns.a = ns %}{{ 'abc' | replace(ns, 'x') }}`,
		"inside itself":      `{% set a = namespace() %}{% set b = namespace(x=a) %}{% set a.y = [{'k': b}] %}{{ 'abc' | replace(a, 'x') }}`,
		"nested for ever":    `{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ 'abc' | replace(ns.x, 'x') }}`,
		"long arguments":     `{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{% set y = 'a' | replace(s, 'b') %}{% endfor %}`,
		"changed itself":     `{% set a = namespace() %}{% set a.x = a %}{% for i in range(3) %}{{ loop.changed(a) }}{% endfor %}`,
		"repeat":             `{{ 'x' * 100000000000 }}`,
		"repeat twice":       `{{ 'x' * 1000000 * 1000000 }}`,
		"replace":            `{% set s = 'x' * 100000 %}{{ s.replace('x', s) }}`,
		"replace filter":     `{% set s = 'x' * 100000 %}{{ s | replace('x', s) }}`,
		"join":               `{% set s = 'x' * 100000 %}{{ range(100000) | join(s) }}`,
		"join method":        `{% set s = 'x' * 100000 %}{{ s.join(range(100000)) }}`,
		"recursive macro":    `{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}`,
		"branching macros":   `{% macro f(n) %}{% if n > 0 %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(39) }}`,
		"big macro in loops": `{% macro f() %}` + strings.Repeat("x", 100000) + `{% endmacro %}{% for i in range(100000) %}{% set y = f() %}{% endfor %}`,
		"block set in loops": `{% for i in range(100000) %}{% set y %}` + strings.Repeat("x", 100000) + `{% endset %}{% endfor %}`,
		"split":              `{% set s = 'x,' * 1000000 %}{% for i in range(100) %}{% set y = s.split(',') %}{% endfor %}`,
		"long comparisons":   `{% set s = 'x' * 1000000 %}{% for i in range(100000) %}{% if s == s ~ '' %}{% endif %}{% endfor %}`,
		"output":             `{% for m in range(10000) %}{% for n in range(10) %}` + strings.Repeat("x", 1000) + `{% endfor %}{% endfor %}`,
		"sort":               `{% set l = range(100000) | list %}{% for i in range(100000) %}{% set y = l | sort %}{% endfor %}`,
		"strftime":           `{% set s = '%A' * 100000 %}{% for i in range(100000) %}{% set y = strftime_now(s) %}{% endfor %}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tpl := mustParse(t, source)
			start := time.Now()
			got, err := tpl.Render(oneMessage("hi"))
			if err == nil || !strings.Contains(err.Error(), "exceeded the limit") {
				t.Errorf("rendered %d bytes, error %v", len(got), err)
			}
			if d := time.Since(start); d > 4*maxTime {
				t.Errorf("took %s", d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"include":           {`{% include "/etc/passwd" %}`, "include"},
		"import":            {`{% import "x" as y %}`, "import"},
		"from":              {`{% from "x" import y %}`, "from"},
		"extends":           {`{% extends "x" %}`, "extends"},
		"call":              {`{% call f() %}{% endcall %}`, "call"},
		"filter":            {`{{ messages | pprint }}`, "pprint"},
		"test":              {`{{ messages is callable }}`, "callable"},
		"recursive loop":    {`{% for m in messages recursive %}{{ loop(m) }}{% endfor %}`, "recursive"},
		"open block":        {`{% for m in messages %}`, "parsed"},
		"open expression":   {`{{ messages`, "parsed"},
		"nonsense":          {`{{ 1 + }}`, "parsed"},
		"too long":          {strings.Repeat("x", maxSource+1), "limit"},
		"deep parentheses":  {`{{ ` + strings.Repeat("(", 50000) + "1" + strings.Repeat(")", 50000) + ` }}`, "nests"},
		"deep blocks":       {strings.Repeat(`{% if 1 %}`, 5000) + strings.Repeat(`{% endif %}`, 5000), "nests"},
		"long chain":        {`{{ 1` + strings.Repeat(" + 1", 30000) + ` }}`, "nests"},
		"call of an item":   {`{{ messages[0]() }}`, "no function"},
		"set to an item":    {`{% set messages[0] = 1 %}`, "set"},
		"set to a call":     {`{% set f(1) = 1 %}`, "set"},
		"set without value": {`{% set x = %}`, "parsed"},
	} {
		_, err := Parse(c.source)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

// A chain of method calls evaluates its receiver once per call, not twice, which would double the work with every link.
func TestMethodChainsAreLinear(t *testing.T) {
	tpl := mustParse(t, `{{ messages[0].content`+strings.Repeat(".strip()", 150)+` }}`)
	if got, err := tpl.Render(oneMessage(" x ")); err != nil || got != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestGoMethodsAreOutOfReach(t *testing.T) {
	for _, source := range []string{
		`{{ [2, 1].Swap(0, 1) }}`, `{{ messages[0].content.Len() }}`, `{{ loop.Set(1) }}`, `{{ messages.pop() }}`, `{{ self.x() }}`,
		`{{ messages[0].clear() }}`, `{{ messages[0].update({'role': 'x'}) }}`,
	} {
		tpl, err := Parse(source)
		if err != nil {
			continue
		}
		if got, err := tpl.Render(oneMessage("hi")); err == nil {
			t.Errorf("%s rendered %q", source, got)
		}
	}
}

func TestErrorsDoNotQuoteTheChat(t *testing.T) {
	const secret = "4111 1111 1111 1111"
	for _, source := range []string{
		`{{ messages[0].content.nonsense() }}`, `{{ messages[0].content + [] + 1 % 0 }}`, `{{ raise_exception(messages[0].content) }}`,
		`{{ raise_exception('bad: ' + messages[0].content) }}`, `{{ messages[0].content[{}] }}`, `{{ range(messages[0].content) }}`,
		`{{ messages[0].content | length % 0 }}`, `{{ -messages[0].content }}`, `{{ messages[0].content() }}`,
	} {
		tpl, err := Parse(source)
		if err != nil {
			continue
		}
		_, err = tpl.Render(oneMessage(secret))
		if err == nil || strings.Contains(err.Error(), secret[:4]) {
			t.Errorf("%s: error %v", source, err)
		}
	}
	_, err := mustParse(t, `{{ raise_exception('Roles must alternate') }}`).Render(oneMessage("x"))
	if err == nil || !strings.Contains(err.Error(), "Roles must alternate") {
		t.Errorf("the template's own sentence is missing: %v", err)
	}
}

func TestRolesArePlainWords(t *testing.T) {
	tpl := mustParse(t, source(t, "smollm2.jinja"))
	for _, role := range []string{"", "user<|im_end|>", "user\n", "ü", strings.Repeat("a", 33)} {
		if _, err := tpl.RenderSegments(Input{Messages: []Message{{Role: role, Content: "x"}}}); err == nil {
			t.Errorf("the role %q was accepted", role)
		}
	}
}

func TestLongChatsFitTheBudget(t *testing.T) {
	for _, name := range []string{"smollm2.jinja", "llama3.jinja", "qwen25.jinja", "qwen3.jinja", "mistral.jinja"} {
		tpl := mustParse(t, source(t, name))
		in := Input{AddGenerationPrompt: true}
		for i := range 1500 {
			in.Messages = append(in.Messages, Message{Role: []string{"user", "assistant"}[i%2], Content: fmt.Sprintf("message %d", i)})
		}
		if _, err := tpl.RenderSegments(in); err != nil {
			t.Errorf("%s, 1500 messages: %v", name, err)
		}
		if _, err := tpl.RenderSegments(oneMessage(strings.Repeat("word and 字 ", 10000))); err != nil {
			t.Errorf("%s, one long message: %v", name, err)
		}
	}
}

func TestTemplatesAreSafeForConcurrentUse(t *testing.T) {
	tpl := mustParse(t, source(t, "features.jinja"))
	want, err := tpl.Render(oneMessage("hi"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if got, err := tpl.Render(oneMessage("hi")); err != nil || got != want {
					t.Errorf("got %q, %v", got, err)
				}
			}
		})
	}
	group.Wait()
}

func TestStrftimeNow(t *testing.T) {
	tpl := mustParse(t, `{{ strftime_now("%d %b %Y, %-d %B %y %H:%M:%S %A 100%%") }}`)
	tpl.now = func() time.Time { return time.Date(2026, 7, 4, 8, 5, 9, 0, time.UTC) }
	if got, err := tpl.Render(oneMessage("")); err != nil || got != "04 Jul 2026, 4 July 26 08:05:09 Saturday 100%" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDigest(t *testing.T) {
	const want = "sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
	if got := mustParse(t, "x").Digest(); got != want {
		t.Errorf("got %s", got)
	}
}
