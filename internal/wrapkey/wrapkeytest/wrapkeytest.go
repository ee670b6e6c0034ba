// Package wrapkeytest rotates wrapping keys in tests.
package wrapkeytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Begin begins a rotation of one kind and returns what carries it to its end.
func Begin(t *testing.T, db *gorm.DB, ring *keyring.Ring, kind wrapkey.Kind) (finish func() wrapkey.Status) {
	t.Helper()
	r := wrapkey.NewRotator(wrapkey.Config{
		DB: db, Ring: ring, Kinds: []wrapkey.Kind{kind}, Grace: time.Nanosecond, Poll: time.Millisecond, Log: slog.New(slog.DiscardHandler),
		Lead:   func(context.Context) (bool, error) { return true, nil },
		Record: func(context.Context, string, map[string]string) error { return nil },
	})
	if _, err := r.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func() wrapkey.Status {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() { _ = r.Run(ctx) }()
		for {
			s, err := r.Status(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if !s.Running {
				return s
			}
		}
	}
}

// Rotate rotates one kind twice, so that the random key of the first rotation is destroyed and everything is of epoch 2.
func Rotate(t *testing.T, db *gorm.DB, ring *keyring.Ring, kind wrapkey.Kind) {
	t.Helper()
	Begin(t, db, ring, kind)()
	s := Begin(t, db, ring, kind)()
	if len(s.Epochs) != 3 || s.Epochs[1].State != wrapkey.StateDestroyed || s.Kinds[0].Left != 0 || s.Kinds[0].Unreadable != 0 {
		t.Fatalf("%+v", s)
	}
}
