package corpus

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func wordy(r rune) bool {
	return r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// chat writes as people type: marks are missing or become blanks and line breaks, words that mean nothing and emoji stand around.
func chat(r *random, pieces []piece) []piece {
	var out []piece
	last := rune(0)
	for i, p := range pieces {
		switch {
		case p.class != "" && r.chance(12) && i > 0:
			out = append(out, piece{text: r.of(" ", " ", " ", "\n")})
		case p.class == "" && p.filler == "":
			p.text = chatText(r, p.text, last, i == 0, i == len(pieces)-1)
		}
		out = append(out, p)
		if c, _ := utf8.DecodeLastRuneInString(p.text); p.text != "" {
			last = c
		}
	}
	if r.chance(35) {
		out = append([]piece{{text: r.of("你好 ", "在吗，", "麻烦看下 ", "急急急！", "那个……", "嗯 ", "亲 ", "哎，", "帮忙查下哈\n", "👋 ")}}, out...)
	}
	if r.chance(40) {
		out = append(out, piece{text: r.of(" 谢谢", "🙏", "～", " 哈", "😭", " 麻烦了", " 谢谢啦😊", "！！！", "\n在线等", " ok？", "👌")})
	}
	return out
}

// chatText changes the marks of what stands between values. Where a value is on both sides, something stays between them.
func chatText(r *random, text string, before rune, first, last bool) string {
	out := strings.Builder{}
	runes := []rune(text)
	for _, c := range runes {
		edge := len(runes) == 1 && !first && !last
		replacement := string(c)
		switch c {
		case '，', '。', '；', '！':
			switch n := r.n(100); {
			case n < 35:
			case n < 65:
				replacement = " "
			case n < 75:
				replacement = "\n"
			case n < 85:
				replacement = r.of("，嗯，", "……", " 哈 ", "，那个，", "😂", "~ ", "，就是说，", "😅")
			case !edge && !wordy(before):
				replacement = ""
			default:
				replacement = " "
			}
		case '：':
			switch n := r.n(100); {
			case n < 50:
			case n < 75:
				replacement = " "
			case n < 85:
				replacement = ":"
			case !edge && !wordy(before):
				replacement = ""
			}
		case '、':
			if r.chance(30) {
				replacement = " "
			}
		}
		out.WriteString(replacement)
		before = c
	}
	return out.String()
}

// ocr reads as a scanner does: blanks and line breaks where none were, and characters that look alike, at most one in a value.
func ocr(r *random, pieces []piece) []piece {
	for i, p := range pieces {
		if p.class != "" {
			pieces[i] = misread(r, p)
			continue
		}
		out, last := strings.Builder{}, rune(0)
		for _, c := range p.text {
			if unicode.Is(unicode.Han, c) && unicode.Is(unicode.Han, last) && r.chance(3) {
				out.WriteString(r.of(" ", " ", " ", "\n"))
			}
			if c == '：' && r.chance(20) {
				c = ':'
			}
			out.WriteRune(c)
			last = c
		}
		pieces[i].text = out.String()
	}
	return pieces
}

func misread(r *random, p piece) piece {
	runes := []rune(p.text)
	n := r.n(100)
	if n >= 36 || len(runes) < 2 {
		return p
	}
	var places []int
	switch {
	case n < 14: // a look-alike
		for i, c := range runes {
			if strings.ContainsRune("01OlI", c) {
				places = append(places, i)
			}
		}
	case n < 20: // a stop
		for i, c := range runes {
			if c == '.' {
				places = append(places, i)
			}
		}
	}
	if n < 20 {
		if len(places) > 0 {
			at := places[r.n(len(places))]
			runes[at] = map[rune][]rune{'0': {'O', 'O'}, '1': {'l', 'I'}, 'O': {'0', '0'}, 'l': {'1', '1'}, 'I': {'1', '1'}, '.': {'。', '。'}}[runes[at]][r.n(2)]
			p.text, p.damaged = string(runes), true
		}
		return p
	}
	between := " "
	if n >= 33 {
		between = "\n"
	}
	at := r.in(1, len(runes)-1)
	p.text, p.damaged = string(runes[:at])+between+string(runes[at:]), true
	return p
}

// fullWidth writes as an input method in the wrong state does.
func fullWidth(r *random, pieces []piece) []piece {
	everything := r.chance(60)
	for i, p := range pieces {
		if !everything && p.class == "" && p.filler == "" {
			continue
		}
		pieces[i].text = strings.Map(func(c rune) rune {
			switch {
			case c == ' ':
				return '\u3000'
			case c > ' ' && c < 0x7f:
				return c + 0xfee0
			}
			return c
		}, p.text)
	}
	return pieces
}

// spoken lists what people read out digit by digit.
func spoken() []string {
	return strings.Fields(`cn_mobile cn_landline cn_resident_id bank_card bank_account qq cn_officer_id cn_social_security medical_record
		utility_account cn_business_licence imei iccid imsi`)
}

// chineseDigits replaces digits by those of an alphabet.
func chineseDigits(text, alphabet string) string {
	digits := []rune(alphabet)
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return digits[c-'0']
		}
		return c
	}, text)
}

// numerals writes numbers in Chinese numerals, as transcripts of calls do.
func numerals(r *random, pieces []piece) []piece {
	alphabet := r.of("零一二三四五六七八九", "零一二三四五六七八九", "〇一二三四五六七八九", "零幺二三四五六七八九", "零幺二三四五六七八九", "洞幺两三四五六拐八勾", "零壹贰叁肆伍陆柒捌玖")
	for i, p := range pieces {
		switch {
		case slices.Contains(spoken(), p.class) && r.chance(75):
			if runes := []rune(p.text); r.chance(10) {
				half := len(runes) / 2
				pieces[i].text = chineseDigits(string(runes[:half]), alphabet) + string(runes[half:])
				break
			}
			pieces[i].text = chineseDigits(p.text, alphabet)
		case p.filler == "count":
			if n, err := strconv.Atoi(p.text); err == nil && r.chance(60) {
				pieces[i].text = chineseNumber(n)
			}
		case p.filler != "" && p.filler != "version" && r.chance(60):
			pieces[i].text = chineseDigits(p.text, "〇一二三四五六七八九")
		}
	}
	return pieces
}

// english is what people who mix languages say instead; an underscore is a blank.
const english = `手机号码/mobile_number 手机号/mobile_no. 手机/mobile 联系电话/contact_number 电话/phone 邮箱/email 地址/address 客户/customer 用户/user 姓名/name
	护照/passport 账号/account 密码/password 微信/WeChat 联系人/contact 身份证号/ID_number 身份证/ID_card 发票/invoice 合同/contract 确认/confirm
	项目/project 会议/meeting 预约/appointment 医生/doctor 检查/check 系统/system 订单/order 反馈/feedback 问题/issue 今天/today 明天/tomorrow
	请/please 谢谢/thanks 附件/attachment 快递/express 退款/refund 更新/update 登录/login 服务器/server 文件/file 紧急/urgent`

// mixed puts English and pinyin around, or says half of the sentence in English.
func mixed(r *random, pieces []piece) []piece {
	var pairs []string
	for _, w := range strings.Fields(english) {
		if from, to, ok := strings.Cut(w, "/"); ok && r.chance(45) {
			pairs = append(pairs, from, " "+strings.ReplaceAll(to, "_", " ")+" ")
		}
	}
	translate := strings.NewReplacer(pairs...)
	var out []piece
	last := ' '
	for _, p := range pieces {
		if p.class == "" && p.filler == "" {
			p.text = translate.Replace(p.text)
		}
		if p.text == "" {
			continue
		}
		if first, _ := utf8.DecodeRuneInString(p.text); wordy(last) && wordy(first) && p.class != "" {
			out = append(out, piece{text: " "})
		}
		out = append(out, p)
		last, _ = utf8.DecodeLastRuneInString(p.text)
	}
	if n := len(out) - 1; n >= 0 && out[n].class == "" {
		out[n].text = strings.TrimRight(out[n].text, "。")
	}
	switch r.n(4) {
	case 0:
		out = append([]piece{{text: r.of("FYI, ", "Hi team, please check: ", "pls help: ", "Just a reminder — ", "Dear all, as discussed, ", "mafan kan yi xia, ", "To confirm, ", "Quick update: ")}}, out...)
	case 1:
		out = append(out, piece{text: r.of(", please follow up asap.", " — thanks!", ", xiexie", ". Let me know if anything is missing.", " (cc the support team)", ", pls confirm by EOD", ", xinku le", ". We will get back to you soon.")})
	case 2:
		out = append([]piece{{text: r.of("Hi, ", "BTW ", "OK, ", "Hello, ")}}, append(out, piece{text: r.of(" thx", ", best regards", ", urgent!", ", ok?")})...)
	}
	return out
}
