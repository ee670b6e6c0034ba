// Package testcache keeps what tests fetch from package indexes: each folder is made once, in the user's cache directory, by one of many who ask.
package testcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Root is where the folders of a kind are.
func Root(kind string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	return filepath.Join(cache, "sluice", kind), nil
}

// Folder returns the folder of this name below root whose contents follow from key, and fills it if that has not been done: fill gets its path, at which
// something half done may be. Several processes may ask at once: one fills it, the others wait.
func Folder(root, name string, key []byte, fill func(dir string) error) (string, error) {
	sum := sha256.Sum256(key)
	dir := filepath.Join(root, name+"-"+hex.EncodeToString(sum[:6]))
	if err := os.MkdirAll(root, 0o750); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	ready := filepath.Join(dir, "ready")
	if _, err := os.Stat(ready); err == nil {
		return dir, nil
	}
	if err := fill(dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(ready, nil, 0o600); err != nil {
		return "", fmt.Errorf("mark the folder: %w", err)
	}
	return dir, nil
}

// Run runs a command and returns the last of what it said if it fails.
func Run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return fmt.Errorf("%w: %s", err, lines[len(lines)-1])
}

// lock waits until no other process has the file locked.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil // closing unlocks
}
