//go:build !amd64 || purego

package enginebench

import "github.com/sluice-project/sluice/engine/kernel"

// loops returns the fastest loops there are: one that reads words, and none that multiplies.
func loops(kernel.Kernels) (read func([]uint64), multiply func(n int), each int) {
	return readPlain, nil, 0
}
