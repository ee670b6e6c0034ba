package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/testmodel"
)

const tinyVocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nhello\nworld\n##s\nwor\n##ld\n,\n中\nsep\n[\n]\n"

func tinyWordPiece(t testing.TB) *WordPiece {
	t.Helper()
	w := &WordPiece{
		ids: map[string]int32{}, prefix: "##", longest: 100, lowercase: true, stripAccents: true, chineseSpaces: true, cleanText: true,
	}
	for token := range strings.Lines(tinyVocab) {
		w.ids[strings.TrimSuffix(token, "\n")] = int32(len(w.ids))
	}
	if err := w.resolve("[UNK]"); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWordPiece(t *testing.T) {
	w := tinyWordPiece(t)
	for text, want := range map[string][]int32{
		"":                        {2, 3},
		"Hello, WORLDS":           {2, 4, 9, 5, 6, 3},
		"héllo":                   {2, 4, 3},
		"hello中world":             {2, 4, 10, 5, 3},
		"hellox":                  {2, 1, 3},
		"[SEP] [CLS]":             {2, 12, 11, 13, 12, 1, 13, 3},
		strings.Repeat("s", 101):  {2, 1, 3},
		" \t\u200b\x00\ufffd\n":   {2, 3},
		"world\u0301s\u00a0hello": {2, 5, 6, 4, 3},
	} {
		if got := w.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}

func TestReadWordPieceRefuses(t *testing.T) {
	const good = `{"normalizer":{"type":"BertNormalizer","lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[CLS]":1,"[SEP]":2}}}`
	if _, err := ReadWordPiece(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for old, change := range map[string]string{
		`"BertNormalizer"`: `"NFC"`, `"BertPreTokenizer"`: `"Metaspace"`, `"WordPiece"`: `"BPE"`, `"[SEP]":2`: `"x":2`, `[UNK]","`: `[U]","`,
		`"[CLS]":1`: `"[CLS]":9`, `"max_input_chars_per_word":100`: `"max_input_chars_per_word":0`, `}}}`: ``, `:2`: `:"2"`,
	} {
		if _, err := ReadWordPiece(strings.NewReader(strings.Replace(good, old, change, 1))); err == nil || !strings.Contains(err.Error(), "tokenizer") {
			t.Errorf("%s → %s: error %v", old, change, err)
		}
	}
}

func miniLM(t testing.TB) *WordPiece {
	t.Helper()
	f, err := os.Open(filepath.Join(testmodel.Path(t, testmodel.MiniLM), "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := ReadWordPiece(f)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestMiniLMEqualsOracle(t *testing.T) {
	w := miniLM(t)
	if w.Size() != 30522 {
		t.Errorf("size %d", w.Size())
	}
	for _, c := range readJSON[[]struct {
		Text string
		IDs  []int32 `json:"ids"`
	}](t, "wordpiece.json") {
		if got := w.Encode(c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q:\n got  %v\n want %v", c.Text, got, c.IDs)
		}
	}
}

func TestWordPieceTakesLinearTime(t *testing.T) {
	w := tinyWordPiece(t)
	for _, unit := range []string{"s", "hello", "中", "\u0301", " ", ",", "\xff", "wor"} {
		start := time.Now()
		w.Encode(strings.Repeat(unit, 1<<18/len(unit)))
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%q took %s", unit, d)
		}
	}
}

func FuzzWordPiece(f *testing.F) {
	w := tinyWordPiece(f)
	for _, s := range []string{"Hello, worlds", "中é\u0301[SEP]", "\xff\x00\u200b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := w.Encode(text)
		if len(ids) < 2 || ids[0] != w.cls || ids[len(ids)-1] != w.sep {
			t.Fatalf("%q: %v", text, ids)
		}
		for _, id := range ids[1 : len(ids)-1] {
			if id == w.cls || id == w.sep || int(id) >= w.Size() {
				t.Fatalf("%q: %v", text, ids)
			}
		}
	})
}
