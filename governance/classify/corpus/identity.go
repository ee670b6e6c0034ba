package corpus

import (
	"fmt"
	"strings"
	"time"
)

// day returns a real date between two years.
func (r *random) day(from, to int) time.Time {
	first := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC)
	days := int(time.Date(to+1, 1, 1, 0, 0, 0, 0, time.UTC).Sub(first).Hours() / 24)
	return first.AddDate(0, 0, r.n(days))
}

// citizenCheck computes the eighteenth character of GB 11643: the number's digits as a base-2 remainder of 11.
func citizenCheck(body string) string {
	sum := 0
	for i, c := range body {
		weight := 1
		for range len(body) - i {
			weight = weight * 2 % 11
		}
		sum += int(c-'0') * weight
	}
	return "10X98765432"[sum%11 : sum%11+1]
}

func (s *scene) residentID() string {
	if s.near("15位", "老身份证", "一代证", "旧身份证", "十五位") || s.near("身份证", "身份证号") && s.chance(3) {
		return s.region() + s.day(1930, 1985).Format("060102") + s.digits(3)
	}
	region := s.region()
	switch {
	case s.near("居住证"):
		region = s.of("810000", "820000", "830000")
	case s.chance(3):
		region = s.of("810000", "820000", "830000")
	}
	return s.citizen(region)
}

func (s *scene) citizen(region string) string {
	body := region + s.day(1935, 2023).Format("20060102") + s.digits(3)
	id := body + citizenCheck(body)
	if s.plain() {
		return id
	}
	switch s.n(20) {
	case 0:
		return strings.ToLower(id)
	case 1, 2:
		return id[:6] + " " + id[6:14] + " " + id[14:]
	case 3:
		return id[:6] + "-" + id[6:14] + "-" + id[14:]
	}
	return id
}

func (s *scene) foreignPermit() string {
	if s.chance(35) {
		return s.word("USA GBR FRA DEU JPN KOR CAN AUS RUS SGP ITA IND") + s.region()[:4] + s.day(1950, 2000).Format("060102") + s.digits(2)
	}
	body := "9" + s.region()[:2] + s.word("840 826 250 276 392 410 124 036 643 702 380 356") + s.day(1950, 2005).Format("20060102") + s.digits(3)
	return body + citizenCheck(body)
}

const usccAlphabet = "0123456789ABCDEFGHJKLMNPQRTUWXY"

// organisationCheck computes the ninth character of an organisation code, GB 11714.
func organisationCheck(body string) string {
	sum := 0
	for i, c := range body {
		digit := int(c - '0')
		if c >= 'A' {
			digit = int(c-'A') + 10
		}
		sum += digit * []int{3, 7, 9, 10, 5, 8, 4, 2}[i]
	}
	switch rest := 11 - sum%11; rest {
	case 10:
		return "X"
	case 11:
		return "0"
	default:
		return fmt.Sprint(rest)
	}
}

// creditCheck computes the eighteenth character of GB 32100.
func creditCheck(body string) string {
	sum, weight := 0, 1
	for _, c := range body {
		sum += strings.IndexRune(usccAlphabet, c) * weight
		weight = weight * 3 % 31
	}
	return string(usccAlphabet[(31-sum%31)%31])
}

func (s *scene) uscc() string {
	organisation := s.chars(decimal, 8)
	if s.chance(60) { // the newer ones
		organisation = "MA" + s.chars(usccAlphabet, 6)
	}
	body := s.of("91", "91", "91", "92", "93", "11", "12", "51", "52", "53") + s.region() + organisation + organisationCheck(organisation)
	code := body + creditCheck(body)
	switch s.n(20) {
	case 0, 1:
		return strings.ToLower(code)
	case 2:
		return code[:4] + " " + code[4:8] + " " + code[8:12] + " " + code[12:16] + " " + code[16:]
	}
	return code
}

func (s *scene) businessLicence() string {
	body := s.region() + s.digits(8)
	return body + hybridCheck(body)
}

// hybridCheck computes the check digit of ISO 7064 MOD 11,10, which the old registration numbers have.
func hybridCheck(body string) string {
	p := 10
	for _, c := range body {
		p = (p + int(c-'0')) % 10
		if p == 0 {
			p = 10
		}
		p = p * 2 % 11
	}
	return fmt.Sprint((11 - p) % 10)
}

func (s *scene) passport() string {
	if s.near("外籍", "外国护照", "美国", "英国", "日本", "韩国", "foreign") {
		return s.of(s.number(9), s.chars("CGHJKLMNPRTVWXYZ", 1)+s.digits(8), s.chars(upper, 2)+s.digits(7), s.chars("MR", 1)+s.digits(8))
	}
	letters := "ABCDEFGHJKLMNPQRSTUVWXYZ"
	number := s.of("E"+s.digits(8), "E"+s.digits(8), "E"+s.chars(letters, 1)+s.digits(7), "E"+s.chars(letters, 1)+s.digits(7), "G"+s.digits(8),
		s.of("D", "S", "P", "DE", "SE", "PE")+s.digits(7))
	if s.chance(5) {
		return strings.ToLower(number)
	}
	return number
}

func (s *scene) travelPermit() string {
	letters := "ABCDEFGHJKLMNPQRSTUVWXYZ"
	switch s.nearest("台湾通行证", "往来台湾", "赴台", "台胞证", "台湾居民", "台湾同胞", "回乡证", "港澳居民来往", "港澳通行证", "往来港澳", "港澳") {
	case "台湾通行证", "往来台湾", "赴台":
		return s.of("L", "L", "L", "T") + s.digits(8)
	case "台胞证", "台湾居民", "台湾同胞":
		if s.chance(15) {
			return s.digits(10) + "(" + s.chars("ABCD", 1) + ")"
		}
		return s.digits(8)
	case "回乡证", "港澳居民来往":
		if s.chance(25) {
			return s.of("H", "M") + s.digits(10)
		}
		return s.of("H", "M") + s.digits(8)
	}
	return s.of("C"+s.digits(8), "C"+s.chars(letters, 1)+s.digits(7), "W"+s.digits(8))
}

func (s *scene) hongKongID() string {
	letters := s.chars(upper, 1)
	if s.chance(12) {
		letters = s.of("WX", "XA", "XB", "XD", "XG", "XH")
	}
	body := s.digits(6)
	check := hongKongCheck(letters, body)
	switch s.n(8) {
	case 0:
		return letters + body + check
	case 1:
		return letters + body + "（" + check + "）"
	case 2:
		if s.chance(40) {
			return strings.ToLower(letters) + body + "(" + check + ")"
		}
	case 3:
		return letters + " " + body + " (" + check + ")"
	}
	return letters + body + "(" + check + ")"
}

// hongKongCheck computes the character in brackets of a Hong Kong identity card.
func hongKongCheck(letters, body string) string {
	first := 36 // a blank
	if len(letters) == 2 {
		first = int(letters[0]-'A') + 10
	}
	sum := first*9 + (int(letters[len(letters)-1]-'A')+10)*8
	for i, c := range body {
		sum += int(c-'0') * (7 - i)
	}
	check := fmt.Sprint((11 - sum%11) % 11)
	if check == "10" {
		check = "A"
	}
	return check
}

func (s *scene) macauID() string {
	body, check := s.of("1", "5", "7")+s.digits(6), s.digits(1)
	return s.of(body+"("+check+")", body+"("+check+")", body+"（"+check+"）", body+check, body[:1]+"/"+body[1:]+"/"+check)
}

func (s *scene) taiwanID() string {
	letter, body := s.chars(upper, 1), s.of("1", "2", "1", "2", "8", "9")+s.digits(7)
	id := letter + body + taiwanCheck(letter, body)
	if s.chance(5) {
		return strings.ToLower(id)
	}
	return id
}

// taiwanCheck computes the last digit of a Taiwan identity card.
func taiwanCheck(letter, body string) string {
	number := strings.Index("ABCDEFGHJKLMNPQRSTUVXYWZIO", letter) + 10
	sum := number/10 + number%10*9
	for n, c := range body {
		sum += int(c-'0') * (8 - n)
	}
	return fmt.Sprint((10 - sum%10) % 10)
}

func (s *scene) officerID() string {
	switch s.nearest("警号", "警员", "民警", "士兵", "士官", "义务兵", "文职", "军官", "军人", "退役") {
	case "警号", "警员", "民警":
		return s.digits(6)
	case "士兵", "士官", "义务兵":
		return s.of("士", "兵", "士") + "字第" + s.number(s.in(6, 8)) + "号"
	case "文职":
		return "文字第" + s.number(s.in(6, 8)) + "号"
	}
	return s.of("军", "军", "政", "后", "装", "参", "南", "北", "空", "海") + s.of("字第", "字第", "字") + s.number(s.in(6, 8)) + "号"
}

func (s *scene) socialSecurity() string {
	switch s.nearest("电脑号", "凭证", "人员编号", "医保编号", "个人编号", "社保卡", "医保卡") {
	case "电脑号":
		return s.number(9)
	case "凭证", "人员编号", "医保编号", "个人编号":
		return s.region() + "0000" + s.number(10)
	}
	return s.of(s.chars(upper, 1)+s.digits(8), s.chars(upper, 1)+s.digits(8), s.number(9), s.number(10))
}

const provinces = "京津沪渝冀豫云辽黑湘皖鲁新苏浙赣鄂桂甘晋蒙陕吉闽贵粤青藏川宁琼"

func (s *scene) plate() string {
	head := s.chars(provinces, 1) + s.chars("ABCDEFGHJKLMNPQRSTUVWXYZ", 1)
	const signs = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789"
	tail := s.digits(5)
	switch s.n(20) {
	case 0, 1, 2, 3, 4:
		tail = s.chars(signs, 1) + s.digits(4)
	case 5, 6:
		tail = s.digits(2) + s.chars("ABCDEFGHJKLMNPQRSTUVWXYZ", 1) + s.digits(2)
	case 7, 8, 9, 10:
		tail = s.chars("DDDFFABCEGHJK", 1) + s.digits(5)
	case 11:
		tail = s.digits(5) + s.chars("DF", 1)
	case 12:
		tail = s.digits(4) + s.of("警", "学", "挂", "领", "警", "学", "挂")
	case 13:
		if s.chance(40) {
			return "WJ" + s.chars(provinces, 1) + s.of("", "·") + s.digits(4) + s.of("X", "B", "T", "S", "H", "J", "D", "1", "5")
		}
		head, tail = "粤Z", s.digits(4)+s.of("港", "澳")
	}
	switch s.n(12) {
	case 0, 1, 2:
		return head + "·" + tail
	case 3:
		return head + " " + tail
	case 4:
		return strings.ToLower(head + tail)
	case 5:
		return head + "-" + tail
	}
	return head + tail
}

func (s *scene) vin() string {
	const signs = "0123456789ABCDEFGHJKLMNPRSTUVWXYZ"
	body := s.word("LSV LFV LVS LSG LBV LDC LGX LHG LJD LFM LNB LVV LB3 LRW LE4 LGB LSJ LVG LC0 5YJ WBA WDD WP0 JTH JN8 1HG KMH SAL") +
		s.chars(signs, 5) + "0" + s.chars("EFGHJKLMNPRSTVWXY123", 1) + s.chars(signs, 1) + s.digits(6)
	vin := body[:8] + vinCheck(body) + body[9:]
	if s.chance(8) {
		return strings.ToLower(vin)
	}
	return vin
}

// vinCheck computes the ninth character of a vehicle identification number, ISO 3779.
func vinCheck(body string) string {
	sum := 0
	for i, c := range body {
		digit := int(c - '0')
		switch {
		case c >= 'S' && c <= 'Z':
			digit = int(c-'S') + 2
		case c >= 'J' && c <= 'R':
			digit = int(c-'J') + 1
		case c >= 'A':
			digit = int(c-'A') + 1
		}
		sum += digit * []int{8, 7, 6, 5, 4, 3, 2, 10, 0, 9, 8, 7, 6, 5, 4, 3, 2}[i]
	}
	return "0123456789X"[sum%11 : sum%11+1]
}
