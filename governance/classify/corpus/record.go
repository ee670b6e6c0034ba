package corpus

import (
	"fmt"
	"strings"
)

func (s *scene) medicalRecord() string {
	if strings.HasSuffix(strings.TrimRight(s.before, "：: 是为="), "床号") || strings.HasSuffix(s.before, "床") || strings.HasPrefix(s.after, "床") {
		return s.of(fmt.Sprint(s.in(1, 60)), fmt.Sprintf("%02d", s.in(1, 60)), s.of("A", "B", "加", "+")+fmt.Sprint(s.in(1, 12)), fmt.Sprintf("%d-%d", s.in(1, 20), s.in(1, 6)))
	}
	year := fmt.Sprint(s.in(2018, 2026))
	switch s.nearest("住院号", "门诊号", "病案号", "病历号", "检查号", "就诊卡", "登记号", "影像号", "标本号", "条码") {
	case "住院号":
		return s.of("ZY"+year+s.digits(6), "ZY"+s.digits(8), "0"+s.digits(7), s.number(7), s.number(10), "H"+s.digits(9))
	case "门诊号":
		return s.of("MZ"+year+s.digits(6), s.number(8), s.number(10), "M"+s.digits(9))
	case "检查号", "影像号":
		return s.of("CT", "MR", "DR", "US", "XR", "PET") + s.of(year+s.digits(6), s.digits(8))
	case "就诊卡":
		return s.of(s.number(10), s.number(12), "K"+s.digits(8))
	case "标本号", "条码":
		return s.of(s.number(10), s.number(12))
	}
	return s.of(s.number(6), s.number(8), s.number(10), "BA"+year+s.digits(5), "P"+s.digits(9), "00"+s.digits(6))
}

func (s *scene) utilityAccount() string {
	switch s.nearest("表号", "电表", "水表", "燃气", "用电户号", "户号") {
	case "表号", "电表":
		return s.of(s.number(10), s.number(12), s.digits(8), "DB"+s.digits(10))
	case "水表":
		return s.of(s.number(8), s.number(10))
	case "燃气":
		return s.of(s.number(10), s.number(9))
	}
	return s.of(s.number(10), s.number(10), s.number(13))
}

func (s *scene) courtCase() string {
	year := fmt.Sprint(s.in(2009, 2026))
	open, closing := "（", "）"
	switch s.n(8) {
	case 0, 1:
		open, closing = "(", ")"
	case 2:
		open, closing = "〔", "〕"
	case 3:
		open, closing = "[", "]"
	}
	number := fmt.Sprint(s.in(1, 29999))
	province := s.chars("京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼", 1)
	code := s.of("", fmt.Sprintf("%02d", s.in(1, 20)), fmt.Sprintf("%02d%02d", s.in(1, 20), s.in(1, 30)), fmt.Sprintf("%02d%02d", s.in(1, 20), s.in(81, 99)))
	if s.chance(15) || s.near("检察", "起诉书", "公诉") {
		return province + s.of("", "朝", "海", "高新", "市") + s.of("检刑诉", "检公诉刑诉", "检一部刑诉", "检刑不诉", "检民监") + open + year + closing + number + "号"
	}
	if s.chance(8) {
		return open + fmt.Sprint(s.in(2005, 2015)) + closing + s.of("朝", "海", "浦", "天", "鼓", "深福", "杭西") + s.of("民初字第", "刑初字第", "执字第", "行初字第", "民终字第") + fmt.Sprintf("%05d", s.in(1, 9999)) + "号"
	}
	kind := s.of("民初", "民初", "民初", "刑初", "民终", "刑终", "执", "执恢", "执保", "执异", "行初", "行终", "民申", "民辖终", "破申", "破", "财保", "民特", "诉前调", "知民初", "赔", "司惩", "刑更", "清申", "执复")
	if s.chance(2) {
		province, code = "最高法", ""
	}
	return open + year + closing + province + code + kind + number + "号" + s.of("", "", "", "", "之一")
}

func (s *scene) ticket() string {
	day := s.day(2023, 2025).Format("20060102")
	return s.of("GD"+day+s.digits(4), "WO-"+day+"-"+s.digits(4), "HT"+day+s.digits(6), "INC"+s.digits(7), "SR"+s.digits(10), "TS"+day[2:]+s.digits(5))
}

func (s *scene) order() string {
	day := s.day(2023, 2025).Format("20060102")
	return s.of("DD"+day+s.digits(8), day+s.digits(6), "PO-"+day[:4]+"-"+s.digits(5), "SO"+s.digits(9), "XS"+day+"-"+s.digits(3), "E"+day+"1"+s.digits(5)+s.chars(upper, 2))
}

func (s *scene) parcel() string {
	return s.of("SF"+s.number(13), "YT"+s.number(13), "JD"+s.number(13), "JT"+s.number(13), "ZTO"+s.number(12), "77"+s.digits(13), "E"+s.chars("ABCXYZ", 1)+s.number(9)+"CN")
}

func (s *scene) documentNumber() string {
	return s.of("国办发", "京政发", "粤府办", "银发", "沪府规", "财税", "人社部发", "苏政办发", "国卫医发", "浙电调") + "〔" + fmt.Sprint(s.in(2012, 2026)) + "〕" + fmt.Sprint(s.in(1, 260)) + "号"
}

func (s *scene) birthDate() string {
	d := s.day(1940, 2020)
	return s.of(d.Format("2006年1月2日"), d.Format("2006-01-02"), d.Format("2006.01.02"), d.Format("2006/1/2"), d.Format("2006年01月"))
}

func (s *scene) age() string {
	n := fmt.Sprint(s.in(1, 96))
	if strings.HasPrefix(s.after, "岁") || strings.HasPrefix(s.after, "周岁") {
		return n
	}
	return s.of(n+"岁", n+"岁", n+"周岁")
}

func (s *scene) company() string {
	p := s.place()
	head := strings.TrimSuffix(strings.TrimSuffix(p.city, "市"), "自治州")
	if head == "" {
		head = strings.TrimSuffix(p.province, "市")
	}
	name := s.chars("华鑫瑞恒盛达信诚宏远博泰汇隆嘉明星海天成联创智科云腾", 2)
	return head + s.of("", "市") + name + s.of("科技", "贸易", "机械制造", "物流", "建筑工程", "电子", "医药", "餐饮管理", "新能源") + s.of("有限公司", "有限公司", "股份有限公司", "有限责任公司")
}

// filler makes what is not sensitive.
func (s *scene) filler(class string) string {
	d := s.day(2022, 2025)
	switch class {
	case "date":
		return s.of(d.Format("2006年1月2日"), d.Format("2006-01-02"), d.Format("1月2日"), d.Format("2006.1.2"), d.Format("01/02"), d.Format("2006/01/02"))
	case "time":
		return s.of(fmt.Sprintf("%02d:%02d", s.n(24), s.n(60)), fmt.Sprintf("%d:%02d", s.in(8, 20), s.n(60)), fmt.Sprintf("%d点%d分", s.in(7, 21), s.in(1, 59)), s.of("上午", "下午")+fmt.Sprintf("%d点", s.in(1, 11)), fmt.Sprintf("%02d:%02d:%02d", s.n(24), s.n(60), s.n(60)))
	case "amount":
		return s.amount()
	case "count":
		return fmt.Sprint(s.of(fmt.Sprint(s.in(2, 20)), fmt.Sprint(s.in(2, 20)), fmt.Sprint(s.in(21, 480))))
	case "percent":
		return s.of(fmt.Sprintf("%d%%", s.in(1, 99)), fmt.Sprintf("%d.%d%%", s.in(0, 99), s.n(10)), fmt.Sprintf("%d.%02d%%", s.in(0, 30), s.n(100)))
	case "department":
		return s.department()
	case "product":
		return s.product()
	case "hotline":
		return s.of("12345", "12345", "12315", "95588", "95533", "95598", "12333", "12348", "12388", "110", "120", "119", "122", "96110", "400-820-8820", "400-"+s.digits(3)+"-"+s.digits(4), "800-810-"+s.digits(4), "10086", "12320", "12393")
	case "order":
		return s.order()
	case "ticket":
		return s.ticket()
	case "version":
		return s.of(fmt.Sprintf("v%d.%d.%d", s.in(1, 9), s.n(20), s.n(30)), fmt.Sprintf("%d.%d", s.in(1, 12), s.n(20)), fmt.Sprintf("V%d.%d", s.in(1, 9), s.n(10)), fmt.Sprintf("%d.%d.%d", s.in(1, 9), s.n(20), s.n(30)), fmt.Sprintf("R%dC%02d", s.in(1, 9), s.n(20)))
	case "weekday":
		return s.of("周", "星期", "礼拜") + s.chars("一二三四五六", 1)
	}
	return class // frames are checked when they are read
}

func (s *scene) amount() string {
	n := s.in(1, 99999)
	text := s.of(fmt.Sprint(n), fmt.Sprintf("%d.%02d", n, s.n(100)), fmt.Sprintf("%d,%03d.%02d", s.in(1, 999), s.n(1000), s.n(100)), fmt.Sprintf("%d,%03d", s.in(1, 999), s.n(1000)))
	for _, unit := range []string{"元", "块", "万", "人民币", "圆", "美元", "港"} {
		if strings.HasPrefix(s.after, unit) {
			return text
		}
	}
	if strings.HasSuffix(s.before, "¥") || strings.HasSuffix(s.before, "￥") || strings.HasSuffix(s.before, "人民币") && s.chance(50) {
		return text
	}
	return s.of(text+"元", text+"元", text+"元", "¥"+text, fmt.Sprint(s.in(1, 300))+"万元")
}

func (s *scene) department() string {
	switch s.family {
	case "bank":
		return s.word("营业部 运营管理部 个人金融部 信用卡中心 风险管理部 合规部 科技部 客户服务中心 公司业务部 授信审批部")
	case "hospital":
		return s.word("心内科 呼吸科 骨科 普外科 急诊科 儿科 妇产科 检验科 影像科 医务科 护理部 神经内科 肿瘤科 内分泌科")
	case "industry":
		return s.word("生产部 设备部 质检部 仓储部 运维班 调度中心 安环部 营销部 采购部 信息中心 工艺科 电气车间")
	case "court":
		return s.word("立案庭 民一庭 刑庭 执行局 行政庭 审管办 诉讼服务中心 速裁团队 技术处 第一检察部")
	}
	return s.word("城管局 住建局 人社局 市场监管局 生态环境局 交通局 教育局 卫健委 民政局 街道办 社区居委会 水务集团 供电公司 医保局")
}

func (s *scene) product() string {
	switch s.family {
	case "bank":
		return s.of("安心盈", "稳健增利", "活期宝", "经营快贷", "白金信用卡", "大额存单", "消费贷", "手机银行", "纸黄金")
	case "hospital":
		return s.of("阿司匹林肠溶片", "二甲双胍", "头孢克肟", "胰岛素", "血压计", "氨氯地平", "布洛芬缓释胶囊", "雾化器")
	case "industry":
		return s.of("变压器", "PLC-S7-1200", "轴承6204", "变频器", "数控车床", "断路器", "光伏逆变器", "传感器", "齿轮箱", "阀门DN50")
	case "court":
		return s.of("移动微法院", "电子卷宗系统", "电梯", "混凝土", "婚庆服务", "二手车", "装修材料", "空调")
	}
	return s.of("共享单车", "自来水", "天然气", "电动车", "公交卡", "宽带", "电梯", "充电桩", "热水器", "路灯")
}
