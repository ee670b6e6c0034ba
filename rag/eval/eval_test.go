package eval_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/rag/eval"
)

const head = `{"set":"s","version":"1"}` + "\n"

// TestRead: a set is read strictly, and what is wrong is named by its line.
func TestRead(t *testing.T) {
	t.Parallel()
	good := head + `{"id":"1","question":"Where?","documents":["a.txt"]}` + "\n\n" + `{"id":"2","question":"Why?","unanswerable":true}`
	s, err := eval.Read(strings.NewReader(good))
	if err != nil || s.Set != "s" || len(s.Questions) != 2 || !s.Questions[1].Unanswerable || len(s.SHA256) != 64 {
		t.Fatalf("%+v, %v", s, err)
	}
	for line, bad := range map[string]string{
		"line 1": `{"set":"s"}`,
		"line 2": head + `{"id":"1","question":" ","documents":["a"]}`,
		"line 3": head + `{"id":"1","question":"a","documents":["a"]}` + "\n" + `{"id":"1","question":"b","documents":["a"]}`,
		"line 4": head + "\n\n" + `{"id":"1","question":"a","documents":["a"],"unanswerable":true}`,
		"line 5": head + "\n\n\n" + `{"id":"1","question":"a"}`,
		"line 6": head + "\n\n\n\n" + `{"id":"1","question":"a","document":"a"}`,
		"line 7": head + "\n\n\n\n\n" + `{"id":"1","question":"a","answers":["!!"]}`,
		"line 8": head + "\n\n\n\n\n\n" + `{"id":"1","question":"a","answers":["b",""]}`,
		"line 9": head + "\n\n\n\n\n\n\n" + `{"id":"1","question":"a","documents":[""]}`,
		"print":  `{"set":"a\u001b[2J","version":"1"}`,
		"no que": head,
	} {
		if _, err := eval.Read(strings.NewReader(bad)); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestFigures: the four cells, the shares and the ranks are what a person would count.
func TestFigures(t *testing.T) {
	t.Parallel()
	yes, no := "It is at desk 7.", "No idea."
	found := []eval.Passage{{Document: "b.txt", DocumentID: "2", Text: "Other."}, {Document: "a.txt", DocumentID: "1", Text: "Desk  ７ renews it."}}
	q := eval.Question{ID: "q", Question: "?", Documents: []string{"a.txt"}, Answers: []string{"desk 7"}}
	none := eval.Question{ID: "n", Question: "?", Unanswerable: true}
	var results []eval.Result
	for _, c := range []struct {
		q     eval.Question
		r     eval.Reply
		rank  int
		right bool
	}{
		{q, eval.Reply{Passages: found, Answer: &yes, Score: 0.9, Supported: 3, Unsupported: 1}, 2, true},
		{q, eval.Reply{Passages: found, Answer: &no, Score: 0.8}, 2, false},
		{q, eval.Reply{Passages: found, Score: 0.7}, 2, true},
		{q, eval.Reply{Passages: found[:1], Score: 0.6}, 0, false},
		{q, eval.Reply{Passages: found, Refusal: "weak_evidence", Score: 0.1}, 2, false},
		{none, eval.Reply{Passages: found, Score: 0.3}, 0, false},
		{none, eval.Reply{Refusal: "no_passages"}, 0, true},
		{none, eval.Reply{Refusal: "weak_evidence", Took: time.Second}, 0, true},
	} {
		got := eval.Judge(c.q, c.r, 4)
		if got.Rank != c.rank || got.Right != c.right {
			t.Errorf("%+v: %+v", c, got)
		}
		results = append(results, got)
	}
	f := eval.Sum(results)
	if f.HitRate.Count != 4 || f.HitRate.Of != 5 || math.Abs(f.MRR-0.4) > 1e-9 || f.AnsweredRight != 2 || f.AnsweredWrong != 3 || f.RefusedRight != 2 || f.RefusedWrong != 1 {
		t.Errorf("%+v", f)
	}
	if f.FalseAnswers.Count != 1 || f.FalseAnswers.Of != 3 || f.FalseRefusals.Count != 1 || f.Grounded.Count != 3 || f.Grounded.Of != 4 || f.P95 != 1000 || f.P50 != 0 {
		t.Errorf("%+v", f)
	}
	if last := f.Curve[len(f.Curve)-1]; last.Coverage != 1 || last.Risk != 5.0/8 || f.Curve[0].Score < last.Score {
		t.Errorf("%+v", f.Curve)
	}
	three := eval.Question{ID: "3", Question: "?", Documents: []string{"a", "b", "c"}}
	hit := []eval.Passage{{Document: "a", DocumentID: "a"}}
	few, many := eval.Judge(three, eval.Reply{Passages: hit}, 4).NDCG, eval.Judge(three, eval.Reply{Passages: append(hit, found...)}, 4).NDCG
	if math.Abs(few-many) > 1e-9 || few > 0.6 || eval.Judge(three, eval.Reply{Passages: hit}, 1).NDCG != 1 {
		t.Errorf("nDCG of one hit alone %v, with others behind it %v", few, many)
	}
	if s := eval.NewShare(0, 0); s.Low != 0 || s.High != 1 {
		t.Errorf("of nothing: %+v", s)
	}
}

// report has n answerable questions, of which the first hits are found.
func report(n, hits int) *eval.Report {
	r := &eval.Report{SHA256: "x"}
	for i := range n {
		x := eval.Result{ID: fmt.Sprint(i)}
		if i < hits {
			x.Rank, x.Right, x.NDCG = 1, true, 1
		}
		r.Results = append(r.Results, x)
	}
	return r
}

// TestCompare: a loss beyond chance is told from one within it, a gain is no loss, and other questions are not compared.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after int
		worse         bool
	}{{180, 120, true}, {180, 179, false}, {120, 180, false}, {150, 150, false}} {
		got, err := eval.Compare(report(200, c.before), report(200, c.after))
		if err != nil {
			t.Fatal(err)
		}
		if d := got[0]; d.Name != "hit_rate" || d.Worse != c.worse || d.Low > d.After-d.Before || d.High < d.After-d.Before {
			t.Errorf("%+v: %+v", c, d)
		}
	}
	one := report(1, 1)
	one.Results[0].Unanswerable, one.Results[0].Refusal = true, "weak_evidence"
	flipped := report(1, 0)
	flipped.Results[0].Unanswerable = true
	if got, err := eval.Compare(one, flipped); err != nil || len(got) != 2 || got[0].Worse || got[1].Worse {
		t.Errorf("one question is beyond chance: %+v, %v", got, err)
	}
	grounded, less := report(40, 40), report(40, 40)
	for i := range 40 {
		grounded.Results[i].Supported, less.Results[i].Supported, less.Results[i].Unsupported = 2, 1, 1
	}
	if got, err := eval.Compare(grounded, less); err != nil || got[len(got)-1].Name != "grounded" || !got[len(got)-1].Worse || got[len(got)-1].After != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	// Of measurements of the same thing few say that it got worse, though there are several measures.
	rng, alarms := rand.New(rand.NewPCG(1, 2)), 0
	for range 100 {
		a, b := report(30, 0), report(30, 0)
		for _, r := range []*eval.Report{a, b} {
			for i := range r.Results {
				x := &r.Results[i]
				if x.Unanswerable = i%3 == 0; rng.IntN(2) == 0 {
					x.Rank, x.NDCG, x.Right = 1, 1, true
				} else {
					x.Refusal = "weak_evidence"
				}
			}
		}
		got, err := eval.Compare(a, b)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(got, func(d eval.Difference) bool { return d.Worse }) {
			alarms++
		}
	}
	if alarms > 8 {
		t.Errorf("%d of 100 false alarms", alarms)
	}
	other, passages, model, broken := report(200, 100), report(200, 100), report(200, 100), report(200, 100)
	other.SHA256, passages.TopK, model.Model = "y", 9, "chat"
	broken.Incomplete = true
	if _, err := eval.Compare(broken, report(200, 100)); !errors.Is(err, eval.ErrOtherSet) {
		t.Error(err)
	}
	for _, b := range []*eval.Report{other, passages, model, report(199, 100)} {
		if _, err := eval.Compare(report(200, 100), b); !errors.Is(err, eval.ErrOtherSet) {
			t.Error(err)
		}
	}
	data, err := report(3, 1).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if r, err := eval.ReadReport(data); err != nil || len(r.Results) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}
