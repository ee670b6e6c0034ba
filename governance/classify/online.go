package classify

import (
	"strings"
	"unicode/utf8"
)

// endings are words in lower case by their last characters.
type endings struct {
	ascii  [0x80][]string
	last   *runeSet // of the others
	others map[rune][]string
}

func endingsOf(words ...string) *endings {
	e := &endings{others: map[rune][]string{}}
	all := ""
	for _, word := range words {
		last, _ := utf8.DecodeLastRuneInString(word)
		if last < 0x80 {
			e.ascii[last] = append(e.ascii[last], word)
			continue
		}
		e.others[last] = append(e.others[last], word)
		all += string(last)
	}
	e.last = runesOf(all)
	return e
}

// of returns the words that end with a character.
func (e *endings) of(r rune) []string {
	switch {
	case uint32(r) < 0x80:
		return e.ascii[r]
	case e.last.has(r):
		return e.others[r]
	}
	return nil
}

// adjacent reports whether one of the labels, in lower case, stands directly before cell i, apart from at most six characters that join a
// label and its value.
func (w *window) adjacent(i int, labels *endings) bool { return w.labelledBy(i, 6, joiners, labels) }

var joiners = runesOf(":=是为号码([【「『\"'“” ,><-_\n") //nolint:gochecknoglobals // a constant table

// labelledBy reports whether one of the labels stands before cell i, with at most so many of the joining characters between.
func (w *window) labelledBy(i, most int, joining *runeSet, labels *endings) bool {
	for k := i - 1; k >= 0; k-- {
		if w.endsWith(k, labels) {
			return true
		}
		if i-1-k >= most || !joining.has(w.cells[k].r) {
			return false
		}
	}
	return false
}

// endsWith reports whether one of the labels ends with cell k.
func (w *window) endsWith(k int, labels *endings) bool {
	if k < 0 {
		return false
	}
	for _, label := range labels.of(lower(w.cells[k].r)) {
		if w.ends(k, label) {
			return true
		}
	}
	return false
}

// ends reports whether a label ends with cell k. One stray blank between its Chinese characters does not matter.
func (w *window) ends(k int, label string) bool {
	first, blanks := rune(0), 0
	for rest := label; rest != ""; k-- {
		r, size := rune(rest[len(rest)-1]), 1
		if r >= 0x80 {
			r, size = utf8.DecodeLastRuneInString(rest)
		}
		if k >= 0 && isBlank(w.cells[k].r) && blanks == 0 && first >= 0x80 && r >= 0x80 {
			blanks++
			continue
		}
		if k < 0 || lower(w.cells[k].r) != r {
			return false
		}
		rest, first = rest[:len(rest)-size], r
	}
	return k < 0 || !isAlnum(first) || !isLetter(w.cells[k].r)
}

// Words for accounts. The letters alone count only where no other word ends with them.
var ( //nolint:gochecknoglobals // constant tables
	wechatNames  = endingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin")
	wechatLabels = endingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin", "维信", "围信", "徽信", "微❤", "薇❤", "威❤", "v❤", "v♥", "we chat", "wei xin", "wei信",
		"微xin", "wxid", "wechat account", "wechat_id", "wechat_no", "wechat no", "wechat no.", "wechatno", "weixin_id", "weixinid", "weixin_no", "wx_id", "wx_no", "vx_id", "微信/手机", "微信/电话",
		"微信同号", "微信id", "微信 id", "wechat id", "wechatid", "wxhao", "绿泡泡", "加v", "加微", "加薇", "加威", "+v", "+微", "+薇", "+威", "➕v", "➕微", "➕薇", "我v", "我薇", "我微",
		"的v", "的薇", "的微", "(v)", "(微)", "(薇)", "联系v", "搜v", "微我", "薇我", "卫星", "薇芯", "微芯",
		"v❤同步", "v♥同步", "客服v", "客服薇", "客服微", "➕", "裙主", "v同号")
	accountTails = []string{"这个号", "这个微信", "的微信", "是他微信", "是她微信", "是我微信", "微信", "(微信", "←", " ←"} //nolint:gochecknoglobals // a constant table
	accountWords = endingsOf("绿泡泡", "好友", "昵称", "网友", "私聊", "网名", "小号")
	notAccounts  = endingsOf("支付", "小程序", "公众", "接口", "开放", "版本", "文档", "代码", "字段", "参数", "图片", "文件", "函数", "sdk", "错误", "日志", "变量", "配置", "型号", "表", "服务器", "域名", "邮箱", "系统",
		"设备", "模块", "脚本", "命令", "分支", "主机", "账套", "工单", "订单")
	wechatLetters = endingsOf("v", "微", "薇", "威")
	qqLabels      = endingsOf("qq", "q q", "扣扣", "企鹅", "qq群", "q群", "扣扣群", "qq account", "扣", "群主", "群号", "企鹅群", "球球", "蔻蔻", "抠抠", "加q", "+q", "➕q", "我q", "q号", "🐧",
		"qq id", "qqid", "qq number", "qq no", "qq no.", "qq账号", "qq帐号")
)

// What stands between a label and the name of an account.
const (
	accountJoins = ":=是为号码账帐名叫([【「『\"'“”‘’ ,><-_\n~|/❤♥…"
	accountAsks  = "添加搜一下索用联系我你他她的这那个人好友备注就请可以直接先再发来到问找在"
)

var ( //nolint:gochecknoglobals // constant tables
	joinsAccount   = runesOf(accountJoins)
	asksForAccount = runesOf(accountJoins + accountAsks) // where people ask others to add them; what follows has to look like a name
	joinsNumber    = runesOf(accountJoins + "添加")
	joinsID        = runesOf(" _")
	tellsAccount   = runesOf(":“\"'「(-,")
	endsSentences  = runesOf("。;!?\n")
	endsTelling    = endsSentences.and(notAccounts, wechatNames, accountWords)
)

func isWeChat(r rune) bool { return isAlnum(r) || r == '_' || r == '-' }

// labelledWeChat says how surely the value at cell i is labelled as an account: 2 right before it, 1 with other words between.
func (w *window) labelledWeChat(i int) int {
	if w.labelledBy(i, 8, joinsAccount, wechatLabels) {
		return 2
	}
	colon := false
	for k := i - 1; k >= max(0, i-4); k-- { // v: and the like
		if colon && w.endsWith(k, wechatLetters) && !isHan(w.at(k-1)) && !isAlnum(w.at(k-1)) && w.at(k-1) != '-' {
			return 2
		}
		if !strings.ContainsRune(": \n", w.cells[k].r) {
			break
		}
		colon = colon || w.cells[k].r == ':'
	}
	if w.labelledBy(i, 12, asksForAccount, wechatNames) || w.at(i-1) == '+' && (isHan(w.at(i-2)) || w.at(i-2) == edge || isBlank(w.at(i-2))) || w.toldBefore(i) {
		return 1
	}
	return 0
}

// toldBefore reports whether the sentence speaks of WeChat before cell i, and of nothing that other names belong to.
func (w *window) toldBefore(i int) bool {
	if left := w.at(i - 1); !isHan(left) && !tellsAccount.has(left) {
		return false
	}
	for k := i - 1; k > max(0, i-labelReach-8); k-- {
		r := lower(w.cells[k].r)
		if !endsTelling.has(r) {
			continue
		}
		if endsSentences.has(r) || w.endsWith(k, notAccounts) {
			return false
		}
		if w.endsWith(k, wechatNames) || w.endsWith(k, accountWords) {
			h := w.hints(i)
			return !h.found || h.of.any(set(kQQ, kWeChat))
		}
	}
	return false
}

// wechat finds names of WeChat accounts behind a label: a letter and 5 to 19 letters, digits, dashes and underscores, over one break of
// paper.
func wechat(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	glued := isLetter(left) && !isDigit(w.at(i)) && w.endsWith(i-1, wechatLabels)
	if isWeChat(left) && !glued && !(left == '-' && w.endsWith(i-2, wechatLabels)) {
		return match{}, no
	}
	sure := w.labelledWeChat(i)
	if sure == 0 && !w.added(i) {
		if glued || isAlnum(left) {
			return match{}, no
		}
		return w.toldBehind(i)
	}
	s, v := w.accountName(i)
	if v == open {
		return match{}, open
	}
	text := s.text
	if left == '+' && s.gap > 0 {
		text = text[:s.gap]
	}
	if glued && (s.gap > 0 || !hasDigit(text) || strings.IndexByte(string(text), '_') > 0 && !strings.HasPrefix(string(text), "wxid_")) {
		return match{}, no // VXLAN, wxpay_notify2
	}
	if k, v := w.literal(i, "id"); v == yes && (len(text) > 8 || !isWeChat(w.at(k))) && w.labelledBy(i, 1, joinsID, wechatNames) {
		return match{}, no // 微信ID and the name behind it: that is found by its own label
	}
	if sure == 1 {
		for _, word := range []string{"文档", "字段", "接口", "文件", "函数", "版本", "表", "分支"} {
			if _, v := w.literal(s.at[len(text)-1]+1, word); v != no {
				return match{}, v & open
			}
		}
	}
	if len(text) < 6 || len(text) > 20 || strings.Contains(noAccounts, " "+strings.ToLower(string(text))+" ") {
		return match{}, no
	}
	m := match{kind: kWeChat, start: i, end: s.at[len(text)-1] + 1, form: 0.2, why: labelBefore}
	signed, digits := strings.ContainsAny(string(text), "_-"), hasDigit(text)
	if digits || signed {
		m.why |= typical
	}
	switch {
	case sure == 1 && m.why&typical == 0, sure == 0 && !(signed && digits):
		return match{}, no
	case isDigit(rune(text[0])) && (sure < 2 || !strings.ContainsFunc(string(text), isLetter)): // a misread l
		return match{}, no
	}
	goesOn, v := w.hostGoesOn(m.end)
	return m, when(v == open, open, when(goesOn, no, yes))
}

// toldBehind finds names that no label stands before: those that WeChat gives, and those that words such as 这个号 stand behind.
func (w *window) toldBehind(i int) (match, verdict) {
	end, v := w.while(i, 21, isWeChat)
	if v == open {
		return match{}, open
	}
	if end-i < 6 || end-i > 20 || isDigit(w.at(i)) {
		return match{}, no
	}
	m := match{kind: kWeChat, start: i, end: end, form: 0.5}
	if _, v := w.literal(i, "wxid_"); v == yes && end-i > 14 {
		return m, yes
	}
	if !w.any(i, end, func(r rune) bool { return !isLetter(r) }) && !w.usedBefore(i) {
		return match{}, no
	}
	for _, tail := range accountTails {
		if _, v := w.literal(end, tail); v != no {
			return m, v
		}
	}
	return match{}, no
}

// usedBefore reports whether what stands before cell i says that an account is used.
func (w *window) usedBefore(i int) bool {
	return i > 0 && strings.ContainsRune("过用加是号", w.cells[i-1].r)
}

// hostGoesOn reports whether what ends before cell i is rather the beginning of an address of the Internet.
func (w *window) hostGoesOn(i int) (bool, verdict) {
	switch next, after := w.at(i), w.at(i+1); next {
	case '@':
		return true, yes
	case '.', '/', ':':
		return isAlnum(after) || after == '/', when(after == unknown, open, yes)
	}
	return false, yes
}

// added reports whether 加 stands before cell i, as in 你加zhang_88, and is no part of another word.
func (w *window) added(i int) bool {
	return w.at(i-1) == '加' && (i < 2 || !strings.ContainsRune("添增附外更参追叠累施强", w.at(i-2)))
}

// accountName reads the name of an account over one break of paper.
func (w *window) accountName(i int) (s spelling, v verdict) {
	for k := i; len(s.text) < 24; k++ {
		r := w.at(k)
		if r == unknown {
			return s, open
		}
		if isWeChat(r) {
			s.text, s.at = append(s.text, byte(r)), append(s.at, k)
			continue
		}
		if !isBlank(r) || s.gap > 0 || len(s.text) == 0 || len(s.text) > 19 {
			break
		}
		s.gap = len(s.text)
		goesOn, v := w.nameGoesOn(k+1, s.text)
		if v == open {
			return s, open
		}
		if !goesOn {
			break
		}
	}
	for len(s.text) > 0 && s.text[len(s.text)-1] == '-' {
		s.text = s.text[:len(s.text)-1]
	}
	return s, yes
}

// nameGoesOn reports whether the row of letters and digits at cell k belongs to the name before the blank: it has a digit or a sign, or is
// too short for a word of its own.
func (w *window) nameGoesOn(k int, before []byte) (bool, verdict) {
	end, v := w.while(k, 20, isWeChat)
	if v == open {
		return false, open
	}
	size, next := end-k, w.at(end)
	if size == 0 || size+len(before) > 20 || size+len(before) < 6 || next > 0 && strings.ContainsRune("@.:/", next) {
		return false, yes
	}
	letters, digits := w.any(k, end, isLetter), w.any(k, end, isDigit)
	signs := w.any(k, end, func(r rune) bool { return r == '_' || r == '-' })
	switch {
	case digits && !letters && !signs:
		short := len(before) < 5 && size != 11 && !strings.Contains(beforeEmails, " "+strings.ToLower(string(before))+" ")
		return (size < 7 || short) && !(next > 0 && strings.ContainsRune("年月日点元块人个次岁号", next)), yes
	case digits, signs, len(before) < 6:
		return true, yes
	}
	return size < 4 && (next == edge || next == ',' || next == '。' || next == ')' || isHan(next)), yes
}

// noAccounts are words that stand behind a label and are no names.
const noAccounts = " openid appid unionid callback notify payment server client message public official version account number config webview android iphone " +
	"iphone14 iphone15 iphone16 iphone17 android13 android14 android15 windows10 windows11 wechat weixin please contact thanks windows mobile service platform program miniprogram developer official-account access_token appsecret defendant " +
	"plaintiff address customer agency follow article secret script button "

func hasDigit(s []byte) bool { return strings.ContainsFunc(string(s), isDigit) }

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
	if size < 5 || n.digit[0] == '0' || !n.w.labelledBy(first, 8, joinsNumber, qqLabels) {
		return match{}, no
	}
	if n.w.at(n.at[size-1]+1) == '@' {
		return match{}, no
	}
	return match{kind: kQQ, start: first, end: n.at[size-1] + 1, form: 0.3, why: labelBefore}, yes
}
