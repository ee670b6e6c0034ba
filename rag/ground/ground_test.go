package ground_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/sluice-project/sluice/rag/ground"
)

// passages are what the sentences of the tests are held against.
func passages() []string {
	return []string{
		"居住证办理\n申请人应当在居住满六个月后，持身份证到街道服务中心申请居住证。办理时限为15个工作日，工本费20元。居住证有效期一年。未满六个月的，不予办理。咨询电话⟦电话·K7Q2F⟧。",
		"Parking permits\nThe City Council of Springfield issues a parking permit within 10 working days. A permit costs 1,250.50 dollars. Permits are not transferable. Dr. Anna Lee heads desk B12.",
	}
}

// TestCheck: what passages say is supported, in other words of the same kind too; a number, date, name, title or pseudonym that they do not have is not, nor is
// what they deny.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := ground.New(passages())
	for sentence, want := range map[string]int{ // the passage; 0: none
		"办理居住证的时限为15个工作日。":                                              1,
		"居住证的办理时限为十五个工作日。":                                              1,
		"居住证的办理时限为１５个工作日。":                                              1,
		"居住证的办理时限为30个工作日。":                                              0,
		"居住证的办理时限为三十个工作日。":                                              0,
		"居住證有效期一年。":                                                     1,
		"居住证有效期三年。":                                                     0,
		"未满六个月的，不予办理居住证。":                                               1,
		"可拨打咨询电话⟦电话·K7Q2F⟧。":                                            1,
		"可拨打咨询电话⟦电话·ZZZZZ⟧。":                                            0,
		"请依据《居住证条例》办理居住证申请。":                                            0,
		"外星人将于周二降落在市政府门前。":                                              0,
		"居住证不收工本费20元。":                                                  0,
		"居住证工本费20元[1]。":                                                 1,
		"居住证工本费20元[2]。":                                                 0,
		"居住证工本费20元[7]。":                                                 0,
		"居住证工本费20元【2】［1］。":                                              1,
		"A parking permit costs 1250.5 dollars.":                        2,
		"A parking permit costs 1,250 dollars.":                         0,
		"The council issues parking permits within 10 working days.":    2,
		"The council issues parking permits within 1 working days.":     0,
		"The council of Shelbyville issues a parking permit in Durham.": 0,
		"Parking permits are transferable.":                             0,
		"Permits are not transferable.":                                 2,
		"Anna Lee heads desk B12.":                                      2,
		"Anna Leeds heads desk B12.":                                    0,
		"Anna Lee heads desk B1.":                                       0,
		"Sure! Let me help you with that wonderful question.":           0,
	} {
		got := c.Check(sentence)
		if got.Empty || got.Supported != (want > 0) || got.Passage != want {
			t.Errorf("%q: %+v, want passage %d", sentence, got, want)
		}
	}
	for _, s := range []string{"", "  \n", "---\n", "| --- |\n", "- ", "[1]", "[2] [1]\n"} {
		if got := c.Check(s); !got.Empty || got.Supported {
			t.Errorf("%q says something: %+v", s, got)
		}
	}
	if got := ground.New(nil).Check("居住证。"); got.Supported || got.Empty {
		t.Errorf("without passages: %+v", got)
	}
}

// TestEnd: sentences end where people see it, with their citations, and not within numbers, names and lists.
func TestEnd(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"甲。乙！[1][2] 丙":                      {"甲。", "乙！[1][2] ", "丙"},
		"It costs 1.5 euros. Pay now.\nYes": {"It costs 1.5 euros. ", "Pay now.\n", "Yes"},
		"1. First\n2. Second\n":             {"1. First\n", "2. Second\n"},
		"Dr. Lee is here. [1] Ask!":         {"Dr. Lee is here. [1] ", "Ask!"},
		"See example.com. Go.":              {"See example.com. ", "Go."},
		"他说：“好。”然后":                         {"他说：“好。”", "然后"},
	} {
		var got []string
		for rest := text; rest != ""; {
			n := ground.End(rest)
			if n == 0 {
				n = len(rest)
			}
			got, rest = append(got, rest[:n]), rest[n:]
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// TestFigures: a figure that was changed, taken from elsewhere or hidden is found, however it is written, and one that is written in another way is not a change.
func TestFigures(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ passage, sentence, want string }{ // want: what leaves, "" for nothing
		{"办理停车证需要五个工作日。", "办理停车证需要三个工作日。", ""},
		{"办理停车证需要五个工作日。", "办理停车证需要5个工作日。", "办理停车证需要5个工作日。"},
		{"办理停车证需要提交材料三份。", "办理停车证需要提交材料九份。", ""},
		{"逾期缴费加收百分之五。", "逾期缴费加收百分之九。", ""},
		{"逾期缴费加收百分之五。", "逾期缴费加收5%。", "逾期缴费加收5%。"},
		{"逾期缴费加收百分之三点五。", "逾期缴费加收3.5%。", "逾期缴费加收3.5%。"},
		{"逾期缴费加收5%。", "逾期缴费加收5元。", ""},
		{"补贴为房租的三分之一。", "补贴为房租的三分之二。", ""},
		{"停车证的押金为3千元。", "停车证的押金为3万元。", ""},
		{"停车证的押金为30000元。", "停车证的押金为3万元。", "停车证的押金为3万元。"},
		{"停车证的押金为3.5万元。", "停车证的押金为三万五千元。", "停车证的押金为三万五千元。"},
		{"停车证的押金为壹拾贰元。", "停车证的押金为12元。", "停车证的押金为12元。"},
		{"停车证的押金为廿五元。", "停车证的押金为25元。", "停车证的押金为25元。"},
		{"冷库的温度应当保持在-5度。", "冷库的温度应当保持在5度。", ""},
		{"冷库的温度应当保持在零下5度。", "冷库的温度应当保持在-5度。", "冷库的温度应当保持在-5度。"},
		{"停车证一般由社区统一办理。", "停车证由社区办理。", "停车证由社区办理。"},
		{"The office answers requests within seven days.", "The office answers requests within five days.", ""},
		{"The office answers requests within seven days.", "The office answers requests within 7 days.", "The office answers requests within 7 days."},
		{"居民可以在周末申请停车证。外地车辆不能申请停车证。", "居民不能在周末申请停车证。", ""},
		{"居民可以在周末申请停车证。外地车辆不能申请停车证。", "外地车辆不能申请停车证。", "外地车辆不能申请停车证。"},
		{"Residents may apply at weekends. Visitors may not apply for permits.", "Residents may not apply at weekends.", ""},
		{"Parking overnight is permitted.", "Parking overnight is prohibited.", ""},
		{"The emergency number is listed.", "911.", ""},
		{"The emergency number is listed.", "42. ", ""},
		{"The emergency number is listed.", "500)\n", ""},
		{"The fee is 5 euros.", "9.5 euros is the fee.", ""},
		{"The fee is 200 euros a month.", "1.200 euros a month is the fee.", ""},
		{"The fee is 5 euros.", "3. The fee is 5 euros.", "3. The fee is 5 euros."},
		{"The fee is 7 euros.", "The fee is [1] euros.", ""},
		{"The fee is 7 euros.", "The fee is 7 euros [1][99].", "The fee is 7 euros [1]."},
		{"The fee is 7 euros.", "The fee is 7 euros [1, 2].", "The fee is 7 euros [1]."},
		{"The fee is 7 euros.", "The fee is 7 euros [1,1].", "The fee is 7 euros [1,1]."},
		{"Munich hosts the head office of the agency.", "Berlin hosts the head office of the agency.", ""},
		{"Munich hosts the head office of the agency.", "The agency hosts its head office in Munich.", "The agency hosts its head office in Munich."},
		{"依照《停车管理办法》申请停车证。", "依照《停车管理》申请停车证。", ""},
		{"依照《停车管理办法》申请停车证。", "依照《停车管理办法》申请停车证。", "依照《停车管理办法》申请停车证。"},
	} {
		got := ground.New([]string{x.passage}).Check(x.sentence)
		if got.Empty || got.Supported != (x.want != "") || got.Supported && got.Text != x.want {
			t.Errorf("%q bears out %q: %+v", x.passage, x.sentence, got)
		}
	}
	if got := ground.New([]string{"a"}).Check("[99] [1]\n"); !got.Empty || got.Text != " [1]\n" {
		t.Errorf("%+v", got)
	}
}

// TestWorkGoesWithLength: brackets that are no citations are looked at once. It takes a second, and fifteen times as long under the race detector.
func TestWorkGoesWithLength(t *testing.T) {
	if testing.Short() {
		t.Skip("times say nothing under the race detector, which runs the short form")
	}
	t.Parallel()
	began := time.Now()
	for _, part := range []string{"a。[xa。[x", "x? [12 ", "x? [1, ", "甲。［1，", "a.[", "[1 "} {
		text := strings.Repeat(part, ground.MaxPassage/len(part))
		ground.New([]string{text})
		for rest := text; rest != ""; {
			n := ground.End(rest)
			if n == 0 {
				break
			}
			rest = rest[n:]
		}
	}
	if took := time.Since(began); took > 5*time.Second { // it was a minute
		t.Errorf("it took %v", took)
	}
	long := make([]string, 100)
	for i := range long {
		long[i] = strings.Repeat("甲", ground.MaxPassage/3)
	}
	long[99] = "The fee is 7 euros."
	if ground.New(long).Check("The fee is 7 euros.").Supported {
		t.Error("more is looked at than MaxPassages")
	}
}

// FuzzCheck: whatever comes, an end lies within the text on the border of a character, no later text moves an end that was found, and a sentence that is not
// supported names no passage.
func FuzzCheck(f *testing.F) {
	f.Add("办理时限为15个工作日[1]。然后", "另一句。")
	f.Add("A. b. 1.5 [", "2]. c")
	f.Add("千万亿零百万", "⟦")
	c := ground.New(passages())
	f.Fuzz(func(t *testing.T, text, more string) {
		n := ground.End(text)
		if n < 0 || n > len(text) || utf8.ValidString(text) && !utf8.ValidString(text[:n]) {
			t.Fatalf("%q ends at %d", text, n)
		}
		if n > 0 && utf8.ValidString(text) && ground.End(text+more) != n && text[:n] != text {
			t.Errorf("%q ends at %d, with %q behind it at %d", text, n, more, ground.End(text+more))
		}
		if got := c.Check(text); got.Supported != (got.Passage > 0) || got.Empty && got.Supported || len(got.Text) > len(text)+len(text)/2 {
			t.Errorf("%q: %+v", text, got)
		}
	})
}
