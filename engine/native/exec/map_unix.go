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
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if err := ownFile(int(f.Fd())); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
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

// ownFile refuses a file that somebody else may have written: its sums prove that it is whole, not who made it.
func ownFile(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Uid != uint32(unix.Geteuid()) || st.Mode&0o022 != 0 {
		return errors.New("it belongs to another user or others may write to it")
	}
	return nil
}
