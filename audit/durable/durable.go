// Package durable writes the files of an audit log so that they survive a crash: what [Replace], [WriteSync] and [Truncate] return from without an
// error is on the disk. [Files] is what is asked of the file system, so that tests can let it fail; [Lock] keeps a directory for one process.
package durable

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Files is what the write-ahead log and the checkpoint files ask of the file system to write.
type Files interface {
	Create(path string) (File, error)         // fails if path exists
	Open(path string, flag int) (File, error) // to write, with the flags of [os.OpenFile]
	Rename(from, to string) error
	SyncDir(path string) error
	Remove(path string) error
}

// File is a file to write.
type File interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

// OS is the file system of the operating system.
type OS struct{}

// Create makes a file that must not exist yet, readable by its owner alone.
func (OS) Create(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// Open opens a file to write; flag is one of package os.
func (OS) Open(path string, flag int) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|flag, 0o600)
}

// Rename replaces what is at to.
func (OS) Rename(from, to string) error {
	return os.Rename(from, to)
}

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Remove deletes a file.
func (OS) Remove(path string) error { return os.Remove(path) }

// InUseError says that another process has opened a log in the same directory.
type InUseError struct {
	Dir string
	PID string // of that process, as it says
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("lock audit directory %s: another process (pid %s) uses it; stop that process or give each replica its own directory", e.Dir, e.PID)
}

// Lock takes dir for this process until the file is closed, so that two processes never write the same log. Errors: [InUseError].
func Lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock audit directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := io.ReadAll(io.LimitReader(f, 32))
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, &InUseError{Dir: dir, PID: cmp.Or(strings.TrimSpace(string(holder)), "unknown")}
		}
		return nil, fmt.Errorf("lock audit directory %s: %w", dir, err)
	}
	// The pid only serves the message above, so a full disk does not matter here.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return f, nil
}

// Replace writes b to path so that a reader, or a crash, sees the old content or the new one.
func Replace(fsys Files, path string, b []byte) error {
	tmp := path + ".new"
	f, err := fsys.Open(tmp, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err := errors.Join(WriteSync(f, b), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// WriteSync writes b and makes it durable.
func WriteSync(f File, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// Truncate makes the file at path size bytes long, durably.
func Truncate(fsys Files, path string, size int64) error {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}
