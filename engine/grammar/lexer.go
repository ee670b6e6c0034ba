package grammar

import (
	"encoding/binary"
	"slices"
)

// lexer is the automaton of all lexemes together. A state says of each lexeme that is still possible what remains of it.
type lexer struct {
	*table
	states  map[string]*state
	accepts map[string]*accept
	dead    *state
	ids     int64
	key     []byte
}

// state is what remains of some lexemes, which are sorted.
type state struct {
	id      int64
	lexemes []int32
	rest    []*re
	accept  *accept // lexemes that may end here; nil: none
	more    bool    // some lexeme may go on

	next    []*state // by byte class
	clamped *state
	scan    *scan
	runs    [sliceRest]run
}

// accept is a set of lexemes that may end at one place.
type accept struct {
	id      int64
	lexemes []int32
}

func newLexer(t *table) *lexer {
	return &lexer{table: t, states: map[string]*state{}, accepts: map[string]*accept{}, dead: &state{id: -1}}
}

// state returns the state of the given rests; those that match nothing are left out.
func (l *lexer) state(lexemes []int32, rest []*re) *state {
	k := l.key[:0]
	for i, n := range rest {
		if !l.alive(n) {
			continue
		}
		k = binary.LittleEndian.AppendUint32(k, uint32(lexemes[i]))
		k = binary.LittleEndian.AppendUint64(k, uint64(n.id))
	}
	l.key = k
	if len(k) == 0 {
		return l.dead
	}
	if s := l.states[string(k)]; s != nil {
		return s
	}
	l.keep(160 + 5*len(k)/2)
	s := &state{id: l.ids}
	l.ids++
	var ends []int32
	for i, n := range rest {
		if !l.alive(n) {
			continue
		}
		s.lexemes = append(s.lexemes, lexemes[i])
		s.rest = append(s.rest, n)
		s.more = s.more || l.more(n)
		if n.null {
			ends = append(ends, lexemes[i])
		}
	}
	s.accept = l.accepted(ends)
	l.states[string(k)] = s
	return s
}

func (l *lexer) accepted(lexemes []int32) *accept {
	if len(lexemes) == 0 {
		return nil
	}
	var k []byte
	for _, x := range lexemes {
		k = binary.LittleEndian.AppendUint32(k, uint32(x))
	}
	if a := l.accepts[string(k)]; a != nil {
		return a
	}
	l.keep(100 + 2*len(k))
	a := &accept{id: l.ids, lexemes: slices.Clone(lexemes)}
	l.ids++
	l.accepts[string(k)] = a
	return a
}

// step is the state behind a byte of class c, or dead.
func (l *lexer) step(s *state, c uint8) *state {
	if s.next != nil && s.next[c] != nil {
		return s.next[c]
	}
	l.spend(1 + len(s.rest))
	b := l.member[c]
	lexemes := make([]int32, 0, min(len(s.rest), 8))
	rest := make([]*re, 0, min(len(s.rest), 8))
	for i, n := range s.rest {
		if n.first.has(b) {
			lexemes = append(lexemes, s.lexemes[i])
			rest = append(rest, l.derive(n, c))
		}
	}
	next := l.dead
	if len(rest) > 0 {
		next = l.state(lexemes, rest)
	}
	if s.next == nil {
		l.keep(8 * l.count)
		s.next = make([]*state, l.count)
	}
	s.next[c] = next
	return next
}

// clampState is the state that stands for s when tokens of at most long bytes follow.
func (l *lexer) clampState(s *state, long int32) *state {
	if s.clamped != nil {
		return s.clamped
	}
	rest := make([]*re, len(s.rest))
	for i, n := range s.rest {
		rest[i] = l.clamp(n, long)
	}
	s.clamped = l.state(s.lexemes, rest)
	return s.clamped
}
