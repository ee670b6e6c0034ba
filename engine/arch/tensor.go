package arch

// Tensor is a weight as the file stores it: rows of numbers that are converted when they are asked for. What a GGUF file has is a
// [*gguf.Tensor], which gives the integers of its blocks, too.
type Tensor interface {
	Rows() int
	Cols() int
	// Row writes row i to dst, which has Cols elements.
	Row(i int, dst []float32)
	// Format is how the file stores it, such as "f32", "bf16", "q4_1".
	Format() string
}

// plusOne is a norm of Gemma in a Hugging Face file, which leaves out the one that GGUF includes.
type plusOne struct{ Tensor }

func (t plusOne) Row(i int, dst []float32) {
	t.Tensor.Row(i, dst)
	for j := range dst {
		dst[j]++
	}
}

// firstRow is the only row that the graph uses of a tensor.
type firstRow struct{ Tensor }

func (firstRow) Rows() int { return 1 }

// computed is a vector that a file describes by its settings instead of storing it.
type computed []float32

func (computed) Rows() int                  { return 1 }
func (t computed) Cols() int                { return len(t) }
func (t computed) Row(_ int, dst []float32) { copy(dst, t) }
func (computed) Format() string             { return "f32" }
