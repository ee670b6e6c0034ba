//go:build unix

package mapfile

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Open maps the whole file at path. Its bytes must not be written, nor used after the returned function, which ends the map.
func Open(path string) ([]byte, func() error, error) {
	// A pipe would block in open until somebody writes to it, so the kind is checked first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // read only; the map stays valid
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() == 0:
		return nil, nil, fmt.Errorf("%s is empty; fetch it again", path)
	case info.Size() > math.MaxInt:
		return nil, nil, fmt.Errorf("%s has %d bytes, more than this machine can address", path, info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
