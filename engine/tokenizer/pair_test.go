package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Two texts are joined as each model does, and what is joined are the tokens that each has alone.
func TestPairs(t *testing.T) {
	w, u := tinyWordPiece(t), mustUnigram(t, unigramVocab())
	bare := unigramVocab()
	bare.AddBOS = false
	for name, c := range map[string]struct {
		e             Encoder
		first, second string
		want          []int32
		from, marks   int
	}{
		"bert":                   {w, "hello", "world, 中", []int32{2, 4, 3, 5, 9, 10, 3}, 3, 3},
		"bert, nothing":          {w, "", "", []int32{2, 3, 3}, 2, 3},
		"bert, forged":           {w, "[SEP]", "hello", []int32{2, 12, 11, 13, 3, 4, 3}, 5, 3},
		"roberta":                {u, "a", "中文", slices.Concat([]int32{0}, u.Pieces("a"), []int32{2, 2}, u.Pieces("中文"), []int32{2}), 3 + len(u.Pieces("a")), 4},
		"without a begin, as t5": {mustUnigram(t, bare), "a", "b", slices.Concat(u.Pieces("a"), []int32{2}, u.Pieces("b"), []int32{2}), 1 + len(u.Pieces("a")), 2},
	} {
		first, second := c.e.Pieces(c.first), c.e.Pieces(c.second)
		ids, from := c.e.Pair(first, second)
		if !slices.Equal(ids, c.want) || from != c.from || c.e.PairMarks() != c.marks || len(ids) != len(first)+len(second)+c.marks {
			t.Errorf("%s: %v from %d, want %v from %d, %d marks", name, ids, from, c.want, c.from, c.e.PairMarks())
		}
		if alone := c.e.Encode(c.first); !strings.Contains(key(alone), key(first)) {
			t.Errorf("%s: the pieces %v are not those of the text, %v", name, first, alone)
		}
	}
}

func key(ids []int32) string {
	b, _ := json.Marshal(ids)
	return strings.Trim(string(b), "[]nul")
}

// What a tokenizer.json says of two texts is followed, or known not to be.
func TestPairTemplates(t *testing.T) {
	const (
		begin, end = `{"SpecialToken":{"id":"<s>"}}`, `{"SpecialToken":{"id":"</s>"}}`
		a, b       = `{"Sequence":{"id":"A"}}`, `{"Sequence":{"id":"B"}}`
	)
	for name, c := range map[string]struct {
		pair    []string
		between []int32
		unknown bool
	}{
		"roberta":     {[]string{begin, a, end, end, b, end}, []int32{2, 2}, false},
		"one mark":    {[]string{begin, a, end, b, end}, []int32{2}, false},
		"no mark":     {[]string{begin, a, b, end}, []int32{}, false},
		"untold":      {nil, nil, false},
		"no end":      {[]string{begin, a, end, b}, nil, true},
		"no begin":    {[]string{a, end, b, end}, nil, true},
		"wrong order": {[]string{begin, b, end, a, end}, nil, true},
		"text twice":  {[]string{begin, a, end, b, b, end}, nil, true},
		"one text":    {[]string{begin, a, end}, nil, true},
	} {
		var p jsonPost
		text := `{"type":"TemplateProcessing","pair":[` + strings.Join(c.pair, ",") + `],"special_tokens":{"<s>":{"ids":[0]},"</s>":{"ids":[2]}}}`
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		between, unknown := p.between([]int32{0}, []int32{2})
		if !slices.Equal(between, c.between) || (between == nil) != (c.between == nil) || unknown != c.unknown {
			t.Errorf("%s: %v, %v", name, between, unknown)
		}
	}
	v := unigramVocab()
	v.noPair = true
	if n := mustUnigram(t, v).PairMarks(); n != 0 {
		t.Errorf("%d marks of an unknown form", n)
	}
}

// Single characters are replaced by a table as by a compiled map.
func TestCharacterTables(t *testing.T) {
	v := unigramVocab()
	v.Characters = map[rune]string{'Ａ': "a", '文': "bc", '\t': " ", '\u200b': ""}
	u := mustUnigram(t, v)
	for text, same := range map[string]string{"Ａ": "a", "中文": "中bc", "a\tb": "a b", "a\u200bb": "ab", "\t\ta": "  a", "b\xff": "b\ufffd"} {
		if got, want := u.Pieces(text), mustUnigram(t, unigramVocab()).Pieces(same); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	v.KeepLastSpace = true
	if got := mustUnigram(t, v).Pieces("a "); got[len(got)-1] != 4 {
		t.Errorf("the last space is lost: %v", got)
	}
	v.Charsmap = []byte{4, 0, 0, 0, 0, 0, 0, 0}
	if _, err := NewUnigram(v); err == nil || !strings.Contains(err.Error(), "table of characters") {
		t.Error("both at a time:", err)
	}
}

// A GGUF file may name the token between two texts.
func TestPairsOfMetadata(t *testing.T) {
	v := unigramVocab()
	const separator = "seperator_token_id" //nolint:misspell // as the format spells it
	values := map[string]any{
		"model": "t5", "tokens": v.Tokens, "token_type": v.Types, "scores": v.Scores, "bos_token_id": 0, "eos_token_id": 2, "unknown_token_id": 3,
		"add_bos_token": true, "add_eos_token": true, separator: uint32(1),
	}
	read := func() *Unigram {
		v, err := FromMetadata(func(key string) (any, bool) {
			value, ok := values[strings.TrimPrefix(key, "tokenizer.ggml.")]
			return value, ok
		})
		if err != nil {
			t.Fatal(err)
		}
		return mustUnigram(t, v)
	}
	if ids, _ := read().Pair([]int32{5}, []int32{6}); !slices.Equal(ids, []int32{0, 5, 2, 1, 6, 2}) {
		t.Errorf("with a separator: %v", ids)
	}
	delete(values, separator)
	if ids, _ := read().Pair([]int32{5}, []int32{6}); !slices.Equal(ids, []int32{0, 5, 2, 2, 6, 2}) {
		t.Errorf("without: %v", ids)
	}
}
