package mask

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

var testKey = bytes.Repeat([]byte{3}, 32)

func pseudonyms() *Pseudonyms { return NewPseudonyms(testKey, "session-1") }

// tokens are rules that replace every value of set by a pseudonym.
func tokens(set *classify.Set) *Rules {
	return NewRules(set, func(classify.Class) Action { return ActionToken })
}

// samples hold values of every class and what looks like pseudonyms.
func samples() []string {
	return []string{
		"", "没有敏感信息。", "我叫张三，电话13800138000，身份证11010519491231002X。", "13800138000和138 0013 8000是同一个号码",
		"a@b.cn,a@b.cn;c@d.cn", "[13800138000]", "【13800138000】", "手机·13800138000", "⟦13800138000⟧", "手机 ⟦手机·13800138000",
		"⟦手机·K7Q2F⟧", "手机·K7Q2F", "[手机·K7Q2F]", "手机:k7q2f 。", "⟦⟧⟦", "⟦IPv4·22222⟧和IPv4 22222", "标记·ABCDE",
		"京A12345 2001:db8::8a2e:370:7334 203.0.113.9 4111111111111111 010-62345678",
		"密码: hunter2!x ⟦密钥·ABCDE⟧", "password=手机·K7Q2F!x", "坏字节\xff\xfe13800138000\xe4\xb8", "１３８００１３８０００",
	}
}

func TestUnmaskGivesBackTheText(t *testing.T) {
	set := classify.New()
	for _, text := range samples() {
		v := pseudonyms()
		masked, spans := v.Mask(tokens(set), text)
		for _, f := range set.Find(text) {
			if value := text[f.Start:f.End]; strings.Contains(masked, value) {
				t.Errorf("%q still holds a value of class %s", masked, f.Class)
			}
		}
		if len(spans) != len(set.Find(text)) {
			t.Errorf("%q: %d spans", text, len(spans))
		}
		r := v.Restorer()
		if got := r.Write(masked) + r.Close(); got != text {
			t.Errorf("%q became %q and then %q", text, masked, got)
		}
		if r.Unknown() != 0 {
			t.Errorf("%q: %d unknown pseudonyms", text, r.Unknown())
		}
	}
}

func TestPseudonymsAreStableAndApart(t *testing.T) {
	set := classify.New()
	text := "电话13800138000，邮箱zs@example.com"
	first, _ := pseudonyms().Mask(tokens(set), text)
	v := pseudonyms()
	v.Mask(tokens(set), "先说别的：13900139000 和 13700137000") // another order, the same pseudonyms
	if again, _ := v.Mask(tokens(set), text); again != first {
		t.Errorf("%q, then %q", first, again)
	}
	otherSession, _ := NewPseudonyms(testKey, "session-2").Mask(tokens(set), text)
	otherTenant, _ := NewPseudonyms(bytes.Repeat([]byte{4}, 32), "session-1").Mask(tokens(set), text)
	if otherSession == first || otherTenant == first || otherSession == otherTenant {
		t.Error("pseudonyms must not link sessions or tenants")
	}
	r := v.Restorer()
	if got := r.Write(otherSession) + r.Close(); got != otherSession || r.Unknown() != 2 {
		t.Errorf("a pseudonym of another session was restored: %q (%d unknown)", got, r.Unknown())
	}
	if fmt.Sprintf("%v %+v %#v", v, v, v) != "mask.Pseudonyms mask.Pseudonyms mask.Pseudonyms" {
		t.Error("a printed pseudonyms shows values")
	}
}

// TestNoPseudonymIsAPrefix masks many values, enough for codes to collide if they were shorter or kept when taken.
func TestNoPseudonymIsAPrefix(t *testing.T) {
	v := pseudonyms()
	seen := map[string]bool{}
	width := 0
	for n := range 20000 {
		value := fmt.Sprintf("user%d@example.com", n)
		p := v.pseudonym(classify.Email, tagOf(classify.New(), classify.Email), value, value, false)
		if width == 0 {
			width = len(p)
		}
		if seen[p] || len(p) != width {
			t.Fatalf("pseudonym %s repeats or has another width", p)
		}
		seen[p] = true
	}
	if v.Len() != 20000 {
		t.Errorf("%d entries", v.Len())
	}
}

func TestTakenCodeIsResolved(t *testing.T) {
	v := pseudonyms()
	v.byCode[v.code(classify.Email, "a@b.cn", "a@b.cn", 0)] = entry{tag: "手机", text: "x"}
	masked, _ := v.Mask(tokens(classify.New()), "a@b.cn")
	r := v.Restorer()
	if got := r.Write(masked) + r.Close(); got != "a@b.cn" {
		t.Errorf("got %q", got)
	}
}

func TestTagsArePrefixFree(t *testing.T) {
	all := tagsOf(classify.New())
	for _, c := range classify.Classes() {
		if tagOf(classify.New(), c) == "敏感" {
			t.Errorf("class %s has no tag", c)
		}
	}
	for _, a := range all {
		for _, b := range all {
			if a != b && strings.HasPrefix(a, b) {
				t.Errorf("%s is a prefix of %s", b, a)
			}
		}
	}
}

func TestVariants(t *testing.T) {
	v := pseudonyms()
	p := v.pseudonym(classify.Mobile, tagOf(classify.New(), classify.Mobile), "13800138000", "13800138000", false)
	code := strings.TrimSuffix(strings.TrimPrefix(p, "⟦手机·"), "⟧")
	const value = "13800138000"
	restored := map[string]string{
		p: value, "[手机·" + code + "]": value, "[[手机·" + code + "]]": value, "【手机·" + code + "】": value,
		"手机·" + code: value, "⟦手机·" + code: value, "手机·" + code + "⟧。": value + "。", "⟦ 手机 · " + code + " ⟧": value,
		"⟦手机:" + strings.ToLower(code) + "⟧": value, "⟦" + code + "⟧": value, "⟦手机号·" + code + "⟧": value, "〚手机·" + code + "〛": value,
		"（手机-" + code + "）": "（" + value + "）", "手机·" + code + "手机·" + code: value + value, "[见手机·" + code + "]": "[见" + value + "]",
		"⟦手机·" + code + "，": value + "，", "手机·" + code + " ⟧": value,
		code + "⟧": value, "打" + strings.ToLower(code) + " 〛吧": "打" + value + "吧", "·" + code + "⟧": value, "机·" + code + "⟧}": value + "}", "机\"" + code + "⟧": "机\"" + value,
		"飞机" + code + "⟧": "飞机" + value, "电话: " + code + "⟧": "电话: " + value, "手·机·" + code + "⟧": "手·" + value,
	}
	left := []string{
		"⟦手机·ZZZZZ⟧", "手机·" + code + "X", "邮箱·" + code, code, "[" + code + "]", "手机" + code, "⟦手机·" + code[:4] + "⟧", "手机 号码",
		"⟦⟧", "[", "[[", "手", "手机·", "K7Q2F⟧", "a" + code + "⟧", "1" + code + "⟧", code + "1⟧", code + "x⟧", code[1:] + "⟧", code + "   ⟧", code + "·⟧", "邮箱·" + code + "2⟧",
		"见⟦手机, 谢谢", "⟦很长很长很长很长很长很长很长很长很长很长很长很长很长",
	}
	for in, want := range restored {
		r := v.Restorer()
		if got := r.Write(in) + r.Close(); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	for _, in := range left {
		r := v.Restorer()
		got := r.Write(in) + r.Close()
		if strings.Contains(got, value) || got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
	r := v.Restorer()
	r.Write("⟦手机·ZZZZZ⟧ ⟦邮箱·23456⟧")
	if r.Unknown() != 2 {
		t.Errorf("%d unknown", r.Unknown())
	}
}

func pieces(r *Restorer, parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(r.Write(p))
	}
	return b.String() + r.Close()
}

// TestRestoreEverySplit cuts at every pair of bytes.
func TestRestoreEverySplit(t *testing.T) {
	v := pseudonyms()
	p := v.pseudonym(classify.Mobile, tagOf(classify.New(), classify.Mobile), "13800138000", "13800138000", false)
	q := v.pseudonym(classify.IPv4, tagOf(classify.New(), classify.IPv4), "203.0.113.9", "203.0.113.9", false)
	code := strings.TrimSuffix(strings.TrimPrefix(p, "⟦手机·"), "⟧")
	for _, text := range []string{
		p, p + q, "打" + p + "吧", "[手机·" + code + "]", "[[手机 : " + code + "]]x", "手机·" + code, "手机·" + code + "9", "⟦ 手机 · " + code + "  ⟧",
		"⟦手机⟦" + p, "⟦ZZZZZ⟧", "【手机·" + code, "IPv4 IPv4· IPv", "⟦" + code + " ⟧" + q,
	} {
		want := pieces(v.Restorer(), text)
		if got := pieces(v.Restorer(), strings.Split(text, "")...); got != want {
			t.Errorf("rune by rune: %q, want %q", got, want)
		}
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				if got := pieces(v.Restorer(), text[:i], text[i:j], text[j:]); got != want {
					t.Fatalf("%q cut at %d, %d: %q, want %q", text, i, j, got, want)
				}
			}
		}
	}
}

func TestRestorerHoldsBackLittle(t *testing.T) {
	v := pseudonyms()
	v.pseudonym(classify.Mobile, tagOf(classify.New(), classify.Mobile), "13800138000", "13800138000", false)
	for _, text := range []string{"今天天气很好，我的手机坏了。", "see [1] and [[wiki]] links", "⟦" + strings.Repeat("很", 100)} {
		r := v.Restorer()
		worst := 0
		for _, c := range text {
			r.Write(string(c))
			worst = max(worst, utf8.RuneCountInString(r.buf))
		}
		if worst > maxContent+4 {
			t.Errorf("%q: %d runes held back", text, worst)
		}
	}
	r := v.Restorer()
	if r.Write("今天") != "今天" {
		t.Error("plain text must pass at once")
	}
}

func answerRules(c classify.Class) Action {
	switch c {
	case classify.Secret:
		return ActionBlock
	case classify.Email:
		return ActionObserve
	}
	return ActionRedact
}

func egress(v *Pseudonyms, parts ...string) (string, map[classify.Class]int, error) {
	seen := map[classify.Class]int{}
	e := NewEgress(v, NewRules(classify.New(), answerRules), func(c classify.Class, _ Action) { seen[c]++ })
	var b strings.Builder
	for _, p := range parts {
		s, err := e.Write(p)
		b.WriteString(s)
		if err != nil {
			return b.String(), seen, err
		}
	}
	s, err := e.Close()
	return b.String() + s, seen, err
}

// TestEgressMasksNewValuesOnly: what the caller sent comes back, what the model brings is masked, also when they stand side by side.
func TestEgressMasksNewValuesOnly(t *testing.T) {
	v := pseudonyms()
	masked, _ := v.Mask(tokens(classify.New()), "13800138000")
	answer := "您的" + masked + "，" + masked + "13900139000和" + masked + "1，邮箱a@b.cn。"
	want := "您的13800138000，13800138000〔已屏蔽:手机〕和138001380001，邮箱a@b.cn。"
	for i := range len(answer) + 1 {
		for j := i; j <= len(answer); j++ {
			got, seen, err := egress(v, answer[:i], answer[i:j], answer[j:])
			if err != nil || got != want || seen[classify.Mobile] != 1 || seen[classify.Email] != 1 {
				t.Fatalf("cut at %d, %d: %q %v %v", i, j, got, seen, err)
			}
		}
	}
}

// TestEgressKeepsTheOrder: what the restorer holds back stays in front of a masked value.
func TestEgressKeepsTheOrder(t *testing.T) {
	v := pseudonyms()
	v.Mask(tokens(classify.New()), "13800138000")
	for answer, want := range map[string]string{
		"[13900139000]": "[〔已屏蔽:手机〕]", "⟦13900139000⟧": "⟦〔已屏蔽:手机〕⟧", "手13900139000机·": "手〔已屏蔽:手机〕机·", "手机·13900139000": "手机·〔已屏蔽:手机〕",
	} {
		for i := range len(answer) {
			if got, _, err := egress(v, answer[:i], answer[i:]); err != nil || got != want {
				t.Errorf("%q cut at %d: %q, want %q; %v", answer, i, got, want, err)
			}
		}
	}
}

func TestEgressBlocks(t *testing.T) {
	answer := "密钥是 sk-abcd1234efgh5678ijkl 请保存"
	for i := range len(answer) {
		got, _, err := egress(pseudonyms(), answer[:i], answer[i:])
		var blocked *BlockedError
		if !errors.As(err, &blocked) || blocked.Class != classify.Secret {
			t.Fatalf("cut at %d: %v", i, err)
		}
		if strings.Contains(got, "sk-") || strings.Contains(err.Error(), "sk-") {
			t.Fatalf("cut at %d: shown %q, error %v", i, got, err)
		}
	}
	e := NewEgress(pseudonyms(), NewRules(classify.New(), answerRules), func(classify.Class, Action) {})
	if _, err := e.Write(answer + "。"); err == nil {
		t.Fatal("not blocked")
	}
	if s, err := e.Write("more"); s != "" || err == nil {
		t.Error("a blocked stream must stay blocked")
	}
	if s, err := e.Close(); s != "" || err == nil {
		t.Error("a blocked stream must stay blocked")
	}
}

// TestEgressEnds: behind its end an egress has no rules any more, so it lets nothing out.
func TestEgressEnds(t *testing.T) {
	e := NewEgress(pseudonyms(), NewRules(classify.New(), answerRules), func(classify.Class, Action) {})
	if _, err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := e.Write("13800138000 "); s != "" || err == nil {
		t.Errorf("%q is let out behind the end, %v", s, err)
	}
	if s, err := e.Close(); s != "" || err == nil {
		t.Errorf("%q is let out behind the end, %v", s, err)
	}
}

// BenchmarkEgress lets a short answer out that repeats a value of the caller's.
func BenchmarkEgress(b *testing.B) {
	v, rules := pseudonyms(), NewRules(classify.New(), answerRules)
	masked, _ := v.Mask(tokens(classify.New()), "13800138000")
	answer := "Order 48213 is on its way and should arrive on Thursday. We will call " + masked + " before."
	b.ReportAllocs()
	for b.Loop() {
		e := NewEgress(v, rules, func(classify.Class, Action) {})
		if _, err := e.Write(answer); err != nil {
			b.Fatal(err)
		}
		if _, err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzMaskThenRestore(f *testing.F) {
	for n, s := range samples() {
		f.Add(s, uint64(n*7919))
	}
	set := classify.New()
	f.Fuzz(func(t *testing.T, text string, cuts uint64) {
		v := pseudonyms()
		masked, _ := v.Mask(tokens(set), text)
		if got := pieces(v.Restorer(), chunks(masked, cuts)...); got != text {
			t.Fatalf("%q became %q and then %q", text, masked, got)
		}
		// The answer direction: every way of cutting gives the same text, and no value of the model gets out.
		want, _, werr := egress(v, text)
		got, _, gerr := egress(v, chunks(text, cuts)...)
		if (werr == nil) != (gerr == nil) || werr == nil && got != want {
			t.Fatalf("answer %q, cut %q; %v, %v", want, got, werr, gerr)
		}
		if utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Fatal("the answer is no UTF-8")
		}
	})
}

// chunks cuts s into pieces whose sizes the bits of seed choose.
func chunks(s string, seed uint64) []string {
	var out []string
	for len(s) > 0 {
		seed = seed*6364136223846793005 + 1442695040888963407
		n := min(len(s), 1+int(seed>>60))
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

func BenchmarkRestore(b *testing.B) {
	v := pseudonyms()
	p := v.pseudonym(classify.Mobile, tagOf(classify.New(), classify.Mobile), "13800138000", "13800138000", false)
	deltas := chunks(strings.Repeat("您的电话"+p+"已登记，请保持畅通。", 20), 9)
	b.ReportMetric(float64(len(deltas)), "tokens/op")
	for b.Loop() {
		pieces(v.Restorer(), deltas...)
	}
}

// TestLookalikesOfEveryTag: whatever could be read as a pseudonym is neutralised, with any tag, wherever it stands, and prose is not.
func TestLookalikesOfEveryTag(t *testing.T) {
	set := classify.New(classify.Classes()...)
	tags := tagsOf(set)
	for _, tag := range tags {
		for _, text := range []string{tag + "·K7Q2F", "请回复" + tag + "·K7Q2F，谢谢", tag + tag + "·K7Q2F", "a" + tag + " K7Q2F"} {
			found := lookalikes(text, tags, nil)
			if len(found) == 0 || !strings.HasSuffix(text[:found[len(found)-1].end], "K7Q2F") {
				t.Errorf("%q: %v", text, found)
			}
		}
	}
	for _, mark := range []string{"⟦", "⟧", "〚", "〛"} {
		if found := lookalikes("前"+mark+"后", tags, nil); len(found) != 1 || found[0].start != len("前") || found[0].end != len("前")+len(mark) {
			t.Errorf("%q: %v", mark, found)
		}
	}
	if found := lookalikes("手机、身份证和护照都要带，QQ 也行。", tags, nil); len(found) != 0 {
		t.Errorf("in prose: %v", found)
	}
}

// TestUniteIsStrict: where what looks like a pseudonym joins two values, both are treated as the stricter of them.
func TestUniteIsStrict(t *testing.T) {
	const text = "0123456789"
	alike := []finding{{marker, ActionToken, text[3:7], 3, 7}}
	for _, actions := range [][2]Action{{ActionToken, ActionRedact}, {ActionRedact, ActionToken}, {ActionPartial, ActionRedact}} {
		got := unite(text, []finding{{"a", actions[0], text[:4], 0, 4}, {"b", actions[1], text[6:9], 6, 9}}, alike)
		if len(got) != 1 || got[0].action != ActionRedact || got[0].start != 0 || got[0].end != 9 {
			t.Errorf("%v: %+v", actions, got)
		}
	}
}
