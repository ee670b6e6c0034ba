package kernel

// QuantizeBlocks writes x to the columns of row t of Block activations that begin at from, as [Kernels.Quantize] does a whole row.
// Both from and the length of x are multiples of 32. Parts of a row may be written concurrently.
func (k Kernels) QuantizeBlocks(a *Activations, t, from int, x []float32) {
	if a.in != Block || from < 0 || from%32 != 0 || len(x) == 0 || len(x)%32 != 0 || from+len(x) > a.cols || t < 0 || t >= a.rows {
		mismatch("QuantizeBlocks", int(a.in), t, from, len(x), a.cols)
	}
	k.quantizeBlocks(a.codes(t)[from:from+len(x)], a.scales(t)[from/32:(from+len(x))/32], x)
}
