package lexical

import (
	"errors"

	"github.com/RoaringBitmap/roaring/v2"
)

// AnalyzerVersion names how [Tokens] makes terms of a text. A segment keeps the version that its terms were made by, and [Open] refuses
// another one: terms of two versions do not meet.
const AnalyzerVersion = 2

// MaxSpan is the highest difference of two ids in one segment, plus one.
const MaxSpan = 1 << 24

// ErrSegment is in the chain of every error about the bytes of a segment: they are torn, changed, or of another format or analyzer.
var ErrSegment = errors.New("bad segment")

// Builder makes a segment. It is not safe for concurrent use.
//
//	var b lexical.Builder
//	for id, text := range texts {
//		err := b.Add(uint32(id), text)
//	}
//	data, err := b.Build()
type Builder struct{}

// Add appends a document. Ids must rise, gaps are allowed and cost a byte or two each. An error says that id does not rise or lies
// [MaxSpan] or more above the first; nothing was added then.
func (b *Builder) Add(id uint32, text string) error { return nil }

// Len returns the number of documents added.
func (b *Builder) Len() int { return 0 }

// Build returns the segment as one slice that [Open] reads. The same documents give the same bytes. The builder is empty then.
func (b *Builder) Build() []byte { return nil }

// Segment is an immutable index of documents, each known by an id. It reads from the bytes it was opened from and copies next to nothing
// of them. It is safe for concurrent use.
type Segment struct{}

// Open reads a segment that Build or Merge made. It reads all of data once and checks everything: the checksum, every offset, every posting.
// Torn, changed or hostile bytes give an error with [ErrSegment] in its chain, never a panic, and never memory beyond a small share of
// len(data).
//
// The segment keeps data, which may be a mapped file: it must stay readable and unchanged. Bytes that change after Open give an error from
// [Ranking] or other hits, but no panic.
func Open(data []byte) (*Segment, error) { return nil, ErrSegment }

// Docs returns the ids of all documents. The caller may change the bitmap.
func (s *Segment) Docs() *roaring.Bitmap { return nil }

// Len returns the number of documents.
func (s *Segment) Len() int { return 0 }

// Size returns the length of the bytes that the segment was opened from.
func (s *Segment) Size() int { return 0 }

// Source is a segment as [Merge] takes it in. Renumber gives the new id of a document, or false to leave it out; it must keep the order of
// ids. Nil keeps every document under its id.
type Source struct {
	Segment  *Segment
	Renumber func(id uint32) (uint32, bool)
}

// Merge returns one segment with the documents of all sources, as if it had been built from their texts: the same bytes. It needs no texts.
// Two documents with one new id are an error, as is a span of more than [MaxSpan]. What was left out is not in the new bytes.
func Merge(sources ...Source) ([]byte, error) { return nil, nil }

// Query is a text as the index searches it. It is immutable; the zero value finds nothing.
type Query struct{}

// Parse makes a query of a text, with the analyzer of the documents.
func Parse(text string) Query { return Query{} }

// Part is a segment and which of its documents may be found.
type Part struct {
	Segment *Segment
	// Allowed are ids of the segment. Others are as if they did not exist: they are not scored, and how often terms occur and how long
	// documents are is taken from those allowed, over all parts. Ids that the segment does not have change nothing. Nil allows none.
	Allowed *roaring.Bitmap
	// Base is added to the segment's ids in the ranking. Sums must be distinct over all parts and fit 32 bits.
	Base uint32
}

// Rank prepares a ranking of the allowed documents of all parts, as one collection. It reads the statistics; [Ranking.Best] and
// [Ranking.Scores] read the postings. The bitmaps must not change until the ranking is no longer used. An error has [ErrSegment] in its chain.
func Rank(q Query, parts []Part) (Ranking, error) { return Ranking{}, nil }

// Ranking is a query and what it is searched in. It is safe for concurrent use. The zero value is empty.
//
// Scores are sums of fixed-point numbers: a score depends on the documents allowed, not on how they lie in segments, nor on
// how it was found.
type Ranking struct{}

// Hit is a document and its score.
type Hit struct {
	ID    uint32 // with the base of its part
	Score float64
}

// Best returns the n documents that match best: highest score first, equal scores by id. Documents that share no term with the
// query do not match. It stops early where the rest cannot be among the best, and the answer is the same as if it had not.
func (r Ranking) Best(n int) ([]Hit, error) { return nil, nil }

// Scores returns the scores of documents, 0 for those that share no term with the query, are not there or not allowed.
func (r Ranking) Scores(ids []uint32) ([]float64, error) { return nil, nil }

// Terms returns the terms of the query with what each is worth: its inverse document frequency among the allowed documents, times how often
// the query has it. They are ordered by term.
func (r Ranking) Terms() []Term { return nil }

// Term is a term of a query.
type Term struct {
	Text   string
	Weight float64
}
