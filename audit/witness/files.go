package witness

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	keyFile        = "key"
	checkpointFile = "checkpoint"
	alarmDir       = "alarms"
	lockFile       = "lock"
	seedSize       = 32 // of a key of either suite
)

// lockDir takes dir for this process until the file is closed: two processes would remember past each other.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock witness directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock witness directory %s: another process uses it; stop that process or give each witness its own directory: %w", dir, err)
	}
	return f, nil
}

// seed reads the seed of the witness's key, making one if there is none.
func seed(dir string) ([]byte, error) {
	path := filepath.Join(dir, keyFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeSeed(dir, path); err != nil {
			return nil, fmt.Errorf("make witness key: %w", err)
		}
		f, err = os.Open(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read witness key: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read witness key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("read witness key: others may read %s (mode %04o): run chmod 600, and make a new key if others had access", path, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*seedSize))
	if err != nil {
		return nil, fmt.Errorf("read witness key: %w", err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != seedSize {
		return nil, fmt.Errorf("read witness key: %s does not hold %d bytes in hex: restore it from a copy, or delete it and register the new key with the log", path, seedSize)
	}
	return raw, nil
}

// makeSeed writes a fresh seed under a name of its own and links it into place, so that of two processes one wins and both read the same.
func makeSeed(dir, path string) error {
	raw := make([]byte, seedSize)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, keyFile+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) //nolint:errcheck // the link stays
	_, werr := f.WriteString(hex.EncodeToString(raw) + "\n")
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// replaceFile writes b to path so that a reader, or a crash, sees the old content or the new one.
func replaceFile(path string, b []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, werr := f.Write(b)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
