package corpus

import (
	"strings"
	"unicode/utf8"
)

// The lists are this package's own and short on purpose: what they lack, detectors cannot have learnt from them.
const (
	commonSurnames = "王李张刘陈杨黄赵吴周徐孙马朱胡郭何林高罗郑梁谢宋唐许韩邓冯曹彭曾肖田董潘袁蔡蒋余于杜叶程魏苏吕丁任卢姚沈钟姜崔谭陆范汪廖石金韦贾夏付方邹熊白孟秦邱侯江尹薛闫雷龙黎史陶贺毛段郝顾龚邵万覃武钱戴严莫孔向常汤"
	rarerSurnames  = "温康施文牛樊葛邢安齐易乔伍庞颜倪庄聂章鲁岳翟申欧耿关兰焦俞左柳甘祝包宁尚符舒阮柯纪梅童凌毕单季裴霍成苗谷盛曲翁冉骆蓝路游辛靳管柴蒙鲍华喻祁房滕屈饶解牟艾尤阳时穆农司卓古吉缪简车项连芦麦褚娄窦戚岑景党宫费卜冷晏席卫米柏宗瞿桂全佟应臧闵苟邬边卞姬师和仇栾隋商刁沙荣巫寇桑郎甄丛仲虞敖巩明佘池查麻苑迟邝"
	compound       = "欧阳 上官 司马 诸葛 东方 皇甫 尉迟 公孙 慕容 令狐 司徒 夏侯 端木 长孙 宇文 轩辕 南宫 申屠 闻人 东郭 呼延 澹台 钟离 百里 西门"
	givenMale      = "伟强磊军勇杰涛明超刚平辉鹏飞斌波鑫浩宇轩泽凯峰林建国华志文海亮东俊健旭晨博昊然睿铭毅航诚刚江山川永福贵德荣根生祥庆松柏瑞霖翔振坤远"
	givenFemale    = "芳娜秀英敏静丽艳娟霞桂兰玲燕红梅琴云洁莉雪慧婷倩颖佳怡欣琳萍月莹瑶璐琪雅诗涵梦思雨晴妍蕾薇珊凤珍香淑玉蓉菊彩春秋惠凡可馨"
	minority       = `买买提·吐尔逊 阿不都热依木·艾山 古丽娜尔·阿不力孜 热合曼·司马义 努尔兰·哈布力 迪丽达尔·买合木提 阿依古丽·库尔班 艾尔肯·吾买尔
		扎西·多吉 巴桑·次仁 加央·丹增 乌云·其木格 帕提古丽·玉素甫 吐尔洪·艾则孜 麦麦提·图尔荪 叶尔兰·别克 阿孜古丽·热西提 卡德尔·依明 米热古丽·克里木 沙吾列·马合木提`
	minorityPlain = "扎西次仁 格桑卓玛 旦增罗布 巴图孟克 其其格 乌兰图雅 洛桑丹增 达瓦央金 索朗旺堆 那仁朝克图 斯琴高娃 阿古拉 白玛措 仁青多杰 呼和巴特尔"
)

// honorifics stand behind a name in a frame, which then holds no other form.
func honorifics() []string {
	return strings.Fields(`先生 女士 小姐 太太 同志 医生 大夫 护士 主任 教授 老师 师傅 经理 总监 法官 律师 警官 检察官 书记 院长 科长 处长 局长 队长 班长 阿姨
	叔叔 大爷 大妈 大姐 大哥 哥 姐 工 总 老人 奶奶 婆婆 医师 某`)
}

// titles are what the generator adds behind a surname itself.
func titles() []string {
	return strings.Fields("先生 女士 小姐 老师 师傅 医生 经理 主任 工 总 阿姨 大爷")
}

// person makes a name. A title behind it is no part of it; 小, 老 and 阿 before and 某 behind a surname are.
func (s *scene) person() value {
	for _, h := range honorifics() {
		if strings.HasPrefix(s.after, h) {
			if s.chance(20) && utf8.RuneCountInString(h) > 1 {
				return value{text: s.surname()}
			}
			return value{text: s.fullName()}
		}
	}
	if s.noise == "mixed" && s.chance(60) {
		return value{text: s.pinyinName()}
	}
	formal := strings.HasSuffix(s.before, "：") || strings.HasSuffix(s.before, ":") || s.near("户名", "姓名", "签名", "开户")
	switch {
	case s.family == "court" && s.chance(12):
		return value{text: s.surname() + s.of("某", "某某", "某甲", "某乙", "某1", "某2")}
	case formal:
	case (s.family == "hotline" || s.noise == "chat") && s.chance(12):
		return value{text: s.of("小", "老", "小", "老", "阿") + s.chars(commonSurnames, 1)}
	case s.chance(8):
		return value{text: s.surname(), post: s.of(titles()...)}
	}
	return value{text: s.fullName()}
}

func (s *scene) surname() string {
	switch n := s.n(100); {
	case n < 72:
		return s.chars(commonSurnames, 1)
	case n < 96:
		return s.chars(rarerSurnames, 1)
	}
	return s.word(compound)
}

func (s *scene) fullName() string {
	switch s.n(60) {
	case 0, 1:
		return s.word(minority)
	case 2:
		return s.word(minorityPlain)
	}
	given := givenMale
	if s.chance(50) {
		given = givenFemale
	}
	size := 2
	if s.chance(25) {
		size = 1
	}
	return s.surname() + s.chars(given, size)
}

func (s *scene) pinyinName() string {
	title := func(w string) string { return strings.ToUpper(w[:1]) + w[1:] }
	family, first, second := s.word(surnamesPinyin), s.word(syllables), ""
	if s.chance(70) {
		second = s.word(syllables)
	}
	switch s.n(6) {
	case 0:
		return strings.ToUpper(family) + " " + title(first+second)
	case 1:
		return title(first+second) + " " + title(family)
	case 2:
		return strings.ToUpper(family + " " + first + second)
	case 3:
		if second != "" {
			return title(family) + " " + title(first) + "-" + second
		}
	}
	return title(family) + " " + title(first+second)
}
