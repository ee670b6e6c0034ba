//go:build !amd64 || purego

package kernel

func scoresAVX2(*float32, int, *float32, int, *uint16, float32) { panic(unreachable) }
func combineAVX2(*float32, int, *float32, int, *uint16, int)    { panic(unreachable) }
