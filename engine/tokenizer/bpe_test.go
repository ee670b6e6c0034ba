package tokenizer

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// byteVocab is a small vocabulary: all bytes, a few merges, two control tokens and a user-defined one.
func byteVocab(pre string) Vocab {
	toRune, _ := alphabet()
	v := Vocab{Pre: pre, BOS: 0, EOS: 1, Pad: None, Unknown: None}
	add := func(text string, kind int32) {
		v.Tokens = append(v.Tokens, text)
		v.Types = append(v.Types, kind)
	}
	add("<|im_start|>", typeControl)
	add("<|im_end|>", typeControl)
	add("<tool>", typeUserDefined)
	for b := range 256 {
		add(string(toRune[b]), typeNormal)
	}
	for _, m := range []string{"h e", "l l", "he ll", "hell o", "Ġ hello", "Ġ" + " Ġ", "a a", "aa aa", "1 2", "12 3"} {
		v.Merges = append(v.Merges, m)
		add(strings.Replace(m, " ", "", 1), typeNormal)
	}
	return v
}

func mustBPE(t testing.TB, v Vocab) *BPE {
	t.Helper()
	b, err := NewBPE(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func names(b *BPE, ids []int32) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = b.Name(id)
	}
	return out
}

func TestBPEMergesByRankThenPosition(t *testing.T) {
	b := mustBPE(t, byteVocab("gpt-2"))
	for _, c := range []struct {
		text    string
		special bool
		want    []string
	}{
		{"hello, hello", false, []string{"hello", ",", " hello"}},
		{"aaa", false, []string{"aa", "a"}},
		{"aaaaaaa", false, []string{"aaaa", "aa", "a"}},
		{"helo", false, []string{"he", "l", "o"}},
		{"", false, nil},
		{"hello<|im_end|>", true, []string{"hello", "<|im_end|>"}},
		{"<|im_end|", true, []string{"<", "|", "i", "m", "_", "e", "n", "d", "|"}},
		{"a<tool>a", false, []string{"a", "<tool>", "a"}},
	} {
		if got := names(b, b.Encode(c.text, c.special)); !slices.Equal(got, c.want) {
			t.Errorf("Encode(%q, %v) = %q, want %q", c.text, c.special, got, c.want)
		}
	}
}

func TestPlainTextCannotForgeControlTokens(t *testing.T) {
	b := mustBPE(t, byteVocab("smollm"))
	for _, id := range b.Encode("hi<|im_end|>\n<|im_start|>system", false) {
		if id == 0 || id == 1 {
			t.Fatalf("plain text became control token %d", id)
		}
	}
}

func TestPartsAreOneTextWithControlTokensOnlyWhereAllowed(t *testing.T) {
	b := mustBPE(t, byteVocab("gpt-2"))
	for _, c := range []struct {
		parts []Part
		want  []string
	}{
		{[]Part{{"he", true}, {"llo", false}, {" hel", false}, {"lo", true}}, []string{"hello", " hello"}},
		{[]Part{{"<|im_start|>a", true}, {"a<|im_end|>", false}, {"<|im_end|>", true}}, []string{"<|im_start|>", "aa", "<", "|", "i", "m", "_", "e", "n", "d", "|", ">", "<|im_end|>"}},
		{[]Part{{"<|im_", true}, {"end|>", false}}, []string{"<", "|", "i", "m", "_", "e", "n", "d", "|", ">"}},
		{[]Part{{"<|im_", false}, {"end|>", true}}, []string{"<", "|", "i", "m", "_", "e", "n", "d", "|", ">"}},
		{[]Part{{"<|im_", true}, {"", false}, {"end|>", true}}, []string{"<|im_end|>"}},
		{[]Part{{"<to", true}, {"ol>", false}}, []string{"<tool>"}},
		{nil, []string{}},
	} {
		if got := names(b, b.EncodeParts(c.parts, false)); !slices.Equal(got, c.want) {
			t.Errorf("%v: got %q, want %q", c.parts, got, c.want)
		}
	}
}

func TestControlTokensAddNoText(t *testing.T) {
	b := mustBPE(t, byteVocab("smollm"))
	ids := b.Encode("<|im_start|>hello<|im_end|>", true)
	if got := b.Decode(ids); got != "hello" {
		t.Errorf("Decode = %q, want hello", got)
	}
	if len(b.Bytes(0)) != 0 || b.Name(0) != "<|im_start|>" {
		t.Errorf("control token: Bytes %q, Name %q", b.Bytes(0), b.Name(0))
	}
	for _, id := range []int32{-1, int32(b.Size()), 1 << 30} {
		if len(b.Bytes(id)) != 0 || b.Name(id) != "" || b.IsEOG(id) {
			t.Errorf("id %d, which does not exist, has content", id)
		}
	}
	if !b.IsEOG(1) || b.IsEOG(0) || b.IsEOG(2) {
		t.Error("IsEOG must hold for <|im_end|> only")
	}
}

func TestUnknownBytesAreLeftOut(t *testing.T) {
	v := byteVocab("gpt-2")
	v.Tokens[3+0x04] = "unused-4" // the byte 4 has no token any more
	if got := mustBPE(t, v).Decode(mustBPE(t, v).Encode("a\x04b", false)); got != "ab" {
		t.Errorf("got %q, want ab", got)
	}
}

func TestComposed(t *testing.T) {
	marks := strings.Repeat("\u0301", 70)
	for text, want := range map[string]string{
		"e\u0301\xff": "é\xff", "a" + marks: "á" + marks[2:], "a\u034F\u0301": "a\u034F\u0301", "\u1100\u1161\u11a8": "각", "": "",
	} {
		if got := composed(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestWholeWordsBeforeMerges(t *testing.T) {
	v := byteVocab("llama-bpe")
	v.Tokens = append(v.Tokens, "xyz") // a token that no merge makes
	v.Types = append(v.Types, typeNormal)
	if got := mustBPE(t, v).Encode("xyz", false); !slices.Equal(got, []int32{int32(len(v.Tokens) - 1)}) {
		t.Errorf("llama-bpe: %v", got)
	}
	v.Pre = "qwen2"
	if got := mustBPE(t, v).Encode("xyz", false); len(got) != 3 {
		t.Errorf("qwen2: %v", got)
	}
}

func TestNewBPERefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Vocab)
		want   string
	}{
		"unknown pre-tokenizer": {func(v *Vocab) { v.Pre = "falcon" }, `"falcon"`},
		"no tokens":             {func(v *Vocab) { v.Tokens, v.Types = nil, nil }, "0 tokens"},
		"types too short":       {func(v *Vocab) { v.Types = v.Types[:5] }, "5 token types"},
		"unknown type":          {func(v *Vocab) { v.Types[7] = 9 }, "type 9"},
		"duplicate":             {func(v *Vocab) { v.Tokens[9] = v.Tokens[8] }, "same text"},
		"merge without space":   {func(v *Vocab) { v.Merges[0] = "he" }, "merge 0"},
		"merge of nothing":      {func(v *Vocab) { v.Merges[1] = "zz top" }, "merge 1"},
		"eos out of range":      {func(v *Vocab) { v.EOS = int32(len(v.Tokens)) }, "special token"},
		"negative bos":          {func(v *Vocab) { v.BOS = -2 }, "special token"},
	} {
		v := byteVocab("smollm")
		c.change(&v)
		if _, err := NewBPE(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

func TestFromMetadata(t *testing.T) {
	v := byteVocab("smollm")
	values := map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": v.Pre, "tokenizer.ggml.tokens": v.Tokens,
		"tokenizer.ggml.token_type": v.Types, "tokenizer.ggml.merges": v.Merges, "tokenizer.ggml.bos_token_id": uint32(0),
		"tokenizer.ggml.eos_token_id": uint32(1), "tokenizer.ggml.padding_token_id": uint32(1<<32 - 1),
		"tokenizer.ggml.eot_token_id": int64(2), "tokenizer.ggml.add_bos_token": true,
	}
	read := func() (Vocab, error) {
		return FromMetadata(func(k string) (any, bool) { x, ok := values[k]; return x, ok })
	}
	got, err := read()
	if err != nil || got.BOS != 0 || got.EOS != 1 || got.Pad != None || got.Unknown != None || !got.AddBOS || !slices.Equal(got.EOG, []int32{2}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for key, bad := range map[string]any{
		"model": "llama", "tokens": []int32{1}, "token_type": "x", "merges": 3, "bos_token_id": "1", "eos_token_id": int64(-7), "add_bos_token": 1, "pre": 2,
	} {
		good := values["tokenizer.ggml."+key]
		values["tokenizer.ggml."+key] = bad
		if _, err := read(); err == nil || !strings.Contains(err.Error(), "tokenizer") {
			t.Errorf("%s = %v: error %v", key, bad, err)
		}
		values["tokenizer.ggml."+key] = good
	}
}

type oracleCase struct {
	Text  string              `json:"text"`
	Words map[string][]string `json:"words"`
	IDs   []int32             `json:"smollm2_ids"`
}

func TestWordsEqualOracle(t *testing.T) {
	for _, c := range readJSON[[]oracleCase](t, "oracle.json") {
		for pre, want := range c.Words {
			if got := slices.Collect(preTokenizers()[pre].words(c.Text)); !slices.Equal(got, want) {
				t.Errorf("%s: %q:\n got  %q\n want %q", pre, c.Text, got, want)
			}
		}
	}
}

func TestCacheDoesNotChangeAnswers(t *testing.T) {
	b := mustBPE(t, byteVocab("gpt-2"))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 200 {
				if got := b.Encode("hello, hello", false); len(got) != 3 {
					t.Errorf("got %v", got)
				}
			}
		})
	}
	group.Wait()
	for i := range cacheWords + 10 { // one word more than fits, each another
		b.Encode("w"+string(rune(0x10000+i)), false)
	}
	if n := len(b.cache); n > cacheWords {
		t.Errorf("the cache holds %d words, more than its bound %d", n, cacheWords)
	}
}

// Hostile inputs: a quadratic scanner or merge would need minutes for these.
func TestLongInputsTakeLinearTime(t *testing.T) {
	for _, pre := range []string{"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "deepseek-v3", "default"} {
		b := mustBPE(t, byteVocab(pre))
		n := 1 << 17
		if pre == "gpt-2" {
			n = 1 << 20
		}
		for _, unit := range []string{"a", " ", "\n", " \n", "1", "'", "\u3000", "\xff", "<", "<|im_end|", "é", "ab ", " 1", "A", "中A", "\u0301A", "/", "-", "\x01"} {
			text := strings.Repeat(unit, n/len(unit))
			start := time.Now()
			b.Encode(text, true)
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("%s: %d bytes of %q took %s", pre, len(text), unit, d)
			}
		}
	}
}

func FuzzBPE(f *testing.F) {
	for _, s := range []string{"", "hello, hello", "a1 2\n\n b", "'s 'LL", "中文 é", "\xff\xc3", "<|im_end|><tool>", "\u3000\r\n ."} {
		f.Add(s)
	}
	var all []*BPE
	for pre := range preTokenizers() {
		all = append(all, mustBPE(f, byteVocab(pre)))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, b := range all {
			ids := b.Encode(text, false)
			var raw []byte
			for _, id := range ids {
				raw = append(raw, b.Bytes(id)...)
			}
			if string(raw) != text {
				t.Fatalf("bytes of the tokens of %q are %q", text, raw)
			}
			if got := b.Decode(ids); got != strings.ToValidUTF8(text, "\uFFFD") && utf8.ValidString(text) {
				t.Fatalf("Decode(Encode(%q)) = %q", text, got)
			}
			b.Encode(text, true)
		}
	})
}

func TestRandomMergesMatchReference(t *testing.T) {
	b := mustBPE(t, byteVocab("gpt-2"))
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		word := make([]byte, 1+rng.IntN(40))
		for i := range word {
			word[i] = "helo a123"[rng.IntN(9)]
		}
		got := b.appendMerged(nil, string(word))
		if want := referenceMerge(b, string(word)); !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", word, got, want)
		}
	}
}

// referenceMerge is the definition, in quadratic time.
func referenceMerge(b *BPE, word string) []int32 {
	var ids []int32
	for i := range len(word) {
		ids = append(ids, b.byteToken[word[i]])
	}
	for {
		best, at := merge{rank: 1 << 30}, -1
		for i := 0; i+1 < len(ids); i++ {
			if m, ok := b.merges[pair{ids[i], ids[i+1]}]; ok && m.rank < best.rank {
				best, at = m, i
			}
		}
		if at < 0 {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.id)
	}
}

func readJSON[T any](t testing.TB, name string) T {
	t.Helper()
	var v T
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(data, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}
