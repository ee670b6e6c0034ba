package lexical_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/lexical"
)

// writeText returns a text of a small vocabulary with a few frequent and many rare words, and at times Chinese.
func writeText(rng *rand.Rand) string {
	var s strings.Builder
	for range rng.IntN(30) {
		if rng.IntN(4) == 0 {
			s.WriteRune(rune(0x4e00 + int(rng.ExpFloat64()*8)))
			continue
		}
		s.WriteByte(' ')
		for n := int(rng.ExpFloat64() * 20); ; n /= 20 {
			s.WriteByte(byte('a' + n%20))
			if n < 20 {
				break
			}
		}
		s.WriteByte(' ')
	}
	return s.String()
}

// counted is a document as the oracle sees it.
type counted struct {
	terms  map[string]float64
	length float64
}

func count(text string) counted {
	tokens := lexical.Tokens(text)
	d := counted{map[string]float64{}, float64(len(tokens))}
	for _, t := range tokens {
		d.terms[t]++
	}
	return d
}

// naive is BM25 as the formula has it, over every document.
func naive(query string, docs map[uint32]counted) (out []lexical.Hit) {
	frequency, total := map[string]float64{}, 0.0
	asked := count(query).terms
	for _, d := range docs {
		total += d.length
		for t := range asked {
			if d.terms[t] > 0 {
				frequency[t]++
			}
		}
	}
	average, size := max(1, total/max(1, float64(len(docs)))), float64(len(docs))
	for id, d := range docs {
		score := 0.0
		for t, times := range asked {
			if tf := d.terms[t]; tf > 0 {
				weight := times * math.Log(1+(size-frequency[t]+0.5)/(frequency[t]+0.5))
				score += math.Floor(weight*(tf*1.9/(tf+0.9*(0.6+0.4*d.length/average)))*(1<<42) + 0.5)
			}
		}
		if score > 0 {
			out = append(out, lexical.Hit{ID: id, Score: score / (1 << 42)})
		}
	}
	slices.SortFunc(out, func(a, b lexical.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out
}

func build(t testing.TB, docs map[uint32]string) []byte {
	t.Helper()
	ids := make([]uint32, 0, len(docs))
	for id := range docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var b lexical.Builder
	for _, id := range ids {
		if err := b.Add(id, docs[id]); err != nil {
			t.Fatal(err)
		}
	}
	if b.Len() != len(docs) {
		t.Fatalf("%d documents, want %d", b.Len(), len(docs))
	}
	return b.Build()
}

func open(t testing.TB, data []byte) *lexical.Segment {
	t.Helper()
	s, err := lexical.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEqualsExhaustive compares with the formula over every document: the same documents, the same scores to the last bit, the same order
// among equals; whatever is allowed, however the documents lie in segments, and however few are asked for.
func TestEqualsExhaustive(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 25))
	for round, size := range []int{1, 1, 40, 40, 700, 700, 2000, 2000, 20_000} {
		parts, texts := make([]map[uint32]string, 1+rng.IntN(3)), map[uint32]counted{}
		for i := range parts {
			parts[i] = map[uint32]string{}
		}
		id := rng.Uint32N(1000)
		for range size {
			text := writeText(rng)
			parts[rng.IntN(len(parts))][id] = text
			texts[id] = count(text)
			if id++; rng.IntN(10) == 0 {
				id += rng.Uint32N(5)
			}
		}
		segments := make([]*lexical.Segment, len(parts))
		for i, docs := range parts {
			segments[i] = open(t, build(t, docs))
		}
		for _, share := range []float64{1, 0.999, 0.6, 0.1, 0.002} {
			allowed, visible := roaring.New(), map[uint32]counted{}
			for id, text := range texts {
				if rng.Float64() < share {
					allowed.Add(id)
					visible[id] = text
				}
			}
			var asked []lexical.Part
			for _, s := range segments {
				asked = append(asked, lexical.Part{Segment: s, Allowed: allowed})
			}
			for range 2 {
				query := writeText(rng) + writeText(rng)
				ranking, err := lexical.Rank(lexical.Parse(query), asked)
				if err != nil {
					t.Fatal(err)
				}
				full := naive(query, visible)
				for _, n := range []int{1, 10, 200, size + 1} {
					got, err := ranking.Best(n)
					if want := full[:min(n, len(full))]; err != nil || len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
						t.Fatalf("round %d, share %v, %d of %d: got %.5v, want %.5v, %v", round, share, n, size, got[:min(3, len(got))], want[:min(3, len(want))], err)
					}
				}
				scores := map[uint32]float64{}
				for _, h := range full {
					scores[h.ID] = h.Score
				}
				ids, want := []uint32{id + 5}, []float64{0}
				for id := range texts {
					if len(ids) < 50 {
						ids, want = append(ids, id), append(want, scores[id])
					}
				}
				if got, err := ranking.Scores(ids); err != nil || !slices.Equal(got, want) {
					t.Fatalf("scores %v, want %v, %v", got, want, err)
				}
			}
		}
	}
}

// TestBasesKeepPartsApart: documents of parts with the same ids are told apart by the bases.
func TestBasesKeepPartsApart(t *testing.T) {
	t.Parallel()
	a, b := open(t, build(t, map[uint32]string{0: "red fox", 1: "blue"})), open(t, build(t, map[uint32]string{0: "blue", 1: "red"}))
	ranking, err := lexical.Rank(lexical.Parse("red"), []lexical.Part{{Segment: a, Allowed: all(2)}, {Segment: b, Allowed: all(2), Base: 100}})
	if err != nil {
		t.Fatal(err)
	}
	hits, err := ranking.Best(9)
	if err != nil || len(hits) != 2 || hits[0].ID != 101 || hits[1].ID != 0 {
		t.Errorf("got %v, %v", hits, err)
	}
	if got, err := ranking.Scores([]uint32{101, 100, 0, 1}); err != nil || got[0] != hits[0].Score || got[1] != 0 || got[2] != hits[1].Score || got[3] != 0 {
		t.Errorf("scores %v, %v, %v", got, hits, err)
	}
	if terms := ranking.Terms(); len(terms) != 1 || terms[0].Text != "red" || math.Abs(terms[0].Weight-math.Log(2)) > 1e-12 {
		t.Errorf("terms %v", terms)
	}
}

// TestMergeEqualsBuild: what is merged without its texts has the bytes of what is built from them, also after documents were left out and
// renumbered.
func TestMergeEqualsBuild(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 20 {
		var sources []lexical.Source
		want := map[uint32]string{}
		shift := uint32(0)
		interleaved := rng.IntN(2) == 0
		for i := range uint32(3) {
			docs, kept := map[uint32]string{}, map[uint32]uint32{}
			for id := range uint32(300) {
				docs[id] = writeText(rng)
				if rng.IntN(3) == 0 {
					continue
				}
				kept[id] = shift + id
				if interleaved {
					kept[id] = 3*id + i
				}
				want[kept[id]] = docs[id]
			}
			shift += 300
			sources = append(sources, lexical.Source{Segment: open(t, build(t, docs)), Renumber: func(id uint32) (uint32, bool) {
				n, ok := kept[id]
				return n, ok
			}})
		}
		got, err := lexical.Merge(sources...)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, build(t, want)) {
			t.Fatal("the merged segment is another one than that of the texts")
		}
		if docs := open(t, got).Docs(); docs.GetCardinality() != uint64(len(want)) {
			t.Fatalf("%d documents, want %d", docs.GetCardinality(), len(want))
		}
	}
	s := open(t, build(t, map[uint32]string{1: "a", 2: "b"}))
	if _, err := lexical.Merge(lexical.Source{Segment: s}, lexical.Source{Segment: s}); err == nil {
		t.Error("two documents got one id")
	}
	if _, err := lexical.Merge(lexical.Source{Segment: s, Renumber: func(id uint32) (uint32, bool) { return 5 - id, true }}); err == nil {
		t.Error("the order changed")
	}
	if _, err := lexical.Merge(lexical.Source{Segment: s, Renumber: func(id uint32) (uint32, bool) { return id * lexical.MaxSpan, true }}); err == nil {
		t.Error("the span is too large")
	}
	if data, err := lexical.Merge(); err != nil || open(t, data).Len() != 0 {
		t.Errorf("nothing merged is no empty segment: %v", err)
	}
}

func TestBuilderRefuses(t *testing.T) {
	t.Parallel()
	var b lexical.Builder
	if err := b.Add(7, "seven"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint32{7, 6, 0, 7 + lexical.MaxSpan} {
		if err := b.Add(id, "x"); err == nil {
			t.Errorf("%d may follow 7", id)
		}
	}
	if err := b.Add(6+lexical.MaxSpan, "x"); err != nil || b.Len() != 2 {
		t.Errorf("%v, %d documents", err, b.Len())
	}
}

// TestHighestID: builder, merge and open agree on the highest id.
func TestHighestID(t *testing.T) {
	t.Parallel()
	var b lexical.Builder
	if err := b.Add(lexical.MaxID-1, "one"); err != nil {
		t.Fatal(err)
	}
	if err := b.Add(lexical.MaxID, "two"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint32{lexical.MaxID + 1, lexical.MaxID, lexical.MaxID - 1, 0} {
		if err := b.Add(id, "three"); err == nil {
			t.Errorf("%d may follow the highest", id)
		}
	}
	var above lexical.Builder
	if err := above.Add(lexical.MaxID+1, "x"); err == nil || above.Len() != 0 {
		t.Errorf("%v, %d documents", err, above.Len())
	}
	if err := above.Add(3, "x"); err != nil {
		t.Error(err)
	}
	data := b.Build()
	merged, err := lexical.Merge(lexical.Source{Segment: open(t, data)})
	if err != nil || !bytes.Equal(merged, data) {
		t.Errorf("merged: %v", err)
	}
	beyond := bytes.Clone(data[:len(data)-4])
	binary.LittleEndian.PutUint32(beyond[16:], lexical.MaxID)
	if _, err := lexical.Open(seal(beyond)); !errors.Is(err, lexical.ErrSegment) {
		t.Errorf("a segment beyond the highest id: %v", err)
	}
}

// TestLongQueriesDoNotOverflow: characters that NFKC makes six of, any number of them, find the one passage that has them.
func TestLongQueriesDoNotOverflow(t *testing.T) {
	t.Parallel()
	const docs = 9000
	var b lexical.Builder
	for id := range uint32(docs) {
		text := "a b c d e f g h i j k"
		if id == 17 {
			text = "キロメートル"
		}
		if err := b.Add(id, text); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, b.Build())
	parts := []lexical.Part{{Segment: s, Allowed: s.Docs()}}
	ranking, err := lexical.Rank(lexical.Parse(strings.Repeat("㌖", 32<<10)), parts)
	if err != nil {
		t.Fatal(err)
	}
	hits, err := ranking.Best(10)
	if err != nil {
		t.Fatal(err)
	}
	if len(hits) != 1 || hits[0].ID != 17 || hits[0].Score <= 0 {
		t.Errorf("found %v", hits)
	}
	// More words than a query may have: those after are left out.
	var long strings.Builder
	for i := range 3 * lexical.MaxTerms {
		fmt.Fprintf(&long, "w%d ", i)
	}
	if ranking, err = lexical.Rank(lexical.Parse(long.String()), parts); err != nil {
		t.Fatal(err)
	}
	if terms := ranking.Terms(); len(terms) != lexical.MaxTerms {
		t.Errorf("%d terms", len(terms))
	}
}

// TestOpenRefusesTornBytes cuts a segment everywhere and flips each of its bytes.
func TestOpenRefusesTornBytes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	docs := map[uint32]string{}
	for id := range uint32(300) {
		docs[id] = writeText(rng)
	}
	data := build(t, docs)
	for n := range data {
		if _, err := lexical.Open(data[:n]); !errors.Is(err, lexical.ErrSegment) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		changed := bytes.Clone(data)
		changed[n] ^= 1 << (n % 8)
		if _, err := lexical.Open(changed); !errors.Is(err, lexical.ErrSegment) {
			t.Fatalf("flipped at %d: %v", n, err)
		}
	}
	if _, err := lexical.Open(append(bytes.Clone(data), 0)); !errors.Is(err, lexical.ErrSegment) {
		t.Errorf("one byte more: %v", err)
	}
}

// seal gives bytes the checksum that belongs to them, as whoever forges a segment would.
func seal(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// TestHostileBytesDoNotPanic changes bytes of a segment under a true checksum, opens it, and changes bytes of an open one. What is opened
// can be searched; nothing panics.
func TestHostileBytesDoNotPanic(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	docs := map[uint32]string{}
	for id := range uint32(900) {
		docs[id] = writeText(rng)
	}
	data := build(t, docs)
	opened := 0
	for range 1500 {
		changed := bytes.Clone(data[:len(data)-4])
		for range 1 + rng.IntN(3) {
			at := rng.IntN(len(changed))
			if rng.IntN(3) == 0 {
				at = 16 + rng.IntN(48) // the header
			}
			changed[at] = byte(rng.Uint32())
		}
		s, err := lexical.Open(seal(changed))
		switch {
		case err == nil:
			opened++
			trySearch(t, rng, s)
		case !errors.Is(err, lexical.ErrSegment):
			t.Fatal(err)
		}
	}
	t.Logf("%d forgeries were whole", opened)
	failed := 0
	for range 300 {
		live := bytes.Clone(data)
		s := open(t, live)
		for range 1 + rng.IntN(200) {
			live[64+rng.IntN(len(live)-64)] = byte(rng.Uint32())
		}
		if !trySearch(t, rng, s) {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no search of changed bytes failed")
	}
}

// trySearch searches and merges, and reports whether there was no error.
func trySearch(t *testing.T, rng *rand.Rand, s *lexical.Segment) bool {
	t.Helper()
	some := roaring.New()
	for range 1 + rng.IntN(900) {
		some.Add(rng.Uint32N(900))
	}
	fine := true
	for _, allowed := range []*roaring.Bitmap{s.Docs(), some} {
		ranking, err := lexical.Rank(lexical.Parse(writeText(rng)), []lexical.Part{{Segment: s, Allowed: allowed}})
		if err == nil {
			_, err = ranking.Best(1 + rng.IntN(20))
		}
		if err == nil {
			_, err = ranking.Scores([]uint32{rng.Uint32N(900), rng.Uint32N(900)})
		}
		if err != nil && !errors.Is(err, lexical.ErrSegment) {
			t.Fatal(err)
		}
		fine = fine && err == nil
	}
	_, err := lexical.Merge(lexical.Source{Segment: s})
	return fine && err == nil
}

func FuzzOpen(f *testing.F) {
	data := build(f, map[uint32]string{3: "red green red", 5: "办理户口", 200: "green"})
	f.Add(data[:len(data)-4])
	f.Fuzz(func(t *testing.T, forged []byte) {
		s, err := lexical.Open(seal(bytes.Clone(forged)))
		if err != nil {
			if !errors.Is(err, lexical.ErrSegment) {
				t.Fatal(err)
			}
			return
		}
		trySearch(t, rand.New(rand.NewPCG(1, 1)), s)
	})
}

// TestFoldsScripts: a text is found under either script.
func TestFoldsScripts(t *testing.T) {
	t.Parallel()
	for traditional, simplified := range map[string]string{"戶口遷移": "户口迁移", "醫療保險報銷": "医疗保险报销", "營業執照變更": "营业执照变更"} {
		if a, b := lexical.Tokens(traditional), lexical.Tokens(simplified); !slices.Equal(a, b) {
			t.Errorf("%v is not %v", a, b)
		}
	}
}
