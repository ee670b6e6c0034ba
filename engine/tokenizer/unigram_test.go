package tokenizer

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func unigramVocab() Vocab {
	v := Vocab{Model: "t5", BOS: 0, EOS: 2, Pad: 1, Unknown: 3, AddBOS: true, AddEOS: true, SpacePrefix: true, MergeSpaces: true}
	add := func(text string, score float32, kind int32) {
		v.Tokens, v.Scores, v.Types = append(v.Tokens, text), append(v.Scores, score), append(v.Types, kind)
	}
	add("<s>", 0, typeControl)
	add("<pad>", 0, typeControl)
	add("</s>", 0, typeControl)
	add("<unk>", 0, typeUnknown)
	for i, piece := range []string{"▁", "a", "b", "c", "ab", "bc", "abc", "▁a", "▁ab", "中", "文", "中文", "s", ">", "<", "/"} {
		add(piece, -1-float32(i)*0.375, typeNormal)
	}
	return v
}

func mustUnigram(t testing.TB, v Vocab) *Unigram {
	t.Helper()
	u, err := NewUnigram(v)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUnigram(t *testing.T) {
	v := unigramVocab()
	u := mustUnigram(t, v)
	for text, want := range map[string]string{
		"":           "<s> </s>",
		"  ":         "<s> </s>",
		"a":          "<s> ▁ a </s>",
		" a  b ":     "<s> ▁ a ▁ b </s>",
		"xyz":        "<s> ▁ <unk> </s>",
		"xaz":        "<s> ▁ <unk> a <unk> </s>",
		"</s>":       "<s> ▁ < / s > </s>",
		"中x\xff\xfe": "<s> ▁ 中 <unk> </s>",
	} {
		ids := u.Encode(text)
		out := make([]string, len(ids))
		for i, id := range ids {
			out[i] = v.Tokens[id]
		}
		if got := strings.Join(out, " "); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
	if u.Size() != len(v.Tokens) {
		t.Errorf("size %d", u.Size())
	}
}

// bestScore tries every way to cut a text.
func bestScore(scores map[string]float64, unknown float64, text string) float64 {
	if text == "" {
		return 0
	}
	best := math.Inf(-1)
	for n := 1; n <= len(text); n++ {
		score, ok := scores[text[:n]]
		if !ok && n == 1 {
			score, ok = unknown, true
		}
		if ok {
			best = max(best, score+bestScore(scores, unknown, text[n:]))
		}
	}
	return best
}

func TestUnigramFindsTheBestCut(t *testing.T) {
	v := unigramVocab()
	v.SpacePrefix = false
	rng := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		scores := map[string]float64{}
		for i := 4; i < len(v.Tokens); i++ {
			v.Scores[i] = -float32(rng.IntN(64)) / 4
			scores[v.Tokens[i]] = float64(v.Scores[i])
		}
		u := mustUnigram(t, v)
		for range 20 {
			text := make([]byte, 1+rng.IntN(12))
			for i := range text {
				text[i] = "abcd"[rng.IntN(4)]
			}
			// Neighbouring unknown characters make one token, so the sum is taken of the cut itself.
			got, at := 0.0, 0
			for _, id := range u.appendBest(nil, string(text)) {
				if id == u.unknown {
					for at < len(text) && text[at] == 'd' {
						got += u.unknownScore
						at++
					}
					continue
				}
				got += float64(v.Scores[id])
				at += len(v.Tokens[id])
			}
			if want := bestScore(scores, u.unknownScore, string(text)); got != want || at != len(text) {
				t.Fatalf("%q: the cut has the score %v, the best %v", text, got, want)
			}
		}
	}
}

// Of equal sums the one found first wins, as in llama.cpp and the Hugging Face tokenizers: the piece that begins furthest left.
func TestUnigramBreaksTies(t *testing.T) {
	v := unigramVocab()
	v.Tokens, v.Scores, v.Types = append(v.Tokens, "aa"), append(v.Scores, 2*v.Scores[5]), append(v.Types, typeNormal)
	v.SpacePrefix = false
	aa := int32(len(v.Tokens) - 1)
	if got := mustUnigram(t, v).Encode("aaa"); !slices.Equal(got, []int32{0, 5, aa, 2}) && !slices.Equal(got, []int32{0, aa, 5, 2}) {
		t.Errorf("got %v", got)
	}
	if got := mustUnigram(t, v).Encode("aa"); !slices.Equal(got, []int32{0, aa, 2}) {
		t.Errorf("got %v", got)
	}
}

func TestNewUnigramRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Vocab)
		want   string
	}{
		"no unknown":   {func(v *Vocab) { v.Unknown = None }, "unknown token"},
		"scores":       {func(v *Vocab) { v.Scores = nil }, "0 scores"},
		"infinite":     {func(v *Vocab) { v.Scores[5] = float32(math.Inf(1)) }, "finite"},
		"duplicate":    {func(v *Vocab) { v.Tokens[9] = v.Tokens[8] }, "same text"},
		"charsmap":     {func(v *Vocab) { v.Charsmap = []byte{1, 2} }, "2 bytes"},
		"charsmap end": {func(v *Vocab) { v.Charsmap = []byte{4, 0, 0, 0, 1, 2, 3, 4, 'x'} }, "has no end"},
		"charsmap len": {func(v *Vocab) { v.Charsmap = []byte{255, 255, 255, 255, 1} }, "4294967295"},
		"other":        {func(v *Vocab) { v.Model = "gpt2" }, `"gpt2"`},
	} {
		v := unigramVocab()
		c.change(&v)
		if _, err := NewEncoder(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
}

// smallCharsmap is the one of testdata/small.
func smallCharsmap(t testing.TB) []byte {
	t.Helper()
	data, ok := readMetadata(t, "testdata/small/xlmr.gguf")["tokenizer.ggml.precompiled_charsmap"].([]byte)
	if !ok || len(data) < 100 {
		t.Fatalf("%d bytes", len(data))
	}
	return data
}

func TestCharsmap(t *testing.T) {
	m, err := readCharsmap(smallCharsmap(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"ﬁ x": "fi x", "\u3000": " ", "e\u0301e": "ée", "\u1100\u1161\u11a8": "각", "a\u007fb": "ab", "½": "1⁄2", "\xffa": "\uFFFDa", "": "", "\u1100": "\u1100",
	} {
		if got := string(m.normalize(nil, text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

func TestUnigramTakesLinearTime(t *testing.T) {
	v := unigramVocab()
	v.Charsmap = smallCharsmap(t)
	u := mustUnigram(t, v)
	for _, unit := range []string{"a", "abc", " ", "a ", "中文", "\xff", "▁", "\u1100", "\u1100\u1161", "\u007f", "e\u0301", "½"} {
		start := time.Now()
		u.Encode(strings.Repeat(unit, 1<<20/len(unit)))
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%q took %s", unit, d)
		}
	}
}

// A map that sends every search in circles, and one that points far outside.
func FuzzCharsmap(f *testing.F) {
	f.Add(smallCharsmap(f), "ﬁ e\u0301 \u1100\u1161\u11a8")
	f.Add([]byte{4, 0, 0, 0, 255, 255, 255, 127, 0}, "abc")
	loop := binary.LittleEndian.AppendUint32(nil, 4*256)
	for c := range uint32(256) {
		loop = binary.LittleEndian.AppendUint32(loop, c|1<<8)
	}
	f.Add(append(loop, 'x', 0), "aaaa")
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		m, err := readCharsmap(data)
		if err != nil || m == nil {
			return
		}
		for i := range text {
			replacement, n := m.find(text[i:])
			if n < 0 || n > len(text)-i || len(replacement) > len(data) {
				t.Fatalf("%q: %d bytes replaced by %d", text[i:], n, len(replacement))
			}
		}
	})
}

func FuzzUnigram(f *testing.F) {
	for _, s := range []string{"abc 中文", "</s>", "\xff x\u3000", "▁a▁"} {
		f.Add(s)
	}
	v := unigramVocab()
	v.Charsmap = smallCharsmap(f)
	u := mustUnigram(f, v)
	f.Fuzz(func(t *testing.T, text string) {
		ids := u.Encode(text)
		if len(ids) < 2 || ids[0] != 0 || ids[len(ids)-1] != 2 {
			t.Fatalf("%q: %v", text, ids)
		}
		if slices.ContainsFunc(ids[1:len(ids)-1], func(id int32) bool { return id < 3 || int(id) >= u.Size() }) {
			t.Fatalf("%q: %v", text, ids)
		}
	})
}
