package mask

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

// fragments are pieces of values, of pseudonyms in good and bad spellings, and of what stands around them.
func fragments(code string) []string {
	return []string{
		"⟦", "⟧", "[", "]", "【", "】", "〚", "〛", "手机", "邮箱", "密钥", "IPv4", "标记", "手", "·", ":", "-", " ", "  ", code, strings.ToLower(code), code[:3],
		"K7Q2F", "ABCDE", "⟦手机·" + code + "⟧", "手机·" + code, "⟦手机·K7Q2F⟧", "13800138000", "138 0013 8000", "13900139000", "a@b.cn", "sk-abcd1234efgh5678ijkl",
		"password=", "密码是", "1", "A", "中文，", "\n", "\xff", "\xe2\x9f", "203.0.113.9", "京A12345",
	}
}

func randomText(r *rand.Rand, parts []string) string {
	var b strings.Builder
	for range 1 + r.IntN(12) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// TestRandomRows: restoring undoes masking, and both directions give the same text for every cut.
func TestRandomRows(t *testing.T) {
	set := classify.New()
	known := pseudonyms()
	p := known.pseudonym(classify.Mobile, tagOf(set, classify.Mobile), "13800138000", "13800138000", false)
	known.pseudonym(classify.IPv4, tagOf(set, classify.IPv4), "203.0.113.9", "203.0.113.9", false)
	parts := fragments(strings.TrimSuffix(strings.TrimPrefix(p, "⟦手机·"), "⟧"))
	rules := func(c classify.Class) Action {
		if c == classify.Email {
			return ActionObserve
		}
		return ActionRedact
	}
	out := func(unsaid []string, cut ...string) string {
		e := NewEgress(known, NewRules(set, rules), func(classify.Class, Action) {})
		shown, masked := "", ""
		for _, s := range cut {
			s, err := e.Write(s)
			if err != nil {
				t.Fatal(err)
			}
			shown += s
			masked += e.Masked()
		}
		rest, err := e.Close(unsaid...)
		if err != nil {
			t.Fatal(err)
		}
		shown, masked = shown+rest, masked+e.Masked()
		r := known.Restorer()
		if again := r.Write(masked) + r.flush(); again != shown { // what was left out at the end is in neither
			t.Fatalf("%q is shown as %q; masked it is %q, and that shows %q", cut, shown, masked, again)
		}
		return shown
	}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		text := randomText(r, parts)
		v := pseudonyms()
		masked, _ := v.Mask(tokens(set), text)
		if got := pieces(v.Restorer(), chunks(masked, seed)...); got != text {
			t.Fatalf("seed %d: %q became %q and then %q", seed, text, masked, got)
		}
		// The same pseudonyms, with a pseudonym the text may name in any spelling.
		masked, _ = known.Mask(tokens(set), text)
		if got := pieces(known.Restorer(), chunks(masked, seed)...); got != text {
			t.Fatalf("seed %d: with known pseudonyms %q became %q and then %q", seed, text, masked, got)
		}
		for _, unsaid := range [][]string{nil, {""}, {"·", "2"}} { // it ended by itself, at a limit, at a stop string
			if want, got := out(unsaid, text), out(unsaid, chunks(text, seed)...); got != want {
				t.Fatalf("seed %d: the answer %q, in front of %q, shows %q, in pieces %q", seed, text, unsaid, want, got)
			}
		}
	}
}
