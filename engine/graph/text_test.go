package graph

import (
	"reflect"
	"strings"
	"testing"
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

func TestRoundTripTiny(t *testing.T) {
	g := tinyGraph(t)
	back, err := Parse(g.String())
	if err != nil {
		t.Fatalf("%v\n%s", err, g)
	}
	if !reflect.DeepEqual(g, back) {
		t.Fatalf("differs:\n%s\n%s", g, back)
	}
	if !strings.Contains(g.String(), `weight @output.weight : f32[100, 64] class=head stored=q8_0 parts=[token_embd.weight]`) {
		t.Fatal(g)
	}
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
