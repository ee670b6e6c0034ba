package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
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

// text scans one text.
func (s *scan) text(id json.RawMessage, text string) error {
	found := s.set.Find(text)
	s.texts++
	here := map[classify.Class]bool{}
	for _, f := range found {
		s.findings[f.Class]++
		if !here[f.Class] {
			here[f.Class] = true
			s.in[f.Class]++
		}
	}
	if s.show != nil && s.total > s.read {
		s.show(int(s.read/1e6), int(s.total/1e6)+1)
	}
	if s.onlyCounts {
		return nil
	}
	out := scannedText{ID: id, Findings: make([]scannedFinding, 0, len(found))}
	masked, last, runes := strings.Builder{}, 0, 0
	for _, f := range found {
		masked.WriteString(text[last:f.Start])
		runes += utf8.RuneCountInString(text[last:f.Start])
		value := text[f.Start:f.End]
		length := utf8.RuneCountInString(value)
		out.Findings = append(out.Findings, scannedFinding{Start: runes, End: runes + length, Type: f.Class, Score: f.Score})
		masked.WriteString(hidden(f.Class, value))
		last, runes = f.End, runes+length
	}
	masked.WriteString(text[last:])
	out.Masked = masked.String()
	enc := json.NewEncoder(s.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(out)
}

// hidden returns what stands for a value: of numbers that people know by their ends a part, of all else a label.
func hidden(c classify.Class, value string) string {
	var head, tail int
	switch c {
	case classify.Mobile:
		head, tail = 3, 4
	case classify.BankCard, classify.BankAccount:
		head, tail = 4, 4
	case classify.ResidentID, classify.USCC:
		head, tail = 6, 2
	case classify.VIN, classify.Landline:
		head, tail = 2, 2
	case classify.Plate:
		head, tail = 2, 1
	default:
		return mask.Redacted(c)
	}
	signs := 0 // marks and blanks between them are no part of the number
	for _, r := range value {
		if sign(r) {
			signs++
		}
	}
	if signs < head+tail+4 { // too much of it would show
		return mask.Redacted(c)
	}
	out, n := strings.Builder{}, 0
	for _, r := range value {
		if !sign(r) {
			out.WriteRune(r)
			continue
		}
		if n++; n > head && n <= signs-tail {
			r = '*'
		}
		out.WriteRune(r)
	}
	return out.String()
}

func sign(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }

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
