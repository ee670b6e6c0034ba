package safety

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
	"unicode/utf8"
)

type sample struct{ Class, Lang, Text string }

func samples(t *testing.T, path string) []sample {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []sample
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var s sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	return out
}

// TestInjectionRates measures what the rules of the starter library for injection, invisible characters and links catch of attacks of published
// classes, and how often they are wrong about harmless texts. The bars hold what was reached; they are no goal: words alone miss most paraphrases.
func TestInjectionRates(t *testing.T) {
	t.Parallel()
	l, err := ParseStarter()
	if err != nil {
		t.Fatal(err)
	}
	m := Compile([]*Library{l}, time.Now(), func(r *Rule) Action {
		if r.Risk == RiskInjection {
			return Note
		}
		return ""
	})
	caught := func(text string) bool {
		hit := false
		stripped, n := StripHidden(text)
		Screen([]*Matcher{m}, stripped, func(Hit) { hit = true })
		s := NewStream(StreamConfig{Links: Links{Hosts: []string{"intranet.example"}, Action: Note}, Hit: func(Hit) { hit = true }})
		_, _, _ = s.Write(text, text)
		_, _, _ = s.Close()
		return hit || n > 0
	}
	of, all := map[string]int{}, map[string]int{}
	attacks, benign := samples(t, "testdata/attacks.jsonl"), samples(t, "testdata/benign.jsonl")
	for _, s := range attacks {
		for _, key := range []string{s.Class + "/" + s.Lang, "attacks/" + s.Lang, "attacks"} {
			all[key]++
			if caught(s.Text) {
				of[key]++
			}
		}
	}
	for _, s := range benign {
		for _, key := range []string{"benign/" + s.Lang, "benign"} {
			all[key]++
			if caught(s.Text) {
				of[key]++
				t.Logf("false alarm: %s", s.Text)
			}
		}
	}
	for _, key := range []string{"override", "leak", "role", "faketurn", "indirect", "encoded", "obfuscated", "attacks", "benign"} {
		for _, lang := range []string{"en", "zh"} {
			k := key + "/" + lang
			t.Logf("%-14s %3d of %3d", k, of[k], all[k])
		}
	}
	t.Logf("caught %d of %d attacks, false alarms %d of %d", of["attacks"], all["attacks"], of["benign"], all["benign"])
	if all["attacks"] < 200 || all["benign"] < 500 {
		t.Errorf("%d attacks and %d harmless texts", all["attacks"], all["benign"])
	}
	if 100*of["attacks"] < 55*all["attacks"] || 100*of["benign"] > 5*all["benign"] {
		t.Error("worse than it was")
	}
}

// TestLawfulTexts measures how often the starter library finds something in the harmless texts, and in texts of business, law, medicine and security
// that were written to have words of its rules or come near them, and how often it would block one. The latter share is of provoked texts: it says where the
// rules are wrong, not how often they are in use.
func TestLawfulTexts(t *testing.T) {
	t.Parallel()
	l, err := ParseStarter()
	if err != nil {
		t.Fatal(err)
	}
	m := Compile([]*Library{l}, time.Now(), nil)
	for path, most := range map[string]struct{ hit, block int }{"testdata/benign.jsonl": {20, 0}, "testdata/lawful.jsonl": {52, 0}} { // what was reached
		all, hits, blocks := samples(t, path), 0, 0
		for _, s := range all {
			hit, block := false, false
			for _, scope := range []Scope{Input, Output} {
				c := m.scan(scope)
				for at, r := range s.Text {
					c.read(r, at, at+utf8.RuneLen(r))
				}
				c.finish()
				for _, found := range c.decided(len(s.Text) + 1) {
					h := m.rules[found.rule].hit
					hit, block = true, block || h.Action == Block || h.Action == Replace
					if block {
						t.Logf("%s: %s", h.Rule, s.Text)
					}
				}
			}
			if hit {
				hits++
			}
			if block {
				blocks++
			}
		}
		t.Logf("%s: something is found in %d of %d, %d would be blocked", path, hits, len(all), blocks)
		if hits > most.hit || blocks > most.block {
			t.Errorf("%s: %d and %d, which is worse than %d and %d", path, hits, blocks, most.hit, most.block)
		}
	}
}
