package inflight

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestBounds: each bound refuses with its own words, and whoever holds nothing costs nothing.
func TestBounds(t *testing.T) {
	l := New(Config{All: 100, PerTenant: 60, PerCaller: 40})
	a, b, c, stranger := Caller{"t", "a"}, Caller{"t", "b"}, Caller{"u", "c"}, Caller{"", "192.0.2.1"}
	acquire := func(who Caller, n int64, code fault.Code) {
		t.Helper()
		fits, err := l.Fits(who, n), l.Acquire(who, n)
		if code == "" && (fits != nil || err != nil) || code != "" && (!fault.Is(err, code) || !fault.Is(fits, code) || fault.Public(err).RetryAfter() == 0) {
			t.Fatalf("%d bytes for %v: %v, %v, want %q", n, who, fits, err, code)
		}
	}
	acquire(a, 41, fault.CodeBytesInFlight)
	acquire(a, 40, "")
	acquire(a, 1, fault.CodeBytesInFlight)
	acquire(b, 21, fault.CodeBytesInFlight) // of the tenant
	acquire(b, 20, "")
	acquire(stranger, 30, "")
	acquire(Caller{"", "192.0.2.2"}, 11, fault.CodeOverloaded) // strangers have no bound together but that of all
	acquire(c, 11, fault.CodeOverloaded)
	acquire(c, 10, "")
	if l.Held() != 100 {
		t.Errorf("%d held", l.Held())
	}
	for who, n := range map[Caller]int64{a: 40, b: 20, stranger: 30, c: 10} {
		l.Release(who, n)
	}
	if l.held != 0 || len(l.tenants)+len(l.callers) != 0 {
		t.Errorf("%d held by %v, %v", l.held, l.tenants, l.callers)
	}
}

// TestNeverAboveTheBounds: whatever the interleaving.
func TestNeverAboveTheBounds(t *testing.T) {
	l := New(Config{All: 50, PerTenant: 30, PerCaller: 20})
	var wg sync.WaitGroup
	for i := range 8 {
		who := Caller{string(rune('s' + i%2)), string(rune('a' + i%4))}
		wg.Go(func() {
			for n := range int64(500) {
				if l.Acquire(who, n%7) == nil {
					if held := l.Held(); held > 50 {
						t.Errorf("%d bytes held", held)
					}
					l.Release(who, n%7)
				}
			}
		})
	}
	wg.Wait()
	if l.Held() != 0 {
		t.Errorf("%d bytes stay", l.Held())
	}
}

// failing is a body whose connection breaks.
type failing struct{ io.Reader }

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// TestBody: what was read is held until it is given back, however the reading ended, and what cannot fit is not read.
func TestBody(t *testing.T) {
	for name, c := range map[string]struct {
		body    io.Reader
		length  int64 // as it is announced; -1: not
		code    fault.Code
		unread  bool
		hangsUp bool
	}{
		"whole":             {strings.NewReader(strings.Repeat("x", 50)), 50, "", false, false},
		"chunked":           {strings.NewReader(strings.Repeat("x", 50)), -1, "", false, false},
		"announced as long": {strings.NewReader(strings.Repeat("x", 101)), 101, fault.CodeBodyTooLarge, true, true},
		"long":              {strings.NewReader(strings.Repeat("x", 59)), -1, fault.CodeBodyTooLarge, false, true},
		"no room for it":    {strings.NewReader(strings.Repeat("x", 61)), 61, fault.CodeBytesInFlight, true, true},
		"no room left":      {strings.NewReader(strings.Repeat("x", 61)), -1, fault.CodeBytesInFlight, false, true},
		"broken":            {failing{strings.NewReader(strings.Repeat("x", 50))}, 60, fault.CodeInvalidJSON, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, who := New(Config{All: 1000, PerTenant: 500, PerCaller: 160}), Caller{"t", "a"}
			if err := l.Acquire(who, 100); err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", c.body)
			r.ContentLength = c.length
			w := httptest.NewRecorder()
			body, release, err := l.Body(w, r, who, map[bool]int64{true: 58, false: 100}[name == "long"])
			if c.code == "" && (err != nil || len(body) != 50 || l.Held() != 150) || c.code != "" && (!fault.Is(err, c.code) || body != nil) {
				t.Errorf("%d bytes, %v, %d held", len(body), err, l.Held())
			}
			if n, _ := io.Copy(io.Discard, c.body); c.unread != (n > 60) {
				t.Errorf("%d bytes were left unread", n)
			}
			if (w.Header().Get("Connection") == "close") != c.hangsUp {
				t.Errorf("hangs up: %v", w.Header())
			}
			release()
			if l.Held() != 100 {
				t.Errorf("%d held afterwards", l.Held())
			}
		})
	}
}
