package classify

import "strings"

const (
	openings = "([〔【［{〈<《"
	closings = ")]〕】］}〉>》"
)

// caseYear reads a year in brackets of any kind at cell i, or without some of them.
func caseYear(w *window, i int) (end int, opened, closed bool, v verdict) {
	blank := func() {
		if isBlank(w.at(i)) {
			i++
		}
	}
	if r := w.at(i); r > 0 && strings.ContainsRune(openings, r) {
		opened = true
		i++
		blank()
	}
	for k := range 4 {
		r := w.at(i)
		if k > 0 && isBlank(r) {
			i++
			r = w.at(i)
		}
		if r == unknown {
			return i, opened, closed, open
		}
		c := byte(r)
		if r > 'z' || !isDigit(r) {
			if c = misread(r); c == 0 {
				return i, opened, closed, no
			}
		}
		if k == 0 && c != '1' && c != '2' || k == 1 && c != '9' && c != '0' {
			return i, opened, closed, no
		}
		i++
	}
	if w.at(i) == '年' && opened {
		i++
	}
	blank()
	if r := w.at(i); r == unknown {
		return i, opened, closed, open
	} else if r > 0 && strings.ContainsRune(closings, r) {
		closed = true
		i++
		blank()
	}
	if w.at(i) == unknown {
		return i, opened, closed, open
	}
	return i, opened, closed, yes
}

const (
	caseLongest = 32 // cells between the year and 号
	caseMarks   = "民刑行执破赔仲知诉财监清申字认商保海辖特督催司惩更减假协强审恢"
)

// courtCase finds the numbers of cases: （2024）京01刑初123号, with brackets of any kind or none and blanks anywhere.
func courtCase(w *window, i int) (match, verdict) {
	if r := w.at(i); isDigit(r) && (isDigit(w.at(i-1)) || r != '1' && r != '2') {
		return match{}, no
	}
	k, opened, closed, v := caseYear(w, i)
	if v != yes {
		return match{}, v
	}
	first := w.at(k)
	if !isHan(first) {
		return match{}, no
	}
	if !closed && !isProvince(first) && first != '最' {
		return match{}, no
	}
	marks, digits, han := 0, 0, 0
	for n := 0; n < caseLongest; n++ {
		r := w.at(k)
		switch {
		case r == unknown:
			return match{}, open
		case r == '号':
			if marks == 0 || digits == 0 || han > 14 {
				return match{}, no
			}
			m := match{kind: kCourtCase, start: i, end: k + 1, form: 0.8}
			if !opened && !closed {
				m.form = 0.6
			}
			m.end, v = caseTail(w, m.end)
			return m, v
		case isHan(r) || r == '〇':
			if r == '第' && digits > 0 && marks == 0 || strings.ContainsRune("年月日的了在是和为元", r) {
				return match{}, no
			}
			if strings.ContainsRune(caseMarks, r) {
				marks++
			}
			digits, han = 0, han+1
		case isDigit(r) || misread(r) > 0:
			digits++
		case isBlank(r) || digits > 0 && strings.ContainsRune("-、,", r) || strings.ContainsRune("()", r):
		default:
			return match{}, no
		}
		k++
	}
	return match{}, no
}

// caseTail reads 之一 behind a number.
func caseTail(w *window, end int) (int, verdict) {
	k, v := w.while(end, 1, isBlank)
	if v == open {
		return end, open
	}
	if w.at(k) != '之' {
		return end, when(w.at(k) == unknown, open, yes)
	}
	from, v := w.while(k+1, 1, isBlank)
	if v == open {
		return end, open
	}
	to, v := w.while(from, 3, func(r rune) bool { return isDigit(r) || numeral(r) > 0 || r == '十' })
	if v == open {
		return end, open
	}
	if to == from {
		return end, yes
	}
	return to, yes
}

const procuratorateWords = "检一二三四五六七八九十0123456789部刑诉不批捕公侦抗申监未民行执建赔控起立意撤逮复移审查院改书字"

// procuratorateSigns are cities and courts that numbers of procuratorates begin with, besides the provinces.
const procuratorateSigns = "高最杭甬温绍嘉衢舟锡常徐通盐扬镇泰穗深珠佛莞惠汕武郑洛济烟潍西成绵长株合芜福厦泉昌昆石保唐太沈大哈"

// procuratorateCase finds the numbers of procuratorates: 京检一部刑诉〔2024〕12号. They begin with a province or 最高 or 高, a place of up
// to three characters, and 检.
func procuratorateCase(w *window, i int) (match, verdict) {
	k := i + 1
	for n := 0; ; n++ {
		r := w.at(k)
		if r == unknown {
			return match{}, open
		}
		if r == '检' {
			break
		}
		if n == 5 || !isHan(r) && !isBlank(r) {
			return match{}, no
		}
		k++
	}
	k, v := w.while(k, 14, func(r rune) bool { return isBlank(r) || r > 0 && strings.ContainsRune(procuratorateWords, r) })
	if v == open {
		return match{}, open
	}
	if w.at(k) == unknown {
		return match{}, open
	}
	end, v := yearAndNumber(w, k)
	if v != yes {
		return match{}, v
	}
	return match{kind: kCourtCase, start: i, end: end, form: 0.8}, yes
}

// yearAndNumber reads 〔2024〕12号.
func yearAndNumber(w *window, k int) (end int, v verdict) {
	k, opened, closed, v := caseYear(w, k)
	if v != yes || !opened && !closed {
		return k, v & open
	}
	body, v := w.while(k, 10, func(r rune) bool {
		return isDigit(r) || misread(r) > 0 || isBlank(r) || strings.ContainsRune("Z第-", r)
	})
	if v == open {
		return k, open
	}
	if r := w.at(body); r != '号' || !w.any(k, body, isDigit) {
		return k, when(r == unknown, open, no)
	}
	return body + 1, yes
}

const (
	documentHeads = "国中京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼财人银发教建交工商税法证保农水科民公安监市环自司外文审卫应政厅办"
	documentWords = documentHeads + "委部社医规函政务院改府令通字电调价资企管党组纪宣统会局运能林海关质食药械广体旅统气象计生综明综密内厅局便复批示决报请行预库金所增非土房城乡规划住建〇一二三四五六七八九十"
)

var inDocuments = runesOf(documentWords) //nolint:gochecknoglobals // a constant table

// document finds the numbers of official documents: 国办发〔2024〕5号.
func document(w *window, i int) (match, verdict) {
	if inDocuments.has(w.at(i - 1)) {
		return match{}, no
	}
	k, v := w.while(i, 9, inDocuments.has)
	if v == open {
		return match{}, open
	}
	if k-i < 2 {
		return match{}, no
	}
	if r := w.at(k); r == unknown || r < 0 || !strings.ContainsRune(openings, r) {
		return match{}, when(r == unknown, open, no)
	}
	end, v := yearAndNumber(w, k)
	if v != yes {
		return match{}, v
	}
	return match{kind: kDocument, start: i, end: end, form: 0.8}, yes
}

// officerID finds 军字第1234567号. Some heads are ordinary characters; those need a word that points at them.
func officerID(w *window, i int) (match, verdict) {
	k := i + 1
	blank := func() {
		if isBlank(w.at(k)) {
			k++
		}
	}
	blank()
	if r := w.at(k); r != '字' {
		return match{}, when(r == unknown, open, no)
	}
	k++
	blank()
	if w.at(k) == '第' {
		k++
		blank()
	}
	if w.at(k) == unknown {
		return match{}, open
	}
	end, v := w.while(k, 10, func(r rune) bool { return isDigit(r) || misread(r) > 0 || isBlank(r) || numeral(r) >= 0 })
	if v == open {
		return match{}, open
	}
	size := 0
	for _, c := range w.cells[k:end] {
		if !isBlank(c.r) {
			size++
		}
	}
	if r := w.at(end); r == unknown {
		return match{}, open
	} else if size < 4 || size > 9 {
		return match{}, no
	} else if r == '号' {
		end++
	}
	m := match{kind: kOfficerID, start: i, end: end, form: 0.35}
	if r := w.at(i); (r == '军' || r == '士' || r == '兵' || r == '文') && size >= 6 {
		m.form = 0.6
		return m, yes
	}
	return w.anchor(m, w.hints(i))
}

const officerHeads = "军士兵文政后装参联南北东西中空海火警武沈兰济广成"
