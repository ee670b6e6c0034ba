package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

const usccSymbols = "0123456789ABCDEFGHJKLMNPQRTUWXY"

// uscc finds unified social credit codes (GB 32100) by their check character; near a word that points at them also with a wrong one. A
// blank or a dash between groups does not matter.
func uscc(w *Detector, i int) (finding.Candidate, text.Verdict) {
	var code [18]byte
	k, gaps, worn := i, 0, 0
	for n := range code {
		r := w.At(k)
		if n > 0 && (text.IsBlank(r) || r == '-') && gaps < 5 {
			gaps++
			k++
			r = w.At(k)
		}
		if r == text.Unknown {
			return finding.Candidate{}, text.Open
		}
		c := byte('?')
		if text.IsAlnum(r) {
			c = byte(text.Upper(r))
		}
		if sign := text.Misread(r); sign > 0 { // a small l may be a letter: see restored
			c = sign
			worn++
		}
		if n >= 2 && n < 8 && (c < '0' || c > '9') || strings.IndexByte(usccSymbols, c) < 0 || worn > 2 ||
			n == 0 && strings.IndexByte("123456789ANY", c) < 0 {
			return finding.Candidate{}, text.No
		}
		code[n] = c
		k++
	}
	if next := w.At(k); next == text.Unknown || text.IsAlnum(next) {
		return finding.Candidate{}, text.When(next == text.Unknown, text.Open, text.No)
	}
	region := string(code[2:8])
	if !isProvinceCode(region) && region != "100000" {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.USCC, Start: i, End: k, Form: 0.3, Evidence: finding.CheckWrong}
	if isRegion(region) {
		m.Evidence |= finding.RegionRight
	}
	if organisationCheck(code[8:17]) {
		m.Evidence |= finding.Typical
	}
	if usccCheck(code[:]) || restored(code, worn > 0) {
		m.Evidence ^= finding.CheckRight | finding.CheckWrong
		if gaps == 0 || m.Evidence&finding.Typical != 0 {
			return m, text.Yes
		}
	}
	if gaps > 0 {
		m.Form = 0.1
	}
	return w.Anchor(m, w.Hints(i))
}

// restored tries an L for each one, and a one for each L: what paper confuses. Where nothing else is worn, the check of the organisation has to fit, too.
func restored(code [18]byte, worn bool) bool {
	for n, c := range code {
		switch {
		case n < 8 || c != '1' && c != 'L':
			continue
		case c == '1':
			code[n] = 'L'
		default:
			code[n] = '1'
		}
		if usccCheck(code[:]) && (worn || organisationCheck(code[8:17])) {
			return true
		}
		code[n] = c
	}
	return false
}

func usccCheck(code []byte) bool {
	sum, weight := 0, 1
	for _, c := range code[:17] {
		sum += strings.IndexByte(usccSymbols, c) * weight
		weight = weight * 3 % 31
	}
	return (31-sum%31)%31 == strings.IndexByte(usccSymbols, code[17])
}

// organisationCheck is the check of the nine characters of an organisation code (GB 11714).
func organisationCheck(code []byte) bool {
	sum := 0
	for k, weight := range [8]int{3, 7, 9, 10, 5, 8, 4, 2} {
		value := int(code[k] - '0')
		if code[k] >= 'A' {
			value = int(code[k]-'A') + 10
		}
		sum += value * weight
	}
	return "0X987654321"[sum%11] == code[8]
}
