package tokenizer

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/testmodel"
)

func smolLM2(t testing.TB) *BPE {
	t.Helper()
	values := readMetadata(t, testmodel.Path(t, testmodel.SmolLM2))
	v, err := FromMetadata(func(key string) (any, bool) { x, ok := values[key]; return x, ok })
	if err != nil {
		t.Fatal(err)
	}
	return mustBPE(t, v)
}

func TestSmolLM2EqualsLlamaCpp(t *testing.T) {
	b := smolLM2(t)
	data := readJSON[struct {
		Prompts []struct {
			Name, Prompt string
			IDs          []int32
		}
		Strings []struct {
			Text  string
			IDs   []int32 `json:"ids"`
			Plain []int32 `json:"ids_plain"`
		}
	}](t, "llamacpp.json")
	if len(data.Prompts) < 5 || len(data.Strings) < 6 {
		t.Fatal("the reference data is not complete")
	}
	for _, c := range data.Prompts {
		if got := b.Encode(c.Prompt, true); !slices.Equal(got, c.IDs) {
			t.Errorf("prompt %s: got %v, want %v", c.Name, got, c.IDs)
		}
	}
	for _, c := range data.Strings {
		if got := b.Encode(c.Text, true); !slices.Equal(got, c.IDs) {
			t.Errorf("%q: got %v, want %v", c.Text, got, c.IDs)
		}
		if got := b.Encode(c.Text, false); !slices.Equal(got, c.Plain) {
			t.Errorf("%q plain: got %v, want %v", c.Text, got, c.Plain)
		}
		if got := b.Decode(c.Plain); got != c.Text {
			t.Errorf("Decode of %q gives %q", c.Text, got)
		}
	}
}

func TestSmolLM2EqualsOracle(t *testing.T) {
	b := smolLM2(t)
	for _, c := range readJSON[[]oracleCase](t, "oracle.json") {
		if got := b.Encode(c.Text, false); !slices.Equal(got, c.IDs) {
			t.Errorf("%q:\n got  %v\n want %v", c.Text, got, c.IDs)
		}
	}
}

func TestSmolLM2Facts(t *testing.T) {
	b := smolLM2(t)
	if bos, add := b.BOS(); b.Size() != 49152 || bos != 1 || add {
		t.Errorf("size %d, BOS %d, add %v", b.Size(), bos, add)
	}
	if !b.IsEOG(0) || !b.IsEOG(2) || b.IsEOG(1) {
		t.Error("<|endoftext|> and <|im_end|> end a generation, <|im_start|> does not")
	}
}

func TestSmolLM2RoundTrip(t *testing.T) {
	b := smolLM2(t)
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		var text strings.Builder
		for range rng.IntN(40) {
			text.WriteRune(anyRune(rng))
		}
		if got := b.Decode(b.Encode(text.String(), false)); got != text.String() {
			t.Fatalf("%q became %q", text.String(), got)
		}
	}
}

// anyRune draws a character for which SmolLM2 has the bytes: its vocabulary lacks six ASCII control characters and the lead bytes
// F1, F2 of unassigned planes.
func anyRune(rng *rand.Rand) rune {
	switch rng.IntN(4) {
	case 0:
		return ' ' + rng.Int32N(95)
	case 1:
		return 0xA0 + rng.Int32N(0x5000)
	case 2:
		return 0x5000 + rng.Int32N(0x8000)
	}
	return 0x10000 + rng.Int32N(0x30000)
}

func BenchmarkEncodeSmolLM2(b *testing.B) {
	bpe := smolLM2(b)
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, 13 times; 大模型推理平台。\n", 50)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		bpe.Encode(text, false)
	}
}
