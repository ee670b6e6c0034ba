package person

import (
	"strings"
	"sync"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// How much a surname says.
const (
	tierNone   = iota
	tierWord   // a surname, and far more often a particle
	tierRare   //
	tierUsual  //
	tierCommon // the hundred that most people bear
)

// rank says what a character or a cue word is.
type rank uint32

const (
	isSurname     rank = 1 << iota
	mayCompound        // begins a surname of two characters
	mayNick            // 小, 老, 阿
	mayTranscribe      // begins transcribed names
	inTranscript       // stands in transcribed names
	mayPart            // begins a part of Tibetan, Mongolian and other names
	isWordy            // a surname that begins many words
	isDistinct         // a surname that hardly begins a word
	isThing            // a typical character of given names that is a noun of its own: 家, 国, 山
	isLabel
	isStrong // a label of names and of nothing else
	isRole   // a title or relation in front of a name
	isWeak   // 是, 和, 与: in front of anything
	isVerb   // 叫, 找, 通知: in front of a name
	isSuffix // 人, 员, 者: ends words for roles
	isTitle  // behind a name
	isAlone  // a title that stands behind a surname alone
	isNext   // verbs and particles behind a name
	isRelation
	isPolite  // a title that says little else
	isThingOf // 某种: what stands behind 某 where it means some
	isNear    // what stands next to names in records: 男, 住, 身份证
	isPlace   // ends names of places and companies
	goesOn    // longer words begin so

	endsCue     // a cue in front of names ends with this character
	beginsCue   // a cue behind names begins with it
	beginsFixed // a fixed term begins with it
)

// mayBegin are the ranks of characters that names begin with.
const mayBegin = isSurname | mayCompound | mayNick | mayTranscribe | mayPart

// tables are the characters and words names are judged by.
type tables struct {
	han     [lexicon.Places]character
	none    character // of all others
	costs   *lexicon.CostTable
	left    *cueTable       // cues in front of a name, by the hash of their characters from the last to the first
	right   *cueTable       // cues behind
	keys    map[string]bool // field names of names
	keyEnds [26 * 26]bool   // the last two letters of keys
	fixed   *cueTable       // fixed terms and labels
	parts   *cueTable       // what names of some peoples are made of

	spell     map[string]rank    // words in Latin letters
	syllables *lexicon.Syllables // of pinyin
}

type character struct {
	rank        rank
	tier, given uint8
}

var nameTables = sync.OnceValue(newTables)

func hash(h uint64, r rune) uint64 { return (h ^ uint64(r)) * 0x9e3779b97f4a7c15 }

func (t *tables) at(r rune) character {
	place, ok := lexicon.Place(r)
	if !ok {
		return character{}
	}
	return t.han[place]
}

// cell is at for the character of a cell.
func (t *tables) cell(c *text.Cell) *character {
	if c.Han == 0 {
		return &t.none
	}
	return &t.han[c.Han-1]
}

// pair is the word of the character of a cell and another one, if they are one.
func (t *tables) pair(c *text.Cell, second rune) lexicon.WordCost {
	if c.Han == 0 {
		return lexicon.WordCost{}
	}
	return t.costs.Pair(int(c.Han-1), second)
}

// usual reports whether the character of a cell and another one are a usual word.
func (t *tables) usual(c *text.Cell, second rune) bool {
	return c.Han != 0 && t.costs.UsualPair(int(c.Han-1), second)
}

func (t *tables) first(r rune) rank  { return t.at(r).rank }
func (t *tables) surname(r rune) int { return int(t.at(r).tier) }
func (t *tables) given(r rune) int   { return int(t.at(r).given) }

// compound returns how usual the surname of two characters is, tierNone if it is none.
func (t *tables) compound(a, b rune) int {
	pair := [2]rune{a, b}
	switch n, _ := lexicon.Surname(pair[:]); {
	case n != 2:
		return tierNone
	case strings.Contains(nameRareCompound, string(pair[:])):
		return tierRare
	}
	return tierCommon
}

func (t *tables) isGiven(h *hanRun, size, total int) bool {
	return total-size == 2 && lexicon.GivenWord(h.r[size:total]) == 2
}

func (t *tables) stem(r rune) bool { return strings.ContainsRune("甲乙丙丁戊己庚辛壬癸", r) }

// before returns the longest cue that ends at j, and what it is.
func (t *tables) before(w *Detector, j int) (size int, c rank) {
	if j == 0 || t.first(w.At(j-1))&endsCue == 0 {
		return 0, 0
	}
	h := uint64(0)
	blank := false
	for length := 1; length <= 8 && j > 0; length++ {
		j--
		if r := w.At(j); (r == ' ' || r == '\n') && !blank && j > 0 && length > 1 { // scanners put blanks into words
			blank = true
			j--
		}
		h = hash(h, w.At(j))
		f := t.left.get(h)
		if f&^goesOn != 0 {
			size, c = length, f
		}
		if f&goesOn == 0 {
			break
		}
	}
	return size, c
}

// behind returns the longest cue that begins at k, and what it is.
func (t *tables) behind(n *namer, k int) (size int, c rank) {
	if t.first(n.cell(k))&beginsCue == 0 {
		return 0, 0
	}
	return t.longest(t.right, n, k)
}

func (t *tables) longest(in *cueTable, n *namer, k int) (size int, c rank) {
	h := uint64(0)
	blank := false
	for length := 1; length <= 8; length++ {
		r := n.cell(k + length - 1)
		if (r == ' ' || r == '\n') && length > 1 && !blank { // a scanner's
			blank = true
			continue
		}
		if r < 0 {
			break
		}
		h = hash(h, r)
		f := in.get(h)
		if f&^goesOn != 0 {
			size, c = length, f
		}
		if f&goesOn == 0 {
			break
		}
	}
	return size, c
}

// key reports whether a field name of names, such as custName, ends at the quote, colon or equals sign before j.
func (t *tables) key(w *Detector, j int) bool {
	if last, before := w.At(j-1), w.At(j-2); text.IsLetter(last) && text.IsLetter(before) && !t.keyEnds[lastTwo(byte(text.Lower(before)), byte(text.Lower(last)))] {
		return false
	}
	var b [24]byte
	at := len(b)
	for k := j - 1; k >= max(0, j-text.LeftContext) && at > 0; k-- {
		r := w.At(k)
		if r == '_' || r == '-' {
			continue
		}
		if !text.IsLetter(r) {
			break
		}
		at--
		b[at] = byte(text.Lower(r))
	}
	return t.keys[string(b[at:])]
}

// lastTwo is the number of a pair of small letters.
func lastTwo(a, b byte) int { return int(a-'a')*26 + int(b-'a') }

// add adds words to a table, and marks their first characters, or their last if the table is read backwards.
func (t *tables) add(m *cueTable, words string, c, marked rank) {
	backward := marked == endsCue
	for _, word := range strings.Fields(words) {
		rs := []rune(word)
		edge := rs[0]
		if backward {
			edge = rs[len(rs)-1]
		}
		if place, ok := lexicon.Place(edge); ok {
			t.han[place].rank |= marked
		}
		h := uint64(0)
		for k := range rs {
			r := rs[k]
			if backward {
				r = rs[len(rs)-1-k]
			}
			h = hash(h, r)
			if k < len(rs)-1 {
				m.add(h, goesOn)
			} else {
				m.add(h, c)
			}
		}
	}
}
