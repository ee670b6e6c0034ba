package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

var bedLabels = text.ListOf("床号", "床位号", "床位")

// bed finds the number of a bed behind its label, and before 床 where the word is about a patient's.
func bed(c *number) (finding.Candidate, text.Verdict) {
	m := finding.Candidate{Kind: finding.MedicalRecord, Start: c.at[0], End: c.end(len(c.digit)), Form: 0.25, Evidence: finding.LabelBefore}
	if c.w.WordBefore(m.Start, bedLabels) && c.w.At(m.Start-1) != ',' {
		if c.w.At(m.End) == ',' { // 床位1,260张
			next := c.w.At(m.End + 1)
			return m, text.When(next == text.Unknown, text.Open, text.When(text.IsDigit(next), text.No, text.Yes))
		}
		return m, text.Yes
	}
	return finding.Candidate{}, text.No
}

// extraBed finds +12, 加12 and beds in Chinese numerals behind a label.
func extraBed(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if !w.WordBefore(i, bedLabels) {
		return finding.Candidate{}, text.No
	}
	k := i
	if r := w.At(i); r == '+' || r == '加' {
		k++
	}
	end, v := w.While(k, 6, func(r rune) bool { return text.IsDigit(r) || text.Numeral(r) >= 0 || r == '-' || r == '十' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end == k || end == i+1 && text.IsHan(w.At(i-1)) || end-k == 6 {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.MedicalRecord, Start: i, End: end, Form: 0.25, Evidence: finding.LabelBefore}, text.Yes
}

// bedOf finds 12, 12-3, A3, 加3 and +3 before 床: one with a sign unless the word is about bedding, one of digits alone between words of a ward.
func bedOf(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if text.IsDigit(w.At(i)) && text.IsDigit(w.At(i+1)) && text.IsDigit(w.At(i+2)) {
		return finding.Candidate{}, text.No
	}
	k, signed := i, false
	if r := text.Upper(w.At(i)); r == '+' || r == '加' || r >= 'A' && r <= 'D' {
		k, signed = i+1, true
	}
	end, v := w.While(k, 3, text.IsDigit)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end == k || end > k+2 {
		return finding.Candidate{}, text.No
	}
	if w.At(end) == '-' {
		last, v := w.While(end+1, 3, text.IsDigit)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if last == end+1 || last > end+3 {
			return finding.Candidate{}, text.No
		}
		end, signed = last, true
	}
	if r := w.At(end); r != '床' {
		return finding.Candidate{}, text.When(r == text.Unknown, text.Open, text.No)
	}
	next := w.At(end + 1)
	if next == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	if next > 0 && strings.ContainsRune("被棉褥单垫毯席铺位数上难", next) {
		return finding.Candidate{}, text.No
	}
	left := w.At(i - 1)
	ward := left > 0 && strings.ContainsRune("科区房室楼患者住转至调病层", left) || next > 0 && strings.ContainsRune("患病家的术换要需血体护医请呼今昨输陪已发", next)
	if !signed && !ward {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.MedicalRecord, Start: i, End: end, Form: 0.25, Evidence: finding.LabelBefore}, text.Yes
}
