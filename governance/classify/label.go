package classify

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// How far labels are looked for, in cells. What a detector may look at to the left is bounded by leftMemory.
const (
	labelReach  = 16
	listReach   = 30
	behindReach = 12
)

// label is a word that says what the value next to it is. Words that speak of something no detector looks for have no kinds: they keep
// a number from being taken for what another word, further away, speaks of.
type label struct {
	word []rune
	of   bits
	weak bool
}

var knownLabels = indexLabels() //nolint:gochecknoglobals // a constant table

func indexLabels() labels {
	of := map[string]bits{}
	for _, row := range labelWords {
		for _, word := range strings.Fields(row.words) {
			word = strings.ReplaceAll(word, "_", " ")
			of[word] |= row.of
			if last, _ := utf8.DecodeLastRuneInString(word); row.of != 0 && isHan(last) && !strings.ContainsRune("号码", last) {
				of[word+"号"] |= row.of
				of[word+"号码"] |= row.of
				of[word+"编号"] |= row.of
			}
		}
	}
	var known []label
	for _, word := range slices.Sorted(maps.Keys(of)) {
		known = append(known, label{[]rune(word), of[word], strings.Contains(weakLabels, " "+word+" ")})
	}
	return labels{byEnd: newLabelTrie(known, true), byStart: newLabelTrie(known, false)}
}

// hints are what the words left of a value say.
type hints struct {
	of    bits // of the nearest label
	found bool // there is one, maybe for something no detector looks for
	tight bool // nothing but marks between it and the value
	weak  bool // it is a word such as 编号, which says that this is a number and not of what
	near  bits // of all labels near by
}

// other reports whether the value stands right behind a label that speaks for something else than the kind.
func (h hints) other(k kind) bool { return h.found && h.tight && !h.weak && !h.of.has(k) }

// hints are what stands left of cell i, which several detectors ask for in a row.
func (w *window) hints(i int) hints {
	if at := w.cells[i].start; w.hint.cell != i || w.hint.start != at || !w.hint.known {
		w.hint.hints, w.hint.cell, w.hint.start, w.hint.known = w.readHints(i), i, at, true
	}
	return w.hint.hints
}

// knownHints are the hints that were read last.
type knownHints struct {
	hints
	cell, start int
	known       bool
}

func (w *window) readHints(i int) hints {
	h := hints{tight: true}
	e, least := w.hop(i), max(0, i-labelReach)
	if e < i {
		least = max(0, i-listReach)
	}
	adjacent, joined := true, false
	for digits := 0; e > least; {
		r := w.cells[e-1].r
		role := roleOf(r)
		if role&mayEndLabel != 0 && digits < 4 {
			if l, size := w.labelEnding(e, max(0, i-listReach)); size > 0 {
				switch {
				case !h.found || h.weak && adjacent:
					h.found, h.of, h.weak = true, l.of, l.weak
					joined = true
				case joined && h.of != 0: // two words in one: 澳门身份证, 澳门ID
					h.of |= l.of
				}
				h.near |= l.of
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
			h.tight = h.tight && h.found
		}
		e--
	}
	h.tight = h.tight && h.found
	return h
}

// asked looks for a label at the end of the sentence before: 请报一下户号。来电人：3301….
func (h *hints) asked(w *window, e, least int) {
	for k := e; k > max(least, e-4) && !h.found; k-- {
		if l, size := w.labelEnding(k, least); size > 0 {
			h.found, h.of, h.tight = true, l.of, false
			h.near |= l.of
		}
	}
}

// hop returns where the list begins that ends with the value at i: 123456、234567和345678 share one label, and so do a wrong number and the right
// one: 123456，应为234567.
func (w *window) hop(i int) int {
	least := max(0, i-listReach)
	for e := i; ; {
		k, listed := e, false
		for k > least && (listSigns.has(w.cells[k-1].r) || besideList.has(w.cells[k-1].r)) {
			listed = listed || listSigns.has(w.cells[k-1].r)
			k--
		}
		if !listed {
			return e
		}
		run, digits := k, false
		for run > least && (isAlnum(w.cells[run-1].r) || w.cells[run-1].r == '-' && run < k) {
			digits = digits || isDigit(w.cells[run-1].r)
			run--
		}
		if k-run < 4 || !digits {
			return e
		}
		e = run
	}
}

// labelEnding returns the longest label that ends before cell e. Blanks inside a label do not matter.
func (w *window) labelEnding(e, least int) (label, int) {
	root := knownLabels.byEnd.root(lower(w.cells[e-1].r))
	if root < 0 || e <= least {
		return label{}, 0
	}
	s := labelSearch{w: w, trie: knownLabels.byEnd, least: least}
	s.left(root, e-1)
	if s.found == nil {
		return label{}, 0
	}
	return *s.found, e - s.at
}

// labelBeginning returns the longest label that begins at cell i.
func (w *window) labelBeginning(i int) (l label, end int, v verdict) {
	r := lower(w.at(i))
	root := knownLabels.byStart.root(r)
	if root < 0 || isLetter(r) && isLetter(w.at(i-1)) {
		return label{}, i, no
	}
	s := labelSearch{w: w, trie: knownLabels.byStart}
	s.right(root, i+1)
	switch {
	case s.size == 0:
		return label{}, i, no
	case s.open:
		return label{}, s.at, open
	}
	return *s.found, s.at, yes
}

// behind reads to the right of a value that ends before cell i: what the first label there speaks for, unless it belongs to another
// value behind it.
func (w *window) behind(i int) (bits, verdict) {
	for k := i; k < i+behindReach; k++ {
		r := w.at(k)
		if r == unknown {
			return 0, open
		}
		if r == edge || isSentenceEnd(r) || isDigit(r) {
			return 0, yes
		}
		l, end, v := w.labelBeginning(k)
		if v == open {
			return 0, open
		}
		if v == no {
			continue
		}
		owned, v := w.valueFollows(end)
		if v == open || owned {
			return 0, v
		}
		return l.of, yes
	}
	return 0, yes
}

// valueFollows reports whether something with digits begins at cell i, with nothing but marks before it.
func (w *window) valueFollows(i int) (bool, verdict) {
	k, v := w.while(i, 8, func(r rune) bool { return isConnector(r) && r != '.' })
	if v == open || w.at(k) == unknown {
		return false, open
	}
	end, v := w.while(k, 12, isAlnum)
	return w.any(k, end, isDigit), v
}

var (
	sentenceEnds = runesOf("。；;!！?？")                                          //nolint:gochecknoglobals // a constant table
	connectors   = runesOf("：:=是为号码编证件填写叫 \"'([{【「『〔<《#-|/>\t\n,，.、第\\“”‘’有的") //nolint:gochecknoglobals // a constant table
	listSigns    = runesOf("、和及与/变成了改为换至到→~或应")                                //nolint:gochecknoglobals // a constant table
	besideList   = runesOf(" ,实际当是")                                           //nolint:gochecknoglobals // a constant table
)

func isSentenceEnd(r rune) bool { return sentenceEnds.has(r) }

func isConnector(r rune) bool { return connectors.has(r) }

// anchor adds to a match what the labels around it say about its kind.
func (w *window) anchor(m match, h hints) (match, verdict) {
	switch {
	case h.of.has(m.kind) && h.tight:
		m.why |= labelBefore
	case h.of.has(m.kind), h.near.has(m.kind) && (!h.other(m.kind) || h.of != 0):
		m.why |= cueBefore
	default:
		switch {
		case h.other(m.kind):
			m.why |= ordinary
		case h.weak && h.tight && m.why&checkRight == 0:
			m.why |= unusual
		}
		of, v := w.behind(m.end)
		if v == open {
			return m, open
		}
		if of.has(m.kind) {
			m.why |= cueBehind
		}
	}
	return m, yes
}
