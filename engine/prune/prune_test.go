package prune

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/internal/testmodel"
)

func target(t testing.TB) string { return filepath.Join(t.TempDir(), "pruned.gguf") }

func mustPrune(t testing.TB, in string, opt Options) (string, Report) {
	t.Helper()
	out := target(t)
	report, err := Prune(in, out, opt)
	must(t, err)
	return out, report
}

func distance(a, b []float32) float64 {
	worst := 0.0
	for i := range a {
		worst = max(worst, math.Abs(float64(a[i]-b[i])))
	}
	return worst
}

// zeroed has units that do nothing: heads 2 and 3 (the second group) and every channel but each third, whatever their other weights.
func zeroed(kind gguf.Type) *tiny {
	f := newTiny(kind)
	for i := range tinyLayers {
		m := &model{}
		for c := 2 * tinyHead; c < 4*tinyHead; c++ {
			f.tensors[m.name(i, "attn_output.weight")].zeroColumn(c)
		}
		for c := range tinyHidden {
			if c%3 != i {
				f.tensors[m.name(i, "ffn_down.weight")].zeroColumn(c)
			}
		}
	}
	return f
}

// Units that contribute exactly nothing can go without changing one bit of the result in formats that are copied, and within the
// rounding of the new format where columns are requantised.
func TestPruningNothingChangesNothing(t *testing.T) {
	tokens := []int{1, 7, 3, 39, 20, 7}
	for _, c := range []struct {
		kind  gguf.Type
		opt   Options
		bound float64
		to    map[string]string // what columns become
	}{
		{gguf.F32, Options{}, 0, map[string]string{}},
		{gguf.BF16, Options{}, 0, map[string]string{}},
		{gguf.F16, Options{}, 0, map[string]string{}},
		// 32 channels make whole blocks; heads of 16 share their blocks of 32 with a neighbour of the same group, so they are copied.
		{gguf.Q8_0, Options{}, 0.02, map[string]string{"ffn_down.weight": "q8_0"}},
		{gguf.Q4_0, Options{}, 0.02, map[string]string{"ffn_down.weight": "q8_0"}},
		{gguf.Q4_0, Options{SameFormat: true}, 0.4, map[string]string{"ffn_down.weight": "q4_0"}},
		{gguf.Q5_0, Options{FFN: 40}, 0.005, map[string]string{"ffn_down.weight": "f16"}},
	} {
		in := zeroed(c.kind).write(t)
		opt := c.opt
		opt.Heads = 4
		if opt.FFN == 0 {
			opt.FFN = 32
		}
		out, report := mustPrune(t, in, opt)
		if d := distance(forward(t, in, tokens, nil), forward(t, out, tokens, nil)); d > c.bound {
			t.Errorf("%v: the result changes by %g, allowed is %g", c.kind, d, c.bound)
		}
		if report.HeadsKept.Worst != 1 || report.FFNKept.Worst != 1 {
			t.Errorf("%v: not all importance was kept: %+v %+v", c.kind, report.HeadsKept, report.FFNKept)
		}
		if len(report.Requantised) != len(c.to)*tinyLayers {
			t.Errorf("%v: requantised %+v", c.kind, report.Requantised)
		}
		for _, r := range report.Requantised {
			if _, suffix, _ := splitName(r.Tensor); c.to[suffix] != r.To || r.From != strings.ToLower(c.kind.String()) {
				t.Errorf("%v: %+v", c.kind, r)
			}
		}
		if report.After.Heads != 4 || report.After.KVHeads != 2 || report.After.FFN != opt.FFN || report.After.Bytes >= report.Before.Bytes {
			t.Errorf("%v: %+v", c.kind, report)
		}
	}
}

// Leaving out what matters does change the result: the test above would notice a wrong choice.
func TestPruningSomethingChangesSomething(t *testing.T) {
	tokens := []int{1, 7, 3, 39, 20, 7}
	in := newTiny(gguf.F32).write(t)
	for _, opt := range []Options{{Heads: 4}, {FFN: 90}} {
		out, report := mustPrune(t, in, opt)
		if d := distance(forward(t, in, tokens, nil), forward(t, out, tokens, nil)); d < 0.01 {
			t.Errorf("%+v changed the result by %g only", opt, d)
		}
		if kept := min(report.HeadsKept.Worst, report.FFNKept.Worst); kept >= 1 || kept < 0.5 || report.Importance != "weights" {
			t.Errorf("%+v: kept %g by %s", opt, kept, report.Importance)
		}
	}
}

// With a calibration, what never fires goes first although its weights are the largest.
func TestCalibrationFindsSilentUnits(t *testing.T) {
	tokens := []int{1, 7, 3, 39, 20, 7, 11, 30}
	f := newTiny(gguf.F32)
	const silent = 48
	for i := range tinyLayers {
		m := &model{}
		// A gate of zero closes its channel for every token.
		gate, up := f.tensors[m.name(i, "ffn_gate.weight")], f.tensors[m.name(i, "ffn_up.weight")]
		for c := range silent {
			for j := range tinyDim {
				gate.v[c*tinyDim+j] = 0
				up.v[c*tinyDim+j] *= 10
			}
		}
		// Values of zero make a group of heads silent; its output columns are large.
		v, bias := f.tensors[m.name(i, "attn_v.weight")], f.tensors[m.name(i, "attn_v.bias")]
		out := f.tensors[m.name(i, "attn_output.weight")]
		for d := range tinyHead {
			clear(v.v[d*tinyDim : (d+1)*tinyDim])
			bias.v[d] = 0
		}
		for row := range tinyDim {
			for c := range 2 * tinyHead {
				out.v[row*out.cols+c] *= 10
			}
		}
	}
	in := f.write(t)
	im := NewImportance(tinyLayers)
	want := forward(t, in, tokens, im.Observe)
	opt := Options{Heads: 4, FFN: tinyHidden - silent, Importance: im}
	out, report := mustPrune(t, in, opt)
	if got := forward(t, out, tokens, nil); !slices.Equal(got, want) {
		t.Errorf("the result changes by %g", distance(got, want))
	}
	if report.Importance != "calibration" || report.FFNKept.Worst != 1 || report.HeadsKept.Worst != 1 {
		t.Errorf("%+v", report)
	}
	// One energy per head says the same here.
	for i := range im.Layers {
		per := make([]float64, tinyHeads)
		for j, e := range im.Layers[i].Attention {
			per[j/tinyHead] += e
		}
		im.Layers[i].Attention = per
	}
	out, _ = mustPrune(t, in, opt)
	if got := forward(t, out, tokens, nil); !slices.Equal(got, want) {
		t.Errorf("by heads the result changes by %g", distance(got, want))
	}
	// The opposite order changes the result: it is the calibration that decides.
	for i := range im.Layers {
		for _, energies := range [][]float64{im.Layers[i].Attention, im.Layers[i].FFN} {
			for j, e := range energies {
				energies[j] = 1 / (1e-3 + e)
			}
		}
	}
	out, _ = mustPrune(t, in, opt)
	if got := forward(t, out, tokens, nil); distance(got, want) < 0.01 {
		t.Error("the opposite calibration leaves the same units")
	}
}

// Without a calibration, channels whose gate and up point the same way stay, however small their rows are.
func TestWeightsKeepAlignedChannels(t *testing.T) {
	f := newTiny(gguf.F32)
	m := &model{}
	aligned := []int{5, 17, 90}
	for i := range tinyLayers {
		gate, up := f.tensors[m.name(i, "ffn_gate.weight")], f.tensors[m.name(i, "ffn_up.weight")]
		for _, c := range aligned {
			for j := range tinyDim {
				up.v[c*tinyDim+j] = -0.01 * gate.v[c*tinyDim+j]
			}
		}
	}
	in := f.write(t)
	out, _ := mustPrune(t, in, Options{FFN: 3})
	file, err := gguf.Open(out)
	must(t, err)
	defer file.Close()
	for i := range tinyLayers {
		got := load(t, file, m.name(i, "ffn_up.weight"))
		for j, c := range aligned {
			if want := f.tensors[m.name(i, "ffn_up.weight")].row(c); !slices.Equal(got.row(j), want) {
				t.Errorf("layer %d: channel %d is not kept in place %d", i, c, j)
			}
		}
	}
}

func TestWholeBlocks(t *testing.T) {
	for _, c := range []struct {
		indices  []int
		elements int
		want     bool
	}{
		{[]int{4, 9, 2}, 1, true},
		{[]int{0, 1, 6, 7}, 2, true},
		{[]int{0, 3, 6, 7}, 2, false}, // from two blocks
		{[]int{1, 2, 6, 7}, 2, false}, // across a border
		{[]int{0, 1, 2}, 2, false},    // part of a block
	} {
		if got := wholeBlocks(c.indices, c.elements); got != c.want {
			t.Errorf("%v by %d: %v", c.indices, c.elements, got)
		}
	}
}

func TestPruneIsDeterministicAndDescribesItself(t *testing.T) {
	in := newTiny(gguf.Q8_0).write(t)
	a, first := mustPrune(t, in, Options{Heads: 2, FFN: 64})
	b, second := mustPrune(t, in, Options{Heads: 2, FFN: 64})
	x, errX := os.ReadFile(a)
	y, errY := os.ReadFile(b)
	if must(t, errors.Join(errX, errY)); !bytes.Equal(x, y) || first.Digest != second.Digest {
		t.Error("two runs differ")
	}
	f, err := gguf.Open(a)
	must(t, err)
	defer f.Close()
	for key, want := range map[string]any{
		"llama.attention.head_count": uint32(2), "llama.attention.head_count_kv": uint32(1), "llama.feed_forward_length": uint32(64),
		"llama.attention.key_length": uint32(16), "llama.attention.value_length": uint32(16), "general.size_label": "0M", "sluice.prune.importance": "weights",
	} {
		if got, _ := f.Value(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if source, err := f.String("sluice.prune.source"); err != nil || !strings.HasPrefix(source, "sha256:") || first.Digest != f.Digest() {
		t.Error(source, err)
	}
}

func TestPruneMeasures(t *testing.T) {
	in, out := newTiny(gguf.F32).write(t), target(t)
	var seen []string
	report, err := Prune(in, out, Options{FFN: 64, Measure: func(path string) (float64, error) {
		seen = append(seen, path)
		return float64(10 * len(seen)), nil
	}})
	if err != nil || report.PerplexityBefore != 10 || report.PerplexityAfter != 20 || !slices.Equal(seen, []string{in, out}) {
		t.Errorf("%+v, %v, %v", report, seen, err)
	}
	broken := errors.New("no text")
	if _, err := Prune(in, out, Options{FFN: 64, Measure: func(string) (float64, error) { return 0, broken }}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestPruneRefuses(t *testing.T) {
	with := func(change func(f *tiny)) string { f := newTiny(gguf.F32); change(f); return f.write(t) }
	plain := with(func(*tiny) {})
	calibration := func(attention, ffn int) *Importance {
		im := NewImportance(tinyLayers)
		for i := range im.Layers {
			im.Layers[i] = LayerImportance{make([]float64, attention), make([]float64, ffn)}
		}
		return im
	}
	bad := calibration(tinyHeads, tinyHidden)
	bad.Layers[1].FFN[3] = math.NaN()
	for name, c := range map[string]struct {
		in   string
		opt  Options
		want string
	}{
		"part of a group":    {plain, Options{Heads: 3}, "ask for a multiple of 2 up to 6"},
		"more heads":         {plain, Options{Heads: 8}, "8 heads cannot be kept"},
		"negative heads":     {plain, Options{Heads: -2}, "-2 heads cannot be kept"},
		"more channels":      {plain, Options{FFN: 97}, "97 feed-forward channels"},
		"negative channels":  {plain, Options{FFN: -1}, "-1 feed-forward channels"},
		"nothing":            {plain, Options{}, "nothing is to be left out"},
		"all":                {plain, Options{Heads: 6, FFN: 96}, "nothing is to be left out"},
		"no file":            {plain + ".none", Options{FFN: 32}, "no such file"},
		"architecture":       {with(func(f *tiny) { f.arch = "mamba" }), Options{FFN: 32}, `architecture "mamba" cannot be pruned`},
		"experts":            {with(func(f *tiny) { f.add("blk.0.ffn_gate_exps.weight", matrix{2, 2, make([]float32, 4)}) }), Options{FFN: 32}, `"blk.0.ffn_gate_exps.weight" is not one`},
		"layer too many":     {with(func(f *tiny) { f.add("blk.2.ffn_down.bias", matrix{1, 2, make([]float32, 2)}) }), Options{FFN: 32}, `"blk.2.ffn_down.bias" is not one`},
		"missing layer":      {with(func(f *tiny) { f.extra["llama.block_count"] = uint32(3) }), Options{FFN: 32}, `no tensor "blk.2.attn_norm.weight"`},
		"layers":             {with(func(f *tiny) { f.extra["llama.block_count"] = uint64(1 << 62) }), Options{FFN: 32}, "out of range"},
		"heads per layer":    {with(func(f *tiny) { f.extra["llama.attention.head_count"] = []int32{6, 6} }), Options{FFN: 32}, "is not an integer"},
		"uneven groups":      {with(func(f *tiny) { f.extra["llama.attention.head_count_kv"] = uint32(4) }), Options{FFN: 32}, "do not divide"},
		"flat weights":       {with(func(f *tiny) { f.add("blk.0.ffn_down.weight", matrix{1, tinyHidden, make([]float32, tinyHidden)}) }), Options{FFN: 32}, "the model's numbers call for [96 32]"},
		"shape":              {with(func(f *tiny) { f.extra["llama.feed_forward_length"] = uint32(90) }), Options{FFN: 32}, "the model's numbers call for"},
		"calibration layers": {plain, Options{FFN: 32, Importance: NewImportance(3)}, "of 3 layers, the model has 2"},
		"calibration heads":  {plain, Options{FFN: 32, Importance: calibration(5, tinyHidden)}, "5 attention values"},
		"calibration empty":  {plain, Options{FFN: 32, Importance: NewImportance(2)}, "0 attention values"},
		"calibration NaN":    {plain, Options{FFN: 32, Importance: bad}, "energy NaN"},
		"weights NaN": {
			with(func(f *tiny) { f.tensors["blk.1.ffn_up.weight"].v[0] = float32(math.NaN()) }), Options{FFN: 32}, "not finite",
		},
	} {
		out := target(t)
		if _, err := Prune(c.in, out, c.opt); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: a file was written all the same", name)
		}
	}
	if _, err := Prune(plain, plain, Options{FFN: 32}); err == nil || !strings.Contains(err.Error(), "would be overwritten") {
		t.Error(err)
	}
}

// FuzzPrune: a model file with whatever numbers and damage is refused or becomes a file that opens and agrees with itself.
func FuzzPrune(f *testing.F) {
	data, err := os.ReadFile(newTiny(gguf.Q8_0).write(f))
	must(f, err)
	keys := []string{"head_count", "head_count_kv", "feed_forward_length", "block_count", "embedding_length", "key_length", "value_length"}
	f.Add(0, uint32(0), 0, byte(0), 4, 64)
	for i := range keys {
		for _, v := range []uint32{0, 1, 2, 3, 12, 32, 96, 1 << 24, math.MaxUint32} {
			f.Add(i, v, 0, byte(0), 2, 32)
		}
	}
	for at := range 60 {
		f.Add(-1, uint32(0), at*47, byte(1), 4, 33)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, key int, value uint32, at int, flip byte, heads, ffn int) {
		in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
		damaged := slices.Clone(data)
		if key >= 0 {
			// The value of a key follows its name and four bytes of type.
			name := []byte("." + keys[key%len(keys)] + "\x04\x00\x00\x00")
			if i := bytes.Index(damaged, name); i >= 0 {
				binary.LittleEndian.PutUint32(damaged[i+len(name):], value)
			}
		}
		damaged[(at%len(damaged)+len(damaged))%len(damaged)] ^= flip
		must(t, os.WriteFile(in, damaged, 0o600))
		report, err := Prune(in, out, Options{Heads: heads, FFN: ffn})
		if err == nil && (report.After.FFN > report.Before.FFN || report.After.Heads > report.Before.Heads || report.After.Parameters >= report.Before.Parameters) {
			t.Fatalf("%+v became %+v", report.Before, report.After)
		}
	})
}

// The real model gets smaller, its shapes agree with its numbers (Prune reads it back and checks every tensor), and rows that stay
// are the ones of the source, byte for byte.
func TestRealModel(t *testing.T) {
	if testing.Short() {
		t.Skip("rewrites 98 MB")
	}
	in := testmodel.Path(t, testmodel.SmolLM2)
	out, report := mustPrune(t, in, Options{Heads: 6, FFN: 1024})
	if report.After.Bytes >= report.Before.Bytes*86/100 || report.After.Parameters >= report.Before.Parameters*80/100 {
		t.Errorf("%+v became %+v", report.Before, report.After)
	}
	if report.HeadsKept.Worst < 0.4 || report.FFNKept.Worst < 0.5 || report.FFNKept.Mean > 1 {
		t.Errorf("shares %+v and %+v", report.HeadsKept, report.FFNKept)
	}
	// Heads of 64 are two blocks of 32: their columns are copied.
	if len(report.Requantised) != 30 || report.Requantised[0].Tensor != "blk.0.ffn_down.weight" || report.Requantised[0].To != "q8_0" {
		t.Errorf("requantised %d: %+v", len(report.Requantised), report.Requantised[0])
	}
	old, err := gguf.Open(in)
	must(t, err)
	defer old.Close()
	pruned, err := gguf.Open(out)
	must(t, err)
	defer pruned.Close()
	for _, suffix := range []string{"attn_q.weight", "attn_k.weight", "attn_v.weight", "ffn_up.weight", "ffn_gate.weight"} {
		a, errA := old.Tensor("blk.7." + suffix)
		b, errB := pruned.Tensor("blk.7." + suffix)
		must(t, errors.Join(errA, errB))
		at := 0
		for i := range b.Rows() {
			for at < a.Rows() && !bytes.Equal(a.Raw(at), b.Raw(i)) {
				at++
			}
		}
		if at >= a.Rows() {
			t.Errorf("%s: rows of the new file are not rows of the old in their order", suffix)
		}
	}
	for _, key := range []string{"tokenizer.ggml.tokens", "tokenizer.ggml.merges"} {
		x, errX := old.Strings(key)
		y, errY := pruned.Strings(key)
		if must(t, errors.Join(errX, errY)); !slices.Equal(x, y) {
			t.Errorf("%s differs", key)
		}
	}
}
