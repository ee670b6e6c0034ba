package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-project/sluice/bench/ragsets"
	"github.com/sluice-project/sluice/rag/eval"
)

// exportSets writes each set as documents to ingest and questions to ask about them. Every third document is left out of the documents, so that its questions have
// no answer.
func exportSets(dir string, sets []ragsets.Set, sample int) error {
	for _, s := range sets {
		if err := exportSet(filepath.Join(dir, s.Name), s, sample); err != nil {
			return fmt.Errorf("export %s: %w", s.Name, err)
		}
	}
	return nil
}

func exportSet(dir string, s ragsets.Set, sample int) error {
	documents := filepath.Join(dir, "documents")
	if err := os.MkdirAll(documents, 0o700); err != nil {
		return err
	}
	left := func(passage int) bool { return passage%3 == 2 }
	name := func(passage int) string { return fmt.Sprintf("%05d.txt", passage) }
	for i, p := range s.Passages {
		if left(i) {
			continue
		}
		if err := os.WriteFile(filepath.Join(documents, name(i)), []byte(passageText(p)+"\n"), 0o600); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(eval.Head{Set: s.Name, Version: s.SHA256[:12], Licence: trainable()[s.SHA256], Source: "bench/README.md"}); err != nil {
		return err
	}
	step := 1
	if sample > 0 {
		step = max(1, len(s.Questions)/sample)
	}
	for i := 0; i < len(s.Questions); i += step {
		q := eval.Question{ID: fmt.Sprintf("q%05d", i), Question: s.Questions[i].Text}
		passages := grades(s.Questions[i])
		slices.Sort(passages)
		for _, p := range passages {
			if !left(p) {
				q.Documents = append(q.Documents, name(p))
			}
		}
		q.Unanswerable = len(q.Documents) == 0
		if err := enc.Encode(q); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "questions.jsonl"), out.Bytes(), 0o600)
}
