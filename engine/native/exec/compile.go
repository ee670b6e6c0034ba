package exec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/kernel"
)

// Program is a compiled model: steps with their packed weights. It is immutable, except that Close ends it.
type Program struct {
	steps     []step
	acts      []operand
	rotations []*rotation
	targets   map[string][]target // by the name of a weight of the model file: the products with it
	arena     [arenas]int         // bytes for each row
	output    operand

	cacheLayers, kvHeads, headDim int
	kv8                           bool
	context                       int

	store *store
}

// Options says how to compile.
type Options struct {
	Model    string // digest of the model's weights
	Plan     string // name of the precision plan, for the key of the packed file
	KV8      bool   // keys and values in eight bits
	Context  int    // most positions of a sequence
	ISA      string
	Threads  int
	CacheDir string // where packed weights are kept; "" keeps them in memory only

	Calibration *Calibration // nil: none
}

// How packed weights came about.
const (
	CacheHit     = "hit"     // mapped from the file
	CacheBuilt   = "built"   // there was no file
	CacheRebuilt = "rebuilt" // the file could not be used
	CacheOff     = "off"     // no directory, or it cannot be written
)

// Report says what Compile did.
type Report struct {
	Cache  string
	Reason string // why a file was not used or not written
	Bytes  int    // of packed weights
}

// Compile turns an optimised graph into a program. tensors gives the parts of its weights.
func Compile(g *graph.Graph, tensors func(name string) (Tensor, error), opt Options) (*Program, Report, error) {
	plan, err := graph.NewPlan(g)
	if err != nil {
		return nil, Report{}, err
	}
	p := &Program{kv8: opt.KV8, context: opt.Context, targets: map[string][]target{}}
	weights, report, err := p.loadWeights(g, tensors, opt)
	if err != nil {
		return nil, report, err
	}
	b := &assembler{p: p, weights: weights, acts: map[operand]int{}}
	for i := range plan.Steps {
		if err := b.add(&plan.Steps[i]); err != nil {
			return nil, report, errors.Join(fmt.Errorf("step %q: %w", plan.Steps[i].Node.Out.Name, err), p.Close())
		}
	}
	for _, from := range plan.Arenas {
		a, err := arenaOf(from.Symbol)
		if err != nil {
			return nil, report, errors.Join(err, p.Close())
		}
		p.arena[a] = from.RowBytes
	}
	if p.kv8 && p.headDim%4 != 0 {
		return nil, report, errors.Join(fmt.Errorf("heads of %d numbers cannot be kept in eight bits; use the plan without -kv8", p.headDim), p.Close())
	}
	p.output = p.steps[len(p.steps)-1].out
	return p, report, nil
}

// Close gives the memory of the weights back. No pass may run any more.
func (p *Program) Close() error {
	if p.store == nil {
		return nil
	}
	free := p.store.free
	p.store = nil
	return free()
}

// Products is how many multiplications with weights one row takes, and how many bytes of weights they read. Of a decoder, those
// of rows whose output is wanted come on top: wantedMACs and wantedBytes.
func (p *Program) Products() (macs, bytes, wantedMACs, wantedBytes int) {
	for i := range p.steps {
		s := &p.steps[i]
		if s.op != graph.OpMatMul {
			continue
		}
		n, b := s.w.Rows()*s.w.Cols(), len(s.w.Bytes())
		if s.out.arena == arenaWanted {
			wantedMACs, wantedBytes = wantedMACs+n, wantedBytes+b
		} else {
			macs, bytes = macs+n, bytes+b
		}
	}
	return macs, bytes, wantedMACs, wantedBytes
}

// Mapped is the file of packed weights in memory, nil where they are not kept in one. It is for reading, until Close.
func (p *Program) Mapped() []byte {
	if p.store == nil {
		return nil
	}
	return p.store.mem
}

// PassBytes is what a pass takes at most, beside its pages, for steps of so many rows whose texts have so many positions: room for
// results grows to twice of what a step needed.
func (p *Program) PassBytes(rows, positions, threads int) int {
	n := 0
	for _, perRow := range p.arena {
		n += 2 * rows * perRow
	}
	n += threads * 2 * PagesFor(positions) * PagePositions * blockRows * 4
	for _, r := range p.rotations {
		n += max(positions, 256) * r.rotated * 4
	}
	return n
}

// PageBytes is the memory of a page of keys and values.
func (p *Program) PageBytes() int {
	return NewPages(p.cacheLayers, p.kvHeads, p.headDim, p.kv8).Bytes()
}

// Outputs is the length of one result: the size of the vocabulary, or of an embedding.
func (p *Program) Outputs() int { return p.output.cols }

func arenaOf(symbol string) (int, error) {
	switch symbol {
	case graph.Tokens:
		return arenaTokens, nil
	case graph.Wanted:
		return arenaWanted, nil
	case graph.Sequences:
		return arenaSequences, nil
	}
	return 0, fmt.Errorf("the dimension %q is not one that a step binds", symbol)
}

// packed is a weight in memory: a matrix or a vector.
type packed struct {
	matrix *kernel.Matrix
	vector []float32
	parts  []int // of a matrix: the rows of what it is stacked from
}

// loadWeights maps the packed weights, or packs them.
func (p *Program) loadWeights(g *graph.Graph, tensors func(name string) (Tensor, error), opt Options) (map[*graph.Value]packed, Report, error) {
	sum := sha256.Sum256([]byte(g.String()))
	key := Key{Version: storeVersion, Model: opt.Model, Plan: opt.Plan, ISA: opt.ISA, Graph: hex.EncodeToString(sum[:])}
	if opt.Calibration != nil {
		key.Calibration = opt.Calibration.Digest
	}
	constants, bytes := make([]constant, 0, len(g.Weights)), 0
	for _, w := range g.Weights {
		c, err := newConstant(w, tensors, opt.Threads)
		if err != nil {
			return nil, Report{}, err
		}
		constants = append(constants, c)
		bytes += c.bytes
	}
	if opt.Calibration != nil {
		c := calibrator{from: opt.Calibration, threads: opt.Threads, weights: map[string]constant{}, done: map[string][]byte{}}
		constants = c.constants(constants)
	}
	data, report, err := p.openOrPack(key, constants, opt)
	if err != nil {
		return nil, report, err
	}
	report.Bytes = bytes
	out := map[*graph.Value]packed{}
	for i, w := range g.Weights {
		weight, err := view(w, data[constants[i].name])
		if err != nil {
			return nil, report, errors.Join(err, p.Close())
		}
		weight.parts = constants[i].stack.heights()
		out[w] = weight
	}
	return out, report, nil
}

// openOrPack returns the bytes of the constants: from the file of the key, from a new file, or, where none can be kept, packed in
// memory.
func (p *Program) openOrPack(key Key, constants []constant, opt Options) (map[string][]byte, Report, error) {
	report := Report{Cache: CacheOff}
	if opt.CacheDir != "" {
		s, err := openStore(opt.CacheDir, key, constants, opt.Threads)
		if err == nil {
			p.store = s
			return s.data, Report{Cache: CacheHit}, nil
		}
		report.Cache = CacheBuilt
		if !isMissing(err) {
			report.Cache, report.Reason = CacheRebuilt, err.Error()
		}
		if err = writeStore(opt.CacheDir, key, constants); err == nil {
			s, err = openStore(opt.CacheDir, key, constants, opt.Threads)
		}
		if err == nil {
			p.store = s
			return s.data, report, nil
		}
		report.Cache, report.Reason = CacheOff, err.Error()
	}
	data := map[string][]byte{}
	for _, c := range constants {
		mem := alignedFloats(c.bytes)
		if err := c.fill(mem); err != nil {
			return nil, report, fmt.Errorf("pack %q: %w", c.name, err)
		}
		data[c.name] = mem
	}
	return data, report, nil
}

// assembler turns the steps of a plan into instructions.
type assembler struct {
	p       *Program
	weights map[*graph.Value]packed
	acts    map[operand]int
}

func (b *assembler) add(from *graph.Step) error {
	n := from.Node
	s := step{
		op: n.Op, index: len(b.p.steps), residual: -1, groups: n.Attrs.Int("groups", 1), fn: n.Attrs.Text("fn"), from: n.Attrs.Int("from", 0),
		eps: float32(n.Attrs.Float("eps", 0)), by: float32(n.Attrs.Float("by", 1)),
	}
	var vectors [][]float32
	for i, v := range n.In {
		if v.Weight != nil {
			w := b.weights[v]
			if w.matrix != nil {
				s.w = w.matrix
			} else {
				vectors = append(vectors, w.vector)
			}
			continue
		}
		o, err := b.operand(v, from.In[i])
		if err != nil {
			return err
		}
		s.in = append(s.in, o)
	}
	var err error
	if s.out, err = b.operand(n.Out, from.Out); err != nil {
		return err
	}
	s.quant = s.out.input != kernel.Dense
	if err := b.details(&s, n, vectors); err != nil {
		return err
	}
	if s.quant {
		s.out.act = b.act(s.out)
	}
	b.p.steps = append(b.p.steps, s)
	return nil
}

// operand locates a value.
func (b *assembler) operand(v *graph.Value, at graph.Buffer) (operand, error) {
	switch v.Name {
	case "tokens", "rows": // the batch has them
		return operand{act: -1}, nil
	case "positions":
		return operand{positions: true, act: -1}, nil
	case "segments":
		return operand{segments: true, act: -1}, nil
	}
	a, err := arenaOf(at.Symbol)
	if err != nil {
		return operand{}, err
	}
	o := operand{arena: a, offset: at.Offset, rowBytes: at.RowBytes, cols: v.Type.Cols(), act: -1}
	switch v.Type.Elem {
	case graph.F32:
	case graph.Q8B, graph.Q8B2:
		o.input, o.wide = kernel.Block, v.Type.Elem == graph.Q8B2
	case graph.Q8R, graph.Q8R2:
		o.input, o.wide = kernel.Row, v.Type.Elem == graph.Q8R2
	default:
		return o, fmt.Errorf("values of %s cannot be computed", v.Type.Elem)
	}
	return o, nil
}

// act returns the index of a view that products read or quantisation writes.
func (b *assembler) act(o operand) int {
	o.act = 0
	i, ok := b.acts[o]
	if !ok {
		i = len(b.p.acts)
		b.acts[o] = i
		b.p.acts = append(b.p.acts, o)
	}
	return i
}

// details reads what is special to an operation.
func (b *assembler) details(s *step, n *graph.Node, vectors [][]float32) error {
	take := func() []float32 {
		if len(vectors) == 0 {
			return nil
		}
		v := vectors[0]
		vectors = vectors[1:]
		return v
	}
	switch n.Op {
	case graph.OpEmbed:
		s.by, s.from = float32(n.Attrs.Float("scale", 1)), n.Attrs.Int("offset", 0)
	case graph.OpMatMul:
		if s.w == nil {
			return errors.New("a product of two computed values is not supported")
		}
		if want := s.w.Format().Input(); want != s.in[0].input {
			return fmt.Errorf("weights in %v read %v activations, the graph gives %v", s.w.Format(), want, s.in[0].input)
		}
		s.in[0].act, s.matrix = b.act(s.in[0]), n.In[1].Name
		b.aim(n, b.weights[n.In[1]])
		if n.Attrs.Flag("bias") {
			s.bias = pad(take(), s.w.Stride())
		}
	case graph.OpRMSNorm, graph.OpAdd, graph.OpMul:
		s.vec = take()
	case graph.OpLayerNorm:
		s.vec, s.bias = take(), take()
	case graph.OpRope:
		s.rope = b.rotation(n.Attrs, n.Attrs.Int("heads", 1), n.Attrs.Int("dim", 0), take())
	case graph.OpAttention:
		b.attention(s, n, take)
	case graph.OpPool:
		s.fn = n.Attrs.Text("kind")
	case graph.OpAct, graph.OpGLU, graph.OpScale, graph.OpSoftcap, graph.OpSlice, graph.OpSelect, graph.OpNormalize, graph.OpSoftmax, graph.OpQuantize:
	default:
		return fmt.Errorf("the engine does not run %s", n.Op)
	}
	if n.Attrs.Flag("residual") {
		s.residual = len(s.in) - 1
	}
	return nil
}

// pad lengthens a vector with zeros to the padded rows of a matrix.
func pad(v []float32, n int) []float32 {
	if len(v) == n {
		return v
	}
	return append(append(make([]float32, 0, n), v...), make([]float32, n-len(v))...)
}

func (b *assembler) attention(s *step, n *graph.Node, take func() []float32) {
	a := &attention{
		layer: n.Attrs.Int("layer", 0), heads: n.Attrs.Int("heads", 1), kv: n.Attrs.Int("kv", 1), dim: n.Attrs.Int("dim", 0),
		scale: float32(n.Attrs.Float("scale", 1)), causal: n.Attrs.Flag("causal"), window: n.Attrs.Int("window", 0),
		softcap: float32(n.Attrs.Float("softcap", 0)), eps: s.eps,
	}
	if n.Attrs.Flag("packed") {
		a.k, a.v = a.heads*a.dim, (a.heads+a.kv)*a.dim
	} else {
		a.kIn, a.vIn = 1, 2
	}
	if n.Attrs.Flag("qnorm") {
		a.qnorm = take()
	}
	if n.Attrs.Flag("knorm") {
		a.knorm = take()
	}
	if n.Attrs.Text("rope") != "" {
		a.rope = b.rotation(n.Attrs, a.heads, a.dim, take())
	}
	if !a.causal {
		a.layer = 0 // nothing is kept from layer to layer
	}
	a.quantizeInPlace = s.out.input == kernel.Block && a.dim%32 == 0
	s.att = a
	p := b.p
	p.cacheLayers, p.kvHeads, p.headDim = max(p.cacheLayers, a.layer+1), a.kv, a.dim
}

// rotation returns the rotation of these attributes; equal ones share a table.
func (b *assembler) rotation(at graph.Attrs, heads, dim int, divisors []float32) *rotation {
	r := &rotation{
		heads: heads, dim: dim, rotated: at.Int("rotated", dim), neox: at.Text("rope") == "neox",
		base: at.Float("rope_base", 10000), factor: at.Float("rope_factor", 1), divisors: divisors,
	}
	for _, have := range b.p.rotations {
		if have.rotated == r.rotated && have.base == r.base && have.factor == r.factor && sameVector(have.divisors, r.divisors) {
			r.table = have.table
			return r
		}
	}
	r.table = len(b.p.rotations)
	b.p.rotations = append(b.p.rotations, r)
	return r
}

func sameVector(a, b []float32) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// kernelFormat returns the packed format of a weight that is used as a matrix.
func kernelFormat(w *graph.Value) (kernel.Format, error) {
	f, err := kernel.ParseFormat(string(w.Type.Elem))
	if err != nil {
		return f, fmt.Errorf("weight %q: %w", w.Name, err)
	}
	return f, nil
}

func isMatrix(w *graph.Value) bool { return len(w.Type.Shape) == 2 }
