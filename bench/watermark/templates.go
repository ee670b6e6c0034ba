package main

import (
	"embed"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
)

// templates are letters of a bank, a court and a hotline with gaps, by language. People wrote them for this measurement.
//
//go:embed templates
var templates embed.FS

var gap = regexp.MustCompile(`\{[a-z]+\}`)

// filler fills gaps. The same numbers fill alike.
type filler struct {
	r       *rand.Rand
	chinese bool
}

// fill adds every template of the set's language n times, each time with other values.
func (s *textSet) fill(n int) error {
	f := &filler{rand.New(rand.NewPCG(1, uint64(len(s.language)))), s.language == "zh"} //nolint:gosec // no secrets
	for range n {
		for _, kind := range []string{"bank", "court", "hotline"} {
			text, err := templates.ReadFile("templates/" + s.language + "-" + kind + ".txt")
			if err != nil {
				return err
			}
			s.add(gap.ReplaceAllStringFunc(string(text), f.value))
		}
	}
	return nil
}

func (f *filler) value(gap string) string {
	switch gap {
	case "{name}":
		return f.name()
	case "{street}":
		return f.either(fmt.Sprintf("%d %s", 1+f.r.IntN(200), f.of("Mill Lane", "Church Street", "Station Road", "High Street", "Harbour Row")),
			fmt.Sprintf("江州市%s%d号", f.of("临江路", "人民路", "建设大道", "解放街", "文化路"), 1+f.r.IntN(200)))
	case "{date}":
		day, month, year := 1+f.r.IntN(28), 1+f.r.IntN(12), 2019+f.r.IntN(7)
		return f.either(fmt.Sprintf("%d.%d.%d", day, month, year), fmt.Sprintf("%d年%d月%d日", year, month, day))
	case "{sum}":
		v := float64(f.r.IntN(2_000_000)) / 100
		return f.either(fmt.Sprintf("EUR %.2f", v), fmt.Sprintf("人民币%.2f元", v))
	case "{percent}":
		return fmt.Sprintf("%.2f %%", float64(f.r.IntN(1500))/100)
	case "{days}":
		return fmt.Sprint(2 + f.r.IntN(12))
	case "{number}":
		return fmt.Sprint(100_000 + f.r.IntN(900_000))
	}
	return f.rows()
}

// rows are lines that are nearly alike, as statements have them.
func (f *filler) rows() string {
	var b strings.Builder
	for range 6 + f.r.IntN(12) {
		b.WriteString(f.either(
			fmt.Sprintf("%s, card payment, %s, reference %s, %s, booked on %s.\n", f.value("{date}"), f.of("supermarket", "filling station", "bookshop", "pharmacy"), f.value("{number}"), f.value("{sum}"), f.value("{date}")),
			fmt.Sprintf("%s，刷卡消费，商户类别：%s，流水号%s，金额%s，入账日期%s。\n", f.value("{date}"), f.of("超市", "加油站", "书店", "药店"), f.value("{number}"), f.value("{sum}"), f.value("{date}"))))
	}
	return strings.TrimRight(b.String(), "\n")
}

func (f *filler) name() string {
	return f.either(f.of("Anna", "John", "Maria", "Peter", "Ruth", "Tom")+" "+f.of("Miller", "Baker", "Smith", "Wood", "Hill", "Stone", "Fisher"),
		f.of("王", "李", "张", "刘", "陈", "杨", "周")+f.of("建国", "秀英", "伟", "芳", "晓明", "丽", "志强"))
}

func (f *filler) either(english, chinese string) string {
	if f.chinese {
		return chinese
	}
	return english
}

func (f *filler) of(values ...string) string { return values[f.r.IntN(len(values))] }
