package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/eval"
)

func kindOf(s []rune) string {
	han := true
	for _, r := range s {
		if !unicode.Is(unicode.Han, r) {
			han = false
		}
	}
	if han {
		if len(s) > 4 {
			return "han5+"
		}
		return fmt.Sprintf("han%d", len(s))
	}
	if strings.ContainsAny(string(s), "·•‧.．・") && unicode.Is(unicode.Han, s[0]) {
		return "dotted"
	}
	for _, r := range s {
		if unicode.Is(unicode.Han, r) {
			return "mixedhan"
		}
	}
	return "latin"
}
func ctx(r rune) string {
	switch {
	case r == 0:
		return "edge"
	case strings.ContainsRune("：:=", r):
		return "colon"
	case unicode.Is(unicode.Han, r):
		return "han"
	case unicode.IsSpace(r):
		return "space"
	case unicode.IsLetter(r) || unicode.IsDigit(r):
		return "alnum"
	}
	return "punct"
}
func main() {
	set, err := corpus.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	det := eval.Of(corpus.DefaultClasses()...)
	all, miss := map[string]int{}, map[string]int{}
	frames := map[string]int{}
	ids := map[string]bool{}
	for _, d := range set.Documents {
		text := []rune(d.Text)
		found := det(d.Text)
		cov := make([]bool, len(text))
		for _, f := range found {
			for i := f.Start; i < f.End; i++ {
				cov[i] = true
			}
		}
		for _, s := range d.Spans {
			if s.Type != "person" {
				continue
			}
			hit := true
			for i := s.Start; i < s.End; i++ {
				if !cov[i] {
					hit = false
				}
			}
			var l, r rune
			if s.Start > 0 {
				l = text[s.Start-1]
			}
			if s.End < len(text) {
				r = text[s.End]
			}
			parts := strings.Split(d.ID, "/")
			for _, k := range []string{"kind " + kindOf(text[s.Start:s.End]), "ctx " + ctx(l) + "|" + ctx(r), "noise " + parts[len(parts)-1], "fam " + parts[1]} {
				all[k]++
				if !hit {
					miss[k]++
				}
			}
			if !hit {
				frames[strings.Join(parts[:len(parts)-1], "/")]++
				ids[d.ID] = true
			}
		}
	}
	var keys []string
	for k := range all {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range keys {
		fmt.Printf("%-24s %6d %5d %.1f%%\n", k, all[k], miss[k], 100*float64(miss[k])/float64(all[k]))
	}
	hist := map[int]int{}
	for _, n := range frames {
		hist[n]++
	}
	fmt.Println("frames with misses", len(frames), "docs", len(ids), hist)
}
