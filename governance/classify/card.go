package classify

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// cards finds what money moves by.
func (d *decision) cards(n *number) {
	if d.on.has(kBankCard) {
		d.ask(bankCard(n))
	}
}

// bankCard finds 13 to 19 digits with a card prefix and a right Luhn digit, behind a label also others.
func bankCard(n *number) (match, verdict) {
	if len(n.digit) < 13 {
		return match{}, no
	}
	s := n.text()
	var best match
	for size := min(len(s), 19); size >= 13; size-- {
		if m, ok := n.card(size); ok && (best.end == 0 || m.score() > best.score()) {
			best = m
		}
	}
	if best.end == 0 {
		return match{}, no
	}
	if best.why&checkRight == 0 && !n.h.of.has(kBankCard) {
		var v verdict
		if best, v = n.w.anchor(best, n.h); v == open {
			return match{}, open
		}
	}
	inside, v := n.w.digest(best.start, best.end)
	if v == open || inside {
		return match{}, v & open
	}
	return best, yes
}

// card reads the first digits as a card.
func (n *number) card(size int) (m match, ok bool) {
	if !n.whole(size) {
		return m, false
	}
	s, labelled := n.text()[:size], n.h.of.has(kBankCard)
	m = match{kind: kBankCard, start: n.at[0], end: n.end(size), form: 0.15, why: checkWrong}
	if isIssuer(s) {
		m.why |= issuerRight
	} else if !cardPrefix(s) && !labelled {
		return m, false
	}
	switch _, length := lexicon.CardBank(s); {
	case luhn(s):
		m.why ^= checkRight | checkWrong
	case length: // a word anywhere near by is enough
		m.why ^= typical | checkWrong
		if m.form = 0.1; !labelled {
			m.form = -0.05
		}
	case !labelled || size < 15:
		return m, false
	}
	if shape := n.shape(0, size); !cardShape(shape) {
		if len(shape) > 6 || m.why&issuerRight == 0 && !labelled {
			return m, false
		}
		m.why |= unusual
	} else if len(shape) > 1 {
		m.why |= grouped
	}
	switch {
	case labelled && n.h.tight:
		m.form = max(m.form, 0.3)
		m.why |= labelBefore
	case labelled:
		m.why |= cueBefore
	case n.h.other(kBankCard) && n.h.of&^set(kTicket, kOrder, kParcel, kIMEI, kICCID) == 0:
		m.why |= ordinary
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

func luhn(s string) bool {
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
