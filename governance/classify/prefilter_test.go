package classify

import (
	"math/rand/v2"
	"testing"

	"github.com/sluice-project/sluice/governance/classify/corpus"
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// TestTriggerTableKnowsEveryPair: the sorts of characters on the left are as fine as the rule.
func TestTriggerTableKnowsEveryPair(t *testing.T) {
	table := newScanner().triggers()
	for left := text.Unknown; left < 0x100; left++ {
		for r := range rune(0x80) {
			if got, want := table.of(&text.Cell{R: r}, left), asciiTriggers(r, left); got != want {
				t.Fatalf("%q behind %q may begin %b, want %b", r, left, got, want)
			}
		}
	}
}

// TestNothingElseIsTriggered asks every detector at every place of many texts that the table rules it out for.
func TestNothingElseIsTriggered(t *testing.T) {
	for _, s := range speedTexts(t) {
		for _, final := range []bool{true, false} {
			sc := New(Classes()...).Scanner()
			w := &sc.w
			w.Read(s, 0, final)
			sc.show(w.View())
			for i := range w.End() {
				r, left := w.At(i), w.At(i-1)
				may := sc.triggers().of(w.Cell(i), left)
				if may&finding.TriggerEmail != 0 && r < 0x80 {
					may = sc.refine(i, may)
				}
				for _, ruled := range []struct {
					bit      finding.Triggers
					detector detector
					asked    bool
				}{
					{finding.TriggerCode, &sc.numbers, true},
					{finding.TriggerSecret, &sc.secrets, true},
					{finding.TriggerLogin, &sc.secrets, true},
					{finding.TriggerKey, &sc.secrets, r == '-'},
					{finding.TriggerName, &sc.people, text.IsHan(r) || text.IsLetter(r)},
					{finding.TriggerAddress, &sc.addresses, text.IsHan(r) || text.IsAlnum(r) && !text.IsAlnum(left)},
					{finding.TriggerIPv4, &sc.hosts, text.IsDigit(r) || text.Misread(r) != 0 && !text.IsAlnum(left)},
					{finding.TriggerIPv6, &sc.hosts, text.IsHex(r) || r == ':'},
					{finding.TriggerEmail, &sc.accounts, text.IsAlnum(r)},
					{finding.TriggerCrypto, &sc.accounts, text.IsAlnum(r)},
					{finding.TriggerWeChat, &sc.accounts, text.IsLetter(r) || r == '0' || r == '1'},
				} {
					if !ruled.asked || may&ruled.bit != 0 {
						continue
					}
					d := finding.Decision{On: ^finding.Kinds(0), Triggers: ruled.bit}
					if ruled.detector.Detect(&d, i); d.Open || len(d.Found) > 0 {
						t.Fatalf("%q at place %d of %q: bit %b is ruled out, found %v, open %v", r, i, s, ruled.bit, d.Found, d.Open)
					}
				}
				if _, ok := runBase64(&w.Window, i); ok && may&finding.TriggerBase64 == 0 {
					t.Fatalf("%q at place %d of %q: base64 is ruled out", r, i, s)
				}
			}
			sc.Done()
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
