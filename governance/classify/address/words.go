package address

import (
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// The words of addresses. What is listed here is grammar, the endings of names and the words around addresses; names are not.

// What a rune may be in an address, as bits.
const (
	placeStop    = 1 << iota // never in a name
	placeWord                // begins a word that is never in a name
	placeExempt              // begins a word of names, although one of the above begins here
	placeEnd                 // ends a part of an address
	placeMark                // begins a word such as 对面
	placeCue                 // ends a word that stands before addresses
	placeNumeral             // a Chinese numeral
	placeUnit                // may follow a numeral in an address
	placeHot                 // may make an address of names alone
	placeCount               // begins a number, or stands in one
)

// placeStops are verbs, prepositions, pronouns and particles: they stand between addresses and what is around them.
const placeStops = "的了是在我你您他她它们被把很没这那哪谁说吗呢吧啊呀嘛及或但因请让给到去住寄送离距向为将经沿从于至与和跟由对往来回称叫找问见租搬迁要能可已还又再最更每些怎么该此着过吃买卖写打听" +
	"并且虽既即仍均皆系属据按叮嘱催派走有接" +
	"姓某只码需须应拿替帮带坏掉摔跌撞抓抢偷骗骂吵拖欠罚赔吗哦嗯喂咱俩您诉"

// placeExempts are beginnings of names with a rune of placeStops.
const placeExempts = `和国际 和中大 和中路 和东路 和西路 和北路 和南路 和大道 将东 将西 将路 将中 在天 将大 将北 将南
	有色 有余 有庆 有恒 有容 有为 有园 为民 向阳 向前 向荣 向东 向日 将军 将乐 经一 经二 经三 经四 经五 经六 经七 经八 经九 经十 经济 经开 经纬 经贸 经山 沿江 沿河 沿海 沿湖 沿山 沿滩 沿溪 沿街 沿路
	从化 从江 于洪 于田 于都 于家 于庄 于集 于城 至善 至诚 至德 与时 和平 和谐 和睦 和顺 和美 和园 和兴 和县 和田 和静 和硕 和龙 和政 和布 和林 和信 和苑 和泰
	和庄 和合 和安 和丰 和润 和达 和院 和路 和街 和村 和新 和镇 和乡 和区 和府 和里 和家 和花 和大 和广 和城 和公 同心 同德 同仁 同乐 同和 同安 同济 同福 同泰 同江
	同富 同兴 同方 由拳 对湖 往流 来安 来宾 来凤 来广 来福 回龙 回民 回族 回兴 回春 称多 租界 发展 发电 发达 发祥 发财 系马 属院 属楼 属区 属大 按察 住宅 住建 住友
	送变 走马 可园 能源 能仁 能容 要塞 过街 过溪 过境 打铁 打靶 听涛 听雨 听松 听海 问津 对面 见龙 迁安 迁西 派出 且末 即墨 均州 均安 均县 均瑶 据点 买里 卖鱼 写字
	已子 还乡 更新 更生 最高 同城 同里 同古 同升 应县 应城 应天 应急 须弥 属地 带岭 帮扶 替宁 要冲 和陂 和桥 和畅 和义 和善 和乐 和景 和悦 和风 和昌 和居 和祥 和雅
	和铭 和贵 和福 和州 和盛 和鸣 和阳 和山 和济 和成 和坊 和瑞 和馨 和源 和湾 和名 和雍 和年 和熙 和光 和嘉 和舟 和会 和华 对山 对门 对口 为县 为市 们市 可克 向山
	和回 和浩 回县 拖县 来义 来区 来县 离岛 离石 经县 至县 要区 要县 要市 让胡 迁县 迁市 迁经 那县 那市 那玛 家属院 家属楼 家属区 办公楼 码头 那曲 那坡 那大 那龙
	那马 请安 给水 于潜 于桥 回郭 回车 发耳 从善 来榜 来雁 来龙 来鹤 来薰 来青 往平 打浦 打石 打虎 过军 见山 见晓 听泉 想象 要城 应山 应元 应昌 应和 应龙`

// placeWords are words that begin with a rune that names have too. None is part of an address; most stand before one.
const placeWords = `什么 为什 同意 反映 投诉 来电 市民 居民 业主 户主 住户 租户 租客 房东 房客 老人 老板 老伯 大爷 大妈 大叔 阿姨 奶奶 爷爷 先生 女士 同志 师傅 经理 主任 警官 法官 律师 医生 护士 书记 店主 车主 户名 姓名
	老家 户口 祖籍 原籍 现居 地址 住址 住所 现址 地点 桩位 位置 位于 坐落 户籍 籍贯 居住 家住 现住 家中 家里 附近 门口 楼上 楼下 所在 常住 暂住 通讯 通信 邮寄 邮编 收货 收件 寄件 发货 发件 配送 送达 送货 上门 安装 装机 报修 抢修 维修 施工
	工作 单位 现场 事发 案发 出事 事故 前往 赶到 赶赴 抵达 到达 接到 接报 接警 报警 出警 报案 举报 搜查 张贴 送修 停电 停水 漏水 堵塞 着火 起火 发生 出现 存在 开店 经营 注册 办公 执业 营业 收到 寄往 寄到
	电话 手机 联系 微信 邮箱 号码 身份 证件 证号 银行 卡号 账号 账户 户号 表号 车牌 编号 型号 单号 批号 图号 料号 货号 订单 工单 合同 案号 病历 住院 门诊 床号 资产 序列 版本 端口 内容 类别 类型 备注 说明
	今天 昨天 明天 今早 昨晚 今晚 上午 下午 中午 晚上 凌晨 早上 傍晚 深夜 夜里 夜间 每天 每晚 最近 目前 现在 刚才 当时 随后 之后 之前 以后 以前 期间 时候 年内 本月 本周 上周 下周 周一 周二 周三 周四 周五 周六 周日
	客户 用户 患者 病人 患儿 病例 死者 被害 受害 原告 被告 证人 嫌疑 申请 借款 担保 抵押 产权 权属 承租 出租 当事 第三人 法人 代表 监护 陪护 家长 亲属 父亲 母亲 爱人 丈夫 妻子 儿子 女儿 妹妹 姐姐 哥哥 弟弟
	然后 如果 因为 所以 但是 而且 或者 以及 关于 根据 按照 通过 经过 经查 经核 查明 认定 显示 记录 登记 核实 确认 处理 解决 要求 希望 建议 需要 进行 开展 完成 提供 提交 填写 选择 变更 修改 更新 新增 名下 所购
	负责 责令 拒绝 同住 自称 声称 表示 认为 觉得 知道 发现 看见 看到 听说 听见 说明 不是 不能 不要 不到 不在 不走 不给 不热 无人 无法 无证 没有 有人 有个 有一 还有 只有 都是 就是 也是 还是 可以 可能 应该 必须
	麻烦 谢谢 你好 您好 帮忙 帮我 快点 尽快 立即 马上 已经 正在 曾经 一直 一起 一个 一名 一位 一家 一间 两个 几个 多个 多次 首次 其他 其中 其居 其住 其名 其妻 其母 其父 全部 所有 各位 各户 本人 本单 本案 自己 自家
	丢失 走失 失踪 被盗 被偷 遗失 检修 检查 巡查 巡检 排查 走访 回访 慰问 采样 采集 确诊 出车 派单 下单 付款 收款 缴费 欠费 罚款 贷款 借贷 抵债 起拍 评估 拍卖 查封 腾房 腾退 拆迁 拆除 征收 补偿 面积 建筑面 使用权
	设备 货物 包裹 快递 快件 信件 材料 物料 名称 品名 数量 规格 价格 金额 日期 时间 年龄 性别 职业 学历 出生 毕业 工号 部门 科室 岗位 姓氏 网格员 保管 签收 收取 领取 自取 取件 代收 代签 代办`

// placeTails are the runes on which names of divisions, roads, estates, buildings and villages end.
const placeTails = "省市县区旗盟镇乡村屯庄寨路街道巷弄里段条园苑城府厦寓庭居邸墅轩阁舍坊庐湾院楼场馆厂栋塔區縣鎮鄉村莊園號衖查木"

// placeHots are buildings that a word can number, and ends of villages.
const placeHots = "座栋幢村屯庄寨查"

// placeTable says what each rune may be, and holds the words by a rune of theirs.
type placeTable struct {
	class   [lexicon.Places]uint16
	words   byRune[[]rune] // by their first runes
	exempts byRune[[]rune]
	marks   byRune[[]rune]
	cues    byRune[addressCue] // by their last runes
}

// addressCue is a word before an address, and what it says.
type addressCue struct {
	word   string
	before rune // its last character but one, if it has two
	why    finding.Evidence
	home   bool // of where somebody lives
}

var places = sync.OnceValue(func() *placeTable {
	t := new(placeTable)
	for _, r := range placeStops {
		*t.at(r) |= placeStop
	}
	for _, r := range placeTails {
		*t.at(r) |= placeEnd
	}
	for _, r := range placeHots {
		*t.at(r) |= placeHot
	}
	for r := rune(0x4e00); r < 0xa000; r++ {
		if isNumeral(r) {
			*t.at(r) |= placeNumeral | placeUnit | placeCount
		}
		if isSide(r) || r == '第' {
			*t.at(r) |= placeCount
		}
	}
	for _, list := range []*text.List{doorUnits, gateUnits, floorUnits} {
		for _, word := range list.Words {
			if r, _ := utf8.DecodeRuneInString(word); text.IsHan(r) {
				*t.at(r) |= placeUnit
			}
		}
	}
	t.list(&t.words, placeWord, strings.Fields(placeWords))
	t.list(&t.exempts, placeExempt, strings.Fields(placeExempts))
	t.list(&t.marks, placeMark, landmarks)
	t.cueWords(finding.LabelBefore, addressLabels)
	t.cueWords(finding.CueBefore, addressCues)
	return t
})

func (t *placeTable) cueWords(why finding.Evidence, words []string) {
	for _, word := range words {
		last, size := utf8.DecodeLastRuneInString(word)
		before, _ := utf8.DecodeLastRuneInString(word[:len(word)-size])
		t.cues.add(last, addressCue{word, before, why, why == finding.LabelBefore || strings.ContainsAny(word, "住居家户")})
		if text.IsHan(last) {
			*t.at(last) |= placeCue
		}
	}
}

func (t *placeTable) list(into *byRune[[]rune], bit uint16, words []string) {
	for _, word := range words {
		r := []rune(word)
		*t.at(r[0]) |= bit
		into.add(r[0], r)
	}
}

func (t *placeTable) of(r rune) uint16 {
	place, ok := lexicon.Place(r)
	if !ok {
		return 0
	}
	return t.class[place]
}

// at is the place of a common character in the table.
func (t *placeTable) at(r rune) *uint16 {
	place, _ := lexicon.Place(r)
	return &t.class[place]
}

// lookAhead looks ahead from cell i for what makes an address: a number, a village, a label. Where there is none before the text breaks off, no
// address begins before that, which is remembered; that is most of plain prose, for one lookup a rune.
func (t *placeTable) lookAhead(w *Detector, i int) (nothing bool) {
	end := min(w.End(), i+maxAddress)
	for k := i; k < end; k++ {
		c := w.Cell(k)
		if c.Han == 0 {
			r := c.R
			if r == ' ' || r == '\n' {
				continue
			}
			w.ahead = w.Place(k + 1)
			if text.IsAlnum(r) || text.IsHan(r) || r == '#' || r == '-' || r == '/' || r == '·' {
				return false
			}
			w.excluded = w.Stretch(i, k)
			return true
		}
		flags := t.class[c.Han-1]
		if flags&(placeHot|placeNumeral|placeCue) == 0 {
			continue
		}
		number := k // the last cell of a number
		for flags&placeNumeral != 0 && t.of(w.At(number+1))&placeNumeral != 0 {
			number++
		}
		next := w.At(number + 1)
		if flags&placeHot != 0 || flags&placeNumeral != 0 && (!text.IsHan(next) || t.of(next)&placeUnit != 0) || flags&placeCue != 0 && t.cue(w, k).why != 0 {
			w.ahead = w.Place(number + 1)
			return false
		}
		k = number
	}
	if end == i+maxAddress {
		w.ahead = w.Place(end)
	}
	return false
}

// before returns what stands before cell i: a label or a cue, apart from at most six characters that join it and its value.
func (t *placeTable) before(w *Detector, i int) addressCue {
	k := i - 1
	for n := 0; n < 6 && k >= 0; n++ {
		if c := t.cue(w, k); c.why != 0 {
			return c
		}
		switch w.At(k) {
		case ':', '=', '是', '为', '在', '于', '(', '[', '"', '\'', '“', '”', '【', '「', ' ', ',', '>', '_', '-', '栏', '显', '示', '写', '的':
			k--
		default:
			return addressCue{}
		}
	}
	return addressCue{}
}

// cue returns the longest such word that ends with cell k.
func (t *placeTable) cue(w *Detector, k int) (found addressCue) {
	r := text.Lower(w.At(k))
	if text.IsHan(r) && t.of(r)&placeCue == 0 || !text.IsHan(r) && !text.IsLetter(r) {
		return found
	}
	left := text.Lower(w.At(k - 1))
	for _, c := range t.cues.of(r) {
		if c.before != left && c.before != utf8.RuneError && !text.IsBlank(left) {
			continue
		}
		if len(c.word) > len(found.word) && w.EndsIn(k, c.word) {
			found = c
		}
	}
	return found
}

// Words of which one stands directly before an address.
var (
	addressLabels = []string{
		"地址", "住址", "住所", "住所地", "户籍地", "户籍", "户口所在地", "籍贯", "居住地", "所在地", "现址", "坐落", "座落", "addr", "address", "现住", "家住", "收货地",
	}
	addressCues = []string{
		"位于", "租住", "暂住", "居住", "家在", "现居", "常住", "同住", "住在", "坐落于", "座落于", "送到", "送至", "寄往", "寄至", "寄到", "搬到", "送货", "迁出", "迁入", "窜至", "去过", "地址是", "入住",
		"住", "寄", "送", "老家", "老家在", "老家是", "户口在", "户口", "祖籍", "位置", "地点", "桩位", "我是", "他是", "她是",
	}
)

// plainWords are kinds of estates: without a name of their own they are none.
var plainWords = text.ListOf("宿舍", "小区", "公寓", "家属院", "大院", "厂区", "园区", "院区", "校区", "社区", "大厦", "广场", "花园", "办公楼", "职工宿舍", "员工宿舍", "学生宿舍", "市场", "厂房", "村", "本村", "我村")

// houses are what may stand on a road, as the last part of an address.
var houses = text.ListOf("大学", "学院", "学校", "中学", "小学", "幼儿园", "医院", "公司", "集团", "酒店", "宾馆", "饭店", "超市", "银行", "支行", "营业厅", "服务站", "驿站", "市场", "中心", "研究所", "研究院", "工厂", "派出所", "车站")

// insideWords are parts of institutions: floors and rooms behind them are signposts.
var insideWords = text.ListOf("门诊", "急诊", "住院", "病房", "病区", "教学楼", "办公楼", "办公室", "行政楼", "综合楼", "航站楼", "会议", "窗口", "机房", "车间", "库房", "仓库", "图书馆", "体检")

// noRoads are words that end as roads do.
var noRoads = text.ListOf(
	"铁路", "公路", "线路", "道路", "电路", "网路", "思路", "出路", "走路", "半路", "回路", "管路", "水路", "气路", "油路", "套路", "公里", "这里", "那里", "哪里", "心里", "手里", "夜里", "屋里", "村里", "县里", "市里", "区里", "镇里", "院里",
	"店里", "库里", "群里", "文里", "表里", "知道", "频道", "通道", "国道", "省道", "县道", "渠道", "隧道", "管道", "轨道", "报道", "车道", "跑道", "味道", "赛道", "匝道", "航道", "行道", "阶段", "时段", "路段", "标段", "工段", "分段", "手段",
	"现场", "立场", "机场", "法院", "检察院", "学院", "科学院", "研究院", "设计院", "检查", "调查", "审查", "核查", "巡查", "抽查", "排查", "复查", "筛查", "地区", "山区", "景区", "城市", "超市", "上市", "全市", "本市", "全省", "本省", "全县", "全国", "政府", "农村", "全村",
	"全区", "县城", "进城", "辖区", "片区", "病区", "专区", "特区", "战区", "小城", "全城", "同城", "商城", "工厂", "邻居", "定居", "移居", "位居", "校园", "公园", "出厂", "电厂", "水厂", "大楼", "上楼", "下楼", "高楼", "楼",
)

// byRune holds lists by characters of ASCII and common Chinese ones.
type byRune[T any] struct {
	ascii [0x80]uint16
	han   [lexicon.Places]uint16 // the place of the list plus one
	lists [][]T
}

// of returns the list of a character.
func (b *byRune[T]) of(r rune) []T {
	at := uint16(0)
	if uint32(r) < 0x80 {
		at = b.ascii[r]
	} else if place, ok := lexicon.Place(r); ok {
		at = b.han[place]
	}
	if at == 0 {
		return nil
	}
	return b.lists[at-1]
}

func (b *byRune[T]) add(r rune, value T) {
	at := &b.ascii[r&0x7f]
	if place, ok := lexicon.Place(r); ok {
		at = &b.han[place]
	}
	if *at == 0 {
		b.lists = append(b.lists, nil)
		*at = uint16(len(b.lists))
	}
	b.lists[*at-1] = append(b.lists[*at-1], value)
}
