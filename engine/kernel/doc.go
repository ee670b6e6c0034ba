// Package kernel is a leaf: the numeric kernels of the native engine, a Go reference for each and assembly for the hot ones: AVX2
// and AVX-512 with VNNI on amd64, NEON with and without dot product on arm64.
//
// # One result everywhere
//
// Every kernel states the order of its floating-point operations, and each implementation keeps it, so the tiers agree bit for bit
// on finite input: a matrix product is the same on every instruction set, for any number of threads and for any batch. The
// engine's determinism rests on that.
//
//   - A matrix product has one float32 accumulator per output, filled in column order. Quantised matrices go block by block of 32
//     columns: with the exact integer S = Σ w·a, acc = fma(S, dw·da, acc), then, where the format has an offset m,
//     acc = fma(m, sa, acc) with sa = da·Σa. Super-blocks give dw = d·sc and m = −dmin·mn, both exact; in Q6K a block has two scales
//     and S = sc₀·S₀ + sc₁·S₁. Matrices and activations with one scale per row give float32(S)·(dw·da) once. Dense ones go column
//     by column: acc = fma(w, a, acc). Bias, then what the destination held, are added at the end, each rounding once.
//   - Reductions over vectors (sum of squares, sum of exponentials) have sixteen accumulators: element i goes to accumulator
//     i mod 16; they are folded by halves, 16 to 8, 4, 2, 1.
//   - Attention has one accumulator per output: scores over the dimensions in order, sums of values over the positions in order.
//   - Scans (scan.go) are sums of integers, exact modulo 2³².
//   - fma rounds once. Everything else rounds after each operation, to nearest, ties to even.
//   - Exponentials use the polynomial in vec_ref.go, with a relative error below 2e-7.
//
// Input that is not finite gives output that is not specified, but never a fault.
//
// # One package
//
// Its files are many and are one room: assembly can only be called where it is declared, the tier is chosen once for all operations, and a
// test walks operations × tiers × sizes. Names begin with what they compute (mul, attention, scan, vec, quantize); the suffix names the tier.
//
// # Layout
//
// A [Matrix] is stored as panels of sixteen rows, the same for all tiers, so that a 64-byte vector holds one float32 or four bytes
// of each row and no horizontal sum is needed: byte 4r+i belongs to row r and column 4g+i of column group g. AVX2 works on the two
// halves. Rows are padded with zeros to a multiple of sixteen; destinations are padded likewise ([Matrix.Stride]). All parts begin
// at multiples of 64 bytes, those of super-blocks' and Q8's scales at multiples of 32:
//
//	f32    one vector per column                       f16    half a vector per column
//	q4     per block: scales d, offsets m (half precision), four vectors of nibbles: groups 0–3 low, 4–7 high
//	q5     as q4, then a vector of fifth bits: bit g of a byte belongs to group g
//	q8     all scales of the panel (half precision), then per block eight vectors of bytes
//	i8     sixteen float32 scales, then per block eight vectors of bytes
//	q8x    per block: float32 scales, float32 offsets, eight vectors of bytes
//	q4k    per 256 columns: d, dmin (half precision), per block 16 scales and 16 offsets of a byte, then blocks as q4 without d, m
//	q5k    the same, each block with its vector of fifth bits
//	q6k    per 256 columns: d and padding, per block 16 pairs of scales, then blocks: nibbles, two vectors of high bits
//
// Bytes of weights are stored with 128 added: the dot product of AVX-512 wants one side unsigned, and [Activations] keep −128·Σa to
// begin its sum with. Q6K has 32 added, which the sums of 16 columns take off again.
//
// AVX2 multiplies pairs into 16 bits, where nothing may saturate: 16 products of Q4 give at most 8·2·15·127 = 30,480, eight of Q5
// 4·2·31·127 = 31,496, four of Q6K 2·2·63·127 = 32,004. Bytes move the weight's sign to the activation: 2·128·127 = 32,512.
// NEON without dot product adds single products in 16 bits: eight of Q4 and Q5 (8·31·127 = 31,496), four of Q6K with 32 taken off
// (4·32·127 = 16,256), two of bytes (32,512).
//
// # Rules
//
// Arguments must not overlap unless a kernel says so. Lengths are checked once, in the methods of [Kernels]; a wrong length is a
// programming error and panics. No kernel allocates. Every assembly call is short (below about 100 µs), since goroutines are not
// preempted inside.
//
// The assembly is generated, so that one description serves tiles of all widths:
//
//go:generate go run ./_gen/mul
package kernel
