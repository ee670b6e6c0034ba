package classify

import (
	"sync"

	"github.com/sluice-project/sluice/governance/classify/address"
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/number"
	"github.com/sluice-project/sluice/governance/classify/online"
	"github.com/sluice-project/sluice/governance/classify/person"
	"github.com/sluice-project/sluice/governance/classify/secret"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// precedingSorts are the characters that make a difference before another, one sort a line; the first sort is all others.
var precedingSorts = [...]string{"", "0123456789", "abefghijklmpqrsuwyz", "ABEFGHIJKLMPQRSUWYZ", "dnovx", "DNOVX", "t", "T", "c", "C", "_", "-", ".", "+", "%", ":", "/", "@"}

// triggerTable says for each sort of character on the left what an ASCII character may begin, and what a Chinese one may.
type triggerTable struct {
	sort  [0x80]uint8
	ascii [len(precedingSorts)][0x80]finding.Triggers
	han   [lexicon.Places]finding.Triggers
}

var triggerTables = sync.OnceValue(func() *triggerTable {
	t := new(triggerTable)
	for sort, runes := range precedingSorts {
		left := text.Edge
		for _, left = range runes {
			t.sort[left] = uint8(sort)
		}
		for r := range rune(0x80) {
			t.ascii[sort][r] = asciiTriggers(r, left)
		}
	}
	for r := rune(text.HanFirst); r < text.HanLast; r++ {
		place, _ := lexicon.Place(r)
		t.han[place] = number.Triggers(r, '一') | person.Triggers(r, '一') | address.Triggers(r, '一') | secret.Triggers(r, '一')
	}
	return t
})

// asciiTriggers says what r, a character of ASCII, may begin behind left.
func asciiTriggers(r, left rune) finding.Triggers {
	b := number.Triggers(r, left) | online.HostTriggers(r, left) | address.Triggers(r, left) | online.AccountTriggers(r, left) | person.Triggers(r, left) | secret.Triggers(r, left)
	if text.IsBase64(r) && (r < 'a' || r > 'z') && (!text.IsBase64(left) || left >= 'a' && left <= 'z') {
		b |= finding.TriggerBase64
	}
	return b
}

// of returns what may begin with a cell behind left; everything for rare Chinese characters.
func (t *triggerTable) of(c *text.Cell, left rune) finding.Triggers {
	switch r := c.R; {
	case c.Han != 0:
		if text.IsHan(left) {
			return t.han[c.Han-1]
		}
		return t.han[c.Han-1] | finding.TriggerName
	case uint32(r) < 0x80:
		sort := uint8(0)
		if uint32(left) < 0x80 {
			sort = t.sort[left]
		}
		return t.ascii[sort][r]
	case text.IsHan(r):
		return ^finding.Triggers(0)
	}
	return number.Triggers(c.R, left)
}

// refine takes away what does not begin at place i, where a row of letters and digits begins, because the row is over too soon.
func (s *Scanner) refine(i int, may finding.Triggers) finding.Triggers {
	e := s.w.RowEnd(i)
	next := s.w.At(e)
	if next == text.Unknown {
		return may
	}
	return s.hosts.Refine(i, s.accounts.Refine(i, e, next, s.secrets.Refine(i, e, next, s.addresses.Refine(i, e, next, may))))
}
