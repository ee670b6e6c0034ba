package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
)

// ErrInjected is what an operation that [Faults] fails returns.
var ErrInjected = errors.New("injected failure")

// Outcome says what becomes of an operation on the database.
type Outcome uint8

// The outcomes. A statement that is carried out and fails all the same is one whose transaction goes on without our knowing; such a commit
// is one whose answer was lost on the way. Any other value is FailsAfter.
const (
	Healthy Outcome = iota
	FailsBefore
	FailsAfter
	DiesAfter // the process does, see [Die]
)

// Faults lets operations on a database fail: "begin", "commit", and statements by their text. A query or a begin that fails was never
// carried out.
type Faults struct {
	Rewrite *strings.Replacer // of the statements that return no rows, if set, before any is carried out

	mu   sync.Mutex
	plan func(op string) Outcome
}

// Set says what becomes of the operations from now on; nil is health. A plan may wait, or kill the process: it is asked by several
// operations at once.
func (f *Faults) Set(plan func(op string) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

func (f *Faults) next(op string) Outcome {
	f.mu.Lock()
	plan := f.plan
	f.mu.Unlock()
	if plan == nil {
		return Healthy
	}
	return plan(op)
}

// Each repeats an act, and fails another operation each time, until one ends without meeting it. The act fails with the injected error, or with that
// of a database that is not available; the last one succeeds.
func (f *Faults) Each(t testing.TB, how Outcome, act func() error) {
	t.Helper()
	defer f.Set(nil)
	for n := int64(1); ; n++ {
		var seen atomic.Int64
		f.Set(func(string) Outcome {
			if seen.Add(1) == n {
				return how
			}
			return Healthy
		})
		err := act()
		if seen.Load() < n {
			if err != nil || n < 3 {
				t.Fatalf("after %d faults: %v", n-1, err)
			}
			return
		}
		if err != nil && !fault.Is(err, fault.CodeDatabaseUnavailable) && !errors.Is(err, ErrInjected) {
			t.Fatalf("fault %d: %v", n, err)
		}
	}
}

// Die ends the process as kill -9 does.
func Die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// Over returns a handle on the same database whose operations may fail.
func (f *Faults) Over(db *gorm.DB) *gorm.DB {
	out := db.Session(&gorm.Session{NewDB: true})
	out.Statement = &gorm.Statement{
		DB: out, ConnPool: faultyPool{db.Statement.ConnPool, f}, Context: context.Background(), Clauses: map[string]clause.Clause{},
	}
	return out
}

// faultyPool is a pool of connections, or one transaction, with failures.
type faultyPool struct {
	gorm.ConnPool

	faults *Faults
}

func (p faultyPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	o := p.faults.next(query)
	if o == FailsBefore {
		return nil, ErrInjected
	}
	if p.faults.Rewrite != nil {
		query = p.faults.Rewrite.Replace(query)
	}
	res, err := p.ConnPool.ExecContext(ctx, query, args...)
	if o == DiesAfter {
		Die()
	}
	if o != Healthy {
		return nil, ErrInjected
	}
	return res, err
}

func (p faultyPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.faults.next(query) != Healthy {
		return nil, ErrInjected
	}
	return p.ConnPool.QueryContext(ctx, query, args...)
}

func (p faultyPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if p.faults.next("begin") != Healthy {
		return nil, ErrInjected
	}
	beginner, ok := p.ConnPool.(gorm.TxBeginner)
	if !ok {
		return nil, gorm.ErrInvalidTransaction
	}
	tx, err := beginner.BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyTx{faultyPool{tx, p.faults}, tx}, nil
}

type faultyTx struct {
	faultyPool

	tx *sql.Tx
}

func (t *faultyTx) Commit() error {
	o := t.faults.next("commit")
	if o == FailsBefore {
		return errors.Join(ErrInjected, t.tx.Rollback())
	}
	err := t.tx.Commit()
	if o == DiesAfter {
		Die()
	}
	if o != Healthy {
		return ErrInjected
	}
	return err
}

func (t *faultyTx) Rollback() error { return t.tx.Rollback() }
