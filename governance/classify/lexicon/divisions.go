package lexicon

import (
	_ "embed" // the data files
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// Level is the rank of an administrative division.
type Level uint8

// The levels, the highest first.
const (
	NoLevel    Level = iota
	Province         // 省, 自治区, 直辖市, 特别行政区
	Prefecture       // 地级市, 自治州, 地区, 盟
	County           // 县, 区, 县级市, 旗
)

//go:embed data/divisions.txt
var divisionText string

//go:embed data/regions.txt
var regionText string

// A division's value holds one bit for each level that the name has in full, and the same bits shifted for names without their suffix.
const shortShift = 4

var loadDivisions = sync.OnceValue(func() *trie {
	var entries []entry
	for _, s := range sections(divisionText) {
		level := Level(slices.Index([]string{"province", "prefecture", "county"}, s.key) + 1)
		if level == NoLevel {
			malformed("divisions.txt", s.key)
		}
		bit := uint16(1) << level
		for _, name := range s.words {
			entries = append(entries, entry{[]rune(name), bit})
			short := shortName(name)
			if short == "" {
				continue
			}
			entries = append(entries, entry{[]rune(short), bit << shortShift})
			if suffix := autonomous(name); suffix != "" {
				entries = append(entries, entry{[]rune(short + suffix), bit})
			}
		}
	}
	return newTrie(entries)
})

// Division returns the length of the longest name of a province, prefecture or county that text begins with, its level, and whether it
// is the name without its suffix (浙江, 海淀), which says less: 和平 and 城关 are short names too. A name of several levels has the
// highest. Names that were used earlier are known; towns and streets are not.
func Division(text []rune) (n int, level Level, short bool) {
	n, value := loadDivisions().longest(text)
	if n == 0 {
		return 0, NoLevel, false
	}
	if full := value & (1<<shortShift - 1); full == 0 {
		value >>= shortShift
		short = true
	}
	return n, Level(bits.TrailingZeros16(value)), short
}

// divisionSuffixes are cut from a name, the longest first, to make its short form.
var divisionSuffixes = strings.Fields("特别行政区 自治区 自治州 自治县 自治旗 地区 林区 特区 省 市 盟 县 区 旗")

// divisionPeoples stand before 自治 in the names of autonomous divisions.
var divisionPeoples = strings.Fields(`壮族 回族 维吾尔 蒙古 哈萨克 柯尔克孜 藏族 羌族 彝族 苗族 侗族 布依族 土家族 傣族 景颇族 傈僳族 白族 哈尼族
	朝鲜族 满族 畲族 瑶族 黎族 毛南族 仫佬族 仡佬族 水族 佤族 拉祜族 纳西族 怒族 独龙族 普米族 布朗族 东乡族 保安族 撒拉族 裕固族 土族
	塔吉克 锡伯 各族 蒙古族 哈萨克族 塔吉克族 达斡尔族 鄂温克族`)

// shortName returns a name without its suffix, or "" if less than two characters would be left.
func shortName(name string) string {
	for _, suffix := range divisionSuffixes {
		short, found := strings.CutSuffix(name, suffix)
		if !found {
			continue
		}
		for strings.HasPrefix(suffix, "自治") {
			n := slices.IndexFunc(divisionPeoples, func(p string) bool {
				return strings.HasSuffix(short, p) && len(short) >= len(p)+2*len("汉")
			})
			if n < 0 {
				break
			}
			short = strings.TrimSuffix(short, divisionPeoples[n])
		}
		if len(short) < 2*len("汉") {
			return ""
		}
		return short
	}
	return ""
}

// autonomous returns the suffix by which an autonomous division is called in speech (恩施州, 长阳县), or "".
func autonomous(name string) string {
	for _, suffix := range []string{"州", "县", "旗"} {
		if strings.HasSuffix(name, "自治"+suffix) {
			return suffix
		}
	}
	return ""
}

// regions is the set of six-digit codes, and of their first two digits.
type regions struct {
	codes     [1_000_000/64 + 1]uint64
	provinces [100]bool
}

var loadRegions = sync.OnceValue(func() *regions {
	t := new(regions)
	for _, s := range sections(regionText) {
		for _, last := range s.words[1:] {
			code, ok := number(s.words[0]+last, 6)
			if !ok {
				malformed("regions.txt", s.words[0]+last)
			}
			t.codes[code/64] |= 1 << (code % 64)
			t.provinces[code/10_000] = true
		}
	}
	return t
})

// Region reports whether six digits are a region code of GB/T 2260 that is or was in use, as resident IDs begin with one. The codes of
// the residence permits of Hong Kong, Macau and Taiwan (810000, 820000, 830000) are among them.
func Region(code string) bool {
	n, ok := number(code, 6)
	return ok && loadRegions().codes[n/64]>>(n%64)&1 != 0
}

// ProvinceCode reports whether a code begins with the two digits of a province, which holds for regions that the list may lack.
func ProvinceCode(code string) bool {
	if len(code) < 2 {
		return false
	}
	n, ok := number(code[:2], 2)
	return ok && loadRegions().provinces[n]
}

// number reads a string of exactly so many digits.
func number(digits string, length int) (n uint32, ok bool) {
	if len(digits) != length {
		return 0, false
	}
	for i := range length {
		d := digits[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + uint32(d)
	}
	return n, true
}
