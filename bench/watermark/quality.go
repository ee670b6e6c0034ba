package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"

	"github.com/sluice-project/sluice/engine"
)

type qualityOptions struct {
	texts, keep string
	judges      []string
	tokens      int
}

// quality compares texts with a mark and without: how likely models find them, how long they are, how much they repeat themselves. Texts to the same
// question at the same temperature are compared with each other.
func quality(ctx context.Context, args []string) error {
	var o qualityOptions
	set := flag.NewFlagSet("quality", flag.ContinueOnError)
	set.StringVar(&o.texts, "texts", "free.jsonl", "what generate wrote with -free and -schemes none,gumbel,kgw")
	set.Func("judge", "GGUF file of a model that reads the texts; may be given again", func(s string) error {
		o.judges = append(o.judges, s)
		return nil
	})
	set.StringVar(&o.keep, "keep", "judged.json", "file for what the judges said, which is not computed again")
	set.IntVar(&o.tokens, "tokens", 200, "tokens of each text that are read")
	if err := set.Parse(args); err != nil {
		return err
	}
	samples, err := readSamples(o.texts)
	if err != nil {
		return err
	}
	losses, err := o.judged(ctx, samples)
	if err != nil {
		return err
	}
	measures := []measure{
		{"tokens of an answer", func(s *sample) (float64, bool) { return float64(s.Tokens), true }},
		{"ended by the limit, %", func(s *sample) (float64, bool) {
			if s.Finish == string(engine.FinishLength) {
				return 100, true
			}
			return 0, true
		}},
		{"words of which four were there before, %", func(s *sample) (float64, bool) { return 100 * repetition(s.Text), true }},
	}
	for _, path := range o.judges {
		measures = append(measures, measure{"−ln of the probability a token, by " + base(path), func(s *sample) (float64, bool) {
			l, ok := losses[base(path)+" "+s.name()]
			return l, ok
		}})
	}
	compare(samples, measures)
	return nil
}

// measure is a number of a text; false: it has none.
type measure struct {
	name string
	of   func(*sample) (float64, bool)
}

// judged returns what each judge says of each text, by its name and the text's.
func (o *qualityOptions) judged(ctx context.Context, samples []sample) (map[string]float64, error) {
	losses := map[string]float64{}
	data, err := os.ReadFile(o.keep)
	if err == nil {
		err = json.Unmarshal(data, &losses)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, path := range o.judges {
		j, err := openJudge(path, 1)
		if err != nil {
			return nil, err
		}
		for i := range samples {
			s := &samples[i]
			name := j.name + " " + s.name()
			if _, done := losses[name]; done || s.Text == "" {
				continue
			}
			if losses[name], _, err = j.read(s.Prompt, s.Text, 0, o.tokens); err != nil {
				return nil, err
			}
			if i%20 > 0 && i+1 < len(samples) && ctx.Err() == nil {
				continue
			}
			if data, err = json.Marshal(losses); err == nil {
				err = os.WriteFile(o.keep, data, 0o600)
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return nil, err
			}
		}
	}
	return losses, nil
}

// repetition is the share of the words of a text with which four words end that were there before.
func repetition(text string) float64 {
	all := pieces(text)
	seen, again := map[[4]string]bool{}, 0
	for i := 4; i <= len(all); i++ {
		four := [4]string(all[i-4 : i])
		if seen[four] {
			again++
		}
		seen[four] = true
	}
	return float64(again) / float64(max(1, len(all)-3))
}

// compare prints each measure of the texts without a mark, and by how much those with one differ.
func compare(samples []sample, measures []measure) {
	type question struct {
		temperature float64
		index       int
	}
	plain := map[question]*sample{}
	temperatures, schemes := []float64{}, []string{}
	for i := range samples {
		s := &samples[i]
		if s.Scheme != unmarked {
			schemes = with(schemes, s.Scheme)
			continue
		}
		plain[question{s.Temperature, s.Index}] = s
		temperatures = with(temperatures, s.Temperature)
	}
	fmt.Print("| T | measure | without a mark |")
	for _, scheme := range schemes {
		fmt.Printf(" %s, difference |", scheme)
	}
	fmt.Print(" pairs |\n|---|---|---|---|---|---|\n")
	for _, t := range temperatures {
		for _, m := range measures {
			var before []float64
			for q, s := range plain {
				if v, ok := m.of(s); ok && q.temperature == t {
					before = append(before, v)
				}
			}
			mean, half := estimate(before)
			fmt.Printf("| %.1f | %s | %.2f ± %.2f |", t, m.name, mean, half)
			pairs := 0
			for _, scheme := range schemes {
				var differences []float64
				for i := range samples {
					s := &samples[i]
					if p := plain[question{s.Temperature, s.Index}]; p != nil && s.Scheme == scheme && s.Temperature == t {
						a, ok1 := m.of(p)
						b, ok2 := m.of(s)
						if ok1 && ok2 {
							differences = append(differences, b-a)
						}
					}
				}
				d, half := estimate(differences)
				pairs = len(differences)
				fmt.Printf(" %+.2f ± %.2f |", d, half)
			}
			fmt.Printf(" %d |\n", pairs)
		}
	}
}

// with adds a value that is not there.
func with[T comparable](list []T, v T) []T {
	for _, have := range list {
		if have == v {
			return list
		}
	}
	return append(list, v)
}
