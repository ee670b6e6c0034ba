package number

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// codesAt runs the detectors of numbers and codes that begin with a character of ASCII.
func (w *Detector) codesAt(d *finding.Decision, i int, r, left rune) {
	digit := text.IsDigit(r) && !text.IsDigit(left)
	if text.Misread(r) > 0 && !text.IsAlnum(left) {
		next := w.At(i + 1)
		if next == text.Unknown {
			d.Open = true
			return
		}
		digit = text.IsDigit(next)
	}
	bracket := r == '(' || r == '['
	if digit || r == '+' || r == '(' {
		w.numbers(d, i)
	}
	if d.On.Has(finding.MedicalRecord) {
		if r == '+' {
			d.Ask(extraBed(w, i))
		}
		if r == '+' || (digit || text.Upper(r) >= 'A' && text.Upper(r) <= 'D') && !text.IsAlnum(left) && left != '-' && left != '.' {
			d.Ask(bedOf(w, i))
		}
	}
	if text.IsAlnum(r) && !text.IsAlnum(left) {
		w.codes(d, i)
	}
	if d.On.Has(finding.MAC) && (text.IsHex(r) || text.Misread(r) > 0 && !text.IsAlnum(left)) && w.pairAhead(i) {
		d.Ask(mac(w, i))
	}
	if d.On.Has(finding.CourtCase) && (digit || bracket || r == '<' || r == '{') {
		d.Ask(courtCase(w, i))
	}
	if d.On.Has(finding.Coordinates) && (digit && left != '.' && !text.IsLetter(left) || bracket || !text.IsAlnum(left) && (r|0x20 == 'n' || r|0x20 == 'e')) && w.degreesAhead(i, r) {
		d.Ask(coordinates(w, i))
	}
	if d.On.Has(finding.Plate) && (r == 'W' || r == 'w') && !text.IsAlnum(left) {
		d.Ask(policePlate(w, i))
	}
	if digit && d.On.Has(finding.BirthDate) && left != '-' && left != '.' {
		d.Ask(birthDate(w, i))
	}
	if digit && d.On.Has(finding.Age) && !text.IsLetter(left) {
		d.Ask(age(w, i))
	}
	if text.IsAlnum(r) && !text.IsAlnum(left) && d.On.Has(finding.Passport) && r >= '0' && r <= 'Z' {
		d.Ask(mrzNumbers(w, i))
	}
}

// What may begin with a Chinese character.
const (
	headPlate uint8 = 1 << iota
	headCase
	headOfficer
	headDirection
	headNumeral
	headDocument
	headBed
)

// hanHeads says what may begin with each of the common Chinese characters, which decides at most of them that nothing does.
var hanHeads = indexHeads()

func indexHeads() *[text.HanLast - text.HanFirst]uint8 {
	t := new([text.HanLast - text.HanFirst]uint8)
	for _, row := range []struct {
		head  uint8
		signs string
	}{
		{headPlate, lexicon.ProvinceSigns + otherPlateSigns},
		{headCase, lexicon.ProvinceSigns + procuratorateSigns},
		{headOfficer, officerHeads},
		{headDirection, "东西南北"},
		{headDocument, documentHeads},
		{headBed, "加十零〇一二三四五六七八九幺两洞拐勾壹贰叁肆伍陆柒捌玖"},
	} {
		for _, r := range row.signs {
			if text.IsCommonHan(r) {
				t[r-text.HanFirst] |= row.head
			}
		}
	}
	for r := rune(text.HanFirst); r < text.HanLast; r++ {
		if text.Numeral(r) >= 0 {
			t[r-text.HanFirst] |= headNumeral
		}
	}
	return t
}

// hanCodes runs the detectors of numbers and codes that begin with a Chinese character.
func (w *Detector) hanCodes(d *finding.Decision, i int) {
	r := w.At(i)
	var heads uint8
	switch {
	case text.IsCommonHan(r):
		heads = hanHeads[r-text.HanFirst]
	case r == '〇':
		heads = headNumeral
	}
	if heads == 0 {
		return
	}
	if heads&headPlate != 0 && d.On.Has(finding.Plate) {
		d.Ask(plate(w, i))
	}
	if heads&headCase != 0 && d.On.Has(finding.CourtCase) {
		d.Ask(procuratorateCase(w, i))
	}
	if heads&headOfficer != 0 && d.On.Has(finding.OfficerID) {
		d.Ask(officerID(w, i))
	}
	if heads&headDirection != 0 && d.On.Has(finding.Coordinates) {
		d.Ask(coordinates(w, i))
	}
	if heads&headNumeral != 0 && d.On.Any(labelledKinds) {
		w.spelled(d, i)
	}
	if heads&headBed != 0 && d.On.Has(finding.MedicalRecord) {
		d.Ask(extraBed(w, i))
		if r == '加' {
			d.Ask(bedOf(w, i))
		}
	}
	if heads&headDocument != 0 && d.On.Has(finding.Document) {
		d.Ask(document(w, i))
	}
}
