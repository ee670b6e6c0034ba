package modelstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Limits of files and of waiting.
const (
	maxFile        = 64 << 30
	maxArchive     = 4 << 30
	connectTimeout = 5 * time.Second
	headerTimeout  = 15 * time.Second
	stallTimeout   = 30 * time.Second // without a byte
	attempts       = 3                // of one source that breaks off
)

// Store is a directory of artefacts. Its methods are safe for concurrent use, also by several processes.
type Store struct {
	dir     string
	entries []Entry

	client     *http.Client
	hf         string // endpoints without a final slash
	modelscope string
	python     string
	stall      time.Duration
	now        func() time.Time
}

// Open returns the store in dir, which need not exist yet. It honours HF_ENDPOINT, the proxy variables, and pip's own configuration.
func Open(dir string) *Store {
	hf := strings.TrimRight(os.Getenv("HF_ENDPOINT"), "/")
	if hf == "" {
		hf = "https://huggingface.co"
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ResponseHeaderTimeout: headerTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // sizes and ranges are those of the file
	}
	return &Store{
		dir: dir, entries: Catalogue(), client: &http.Client{Transport: transport}, hf: hf, modelscope: "https://modelscope.cn",
		python: "python3", stall: stallTimeout, now: time.Now,
	}
}

func (s *Store) entry(name string) (Entry, error) {
	var known []string
	for _, e := range s.entries {
		if e.Name == name {
			return e, nil
		}
		known = append(known, e.Name)
	}
	return Entry{}, fmt.Errorf("modelstore: there is no artefact %q; known are %s", name, strings.Join(known, ", "))
}

func (s *Store) path(rel string) string { return filepath.Join(s.dir, filepath.FromSlash(rel)) }

// Path returns where an artefact lies: a file, or a folder if it has several. It checks that every file is there with its full size;
// digests were checked when the file was written, and [Store.Verify] checks them again.
func (s *Store) Path(name string) (string, error) {
	e, err := s.entry(name)
	if err != nil {
		return "", err
	}
	for _, f := range e.Files {
		if !s.present(f) {
			return "", &MissingError{Artefact: name, Path: s.path(f.Path)}
		}
	}
	return s.path(e.Path), nil
}

func (s *Store) present(f File) bool {
	info, err := os.Stat(s.path(f.Path))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// Verify reads every file of an artefact and compares its digest.
func (s *Store) Verify(ctx context.Context, name string) error {
	e, err := s.entry(name)
	if err != nil {
		return err
	}
	for _, f := range e.Files {
		path := s.path(f.Path)
		got, size, err := digestFile(ctx, path)
		switch {
		case errors.Is(err, os.ErrNotExist):
			return &MissingError{Artefact: name, Path: path}
		case err != nil:
			return fmt.Errorf("modelstore: verify %s: %w", path, err)
		case got != f.SHA256:
			return &DigestError{Artefact: name, File: path, Want: f.SHA256, Got: got, WantSize: f.Size, Size: size}
		}
	}
	return nil
}

func digestFile(ctx context.Context, path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	n, err := io.Copy(h, &contextReader{ctx: ctx, r: f})
	if err := errors.Join(err, f.Close()); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), n, nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
