//go:build !unix

package exec

// mapPage has no memory outside the heap here.
func mapPage(int) []byte { return nil }

func unmapPage([]byte) {}
