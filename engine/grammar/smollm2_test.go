package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/tokenizer"
	"github.com/sluice-project/sluice/internal/testmodel"
)

func smolTokenizer(t testing.TB) tokenizer.Tokenizer {
	t.Helper()
	f, err := gguf.Open(testmodel.Path(t, testmodel.SmolLM2))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := tokenizer.FromMetadata(f.Value)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func vocabularyOf(tok tokenizer.Tokenizer) *Vocabulary {
	var eog []int32
	for id := range int32(tok.Size()) {
		if tok.IsEOG(id) {
			eog = append(eog, id)
		}
	}
	return NewVocabulary(tok.Bytes, tok.Size(), eog)
}

// jsonNodes are the parts of JSON that schemas need.
type jsonNodes struct {
	b                       *Builder
	str, num, ws, any, bool Node
}

func newJSON(b *Builder) *jsonNodes {
	j := &jsonNodes{b: b}
	j.str = b.Rule("string")
	s, _ := b.Regex(`"([^"\\\x00-\x1f\x7f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"`)
	b.Define(j.str, s)
	j.num, _ = b.Regex(`-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)
	j.ws, _ = b.Regex(`[ \n]?`)
	j.bool = b.Or(b.Literal("true"), b.Literal("false"))
	j.any = b.Rule("value")
	b.Define(j.any, b.Or(j.str, j.num, j.bool, b.Literal("null"), j.array(j.any, 0, -1), j.object(j.any)))
	return j
}

func (j *jsonNodes) list(item Node, lo, hi int) Node {
	comma := j.b.Seq(j.ws, j.b.Literal(","), j.ws)
	more := hi
	if hi > 0 {
		more--
	}
	n := j.b.Seq(item, j.b.Repeat(j.b.Seq(comma, item), max(0, lo-1), more))
	if lo == 0 {
		n = j.b.Repeat(n, 0, 1)
	}
	return n
}

func (j *jsonNodes) array(item Node, lo, hi int) Node {
	return j.b.Seq(j.b.Literal("["), j.ws, j.list(item, lo, hi), j.ws, j.b.Literal("]"))
}

func (j *jsonNodes) object(value Node) Node {
	pair := j.b.Seq(j.str, j.ws, j.b.Literal(":"), j.ws, value)
	return j.b.Seq(j.b.Literal("{"), j.ws, j.list(pair, 0, -1), j.ws, j.b.Literal("}"))
}

// record is an object with properties in order, the last of them optional.
func (j *jsonNodes) record(fields ...any) Node {
	parts := []Node{j.b.Literal("{"), j.ws}
	for i := 0; i < len(fields); i += 2 {
		p := j.b.Seq(j.b.Literal(fmt.Sprintf("%q", fields[i])), j.ws, j.b.Literal(":"), j.ws, fields[i+1].(Node))
		switch i {
		case 0:
			parts = append(parts, p)
		case len(fields) - 2:
			parts = append(parts, j.b.Repeat(j.b.Seq(j.ws, j.b.Literal(","), j.ws, p), 0, 1))
		default:
			parts = append(parts, j.ws, j.b.Literal(","), j.ws, p)
		}
	}
	return j.b.Seq(append(parts, j.ws, j.b.Literal("}"))...)
}

// schemaGrammar is like what a JSON schema of a business document becomes.
func schemaGrammar(t testing.TB) *Grammar {
	t.Helper()
	b := NewBuilder(Limits{})
	j := newJSON(b)
	char := Alternate(NotChars(Range{'"', '"'}, Range{'\\', '\\'}, Range{0, 0x1f}, Range{0x7f, 0x7f}),
		Concat(Text(`\`), Chars(Range{'"', '"'}, Range{'\\', '\\'}, Range{'n', 'n'}, Range{'t', 't'})))
	short := b.Lexeme(Concat(Text(`"`), Times(char, 1, 40), Text(`"`)))
	long := b.Lexeme(Concat(Text(`"`), Times(char, 0, 2000), Text(`"`)))
	date, _ := b.Regex(`"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"`)
	enum := b.Or(b.Literal(`"open"`), b.Literal(`"in progress"`), b.Literal(`"closed"`), b.Literal(`"cancelled"`))
	item := j.record("name", short, "description", long, "amount", j.num, "count", b.Lexeme(Alternate(Text("0"), Concat(Chars(Range{'1', '9'}), Times(Chars(Range{'0', '9'}), 0, 3)))), "note", j.str)
	root := j.record("id", j.str, "title", short, "summary", long, "status", enum, "created", date, "urgent", j.bool,
		"items", j.array(item, 1, 20), "tags", j.array(j.str, 0, 10), "extra", j.any)
	g, err := b.Build(root)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

var document = `{"id": "INV-2024-00017", "title": "Wartung der Klimaanlage, 大楼 B", "summary": "The technician replaced two filters and measured the flow; the second unit needs a new fan before summer.\nA quote was sent to the customer on Monday, and they answered \"yes\" within an hour.", "status": "in progress", "created": "2024-06-30", "urgent": false,
"items": [{"name": "filter F7, 592 × 592", "description": "pleated filter with a plastic frame", "amount": 49.90, "count": 2, "note": "in stock"},
{"name": "fan motor", "description": "EC motor 230 V, 1.2 kW, with bearings and mounting kit", "amount": 1.249e3, "count": 1}], "tags": ["hvac", "second quarter", "building-b"], "extra": {"floor": 3, "rooms": ["3.01", "3.02"], "reviewed": true, "by": null}}`

// timings follows tokens through g and takes the time of each Mask.
func timings(t testing.TB, g *Grammar, v *Vocabulary, ids []int32) []time.Duration {
	t.Helper()
	m := g.Matcher(v)
	mask := make([]uint64, v.Words())
	var took []time.Duration
	for i, id := range ids {
		begin := time.Now()
		err := m.Mask(mask)
		took = append(took, time.Since(begin))
		if err != nil {
			t.Fatal(err)
		}
		if mask[id>>6]>>(id&63)&1 == 0 {
			t.Fatalf("token %d %q is not allowed", i, tokenText(v, id))
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Done() {
		t.Fatal("the text is complete, but the matcher is not done")
	}
	return took
}

func quantile(took []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[int(q*float64(len(sorted)-1))]
}

// BenchmarkMask takes the time of every mask of a document: with a new grammar each time (cold: everything is computed for the first
// time), and with one that has seen it (warm).
func BenchmarkMask(b *testing.B) {
	tok := smolTokenizer(b)
	v := vocabularyOf(tok)
	ids := tok.Encode(document, false)
	b.Run("cold", func(b *testing.B) {
		var took []time.Duration
		for b.Loop() {
			g := schemaGrammar(b)
			if err := g.Fit(v); err != nil {
				b.Fatal(err)
			}
			took = append(took, timings(b, g, v, ids)...)
		}
		report(b, took, len(ids))
	})
	b.Run("warm", func(b *testing.B) {
		g := schemaGrammar(b)
		timings(b, g, v, ids)
		var took []time.Duration
		for b.Loop() {
			took = append(took, timings(b, g, v, ids)...)
		}
		report(b, took, len(ids))
	})
	b.Run("random", func(b *testing.B) {
		g := schemaGrammar(b)
		var took []time.Duration
		r := rand.New(rand.NewPCG(1, 1))
		for b.Loop() {
			took = append(took, randomWalk(b, g, v, r, 300)...)
		}
		report(b, took, 300)
	})
}

func report(b *testing.B, took []time.Duration, tokens int) {
	b.ReportMetric(float64(quantile(took, 0.5).Nanoseconds())/1e3, "median-µs")
	b.ReportMetric(float64(quantile(took, 0.99).Nanoseconds())/1e3, "p99-µs")
	b.ReportMetric(float64(quantile(took, 1).Nanoseconds())/1e3, "max-µs")
	b.ReportMetric(float64(tokens), "tokens")
}

// randomWalk takes any allowed token, at most n.
func randomWalk(t testing.TB, g *Grammar, v *Vocabulary, r *rand.Rand, n int) []time.Duration {
	m := g.Matcher(v)
	mask := make([]uint64, v.Words())
	var took []time.Duration
	for range n {
		begin := time.Now()
		err := m.Mask(mask)
		took = append(took, time.Since(begin))
		if err != nil {
			t.Fatal(err)
		}
		id, ok := pick(mask, r)
		if !ok {
			t.Fatal("no token is allowed")
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
		if m.Done() {
			break
		}
	}
	return took
}

func pick(mask []uint64, r *rand.Rand) (int32, bool) {
	n := onesCount(mask)
	if n == 0 {
		return 0, false
	}
	k, out := r.IntN(n), int32(0)
	eachBit(mask, func(i int32) {
		if k == 0 {
			out = i
		}
		k--
	})
	return out, true
}

func BenchmarkNewVocabulary(b *testing.B) {
	tok := smolTokenizer(b)
	for b.Loop() {
		vocabularyOf(tok)
	}
}

// TestSmolLM2Document follows a document, spelt as the tokenizer spells it, with the real vocabulary: every token is allowed, and
// masks are what Allows says.
func TestSmolLM2Document(t *testing.T) {
	tok := smolTokenizer(t)
	v := vocabularyOf(tok)
	if v.Size() != 49152 || v.units.all {
		t.Fatalf("%d tokens; SmolLM2 lacks some bytes: %v", v.Size(), !v.units.all)
	}
	g := schemaGrammar(t)
	ids := tok.Encode(document, false)
	timings(t, g, v, ids)
	m := g.Matcher(v)
	for i, id := range ids {
		if i%9 == 0 {
			checkMask(t, i, m, v)
		}
		if err := m.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	mask := checkMask(t, "the end", m, v)
	if onesCount(mask) != 2 || !has(mask, 0) || !has(mask, 2) {
		t.Error("behind a complete document only the two tokens that end it are allowed")
	}
}

// TestSmolLM2RandomTexts takes random tokens: the masks equal what Allows says, and texts reach their end.
func TestSmolLM2RandomTexts(t *testing.T) {
	v := vocabularyOf(smolTokenizer(t))
	r := rand.New(rand.NewPCG(12, 12))
	for _, text := range []string{
		`root ::= "\"" [^"\\\x00-\x1f]{0,12} "\""`, `root ::= [a-z ]{3,9} ("." | "!")`, `root ::= ([^\n]{1,30} "\n"){2}`, `root ::= "<" .{0,6} "大" .{0,3} ">"`,
		`root ::= ([A-Za-z0-9_]+ "@" [a-z]+ ".com" ", "?){1,4}`, mathGBNF, jsonGBNF,
	} {
		g, err := ParseGBNF(text, Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m := g.Matcher(v)
			for range 8 {
				id, ok := pick(checkMask(t, text, m, v), r)
				if !ok {
					t.Fatalf("%s: no token is allowed", text)
				}
				if err := m.Accept(id); err != nil {
					t.Fatal(err)
				}
				if m.Done() {
					break
				}
			}
		}
	}
}

// TestMaskIsFast compares a median with how long it takes to look at every token: a machine's load changes both.
func TestMaskIsFast(t *testing.T) {
	if testing.Short() {
		t.Skip("measures times: seconds of them")
	}
	tok := smolTokenizer(t)
	v := vocabularyOf(tok)
	ids := tok.Encode(document, false)
	g := schemaGrammar(t)
	cold := timings(t, g, v, ids)
	mask := make([]uint64, v.Words())
	begin := time.Now()
	m := g.Matcher(v)
	for id := range int32(v.Size()) {
		if m.Allows(id) {
			mask[id>>6] |= 1 << (id & 63)
		}
	}
	plain := time.Since(begin)
	t.Logf("a mask by asking of every token: %v; median %v, 99 %%: %v, most %v", plain, quantile(cold, 0.5), quantile(cold, 0.99), quantile(cold, 1))
	if quantile(cold, 0.5) > plain/50 || quantile(cold, 0.5) > 100*time.Microsecond {
		t.Errorf("the median is %v", quantile(cold, 0.5))
	}
}
