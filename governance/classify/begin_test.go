package classify

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
)

// TestBeginTableKnowsEveryPair: the sorts of characters on the left are as fine as the rule.
func TestBeginTableKnowsEveryPair(t *testing.T) {
	table := beginnings()
	for left := unknown; left < 0x100; left++ {
		for r := range rune(0x80) {
			if got, want := table.of(&cell{r: r}, left), asciiBegins(r, left); got != want {
				t.Fatalf("%q behind %q may begin %b, want %b", r, left, got, want)
			}
		}
	}
}

// TestNothingElseBegins asks every detector at every cell of many texts that the table rules it out for.
func TestNothingElseBegins(t *testing.T) {
	for _, text := range speedTexts(t) {
		for _, final := range []bool{true, false} {
			w := window{final: final}
			var n normaliser
			w.cells, _ = n.add(nil, text, 0, final)
			for i, c := range w.cells {
				may := beginnings().of(&c, w.at(i-1))
				if may&beginEmail != 0 && c.r < 0x80 {
					may = w.refine(i, may)
				}
				for _, left := range []struct {
					bit begins
					ask func(*decision)
				}{
					{beginCodes, func(d *decision) {
						switch {
						case c.r < 0x80:
							d.codesAt(&w, i, c.r, w.at(i-1))
						case isHan(c.r):
							d.hanCodes(&w, i)
						default:
							d.ask(courtCase(&w, i))
						}
					}},
					{beginSecret, func(d *decision) { d.secrets(&w, i) }},
					{beginLogin, func(d *decision) { d.logins(&w, i) }},
					{beginName, func(d *decision) {
						if isHan(c.r) {
							d.ask(person(&w, i))
						} else if isLetter(c.r) {
							d.ask(latin(&w, i))
						}
					}},
					{beginAddress, func(d *decision) {
						if isHan(c.r) || isAlnum(c.r) && !isAlnum(w.at(i-1)) {
							d.ask(address(&w, i))
						}
					}},
					{beginIPv4, func(d *decision) {
						if isDigit(c.r) || misread(c.r) != 0 && !isAlnum(w.at(i-1)) {
							d.ask(ipv4(&w, i))
						}
					}},
					{beginIPv6, func(d *decision) {
						if isHex(c.r) || c.r == ':' {
							d.ask(ipv6(&w, i))
						}
					}},
					{beginEmail, func(d *decision) {
						if isAlnum(c.r) {
							d.ask(email(&w, i))
						}
					}},
					{beginCrypto, func(d *decision) {
						if isAlnum(c.r) {
							d.ask(cryptoAddress(&w, i))
						}
					}},
					{beginWeChat, func(d *decision) {
						if isLetter(c.r) || c.r == '0' || c.r == '1' {
							d.ask(wechat(&w, i))
						}
					}},
					{beginKey, func(d *decision) {
						if c.r == '-' {
							d.ask(pem(&w, i))
						}
					}},
					{beginBase64, func(d *decision) {
						if start, ok := w.runBase64(i); ok {
							d.open = start >= 0
						}
					}},
				} {
					if may&left.bit != 0 {
						continue
					}
					d := decision{on: ^bits(0), may: ^begins(0)}
					if left.ask(&d); d.open || len(d.found) > 0 {
						t.Fatalf("%q at cell %d of %q: bit %b is ruled out, found %v, open %v", c.r, i, text, left.bit, d.found, d.open)
					}
				}
			}
		}
	}
}

// speedTexts are documents of the tune set, and rows of fragments.
func speedTexts(t *testing.T) []string {
	t.Helper()
	tune, err := corpus.Open("tune")
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{addressProse, englishProse, digitTable, serverLog, peopleProse}
	for i, d := range tune.Documents {
		if i%20 == 0 {
			texts = append(texts, d.Text)
		}
	}
	for seed := range uint64(500) {
		texts = append(texts, randomText(rand.New(rand.NewPCG(seed, 2))))
	}
	return texts
}

// TestCompaniesAreRemembered: what is remembered of where companies end, and where none begins, changes nothing that is found.
func TestCompaniesAreRemembered(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	parts := []string{"华东机电", "甲", "有限公司", "股份有限公司", "集团", "有 限公司", "与", "在", "，", " ", "  ", "分公司", "有", "集", "北京", "Ab", "(", "一二三四五六七八九十", "。", "苏州分公司"}
	found := 0
	for range 3000 {
		var b strings.Builder
		for range 1 + r.IntN(30) {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		var n normaliser
		w := window{final: r.IntN(2) == 0}
		w.cells, _ = n.add(nil, b.String(), 0, w.final)
		for i := range w.cells {
			fresh := window{cells: w.cells, final: w.final}
			if !fresh.beginsCompany(i) {
				continue
			}
			want, answer := company(&fresh, i)
			got, v := match{}, no
			if w.beginsCompany(i) {
				got, v = company(&w, i)
			}
			if v != answer || v == yes && got != want {
				t.Fatalf("%q at %d: %+v %d, a window that remembers nothing: %+v %d", b.String(), i, got, v, want, answer)
			}
			if v == yes {
				found++
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d companies", found)
	}
}
