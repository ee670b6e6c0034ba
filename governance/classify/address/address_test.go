package address_test

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify"
)

func examplesOf(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	return out
}

func mark(set *classify.Set, text string) string {
	var b strings.Builder
	set.Each(text, func(g classify.Segment) {
		if g.Class != "" {
			b.WriteString("«" + g.Text + "»")
		} else {
			b.WriteString(g.Text)
		}
	})
	return b.String()
}

func TestAddressPositives(t *testing.T) {
	set := classify.New(classify.Address)
	n := 0
	for _, line := range examplesOf(addressPositives) {
		n++
		plain := strings.NewReplacer("«", "", "»", "").Replace(line)
		if got := mark(set, plain); got != line {
			t.Errorf("got %s\n     want %s", got, line)
		}
	}
	if n < 120 {
		t.Errorf("%d forms", n)
	}
}

func TestAddressNegatives(t *testing.T) {
	set := classify.New(classify.Address)
	n := 0
	for _, line := range examplesOf(addressNegatives) {
		n++
		if got := mark(set, line); got != line {
			t.Errorf("found %s", got)
		}
	}
	if n < 100 {
		t.Errorf("%d texts", n)
	}
}
