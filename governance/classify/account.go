package classify

import "strings"

// talk is how people speak of the accounts of a service, around an account that no label stands before.
type talk struct {
	of     kind
	names  *endings // of the service, and of what only it has
	letter rune     // stands for the service where it stands alone
	tells  *runeSet // what the names end with, and what ends the talk
	other  []string // behind a name of the service: something of it that is no account
}

// How far the service may be named from the account, in cells.
const (
	talkReach   = 32
	behindTalk  = 30
	leastChosen = 6 // letters, digits and signs of a name
	mostChosen  = 20
)

var ( //nolint:gochecknoglobals // constant tables
	wechatTalk = newTalk(kWeChat, 'v', strings.Fields("接口 小程序 公众 公号 开放 回调 sdk 版本 插件 模块 服务号 订阅号 图片 支付接口 支付回调 支付通知 支付证书 支付商户 pay api 登录接口 授权 模板 视频号 官方 返回 会议"),
		"微信", "薇信", "威信", "v信", "vx", "wx", "wechat", "weixin", "绿泡泡", "朋友圈", "财付通", "聊天", "好友", "昵称", "网友", "私聊", "网名", "小号", "名片", "腾讯公司", "微❤", "微♥")
	qqTalk = newTalk(kQQ, 'q', strings.Fields("音乐 浏览器 邮箱 飞车 农场 会员 图 宠物 游戏 阅读 影音 输入法 拼音 钱包 炫舞 堂 币 秀 接口 回调 sdk 登录接口 mail"),
		"qq", "扣扣", "企鹅号", "企鹅群", "q q", "蔻蔻")
	beforeName = runesOf(":“\"'‘「『【(,、-|;!?~ \n，>”’】」』)/")
	joinsThing = runesOf(" :=“\"'(_是为叫名")
	joinsList  = runesOf("、和与及/")

	// slots are what an account stands behind in a sentence.
	slots = endingsOf("是", "为", "叫", "用", "以", "加", "搜", "找", "联系", "对方", "号", "号码", "过", "主管", "主人", "向", "与", "和", "户", "收款方", "收款人", "换成", "改成", "现", "原", "群主", "名", "本人", "uin", "在用", "登", "有", "一个")

	// offTalk are words that what follows is rather named by than by the service before them.
	offTalk = endingsOf("接口", "字段", "参数", "函数", "代码", "sdk", "错误", "变量", "配置", "脚本", "词库", "数据库", "服务器", "域名", "返回", "errcode", "公众号", "小程序", "版本", "开放")
)

func newTalk(of kind, letter rune, other []string, names ...string) *talk {
	t := &talk{of: of, names: endingsOf(names...), letter: letter, other: other}
	t.tells = runesOf(string(letter)+"。\n").and(t.names, offTalk)
	return t
}

// spokenBefore reports whether the sentences before cell i speak of the service, and of nothing that other names belong to; an account that was
// found there is as good.
func (w *window) spokenBefore(i int, t *talk) bool {
	least := max(0, i-talkReach)
	for k := i - 1; k >= least; k-- {
		if w.account.end == k+1 && w.account.end > w.account.start && w.accountOf == t.of {
			return true
		}
		r := lower(w.cells[k].r)
		if !t.tells.has(r) {
			continue
		}
		if w.talkEnds(k) || w.endsWith(k, offTalk) {
			return false
		}
		if w.speaksOf(k, t) {
			if other, _ := w.beginsOne(k+1, t.other); !other {
				return true
			}
		}
	}
	return false
}

// speaksOf reports whether a name of the service ends with cell k.
func (w *window) speaksOf(k int, t *talk) bool {
	if w.endsWith(k, t.names) {
		next := w.at(k + 1)
		return !isLetter(w.cells[k].r) || next != '_' && next != '-' && !(next == '.' && isLetter(w.at(k+2))) // wx_user, wechat.send
	}
	return lower(w.cells[k].r) == t.letter && !isWeChat(w.at(k-1)) && w.at(k-1) != '.' && w.at(k-1) != '/' && k+1 < len(w.cells) && !isWeChat(w.at(k+1)) && w.at(k+1) != '.' &&
		(isHan(w.at(k-1)) || isHan(w.at(k+1)))
}

// beginsOne reports whether one of the texts begins at cell i, behind at most one blank.
func (w *window) beginsOne(i int, texts []string) (bool, verdict) {
	if w.at(i) == ' ' {
		i++
	}
	_, v := w.oneOf(i, texts)
	return v == yes, when(v == open, open, yes)
}

// spokenBehind reports whether what follows cell i, behind which the account ends, speaks of the service before another account comes.
func (w *window) spokenBehind(i int, t *talk, in func(rune) bool) verdict {
	i, v := w.skipList(i, in)
	if v == open {
		return open
	}
	for k := i; k < i+behindTalk; k++ {
		r := w.at(k)
		switch {
		case r == unknown:
			return open
		case r == edge:
			return no
		case !t.tells.has(lower(r)):
			continue
		}
		if next := w.at(k + 1); next == unknown || next == '.' && w.at(k+2) == unknown {
			return open
		}
		if w.talkEnds(k) {
			return no
		}
		if !w.speaksOf(k, t) {
			if w.endsWith(k, offTalk) {
				return no
			}
			continue
		}
		other, v := w.beginsOne(k+1, t.other)
		if v == open {
			return open
		}
		if other {
			continue
		}
		if owned, v := w.owned(k+1, in); v == open || owned {
			return v & open
		}
		return yes
	}
	return no
}

// talkEnds reports whether a sentence or a paragraph ends with cell k.
func (w *window) talkEnds(k int) bool {
	r := w.cells[k].r
	return r == '。' || r == '\n' && (w.at(k+1) == '\n' || w.at(k-1) == '\n')
}

// owned reports whether an account stands behind the name of the service that ends before cell i, so that the name belongs to that one.
func (w *window) owned(i int, in func(rune) bool) (bool, verdict) {
	k, v := w.while(i, 5, func(r rune) bool { return strings.ContainsRune(":=号是 为", r) })
	if v == open {
		return false, open
	}
	end, v := w.while(k, mostChosen+1, in)
	if v == open {
		return false, open
	}
	if end-k < 5 {
		return false, yes
	}
	text := w.spell(k, end)
	return end-k > mostChosen || hasDigit(text) || w.spelledChinese(text), yes
}

// skipList returns the end of a list of such values that goes on at cell i.
func (w *window) skipList(i int, in func(rune) bool) (int, verdict) {
	for range 3 {
		k, v := w.while(i, 3, func(r rune) bool { return joinsList.has(r) || isBlank(r) || r == '“' || r == '"' || r == '”' })
		if v == open || w.at(k) == unknown {
			return i, open
		}
		if !w.any(i, k, joinsList.has) {
			return i, yes
		}
		end, v := w.while(k, mostChosen+1, in)
		if v == open {
			return i, open
		}
		if end-k < 5 || end-k > mostChosen {
			return i, yes
		}
		i = end
	}
	return i, yes
}

// goesOn reports whether an account of the same service stands before cell i, and nothing but signs of a list between.
func (w *window) goesOn(i int, of kind) bool {
	if w.account.end <= w.account.start || w.accountOf != of || w.account.end >= i || i-w.account.end > 4 {
		return false
	}
	return !w.any(w.account.end, i, func(r rune) bool {
		return !joinsList.has(r) && !isBlank(r) && r != '“' && r != '”' && r != '"' && r != '或'
	})
}

// chosen reports whether a row of letters, digits, dashes and underscores looks like a name that a person chose: digits or a sign, or Chinese
// spelled in small letters, and no word of programs or products.
func (w *window) chosen(text []byte) bool {
	if len(text) < leastChosen || len(text) > mostChosen || !isLetter(rune(text[0])) {
		return false
	}
	small, large, digits, signs := 0, 0, 0, 0
	for _, c := range text {
		switch {
		case c >= 'a' && c <= 'z':
			small++
		case isDigit(rune(c)):
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
		return large == 0 && w.spelledChinese(text)
	}
	return !technical(text)
}

// spelledChinese reports whether a text is small letters, two to five syllables and no ordinary word of English.
func (w *window) spelledChinese(text []byte) bool {
	t := w.nameTables()
	for _, c := range text {
		if c < 'a' || c > 'z' {
			return false // syllables are packed without regard to these
		}
	}
	return t.syllabic(text, 5) && !t.syllabic(text, 1) && !identifiers[string(text)]
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
hmi scada mes erp crm oa wms sha1 sha256 sha512`) //nolint:gochecknoglobals // a constant table

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}
