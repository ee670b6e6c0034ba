package classify

import "strings"

// What stands between a label and the name of an account.
const (
	accountJoins = ":=是为号號码账帐帳名叫([【「『\"'“”‘’ ,><-_\n\t~|/❤♥…🔎🔍🌟👉📱💬➡→"
	accountAsks  = "添加搜一下索用联系我你他她的这那个人好友备注就请可以直接先再发来到问找在"
)

var ( //nolint:gochecknoglobals // constant tables
	joinsAccount   = runesOf(accountJoins)
	asksForAccount = runesOf(accountJoins + accountAsks) // where people ask others to add them; what follows has to look like a name
	joinsNumber    = runesOf(accountJoins + "添加")
	joinsID        = runesOf(" _")
	englishSlots   = endingsOf("via", "i'm", "is", "am", "add", "contact", "account", "me")
	otherNames     = strings.Fields("文档 字段 接口 文件 函数 版本 分支 列 行 节点 目录 返回 报错 升级 模块 服务 离线 宕机 表 库 实例 环境 脚本 插件 方法 变量 参数 型号 规格 错误 异常 告警")
)

func isWeChat(r rune) bool { return isAlnum(r) || r == '_' || r == '-' }

// labelledWeChat says how surely the value at cell i is labelled as an account: 2 right before it, 1 with other words between.
func (w *window) labelledWeChat(i int) int {
	if w.labelledBy(i, 8, joinsAccount, wechatLabels) {
		return 2
	}
	colon := false
	if alone := w.at(i - 2); w.at(i-1) == '微' && (alone == edge || isBlank(alone) || beforeName.has(alone)) {
		return 2
	}
	for k := i - 1; k >= max(0, i-4); k-- { // v: and the like
		if colon && w.endsWith(k, wechatLetters) && !isHan(w.at(k-1)) && !isAlnum(w.at(k-1)) && w.at(k-1) != '-' {
			return 2
		}
		if !strings.ContainsRune(": \n", w.cells[k].r) {
			break
		}
		colon = colon || w.cells[k].r == ':'
	}
	if w.labelledBy(i, 12, asksForAccount, wechatNames) || w.plus(i) {
		return 1
	}
	return 0
}

// wechat finds names of WeChat accounts behind a label: a letter and 5 to 19 letters, digits, dashes and underscores, over one break of
// paper.
func wechat(w *window, i int) (match, verdict) {
	left := w.at(i - 1)
	glued := isLetter(left) && !isDigit(w.at(i)) && w.endsWith(i-1, wechatLabels)
	if isWeChat(left) && !glued && !(left == '-' && (w.endsWith(i-2, wechatLabels) || w.at(i-2) == '-' || isHan(w.at(i-2)))) {
		return match{}, no
	}
	if before := lower(w.at(i - 2)); isBlank(left) && isLetter(before) && len(wechatLabels.of(before)) == 0 {
		return w.toldBehind(i) // a word of prose, most often
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
	if (left == '+' || left == ' ' && sure == 1) && s.gap > 0 {
		text = text[:s.gap]
	}
	if glued && (s.gap > 0 || !hasDigit(text) || strings.IndexByte(string(text), '_') > 0 && !strings.HasPrefix(string(text), "wxid_")) {
		return match{}, no // VXLAN, wxpay_notify2
	}
	if k, v := w.literal(i, "id"); v == yes && (len(text) > 8 || !isWeChat(w.at(k))) && w.labelledBy(i, 1, joinsID, wechatNames) {
		return match{}, no // 微信ID and the name behind it: that is found by its own label
	}
	if len(text) > 0 {
		if _, v := w.oneOf(s.at[len(text)-1]+1, otherNames); v != no {
			return match{}, v & open
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
	case sure == 1 && !digits && !strings.Contains(string(text), "_"), sure == 0 && !(signed && digits) && !endsInNumber(text):
		return w.spokenOf(i)
	case (sure < 2 || left == '-' || left == '_') && technical(text):
		return match{}, no
	case isDigit(rune(text[0])) && (sure < 2 || !strings.ContainsFunc(string(text), isLetter)): // a misread l
		return match{}, no
	}
	if left == ' ' && isLetter(w.at(i-2)) { // wechat transfers are not allowed, wechat on host-88
		prose, v := w.wordFollows(m.end)
		broken := s.gap > 0 && strings.ContainsFunc(string(text[min(s.gap, len(text)):]), isLetter)
		if v == open || broken || !digits && !signed && !w.spelledChinese(text) && (prose || s.gap > 0 && s.gap < len(text)) {
			return match{}, v & open
		}
	}
	goesOn, v := w.hostGoesOn(m.end)
	return m, when(v == open, open, when(goesOn, no, yes))
}

// toldBehind finds names that no label stands before: those that WeChat gives, those that words such as 这个号 stand behind, and those that
// look chosen in a talk about WeChat.
func (w *window) toldBehind(i int) (match, verdict) {
	end, v := w.while(i, 21, isWeChat)
	if v == open {
		return match{}, open
	}
	if end-i > mostChosen || isDigit(w.at(i)) {
		return match{}, no
	}
	m := match{kind: kWeChat, start: i, end: end, form: 0.5}
	if _, v := w.literal(i, "wxid_"); v == yes && end-i > 14 {
		return m, yes
	}
	if end-i >= leastChosen && w.at(end-1) != '-' && (w.usedBefore(i) || w.chosen(w.spell(i, end))) && !w.thingBefore(i) {
		called, v := w.beginsOne(end, accountTails)
		if alone, _ := w.standsAlone(i, end); v == open || called && (alone || w.usedBefore(i) || w.any(i, end, func(r rune) bool { return !isLetter(r) })) {
			return m, v
		}
	}
	return w.spokenOf(i)
}

// spokenOf finds names that look chosen in a talk about WeChat.
func (w *window) spokenOf(i int) (match, verdict) {
	if !w.mayStand(i) {
		return match{}, no
	}
	s, v := w.accountName(i)
	if v == open {
		return match{}, open
	}
	text := s.text
	if s.gap > 0 && (!w.chosen(text) || (!isHan(w.at(i-1)) || s.gap > 3) && strings.ContainsFunc(string(text[s.gap:]), isLetter)) {
		text = text[:s.gap]
	}
	if !w.chosen(text) || w.thingBefore(i) {
		return match{}, no
	}
	if !hasDigit(text) && !strings.ContainsAny(string(text), "_-") {
		if alone, v := w.standsAlone(i, s.at[len(text)-1]+1); v == open || !alone {
			return match{}, v & open
		}
	}
	m := match{kind: kWeChat, start: i, end: s.at[len(text)-1] + 1, form: 0.3, why: cueBefore}
	if thing, v := w.beginsOne(m.end, otherNames); v == open || thing {
		return match{}, v & open
	}
	if goesOn, v := w.hostGoesOn(m.end); v == open || goesOn {
		return match{}, v & open
	}
	if w.plus(i) || w.added(i) || w.goesOn(i, kWeChat) || w.spokenBefore(i, wechatTalk) {
		return m, yes
	}
	m.why = cueBehind
	return m, w.spokenBehind(m.end, wechatTalk, isWeChat)
}

// thingBefore reports whether what stands before cell i says that the name is one of something else than an account.
func (w *window) thingBefore(i int) bool {
	if w.labelledBy(i, 4, joinsThing, things) {
		return true
	}
	h := w.hints(i)
	return h.other(kWeChat) && !h.of.any(likeAccounts)
}

// standsAlone reports whether Chinese text or its marks stand on both sides of cells i to end, with no blank between.
func (w *window) standsAlone(i, end int) (bool, verdict) {
	left, next := w.at(i-1), w.at(end)
	if left == edge || isBlank(left) || left == '"' || left == '\'' {
		return false, yes
	}
	return isHan(next) || next > 0 && strings.ContainsRune(",、;()”」』】", next), when(next == unknown, open, yes)
}

// likeAccounts are what labels of accounts may also be labels of.
const likeAccounts = bits(1<<kQQ | 1<<kWeChat | 1<<kBankAccount | 1<<kResidentID | 1<<kMobile | 1<<kUtilityAccount | 1<<kLandline)

// mayStand reports whether the name of an account may begin at cell i by what stands before: Chinese text or its marks, the beginning of a line,
// or a word of English that speaks of accounts.
func (w *window) mayStand(i int) bool {
	left := w.at(i - 1)
	if isBlank(left) {
		before := w.at(i - 2)
		return isHan(before) || before == edge || beforeName.has(before) || before == ')' || w.endsWith(i-2, englishSlots)
	}
	if left == '.' && isDigit(w.at(i-2)) { // 1.
		return !isAlnum(w.at(i - 3))
	}
	return left == edge || left == '+' || isHan(left) || beforeName.has(left)
}

// usedBefore reports whether what stands before cell i says that an account is used.
func (w *window) usedBefore(i int) bool {
	return i > 0 && strings.ContainsRune("过用加是号系", w.cells[i-1].r)
}

// endsInNumber reports whether s is letters and at least four digits, and no product such as rtx4090.
func endsInNumber(s []byte) bool {
	letters := 0
	for letters < len(s) && isLetter(rune(s[letters])) {
		letters++
	}
	for _, c := range s[letters:] {
		if !isDigit(rune(c)) {
			return false
		}
	}
	return letters > 1 && len(s)-letters > 3 && !strings.Contains(" rtx gtx ddr intel amd win iso gb hg sf yt jd ", " "+strings.ToLower(string(s[:letters]))+" ")
}

// wordFollows reports whether a word of letters stands behind a blank at cell i.
func (w *window) wordFollows(i int) (bool, verdict) {
	if r := w.at(i); r != ' ' {
		return false, when(r == unknown, open, yes)
	}
	return isLetter(w.at(i + 1)), when(w.at(i+1) == unknown, open, yes)
}

// hostGoesOn reports whether what ends before cell i is rather the beginning of an address of the Internet, or the name of a value: "gender":1.
func (w *window) hostGoesOn(i int) (bool, verdict) {
	switch next, after := w.at(i), w.at(i+1); next {
	case '@':
		return true, yes
	case '"':
		return after == ':', when(after == unknown, open, yes)
	case '.', '/', ':':
		return isAlnum(after) || after == '/', when(after == unknown, open, yes)
	}
	return false, yes
}

// plus reports whether + stands for 加 before cell i, as in 办证+zhang_88: behind Chinese text or its marks.
func (w *window) plus(i int) bool {
	before := w.at(i - 2)
	return w.at(i-1) == '+' && (isHan(before) || before > 0 && strings.ContainsRune(",:“、", before))
}

// added reports whether 加 stands before cell i, as in 你加zhang_88, and is no part of another word.
func (w *window) added(i int) bool {
	return w.at(i-1) == '加' && !w.endsWith(i, wechatLabels) && (i < 2 || !strings.ContainsRune("添增附外更参追叠累施强", w.at(i-2)))
}

// accountName reads the name of an account over one break of paper.
func (w *window) accountName(i int) (s spelling, v verdict) {
	s.text, s.at = w.spelt[:0], w.speltAt[:0]
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
	s.gap = min(s.gap, len(s.text))
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
	case digits && !letters:
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
