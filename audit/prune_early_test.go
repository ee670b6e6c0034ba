package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record/recordtest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// aged is a log of n records of an age. One in fifty is sensitive.
func aged(t *testing.T, db *gorm.DB, n int, age time.Duration) *grown {
	t.Helper()
	g := newGrown(t, db, 0)
	for i := range n {
		e := recordtest.Sample(i)
		e.Time = time.Now().Add(time.Duration(i)*time.Millisecond - age).UnixMicro()
		if i%50 == 7 {
			e.Model.Engine, e.Findings[0].Action = "cloud", "passed"
		}
		r, err := g.l.Append(t.Context(), e)
		must(t, err)
		g.ids = append(g.ids, r.ID)
	}
	flush(t, g.l)
	return g
}

// wantsProblems verifies everything, and the positions from 0 to 300, and wants problems of these kinds and of no other.
func (g *grown) wantsProblems(kinds ...string) []verify.Problem {
	g.t.Helper()
	whole := g.verify()
	part, err := verify.Run(g.t.Context(), verify.Source{DB: g.db, VerifierKey: g.l.VerifierKey(), UntilIndex: 300}, nil)
	must(g.t, err)
	for _, r := range []verify.Report{whole, part} {
		got := []string{}
		for _, p := range r.Problems {
			got = append(got, p.Kind)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, kinds) {
			g.t.Errorf("problems of the kinds %v, want %v: %+v", got, kinds, r.Problems)
		}
	}
	return whole.Problems
}

// Whatever let records go before the time that none may undercut, Verify names the pruning.
func TestPruneEvaded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := aged(t, db, 300, 100*retention.Day)
		if done := g.prune(); len(done) != 0 {
			t.Fatalf("pruned: %+v", done)
		}
		g.wantsProblems()
		g.l.cfg.Retention.RecordsDays = 99 // as no configuration can say
		done := g.prune()
		if len(done) != 1 || done[0].Until != 256 {
			t.Fatalf("%+v", done)
		}
		p := g.wantsProblems("early")
		if len(p) != 1 || p[0].Record != done[0].Record || p[0].Index != 0 || !strings.Contains(p[0].Cause, done[0].Archive) || !strings.Contains(p[0].Cause, time.UnixMicro(done[0].Newest).UTC().Format(time.RFC3339)) {
			t.Errorf("%+v", p)
		}
	})
}

// A clock of a host that is a year ahead lets nothing go where the database knows better; where it does not, Verify names what went.
func TestPruneByAClockAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := aged(t, db, 300, 100*retention.Day)
		ahead := 365 * retention.Day
		g.l.now = func() time.Time { return time.Now().Add(ahead) }
		due, err := g.l.Due(t.Context())
		must(t, err)
		done := g.prune()
		if !database.IsSQLite(db) {
			if len(done) != 0 || due.Until != due.First {
				t.Fatalf("due %+v, pruned %+v", due, done)
			}
			g.wantsProblems()
			return
		}
		if len(done) != 1 || done[0].Until != 256 || done[0].Kept != 5 {
			t.Fatalf("%+v", done)
		}
		g.wantsProblems("early")
		dropTriggers(t, db) // which know better
		ahead = 4 * 365 * retention.Day
		g.prune()
		g.wantsProblems("early", "vault")
	})
}

// A record of a time that is still to come stays; that it is among those that went is no reason to doubt them.
func TestPruneAroundTheFuture(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		g := newGrown(t, db, 100)
		e := recordtest.Sample(100)
		e.Time = time.Now().Add(30 * retention.Day).UnixMicro()
		r, err := g.l.Append(t.Context(), e)
		must(t, err)
		g.ids = append(g.ids, r.ID)
		g.old(199)
		done := g.prune()
		if len(done) != 1 || done[0].Until != 256 || done[0].Newest > time.Now().Add(-retention.MinRecordsDays*retention.Day).UnixMicro() {
			t.Fatalf("%+v", done)
		}
		if _, err := g.l.Get(t.Context(), r.ID); err != nil {
			t.Errorf("the record of a time to come: %v", err)
		}
		g.wantsProblems()
	})
}

// Of the clocks of the host and of the database the earlier one counts.
func TestEarlierClock(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		for _, off := range []time.Duration{-400 * retention.Day, -time.Hour, time.Hour, 400 * retention.Day} {
			before := time.Now()
			host := before.Add(off)
			got, err := retention.EarlierClock(t.Context(), db, host)
			must(t, err)
			if off < 0 || database.IsSQLite(db) {
				if !got.Equal(host) {
					t.Errorf("%v off: %v, want the clock of the host, %v", off, got, host)
				}
			} else if got.Before(before.Add(-store.MaxSkew)) || got.After(time.Now().Add(store.MaxSkew)) {
				t.Errorf("%v off: %v, want the clock of the database, about %v", off, got, before)
			}
		}
	})
}
