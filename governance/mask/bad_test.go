package mask

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

// mostHeld bounds what any stream makes wait, in characters: two pieces of a private key.
const mostHeld = 33_000

// hostile are beginnings that go on and on.
func hostile() map[string]string {
	return map[string]string{
		"prose": "今天天气很好，我们去公园散步。", "english": "the quick brown fox jumps over the lazy dog. ", "digits": "1380013800", "numerals": "一三八零零", "han": "张",
		"base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0", "key": "-----BEGIN RSA PRIVATE KEY-----\nQUJDREVGR0hJSktMTU5P", "secret": `password=aB3$xY9!`, "at": "a.b@c.",
		"marks": "⟦", "tags": "手机·", "brackets": "[[手机 : ", "invalid": "\xff\xe4\xbd", "nothing": "\u200b", "escapes": `\u5bc6`, "percent": "%E4%BD", "address": "北京市朝阳区",
	}
}

func repeated(s string, size int) string { return strings.Repeat(s, size/len(s)+1)[:size] }

// stream passes a text in pieces, and returns how long that took and how much was held.
func stream(t *testing.T, text string, piece int) (time.Duration, int) {
	t.Helper()
	rules := NewRules(classify.New(), func(classify.Class) Action { return ActionToken })
	v := pseudonyms()
	v.Mask(rules, "13800138000 a@b.cn 203.0.113.9")
	e := NewEgress(v, rules, func(classify.Class, Action) {})
	began, most := time.Now(), 0
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := e.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		text, most = text[n:], max(most, e.Held())
	}
	if _, err := e.Close(); err != nil || e.Held() != 0 {
		t.Errorf("%d held behind the end, %v", e.Held(), err)
	}
	return time.Since(began), most
}

// TestHostileStreams: a piece of half a megabyte, and thousands of pieces of one byte, take time that grows with the text, and make no more
// than a bounded part of it wait.
func TestHostileStreams(t *testing.T) {
	const small, times = 64 << 10, 8
	for name, s := range hostile() {
		short, _ := stream(t, repeated(s, small), small)
		again, _ := stream(t, repeated(s, small), small)
		short = min(short, again)
		long, held := stream(t, repeated(s, small*times), small*times)
		for range 4 { // a busy machine stops now and then
			if long > 30*short+100*time.Millisecond {
				once, _ := stream(t, repeated(s, small*times), small*times)
				long = min(long, once)
			}
		}
		if long > 30*short+100*time.Millisecond { // a square of the length would take 64 times as long
			t.Errorf("%s: %d times the text took %v instead of %v", name, times, long, short)
		}
		took, alone := stream(t, repeated(s, 20_000), 1)
		if held = max(held, alone); held > mostHeld || took > 20*time.Second {
			t.Errorf("%s: %d characters were held, bytes alone took %v", name, held, took)
		}
	}
}

// TestFullPseudonyms: a hundred thousand values have a hundred thousand pseudonyms, and are restored byte for byte in bounded time.
func TestFullPseudonyms(t *testing.T) {
	count := 100_000
	if testing.Short() {
		count = 10_000
	}
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, "user%d@example.com\n", i)
	}
	began := time.Now()
	v := pseudonyms()
	masked, spans := v.Mask(NewRules(classify.New(), func(classify.Class) Action { return ActionToken }), b.String())
	if len(spans) != count || v.Len() != count || strings.Contains(masked, "@") {
		t.Errorf("%d spans, %d pseudonyms", len(spans), v.Len())
	}
	if got := pieces(v.Restorer(), chunks(masked, 5)...); got != b.String() {
		t.Error("the text was not restored")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// FuzzRestorer: whatever a model makes of pseudonyms, a cut changes nothing, nothing but live values comes in, and what is taken from the
// stream is what was in it.
func FuzzRestorer(f *testing.F) {
	v := pseudonyms()
	code := func(p string) string { return strings.TrimSuffix(p[strings.Index(p, "·")+len("·"):], "⟧") }
	set := classify.New()
	mobile := v.pseudonym(classify.Mobile, tagOf(set, classify.Mobile), "13800138000", "13800138000", false)
	v.pseudonym(classify.IPv4, tagOf(set, classify.IPv4), "203.0.113.9", "203.0.113.9", false)
	brought := v.pseudonym(classify.Email, tagOf(set, classify.Email), "a@b.cn", "a@b.cn", true)
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 9))
		f.Add(randomText(r, append(fragments(code(mobile)), brought)), seed)
	}
	f.Add(strings.Repeat("⟦手机·", 50)+mobile+"\xe2\x9f", uint64(1))
	f.Fuzz(func(t *testing.T, text string, cuts uint64) {
		whole := pieces(v.Restorer(), text)
		r := v.Restorer()
		shown, taken := "", ""
		for _, p := range chunks(text, cuts) {
			shown += r.Write(p)
			taken += r.Masked()
			if n := utf8.RuneCountInString(r.buf); n > 64 {
				t.Fatalf("%d characters are held", n)
			}
		}
		shown += r.Close()
		if taken += r.Masked(); shown != whole || !strings.HasPrefix(text, taken) || taken != text && r.Torn() == 0 {
			t.Fatalf("%q shows %q whole and %q cut, %q was taken", text, whole, shown, taken)
		}
		if strings.Contains(shown, "a@b.cn") && !strings.Contains(text, "a@b.cn") {
			t.Fatalf("%q restored what the answer brought", text)
		}
		if known := strings.ToUpper(text); shown != taken && !strings.Contains(known, code(mobile)) && !strings.Contains(known, code(v.byValue[surface{classify.IPv4, "203.0.113.9"}])) {
			t.Fatalf("%q became %q without a live code", text, shown)
		}
	})
}
