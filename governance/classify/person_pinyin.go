package classify

import "strings"

const (
	pinyinSurnames = "wang li zhang liu chen yang huang zhao wu zhou xu sun ma zhu hu guo he lin luo gao zheng liang xie song tang deng han feng cao peng zeng xiao tian dong pan yuan cai jiang yu du ye cheng wei su lv lu ding ren shen yao cui zhong tan fan wang liao shi jin jia xia fu fang zou xiong bai meng qin qiu hou yin xue yan duan lei long tao shi he mao hao gu gong shao wan qin qian dai yan mo kong xiang chang kang shi wen niu ge xing an qi yi qiao wu pang zhai ni zhuang nie zhang lan geng guan qu bao zuo miao sheng yue ou you mei shang ming ji ke mu zha chai cha chu ning wei mi teng bi hua yun pu sang si shu tong rong man le bian xi ben kou jing kuang lian ling lou nan pei piao rao rui sha she ru shan bo cen chi chong chuai cong di dian dou e en gai gan ping qing quan que rang rong ruan sai she shui tai tu wo xian xin xuan xun ying yong zang zi zong zu min mou ouyang shangguan sima zhuge situ huangfu murong linghu weichi xiahou dongfang ximen baili gongsun zhangsun dugu nangong yuwen zhongli gongye gan zhan lai zhen gou ha nong lang mu ou pu qiang tuo wangfu"
	otherSurnames  = "chan cheung wong leung leong lam ng ho tsang tsai tsui kwok kwan lau chow cheng yip yeung yuen chiu fung lo poon siu tam tse hui ip kan ko kung lui szeto chang hsu hsieh hsiao kuo lee liao shih sung teng tsao tseng yeh yen chu chung mak mok ngai pang"
	initials       = "b p m f d t n l g k h j q x zh ch sh r z c s y w"
	finals         = "a o e i u v ai ei ui ao ou iu ie ue ve er an en in un vn ang eng ing ong ia iao ian iang iong ua uo uai uan uang"
	englishPinyin  = "he she can man men long song sun fan pan ran hang gun ban bang tang dang sang rang ding den din ping bin pin gang hen pen ten lie die pie tie hue sue you bi fun fang wing an a i o me ma pa la ha more make take time same name like home line none one are were here there these those huge gene dance lane mine fine nine wine wan wen tan tun run sun nun dun don lou shan mu mao tai chi ta hai lei she bang lang sui pu shi hong kong macao dong bing king"
	firstNames     = "lily lucy tom jack jason kevin tina linda david michael john mary amy alice anna andy tony peter paul mark helen grace jane jenny jessica kelly ken leo lisa mike nancy nick nicole peter rose ray robert ryan sam sandy sara sarah simon sophia steve steven susan tim vicky victor vivian wendy william eric emma emily eva frank fiona gary george henry irene ivan jacky james jim joe joan joy judy julia karen kate lawrence leon lulu maggie margaret martin max may mandy melissa monica oliver patrick philip rachel rebecca richard roger ruby rita roy sally sean selina shirley stella stephen sunny terry thomas vincent winnie yvonne zoe allen angela ben betty bill bob bruce candy carol catherine charles chris cindy claire daniel dennis derek diana edward elaine ella elsa felix gloria harry jerry johnson"
)

// spelled tables are made of these lists.
func (t *tables) latinWords() {
	t.spell = map[string]rank{}
	mark := func(words string, r rank) {
		for _, w := range strings.Fields(words) {
			t.spell[w] |= r
		}
	}
	mark(pinyinSurnames, spellsSurname)
	mark(otherSurnames, spellsSurname)
	mark(englishPinyin, isEnglish)
	mark(firstNames, isFirstName)
	for _, f := range strings.Fields(finals) {
		if strings.ContainsAny(f[:1], "aoe") {
			t.syllables.add(f)
		}
		for _, i := range strings.Fields(initials) {
			if syllable(i, f) {
				t.syllables.add(i + f)
			}
		}
	}
}

// syllable reports whether an initial and a final go together, near enough.
func syllable(initial, final string) bool {
	palatal := strings.Contains("jqx", initial)
	switch {
	case palatal:
		return strings.HasPrefix(final, "i") || final == "u" || final == "un" || final == "uan" || final == "ue"
	case strings.Contains("zh ch sh r z c s", initial) && initial != "c s":
		return !strings.HasPrefix(final, "ia") && !strings.HasPrefix(final, "v") && final != "ie" && final != "in" && final != "ing" && final != "iu" && final != "iong" && final != "ue"
	case initial == "y":
		return strings.Contains(" a ao an ang e i in ing o ong ou u uan ue un ", " "+final+" ")
	case initial == "w":
		return strings.Contains(" a ai an ang ei en eng o u ", " "+final+" ")
	case strings.Contains("g k h", initial):
		return !strings.HasPrefix(final, "i") && !strings.HasPrefix(final, "v") && final != "ue" && final != "o"
	case strings.Contains("b p m f", initial):
		return !strings.HasPrefix(final, "v") && (!strings.HasPrefix(final, "u") || final == "u") && final != "ong" && final != "iong" && final != "ia" && final != "iang" && final != "e" && (initial != "f" || !strings.HasPrefix(final, "i"))
	}
	return final != "iong" && final != "ue" && final != "ua" && final != "uai" && final != "uang" && !(final == "o" && initial != "l")
}

// spelling says what a word in Latin letters may be.
func (t *tables) spelling(w *window, start, end int) rank {
	var b [maxLetter]byte
	if end-start > len(b) {
		return 0
	}
	for k := start; k < end; k++ {
		b[k-start] = byte(lower(w.cells[k].r))
	}
	word := b[:end-start]
	r := t.spell[string(word)]
	if len(word) >= 2 && t.syllabic(word, 3) {
		r |= spellsGiven
	}
	return r
}

// syllabic reports whether a word is one to most syllables.
func (t *tables) syllabic(word []byte, most int) bool {
	if len(word) == 0 {
		return true
	}
	for size := min(6, len(word)); size >= 1 && most > 0; size-- {
		if t.syllables.has(word[:size]) && t.syllabic(word[size:], most-1) {
			return true
		}
	}
	return false
}

// syllables is a set of up to six small letters each: a table with open addressing.
type syllables [2048]uint32

func (s *syllables) add(syllable string) {
	*s.slot(packed([]byte(syllable))) = packed([]byte(syllable))
}

func (s *syllables) has(syllable []byte) bool { return *s.slot(packed(syllable)) != 0 }

// slot returns the place of a syllable, which is empty if it is not in the set.
func (s *syllables) slot(key uint32) *uint32 {
	i := key * 0x9e3779b1 >> 21
	for s[i] != 0 && s[i] != key {
		i = (i + 1) % uint32(len(s))
	}
	return &s[i]
}

// packed holds letters in five bits each.
func packed(letters []byte) (key uint32) {
	for _, c := range letters {
		key = key<<5 | uint32(c-'a'+1)
	}
	return key
}
