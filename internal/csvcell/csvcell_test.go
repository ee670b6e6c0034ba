package csvcell_test

import (
	"testing"

	"github.com/sluice-project/sluice/internal/csvcell"
)

func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"Bank of Xi'an":    "Bank of Xi'an",
		"一、二":              "一、二",
		"1-2":              "1-2",
		"=1+1":             "'=1+1",
		"+86 10 1234":      "'+86 10 1234",
		"-3":               "'-3",
		"@SUM(A1)":         "'@SUM(A1)",
		"\t=1":             "'\t=1",
		"\r=1":             "'\r=1",
		"'=1":              "'=1",
		"\xff not a rune":  "\xff not a rune",
		" =not the first ": " =not the first ",
	} {
		if got := csvcell.Plain(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
