// Command costs derives the lists costs.txt and namecosts.txt from the word list of jieba 0.42.1 and the lists beside it:
//
//	pip download jieba==0.42.1 --no-deps --no-binary :all: && tar xzf jieba-0.42.1.tar.gz
//	go run ./governance/classify/lexicon/costs jieba-0.42.1/jieba/dict.txt governance/classify/lexicon/data
//
// Of the word list only facts are taken over: that a word exists, how frequent it is in steps of half a nat, and its part of speech.
package main

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
)

// A word is left out below a frequency, unless it is in words.txt. Words that begin like a name say more.
const (
	least      = 10
	leastNamed = 3
)

// longest is how many characters of a word are kept: what begins so is enough.
const longest = 4

// letter returns the letter of the list for a tag of jieba, 0 for one that it does not have.
func letter(tag string) byte {
	switch tag {
	case "a", "ag", "z":
		return 'a'
	case "ad", "d":
		return 'd'
	case "an", "j", "n":
		return 'n'
	case "b":
		return 'b'
	case "c":
		return 'c'
	case "f":
		return 'f'
	case "i", "l":
		return 'i'
	case "m":
		return 'm'
	case "nr":
		return 'N'
	case "ns", "nt", "s":
		return 's'
	case "nz":
		return 'z'
	case "p":
		return 'p'
	case "q":
		return 'q'
	case "r":
		return 'r'
	case "t":
		return 't'
	case "u", "k":
		return 'u'
	case "v":
		return 'v'
	case "vn":
		return 'w'
	case "y", "o", "e":
		return 'y'
	}
	return 0
}

type word struct {
	count int
	tag   string
}

func main() {
	if len(os.Args) != 3 {
		fail(fmt.Errorf("usage: costs DICT.TXT DATA-FOLDER"))
	}
	dict, total, err := read(os.Args[1])
	if err != nil {
		fail(err)
	}
	data := os.Args[2]
	if err := os.WriteFile(filepath.Join(data, "costs.txt"), words(dict, total, listed(filepath.Join(data, "words.txt"), filepath.Join(data, "cues.txt"))), 0o644); err != nil { //nolint:gosec // no secret
		fail(err)
	}
	if err := os.WriteFile(filepath.Join(data, "namecosts.txt"), names(dict), 0o644); err != nil { //nolint:gosec // no secret
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "costs:", err)
	os.Exit(1)
}

func read(file string) (map[string]word, float64, error) {
	f, err := os.Open(file) //nolint:gosec // named by whoever runs the command
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }()
	dict, total := map[string]word{}, 0.0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 2 {
			continue
		}
		n, err := strconv.Atoi(fields[len(fields)-2])
		if err != nil || len(fields) != 3 {
			continue
		}
		dict[fields[0]] = word{n, fields[2]}
		total += float64(n)
	}
	return dict, total, nil
}

// listed reads words.txt and cues.txt.
func listed(file, cues string) map[string]bool {
	text, err := os.ReadFile(file) //nolint:gosec // named by whoever runs the command
	if err != nil {
		fail(err)
	}
	out := map[string]bool{}
	extra, err := os.ReadFile(cues) //nolint:gosec // named by whoever runs the command
	if err != nil {
		fail(err)
	}
	for _, w := range strings.Fields(string(extra)) {
		if utf8.RuneCountInString(w) >= 2 {
			out[w] = true
		}
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "#" {
			continue
		}
		for _, rest := range f[1:] {
			out[f[0]+rest] = true
		}
	}
	return out
}

func isHan(s string) bool {
	for _, r := range s {
		if r < 0x4e00 || r > 0x9fff {
			return false
		}
	}
	return s != ""
}

// steps writes a cost, -ln of a share, in steps of half a nat as one character.
func steps(share float64) byte {
	n := min(max(int(math.Round(-2*math.Log(share))), 0), 45)
	return "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ!$%&()*+,-"[n]
}

// part returns the letter of the longest beginning of a tag that has one.
func part(tag string) byte {
	for n := len(tag); n > 0; n-- {
		if p := letter(tag[:n]); p != 0 {
			return p
		}
	}
	return 'x'
}

// isName reports whether a word that the list takes for a name reads as a surname and a given name.
func isName(w []rune) bool {
	n, _ := lexicon.Surname(w)
	if n == 0 || n == len(w) {
		return false
	}
	for _, r := range w[n:] {
		if lexicon.Given(r) == lexicon.None {
			return false
		}
	}
	return true
}

func words(dict map[string]word, total float64, own map[string]bool) []byte {
	byFirst := map[rune][]string{}
	heads := map[string]word{}
	for w, d := range dict {
		if rs := []rune(w); len(rs) > longest && len(rs) < 9 {
			head := string(rs[:longest])
			if _, ok := dict[head]; !ok {
				heads[head] = word{heads[head].count + d.count, "i"}
			}
		}
	}
	maps.Copy(dict, heads)
	for w, d := range dict {
		n := utf8.RuneCountInString(w)
		if !isHan(w) || n > longest {
			continue
		}
		least := least
		if surname, tier := lexicon.Surname([]rune(w)); surname > 0 && tier >= lexicon.Usual {
			least = leastNamed
		}
		name := strings.HasPrefix(d.tag, "nr")
		if n > 1 && !own[w] && (d.count < least || name && (n > 3 || isName([]rune(w)) || d.count < 40)) {
			continue
		}
		tag := d.tag
		first, size := utf8.DecodeRuneInString(w)
		byFirst[first] = append(byFirst[first], w[size:]+string([]byte{steps(float64(d.count) / total), part(tag)}))
	}
	for w := range own {
		if _, ok := dict[w]; ok || !isHan(w) || utf8.RuneCountInString(w) > 4 {
			continue
		}
		first, size := utf8.DecodeRuneInString(w)
		byFirst[first] = append(byFirst[first], w[size:]+string([]byte{steps(20 / total), 'x'})) // ours alone: frequent in our fields
	}
	var b strings.Builder
	b.WriteString("# Words, how rare they are and their part of speech: made by ../costs. See README.md.\n")
	for _, r := range slices.Sorted(maps.Keys(byFirst)) {
		slices.Sort(byFirst[r])
		fmt.Fprintf(&b, "%c %s\n", r, strings.Join(byFirst[r], " "))
	}
	return []byte(b.String())
}

// names counts how often a character is a surname, and is each place of a given name, among the names in the word list, and joins that with
// the tiers of our own lists, which know names of today that the list does not.
func names(dict map[string]word) []byte {
	var surnames, single, first, second [0x10000]float64
	for w, d := range dict {
		rs := []rune(w)
		if !strings.HasPrefix(d.tag, "nr") || !isHan(w) || len(rs) < 2 || len(rs) > 3 || !isName(rs) {
			continue
		}
		if n, _ := lexicon.Surname(rs); n != 1 {
			continue
		}
		weight := math.Log2(1 + float64(d.count))
		if len(rs) == 2 {
			weight /= 2 // many of two are words
			single[rs[1]] += weight
		} else {
			first[rs[1]] += weight
			second[rs[2]] += weight
		}
		surnames[rs[0]] += weight
	}
	var b strings.Builder
	b.WriteString("# What characters cost as surnames and in given names, -ln of their share in steps of half a nat: made by ../costs. See README.md.\n")
	surnamePrior := [4]float64{0, 2, 12, 160}
	write(&b, "surname", &surnames, func(r rune) float64 {
		if n, tier := lexicon.Surname([]rune{r}); n == 1 {
			return surnamePrior[tier]
		}
		return -1
	})
	givenPrior := [4]float64{0.05, 2, 10, 40}
	given := func(r rune) float64 { return givenPrior[lexicon.Given(r)] }
	write(&b, "single", &single, given)
	write(&b, "first", &first, given)
	write(&b, "second", &second, given)
	return []byte(b.String())
}

func write(b *strings.Builder, key string, counts *[0x10000]float64, prior func(rune) float64) {
	total := 0.0
	share := map[rune]float64{}
	for r := rune(0x4e00); r < 0xa000; r++ {
		if p := prior(r); p >= 0 && counts[r]+p >= 0.3 {
			share[r] = counts[r] + p
			total += share[r]
		}
	}
	byCost := map[byte][]rune{}
	for r, n := range share {
		c := steps(n / total)
		byCost[c] = append(byCost[c], r)
	}
	for _, c := range slices.Sorted(maps.Keys(byCost)) {
		slices.Sort(byCost[c])
		fmt.Fprintf(b, "%s%c: %s\n", key, c, string(byCost[c]))
	}
}
