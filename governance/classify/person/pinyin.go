package person

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/text"
)

const (
	pinyinSurnames = "wang li zhang liu chen yang huang zhao wu zhou xu sun ma zhu hu guo he lin luo gao zheng liang xie song tang deng han feng cao peng zeng xiao tian dong pan yuan cai jiang yu du ye cheng wei su lv lu ding ren shen yao cui zhong tan fan wang liao shi jin jia xia fu fang zou xiong bai meng qin qiu hou yin xue yan duan lei long tao shi he mao hao gu gong shao wan qin qian dai yan mo kong xiang chang kang shi wen niu ge xing an qi yi qiao wu pang zhai ni zhuang nie zhang lan geng guan qu bao zuo miao sheng yue ou you mei shang ming ji ke mu zha chai cha chu ning wei mi teng bi hua yun pu sang si shu tong rong man le bian xi ben kou jing kuang lian ling lou nan pei piao rao rui sha she ru shan bo cen chi chong chuai cong di dian dou e en gai gan ping qing quan que rang rong ruan sai she shui tai tu wo xian xin xuan xun ying yong zang zi zong zu min mou ouyang shangguan sima zhuge situ huangfu murong linghu weichi xiahou dongfang ximen baili gongsun zhangsun dugu nangong yuwen zhongli gongye gan zhan lai zhen gou ha nong lang mu ou pu qiang tuo wangfu"
	otherSurnames  = "chan cheung wong leung leong lam ng ho tsang tsai tsui kwok kwan lau chow cheng yip yeung yuen chiu fung lo poon siu tam tse hui ip kan ko kung lui szeto chang hsu hsieh hsiao kuo lee liao shih sung teng tsao tseng yeh yen chu chung mak mok ngai pang"
	englishPinyin  = "he she can man men long song sun fan pan ran hang gun ban bang tang dang sang rang ding den din ping bin pin gang hen pen ten lie die pie tie hue sue you bi fun fang wing an a i o me ma pa la ha more make take time same name like home line none one are were here there these those huge gene dance lane mine fine nine wine wan wen tan tun run sun nun dun don lou shan mu mao tai chi ta hai lei she bang lang sui pu shi hong kong macao dong bing king"
	firstNames     = "lily lucy tom jack jason kevin tina linda david michael john mary amy alice anna andy tony peter paul mark helen grace jane jenny jessica kelly ken leo lisa mike nancy nick nicole peter rose ray robert ryan sam sandy sara sarah simon sophia steve steven susan tim vicky victor vivian wendy william eric emma emily eva frank fiona gary george henry irene ivan jacky james jim joe joan joy judy julia karen kate lawrence leon lulu maggie margaret martin max may mandy melissa monica oliver patrick philip rachel rebecca richard roger ruby rita roy sally sean selina shirley stella stephen sunny terry thomas vincent winnie yvonne zoe allen angela ben betty bill bob bruce candy carol catherine charles chris cindy claire daniel dennis derek diana edward elaine ella elsa felix gloria harry jerry johnson"
)

// latinWords fills the table of words in Latin letters.
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
}

// spelling says what a word in Latin letters may be.
func (t *tables) spelling(w *Detector, start, end int) rank {
	var b [maxLetter]byte
	if end-start > len(b) {
		return 0
	}
	for k := start; k < end; k++ {
		b[k-start] = byte(text.Lower(w.At(k)))
	}
	word := b[:end-start]
	r := t.spell[string(word)]
	if len(word) >= 2 && t.syllables.Spell(word, 3) {
		r |= spellsGiven
	}
	return r
}
