//go:build !amd64 || purego

package kernel

// Without the assembly these tiers are never selected; these stand in so that the callers compile.

func tileAVX2(Format, int, *mulArgs) bool   { panic(unreachable) }
func tileAVX512(Format, int, *mulArgs) bool { panic(unreachable) }

func unpackAVX2(Format, *byte, *byte, int) bool   { panic(unreachable) }
func unpackAVX512(Format, *byte, *byte, int) bool { panic(unreachable) }
