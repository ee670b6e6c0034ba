package dbtest

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// ErrInjected is what an operation that [Faults] fails returns.
var ErrInjected = errors.New("injected failure") //nolint:gochecknoglobals // a sentinel

// Outcome says what becomes of an operation on the database.
type Outcome uint8

// The outcomes. One that is carried out and fails all the same is one whose answer was lost on the way.
const (
	Healthy Outcome = iota
	FailsBefore
	FailsAfter
)

// Faults lets operations on a database fail: "begin", "commit", and statements by their text.
type Faults struct {
	mu   sync.Mutex
	plan func(op string) Outcome
}

// Set says what becomes of the operations from now on; nil is health.
func (f *Faults) Set(plan func(op string) Outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

func (f *Faults) next(op string) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.plan == nil {
		return Healthy
	}
	return f.plan(op)
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
	res, err := p.ConnPool.ExecContext(ctx, query, args...)
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
	if err := t.tx.Commit(); err != nil {
		return err
	}
	if o != Healthy {
		return ErrInjected
	}
	return nil
}

func (t *faultyTx) Rollback() error { return t.tx.Rollback() }
