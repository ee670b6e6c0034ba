package graph

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// torchCase is one graph of testdata/torch.json with what PyTorch computes for it.
type torchCase struct {
	Name                string
	Graph               string
	Inputs, Weights     map[string]Tensor
	Positions, Sequence []int
	Want                Tensor
}

func torchCases(t *testing.T) []torchCase {
	t.Helper()
	text, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []torchCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// Every operation computes what PyTorch computes.
func TestEvalAgainstTorch(t *testing.T) {
	seen := map[Op]bool{}
	for _, c := range torchCases(t) {
		g, err := Parse(c.Graph)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		env := Env{Positions: c.Positions, Sequence: c.Sequence, Tensor: func(name string) (Rows, error) {
			w := c.Weights[name]
			if len(w.Shape) == 1 {
				return fileTensor{1, len(w.Data), w.Data}, nil
			}
			return fileTensor{w.Shape[0], len(w.Data) / w.Shape[0], w.Data}, nil
		}}
		got, err := Eval(g, c.Inputs, env)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		if err := closeTo([]Tensor{c.Want}, got, 2e-6); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		for _, n := range g.Nodes {
			seen[n.Op] = true
		}
	}
	for _, op := range allOps() {
		if !seen[op] && op != OpSelect && op != OpQuantize {
			t.Errorf("nothing tests %s", op)
		}
	}
}

func allOps() []Op {
	return []Op{
		OpEmbed, OpMatMul, OpRMSNorm, OpLayerNorm, OpRope, OpAttention, OpAct, OpGLU, OpAdd, OpMul, OpScale, OpSoftcap, OpSlice, OpSelect, OpPool, OpNormalize,
		OpSoftmax, OpQuantize, OpConv2D, OpBatchNorm, OpMaxPool2D, OpAvgPool2D, OpGlobalAvgPool,
	}
}

// A sequence fed token by token, or in pieces, with a cache gives what it gives at once.
func TestEvalWithCache(t *testing.T) {
	for seed := range 10 {
		s := decoder(t, rand.New(rand.NewPCG(uint64(seed), 2)))
		if seed%2 == 0 {
			if _, err := Optimize(s.g, plans(t)[3]); err != nil {
				t.Fatal(err)
			}
		}
		ids := s.inputs["tokens"].Ints
		all := make([]int32, len(ids))
		for i := range all {
			all[i] = int32(i)
		}
		s.inputs["rows"] = Tensor{Shape: []int{len(all)}, Ints: all}
		want := s.eval(t, s.g)[0]
		width := want.Shape[1]

		env, at := s.env, 0
		env.Cache = &Cache{}
		for _, size := range []int{1, 3, len(ids) - 4} {
			rows := all[:size]
			env.Positions, env.Sequence = s.env.Positions[at:at+size], s.env.Sequence[at:at+size]
			got, err := Eval(s.g, map[string]Tensor{
				"tokens": {Shape: []int{size}, Ints: ids[at : at+size]}, "rows": {Shape: []int{size}, Ints: rows},
			}, env)
			if err != nil {
				t.Fatal(err)
			}
			piece := Tensor{Shape: got[0].Shape, Data: want.Data[at*width : (at+size)*width]}
			if err := closeTo([]Tensor{piece}, got, 1e-6); err != nil {
				t.Fatalf("seed %d, tokens %d to %d: %v", seed, at, at+size, err)
			}
			at += size
		}
	}
}

// The hook for rounding sees the rows of quantise and of fused producers alike.
func TestEvalQuantize(t *testing.T) {
	s := decoder(t, rand.New(rand.NewPCG(4, 4)))
	if _, err := Optimize(s.g, plans(t)[1], "normquant"); err != nil {
		t.Fatal(err)
	}
	fused := s.g.Clone()
	if _, err := Optimize(fused, plans(t)[1]); err != nil {
		t.Fatal(err)
	}
	calls := 0
	s.env.Quantize = func(per string, row []float32) {
		calls++
		top := 0.0
		for _, v := range row {
			top = max(top, math.Abs(float64(v)))
		}
		for i, v := range row {
			row[i] = float32(math.Round(float64(v)/top*127) * top / 127)
		}
		if per != "row2" {
			t.Errorf("per %q", per)
		}
	}
	rounded, fusedRounded := s.eval(t, s.g), s.eval(t, fused)
	s.env.Quantize = nil
	if err := closeTo(rounded, fusedRounded, 1e-6); err != nil || calls == 0 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	if closeTo(rounded, s.eval(t, s.g), 1e-6) == nil {
		t.Fatal("rounding changed nothing")
	}
}

func TestEvalErrors(t *testing.T) {
	good := func() (map[string]Tensor, Env) {
		return map[string]Tensor{"tokens": {Shape: []int{2}, Ints: []int32{0, 99}}, "rows": {Shape: []int{1}, Ints: []int32{1}}},
			Env{Tensor: func(name string) (Rows, error) {
				if name == "norm.weight" {
					return newFileTensor(name, 1, 64), nil
				}
				return newFileTensor(name, 100, 64), nil
			}}
	}
	for want, change := range map[string]func(in map[string]Tensor, env *Env){
		"":                      func(map[string]Tensor, *Env) {},
		"input %rows is miss":   func(in map[string]Tensor, _ *Env) { delete(in, "rows") },
		"row 100 of token 0":    func(in map[string]Tensor, _ *Env) { in["tokens"].Ints[0] = 100 },
		"row -1 of token 0":     func(in map[string]Tensor, _ *Env) { in["tokens"].Ints[0] = -1 },
		"row 2 is not one of 2": func(in map[string]Tensor, _ *Env) { in["rows"].Ints[0] = 2 },
		"has 2 dimensions":      func(in map[string]Tensor, _ *Env) { in["rows"] = Tensor{Shape: []int{1, 1}, Ints: []int32{1}} },
		"has 3 elements":        func(in map[string]Tensor, _ *Env) { in["rows"] = Tensor{Shape: []int{1}, Ints: []int32{1, 2, 3}} },
		"wrong kind":            func(in map[string]Tensor, _ *Env) { in["rows"] = Tensor{Shape: []int{1}, Data: []float32{1}} },
		"T = 0 is outside":      func(in map[string]Tensor, _ *Env) { in["tokens"] = Tensor{Shape: []int{0}, Ints: []int32{}} },
		"1 positions":           func(_ map[string]Tensor, env *Env) { env.Positions = []int{0} },
		"sequence -1":           func(_ map[string]Tensor, env *Env) { env.Sequence = []int{0, -1} },
		"no tensor here": func(_ map[string]Tensor, env *Env) {
			env.Tensor = func(string) (Rows, error) { return nil, fmt.Errorf("no tensor here") }
		},
		"has 3 columns": func(_ map[string]Tensor, env *Env) {
			env.Tensor = func(string) (Rows, error) { return newFileTensor("", 100, 3), nil }
		},
		"has 7 rows": func(_ map[string]Tensor, env *Env) {
			env.Tensor = func(string) (Rows, error) { return newFileTensor("", 7, 64), nil }
		},
		"6400 elements": func(_ map[string]Tensor, env *Env) {
			env.Tensor = func(string) (Rows, error) { return newFileTensor("", 100, 64), nil }
		},
	} {
		in, env := good()
		change(in, &env)
		_, err := Eval(tinyGraph(t), in, env)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
