//go:build unix

package exec

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file read-only. The pages are read at once where the system can, since all of them are about to be verified.
func mapFile(path string) (mem []byte, free func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 || info.Size() != int64(int(info.Size())) {
		return nil, nil, fmt.Errorf("%s has %d bytes", path, info.Size())
	}
	mem, err = unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|mapPopulate)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return mem, func() error { return unix.Munmap(mem) }, nil
}
