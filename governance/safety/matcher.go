package safety

import "slices"

// cell is a letter of a text.
type cell struct {
	start, end int  // of the character that it comes from, in bytes of the text
	gap        int  // separators before it
	joined     bool // a letter of a script with spaces stands directly before it
}

// found is a match of a word that waits for what follows.
type found struct {
	word       int32
	start, end int
	open       bool // a letter directly behind it would make it part of a longer word
}

// match is a place where a rule matched.
type match struct {
	start, end int
	rule       int
}

// scan reads a text character by character. It belongs to one goroutine.
type scan struct {
	m     *Matcher
	scope Scope // Input or Output
	norm  *normaliser
	state int32
	cells []cell // the last ones, as many as the state is deep
	gap   int
	last  bool // the last letter is of a script with spaces and nothing stands behind it
	waits []found
	voids []found // of exceptions
}

func (m *Matcher) scan(scope Scope) *scan { return &scan{m: m, scope: scope, norm: newNormaliser()} }

// read takes the next character, which stands at an offset.
func (s *scan) read(r rune, start, end int) {
	c, letters := s.norm.of(r)
	switch c {
	case unseen:
		return
	case joint, breaking:
		s.gap++
		s.last = false
		s.close(false)
		if s.gap > MaxGap || c == breaking {
			s.state, s.cells = 0, s.cells[:0]
		}
		return
	case letter:
	}
	s.close(spaced(letters[0]))
	for i, l := range letters {
		joined := s.last && spaced(l)
		if i > 0 {
			s.close(spaced(l))
		}
		s.state = s.m.step(s.state, l)
		s.cells = append(s.cells, cell{start, end, s.gap, joined})
		s.cells = s.cells[len(s.cells)-int(s.m.nodes[s.state].depth):]
		s.gap, s.last = 0, spaced(l)
		s.collect()
	}
	if cap(s.cells) > 1024 { // the beginning was cut off again and again
		s.cells = slices.Clone(s.cells)
	}
}

// close decides which of the open matches are whole words; behind says whether a letter of a script with spaces stands directly behind them.
func (s *scan) close(behind bool) {
	if behind {
		drop := func(f found) bool { return f.open }
		s.waits, s.voids = slices.DeleteFunc(s.waits, drop), slices.DeleteFunc(s.voids, drop)
		return
	}
	for i := range s.waits {
		s.waits[i].open = false
	}
	for i := range s.voids {
		s.voids[i].open = false
	}
}

// collect takes the words that end with the last letter.
func (s *scan) collect() {
	for at := s.state; at != 0; at = s.m.nodes[at].out {
		for _, w := range s.m.nodes[at].words {
			s.take(w)
		}
	}
}

func (s *scan) take(at int32) {
	w := &s.m.words[at]
	cells := s.cells[len(s.cells)-len(w.letters):]
	if cells[0].joined && spaced(w.letters[0]) {
		return
	}
	for i := 1; i < len(cells); i++ {
		if g := cells[i].gap; g < int(w.gaps[i].least) || g > int(w.gaps[i].most) {
			return
		}
	}
	f := found{at, cells[0].start, cells[len(cells)-1].end, spaced(w.letters[len(w.letters)-1])}
	if w.except {
		s.voids = append(s.voids, f)
	} else {
		s.waits = append(s.waits, f)
	}
}

// frontier returns the offset before which nothing can match any more, where at is how far the text was read.
func (s *scan) frontier(at int) int {
	if len(s.cells) > 0 {
		at = s.cells[0].start
	}
	for _, list := range [][]found{s.waits, s.voids} {
		for _, f := range list {
			if f.open {
				at = min(at, f.start)
			}
		}
	}
	return at
}

// decided returns the matches that begin before an offset behind which alone something may still match, and forgets them.
func (s *scan) decided(frontier int) []match {
	if len(s.waits) == 0 {
		s.forget(frontier)
		return nil
	}
	var out []match
	rest := s.waits[:0]
	for _, f := range s.waits {
		if f.start >= frontier {
			rest = append(rest, f)
			continue
		}
		for _, r := range s.m.words[f.word].rules {
			if s.applies(r) && !s.voided(f, r) {
				out = append(out, match{f.start, f.end, r})
			}
		}
	}
	s.waits = rest
	s.forget(frontier)
	return out
}

func (s *scan) applies(rule int) bool {
	scope := s.m.rules[rule].scope
	return scope == Both || scope == s.scope
}

// voided reports whether an exception of the rule has the match inside it.
func (s *scan) voided(f found, rule int) bool {
	return slices.ContainsFunc(s.voids, func(v found) bool {
		return !v.open && v.start <= f.start && v.end >= f.end && slices.Contains(s.m.words[v.word].rules, rule)
	})
}

// forget drops exceptions that nothing waits for: they end before all that may still match.
func (s *scan) forget(frontier int) {
	if len(s.voids) > 0 {
		s.voids = slices.DeleteFunc(s.voids, func(v found) bool { return v.end <= frontier })
	}
}

// finish ends the text: what is open ends with it.
func (s *scan) finish() {
	s.close(false)
	s.state, s.cells = 0, nil
}
