package mask

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

// spellings are those in which models write a pseudonym with the tag 手机.
func spellings(code string) []string {
	return []string{
		"⟦手机·" + code + "⟧", "〚手机·" + code + "〛", "[手机·" + code + "]", "[[手机 : " + code + "]]", "【手机·" + code + "】", "手机·" + code, "手机: " + code,
		"⟦手机:" + strings.ToLower(code) + "⟧", "⟦ 手机 · " + code + "  ⟧", "⟦手机号·" + code + "⟧", "⟦" + code + "⟧", "手机-" + code + " ⟧",
		code + "⟧", strings.ToLower(code) + " 〛", "·" + code + "⟧", "机·" + code + "⟧",
	}
}

// mobilePseudonyms has a pseudonym for one number.
func mobilePseudonyms() (v *Pseudonyms, code string) {
	v = pseudonyms()
	p := v.pseudonym(classify.Mobile, tagOf(classify.New(), classify.Mobile), "13800138000", "13800138000", false)
	return v, strings.TrimSuffix(strings.TrimPrefix(p, "⟦手机·"), "⟧")
}

// closeOf passes parts and closes with what may have come next.
func closeOf(v *Pseudonyms, unsaid []string, parts ...string) (shown, masked string, torn int) {
	r := v.Restorer()
	for _, p := range parts {
		shown += r.Write(p)
		masked += r.Masked()
	}
	shown += r.Close(unsaid...)
	return shown, masked + r.Masked(), r.Torn()
}

// TestCutAnswersShowNoPart: wherever an answer is cut off, in whatever spelling, and however it comes, no part of a pseudonym is shown or
// kept: what is shown is text, or the value.
func TestCutAnswersShowNoPart(t *testing.T) {
	v, code := mobilePseudonyms()
	const before, value = "好的，请拨打", "13800138000"
	for _, s := range spellings(code) {
		text := before + s + "找他"
		for cut := range text {
			if cut < len(before) {
				continue
			}
			prefix := text[:cut]
			want, kept, torn := closeOf(v, []string{""}, prefix)
			for i := range len(prefix) + 1 {
				if got, masked, n := closeOf(v, []string{""}, prefix[:i], prefix[i:]); got != want || masked != kept || n != torn {
					t.Fatalf("%q cut at %d: %q, kept %q, want %q, %q", prefix, i, got, masked, want, kept)
				}
			}
			said := strings.TrimPrefix(want, before)
			left, restored := strings.CutPrefix(said, value)
			inside := prefix[len(before):]
			switch {
			case said == "", restored && strings.HasPrefix("找他", strings.TrimLeft(left, " ")):
			case !restored && said == inside && (inside == "机" || len(inside) < telling && strings.HasPrefix(s, inside)): // no more than a word
			default:
				t.Errorf("%q shows %q", prefix, want)
			}
			if again, _, _ := closeOf(v, nil, kept); again != want {
				t.Errorf("%q is kept as %q, which shows %q, want %q", prefix, kept, again, want)
			}
			if (torn > 0) != (len(kept) < len(prefix)) {
				t.Errorf("%q: torn %d, kept %q", prefix, torn, kept)
			}
		}
	}
}

// TestEndsOfAnswers: what an answer that ends by itself, at a limit or at a stop string may end with.
func TestEndsOfAnswers(t *testing.T) {
	v, code := mobilePseudonyms()
	other := "邮箱·" + code[:3]
	for _, c := range []struct {
		text              string
		itself, cut, stop string // what is shown; "stop" at "：" or "·" or "号"
	}{
		{"我的手机", "我的手机", "我的", "我的"},
		{"我的手机 ", "我的手机 ", "我的", "我的"},
		{"我的手", "我的手", "我的", "我的手"}, // neither stop string goes on as a pseudonym
		{"我的手机·" + code[:2], "我的手机·" + code[:2], "我的", "我的手机·" + code[:2]},
		{"我的手机 Z", "我的手机 Z", "我的手机 Z", "我的手机 Z"}, // no code begins so
		{"我的⟦", "我的", "我的", "我的"},
		{"我的⟦手机·" + code[:4], "我的", "我的", "我的"},
		{"我的〚手", "我的", "我的", "我的"},
		{"我的⟦手机，很旧", "我的⟦手机，很旧", "我的⟦手机，很旧", "我的⟦手机，很旧"}, // no name has a comma
		{"看[", "看[", "看", "看["},
		{"看[1", "看[1", "看[1", "看[1"},
		{"看[手机·" + code[:1], "看[手机·" + code[:1], "看", "看[手机·" + code[:1]},
		{"是" + code[:2], "是" + code[:2], "是" + code[:2], "是" + code[:2]},
		{"是" + code[:3], "是" + code[:3], "是", "是" + code[:3]},
		{"是" + code, "是" + code, "是", "是" + code},
		{other, other, "邮箱", other}, // another tag, but a dot and so much of the code
		{"打给手机·" + code, "打给13800138000", "打给13800138000", "打给13800138000"},
		{"打给⟦手机·" + code, "打给13800138000", "打给13800138000", "打给13800138000"},
		{"换个手机号", "换个手机号", "换个手机号", "换个手机号"},
	} {
		for want, unsaid := range map[*string][]string{&c.itself: nil, &c.cut: {""}, &c.stop: {"：", "·", "号"}} {
			got, masked, torn := closeOf(v, unsaid, c.text)
			if got != *want {
				t.Errorf("%q, next %q: shows %q, want %q", c.text, unsaid, got, *want)
			}
			if cut := len(masked) < len(c.text); cut != (torn == 1) {
				t.Errorf("%q, next %q: torn %d, kept %q", c.text, unsaid, torn, masked)
			}
		}
	}
	for _, text := range []string{"我的⟦", "手机", "[", "⟦手机·K7Q2F"} { // nothing of the caller's has a pseudonym: these are nothing but text
		empty := pseudonyms()
		empty.pseudonym(classify.Mobile, "手机", "13912345678", "13912345678", true)
		if got, _, torn := closeOf(empty, []string{""}, text); got != text || torn != 0 {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestStopStringsInsidePseudonyms: an answer that a stop string ended shows no part of a pseudonym, whatever the stop string takes of it.
func TestStopStringsInsidePseudonyms(t *testing.T) {
	v, code := mobilePseudonyms()
	const before = "好的，请拨打"
	for _, s := range spellings(code)[:12] {
		for from := range s {
			for to := from + 1; to <= len(s); to++ {
				stop := s[from:to]
				got, _, _ := closeOf(v, []string{"完", stop}, before+s[:from])
				if rest := strings.TrimRight(strings.TrimPrefix(got, before), " "); rest != "" && rest != "13800138000" {
					t.Errorf("%q before the stop string %q shows %q", before+s[:from], stop, got)
				}
			}
		}
	}
}
