package classify

import (
	"fmt"
	"strings"
	"testing"
)

// limitTexts have values whose parts are as long as detectors look, and a little shorter and longer.
func limitTexts() []string {
	texts := []string{
		"连接 1.2.3.4:8080 超时", "网段 1.2.3.0/24 已分配", "见 1.2.3.4: 概述", "版本 1.2.3.4/beta", "王 小 明 天上午来", "李 晓 红 军区医院", "张 伟 大的人民", "请 王 芳 香的茶",
	}
	for n := 18; n <= 28; n++ {
		texts = append(texts, strings.Repeat("a", n-4)+"_001:S3cret9x@tcp(db:3306)/x", "user:"+strings.Repeat("p", 40+n)+"1@tcp(db)/x", "curl -u "+strings.Repeat("n", 22+n)+":S3cret9xyz https://a.b/c",
			"微信："+strings.Repeat("a", n-10)+"1", "邮箱 "+strings.Repeat("m", n+226)+"@example.com", strings.Repeat("k", n)+"@"+strings.Repeat("h", 36+n)+".com")
	}
	return texts
}

// TestSingleClassesDoNotDependOnCuts: what one detector decides too early another may hide by waiting, so each is asked alone.
func TestSingleClassesDoNotDependOnCuts(t *testing.T) {
	texts := limitTexts()
	for _, e := range codeExamples() {
		text, _, _ := e.parse()
		texts = append(texts, text)
	}
	sets := map[string]*Set{"all": New(Classes()...)}
	for _, c := range Classes() {
		sets[string(c)] = New(c)
	}
	for name, set := range sets {
		bad := 0
		for _, text := range texts {
			want := scanPieces(set, text)
			if got := scanPieces(set, strings.Split(text, "")...); got != want && bad < 3 {
				bad++
				t.Errorf("%s, %q rune by rune: %s\nwant %s", name, text, got, fmt.Sprint(want))
			}
		}
	}
}
