package cli

import (
	"errors"
	"os"
)

// WriteNew writes a file that is not there yet, for its owner only. A file that stays is whole and on the disk.
func WriteNew(path string, write func(*os.File) error) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			_ = os.Remove(path)
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}
