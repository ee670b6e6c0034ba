package rag

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

const (
	maxCandidates = 200 // of each search, before fusion
	maxFused      = 50  // after fusion, if no more are asked for
)

// found is what words and vectors have found, before it is ordered. It needs no lock: documents are immutable.
type found struct {
	question rank.Question
	chunks   []chunkRef
	bm25     []float64
	cosines  []float64
	known    []bool // by chunk: it has a cosine
	newest   int64  // of the collection
}

// find searches the allowed chunks for words, those of them that have vectors of the index's model for vectors, and fuses the best n of both. The caller
// holds mu.
func (ci *collectionIndex) find(ctx context.Context, text string, vector []float32, allowed, withVectors *roaring.Bitmap, n int) (found, error) {
	ranking, err := ci.keywords.Rank(text, allowed)
	if err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	words, err := ranking.Best(maxCandidates)
	if err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	near, err := ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: withVectors, TopK: maxCandidates})
	if err != nil {
		return found{}, fmt.Errorf("search vectors: %w", err)
	}
	farthest := 0.0
	if len(near) > 0 {
		farthest = float64(near[len(near)-1].Score)
	}
	// Numbers differ from replica to replica and after a restart: what is equal goes by document.
	order := func(a, b uint32) int {
		x, y := ci.chunks[a], ci.chunks[b]
		return cmp.Or(strings.Compare(x.version.ID, y.version.ID), cmp.Compare(x.chunk, y.chunk))
	}
	slices.SortFunc(words, func(a, b lexical.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), order(a.ID, b.ID)) })
	slices.SortFunc(near, func(a, b index.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), order(a.ID, b.ID)) })
	byWords, byVector := make([]uint32, len(words)), make([]uint32, len(near))
	wordScores, nearScores := make([]float64, len(words)), make([]float64, len(near))
	for i, h := range words {
		byWords[i], wordScores[i] = h.ID, h.Score
	}
	for i, h := range near {
		byVector[i], nearScores[i] = h.ID, float64(h.Score)
	}
	chosen := rank.Fuse(n, order, byWords[:certain(wordScores, n)], byVector[:certain(nearScores, n)])
	// Both scores of every candidate, also of those that only one search proposed, and how near what the words found is.
	wanted := roaring.BitmapOf(chosen...)
	wanted.AddMany(byWords)
	wanted.And(withVectors)
	near, err = ci.vectors.Search(ctx, index.Query{Vector: vector, Allowed: wanted, TopK: int(wanted.GetCardinality())})
	if err != nil {
		return found{}, fmt.Errorf("search vectors: %w", err)
	}
	cosines := make(map[uint32]float64, len(near)) // without those of passages that have no vector of this model
	for _, h := range near {
		cosines[h.ID] = float64(h.Score)
	}
	out := found{
		chunks: make([]chunkRef, len(chosen)), cosines: make([]float64, len(chosen)), known: make([]bool, len(chosen)), newest: ci.newest,
		question: rank.NewQuestion(text, ranking.Terms(), words, maxCandidates, cosines, farthest),
	}
	for i, id := range chosen {
		out.chunks[i] = ci.chunks[id]
		out.cosines[i], out.known[i] = cosines[id]
	}
	if out.bm25, err = ranking.Scores(chosen); err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	return out, nil
}

// scores returns the final score of each chunk.
func (f *found) scores(m rank.Model) []float64 {
	candidates := make([]rank.Candidate, len(f.chunks))
	for i, c := range f.chunks {
		candidates[i] = rank.Candidate{
			Heading: withContext(c.version.Title, c.version.chunks[c.chunk].Section, ""), Text: c.version.text(c.chunk),
			BM25: f.bm25[i], Cosine: f.cosines[i], HasCosine: f.known[i],
		}
	}
	return m.Scores(f.question, candidates)
}

// certain returns how many of the best hits are the same whatever the numbers of documents are: of the last equals of a full list it depends
// on their numbers which are there. It is n at least, if there are so many.
func certain(scores []float64, n int) int {
	if len(scores) < maxCandidates {
		return len(scores)
	}
	return max(min(n, len(scores)), slices.Index(scores, scores[len(scores)-1]))
}
