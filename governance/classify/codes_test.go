package classify

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// codeExamples are values in the forms that people write them in, between « and ».
func codeExamples() []example {
	luhnOf := luhnCard
	return []example{
		// People.
		{ResidentID, "«11010519491231002X»"},
		{ResidentID, "公民身份号码«110105 1949 1231 002X»"},
		{ResidentID, "id: «11010519491231002x»;"},
		{ResidentID, "«110105194912310 02X»"},
		{ResidentID, "«1I010519491231002X»"},
		{ResidentID, "«1101051949\n1231002X»"},
		{ResidentID, "居住证号«" + resident("83000019900307123") + "»"},
		{ResidentID, "«" + resident("82000019900307123") + "»"},
		{ResidentID, "«" + resident("44052419880101001") + "»"},
		{ResidentID, "老身份证«110105491231002»"},
		{ResidentID, "«110105491231002»，这是我的身份证号"},
		{ResidentID, "身份证号码是：«110105194912310021»"},
		{ResidentID, "«110105194912310021»（身份证）"},
		{ForeignPermit, "«" + resident("91184019800101123") + "»"},
		{ForeignPermit, "永居证：«USA110180010112»"},
		{ForeignPermit, "外国人永久居留证号码«GBR310175030412»"},
		{BusinessLicence, "营业执照注册号：«110108123456786»"},
		{Passport, "护照号码«E12345678»"},
		{Passport, "护照«EA1234567»"},
		{Passport, "passport no. «G12345678»"},
		{Passport, "公务护照«SE1234567»"},
		{Passport, "外交护照«D1234567»"},
		{Passport, "护照 «E1234 5678»"},
		{Passport, "«E12345678»是我的护照号"},
		{Passport, "美国护照：«512345678»"},
		{Passport, "日本护照号«TK1234567»"},
		{Passport, "«P<CHNZHANG<<SAN<<<<<<<<<<<<<<<<<<<<<<<<<<<<<»"},
		{Passport, "«L898902C36UTO7408122F1204159ZE184226B<<<<<10»"},
		{TravelPermit, "港澳通行证«C12345678»"},
		{TravelPermit, "往来港澳通行证号：«CA1234567»"},
		{TravelPermit, "赴台通行证«L12345678»"},
		{TravelPermit, "回乡证«H1234567890»"},
		{TravelPermit, "台胞证«12345678»"},
		{TravelPermit, "台胞证号«1234567890(B)»"},
		{HongKongID, "«A123456(3)»"},
		{HongKongID, "香港身份证 «A 123456 (3)»"},
		{HongKongID, "HKID:«WX123456(" + hkCheck("WX123456") + ")»"},
		{HongKongID, "香港居民«A1234563»（身份证）"},
		{MacauID, "澳门身份证«1234567(8)»"},
		{MacauID, "澳门居民身份证号码：«5123456（7）»"},
		{MacauID, "澳门身份证«1/234567/8»"},
		{MacauID, "澳门籍员工，身份证«51234567»"},
		{TaiwanID, "«A123456789»"},
		{TaiwanID, "台湾身份证字号«A123456789»，"},
		{OfficerID, "军官证：«军字第1234567号»"},
		{OfficerID, "«士字第12345678号»"},
		{OfficerID, "军官证«南字第123456号»"},
		{OfficerID, "警号«012345»"},
		{OfficerID, "民警王某（警号：«P012345»）"},
		{OfficerID, "警号«一二三四五六»"},
		{SocialSecurity, "社保卡号«A12345678»"},
		{SocialSecurity, "医保卡：«1234567890»"},
		{SocialSecurity, "医保电子凭证«11010000001234567890»扫码失败"},
		{MedicalRecord, "住院号：«ZY2024001234»"},
		{MedicalRecord, "住院号 «0012345»，"},
		{MedicalRecord, "门诊号«MZ-2024-00123»"},
		{MedicalRecord, "«20240315001»这个住院号查不到"},
		{MedicalRecord, "病案号是«123456»"},
		{UtilityAccount, "户号：«1234567890»"},
		{UtilityAccount, "电表号«DB1234567890»"},
		{UtilityAccount, "我家户号«0123 4567 89»，"},
		{UtilityAccount, "户号«1234567890»欠费"},
		// Telephones.
		{Mobile, "«(+86)13800138000»"},
		{Mobile, "（«+86 138 0013 8000»）"},
		{Mobile, "«13800138000»-2"},
		{Mobile, "«138 0013 80 00»"},
		{Mobile, "«13800 138000»"},
		{Mobile, "«1380013\n8000»"},
		{Mobile, "«138O0138000»"},
		{Mobile, "«l3800138000»"},
		{Mobile, "手机«一三八零零一三八零零零»"},
		{Mobile, "物联网卡«1440123456789»"},
		{Mobile, "«013800138000»"},
		{Landline, "电话：«62345678»"},
		{Landline, "传真«6234-5678»"},
		{Landline, "«(0755)88886666»"},
		{Landline, "«（010）62345678-801»"},
		{Landline, "«0755-88886666 ext. 8012»"},
		{Landline, "«0755-88886666转8012»分机"},
		{Landline, "«+86-755-88886666»"},
		{Landline, "«0898—66778899»"},
		{Landline, "«0371 6234 5678»"},
		// Money.
		{BankCard, "«" + luhnOf("622848012345678901") + "»"},
		{BankCard, "卡号«6222 0212 3456 7890 128»"},
		{BankCard, "«622202 1234567890128»"},
		{BankCard, "«6222021234567890 128»"},
		{BankCard, "银行卡号：«6222021234567890129»"}, // a wrong check digit
		{BankAccount, "账号：«0200 2001 0901 2345 678»"},
		{BankAccount, "对公账号«11014712345001»"},
		{BankAccount, "开户行及账号：«3301-0122-0900-1234567»"},
		{USCC, "«" + usccCode("91110108MA01AB2C3") + "»"},
		{USCC, "税号：«91110108MA01AB2C3Z»"}, // a wrong check character
		// Things.
		{MAC, "«00-1A-2B-3C-4D-5E»"},
		{MAC, "«001a.2b3c.4d5e»"},
		{MAC, "«001a-2b3c-4d5e»"},
		{MAC, "«00:1A:2B:FF:FE:3C:4D:5E»"},
		{MAC, "MAC地址：«001A2B3C4D5E»"},
		{Plate, "«京A·12345»"},
		{Plate, "«粤Z1234港»"},
		{Plate, "«沪A1234学»"},
		{Plate, "«京A1234领»"},
		{Plate, "«川AF12345»"},
		{Plate, "«川A12345F»"},
		{Plate, "«WJ京1234X»"},
		{Plate, "车牌«使014578»"},
		{Plate, "车牌号：«VA12345»"},
		{Plate, "«京AD12 345»"},
		{VIN, "«" + vinOf("LSVAA418", "E2123456") + "»"},
		{VIN, "VIN«" + vinOf("LFV3A23C", "J3012345") + "»年审"},
		{VIN, "车架号：«WDB1234567A123456»"},
		{IMEI, "IMEI：«" + luhnOf("86123456789012") + "»"},
		{IMEI, "«" + luhnOf("35123456789012") + "»"},
		{IMEI, "串号«35-123456-789012-" + luhnOf("35123456789012")[14:] + "»"},
		{ICCID, "«" + luhnOf("898600123456789012") + "»"},
		{ICCID, "iccid:«" + luhnOf("8986031234567890123") + "»"},
		{IMSI, "IMSI «460001234567890»"},
		{Coordinates, "«39.904211,116.407395»"},
		{Coordinates, "«116.407395, 39.904211»"},
		{Coordinates, "坐标«(39.9042, 116.4074)»"},
		{Coordinates, "«北纬39.9042°，东经116.4074°»"},
		{Coordinates, "«N39.904211 E116.407395»"},
		{Coordinates, "«39°54′20″N 116°23′29″E»"},
		{Coordinates, "经度：«116.407395»，"},
		{Coordinates, `{"lat": «39.904211», `},
		{Coordinates, "«东经116°23′29″，北纬39°54′20″»"},
		// Courts.
		{CourtCase, "«（2024）京01刑初123号»"},
		{CourtCase, "«(2024)京0105民初1234号»"},
		{CourtCase, "«【2023】沪0115执保 88号»"},
		{CourtCase, "«〔2019〕最高法民终12号»"},
		{CourtCase, "«[2024] 苏05执恢33号之一»"},
		{CourtCase, "«（2015）海民初字第12345号»"},
		{CourtCase, "«2024京01刑初123号»"},
		{CourtCase, "«京检一部刑诉〔2024〕12号»"},
		{CourtCase, "«沪浦检刑不诉（2023）Z12号»"},
		// Optional ones.
		{Document, "依据«国办发〔2024〕5号»文件"},
		{Document, "«京政发〔2019〕12号»"},
		{BirthDate, "出生日期：«1990年1月5日»"},
		{BirthDate, "«1990-01-05»出生"},
		{Age, "今年«35岁»"},
		{Age, "年龄：«35»，"},
		{Company, "就职于«北京华信科技有限公司»，"},
		{Parcel, "«SF1234567890123»"},
		{Order, "订单号：«DD2024010212345678»"},
		{Ticket, "工单号«GD202401021234»"},
	}
}

// vinOf puts the right check character of ISO 3779 between the eight characters before it and the eight behind it.
func vinOf(head, tail string) string {
	const letters, values = "ABCDEFGHJKLMNPRSTUVWXYZ", "12345678123457923456789"
	sum := 0
	for i, c := range head + "0" + tail {
		value := int(c - '0')
		if at := strings.IndexRune(letters, c); at >= 0 {
			value = int(values[at] - '0')
		}
		sum += value * [17]int{8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2}[i]
	}
	return head + string("0123456789X"[sum%11]) + tail
}

// hkCheck returns the check character of two letters and six digits of Hong Kong.
func hkCheck(body string) string {
	sum := 0
	for i, c := range body {
		value := int(c - '0')
		if c >= 'A' {
			value = int(c-'A') + 10
		}
		sum += value * (9 - i)
	}
	return string("0A987654321"[sum%11])
}

func TestCodes(t *testing.T) {
	for _, e := range codeExamples() {
		text, start, end := e.parse()
		got := New(Classes()...).Only(func(c Class) bool { return c != Person && c != Address && c != Secret && c != QQ }).Find(text)
		if len(got) != 1 || got[0].Class != e.class || got[0].Start != start || got[0].End != end {
			t.Errorf("%s in %q: found %+v, want [%d,%d)", e.class, text, got, start, end)
		}
	}
}

// TestLabels: what a number is, the nearest label says, before or behind, and a label belongs to one value only.
func TestLabels(t *testing.T) {
	set := New().Only(func(c Class) bool { return c != Person && c != Address && c != Secret })
	for text, want := range map[string]string{
		"住院号：123456":                      "medical_record 123456",
		"住 院 号：123456":                    "medical_record 123456", // blanks inside a label
		"住院号我查到了，是123456":                 "medical_record 123456",
		"住院号123456、234567和345678":         "medical_record 123456|medical_record 234567|medical_record 345678",
		"户号1234567890，电话62345678":         "utility_account 1234567890|cn_landline 62345678",
		"请报一下户号。1234567890":               "utility_account 1234567890",
		"住院号编号：123456":                    "medical_record 123456", // a weak word hides nothing
		"澳门ID 51234567":                   "macau_id 51234567",     // two words in one
		"passport 扫描件显示号码为E67098205":      "cn_passport E67098205",
		"E67098205是我的护照":                  "cn_passport E67098205",
		"E67098205，护照号：G12345678":         "cn_passport G12345678", // the label is the other one's
		"户号是1234567890. Let me know":      "utility_account 1234567890",
		"流水号1234567890":                   "",
		"批号12345678，住院号查不到":               "",
		"住院号查不到，花了12345678元":              "",
		"住院号ZY123456，2024年3月5日出院":         "medical_record ZY123456",
		"户号0123456789 2024-01-02":         "utility_account 0123456789",
		"床号：12":                           "medical_record 12",
		"床号三者核对无误":                        "",
		"6217001000012345670请转到这张建行卡":     "bank_card 6217001000012345670", // wrong check digit
		"6217001000012345670":             "",
		"订单号6222021234567890128":          "",
		"警号一二三四五六":                        "cn_officer_id 一二三四五六",
		"一二三四五六":                          "",
		"电话一三八零零一三八零零零一直打不通":              "cn_mobile 一三八零零一三八零零零",
		"热线4008208820，400-820-8820，10086": "",
	} {
		var got []string
		for _, f := range set.Find(text) {
			got = append(got, string(f.Class)+" "+text[f.Start:f.End])
		}
		if strings.Join(got, "|") != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestSpellingsOfACodeHaveOneValue: a pseudonym stands for the value, however it is written.
func TestSpellingsOfACodeHaveOneValue(t *testing.T) {
	for want, spellings := range map[string][]string{
		"13800138000":         {"13800138000", "+86 138-0013-8000", "(+86)13800138000", "013800138000", "008613800138000", "138O0138000", "一三八零零一三八零零零"},
		"1440123456789":       {"物联网卡1440123456789", "物联网卡 144 0123 456789"},
		"01062345678":         {"010-62345678", "(010)62345678", "+86 10 62345678", "0086-10-62345678"},
		"075588886666":        {"0755-88886666", "+86-755-88886666", "075588886666"},
		"001a2b3c4d5e":        {"00:1A:2B:3C:4D:5E", "00-1a-2b-3c-4d-5e", "001a.2b3c.4d5e"},
		"2024京01刑初123号":       {"（2024）京01刑初123号", "〔2024〕京01刑初123号", "(2024) 京 01 刑初 123 号"},
		"A1234563":            {"香港身份证A123456(3)", "香港身份证 a 123456 (3)", "香港身份证A1234563"},
		"ZY2024001":           {"住院号ZY2024001", "住院号：zy-2024-001"},
		"123456":              {"警号123456", "警号一二三四五六"},
		"6222021234567890128": {"6222021234567890128", "6222 0212 3456 7890 128", "6222-0212-3456-7890-128"},
	} {
		for _, text := range spellings {
			var got []string
			New().Only(func(c Class) bool { return c != Person && c != Address }).Each(text, func(s Segment) {
				if s.Class != "" {
					got = append(got, s.Value)
				}
			})
			if len(got) != 1 || got[0] != want {
				t.Errorf("%q: values %q, want %q", text, got, want)
			}
		}
	}
}

// noCodes are texts in which no class that is on by default may be found.
func noCodes() []string {
	return []string{
		"拨打12345、12315、12388、95588、10086、110、119、120、122", "400-800-8820", "4006008820", "800-820-8820", "010-12345", "0755-95588", "热线4008 123 123",
		"版本2.3.14", "v10.2.1.4", "Ubuntu 22.04.3 LTS", "第3.1.4节", "ISO 9001:2015", "GB/T 2260-2007",
		"订单号20240102123456", "流水号：2024010212345678901", "工单号 WO-20240102-0012", "快递单号 773012345678901", "发票号码01234567", "合同编号HT-2024-00123",
		"2024-01-02 03:04:05.678", "20240102030405", "1704164645123", "1704164645", "2024/01/02", "12:30:45", "2024年3月5日 14:22",
		"金额12345678.90元", "1,234,567.89", "共计123456789元", "3.14159265358979", "户数1234567户", "容量12345678千瓦",
		"物料号A123456789", "型号MBP-14-2023", "序列号C02XL0GTJGH5", "批号20240102A1", "零件号12345678901", "ISBN 978-7-111-12345-6", "条形码6901028075862",
		"d41d8cd98f00b204e9800998ecf8427e", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "550e8400-e29b-41d4-a716-446655440000",
		"commit 3f2a9c17", "0x7fff5fbff8a0", "a1b2c3d4e5f6", "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
		"住院号查不到", "身份证号码：", "账号已注销", "护照办理需要10个工作日", "户号是什么", "门诊量12345人次", "住院费用123456元", "医保支付12345.67元",
		"护照有效期至20300101", "电话回访率98.5%", "电费1234567元", "水费12345", "存款利率2.75", "账户余额1234567.89元", "社保缴费基数123456元",
		"体温36.5℃，血压120/80", "经度和纬度", "比例39.9:116.4", "价格39.9元和116.4元", "ICD-10 E11.900", "坐标系WGS84", "N95口罩", "E10000",
		"国发大厦5号楼", "（2024）年度报告123号文", "第12号", "(2024)1号", "京东123号店", "文字第12页", "海字第",
		"新A股上市", "云A计划", "京A座12层", "浙B超市", "苏州A123", "京ABCDE", "藏A地区",
		"C4、S3、EKS", "AS12345", "MA1234", "K8s v1.29.0", "P95延迟123ms", "HTTP 404", "ORA-00942", "E0001", "QPS 12345",
		"110105194912310021", "990105194912310020", "91110108MA01AB2C3Z", "LSVAA4182E2123456", "123456789012345", "460991234567", "8986",
		"f1 30 09 06 07 2a 86 48", "b1 52 15 03 03 00 1a",
		"192.168.12345", "took 4.090948779s", "B47D51AB373F9845C0514EEFB14024787265", "b/179161016", "0x3d217f5be65cb5c", "1013904223 // Discard",
		"1.9875691500e-4", "1.3981999507", "01930000-0000-7000-8000-000000000001", "00:11:22", "12-34-56", "AB-CD-EF", "std::string", "a-b-c-d-e-f",
	}
}

func TestNoCodes(t *testing.T) {
	set := New().Only(func(c Class) bool { return c != Person && c != Address && c != Secret })
	for _, text := range noCodes() {
		if got := set.Find(text); len(got) != 0 {
			t.Errorf("found %+v in %q", got, text)
		}
	}
}

// codeValues are values that are found without a label.
func codeValues() map[Class]string {
	return map[Class]string{
		MAC: "00:1a:2b:3c:4d:5e", VIN: vinOf("LSVAA418", "E2123456"), ForeignPermit: resident("91184019800101123"), HongKongID: "A123456(3)",
		TaiwanID: "A123456789", CourtCase: "（2024）京01刑初123号", Coordinates: "39.904211,116.407395", IMEI: luhnCard("86123456789012"),
		ICCID: luhnCard("898600123456789012"), OfficerID: "军字第1234567号", Plate: "京A12345", Landline: "010-62345678",
	}
}

// TestCodesBetweenNeighbours puts each class's value next to every kind of character.
func TestCodesBetweenNeighbours(t *testing.T) {
	neighbours := map[string]string{"han": "中", "full width": "，", "space": " ", "newline": "\n", "emoji": "😀", "bracket": "<", "colon": "："}
	for class, value := range codeValues() {
		for name, n := range neighbours {
			got := New(class).Find(n + value + n)
			if len(got) != 1 || got[0].Start > len(n) || got[0].End < len(n)+len(value) {
				t.Errorf("%s between %s: %+v", class, name, got)
			}
		}
	}
	for _, c := range []struct {
		class       Class
		left, right string
		want        bool
	}{
		{MAC, "a", "", false},
		{MAC, "", "a", false},
		{MAC, "", ":00", false},
		{MAC, "00:", "", false},
		{VIN, "A", "", false},
		{VIN, "", "1", false},
		{ForeignPermit, "1", "", false},
		{ForeignPermit, "", "1", false},
		{ForeignPermit, "a", "b", true},
		{HongKongID, "B", "", false}, // two letters, another check digit
		{TaiwanID, "B", "", false},
		{TaiwanID, "", "1", false},
		{CourtCase, "1", "", true},
		{CourtCase, "a", "b", true},
		{IMEI, "1", "", false},
		{IMEI, "", "1", false},
		{ICCID, "", "12", false},
		{Plate, "9", "", true},
		{Plate, "", "99", false},
		{Landline, "9", "", false},
		{Landline, "", "99", false},
		{Landline, "a", "b", true},
	} {
		if got := New(c.class).Find(c.left + codeValues()[c.class] + c.right); (len(got) > 0) != c.want {
			t.Errorf("%s between %q and %q: found %v, want %v", c.class, c.left, c.right, got, c.want)
		}
	}
}

// TestCodesAreFoundInRandomSurroundings: values with right check characters are found whole, whatever prose stands around them.
func TestCodesAreFoundInRandomSurroundings(t *testing.T) {
	prose := []rune("今天上午市民来电反映小区供暖不足希望有关部门尽快处理并回复，。：（）、 \nabcxyz")
	around := func(r *rand.Rand) string {
		var b strings.Builder
		for range r.IntN(20) {
			b.WriteRune(prose[r.IntN(len(prose))])
		}
		return b.String()
	}
	digits := func(r *rand.Rand, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
		return b.String()
	}
	makers := map[Class]func(*rand.Rand) string{
		ResidentID: func(r *rand.Rand) string {
			return resident(fmt.Sprintf("%s%d%02d%02d%s", []string{"110105", "440524", "310101", "510107", "810000"}[r.IntN(5)], 1930+r.IntN(90), 1+r.IntN(12), 1+r.IntN(28), digits(r, 3)))
		},
		Mobile:   func(r *rand.Rand) string { return []string{"138", "159", "186", "199"}[r.IntN(4)] + digits(r, 8) },
		BankCard: func(r *rand.Rand) string { return luhnCard("6222" + digits(r, 14)) },
		USCC:     func(r *rand.Rand) string { return usccCode("91110108MA" + digits(r, 7)) },
		ICCID:    func(r *rand.Rand) string { return luhnCard("898600" + digits(r, 13)) },
		IMEI:     func(r *rand.Rand) string { return luhnCard("86" + digits(r, 12)) },
		Landline: func(r *rand.Rand) string { return "0755-" + string(rune('2'+r.IntN(7))) + digits(r, 7) },
		CourtCase: func(r *rand.Rand) string {
			return fmt.Sprintf("（%d）京%02d民初%d号", 2000+r.IntN(25), r.IntN(20), 1+r.IntN(30000))
		},
		Plate: func(r *rand.Rand) string { return "粤B" + digits(r, 5) },
	}
	for class, value := range makers {
		set := New(class)
		for seed := range uint64(300) {
			r := rand.New(rand.NewPCG(seed, 7))
			v, left, right := value(r), around(r), around(r)
			if strings.ContainsAny(right[:min(1, len(right))], "abcxyz") {
				right = "，" + right
			}
			if l := left[max(0, len(left)-1):]; l != "" && strings.ContainsAny(l, "abcxyz") {
				left += "，"
			}
			got := set.Find(left + v + right)
			if len(got) != 1 || got[0].Start > len(left) || got[0].End < len(left)+len(v) {
				t.Fatalf("%s: %q in %q: %+v", class, v, left+v+right, got)
			}
		}
	}
}

// TestRandomDigitsPassAtTheRateOfTheCheck: what has a check character lets random digits through at its rate and no more often.
func TestRandomDigitsPassAtTheRateOfTheCheck(t *testing.T) {
	const rounds = 20000
	for _, c := range []struct {
		class  Class
		head   string
		digits int
		most   float64 // share of all rounds
	}{
		{ResidentID, "11010519900307", 4, 0.11},
		{ResidentID, "", 18, 0.0005},
		{BankCard, "622202", 13, 0.12},
		{BankCard, "", 16, 0.04},
		{IMEI, "86", 13, 0.12},
		{IMEI, "", 15, 0.01},
		{ICCID, "", 19, 0.001},
		{BusinessLicence, "", 15, 0.001}, // one in ten whose region there is
		{USCC, "91110108", 10, 0.045},
		{ForeignPermit, "", 18, 0.001},
	} {
		r := rand.New(rand.NewPCG(11, 5))
		set, hits := New(c.class), 0
		for range rounds {
			var b strings.Builder
			b.WriteString("，" + c.head)
			for range c.digits {
				b.WriteByte(byte('0' + r.IntN(10)))
			}
			hits += len(set.Find(b.String() + "。"))
		}
		if float64(hits) > c.most*rounds {
			t.Errorf("%s: %d of %d random numbers %s+%d pass, want at most %g", c.class, hits, rounds, c.head, c.digits, c.most)
		}
	}
}

// TestCodesDoNotDependOnCuts cuts every example at every byte, rune by rune, and at random.
func TestCodesDoNotDependOnCuts(t *testing.T) {
	set := New(Classes()...)
	var texts []string
	for _, e := range codeExamples() {
		text, _, _ := e.parse()
		texts = append(texts, text, "请"+text+"1", text+" 转")
	}
	texts = append(texts, noCodes()...)
	for n, text := range texts {
		want := scanPieces(set, text)
		if got := scanPieces(set, strings.Split(text, "")...); got != want {
			t.Errorf("rune by rune: %s\nwant %s", got, want)
		}
		for i := range len(text) {
			if got := scanPieces(set, text[:i], text[i:]); got != want {
				t.Fatalf("cut at %d: %s\nwant %s", i, got, want)
			}
		}
		r := rand.New(rand.NewPCG(uint64(n), 3))
		for range 3 {
			if got := scanPieces(set, randomPieces(r, text)...); got != want {
				t.Fatalf("%q cut at random: %s\nwant %s", text, got, want)
			}
		}
	}
}

// codeFragments make random rows that hit the borders between detectors.
func codeFragments() []string {
	return []string{
		"身份证", "护照", "户号", "住院号：", "账号", "电话：", "卡号", "订单号", "警号", "经度", "车架号", "vin", "MAC", "imei", "台胞证", "澳门", "香港", "passport",
		"E1234567", "8", "A123456", "(3)", "（", "）", "(", ")", "[", "〔", "2024", "〕", "京", "01", "民初", "刑", "检", "号", "之一", "军", "字第", "1234567", "一二三四",
		"零零", "0755", "88886666", "转", "ext.", "+86", "39.9042", "116.4074", "°", "′", "″", "N", "E", "北纬", "，", ",", "、", " ", "\n", "-", "/", ".", "。", "·",
		"00:1a:2b", ":3c:4d:5e", "LSVAA418", "XE2123456", "91110108MA01AB2C3", "8986", "460", "00", "12345", "O", "l", "元", "年", "岁", "日", "国办发", "有限公司",
		"WJ", "使", "粤Z", "港", "是我的", "P<CHN", "<<", "L898902C36UTO7408122F1204159ZE184226B<<<<<10", "SF", "出生", "\u200b", "\xff",
	}
}

func randomCodes(r *rand.Rand) string {
	parts := codeFragments()
	var b strings.Builder
	for range 1 + r.IntN(16) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func TestRandomRowsOfCodes(t *testing.T) {
	sets := []*Set{New(Classes()...), New(), New(Coordinates, CourtCase, Document), New(Passport, TravelPermit, HongKongID, MacauID, TaiwanID)}
	rounds := uint64(6000)
	if testing.Short() {
		rounds = 500
	}
	for seed := range rounds {
		r := rand.New(rand.NewPCG(seed, 9))
		set := sets[seed%uint64(len(sets))]
		text := randomCodes(r)
		want := scanPieces(set, text)
		if got := scanPieces(set, randomPieces(r, text)...); got != want {
			t.Fatalf("seed %d: %q gives\n%s\nwant\n%s", seed, text, got, want)
		}
		checkFindings(t, text, set.Find(text))
	}
}
