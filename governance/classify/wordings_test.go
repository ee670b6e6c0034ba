package classify

import (
	"fmt"
	"strings"
	"testing"
)

// wantMarked checks lines in which the values of a class stand between « and »; in the others there are none. ↵ is a line break. No cut of
// a line may change what is found.
func wantMarked(t *testing.T, class Class, lines string) {
	t.Helper()
	set := New(class)
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		line = strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "↵", "\n")
		text := strings.NewReplacer("«", "", "»", "").Replace(line)
		var want, got []string
		for rest := line; ; {
			_, after, ok := strings.Cut(rest, "«")
			if !ok {
				break
			}
			value, behind, _ := strings.Cut(after, "»")
			want, rest = append(want, value), behind
		}
		for _, f := range set.Find(text) {
			got = append(got, text[f.Start:f.End])
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s in %q: %q, want %q", class, text, got, want)
		}
		whole := scanPieces(set, text)
		for cut := range len(text) {
			if pieces := scanPieces(set, text[:cut], text[cut:]); pieces != whole {
				t.Fatalf("%q cut at %d:\n%s\n%s", text, cut, pieces, whole)
			}
		}
	}
}

// TestWordingsOfWeChat: names of accounts behind and before what people write around them, and what is none.
func TestWordingsOfWeChat(t *testing.T) {
	wantMarked(t, WeChat, `
加我微信«zhang_wei88»聊
微信号：«wxid_a1b2c3d4e5»
微信号是«tomlee1990»，搜一下
V：«lihua2024»
v: «lihua2024»
+V «lihua2024»
➕V：«lihua2024»
加V«lihua2024»
加v：«lihua2024»备注来意
加薇：«lihua2024»
薇❤：«lihua2024»
V❤«lihua2024»
v♥ «lihua2024»
VX：«lihua2024»
vx«lihua2024»
wx-«lihua2024»
WX号：«lihua2024»
Wechat: «lihua2024»
WeChat ID: «lihua2024»
wechat id «lihua2024»
WeChat account: «lihua2024»
weixin：«lihua2024»
微信帐号«lihua2024»
微信账号为«lihua2024»
微信名：«lihua2024»
微信ID：«lihua2024»
微信ID为«lihua-2024»
微信搜«lihua2024»
微信搜索“«lihua2024»”
微信添加«lihua2024»
搜我微信«lihua2024»
我微信就是«lihua2024»
我的微信「«lihua2024»」
微信（«lihua2024»）
微信(«lihua2024»)付款
微 信：«lihua2024»
绿泡泡«lihua2024»
围信：«lihua2024»
徽信«lihua2024»
wei信«lihua2024»
微信/手机：«lihua2024»
微信|«lihua2024»|
电话13800138000，微信«lihua2024»
"wechat":"«lihua2024»"
"wechat_id": "«lihua2024»"
wechat_no=«lihua2024»
weixinId=«lihua2024»
wxid：«wxid_9x8y7z6w5v4u21»
昵称小李（微信号«xiaoli_0523»）
你先加«zhang_88wei»再说
对方微信«Happy-Life_01»
请加客服微信号：«kefu_001»
我微信号码«lihua2024»
wx：«LiHua2024»
VX是«qwe123456»
微信“«sunny520abc»”
加微：«sunny520abc»
微信好友«sunny520abc»
微信支付 alipay88 都行
wx 接口返回 errcode
在微信公众号里回复 hello
微信版本 v8.0.32
微信开放平台 appid wx1234567890abcdef
通过微信callback通知
微信小程序 path/to/page
使用wx.request({url})
VXLAN 10010 隧道
v1.2.3
V2Ray配置
王薇zhangsan2
刘薇，callback
微信文章 https://mp.weixin.qq.com/s/abcdef
增加index_123字段
添加user_name2列
微信 iPhone14 收不到消息
wxpay_notify2 异常
微信图片_20240315123456.jpg
WeChat Files
微信群里发了api_v2文档
v=spf1 include:spf.mail.qq.com
curl -v https://x.cn
聊天记录显示用的是微信，对方叫«zhang_lin35»
他俩是通过«lin_tao88»这个号认识的
他改用«wxid_a1b2c3d4e5f6g7»骂人
名片上的«tom2024»是他微信
"contactWechat":"«lihua2024»"
微信：«li hua2024»，备注来意
微信：«zhang_wei 88»
微信号«l ihua2024»，电话同号
微信：«1ihua2024»
薇 信：«lihua2024»
微↵信号：«lihua2024»
急事微我 «lihua2024»
卫星：«lihua_2024»
客服薇 «kefu_0008»，在线
微信 13800138000
微信：www.example.com
扫码关注微信公众号 gh_a1b2c3d4e5f6
微信小程序的版本是v2_3_1
微信接口返回错误码是ERR_10001
微信里说订单号是DD20240101
wx-api_v2接口
C+index_1
grep -v Running
把v2ray_88升级到最新
这个号码不对
user_name2这个字段
`)
}

// TestTalkAboutWeChat: names that no label stands right before, in a talk about WeChat, and what is none in such a talk.
func TestTalkAboutWeChat(t *testing.T) {
	wantMarked(t, WeChat, `
经当庭核实，«liming_1988»确系被告的微信账户，且已实名认证
原告一直与账号«zhouzhou-77»联系，双方通过微信沟通供货事宜
被告使用的账号为«dashan_baba»的微信转账三笔
原告通过微信向«xiao_mei520»转账5000元
被害人添加了一个叫“客服小美”的好友，对方的号是«kefu-xm99»
该微信用昵称“阿峰”注册，号码«afeng_2020»
登录微信，账户显示«heshan_22»
收款方«haoyun-1688»，微信已到账
微信联系人：李强 «liqiang_gz»
| 姓名 | 微信号 | 电话 |↵| 王芳 | «wangfang_sh» | 13912345678 |
| 店长 | «dz_beimen» | 微信 |
把账单发我微信上，«zhao-yun521»
«mimi_0912»，微信搜得到
他用«tianya_88»和«haijiao_99»两个微信轮流骂我
登录的是«tmx_0217»，尾号5580的手机微信登录的是«ouyang-h5»
微信换过，原«fuqi-zaocan»，现«fuqi_zaocan02»
附表（微信用户）：1.«bj-qingnian» 2.«shuiguo77_»
你用哪个微信？——«meimei-ziti»，另一个«meimei-ziti2»停了
先后以«gaoyanglin»、«mobinlei»两个微信账户收款
请提供«zhimingfei»（微信）的登录日志
客户请改加«junzhiling»，原微信名片作废
喷“办证+«zhiyangxuan»”，请清除
朋友圈（«mx_daigou_hk»）发布广告
“V一下«abcd_lyy»呗”
主人微♥：«doudou_ma2020»
wei心«yaya_mj01»
师傅　微«chencha_88»
转账至“老船长”«laochuanzhang55»微信零钱
pay me via «hk_sunnytoys», wechat is fine
I'm «ericsson_lau» now on Weixin
Add «lihua_88» on WeChat.
«zhang_88»（vxo与微信
微信机器人bot_server_1已重启
数据库prod_db2挂了，微信通知值班
微信通知：jenkins_build_77失败
服务器bj-lihua-03离线，已微信告知王工
请微信联系运维重启主机bj-lihua-03
分支zhang_2024已合并，微信群里通知一下
型号为sy-215c的挖机，微信议价
设备zk-5500报警，微信推送延迟
订单tb20240101888微信支付成功
微信红包封面activity_2024上线
看了微信文章chatgpt4很强
微信里问AB-20240101到了没有
接口文档：wechat_openid为空时返回errcode 40003。
wechat-pay-sdk升级后，notify_url必须是https。
wx.requestPayment返回fail_cancel，是用户自己点了取消。
vx、薇信、绿泡泡等变体词已加入敏感词库screen_words_v3
wechat transfers are not allowed here
微信发我了, xinku le
哎 xiexie 微信收到了
微信已读。报表lihua_2024
加QQ16290，微信不用
{"channel":"wechat","gender":2}
url = wechat.kaifang_api(lihua_2, wang_3)
CREATE TABLE wx_yonghu (dianhua_1 int)
use wechat on lenovo-88 laptop
x+lihua_2
+lihua_88 = 3
`)
}

// TestTalkAboutQQ: numbers that no label stands right before, in a talk about QQ, and what is none in such a talk.
func TestTalkAboutQQ(t *testing.T) {
	wantMarked(t, QQ, `
供称与上线只用QQ语音，对方«235353»
检材二登录过«295967»、«8609070274»两个QQ账号，聊天库已解密
注册码要向«153039»要，QQ头像是个齿轮
证据三：«3384150926»与原告的QQ对话
让我登QQ找他，给的号是«1773920658»
用«2687013945»这个QQ建了三个群
扣扣发我一下？——«836402715»，晚上在线
你还记得那个QQ不，«286740915»，密码早忘了
家长QQ登记：«941605827»（爸爸）/«1586203394»（妈妈）
QQ空间日志截图（空间主人«815530294»）
我有两个Q，一个«88997766»，一个«33221100»
客服Q «89127603» 一直不回
售后Q：«800041932»
信息科Q«40062831»
Ｑ«3152087746»
my qq is «3590127648»
tencent://message/?uin=«630217745»&Menu=yes
小鹅号«2204917356»
京Q12345
社保卡Q88480036
Q235钢板12345吨
FAQ 12345
Q1销售额88888元
QQ音乐会员有123456人
QQ登录报错10012
QQ群里有12345人
QQ上说订单20240101889到了
QQ收到验证码是 123456
会员Q币充值 100000
`)
}

// TestLabelsWithUnderscores: the labels of programs are those of people, with a sign between.
func TestLabelsWithUnderscores(t *testing.T) {
	wantMarked(t, MedicalRecord, `
patient_id=«P100384427» visit_no=«V20250611038»
trace_id=100384427
住院号写成«20417752»，应为«20417725»，请核对
影像号 «MR20250300416» 与 «DR20250300952» 是同一人
腕带上的住院号念一遍？家属：«2 0 7 7 1 4 6»。
患者主索引：«100048823716»
住院总床位1,260张
`)
}

// TestCountsAreNoTelephones: what is counted at the end of a clause has no owner.
func TestCountsAreNoTelephones(t *testing.T) {
	wantMarked(t, Mobile, `
累计请求13700218846次，其中五百类错误
本季度手机银行登录13856204771次
共受理咨询13956017284条？数据不对
请拨打«13700218846»次日回访
手机«13700218846»次，接通
`)
}

// TestWordingsOfEmail: addresses, hidden from programs and broken by paper, and what is none.
func TestWordingsOfEmail(t *testing.T) {
	wantMarked(t, Email, `
我的邮箱是«zhangsan#163.com»（把#换成@）
«zhangsan(at)163.com»
«zhangsan [at] 163.com»
«zhangsan AT 163 DOT com»
请联系 «zhang.san at example.com»
«zhangsan at example dot com»
«lisi2020(@)qq.com»
«lisi2020[@]qq[.]com»
«lisi2020（at）qq（dot）com»
«lisi2020艾特qq点com»
«12345678艾特QQ点com»
«wangwu小老鼠126点com»
«wangwu圈a126.com»
«wangwu(a)126.com»
«wangwu@126。com»
«wangwu ＠ 126．com»
«wangwu @ 126 . com»
«ｗａｎｇｗｕ＠１２６．ｃｏｍ»
«wangwu@mail.example.com.cn»
«first.last+tag@sub.domain.co.uk»
"«zhang_san@example.org»"
mailto:«zhang_san@example.org»?subject=hi
<«zhang_san@example.org»>
Zhang San <«zhang_san@example.org»>;
«zhang_san@example.org»;«li_si@example.org»
«zhang_san@example.org»、«li_si@example.org»
«wang@xn--fiqs8s.cn»
«wang{at}foxmail.com»
«wang<at>foxmail.com»
«wang_at_foxmail.com»
«wang-at-foxmail.com»
«wang_at_foxmail_dot_com»
邮箱：«wa ng@foxmail.com»
发到«wa ng88@foxmail.com»谢谢
发到«wang88@fox mail.com»谢谢
发到«wang88@foxmail. com»谢谢
发到«wang88@foxmail.c om»谢谢
发到«wang88 @foxmail.com»谢谢
发到«wang88@ foxmail.com»谢谢
发到«wang。xy@foxmail.com»谢谢
发到«wang88@foxmail.com .cn»谢谢
发到«wang88↵@foxmail.com»谢谢
E-mail：«sales-01@a-b.example.cn»。
邮箱：«1357924680@qq.com»
电邮 «admin@corp.internal»
«user%example@foo.org»
"email":"«a.b@c.io»"
email=«a.b%40c.io»&x=1
«a.b&#64;c.io»
«a.b\u0040c.io»
mysql://root:Passw0rd1@db.internal:3306/x
look at example.com
meet at 10.30
@zhangsan 请看
npm i @babel/core@7.24.0
react@18.2.0
docker pull repo/img@sha256:abcdef0123
x@y
价格@3.5元
contact us at support.
user@localhost
a*b.com
rate #163.com
我在QQ.com上看到的
版本lodash@4.17.21有漏洞
img@2x.png
logo@3x.jpg
`)
}

// TestAddressesAndVersions: dotted quads that are addresses, and versions, sections and masks.
func TestAddressesAndVersions(t *testing.T) {
	wantMarked(t, IPv4, `
登录IP «10.12.33.4»
IP«172.16.38.205»，保管人
ping «8.8.8.8»
«114.114.114.114»
http://«192.168.1.10»:8080/x
服务器«45.9.148.114»:443
从«123.58.224.19 2»登录，设备
网关«10.204.42.1 66»在五分钟内
地址«192。168.1.15»
«1O.20.30.40»上线了
fe80::1和«172.20.1.9»互通
版本 1.2.3.4
版本号10.2.14.3
v1.2.3.4
V 3.2.1.0 版本发布
升级到12.1.0.2
固件7.14.2.9
firmware 2.0.4.11
build 3.4.5.6
详见第3.2.1.4节
按5.1.2.3条执行
5.1.2.3章
OID 1.3.6.1
1.3.6.1.4.1.311
Chrome/120.0.60.12
见4.2.1.3
子网掩码255.255.255.0
255.255.255.255
0.0.0.0
127.0.0.1
256.1.1.1
1.2.3
192.168.1
02.03.04.05
`)
}

// TestWordingsOfLicences: with a right check digit and region hardly any words are needed, and other numbers keep their names.
func TestWordingsOfLicences(t *testing.T) {
	wantMarked(t, BusinessLicence, strings.ReplaceAll(`
营业执照：«%s»
营业执照号«%s»
营业执照注册号:«%s»
营业执照编号为«%s»
工商注册号 «%s»
工商登记号«%s»
企业注册号是«%s»
注册证号：«%s»
注册编号«%s»
登记证号：«%s»
登记注册号«%s»
证照编号：«%s»
证照号«%s»
执照副本编号«%s»
副本号：«%s»
个体户执照«%s»
旧执照：«%s»
原注册号«%s»已注销
营业执照（旧）：«%s»
营业执照(副本)注册号：«%s»
注册号/统一社会信用代码：«%s»
纳税人识别号/工商注册号：«%s»
企业编号：«%s»
编号«%s»
No. «%s»
工商档案号：«%s»
«%s»这个执照号查不到
«%s»（注册号）
核查企业«%s»的档案
经营者持«%s»办理
business license no. «%s»
registration number: «%s»
供应商«%s»资质过期
"regNo":"«%s»"
企业|«%s»|
订单号：%s
流水号%s
合同编号：%s
`, "%s", "110108123456783"))
}

// TestWordingsOfTickets: prefixes of systems tell their numbers.
func TestWordingsOfTickets(t *testing.T) {
	wantMarked(t, Ticket, `
工单«INC0305843»已转办
诉求«WO-20250718-0131»
编号«GD202503310653»
单号«SR5439308868»
«TS25112042645»已受理
版本号INC1
合同编号HT20240101123456
`)
}

// TestWordingsOfParcels: so do those of carriers.
func TestWordingsOfParcels(t *testing.T) {
	wantMarked(t, Parcel, `
单号«YT1234567890123»
快件«773012345678901»已签收
«JD0123456789012»到了
面单«ZTO123456789012»
物流«EA123456789CN»
订单号：JT1234567890123
`)
}

// TestWordingsOfBeds: a bed is a patient's in a ward only.
func TestWordingsOfBeds(t *testing.T) {
	wantMarked(t, MedicalRecord, `
呼吸科«12»床患者
«3-12»床家属来问
«A3»床呼叫
«加5»床要换药
«+2»床今天出院
床号：«12»
住«23»床
买了2床被子
3床棉被
一共12床
第5床位数不足
`)
}

// TestWordingsOfAges: over one blank.
func TestWordingsOfAges(t *testing.T) {
	wantMarked(t, Age, `
患者«35岁»
年龄：«8 9岁»
«3 周岁»
满35年
3 5个
`)
}

// TestRightChecksNeedNoLabel: whatever has a right check character is found without a label and behind a word that only says that a number
// follows.
func TestRightChecksNeedNoLabel(t *testing.T) {
	values := map[Class]string{
		ResidentID: resident("11010519900307123"), USCC: usccCode("91110108MA01AB2C3"), BankCard: luhnCard("622202123456789012"), BusinessLicence: "110108123456783",
		ForeignPermit: resident("91184019800101123"), HongKongID: "A123456(3)", TaiwanID: "A123456789", IMEI: luhnCard("86123456789012"),
		ICCID: luhnCard("898600123456789012"), Crypto: "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq",
	}
	for class, value := range values {
		for _, around := range []string{"%s", "，%s。", "编号：%s", "编号%s，", "代码 %s", "no. %s", "号码是%s吗", "|%s|", "\"%s\"", "请核对%s后回复", "（%s）"} {
			text := fmt.Sprintf(around, value)
			found := New().Only(func(c Class) bool { return c != Person && c != Address }).Find(text)
			at := strings.Index(text, value)
			if len(found) != 1 || found[0].Class != class || found[0].Start > at || found[0].End < at+len(value) {
				t.Errorf("%s in %q: %+v", class, text, found)
			}
		}
	}
}

// TestWordingsOfCredentials: keys of environments, files and programs, flags of commands, addresses, and what people write; and what only
// speaks of credentials.
func TestWordingsOfCredentials(t *testing.T) {
	wantMarked(t, Secret, `
DB_PASSWORD=«Tr0ub4dor3x»
export MYSQL_ROOT_PASSWORD='«S3cret-Pw!»'
set REDIS_PASS=«r3disPw2024»
$env:API_TOKEN = "«abc123DEF456»"
PGPASSWORD=«pgPw20240101» psql -h db
ENV APP_SECRET «k3yVal0001xyZ»
docker run -e DB_PASSWORD=«Doc2024ker» app
spring.datasource.password=«Spr1ngPw99»
spring.redis.password: «Redis@2024»
password: "«hunter2!x»"
password: '«p4ss word with blanks»'
password = "«toml-Pass1»"
"password": "«json Pa55»",
{"dbPassword":"«jsonPw123»"}
{"client_secret" : "«cs_9f8e7d6c»"}
{"name":"API_KEY","value":"«a1b2c3d4e5»"}
- name: DB_PASSWORD↵  value: «k8sPw2024»
<password>«xmlPw2024»</password>
<add key="SmsSecret" value="«BTyfFULfTmqx24»" />
<property name="password" value="«beanPw24»"/>
'password' => '«phpPw2024»',
password := "«goPw2024»"
.setPassword("«javaPw2024»")
os.environ["API_TOKEN"] = "«pyTok3n24»"
passwd=«Chpasswd1»;
pwd:«Abc12345»
requirepass «Redis2024Pass»
masterauth «Redis2024Pass»
machine db login root password «Netrc2024Pw»
mysql -uroot -p«Root2024Pw» -h db
sshpass -p '«Huawei@Ne40e»' ssh -p 2222 netops
redis-cli -h cache02 -a «iZab44OqkcXEf» ping
ldapsearch -w «Ld4p-Bind#31» -b ou
curl -u admin:«Adm1nPw2024» https://x.cn
curl --user 'admin:«Adm1nPw2024»' https://x.cn
curl -H "X-Api-Key: «3f2a9c17d41d8cd9»" https://x.cn
curl -H 'Authorization: Bearer «abcdefgh12345678.XYZ»'
Authorization: Basic «dXNlcjpwYXNzd29yZDE=»
PRIVATE-TOKEN: «glpat-abcdefghij0123456789»
https://x.cn/api?access_token=«a1b2c3d4e5f6»&x=1
https://x.cn/api?user=a&password=«Pw2024xyz»&useSSL=true
jdbc:mysql://h/db?user=root&password=«Pw2024xyz»&useSSL=true
jdbc:oracle:thin:hr/«Orcl2024Hr»@//ora:1521/HRP
sqlplus system/«Manager_0618»@ORCL as sysdba
Server=h;Database=mes;User Id=sa;Password=«Sa2024pw»;
AccountName=x;AccountKey=«Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==»;
postgres://sluice:«s3cr3t-pw»@db:5432/x
mongodb+srv://u:«Mng2024»@c.mongodb.net/db
redis://:«Wm7pQz9xK»@10.2.4.18:6379/0
amqp://guest:«Gst2024»@mq/
mysql://root:«P@ss@2024»@h/db
clickhouse://default:«Clk2024»@h
root:«Root2024»@tcp(127.0.0.1:3306)/app
https://«9e480a3e7e36010bfe8a8af44b9b04d6»@sentry.corp/14
postgres://root:↵«ZmCHovzsYiJzeVc6»@pg:5432/core
密码：«Abc12345»
把测试库口令改回«Tiger!8842»了
连接密码由«Old_Pay#77»换成新的
说好的临时密码呢？给我的«temp-7Kx2»提示过期
查询密码在邮件里：«9F3KQ2»
换了新secret，是«425ce1e8c89849fbd6f18ccc76d0c423»，请更新
换了密码，是«Tiger!8842»
网关的key发你：«DtOSaecfaynkw0xDScKbUSzU»
x-api-key → «ca2b073c3657b6b3f8aa46ebba93646478678394»（测试环境）
pin码«840271»解锁
pin码6位数字
密码是«Abc12345»，别外传
密码为“«Abc@12345»”
密码 «Abc@12345»
密码改成«Xyz98765»了
密码已重置为：«Init@2024»
初始密码«Init@2024»，首次登录请修改
默认密码都是«Admin@123»
登录密码还是«Admin@123»
支付密码是«836402»
口令：«Fr1ends!»
wifi密码：«xiaoqu8888»
开机密码«yangyang0921»，
账号admin密码«Adm1n2024»
用户名root 密码«R00t2024»
提取码：«ab12»
解压码：«x9k2»
授权码«abcdefghij123456»
密钥：«3f2a9c17d41d8cd98f00b204»
私钥是«5Kb8kLf9zgWQnogidDA76MzPL6TsZZY36»
令牌 «0123abcd4567efgh»
AppSecret：«3f2a9c17d41d8cd9»
SecretKey: «wJalrXUtnFEMIK7MDENG»
api key «debb17e9-2f1d-4d2c-a306-329780b0912f»
key：«5b44a596ba72c53b859718522bcc5cbd»
token 是 «a1b2c3d4e5F6g7»
the password is «Summer2024!»
root / «T0ngji!yun»
admin/«Adm1n@2024»
«f0ba79d5f75eedd2ecadaae4a638787f.vubbVEs2iXrh94GS»
bot «123456789:AAEhBP0av28fYqUjNPo8mdRZVVqJ7vZ2abc»
api_key=«ya29.vA5WUVbmznQsXvB8RWZ286bxMyfoguc9C1 4LY7320»
password=«P@ssc hao1156»
«ghp_abcdefghijklmnopqrstuvwxyz 0123456789»
«eyJhbGciOiJIUzI1NiJ9。eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P»
password reset required
password must be at least 8 characters
your password: ********
password=${DB_PASSWORD}
password: {{ .Values.password }}
password=%s
password=<your-password>
api_key: your-api-key-1
API_KEY=xxxxxxxxxxxx
sk-xxxxxxxxxxxxxxxxxxxxxxxx
password = getPassword2(user)
password: process.env.DB_PASS
password_length=12345678
token_type=bearer12
token_expires_in=72000000
secret_name=my-secret-12
密码错误次数过多
密码8-16位，含字母和数字
密码是什么
密码长度不少于12位
密码 SHA256 加盐
密钥长度RSA2048
口令为空
primary key: 1234567890abcdef12345678
cache_key=3f2a9c17d41d8cd98f00b204e9800998
public key: 3f2a9c17d41d8cd98f00b204e9800998
ssh -p 2222 host
docker run -p 8080:80 x
mkdir -p /data/app1
chown -u 1000:1000
http://localhost:8080/x@y
https://example.com:443 x@y
spring.datasource.password=@vault.db.password@
tokenizer=bert-base-v2
passwords2024 in the list
user/profile2
git@github.com:a/b2.git
`)
}

// TestWordingsOfIPv4: full stops for dots where the talk is about addresses.
func TestWordingsOfIPv4(t *testing.T) {
	wantMarked(t, IPv4, `
默认网关：«10。36。0。1»（句点全错）
见第3。2。0。1节
`)
}
