package glossary

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/rag/lexical"
)

func fund() *Glossary {
	return Compile([]Term{
		{Name: "住房公积金", Synonyms: []string{"公积金", "HPF", "housing fund"}},
		{Name: "residence permit", Synonyms: []string{"居住证"}},
		{Name: "公积", Synonyms: []string{"积累"}},
	})
}

// TestForms: names are found in whichever way they are written, the longest first, and never inside a word or across a sentence.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		question string
		found    string // names
		forms    []string
	}{
		{"如何提取公积金？", "公积金", []string{"如何提取住房公积金?", "如何提取hpf?", "如何提取housing fund?"}},
		{"如何提取公積金？", "公积金", []string{"如何提取住房公积金?", "如何提取hpf?", "如何提取housing fund?"}},
		{"住房公积金怎么查", "住房公积金", []string{"公积金怎么查", "hpf怎么查", "housing fund怎么查"}},
		{"My ＨＰＦ balance", "HPF", []string{"my 住房公积金 balance", "my 公积金 balance", "my housing fund balance"}},
		{"Housing Funds: who pays?", "housing fund", []string{"住房公积金: who pays?", "公积金: who pays?", "hpf: who pays?", "housing fund: who pays?"}},
		{"XHPFX", "", nil},
		{"I like housing. Fund it", "", nil},
		{"公积，金", "公积", []string{"积累,金"}},
		{"公积的利率", "公积", []string{"积累的利率"}},
		{"nothing of it", "", nil},
		{"", "", nil},
	} {
		forms, found := fund().Forms(c.question)
		var names []string
		for _, f := range found {
			names = append(names, f.Found)
		}
		if strings.Join(names, "|") != c.found || forms[0] != c.question {
			t.Errorf("%q: found %q as %q, want %q", c.question, names, forms[0], c.found)
		}
		for _, want := range c.forms {
			if !slices.Contains(forms, want) {
				t.Errorf("%q: forms are %q, without %q", c.question, forms, want)
			}
		}
		if len(forms) != len(c.forms)+1 {
			t.Errorf("%q: %d forms %q, want %d", c.question, len(forms), forms, len(c.forms)+1)
		}
	}
	var none *Glossary
	if forms, found := none.Forms("公积金"); len(forms) != 1 || found != nil {
		t.Errorf("no glossary finds %v", found)
	}
}

// TestMatchesEqualSearchOfEach: the automaton finds what looking for each name at each place finds.
func TestMatchesEqualSearchOfEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	word := func(most int) string {
		s := make([]rune, 1+r.IntN(most))
		for i := range s {
			s[i] = []rune("甲乙丙")[r.IntN(3)]
		}
		return string(s)
	}
	for range 300 {
		var terms []Term
		for range 1 + r.IntN(6) {
			terms = append(terms, Term{Name: word(4), Synonyms: []string{word(3)}})
		}
		text := word(30)
		_, units := lexical.Units(text)
		var got, want []string
		for _, m := range Compile(terms).matches(units) {
			got = append(got, fmt.Sprint(m.first, m.end))
		}
		for i := 0; i < len(units); {
			longest := 0
			for _, term := range terms {
				for _, name := range append([]string{term.Name}, term.Synonyms...) {
					if strings.HasPrefix(string([]rune(text)[i:]), name) {
						longest = max(longest, len([]rune(name)))
					}
				}
			}
			if longest > 0 {
				want = append(want, fmt.Sprint(i, i+longest))
			}
			i += max(1, longest)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v in %q: %v, want %v", terms, text, got, want)
		}
	}
}

// FuzzForms: whatever the question is, its forms are bounded, the first is itself, and names are found in all of them as often.
func FuzzForms(f *testing.F) {
	for _, s := range []string{"如何提取公积金？", "a-b_c 公積金 HPF.", "e\u0301公积\u0301金", "\xff公积金"} {
		f.Add(s)
	}
	g := fund()
	f.Fuzz(func(t *testing.T, text string) {
		forms, found := g.Forms(text)
		if forms[0] != text || len(forms) > maxForms || len(found) == 0 && len(forms) > 1 {
			t.Fatalf("%q gives %d forms, %d found", text, len(forms), len(found))
		}
		folded, units := lexical.Units(text)
		end := 0
		for _, u := range units {
			if u.Start < end || u.End < u.Start || u.End > len(folded) {
				t.Fatalf("unit %+v of %q lies behind %d", u, folded, end)
			}
			end = u.End
		}
	})
}
