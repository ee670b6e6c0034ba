// Package company finds the names of companies by the words that they end with.
package company

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	companyLongest = 30
	notInCompanies = "于在是与由向给被对的了我你他她们这那您请到从把为及"
)

var (
	endsCompany   = text.RunesOf(notInCompanies)
	beforeCompany = text.RunesOf(notInCompanies + "和跟")
	inCompany     = text.RunesOf("()·&")
	// Each begins as one of the pairs that companyAhead looks for.
	companyEnds = []string{"有限公司", "有限责任公司", "股份有限公司", "股份公司", "集团公司", "集团有限公司", "集团股份有限公司"}
)

// Detector finds the names of companies.
type Detector struct {
	finding.Window
	noneBefore text.Place // no company begins before this place
	nextEnd    text.Place // no end of one begins before this place
}

// MayBegin reports whether it is not known that no company begins at place i.
func (w *Detector) MayBegin(i int) bool { return w.Place(i) >= w.noneBefore }

// Detect looks for the name that begins at place i.
func (w *Detector) Detect(d *finding.Decision, i int) { d.Ask(company(w, i)) }

// Begins reports whether the name of a company may begin at cell i: where what stands before cannot belong to it.
func (w *Detector) Begins(i int) bool {
	if !w.MayBegin(i) || !text.IsHan(w.At(i)) {
		return false
	}
	left := w.At(i - 1)
	return !text.IsHan(left) || beforeCompany.Has(left)
}

// companyAhead returns the first cell from i on where the end of the name of a company may begin, or where the text breaks off.
func (w *Detector) companyAhead(i int) int {
	k := max(i, w.Index(w.nextEnd))
	for ; k < w.End(); k++ {
		if r := w.At(k); r == '有' || r == '股' || r == '集' {
			if next := w.At(k + 1); next == '限' || next == '份' || next == '团' || text.IsBlank(next) || next == text.Unknown {
				break
			}
		}
	}
	w.nextEnd = w.Place(k)
	return k
}

// company finds names that end in 有限公司 and the like.
func company(w *Detector, i int) (finding.Candidate, text.Verdict) {
	switch k := w.companyAhead(i); {
	case w.At(k) == text.Edge:
		w.noneBefore = w.Place(k)
		return finding.Candidate{}, text.No
	case k-i >= companyLongest:
		w.noneBefore = w.Place(k - companyLongest + 1)
		return finding.Candidate{}, text.No
	}
	blank := 0 // where one is
	for k := i; k < i+companyLongest; k++ {
		r := w.At(k)
		if r == text.Unknown {
			return finding.Candidate{}, text.Open
		}
		if text.IsBlank(r) && blank == 0 && k > i {
			blank = k
			continue
		}
		if !text.IsHan(r) && !text.IsAlnum(r) && !inCompany.Has(r) || endsCompany.Has(r) {
			if w.noneBefore = w.Place(k); text.IsBlank(r) { // a name from behind the first blank on may hold the second
				w.noneBefore = w.Place(blank)
			}
			return finding.Candidate{}, text.No
		}
		if r != '有' && r != '股' && r != '集' || k-i < 2 {
			continue
		}
		for _, word := range companyEnds {
			end, v := w.spaced(k, word)
			if v == text.Open {
				return finding.Candidate{}, text.Open
			}
			if v == text.Yes {
				return companyTail(w, finding.Candidate{Kind: finding.Company, Start: i, End: end, Form: 0.7})
			}
		}
	}
	return finding.Candidate{}, text.No
}

// spaced compares as literal does, over one stray blank.
func (w *Detector) spaced(i int, s string) (end int, v text.Verdict) {
	blanks := 0
	for n, want := range s {
		if n > 0 && blanks == 0 && text.IsBlank(w.At(i)) {
			blanks++
			i++
		}
		if got := w.At(i); got == text.Unknown {
			return i, text.Open
		} else if got != want {
			return i, text.No
		}
		i++
	}
	return i, text.Yes
}

// companyTail adds a branch: …有限公司北京分公司.
func companyTail(w *Detector, m finding.Candidate) (finding.Candidate, text.Verdict) {
	for k := m.End; k < m.End+12; k++ {
		r := w.At(k)
		if r == text.Unknown {
			return m, text.Open
		}
		if !text.IsHan(r) || endsCompany.Has(r) {
			return m, text.Yes
		}
		for _, word := range []string{"分公司", "支行", "分行", "营业部"} {
			end, v := w.Literal(k, word)
			if v == text.Open {
				return m, text.Open
			}
			if v == text.Yes {
				m.End = end
				return m, text.Yes
			}
		}
	}
	return m, text.Yes
}
