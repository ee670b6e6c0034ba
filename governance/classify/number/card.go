package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// cards finds what money moves by.
func (n *number) cards(d *finding.Decision) {
	if d.On.Has(finding.BankCard) {
		d.Ask(bankCard(n))
	}
}

// bankCard finds 13 to 19 digits with a card prefix and a right Luhn digit, behind a label also others.
func bankCard(n *number) (finding.Candidate, text.Verdict) {
	if len(n.digit) < 13 {
		return finding.Candidate{}, text.No
	}
	s := n.text()
	var best finding.Candidate
	for size := min(len(s), 19); size >= 13; size-- {
		if m, ok := n.card(size); ok && (best.End == 0 || m.Score() > best.Score()) {
			best = m
		}
	}
	if best.End == 0 {
		return finding.Candidate{}, text.No
	}
	if best.Evidence&finding.CheckRight == 0 && !n.h.Of.Has(finding.BankCard) {
		var v text.Verdict
		if best, v = n.w.Anchor(best, n.h); v == text.Open {
			return finding.Candidate{}, text.Open
		}
	}
	inside, v := n.w.digest(best.Start, best.End)
	if v == text.Open || inside {
		return finding.Candidate{}, v & text.Open
	}
	return best, text.Yes
}

// card reads the first digits as a card.
func (n *number) card(size int) (m finding.Candidate, ok bool) {
	if !n.whole(size) {
		return m, false
	}
	s, labelled := n.text()[:size], n.h.Of.Has(finding.BankCard)
	m = finding.Candidate{Kind: finding.BankCard, Start: n.at[0], End: n.end(size), Form: 0.15, Evidence: finding.CheckWrong}
	if isIssuer(s) {
		m.Evidence |= finding.IssuerRight
	} else if !cardPrefix(s) && !labelled {
		return m, false
	}
	switch _, length := lexicon.CardBank(s); {
	case Luhn(s):
		m.Evidence ^= finding.CheckRight | finding.CheckWrong
	case length: // a word anywhere near by is enough
		m.Evidence ^= finding.Typical | finding.CheckWrong
		if m.Form = 0.1; !labelled {
			m.Form = -0.05
		}
	case !labelled || size < 15:
		return m, false
	}
	if shape := n.shape(0, size); !cardShape(shape) {
		if len(shape) > 6 || m.Evidence&finding.IssuerRight == 0 && !labelled {
			return m, false
		}
		m.Evidence |= finding.Unusual
	} else if len(shape) > 1 {
		m.Evidence |= finding.Grouped
	}
	switch {
	case labelled && n.h.Tight:
		m.Form = max(m.Form, 0.3)
		m.Evidence |= finding.LabelBefore
	case labelled:
		m.Evidence |= finding.CueBefore
	case n.h.Other(finding.BankCard) && n.h.Of&^finding.KindsOf(finding.Ticket, finding.Order, finding.Parcel, finding.IMEI, finding.ICCID) == 0:
		m.Evidence |= finding.Ordinary
	}
	return m, true
}

func cardShape(groups []int) bool {
	ones := true
	for _, g := range groups {
		ones = ones && g == 1
	}
	return ones || groups[0] >= 4
}

// isIssuer knows the prefixes of Chinese cards.
func isIssuer(s string) bool {
	bank, _ := lexicon.CardBank(s)
	return bank != "" || len(s) >= 16 && s[:2] == "62"
}

// cardPrefix knows which beginnings go with which length. Thirteen and fourteen digits are too often something else.
func cardPrefix(s string) bool {
	if len(s) < 15 {
		return false
	}
	switch lexicon.CardScheme(s) {
	case "unionpay", "visa", "mastercard", "amex", "jcb":
		return true
	}
	return strings.HasPrefix(s, "9558")
}

// Luhn reports whether the last digit is the check digit of ISO/IEC 7812.
func Luhn(s string) bool {
	sum := 0
	for i := range len(s) {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}
