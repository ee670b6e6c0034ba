package corpus

import (
	"fmt"
	"strings"
)

// place is a county-level division: its code of GB/T 2260, and its names from the province down.
type place struct{ code, province, city, district string }

// places are some of China's county-level divisions, from the public tables.
const placeList = `110101 北京市 - 东城区
110102 北京市 - 西城区
110105 北京市 - 朝阳区
110106 北京市 - 丰台区
110108 北京市 - 海淀区
110112 北京市 - 通州区
110114 北京市 - 昌平区
120101 天津市 - 和平区
120104 天津市 - 南开区
120116 天津市 - 滨海新区
130102 河北省 石家庄市 长安区
130202 河北省 唐山市 路南区
130403 河北省 邯郸市 丛台区
130602 河北省 保定市 竞秀区
130682 河北省 保定市 定州市
140105 山西省 太原市 小店区
140203 山西省 大同市 云冈区
150102 内蒙古自治区 呼和浩特市 新城区
150203 内蒙古自治区 包头市 昆都仑区
150522 内蒙古自治区 通辽市 科尔沁左翼后旗
152502 内蒙古自治区 锡林郭勒盟 锡林浩特市
210102 辽宁省 沈阳市 和平区
210202 辽宁省 大连市 中山区
210211 辽宁省 大连市 甘井子区
220102 吉林省 长春市 南关区
222401 吉林省 延边朝鲜族自治州 延吉市
230102 黑龙江省 哈尔滨市 道里区
230603 黑龙江省 大庆市 龙凤区
310101 上海市 - 黄浦区
310104 上海市 - 徐汇区
310112 上海市 - 闵行区
310115 上海市 - 浦东新区
310117 上海市 - 松江区
320102 江苏省 南京市 玄武区
320106 江苏省 南京市 鼓楼区
320214 江苏省 无锡市 新吴区
320505 江苏省 苏州市 虎丘区
320583 江苏省 苏州市 昆山市
321002 江苏省 扬州市 广陵区
330102 浙江省 杭州市 上城区
330106 浙江省 杭州市 西湖区
330110 浙江省 杭州市 余杭区
330203 浙江省 宁波市 海曙区
330782 浙江省 金华市 义乌市
340102 安徽省 合肥市 瑶海区
340111 安徽省 合肥市 包河区
341126 安徽省 滁州市 凤阳县
350102 福建省 福州市 鼓楼区
350203 福建省 厦门市 思明区
350582 福建省 泉州市 晋江市
360102 江西省 南昌市 东湖区
360702 江西省 赣州市 章贡区
370102 山东省 济南市 历下区
370202 山东省 青岛市 市南区
370602 山东省 烟台市 芝罘区
371325 山东省 临沂市 费县
410102 河南省 郑州市 中原区
410105 河南省 郑州市 金水区
410303 河南省 洛阳市 西工区
411521 河南省 信阳市 罗山县
420102 湖北省 武汉市 江岸区
420106 湖北省 武汉市 武昌区
420111 湖北省 武汉市 洪山区
422801 湖北省 恩施土家族苗族自治州 恩施市
430102 湖南省 长沙市 芙蓉区
430104 湖南省 长沙市 岳麓区
430528 湖南省 邵阳市 新宁县
440103 广东省 广州市 荔湾区
440106 广东省 广州市 天河区
440111 广东省 广州市 白云区
440304 广东省 深圳市 福田区
440305 广东省 深圳市 南山区
440306 广东省 深圳市 宝安区
440604 广东省 佛山市 禅城区
440524 广东省 汕头市 潮阳县
450103 广西壮族自治区 南宁市 青秀区
450302 广西壮族自治区 桂林市 秀峰区
460106 海南省 海口市 龙华区
460203 海南省 三亚市 吉阳区
500103 重庆市 - 渝中区
500112 重庆市 - 渝北区
500153 重庆市 - 荣昌区
510104 四川省 成都市 锦江区
510107 四川省 成都市 武侯区
510703 四川省 绵阳市 涪城区
513401 四川省 凉山彝族自治州 西昌市
520102 贵州省 贵阳市 南明区
520302 贵州省 遵义市 红花岗区
530102 云南省 昆明市 五华区
532901 云南省 大理白族自治州 大理市
540102 西藏自治区 拉萨市 城关区
610102 陕西省 西安市 新城区
610113 陕西省 西安市 雁塔区
610802 陕西省 榆林市 榆阳区
620102 甘肃省 兰州市 城关区
620982 甘肃省 酒泉市 敦煌市
630103 青海省 西宁市 城中区
640104 宁夏回族自治区 银川市 兴庆区
650102 新疆维吾尔自治区 乌鲁木齐市 天山区
653101 新疆维吾尔自治区 喀什地区 喀什市
654002 新疆维吾尔自治区 伊犁哈萨克自治州 伊宁市`

func (s *scene) place() place {
	lines := strings.Split(placeList, "\n")
	f := strings.Fields(lines[s.n(len(lines))])
	return place{f[0], f[1], strings.Trim(f[2], "-"), f[3]}
}

const (
	roads      = "人民路 中山路 建设路 解放路 和平路 新华路 文化路 胜利路 光明路 学府路 科技路 创业路 迎宾大道 滨河大道 长江路 黄河路 淮海中路 南京西路 北京东路 建国门外大街 五一大道 天府大道北段 深南大道 体育西路 环城东路 育才街 站前街 商业街 朝阳大街 友谊大街 友谊路 团结路 幸福路 翠竹路 梧桐路 银杏路 望江路 凤凰路 龙腾路 金沙江路 张江路 宛平南路 虹桥路 西湖大道 工农路 工业北路 东风路 红旗路 永安街 兴业路 振兴路 锦绣路"
	estates    = "锦绣花园 阳光花园 金色家园 翠湖豪庭 碧桂园 万科城 龙湖紫都城 绿地世纪城 保利香槟 融创观澜府 世纪佳苑 幸福里 紫金华府 书香门第 御景湾 东方名城 江南水岸 滨江公馆 和谐家园 新城丽景 学府佳苑 铁路宿舍 纺织厂家属院 地质局家属院 桂花苑 梅园新村 曹杨新村 田林十二村 怡景花园 中海国际社区"
	buildings  = "国贸大厦 环球金融中心 科技大厦 创业大厦 软件园 万达广场 财富中心 金融街中心 银河SOHO 时代广场 华润大厦 信息大厦 电力大厦 商务中心 嘉里中心"
	towns      = "城关镇 河口镇 龙泉镇 柳林镇 石桥镇 新店镇 太平镇 双河乡 白马镇 清溪镇 青山镇 大营镇 马集镇 沙河镇 红岩乡 金牛镇 官渡镇 三里街道 东关街道 五里墩街道"
	villages   = "李家村 王庄村 大石桥村 前进村 红星村 杨柳村 上坝村 下湾村 东沟村 西岭村 陈家湾村 小河村 张各庄村 刘家堡村 黄泥岗村 桃园村 赵家屯村 三合村"
	landmarks  = "万达 人民医院 火车站 实验小学 第二中学 农贸市场 老百货大楼 体育馆 汽车站 建材市场 加油站 派出所 银泰 沃尔玛"
	whereabout = "对面 后面 旁边 隔壁 斜对面 东门 北门对面"
)

// count writes a number of an address, in Chinese where the noise is that.
func (s *scene) count(low, high int) string {
	n := s.in(low, high)
	if s.plain() && s.chance(60) {
		return chineseNumber(n)
	}
	return fmt.Sprint(n)
}

// chineseNumber writes 1 to 9999 as people read it.
func chineseNumber(n int) string {
	digits := []rune("零一二三四五六七八九")
	out, zero := "", false
	for _, u := range []struct {
		size int
		name string
	}{{1000, "千"}, {100, "百"}, {10, "十"}, {1, ""}} {
		d := n / u.size % 10
		switch {
		case d == 0:
			zero = out != ""
			continue
		case zero:
			out, zero = out+"零", false
		}
		if d == 1 && u.size == 10 && out == "" {
			out = "十"
			continue
		}
		out += string(digits[d]) + u.name
	}
	return out
}

func (s *scene) address() string {
	p := s.place()
	road := s.word(roads) + s.count(1, 999) + "号"
	switch n := s.n(100); {
	case n < 26:
		return s.divisions(p, "") + road + s.tail()
	case n < 38:
		return p.city + p.district + road + s.tail()
	case n < 46:
		return s.divisions(p, " ") + " " + road + " " + s.tail()
	case n < 56:
		return p.district + s.word(roads) + s.count(1, 300) + s.of("号", "弄", "号院") + s.word(estates) + s.tail()
	case n < 63:
		return s.rural(p)
	case n < 70:
		return road + s.word(buildings) + s.of("A座", "B座", "1号楼", "") + s.count(2, 33) + s.of("层", "楼") + s.count(1, 30) + s.of("室", "号")
	case n < 76:
		return s.word(estates) + s.short()
	case n < 82:
		return s.word(estates) + s.tail()
	case n < 86:
		return p.district + s.word(towns) + s.word(estates) + s.tail()
	case n < 90:
		return strings.TrimSuffix(p.city, "市") + strings.TrimSuffix(p.district, "区") + s.word(roads) + s.word(estates) + s.tail()
	case n < 93:
		return s.divisions(p, "") + s.of("经济技术开发区", "高新区", "工业园区", "保税区") + s.word(roads) + s.count(1, 200) + "号" + s.of("A栋厂房", "2号厂房", "3号仓库", "办公楼5层", "")
	case n < 97 && (s.family == "hotline" || s.noise == "chat"):
		return s.word(landmarks) + s.word(whereabout) + s.of("那个", "的", "") + s.word(estates) + s.tail()
	}
	return road + s.tail()
}

func (s *scene) divisions(p place, separator string) string {
	province := p.province
	switch s.n(6) {
	case 0:
		province = ""
	case 1:
		province = strings.TrimSuffix(province, "省")
	}
	city := p.city
	if city == "" && province == "" {
		province = p.province
	}
	return strings.Join(strings.Fields(province+" "+city+" "+p.district), separator)
}

// tail is what follows the road or the estate, down to the door.
func (s *scene) tail() string {
	building, unit, door := s.count(1, 60), s.count(1, 6), s.door()
	switch s.n(9) {
	case 0, 1:
		return building + s.of("号楼", "栋", "幢") + unit + "单元" + door + s.of("室", "号", "")
	case 2:
		return building + s.of("号楼", "栋", "幢", "座") + door + "室"
	case 3:
		return building + "栋" + s.count(2, 33) + s.of("楼", "层")
	case 4:
		return s.short()
	case 5:
		return s.of("甲", "乙", "A", "B", "C", "东", "西") + s.of("座", "栋") + door + s.of("室", "房")
	case 6:
		return building + "号楼" + unit + "门" + door
	case 7:
		return building + "号楼" + door
	}
	return building + "栋" + unit + "单元" + s.count(2, 33) + "楼" + s.of("东户", "西户", "左手边", "中户", "")
}

func (s *scene) door() string {
	floor, room := s.in(1, 33), s.in(1, 8)
	if s.plain() && s.chance(40) {
		return chineseDigits(fmt.Sprintf("%d%02d", floor, room), "零一二三四五六七八九")
	}
	return fmt.Sprintf("%d%02d", floor, room)
}

func (s *scene) short() string {
	return fmt.Sprintf("%d-%d-%d%02d", s.in(1, 40), s.in(1, 6), s.in(1, 33), s.in(1, 8))
}

func (s *scene) rural(p place) string {
	village := s.word(villages)
	if p.province == "内蒙古自治区" && s.chance(60) {
		return s.divisions(p, "") + s.of("巴彦塔拉苏木", "白音胡硕镇") + s.of("巴雅尔嘎查", "胡吉尔嘎查") + s.count(1, 60) + "号"
	}
	return s.divisions(p, "") + s.word(towns) + village + s.of(s.count(1, 12)+"组", s.count(1, 12)+"组"+s.count(1, 200)+"号", s.count(1, 300)+"号", s.count(1, 9)+"社", s.of("东头", "村口")+"第"+s.count(2, 6)+"家")
}
