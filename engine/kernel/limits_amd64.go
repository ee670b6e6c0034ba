//go:build !purego

package kernel

//go:noescape
func multiplyAVX2(rounds int)

//go:noescape
func multiplyAVX512(rounds int)

//go:noescape
func readAVX2(p *byte, rounds int)

//go:noescape
func readAVX512(p *byte, rounds int)
