package exec

import (
	"fmt"
	"math"
	"sync"

	"github.com/sluice-project/sluice/engine/gguf"
	"github.com/sluice-project/sluice/engine/kernel"
)

// Calibration lets weights of eight bits be rounded so that the products come out right for the inputs of a text, rather than the
// weights themselves.
type Calibration struct {
	Digest  string // of the text and of all that decides how it is read
	Kernels kernel.Kernels
	// Read computes the text with activations in float32. It calls see with every input of every matrix, of one matrix after the
	// other, and says how many there are of each.
	Read func(see func(matrix string, input []float32, of int)) error
}

// calibrator packs the weights that a calibration is for. It reads the text when the first of them is wanted, so that no text is read
// where the packed weights are there already.
type calibrator struct {
	from    *Calibration
	threads int
	weights map[string]constant
	once    sync.Once
	done    map[string][]byte
	err     error
	in      inputs
}

// constants gives weights of eight bits another way to be packed.
func (c *calibrator) constants(all []constant) []constant {
	out := make([]constant, len(all))
	for i, from := range all {
		out[i] = from
		if from.stack == nil || from.format != kernel.I8 && (from.format != kernel.Q8 || from.stack.stores(gguf.Q8_0)) {
			continue
		}
		c.weights[from.name] = from
		out[i].fill = func(mem []byte) error { return c.fill(from, mem) }
	}
	return out
}

func (c *calibrator) fill(w constant, mem []byte) error {
	c.once.Do(func() {
		if err := c.from.Read(c.accumulate); err != nil && c.err == nil {
			c.err = err
		}
	})
	if c.err != nil {
		return fmt.Errorf("calibrate: %w", c.err)
	}
	packed, ok := c.done[w.name]
	if !ok { // the text does not reach it
		return w.fill(mem)
	}
	copy(mem, packed)
	delete(c.done, w.name)
	return nil
}

// accumulate collects the inputs of a matrix and packs it after the last.
func (c *calibrator) accumulate(matrix string, input []float32, of int) {
	w := c.weights[matrix]
	s := w.stack
	if s == nil || s.cols != len(input) || c.err != nil {
		return
	}
	c.in.rows, c.in.cols = c.in.rows+1, len(input)
	c.in.x = append(c.in.x, input...)
	if c.in.rows < of {
		return
	}
	mem := alignedFloats(w.bytes)
	if err := c.pack(s, kernel.NewMatrix(w.format, s.rows, s.cols, mem)); err != nil {
		c.err = fmt.Errorf("weight %q: %w", matrix, err)
	}
	c.done[matrix] = mem
	c.in.rows, c.in.x = 0, c.in.x[:0]
}

func (c *calibrator) pack(s *stack, m *kernel.Matrix) error {
	energy := c.in.energies()
	for _, v := range energy {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("the model computes numbers that are not finite with the calibration text")
		}
	}
	if s.cols > maxCompensated {
		return s.pack(m, energy, c.threads)
	}
	f, err := newFactor(c.from.Kernels, &c.in, c.threads)
	if err != nil {
		return err
	}
	units := (s.rows + panelRows - 1) / panelRows
	return parallel(units, c.threads, func(from, to int) error {
		s.compensate(m, newCompensator(f, c.from.Kernels, m.Format()), from*panelRows, min(to*panelRows, s.rows))
		return nil
	})
}

// compensate packs some rows.
func (s *stack) compensate(m *kernel.Matrix, c *compensator, from, to int) {
	for ; from < to; from += together {
		n := min(together, to-from)
		for r := range n {
			t, i := s.find(from + r)
			t.Row(i, c.rows[r])
		}
		c.round(n)
		for r := range n {
			c.store(m, from+r, r)
		}
	}
}

// stores reports whether the file has all rows in one format: what the packed format holds exactly is not rounded.
func (s *stack) stores(t gguf.Type) bool {
	for _, part := range s.parts {
		if p, ok := part.(*gguf.Tensor); !ok || p.Type != t {
			return false
		}
	}
	return true
}
