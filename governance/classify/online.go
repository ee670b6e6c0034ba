package classify

import (
	"strings"
	"unicode/utf8"
)

// endings are words in lower case by their last characters.
type endings struct {
	ascii  [0x80][]string
	before [0x80]*runeSet // what stands before the last character in those, nil where one of them is one character alone
	last   *runeSet       // of the others
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
	for r, words := range e.ascii {
		before := ""
		for _, word := range words {
			if len(word) == 1 {
				before = ""
				break
			}
			r, _ := utf8.DecodeLastRuneInString(word[:len(word)-1])
			before += string(r)
		}
		if before != "" {
			e.before[r] = runesOf(before)
		}
	}
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
	r := lower(w.cells[k].r)
	words := labels.of(r)
	if len(words) == 0 || r < 0x80 && labels.before[r] != nil && !labels.before[r].has(lower(w.at(k-1))) {
		return false
	}
	for _, label := range words {
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
	camel := k >= 0 && k+1 < len(w.cells) && w.cells[k].r >= 'a' && w.cells[k+1].r <= 'Z' // contactWechat
	return k < 0 || !isAlnum(first) || !isLetter(w.cells[k].r) || camel
}

// Words for accounts. The letters alone count only where no other word ends with them.
var ( //nolint:gochecknoglobals // constant tables
	wechatNames  = endingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin")
	wechatLabels = endingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin", "维信", "围信", "徽信", "唯信", "溦信", "葳信", "w信", "w❤", "weixin id", "微信支付账号", "微信支付账户", "微❤", "薇❤", "威❤", "v❤", "v♥", "we chat", "wei xin", "wei信",
		"微xin", "wxid", "wechat account", "wechat_id", "wechat_no", "wechat no", "wechat no.", "wechatno", "weixin_id", "weixinid", "weixin_no", "wx_id", "wx_no", "vx_id", "微信/手机", "微信/电话",
		"微信同号", "微信id", "微信 id", "wechat id", "wechatid", "wxhao", "绿泡泡", "加v", "加微", "加薇", "加威", "+v", "+微", "+薇", "+威", "➕v", "➕微", "➕薇", "我v", "我薇", "我微",
		"的v", "的薇", "的微", "(v)", "(微)", "(薇)", "联系v", "搜v", "微我", "薇我", "卫星", "薇芯", "微芯",
		"微♥", "薇♥", "威♥", "wei心", "🛰", "v❤同步", "v♥同步", "客服v", "客服薇", "客服微", "➕", "裙主", "v同号", "企微", "微号", "薇号", "威号", "v号", "微x", "薇x", "威x", "vxin")
	accountTails = []string{"这个号", "这个微信", "的微信", "是他微信", "是她微信", "是我微信", "微信", "(微信", "(薇信", "(vx", "←", "微❤", "微♥"} //nolint:gochecknoglobals // a constant table
	// things have names that are made as those of accounts are.
	things = endingsOf("小程序", "公众", "公众号", "接口", "开放", "版本", "文档", "代码", "字段", "参数", "图片", "函数", "sdk", "错误", "日志", "变量", "配置", "型号", "服务器", "域名", "设备", "模块", "脚本", "命令", "分支", "主机",
		"账套", "工单", "订单", "节点", "实例", "容器", "仓库", "镜像", "集群", "数据库", "目录", "路径", "插件", "组件", "机台", "机床", "产线", "规格", "批次", "物料", "图号", "固件", "工位", "交换机", "网关", "路由器", "打印机", "返回", "报错", "回调",
		"密码", "口令", "环境", "进程", "任务", "队列", "枚举", "常量", "token", "error", "errcode", "api", "host", "server", "branch", "version", "网址", "链接", "验证码", "优惠码", "邀请码", "兑换码", "券码", "单号", "流水号",
		"摄像头", "道闸", "闸机", "词库", "表", "系统")
	wechatLetters = endingsOf("v", "微", "薇", "威")
	qqLabels      = endingsOf("qq", "q q", "扣扣", "企鹅", "qq群", "q群", "扣扣群", "qq account", "扣", "群主", "群号", "企鹅群", "球球", "蔻蔻", "抠抠", "加q", "+q", "➕q", "我q", "q号", "🐧",
		"qq is", "uin", "鹅号", "qq id", "qqid", "qq number", "qq no", "qq no.", "qq账号", "qq帐号")
)

// qq finds numbers of QQ accounts and groups behind a label, or where the talk is about QQ: 5 to 11 digits that do not begin with zero.
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
	if size < 5 || n.digit[0] == '0' || n.w.at(n.end(size)) == '@' {
		return match{}, no
	}
	m := match{kind: kQQ, start: first, end: n.end(size), form: 0.3, why: labelBefore}
	if n.w.labelledBy(first, 8, joinsNumber, qqLabels) || n.w.labelledQ(first, size) {
		return m, yes
	}
	return n.spokenOf(size, m)
}

// labelledQ reports whether the letter Q stands before the number at cell i, and is no part of another word or a plate: 客服Q 12345.
func (w *window) labelledQ(i, size int) bool {
	k := i - 1
	for k > i-4 && joinsNumber.has(w.at(k)) {
		k--
	}
	if lower(w.at(k)) != 'q' || k == i-1 && (size < 7 || w.hints(k).other(kQQ)) {
		return false
	}
	left := w.at(k - 1)
	return isHan(left) && !(k == i-1 && strings.ContainsRune(provinceSigns, left)) || left == edge || isBlank(left) && !isLetter(w.at(k-2)) || strings.ContainsRune(",(、|/", left)
}

// spokenOf finds the account that the first digits of a number are in a talk about QQ.
func (n *number) spokenOf(size int, m match) (match, verdict) {
	w, i := n.w, n.at[0]
	if m.start != i || n.h.other(kQQ) && !n.h.of.any(likeAccounts) || n.date(size) || w.labelledBy(i, 4, joinsThing, things) {
		return match{}, no
	}
	if next := w.at(m.end); next == unknown {
		return match{}, open
	} else if strings.ContainsRune(units, next) || strings.ContainsRune(":%", next) {
		return match{}, no
	}
	m.why = cueBefore
	switch {
	case w.goesOn(i, kQQ):
		return m, yes
	case !w.inSlot(i, size):
		return match{}, no
	case w.spokenBefore(i, qqTalk):
		return m, yes
	}
	m.why = cueBehind
	return m, w.spokenBehind(m.end, qqTalk, isDigit)
}

// inSlot reports whether an account may stand at cell i of a sentence by what stands before.
func (w *window) inSlot(i, size int) bool {
	k := i - 1
	for k > i-5 && beforeName.has(w.at(k)) {
		k--
	}
	return w.endsWith(k, slots) || k < i-1 && size > 7
}
