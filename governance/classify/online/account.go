package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// Accounts finds what people are reached by: mail, accounts of services, wallets.
type Accounts struct {
	speller
	account   text.Stretch // the last account of a service found
	accountOf finding.Kind
}

// Accept is told of every candidate that is taken.
func (w *Accounts) Accept(m finding.Candidate) {
	if m.Kind == finding.WeChat || m.Kind == finding.QQ {
		w.account, w.accountOf = w.Stretch(m.Start, m.End), m.Kind
	}
}

// Detect looks for the accounts that begin at place i.
func (w *Accounts) Detect(d *finding.Decision, i int) {
	if d.Asks(finding.Email, finding.TriggerEmail) {
		d.Ask(email(w, i))
	}
	if d.Asks(finding.Crypto, finding.TriggerCrypto) {
		d.Ask(cryptoAddress(w, i))
	}
	if d.Asks(finding.WeChat, finding.TriggerWeChat) {
		d.Ask(wechat(w, i))
	}
}

// AccountTriggers says what may begin with r behind left.
func AccountTriggers(r, left rune) (b finding.Triggers) {
	if !text.IsAlnum(r) {
		return 0
	}
	boundary := !text.IsAlnum(left)
	if boundary && strings.ContainsRune(cryptoHeads, r) {
		b |= finding.TriggerCrypto
	}
	if boundary && left != '_' {
		b |= finding.TriggerEmail
	}
	if text.IsLetter(r) && text.IsLetter(left) && len(wechatLabels.Of(text.Lower(left))) > 0 { // glued to a label
		b |= finding.TriggerWeChat
	}
	if (text.IsLetter(r) || r == '0' || r == '1') && boundary && left != '_' {
		b |= finding.TriggerWeChat
	}
	return b
}

// Refine takes away what does not begin at place i, where a row of letters and digits begins that ends before place e with next behind it.
func (w *Accounts) Refine(i, e int, next rune, may finding.Triggers) finding.Triggers {
	if may&finding.TriggerCrypto != 0 && e-i < leastCrypto && !(text.IsBlank(next) && (text.IsAlnum(w.At(e+1)) || w.At(e+1) == text.Unknown)) {
		may &^= finding.TriggerCrypto
	}
	if local, spelt := w.localEnd(i, e); local-i < text.MaxRow && !spelt && emailStops.Has(w.At(local)) {
		may &^= finding.TriggerEmail
	}
	if may&finding.TriggerEmail != 0 && text.IsBlank(next) && w.proseAround(i, e) {
		may &^= finding.TriggerEmail
	}
	if may&finding.TriggerWeChat != 0 && !w.accountAhead(i, e) {
		may &^= finding.TriggerWeChat
	}
	return may
}
