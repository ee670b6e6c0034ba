package modelstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// errStalled says that a server stopped sending.
var errStalled = errors.New("the server stopped sending")

// statusError is an answer that is no file.
type statusError struct {
	status int
	host   string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s answered %d %s", e.host, e.status, http.StatusText(e.status))
}

func (e *statusError) Is(target error) bool {
	return target == errNotFound && (e.status == http.StatusNotFound || e.status == http.StatusGone)
}

// download brings the file at address to path, going on with what is there. size 0 means that it is not known. It tries again when
// the connection breaks off, and reports whether it kept earlier bytes. What has arrived stays for the next time.
func (s *Store) download(ctx context.Context, address, path string, size int64, m *meter) (resumed bool, err error) {
	for range attempts {
		var kept bool
		kept, err = s.downloadOnce(ctx, address, path, size, m)
		resumed = resumed || kept
		var cut *readError
		again := errors.As(err, &cut) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errStalled) || errors.Is(err, errRestart)
		if err == nil || ctx.Err() != nil || !again {
			return resumed, redact(err)
		}
	}
	return resumed, redact(err)
}

// errRestart says that the server cannot go on where the file ends.
var errRestart = errors.New("the server does not continue the file")

func (s *Store) downloadOnce(ctx context.Context, address, path string, size int64, m *meter) (kept bool, err error) {
	have := int64(0)
	if info, err := os.Stat(path); err == nil {
		have = info.Size()
	}
	if size > 0 && have == size {
		return true, nil
	}
	if size > 0 && have > size {
		have = 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.stall, func() { cancel(errStalled) })
	defer watch.Stop()
	resp, err := s.ask(ctx, address, have)
	if err != nil {
		return false, stalled(ctx, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if have, err = position(resp, have, size); err != nil {
		if errors.Is(err, errRestart) {
			err = errors.Join(err, os.Remove(path))
		}
		return false, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(have); err != nil {
		return false, err
	}
	if _, err := f.Seek(have, io.SeekStart); err != nil {
		return false, err
	}
	total, limit := size, size
	if size == 0 {
		limit = maxArchive
		if resp.ContentLength > 0 {
			total = have + resp.ContentLength
		}
	}
	done, err := copyLimited(f, resp.Body, have, limit, func(n int64) {
		watch.Reset(s.stall)
		m.set(n, total)
	})
	if err == nil && size > 0 && done < size {
		err = io.ErrUnexpectedEOF
	}
	return have > 0, stalled(ctx, err)
}

// stalled replaces the error of a request that was given up for its real reason.
func stalled(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return err
}

func (s *Store) ask(ctx context.Context, address string, have int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "sluice")
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	return s.client.Do(req)
}

// position checks an answer and returns from which byte on it is.
func position(resp *http.Response, have, size int64) (int64, error) {
	switch resp.StatusCode {
	case http.StatusOK:
		have = 0
	case http.StatusPartialContent:
		if !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)) {
			return 0, errRestart
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, errRestart
	default:
		return 0, &statusError{resp.StatusCode, resp.Request.URL.Host}
	}
	if size > 0 && resp.ContentLength >= 0 && have+resp.ContentLength != size {
		return 0, fmt.Errorf("%s offers a file of %d bytes, expected are %d; it may be another version, or the page of a proxy",
			resp.Request.URL.Host, have+resp.ContentLength, size)
	}
	return have, nil
}

// redact takes addresses out of errors: they may hold tokens.
func redact(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

func textDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
