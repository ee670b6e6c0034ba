package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// email finds local@domain with a top-level domain of letters, also where people write the sign and the dots in words or paper breaks the
// address. A run of local characters that reaches the limit without an @ is undecided there and therefore masked, if it has letters
// at all.
func email(w *Accounts, i int) (finding.Candidate, text.Verdict) {
	left := w.At(i - 1)
	if text.IsAlnum(left) || left == '_' || isLocal(left) && text.IsAlnum(w.At(i-2)) || w.inUserinfo(i) {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.Email, Start: i, Form: 0.9}
	at, v := w.localPart(i)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if at-i == text.MaxRow {
		if !w.Any(i, i+64, text.IsLetter) {
			return finding.Candidate{}, text.No
		}
		m.End, m.Form, m.More = at, finding.Threshold, &finding.Run{Kind: finding.Email, In: isLocal}
		return m, text.Yes
	}
	plain := text.IsBlank(w.At(at)) && !w.Any(i, at, func(r rune) bool { return isLocal(r) && !text.IsLetter(r) })
	if plain { // behind a plain word a blank decides, or every word would wait for the next
		switch next := w.At(at + 1); {
		case next == text.Unknown:
			return finding.Candidate{}, text.Open
		case !strings.ContainsRune("@[({【<艾小圈aA", next):
			return finding.Candidate{}, text.No
		}
	}
	host, sign, v := w.atSign(at)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if v == text.No {
		m.End = w.underscored(i, at)
		return m, text.When(m.End > 0, text.Yes, text.No)
	}
	end, words, v := w.domain(host)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	if sign == signWord && plain && !words || sign == signOther && !w.provider(host, end) {
		return finding.Candidate{}, text.No // look at example.com
	}
	m.End = end
	return m, text.Yes
}

// inUserinfo reports whether cell i stands in front of the host of a URL: what is there is a password.
func (w *Accounts) inUserinfo(i int) bool {
	if left := w.At(i - 1); left != ':' && left != '/' && !text.IsBlank(left) && !text.IsUserinfo(left) {
		return false
	}
	for k := i - 1; k > max(1, i-text.LeftContext+2); k-- {
		switch r := w.At(k); {
		case r == '/':
			return w.At(k-1) == '/' && k > 1 && w.At(k-2) == ':'
		case !text.IsUserinfo(r) && !text.IsBlank(r), text.IsBlank(r) && k < i-1 && w.At(k-1) != ':':
			return false
		}
	}
	return false
}

// localPart returns the end of what may stand before the @, over one break that paper made.
func (w *Accounts) localPart(i int) (at int, v text.Verdict) {
	if at, v = w.While(i, text.MaxRow, isLocal); v == text.Open || at-i == text.MaxRow {
		return at, v
	}
	r, next := w.At(at), w.At(at+1)
	switch {
	case r == '。' && next == text.Unknown:
		return at, text.Open
	case r == '。' && text.IsAlnum(next), text.IsBlank(r) && w.brokenLocal(i, at):
	default:
		return at, text.Yes
	}
	more, v := w.While(at+1, 64, isLocal)
	if v == text.Open {
		return at, text.Open
	}
	if !w.Any(i, at, text.IsLetter) && (at-i > 8 || w.Any(at+1, more, text.IsLetter)) {
		return at, text.Yes // a number of its own
	}
	if sign := w.At(more); more > at+1 && sign > 0 && strings.ContainsRune("@[(艾小圈", sign) {
		return more, text.Yes
	}
	return at, text.Yes
}

// brokenLocal reports whether the blank at cell at may be inside of the address that begins at cell i: a label stands before it, or Chinese
// text, and it is no word that stands before addresses.
func (w *Accounts) brokenLocal(i, at int) bool {
	if w.Adjacent(i, emailLabels) || w.At(at-1) == '.' || w.At(at-1) == '_' {
		return true
	}
	if next := w.At(at + 1); next == '.' || next == '_' {
		return true
	}
	left := w.At(i - 1)
	if text.IsBlank(left) && text.IsHan(w.At(i-2)) && !w.Any(i, at, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		left = w.At(i - 2)
	}
	if !text.IsHan(left) && (left < 0 || !strings.ContainsRune(":,;([<\"'“「。、|=", left)) || at-i > 24 {
		return false
	}
	return !strings.Contains(beforeEmails, " "+strings.ToLower(w.ASCII(i, at))+" ")
}

// beforeEmails are words of ASCII that stand before an address and are no part of it.
const beforeEmails = " email e-mail mail to from cc bcc contact at is or and of the for gmail outlook qq wechat id admin it hr user via by send please pls my " +
	"your addr address account login name reply re fw dear hi tel phone fax mobile vx wx weixin foxmail icloud hotmail yahoo sina msn skype git ssh ping root scp smtp imap "

// underscored returns the end of an address such as zhang_at_example.com that cells i to at are; 0 if they are none.
func (w *Accounts) underscored(i, at int) int {
	if at-i < 10 || at-i > 80 {
		return 0
	}
	if !w.signInside(i, at) {
		return 0
	}
	text := strings.ToLower(w.ASCII(i, at))
	for _, sign := range []string{"_at_", "-at-", ".at."} {
		if name, host, ok := strings.Cut(text, sign); ok && name != "" {
			host = strings.NewReplacer("_dot_", ".", "-dot-", ".").Replace(strings.TrimRight(host, "."))
			if dot := strings.LastIndexByte(host, '.'); dot > 0 && isCommonDomain(host[dot+1:]) {
				return i + len(strings.TrimRight(text, "."))
			}
		}
	}
	return 0
}

// signInside reports whether at stands between two signs in cells i to end.
func (w *Accounts) signInside(i, end int) bool {
	for k := i; k+3 < end; k++ {
		if c := w.Cells(k, k+4); c[0].R == c[3].R && !text.IsAlnum(c[0].R) && text.Lower(c[1].R) == 'a' && text.Lower(c[2].R) == 't' {
			return true
		}
	}
	return false
}

// How the @ of an address is written.
const (
	signMark  = iota // @, or a word that stands for nothing else
	signWord         // at
	signOther        // # and the like
)

// atSign returns the end of the sign at cell i.
func (w *Accounts) atSign(i int) (end, how int, v text.Verdict) {
	if end, v = w.sign(i, '@', atInBrackets, atWords); v != text.No {
		return end, signMark, v
	}
	if r := w.At(i); r == '#' || r == '*' || r == '&' || r == '$' {
		return i + 1, signOther, text.Yes
	}
	if !text.IsBlank(w.At(i)) {
		return 0, 0, text.No
	}
	end, v = w.Literal(i+1, "at")
	if v != text.Yes {
		return 0, 0, v
	}
	if r := w.At(end); !text.IsBlank(r) {
		return 0, 0, text.When(r == text.Unknown, text.Open, text.No)
	}
	return end + 1, signWord, text.Yes
}

// What people write for the signs of an address.
var (
	atInBrackets  = strings.Fields("at a @ 艾特 圈a at符号")
	atWords       = strings.Fields("艾特 爱特 小老鼠 圈a")
	dotInBrackets = strings.Fields("dot . 点 d")
	dotWords      = strings.Fields("点 dot")
)

// sign returns the end of a sign, or of what people write for it: one of some words in brackets or alone, with a blank on either side.
func (w *Accounts) sign(i int, sign rune, inBrackets, bare []string) (end int, v text.Verdict) {
	if w.At(i) == sign && sign == '.' || w.At(i) == '。' && sign == '.' {
		return i + 1, text.Yes
	}
	if text.IsBlank(w.At(i)) {
		i++
	}
	switch r := w.At(i); r {
	case text.Unknown:
		return 0, text.Open
	case sign:
		end = i + 1
	case '[', '(', '{', '【', '<', '「':
		i, _ = w.While(i+1, 1, text.IsBlank)
		if end, v = w.OneOf(i, inBrackets); v != text.Yes {
			return 0, v
		}
		end, _ = w.While(end, 1, text.IsBlank)
		closing := w.At(end)
		if closing == text.Unknown {
			return 0, text.Open
		}
		if !strings.ContainsRune("])}】>」", closing) || closing < 0 {
			return 0, text.No
		}
		end++
	default:
		if end, v = w.OneOf(i, bare); v != text.Yes {
			return 0, v
		}
	}
	if w.At(end) == text.Unknown {
		return 0, text.Open
	}
	if text.IsBlank(w.At(end)) && (sign == '@' || w.At(end) == ' ') {
		end++
	}
	return end, text.Yes
}

var emailLabels = text.EndingsOf("邮箱", "邮件", "邮址", "email", "e-mail", "mail", "to", "from", "cc", "contact", "邮箱地址", "电邮", "信箱", "伊妹儿")

func isLocal(r rune) bool {
	return text.IsAlnum(r) || r == '.' || r == '_' || r == '%' || r == '+' || r == '-'
}

// localEnd returns the end of the letters, digits, dots and dashes from cell i on, at most maxEmail cells further; the first row of letters and
// digits ends before cell end. spelt says that one of the rows is at, as in zhang-at-example.com.
func (w *Accounts) localEnd(i, end int) (local int, spelt bool) {
	last := min(w.End(), i+text.MaxRow)
	for local = end; local < last; local++ {
		r := w.At(local)
		if r == 'a' || r == 'A' {
			spelt = spelt || text.Lower(w.At(local+1)) == 't' && !text.IsAlnum(w.At(local-1)) && !text.IsAlnum(w.At(local+2))
		} else if !text.IsAlnum(r) && r != '.' && r != '-' {
			break
		}
	}
	return local, spelt
}

// emailStops end a row that is no name of a mailbox: neither part of it nor a sign for what follows it.
var emailStops = text.RunesOf("\t,;:!?)]}>=\"'`|/\\")

// proseAround reports whether the row of letters and digits from cell i to end, behind which a blank stands, is a word behind another one:
// no label is there, and nothing that the sign of an address begins with follows.
func (w *Accounts) proseAround(i, end int) bool {
	before := text.Lower(w.At(i - 2))
	if !text.IsBlank(w.At(i-1)) || !text.IsLetter(before) || len(emailLabels.Of(before)) > 0 {
		return false
	}
	after := w.At(end + 1)
	return after != text.Unknown && !beginsSign.Has(after) && !w.Any(i, end, text.IsDigit)
}

// beginsSign are what the sign of an address of mail, or the rest of its name, begins with behind a blank.
var beginsSign = text.RunesOf("@[({【<艾小圈aA._")
