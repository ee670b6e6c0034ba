package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// Words for accounts. The letters alone count only where no other word ends with them.
var (
	wechatNames  = text.EndingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin")
	wechatLabels = text.EndingsOf("微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin", "维信", "围信", "徽信", "唯信", "溦信", "葳信", "w信", "w❤", "weixin id", "微信支付账号", "微信支付账户", "微❤", "薇❤", "威❤", "v❤", "v♥", "we chat", "wei xin", "wei信",
		"微xin", "wxid", "wechat account", "wechat_id", "wechat_no", "wechat no", "wechat no.", "wechatno", "weixin_id", "weixinid", "weixin_no", "wx_id", "wx_no", "vx_id", "微信/手机", "微信/电话",
		"微信同号", "微信id", "微信 id", "wechat id", "wechatid", "wxhao", "绿泡泡", "加v", "加微", "加薇", "加威", "+v", "+微", "+薇", "+威", "➕v", "➕微", "➕薇", "我v", "我薇", "我微",
		"的v", "的薇", "的微", "(v)", "(微)", "(薇)", "联系v", "搜v", "微我", "薇我", "卫星", "薇芯", "微芯",
		"微♥", "薇♥", "威♥", "wei心", "🛰", "v❤同步", "v♥同步", "客服v", "客服薇", "客服微", "➕", "裙主", "v同号", "企微", "微号", "薇号", "威号", "v号", "微x", "薇x", "威x", "vxin")
	accountTails = []string{"这个号", "这个微信", "的微信", "是他微信", "是她微信", "是我微信", "微信", "(微信", "(薇信", "(vx", "←", "微❤", "微♥"}
	// things have names that are made as those of accounts are.
	things = text.EndingsOf("小程序", "公众", "公众号", "接口", "开放", "版本", "文档", "代码", "字段", "参数", "图片", "函数", "sdk", "错误", "日志", "变量", "配置", "型号", "服务器", "域名", "设备", "模块", "脚本", "命令", "分支", "主机",
		"账套", "工单", "订单", "节点", "实例", "容器", "仓库", "镜像", "集群", "数据库", "目录", "路径", "插件", "组件", "机台", "机床", "产线", "规格", "批次", "物料", "图号", "固件", "工位", "交换机", "网关", "路由器", "打印机", "返回", "报错", "回调",
		"密码", "口令", "环境", "进程", "任务", "队列", "枚举", "常量", "token", "error", "errcode", "api", "host", "server", "branch", "version", "网址", "链接", "验证码", "优惠码", "邀请码", "兑换码", "券码", "单号", "流水号",
		"摄像头", "道闸", "闸机", "词库", "表", "系统")
	wechatLetters = text.EndingsOf("v", "微", "薇", "威")
	qqLabels      = text.EndingsOf("qq", "q q", "扣扣", "企鹅", "qq群", "q群", "扣扣群", "qq account", "扣", "群主", "群号", "企鹅群", "球球", "蔻蔻", "抠抠", "加q", "+q", "➕q", "我q", "q号", "🐧",
		"qq is", "uin", "鹅号", "qq id", "qqid", "qq number", "qq no", "qq no.", "qq账号", "qq帐号")
)

// QQ tells whether a number of so many digits is that of a QQ account or group: a label stands before it, or the talk is about QQ.
func (w *Accounts) QQ(m finding.Candidate, h finding.Hints, size int, date bool) (finding.Candidate, text.Verdict) {
	if w.LabelledBy(m.Start, 8, joinsNumber, qqLabels) || w.labelledQ(m.Start, size) {
		return m, text.Yes
	}
	return w.qqInContext(m, h, size, date)
}

// labelledQ reports whether the letter Q stands before the number at cell i, and is no part of another word or a plate: 客服Q 12345.
func (w *Accounts) labelledQ(i, size int) bool {
	k := i - 1
	for k > i-4 && joinsNumber.Has(w.At(k)) {
		k--
	}
	if text.Lower(w.At(k)) != 'q' || k == i-1 && (size < 7 || w.Hints(k).Other(finding.QQ)) {
		return false
	}
	left := w.At(k - 1)
	return text.IsHan(left) && !(k == i-1 && strings.ContainsRune(lexicon.ProvinceSigns, left)) || left == text.Edge || text.IsBlank(left) && !text.IsLetter(w.At(k-2)) || strings.ContainsRune(",(、|/", left)
}

// qqInContext finds the account that a number is in a talk about QQ.
func (w *Accounts) qqInContext(m finding.Candidate, h finding.Hints, size int, date bool) (finding.Candidate, text.Verdict) {
	i := m.Start
	if h.Other(finding.QQ) && !h.Of.Any(likeAccounts) || date || w.LabelledBy(i, 4, joinsThing, things) {
		return finding.Candidate{}, text.No
	}
	if next := w.At(m.End); next == text.Unknown {
		return finding.Candidate{}, text.Open
	} else if strings.ContainsRune(text.Units, next) || strings.ContainsRune(":%", next) {
		return finding.Candidate{}, text.No
	}
	m.Evidence = finding.CueBefore
	switch {
	case w.goesOn(i, finding.QQ):
		return m, text.Yes
	case !w.inSlot(i, size):
		return finding.Candidate{}, text.No
	case w.mentionedBefore(i, qqContext):
		return m, text.Yes
	}
	m.Evidence = finding.CueBehind
	return m, w.mentionedBehind(m.End, qqContext, text.IsDigit)
}

// inSlot reports whether an account may stand at cell i of a sentence by what stands before.
func (w *Accounts) inSlot(i, size int) bool {
	k := i - 1
	for k > i-5 && beforeName.Has(w.At(k)) {
		k--
	}
	return w.EndsWith(k, slots) || k < i-1 && size > 7
}
