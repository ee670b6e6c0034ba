package address

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// head is the row of names that an address begins with.
type head struct {
	*route
	table      *placeTable
	end        int  // the place behind it
	last       int  // the place behind its last name that ends as names do
	number     bool // a number follows
	noneBefore int  // no address begins before this place; 0: not known
}

// scan reads names up to the first number, or to what no address holds.
func (h *head) scan() {
	for k := 0; k < maxHead; {
		r := h.at(k)
		switch {
		case r == text.Edge:
			h.end = k
			if !h.full {
				h.noneBefore = k
			}
			return
		case h.blank(k) && k > h.last && !h.bridges(k):
			h.end = k
			return
		case text.IsDigit(r) || r == '#' || text.Misread(r) != 0 && text.IsDigit(h.at(k+1)):
			h.end, h.number = k, true
			return
		case k-h.last >= maxName && (k-h.last >= maxDivision || !h.divided(h.last, k)):
			h.end = k
			return
		case text.IsLetter(r):
			if k == 0 || h.lettered(k) > 0 {
				h.end, h.number = k, true
				return
			}
			k++
			continue
		case r == '·' && k > h.last && text.IsHan(h.at(k+1)):
			k++
			continue
		case !text.IsHan(r):
			if k > 0 && k == h.last && (r == '-' || r == '/') && text.IsHan(h.at(k+1)) {
				k++
				h.last = k
				continue
			}
			h.end, h.noneBefore = k, k+1
			return
		}
		flags := h.table.of(r)
		if n := h.stop(k, flags); n > 0 {
			h.end, h.noneBefore = k, k+n
			return
		}
		if flags&placeCount != 0 && (h.spelt(k) || h.lettered(k) > 0 || r == '第' && (text.IsDigit(h.at(k+1)) || h.spelt(k+1))) {
			h.end, h.number = k, true
			return
		}
		if n := h.landmark(k, flags); n > 0 {
			k += n
			k += h.any(k, landmarkJoins)
			h.last = k
			continue
		}
		k++
		if flags&placeEnd != 0 && (k > h.last+1 || h.last > 0) {
			h.last = k
		}
	}
	h.end = maxHead
}

// landmarks stand between a place that everybody knows and the one that is meant.
var (
	landmarks     = []string{"对面", "斜对面", "后面", "旁边", "隔壁", "东门", "西门", "南门", "北门"}
	landmarkJoins = text.ListOf("那个", "的", "那边的")
)

func (h *head) landmark(k int, flags uint16) int {
	if k == 0 || flags&placeMark == 0 {
		return 0
	}
	return h.longest(k, h.table.marks.of(h.at(k)))
}

// stop returns the length of the word at place k that no name holds, or 0; flags are those of its first character.
func (h *head) stop(k int, flags uint16) int {
	r, longest := h.at(k), 0
	if flags&(placeStop|placeWord) == 0 || flags&placeExempt != 0 && h.longest(k, h.table.exempts.of(r)) > 0 {
		return 0
	}
	if flags&placeStop != 0 {
		longest = 1
	}
	if flags&placeWord != 0 {
		longest = max(longest, h.longest(k, h.table.words.of(r)))
	}
	return longest
}

// bridges reports whether a name goes on behind the blanks before place k, as in texts that were read by a machine.
func (h *head) bridges(k int) bool {
	r := h.at(k)
	if k-h.last == 1 && (h.last > 0 || !text.IsHan(h.w.At(h.cell[0]-1)) || h.table.before(h.w, h.cell[0]).why != 0) || text.IsDigit(r) || h.spelt(k) || h.table.of(r)&placeEnd != 0 {
		return true
	}
	if to, _ := h.divisions(h.last, k); to == k {
		return true
	}
	if h.divided(h.last, k) { // a name of several parts, such as 恩施土家族苗族自治州
		end := k
		for text.IsHan(h.at(end)) && end < k+maxName && (end == k || !h.gap[end]) {
			end++
		}
		if n, _, _ := lexicon.Division(h.r[h.last:end]); n > k-h.last {
			return true
		}
	}
	next := h.at(k + 1)
	return text.IsHan(r) && (text.IsDigit(next) || h.table.of(next)&placeEnd != 0)
}

// divided reports whether the name of a division begins in place k, and ends before place end.
func (h *head) divided(k, end int) bool {
	n, _, _ := lexicon.Division(h.r[k:end])
	return n > 0
}

// spelt reports whether a number in Chinese numerals with what it counts stands at place k. Names hold numerals too: 三坊七巷.
func (h *head) spelt(k int) bool {
	if !isNumeral(h.at(k)) {
		return false
	}
	end := h.numerals(k)
	n, s := h.unit(end)
	if n > 0 && s == floor {
		return (k == h.last || h.at(k-1) == '第') && !strings.ContainsRune("巷条院街", h.at(end))
	}
	return n > 0
}

// sort is what kind of name a head ends with.
type placeSort uint8

const (
	other placeSort = iota
	road
	village
	estate
	region // a division or a town
)

// sort returns how the head ends before place end.
func (h *head) sort(end int) placeSort {
	for end > 2 && h.trails(h.at(end-1)) {
		end--
	}
	if end > 3 && h.endsWith(0, end, houseWords) {
		end -= 2
	}
	if end < 2 || h.endsWith(0, end, noRoads) {
		return other
	}
	before := h.at(end - 2)
	switch h.at(end - 1) {
	case '路', '街', '巷', '弄', '衖', '段', '条':
		return road
	case '道':
		if before == '街' {
			return region
		}
		return road
	case '同':
		if before == '胡' {
			return road
		}
	case '村', '屯', '庄', '寨', '莊':
		return village
	case '查', '木':
		if before == '嘎' || before == '苏' {
			return village
		}
	case '区', '區':
		switch before {
		case '社':
			return village
		case '小', '园', '发', '新', '家', '宿', '院', '期':
			return estate
		}
		return region
	case '组', '社', '委', '会':
		return village
	case '省', '市', '县', '旗', '盟', '镇', '乡', '縣', '鎮', '鄉':
		return region
	case '心':
		return estate
	}
	if h.table.of(h.at(end-1))&placeEnd != 0 {
		return estate
	}
	return other
}

// trails reports whether a rune may stand between a name and its number.
func (h *head) trails(r rune) bool {
	switch r {
	case '甲', '乙', '丙', '丁', '附', '东', '西', '南', '北', '中', '第', '新', '旧', '临':
		return true
	}
	return false
}
