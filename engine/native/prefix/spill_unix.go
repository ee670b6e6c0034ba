//go:build unix

package prefix

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openUnlinked makes a file of a size that has no name, with its space reserved where that is possible, and maps it for reading.
func openUnlinked(dir string, size int) (*os.File, []byte, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	f, err := os.CreateTemp(dir, "prefix-*.spill") // for its owner only
	if err != nil {
		return nil, nil, err
	}
	err = errors.Join(os.Remove(f.Name()), reserve(f, int64(size)))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reserve %d bytes: %w", size, err), f.Close())
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("map %d bytes: %w", size, err), f.Close())
	}
	return f, mapped, nil
}

func unmap(mapped []byte) error { return unix.Munmap(mapped) }

func readAhead(mapped []byte) {
	_ = unix.Madvise(mapped, unix.MADV_WILLNEED) // a hint
}
