//go:build !purego

package kernel

//go:noescape
func halfPageAVX2(args *pageArgs)

//go:noescape
func halfPageAVX512(args *pageArgs)

//go:noescape
func bytePageAVX2(args *pageArgs)

//go:noescape
func bytePageAVX512(args *pageArgs)

//go:noescape
func dotPageAVX2(args *pageArgs)

//go:noescape
func dotPageAVX512(args *pageArgs)
