package main

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/rag/eval"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/rank"
)

const (
	// shown is how many passages a model is given, as the service has it where nobody says otherwise.
	shown = 4
	// judgePenalty is what weights of the judge cost.
	judgePenalty = 0.0005
)

// judgement is a question as it was asked once, with its answering passages there or taken away.
type judgement struct {
	rank.Judged

	document     int
	unanswerable bool // its passages were taken away
}

// judge asks each question of a set twice: of all its passages, and of all but those that answer it. So the second has no answer, however near the rest of its
// article comes, unless another passage happens to say the same.
func (t *trial) judge(m rank.Model) ([]judgement, error) {
	var out []judgement
	for i, q := range t.Questions {
		for _, without := range []bool{false, true} {
			hidden := roaring.New()
			if q.Self >= 0 {
				hidden.Add(uint32(q.Self))
			}
			if without {
				for p := range q.Grades {
					hidden.Add(uint32(p))
				}
			}
			j, err := t.judgeOnce(m, i, hidden)
			if err != nil {
				return nil, err
			}
			j.unanswerable = without
			out = append(out, j)
		}
	}
	return out, nil
}

// judgeOnce searches as the service does, among all passages but the hidden ones.
func (t *trial) judgeOnce(m rank.Model, i int, hidden *roaring.Bitmap) (judgement, error) {
	q, s, v := t.Questions[i], t.segment, t.vectors
	r, err := lexical.Rank(lexical.Parse(q.Text), []lexical.Part{{Segment: s, Allowed: roaring.AndNot(s.Docs(), hidden)}})
	if err != nil {
		return judgement{}, err
	}
	words, err := r.Best(listed)
	if err != nil {
		return judgement{}, err
	}
	cosines := map[uint32]float64{}
	var order []int
	for p := range t.Passages {
		if !hidden.Contains(uint32(p)) {
			cosines[uint32(p)] = cosine(v.Questions[t.asked[i]], v.Passages[p])
			order = append(order, p)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cosines[uint32(b)], cosines[uint32(a)]) })
	nearest := order[:min(listed, len(order))]
	fused := rank.Fuse(kept, cmp.Compare[uint32], ids(numbers(words)), ids(nearest))
	bm25, err := r.Scores(fused)
	if err != nil {
		return judgement{}, err
	}
	question := rank.NewQuestion(q.Text, r.Terms(), words, listed, cosines, cosines[uint32(nearest[len(nearest)-1])])
	candidates := make([]rank.Candidate, len(fused))
	for k, p := range fused {
		candidates[k] = rank.Candidate{Heading: t.Passages[p].Title, Text: t.Passages[p].Text, BM25: bm25[k], Cosine: cosines[p], HasCosine: true}
	}
	features := rank.FeaturesOf(question, candidates)
	final := make([]int, len(fused))
	for k := range final {
		final[k] = k
	}
	slices.SortStableFunc(final, func(a, b int) int { return cmp.Compare(m.Score(features[b]), m.Score(features[a])) })
	ordered, orderedFeatures := make([]rank.Candidate, len(fused)), make([]rank.Features, len(fused))
	answers := false
	for to, from := range final {
		ordered[to], orderedFeatures[to] = candidates[from], features[from]
		answers = answers || to < shown && q.Grades[int(fused[from])] > 0
	}
	document := t.Passages[slices.Min(grades(q))].Document
	return judgement{Judged: rank.Judged{Evidence: rank.EvidenceOf(question, ordered, orderedFeatures, shown), Answers: answers}, document: document}, nil
}

func grades(q ragsets.Question) (out []int) {
	for p := range q.Grades {
		out = append(out, p)
	}
	return out
}

// judge reports how well a judge tells what answers from what does not, on sets that nothing was learned from: the one that ships, or one that is learned from the
// pupils and written to file.
func judge(m rank.Model, pupils, others []*trial, embedders map[string]rank.Source, file, command string) error {
	j, _, err := rank.LearnedJudge()
	if err != nil {
		return err
	}
	var learned []judgement
	for _, t := range pupils {
		got, err := t.judge(m)
		if err != nil {
			return err
		}
		learned = append(learned, got...)
	}
	if file != "" {
		if j, err = fitJudge(learned); err != nil {
			return err
		}
		if err := writeJudge(file, j, provenance(command, pupils, embedders)); err != nil {
			return err
		}
	}
	if calibrated := slices.DeleteFunc(slices.Clone(learned), func(x judgement) bool { return x.document%folds < 3 }); len(calibrated) > 0 {
		reportJudge("calibrated with", calibrated, j)
	}
	for _, t := range others {
		got, err := t.judge(m)
		if err != nil {
			return err
		}
		reportJudge("not learned from: "+t.Name+", "+t.embedder, got, j)
	}
	return nil
}

// fitJudge fits the weights on three fifths of the documents and the scale on the others, so that no document teaches both.
func fitJudge(all []judgement) (rank.Judge, error) {
	var fit, calibrate []rank.Judged
	for _, x := range all {
		if x.document%folds < 3 {
			fit = append(fit, x.Judged)
		} else {
			calibrate = append(calibrate, x.Judged)
		}
	}
	return rank.LearnJudge(fit, calibrate, judgePenalty)
}

// cells are the four of a threshold. Answered wrongly are questions without an answer, and those whose passages were not found, that were not refused.
type cells struct{ answeredRight, answeredWrong, refusedRight, refusedWrong int }

func count(all []judgement, j rank.Judge, threshold float64) (c cells) {
	for _, x := range all {
		switch answered := j.Probability(x.Evidence) >= threshold; {
		case answered && x.Answers:
			c.answeredRight++
		case answered:
			c.answeredWrong++
		case x.Answers:
			c.refusedWrong++
		default:
			c.refusedRight++
		}
	}
	return c
}

// reportJudge prints the four cells by threshold with 95 % intervals, the curve of risk by coverage, and how far probabilities are from what came true.
func reportJudge(name string, all []judgement, j rank.Judge) {
	fmt.Printf("\n%s, %d questions with and without their passages: area under the curve %.4f, calibration error %.4f, Brier score %.4f\n\n", name, len(all)/2, area(all, j), calibrationError(all, j), brier(all, j))
	fmt.Println("| answers from | answered right | answered wrong | refused right | refused wrong | false answers of those without | false refusals of those with |\n| --- | --- | --- | --- | --- | --- | --- |")
	for _, at := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9} {
		c := count(all, j, at)
		fmt.Printf("| %.1f | %d | %d | %d | %d | %s | %s |\n", at, c.answeredRight, c.answeredWrong, c.refusedRight, c.refusedWrong,
			share(c.answeredWrong, c.answeredWrong+c.refusedRight), share(c.refusedWrong, c.refusedWrong+c.answeredRight))
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b judgement) int { return cmp.Compare(j.Probability(b.Evidence), j.Probability(a.Evidence)) })
	fmt.Print("\n| coverage | risk |\n| --- | --- |\n")
	for _, coverage := range []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1} {
		n, wrong := int(coverage*float64(len(sorted))), 0
		for _, x := range sorted[:n] {
			if !x.Answers {
				wrong++
			}
		}
		fmt.Printf("| %.1f | %s |\n", coverage, share(wrong, n))
	}
}

// share prints a share with its 95 % interval.
func share(k, n int) string {
	if n == 0 {
		return "-"
	}
	s := eval.NewShare(k, n)
	return fmt.Sprintf("%.1f %% (%.1f–%.1f)", 100*s.Value, 100*s.Low, 100*s.High)
}

// area is how likely a question with an answer has the higher probability of two.
func area(all []judgement, j rank.Judge) float64 {
	var yes, no []float64
	for _, x := range all {
		if p := j.Probability(x.Evidence); x.Answers {
			yes = append(yes, p)
		} else {
			no = append(no, p)
		}
	}
	sum := 0.0
	for _, y := range yes {
		for _, n := range no {
			switch {
			case y > n:
				sum++
			case y == n:
				sum += 0.5
			}
		}
	}
	return sum / float64(len(yes)*len(no))
}

// calibrationError is the mean difference of probability and share, over ten bins of equal width.
func calibrationError(all []judgement, j rank.Judge) float64 {
	var n, p, y [10]float64
	for _, x := range all {
		q := j.Probability(x.Evidence)
		b := min(9, int(q*10))
		n[b]++
		p[b] += q
		if x.Answers {
			y[b]++
		}
	}
	sum := 0.0
	for b := range n {
		sum += math.Abs(p[b] - y[b])
	}
	return sum / float64(len(all))
}

func brier(all []judgement, j rank.Judge) float64 {
	sum := 0.0
	for _, x := range all {
		d := j.Probability(x.Evidence)
		if x.Answers {
			d--
		}
		sum += d * d
	}
	return sum / float64(len(all))
}

// writeJudge writes a judge with where it comes from.
func writeJudge(file string, j rank.Judge, from rank.Provenance) error {
	data, err := rank.EncodeJudge(j, from)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}
