package parse

import (
	"encoding/xml"
	"errors"
	"strconv"
	"strings"
)

// numbering counts the items of a Word document's lists, and its numbered headings.
type numbering struct {
	lists map[int]*numbered
}

// numbered is a list as paragraphs name it. Several may count together.
type numbered struct {
	kind    *listKind
	restart map[int]int // numbers that levels begin again with when the list is first used
	used    bool
}

// listKind is how numbers of lists look, and how far they have come.
type listKind struct {
	levels [9]listLevel
	count  [9]int // 0: not begun
}

type listLevel struct {
	format, text string
	start        int
	legal        bool // numbers of the levels above are in Arabic digits
}

func readNumbering(a *archive, part string) (*numbering, error) {
	n := &numbering{lists: map[int]*numbered{}}
	x, err := a.open(part)
	if errors.Is(err, errNoPart) {
		return n, nil
	}
	if err != nil {
		return nil, err
	}
	kinds := map[int]*listKind{}
	err = x.root(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "abstractNum":
			if err := a.r.hold(6 * heldEntry); err != nil {
				return err
			}
			k := &listKind{}
			kinds[number(attribute(e, "abstractNumId"), -1)] = k
			return x.each(func(e xml.StartElement) error {
				if e.Name.Local != "lvl" {
					return x.skip()
				}
				return k.level(x, e)
			})
		case "num":
			if err := a.r.hold(2 * heldEntry); err != nil {
				return err
			}
			l := &numbered{restart: map[int]int{}}
			n.lists[number(attribute(e, "numId"), -1)] = l
			return x.each(func(e xml.StartElement) error {
				switch e.Name.Local {
				case "abstractNumId":
					l.kind = kinds[number(attribute(e, "val"), -1)]
				case "lvlOverride":
					return l.override(x, number(attribute(e, "ilvl"), 0))
				}
				return x.skip()
			})
		}
		return x.skip()
	})
	return n, err
}

// maxNumberText is the longest form of a number, in bytes. Word takes 31 characters.
const maxNumberText = 512

func (k *listKind) level(x *elements, e xml.StartElement) error {
	l := listLevel{format: "decimal", start: 1}
	err := x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "start":
			l.start = number(attribute(e, "val"), 1)
		case "numFmt":
			l.format = attribute(e, "val")
		case "lvlText":
			if l.text = attribute(e, "val"); len(l.text) > maxNumberText {
				return errDamaged
			}
		case "isLgl":
			l.legal = on(e)
		}
		return x.skip()
	})
	if i := number(attribute(e, "ilvl"), 9); i < 9 {
		k.levels[i] = l
	}
	return err
}

// override reads what a list has of its own at a level.
func (l *numbered) override(x *elements, level int) error {
	return x.each(func(e xml.StartElement) error {
		switch e.Name.Local {
		case "startOverride":
			l.restart[level] = number(attribute(e, "val"), 1)
		case "lvl":
			if l.kind != nil {
				own := *l.kind
				l.kind = &own
				return l.kind.level(x, e)
			}
		}
		return x.skip()
	})
}

// next counts an item and returns its number as it is printed, "" for one that has a bullet.
func (n *numbering) next(list, depth int) string {
	l := n.lists[list]
	if l == nil || l.kind == nil || depth > 8 {
		return ""
	}
	k := l.kind
	if !l.used {
		l.used = true
		for level, start := range l.restart {
			if level < 9 {
				k.levels[level].start, k.count[level] = start, 0
			}
		}
	}
	for i := range k.count {
		switch {
		case i < depth && k.count[i] == 0, i == depth && k.count[i] == 0:
			k.count[i] = max(1, k.levels[i].start)
		case i == depth:
			k.count[i]++
		case i > depth:
			k.count[i] = 0
		}
	}
	at := k.levels[depth]
	if at.format == "bullet" || at.format == "none" {
		return ""
	}
	var out strings.Builder
	for i := 0; i < len(at.text); i++ {
		c := at.text[i]
		if c != '%' || i+1 == len(at.text) || at.text[i+1] < '1' || at.text[i+1] > '9' {
			out.WriteByte(c)
			continue
		}
		i++
		level := int(at.text[i] - '1')
		format := k.levels[level].format
		if at.legal {
			format = "decimal"
		}
		out.WriteString(numeral(k.count[level], format))
	}
	return strings.TrimSpace(out.String())
}

// numeral writes a number as Word does in one of its formats; those that are not known here are in Arabic digits.
func numeral(n int, format string) string {
	switch format {
	case "bullet", "none":
		return ""
	case "decimalZero":
		if n < 10 {
			return "0" + strconv.Itoa(n)
		}
	case "lowerLetter":
		return strings.ToLower(letters(n))
	case "upperLetter":
		return letters(n)
	case "lowerRoman":
		return strings.ToLower(roman(n))
	case "upperRoman":
		return roman(n)
	case "chineseCounting", "chineseCountingThousand", "japaneseCounting", "taiwaneseCounting", "taiwaneseCountingThousand", "koreanCounting":
		return counted(n, "零一二三四五六七八九", "十百千")
	case "chineseLegalSimplified":
		return counted(n, "零壹贰叁肆伍陆柒捌玖", "拾佰仟")
	case "ideographLegalTraditional", "japaneseLegal":
		return counted(n, "零壹貳參肆伍陸柒捌玖", "拾佰仟")
	case "ideographDigital", "japaneseDigitalTenThousand", "taiwaneseDigital":
		return digits(n, "〇一二三四五六七八九")
	case "ideographTraditional":
		return pick(n, "甲乙丙丁戊己庚辛壬癸")
	case "ideographZodiac":
		return pick(n, "子丑寅卯辰巳午未申酉戌亥")
	case "decimalEnclosedCircle", "decimalEnclosedCircleChinese":
		return pick(n, "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳")
	case "decimalFullWidth", "decimalFullWidth2":
		return digits(n, "０１２３４５６７８９")
	}
	return strconv.Itoa(n)
}

// pick returns the n-th sign, or Arabic digits behind the last.
func pick(n int, signs string) string {
	if all := []rune(signs); n >= 1 && n <= len(all) {
		return string(all[n-1])
	}
	return strconv.Itoa(n)
}

func digits(n int, signs string) string {
	all := []rune(signs)
	var out strings.Builder
	for _, d := range strconv.Itoa(n) {
		out.WriteRune(all[d-'0'])
	}
	return out.String()
}

// letters counts A, B … Z, AA, BB, as Word does.
func letters(n int) string {
	if n < 1 || n > 26*30 {
		return strconv.Itoa(n)
	}
	return strings.Repeat(string(rune('A'+(n-1)%26)), (n-1)/26+1)
}

func roman(n int) string {
	if n < 1 || n > 3999 {
		return strconv.Itoa(n)
	}
	var out strings.Builder
	for i, v := range []int{1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1} {
		for ; n >= v; n -= v {
			out.WriteString([]string{"M", "CM", "D", "CD", "C", "XC", "L", "XL", "X", "IX", "V", "IV", "I"}[i])
		}
	}
	return out.String()
}

// counted writes numbers below ten thousand in Chinese numerals, and larger ones in Arabic digits.
func counted(n int, ones, tens string) string {
	if n < 0 || n > 9999 {
		return strconv.Itoa(n)
	}
	one, ten := []rune(ones), []rune(tens)
	if n < 10 {
		return string(one[n])
	}
	var out []rune
	gap := false
	for place, unit := 3, 1000; place >= 0; place, unit = place-1, unit/10 {
		d := n / unit % 10
		if d == 0 {
			gap = gap || len(out) > 0
			continue
		}
		if gap {
			out, gap = append(out, one[0]), false
		}
		if !(d == 1 && place == 1 && len(out) == 0 && ten[0] == []rune("十")[0]) {
			out = append(out, one[d])
		}
		if place > 0 {
			out = append(out, ten[place-1])
		}
	}
	return string(out)
}
