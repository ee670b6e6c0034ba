package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	openings = "([〔【［{〈<《"
	closings = ")]〕】］}〉>》"
)

// caseYear reads a year in brackets of any kind at cell i, or without some of them.
func caseYear(w *Detector, i int) (end int, opened, closed bool, v text.Verdict) {
	blank := func() {
		if text.IsBlank(w.At(i)) {
			i++
		}
	}
	if r := w.At(i); r > 0 && strings.ContainsRune(openings, r) {
		opened = true
		i++
		blank()
	}
	for k := range 4 {
		r := w.At(i)
		if k > 0 && text.IsBlank(r) {
			i++
			r = w.At(i)
		}
		if r == text.Unknown {
			return i, opened, closed, text.Open
		}
		c := byte(r)
		if r > 'z' || !text.IsDigit(r) {
			if c = text.Misread(r); c == 0 {
				return i, opened, closed, text.No
			}
		}
		if k == 0 && c != '1' && c != '2' || k == 1 && c != '9' && c != '0' {
			return i, opened, closed, text.No
		}
		i++
	}
	if w.At(i) == '年' && opened {
		i++
	}
	blank()
	if r := w.At(i); r == text.Unknown {
		return i, opened, closed, text.Open
	} else if r > 0 && strings.ContainsRune(closings, r) {
		closed = true
		i++
		blank()
	}
	if w.At(i) == text.Unknown {
		return i, opened, closed, text.Open
	}
	return i, opened, closed, text.Yes
}

const (
	caseLongest = 32 // cells between the year and 号
	caseMarks   = "民刑行执破赔仲知诉财监清申字认商保海辖特督催司惩更减假协强审恢"
)

// courtCase finds the numbers of cases: （2024）京01刑初123号, with brackets of any kind or none and blanks anywhere.
func courtCase(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if r := w.At(i); text.IsDigit(r) && (text.IsDigit(w.At(i-1)) || r != '1' && r != '2') {
		return finding.Candidate{}, text.No
	}
	k, opened, closed, v := caseYear(w, i)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	first := w.At(k)
	if !text.IsHan(first) {
		return finding.Candidate{}, text.No
	}
	if !closed && !isProvince(first) && first != '最' {
		return finding.Candidate{}, text.No
	}
	marks, digits, han := 0, 0, 0
	for n := 0; n < caseLongest; n++ {
		r := w.At(k)
		switch {
		case r == text.Unknown:
			return finding.Candidate{}, text.Open
		case r == '号':
			if marks == 0 || digits == 0 || han > 14 {
				return finding.Candidate{}, text.No
			}
			m := finding.Candidate{Kind: finding.CourtCase, Start: i, End: k + 1, Form: 0.8}
			if !opened && !closed {
				m.Form = 0.6
			}
			m.End, v = caseTail(w, m.End)
			return m, v
		case text.IsHan(r) || r == '〇':
			if r == '第' && digits > 0 && marks == 0 || strings.ContainsRune("年月日的了在是和为元", r) {
				return finding.Candidate{}, text.No
			}
			if strings.ContainsRune(caseMarks, r) {
				marks++
			}
			digits, han = 0, han+1
		case text.IsDigit(r) || text.Misread(r) > 0:
			digits++
		case text.IsBlank(r) || digits > 0 && strings.ContainsRune("-、,", r) || strings.ContainsRune("()", r):
		default:
			return finding.Candidate{}, text.No
		}
		k++
	}
	return finding.Candidate{}, text.No
}

// caseTail reads 之一 behind a number.
func caseTail(w *Detector, end int) (int, text.Verdict) {
	k, v := w.While(end, 1, text.IsBlank)
	if v == text.Open {
		return end, text.Open
	}
	if w.At(k) != '之' {
		return end, text.When(w.At(k) == text.Unknown, text.Open, text.Yes)
	}
	from, v := w.While(k+1, 1, text.IsBlank)
	if v == text.Open {
		return end, text.Open
	}
	to, v := w.While(from, 3, func(r rune) bool { return text.IsDigit(r) || text.Numeral(r) > 0 || r == '十' })
	if v == text.Open {
		return end, text.Open
	}
	if to == from {
		return end, text.Yes
	}
	return to, text.Yes
}

const procuratorateWords = "检一二三四五六七八九十0123456789部刑诉不批捕公侦抗申监未民行执建赔控起立意撤逮复移审查院改书字"

// procuratorateSigns are cities and courts that numbers of procuratorates begin with, besides the provinces.
const procuratorateSigns = "高最杭甬温绍嘉衢舟锡常徐通盐扬镇泰穗深珠佛莞惠汕武郑洛济烟潍西成绵长株合芜福厦泉昌昆石保唐太沈大哈"

// procuratorateCase finds the numbers of procuratorates: 京检一部刑诉〔2024〕12号. They begin with a province or 最高 or 高, a place of up
// to three characters, and 检.
func procuratorateCase(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k := i + 1
	for n := 0; ; n++ {
		r := w.At(k)
		if r == text.Unknown {
			return finding.Candidate{}, text.Open
		}
		if r == '检' {
			break
		}
		if n == 5 || !text.IsHan(r) && !text.IsBlank(r) {
			return finding.Candidate{}, text.No
		}
		k++
	}
	k, v := w.While(k, 14, func(r rune) bool { return text.IsBlank(r) || r > 0 && strings.ContainsRune(procuratorateWords, r) })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if w.At(k) == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	end, v := yearAndNumber(w, k)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	return finding.Candidate{Kind: finding.CourtCase, Start: i, End: end, Form: 0.8}, text.Yes
}

// yearAndNumber reads 〔2024〕12号.
func yearAndNumber(w *Detector, k int) (end int, v text.Verdict) {
	k, opened, closed, v := caseYear(w, k)
	if v != text.Yes || !opened && !closed {
		return k, v & text.Open
	}
	body, v := w.While(k, 10, func(r rune) bool {
		return text.IsDigit(r) || text.Misread(r) > 0 || text.IsBlank(r) || strings.ContainsRune("Z第-", r)
	})
	if v == text.Open {
		return k, text.Open
	}
	if r := w.At(body); r != '号' || !w.Any(k, body, text.IsDigit) {
		return k, text.When(r == text.Unknown, text.Open, text.No)
	}
	return body + 1, text.Yes
}

const (
	documentHeads = "国中京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼财人银发教建交工商税法证保农水科民公安监市环自司外文审卫应政厅办"
	documentWords = documentHeads + "委部社医规函政务院改府令通字电调价资企管党组纪宣统会局运能林海关质食药械广体旅统气象计生综明综密内厅局便复批示决报请行预库金所增非土房城乡规划住建〇一二三四五六七八九十"
)

var inDocuments = text.RunesOf(documentWords)

// document finds the numbers of official documents: 国办发〔2024〕5号.
func document(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if inDocuments.Has(w.At(i - 1)) {
		return finding.Candidate{}, text.No
	}
	k, v := w.While(i, 9, inDocuments.Has)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if k-i < 2 {
		return finding.Candidate{}, text.No
	}
	if r := w.At(k); r == text.Unknown || r < 0 || !strings.ContainsRune(openings, r) {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	end, v := yearAndNumber(w, k)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	return finding.Candidate{Kind: finding.Document, Start: i, End: end, Form: 0.8}, text.Yes
}

// officerID finds 军字第1234567号. Some heads are ordinary characters; those need a word that points at them.
func officerID(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k := i + 1
	blank := func() {
		if text.IsBlank(w.At(k)) {
			k++
		}
	}
	blank()
	if r := w.At(k); r != '字' {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	k++
	blank()
	if w.At(k) == '第' {
		k++
		blank()
	}
	if w.At(k) == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	end, v := w.While(k, 10, func(r rune) bool {
		return text.IsDigit(r) || text.Misread(r) > 0 || text.IsBlank(r) || text.Numeral(r) >= 0
	})
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	size := 0
	for _, c := range w.Cells(k, end) {
		if !text.IsBlank(c.R) {
			size++
		}
	}
	if r := w.At(end); r == text.Unknown {
		return finding.Candidate{}, text.Open
	} else if size < 4 || size > 9 {
		return finding.Candidate{}, text.No
	} else if r == '号' {
		end++
	}
	m := finding.Candidate{Kind: finding.OfficerID, Start: i, End: end, Form: 0.35}
	if r := w.At(i); (r == '军' || r == '士' || r == '兵' || r == '文') && size >= 6 {
		m.Form = 0.6
		return m, text.Yes
	}
	return w.Anchor(m, w.Hints(i))
}

const officerHeads = "军士兵文政后装参联南北东西中空海火警武沈兰济广成"
