package rag

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/sleep"
	"github.com/sluice-project/sluice/rag/segment"
)

// lockDir takes the directory of the stores for this process. Error: [segment.ErrInUse].
func (s *Service) lockDir() error {
	if s.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of stored passages: %w", err)
	}
	lock, err := segment.Lock(s.cfg.Dir)
	if errors.Is(err, segment.ErrInUse) {
		err = fmt.Errorf("%w: stop that process, or give each a data directory of its own", err)
	}
	if err != nil {
		return err
	}
	s.lock = lock
	return nil
}

// RemoveStored removes the stored passages of a directory that no service has. Nobody would follow there what is deleted, and the tables have it all. Error:
// [segment.ErrInUse].
func RemoveStored(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := segment.Lock(dir)
	if err == nil {
		err = errors.Join(os.RemoveAll(dir), lock.Close())
	}
	if err != nil {
		return fmt.Errorf("remove stored passages: %w", err)
	}
	return nil
}

// key is that of the store of a collection. It is derived from the master key, so that what lies on the disk opens with it alone.
func (s *Service) key(collection string) (seal.Key, error) {
	label := "rag/segment/v1"
	if s.store.cipher.suite == seal.GM {
		label = "rag/segment/sm4/v1"
	}
	return seal.NewKey(s.store.cipher.suite, s.keys.MAC(label, collection)[:s.store.cipher.suite.KeySize()])
}

// dir is where the store of a collection lies.
func (s *Service) dir(collection string) string { return filepath.Join(s.cfg.Dir, collection) }

// openIndex opens the store of a collection, if it can be used and the tables know its history; else it begins an empty one, which is to be read as a whole.
func (s *Service) openIndex(ctx context.Context, row collectionRow) (_ *collectionIndex, err error) {
	if err := uuid.Validate(row.ID); err != nil { // it names a directory, which may be removed
		return nil, fmt.Errorf("the id of collection %q: %w", row.ID, err)
	}
	ci, err := newCollectionIndex(row, s.model.ID, s.now)
	if err != nil {
		return nil, err
	}
	key, err := s.key(row.ID)
	if err != nil {
		return nil, err
	}
	ci.dir = s.dir(row.ID)
	cfg := segment.Config{Dir: ci.dir, Key: key, Model: s.model.ID, Dim: s.model.Dim, Kernels: s.kernels, Log: s.log}
	ci.passages, err = s.openStore(ctx, cfg)
	if err == nil {
		if err = s.resume(ctx, ci, row); err != nil {
			err = errors.Join(err, ci.passages.Close())
		}
	}
	if errors.Is(err, segment.ErrDamaged) || errors.Is(err, segment.ErrForeign) || errors.Is(err, errHistory) {
		s.log.Warn("rag: the stored passages of a collection cannot be used and are made again from the tables", slog.String("collection", row.ID), slog.Any("error", err))
		if err = os.RemoveAll(ci.dir); err == nil {
			ci.passages, err = s.openStore(ctx, cfg)
		}
		ci.light, ci.partial = journalRow{}, true
	}
	if err != nil {
		return nil, fmt.Errorf("open passages of collection %s: %w", row.ID, err)
	}
	ci.revised.Store(ci.passages.View().Revision())
	passages := ci.passages
	go func() { //nolint:gosec,contextcheck // it lasts until the store is closed
		defer close(ci.ended)
		if err := passages.Run(context.Background()); err != nil && !errors.Is(err, segment.ErrClosed) {
			ci.fail(err)
		}
	}()
	return ci, nil
}

// resume finds out from where on the tables have to be followed. A store without a revision is empty, or was not read to its end. Error: errHistory.
func (s *Service) resume(ctx context.Context, ci *collectionIndex, row collectionRow) error {
	view := ci.passages.View()
	complete, ahead, err := readMark(row.ID, view)
	if err != nil {
		return err
	}
	ci.light = complete
	if ci.partial = view.Revision() == 0; ci.partial {
		if view.Len() > 0 {
			return fmt.Errorf("%w: the store was not read to its end", errHistory)
		}
		return nil
	}
	for _, e := range []journalRow{complete, ahead} { // what the store has beyond these, no journal of other tables names
		mark, err := s.store.mark(ctx, row.ID, e.Revision)
		if err == nil && (mark != e.Mark || e.Revision > row.Revision) {
			err = errHistory
		}
		if err != nil {
			return err
		}
	}
	if _, err := s.store.mark(ctx, row.ID, row.Revision); err != nil { // a change that nobody has noted is not followed
		return err
	}
	ids, err := ci.retried()
	for _, id := range ids {
		ci.pending[id] = true
	}
	return err
}

// opening is a store that is being opened and filled, or that was; it may outlast several turns of following.
type opening struct {
	id    string
	key   collectionKey
	tries int           // shortly one after the other, this one too
	done  chan struct{} // closed when the next are set
	err   error
	ended time.Time
}

func (o *opening) wait(ctx context.Context) error {
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return fmt.Errorf("it is being opened: %w", context.Cause(ctx))
	}
}

func (o *opening) running() bool {
	select {
	case <-o.done:
		return false
	default:
		return true
	}
}

const (
	openAtOnce = 4 // stores: each that is filled takes memory, see passagesAtOnce
	// A store is opened at once when it has failed, and after some times in a row after pauses that double from the first to the longest: on a full disk, or
	// where the tables cannot be read, each time costs much and changes nothing.
	openTries     = 3
	openFirstWait = 2 * time.Second
	openLongest   = 10 * time.Minute
)

// pause is how long it waits until it is tried once more.
func (o *opening) pause() time.Duration {
	if o.tries < openTries {
		return 0
	}
	return min(openLongest, openFirstWait<<min(o.tries-openTries, 16))
}

var errSettling = errors.New("it was opened a moment ago, and does not know all of its tables yet")

// open opens a collection that is not there, or whose store has failed, beside whoever follows; if that is under way already it returns it. Errors: errCreating;
// [segment.ErrClosed]; one that says that it waits before it tries again.
func (s *Service) open(row collectionRow) (*opening, error) {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if s.life.Err() != nil {
		return nil, segment.ErrClosed
	}
	before := s.openings[row.ID]
	if before != nil && before.running() {
		return before, nil
	}
	if s.making[row.ID] {
		return nil, errCreating
	}
	next := &opening{id: row.ID, key: collectionKey{row.Tenant, row.Name}, tries: 1, done: make(chan struct{})}
	if before != nil {
		ago := s.now().Sub(before.ended)
		if before.err != nil || ago <= openLongest {
			next.tries += before.tries
		}
		if wait := before.pause() - ago; wait > 0 && next.tries > 1 {
			return nil, errors.Join(fmt.Errorf("it has failed %d times in a row and is opened again in %s", before.tries, wait.Round(time.Second)), before.err)
		}
	}
	s.openings[row.ID], s.making[row.ID] = next, true
	s.opens.Go(func() {
		if next.err = s.openCollection(s.life, row); next.err != nil {
			s.showUnopened(row, next.err)
		}
		next.ended = s.now()
		s.release(row.ID)
		close(next.done)
	})
	return next, nil
}

// openCollection opens a collection, reads what it lacks and shows it. One whose store has failed is closed before.
func (s *Service) openCollection(ctx context.Context, row collectionRow) error {
	select {
	case s.opening <- struct{}{}:
		defer func() { <-s.opening }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ci := s.indexOf(row); ci != nil {
		if ci.failed() == nil { // somebody else has opened it by now
			return nil
		}
		s.log.Warn("rag: the stored passages of a collection are opened again", slog.String("collection", ci.id), slog.Any("error", ci.failed()))
		if err := s.abandon(ci); err != nil {
			return err
		}
	}
	row, found, err := s.store.collection(ctx, row.ID) // as it is now: a store that was told of more than an older row says would be made again
	if err != nil || !found {
		return err
	}
	fresh, err := s.openFilled(ctx, row)
	if errors.Is(err, segment.ErrDamaged) || errors.Is(err, errHistory) { // found out while it was filled: the next one is empty
		fresh, err = s.openFilled(ctx, row)
	}
	switch {
	case fault.Is(err, fault.CodeCollectionNotFound): // deleted while it was filled
		return nil
	case err != nil:
		return err
	}
	// Who changes something tells the collection that is shown, and what was told to the one before is in the tables by now.
	fresh.settling.Store(true)
	if !s.publish(fresh) {
		s.discard(fresh)
		return nil
	}
	now, err := s.followOne(ctx, fresh)
	switch {
	case err == nil:
		s.followGlossary(ctx, fresh, now)
		fresh.settling.Store(false)
	case fault.Is(err, fault.CodeCollectionNotFound): // deleted while it was filled
		if gone := s.withdraw(fresh.id, fresh.key); gone != nil {
			s.discard(gone)
		}
		return nil
	default:
		fresh.fail(err)
	}
	return err
}

// discard ends the use of a collection and removes its store.
func (s *Service) discard(ci *collectionIndex) {
	if err := errors.Join(ci.close(), os.RemoveAll(ci.dir)); err != nil {
		s.log.Warn("rag: removing the stored passages of a deleted collection failed; will be tried again", slog.String("collection", ci.id), slog.Any("error", err))
	}
}

// unopened is a collection whose store could not be opened: it is there, and answers why it cannot be searched.
func (s *Service) unopened(row collectionRow, why error) (*collectionIndex, error) {
	ci, err := newCollectionIndex(row, s.model.ID, s.now)
	if err != nil { // labels that cannot be read let nobody in
		row.Labels = encodeLabels([]string{""})
		if ci, err = newCollectionIndex(row, s.model.ID, s.now); err != nil {
			return nil, err
		}
	}
	if uuid.Validate(row.ID) == nil { // else it has no directory, see openIndex
		ci.dir = s.dir(row.ID)
	}
	ci.passages = noStore{why}
	ci.fail(why)
	close(ci.ended)
	return ci, nil
}

// showUnopened shows a collection that could not be opened, unless one is shown already, or it was deleted meanwhile.
func (s *Service) showUnopened(row collectionRow, why error) {
	ci, err := s.unopened(row, why)
	if err != nil {
		return // following fails at it, too, and says so
	}
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if is := (*s.collections.Load())[ci.key]; !s.deleted[ci.id] && (is == nil || is.id != ci.id) {
		s.replace(ci.key, ci)
	}
}

// noStore stands for a store that could not be opened.
type noStore struct{ why error }

func (n noStore) IndexWords(context.Context, *segment.Document) error { return n.why }
func (n noStore) Apply(context.Context, segment.Change) error         { return n.why }
func (n noStore) Purge(context.Context) error                         { return n.why }
func (n noStore) Run(context.Context) error                           { return n.why }
func (noStore) View() *segment.View                                   { return &segment.View{} }
func (noStore) Unclean() bool                                         { return false }
func (noStore) Close() error                                          { return nil }

// sweep removes the stores of collections that are not in the tables any more, nor open here. What the tables cannot say stays.
func (s *Service) sweep(ctx context.Context) error {
	entries, err := os.ReadDir(s.cfg.Dir) // before the tables: a store is made after its row
	if err != nil {
		return fmt.Errorf("look for stored passages: %w", err)
	}
	rows, err := s.store.collections(ctx)
	if err != nil {
		return fmt.Errorf("look for collections: %w", err)
	}
	there := map[string]bool{}
	for _, r := range rows {
		there[r.ID] = true
	}
	for _, e := range entries {
		if id := e.Name(); e.IsDir() && !there[id] && s.reserveUnused(id) {
			if failed := os.RemoveAll(filepath.Join(s.cfg.Dir, id)); failed != nil {
				err = errors.Join(err, fmt.Errorf("remove stored passages: %w", failed))
			}
			s.release(id)
		}
	}
	return err
}

// reserveUnused keeps the directory of a collection that nobody has open, so that nobody opens it; false if somebody has or does.
func (s *Service) reserveUnused(id string) bool {
	s.changeMu.Lock()
	defer s.changeMu.Unlock()
	if s.making[id] || slices.ContainsFunc(s.all(), func(ci *collectionIndex) bool { return ci.id == id }) {
		return false
	}
	s.making[id] = true
	return true
}

// purgeEvery is how long it may take until what was deleted has left the files of this replica, beside the time that this takes.
const purgeEvery = 10 * time.Minute

// purgeStores makes what was deleted leave the disk, until ctx ends.
func (s *Service) purgeStores(ctx context.Context) {
	for sleep.For(ctx, purgeEvery); ctx.Err() == nil; sleep.For(ctx, purgeEvery) {
		s.purge(ctx)
	}
}

func (s *Service) purge(ctx context.Context) {
	var failed error
	for _, ci := range s.all() {
		if ci.failed() == nil && ci.passages.Unclean() {
			failed = errors.Join(failed, ci.passages.Purge(ctx))
		}
	}
	if failed = errors.Join(failed, s.sweep(ctx)); failed != nil && ctx.Err() == nil {
		s.log.Warn("rag: what was deleted could not be removed from the disk; will be tried again", slog.Any("error", failed))
	}
}

// all are the collections, in order.
func (s *Service) all() (out []*collectionIndex) {
	if view := s.collections.Load(); view != nil {
		for _, ci := range *view {
			out = append(out, ci)
		}
	}
	slices.SortFunc(out, func(a, b *collectionIndex) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return out
}

// Close ends the use of the stored passages, and the readers of documents. What is called afterwards fails.
func (s *Service) Close() error {
	s.changeMu.Lock()
	s.end() // nobody opens a store any more
	s.changeMu.Unlock()
	s.opens.Wait()
	s.following <- struct{}{}
	defer s.following.leave()
	s.closed = true
	failed := s.reader.Close()
	for _, ci := range s.all() {
		failed = errors.Join(failed, ci.close())
	}
	s.discards.Wait()
	if s.lock != nil {
		failed = errors.Join(failed, s.lock.Close())
		s.lock = nil
	}
	return failed
}
