package rag

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

const (
	maxCandidates = 200 // of each search, before fusion
	maxFused      = 50  // after fusion, if no more are asked for
)

// found is what words and vectors have found, before it is ordered.
type found struct {
	question rank.Question
	passages []Passage
	headings []string // by passage, as they are indexed
	bm25     []float64
	cosines  []float64
	known    []bool // by passage: it has a cosine
}

// find searches the allowed passages for words, those of them that have vectors of the index's model for vectors, fuses the best n of both, and reads what these say.
func (ci *collectionIndex) find(ctx context.Context, text string, vector []float32, in allowed, n int) (found, error) {
	all := in.passages
	ranking, err := lexical.Rank(lexical.Parse(text), all.Words())
	if err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	words, err := ranking.Best(maxCandidates)
	if err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	near, err := in.withVectors.Near(ctx, vector, maxCandidates)
	if err != nil {
		return found{}, fmt.Errorf("search vectors: %w", err)
	}
	farthest := 0.0
	if len(near) > 0 {
		farthest = float64(near[len(near)-1].Score)
	}
	// Ids differ from replica to replica and after a restart: what is equal goes by document.
	order := all.View().Compare
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
	wanted := in.withVectors.Only(slices.Concat(chosen, byWords))
	near, err = wanted.Near(ctx, vector, wanted.Len())
	if err != nil {
		return found{}, fmt.Errorf("search vectors: %w", err)
	}
	cosines := make(map[uint32]float64, len(near)) // without those of passages that have no vector of this model
	for _, h := range near {
		cosines[h.ID] = float64(h.Score)
	}
	out := found{
		passages: make([]Passage, len(chosen)), headings: make([]string, len(chosen)), cosines: make([]float64, len(chosen)), known: make([]bool, len(chosen)),
		question: rank.NewQuestion(text, ranking.Terms(), words, maxCandidates, cosines, farthest),
	}
	texts, err := all.Passages(chosen)
	if err != nil {
		return found{}, err
	}
	for i, id := range chosen {
		out.cosines[i], out.known[i] = cosines[id]
		if out.passages[i], err = ci.passage(texts[i], in.newest); err != nil {
			return found{}, err
		}
		out.headings[i] = withContext(out.passages[i].Title, cutPlace(texts[i].Section).Section, "") // as it is indexed: pages are no words of it
	}
	if out.bm25, err = ranking.Scores(chosen); err != nil {
		return found{}, fmt.Errorf("search words: %w", err)
	}
	return out, nil
}

// candidates are the passages as they are compared.
func (f *found) candidates() []rank.Candidate {
	candidates := make([]rank.Candidate, len(f.passages))
	for i, p := range f.passages {
		candidates[i] = rank.Candidate{
			Heading: f.headings[i], Text: p.Text, BM25: f.bm25[i], Cosine: f.cosines[i], HasCosine: f.known[i],
		}
	}
	return candidates
}

func (f *found) features() []rank.Features { return rank.FeaturesOf(f.question, f.candidates()) }

// scores returns the final score of each passage.
func scores(m rank.Model, features []rank.Features) []float64 {
	out := make([]float64, len(features))
	for i, f := range features {
		out[i] = m.Score(f)
	}
	return out
}

// evidence is what is known about whether the first shown passages answer, in the final order.
func (f *found) evidence(features []rank.Features, order []int, shown int) rank.Evidence {
	found := f.candidates()
	candidates, ordered := make([]rank.Candidate, len(order)), make([]rank.Features, len(order))
	for to, from := range order {
		candidates[to], ordered[to] = found[from], features[from]
	}
	return rank.EvidenceOf(f.question, candidates, ordered, shown)
}

// certain returns how many of the best hits are the same whatever the numbers of documents are: of the last equals of a full list it depends
// on their numbers which are there. It is n at least, if there are so many.
func certain(scores []float64, n int) int {
	if len(scores) < maxCandidates {
		return len(scores)
	}
	return max(min(n, len(scores)), slices.Index(scores, scores[len(scores)-1]))
}
