package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// jsonFile is what is read of tokenizer.json of the Hugging Face libraries.
type jsonFile struct {
	Added        []jsonToken `json:"added_tokens"`
	Normalizer   *jsonStep   `json:"normalizer"`
	PreTokenizer *jsonStep   `json:"pre_tokenizer"`
	Post         *jsonPost   `json:"post_processor"`
	Model        jsonModel   `json:"model"`
}

type jsonToken struct {
	ID      int32  `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
	Single  bool   `json:"single_word"`
	Left    bool   `json:"lstrip"`
	Right   bool   `json:"rstrip"`
}

// jsonStep is a normalizer or a pre-tokenizer; which fields count depends on the type.
type jsonStep struct {
	Type        string          `json:"type"`
	Normalizers []jsonStep      `json:"normalizers"`
	Steps       []jsonStep      `json:"pretokenizers"`
	Pattern     json.RawMessage `json:"pattern"`
	Content     string          `json:"content"`
	Prepend     string          `json:"prepend"`
	Charsmap    []byte          `json:"precompiled_charsmap"`
	Left        *bool           `json:"strip_left"`
	Right       *bool           `json:"strip_right"`
	Behavior    string          `json:"behavior"`
	Invert      bool            `json:"invert"`
	Digits      bool            `json:"individual_digits"`
	UseRegex    *bool           `json:"use_regex"`
	PrefixSpace *bool           `json:"add_prefix_space"`
	Replacement string          `json:"replacement"`
	Scheme      string          `json:"prepend_scheme"`
	Split       *bool           `json:"split"`
}

type jsonModel struct {
	Type         string          `json:"type"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
	Unknown      string          `json:"unk_token"`
	UnknownID    *int32          `json:"unk_id"`
	Dropout      *float64        `json:"dropout"`
	Prefix       string          `json:"continuing_subword_prefix"`
	Suffix       string          `json:"end_of_word_suffix"`
	ByteFallback bool            `json:"byte_fallback"`
	WholeWords   bool            `json:"ignore_merges"`
}

// flat returns the steps of a sequence, or the one step.
func (s *jsonStep) flat() []jsonStep {
	if s == nil {
		return nil
	}
	if s.Type != "Sequence" {
		return []jsonStep{*s}
	}
	var list []jsonStep
	for _, step := range append(s.Normalizers, s.Steps...) {
		list = append(list, step.flat()...)
	}
	return list
}

// pattern returns the text or regular expression that a step looks for.
func (s *jsonStep) pattern() (text, regex string) {
	var p struct{ String, Regex string }
	if len(s.Pattern) == 0 || json.Unmarshal(s.Pattern, &p) != nil {
		return "", ""
	}
	return p.String, p.Regex
}

// unlessFalse reads a flag that holds where a file does not say.
func unlessFalse(flag *bool) bool { return flag == nil || *flag }

// describe names the steps for an error message.
func describe(steps []jsonStep) string {
	if len(steps) == 0 {
		return "none"
	}
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Type
		if text, regex := s.pattern(); text+regex != "" {
			names[i] += fmt.Sprintf("(%q)", text+regex)
		}
	}
	return strings.Join(names, ", ")
}

// vocab reads the vocabulary of a tokenizer.json whose model is BPE or Unigram.
func (f *jsonFile) vocab() (Vocab, error) {
	v := Vocab{BOS: None, EOS: None, Pad: None, Unknown: None}
	var err error
	switch f.Model.Type {
	case "Unigram":
		v.Model = "t5"
		err = f.readUnigram(&v)
	case "BPE":
		err = f.readBPE(&v)
	default:
		err = fmt.Errorf("tokenizer: tokenizer.json has the model %q; this build reads BPE, Unigram and WordPiece", f.Model.Type)
	}
	if err == nil {
		err = f.addTokens(&v)
	}
	return v, err
}

// addTokens puts the added tokens into the vocabulary, beside or in place of those of the model.
func (f *jsonFile) addTokens(v *Vocab) error {
	end := min(len(v.Tokens)+len(f.Added), maxTokens)
	for _, t := range f.Added {
		if t.ID < 0 || int(t.ID) >= end {
			return fmt.Errorf("tokenizer: tokenizer.json adds a token with the id %d; expected one below %d", t.ID, end)
		}
		if (t.Left || t.Right || t.Single) && v.Model != "t5" {
			return fmt.Errorf("tokenizer: tokenizer.json adds the token %q, which takes white space around it along or wants to stand alone (lstrip, rstrip, single_word); this build does not support that", t.Content)
		}
		v.grow(int(t.ID) + 1)
		v.Tokens[t.ID] = t.Content
		switch {
		case t.ID == v.Unknown:
			v.Types[t.ID] = typeUnknown
		case t.Special:
			v.Types[t.ID] = typeControl
		default:
			v.Types[t.ID] = typeUserDefined
		}
	}
	return nil
}

// grow adds unused tokens until there are n.
func (v *Vocab) grow(n int) {
	for len(v.Tokens) < n {
		v.Tokens = append(v.Tokens, "")
		v.Types = append(v.Types, typeUnused)
		if v.Scores != nil {
			v.Scores = append(v.Scores, 0)
		}
	}
}

// readBPE tells the two kinds of BPE apart: byte-level, and SentencePiece's, which falls back to bytes.
func (f *jsonFile) readBPE(v *Vocab) error {
	m := f.Model
	if m.Prefix != "" || m.Suffix != "" || m.Dropout != nil && *m.Dropout != 0 {
		return fmt.Errorf("tokenizer: tokenizer.json uses continuing_subword_prefix, end_of_word_suffix or dropout in BPE; this build does not")
	}
	var ids map[string]int32
	if err := json.Unmarshal(m.Vocab, &ids); err != nil {
		return fmt.Errorf("tokenizer: read the vocabulary of tokenizer.json: %w", err)
	}
	added := len(f.Added)
	for text, id := range ids {
		if id < 0 || int(id) >= len(ids)+added || int(id) >= maxTokens {
			return fmt.Errorf("tokenizer: tokenizer.json has a token with the id %d among %d tokens", id, len(ids))
		}
		v.grow(int(id) + 1)
		if v.Types[id] != typeUnused {
			return fmt.Errorf("tokenizer: tokenizer.json has two tokens with the id %d", id)
		}
		v.Tokens[id], v.Types[id] = text, typeNormal
	}
	if err := v.readJSONMerges(m.Merges); err != nil {
		return err
	}
	if id, ok := ids[m.Unknown]; ok && m.Unknown != "" {
		v.Unknown, v.Types[id] = id, typeUnknown
	}
	if m.ByteFallback {
		return f.readPieces(v, ids)
	}
	return f.readByteLevel(v)
}

// readJSONMerges reads merges in both forms: "left right" and ["left", "right"].
func (v *Vocab) readJSONMerges(data json.RawMessage) error {
	const white = " \t\r\n"
	first := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimLeft(data, white), []byte("[")), white)
	if !bytes.HasPrefix(first, []byte("[")) {
		if err := json.Unmarshal(data, &v.Merges); err != nil {
			return fmt.Errorf("tokenizer: read the merges of tokenizer.json: %w", err)
		}
		return nil
	}
	var pairs [][2]string
	if err := json.Unmarshal(data, &pairs); err != nil {
		return fmt.Errorf("tokenizer: read the merges of tokenizer.json: %w", err)
	}
	v.Merges = make([]string, len(pairs))
	for i, p := range pairs {
		if p[0] == "" || p[1] == "" || strings.Contains(p[0]+p[1], " ") {
			return fmt.Errorf("tokenizer: merge %d of tokenizer.json is not two tokens without spaces", i)
		}
		v.Merges[i] = p[0] + " " + p[1]
	}
	return nil
}

// readPieces is for BPE of characters with a fall-back to bytes: Llama 2, Mistral, Gemma.
func (f *jsonFile) readPieces(v *Vocab, ids map[string]int32) error {
	v.Model, v.ranked = "llama", true
	if f.Model.WholeWords {
		return fmt.Errorf("tokenizer: tokenizer.json asks for ignore_merges together with byte_fallback; this build does not support that")
	}
	for c := range 256 {
		id, ok := ids[fmt.Sprintf("<0x%02X>", c)]
		if !ok {
			return fmt.Errorf("tokenizer: tokenizer.json asks for byte_fallback but has no token <0x%02X>", c)
		}
		v.Types[id] = typeByte
	}
	marked := false // spaces have become U+2581
	for _, s := range f.Normalizer.flat() {
		text, _ := s.pattern()
		switch {
		case s.Type == "Prepend" && s.Prepend == spaceMark && !marked:
			v.SpacePrefix = true
		case s.Type == "Replace" && text == " " && s.Content == spaceMark:
			marked = true
		default:
			return fmt.Errorf("tokenizer: tokenizer.json normalises with %s; with byte_fallback this build knows Prepend and Replace of spaces by U+2581", describe(f.Normalizer.flat()))
		}
	}
	for _, s := range f.PreTokenizer.flat() {
		text, _ := s.pattern()
		switch {
		case s.Type == "Metaspace" && s.Replacement == spaceMark && !unlessFalse(s.Split) && !v.SpacePrefix:
			marked, v.oneSpace = true, true
			v.SpacePrefix, v.firstOnly = s.prepends()
		case s.Type == "Split" && text == " " && marked: // there are no spaces any more
		default:
			return fmt.Errorf("tokenizer: tokenizer.json cuts text with %s; with byte_fallback this build knows Metaspace without split", describe(f.PreTokenizer.flat()))
		}
	}
	if !marked {
		return fmt.Errorf("tokenizer: tokenizer.json asks for byte_fallback but does not write spaces as U+2581; this build does not support that")
	}
	return nil
}

// prepends reads the two forms in which Metaspace says whether a text begins with a space.
func (s *jsonStep) prepends() (prefix, firstOnly bool) {
	switch s.Scheme {
	case "never":
		return false, false
	case "first":
		return unlessFalse(s.PrefixSpace), true
	}
	return unlessFalse(s.PrefixSpace), false
}

// The patterns of byte-level pre-tokenizers, as their files write them.
const (
	patternLlama3    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen2     = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternDeepSeek1 = `\p{N}{1,3}`
	patternDeepSeek2 = "[一-龥\u3040-ゟ゠-ヿ]+"
	patternDeepSeek3 = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

func (f *jsonFile) readByteLevel(v *Vocab) error {
	v.Model, v.wholeWords = "gpt2", f.Model.WholeWords
	for _, s := range f.Normalizer.flat() {
		if s.Type != "NFC" {
			return fmt.Errorf("tokenizer: tokenizer.json normalises with %s; for byte-level BPE this build knows NFC", describe(f.Normalizer.flat()))
		}
		v.compose = true
	}
	steps := f.PreTokenizer.flat()
	unknown := fmt.Errorf("tokenizer: tokenizer.json cuts text with %s; this build knows the byte-level pre-tokenizers %s", describe(steps), strings.Join(preNames(), ", "))
	if len(steps) == 0 {
		return unknown
	}
	last := steps[len(steps)-1]
	if last.Type != "ByteLevel" || unlessFalse(last.PrefixSpace) {
		return unknown
	}
	var patterns []string
	for _, s := range steps[:len(steps)-1] {
		_, regex := s.pattern()
		switch {
		case s.Type == "Digits" && s.Digits:
			patterns = append(patterns, "digits")
		case s.Type == "Split" && regex != "" && s.Behavior == "Isolated" && !s.Invert:
			patterns = append(patterns, regex)
		default:
			return unknown
		}
	}
	if unlessFalse(last.UseRegex) {
		patterns = append(patterns, "gpt-2")
	}
	for name, known := range map[string][]string{
		"gpt-2": {"gpt-2"}, "smollm": {"digits", "gpt-2"}, "llama-bpe": {patternLlama3}, "qwen2": {patternQwen2}, "tekken": {patternTekken},
		"deepseek-v3": {patternDeepSeek1, patternDeepSeek2, patternDeepSeek3},
	} {
		if slices.Equal(patterns, known) {
			v.Pre = name
			return nil
		}
	}
	return unknown
}

func (f *jsonFile) readUnigram(v *Vocab) error {
	var pieces []scored
	if err := json.Unmarshal(f.Model.Vocab, &pieces); err != nil {
		return fmt.Errorf("tokenizer: read the vocabulary of tokenizer.json: %w", err)
	}
	for _, p := range pieces {
		v.Tokens, v.Types, v.Scores = append(v.Tokens, p.piece), append(v.Types, typeNormal), append(v.Scores, p.score)
	}
	if f.Model.UnknownID == nil || *f.Model.UnknownID < 0 || int(*f.Model.UnknownID) >= len(v.Tokens) || f.Model.ByteFallback {
		return fmt.Errorf("tokenizer: the Unigram model of tokenizer.json has no unknown token (unk_id) or falls back to bytes; this build does not support that")
	}
	v.Unknown = *f.Model.UnknownID
	v.Types[v.Unknown] = typeUnknown
	stripped, err := f.readUnigramNormalizer(v)
	if err != nil {
		return err
	}
	unknown := fmt.Errorf("tokenizer: tokenizer.json cuts text with %s; for Unigram this build knows WhitespaceSplit and Metaspace", describe(f.PreTokenizer.flat()))
	marked := false
	for _, s := range f.PreTokenizer.flat() {
		switch {
		case s.Type == "WhitespaceSplit" && !marked:
			v.MergeSpaces, v.anySpace, v.KeepLastSpace = true, true, false
		case s.Type == "Metaspace" && s.Replacement == spaceMark && !marked:
			marked, v.oneSpace = true, true
			v.SpacePrefix, _ = s.prepends()
		default:
			return unknown
		}
	}
	if !marked || stripped && !v.MergeSpaces {
		return unknown
	}
	return nil
}

// readUnigramNormalizer knows the normalisers that the converters write: the precompiled map of SentencePiece, and steps that take
// superfluous spaces out. stripped says that none is left at the end.
func (f *jsonFile) readUnigramNormalizer(v *Vocab) (stripped bool, err error) {
	for i, s := range f.Normalizer.flat() {
		text, regex := s.pattern()
		switch {
		case s.Type == "Precompiled" && i == 0:
			v.Charsmap = s.Charsmap
		case s.Type == "Strip" && unlessFalse(s.Right):
			stripped = true
		case s.Type == "Replace" && text == "" && regex == " {2,}" && (s.Content == " " || s.Content == spaceMark):
			v.MergeSpaces = true
		default:
			return false, fmt.Errorf("tokenizer: tokenizer.json normalises with %s; for Unigram this build knows Precompiled, Strip and Replace of several spaces", describe(f.Normalizer.flat()))
		}
	}
	v.KeepLastSpace = v.MergeSpaces && !stripped
	return stripped, nil
}

// scored is ["piece", score].
type scored struct {
	piece string
	score float32
}

// UnmarshalJSON reads the pair, by hand since there are hundreds of thousands.
func (s *scored) UnmarshalJSON(data []byte) error {
	comma := bytes.LastIndexByte(data, ',')
	if comma < 0 || data[0] != '[' {
		return fmt.Errorf("%.40q is not a piece with its score", data)
	}
	score, err := strconv.ParseFloat(string(bytes.TrimSpace(data[comma+1:len(data)-1])), 64)
	if err != nil {
		return fmt.Errorf("the score of a piece is %.40q", data[comma+1:len(data)-1])
	}
	s.score = float32(score)
	return json.Unmarshal(data[1:comma], &s.piece)
}
