package mask_test

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
)

func TestTokens(t *testing.T) {
	set := classify.New(classify.Classes()...)
	for text, want := range map[string]string{
		"":                       "",
		"无":                      "",
		"请拨⟦手机·K7Q2F⟧，谢谢":        "⟦手机·K7Q2F⟧",
		"⟦手机·K7Q2F⟧⟦姓名·ABCDE⟧":   "⟦手机·K7Q2F⟧ ⟦姓名·ABCDE⟧",
		"【手机·k7q2f】和[手机: K7Q2F]": "【手机·k7q2f】 [手机: K7Q2F]",
		"手机·K7Q2F ok":            "手机·K7Q2F",
		"⟦手机·K7Q2⟧ ⟦手机·K7Q20⟧ ⟦手机": "",
		"⟦自定·K7Q2F⟧":               "⟦自定·K7Q2F⟧", // of a class that the policy had and has no more
	} {
		var got []string
		for _, tok := range mask.Tokens(set, text) {
			got = append(got, text[tok.Start:tok.End])
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %q, want %q", text, s, want)
		}
	}
	for s, want := range map[string]string{"K7Q2F": "K7Q2F", " k7q2f ": "K7Q2F", "⟦手机·K7Q2F⟧": "K7Q2F", "手机·K7Q2F": "K7Q2F", "K7Q2": "", "K7Q20": "", "a ⟦手机·K7Q2F⟧": "", "": ""} {
		if code, ok := mask.Code(set, s); code != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", s, code, ok)
		}
	}
}

// FuzzTokens: whatever the text, tokens are in order and in range; and every pseudonym of a masked text is found whole, and restores it.
func FuzzTokens(f *testing.F) {
	set := classify.New(classify.Classes()...)
	rules := mask.NewRules(set, func(classify.Class) mask.Action { return mask.ActionToken })
	f.Add("电话13800138000", "⟦手机·K7Q2F⟧")
	f.Add("张三的身份证110101199003077117和【手机·K7Q2F】", "\xff⟦")
	f.Fuzz(func(t *testing.T, text, more string) {
		v := mask.NewPseudonyms([]byte("key"), "s")
		masked, _ := v.Mask(rules, text+more)
		whole := 0
		for _, s := range []string{text, more, masked} {
			last := 0
			whole = 0
			for _, tok := range mask.Tokens(set, s) {
				if tok.Start < last || tok.End <= tok.Start || tok.End > len(s) || len(tok.Code) != 5 {
					t.Fatalf("%q: %+v", s, tok)
				}
				last = tok.End
				if tok.Whole {
					whole++
				}
			}
		}
		if whole < v.Len() {
			t.Fatalf("%q: %d of %d pseudonyms were found", masked, whole, v.Len())
		}
	})
}
