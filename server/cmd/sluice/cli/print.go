package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// PrintJSON writes v for programs.
func PrintJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// PrintColumns aligns rows, also where Chinese characters take two cells of a terminal; text/tabwriter counts them as one.
func PrintColumns(w io.Writer, rows [][]string) {
	cells := func(s string) int {
		n := 0
		for _, r := range s {
			n++
			if unicode.Is(unicode.Han, r) || r >= 0xff00 && r < 0xff61 {
				n++
			}
		}
		return n
	}
	var width []int
	for _, row := range rows {
		for i, s := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], cells(s))
		}
	}
	for _, row := range rows {
		line := ""
		for i, s := range row {
			line += s + strings.Repeat(" ", width[i]-cells(s)+2)
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}
