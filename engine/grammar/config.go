package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// config is a place in a text: all readings of it at once.
type config struct {
	id      int64
	threads []thread
	ends    bool // the text may end here

	next   []*config // by byte class
	mask   *tokens   // nil: not known, or quick to find
	forced int16     // the only byte that may come next; or one of the constants
}

// thread is one reading: inside lexemes that a set waits for.
type thread struct {
	state *state
	set   *set
}

const (
	forcedUnknown = -1
	forcedNone    = -2
)

// reader moves through texts.
type reader struct {
	*parser
	configs map[string]*config
	dead    *config
	ids     int64
	key     []byte
}

func newReader(p *parser) *reader {
	return &reader{parser: p, configs: map[string]*config{}, dead: &config{id: -1, forced: forcedNone}}
}

func (r *reader) begin() *config { return r.alone(r.parser.begin()) }

// alone is the place at the start of a set's lexemes.
func (r *reader) alone(s *set) *config {
	if s.alone == nil {
		var ts []thread
		if s.start != nil {
			ts = append(ts, thread{s.start, s})
		}
		s.alone = r.config(ts, s.ends)
	}
	return s.alone
}

// config returns the place with the given threads, which it may change.
func (r *reader) config(threads []thread, ends bool) *config {
	if len(threads) == 0 && !ends {
		return r.dead
	}
	if len(threads) > 1 {
		slices.SortFunc(threads, func(a, b thread) int { return cmp.Or(int(a.state.id-b.state.id), int(a.set.id-b.set.id)) })
		threads = slices.Compact(threads)
	}
	if len(threads) > r.maxItems {
		panic(overrun{tooManyItems(r.maxItems)})
	}
	k := r.key[:0]
	for _, t := range threads {
		k = binary.LittleEndian.AppendUint64(k, uint64(t.state.id))
		k = binary.LittleEndian.AppendUint64(k, uint64(t.set.id))
	}
	k = append(k, byte(boolInt(ends)))
	r.key = k
	if c := r.configs[string(k)]; c != nil {
		return c
	}
	r.keep(160 + 3*len(k))
	c := &config{id: r.ids, threads: slices.Clone(threads), ends: ends, forced: forcedUnknown}
	r.ids++
	r.configs[string(k)] = c
	return c
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// read is the place behind a byte of class b, or dead.
func (r *reader) read(c *config, class uint8) *config {
	if c.next != nil && c.next[class] != nil {
		return c.next[class]
	}
	r.spend(2 + 2*len(c.threads))
	ends := false
	threads := make([]thread, 0, len(c.threads)+1)
	for _, t := range c.threads {
		s := r.step(t.state, class)
		if s == r.lexer.dead {
			continue
		}
		if s.more {
			threads = append(threads, thread{s, t.set})
		}
		if s.accept != nil {
			next := r.after(t.set, s.accept)
			ends = ends || next.ends
			if next.start != nil {
				threads = append(threads, thread{next.start, next})
			}
		}
	}
	next := r.config(threads, ends)
	if c.next == nil {
		r.keep(8 * r.count)
		c.next = make([]*config, r.count)
	}
	c.next[class] = next
	return next
}

// readAll is the place behind text, or dead.
func (r *reader) readAll(c *config, text []byte) *config {
	for _, b := range text {
		if c = r.read(c, r.of[b]); c == r.dead {
			break
		}
	}
	return c
}

// forcedByte is the byte without which the text can neither go on nor end, if there is one.
func (r *reader) forcedByte(c *config) (byte, bool) {
	if c.forced == forcedUnknown {
		c.forced = r.findForced(c)
	}
	return byte(c.forced), c.forced >= 0
}

func (r *reader) findForced(c *config) int16 {
	if c.ends {
		return forcedNone
	}
	var first byteSet
	for _, t := range c.threads {
		for _, n := range t.state.rest {
			first = first.or(n.first)
		}
	}
	found := int16(forcedNone)
	for class := range r.count {
		b := r.member[class]
		if !first.has(b) || r.read(c, uint8(class)) == r.dead {
			continue
		}
		if found >= 0 || r.sizes[class] > 1 {
			return forcedNone
		}
		found = int16(b)
	}
	return found
}
