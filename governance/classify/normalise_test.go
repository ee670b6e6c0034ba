package classify

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// TestDisguises finds values in the forms that programs and people give them; the finding covers exactly what stands for the value.
func TestDisguises(t *testing.T) {
	for _, e := range []example{
		{Mobile, "语音：«一三八零零一三八零零零»，谢谢"},
		{Mobile, "«幺三八 零零幺三 八零零零»"},
		{Mobile, "«幺三八洞洞幺三八洞洞洞»"},
		{Mobile, "«138零零一三八零零零»"},
		{Mobile, "«壹叁捌零零壹叁捌零零零»"},
		{ResidentID, "«一一零一零五一九四九一二三一零零二Ｘ»"},
		{Mobile, `{"phone":"«\u0031\u0033800138000»"}`},
		{Email, `«zs\u0040example.com»`},
		{Mobile, `电话\t«13800138000»\n`},
		{Mobile, "q=«%31%33800138000»&x=1"},
		{Email, "to=«zs%40example.com»"},
		{Email, "«zs&#64;example.com»"},
		{Mobile, "«&#x31;3800138000»;"},
		{Email, "«zs@ехample.com»"}, // two letters are Cyrillic
		{Mobile, "«" + base64.StdEncoding.EncodeToString([]byte("手机13800138000")) + "»"},
		{Mobile, "data:text/plain;base64,«" + base64.StdEncoding.EncodeToString([]byte("call 13800138000 now!")) + "»。"},
		{Mobile, "«" + base64.RawURLEncoding.EncodeToString([]byte("电话是：13800138000？")) + "»"},
		{"", "一二三四五六"},
		{"", "二〇二四年一月一日三点"},
		{"", "第一、二、三条"},
		{"", "%zz %E5%BC &#xZZ; &; \\u00 \\q 100%"},
		{"", base64.StdEncoding.EncodeToString([]byte("nothing to see here"))},
		{"", base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("手机13800138000"))))}, // one level only
	} {
		text, start, end := e.parse()
		got := New().Find(text)
		if e.class == "" {
			if len(got) != 0 {
				t.Errorf("%q: %+v", text, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Class != e.class || got[0].Start != start || got[0].End != end {
			t.Errorf("%q: %+v, want %s [%d,%d)", text, got, e.class, start, end)
		}
		for cut := range len(text) {
			if whole, parts := scanPieces(New(), text), scanPieces(New(), text[:cut], text[cut:]); whole != parts {
				t.Errorf("%q cut at %d:\n%s\n%s", text, cut, parts, whole)
			}
		}
	}
}

// TestValueAnywhereInLongBase64 hides a value at every place of a run that is decoded in pieces.
func TestValueAnywhereInLongBase64(t *testing.T) {
	for at := 0; at < 3000; at += 37 {
		plain := strings.Repeat("x ", at/2) + "手机 13800138000 " + strings.Repeat(" y", (3100-at)/2)
		whole := "前" + base64.StdEncoding.EncodeToString([]byte(plain)) + "后"
		var shown strings.Builder
		New(Mobile).Each(whole, func(s Segment) {
			if s.Class == "" {
				shown.WriteString(s.Text)
			}
		})
		for off := range 4 { // whatever is left, wherever one begins to decode
			for _, run := range strings.FieldsFunc(shown.String(), func(r rune) bool { return !text.IsBase64(r) }) {
				if len(run) > off {
					b, _ := base64.RawStdEncoding.DecodeString(run[off : off+(len(run)-off)/4*4])
					if strings.Contains(string(b), "13800138000") {
						t.Fatalf("a value at %d is left", at)
					}
				}
			}
		}
	}
}
