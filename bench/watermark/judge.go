package main

import (
	"fmt"
	"math"

	"github.com/sluice-project/sluice/engine/eval"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/tokenizer"
)

// A judge says how likely a model finds texts.
type judge struct {
	name   string
	tokens tokenizer.Tokenizer
	runner *native.Runner
	model  eval.Model
}

func openJudge(path string, threads int) (*judge, error) {
	r, err := native.OpenRunner(native.RunnerConfig{Path: path, Threads: threads, Context: 2048})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	t, err := openTokens(path)
	return &judge{name: base(path), tokens: t, runner: r, model: eval.Native(r)}, err
}

// read returns what the model makes of at most so many tokens of a text behind its prompt, which it gets as plain text: the mean of −ln of their
// probabilities at temperature 1, and the mean entropy at a temperature, both in nats a token; at temperature 0 no entropy.
func (j *judge) read(prompt, text string, temperature float64, most int) (loss, entropy float64, err error) {
	before, err := j.runner.Encode(prompt + "\n")
	if err != nil {
		return 0, 0, err
	}
	tokens := j.tokens.Encode(text, false)
	tokens = tokens[:min(len(tokens), most)]
	if len(tokens) == 0 {
		return 0, 0, nil
	}
	all := append(before, tokens...)
	s := j.model.Start()
	defer s.Release()
	err = s.Feed(all[:len(all)-1], len(before)-1, func(i int, logits []float32) {
		l, _ := spread(logits, 1, all[i+1])
		loss += l
		if temperature > 0 {
			_, h := spread(logits, temperature, all[i+1])
			entropy += h
		}
	})
	n := float64(len(tokens))
	return loss / n, entropy / n, err
}

// spread returns −ln of the probability of a token at a temperature, and the entropy.
func spread(logits []float32, temperature float64, token int32) (loss, entropy float64) {
	top := float64(logits[0])
	for _, l := range logits {
		top = max(top, float64(l))
	}
	sum, weighted := 0.0, 0.0
	for _, l := range logits {
		x := (float64(l) - top) / temperature
		e := math.Exp(x)
		sum, weighted = sum+e, weighted+e*x
	}
	z := math.Log(sum)
	return z - (float64(logits[token])-top)/temperature, z - weighted/sum
}
