package tokenizer

import (
	"fmt"
	"strings"
)

// Tokenizer turns text into the tokens of a model that generates, and back. [BPE] and [SentencePiece] implement it.
type Tokenizer interface {
	// Size returns the number of tokens.
	Size() int
	// BOS returns the token that begins a text, or None, and whether plain prompts must start with it (Encode never adds it).
	BOS() (id int32, add bool)
	// EOS returns the token that ends a text, or None.
	EOS() int32
	// IsEOG reports whether a model that produces id has ended its answer.
	IsEOG(id int32) bool
	// Name returns the text of a token for people, control tokens included.
	Name(id int32) string
	// Bytes returns what a token adds to a text: nothing for control tokens and for ids that do not exist. It need not be whole
	// characters; see [Stream].
	Bytes(id int32) []byte
	// Decode returns the text of ids: the joined bytes of the tokens, with U+FFFD for each byte that is not part of valid UTF-8. The
	// space that SentencePiece puts before a text is taken off again.
	Decode(ids []int32) string
	// Encode returns the tokens of text, without BOS. With parseSpecial, text such as "<|im_start|>" becomes the control token of
	// that name, which is right for chat templates only: text that a caller sent is encoded without it, so that it cannot forge a turn.
	Encode(text string, parseSpecial bool) []int32
	// EncodeParts returns the tokens of the joined parts. Borders between parts are no borders between words, so the tokens are those
	// of the whole text; but a control token is recognised only inside special parts, and never across a border to another kind. With
	// follows, other text stands before them, whose tokens do not depend on these: nothing is added that only begins a text.
	EncodeParts(parts []Part, follows bool) []int32
}

// Encoder turns text into the tokens of a model that embeds or classifies it. [WordPiece] and [Unigram] implement it.
type Encoder interface {
	// Size returns the number of tokens.
	Size() int
	// Encode returns the tokens of text between the model's first and last token. Text that spells a special token is just text.
	Encode(text string) []int32
	// Pieces returns the tokens of text alone.
	Pieces(text string) []int32
	// Pair returns the tokens of two texts, given by their pieces, as models read them that compare texts, and where those begin that
	// belong to the second one. Around the pieces it puts always as many tokens: PairMarks, which is 0 where the files do not say how two
	// texts are joined.
	Pair(first, second []int32) (ids []int32, from int)
	PairMarks() int
}

// New builds the tokenizer of a vocabulary that generates text.
func New(v Vocab) (Tokenizer, error) {
	switch v.Model {
	case "gpt2":
		return NewBPE(v)
	case "llama":
		return NewSentencePiece(v)
	}
	return nil, fmt.Errorf("tokenizer: the tokenizer model %q does not generate text; this build generates with gpt2 (byte-level BPE) and llama (SentencePiece)", v.Model)
}

// NewEncoder builds the tokenizer of a vocabulary whose model embeds or classifies text.
func NewEncoder(v Vocab) (Encoder, error) {
	switch v.Model {
	case "bert":
		return newWordPiece(v)
	case "t5":
		return NewUnigram(v)
	}
	return nil, fmt.Errorf("tokenizer: the tokenizer model %q is not one of an encoder; this build encodes with bert (WordPiece) and t5 (Unigram)", v.Model)
}

// table is what tokenizers know of each token.
type table struct {
	names    []string // id → readable text
	bytes    []string // id → the bytes it stands for in text; "" for control tokens
	eog      map[int32]bool
	bos, eos int32
	addBOS   bool
	special  matcher // control, unknown and user-defined tokens
}

// newTable checks a vocabulary and fills the table; plain gives the bytes of tokens that are neither control nor user-defined.
func newTable(v Vocab, plain func(id int32, text string) string) (table, error) {
	if err := v.check(); err != nil {
		return table{}, err
	}
	t := table{
		names: make([]string, len(v.Tokens)), bytes: make([]string, len(v.Tokens)),
		eog: map[int32]bool{}, bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS && v.BOS != None,
	}
	for _, id := range append([]int32{v.EOS}, v.EOG...) {
		if id != None {
			t.eog[id] = true
		}
	}
	var special []entry
	for i, text := range v.Tokens {
		id := int32(i)
		t.names[i] = text
		switch v.kind(id) {
		case typeControl, typeUnknown:
			special = append(special, entry{text, id, true})
			if endsGeneration(text) {
				t.eog[id] = true
			}
		case typeUserDefined:
			t.bytes[i] = text
			special = append(special, entry{text, id, false})
		default:
			t.bytes[i] = plain(id, text)
			t.names[i] = t.bytes[i]
		}
	}
	t.special = newMatcher(special)
	return t, nil
}

// Size returns the number of tokens.
func (t *table) Size() int { return len(t.names) }

// BOS returns the token that begins a text, or None, and whether plain prompts must start with it.
func (t *table) BOS() (id int32, add bool) { return t.bos, t.addBOS }

// EOS returns the token that ends a text, or None.
func (t *table) EOS() int32 { return t.eos }

// IsEOG reports whether a model that produces id has ended its answer.
func (t *table) IsEOG(id int32) bool { return t.eog[id] }

// Bytes returns what a token adds to a text: nothing for control tokens and for ids that do not exist. It need not be whole
// characters; see [Stream].
func (t *table) Bytes(id int32) []byte {
	if id < 0 || int(id) >= len(t.bytes) {
		return nil
	}
	return []byte(t.bytes[id])
}

// Name returns the text of a token for people, control tokens included.
func (t *table) Name(id int32) string {
	if id < 0 || int(id) >= len(t.names) {
		return ""
	}
	return t.names[id]
}

// Decode returns the text of ids: the joined bytes of the tokens, with U+FFFD for each byte that is not part of valid UTF-8.
func (t *table) Decode(ids []int32) string { return t.decode(ids, false) }

func (t *table) decode(ids []int32, dropSpace bool) string {
	var text strings.Builder
	var s Stream
	for _, id := range ids {
		if id < 0 || int(id) >= len(t.bytes) || t.bytes[id] == "" {
			continue
		}
		piece := t.bytes[id]
		if dropSpace {
			piece = strings.TrimPrefix(piece, " ")
			dropSpace = false
		}
		text.WriteString(s.Write([]byte(piece)))
	}
	text.WriteString(s.Close())
	return text.String()
}

// fragments calls text for each stretch between special tokens, with where it begins, and token for each of these.
func (t *table) fragments(parts []Part, text func(stretch string, start int), token func(id int32)) {
	whole, special := join(parts)
	for from := 0; from < len(whole); {
		start, found := t.special.find(whole, from, special.cover)
		if start > from {
			text(whole[from:start], from)
		}
		if found.text == "" {
			return
		}
		token(found.id)
		from = start + len(found.text)
	}
}
