package classify

import "strings"

// email finds local@domain with a top-level domain of letters, also where people write the sign and the dots in words or paper breaks the
// address. A run of local characters that reaches the limit without an @ is undecided there and therefore masked, if it has letters
// at all.
func email(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isAlnum(left) || left == '_' || isLocal(left) && isAlnum(w.at(i-2)) || w.inUserinfo(i) {
		return match{}, no
	}
	m := match{kind: kEmail, start: i, form: 0.9}
	at, v := w.localPart(i)
	if v == open {
		return match{}, open
	}
	if at-i == maxEmail {
		if !w.any(i, i+64, isLetter) {
			return match{}, no
		}
		m.end, m.form, m.more = at, threshold, &run{kEmail, isLocal}
		return m, yes
	}
	plain := isBlank(w.at(at)) && !w.any(i, at, func(r rune) bool { return isLocal(r) && !isLetter(r) })
	if plain { // behind a plain word a blank decides, or every word would wait for the next
		switch next := w.at(at + 1); {
		case next == unknown:
			return match{}, open
		case !strings.ContainsRune("@[({【<艾小圈aA", next):
			return match{}, no
		}
	}
	host, sign, v := w.atSign(at)
	if v == open {
		return match{}, open
	}
	if v == no {
		m.end = w.underscored(i, at)
		return m, when(m.end > 0, yes, no)
	}
	end, words, v := w.domain(host)
	if v != yes {
		return match{}, v
	}
	if sign == signWord && plain && !words || sign == signOther && !w.provider(host, end) {
		return match{}, no // look at example.com
	}
	m.end = end
	return m, yes
}

// inUserinfo reports whether cell i stands in front of the host of a URL: what is there is a password.
func (w *window) inUserinfo(i int) bool {
	if left := w.at(i - 1); left != ':' && left != '/' && !isBlank(left) && !isDSNText(left) {
		return false
	}
	for k := i - 1; k > max(1, i-leftMemory+2); k-- {
		switch r := w.cells[k].r; {
		case r == '/':
			return w.cells[k-1].r == '/' && k > 1 && w.cells[k-2].r == ':'
		case !isDSNText(r) && !isBlank(r), isBlank(r) && k < i-1 && w.cells[k-1].r != ':':
			return false
		}
	}
	return false
}

// localPart returns the end of what may stand before the @, over one break that paper made.
func (w *window) localPart(i int) (at int, v verdict) {
	if at, v = w.while(i, maxEmail, isLocal); v == open || at-i == maxEmail {
		return at, v
	}
	r, next := w.at(at), w.at(at+1)
	switch {
	case r == '。' && next == unknown:
		return at, open
	case r == '。' && isAlnum(next), isBlank(r) && w.brokenLocal(i, at):
	default:
		return at, yes
	}
	more, v := w.while(at+1, 64, isLocal)
	if v == open {
		return at, open
	}
	if !w.any(i, at, isLetter) && (at-i > 8 || w.any(at+1, more, isLetter)) {
		return at, yes // a number of its own
	}
	if sign := w.at(more); more > at+1 && sign > 0 && strings.ContainsRune("@[(艾小圈", sign) {
		return more, yes
	}
	return at, yes
}

// brokenLocal reports whether the blank at cell at may be inside of the address that begins at cell i: a label stands before it, or Chinese
// text, and it is no word that stands before addresses.
func (w *window) brokenLocal(i, at int) bool {
	if w.adjacent(i, emailLabels) || w.at(at-1) == '.' || w.at(at-1) == '_' {
		return true
	}
	if next := w.at(at + 1); next == '.' || next == '_' {
		return true
	}
	left := w.at(i - 1)
	if isBlank(left) && isHan(w.at(i-2)) && !w.any(i, at, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		left = w.at(i - 2)
	}
	if !isHan(left) && (left < 0 || !strings.ContainsRune(":,;([<\"'“「。、|=", left)) || at-i > 24 {
		return false
	}
	return !strings.Contains(beforeEmails, " "+strings.ToLower(w.ascii(i, at))+" ")
}

// beforeEmails are words of ASCII that stand before an address and are no part of it.
const beforeEmails = " email e-mail mail to from cc bcc contact at is or and of the for gmail outlook qq wechat id admin it hr user via by send please pls my " +
	"your addr address account login name reply re fw dear hi tel phone fax mobile vx wx weixin foxmail icloud hotmail yahoo sina msn skype git ssh ping root scp smtp imap "

// underscored returns the end of an address such as zhang_at_example.com that cells i to at are; 0 if they are none.
func (w *window) underscored(i, at int) int {
	if at-i < 10 || at-i > 80 {
		return 0
	}
	if !w.signInside(i, at) {
		return 0
	}
	text := strings.ToLower(w.ascii(i, at))
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
func (w *window) signInside(i, end int) bool {
	for k := i; k+3 < end; k++ {
		if c := w.cells[k : k+4]; c[0].r == c[3].r && !isAlnum(c[0].r) && lower(c[1].r) == 'a' && lower(c[2].r) == 't' {
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
func (w *window) atSign(i int) (end, how int, v verdict) {
	if end, v = w.sign(i, '@', atInBrackets, atWords); v != no {
		return end, signMark, v
	}
	if r := w.at(i); r == '#' || r == '*' || r == '&' || r == '$' {
		return i + 1, signOther, yes
	}
	if !isBlank(w.at(i)) {
		return 0, 0, no
	}
	end, v = w.literal(i+1, "at")
	if v != yes {
		return 0, 0, v
	}
	if r := w.at(end); !isBlank(r) {
		return 0, 0, when(r == unknown, open, no)
	}
	return end + 1, signWord, yes
}

// What people write for the signs of an address.
var ( //nolint:gochecknoglobals // constant tables
	atInBrackets  = strings.Fields("at a @ 艾特 圈a at符号")
	atWords       = strings.Fields("艾特 爱特 小老鼠 圈a")
	dotInBrackets = strings.Fields("dot . 点 d")
	dotWords      = strings.Fields("点 dot")
)

// sign returns the end of a sign, or of what people write for it: one of some words in brackets or alone, with a blank on either side.
func (w *window) sign(i int, sign rune, inBrackets, alone []string) (end int, v verdict) {
	if w.at(i) == sign && sign == '.' || w.at(i) == '。' && sign == '.' {
		return i + 1, yes
	}
	if isBlank(w.at(i)) {
		i++
	}
	switch r := w.at(i); r {
	case unknown:
		return 0, open
	case sign:
		end = i + 1
	case '[', '(', '{', '【', '<', '「':
		i, _ = w.while(i+1, 1, isBlank)
		if end, v = w.oneOf(i, inBrackets); v != yes {
			return 0, v
		}
		end, _ = w.while(end, 1, isBlank)
		closing := w.at(end)
		if closing == unknown {
			return 0, open
		}
		if !strings.ContainsRune("])}】>」", closing) || closing < 0 {
			return 0, no
		}
		end++
	default:
		if end, v = w.oneOf(i, alone); v != yes {
			return 0, v
		}
	}
	if w.at(end) == unknown {
		return 0, open
	}
	if isBlank(w.at(end)) && (sign == '@' || w.at(end) == ' ') {
		end++
	}
	return end, yes
}

// oneOf returns the end of the first of some words that stands at cell i, and behind which no letter goes on.
func (w *window) oneOf(i int, words []string) (end int, v verdict) {
	for _, word := range words {
		end, v := w.literal(i, word)
		if v == open {
			return 0, open
		}
		if v == no {
			continue
		}
		if letter := isLetter(rune(word[len(word)-1])); letter && w.at(end) == unknown {
			return 0, open
		} else if !letter || !isLetter(w.at(end)) {
			return end, yes
		}
	}
	return 0, no
}

var emailLabels = endingsOf("邮箱", "邮件", "邮址", "email", "e-mail", "mail", "to", "from", "cc", "contact", "邮箱地址", "电邮", "信箱", "伊妹儿") //nolint:gochecknoglobals // a constant table

func isLocal(r rune) bool {
	return isAlnum(r) || r == '.' || r == '_' || r == '%' || r == '+' || r == '-'
}
