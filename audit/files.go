package audit

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

// files is what the write-ahead log and the checkpoint files ask of the file system to write; tests inject failures here.
type files interface {
	Create(path string) (file, error)         // fails if path exists
	Open(path string, flag int) (file, error) // to write, with the flags of [os.OpenFile]
	Rename(from, to string) error
	SyncDir(path string) error
	Remove(path string) error
}

type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Close() error
}

type diskFiles struct{}

func (diskFiles) Create(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func (diskFiles) Open(path string, flag int) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|flag, 0o600)
}

func (diskFiles) Rename(from, to string) error {
	return os.Rename(from, to)
}

func (diskFiles) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (diskFiles) Remove(path string) error { return os.Remove(path) }

// InUseError says that another process has opened a log in the same directory.
type InUseError struct {
	Dir string
	PID string // of that process, as it says
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("lock audit directory %s: another process (pid %s) uses it; stop that process or give each replica its own directory", e.Dir, e.PID)
}

// lockDir takes dir for this process until the file is closed, so that two processes never write the same log. Errors: [InUseError].
func lockDir(dir string) (*os.File, error) {
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

// replaceFile writes b to path so that a reader, or a crash, sees the old content or the new one.
func replaceFile(path string, b []byte) error { return replaceIn(diskFiles{}, path, b) }

func replaceIn(fsys files, path string, b []byte) error {
	tmp := path + ".new"
	f, err := fsys.Open(tmp, os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	if err := errors.Join(writeSync(f, b), f.Close()); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

// writeSync writes b and makes it durable.
func writeSync(f file, b []byte) error {
	n, err := f.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	return f.Sync()
}

// truncate makes the file at path size bytes long, durably.
func truncate(fsys files, path string, size int64) error {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}
