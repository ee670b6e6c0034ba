package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// WordPiece is the tokenizer of BERT encoders. It is immutable and safe for concurrent use.
type WordPiece struct {
	ids           map[string]int32
	unknown       int32
	cls, sep      int32
	prefix        string // of pieces that continue a word
	longest       int    // words with more characters are unknown
	lowercase     bool
	stripAccents  bool
	chineseSpaces bool
	cleanText     bool
}

// maxVocabulary bounds the bytes read from a tokenizer file.
const maxVocabulary = 64 << 20

// ReadWordPiece reads a tokenizer.json of Hugging Face. It refuses files whose steps it does not follow exactly.
func ReadWordPiece(r io.Reader) (*WordPiece, error) {
	var file struct {
		Normalizer struct {
			Type          string `json:"type"`
			CleanText     bool   `json:"clean_text"`
			ChineseSpaces bool   `json:"handle_chinese_chars"`
			StripAccents  *bool  `json:"strip_accents"`
			Lowercase     bool   `json:"lowercase"`
		} `json:"normalizer"`
		PreTokenizer struct {
			Type string `json:"type"`
		} `json:"pre_tokenizer"`
		Model struct {
			Type    string           `json:"type"`
			Unknown string           `json:"unk_token"`
			Prefix  string           `json:"continuing_subword_prefix"`
			Longest int              `json:"max_input_chars_per_word"`
			Vocab   map[string]int32 `json:"vocab"`
		} `json:"model"`
	}
	if err := json.NewDecoder(io.LimitReader(r, maxVocabulary)).Decode(&file); err != nil {
		return nil, fmt.Errorf("tokenizer: read tokenizer.json: %w", err)
	}
	n, m := file.Normalizer, file.Model
	if n.Type != "BertNormalizer" || file.PreTokenizer.Type != "BertPreTokenizer" || m.Type != "WordPiece" {
		return nil, fmt.Errorf("tokenizer: tokenizer.json describes %q, %q, %q; this build reads BertNormalizer, BertPreTokenizer, WordPiece",
			n.Type, file.PreTokenizer.Type, m.Type)
	}
	w := &WordPiece{
		ids: m.Vocab, prefix: m.Prefix, longest: m.Longest,
		lowercase: n.Lowercase, stripAccents: n.Lowercase, chineseSpaces: n.ChineseSpaces, cleanText: n.CleanText,
	}
	if n.StripAccents != nil {
		w.stripAccents = *n.StripAccents
	}
	return w, w.resolve(m.Unknown)
}

// newWordPiece builds a tokenizer from a vocabulary of the model "bert". GGUF files write the first piece of a word with U+2581 in
// front and the others bare; what else a tokenizer.json says is, for want of a key, as in every BERT.
func newWordPiece(v Vocab) (*WordPiece, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	w := &WordPiece{
		ids: make(map[string]int32, len(v.Tokens)), prefix: "##", longest: 100,
		lowercase: v.Lowercase, stripAccents: v.Lowercase, chineseSpaces: true, cleanText: true,
	}
	for i, text := range v.Tokens {
		bare, first := strings.CutPrefix(text, spaceMark)
		if !first && v.kind(int32(i)) == typeNormal && !(strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]")) {
			bare = w.prefix + text
		}
		if other, twice := w.ids[bare]; twice {
			return nil, fmt.Errorf("tokenizer: the tokens %d and %d have the same text", other, i)
		}
		w.ids[bare] = int32(i)
	}
	unknown := "[UNK]"
	if v.Unknown != None {
		unknown = v.Tokens[v.Unknown]
	}
	return w, w.resolve(unknown)
}

func (w *WordPiece) resolve(unknown string) error {
	var missing []error
	find := func(token string) int32 {
		id, ok := w.ids[token]
		if !ok {
			missing = append(missing, fmt.Errorf("tokenizer: the vocabulary has no token %q", token))
		}
		return id
	}
	w.unknown, w.cls, w.sep = find(unknown), find("[CLS]"), find("[SEP]")
	if w.longest <= 0 || w.longest > 1000 {
		missing = append(missing, fmt.Errorf("tokenizer: words of up to %d characters are not supported", w.longest))
	}
	for _, id := range w.ids {
		if id < 0 || int(id) >= len(w.ids) {
			return fmt.Errorf("tokenizer: the vocabulary has %d tokens and one with id %d", len(w.ids), id)
		}
	}
	return errors.Join(missing...)
}

// Size returns the number of tokens.
func (w *WordPiece) Size() int { return len(w.ids) }

// Encode returns the tokens of text between [CLS] and [SEP]. A text that spells "[SEP]" is just text: only Encode itself writes these
// two.
func (w *WordPiece) Encode(text string) []int32 {
	return append(w.appendPieces(append(make([]int32, 0, len(text)/4+2), w.cls), text), w.sep)
}

// Pieces returns the tokens of text alone.
func (w *WordPiece) Pieces(text string) []int32 { return w.appendPieces(nil, text) }

// Pair returns [CLS] first [SEP] second [SEP], and where the second text begins.
func (w *WordPiece) Pair(first, second []int32) (ids []int32, from int) {
	ids = append(make([]int32, 0, len(first)+len(second)+w.PairMarks()), w.cls)
	ids = append(append(ids, first...), w.sep)
	from = len(ids)
	return append(append(ids, second...), w.sep), from
}

// PairMarks is how many tokens Pair puts around the texts.
func (w *WordPiece) PairMarks() int { return 3 }

func (w *WordPiece) appendPieces(ids []int32, text string) []int32 {
	text = w.normalize(text)
	start := -1 // of the open word
	flush := func(end int) {
		if start >= 0 {
			ids = w.appendWord(ids, text[start:end])
			start = -1
		}
	}
	for i, r := range text {
		switch {
		case unicode.IsSpace(r):
			flush(i)
		case isPunctuation(r):
			flush(i)
			ids = w.appendWord(ids, text[i:i+utf8.RuneLen(r)])
		case start < 0:
			start = i
		}
	}
	flush(len(text))
	return ids
}

// normalize follows BERT: control characters out, Chinese characters apart, accents off, lower case.
func (w *WordPiece) normalize(text string) string {
	var out strings.Builder
	out.Grow(len(text))
	for _, r := range text {
		switch {
		case w.cleanText && (r == 0 || r == utf8.RuneError || isControl(r)):
		case w.cleanText && unicode.IsSpace(r):
			out.WriteByte(' ')
		case w.chineseSpaces && isChinese(r):
			out.WriteByte(' ')
			out.WriteRune(r)
			out.WriteByte(' ')
		default:
			out.WriteRune(r)
		}
	}
	s := out.String()
	if w.stripAccents {
		s = strings.Map(func(r rune) rune {
			if unicode.Is(unicode.Mn, r) {
				return -1
			}
			return r
		}, norm.NFD.String(s))
	}
	if w.lowercase {
		s = strings.ToLower(s)
	}
	return s
}

// appendWord cuts a word into the longest pieces the vocabulary has, from left to right; a word that cannot be cut is unknown.
func (w *WordPiece) appendWord(ids []int32, word string) []int32 {
	if utf8.RuneCountInString(word) > w.longest {
		return append(ids, w.unknown)
	}
	n := len(ids)
	for start := 0; start < len(word); {
		id, end := w.longestPiece(word, start)
		if end == start {
			return append(ids[:n], w.unknown)
		}
		ids = append(ids, id)
		start = end
	}
	return ids
}

func (w *WordPiece) longestPiece(word string, start int) (id int32, end int) {
	for end := len(word); end > start; end-- {
		if end < len(word) && !utf8.RuneStart(word[end]) {
			continue
		}
		piece := word[start:end]
		if start > 0 {
			piece = w.prefix + piece
		}
		if id, ok := w.ids[piece]; ok {
			return id, end
		}
	}
	return 0, start
}

func isControl(r rune) bool {
	return r != '\t' && r != '\n' && r != '\r' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

func isPunctuation(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~' || unicode.IsPunct(r)
}

// isChinese holds for the blocks that BERT names, which are not those of package unicode's Han.
func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF || r >= 0x2A700 && r <= 0x2B73F ||
		r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF || r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}
