package mask

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

// one returns rules with one action for every class of the default set.
func one(a Action) *Rules { return NewRules(classify.New(), func(classify.Class) Action { return a }) }

func TestActions(t *testing.T) {
	text := "王建国的电话是138-0013-8000。"
	for action, want := range map[Action]string{
		ActionToken: "⟦姓名·", ActionPartial: "王**的电话是138-****-8000。", ActionRedact: "〔已屏蔽:姓名〕的电话是〔已屏蔽:手机〕。", ActionHash: "〔姓名#",
		ActionBlock: "⟦姓名·", ActionObserve: text, ActionAllow: text, "unheard of": "⟦姓名·",
	} {
		got, spans := pseudonyms().Mask(one(action), text)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", action, got)
		}
		if n := len(spans); action == ActionAllow && n != 0 || action != ActionAllow && (n != 2 || spans[1].Action != action || spans[1].Class != classify.Mobile || spans[1].Score <= 0) {
			t.Errorf("%s: %+v", action, spans)
		}
	}
}

// TestDigestsLinkATenantsSessions: that is what they are for; no other tenant's, and no other class's, are the same.
func TestDigestsLinkATenantsSessions(t *testing.T) {
	masked := func(v *Pseudonyms, text string) string {
		out, _ := v.Mask(one(ActionHash), text)
		return out
	}
	text := "电话13800138000"
	first := masked(pseudonyms(), text)
	if again := masked(NewPseudonyms(testKey, "session-2"), "电话 138 0013 8000"); strings.TrimPrefix(again, "电话 ") != strings.TrimPrefix(first, "电话") {
		t.Errorf("%q, in another session and spelling %q", first, again)
	}
	if other := masked(NewPseudonyms([]byte("another tenant"), "session-1"), text); other == first {
		t.Error("the digest of another tenant is the same")
	}
	v := pseudonyms()
	if got := pieces(v.Restorer(), masked(v, text)); got != first {
		t.Errorf("%q became %q", first, got)
	}
}

// TestTheStrictestActionTreatsOverlaps: a part of a value that must not be seen is not seen because the whole may be.
func TestTheStrictestActionTreatsOverlaps(t *testing.T) {
	set, err := classify.New().Define([]classify.Custom{{Class: "mine", Tag: "自定", Pattern: "0008000"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		mobile, mine Action
		masked       string
		spans        int
	}{
		{ActionPartial, ActionRedact, "手机〔已屏蔽:自定〕，谢谢", 1},
		{ActionRedact, ActionPartial, "手机〔已屏蔽:手机〕，谢谢", 1},
		{ActionToken, ActionBlock, "手机⟦自定·", 1},
		{ActionObserve, ActionRedact, "手机1398〔已屏蔽:自定〕，谢谢", 2},
		{ActionAllow, ActionRedact, "手机1398〔已屏蔽:自定〕，谢谢", 1},
	} {
		rules := NewRules(set, func(class classify.Class) Action {
			switch class {
			case "mine":
				return c.mine
			case classify.Mobile:
				return c.mobile
			}
			return ActionAllow
		})
		if got, spans := pseudonyms().Mask(rules, "手机13980008000，谢谢"); !strings.HasPrefix(got, c.masked) || len(spans) != c.spans {
			t.Errorf("%s beside %s: %q %+v", c.mobile, c.mine, got, spans)
		}
	}
}

// TestWhatTheAnswerBringsStaysAPseudonym for the caller, who gets his own values back.
func TestWhatTheAnswerBringsStaysAPseudonym(t *testing.T) {
	v := pseudonyms()
	masked, _ := v.Mask(one(ActionToken), "13800138000")
	answer := "您的" + masked + "，同事13900139000，同事13900139000。"
	for i := range len(answer) {
		e := NewEgress(v, one(ActionToken), func(classify.Class, Action) {})
		a, err := e.Write(answer[:i])
		if err != nil {
			t.Fatal(err)
		}
		b, err := e.Write(answer[i:])
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Close()
		if err != nil {
			t.Fatal(err)
		}
		got := a + b + c
		if strings.Contains(got, "13900139000") || !strings.HasPrefix(got, "您的13800138000，同事⟦手机·") || strings.Count(got, "⟦手机·") != 2 {
			t.Fatalf("cut at %d: %q", i, got)
		}
		if again := pieces(v.Restorer(), got); again != got { // nor by another answer
			t.Fatalf("%q became %q", got, again)
		}
	}
}

func TestPartial(t *testing.T) {
	for _, c := range []struct {
		class       classify.Class
		value, want string
	}{
		{classify.Mobile, "13800138000", "138****8000"},
		{classify.Mobile, "+86 138-0013-8000", "+86 138-****-8000"},
		{classify.BankCard, "6222 0212 0200 4481 397", "6222 **** **** ***1 397"},
		{classify.ResidentID, "11010519491231002X", "110105**********2X"},
		{classify.Plate, "京A12345", "京A****5"},
		{classify.Person, "王建国", "王**"},
		{classify.Person, "王", "〔已屏蔽:x〕"},
		{classify.Person, "欧阳娜娜", "欧***"},
		{classify.Person, "Li Ming", "L* ****"},
		{classify.Email, "zhangsan@example.com", "z***@example.com"},
		{classify.Email, "z@example.com", "〔已屏蔽:x〕"},
		{classify.Email, "zhangsan[at]example.com", "〔已屏蔽:x〕"},
		{classify.Mobile, "1380013", "〔已屏蔽:x〕"},
		{classify.Secret, "sk-abcdefghijklmnop", "〔已屏蔽:x〕"},
		{"mine", "anything", "〔已屏蔽:x〕"},
	} {
		if got := Partial(c.class, "x", c.value); got != c.want {
			t.Errorf("%s %q: %q, want %q", c.class, c.value, got, c.want)
		}
	}
}

// TestWordsBehindTagsAreNoPseudonyms: five letters of a longer word are no code, unless what follows them is replaced.
func TestWordsBehindTagsAreNoPseudonyms(t *testing.T) {
	rules := NewRules(classify.New(), func(c classify.Class) Action {
		if c == classify.Email {
			return ActionObserve
		}
		return ActionToken
	})
	for text, same := range map[string]bool{
		"邮箱 wangfang@example.com": true, "手机 ABCDEFG": true, "手机 ABCDE": false, "手机 ABCDE，": false, "手机 ABCDEMAC 23456": false, "手机 ABCDE+8613800138000": false,
	} {
		v := pseudonyms()
		got, _ := v.Mask(rules, text)
		if (got == text) != same {
			t.Errorf("%q became %q", text, got)
		}
		if back := pieces(v.Restorer(), got); back != text {
			t.Errorf("%q became %q and then %q", text, got, back)
		}
	}
}
