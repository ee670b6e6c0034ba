package lexicon

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestOrdinary(t *testing.T) {
	for text, want := range map[string]int{
		"高兴": 2, "方法": 2, "时间": 2, "任务单": 3, "成功": 2, "金额": 2, "白天": 2, "黄金": 2, "周末": 2, "周五": 2, "马上": 2, "王国": 2,
		"张贴公告": 4, "陈述": 2, "何时": 2, "钱包": 2, "余额不足": 4, "常见": 2, "安全": 2, "关于": 2, "于是": 2, "和平": 2, "温度": 2,
		"文件": 2, "路线": 2, "江苏": 2, "海口": 2, "华为": 2, "王府井": 3, "明天": 2, "国家": 2, "电话": 2, "银行": 2, "医院": 2,
		"王小明": 0, "张伟": 0, "李娜": 0, "陈建国": 0, "刘德华": 0, "欧阳娜娜": 0, "张三": 0, "": 0, "高": 0, "abc": 0,
	} {
		if got := Ordinary([]rune(text)); got != want {
			t.Errorf("Ordinary(%q) = %d, want %d", text, got, want)
		}
	}
}

func TestSurname(t *testing.T) {
	for text, want := range map[string]struct {
		n    int
		tier Tier
	}{
		"王芳": {1, Common}, "欧阳娜": {2, Usual}, "欧文": {1, Usual}, "诸葛亮": {2, Usual}, "酆": {1, Rare}, "陳水": {1, Usual}, "上官": {2, Usual},
		"上海": {0, None}, "": {0, None}, "A": {0, None}, "的": {0, None}, "爱新觉罗": {4, Usual},
	} {
		if n, tier := Surname([]rune(text)); n != want.n || tier != want.tier {
			t.Errorf("Surname(%q) = %d, %d, want %d, %d", text, n, tier, want.n, want.tier)
		}
	}
	for _, r := range "高时和于任成方金白黄" {
		if !BeginsWords(r) {
			t.Errorf("BeginsWords(%q) is false", r)
		}
	}
	if BeginsWords('刘') || BeginsWords('x') {
		t.Error("刘 or x begins words")
	}
}

func TestGiven(t *testing.T) {
	for _, r := range "伟芳娜秀英敏静丽强磊军洋勇艳杰娟涛明超兰霞平刚桂" {
		if Given(r) != Common {
			t.Errorf("Given(%q) = %d", r, Given(r))
		}
	}
	for _, r := range "的了吗呢您癌死x１" {
		if Given(r) != None {
			t.Errorf("Given(%q) = %d", r, Given(r))
		}
	}
	if n := GivenWord([]rune("建国说")); n != 2 {
		t.Errorf("GivenWord(建国说) = %d", n)
	}
	for text, want := range map[string]int{"高峰": 2, "江涛来电": 2, "白雪": 2, "方法": 0, "周末": 0, "时间": 0, "": 0} {
		if n := FullNameWord([]rune(text)); n != want {
			t.Errorf("FullNameWord(%s) = %d", text, n)
		}
	}
}

func TestDivision(t *testing.T) {
	for text, want := range map[string]struct {
		n     int
		level Level
		short bool
	}{
		"浙江省杭州市": {3, Province, false}, "杭州市西湖区": {3, Prefecture, false}, "西湖区文三路": {3, County, false}, "浙江": {2, Province, true},
		"广西壮族自治区": {7, Province, false}, "广西南宁": {2, Province, true}, "恩施土家族苗族自治州": {10, Prefecture, false}, "新疆": {2, Province, true},
		"北京市": {3, Province, false}, "内蒙古": {3, Province, true}, "巴音郭楞州": {5, Prefecture, false}, "巴音郭楞": {4, Prefecture, true}, "恩施州利川": {3, Prefecture, false},
		"长阳县": {3, County, false}, "萧山市": {3, County, false},
		"香港": {2, Province, true}, "浦东新区": {4, County, false}, "我们": {0, NoLevel, false}, "通县": {2, County, false}, "": {0, NoLevel, false},
	} {
		if n, level, short := Division([]rune(text)); n != want.n || level != want.level || short != want.short {
			t.Errorf("Division(%q) = %d, %d, %v, want %v", text, n, level, short, want)
		}
	}
}

func TestRegion(t *testing.T) {
	for code, want := range map[string]bool{
		"110105": true, "310115": true, "330106": true, "440301": true, "810000": true, "820000": true, "830000": true,
		"110103": true, "512301": true, "110199": false, "990101": false, "000000": false, "11010": false, "1101055": false, "11010x": false, "": false,
	} {
		if Region(code) != want {
			t.Errorf("Region(%q) is %v", code, !want)
		}
	}
	if !ProvinceCode("3399") || ProvinceCode("99") || ProvinceCode("1") || ProvinceCode("a1") {
		t.Error("province codes are wrong")
	}
}

func TestCues(t *testing.T) {
	for text, want := range map[string]struct {
		n   int
		cue Cue
	}{
		"请填写姓名": {2, Label}, "本院认为被告人": {3, Label}, "我叫": {2, Verb}, "他的妻子": {2, Relation}, "村民": {2, TitleBefore}, "北京": {0, 0}, "": {0, 0},
		"被上诉人": {4, Label}, "Name": {4, Label},
	} {
		if n, cue := CueBefore([]rune(text)); n != want.n || cue&want.cue != want.cue {
			t.Errorf("CueBefore(%q) = %d, %b, want %v", text, n, cue, want)
		}
	}
	for text, want := range map[string]struct {
		n   int
		cue Cue
	}{
		"先生您好": {2, TitleAfter}, "副主任医师": {5, TitleAfter}, "说": {1, Next}, "的儿子": {1, Next}, "女士": {2, TitleAfter}, "，": {0, 0}, "": {0, 0},
	} {
		if n, cue := CueBehind([]rune(text)); n != want.n || cue&want.cue != want.cue {
			t.Errorf("CueBehind(%q) = %d, %b, want %v", text, n, cue, want)
		}
	}
}

func TestNumbers(t *testing.T) {
	for digits, want := range map[string]string{
		"6222021234567890123": "工商银行", "6228480402564890018": "农业银行", "6225880137654321": "招商银行", "6217001234567890123": "建设银行",
		"1234567890123456": "", "62220": "", "62220x": "",
	} {
		if bank, length := CardBank(digits); bank != want || length != (want != "") {
			t.Errorf("CardBank(%s) = %q, %v", digits, bank, length)
		}
	}
	if bank, length := CardBank("62220212345678"); bank != "工商银行" || length {
		t.Errorf("a card of 14 digits: %q, %v", bank, length)
	}
	for digits, want := range map[string]string{
		"6222021234567890123": "unionpay", "4111111111111111": "visa", "5555555555554444": "mastercard", "2221000000000009": "mastercard",
		"378282246310005": "amex", "3530111333300000": "jcb", "30569309025904": "diners", "41111111111111": "", "411": "", "0111111111111111": "",
	} {
		if got := CardScheme(digits); got != want {
			t.Errorf("CardScheme(%s) = %q, want %q", digits, got, want)
		}
	}
	for digits, want := range map[string]int{"01088886666": 3, "0571": 4, "0571888": 4, "0100": 3, "0200": 3, "0999": 4, "0300": 0, "01": 0, "13800138000": 0} {
		if n, cities := AreaCode(digits); n != want || (cities == "") != (want == 0) {
			t.Errorf("AreaCode(%s) = %d, %q", digits, n, cities)
		}
	}
}

// TestLongestMatchEqualsReference asks the tries about random texts made of their own words, cut and joined at random.
func TestLongestMatchEqualsReference(t *testing.T) {
	for name, tried := range map[string]struct {
		words  []string
		lookup func([]rune) int
	}{
		"Ordinary":  {ordinaryWords(), Ordinary},
		"GivenWord": {keyed(givenWordText, "given"), GivenWord},
		"FullName":  {keyed(givenWordText, "full"), FullNameWord},
		"Division":  {divisionNames(), func(text []rune) int { n, _, _ := Division(text); return n }},
		"CueBefore": {slices.Concat(Cues(Label), Cues(TitleBefore), Cues(Relation), Cues(Verb)), func(text []rune) int {
			n := 0
			for from := range text { // the longest cue that ends where some prefix ends and begins with text
				if k, _ := CueBefore(text[:from+1]); k == from+1 {
					n = k
				}
			}
			return n
		}},
		"CueBehind": {slices.Concat(Cues(TitleAfter), Cues(Relation), Cues(Next)), func(text []rune) int { n, _ := CueBehind(text); return n }},
	} {
		set, longest := make(map[string]bool), 0
		for _, w := range tried.words {
			set[w] = true
			longest = max(longest, len([]rune(w)))
			if got := tried.lookup([]rune(w)); got != len([]rune(w)) {
				t.Fatalf("%s does not know %s whole: %d", name, w, got)
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 50_000 {
			var text []rune
			for range 3 {
				w := []rune(tried.words[random.IntN(len(tried.words))])
				text = append(text, w[:1+random.IntN(len(w))]...)
			}
			want := 0
			for n := 1; n <= min(longest, len(text)); n++ {
				if set[string(text[:n])] {
					want = n
				}
			}
			if got := tried.lookup(text); got != want {
				t.Fatalf("%s(%q) = %d, want %d", name, string(text), got, want)
			}
		}
	}
}

func ordinaryWords() (words []string) {
	for _, s := range sections(wordText) {
		for _, rest := range s.words[1:] {
			words = append(words, s.words[0]+rest)
		}
	}
	return words
}

func divisionNames() (names []string) {
	for _, s := range sections(divisionText) {
		for _, name := range s.words {
			names = append(names, name)
			if short := shortName(name); short != "" {
				names = append(names, short)
				if suffix := autonomous(name); suffix != "" {
					names = append(names, short+suffix)
				}
			}
		}
	}
	return names
}

// keyed collects the words of the sections with a key.
func keyed(text, key string) (words []string) {
	for _, s := range sections(text) {
		if s.key == key {
			words = append(words, s.words...)
		}
	}
	return words
}

// TestData reads every file as it is written: sorted where it is sorted, nothing twice, and as much of it as the documentation says.
func TestData(t *testing.T) {
	size := 0
	for name, text := range map[string]string{
		"words": wordText, "divisions": divisionText, "regions": regionText, "surnames": surnameText, "given": givenText,
		"givenwords": givenWordText, "namesakes": namesakeText, "cues": cueText, "bins": binText, "areacodes": areaText,
	} {
		size += len(text)
		if strings.ContainsAny(text, "\r\t\uFEFF\uFFFD") || !strings.HasPrefix(text, "#") {
			t.Errorf("%s: a stray character, or no heading", name)
		}
	}
	if size > 600_000 {
		t.Errorf("the data takes %d bytes", size)
	}
	for name, list := range map[string]struct {
		words []string
		least int
	}{"words": {ordinaryWords(), 20_000}, "regions": {codes(regionText), 6_000}, "areacodes": {firsts(areaText), 300}} {
		if !slices.IsSorted(list.words) || len(slices.Compact(slices.Clone(list.words))) != len(list.words) || len(list.words) < list.least {
			t.Errorf("%s: unsorted, something twice, or only %d", name, len(list.words))
		}
	}
	for _, s := range sections(divisionText) {
		if !slices.IsSorted(s.words) {
			t.Errorf("divisions: %s is not sorted", s.key)
		}
	}
	kinds := map[string]bool{}
	for _, s := range sections(namesakeText) {
		if !kinds[s.key] && !slices.IsSorted(keyed(namesakeText, s.key)) {
			t.Errorf("namesakes: %s is not sorted", s.key)
		}
		kinds[s.key] = true
	}
	if len(kinds) != 9 {
		t.Errorf("namesakes: %d kinds", len(kinds))
	}
	noneTwice(t, "namesakes", sections(namesakeText))
	noneTwice(t, "divisions", sections(divisionText))
	noneTwice(t, "given", runes(sections(givenText)))
	noneTwice(t, "surnames", runes(slices.DeleteFunc(sections(surnameText), func(s section) bool { return s.key == "word" || s.key == "compound" })))
	noneTwice(t, "givenwords", []section{{words: keyed(givenWordText, "given")}})
	noneTwice(t, "full names", []section{{words: keyed(givenWordText, "full")}})
	noneTwice(t, "bins", sections(binText))
	for _, s := range sections(cueText) {
		noneTwice(t, "cues "+s.key, []section{s})
	}
}

func codes(text string) (codes []string) {
	for _, s := range sections(text) {
		for _, last := range s.words[1:] {
			codes = append(codes, s.words[0]+last)
		}
	}
	return codes
}

func firsts(text string) (words []string) {
	for _, s := range sections(text) {
		words = append(words, s.words[0])
	}
	return words
}

// runes splits the words of sections into characters.
func runes(all []section) []section {
	for i, s := range all {
		all[i].words = strings.Split(strings.Join(s.words, ""), "")
	}
	return all
}

func noneTwice(t *testing.T, name string, all []section) {
	t.Helper()
	seen := make(map[string]bool)
	for _, s := range all {
		for _, w := range s.words {
			if seen[w] {
				t.Errorf("%s: %s is there twice", name, w)
			}
			seen[w] = true
		}
	}
}

func TestLookupsAllocateNothing(t *testing.T) {
	text := []rune("余额不足请联系欧阳娜先生")
	if n := testing.AllocsPerRun(100, func() {
		for i := range text {
			Surname(text[i:])
			BeginsWords(text[i])
			Given(text[i])
			GivenWord(text[i:])
			FullNameWord(text[i:])
			Ordinary(text[i:])
			Division(text[i:])
			CueBefore(text[:i])
			CueBehind(text[i:])
		}
		Region("110105")
		ProvinceCode("110105")
		CardBank("6222021234567890123")
		CardScheme("6222021234567890123")
		AreaCode("057188886666")
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzLookups holds every lookup to the bounds of what it is given, and lengths to what the shorter text says as well.
func FuzzLookups(f *testing.F) {
	for _, seed := range []string{"", "欧阳娜娜说", "浙江省杭州市西湖区", "11010519491231002X", "6222021234567890123", "01088886666", "\xff\u200b余额", "Name", "𠮷野家"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := []rune(s)
		surname := func(text []rune) int { n, _ := Surname(text); return n }
		division := func(text []rune) int { n, _, _ := Division(text); return n }
		behind := func(text []rune) int { n, _ := CueBehind(text); return n }
		for i := range text {
			for _, lookup := range []func([]rune) int{surname, GivenWord, FullNameWord, Ordinary, division, behind} {
				n := lookup(text[i:])
				if n < 0 || n > len(text)-i || lookup(text[i:i+n]) != n {
					t.Fatalf("%d of %q", n, string(text[i:]))
				}
			}
			if n, cue := CueBefore(text[:i]); n > i || (n == 0) != (cue == 0) {
				t.Fatalf("%d, %d before %d in %q", n, cue, i, s)
			}
		}
		Region(s)
		ProvinceCode(s)
		CardBank(s)
		CardScheme(s)
		if n, cities := AreaCode(s); n > len(s) || (n == 0) != (cities == "") {
			t.Fatalf("AreaCode(%q) = %d, %q", s, n, cities)
		}
	})
}

func BenchmarkProse(b *testing.B) {
	text := []rune(strings.Repeat("昨天下午客户来电反映余额不足，经办人王小明答复说明天上午会联系杭州市西湖区的客户经理处理，请耐心等待。", 20))
	b.SetBytes(int64(len(text))) // MB/s reads as million characters a second
	for b.Loop() {
		for i, r := range text {
			Surname(text[i:])
			Given(r)
			Ordinary(text[i:])
		}
	}
}
