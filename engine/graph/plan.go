package graph

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Plan is a graph as a flat list of steps over one arena for each symbol.
type Plan struct {
	Graph   *Graph
	Steps   []Step
	Arenas  []Arena
	Outputs []Buffer // of Graph.Outputs; they stay intact until the next run
}

// Step computes one node. In has a buffer for each operand; that of an input or weight of the graph is zero, because whoever runs the plan keeps those.
type Step struct {
	Node *Node
	In   []Buffer
	Out  Buffer
}

// Buffer is where a value lives: when its leading dimension N·Symbol has n as Symbol, at Offset·n of the symbol's arena, RowBytes·n long; each of its N·n rows
// takes RowBytes/N. Offset and RowBytes are multiples of 64. A value whose leading dimension is constant has the symbol "" and n = 1.
type Buffer struct {
	Symbol           string
	Offset, RowBytes int
}

// Arena is the memory that all buffers of one symbol share: RowBytes for each unit of it.
type Arena struct {
	Symbol   string
	RowBytes int
}

const (
	alignment  = 64
	scaleBytes = 16 // the scale of a block or row, and the sums that go with it
	maxArena   = 1 << 56
)

// NewPlan decides where every value of a checked graph lives. A buffer is used again as soon as its value was read for the last time, and a result takes the place
// of an operand where the operation allows it (see inPlace).
func NewPlan(g *Graph) (*Plan, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	last := lastUses(g)
	slots := map[*Value]*slot{}
	var all []*slot
	for i, n := range g.Nodes {
		b, err := bufferOf(n.Out)
		if err != nil {
			return nil, fmt.Errorf("graph %s: %s %s: %w", g.Name, n.Op, n.Out.ref(), err)
		}
		end := max(last[n.Out], i)
		if from := n.overwritten(slots, last, i, b); from != nil {
			from.to = end
			slots[n.Out] = from
			continue
		}
		s := &slot{buffer: b, from: i, to: end}
		slots[n.Out] = s
		all = append(all, s)
	}
	p := &Plan{Graph: g, Arenas: place(all)}
	for _, a := range p.Arenas {
		if a.RowBytes > maxArena {
			return nil, fmt.Errorf("graph %s needs %d bytes for each %s", g.Name, a.RowBytes, a.Symbol)
		}
	}
	buffer := func(v *Value) Buffer {
		if s := slots[v]; s != nil {
			return s.buffer
		}
		return Buffer{}
	}
	for _, n := range g.Nodes {
		step := Step{Node: n, Out: buffer(n.Out)}
		for _, v := range n.In {
			step.In = append(step.In, buffer(v))
		}
		p.Steps = append(p.Steps, step)
	}
	for _, v := range g.Outputs {
		p.Outputs = append(p.Outputs, buffer(v))
	}
	return p, nil
}

// slot is a buffer during the steps in which it holds something, both included.
type slot struct {
	buffer   Buffer
	from, to int
}

// bufferOf is the size of a value; its place comes later.
func bufferOf(v *Value) (Buffer, error) {
	row := rowBytes(v.Type)
	if row == 0 {
		return Buffer{}, fmt.Errorf("%s cannot be laid out: only the first dimension may be symbolic", v.Type)
	}
	lead := v.Type.Shape[0]
	return Buffer{Symbol: lead.Symbol, RowBytes: row * lead.N}, nil
}

// rowBytes is the room for one row: float32, or bytes followed by their scales.
func rowBytes(t Type) int {
	cols := t.Cols()
	if cols == 0 {
		return 0
	}
	n := 4 * cols
	switch t.Elem {
	case Q8B, Q8B2:
		n = cols + cols/32*scaleBytes
	case Q8R, Q8R2:
		n = cols + scaleBytes
	default:
	}
	n = (n + alignment - 1) / alignment * alignment
	if oneTerm(t.Elem) != t.Elem {
		n *= 2
	}
	return n
}

// inPlace names the operands whose place the result may take. Every element of the result then depends on the same element of that operand, or on its row, which
// kernels read before they write.
func (n *Node) inPlace() []string {
	switch n.Op {
	case OpMatMul:
		return []string{"residual"}
	case OpAdd, OpMul:
		return []string{"a", "b"}
	case OpRMSNorm:
		return []string{"residual", "x"}
	case OpLayerNorm, OpAct, OpScale, OpSoftcap, OpNormalize, OpSoftmax, OpRope:
		return []string{"x"}
	default:
		return nil
	}
}

// mayOverwrite reports whether the node's result may take the place of v: an operand it reads in one role only, of the same type.
func (n *Node) mayOverwrite(v *Value) bool {
	if !v.Type.Equal(n.Out.Type) {
		return false
	}
	roles := 0
	for _, in := range n.In {
		if in == v {
			roles++
		}
	}
	return roles == 1 && slices.ContainsFunc(n.inPlace(), func(name string) bool { return n.Operand(name) == v })
}

// overwritten is the slot of an operand that step i reads last and whose place its result takes; nil if there is none.
func (n *Node) overwritten(slots map[*Value]*slot, last map[*Value]int, i int, b Buffer) *slot {
	for _, v := range n.In {
		s := slots[v]
		if s != nil && last[v] == i && s.buffer.Symbol == b.Symbol && s.buffer.RowBytes == b.RowBytes && n.mayOverwrite(v) {
			return s
		}
	}
	return nil
}

// place gives every slot an offset, in the order of those tried here that needs the least memory: the largest first, or as the steps come.
func place(all []*slot) []Arena {
	bySize := func(a, b *slot) int {
		return cmp.Or(cmp.Compare(b.buffer.RowBytes, a.buffer.RowBytes), cmp.Compare(a.from, b.from))
	}
	bySteps := func(a, b *slot) int { return cmp.Compare(a.from, b.from) }
	byLife := func(a, b *slot) int { return cmp.Or(cmp.Compare(b.to-b.from, a.to-a.from), bySize(a, b)) }
	slots := map[string][]*slot{}
	for _, s := range all {
		slots[s.buffer.Symbol] = append(slots[s.buffer.Symbol], s)
	}
	var arenas []Arena
	for _, symbol := range slices.Sorted(maps.Keys(slots)) {
		best, least := bySize, math.MaxInt
		for _, order := range []func(a, b *slot) int{bySize, byLife, bySteps} {
			if end := placeIn(slots[symbol], order); end < least {
				best, least = order, end
			}
		}
		arenas = append(arenas, Arena{symbol, placeIn(slots[symbol], best)})
	}
	return arenas
}

// placeIn puts each slot into the tightest gap between those already placed that are live at the same time, and returns the end of the last.
func placeIn(slots []*slot, order func(a, b *slot) int) int {
	slots = slices.Clone(slots)
	slices.SortStableFunc(slots, order)
	var placed []*slot // in order of offsets
	end := 0
	for _, s := range slots {
		s.buffer.Offset = tightest(placed, s)
		end = max(end, s.buffer.Offset+s.buffer.RowBytes)
		at, _ := slices.BinarySearchFunc(placed, s, func(a, b *slot) int { return cmp.Compare(a.buffer.Offset, b.buffer.Offset) })
		placed = slices.Insert(placed, at, s)
	}
	return end
}

// tightest is the offset of the smallest gap that fits s, or the end of all that is live together with it.
func tightest(placed []*slot, s *slot) int {
	best, waste, end := -1, 0, 0
	for _, o := range placed {
		if o.to < s.from || s.to < o.from {
			continue
		}
		gap := o.buffer.Offset - end
		if gap >= s.buffer.RowBytes && (best < 0 || gap < waste) {
			best, waste = end, gap
		}
		end = max(end, o.buffer.Offset+o.buffer.RowBytes)
	}
	if best >= 0 {
		return best
	}
	return end
}

// String prints the arenas, and for each step where its result goes and what it computes.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "plan %s: %d steps\n", nameText(p.Graph.Name), len(p.Steps))
	for _, a := range p.Arenas {
		if a.Symbol == "" {
			fmt.Fprintf(&b, "arena: %d bytes\n", a.RowBytes)
			continue
		}
		fmt.Fprintf(&b, "arena %s: %d bytes for each row\n", a.Symbol, a.RowBytes)
	}
	for i, s := range p.Steps {
		place := s.Out.String()
		if slices.Contains(s.In, s.Out) {
			place += " in place"
		}
		fmt.Fprintf(&b, "%4d  %-22s %s\n", i, place, s.Node)
	}
	return b.String()
}

// String prints T+2304:2304, the symbol, the offset and the bytes of a row.
func (b Buffer) String() string { return fmt.Sprintf("%s+%d:%d", b.Symbol, b.Offset, b.RowBytes) }
