package audit

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// faultyDB is a database with failures: each operation asks plan what to do. The operations are "begin", "commit", and the texts of the
// statements. A statement that fails after it was carried out is one whose transaction goes on without our knowing; a commit that fails
// after it was carried out is one whose answer was lost on the way. A plan may also wait, or kill the process.
type faultyDB struct {
	mu      sync.Mutex
	plan    func(op string) mode
	rewrite *strings.Replacer // of statements, if set, before any is carried out
}

func (f *faultyDB) set(plan func(op string) mode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

func (f *faultyDB) next(op string) mode {
	f.mu.Lock()
	plan := f.plan
	f.mu.Unlock()
	if plan == nil {
		return healthy
	}
	return plan(op)
}

// over returns a handle on the same database whose operations may fail.
func (f *faultyDB) over(db *gorm.DB) *gorm.DB {
	out := db.Session(&gorm.Session{NewDB: true})
	out.Statement = &gorm.Statement{
		DB: out, ConnPool: faultyPool{db.Statement.ConnPool, f}, Context: context.Background(), Clauses: map[string]clause.Clause{},
	}
	return out
}

// faultyPool is a pool of connections, or one transaction, with failures.
type faultyPool struct {
	gorm.ConnPool
	owner *faultyDB
}

func (p faultyPool) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	m := p.owner.next(query)
	if m == failsBefore {
		return nil, errInjected
	}
	if p.owner.rewrite != nil {
		query = p.owner.rewrite.Replace(query)
	}
	res, err := p.ConnPool.ExecContext(ctx, query, args...)
	if m == diesAfter {
		die()
	}
	if m != healthy {
		return nil, errInjected
	}
	return res, err
}

func (p faultyPool) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if p.owner.next(query) != healthy {
		return nil, errInjected
	}
	return p.ConnPool.QueryContext(ctx, query, args...)
}

func (p faultyPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (gorm.ConnPool, error) {
	if p.owner.next("begin") != healthy {
		return nil, errInjected
	}
	tx, err := p.ConnPool.(gorm.TxBeginner).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultyTx{faultyPool{tx, p.owner}, tx}, nil
}

type faultyTx struct {
	faultyPool
	tx *sql.Tx
}

func (t *faultyTx) Commit() error {
	m := t.owner.next("commit")
	if m == failsBefore {
		return errors.Join(errInjected, t.tx.Rollback())
	}
	err := t.tx.Commit()
	if m == diesAfter {
		die()
	}
	if m != healthy {
		return errInjected
	}
	return err
}

func (t *faultyTx) Rollback() error { return t.tx.Rollback() }

// writes reports whether op is a statement that changes table.
func writes(op, table string) bool {
	verb, _, _ := strings.Cut(op, " ")
	return (verb == "INSERT" || verb == "UPDATE" || verb == "DELETE") && strings.Contains(op, table)
}
