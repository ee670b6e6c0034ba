//go:build !amd64 || purego

package kernel

func multiplyAVX2(int)      { panic(unreachable) }
func multiplyAVX512(int)    { panic(unreachable) }
func readAVX2(*byte, int)   { panic(unreachable) }
func readAVX512(*byte, int) { panic(unreachable) }
