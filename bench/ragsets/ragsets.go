// Package ragsets reads public sets of questions and the passages that answer them, as they are published, and measures orders of passages
// against them. The sets are not part of the product: they lie in a folder of whoever measures (see bench/README.md).
package ragsets

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Set is a collection of passages and questions about it.
type Set struct {
	Name      string
	SHA256    string // of its files, one after the other
	Passages  []Passage
	Questions []Question
}

// Passage is a passage.
type Passage struct {
	ID, Title, Text string
	// Document is the number of the document that the passage is from, in the set. Translations of a set number alike.
	Document int
}

// Question is a question and how well passages answer it, by their number in the set; a passage that is not there does not.
type Question struct {
	Text   string
	Grades map[int]float64
	// Self is a passage that is the question itself and is no answer; -1 if there is none.
	Self int
}

// Load reads the sets of a folder. Each is a folder: with corpus.jsonl, queries.jsonl and qrels/test.tsv as BEIR has them, or with files of
// SQuAD's form, of which all are one set. Sets come by name.
func Load(dir string) ([]Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read sets: %w", err)
	}
	var out []Set
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		set, err := LoadSet(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", e.Name(), err)
		}
		out = append(out, set)
	}
	return out, nil
}

// LoadSet reads the set of one folder.
func LoadSet(dir string) (Set, error) {
	s := Set{Name: filepath.Base(dir)}
	if _, err := os.Stat(filepath.Join(dir, "corpus.jsonl")); err == nil {
		err = errors.Join(s.readBEIR(dir), s.digest(filepath.Join(dir, "corpus.jsonl"), filepath.Join(dir, "queries.jsonl"), filepath.Join(dir, "qrels", "test.tsv")))
		return s, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		return s, errors.Join(errors.New("no set is there"), err)
	}
	slices.Sort(files)
	for _, f := range files {
		if err := s.readSQuAD(f); err != nil {
			return s, fmt.Errorf("%s: %w", filepath.Base(f), err)
		}
	}
	return s, s.digest(files...)
}

func (s *Set) digest(files ...string) error {
	h := sha256.New()
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		h.Write(data)
	}
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return nil
}

func (s *Set) readSQuAD(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var in struct {
		Data []struct {
			Title      string
			Paragraphs []struct {
				ID, Context string
				QAs         []struct{ Question string }
			}
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	known, documents := map[string]int{}, 0
	for i, p := range s.Passages {
		known[p.Text], documents = i, max(documents, p.Document+1)
	}
	for i, d := range in.Data {
		for _, p := range d.Paragraphs {
			n, ok := known[p.Context]
			if !ok {
				n = len(s.Passages)
				known[p.Context] = n
				s.Passages = append(s.Passages, Passage{ID: p.ID, Text: p.Context, Document: documents + i}) // a title would give the article away
			}
			for _, q := range p.QAs {
				s.Questions = append(s.Questions, Question{Text: q.Question, Grades: map[int]float64{n: 1}, Self: -1})
			}
		}
	}
	return nil
}

func (s *Set) readBEIR(dir string) error {
	type row struct {
		ID    string `json:"_id"`
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	numbers := map[string]int{}
	err := lines(filepath.Join(dir, "corpus.jsonl"), func(line []byte) error {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		numbers[r.ID] = len(s.Passages)
		s.Passages = append(s.Passages, Passage{ID: r.ID, Title: r.Title, Text: r.Text, Document: len(s.Passages)})
		return nil
	})
	if err != nil {
		return err
	}
	texts := map[string]string{}
	err = lines(filepath.Join(dir, "queries.jsonl"), func(line []byte) error {
		var r row
		err := json.Unmarshal(line, &r)
		texts[r.ID] = r.Text
		return err
	})
	if err != nil {
		return err
	}
	asked := map[string]int{}
	return lines(filepath.Join(dir, "qrels", "test.tsv"), func(line []byte) error {
		f := strings.Split(string(line), "\t")
		if len(f) != 3 {
			return errors.New("a judgement has not three columns")
		}
		grade, err := strconv.ParseFloat(strings.TrimSpace(f[2]), 64)
		if err != nil {
			return nil //nolint:nilerr // the heading
		}
		passage, ok := numbers[f[1]]
		text, known := texts[f[0]]
		if !ok || !known || grade <= 0 {
			return nil
		}
		n, ok := asked[f[0]]
		if !ok {
			n = len(s.Questions)
			asked[f[0]] = n
			q := Question{Text: text, Grades: map[int]float64{}, Self: -1}
			if self, ok := numbers[f[0]]; ok {
				q.Self = self
			}
			s.Questions = append(s.Questions, q)
		}
		s.Questions[n].Grades[passage] = grade
		return nil
	})
}

func lines(file string, each func([]byte) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 64<<20)
	for n := 1; in.Scan(); n++ {
		if err := each(in.Bytes()); err != nil {
			return fmt.Errorf("%s, line %d: %w", filepath.Base(file), n, err)
		}
	}
	return in.Err()
}

// Quality is how good orders of passages are, the mean over questions.
type Quality struct {
	NDCG, MRR float64 // of the first ten
	Recall    float64 // of the first hundred
	Questions int
}

// Measure judges the orders that rank gives: numbers of passages, best first.
func Measure(questions []Question, rank func(i int) []int) Quality {
	out := Quality{Questions: len(questions)}
	for i, q := range questions {
		order := slices.DeleteFunc(slices.Clone(rank(i)), func(n int) bool { return n == q.Self })
		out.NDCG += NDCG(order, q.Grades)
		out.MRR += reciprocal(order, q.Grades)
		found := 0
		for _, n := range order[:min(100, len(order))] {
			if q.Grades[n] > 0 {
				found++
			}
		}
		out.Recall += float64(found) / float64(len(q.Grades))
	}
	n := float64(max(1, len(questions)))
	out.NDCG, out.MRR, out.Recall = out.NDCG/n, out.MRR/n, out.Recall/n
	return out
}

// NDCG returns the discounted gain of the first ten as a share of the best possible; gains are the grades, as trec_eval has it.
func NDCG(order []int, grades map[int]float64) float64 {
	var ideal []float64
	for _, g := range grades {
		ideal = append(ideal, g)
	}
	slices.Sort(ideal)
	slices.Reverse(ideal)
	got, most := 0.0, 0.0
	for i := range 10 {
		discount := 1 / math.Log2(float64(i)+2)
		if i < len(order) {
			got += grades[order[i]] * discount
		}
		if i < len(ideal) {
			most += ideal[i] * discount
		}
	}
	if most == 0 {
		return 0
	}
	return got / most
}

func reciprocal(order []int, grades map[int]float64) float64 {
	for i, n := range order[:min(10, len(order))] {
		if grades[n] > 0 {
			return 1 / float64(i+1)
		}
	}
	return 0
}
