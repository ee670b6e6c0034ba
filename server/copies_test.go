package server_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// longMessage is the body of a chat with one long message, which is written out as it is read: the test holds none of it. The text has line breaks,
// which are escaped, and a number that is masked at its end, so that decoding and masking each make another text of it.
func longMessage(size int) io.Reader {
	line := `a line of a document that somebody asks about, of sixty bytes\n`
	parts := []io.Reader{strings.NewReader(`{"model":"scripted","messages":[{"role":"user","content":"`)}
	for range size / len(line) {
		parts = append(parts, strings.NewReader(line))
	}
	return io.MultiReader(append(parts, strings.NewReader(`my number is 13800138000"}]}`))...)
}

// TestCopiesOfAMessage: while an engine has a long message, the server holds its masked text and nothing else of what reading, decoding, masking and
// encoding have made of it. A second text beside that, whichever, makes 2.2.
func TestCopiesOfAMessage(t *testing.T) {
	const size, callers = 1 << 20, 4
	asked, leave := make(chan int64, 2*callers), make(chan struct{})
	in := start(t, setup{
		extra: "limits: {key: {concurrent: 0}}\n",
		wire: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n, _ := io.Copy(io.Discard, r.Body)
				asked <- n
				<-leave
				r.Body = io.NopCloser(strings.NewReader(`{"model":"scripted","messages":[{"role":"user","content":"hello"}]}`))
				next.ServeHTTP(w, r)
			})
		},
	})
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, in.started.BaseURL+"/chat/completions", longMessage(size))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+in.started.Welcome.APIKey.Reveal())
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
			return fmt.Errorf("%d %s, %w", res.StatusCode, body, err)
		}
		return nil
	}
	live := func() int64 {
		runtime.GC()
		runtime.GC() // what pools keep
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var wg sync.WaitGroup
	hold := func(n int) {
		for range n {
			wg.Go(func() {
				if err := ask(); err != nil {
					t.Error(err)
					asked <- 0
				}
			})
		}
		for range n {
			if got := <-asked; got < size {
				t.Errorf("the engine was given %d bytes", got)
			}
		}
	}
	hold(1) // makes what is made once
	if t.Failed() {
		t.FailNow()
	}
	leave <- struct{}{}
	wg.Wait()
	before := live()
	hold(callers)
	held := float64(live()-before) / callers / size
	close(leave)
	wg.Wait()
	t.Logf("a message of %d bytes is held %.2f times", size, held)
	if held > 1.9 || held < 0.5 {
		t.Errorf("a message of %d bytes is held %.2f times", size, held)
	}
}
