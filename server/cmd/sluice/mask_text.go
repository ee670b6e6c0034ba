package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
)

// scannedText is what is printed for a text.
type scannedText struct {
	ID       json.RawMessage  `json:"id"`
	Findings []scannedFinding `json:"findings"`
	Masked   string           `json:"masked"`
}

// scannedFinding counts characters, as people and most languages do.
type scannedFinding struct {
	Start int            `json:"start"`
	End   int            `json:"end"`
	Type  classify.Class `json:"type"`
	Score float64        `json:"score"`
}

// batchBytes is how much text is scanned at a time, side by side on all processors.
const batchBytes = 4 << 20

// waiting is a text that was read and not yet scanned.
type waiting struct {
	id   json.RawMessage
	text string
}

// text takes a text to scan.
func (s *scan) text(id json.RawMessage, text string) error {
	s.batch = append(s.batch, waiting{id, text})
	if s.batched += len(text); s.batched < batchBytes {
		return nil
	}
	return s.flush()
}

// flush scans the texts that wait and writes what was found, in their order.
func (s *scan) flush() error {
	found := make([][]classify.Finding, len(s.batch))
	lines := make([][]byte, len(s.batch))
	errs := make([]error, len(s.batch))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.batch)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(s.batch) {
					return
				}
				found[i] = s.set.Find(s.batch[i].text)
				if !s.onlyCounts {
					lines[i], errs[i] = s.batch[i].line(found[i])
				}
			}
		})
	}
	workers.Wait()
	for i := range s.batch {
		s.count(found[i])
		if errs[i] != nil {
			return errs[i]
		}
		if _, err := s.out.Write(lines[i]); err != nil {
			return err
		}
	}
	s.batch, s.batched = s.batch[:0], 0
	if s.show != nil && s.total > s.read {
		s.show(int(s.read/1e6), int(s.total/1e6)+1)
	}
	return nil
}

func (s *scan) count(found []classify.Finding) {
	s.texts++
	here := map[classify.Class]bool{}
	for _, f := range found {
		s.findings[f.Class]++
		if !here[f.Class] {
			here[f.Class] = true
			s.in[f.Class]++
		}
	}
}

// line is what is printed for a text.
func (w waiting) line(found []classify.Finding) ([]byte, error) {
	out := scannedText{ID: w.id, Findings: make([]scannedFinding, 0, len(found))}
	masked, last, runes := strings.Builder{}, 0, 0
	for _, f := range found {
		between, value := w.text[last:f.Start], w.text[f.Start:f.End]
		masked.WriteString(between)
		start := runes + utf8.RuneCountInString(between)
		runes, last = start+utf8.RuneCountInString(value), f.End
		out.Findings = append(out.Findings, scannedFinding{Start: start, End: runes, Type: f.Class, Score: f.Score})
		masked.WriteString(mask.Partial(f.Class, tag(f.Class), value))
	}
	masked.WriteString(w.text[last:])
	out.Masked = masked.String()
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(out)
	return line.Bytes(), err
}

// tag is what a label calls a class.
func tag(c classify.Class) string {
	t, _ := classify.TypeOf(c)
	return t.Tag
}

// printCounts prints how much was found of each type.
func (s *scan) printCounts() {
	rows := [][]string{{s.app.say("type", "类型"), s.app.say("values", "数量"), s.app.say("texts", "文本数")}}
	for _, c := range classify.Classes() {
		if n := s.findings[c]; n > 0 {
			rows = append(rows, []string{string(c), fmt.Sprint(n), fmt.Sprint(s.in[c])})
		}
	}
	rows = append(rows, []string{s.app.say("(all texts)", "（全部文本）"), "", fmt.Sprint(s.texts)})
	printColumns(s.app.env.stdout, rows)
}
