//go:build unix

package mapfile

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// Open maps the whole file at path. Its bytes must not be written, nor used after the returned function, which ends the map.
func Open(path string) ([]byte, func() error, error) { return open(path, 0, nil) }

// OpenOwn is Open for files that this program has written itself: it refuses links, and files that belong to another user or that
// others may write. The pages are read at once where the system can.
func OpenOwn(path string) ([]byte, func() error, error) {
	return open(path, populate, func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Uid != uint32(unix.Geteuid()) || st.Mode&0o022 != 0 {
			return fmt.Errorf("%s belongs to another user, or others may write to it", path)
		}
		return nil
	})
}

// open maps a file that passes check, without following a link where there is one.
func open(path string, flags int, check func(fd int) error) ([]byte, func() error, error) {
	// A pipe would block in open until somebody writes to it, so the kind is checked first.
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	mode := os.O_RDONLY
	if check != nil {
		mode |= unix.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close() //nolint:errcheck // read only; the map stays valid
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if check != nil {
		if err := check(int(f.Fd())); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() == 0:
		return nil, nil, fmt.Errorf("%s is empty; fetch it again", path)
	case info.Size() > math.MaxInt:
		return nil, nil, fmt.Errorf("%s has %d bytes, more than this machine can address", path, info.Size())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED|flags)
	if err != nil {
		return nil, nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, func() error { return unix.Munmap(data) }, nil
}
