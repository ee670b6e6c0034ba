// Package online finds what people and machines are reached by over a network: addresses of mail and of the Internet Protocol, accounts of WeChat and
// QQ, wallets of crypto-currencies.
package online

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// serviceContext is how people speak of the accounts of a service, around an account that no label stands before.
type serviceContext struct {
	of     finding.Kind
	names  *text.Endings // of the service, and of what only it has
	letter rune          // stands for the service where it stands boundary
	ends   *text.RuneSet // what the names end with, and what ends the talk
	other  []string      // behind a name of the service: something of it that is no account
}

// How far the service may be named from the account, in cells.
const (
	reachBefore = 32
	reachBehind = 30
	leastChosen = 6 // letters, digits and signs of a name
	mostChosen  = 20
)

var (
	wechatContext = newServiceContext(finding.WeChat, 'v', strings.Fields("接口 小程序 公众 公号 开放 回调 sdk 版本 插件 模块 服务号 订阅号 图片 支付接口 支付回调 支付通知 支付证书 支付商户 pay api 登录接口 授权 模板 视频号 官方 返回 会议"),
		"微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin", "绿泡泡", "朋友圈", "财付通", "聊天", "好友", "昵称", "网友", "私聊", "网名", "小号", "名片", "腾讯公司", "微❤", "微♥")
	qqContext = newServiceContext(finding.QQ, 'q', strings.Fields("音乐 浏览器 邮箱 飞车 农场 会员 图 宠物 游戏 阅读 影音 输入法 拼音 钱包 炫舞 堂 币 秀 接口 回调 sdk 登录接口 mail"),
		"qq", "扣扣", "企鹅号", "企鹅群", "q q", "蔻蔻")
	beforeName = text.RunesOf(":“\"'‘「『【(,、-|;!?~ \n，>”’】」』)/")
	joinsThing = text.RunesOf(" :=“\"'(_是为叫名")
	joinsList  = text.RunesOf("、和与及/")

	// slots are what an account stands behind in a sentence.
	slots = text.EndingsOf("是", "为", "叫", "用", "以", "加", "搜", "找", "联系", "对方", "号", "号码", "过", "主管", "主人", "向", "与", "和", "户", "收款方", "收款人", "换成", "改成", "现", "原", "群主", "名", "本人", "uin", "在用", "登", "有", "一个")

	// otherContext are words that what follows is rather named by than by the service before them.
	otherContext = text.EndingsOf("接口", "字段", "参数", "函数", "代码", "sdk", "错误", "变量", "配置", "脚本", "词库", "数据库", "服务器", "域名", "返回", "errcode", "公众号", "小程序", "版本", "开放")
)

func newServiceContext(of finding.Kind, letter rune, other []string, names ...string) *serviceContext {
	t := &serviceContext{of: of, names: text.EndingsOf(names...), letter: letter, other: other}
	t.ends = text.RunesOf(string(letter)+"。\n").And(t.names, otherContext)
	return t
}

// mentionedBefore reports whether the sentences before cell i speak of the service, and of nothing that other names belong to; an account that was
// found there is as good.
func (w *Accounts) mentionedBefore(i int, t *serviceContext) bool {
	least, last := max(0, i-reachBefore), w.Span(w.account)
	for k := i - 1; k >= least; k-- {
		if last.End == k+1 && last.End > last.Start && w.accountOf == t.of {
			return true
		}
		r := text.Lower(w.At(k))
		if !t.ends.Has(r) {
			continue
		}
		if w.passageEnds(k) || w.EndsWith(k, otherContext) {
			return false
		}
		if w.mentions(k, t) {
			if other, _ := w.beginsOne(k+1, t.other); !other {
				return true
			}
		}
	}
	return false
}

// mentions reports whether a name of the service ends with cell k.
func (w *Accounts) mentions(k int, t *serviceContext) bool {
	if w.EndsWith(k, t.names) {
		next := w.At(k + 1)
		return !text.IsLetter(w.At(k)) || next != '_' && next != '-' && !(next == '.' && text.IsLetter(w.At(k+2))) // wx_user, wechat.send
	}
	return text.Lower(w.At(k)) == t.letter && !isWeChat(w.At(k-1)) && w.At(k-1) != '.' && w.At(k-1) != '/' && k+1 < w.End() && !isWeChat(w.At(k+1)) && w.At(k+1) != '.' &&
		(text.IsHan(w.At(k-1)) || text.IsHan(w.At(k+1)))
}

// beginsOne reports whether one of the texts begins at cell i, behind at most one blank.
func (w *Accounts) beginsOne(i int, texts []string) (bool, text.Verdict) {
	if w.At(i) == ' ' {
		i++
	}
	_, v := w.OneOf(i, texts)
	return v == text.Yes, text.When(v == text.Open, text.Open, text.Yes)
}

// mentionedBehind reports whether what follows cell i, behind which the account ends, speaks of the service before another account comes.
func (w *Accounts) mentionedBehind(i int, t *serviceContext, in func(rune) bool) text.Verdict {
	i, v := w.skipList(i, in)
	if v == text.Open {
		return text.Open
	}
	for k := i; k < i+reachBehind; k++ {
		r := w.At(k)
		switch {
		case r == text.Unknown:
			return text.Open
		case r == text.Edge:
			return text.No
		case !t.ends.Has(text.Lower(r)):
			continue
		}
		if next := w.At(k + 1); next == text.Unknown || next == '.' && w.At(k+2) == text.Unknown {
			return text.Open
		}
		if w.passageEnds(k) {
			return text.No
		}
		if !w.mentions(k, t) {
			if w.EndsWith(k, otherContext) {
				return text.No
			}
			continue
		}
		other, v := w.beginsOne(k+1, t.other)
		if v == text.Open {
			return text.Open
		}
		if other {
			continue
		}
		if owned, v := w.owned(k+1, in); v == text.Open || owned {
			return v & text.Open
		}
		return text.Yes
	}
	return text.No
}

// passageEnds reports whether a sentence or a paragraph ends with cell k.
func (w *Accounts) passageEnds(k int) bool {
	r := w.At(k)
	return r == '。' || r == '\n' && (w.At(k+1) == '\n' || w.At(k-1) == '\n')
}

// owned reports whether an account stands behind the name of the service that ends before cell i, so that the name belongs to that one.
func (w *Accounts) owned(i int, in func(rune) bool) (bool, text.Verdict) {
	k, v := w.While(i, 5, func(r rune) bool { return strings.ContainsRune(":=号是 为", r) })
	if v == text.Open {
		return false, text.Open
	}
	end, v := w.While(k, mostChosen+1, in)
	if v == text.Open {
		return false, text.Open
	}
	if end-k < 5 {
		return false, text.Yes
	}
	s := w.spell(k, end)
	return end-k > mostChosen || hasDigit(s) || spelledChinese(s), text.Yes
}

// skipList returns the end of a list of such values that goes on at cell i.
func (w *Accounts) skipList(i int, in func(rune) bool) (int, text.Verdict) {
	for range 3 {
		k, v := w.While(i, 3, func(r rune) bool { return joinsList.Has(r) || text.IsBlank(r) || r == '“' || r == '"' || r == '”' })
		if v == text.Open || w.At(k) == text.Unknown {
			return i, text.Open
		}
		if !w.Any(i, k, joinsList.Has) {
			return i, text.Yes
		}
		end, v := w.While(k, mostChosen+1, in)
		if v == text.Open {
			return i, text.Open
		}
		if end-k < 5 || end-k > mostChosen {
			return i, text.Yes
		}
		i = end
	}
	return i, text.Yes
}

// goesOn reports whether an account of the same service stands before cell i, and nothing but signs of a list between.
func (w *Accounts) goesOn(i int, of finding.Kind) bool {
	last := w.Span(w.account)
	if last.End <= last.Start || w.accountOf != of || last.End >= i || i-last.End > 4 {
		return false
	}
	return !w.Any(last.End, i, func(r rune) bool {
		return !joinsList.Has(r) && !text.IsBlank(r) && r != '“' && r != '”' && r != '"' && r != '或'
	})
}

// chosen reports whether a row of letters, digits, dashes and underscores looks like a name that a person chose: digits or a sign, or Chinese
// spelled in small letters, and no word of programs or products.
func chosen(s []byte) bool {
	if len(s) < leastChosen || len(s) > mostChosen || !text.IsLetter(rune(s[0])) {
		return false
	}
	small, large, digits, signs := 0, 0, 0, 0
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z':
			small++
		case text.IsDigit(rune(c)):
			digits++
		case c == '_' || c == '-':
			signs++
		default:
			large++
		}
	}
	switch {
	case small == 0 || large > 3 || small+large < 2 || signs > 3:
		return false
	case digits+signs == 0:
		return large == 0 && spelledChinese(s)
	}
	return !technical(s)
}

// spelledChinese reports whether a text is small letters, two to five syllables and no ordinary word of English.
func spelledChinese(text []byte) bool {
	for _, c := range text {
		if c < 'a' || c > 'z' {
			return false // syllables are packed without regard to these
		}
	}
	return lexicon.Pinyin().Spell(text, 5) && !lexicon.Pinyin().Spell(text, 1) && !identifiers[string(text)]
}

// technical reports whether one of the parts of a name is a word that programs, machines and products are called by.
func technical(text []byte) bool {
	for part := range strings.FieldsFuncSeq(strings.ToLower(string(text)), func(r rune) bool { return r == '_' || r == '-' }) {
		word := strings.Trim(part, "0123456789")
		if word == "v" && len(part) > 1 || identifiers[word] || identifiers[part] {
			return true
		}
	}
	return false
}

// identifiers are words that names of programs, machines and products are made of.
var identifiers = wordSet(`qq activity article gpt chatgpt deepseek kimi qwen llama final copy draft summary meeting notice contract quotation budget campaign coupon
promo statement evidence annex appendix chapter section part parts valve motor pump bolt spec rev lot asset openid appid unionid callback
notify payment pay server client message msg public official version ver account config conf webview android iphone ipad wechat weixin
mobile service platform program miniprogram mini developer access token appsecret secret errcode errmsg error err code url uri sdk api fail
failed cancel success ok screen word words list login logout btn button flag type status state test dev prod uat stage staging demo web app
svc srv db database table data model file dir path tmp temp log logs http https tcp udp release master main branch feature fix hotfix bugfix
build deploy docker image node pod host gw gateway idc vm nas esxi proxy nginx redis mysql oracle kafka mongo python java js ts css html
json xml yaml yml toml sql csv pdf doc docx xls xlsx ppt png jpg jpeg gif mp zip rar tar user usr username userid uid pid id ids key keys
val value name field param params arg args func method class object obj item items index idx count num number total size len order trade
refund bill invoice product goods sku price amount fee prepay out trans transfer transaction request response req resp result return get set
put post delete update insert select query find create add remove check verify valid sync async queue task job worker thread process cron
batch event hook handler listener filter router route controller manager factory impl util utils helper common core base lib pkg module
plugin package import export from win windows linux ubuntu centos debian redhat macos ios harmony redmi oppo vivo galaxy pixel thinkpad rtx
gtx ddr intel amd utf gbk md aes rsa des tls ssl oauth jwt cert cors csrf xss alipay unionpay visa paypal system sys admin root guest
default null none true false debug info warn trace alert monitor metric agentid corpid mchid nonce sign signature timestamp ticket session
cookie cache storage bucket view layout style icon img pic photo video audio media upload download preview thumb banner popup modal dialog
toast tab menu nav header footer content title text label desc description remark comment template tpl scan qrcode qr barcode link href src
dest source target input output read write open close start stop begin end init setup ready enable disable local remote global static
dynamic group groups team member role perm auth grant scope policy rule rules score level rank tag tags category channel device sensor robot
bot spider k8s x86 amd64 arm64 ipv4 ipv6 utf8 log4j h5page html5 sprint ticketid manage engine ending change banana binding report daily
weekly monthly backup restore snapshot migrate migration schema column row cell sheet flow step phase plan schedule calendar rtsp onvif plc
hmi scada mes erp crm oa wms sha1 sha256 sha512`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}
