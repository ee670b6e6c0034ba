package lexical_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/lexical"
)

func TestTokens(t *testing.T) {
	for in, want := range map[string]string{
		"户口迁移":                "户 口 户口 迁 口迁 移 迁移",
		"Running dogs' ran":   "run dog ran",
		"钢Q235B，型号A-12":       "钢 q235b 型 号 型号 a-12 a 12",
		"ＡＢＣ１２３ ｶﾅ":           "abc123 カ ナ カナ",
		"v1.2.3 a--b x. 9:30": "v1.2.3 v1 2 3 a b x 9:30 9 30",
		"don't it’s":          "don't don t it’s it s",
		"ÉCOLE écoles":        "école écoles",
		"办理OK了":               "办 理 办理 ok 了",
		"，。!? \xff":           "",
	} {
		if got := strings.Join(lexical.Tokens(in), " "); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := lexical.Tokens(strings.Repeat("x", 100)); len(got) != 0 {
		t.Errorf("an endless word gave %v", got)
	}
}

// TestTokensDoNotDependOnForm holds the invariants of folding: case and width change nothing.
func TestTokensDoNotDependOnForm(t *testing.T) {
	for _, s := range []string{"Hello World 12", "办理 ABC-9 证件", "gas pipe q235b"} {
		wide := strings.Map(func(r rune) rune {
			if r > ' ' && r < 0x7f && r != '-' {
				return r + 0xfee0
			}
			return r
		}, s)
		want := lexical.Tokens(s)
		for _, form := range []string{strings.ToUpper(s), strings.ToLower(s), wide} {
			if got := lexical.Tokens(form); !slices.Equal(got, want) {
				t.Errorf("%q gives %v, %q gives %v", form, got, s, want)
			}
		}
	}
}

// best returns the best documents of a segment for a query.
func best(t testing.TB, s *lexical.Segment, query string, allowed *roaring.Bitmap, n int) []lexical.Hit {
	t.Helper()
	ranking, err := lexical.Rank(lexical.Parse(query), []lexical.Part{{Segment: s, Allowed: allowed}})
	if err != nil {
		t.Fatal(err)
	}
	hits, err := ranking.Best(n)
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func all(n uint32) *roaring.Bitmap {
	b := roaring.New()
	b.AddRange(0, uint64(n))
	return b
}

// TestScoresAreBM25 compares with the formula, written out.
func TestScoresAreBM25(t *testing.T) {
	x := open(t, build(t, map[uint32]string{0: "cat dog", 1: "cat bird cat, cat", 2: "fish"}))
	got := best(t, x, "cat bird", all(3), 10)
	idf := func(df float64) float64 { return math.Log(1 + (3-df+0.5)/(df+0.5)) }
	part := func(tf, length float64) float64 { return tf * 1.9 / (tf + 0.9*(0.6+0.4*length/(7.0/3))) }
	want := []float64{idf(2)*part(3, 4) + idf(1)*part(1, 4), idf(2) * part(1, 2)}
	if len(got) != 2 || got[0].ID != 1 || got[1].ID != 0 || math.Abs(got[0].Score-want[0]) > 1e-12 || math.Abs(got[1].Score-want[1]) > 1e-12 {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFilterAndTies(t *testing.T) {
	texts := map[uint32]string{}
	for i := range uint32(9) {
		texts[i] = "same words"
	}
	x := open(t, build(t, texts))
	ids := func(hits []lexical.Hit) (out []uint32) {
		for _, h := range hits {
			out = append(out, h.ID)
		}
		return out
	}
	if got := ids(best(t, x, "words", roaring.BitmapOf(7, 3, 5, 100), 2)); !slices.Equal(got, []uint32{3, 5}) {
		t.Errorf("got %v", got)
	}
	for _, hits := range [][]lexical.Hit{best(t, x, "words", nil, 5), best(t, x, "words", roaring.New(), 5), best(t, x, "words", all(9), 0), best(t, x, "none", all(9), 5), best(t, x, "", all(9), 5)} {
		if len(hits) != 0 {
			t.Errorf("got %v", hits)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("办理A-12户口 don't ＡＢ 1.2.3:4/5 éa\u0301 カー々")
	f.Add("--__..''’’ a- -b a-_b \xff")
	f.Fuzz(func(t *testing.T, s string) {
		for _, tok := range lexical.Tokens(s) {
			if tok == "" || !utf8.ValidString(tok) || len(tok) > 64 || strings.ContainsFunc(tok, unicode.IsSpace) {
				t.Fatalf("token %q of %q", tok, s)
			}
		}
		x := open(t, build(t, map[uint32]string{1: s + " more"}))
		if hits := best(t, x, s+" more", all(2), 3); len(hits) != 1 {
			t.Fatalf("a text does not match itself: %v", hits)
		}
	})
}

func BenchmarkSearch(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	texts := map[uint32]string{}
	const n = 20_000
	for i := range uint32(n) {
		var s strings.Builder
		for range 60 {
			fmt.Fprintf(&s, "%c", rune(0x4e00+int(rng.ExpFloat64()*300)))
		}
		texts[i] = s.String()
	}
	x, allowed := open(b, build(b, texts)), all(n)
	for b.Loop() {
		best(b, x, "一个二十字左右的问题如何办理户口迁移手续", allowed, 100)
	}
}

// TestOfEqualsRank: the ranking of a query in that of several is the ranking of it alone.
func TestOfEqualsRank(t *testing.T) {
	t.Parallel()
	s := open(t, build(t, map[uint32]string{1: "red fox", 2: "grey wolf fox fox", 3: "red wolf 公积金", 4: "hidden fox"}))
	visible := all(5)
	visible.Remove(4)
	parts := []lexical.Part{{Segment: s, Allowed: visible}, {Segment: s, Allowed: visible, Base: 100}}
	queries := []lexical.Query{lexical.Parse("fox fox red none"), lexical.Parse("公积金 wolf"), lexical.Parse(""), lexical.Parse("none")}
	together, err := lexical.Rank(lexical.Either(queries...), parts)
	if err != nil {
		t.Fatal(err)
	}
	ids := []uint32{1, 2, 3, 4, 101, 103}
	for i, q := range queries {
		want, err := lexical.Rank(q, parts)
		if err != nil {
			t.Fatal(err)
		}
		got := together.Of(q)
		a, err := got.Scores(ids)
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.Scores(ids)
		if err != nil || !slices.Equal(a, b) || !slices.Equal(got.Terms(), want.Terms()) {
			t.Errorf("query %d: %v %v, want %v %v, %v", i, a, got.Terms(), b, want.Terms(), err)
		}
	}
}
