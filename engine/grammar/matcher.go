package grammar

import "github.com/sluice-project/sluice/internal/fault"

// Matcher follows one text through a grammar. It serves one goroutine at a time; matchers of one grammar may be used at once. It is
// small: a Clone costs a few words.
type Matcher struct {
	a     *automaton
	at    *config
	words int
	ended bool  // a token that ends the text was accepted
	err   error // why the matcher cannot go on
}

// Mask sets dst, with a bit for each token of the vocabulary (see [Vocabulary.Words]), to the tokens that may come next. Tokens that
// end the text are allowed where it may end. The error is an [Error]: a limit was exceeded, or the vocabulary cannot spell the
// grammar.
func (m *Matcher) Mask(dst []uint64) (err error) {
	if m.err != nil {
		return m.err
	}
	dst = dst[:m.words]
	clear(dst)
	if m.ended {
		return nil
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	defer guard(&err)
	m.a.call()
	m.a.mask(m.at, dst)
	return nil
}

// Allows reports whether token may come next. It is much cheaper than Mask. When a limit is exceeded it is false.
func (m *Matcher) Allows(token int32) bool {
	if m.err != nil || m.ended {
		return false
	}
	if m.a.voc.isEnd(token) {
		return m.at.ends
	}
	next, err := m.read(token)
	return err == nil && next != m.a.reader.dead
}

// read is the place behind a token, or dead.
func (m *Matcher) read(token int32) (next *config, err error) {
	text := m.a.voc.bytes(token)
	if len(text) == 0 || !m.a.voc.continues() && endsInside(string(text)) {
		return m.a.reader.dead, nil
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	defer guard(&err)
	m.a.call()
	return m.a.readAll(m.at, text), nil
}

// Accept moves on by token. A token that is not allowed is an error, and the matcher stays where it is.
func (m *Matcher) Accept(token int32) error {
	if m.err != nil {
		return m.err
	}
	refused := wrong(fault.Say("grammar.token_refused"))
	if m.ended {
		return refused
	}
	if m.a.voc.isEnd(token) {
		if !m.at.ends {
			return refused
		}
		m.ended = true
		return nil
	}
	next, err := m.read(token)
	switch {
	case err != nil:
		return err
	case next == m.a.reader.dead:
		return refused
	}
	m.at = next
	return nil
}

// maxForced bounds the bytes that one call of Forced looks ahead.
const maxForced = 4096

// forced returns the bytes that are the only way on: up to where the text may go on in two ways, or may end. end says that there the
// text has to end.
func (m *Matcher) forced() (out []byte, end bool) {
	if m.err != nil || m.ended {
		return nil, false
	}
	m.a.mu.Lock()
	defer m.a.mu.Unlock()
	m.a.call()
	var over error
	func() { // what was found before a limit was exceeded is good
		defer guard(&over)
		at := m.at
		for len(out) < maxForced {
			b, ok := m.a.forcedByte(at)
			if !ok {
				end = len(at.threads) == 0
				return
			}
			at = m.a.read(at, m.a.of[b])
			out = append(out, b)
		}
	}()
	return out, end
}

// Forced appends to dst tokens for the bytes that are the only way on: always the longest that fits, and none that a longer one could
// replace if more were known.
func (m *Matcher) Forced(dst []int32) []int32 {
	text, end := m.forced()
	for len(text) > 0 {
		token, n, open := m.a.voc.trie.longest(text)
		if n == 0 || open && !end {
			return dst
		}
		dst = append(dst, token)
		text = text[n:]
	}
	return dst
}

// longest is the longest token that text begins with. Open says that text ends where longer tokens go on.
func (t *trie) longest(text []byte) (token int32, n int, open bool) {
	i, end := int32(0), int32(len(t.bytes))
	for k, b := range text {
		for i < end && t.bytes[i] != b {
			i = t.skip[i]
		}
		if i >= end {
			return token, n, false
		}
		switch x := t.token[i]; {
		case x >= 0:
			token, n = x, k+1
		case x < noToken:
			token, n = t.more[-2-x][0], k+1
		}
		end = t.skip[i]
		i++
	}
	return token, n, i < end
}

// Clone returns a matcher at the same place that moves on by itself.
func (m *Matcher) Clone() *Matcher {
	c := *m
	return &c
}

// Done reports whether the text is complete and nothing may follow.
func (m *Matcher) Done() bool {
	return m.ended || m.err == nil && m.at.ends && len(m.at.threads) == 0
}
