package eval_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/native"
)

var update = flag.Bool("update", false, "answer the prompts of testdata/answers.json anew, with the exact plan")

// answersFile holds what the exact plan answers, greedily, to questions of many kinds, as token ids.
var answersFile = filepath.Join("testdata", "answers.json")

type answer struct {
	Question string  `json:"question"`
	Prompt   []int32 `json:"prompt"`
	Tokens   []int32 `json:"tokens"`
}

// TestPlansChooseTheExactPlansTokens: at how many places of the exact plan's own greedy answers a plan would go on with the same token.
// This is what users of greedy decoding meet. In texts that people wrote the share is lower, because many more places are close calls
// there; the gates of the text know that.
func TestPlansChooseTheExactPlansTokens(t *testing.T) {
	needsTime(t)
	raw, err := os.ReadFile(answersFile)
	if err != nil {
		t.Fatal(err)
	}
	var answers []answer
	if err := json.Unmarshal(raw, &answers); err != nil || len(answers) < 20 {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	if *update {
		writeAnswers(t, answers)
	}
	for _, p := range []struct {
		plan  string
		share float64
	}{
		{native.PlanNative, 0.98},
		{native.PlanInt8, 0.98},
	} {
		m := eval.Native(open(t, p.plan))
		same, n := 0, 0
		for _, a := range answers {
			s := m.Start()
			inputs := slices.Concat(a.Prompt, a.Tokens[:len(a.Tokens)-1])
			err := s.Feed(inputs, len(a.Prompt)-1, func(i int, logits []float32) {
				if likeliest(logits) == a.Tokens[i-len(a.Prompt)+1] {
					same++
				}
				n++
			})
			s.Release()
			if err != nil {
				t.Fatal(err)
			}
		}
		share := float64(same) / float64(n)
		t.Logf("plan %s: %d of %d tokens, %.2f %%", cmp.Or(p.plan, "native"), same, n, 100*share)
		if share < p.share || n < 1000 {
			t.Errorf("plan %s chooses the same token at %.2f %% of %d places, at least %.2f %% are needed", cmp.Or(p.plan, "native"), 100*share, n, 100*p.share)
		}
	}
}

func likeliest(logits []float32) int32 {
	best := 0
	for i, v := range logits {
		if v > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// writeAnswers answers the prompts of the file anew.
func writeAnswers(t *testing.T, answers []answer) {
	r := open(t, native.PlanF32)
	eog := func(id int32) bool { return r.Decode([]int32{id}) == "" } // a control token
	for i := range answers {
		a := &answers[i]
		a.Tokens = nil
		s := r.NewSequence()
		for next := a.Prompt; len(a.Tokens) < 64; next = a.Tokens[len(a.Tokens)-1:] {
			if err := r.Feed(s, next, 0, len(next)-1, func(_ int, logits []float32) { a.Tokens = append(a.Tokens, likeliest(logits)) }); err != nil {
				t.Fatal(err)
			}
			if eog(a.Tokens[len(a.Tokens)-1]) {
				break
			}
		}
		s.Release()
	}
	raw, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(answersFile, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
