package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/rag/lexical"
	"github.com/sluice-project/sluice/rag/reduce"
)

// set is what a map is measured on: questions, and how well each passage answers.
type set struct {
	name                string
	passages, questions []string
	answers             []map[int]float64 // for each question: passages that answer it, by their number
	graded              bool              // measured by nDCG, otherwise by the mean reciprocal rank
	pv, qv              [][]float32
}

func (s *set) metric() string {
	if s.graded {
		return "nDCG@10"
	}
	return "MRR@10"
}

func openSet(arg string) (*set, error) {
	name, where, ok := strings.Cut(arg, "=")
	if !ok {
		return nil, fmt.Errorf("-eval %s: it is NAME=FILE or NAME=FOLDER", arg)
	}
	if info, err := os.Stat(where); err == nil && info.IsDir() {
		return openBEIR(name, where)
	}
	s := &set{name: name}
	at := map[string]int{}
	for path := range strings.SplitSeq(where, ",") {
		err := squad(path, func(context string, questions []string) {
			i, ok := at[context]
			if !ok {
				i = len(s.passages)
				at[context], s.passages = i, append(s.passages, context)
			}
			for _, q := range questions {
				s.questions, s.answers = append(s.questions, q), append(s.answers, map[int]float64{i: 1})
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// texts reads what is fitted to: of a file in the format of SQuAD every so many-th passage, counted in n, and so many questions of each.
func texts(path string, every, ask int, n *int) (passages, questions []string, err error) {
	switch filepath.Ext(path) {
	case ".json":
		err = squad(path, func(context string, asked []string) {
			if *n++; *n%every != 0 {
				return
			}
			passages = append(passages, simplified(context))
			for i, q := range asked {
				if ask == 0 || i < ask {
					questions = append(questions, simplified(q))
				}
			}
		})
	case ".conllu":
		err = lines(path, func(line string) error {
			if text, ok := strings.CutPrefix(line, "# text = "); ok {
				passages = append(passages, text)
			}
			return nil
		})
	default:
		err = fmt.Errorf("%s: %w", path, errFormat)
	}
	return passages, questions, err
}

// simplified writes traditional Chinese characters as the simplified ones that search takes them for, and leaves everything else as it is.
func simplified(s string) string {
	out := []rune(s)
	for i, r := range out {
		if !unicode.Is(unicode.Han, r) {
			continue
		}
		if folded := []rune(lexical.Fold(string(r))); len(folded) == 1 {
			out[i] = folded[0]
		}
	}
	return string(out)
}

// squad calls each for every paragraph of a file.
func squad(path string, each func(context string, questions []string)) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Data []struct {
			Paragraphs []struct {
				Context string `json:"context"`
				QAs     []struct {
					Question string `json:"question"`
				} `json:"qas"`
			} `json:"paragraphs"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	n := 0
	for _, d := range file.Data {
		for _, p := range d.Paragraphs {
			var questions []string
			for _, q := range p.QAs {
				questions = append(questions, q.Question)
			}
			each(p.Context, questions)
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: %w", path, errFormat)
	}
	return nil
}

func lines(path string, each func(string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		if err := each(in.Text()); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return in.Err()
}

// openBEIR reads the questions of the test split, and all passages.
func openBEIR(name, dir string) (*set, error) {
	s := &set{name: name, graded: true}
	type line struct {
		ID    string `json:"_id"`
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	passages, asked, place := map[string]int{}, map[string]string{}, map[string]int{}
	read := func(file string, each func(line)) error {
		return lines(filepath.Join(dir, file), func(text string) error {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				return err
			}
			each(l)
			return nil
		})
	}
	if err := read("corpus.jsonl", func(l line) {
		passages[l.ID] = len(s.passages)
		s.passages = append(s.passages, strings.TrimSpace(l.Title+"\n"+l.Text))
	}); err != nil {
		return nil, err
	}
	if err := read("queries.jsonl", func(l line) { asked[l.ID] = l.Text }); err != nil {
		return nil, err
	}
	return s, lines(filepath.Join(dir, "qrels", "test.tsv"), func(text string) error {
		f := strings.Split(text, "\t")
		if len(f) != 3 || f[0] == "query-id" {
			return nil
		}
		grade, err := strconv.ParseFloat(f[2], 64)
		passage, ok := passages[f[1]]
		if err != nil || !ok || asked[f[0]] == "" || grade <= 0 {
			return err
		}
		i, ok := place[f[0]]
		if !ok {
			i = len(s.questions)
			place[f[0]] = i
			s.questions, s.answers = append(s.questions, asked[f[0]]), append(s.answers, map[int]float64{})
		}
		s.answers[i][passage] = grade
		return nil
	})
}

func (e *embedder) embedSet(ctx context.Context, s *set) (err error) {
	if s.pv, err = e.embed(ctx, s.passages, engine.RolePassage); err != nil {
		return err
	}
	s.qv, err = e.embed(ctx, s.questions, engine.RoleQuery)
	return err
}

// measure returns the metric of the set with a map, or without one if r is nil: each question against all passages.
func (s *set) measure(r *reduce.Reduction) float64 {
	short := func(list [][]float32) [][]float32 {
		out := make([][]float32, len(list))
		for i, v := range list {
			if r != nil {
				v, _ = r.Apply(v) // of the model's length
			}
			out[i] = unit(v)
		}
		return out
	}
	passages, questions := short(s.pv), short(s.qv)
	sum := 0.0
	scores := make([]float32, len(passages))
	for i, q := range questions {
		for j, p := range passages {
			dot := float32(0)
			for k, x := range q {
				dot += x * p[k]
			}
			scores[j] = dot
		}
		gain := 0.0
		for j, grade := range s.answers[i] {
			rank := 1
			for k, x := range scores {
				if x > scores[j] || x == scores[j] && k < j {
					rank++
				}
			}
			switch {
			case rank > 10:
			case s.graded:
				gain += (math.Exp2(grade) - 1) / math.Log2(float64(rank)+1)
			default:
				gain = max(gain, 1/float64(rank))
			}
		}
		if s.graded {
			gain /= ideal(s.answers[i])
		}
		sum += gain
	}
	return sum / float64(len(questions))
}

// ideal is the gain of the best order.
func ideal(answers map[int]float64) (gain float64) {
	var grades []float64
	for _, g := range answers {
		grades = append(grades, g)
	}
	slices.Sort(grades)
	slices.Reverse(grades)
	for i, g := range grades[:min(10, len(grades))] {
		gain += (math.Exp2(g) - 1) / math.Log2(float64(i)+2)
	}
	return gain
}

func unit(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	out := make([]float32, len(v))
	if sum == 0 {
		return out
	}
	for i, x := range v {
		out[i] = float32(float64(x) / math.Sqrt(sum))
	}
	return out
}
