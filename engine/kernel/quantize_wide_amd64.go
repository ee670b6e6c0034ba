//go:build !purego

package kernel

//go:noescape
func restAVX2(r, x *float32, q *int8, scales *blockScale, blocks, stride int)
