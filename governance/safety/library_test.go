package safety

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRisks: the standard has 31 risks in five classes of 8, 9, 5, 7 and 2.
func TestRisks(t *testing.T) {
	t.Parallel()
	count := map[Risk]int{}
	for _, r := range Risks() {
		count[r.ID.Group()]++
		if r.Chinese == "" || r.English == "" || !r.ID.Known() {
			t.Errorf("%+v", r)
		}
	}
	if want := (map[Risk]int{"a1": 8, "a2": 9, "a3": 5, "a4": 7, "a5": 2}); !maps.Equal(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	if Risk("a1.9").Known() || Risk("").Known() {
		t.Error("a risk that there is not is known")
	}
}

// keywords returns how many distinct words the rules have of each risk, as they are normalised. A word with alternatives counts once: spellings are no
// further words.
func keywords(l *Library) map[Risk]int {
	n, seen, out := newNormaliser(), map[string]bool{}, map[Risk]int{}
	for _, r := range l.Rules {
		for _, w := range r.Words {
			forms, err := alternatives(w)
			if err != nil || len(forms) == 0 {
				continue
			}
			w, _ := n.word(forms[0], 0)
			key := string(w.letters)
			if !seen[key] {
				out[r.Risk]++
			}
			seen[key] = true
		}
	}
	return out
}

// TestStarter: the library that comes with the program can be used, has a rule for each risk, and every word of a rule is found, unless an exception has it.
func TestStarter(t *testing.T) {
	t.Parallel()
	l, err := ParseStarter()
	if err != nil {
		t.Fatal(err)
	}
	words := keywords(l)
	total := 0
	for _, r := range Risks() {
		if words[r.ID] == 0 {
			t.Errorf("no word for %s", r.ID)
		}
		total += words[r.ID]
	}
	t.Logf("%d distinct keywords for the 31 risks, %d patterns for injection", total, words[RiskInjection])
	m := Compile([]*Library{l}, time.Now(), nil)
	n := newNormaliser()
	for _, r := range l.Rules {
		var spellings []string
		for _, w := range r.Words {
			forms, err := alternatives(w)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range forms[:min(len(forms), 50)] {
				spellings = append(spellings, lettersOf(n, f))
			}
			for _, i := range []int{0, len(forms) - 1} {
				scope := Input
				if r.Scope == Output {
					scope = Output
				}
				if !slices.Contains(rulesIn(m, scope, "x "+forms[i]+" y"), r.ID) {
					t.Errorf("%s does not match its own word %q", r.ID, forms[i])
				}
			}
		}
		for _, w := range r.Except {
			if slices.Contains(rulesIn(m, Input, w), r.ID) {
				t.Errorf("%s matches its exception %q", r.ID, w)
			}
			text := lettersOf(n, w)
			inside := slices.ContainsFunc(spellings, func(f string) bool { return strings.Contains(text, f) })
			if !inside {
				t.Errorf("%s: no word stands in the exception %q", r.ID, w)
			}
		}
	}
}

func lettersOf(n *normaliser, s string) string {
	w, _ := n.word(s, 0)
	return string(w.letters)
}

// TestEveryValidWordMatchesItself: a word that Validate takes is found in its own text, and one that could never be found is refused.
func TestEveryValidWordMatchesItself(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	parts := []string{"项目", "天", "hawk", "a", "K", " ", "-", "，", ":", "、", "\u200b", "é", "ﬁ", "½", "ı", "е", "＋", ".", "4"}
	taken := 0
	for range 5000 {
		word := ""
		for range 1 + random.IntN(6) {
			word += parts[random.IntN(len(parts))]
		}
		r := Rule{ID: "r", Risk: "a1.1", Level: 1, Action: Note, Scope: Both, Words: []string{word}, Spread: random.IntN(MaxGap + 1)}
		if r.Validate() != nil {
			continue
		}
		taken++
		if len(rulesIn(Compile([]*Library{{Rules: []Rule{r}}}, time.Now(), nil), Input, word)) == 0 {
			t.Errorf("%q with spread %d does not match itself", word, r.Spread)
		}
	}
	if taken < 500 {
		t.Errorf("only %d words were taken", taken)
	}
	for _, word := range []string{"Project: Hawk", "项目：天鹰", "Acme, Inc", "a-----b", "天   鹰"} {
		r := Rule{ID: "r", Risk: "a1.1", Level: 1, Action: Note, Scope: Both, Words: []string{"zebra"}, Except: []string{word}}
		if r.Validate() == nil {
			t.Errorf("%q is taken", word)
		}
	}
}

// TestSpellingsAreBounded: what would take much memory is refused before it is spelt out.
func TestSpellingsAreBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		word string
		want int
	}{{"abc", 3}, {"a{b|cd|}e", 9}, {"{a|b}{c|d}x", 12}, {strings.Repeat("{a|b}", 13), MaxLetters + 1}, {"{a|b}" + strings.Repeat("中", MaxLetters), MaxLetters + 1}} {
		if got := size(c.word); got != c.want {
			t.Errorf("%.20q: %d, want %d", c.word, got, c.want)
		}
	}
	many := strings.TrimSuffix(strings.Repeat("'"+strings.Repeat("{aaaa|bbbb}", 12)+"', ", 6), ", ")
	_, err := Parse([]byte("schema: 1\nname: l\nversion: \"1\"\nissued: 2026-01-31\nprovenance: us\nrules:\n  - {id: r, risk: a1.1, level: 1, action: block, scope: both, words: [" + many + "]}\n"))
	if err == nil || !strings.Contains(err.Error(), "letters") {
		t.Error(err)
	}
}

// rulesIn returns the rules that match, sorted.
func rulesIn(m *Matcher, scope Scope, text string) []string {
	var out []string
	if scope == Input {
		Screen([]*Matcher{m}, text, func(h Hit) { out = append(out, h.Rule) })
	} else {
		s := NewStream(StreamConfig{Matchers: []*Matcher{m}, Hit: func(h Hit) { out = append(out, h.Rule) }})
		if _, _, err := s.Write(text, text); err == nil {
			_, _, _ = s.Close()
		}
	}
	slices.Sort(out)
	return out
}

// TestLoadDemandsTheDigest: a library that is not the pinned one is not used.
func TestLoadDemandsTheDigest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "l.yaml")
	if err := os.WriteFile(path, starter, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(starter)
	digest := hex.EncodeToString(sum[:])
	if _, err := Load(path, strings.ToUpper(digest)); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, append(slices.Clone(starter), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path, digest); err == nil {
		t.Error("a changed library was loaded")
	}
	if _, err := Load(path+"x", digest); err == nil {
		t.Error("a library that is not there was loaded")
	}
}

// TestParseIsStrict: what is wrong is refused and named by its place, and no error quotes a word.
func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	const head = "schema: 1\nname: l\nversion: \"1\"\nissued: 2026-01-31\nprovenance: us\nrules:\n"
	const rule = "  - {id: r, risk: a1.1, level: 1, action: block, scope: both, words: [zebra]}\n"
	if _, err := Parse([]byte(head + rule)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		head + rule + rule: "rules[1].id",
		head + strings.Replace(rule, "a1.1", "a9.1", 1):                                  "rules[0].risk",
		head + strings.Replace(rule, "level: 1", "level: 6", 1):                          "rules[0].level",
		head + strings.Replace(rule, "block", "shout", 1):                                "rules[0].action",
		head + strings.Replace(rule, "both", "all", 1):                                   "rules[0].scope",
		head + strings.Replace(rule, "zebra", "z", 1):                                    "rules[0].words[0]",
		head + strings.Replace(rule, "zebra", "'{zebra'", 1):                             "rules[0].words[0]",
		head + strings.Replace(rule, "zebra", "'"+strings.Repeat("{a|b}", 13)+"'", 1):    "rules[0].words",
		head + strings.Replace(rule, "zebra", strings.Repeat("zebra", 13), 1):            "rules[0].words[0]",
		head + strings.Replace(rule, "words", "colour: zebra, words", 1):                 "known fields",
		head + strings.Replace(rule, "words: [zebra]", "words: [zebra], from: zebra", 1): "rules[0].from",
		strings.Replace(head+rule, "schema: 1", "schema: 2", 1):                          "schema",
		strings.Replace(head+rule, "provenance: us\n", "", 1):                            "provenance",
		strings.Replace(head+rule, "2026-01-31", "yesterday", 1):                         "issued",
		head + rule + "---\n" + head + rule:                                              "more than one",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "zebra") {
			t.Errorf("%q instead of %s", err, want)
		}
	}
}

// TestRulesHoldFromAndUntil: a rule holds on its days alone.
func TestRulesHoldFromAndUntil(t *testing.T) {
	t.Parallel()
	l := &Library{Name: "l", Version: "1", Rules: []Rule{{ID: "r", Risk: "a1.8", Level: 1, Action: Note, Scope: Both, Words: []string{"zebra"}, From: "2026-02-01", Until: "2026-02-28"}}}
	for day, want := range map[string]int{"2026-01-31": 0, "2026-02-01": 1, "2026-02-28": 1, "2026-03-01": 0} {
		at, _ := time.Parse(time.DateOnly, day)
		if got := len(rulesIn(Compile([]*Library{l}, at, nil), Input, "a zebra")); got != want {
			t.Errorf("%s: %d matches, want %d", day, got, want)
		}
	}
}
