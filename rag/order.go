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
	forms    []form
	passages []Passage
	headings []string // by passage, as they are indexed
	cosines  []float64
	known    []bool // by passage: it has a cosine

	compared []rank.Candidate // by passage, without the score of a form; nil until candidates makes them
}

// form is one wording of what was asked, and what its words say of each passage.
type form struct {
	question rank.Question
	bm25     []float64
}

// find searches the allowed passages for words, those of them that have vectors of the index's model for vectors, fuses the best n of both, and reads what these say.
// The words are those of all forms of the question; what they say of a passage is taken form by form, since nobody uses two names of one thing at a time.
func (ci *collectionIndex) find(ctx context.Context, forms []string, vector []float32, in allowed, n int) (found, error) {
	all := in.passages
	queries := make([]lexical.Query, len(forms))
	for i, text := range forms {
		queries[i] = lexical.Parse(text)
	}
	ranking, err := lexical.Rank(lexical.Either(queries...), all.Words())
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
		forms: make([]form, len(forms)),
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
	for i, text := range forms {
		own := ranking
		if len(forms) > 1 {
			own = ranking.Of(queries[i])
		}
		f := &out.forms[i]
		f.question = rank.NewQuestion(text, own.Terms(), words, maxCandidates, cosines, farthest)
		if f.bm25, err = own.Scores(chosen); err != nil {
			return found{}, fmt.Errorf("search words: %w", err)
		}
	}
	return out, nil
}

// candidates are the passages as a form of the question is compared with them. Where there are several forms the texts are read once for all; for one it
// costs more to keep what is read of all passages than to read the few that are shown again.
func (f *found) candidates(form *form) []rank.Candidate {
	if f.compared == nil {
		f.compared = make([]rank.Candidate, len(f.passages))
		for i, p := range f.passages {
			f.compared[i] = rank.Candidate{Heading: f.headings[i], Text: p.Text, Cosine: f.cosines[i], HasCosine: f.known[i]}
			if len(f.forms) > 1 {
				f.compared[i].Prepare()
			}
		}
	}
	candidates := slices.Clone(f.compared)
	for i := range candidates {
		candidates[i].BM25 = form.bm25[i]
	}
	return candidates
}

// features returns those of each form of the question and each passage.
func (f *found) features() [][]rank.Features {
	out := make([][]rank.Features, len(f.forms))
	for n := range f.forms {
		out[n] = rank.FeaturesOf(f.forms[n].question, f.candidates(&f.forms[n]))
	}
	return out
}

// scores returns the final score of each passage: that of the form of the question that it answers best.
func scores(m rank.Model, features [][]rank.Features) []float64 {
	var best []float64
	for n, form := range features {
		if n == 0 {
			best = make([]float64, len(form))
		}
		for i, of := range form {
			if score := m.Score(of); n == 0 || score > best[i] {
				best[i] = score
			}
		}
	}
	return best
}

// evidence returns how likely the first passage of the order answers, the first two of it, and so on up to shown: by the form of the question that they answer
// best.
func (f *found) evidence(j rank.Judge, features [][]rank.Features, order []int, shown int) []float64 {
	best := make([]float64, shown)
	for n := range f.forms {
		all := f.candidates(&f.forms[n])
		candidates, ordered := make([]rank.Candidate, len(order)), make([]rank.Features, len(order))
		for to, from := range order {
			candidates[to], ordered[to] = all[from], features[n][from]
		}
		for i, e := range rank.EvidenceUpTo(f.forms[n].question, candidates, ordered, shown) {
			best[i] = max(best[i], j.Probability(e))
		}
	}
	return best
}

// certain returns how many of the best hits are the same whatever the numbers of documents are: of the last equals of a full list it depends
// on their numbers which are there. It is n at least, if there are so many.
func certain(scores []float64, n int) int {
	if len(scores) < maxCandidates {
		return len(scores)
	}
	return max(min(n, len(scores)), slices.Index(scores, scores[len(scores)-1]))
}
