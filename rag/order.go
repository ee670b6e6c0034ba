package rag

import (
	"context"
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/rank"
)

const (
	maxCandidates = 200 // of each search, before fusion
	maxFused      = 100 // after fusion
)

// score searches the allowed chunks for words and for vectors and returns the score of each that may be an answer. The caller holds mu.
func (ci *collectionIndex) score(ctx context.Context, m rank.Model, text string, vector []float32, allowed *roaring.Bitmap) (map[uint32]float64, error) {
	ranking, err := ci.keywords.Rank(text, allowed)
	if err != nil {
		return nil, fmt.Errorf("search words: %w", err)
	}
	words, err := ranking.Best(maxCandidates)
	if err != nil {
		return nil, fmt.Errorf("search words: %w", err)
	}
	near, err := ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: allowed, TopK: maxCandidates})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	farthest := 0.0
	if len(near) > 0 {
		farthest = float64(near[len(near)-1].Score)
	}
	byWords, byVector := make([]uint32, len(words)), make([]uint32, len(near))
	for i, h := range words {
		byWords[i] = h.ID
	}
	for i, h := range near {
		byVector[i] = h.ID
	}
	chosen := rank.Fuse(maxFused, byWords, byVector)
	// Both scores of every candidate, also of those that only one search proposed, and how near what the words found is.
	wanted := roaring.BitmapOf(chosen...)
	wanted.AddMany(byWords)
	near, err = ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: wanted, TopK: int(wanted.GetCardinality())})
	if err != nil {
		return nil, fmt.Errorf("search vectors: %w", err)
	}
	cosines := make(map[uint32]float64, len(near))
	for _, h := range near {
		cosines[h.ID] = float64(h.Score)
	}
	bm25, err := ranking.Scores(chosen)
	if err != nil {
		return nil, fmt.Errorf("search words: %w", err)
	}
	question := rank.NewQuestion(text, ranking.Terms(), words, maxCandidates, cosines, farthest)
	return ci.weigh(m, question, chosen, bm25, cosines), nil
}

// weigh returns the final scores of the chosen chunks.
func (ci *collectionIndex) weigh(m rank.Model, q rank.Question, chosen []uint32, bm25 []float64, cosines map[uint32]float64) map[uint32]float64 {
	candidates := make([]rank.Candidate, len(chosen))
	for i, id := range chosen {
		c := ci.chunks[id]
		cosine, ok := cosines[id]
		candidates[i] = rank.Candidate{
			Heading: withContext(c.document.Title, c.document.chunks[c.chunk].Section, ""), Text: c.document.text(c.chunk),
			BM25: bm25[i], Cosine: cosine, HasCosine: ok,
		}
	}
	out := make(map[uint32]float64, len(chosen))
	for i, s := range m.Scores(q, candidates) {
		out[chosen[i]] = s
	}
	return out
}
