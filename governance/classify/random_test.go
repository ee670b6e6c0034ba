package classify

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// fragments are what values are made of; random rows of them hit the borders between detectors far more often than random bytes.
func fragments() []string {
	return []string{
		"1", "3", "138", "0013", "8000", "13800138000", "110105", "19491231", "002X", "x", testID, "6222", "4111 1111 ", "4111111111111111",
		" ", "-", ".", "·", "_", "(", ")", "+", "+86", "0086", "86", "0", "010", "62345678", "转", "8012", "@", "a", "b.cn", "zs@example.com",
		".com", "203.0.113.9", "10.", "255", "v", "版本", "2001:db8::", "::", ":", "fe80", "京", "京A", "A", "12345", "D", "警", "9111", "MA01",
		"sk-", "abcd1234efgh5678ijkl", "AKIA", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "Bearer ", "password", "=", "\"", "hunter2!x", "密码", "是", "：",
		"https://", "mysql://u:", "pw", "-----BEGIN ", "PRIVATE KEY-----", "-----END PRIVATE KEY-----", "\n", "，", "中文", "１３８", "\u200b", "\xff", "\xe4",
		"身份证", "卡号", "id", "一三八", "零零一三", "八零零零", "幺", "〇", "一", "\\u", "\\u0031", "\\u5f20", "\\ud83d\\ude00", "\\n", "\\", "%", "%31", "%E5%BC%A0", "%3", "&#49;", "&#x35;",
		"&", "&amp;", "MTM4MDAxMzgwMDA=", "5omL5py6MTM4MDAxMzgwMDA", strings.Repeat("QUJD", 200), strings.Repeat("a1", 70), strings.Repeat("9", 37),
	}
}

func randomText(r *rand.Rand) string {
	parts := fragments()
	var b strings.Builder
	for range 1 + r.IntN(14) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func randomPieces(r *rand.Rand, text string) []string {
	var out []string
	most := 1 + r.IntN(12)
	for len(text) > 0 {
		n := min(len(text), 1+r.IntN(most))
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

// TestRandomRowsOfFragments: any cut gives what no cut gives, findings are in order and inside, and the segments are the text.
func TestRandomRowsOfFragments(t *testing.T) {
	sets := []*Set{New(), New(Secret), New(Email, IPv6), New(Mobile, Landline, ResidentID, BankCard)}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 1))
		set := sets[seed%uint64(len(sets))]
		text := randomText(r)
		want := scanPieces(set, text)
		if got := scanPieces(set, randomPieces(r, text)...); got != want {
			t.Fatalf("seed %d: %q gives\n%s\nwant\n%s", seed, text, got, want)
		}
		checkFindings(t, text, set.Find(text))
		var rebuilt strings.Builder
		set.Each(text, func(s Segment) { rebuilt.WriteString(s.Text) })
		if rebuilt.String() != text {
			t.Fatalf("seed %d: the segments are not the text", seed)
		}
	}
}
