//go:build !unix

package exec

import "os"

// mapFile reads a file into memory on systems without mmap.
func mapFile(path string) ([]byte, func() error, error) {
	mem, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	at := slab(len(mem))
	copy(at, mem)
	return at, func() error { return nil }, nil
}
