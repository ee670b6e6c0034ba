//go:build !purego

package kernel

//go:noescape
func scoresAVX2(scores *float32, rows int, q *float32, n int, k *uint16, scale float32)

//go:noescape
func combineAVX2(dst *float32, n int, weights *float32, rows int, v *uint16, vStride int)
