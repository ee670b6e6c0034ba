package classify

import (
	"strings"
	"unicode/utf8"
)

// adjacent reports whether one of the labels, in lower case, stands directly before cell i, apart from at most six characters that join a
// label and its value.
func (w *window) adjacent(i int, labels *endings) bool {
	k := i - 1
	for n := 0; n < 6 && k >= 0 && joiners.has(w.cells[k].r); n++ {
		if labels.end(w, k) {
			return true
		}
		k--
	}
	return k >= 0 && labels.end(w, k)
}

var joiners = runesOf(":：=是为号码(（[【「『\"'“” ,，><-_\n") //nolint:gochecknoglobals // a constant table

// endings are labels by their last characters.
type endings struct {
	ascii  [0x80][]string
	last   *runeSet // of the others
	others []string
}

func endingsOf(labels []string) *endings {
	e, last := new(endings), ""
	for _, label := range labels {
		if r, _ := utf8.DecodeLastRuneInString(label); r < 0x80 {
			e.ascii[r] = append(e.ascii[r], label)
		} else {
			last += string(r)
			e.others = append(e.others, label)
		}
	}
	e.last = runesOf(last)
	return e
}

// end reports whether one of the labels ends with cell k.
func (e *endings) end(w *window, k int) bool {
	r := lower(w.cells[k].r)
	if uint32(r) < 0x80 {
		return len(e.ascii[r]) > 0 && w.endsWith(k, e.ascii[r])
	}
	return e.last.has(r) && w.endsWith(k, e.others)
}

// The labels again, ready to be looked for.
var (
	emailEndings  = endingsOf(emailLabels)  //nolint:gochecknoglobals // a constant table
	wechatEndings = endingsOf(wechatLabels) //nolint:gochecknoglobals // a constant table
	qqEndings     = endingsOf(qqLabels)     //nolint:gochecknoglobals // a constant table
)

// endsWith reports whether one of the labels ends with cell k.
func (w *window) endsWith(k int, labels []string) bool {
	for _, label := range labels {
		if w.ends(k, label) {
			return true
		}
	}
	return false
}

func (w *window) ends(k int, label string) bool {
	first := rune(0)
	for rest := label; rest != ""; k-- {
		r, size := rune(rest[len(rest)-1]), 1
		if r >= 0x80 {
			r, size = utf8.DecodeLastRuneInString(rest)
		}
		if k < 0 || lower(w.cells[k].r) != r {
			return false
		}
		rest, first = rest[:len(rest)-size], r
	}
	return k < 0 || !isAlnum(first) || !isLetter(w.cells[k].r)
}

var (
	wechatLabels = []string{"微信", "薇信", "威信", "微信id", "v信", "vx", "wx", "wechat", "weixin", "微", "薇", "wxid", "wechat id", "wechatid"} //nolint:gochecknoglobals // a constant table
	qqLabels     = []string{"qq", "q q", "扣扣", "企鹅", "qq群", "q群", "扣扣群", "qq account", "扣", "群主", "群号", "企鹅群"}                         //nolint:gochecknoglobals // a constant table
)

func isWeChat(r rune) bool { return isAlnum(r) || r == '_' || r == '-' }

// wechat finds names of WeChat accounts behind a label: a letter and 5 to 19 letters, digits, dashes and underscores, with at most one blank
// or line break of paper between them.
func wechat(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	if isWeChat(left) && (!strings.ContainsRune("xXdDtTnN", left) || !w.endsWith(i-1, wechatLabels[4:])) || !w.adjacent(i, wechatEndings) {
		return match{}, no
	}
	s, v := w.spelled(i, 24, func(r rune) byte {
		if isWeChat(r) {
			return byte(r)
		}
		return 0
	})
	if v == open {
		return match{}, open
	}
	size := len(s.text)
	if s.gap < size && (s.gap >= 6 && !hasDigit(s.text[s.gap:]) || size > 20) { // what follows is a word of its own
		size = s.gap
	}
	if _, v := w.literal(i, "id"); v == yes && size > 8 && w.endsWith(i-1, wechatLabels[:3]) {
		return match{}, no // 微信ID and the name behind it: that is found by its own label
	}
	for size > 0 && s.text[size-1] == '-' {
		size--
	}
	if size < 6 || size > 20 || w.at(s.at[size-1]+1) == '@' {
		return match{}, no
	}
	m := match{kind: kWeChat, start: i, end: s.at[size-1] + 1, form: 0.2, why: labelBefore}
	if hasDigit(s.text[:size]) || strings.ContainsAny(string(s.text[:size]), "_-") {
		m.why |= typical
	}
	return m, yes
}

func hasDigit(s []byte) bool {
	return strings.ContainsFunc(string(s), isDigit)
}

// qq finds numbers of QQ accounts and groups behind a label: 5 to 11 digits that do not begin with zero.
func qq(n *number, first int) (match, verdict) {
	size := len(n.digit)
	if size > 11 { // what follows may be another number
		size = 11
	}
	for ; size >= 5; size-- {
		if n.whole(size) {
			break
		}
	}
	if size < 5 || n.digit[0] == '0' || !n.w.adjacent(first, qqEndings) {
		return match{}, no
	}
	if n.w.at(n.at[size-1]+1) == '@' {
		return match{}, no
	}
	return match{kind: kQQ, start: first, end: n.at[size-1] + 1, form: 0.3, why: labelBefore}, yes
}
