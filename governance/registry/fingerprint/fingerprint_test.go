package fingerprint

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/seal"
)

func testKey(t testing.TB, suite seal.Suite, fill byte) *Key {
	t.Helper()
	k, err := NewKey(suite, bytes.Repeat([]byte{fill}, SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func printsOf(k *Key, pieces ...string) Prints {
	p := k.NewPrinter(1 << 20)
	for _, s := range pieces {
		_, _ = p.WriteString(s)
	}
	return p.Prints()
}

// randomText has Latin, Han and full-width characters, a few of each so that grams repeat, punctuation and pieces of Markdown.
func randomText(r *rand.Rand, n int) string {
	alphabet := []string{"a", "b", "O", "l", "é", "ﬁ", "数", "据", "管", "理", "Ａ", "７", " ", "\n", "，", "**", "# ", "\u200b", "ß", "Σ"}
	var b strings.Builder
	for range n {
		b.WriteString(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// TestEveryExcerptShares: every excerpt of Shortest characters or more has its windows found in the text, wherever the cuts are.
func TestEveryExcerptShares(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
		k := testKey(t, suite, 7)
		for range 300 {
			text := []rune(randomText(r, 60+r.IntN(600)))
			kept := printsOf(k, string(text)).Selected
			for range 20 {
				from := r.IntN(len(text))
				to := from + r.IntN(len(text)-from) + 1
				q := selectedOf(k.Ask(string(text[from:to]), 1<<20))
				if q.Characters < Shortest {
					if len(q.Asked) > 0 {
						t.Fatalf("%d characters ask for %v", q.Characters, q.Asked)
					}
					continue
				}
				if len(q.Asked) == 0 || q.Windows != q.Characters-Shortest+1 {
					t.Fatalf("%d characters have %d windows, %d of them selected", q.Characters, q.Windows, len(q.Asked))
				}
				for _, a := range q.Asked {
					if _, ok := slices.BinarySearch(kept, a.Print); !ok {
						t.Fatalf("the excerpt from %d to %d asks for a gram at %d that the text does not have", from, to, a.At)
					}
				}
			}
		}
	}
}

// TestPiecesDoNotMatter: an answer that comes in pieces of any bytes has the fingerprints of the whole.
func TestPiecesDoNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	k := testKey(t, seal.Intl, 7)
	for range 200 {
		text := randomText(r, 300)
		var pieces []string
		for rest := text; rest != ""; {
			n := min(1+r.IntN(7), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		whole, cut := printsOf(k, text), printsOf(k, pieces...)
		if whole.Digest != cut.Digest || whole.Characters != cut.Characters || !slices.Equal(whole.Selected, cut.Selected) {
			t.Fatalf("%q cut into %q", text, pieces)
		}
		if q := k.Ask(text, 8); q.Characters != whole.Characters {
			t.Fatalf("%q is asked for as another text", text)
		}
	}
}

// selectedOf leaves of a question what windows have selected.
func selectedOf(q Question) Question {
	q.Asked = slices.DeleteFunc(q.Asked, func(a Asked) bool { return a.Windows == 0 })
	return q
}

// TestChosen: what is asked for is bounded, spread over the text, in order, and all of it if there is room.
func TestChosen(t *testing.T) {
	k := testKey(t, seal.Intl, 7)
	text := randomText(rand.New(rand.NewPCG(10, 11)), 3000)
	all := k.Ask(text, 1<<20)
	if len(all.Asked) != all.Characters-Gram+1 || all.Thinned {
		t.Fatalf("%d of %d characters", len(all.Asked), all.Characters)
	}
	selected := len(selectedOf(k.Ask(text, 1<<20)).Asked)
	for _, most := range []int{10, selected - 1, selected, selected + 10, len(all.Asked)} {
		q := k.Ask(text, most)
		if len(q.Asked) != most || q.Thinned != (most < selected) || q.Windows != all.Windows {
			t.Errorf("%d asked of at most %d", len(q.Asked), most)
		}
		if !slices.IsSortedFunc(q.Asked, func(a, b Asked) int { return a.At - b.At }) || q.Asked[0].At > all.Characters/5 || q.Asked[most-1].At < all.Characters/2 {
			t.Errorf("at most %d: from %d to %d of %d", most, q.Asked[0].At, q.Asked[most-1].At, all.Characters)
		}
		for _, a := range q.Asked {
			if b := all.Asked[a.At]; a != b {
				t.Fatalf("%+v is %+v among all", a, b)
			}
		}
	}
}

func TestNormalised(t *testing.T) {
	k := testKey(t, seal.Intl, 7)
	prints := func(s string) []uint64 { return printsOf(k, strings.Repeat(s, 60)).Selected }
	for a, b := range map[string]string{
		"Hello, **World**!\n": "hello world",
		"ＡＢＣ１２３，。":            "abc123",
		"eﬃcient café":        "efficient cafe",
		"O0 Il1":              "oo iii",
		"数据\u200b管理（草案）：「一」": "数据管理草案一",
		"ΟΔΟΣ":                   "οδος",
		"| a | b |\n|---|---|":   "ab",
		"\xffab\xe6\x95":         "ab",
		"e\u0301te\u0301":        "été",
		"한국어 문장":                 "한국어문장",
		"x² ½":                   "x2 1⁄2",
		"&nbsp;no entity is one": "nbsp no entity is one",
	} {
		if p := prints(a); len(p) == 0 || !slices.Equal(p, prints(b)) {
			t.Errorf("%q is another text than %q", a, b)
		}
	}
	for a, b := range map[string]string{"数据管理": "数据治理", "abc": "abd", "1234": "1243", "": "a"} {
		if slices.Equal(prints(a), prints(b)) {
			t.Errorf("%q is the same text as %q", a, b)
		}
	}
}

// TestDigests: a digest tells apart whatever has another meaning, and nothing that only looks the same on another screen.
func TestDigests(t *testing.T) {
	k := testKey(t, seal.Intl, 7)
	digest := func(s string) [DigestSize]byte { return printsOf(k, s).Digest }
	for a, b := range map[string]string{
		"Two words\r\nand  more.\n": " Two\u00a0words and more.",
		"ＡＢＣ１２３，（Ａ）":                "ABC123,(A)",
		"e\u0301te\u0301":           "été",
		"ｶﾞ":                        "ガ",
		"数据　管理":                     "数据 管理",
		"\xffab\xe6\x95":            "ab",
		strings.Repeat("été ", 500): strings.Repeat("e\u0301te\u0301 ", 500),
	} {
		if digest(a) != digest(b) {
			t.Errorf("%q is another text than %q", a, b)
		}
	}
	for a, b := range map[string]string{
		"10²": "102", "3½": "312", "①": "1", "o": "0", "il": "11", "résumé": "resume", "が": "か", "ば": "は", "किताब": "कतब", "1.5": "15", "-5": "5", "5": "5%", "May": "may",
		"now here": "nowhere", "a": "", "数据，管理": "数据管理", "x\u200by": "xy", strings.Repeat("\u0301", 5000): strings.Repeat("\u0301", 5001),
	} {
		if digest(a) == digest(b) {
			t.Errorf("%q is the same text as %q", a, b)
		}
	}
}

// TestKeysHaveNothingInCommon: the fingerprints of one tenant say nothing in another one's index, nor do those of another suite.
func TestKeysHaveNothingInCommon(t *testing.T) {
	text := randomText(rand.New(rand.NewPCG(5, 6)), 5000)
	seen := map[uint64]bool{}
	digests := map[[DigestSize]byte]bool{}
	for _, k := range []*Key{testKey(t, seal.Intl, 1), testKey(t, seal.Intl, 2), testKey(t, seal.GM, 1)} {
		p := printsOf(k, text)
		if digests[p.Digest] {
			t.Error("two keys have one digest")
		}
		digests[p.Digest] = true
		for _, x := range p.Selected {
			if seen[x] {
				t.Errorf("two keys have the fingerprint %x", x)
			}
			if seen[x] = true; x>>Bits != 0 {
				t.Errorf("%x has more than %d bits", x, Bits)
			}
		}
	}
}

func TestWrongKeys(t *testing.T) {
	for suite, size := range map[seal.Suite]int{seal.Intl: 31, seal.GM: 16, "rot13": SecretSize} {
		if _, err := NewKey(suite, make([]byte, size)); err == nil {
			t.Errorf("%q took a secret of %d bytes", suite, size)
		}
	}
}

// TestBounds: a text of any length costs a bounded number of fingerprints, and its digest is still of all of it.
func TestBounds(t *testing.T) {
	k := testKey(t, seal.Intl, 7)
	text := randomText(rand.New(rand.NewPCG(7, 8)), 20_000)
	p := k.NewPrinter(100)
	_, _ = p.WriteString(text)
	if got := p.Prints(); len(got.Selected) > 100 || got.Digest != printsOf(k, text).Digest {
		t.Errorf("%d fingerprints", len(got.Selected))
	}
	// One character over and over selects each gram anew, and all are one.
	if got := printsOf(k, strings.Repeat("a", 10_000)); len(got.Selected) != 1 {
		t.Errorf("%d fingerprints of one gram", len(got.Selected))
	}
	// It does not use up what there is for the others, nor hide them from whoever asks.
	flood := strings.Repeat("a", 10_000)
	p = k.NewPrinter(200)
	_, _ = p.WriteString(flood + text[:500])
	if got := p.Prints(); len(got.Selected) < 20 {
		t.Errorf("%d fingerprints behind a flood", len(got.Selected))
	}
	if q := k.Ask(flood+text[:500], 200); q.Thinned || len(selectedOf(q).Asked) < 20 {
		t.Errorf("%d grams behind a flood", len(q.Asked))
	}
}

// TestUniform: fingerprints are even over their range, since the index finds them by their first bits.
func TestUniform(t *testing.T) {
	k := testKey(t, seal.Intl, 9)
	r := rand.New(rand.NewPCG(9, 9))
	var b strings.Builder
	for range 200_000 {
		b.WriteRune(rune('a' + r.IntN(26)))
	}
	selected := printsOf(k, b.String()).Selected
	var buckets [16]int
	for _, x := range selected {
		buckets[x>>(Bits-4)]++
	}
	want := float64(len(selected)) / 16
	chi := 0.0
	for _, n := range buckets {
		chi += (float64(n) - want) * (float64(n) - want) / want
	}
	if chi > 44 { // 1 in 10,000 for 15 degrees of freedom
		t.Errorf("χ² %.1f: %v", chi, buckets)
	}
	if density := float64(len(selected)) / 200_000; density < 0.10 || density > 0.125 {
		t.Errorf("%.3f fingerprints a character, expected are 2/18", density)
	}
}

// TestPlaces: a question says where in the text as it was asked each gram is.
func TestPlaces(t *testing.T) {
	k := testKey(t, seal.Intl, 7)
	text := []rune("**" + strings.Repeat("The quick brown fox jumps over the lazy dog. 敏捷的棕色狐狸跳过懒狗。", 4) + "**")
	q := k.Ask(string(text), 1<<20)
	if len(q.Asked) < 100 || q.Length != len(text) {
		t.Fatalf("%d grams of %d characters", len(q.Asked), q.Length)
	}
	for _, a := range q.Asked {
		gram := string(text[a.Start:a.End])
		if printsOf(k, gram).Characters != Gram {
			t.Fatalf("%+v is %q", a, gram)
		}
		// What begins there selects it if it is all that there is: a text of Shortest characters in which this gram comes again and again.
		if again := k.Ask(gram+gram, 1<<20); again.Asked[0].Print != a.Print || again.Asked[0].At != 0 {
			t.Fatalf("%+v is not %q", a, gram)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add("The quick brown fox jumps over the lazy dog and runs away.", 3)
	f.Add("\xff数据管理\xe6", 1)
	k := testKey(f, seal.Intl, 7)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		cut = min(max(cut, 0), len(text))
		p, q := printsOf(k, text[:cut], text[cut:]), selectedOf(k.Ask(text, 1<<20))
		if p.Characters != q.Characters {
			t.Fatalf("%q is asked for as another text", text)
		}
		for _, a := range q.Asked {
			if _, ok := slices.BinarySearch(p.Selected, a.Print); !ok {
				t.Fatalf("%q does not have its own gram at %d", text, a.At)
			}
		}
	})
}

func BenchmarkPrinter(b *testing.B) {
	for name, text := range map[string]string{
		"english": strings.Repeat("The committee approved the revised budget for the coming year, subject to conditions. ", 200),
		"chinese": strings.Repeat("委员会批准了来年的修订预算，但须满足若干条件，并要求在三个月内提交执行情况报告。", 200),
	} {
		for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
			b.Run(name+"/"+string(suite), func(b *testing.B) {
				k := testKey(b, suite, 7)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					p := k.NewPrinter(1 << 20)
					for rest := text; rest != ""; { // as an engine's events bring it
						n := min(12, len(rest))
						_, _ = p.WriteString(rest[:n])
						rest = rest[n:]
					}
					p.Prints()
				}
			})
		}
	}
}
