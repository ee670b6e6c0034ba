package batch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/sleep"
)

// work is a batch that this replica runs. One goroutine uses it, but for stop.
type work struct {
	row // as it was read last

	id   string
	key  seal.Key
	says sealedText
	halt context.Context //nolint:containedctx // it ends when nothing more of the batch is to be asked
	stop context.CancelFunc
}

// restFor is the pause before a batch is tried again that broke off.
const restFor = 5 * time.Second

// Run works on batches until ctx ends, on as many at one time as it may.
func (s *Service) Run(ctx context.Context) error {
	t := time.NewTicker(poll)
	defer t.Stop()
	var works sync.WaitGroup
	defer works.Wait()
	resting := map[string]time.Time{} // until when
	var mu sync.Mutex                 // guards resting
	for {
		for {
			mu.Lock()
			id, err := s.next(ctx, resting)
			mu.Unlock()
			if err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("batches wait; the next turn looks again", slog.Any("error", err))
			}
			if err != nil || id == "" {
				break
			}
			w := s.enter(ctx, id)
			works.Go(func() {
				defer s.leave(w)
				if err := s.work(ctx, w); err != nil && ctx.Err() == nil {
					s.cfg.Log.Warn("a batch broke off; it goes on soon", slog.String("batch", id), slog.Any("error", err))
					mu.Lock()
					resting[id] = s.now().Add(restFor)
					mu.Unlock()
				}
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-s.wake:
		}
	}
}

// enter notes that a batch runs here.
func (s *Service) enter(ctx context.Context, id string) *work {
	w := &work{id: id}
	w.halt, w.stop = context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running[id] = w
	s.metrics.running.Set(float64(len(s.running)))
	return w
}

func (s *Service) leave(w *work) {
	w.stop()
	s.mu.Lock()
	delete(s.running, w.id)
	s.metrics.running.Set(float64(len(s.running)))
	s.mu.Unlock()
	s.rouse()
}

// stopWork has nothing more of a batch asked, if it runs here.
func (s *Service) stopWork(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.running[id]; w != nil {
		w.stop()
	}
}

// candidate is a batch that waits for somebody to run it.
type candidate struct{ ID, Tenant string }

// perTenant is how many batches of one tenant a replica runs at one time: one place is left for other tenants, since a batch can take a day.
func (l Limits) perTenant() int64 { return int64(max(l.Running-1, 1)) }

// next takes the lease of a batch that nobody runs and returns its id, "" if there is none or no room for one: of the tenants of which the fewest run here
// first, and of these the oldest. resting is until when batches are left alone.
func (s *Service) next(ctx context.Context, resting map[string]time.Time) (string, error) {
	now := s.now()
	maps.DeleteFunc(resting, func(_ string, until time.Time) bool { return !now.Before(until) })
	s.mu.Lock()
	running := slices.Collect(maps.Keys(s.running))
	s.mu.Unlock()
	if len(running) >= s.cfg.Running {
		return "", nil
	}
	waiting, err := s.waiting(ctx, now, slices.AppendSeq(slices.Clone(running), maps.Keys(resting)))
	if err != nil || len(waiting) == 0 {
		return "", err
	}
	here, err := s.tenantsOf(ctx, running)
	if err != nil {
		return "", err
	}
	waiting = slices.DeleteFunc(waiting, func(c candidate) bool { return here[c.Tenant] >= s.cfg.perTenant() })
	slices.SortStableFunc(waiting, func(a, b candidate) int { return cmp.Compare(here[a.Tenant], here[b.Tenant]) })
	for _, c := range waiting {
		if taken, err := s.take(ctx, c.ID, now); err != nil || taken {
			return c.ID, err
		}
	}
	return "", nil
}

const (
	waitingPerTenant = 4    // how many batches of a tenant are looked at, the oldest ones
	waitingAtOnce    = 1000 // how many of all
)

// waiting returns batches that this replica may run, but for those without: the oldest one of each tenant, then the second one of each, and so on.
func (s *Service) waiting(ctx context.Context, now time.Time, without []string) (list []candidate, err error) {
	db := s.db.WithContext(ctx)
	each := free(db.Model(&row{}), s.cfg.Node, now).Select("id", "tenant", "created_at", "ROW_NUMBER() OVER (PARTITION BY tenant ORDER BY created_at, id) AS place")
	if len(without) > 0 {
		each = each.Where("id NOT IN ?", without)
	}
	err = db.Table("(?) AS each_batch", each).Select("id", "tenant").Where("place <= ?", waitingPerTenant).
		Order("place, created_at, id").Limit(waitingAtOnce).Find(&list).Error
	return list, database.Unavailable("look for batches", err)
}

// free are the batches that nobody else runs. A lease that ends later than any clock allows is none.
func free(db *gorm.DB, node string, now time.Time) *gorm.DB {
	return db.Where("state IN ? AND (holder = '' OR holder = ? OR held_until < ? OR held_until > ?)", open(), node, now.UnixMicro(), now.Add(leaseFor+maxSkew).UnixMicro())
}

// tenantsOf counts batches by tenant.
func (s *Service) tenantsOf(ctx context.Context, ids []string) (map[string]int64, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var tenants []string
	if err := s.db.WithContext(ctx).Model(&row{}).Where("id IN ?", ids).Pluck("tenant", &tenants).Error; err != nil {
		return nil, database.Unavailable("look whose batches run", err)
	}
	out := map[string]int64{}
	for _, t := range tenants {
		out[t]++
	}
	return out, nil
}

// take makes this replica the one that runs a batch, unless another one does.
func (s *Service) take(ctx context.Context, id string, now time.Time) (bool, error) {
	res := free(s.db.WithContext(ctx).Model(&row{}), s.cfg.Node, now).Where("id = ?", id).
		Updates(map[string]any{"holder": s.cfg.Node, "held_until": now.Add(leaseFor).UnixMicro()})
	return res.RowsAffected > 0, database.Unavailable("take a batch", res.Error)
}

// errLost ends work on a batch that another replica has taken over.
var errLost = errors.New("another replica runs the batch")

// errHalted ends work that was told to ask nothing more, though its batch goes on: it begins anew.
var errHalted = errors.New("the batch was stopped without an end")

// keep prolongs the lease of a batch until ctx ends, and calls lost once another replica has it, or may have.
func (s *Service) keep(ctx context.Context, w *work, lost func(error)) {
	t := time.NewTicker(prolong)
	defer t.Stop()
	last := s.now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := s.now()
		db := s.db.WithContext(ctx)
		res := db.Model(&row{}).Where("id = ? AND holder = ?", w.id, s.cfg.Node).Update("held_until", now.Add(leaseFor).UnixMicro())
		var states []string
		if res.Error == nil {
			res.Error = db.Model(&row{}).Where("id = ?", w.id).Pluck("state", &states).Error
		}
		switch {
		case res.Error == nil && res.RowsAffected == 0, res.Error != nil && now.Sub(last) > leaseFor:
			lost(errLost)
			return
		case res.Error != nil:
			continue
		}
		if last = now; slices.Contains(states, Cancelling) {
			w.stop()
		}
	}
}

// work takes a batch from state to state until it has ended, ctx ends, or another replica has it. When ctx ends, what is being asked gets a moment, and
// the batch is left to whoever comes first.
func (s *Service) work(ctx context.Context, w *work) error {
	bounded, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	defer context.AfterFunc(ctx, func() { time.AfterFunc(leaveFor, func() { end(context.Canceled) }) })()
	var kept sync.WaitGroup
	defer kept.Wait()
	keeping, stop := context.WithCancel(bounded)
	defer stop()
	kept.Go(func() { s.keep(keeping, w, end) })
	for {
		halted := w.halt.Err() != nil
		over, err := s.read(bounded, w)
		if over || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return s.release(bounded, w)
		}
		if halted && w.State == InProgress { // nobody has ended it after all
			return errHalted
		}
		err = s.step(bounded, w)
		switch {
		case err == nil, errors.Is(err, errOver):
		case bounded.Err() != nil:
			return context.Cause(bounded)
		case fault.KindOf(err) == fault.Unavailable:
			return err
		default: // trying again would not help
			s.cfg.Log.Error("a batch cannot go on", slog.String("batch", w.id), slog.Any("error", err))
			if err := s.fail(bounded, w, Problem{Code: problemInput}); err != nil {
				return err
			}
		}
	}
}

// read reads the row of a batch again. over: it has ended, or is no longer ours.
func (s *Service) read(ctx context.Context, w *work) (over bool, err error) {
	var rows []row
	db := s.db.WithContext(ctx)
	if err := db.Select(columns()).Where("id = ? AND holder = ?", w.id, s.cfg.Node).Find(&rows).Error; err != nil {
		return false, database.Unavailable("read the batch", err)
	}
	if len(rows) == 0 || rows[0].ended() {
		return true, nil
	}
	w.row = rows[0]
	if w.key, err = s.key(db, w.row); err == nil {
		w.says, err = w.openText(w.key)
	}
	if err != nil && fault.KindOf(err) != fault.Unavailable {
		s.cfg.Log.Error("a batch cannot be opened", slog.String("batch", w.id), slog.Any("error", err))
		return true, s.fail(ctx, w, Problem{Code: problemInput})
	}
	return false, err
}

// step does what the state of a batch asks for.
func (s *Service) step(ctx context.Context, w *work) error {
	switch w.State {
	case Validating:
		return s.validate(ctx, w)
	case InProgress:
		return s.askAll(ctx, w)
	case Cancelling:
		if w.InProgressAt > 0 {
			if err := s.fillLeft(ctx, w, Cancelled); err != nil {
				return err
			}
		}
	}
	return s.assemble(ctx, w)
}

// release lets another replica take a batch at once.
func (s *Service) release(ctx context.Context, w *work) error {
	err := s.db.WithContext(ctx).Model(&row{}).Where("id = ? AND holder = ?", w.id, s.cfg.Node).Updates(map[string]any{"holder": "", "held_until": 0}).Error
	return database.Unavailable("leave a batch", err)
}

// validate reads the input once, to its end.
func (s *Service) validate(ctx context.Context, w *work) error {
	_, in, err := s.cfg.Files.Open(ctx, w.owner(), w.InputFile)
	if err != nil {
		return err
	}
	total, problems, err := check(in, w.Endpoint, s.cfg.MaxLineBytes, s.cfg.MaxLines)
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return s.fail(ctx, w, problems...)
	}
	err = s.db.WithContext(ctx).Model(&row{}).Where("id = ? AND state = ?", w.id, Validating).
		Updates(map[string]any{"state": InProgress, "total": total, "in_progress_at": s.now().UnixMicro()}).Error
	return database.Unavailable("begin the batch", err)
}

// askAll asks the lines that have no result, and then moves the batch on, unless it was stopped before its time: whoever reads it again knows why.
func (s *Service) askAll(ctx context.Context, w *work) error {
	until := time.UnixMicro(w.ExpiresAt).Sub(s.now())
	halt, end := context.WithTimeout(w.halt, max(until, 0))
	defer end()
	if err := s.askLines(ctx, halt, w); err != nil {
		return err
	}
	if s.now().UnixMicro() >= w.ExpiresAt {
		if err := s.fillLeft(ctx, w, Expired); err != nil {
			return err
		}
		return s.finalize(ctx, w, Expired)
	}
	return s.finalize(ctx, w, Completed)
}

// finalize moves a batch on whose lines all have results.
func (s *Service) finalize(ctx context.Context, w *work, ending string) error {
	err := s.db.WithContext(ctx).Model(&row{}).Where("id = ? AND state = ? AND completed + failed = total", w.id, InProgress).
		Updates(map[string]any{"state": Finalizing, "ending": ending, "finalizing_at": s.now().UnixMicro()}).Error
	return database.Unavailable("finalize the batch", err)
}

// askLines asks lines until the end of the input, or until halt ends, and waits for those that are being asked. It returns the first failure of ours.
func (s *Service) askLines(ctx, halt context.Context, w *work) error {
	var asked sync.WaitGroup
	failed := make(chan error, 1)
	halt, end := context.WithCancel(halt)
	defer end()
	defer context.AfterFunc(ctx, end)() // whoever waits for its turn does not outlive the lease
	room := make(chan struct{}, s.cfg.ConcurrentPerBatch)
	err := s.eachLeft(ctx, w, func(l line) bool {
		select {
		case <-halt.Done():
			return false
		case room <- struct{}{}:
		}
		asked.Go(func() {
			defer func() { <-room }()
			if err := s.ask(ctx, halt, w, l); err != nil {
				select {
				case failed <- err:
				default:
				}
				end()
			}
		})
		return halt.Err() == nil
	})
	asked.Wait()
	select {
	case first := <-failed:
		return first
	default:
		return err
	}
}

// eachLeft calls do with every line that has no result, until do returns false.
func (s *Service) eachLeft(ctx context.Context, w *work, do func(line) bool) error {
	done, err := s.done(s.db.WithContext(ctx), w.id)
	if err != nil || int64(len(done)) >= w.Total {
		return err
	}
	_, content, err := s.cfg.Files.Open(ctx, w.owner(), w.InputFile)
	if err != nil {
		return err
	}
	in := newLines(content, s.cfg.MaxLineBytes)
	for {
		raw, err := in.next()
		if err != nil || raw == nil {
			return err
		}
		if done[in.number] {
			continue
		}
		l, p := parse(slices.Clone(raw), in.number, w.Endpoint)
		if p != nil {
			return errors.New("the input is not what was checked: " + p.String())
		}
		if !do(l) {
			return nil
		}
	}
}

// ask asks a line until it has its result, or halt ends while it waits for its turn.
func (s *Service) ask(ctx, halt context.Context, w *work, l line) error {
	for before := time.Duration(0); ; {
		r, wait, err := s.askOnce(ctx, halt, w, l)
		if err != nil {
			return err
		}
		if r != nil {
			state, err := s.store(ctx, w, *r)
			if state == Cancelling || errors.Is(err, errOver) {
				w.stop()
			}
			return err
		}
		before = pause(before, wait)
		if !sleep.For(halt, before) {
			return nil
		}
	}
}

const (
	shortWait  = 20 * time.Millisecond // the least that a line waits that was told to come back
	usualWait  = time.Second           // where it was not told how long
	longerWait = 30 * time.Second      // up to which it waits twice as long each time, and longer only where it is told so
)

// pause returns how long a line waits that waited for before the last time, and was told to wait for told; 0: it was not told.
func pause(before, told time.Duration) time.Duration {
	next := min(2*before, longerWait)
	if before == 0 && told == 0 {
		next = usualWait
	}
	return max(next, told, shortWait)
}

// askOnce asks a line in the name of whoever made the batch, as he is now. Without a result it is to be asked again, after wait if it was told that.
func (s *Service) askOnce(ctx, halt context.Context, w *work, l line) (r *result, wait time.Duration, err error) {
	as, err := w.acting()
	if err != nil {
		return nil, 0, err
	}
	switch _, lost := s.cfg.Act(ctx, as, w.Source); {
	case lost != nil && fault.KindOf(lost) == fault.Unavailable: // nobody knows who may ask
		return nil, 0, nil
	case lost != nil:
		return w.refuse(l, lost)
	}
	switch full := s.room(ctx, w.Tenant); {
	case fault.Is(full, fault.CodeFilesFull):
		return w.refuse(l, full)
	case full != nil:
		return nil, 0, full
	}
	select {
	case <-halt.Done():
		return nil, 0, nil
	case s.slots <- struct{}{}:
	}
	if halt.Err() != nil || w.halt.Err() != nil { // it may have ended at the same time, and halt ends a little after the one that it is of
		<-s.slots
		return nil, 0, nil //nolint:nilerr // it is asked later, or has ended
	}
	answer := s.cfg.Ask(ctx, Request{
		ID: requestID(w.id, l.number), Batch: w.id, Endpoint: w.Endpoint, Body: l.body, As: as, Source: w.Source, Language: w.Language,
		Purpose: w.Purpose, OnBehalfOf: w.says.OnBehalfOf, DataGrade: w.says.DataGrade,
	})
	<-s.slots
	if ctx.Err() != nil { // it was cut: this is no answer
		return nil, 0, context.Cause(ctx)
	}
	if wait, again := comeBack(answer); again {
		return nil, wait, nil
	}
	out, err := answered(w.id, l, answer)
	return &out, 0, err
}

// refuse makes the result of a line that is not asked.
func (w *work) refuse(l line, why error) (*result, time.Duration, error) {
	p := fault.Public(why)
	out, err := refused(w.id, l, Failed, string(p.Code()), p.Message(w.lang()))
	return &out, 0, err
}

func (b row) lang() fault.Lang {
	if b.Language == "zh" {
		return fault.Chinese
	}
	return fault.English
}
