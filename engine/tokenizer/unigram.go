package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Unigram is the tokenizer of XLM-RoBERTa and the encoders made from it: the pieces whose scores have the greatest sum. It is
// immutable and safe for concurrent use.
type Unigram struct {
	pieces        *trie
	scores        []float32
	size          int
	unknown       int32
	unknownScore  float64
	before, after []int32 // special tokens around the text,
	between       []int32 // and between two
	noPair        bool
	chars         *charsmap
	characters    map[rune]string

	prefix, mergeSpaces, keepLast, oneSpace, anySpace bool // see Vocab
}

// unknownPenalty is how much worse an unknown character is than the worst piece.
const unknownPenalty = 10

// NewUnigram builds a tokenizer from a vocabulary of the model "t5". Text becomes normal pieces only; the special tokens around it are
// BOS and EOS, where the vocabulary adds them.
func NewUnigram(v Vocab) (*Unigram, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	if err := v.checkScores(); err != nil {
		return nil, err
	}
	if v.Unknown == None {
		return nil, fmt.Errorf("tokenizer: the vocabulary names no unknown token; Unigram needs one (tokenizer.ggml.unknown_token_id or unk_id)")
	}
	if _, err := v.ids(); err != nil {
		return nil, err
	}
	chars, err := readCharsmap(v.Charsmap)
	if err != nil {
		return nil, err
	}
	if chars != nil && v.Characters != nil {
		return nil, errors.New("tokenizer: the vocabulary has a precompiled charsmap and a table of characters, too")
	}
	u := &Unigram{
		scores: v.Scores, size: len(v.Tokens), unknown: v.Unknown, chars: chars, characters: v.Characters,
		prefix: v.SpacePrefix, mergeSpaces: v.MergeSpaces, keepLast: v.KeepLastSpace, oneSpace: v.oneSpace, anySpace: v.anySpace,
	}
	if v.AddBOS && v.BOS != None {
		u.before = []int32{v.BOS}
	}
	if v.AddEOS && v.EOS != None {
		u.after = []int32{v.EOS}
	}
	// RoBERTa ends the first text and begins the second with the same token.
	switch u.between, u.noPair = v.between, v.noPair; {
	case u.between == nil && len(u.before) > 0 && len(u.after) > 0:
		u.between = []int32{v.EOS, v.EOS}
	case u.between == nil:
		u.between = u.after
	}
	u.readPieces(v)
	return u, nil
}

func (u *Unigram) readPieces(v Vocab) {
	var entries []keyValue
	worst := math.Inf(1)
	for i, text := range v.Tokens {
		switch v.kind(int32(i)) {
		case typeNormal:
			worst = min(worst, float64(v.Scores[i]))
		case typeUserDefined, typeUnused:
		default:
			continue
		}
		entries = append(entries, keyValue{text, int32(i)})
	}
	if math.IsInf(worst, 1) {
		worst = 0
	}
	u.unknownScore = worst - unknownPenalty
	u.pieces = newTrie(entries)
}

// Size returns the number of tokens.
func (u *Unigram) Size() int { return u.size }

// Encode returns the tokens of text between the model's first and last token. A text that spells "</s>" is just text.
func (u *Unigram) Encode(text string) []int32 {
	return append(u.appendPieces(append(make([]int32, 0, len(text)/4+2), u.before...), text), u.after...)
}

// Pieces returns the tokens of text alone.
func (u *Unigram) Pieces(text string) []int32 { return u.appendPieces(nil, text) }

// Pair returns two texts with the model's tokens before, between and after them, and where the second text begins.
func (u *Unigram) Pair(first, second []int32) (ids []int32, from int) {
	ids = append(make([]int32, 0, len(first)+len(second)+u.PairMarks()), u.before...)
	ids = append(append(ids, first...), u.between...)
	from = len(ids)
	return append(append(ids, second...), u.after...), from
}

// PairMarks is how many tokens Pair puts around the texts; 0 where the vocabulary does not say how to join them.
func (u *Unigram) PairMarks() int {
	if u.noPair {
		return 0
	}
	return len(u.before) + len(u.between) + len(u.after)
}

func (u *Unigram) appendPieces(ids []int32, text string) []int32 {
	return u.appendBest(ids, u.mark(u.normalize(text)))
}

// normalize replaces characters.
func (u *Unigram) normalize(text string) string {
	if u.characters == nil {
		return string(u.chars.normalize(make([]byte, 0, len(text)+len(text)/8), text))
	}
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		if to, ok := u.characters[r]; ok {
			out.WriteString(to)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// mark writes spaces as pieces have them.
func (u *Unigram) mark(text string) string {
	if !u.mergeSpaces {
		if u.prefix && text != "" && !(u.oneSpace && startsWithSpace(text)) {
			text = " " + text
		}
		return strings.ReplaceAll(text, " ", spaceMark)
	}
	var out strings.Builder
	out.Grow(len(text) + len(text)/4 + len(spaceMark))
	words := strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || u.anySpace && unicode.IsSpace(r) })
	for word := range words {
		first := out.Len() == 0
		marked := u.oneSpace && strings.HasPrefix(word, spaceMark) && (u.anySpace || first && strings.HasPrefix(text, spaceMark))
		if !marked && (u.prefix || !first) {
			out.WriteString(spaceMark)
		}
		out.WriteString(word)
	}
	if u.keepLast && strings.HasSuffix(text, " ") {
		out.WriteString(spaceMark)
	}
	return out.String()
}

// step is the best way to write a text up to a place: its last piece and where that begins.
type step struct {
	score float64
	from  int32
	id    int32
}

// appendBest finds the pieces with the greatest sum of scores (Viterbi). Sums of float32 scores are exact in float64, so the result
// does not depend on where in a text a word stands. Of equal sums the one found first, with the shorter pieces in front, wins.
func (u *Unigram) appendBest(ids []int32, text string) []int32 {
	if text == "" {
		return ids
	}
	best := make([]step, len(text)+1)
	for i := range best {
		best[i] = step{score: math.Inf(-1)}
	}
	best[0].score = 0
	for at := 0; at < len(text); {
		length := min(charLength(text[at]), len(text)-at)
		if !u.extend(best, text, at, at+length) {
			best[at+length].offer(best[at].score+u.unknownScore, at, u.unknown)
		}
		at += length
	}
	n := len(ids)
	for at := len(text); at > 0; at = int(best[at].from) {
		// Neighbouring unknown characters make one unknown token.
		if id := best[at].id; id != u.unknown || len(ids) == n || ids[len(ids)-1] != u.unknown {
			ids = append(ids, id)
		}
	}
	slices.Reverse(ids[n:])
	return ids
}

// extend offers the pieces that begin at a place to the places where they end. It reports whether one ends at single.
func (u *Unigram) extend(best []step, text string, at, single int) (found bool) {
	node := int32(0)
	for end := at; end < len(text); {
		node = u.pieces.child(node, text[end])
		if node == 0 {
			break
		}
		end++
		id := u.pieces.nodes[node].value
		if id == None {
			continue
		}
		found = found || end == single
		best[end].offer(best[at].score+float64(u.scores[id]), at, id)
	}
	return found
}

func (s *step) offer(score float64, from int, id int32) {
	if score > s.score {
		*s = step{score, int32(from), id}
	}
}
