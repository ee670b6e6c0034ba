package classify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// names reads «…» marks: the text without them and the values between.
func names(marked string) (text string, values []string) {
	for {
		a, rest, ok := strings.Cut(marked, "«")
		text += a
		if !ok {
			return text, values
		}
		v, after, _ := strings.Cut(rest, "»")
		text += v
		values = append(values, v)
		marked = after
	}
}

func found(text string) (values []string) {
	for _, f := range New(Person).Find(text) {
		values = append(values, text[f.Start:f.End])
	}
	return values
}

func peopleNamed() map[string][]string {
	return map[string][]string{
		"label": {
			"姓名：«李伟»", "患者姓名：«王小明»　性别：男", "户主：«欧阳娜娜»，地址不详", "联系人：«陈静» 电话13800138000", "被告人«张建国»供述", "申请人«刘芳»请求",
			"投保人：«孙丽华»；受益人：«孙浩»", "法定代表人«何伟东»", "收件人:«冯晓燕»,谢谢", "户名 «胡志强»", "当事人\t«吕秀英»\t女", "name=«赵敏»&x=1",
			`{"custName":"«曾国辉»"}`, "operator=«徐磊» shift=B", "原告：«薛冬梅»，女", "证人«邓超»证言", "签名：«阮青松»",
		},
		"title": {
			"市民«王芳»来电反映", "司机«陈大力»绕路", "我老公«周建军»的卡", "民警«李娜»到场", "农民工«赵铁柱»说", "学员«郭子轩»迟到", "其妻«王秀兰»签字",
		},
		"honorific": {
			"«李»主任说先等等", "请找«张»先生", "«王»女士您好", "转告«刘»经理", "«欧阳»老师在吗", "«石磊»医生的号", "«孙丽»女士来电", "«陈»总，合同好了", "«何伟»同志",
			"«王建国»主任、«李»工和«赵»师傅", "联系«周»先生 13800138000",
		},
		"hidden": {
			"«王某»欠款", "被告«李某某»辩称", "«张某甲»伙同«张某乙»", "客户«赵*»来电", "姓名：«王××»", "户主：«刘**»，", "姓名：«李*明»，", "我姓«谭»，西早谭", "«陈某1»与«陈某2»",
		},
		"nick": {
			"«小李»你看下", "让«老张»去吧", "找«小王»，他知道", "«老陈»：好的", "请«小刘»转告",
		},
		"running": {
			"«张伟»说明天到", "经查，«王建国»与«李秀英»登记结婚", "昨天联系了«陈志强»，他同意", "资料已交给«刘洋»", "由«赵丽娟»负责，下周完成", "«吴海涛»驾驶小型客车",
			"请«何晓东»到窗口办理", "感谢«郑爱华»和«冯玉兰»", "«蒋文静»表示满意",
		},
		"dialogue": {"«张伟»：你好", "«刘敏»：我也去\n«陈刚»：好"},
		"list":     {"«张伟»、«李娜»、«王芳»三人", "先进个人：«陈志强»、«刘洋»和«赵丽娟»", "«王丽华»|«陈小军»|«刘建平»", "成员：«杨帆»，«徐静»"},
		"fused":    {"先进个人：«李明明»«王小丽»", "持有人«陈志强»«刘丽华»须到场", "名单：«张建国»«赵丽娟»«吴海涛»"},
		"number":   {"«张伟» 13800138000", "«刘志远»13800138000", "«陈丽华»，110105194912310021"},
		"blanks":   {"姓名：«张 三»", "姓　名：«王 小 明»，", "患者«陈 志强»，", "户 名 «翟 永 胜» 身份证"},
		"peoples": {
			"«阿依古丽·买买提»来电", "患者«扎西次仁»，男", "«乌兰图雅»的电脑", "牧民«呼和巴特尔»", "«迪丽热巴·迪力木拉提»", "员工«达瓦卓玛»",
		},
		"latin": {
			"姓名：«Zhang Wei»", "Payer: «Li Xiaoming» Passport", "市民«WANG Fang»来电", "Dear Mr. «Smith»,", "联系人：«Xiaoming Li»，", "台胞«CHEN YIPENG»，", "My name is «Zhang Xiaofeng»,",
			"xingming：«kuang mingyu»", "联系人«Lily Wang»到访",
		},
	}
}

func TestPeopleAreFound(t *testing.T) {
	for form, lines := range peopleNamed() {
		for _, line := range lines {
			text, want := names(line)
			if got := found(text); !slices.Equal(got, want) {
				t.Errorf("%s: %q: found %q, want %q", form, text, got, want)
			}
		}
	}
}

// nobody is text in which no private person is named.
func nobody() []string {
	return append(strings.Fields(`高兴 方法 时间 王国 周末 马上 方便 高度 安全 常年 任何 何时 成功 黄金 白天 石油 钱款 余下 平台 项目 章程 云计算 计划 严禁 严格 华东 季度 牛奶 龙头 雷雨
		毕业 时代 康复 元旦 顾客 顾问 明确 明显 成本 谈话 宋体 庞大 纪要 纪律 舒适 祝贺 董事会 梁柱 杜绝 蓝图 席位 麻醉 强调 强化 路线 路由 危险 童年 颜色 梅雨 盛大 林业 高校 高峰 高压 夏季 田间
		胡同 胡萝卜 凌晨 霍乱 万元 支持 支行 管理 管道 莫名 经济 经营 房产 解决 解除 应当 应用 宗旨 宣传 单位 单独 洪水 包括 包装 诸多 左侧 陆续 荣获 惠民 曲线 家庭 家具 封面 储备 焦点 焦虑 巴士 牧业
		山区 谷物 车间 全体 班组 秋季 仲裁 甘草 祖国 符合 景气 叶片 幸福 司法 司机 黎明 薄弱 印章 宿舍 怀疑 从事 索赔 籍贯 卓越 池塘 乔木 能力 能源 双方 党员 贡献 劳动 申请 扶贫 堵塞 桂花 寿命 通知
		通过 边界 尚未 农业 柴油 充分 连续 习惯 容量 容易 易燃 终于 终止 居民 衡量 步骤 都市 满意 弘扬 国家 文件 文化 广大 东部 利率 隆重 师傅 巩固 融资 冷却 辛苦 那么 简历 空调 空间 曾经 沙尘 养老
		丰富 关于 关键 相关 查询 红色 游客 权限 金融 金额 水平 水电 江南 毛利率 毛巾 孔径 陶瓷 和谐 武汉 项链 皮带 齐抓共管 米面 贝类 屈光 古建筑 柏油 水泥 常务 安静 解释 余热 白内障 黄疸 甘油 石膏
		钟点工 汤匙 主任 经理 医生 原告 被告 姓名 联系人`),
		"高兴地看到，各部门马上行动起来", "于是我们决定暂缓施工", "任何单位和个人不得擅自改变房屋用途", "何时恢复供水，请以通知为准", "方案经过三轮讨论", "王府井步行街周末客流量大",
		"石家庄到太原的动车", "马鞍山钢铁的检修周期", "黄山风景区", "周口店遗址", "白洋淀的荷花开了", "李宁品牌的工装", "华为交换机", "张江科学城新引进了企业", "方太油烟机", "诸葛亮会开得好",
		"联系人和联系电话为必填项", "请在“申请人签字”处签名", "原告与被告均未到庭的，按撤诉处理", "患者或者家属应当签字", "户主变更须全体成员到场", "客户经理需录入信息", "主任说，这件事要马上办",
		"经理要求周一前交报表", "老师傅说没坏", "小区物业表示正在申请", "小组讨论之后", "姓名：　　　性别：", "联系人：无", "申请人：同上", "许可证到期前三十日", "谢谢各位领导", "老百姓的事", "和国防部长一起",
		"中国北京、长江·三峡", "Hong Kong is a city", "He can run. She Can", "Dear Customer, Dear All", "user=root name=null", "He Long Song",
		"由于某种原因", "某公司", "总经理办公会", "高级工程师评审", "班主任会议", "项目经理会议", "大堂经理岗位", "副主任委员",
	)
}

func TestNobodyIsFound(t *testing.T) {
	lines := nobody()
	if len(lines) < 250 {
		t.Fatalf("only %d lines", len(lines))
	}
	for _, line := range lines {
		for _, text := range []string{line, "，" + line + "，", "我们的" + line, line + "的问题"} {
			if got := found(text); len(got) > 0 {
				t.Errorf("%q: found %q", text, got)
			}
		}
	}
}

// TestEverySurnameBehindALabel: with any typical given name, of one character or two.
func TestEverySurnameBehindALabel(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var typical, surnames []rune
	for c := rune(text.HanFirst); c < text.HanLast; c++ {
		if lexicon.Given(c) == lexicon.Common {
			typical = append(typical, c)
		}
		if n, tier := lexicon.Surname([]rune{c}); n == 1 && tier >= lexicon.Usual {
			surnames = append(surnames, c)
		}
	}
	for _, s := range surnames {
		for range 8 {
			given := string(typical[r.IntN(len(typical))])
			if r.IntN(3) > 0 {
				given += string(typical[r.IntN(len(typical))])
			}
			name := string(s) + given
			for _, frame := range []string{"姓名：%s，男", "户名：%s\n", "联系人：%s 13800138000"} {
				text := fmt.Sprintf(frame, name)
				if got := found(text); len(got) != 1 || !strings.Contains(got[0], name) {
					t.Errorf("%q: found %q", text, got)
				}
			}
		}
	}
}

// TestNamesDoNotDependOnCuts: every cut, and rune by rune.
func TestNamesDoNotDependOnCuts(t *testing.T) {
	set := New(Person, Mobile)
	var texts []string
	for _, lines := range peopleNamed() {
		for _, line := range lines {
			text, _ := names(line)
			texts = append(texts, text)
		}
	}
	for _, text := range append(texts, nobody()...) {
		want := scanPieces(set, text)
		if got := scanPieces(set, strings.Split(text, "")...); got != want {
			t.Errorf("rune by rune: %s\nwant %s", got, want)
		}
		for i := range len(text) {
			if got := scanPieces(set, text[:i], text[i:]); got != want {
				t.Fatalf("cut at %d: %s\nwant %s", i, got, want)
			}
		}
	}
}

// TestNamesWithDotsKeepApart: a blank ends a word or a name unless a scanner has put it into a part.
func TestNamesWithDotsKeepApart(t *testing.T) {
	for text, want := range map[string]string{
		"法国 皮埃尔·杜邦说":      "皮埃尔·杜邦",
		"巴西 卡洛斯·席尔瓦进球":    "卡洛斯·席尔瓦",
		"阿姨 买买提·艾力来电":     "买买提·艾力",
		"买买提·艾力 阿依古丽·买买提": "买买提·艾力|阿依古丽·买买提",
		"买买提·艾力 克拉玛依人":    "买买提·艾力",
		"阿依 古丽·买买提":       "阿依 古丽·买买提",
		"阿依古丽·买 买提 先生":    "阿依古丽·买 买提",
		"姓名：艾力 买买提·阿布都，男": "艾力|买买提·阿布都",
	} {
		if got := strings.Join(found(text), "|"); got != want {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// TestPeopleCalledLikeBrandsAndPlaces: namesakes are no names that people bear today.
func TestPeopleCalledLikeBrandsAndPlaces(t *testing.T) {
	set := New(Person)
	for _, name := range strings.Fields("李宁 苏宁 王维 于洪 金鹏 徐海 王冠 陈克明 刘天华") {
		if got := scanPieces(set, name+"，男，35岁"); !strings.HasPrefix(got, "«person|"+name+"|") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestCompoundSurnamesWaitForWholeNames: what begins like a namesake, or like a given name that nobody has, may go on.
func TestCompoundSurnamesWaitForWholeNames(t *testing.T) {
	set := New(Person)
	for _, name := range []string{"诸葛亮华", "诸葛瑾豪", "尉迟恭豪", "慕容子豪"} {
		text := name + "来了。"
		if got, want := scanPieces(set, strings.Split(text, "")...), scanPieces(set, text); got != want || !strings.Contains(got, name+"|") {
			t.Errorf("rune by rune %s, at once %s", got, want)
		}
	}
}

// TestNamesFarIntoAText: what stands before a name counts as at the beginning of a text, also when cells have been forgotten.
func TestNamesFarIntoAText(t *testing.T) {
	for _, pad := range []string{"", strings.Repeat("天气很好。", 40), strings.Repeat("天气很好。", 4000)} {
		for _, lines := range peopleNamed() {
			for _, line := range lines {
				text, want := names(line)
				if got := found(pad + "。" + text); !slices.Equal(got, want) && slices.Equal(found("。"+text), want) {
					t.Errorf("%q behind %d bytes: found %q", text, len(pad), got)
				}
			}
		}
	}
}

func TestNamesHoldLittleBack(t *testing.T) {
	var held []int
	sc := New(Person).Scanner()
	for _, r := range strings.Join(nobody(), "，") {
		sc.Write(string(r))
		held = append(held, len([]rune(sc.buf)))
	}
	slices.Sort(held)
	if p95, most := held[len(held)*95/100], held[len(held)-1]; p95 > 10 || most > 24 {
		t.Errorf("held back: %d at the 95th percentile, %d at most", p95, most)
	}
}

func FuzzPerson(f *testing.F) {
	for _, lines := range peopleNamed() {
		for _, line := range lines {
			text, _ := names(line)
			f.Add(text, uint16(3), uint16(7))
		}
	}
	for _, line := range nobody() {
		f.Add(line, uint16(1), uint16(4))
	}
	set := New(Person)
	f.Fuzz(func(t *testing.T, text string, a, b uint16) {
		checkFindings(t, text, set.Find(text))
		i, j := int(a)%(len(text)+1), int(b)%(len(text)+1)
		i, j = min(i, j), max(i, j)
		if got, want := scanPieces(set, text[:i], text[i:j], text[j:]), scanPieces(set, text); got != want {
			t.Fatalf("cuts at %d and %d: %s\nwant %s", i, j, got, want)
		}
	})
}

func BenchmarkPersonProse(b *testing.B) {
	text := strings.Repeat("今年以来，我市持续优化营商环境，市民来电反映的供暖不足问题得到及时处理，群众满意度稳步提升。", 200)
	set := New(Person)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Find(text)
	}
}
