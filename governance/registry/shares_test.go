package registry

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/sluice-project/sluice/governance/registry/fingerprint"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// paragraphs are those of our guides in a language that are long enough to be an answer.
func paragraphs(t *testing.T, chinese bool) (out []string) {
	t.Helper()
	files, err := filepath.Glob("../../docs/guides/*.md")
	must(t, err)
	least := 300
	if chinese {
		least = 120
	}
	for _, f := range files {
		if strings.HasSuffix(f, ".zh-CN.md") != chinese {
			continue
		}
		text, err := os.ReadFile(f)
		must(t, err)
		for p := range strings.SplitSeq(string(text), "\n\n") {
			if utf8.RuneCountInString(p) >= least && !strings.HasPrefix(p, "```") && !strings.HasPrefix(p, "|") {
				out = append(out, p)
			}
		}
	}
	return out
}

// noisy replaces each character of a text with a chance, by another one of the same text.
func noisy(r *rand.Rand, text string, chance float64) string {
	runes := []rune(text)
	out := make([]rune, len(runes))
	for i, c := range runes {
		if out[i] = c; r.Float64() < chance {
			out[i] = runes[r.IntN(len(runes))]
		}
	}
	return string(out)
}

// sharesGram reports whether two texts really have a gram in common, found without any hash.
func sharesGram(a, b string) bool {
	letters := func(s string) (out []rune) {
		for _, c := range norm.NFKC.String(s) {
			if unicode.IsLetter(c) || unicode.IsNumber(c) {
				out = append(out, unicode.ToLower(c))
			}
		}
		return out
	}
	grams := map[string]bool{}
	for i, l := 0, letters(a); i+fingerprint.Gram <= len(l); i++ {
		grams[string(l[i:i+fingerprint.Gram])] = true
	}
	for i, l := 0, letters(b); i+fingerprint.Gram <= len(l); i++ {
		if grams[string(l[i:i+fingerprint.Gram])] {
			return true
		}
	}
	return false
}

// TestShares says what a share means, by natural texts of two languages: how many texts are still traced when characters are changed, and that other
// texts are traced to nothing but what they repeat. The log has the figures of docs/guides/audit.md.
func TestShares(t *testing.T) {
	for name, chinese := range map[string]bool{"english": false, "chinese": true} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dbtest.SQLite(t))
			r := rand.New(rand.NewPCG(12, 12))
			all := paragraphs(t, chinese)
			var marks []Mark
			for i, p := range all {
				if i%2 == 0 {
					marks = append(marks, mark(t, s, "acme", i/2, p))
				}
			}
			keep(t, s, marks...)
			// found is how many of the texts are traced to themselves first, and their mean share.
			for _, x := range []struct{ chance, least float64 }{{0, 1}, {0.01, 0.95}, {0.02, 0.9}, {0.05, 0.6}, {0.1, 0}} {
				found, share := 0, 0.0
				for i := 0; i < len(all); i += 2 {
					got := traced(t, s, "acme", noisy(r, all[i], x.chance))
					if len(got.Matches) > 0 && got.Matches[0].Record == marks[i/2].Record {
						found++
						share += got.Matches[0].Share
					}
				}
				part := float64(found) / float64(len(marks))
				t.Logf("%.0f %% of the characters changed: %.1f %% of %d texts are found, mean share %.2f", 100*x.chance, 100*part, len(marks), share/max(1, float64(found)))
				if part < x.least {
					t.Errorf("%.3f found", part)
				}
			}
			same, worst := 0, 0.0
			for i := 1; i < len(all); i += 2 {
				got := traced(t, s, "acme", all[i])
				for _, m := range got.Matches {
					n, err := strconv.Atoi(strings.TrimPrefix(m.Record, "record-"))
					must(t, err)
					if !sharesGram(all[2*n], all[i]) {
						t.Errorf("%q is traced to %q", all[i], all[2*n])
					}
				}
				if len(got.Matches) > 0 {
					same++
					worst = max(worst, got.Matches[0].Share)
				}
			}
			t.Logf("%d of %d other paragraphs are traced to one of these, all of them since they repeat a part of it, with a share of %.2f at most", same, len(all)/2, worst)
		})
	}
}

// runeCut is the end of the shortest beginning of a text that has n characters of a normalised text, in runes; 0 for none.
func runeCut(runes []rune, n int) int {
	for i, c := range runes {
		if unicode.IsLetter(c) || unicode.IsNumber(c) {
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// TestExcerpts: how often short excerpts of natural texts name a text that they are not of, what such a match claims, and that nothing is called
// verified that was changed.
func TestExcerpts(t *testing.T) {
	for name, chinese := range map[string]bool{"english": false, "chinese": true} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dbtest.SQLite(t))
			r := rand.New(rand.NewPCG(16, 16))
			all := paragraphs(t, chinese)
			var marks []Mark
			for i := 0; i < len(all); i += 2 {
				marks = append(marks, mark(t, s, "acme", i, all[i]))
			}
			keep(t, s, marks...)
			for _, length := range []int{40, 80, 120} {
				asked, wrong := 0, 0
				for i, p := range all {
					runes := []rune(p)
					from := r.IntN(len(runes) / 2)
					end := runeCut(runes[from:], length)
					if end == 0 {
						continue
					}
					excerpt := string(runes[from : from+end])
					got := traced(t, s, "acme", excerpt)
					if i%2 == 0 {
						if !slices.ContainsFunc(got.Matches, func(m Match) bool { return m.Record == marks[i/2].Record && m.Evidence != Exact }) {
							t.Errorf("%q is not found", excerpt)
						}
						continue
					}
					asked++
					if len(got.Matches) > 0 {
						wrong++
						if m := got.Matches[0]; !sharesGram(all[recordNumber(t, m.Record)], excerpt) || m.Evidence == Exact {
							t.Errorf("%q has %+v", excerpt, m)
						}
					}
				}
				t.Logf("%d of %d excerpts of %d characters of other texts name one", wrong, asked, length)
				if 10*wrong > asked { // the key decides which of the texts that repeat a sentence are found
					t.Errorf("%d of %d", wrong, asked)
				}
			}
			certain := 0
			for i := 0; i < len(all); i += 2 {
				runes := []rune(all[i])
				at := runeCut(runes, 20+r.IntN(60)) - 1
				runes[at] = 'ж'
				for _, m := range traced(t, s, "acme", string(runes)).Matches {
					if m.Evidence == Exact || slices.ContainsFunc(m.Spans, func(x Span) bool { return x.Start <= at && at < x.End }) {
						t.Errorf("character %d was changed, and of %q is verified: %+v", at, string(runes), m)
					}
					if m.Evidence == Strong {
						certain++
					}
				}
			}
			if certain == 0 {
				t.Error("no evidence is strong")
			}
		})
	}
}

func recordNumber(t *testing.T, record string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimPrefix(record, "record-"))
	must(t, err)
	return n
}
