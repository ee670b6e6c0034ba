package parse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPlacesAreFair: an owner who has many documents neither keeps another one out nor is served twice before him.
func TestPlacesAreFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(3)
		var mu sync.Mutex
		var order []string
		read := func(owner, name string, takes time.Duration) {
			if err := p.take(t.Context(), owner, time.Hour); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, name)
			mu.Unlock()
			time.Sleep(takes)
			p.give(owner)
		}
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() { read("a", fmt.Sprint("a", i), 10*time.Second) })
			synctest.Wait()
		}
		all.Go(func() { read("b", "b0", time.Second) }) // one place is left for others
		synctest.Wait()
		if want := []string{"a0", "a1", "b0"}; !slices.Equal(order, want) {
			t.Errorf("at once: %q", order)
		}
		all.Go(func() { read("c", "c0", 20*time.Second) })
		synctest.Wait()
		all.Go(func() { read("b", "b1", time.Second) })
		all.Wait()
		if want := []string{"a0", "a1", "b0", "c0", "b1", "a2", "a3", "a4", "a5"}; !slices.Equal(order[:4], want[:4]) || slices.Index(order, "b1") > slices.Index(order, "a3") || len(order) != len(want) {
			t.Errorf("%q", order)
		}
		if p.free != 3 || len(p.held) != 0 {
			t.Errorf("%d places are free, %v are held", p.free, p.held)
		}
	})
}

// TestWaitingIsNotReading: waiting for a place takes nothing of a document's time, and one that waits too long is busy, not bad.
func TestWaitingIsNotReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReader(Config{AtOnce: 1, MaxTime: time.Second, MaxWait: time.Minute})
		f := File{Name: "a.txt", Body: []byte("text")}
		if err := r.places.take(t.Context(), "x", 0); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		all.Go(func() {
			if d, err := r.Read(t.Context(), f); err != nil || d.Text != "text" {
				t.Errorf("behind one that took long: %q, %v", d.Text, err)
			}
		})
		synctest.Wait()
		time.Sleep(30 * time.Second)
		r.places.give("x")
		all.Wait()
		if err := r.places.take(t.Context(), "x", 0); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var refused *Error
		if _, err := r.Read(t.Context(), f); !errors.Is(err, ErrBusy) || errors.As(err, &refused) || time.Since(start) != time.Minute {
			t.Errorf("after %s: %v", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Read(ctx, f); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		r.places.give("x")
		if _, err := r.Read(t.Context(), f); err != nil {
			t.Errorf("those that went away hold a place: %v", err)
		}
	})
}

// TestClockPauses: what a document waits for while it is read does not count either.
func TestClockPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ended := make(chan struct{})
		c := startClock(10*time.Second, func() { close(ended) })
		time.Sleep(4 * time.Second)
		c.pause(func() { time.Sleep(time.Minute) })
		<-ended
		if took := time.Since(start); took != 70*time.Second {
			t.Errorf("ended after %s", took)
		}
	})
}

// TestCloseEndsReadings: Close ends what is read, waits for it, and sends away who waits; if something does not end it says so and goes on.
func TestCloseEndsReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewReader(Config{AtOnce: 1, MaxTime: time.Hour})
		gone := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() {
			if err := r.places.take(t.Context(), "", 0); err != nil {
				t.Error(err)
			}
			<-r.closed.Done()
			time.Sleep(time.Second) // until it hears of it
			close(gone)
			r.places.give("")
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := r.Read(t.Context(), File{Name: "a.txt", Body: []byte("x")}); !errors.Is(err, ErrBusy) {
				t.Errorf("one that waited: %v", err)
			}
		})
		synctest.Wait()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		select {
		case <-gone:
		default:
			t.Error("it has not waited")
		}
		all.Wait()
		if _, err := r.Read(t.Context(), File{Name: "a.txt", Body: []byte("x")}); !errors.Is(err, ErrBusy) {
			t.Errorf("behind Close: %v", err)
		}
		stuck := NewReader(Config{})
		if err := stuck.places.take(t.Context(), "", 0); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if err := stuck.Close(); err == nil || time.Since(start) != closeTime {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}

// begun is a context that says when a reading begins.
type begun struct {
	context.Context
	fn func()
}

// Value implements [context.Context].
func (b begun) Value(key any) any {
	b.fn()
	return b.Context.Value(key)
}

// TestReadingEndsWithCause: a reading that is ended from outside says why, whatever a part of its file says.
func TestReadingEndsWithCause(t *testing.T) {
	mail := []byte("From: a@b\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\nContent-Type: text/csv; name=a.csv\r\n\r\n" + strings.Repeat("a,b\r\n", 400_000) + "--x--\r\n")
	for name, c := range map[string]struct {
		end  func(r *Reader, cancel context.CancelFunc)
		want error
	}{
		"the caller goes away": {func(_ *Reader, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"the reader is closed": {func(r *Reader, _ context.CancelFunc) { r.end() }, ErrBusy},
		"its time is up":       {func(r *Reader, _ context.CancelFunc) { r.cfg.MaxTime = 1 }, errSlow},
	} {
		r := NewReader(Config{})
		ctx, cancel := context.WithCancel(t.Context())
		if d, err := r.Read(begun{ctx, func() { c.end(r, cancel) }}, File{Name: "a.eml", Body: mail}); !errors.Is(err, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(d.Text), err)
		}
		cancel()
	}
}
