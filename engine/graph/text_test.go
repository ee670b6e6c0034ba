package graph

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func tinyGraph(t testing.TB) *Graph {
	t.Helper()
	b := NewBuilder("tiny")
	tok, rows := b.Symbol(Tokens, 1, 8192), b.Symbol(Wanted, 0, 8192)
	ids, want := b.Input("tokens", I32, tok), b.Input("rows", I32, rows)
	emb := b.Weight("token_embd.weight", ClassEmbed, "q8_0", 100, 64)
	x := b.Add(OpEmbed, "x0", A{"scale": 2}, ids, emb)
	n := b.Add(OpRMSNorm, "n0", A{"eps": 1e-5}, x, b.Weight("norm.weight", ClassNorm, "f32", 64))
	l := b.Add(OpMatMul, "logits", nil, b.Add(OpSelect, "sel", nil, n, want), b.Tied("output.weight", ClassHead, emb))
	g, err := b.Graph(l)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func roundTrip(t testing.TB, g *Graph) {
	t.Helper()
	back, err := Parse(g.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	if !reflect.DeepEqual(g, back) {
		t.Fatalf("differs:\n%s\n%s", g, back)
	}
}

func TestRoundTrip(t *testing.T) {
	g := tinyGraph(t)
	roundTrip(t, g)
	if !strings.Contains(g.String(), `weight @output.weight : f32[100, 64] class=head stored=q8_0 parts=[token_embd.weight]`) {
		t.Fatal(g)
	}
	eachSample(t, 40, func(t *testing.T, s *sample) {
		roundTrip(t, s.g)
		if !reflect.DeepEqual(s.g, s.g.Clone()) {
			t.Error("the clone differs")
		}
	})
}

// Names and numbers of every kind survive.
func TestRoundTripStrange(t *testing.T) {
	b := NewBuilder("a graph of \"strange\" names\n")
	b.Symbol("0 tokens", 0, 1<<31)
	x := b.Input("x,y]#", F32, Dim{"0 tokens", 3}, Size(4))
	w := b.Weight("模型.0.weight", ClassOther, "Q4_K (odd)", 4)
	w.Weight.Parts = []string{"a b", "", "\xff\x00", "model.layers.0.self_attn.q_proj.weight"}
	c := b.Const("7", ClassOther, []float32{math.MaxFloat32, math.SmallestNonzeroFloat32, -0.1, float32(math.Inf(-1))}, 4)
	y := b.Add(OpAdd, "%", nil, x, w)
	for _, by := range []float64{1e-300, 0.1, 100000, -1e300, 1 << 60, math.Copysign(0, -1)} {
		y = b.Add(OpScale, y.Name+"'", A{"by": by}, y)
	}
	g, err := b.Graph(b.Add(OpMul, "out", nil, y, c))
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, g)
}

func TestParseErrors(t *testing.T) {
	const head = "graph g {\n  symbol T in 1..8\n  input %x : f32[T, 64]\n  weight @w : f32[32, 64] class=ffn\n"
	for _, c := range []struct{ text, want string }{
		{"", "ends inside"},
		{"grph g {", `line 1: expected "graph"`},
		{"graph g", `line 1: expected "{" at the end of the line`},
		{"graph g {\n  symbol T in 5..3\n  input %x : f32[T]\n return %x\n}", "symbol \"T\": range 5..3"},
		{"graph g {\n  symbol T in 1.8\n", `line 2: expected ".."`},
		{"graph g {\n  symbol T in x\n", "line 2: expected a whole number"},
		{"graph g {\n  symbol T in 99999999999999999999..1\n", "line 2: expected a whole number"},
		{head + "  input %x : f32[T]\n", "line 5: x is defined twice"},
		{head + "  weight @x : f32[2] class=ffn\n", "line 5: x is defined twice"},
		{head + "  weight @v : f32[2] class=nothing\n  return %x\n}", `@v: unknown class "nothing"`},
		{head + "  weight @v : f32[2] colour=red\n", `line 5: unknown property "colour"`},
		{head + "  weight @v : f32[2] class=ffn data=[1, x]\n", `line 5: "x" is not a number`},
		{head + "  weight @v : f32[2] class=ffn data=[1]\n return %x\n}", "has 1 numbers"},
		{head + "  weight @v : f32[T] class=ffn\n  return %x\n}", "weights have constant shapes"},
		{head + "  weight @v : q8b[64] class=ffn\n  return %x\n}", "not stored as q8b"},
		{head + "  input %z : f33[2]\n", `line 5: unknown element type "f33"`},
		{head + "  input %z : q8b[2]\n  return %x\n}", "inputs are f32 or i32"},
		{head + "  input %z : f32[]\n", "line 5: expected a name"},
		{head + "  input %z : f32[0]\n", "line 5: dimension 0"},
		{head + "  input %z : f32[4000000000]\n", "line 5: dimension 0"},
		{head + "  input %z : f32[2000000000, 2000000000]\n", "line 5: f32[2000000000, 2000000000] has more than"},
		{head + "  input %z : f32[Q]\n  return %x\n}", "symbol Q is not declared"},
		{head + "  %y = think(%x)\n", `line 5: unknown operation "think"`},
		{head + "  %y = act(%z) {fn=\"relu\"}\n", "line 5: z is not defined"},
		{head + "  %y = act(@x) {fn=\"relu\"}\n", "line 5: x is not defined"},
		{head + "  %y = matmul(%x, %w)\n", "line 5: w is not defined"},
		{head + "  %y = matmul(%x, %x)\n", "operand w (%x) must be a weight"},
		{head + "  %y = matmul(%x)\n", "line 5: matmul %y: has 1 operands, needs 2: [x w]"},
		{head + "  %y = matmul(%x, @w) {bias=true}\n", "needs 3: [x w bias]"},
		{head + "  %y = matmul(%x, @w, %x) {residual=true}\n", "operand residual (%x) is f32[T, 64], the result is f32[T, 32]"},
		{head + "  %y = matmul(%x, @w) {eps=1}\n", `line 5: unknown attribute "eps"; matmul has: bias, residual`},
		{head + "  %y = matmul(%x, @w) : f32[T, 64]\n", "line 5: matmul %y: is declared as f32[T, 64] but is f32[T, 32]"},
		{head + "  %y = matmul(%x, @w) {bias=yes}\n", `"yes" is not true or false`},
		{head + "  %y = matmul(%x, @w)) \n", "line 5: expected the end of the line"},
		{head + "  %y = act(%x)\n", "attribute fn is missing"},
		{head + "  %y = act(%x) {fn=\"swish\"}\n", "attribute fn is swish, not one of: silu"},
		{head + "  %y = act(%x) {fn=relu}\n", "line 5: expected a quoted text"},
		{head + "  %y = act(%x) {fn=\"relu\", fn=\"relu\"}\n", "line 5: attribute fn is given twice"},
		{head + "  %y = slice(%x) {from=1.5, to=3}\n", `"1.5" is not an integer`},
		{head + "  %y = slice(%x) {from=3, to=3}\n", "cannot take columns 3 to 3"},
		{head + "  %y = slice(%x) {from=3, to=65}\n", "cannot take columns 3 to 65"},
		{head + "  %y = slice(%x) {from=-1, to=3}\n", "attribute from is -1"},
		{head + "  %y = scale(%x) {by=NaN}\n", "attribute by is NaN"},
		{head + "  %y = scale(%x) {by=1e999}\n", `"1e999" is not a number`},
		{head + "  %y = softcap(%x) {by=0}\n", "attribute by is 0"},
		{head + "  %y = rope(%x) {heads=3, dim=16, rotated=16, rope=\"neox\", rope_base=10}\n", "3 heads of 16 columns are not the 64 columns"},
		{head + "  %y = rope(%x) {heads=4, dim=16, rotated=18, rope=\"neox\", rope_base=10}\n", "rotated is 18"},
		{head + "  %y = attention(%x, %x, %x) {layer=0, heads=3, kv=2, dim=16, scale=1}\n", "2 key-value heads do not divide 3"},
		{head + "  %y = attention(%x, %x, %x) {layer=0, heads=4, kv=2, dim=16, scale=1}\n", "operand k (%x) is f32[T, 64], not 32"},
		{head + "  %y = attention(%x) {layer=0, heads=2, kv=1, dim=16, scale=1, packed=true, rope_base=1}\n", "rope_base needs the attribute rope"},
		{head + "  %y = attention(%x) {layer=0, heads=2, kv=1, dim=16, scale=1, packed=true, rope=\"neox\"}\n", "rotated is missing"},
		{head + "  weight @n : f32[16] class=norm\n  %y = attention(%x, @n) {layer=0, heads=2, kv=1, dim=16, scale=1, packed=true, qnorm=true}\n", "eps is missing"},
		{head + "  %y = quantize(%x) {per=\"row\"}\n  %z = matmul(%y, @w)\n", "weights in f32 (@w) read f32"},
		{head + "  weight @q : q4[8, 64] class=ffn\n  %y = matmul(%x, @q)\n", "weights in q4 (@q) read q8b"},
		{head + "  %y = pool(%x) {kind=\"mean\"}\n  return %y\n}", "symbol S is not declared"},
		{head + "  %y = attention(%x) {layer=0, heads=2, kv=1, dim=16, scale=1, packed=true, causal=true}\n" +
			"  %z = attention(%x) {layer=0, heads=2, kv=1, dim=16, scale=1, packed=true, causal=true}\n  return %z\n}", "layer 0 already belongs to %y"},
		{head + "  return %y\n}", "line 5: y is not defined"},
		{head + "  return @w\n}", "the weight @w is returned"},
		{head + "  return\n}", "line 5: expected a value"},
		{head + "  return %x\n  %y = act(%x) {fn=\"relu\"}\n", `line 6: expected "}"`},
		{head + "  return %x\n}\nmore", "line 7: expected nothing after"},
		{head + "  return %x\n", "line 5: the text ends inside the graph"},
		{head + "  whatever\n", `line 5: unknown keyword "whatever"`},
		{head + "  !\n", "line 5: expected symbol, input, weight, return or a value"},
	} {
		_, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n  error %v\n  want  %s", c.text, err, c.want)
		}
	}
}

func TestBuilderErrors(t *testing.T) {
	for want, build := range map[string]func(b *Builder, x *Value) *Value{
		"rmsnorm %y: attribute eps is missing": func(b *Builder, x *Value) *Value {
			return b.Add(OpRMSNorm, "y", nil, x, b.Weight("w", ClassNorm, "", 8))
		},
		"operand w (@w) is f32[9], not f32[8]": func(b *Builder, x *Value) *Value {
			y := b.Add(OpRMSNorm, "y", A{"eps": 1}, x, b.Weight("w", ClassNorm, "", 9))
			return b.Add(OpRMSNorm, "z", nil, y) // the first mistake is kept
		},
		"act %x: the name is taken": func(b *Builder, x *Value) *Value { return b.Add(OpAct, "x", A{"fn": "relu"}, x) },
		"operand x is nil":          func(b *Builder, _ *Value) *Value { return b.Add(OpAct, "y", A{"fn": "relu"}, nil) },
		"name belongs to @w f32[8]": func(b *Builder, x *Value) *Value {
			b.Weight("w", ClassNorm, "", 8)
			b.Weight("w", ClassNorm, "", 9)
			return x
		},
		"tied to something that is not a weight": func(b *Builder, x *Value) *Value { return b.Tied("t", ClassHead, x) },
		"an output is nil":                       func(*Builder, *Value) *Value { return nil },
		"%x is defined twice":                    func(b *Builder, x *Value) *Value { return b.Input("x", F32, Size(2)) },
		"T is declared twice": func(b *Builder, x *Value) *Value {
			b.Symbol("T", 1, 2)
			return x
		},
		"by must be a float64, not string many": func(b *Builder, x *Value) *Value { return b.Add(OpScale, "y", A{"by": "many"}, x) },
		`unknown operation "x"`:                 func(b *Builder, x *Value) *Value { return b.Add("x", "y", A{"by": 1}, x) },
		"@c is f32[3] but has 2 numbers": func(b *Builder, x *Value) *Value {
			return b.Add(OpAdd, "y", nil, b.Add(OpSlice, "s", A{"from": 0, "to": 3}, x), b.Const("c", ClassBias, []float32{1, 2}, 3))
		},
	} {
		b := NewBuilder("g")
		x := b.Input("x", F32, b.Symbol(Tokens, 1, 8), Size(8))
		if _, err := b.Graph(build(b, x)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// A graph that was put together by hand is checked as well as one from a builder.
func TestCheckErrors(t *testing.T) {
	for want, change := range map[string]func(g *Graph){
		"not defined before it is used":     func(g *Graph) { g.Nodes[0], g.Nodes[1] = g.Nodes[1], g.Nodes[0] },
		"has no result":                     func(g *Graph) { g.Nodes[0].Out = nil },
		"an operand is nil":                 func(g *Graph) { g.Nodes[0].In[0] = nil },
		"has no name":                       func(g *Graph) { g.Nodes[0].Out.Name = "" },
		"nothing is returned":               func(g *Graph) { g.Outputs = nil },
		"not in order of the keys":          func(g *Graph) { g.Nodes[1].Attrs = Attrs{{"groups", 1}, {"eps", 1e-5}} },
		"eps must be a float64":             func(g *Graph) { g.Nodes[1].Attrs = Attrs{{"eps", 1}} },
		"declared as f32[T, 63]":            func(g *Graph) { g.Nodes[0].Out.Type.Shape[1].N = 63 },
		"the result is a weight":            func(g *Graph) { g.Nodes[0].Out.Weight = &Weight{} },
		"input @tokens is a weight":         func(g *Graph) { g.Inputs[0].Weight = &Weight{} },
		"listed as a weight but":            func(g *Graph) { g.Weights[0].Weight = nil },
		"needs either parts":                func(g *Graph) { g.Weights[0].Weight.Parts = nil },
		"a returned value is not defined":   func(g *Graph) { g.Outputs[0] = &Value{Name: "logits"} },
		"@token_embd.weight is not defined": func(g *Graph) { g.Weights = g.Weights[1:] },
	} {
		g := tinyGraph(t)
		change(g)
		err := g.Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestNewPrecisionErrors(t *testing.T) {
	for want, c := range map[string]struct {
		plan      string
		overrides map[string]string
	}{
		`unknown precision plan "int4"`: {plan: "int4"},
		`class "tail"`:                  {overrides: map[string]string{"tail": "f16"}},
		`"q4k" of class ffn`:            {overrides: map[string]string{"ffn": "q4k"}},
	} {
		if _, err := NewPrecision(c.plan, c.overrides); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Optimize(tinyGraph(t), Precision{Default: "q5"}); err == nil || !strings.Contains(err.Error(), `"q5"`) {
		t.Errorf("error %v", err)
	}
}

func TestPrecisionOverrides(t *testing.T) {
	p, err := NewPrecision("int8", map[string]string{"head": "i8", "attention": "native", "embed": "q8"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		class  Class
		stored string
		cols   int
		want   Elem
	}{
		{ClassHead, "q8_0", 64, "i8"},
		{ClassFFN, "q8_0", 64, "i8"},
		{ClassAttention, "q5_1", 64, "q5"},
		{ClassEmbed, "f16", 64, "q8"},
		{ClassOther, "f32", 64, F16},
		{ClassAttention, "Q6_K", 512, "q6k"},
		{ClassAttention, "q6_k", 128, F16},
		{ClassFFN, "f32", 48, F16},
	} {
		w := &Value{Name: "w", Type: Type{F32, []Dim{Size(8), Size(c.cols)}}, Weight: &Weight{Class: c.class, Stored: c.stored}}
		if got, _ := p.Format(w); got != c.want {
			t.Errorf("%s stored as %s with %d columns: %s, want %s", c.class, c.stored, c.cols, got, c.want)
		}
	}
}

// passGraphs are the graphs of the pass tests, before and after.
func passGraphs(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/passes/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	var graphs []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "-- before --\n")
		before, after, _ := strings.Cut(rest, "-- after --\n")
		graph, _, _ := strings.Cut(after, "\n}\n")
		graphs = append(graphs, before, graph+"\n}\n")
	}
	return graphs
}

// tryText demands that any text is read in time and memory that its length bounds, that what is read prints as something that reads back the same, and that
// passes and plans work on it. It says whether the text was a graph.
func tryText(t *testing.T, text string, precision Precision) bool {
	begin := time.Now()
	g, err := Parse(text)
	if took := time.Since(begin); took > time.Second+time.Duration(len(text))*20*time.Microsecond {
		t.Fatalf("%d bytes took %v", len(text), took)
	}
	if err != nil {
		return false
	}
	again, err := Parse(g.String())
	if err != nil || again.String() != g.String() {
		t.Fatalf("%v\n%s", err, g)
	}
	if _, err := NewPlan(g); err != nil && !strings.Contains(err.Error(), "cannot be laid out") {
		t.Fatalf("%v\n%s", err, g)
	}
	if _, err := Optimize(g, precision); err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	p, err := NewPlan(g)
	if err != nil {
		return true
	}
	if err := p.Check(); err != nil {
		t.Fatalf("%v\n%s", err, p)
	}
	return true
}

func mixed(t testing.TB) Precision {
	p, err := NewPrecision("native", map[string]string{"ffn": "i8"})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Graphs that differ from sensible ones in a few words or lines: many are graphs still, of shapes that nobody would build.
func TestParseNearMisses(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	words := []*regexp.Regexp{regexp.MustCompile(`%[A-Za-z0-9_.]+`), regexp.MustCompile(`@[A-Za-z0-9_.]+`), regexp.MustCompile(`\b[0-9]+\b`), regexp.MustCompile(`\b[a-z][a-z0-9_]*\b`)}
	types := regexp.MustCompile(`(?m)^(  %.*) : [a-z0-9]+\[.*$`) // inferred when left out, so that more of the texts make sense
	texts, read := passGraphs(t), 0
	for i := range texts {
		texts[i] = types.ReplaceAllString(texts[i], "$1")
	}
	for range 6000 {
		text := pick(r, texts...)
		for range 1 + r.IntN(2) {
			found := pick(r, words...).FindAllStringIndex(text, -1) // a word takes the place of one of its kind
			if len(found) == 0 {
				continue
			}
			a, b := pick(r, found...), pick(r, found...)
			text = text[:a[0]] + text[b[0]:b[1]] + text[a[1]:]
		}
		if r.IntN(4) == 0 {
			lines := strings.SplitAfter(text, "\n")
			i := 1 + r.IntN(len(lines)-2)
			lines[i], lines[i-1] = lines[i-1], lines[i]
			text = strings.Join(lines, "")
		}
		if tryText(t, text, mixed(t)) {
			read++
		}
	}
	if read < 800 {
		t.Fatalf("only %d of the texts were graphs", read)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range passGraphs(f) {
		f.Add(text)
	}
	f.Add("graph \"\" {\n symbol T in 0..0\n input %\"a b\" : f32[2*T, 1] # c\n return %\"a b\"\n}")
	precision := mixed(f)
	f.Fuzz(func(t *testing.T, text string) { tryText(t, text, precision) })
}
