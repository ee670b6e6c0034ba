package classify

import "strings"

var bedLabels = listOf("床号", "床位号", "床位") //nolint:gochecknoglobals // a constant table

// bed finds the number of a bed behind its label, and before 床 where the word is about a patient's.
func bed(c *number) (match, verdict) {
	m := match{kind: kMedicalRecord, start: c.at[0], end: c.end(len(c.digit)), form: 0.25, why: labelBefore}
	if c.w.wordBefore(m.start, bedLabels) && c.w.at(m.start-1) != ',' {
		if c.w.at(m.end) == ',' { // 床位1,260张
			next := c.w.at(m.end + 1)
			return m, when(next == unknown, open, when(isDigit(next), no, yes))
		}
		return m, yes
	}
	return match{}, no
}

// extraBed finds +12, 加12 and beds in Chinese numerals behind a label.
func extraBed(w *window, i int) (match, verdict) {
	if !w.wordBefore(i, bedLabels) {
		return match{}, no
	}
	k := i
	if r := w.at(i); r == '+' || r == '加' {
		k++
	}
	end, v := w.while(k, 6, func(r rune) bool { return isDigit(r) || numeral(r) >= 0 || r == '-' || r == '十' })
	if v == open {
		return match{}, open
	}
	if end == k || end == i+1 && isHan(w.at(i-1)) || end-k == 6 {
		return match{}, no
	}
	return match{kind: kMedicalRecord, start: i, end: end, form: 0.25, why: labelBefore}, yes
}

// bedOf finds 12, 12-3, A3, 加3 and +3 before 床: one with a sign unless the word is about bedding, one of digits alone between words of a ward.
func bedOf(w *window, i int) (match, verdict) {
	if isDigit(w.at(i)) && isDigit(w.at(i+1)) && isDigit(w.at(i+2)) {
		return match{}, no
	}
	k, signed := i, false
	if r := upper(w.at(i)); r == '+' || r == '加' || r >= 'A' && r <= 'D' {
		k, signed = i+1, true
	}
	end, v := w.while(k, 3, isDigit)
	if v == open {
		return match{}, open
	}
	if end == k || end > k+2 {
		return match{}, no
	}
	if w.at(end) == '-' {
		last, v := w.while(end+1, 3, isDigit)
		if v == open {
			return match{}, open
		}
		if last == end+1 || last > end+3 {
			return match{}, no
		}
		end, signed = last, true
	}
	if r := w.at(end); r != '床' {
		return match{}, when(r == unknown, open, no)
	}
	next := w.at(end + 1)
	if next == unknown {
		return match{}, open
	}
	if next > 0 && strings.ContainsRune("被棉褥单垫毯席铺位数上难", next) {
		return match{}, no
	}
	left := w.at(i - 1)
	ward := left > 0 && strings.ContainsRune("科区房室楼患者住转至调病层", left) || next > 0 && strings.ContainsRune("患病家的术换要需血体护医请呼今昨输陪已发", next)
	if !signed && !ward {
		return match{}, no
	}
	return match{kind: kMedicalRecord, start: i, end: end, form: 0.25, why: labelBefore}, yes
}
