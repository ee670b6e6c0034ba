package corpus

import (
	"fmt"
	"strings"
)

// withLuhn completes digits with their Luhn check digit.
func withLuhn(body string) string {
	sum := 0
	for i := range len(body) {
		d := int(body[len(body)-1-i] - '0')
		if i%2 == 0 {
			d = d*2/10 + d*2%10
		}
		sum += d
	}
	return body + fmt.Sprint((10-sum%10)%10)
}

func (s *scene) mobile() string {
	segment := s.word(`130 131 132 133 134 135 136 137 138 139 145 147 149 150 151 152 153 155 156 157 158 159 166 162 165 167 170 171 172 173
		175 176 177 178 180 181 182 183 184 185 186 187 188 189 190 191 192 193 195 196 197 198 199`)
	n := segment + s.digits(8)
	a, b, c := n[:3], n[3:7], n[7:]
	if s.near("物联网", "物联卡", "iot") && s.chance(70) {
		return s.of("140", "141", "144", "146", "148") + s.digits(10)
	}
	if s.plain() {
		return s.of(n, n, a+" "+b+" "+c, a+"-"+b+"-"+c)
	}
	switch s.n(30) {
	case 0, 1, 2:
		return a + " " + b + " " + c
	case 3, 4:
		return a + "-" + b + "-" + c
	case 5:
		return "+86" + n
	case 6:
		return "+86 " + a + " " + b + " " + c
	case 7:
		return "+86-" + n
	case 8:
		return "0086" + n
	case 9:
		return "86" + n
	case 10:
		return "(+86)" + n
	case 11:
		return "0" + n
	case 12:
		return a + "." + b + "." + c
	case 13:
		return "0086-" + a + "-" + b + "-" + c
	case 14:
		return n[:4] + " " + n[4:7] + " " + n[7:]
	}
	return n
}

func (s *scene) landline() string {
	area := s.word("010 021 022 023 024 025 027 028 029 020 0755 0571 0512 0532 0411 0591 0592 0351 0471 0431 0451 0551 0791 0531 0371 0731 0771 0898 0851 0871 0891 0931 0951 0971 0991 0757 0769 0574 0316 0379 0838")
	local := s.chars("2345678", 1) + s.digits(6)
	if len(area) == 3 || s.chance(60) {
		local = s.chars("2345678", 1) + s.digits(7)
	}
	if s.plain() {
		return area + s.of("-", " ", "") + local
	}
	number := area + "-" + local
	switch s.n(16) {
	case 0:
		number = "(" + area + ")" + local
	case 1:
		number = "（" + area + "）" + local
	case 2:
		number = area + " " + local
	case 3:
		number = area + local
	case 4:
		number = "+86-" + area[1:] + "-" + local
	case 5:
		number = "+86 " + area[1:] + " " + local
	case 6:
		number = area + "-" + local[:len(local)-4] + " " + local[len(local)-4:]
	case 7:
		number = area + "—" + local
	}
	switch s.n(12) {
	case 0:
		number += "转" + s.number(s.in(3, 4))
	case 1:
		number += "-" + s.number(s.in(3, 4))
	case 2:
		number += s.of(" ext.", " ext ", "ext") + s.number(s.in(3, 4))
	}
	return number
}

func (s *scene) bankCard() string {
	// Prefix and length of real cards.
	bin, length := "", 0
	pair := s.word(`622202/19 621226/19 622208/19 621700/19 622700/19 436742/19 622848/19 622845/19 621661/19 621785/19 622262/17 622260/19
		621483/16 622588/16 622155/16 622690/16 621771/16 622660/16 622622/16 622521/16 622909/18 622568/19 622630/16 621799/19 622188/19
		955880/19 601382/19 621462/19 623091/19 622310/19 356889/16 518710/16 438088/16 625958/16 524094/16 376968/15`)
	_, _ = fmt.Sscanf(strings.Replace(pair, "/", " ", 1), "%s %d", &bin, &length)
	card := withLuhn(bin + s.digits(length-7))
	form := s.n(10)
	if form > 3 {
		return card
	}
	separator := s.of(" ", " ", "-")
	var groups []string
	for rest := card; rest != ""; {
		n := min(4, len(rest))
		if form == 3 && length == 19 && len(groups) == 0 {
			n = 6
		}
		groups, rest = append(groups, rest[:n]), rest[n:]
	}
	return strings.Join(groups, separator)
}

func (s *scene) bankAccount() string {
	n := s.in(12, 22)
	body := s.of("0", "1", "2", "3", "4", "5", "7", "8", "9") + s.of("100", "200", "001", "101", "500", "050", "322") + s.digits(n-4)
	switch s.n(8) {
	case 0:
		return body[:4] + " " + body[4:8] + " " + body[8:]
	case 1:
		return body[:4] + "-" + body[4:10] + "-" + body[10:]
	}
	return body
}

const (
	surnamesPinyin = `wang li zhang liu chen yang zhao huang zhou wu xu sun hu zhu gao lin he guo ma luo liang song zheng xie han tang feng yu
		dong xiao cheng cao yuan deng fu shen zeng peng lu su jiang cai jia ding wei xue ye yan pan du dai xia zhong wang tian ren fan fang shi
		yao tan liao zou xiong jin hao kong bai cui kang mao qiu qin gu hou shao meng long wan duan lei qian yin yi chang wu qiao he lai gong`
	syllables = `wei fang na xiu ying min jing li qiang lei jun yang yong yan jie juan tao ming chao xiu xia ping gang gui hua hong yu lan fei
		ling bin bo hui xin zhi jian guo wen dan lin mei qing feng yun peng hao ning xue long kai rui han zi xuan yi chen jia mo tian shan`
)

func (s *scene) email() string {
	given := s.word(syllables)
	if s.chance(60) {
		given += s.word(syllables)
	}
	name := s.word(surnamesPinyin)
	var local string
	switch s.n(10) {
	case 0, 1:
		local = name + "." + given
	case 2, 3:
		local = name + given + s.digits(s.in(2, 4))
	case 4:
		local = given + "_" + name
	case 5:
		local = name[:1] + given[:1] + s.digits(6)
	case 6:
		local = s.number(s.in(6, 10))
	case 7:
		local = name + "-" + given + s.of("", "+work", "+bank", "88")
	default:
		local = name + given
	}
	domain := s.of("qq.com", "163.com", "126.com", "sina.com", "foxmail.com", "outlook.com", "gmail.com", "139.com", "189.cn", "hotmail.com",
		"icloud.com", "aliyun.com", "yeah.net", "vip.163.com", "sina.com.cn", "tsinghua.edu.cn", s.word(syllables)+s.word(syllables)+s.of(".com", ".cn", ".com.cn", ".net", ".org.cn", ".gov.cn"),
		"mail."+s.word(syllables)+s.word(syllables)+s.of(".com", ".cn"))
	if s.chance(6) {
		local = strings.ToUpper(local[:1]) + local[1:]
	}
	if s.noise == "chat" || s.noise == "mixed" {
		switch s.n(25) {
		case 0:
			return local + "[at]" + domain
		case 1:
			return local + "艾特" + domain
		case 2:
			return local + " @ " + domain
		case 3:
			return local + "(at)" + domain
		}
	}
	return local + "@" + domain
}

func (s *scene) ipv4() string {
	last := func() string { return fmt.Sprint(s.in(1, 254)) }
	switch s.n(6) {
	case 0, 1:
		return fmt.Sprintf("10.%d.%d.%s", s.n(256), s.n(256), last())
	case 2:
		return fmt.Sprintf("172.%d.%d.%s", s.in(16, 31), s.n(256), last())
	case 3:
		return fmt.Sprintf("192.168.%d.%s", s.n(256), last())
	}
	first := s.of("36", "39", "42", "58", "59", "60", "61", "101", "106", "111", "112", "113", "114", "115", "116", "117", "118", "119", "120", "121", "122", "123", "180", "183", "202", "210", "218", "221", "222")
	return fmt.Sprintf("%s.%d.%d.%s", first, s.n(256), s.n(256), last())
}

func (s *scene) ipv6() string {
	group := func() string { return fmt.Sprintf("%x", s.in(1, 0xffff)) }
	prefix := s.of("240e:"+group()+":", "2408:"+group()+":", "2409:"+group()+":", "2001:da8:", "2400:3200:", "fd"+s.chars(hexLower, 2)+":"+group()+":")
	var text string
	switch s.n(5) {
	case 0:
		text = prefix + group() + "::" + group()
	case 1:
		text = prefix + ":" + group()
	case 2:
		text = "fe80::" + group() + ":" + group() + ":" + group() + ":" + group()
	default:
		text = prefix + group() + ":" + group() + ":" + group() + ":" + group() + ":" + group() + ":" + group()
	}
	if s.chance(15) {
		return strings.ToUpper(text)
	}
	return text
}

func (s *scene) mac() string {
	h := s.word("00 3c 48 f4 a0 d8 8c 5c 70 b0 e4 28 fc") + s.chars(hexLower, 10)
	join := func(separator string, size int) string {
		var out []string
		for i := 0; i < len(h); i += size {
			out = append(out, h[i:i+size])
		}
		return strings.Join(out, separator)
	}
	text := s.of(join(":", 2), join(":", 2), join("-", 2), join("-", 2), join(".", 4), join("-", 4))
	if s.chance(60) {
		return strings.ToUpper(text)
	}
	return text
}

func (s *scene) wechat() string {
	switch s.n(6) {
	case 0:
		return "wxid_" + s.chars(lower+decimal, 14)
	case 1:
		return s.word(surnamesPinyin) + "_" + s.word(syllables) + s.digits(s.in(2, 4))
	case 2:
		return s.word(surnamesPinyin) + s.word(syllables) + s.number(4)
	case 3:
		return strings.ToUpper(s.word(syllables)[:1]) + s.word(syllables) + "-" + s.digits(s.in(4, 6))
	case 4:
		return s.word(syllables) + s.word(syllables) + s.word(syllables)
	}
	return s.chars(lower, 2) + s.digits(s.in(6, 9))
}

func (s *scene) coordinates() string {
	latitude, longitude := 18+float64(s.n(3500))/100+float64(s.n(10000))/1e6, 74+float64(s.n(6000))/100+float64(s.n(10000))/1e6
	places := s.in(4, 6)
	lat, lon := fmt.Sprintf("%.*f", places, latitude), fmt.Sprintf("%.*f", places, longitude)
	dms := func(v float64) string {
		return fmt.Sprintf("%d°%02d′%02d″", int(v), int(v*60)%60, int(v*3600)%60)
	}
	switch s.nearest("经纬度", "经度", "纬度", "坐标", "定位", "gps") {
	case "经度":
		if strings.HasSuffix(strings.TrimRight(s.before, "：: 是为=\""), "经度") && s.chance(80) {
			return lon
		}
	case "纬度":
		if strings.HasSuffix(strings.TrimRight(s.before, "：: 是为=\""), "纬度") && s.chance(80) {
			return lat
		}
	}
	switch s.n(10) {
	case 0:
		return "北纬" + lat + "°，东经" + lon + "°"
	case 1:
		return "N" + lat + " E" + lon
	case 2:
		return dms(latitude) + "N " + dms(longitude) + "E"
	case 3:
		return "东经" + dms(longitude) + "，北纬" + dms(latitude)
	case 4:
		return "(" + lat + ", " + lon + ")"
	case 5:
		return lat + ", " + lon
	case 6:
		return "E" + lon + ",N" + lat
	}
	return lon + "," + lat
}

func (s *scene) imei() string {
	n := withLuhn(s.of("86", "35", "86", "99") + s.digits(12))
	if s.chance(10) && !s.plain() {
		return n[:2] + "-" + n[2:8] + "-" + n[8:14] + "-" + n[14:]
	}
	return n
}
