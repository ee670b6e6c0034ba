//go:build !amd64 || purego

package kernel

func halfPageAVX2(*pageArgs)   { panic(unreachable) }
func halfPageAVX512(*pageArgs) { panic(unreachable) }
func bytePageAVX2(*pageArgs)   { panic(unreachable) }
func bytePageAVX512(*pageArgs) { panic(unreachable) }
func dotPageAVX2(*pageArgs)    { panic(unreachable) }
func dotPageAVX512(*pageArgs)  { panic(unreachable) }
