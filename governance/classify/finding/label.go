package finding

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// How far labels are looked for, in cells. What a detector may look at to the left is bounded by leftMemory.
const (
	LabelReach  = 16
	listReach   = 30
	behindReach = 12
)

// Label is a word that says what the value next to it is. Words that speak of something no detector looks for have no kinds: they keep
// a number from being taken for what another word, further away, speaks of.
type Label struct {
	word []rune
	Of   Kinds
	weak bool
}

var knownLabels = indexLabels()

func indexLabels() labels {
	of := map[string]Kinds{}
	for _, row := range labelWords {
		for _, word := range strings.Fields(row.words) {
			word = strings.ReplaceAll(word, "_", " ")
			of[word] |= row.of
			if last, _ := utf8.DecodeLastRuneInString(word); row.of != 0 && text.IsHan(last) && !strings.ContainsRune("号码", last) {
				of[word+"号"] |= row.of
				of[word+"号码"] |= row.of
				of[word+"编号"] |= row.of
			}
		}
	}
	var known []Label
	for _, word := range slices.Sorted(maps.Keys(of)) {
		known = append(known, Label{[]rune(word), of[word], strings.Contains(weakLabels, " "+word+" ")})
	}
	return labels{byEnd: newLabelTrie(known, true), byStart: newLabelTrie(known, false)}
}

// Hints are what the words left of a value say.
type Hints struct {
	Of    Kinds // of the nearest label
	Found bool  // there is one, maybe for something no detector looks for
	Tight bool  // nothing but marks between it and the value
	weak  bool  // it is a word such as 编号, which says that this is a number and not of what
	Near  Kinds // of all labels near by
}

// Other reports whether the value stands right behind a label that speaks for something else than the kind.
func (h Hints) Other(k Kind) bool { return h.Found && h.Tight && !h.weak && !h.Of.Has(k) }

// Hints are what stands left of cell i, which several detectors ask for in a row.
func (w *Window) Hints(i int) Hints {
	if at := w.Place(i); w.hint.at != at || !w.hint.known {
		w.hint.Hints, w.hint.at, w.hint.known = w.readHints(i), at, true
	}
	return w.hint.Hints
}

// knownHints are the hints that were read last.
type knownHints struct {
	Hints
	at    text.Place
	known bool
}

func (w *Window) readHints(i int) Hints {
	h := Hints{Tight: true}
	e, least := w.hop(i), max(0, i-LabelReach)
	if e < i {
		least = max(0, i-listReach)
	}
	adjacent, joined := true, false
	for digits := 0; e > least; {
		r := w.At(e - 1)
		role := roleOf(r)
		if role&mayEndLabel != 0 && digits < 4 {
			if l, size := w.LabelEnding(e, max(0, i-listReach)); size > 0 {
				switch {
				case !h.Found || h.weak && adjacent:
					h.Found, h.Of, h.weak = true, l.Of, l.weak
					joined = true
				case joined && h.Of != 0: // two words in one: 澳门身份证, 澳门ID
					h.Of |= l.Of
				}
				h.Near |= l.Of
				e -= size
				continue
			}
		}
		joined = joined && r == ' '
		if role&endsSentence != 0 {
			h.asked(w, e-1, least)
			break
		}
		if role&isNumberDigit != 0 {
			digits++
		}
		if role&connects == 0 {
			adjacent = false
			h.Tight = h.Tight && h.Found
		}
		e--
	}
	h.Tight = h.Tight && h.Found
	return h
}

// asked looks for a label at the end of the sentence before: 请报一下户号。来电人：3301….
func (h *Hints) asked(w *Window, e, least int) {
	for k := e; k > max(least, e-4) && !h.Found; k-- {
		if l, size := w.LabelEnding(k, least); size > 0 {
			h.Found, h.Of, h.Tight = true, l.Of, false
			h.Near |= l.Of
		}
	}
}

// hop returns where the list begins that ends with the value at i: 123456、234567和345678 share one label, and so do a wrong number and the right
// one: 123456，应为234567.
func (w *Window) hop(i int) int {
	least := max(0, i-listReach)
	for e := i; ; {
		k, listed := e, false
		for k > least && (listSigns.Has(w.At(k-1)) || besideList.Has(w.At(k-1))) {
			listed = listed || listSigns.Has(w.At(k-1))
			k--
		}
		if !listed {
			return e
		}
		run, digits := k, false
		for run > least && (text.IsAlnum(w.At(run-1)) || w.At(run-1) == '-' && run < k) {
			digits = digits || text.IsDigit(w.At(run-1))
			run--
		}
		if k-run < 4 || !digits {
			return e
		}
		e = run
	}
}

// LabelEnding returns the longest label that ends before cell e, and how many cells it takes up; 0 where none does. Blanks inside a label do not matter.
func (w *Window) LabelEnding(e, least int) (Label, int) {
	root := knownLabels.byEnd.root(text.Lower(w.At(e - 1)))
	if root < 0 || e <= least {
		return Label{}, 0
	}
	s := labelSearch{w: w, trie: knownLabels.byEnd, least: least}
	s.left(root, e-1)
	if s.found == nil {
		return Label{}, 0
	}
	return *s.found, e - s.at
}

// labelBeginning returns the longest label that begins at cell i.
func (w *Window) labelBeginning(i int) (l Label, end int, v text.Verdict) {
	r := text.Lower(w.At(i))
	root := knownLabels.byStart.root(r)
	if root < 0 || text.IsLetter(r) && text.IsLetter(w.At(i-1)) {
		return Label{}, i, text.No
	}
	s := labelSearch{w: w, trie: knownLabels.byStart}
	s.right(root, i+1)
	switch {
	case s.size == 0:
		return Label{}, i, text.No
	case s.open:
		return Label{}, s.at, text.Open
	}
	return *s.found, s.at, text.Yes
}

// Behind reads to the right of a value that ends before cell i: what the first label there speaks for, unless it belongs to another
// value behind it.
func (w *Window) Behind(i int) (Kinds, text.Verdict) {
	for k := i; k < i+behindReach; k++ {
		r := w.At(k)
		if r == text.Unknown {
			return 0, text.Open
		}
		if r == text.Edge || isSentenceEnd(r) || text.IsDigit(r) {
			return 0, text.Yes
		}
		l, end, v := w.labelBeginning(k)
		if v == text.Open {
			return 0, text.Open
		}
		if v == text.No {
			continue
		}
		owned, v := w.valueFollows(end)
		if v == text.Open || owned {
			return 0, v
		}
		return l.Of, text.Yes
	}
	return 0, text.Yes
}

// valueFollows reports whether something with digits begins at cell i, with nothing but marks before it.
func (w *Window) valueFollows(i int) (bool, text.Verdict) {
	k, v := w.While(i, 8, func(r rune) bool { return isConnector(r) && r != '.' })
	if v == text.Open || w.At(k) == text.Unknown {
		return false, text.Open
	}
	end, v := w.While(k, 12, text.IsAlnum)
	return w.Any(k, end, text.IsDigit), v
}

var (
	sentenceEnds = text.RunesOf("。；;!！?？")
	connectors   = text.RunesOf("：:=是为号码编证件填写叫 \"'([{【「『〔<《#-|/>\t\n,，.、第\\“”‘’有的")
	listSigns    = text.RunesOf("、和及与/变成了改为换至到→~或应")
	besideList   = text.RunesOf(" ,实际当是")
)

func isSentenceEnd(r rune) bool { return sentenceEnds.Has(r) }

func isConnector(r rune) bool { return connectors.Has(r) }

// Anchor adds to a match what the labels around it say about its kind.
func (w *Window) Anchor(m Candidate, h Hints) (Candidate, text.Verdict) {
	switch {
	case h.Of.Has(m.Kind) && h.Tight:
		m.Evidence |= LabelBefore
	case h.Of.Has(m.Kind), h.Near.Has(m.Kind) && (!h.Other(m.Kind) || h.Of != 0):
		m.Evidence |= CueBefore
	default:
		switch {
		case h.Other(m.Kind):
			m.Evidence |= Ordinary
		case h.weak && h.Tight && m.Evidence&CheckRight == 0:
			m.Evidence |= Unusual
		}
		of, v := w.Behind(m.End)
		if v == text.Open {
			return m, text.Open
		}
		if of.Has(m.Kind) {
			m.Evidence |= CueBehind
		}
	}
	return m, text.Yes
}

// WordBefore reports whether one of the words stands before cell i with nothing but marks between.
func (w *Window) WordBefore(i int, list *text.List) bool {
	e := i
	for e > max(0, i-6) && isConnector(w.At(e-1)) && !text.IsHan(w.At(e-1)) || e > max(0, i-6) && e > 0 && (w.At(e-1) == '为' || w.At(e-1) == '是') {
		e--
	}
	if e == 0 || !list.Last.Has(text.Lower(w.At(e-1))) {
		return false
	}
	for _, word := range list.Words {
		k := e
		for word != "" && k > 0 && k > i-text.LeftContext/2 {
			r, size := utf8.DecodeLastRuneInString(word)
			if text.Lower(w.At(k-1)) != r {
				break
			}
			word = word[:len(word)-size]
			k--
		}
		if word == "" && (k == 0 || w.At(k-1) != '经') { // 经纬度 names both
			return true
		}
	}
	return false
}

// Window is the text around a candidate, and what the labels in it say.
type Window struct {
	text.Window
	hint *knownHints
}

// Buffer makes windows of text that arrives in pieces.
type Buffer struct {
	text.Buffer
	hint knownHints
}

// View returns what has arrived of the text. It is valid until more arrives, or some is dropped.
func (b *Buffer) View() Window { return Window{b.Window, &b.hint} }

// Reset goes to the beginning of another text.
func (b *Buffer) Reset() {
	b.Buffer.Reset()
	b.hint = knownHints{}
}
