package tokenizer

import (
	"fmt"
	"math"
	"slices"
)

// Token types of GGUF files (tokenizer.ggml.token_type).
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// None is the id of a token that a vocabulary does not have.
const None int32 = -1

// Vocab describes a vocabulary, field by field as GGUF files store it under tokenizer.ggml.
type Vocab struct {
	Model  string    // "gpt2" (byte-level BPE), "llama" (SentencePiece), "t5" (Unigram) or "bert" (WordPiece)
	Tokens []string  // id → text, normal tokens of gpt2 in the byte-to-character alphabet of GPT-2
	Types  []int32   // id → token type; nil means that every token is a normal one
	Scores []float32 // id → score; llama and t5
	Merges []string  // "left right", most important first; gpt2
	Pre    string    // pre-tokenizer of gpt2: see [NewBPE]

	BOS, EOS, Pad, Unknown int32   // None if absent
	EOG                    []int32 // further tokens that end a generation, such as an end of turn
	AddBOS, AddEOS         bool    // a prompt begins with BOS; what an encoder reads ends with EOS
	SpacePrefix            bool    // a text begins with a space; llama and t5
	MergeSpaces            bool    // spaces at the ends are dropped, several in a row count as one; t5
	KeepLastSpace          bool    // MergeSpaces keeps one space at the end; t5
	Charsmap               []byte  // SentencePiece's precompiled normalisation; t5
	// Characters says what stands in the place of single characters, instead of Charsmap; t5.
	Characters map[rune]string
	Lowercase  bool // text is turned into lower case without accents; bert

	// What only tokenizer.json says.
	compose    bool    // normalise to NFC; gpt2
	wholeWords bool    // a word that is a token is taken whole, before any merge; gpt2
	oneSpace   bool    // SpacePrefix adds no space where one is; llama and t5
	firstOnly  bool    // SpacePrefix holds at the beginning of the whole text only; llama
	ranked     bool    // Merges decide instead of Scores; llama
	anySpace   bool    // every white space separates words, not just U+0020; t5
	between    []int32 // tokens between two texts; t5. nil: as RoBERTa has them
	noPair     bool    // two texts are joined in a way that is not known; t5
}

// Bounds on what a file may ask for: far above any real vocabulary, low enough for the tables to fit into memory.
const (
	maxTokens     = 1 << 22
	maxTokenBytes = 1 << 14
	maxTextBytes  = 1 << 25
)

func (v *Vocab) check() error {
	n := len(v.Tokens)
	if n == 0 || n > maxTokens {
		return fmt.Errorf("tokenizer: the vocabulary has %d tokens; expected between 1 and %d", n, maxTokens)
	}
	if v.Types != nil && len(v.Types) != n {
		return fmt.Errorf("tokenizer: the vocabulary has %d tokens but %d token types", n, len(v.Types))
	}
	total := 0
	for i, text := range v.Tokens {
		if kind := v.kind(int32(i)); kind < typeNormal || kind > typeByte {
			return fmt.Errorf("tokenizer: token %d has the unknown type %d", i, kind)
		}
		if total += len(text); len(text) > maxTokenBytes || total > maxTextBytes {
			return fmt.Errorf("tokenizer: token %d has %d bytes, the tokens up to it %d; at most %d and %d are supported", i, len(text), total, maxTokenBytes, maxTextBytes)
		}
	}
	for _, id := range slices.Concat([]int32{v.BOS, v.EOS, v.Pad, v.Unknown}, v.EOG, v.between) {
		if id < None || int(id) >= n {
			return fmt.Errorf("tokenizer: a special token has the id %d, but the vocabulary has %d tokens", id, n)
		}
	}
	return nil
}

// checkScores is check for vocabularies in which every token has a score.
func (v *Vocab) checkScores() error {
	if len(v.Scores) != len(v.Tokens) {
		return fmt.Errorf("tokenizer: the vocabulary has %d tokens but %d scores", len(v.Tokens), len(v.Scores))
	}
	for i, s := range v.Scores {
		if s != s || math.IsInf(float64(s), 0) {
			return fmt.Errorf("tokenizer: the score of token %d is not a finite number", i)
		}
	}
	return nil
}

// kind returns the type of a token.
func (v *Vocab) kind(id int32) int32 {
	if v.Types == nil {
		return typeNormal
	}
	kind := v.Types[id]
	// Files that call such tokens user-defined would let a caller's text end the turn.
	if kind == typeUserDefined && (id == v.BOS || id == v.EOS || endsGeneration(v.Tokens[id])) {
		return typeControl
	}
	return kind
}

// isSpecial holds for tokens that text becomes only where special tokens are asked for.
func (v *Vocab) isSpecial(id int32) bool {
	return v.kind(id) == typeControl || v.kind(id) == typeUnknown
}

// ids returns the ids by text. Unused tokens without a text only fill up the numbers.
func (v *Vocab) ids() (map[string]int32, error) {
	ids := make(map[string]int32, len(v.Tokens))
	for i, text := range v.Tokens {
		if text == "" && v.kind(int32(i)) == typeUnused {
			continue
		}
		if other, twice := ids[text]; twice {
			return nil, fmt.Errorf("tokenizer: the tokens %d and %d have the same text", other, i)
		}
		ids[text] = int32(i)
	}
	return ids, nil
}

// FromMetadata reads a vocabulary from the metadata of a GGUF file. lookup returns the value of a key: strings as string, booleans
// as bool, integers as any integer type, arrays as []string, []int32, []int64, []uint8, []float32 or []float64.
func FromMetadata(lookup func(key string) (any, bool)) (Vocab, error) {
	r := metadata{lookup: lookup}
	v := Vocab{
		Model: r.text("model"), Tokens: r.texts("tokens"), Types: r.types("token_type"), Pre: r.textOr("pre", ""),
		BOS: r.id("bos_token_id"), EOS: r.id("eos_token_id"), Pad: r.id("padding_token_id"), Unknown: r.id("unknown_token_id"),
		AddBOS: r.flag("add_bos_token", false), AddEOS: r.flag("add_eos_token", false),
	}
	for _, key := range []string{"eot_token_id", "eom_token_id"} {
		if id := r.id(key); id != None {
			v.EOG = append(v.EOG, id)
		}
	}
	// Where a file does not say, llama.cpp's defaults hold: converters leave out what equals them.
	switch v.Model {
	case "gpt2":
		v.Merges = r.texts("merges")
		v.AddBOS = r.flag("add_bos_token", preTokenizers()[v.Pre].addBOS)
	case "llama":
		v.Scores = r.scores("scores")
		v.SpacePrefix = r.flag("add_space_prefix", true)
		v.AddBOS = r.flag("add_bos_token", true)
		v.orDefault(1, 2, 0)
	case "t5":
		v.Scores = r.scores("scores")
		v.SpacePrefix = r.flag("add_space_prefix", false)
		v.MergeSpaces = r.flag("remove_extra_whitespaces", false)
		v.AddEOS = r.flag("add_eos_token", true)
		v.Charsmap = r.blob("precompiled_charsmap")
		v.orDefault(None, 1, 2)
		if sep := r.id("seperator_token_id"); sep != None && v.EOS != None { //nolint:misspell // as the format spells it
			v.between = []int32{v.EOS, sep}
		}
	case "bert":
		v.Lowercase = r.flag("normalizer.lowercase", true)
	default:
		if r.err == nil {
			r.err = fmt.Errorf("tokenizer: the tokenizer model %q is not supported; this build reads gpt2 (byte-level BPE), llama (SentencePiece), t5 (Unigram) and bert (WordPiece)", v.Model)
		}
	}
	return v, r.err
}

// orDefault sets the special tokens that a file does not name.
func (v *Vocab) orDefault(bos, eos, unknown int32) {
	for _, d := range []struct {
		id        *int32
		otherwise int32
	}{{&v.BOS, bos}, {&v.EOS, eos}, {&v.Unknown, unknown}} {
		if *d.id == None && int(d.otherwise) < len(v.Tokens) {
			*d.id = d.otherwise
		}
	}
}

// alphabet returns the reversible mapping of GPT-2: every byte has one printable character.
func alphabet() (toRune [256]rune, toByte map[rune]byte) {
	toByte = make(map[rune]byte, 256)
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if b < '!' || (b > '~' && b < 0xA1) || b == 0xAD {
			r = next
			next++
		}
		toRune[b] = r
		toByte[r] = byte(b)
	}
	return toRune, toByte
}

// endsGeneration lists the texts of control tokens by which model families end a turn or a document. GGUF files name only one of
// them as EOS, although a model may well produce another.
func endsGeneration(text string) bool {
	switch text {
	case "<|endoftext|>", "<|im_end|>", "<|end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<end_of_turn>", "<EOT>",
		"<|return|>", "<|call|>", "<｜end▁of▁sentence｜>", "<end_of_utterance>", "[EOT]":
		return true
	}
	return false
}
