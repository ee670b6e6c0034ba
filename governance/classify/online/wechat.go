package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// What stands between a label and the name of an account.
const (
	accountJoins = ":=是为号號码账帐帳名叫([【「『\"'“”‘’ ,><-_\n\t~|/❤♥…🔎🔍🌟👉📱💬➡→"
	accountAsks  = "添加搜一下索用联系我你他她的这那个人好友备注就请可以直接先再发来到问找在"
)

var (
	joinsAccount   = text.RunesOf(accountJoins)
	asksForAccount = text.RunesOf(accountJoins + accountAsks) // where people ask others to add them; what follows has to look like a name
	joinsNumber    = text.RunesOf(accountJoins + "添加")
	joinsID        = text.RunesOf(" _")
	englishSlots   = text.EndingsOf("via", "i'm", "is", "am", "add", "contact", "account", "me")
	otherNames     = strings.Fields("文档 字段 接口 文件 函数 版本 分支 列 行 节点 目录 返回 报错 升级 模块 服务 离线 宕机 表 库 实例 环境 脚本 插件 方法 变量 参数 型号 规格 错误 异常 告警")
)

func isWeChat(r rune) bool { return text.IsAlnum(r) || r == '_' || r == '-' }

// labelledWeChat says how surely the value at cell i is labelled as an account: 2 right before it, 1 with other words between.
func (w *Accounts) labelledWeChat(i int) int {
	if w.LabelledBy(i, 8, joinsAccount, wechatLabels) {
		return 2
	}
	colon := false
	if before := w.At(i - 2); w.At(i-1) == '微' && (before == text.Edge || text.IsBlank(before) || beforeName.Has(before)) {
		return 2
	}
	for k := i - 1; k >= max(0, i-4); k-- { // v: and the like
		if colon && w.EndsWith(k, wechatLetters) && !text.IsHan(w.At(k-1)) && !text.IsAlnum(w.At(k-1)) && w.At(k-1) != '-' {
			return 2
		}
		if !strings.ContainsRune(": \n", w.At(k)) {
			break
		}
		colon = colon || w.At(k) == ':'
	}
	if w.LabelledBy(i, 12, asksForAccount, wechatNames) || w.plus(i) {
		return 1
	}
	return 0
}

// wechat finds names of WeChat accounts behind a label: a letter and 5 to 19 letters, digits, dashes and underscores, over one break of
// paper.
func wechat(w *Accounts, i int) (finding.Candidate, text.Verdict) {
	left := w.At(i - 1)
	glued := text.IsLetter(left) && !text.IsDigit(w.At(i)) && w.EndsWith(i-1, wechatLabels)
	if isWeChat(left) && !glued && !(left == '-' && (w.EndsWith(i-2, wechatLabels) || w.At(i-2) == '-' || text.IsHan(w.At(i-2)))) {
		return finding.Candidate{}, text.No
	}
	if before := text.Lower(w.At(i - 2)); text.IsBlank(left) && text.IsLetter(before) && len(wechatLabels.Of(before)) == 0 {
		return w.withoutLabel(i) // a word of prose, most often
	}
	sure := w.labelledWeChat(i)
	if sure == 0 && !w.added(i) {
		if glued || text.IsAlnum(left) {
			return finding.Candidate{}, text.No
		}
		return w.withoutLabel(i)
	}
	s, v := w.accountName(i)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	str := s.text
	if (left == '+' || left == ' ' && sure == 1) && s.gap > 0 {
		str = str[:s.gap]
	}
	if glued && (s.gap > 0 || !hasDigit(str) || strings.IndexByte(string(str), '_') > 0 && !strings.HasPrefix(string(str), "wxid_")) {
		return finding.Candidate{}, text.No // VXLAN, wxpay_notify2
	}
	if k, v := w.Literal(i, "id"); v == text.Yes && (len(str) > 8 || !isWeChat(w.At(k))) && w.LabelledBy(i, 1, joinsID, wechatNames) {
		return finding.Candidate{}, text.No // 微信ID and the name behind it: that is found by its own label
	}
	if len(str) > 0 {
		if _, v := w.OneOf(s.at[len(str)-1]+1, otherNames); v != text.No {
			return finding.Candidate{}, v & text.Open
		}
	}
	if len(str) < 6 || len(str) > 20 || strings.Contains(noAccounts, " "+strings.ToLower(string(str))+" ") {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.WeChat, Start: i, End: s.at[len(str)-1] + 1, Form: 0.2, Evidence: finding.LabelBefore}
	signed, digits := strings.ContainsAny(string(str), "_-"), hasDigit(str)
	if digits || signed {
		m.Evidence |= finding.Typical
	}
	switch {
	case sure == 1 && !digits && !strings.Contains(string(str), "_"), sure == 0 && !(signed && digits) && !endsInNumber(str):
		return w.inContext(i)
	case (sure < 2 || left == '-' || left == '_') && technical(str):
		return finding.Candidate{}, text.No
	case text.IsDigit(rune(str[0])) && (sure < 2 || !strings.ContainsFunc(string(str), text.IsLetter)): // a misread l
		return finding.Candidate{}, text.No
	}
	if left == ' ' && text.IsLetter(w.At(i-2)) { // wechat transfers are not allowed, wechat on host-88
		prose, v := w.wordFollows(m.End)
		broken := s.gap > 0 && strings.ContainsFunc(string(str[min(s.gap, len(str)):]), text.IsLetter)
		if v == text.Open || broken || !digits && !signed && !spelledChinese(str) && (prose || s.gap > 0 && s.gap < len(str)) {
			return finding.Candidate{}, v & text.Open
		}
	}
	goesOn, v := w.hostGoesOn(m.End)
	return m, text.When(v == text.Open, text.Open, text.When(goesOn, text.No, text.Yes))
}

// withoutLabel finds names that no label stands before: those that WeChat gives, those that words such as 这个号 stand behind, and those that
// look chosen in a talk about WeChat.
func (w *Accounts) withoutLabel(i int) (finding.Candidate, text.Verdict) {
	end, v := w.While(i, 21, isWeChat)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end-i > mostChosen || text.IsDigit(w.At(i)) {
		return finding.Candidate{}, text.No
	}
	m := finding.Candidate{Kind: finding.WeChat, Start: i, End: end, Form: 0.5}
	if _, v := w.Literal(i, "wxid_"); v == text.Yes && end-i > 14 {
		return m, text.Yes
	}
	if end-i >= leastChosen && w.At(end-1) != '-' && (w.usedBefore(i) || chosen(w.spell(i, end))) && !w.thingBefore(i) {
		called, v := w.beginsOne(end, accountTails)
		if isolated, _ := w.isolated(i, end); v == text.Open || called && (isolated || w.usedBefore(i) || w.Any(i, end, func(r rune) bool { return !text.IsLetter(r) })) {
			return m, v
		}
	}
	return w.inContext(i)
}

// inContext finds names that look chosen in a talk about WeChat.
func (w *Accounts) inContext(i int) (finding.Candidate, text.Verdict) {
	if !w.mayStand(i) {
		return finding.Candidate{}, text.No
	}
	s, v := w.accountName(i)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	str := s.text
	if s.gap > 0 && (!chosen(str) || (!text.IsHan(w.At(i-1)) || s.gap > 3) && strings.ContainsFunc(string(str[s.gap:]), text.IsLetter)) {
		str = str[:s.gap]
	}
	if !chosen(str) || w.thingBefore(i) {
		return finding.Candidate{}, text.No
	}
	if !hasDigit(str) && !strings.ContainsAny(string(str), "_-") {
		if isolated, v := w.isolated(i, s.at[len(str)-1]+1); v == text.Open || !isolated {
			return finding.Candidate{}, v & text.Open
		}
	}
	m := finding.Candidate{Kind: finding.WeChat, Start: i, End: s.at[len(str)-1] + 1, Form: 0.3, Evidence: finding.CueBefore}
	if thing, v := w.beginsOne(m.End, otherNames); v == text.Open || thing {
		return finding.Candidate{}, v & text.Open
	}
	if goesOn, v := w.hostGoesOn(m.End); v == text.Open || goesOn {
		return finding.Candidate{}, v & text.Open
	}
	if w.plus(i) || w.added(i) || w.goesOn(i, finding.WeChat) || w.mentionedBefore(i, wechatContext) {
		return m, text.Yes
	}
	m.Evidence = finding.CueBehind
	return m, w.mentionedBehind(m.End, wechatContext, isWeChat)
}

// thingBefore reports whether what stands before cell i says that the name is one of something else than an account.
func (w *Accounts) thingBefore(i int) bool {
	if w.LabelledBy(i, 4, joinsThing, things) {
		return true
	}
	h := w.Hints(i)
	return h.Other(finding.WeChat) && !h.Of.Any(likeAccounts)
}

// isolated reports whether Chinese text or its marks stand on both sides of cells i to end, with no blank between.
func (w *Accounts) isolated(i, end int) (bool, text.Verdict) {
	left, next := w.At(i-1), w.At(end)
	if left == text.Edge || text.IsBlank(left) || left == '"' || left == '\'' {
		return false, text.Yes
	}
	return text.IsHan(next) || next > 0 && strings.ContainsRune(",、;()”」』】", next), text.When(next == text.Unknown, text.Open, text.Yes)
}

// likeAccounts are what labels of accounts may also be labels of.
const likeAccounts = finding.Kinds(1<<finding.QQ | 1<<finding.WeChat | 1<<finding.BankAccount | 1<<finding.ResidentID | 1<<finding.Mobile | 1<<finding.UtilityAccount | 1<<finding.Landline)

// mayStand reports whether the name of an account may begin at cell i by what stands before: Chinese text or its marks, the beginning of a line,
// or a word of English that speaks of accounts.
func (w *Accounts) mayStand(i int) bool {
	left := w.At(i - 1)
	if text.IsBlank(left) {
		before := w.At(i - 2)
		return text.IsHan(before) || before == text.Edge || beforeName.Has(before) || before == ')' || w.EndsWith(i-2, englishSlots)
	}
	if left == '.' && text.IsDigit(w.At(i-2)) { // 1.
		return !text.IsAlnum(w.At(i - 3))
	}
	return left == text.Edge || left == '+' || text.IsHan(left) || beforeName.Has(left)
}

// usedBefore reports whether what stands before cell i says that an account is used.
func (w *Accounts) usedBefore(i int) bool {
	return i > 0 && strings.ContainsRune("过用加是号系", w.At(i-1))
}

// endsInNumber reports whether s is letters and at least four digits, and no product such as rtx4090.
func endsInNumber(s []byte) bool {
	letters := 0
	for letters < len(s) && text.IsLetter(rune(s[letters])) {
		letters++
	}
	for _, c := range s[letters:] {
		if !text.IsDigit(rune(c)) {
			return false
		}
	}
	return letters > 1 && len(s)-letters > 3 && !strings.Contains(" rtx gtx ddr intel amd win iso gb hg sf yt jd ", " "+strings.ToLower(string(s[:letters]))+" ")
}

// wordFollows reports whether a word of letters stands behind a blank at cell i.
func (w *Accounts) wordFollows(i int) (bool, text.Verdict) {
	if r := w.At(i); r != ' ' {
		return false, text.When(r == text.Unknown, text.Open, text.Yes)
	}
	return text.IsLetter(w.At(i + 1)), text.When(w.At(i+1) == text.Unknown, text.Open, text.Yes)
}

// hostGoesOn reports whether what ends before cell i is rather the beginning of an address of the Internet, or the name of a value: "gender":1.
func (w *Accounts) hostGoesOn(i int) (bool, text.Verdict) {
	switch next, after := w.At(i), w.At(i+1); next {
	case '@':
		return true, text.Yes
	case '"':
		return after == ':', text.When(after == text.Unknown, text.Open, text.Yes)
	case '.', '/', ':':
		return text.IsAlnum(after) || after == '/', text.When(after == text.Unknown, text.Open, text.Yes)
	}
	return false, text.Yes
}

// plus reports whether + stands for 加 before cell i, as in 办证+zhang_88: behind Chinese text or its marks.
func (w *Accounts) plus(i int) bool {
	before := w.At(i - 2)
	return w.At(i-1) == '+' && (text.IsHan(before) || before > 0 && strings.ContainsRune(",:“、", before))
}

// added reports whether 加 stands before cell i, as in 你加zhang_88, and is no part of another word.
func (w *Accounts) added(i int) bool {
	return w.At(i-1) == '加' && !w.EndsWith(i, wechatLabels) && (i < 2 || !strings.ContainsRune("添增附外更参追叠累施强", w.At(i-2)))
}

// accountName reads the name of an account over one break of paper.
func (w *Accounts) accountName(i int) (s spelling, v text.Verdict) {
	s.text, s.at = w.spelt[:0], w.speltAt[:0]
	for k := i; len(s.text) < 24; k++ {
		r := w.At(k)
		if r == text.Unknown {
			return s, text.Open
		}
		if isWeChat(r) {
			s.text, s.at = append(s.text, byte(r)), append(s.at, k)
			continue
		}
		if !text.IsBlank(r) || s.gap > 0 || len(s.text) == 0 || len(s.text) > 19 {
			break
		}
		s.gap = len(s.text)
		goesOn, v := w.nameGoesOn(k+1, s.text)
		if v == text.Open {
			return s, text.Open
		}
		if !goesOn {
			break
		}
	}
	for len(s.text) > 0 && s.text[len(s.text)-1] == '-' {
		s.text = s.text[:len(s.text)-1]
	}
	s.gap = min(s.gap, len(s.text))
	return s, text.Yes
}

// nameGoesOn reports whether the row of letters and digits at cell k belongs to the name before the blank: it has a digit or a sign, or is
// too short for a word of its own.
func (w *Accounts) nameGoesOn(k int, before []byte) (bool, text.Verdict) {
	end, v := w.While(k, 20, isWeChat)
	if v == text.Open {
		return false, text.Open
	}
	size, next := end-k, w.At(end)
	if size == 0 || size+len(before) > 20 || size+len(before) < 6 || next > 0 && strings.ContainsRune("@.:/", next) {
		return false, text.Yes
	}
	letters, digits := w.Any(k, end, text.IsLetter), w.Any(k, end, text.IsDigit)
	signs := w.Any(k, end, func(r rune) bool { return r == '_' || r == '-' })
	switch {
	case digits && !letters:
		short := len(before) < 5 && size != 11 && !strings.Contains(beforeEmails, " "+strings.ToLower(string(before))+" ")
		return (size < 7 || short) && !(next > 0 && strings.ContainsRune("年月日点元块人个次岁号", next)), text.Yes
	case digits, signs, len(before) < 6:
		return true, text.Yes
	}
	return size < 4 && (next == text.Edge || next == ',' || next == '。' || next == ')' || text.IsHan(next)), text.Yes
}

// noAccounts are words that stand behind a label and are no names.
const noAccounts = " openid appid unionid callback notify payment server client message public official version account number config webview android iphone " +
	"iphone14 iphone15 iphone16 iphone17 android13 android14 android15 windows10 windows11 wechat weixin please contact thanks windows mobile service platform program miniprogram developer official-account access_token appsecret defendant " +
	"plaintiff address customer agency follow article secret script button "

func hasDigit(s []byte) bool { return strings.ContainsFunc(string(s), text.IsDigit) }

// accountAhead reports whether the row of letters and digits from cell i to end begins the name of an account by its length: six characters, or
// a blank that paper made. One that begins with a digit has a letter.
func (w *Accounts) accountAhead(i, end int) bool {
	for end < w.End() && isWeChat(w.At(end)) {
		if end++; end-i >= 24 { // longer than names are: the detector says
			return true
		}
	}
	next := w.At(end)
	return next == text.Unknown || text.IsBlank(next) || end-i >= 6 && (!text.IsDigit(w.At(i)) || w.Any(i, end, text.IsLetter))
}
