package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/wal"
)

// stepTimeout is how long one step waits for the database. Without a bound, a connection that died without a word, as when a firewall forgets
// it, would stop shipping until the operating system gives it up.
const stepTimeout = time.Minute

var errSilent = errors.New("the database does not answer; check it and the way to it")

// pass moves what is durable into the database and, if sealing is set, seals, keeps the checkpoint in the cache and retires.
func (l *Log) pass(ctx context.Context, sealing bool) error {
	l.work.Lock()
	defer l.work.Unlock()
	if err := l.ship(ctx); err != nil {
		l.metrics.shipErrors.Inc()
		return err
	}
	if !sealing {
		return nil
	}
	err := l.seal(ctx)
	if err != nil && !errors.Is(err, seal.ErrNotSealer) {
		l.metrics.sealErrors.Inc()
	}
	if errors.Is(err, seal.ErrRewritten) {
		reason := err.Error()
		l.rewritten.Store(&reason)
	} else if err == nil {
		l.rewritten.Store(nil)
	}
	return err
}

// ship sends every durable record that this run has not sent, oldest segment first. What an earlier run sent already is found and
// skipped by the store, which asks for the records themselves and not for a note about them.
func (l *Log) ship(ctx context.Context) error {
	var errs []error
	for _, w := range l.logs() { // one that cannot be read does not keep the other from being shipped
		errs = append(errs, l.shipFrom(ctx, w))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.metrics.shipLag.Set(0)
	return nil
}

func (l *Log) shipFrom(ctx context.Context, w *wal.Log) error {
	for _, s := range w.Segments() {
		for s.Waiting() {
			frames, next, err := s.Read(&l.room)
			if err != nil {
				return err
			}
			if e, err := record.Decode(frames[0].Payload); err == nil {
				w.MarkOldest(e.Time)
				l.metrics.shipLag.Set(max(0, l.now().Sub(time.UnixMicro(e.Time)).Seconds()))
			}
			if err := l.shipFrames(ctx, s.Writer, frames); err != nil {
				return err
			}
			s.Shipped = next
			w.MarkShipped(s.Path, next, frames[len(frames)-1].Seq)
		}
	}
	w.MarkOldest(0)
	return nil
}

func (l *Log) shipFrames(ctx context.Context, writer string, frames []wal.Record) error {
	var done store.Shipment
	err := l.step(ctx, func(ctx context.Context) (err error) {
		done, err = l.store.Ship(ctx, writer, frames)
		return err
	})
	if err != nil {
		return err
	}
	if len(done.Erased) > 0 { // a record that was being made when its person was erased: its segment holds the key
		l.contents.forgetKeys(done.Erased)
		for _, w := range l.logs() {
			w.Turn()
		}
	}
	l.metrics.shipped.Add(float64(len(frames)))
	if done.Unbooked > 0 {
		l.metrics.unbooked.Add(float64(done.Unbooked))
		l.log.Error("audit records were stored but their usage was refused; see audit_unbooked", slog.Int("records", done.Unbooked))
	}
	return nil
}

// step does one thing with the database, within the bounds of stepTimeout.
func (l *Log) step(ctx context.Context, do func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, l.stepTimeout)
	defer cancel()
	err := do(bounded)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return fmt.Errorf("%w: %w", errSilent, err)
	}
	return err
}

// seal extends the tree if this replica may, caches the newest checkpoint whoever signed it, and retires segments behind it.
func (l *Log) seal(ctx context.Context) error {
	if err := l.step(ctx, l.heedErasures); err != nil {
		return err
	}
	if err := l.step(ctx, l.cacheCheckpoint); err != nil { // before extending: never sign over a database that was rolled back
		return err
	}
	serr := l.extend(ctx)
	if serr != nil && !errors.Is(serr, seal.ErrNotSealer) {
		return serr
	}
	if err := l.step(ctx, l.cacheCheckpoint); err != nil {
		return err
	}
	if err := l.step(ctx, l.retire); err != nil {
		return err
	}
	return serr
}

func (l *Log) extend(ctx context.Context) error {
	waiting := false
	err := l.step(ctx, func(ctx context.Context) (err error) {
		waiting, err = seal.Unsealed(ctx, l.store.DB)
		return err
	})
	for n := 1; err == nil && waiting && n > 0; {
		err = l.step(ctx, func(ctx context.Context) (err error) {
			n, err = seal.Extend(ctx, l.store.DB, l.signer, l.reads, l.wal.Writer, l.now())
			return err
		})
	}
	return err
}

func (l *Log) cacheCheckpoint(ctx context.Context) error {
	text, t, err := l.Tree.Newest(ctx)
	if err != nil {
		return err
	}
	if err := l.cache.Take(text, t, l.Tree.Hashes(ctx)); err != nil {
		return err
	}
	l.metrics.sealed.Set(float64(t.Size))
	return nil
}

// retire removes segments that are shipped, sealed, and under the checkpoint just cached.
func (l *Log) retire(ctx context.Context) error {
	seen := map[string]bool{}
	var writers []string
	for _, w := range l.logs() {
		for _, s := range w.Segments() {
			if !seen[s.Writer] {
				seen[s.Writer] = true
				writers = append(writers, s.Writer)
			}
		}
	}
	sealed, err := l.Tree.SealedUpTo(ctx, writers, l.cache.Latest.Size)
	if err != nil {
		return err
	}
	var errs []error
	for _, w := range l.logs() {
		errs = append(errs, w.Retire(sealed))
	}
	return errors.Join(errs...)
}
