package classify

import "strings"

// adjacent reports whether one of the labels, in lower case, stands directly before cell i, apart from at most six characters that join a
// label and its value.
func (w *window) adjacent(i int, labels []string) bool {
	k := i - 1
	for n := 0; n < 6 && k >= 0 && strings.ContainsRune(":：=是为号码(（[【「『\"'“” ,，><-_", w.cells[k].r); n++ {
		if w.endsWith(k, labels) {
			return true
		}
		k--
	}
	return k >= 0 && w.endsWith(k, labels)
}

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
	runes := [16]rune{}
	n := 0
	for _, r := range label {
		runes[n] = r
		n++
	}
	for ; n > 0; n, k = n-1, k-1 {
		if k < 0 || lower(w.cells[k].r) != runes[n-1] {
			return false
		}
	}
	return k < 0 || !isAlnum(runes[0]) || !isLetter(w.cells[k].r)
}

var (
	wechatLabels = []string{"微信", "薇信", "威信", "微信id", "v信", "vx", "wx", "wechat", "weixin", "微", "薇", "wxid", "wechat id", "wechatid"} //nolint:gochecknoglobals // a constant table
	qqLabels     = []string{"qq", "q q", "扣扣", "企鹅", "qq群", "q群", "扣扣群", "qq account", "扣"}                                            //nolint:gochecknoglobals // a constant table
)

func isWeChat(r rune) bool { return isAlnum(r) || r == '_' || r == '-' }

// wechat finds names of WeChat accounts behind a label: a letter and 5 to 19 letters, digits, dashes and underscores.
func wechat(w *window, i int) (match, verdict) {
	if isWeChat(w.at(i-1)) && !isHan(w.at(i-1)) || !w.adjacent(i, wechatLabels) {
		return match{}, no
	}
	end, v := w.while(i, 21, isWeChat)
	if v == open {
		return match{}, open
	}
	for end > i && !isAlnum(w.at(end-1)) && w.at(end-1) != '_' {
		end--
	}
	if size := end - i; size < 6 || size > 20 || w.at(end) == '@' {
		return match{}, no
	}
	m := match{kind: kWeChat, start: i, end: end, form: 0.2, why: labelBefore}
	if w.any(i, end, isDigit) || w.any(i, end, func(r rune) bool { return r == '_' || r == '-' }) {
		m.why |= typical
	}
	return m, yes
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
	if size < 5 || n.digit[0] == '0' || !n.w.adjacent(first, qqLabels) {
		return match{}, no
	}
	if n.w.at(n.at[size-1]+1) == '@' {
		return match{}, no
	}
	return match{kind: kQQ, start: first, end: n.at[size-1] + 1, form: 0.3, why: labelBefore}, yes
}
