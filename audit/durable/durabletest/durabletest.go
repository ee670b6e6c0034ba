// Package durabletest has a disk that fails as a test says.
package durabletest

import (
	"fmt"
	"sync"
	"syscall"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// ErrInjected is what a disk says whose medium fails.
var ErrInjected = fmt.Errorf("injected: %w", syscall.EIO)

// Files is the disk with failures: each operation asks plan what to do before and after.
type Files struct {
	durable.OS
	mu   sync.Mutex
	Plan func(op string) Mode
}

// Mode is how an operation on a disk or on a database goes. A disk knows more ways than a database.
type Mode = dbtest.Outcome

// The ways that a database knows, too.
const (
	Healthy     = dbtest.Healthy
	FailsBefore = dbtest.FailsBefore // fails, nothing persisted
	FailsAfter  = dbtest.FailsAfter  // fails, but persisted
	DiesAfter   = dbtest.DiesAfter   // persisted, and the process is killed
)

// The ways that only a disk knows.
const (
	FailsShort = DiesAfter + 1 + iota // writes half and reports it without an error
	FailsHalf                         // writes half, then no space
	DiesHalf                          // writes half, and the process is killed
)

// Set says what becomes of the operations from now on; nil is health.
func (f *Files) Set(plan func(op string) Mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Plan = plan
}

func (f *Files) next(op string) Mode {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Plan == nil {
		return Healthy
	}
	return f.Plan(op)
}

// Create implements durable.Files.
func (f *Files) Create(path string) (durable.File, error) {
	return f.opened("create", func() (durable.File, error) { return f.OS.Create(path) })
}

// Open implements durable.Files.
func (f *Files) Open(path string, flag int) (durable.File, error) {
	return f.opened("open", func() (durable.File, error) { return f.OS.Open(path, flag) })
}

// opened is around for what yields a file; one whose opening failed afterwards is closed.
func (f *Files) opened(op string, do func() (durable.File, error)) (durable.File, error) {
	out := &file{owner: f}
	err := f.around(op, func() (err error) {
		out.File, err = do()
		return err
	})
	if err != nil {
		if out.File != nil {
			_ = out.File.Close()
		}
		return nil, err
	}
	return out, nil
}

// Rename implements durable.Files.
func (f *Files) Rename(from, to string) error {
	return f.around("rename", func() error { return f.OS.Rename(from, to) })
}

// around runs an operation that either happens or does not.
func (f *Files) around(op string, do func() error) error {
	switch f.next(op) {
	case FailsBefore:
		return ErrInjected
	case FailsAfter:
		_ = do()
		return ErrInjected
	case DiesAfter:
		_ = do()
		dbtest.Die()
		return nil
	default:
		return do()
	}
}

// SyncDir implements durable.Files.
func (f *Files) SyncDir(path string) error {
	return f.around("syncdir", func() error { return f.OS.SyncDir(path) })
}

// Remove implements durable.Files.
func (f *Files) Remove(path string) error {
	return f.around("remove", func() error { return f.OS.Remove(path) })
}

type file struct {
	durable.File
	owner *Files
}

func (f *file) Write(b []byte) (int, error) {
	m := f.owner.next("write")
	switch m {
	case FailsBefore:
		return 0, ErrInjected
	case FailsAfter:
		n, _ := f.File.Write(b)
		return n, ErrInjected
	case FailsShort:
		n, _ := f.File.Write(b[:len(b)/2])
		return n, nil
	case FailsHalf:
		n, _ := f.File.Write(b[:len(b)/2])
		return n, syscall.ENOSPC
	case DiesAfter, DiesHalf:
		if m == DiesHalf {
			b = b[:len(b)/2]
		}
		_, _ = f.File.Write(b)
		dbtest.Die()
		return 0, nil
	default:
		return f.File.Write(b)
	}
}

func (f *file) Sync() error { return f.owner.around("sync", f.File.Sync) }

func (f *file) Truncate(size int64) error {
	return f.owner.around("truncate", func() error { return f.File.Truncate(size) })
}

func (f *file) Close() error { return f.owner.around("close", f.File.Close) }

// Once fails the n-th operation called op in the given way, and the clean-up operations with it if dirty is set.
func Once(op string, n int, m Mode, dirty bool) func(string) Mode {
	failed := false
	return func(got string) Mode {
		if got == op {
			n--
			if n == 0 {
				failed = true
				return m
			}
		}
		if failed && dirty && (got == "truncate" || got == "remove") {
			return FailsBefore
		}
		return Healthy
	}
}

// Hang lets the next operation called op wait until release is closed; entered is closed when it does.
func Hang(disk *Files, op string) (release, entered chan struct{}) {
	release, entered = make(chan struct{}), make(chan struct{})
	var first sync.Once
	disk.Set(func(got string) Mode {
		if got == op {
			first.Do(func() { close(entered); <-release })
		}
		return Healthy
	})
	return release, entered
}
