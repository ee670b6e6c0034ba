package grammar

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// item is a place in the grammar: a point, and where its procedure returns to.
type item struct {
	point int32
	frame *frame
}

// frame is a call: the places that go on when it returns. Frames of earlier sets are what the parser remembers of the text; calls in
// tail position pass on their caller's frame, so that recursion at the end of a rule needs no memory.
type frame struct {
	id      int64
	returns []item
	root    bool // the end of this call is the end of the text

	// The last item of the frame that popEnds came across, and in which of its runs.
	point int32
	run   int64
}

// set is an Earley set: all that the grammar could be waiting for at one position. Sets with the same kernel, the items reached by the
// lexeme just read, are the same set.
type set struct {
	id    int64
	waits []wait // by lexeme
	ends  bool   // the text may end here
	start *state // of the lexer; nil when no lexeme is waited for

	next  map[*accept]*set
	alone *config // at the start of the set's lexemes
}

// wait is a lexeme and the items that it leads to.
type wait struct {
	lexeme int32
	items  []item
}

// parser makes sets.
type parser struct {
	*program
	*lexer
	sets       map[string]*set
	root       *frame
	frames     int64
	runs       int64
	setIDs     int64
	key        []byte
	successors [][]int32 // by point: where it leads without reading anything; nil: not known yet
	tails      []verdict // by point: nothing but the end follows it
	maxItems   int
}

func newParser(p *program, l *lexer, maxItems int) *parser {
	return &parser{
		program: p, lexer: l, sets: map[string]*set{}, root: &frame{root: true}, frames: 1,
		successors: make([][]int32, len(p.points)), tails: make([]verdict, len(p.points)), maxItems: maxItems,
	}
}

// begin is the set at the beginning of a text.
func (p *parser) begin() *set {
	return p.set([]item{{p.program.start, p.root}})
}

// after is the set behind one of the lexemes of a, which s waits for.
func (p *parser) after(s *set, a *accept) *set {
	if next := s.next[a]; next != nil {
		return next
	}
	var kernel []item
	for _, x := range a.lexemes {
		i, ok := slices.BinarySearchFunc(s.waits, x, func(w wait, x int32) int { return cmp.Compare(w.lexeme, x) })
		if ok {
			kernel = append(kernel, s.waits[i].items...)
		}
	}
	next := p.set(kernel)
	if s.next == nil {
		s.next = map[*accept]*set{}
	}
	p.keep(64)
	s.next[a] = next
	return next
}

// set returns the set of a kernel, which it may change.
func (p *parser) set(kernel []item) *set {
	kernel = p.popEnds(kernel)
	slices.SortFunc(kernel, func(a, b item) int { return cmp.Or(int(a.point-b.point), int(a.frame.id-b.frame.id)) })
	kernel = slices.Compact(kernel)
	p.spend(len(kernel))
	k := p.key[:0]
	for _, it := range kernel {
		k = binary.LittleEndian.AppendUint32(k, uint32(it.point))
		k = binary.LittleEndian.AppendUint64(k, uint64(it.frame.id))
	}
	p.key = k
	if s := p.sets[string(k)]; s != nil {
		return s
	}
	s := p.close(kernel)
	p.keep(200 + 2*len(k))
	p.sets[string(k)] = s
	return s
}

// popEnds replaces items at the end of their procedure by the places that it returns to, so that it does not matter for the kernel
// which procedure it was. Ambiguous grammars have many calls that return to the same places, of which most are left out at once.
func (p *parser) popEnds(kernel []item) []item {
	p.runs++
	out := kernel[:0:0]
	add := func(it item) {
		if it.frame.run == p.runs && it.frame.point == it.point {
			return
		}
		it.frame.run, it.frame.point = p.runs, it.point
		out = append(out, it)
	}
	for _, it := range kernel {
		if it.frame.root || !p.tail(it.point) {
			add(it)
			continue
		}
		p.spend(1 + len(it.frame.returns)/4)
		for _, r := range it.frame.returns { // none of these is at an end itself, else the call had passed on its frame
			add(r)
		}
	}
	return out
}

// closure is a set in the making.
type closure struct {
	p     *parser
	seen  map[item]bool
	todo  []item
	calls map[int32]*frame // frames made in this set, by procedure
	mine  map[*frame]bool
	waits map[int32][]item
	ends  bool
}

func (p *parser) close(kernel []item) *set {
	c := &closure{p: p, seen: map[item]bool{}, calls: map[int32]*frame{}, mine: map[*frame]bool{}, waits: map[int32][]item{}}
	for _, it := range kernel {
		c.push(it)
	}
	for len(c.todo) > 0 {
		it := c.todo[len(c.todo)-1]
		c.todo = c.todo[:len(c.todo)-1]
		c.visit(it)
	}
	s := &set{id: p.setIDs, ends: c.ends}
	p.setIDs++
	for lexeme, items := range c.waits {
		s.waits = append(s.waits, wait{lexeme, items})
	}
	slices.SortFunc(s.waits, func(a, b wait) int { return cmp.Compare(a.lexeme, b.lexeme) })
	if len(s.waits) > 0 {
		lexemes, rest := make([]int32, len(s.waits)), make([]*re, len(s.waits))
		for i, w := range s.waits {
			lexemes[i], rest[i] = w.lexeme, p.lexemes[w.lexeme]
		}
		s.start = p.state(lexemes, rest)
	}
	return s
}

// push adds the places that an item leads to without reading anything.
func (c *closure) push(it item) {
	for _, at := range c.p.leads(it.point) {
		x := item{at, it.frame}
		c.p.spend(4)
		if c.seen[x] {
			continue
		}
		if len(c.seen) >= c.p.maxItems {
			panic(overrun{tooManyItems(c.p.maxItems)})
		}
		c.p.keep(64)
		c.seen[x] = true
		c.todo = append(c.todo, x)
	}
}

func (c *closure) visit(it item) {
	pt := &c.p.points[it.point]
	switch pt.kind {
	case pointLexeme:
		c.waits[pt.arg] = append(c.waits[pt.arg], item{pt.next, it.frame})
	case pointCall:
		c.call(pt, it.frame)
	default: // the end
		c.ends = c.ends || it.frame.root
		if c.mine[it.frame] {
			return // a call that read nothing: leads has gone past it already
		}
		for _, r := range it.frame.returns {
			c.push(r)
		}
	}
}

func (c *closure) call(pt *point, caller *frame) {
	if c.p.tail(pt.next) {
		c.push(item{c.p.entry[pt.arg], caller})
		return
	}
	f := c.calls[pt.arg]
	if f == nil {
		f = &frame{id: c.p.frames}
		c.p.frames++
		c.p.keep(64)
		c.calls[pt.arg] = f
		c.mine[f] = true
		c.push(item{c.p.entry[pt.arg], f})
	}
	f.returns = append(f.returns, item{pt.next, caller})
}

// leads are the points other than splits that a point leads to without reading anything; lexemes and calls that can be empty are
// both there and passed.
func (p *parser) leads(at int32) []int32 {
	if p.successors[at] != nil {
		return p.successors[at]
	}
	seen := map[int32]bool{at: true}
	todo := []int32{at}
	var out []int32
	add := func(x int32) {
		p.spend(1)
		if !seen[x] {
			seen[x] = true
			todo = append(todo, x)
		}
	}
	for len(todo) > 0 {
		x := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		pt := &p.points[x]
		switch pt.kind {
		case pointSplit:
			for _, a := range pt.alts {
				add(a)
			}
			continue
		case pointLexeme:
			if p.lexemes[pt.arg].null {
				add(pt.next)
			}
		case pointCall:
			if p.program.null[pt.arg] {
				add(pt.next)
			}
		default: // the end leads nowhere in its procedure
		}
		out = append(out, x)
	}
	p.keep(24 + 4*len(out))
	p.successors[at] = out
	return out
}

// tail reports whether nothing but the end of the procedure follows a point.
func (p *parser) tail(at int32) bool {
	if p.tails[at] == unknown {
		successors := p.leads(at)
		p.tails[at] = no
		if len(successors) == 1 && successors[0] == endPoint {
			p.tails[at] = yes
		}
	}
	return p.tails[at] == yes
}
