// Package kernel is a leaf: the numeric kernels of the native engine, a Go reference for each and AVX2 assembly for the hot ones.
//
// # One result everywhere
//
// Every kernel states the order of its floating-point operations, and each implementation keeps it, so the tiers agree bit for bit
// on finite input: a matrix product is the same on every instruction set, for any number of threads and for any batch. The
// engine's determinism rests on that.
//
//   - A matrix product has one float32 accumulator per output, filled in column order. Quantised matrices go block by block of 32
//     columns: with the exact integer S = Σ w·a, acc = fma(S, dw·da, acc), then, where the format has an offset m,
//     acc = fma(m, sa, acc) with sa = da·Σa. Dense ones go column by column: acc = fma(w, a, acc).
//   - Reductions over vectors (sum of squares, sum of exponentials, attention scores) have eight accumulators: element i goes to
//     accumulator i mod 8; they are summed as ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)).
//   - fma rounds once. Everything else rounds after each operation, to nearest, ties to even.
//   - Exponentials use the polynomial in ref.go, with a relative error below 2e-7.
//
// Input that is not finite gives output that is not specified, but never a fault.
//
// # Layout
//
// A [Matrix] is stored as panels of eight rows, so that one vector register holds one number of each row and no horizontal sum is
// needed. Rows are padded with zeros to a multiple of eight; destinations are padded likewise ([Matrix.Stride]). A panel of a Q4
// matrix holds, per 32 columns, eight half-precision scales, eight half-precision offsets and four vectors of nibbles; one of a Q8
// matrix eight float32 scales and eight vectors of bytes. In a vector byte 4r+i belongs to row r and column 4g+i; the low nibbles
// of Q4's vector v are column group g = v, the high ones g = v+4.
//
// Sums of Q4 fit 16 bits: eight products of pairs give at most 8·2·15·127 = 30,480. Q8 moves the weight's sign to the activation,
// so pairs give at most 2·128·127 = 32,512.
//
// # Rules
//
// Arguments must not overlap unless a kernel says so. Lengths are checked once, in the methods of [Kernels]; a wrong length is a
// programming error and panics. No kernel allocates. Every assembly call is short (below about 100 µs), since goroutines are not
// preempted inside.
package kernel
