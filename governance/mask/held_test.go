package mask

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// How many runes may be held back in 95 of 100 writes: of prose, and of the records and chats of the corpus, which have a value in
// nearly every sentence.
const (
	heldOfProse  = 24
	heldOfValues = 40
)

// prose are texts as people and models write them: what the corpus has to work with, by kind, and this project's own pages.
func prose(t *testing.T) map[string][]string {
	t.Helper()
	set, err := corpus.Open("tune")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, d := range set.Documents {
		if d.Noise() == "clean" {
			out[d.Family()] = append(out[d.Family()], d.Text)
		}
	}
	for _, page := range []string{"README.md", "README.zh-CN.md", "docs/guides/compliance.md", "docs/guides/compliance.zh-CN.md"} {
		raw, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		out[page] = []string{string(raw)}
	}
	return out
}

// TestHoldBackOnProse: of text that comes character by character, the finest way there is, little waits for what follows, whether only
// secrets are hidden in answers, as by the default policy, or values of every class.
func TestHoldBackOnProse(t *testing.T) {
	rules := map[string]*Rules{
		"default": NewRules(classify.New(), func(c classify.Class) Action {
			if c == classify.Secret {
				return ActionRedact
			}
			return ActionObserve
		}),
		"token":  NewRules(classify.New(), func(classify.Class) Action { return ActionToken }),
		"redact": NewRules(classify.New(), func(classify.Class) Action { return ActionRedact }),
	}
	for kind, texts := range prose(t) {
		if os.Getenv("SLUICE_TEST_LONG") == "" {
			texts = texts[:min(len(texts), 300)]
		}
		for name, r := range rules {
			v := pseudonyms()
			v.Mask(rules["token"], "张三，13800138000，a@b.cn，203.0.113.9，京A12345") // the tags of these could begin anywhere
			var held []int
			for _, text := range texts {
				e := NewEgress(v, r, func(classify.Class, Action) {})
				for _, c := range text {
					if _, err := e.Write(string(c)); err != nil {
						t.Fatal(err)
					}
					held = append(held, e.Held())
				}
				if _, err := e.Close(); err != nil || e.Held() != 0 {
					t.Fatalf("%d runes are held behind the end, %v", e.Held(), err)
				}
			}
			slices.Sort(held)
			p95 := held[len(held)*95/100]
			t.Logf("%s, %s: of %d writes half hold %d runes, p95 %d, p99 %d, the most %d", kind, name, len(held), held[len(held)/2], p95, held[len(held)*99/100], held[len(held)-1])
			most := heldOfValues
			if kind == corpus.Negatives || strings.HasSuffix(kind, ".md") {
				most = heldOfProse
			}
			if p95 > most {
				t.Errorf("%s, %s: p95 of what is held back is %d runes, above %d", kind, name, p95, most)
			}
		}
	}
}

// TestHeldCounts: what went in and has not come out is held, in runes, in either part of the window.
func TestHeldCounts(t *testing.T) {
	v := pseudonyms()
	all := NewRules(classify.New(), func(classify.Class) Action { return ActionToken })
	v.Mask(all, "13800138000")
	for _, text := range []string{"今天天气很好，我的手机·坏了。", "see [1] and [[wiki]] of 1380 things\xe4\xbd\xa0好", "⟦手机·ZZZZZ⟧"} {
		e := NewEgress(v, all, func(classify.Class, Action) {})
		shown, most := "", 0
		for i := range len(text) {
			out, err := e.Write(text[i : i+1])
			if shown += out; err != nil || e.Held() != utf8.RuneCountInString(text[len(shown):i+1]) {
				t.Errorf("%q, %q are out: %d runes are held, %v", text[:i+1], shown, e.Held(), err)
			}
			most = max(most, e.Held())
		}
		if most < 2 {
			t.Errorf("%q: at most %d runes were held", text, most)
		}
	}
}
