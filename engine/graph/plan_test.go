package graph

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// memory is arenas in which every 64 bytes know which value was written there last.
type memory map[string][]*Value

func newMemory(p *Plan, n int) memory {
	m := memory{}
	for _, a := range p.Arenas {
		m[a.Symbol] = make([]*Value, a.RowBytes*n/64)
	}
	return m
}

func (m memory) cells(b Buffer, n int) []*Value {
	return m[b.Symbol][b.Offset*n/64 : (b.Offset+b.RowBytes)*n/64]
}

// run replays a plan for n rows of every symbol and reports an operand that was overwritten before its last use.
func (m memory) run(p *Plan, n int) error {
	read := func(v *Value, b Buffer) error {
		if v.Weight != nil || slices.Contains(p.Graph.Inputs, v) {
			if b != (Buffer{}) {
				return fmt.Errorf("%s has a buffer", v.ref())
			}
			return nil
		}
		if b.RowBytes < max(1, v.Type.Cols())*v.Type.Shape[0].N {
			return fmt.Errorf("%s has too small a buffer", v.ref())
		}
		for _, c := range m.cells(b, n) {
			if c != v {
				return fmt.Errorf("%s was overwritten", v.ref())
			}
		}
		return nil
	}
	for i, s := range p.Steps {
		for j, v := range s.Node.In {
			if err := read(v, s.In[j]); err != nil {
				return fmt.Errorf("step %d reads: %w", i, err)
			}
			overlap := s.In[j].Symbol == s.Out.Symbol && s.In[j].Offset < s.Out.Offset+s.Out.RowBytes && s.Out.Offset < s.In[j].Offset+s.In[j].RowBytes
			twice := slices.Contains(s.Node.In[j+1:], v) || slices.Contains(s.Node.In[:j], v)
			if overlap && (s.In[j] != s.Out || twice || !slices.ContainsFunc(s.Node.inPlace(), func(name string) bool { return s.Node.Operand(name) == v })) {
				return fmt.Errorf("step %d writes over its operand %s", i, v.ref())
			}
		}
		for c := range m.cells(s.Out, n) {
			m.cells(s.Out, n)[c] = s.Node.Out
		}
	}
	for i, v := range p.Graph.Outputs {
		if err := read(v, p.Outputs[i]); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// peak is the least memory any plan needs: the most bytes that are alive at one step, without in-place.
func peak(g *Graph, symbol string) int {
	last, most := lastUses(g), 0
	for i := range g.Nodes {
		now := 0
		for j, n := range g.Nodes[:i+1] {
			b, _ := bufferOf(n.Out)
			if b.Symbol == symbol && (j == i || last[n.Out] >= i) {
				now += b.RowBytes
			}
		}
		most = max(most, now)
	}
	return most
}

// No plan of any graph, optimised or not, overwrites what is still needed, and reuse keeps arenas near the least possible.
func TestPlanKeepsLiveValues(t *testing.T) {
	eachSample(t, 30, func(t *testing.T, s *sample) {
		graphs := []*Graph{s.g}
		for _, precision := range plans(t) {
			g := s.g.Clone()
			if _, err := Optimize(g, precision); err != nil {
				t.Fatal(err)
			}
			graphs = append(graphs, g)
		}
		for _, g := range graphs {
			p, err := NewPlan(g)
			if err != nil {
				t.Error(err)
				return
			}
			for _, n := range []int{1, 3} {
				if err := newMemory(p, n).run(p, n); err != nil {
					t.Errorf("%v\n%s", err, p)
				}
			}
			if err := p.Check(); err != nil {
				t.Error(err)
			}
			for _, a := range p.Arenas {
				if least := peak(g, a.Symbol); a.RowBytes > least+least/2 {
					t.Errorf("arena %q takes %d bytes where %d are alive at once\n%s", a.Symbol, a.RowBytes, least, p)
				}
			}
		}
	})
}

// Check finds what a wrong plan would overwrite: every change of one place that memory objects to, and no other.
func TestPlanCheckAgreesWithMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	wrong := 0
	for seed := range 300 {
		s := scattered(t, rand.New(rand.NewPCG(uint64(seed%10), 9)))
		p, err := NewPlan(s.g)
		if err != nil {
			t.Fatal(err)
		}
		move(p, r)
		simulated, checked := newMemory(p, 2).run(p, 2), p.Check()
		if (simulated == nil) != (checked == nil) {
			t.Fatalf("memory says %v, Check says %v\n%s", simulated, checked, p)
		}
		if checked != nil {
			wrong++
		}
	}
	if wrong < 50 || wrong > 290 {
		t.Fatalf("%d of 300 changes were wrong; the test wants both kinds", wrong)
	}
}

// move puts one value elsewhere in its arena, for its producer and all its readers.
func move(p *Plan, r *rand.Rand) {
	i := r.IntN(len(p.Steps))
	v, b := p.Steps[i].Node.Out, p.Steps[i].Out
	for _, a := range p.Arenas {
		if a.Symbol == b.Symbol {
			b.Offset = r.IntN((a.RowBytes-b.RowBytes)/64+1) * 64
		}
	}
	p.Steps[i].Out = b
	for _, s := range p.Steps {
		for j := range s.In {
			if s.Node.In[j] == v {
				s.In[j] = b
			}
		}
	}
	for j, o := range p.Graph.Outputs {
		if o == v {
			p.Outputs[j] = b
		}
	}
}

func TestPlanCheckRefuses(t *testing.T) {
	changes := map[string]func(p *Plan){
		"is not node":        func(p *Plan) { p.Steps[0], p.Steps[1] = p.Steps[1], p.Steps[0] },
		"steps for":          func(p *Plan) { p.Steps = p.Steps[1:] },
		"outside the arena":  func(p *Plan) { p.Arenas[0].RowBytes -= 64 },
		"does not fit":       func(p *Plan) { p.Steps[0].Out.RowBytes -= 64 },
		"is not in":          func(p *Plan) { p.Steps[1].In[0].Offset += 64 },
		"not in an arena":    func(p *Plan) { p.Steps[0].In[0].RowBytes = 64 },
		"output: %logits is": func(p *Plan) { p.Outputs[0].Offset += 64 },
	}
	for want, change := range changes {
		p, err := NewPlan(tinyGraph(t))
		if err != nil {
			t.Fatal(err)
		}
		change(p)
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestPlanText(t *testing.T) {
	text, err := os.ReadFile("testdata/passes/all.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "-- after --\n")
	after, _, _ = strings.Cut(after, "\n}\n")
	g, err := Parse(after + "\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPlan(g)
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/plan.txt"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(p.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || p.String() != string(want) {
		t.Fatalf("%v: the plan is\n%s", err, p)
	}
}

func TestPlanRowBytes(t *testing.T) {
	for _, c := range []struct {
		elem Elem
		cols int
		want int
	}{{F32, 576, 2304}, {F32, 1, 64}, {F32, 17, 128}, {Q8B, 576, 896}, {Q8B, 32, 64}, {Q8R, 576, 640}, {Q8R, 32, 64}} {
		got := rowBytes(Type{c.elem, []Dim{{Tokens, 1}, Size(c.cols)}})
		if got != c.want {
			t.Errorf("%s of %d columns: %d bytes, want %d", c.elem, c.cols, got, c.want)
		}
	}
}

func TestPlanRefusesSymbolicRows(t *testing.T) {
	g, err := Parse("graph g {\nsymbol T in 1..4\ninput %x : f32[2, T, 8]\n%y = act(%x) {fn=\"relu\"}\nreturn %y\n}")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPlan(g); err == nil || !strings.Contains(err.Error(), "act %y") {
		t.Fatalf("error %v", err)
	}
}

// A large model must not take noticeable time to optimise: it happens while a user waits for the first token.
func BenchmarkOptimize(b *testing.B) {
	m := newModeller(rand.New(rand.NewPCG(5, 5)), "large")
	m.postNorm, m.headNorm = true, true
	tok := m.Symbol(Tokens, 1, 64)
	x := m.Add(OpEmbed, "x0", nil, m.Input("tokens", I32, tok), m.matrix("embd", ClassEmbed, 50, m.dim))
	for m.layer = range 48 {
		at := func(name string) string { return fmt.Sprintf("blk.%d.%s", m.layer, name) }
		x = m.add(at("x1"), x, m.norm(at("p"), m.attention(m.norm(at("n1"), x, at("attn_norm")), true), at("pn")))
		x = m.add(at("x2"), x, m.norm(at("p2"), m.ffn(m.norm(at("n2"), x, at("ffn_norm")), true), at("pn2")))
	}
	g, err := m.Graph(x)
	if err != nil {
		b.Fatal(err)
	}
	p := plans(b)[0]
	for b.Loop() {
		c := g.Clone()
		if _, err := Optimize(c, p); err != nil {
			b.Fatal(err)
		}
		if _, err := NewPlan(c); err != nil {
			b.Fatal(err)
		}
	}
}
