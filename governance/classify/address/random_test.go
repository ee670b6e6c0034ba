package address_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
)

func pick(r *rand.Rand, words string) string {
	w := strings.Fields(words)
	return w[r.IntN(len(w))]
}

// composed writes an address as the grammar of the tests has it; names are none of the corpus's.
func composed(r *rand.Rand) string {
	division := pick(r, "辽宁省鞍山市铁东区 山东省烟台市芝罘区 湖南省株洲市天元区 广东省佛山市禅城区 江西省九江市浔阳区 河北省邢台市襄都区 四川省乐山市市中区 陕西省宝鸡市渭滨区 福建省漳州市芗城区 浙江省湖州市吴兴区 宝山区 江宁区 绍兴市越城区 黔南布依族苗族自治州都匀市")
	road := pick(r, "二一九路 胜利路 炎帝大道 祖庙路 浔阳东路 中兴大街 嘉定中路 经二路 延安北路 苕溪西路 牡丹江路 双龙大道 鲁迅中路 剑江南路 红旗大街 滨江二路")
	estate := pick(r, "湖光花园 丽水佳园 桃源小区 龙泉苑 金地公寓 华府名邸 星海家园 翠屏山庄 锦城丽都花园 春江花月小区")
	number := func(most int) string {
		n := 1 + r.IntN(most)
		if r.IntN(4) == 0 && n < 100 {
			return hanNumber(n)
		}
		return fmt.Sprint(n)
	}
	room := fmt.Sprintf("%d%02d", 1+r.IntN(30), 1+r.IntN(8))
	tail := []string{
		number(60) + "号楼" + number(6) + "单元" + room + "室",
		number(60) + "栋" + room,
		number(60) + "幢" + room + "室",
		number(20) + "栋" + number(4) + "单元" + number(30) + "楼",
		fmt.Sprintf("%d-%d-%s", 1+r.IntN(40), 1+r.IntN(6), room),
		pick(r, "A座 B座 东座") + room + "室",
	}[r.IntN(6)]
	gate := road + number(999) + pick(r, "号 号 号 弄 号院")
	switch r.IntN(7) {
	case 0:
		return division + gate + tail
	case 1:
		return division + gate
	case 2:
		return gate + estate + tail
	case 3:
		return division + estate + tail
	case 4:
		return estate + tail
	case 5:
		return division + pick(r, "汤岗子镇 高新街道 白关镇 三山乡") + pick(r, "前峪村 大孤山村 曲江村 周家屯村") + number(20) + pick(r, "组 号 社")
	}
	return gate + tail
}

func hanNumber(n int) string {
	digits := []rune("零一二三四五六七八九")
	out := ""
	if n > 19 {
		out = string(digits[n/10])
	}
	if n > 9 {
		out += "十"
	}
	if n%10 > 0 {
		out += string(digits[n%10])
	}
	return out
}

// TestComposedAddressesAreFoundWhole: an address of the grammar is found whole whatever stands around it, and little more than it.
func TestComposedAddressesAreFoundWhole(t *testing.T) {
	set := classify.New(classify.Address)
	lefts := []string{"", "他住在", "收货地址：", "请送到", "我在", "姓名：李明，地址 ", "反映", "电话13800138000，", "\n", "（", "\"", "位于", "昨天下午在", "被告住"}
	rights := []string{"", "，", "。请尽快", "的房子", "门口", "附近", "\n", "）", "\"", "，联系人王芳", "发生漏水", " 13800138000", "被盗"}
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 7))
		address := composed(r)
		left, right := lefts[r.IntN(len(lefts))], rights[r.IntN(len(rights))]
		text := left + address + right
		found := set.Find(text)
		if len(found) != 1 || found[0].Start != len(left) || found[0].End < len(left)+len(address) {
			t.Fatalf("seed %d: %q: %s", seed, address, mark(set, text))
		}
		if extra := text[len(left)+len(address) : found[0].End]; utf8.RuneCountInString(extra) > 0 {
			t.Fatalf("seed %d: %q has %q more", seed, address, extra)
		}
	}
}

// addressFragments are what addresses and their surroundings are made of.
func addressFragments() []string {
	return strings.Split("浙江省|杭州|杭州市|西湖区|文三路|路|街|解放|锦绣|花园|小区|3|12|5|501|1204|号|号楼|栋|单元|室|层|楼|座|A|B|-|#|之|甲|附|村|组|王家|镇|街道| |  |\n|，|,|、|。|：|:|(|)|地址|住|住在|位于|反映|的|在|和|将|对面|东户|第|三|十二|一百|零|l|O|SOHO|/|\"|addr|恩施土家族苗族自治州|恩施土|家族|呼和浩特|大厦|广场|会议室|13800138000|2024-01-02|张三|年|１２|Ａ座|号线|今天天气很好|不|村民小组|家|东头|线|%E6|\\u8def|\\n|\xff", "|")
}

// TestCutAddresses: however a text about addresses is cut, the same is found.
func TestCutAddresses(t *testing.T) {
	sets := []*classify.Set{classify.New(classify.Address), classify.New()}
	parts := addressFragments()
	for seed := range uint64(6000) {
		r := rand.New(rand.NewPCG(seed, 11))
		var b strings.Builder
		for range 1 + r.IntN(24) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		text, set := b.String(), sets[seed%2]
		want := scan(set, text)
		if got := scan(set, cut(r, text)...); got != want {
			t.Fatalf("seed %d: %q gives\n%s\nwant\n%s", seed, text, got, want)
		}
		if got := scan(set, strings.Split(text, "")...); got != want {
			t.Fatalf("seed %d: %q rune by rune gives\n%s\nwant\n%s", seed, text, got, want)
		}
		wantOrdered(t, text, set.Find(text))
	}
	set := classify.New(classify.Address)
	for _, line := range append(examplesOf(addressPositives), examplesOf(addressNegatives)...) {
		text := strings.NewReplacer("«", "", "»", "").Replace(line)
		want := scan(set, text)
		for i := range len(text) {
			if got := scan(set, text[:i], text[i:]); got != want {
				t.Fatalf("%q cut at %d gives\n%s\nwant\n%s", text, i, got, want)
			}
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, line := range append(examplesOf(addressPositives), examplesOf(addressNegatives)...) {
		f.Add(strings.NewReplacer("«", "", "»", "").Replace(line), uint16(7))
	}
	set := classify.New(classify.Address)
	f.Fuzz(func(t *testing.T, text string, a uint16) {
		wantOrdered(t, text, set.Find(text))
		i := int(a) % (len(text) + 1)
		if got, want := scan(set, text[:i], text[i:]), scan(set, text); got != want {
			t.Fatalf("cut at %d: %s\nwant %s", i, got, want)
		}
	})
}
