package parse

import (
	"encoding/csv"
	"errors"
	"io"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// delimited reads rows of values: a CSV file, whatever separates them, or one with tabs.
func (r *reading) delimited(text string, tabs bool) (Document, error) {
	separator := '\t'
	if !tabs {
		separator = guessSeparator(text)
	}
	in := csv.NewReader(strings.NewReader(text))
	in.Comma, in.FieldsPerRecord, in.LazyQuotes = separator, -1, true
	var rows [][]string
	for {
		if err := ended(r.ctx); err != nil {
			return Document{}, err
		}
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Document{}, refuse(fault.Say("parse.csv"))
		}
		if err := r.hold(len(row)); err != nil {
			return Document{}, err
		}
		rows = append(rows, row)
	}
	header := 0
	if len(rows) > 1 && namesColumns(rows[0]) {
		header = 1
	}
	b := r.builder()
	b.table(rows, header)
	return b.document("")
}

// namesColumns reports whether a row names columns: no cell of it is a number.
func namesColumns(row []string) bool {
	for _, c := range row {
		c = strings.Trim(c, " \t,.-+%")
		if c != "" && strings.Trim(c, "0123456789.,-/: ") == "" {
			return false
		}
	}
	return true
}

// guessSeparator returns the character that divides the first lines into the same number of fields, more than one; a comma if none does.
func guessSeparator(text string) rune {
	sample := text
	if len(sample) > 64<<10 {
		sample = sample[:64<<10]
		if i := strings.LastIndexByte(sample, '\n'); i > 0 {
			sample = sample[:i]
		}
	}
	best, most := ',', 0
	for _, c := range []rune{',', ';', '\t', '|'} {
		in := csv.NewReader(strings.NewReader(sample))
		in.Comma, in.FieldsPerRecord, in.LazyQuotes = c, -1, true
		count := map[int]int{}
		for range 50 {
			row, err := in.Read()
			if err != nil {
				break
			}
			count[len(row)]++
		}
		for fields, lines := range count {
			if fields > 1 && lines*min(fields, 8) > most {
				best, most = c, lines*min(fields, 8)
			}
		}
	}
	return best
}
