// Package replies keeps answers for a while. A response is kept so that a later one can go on from it; the answer to a request with a key, so that
// the request, sent again, gets the same answer and is billed once.
//
// What is kept is sealed under a data key of its own, which is stored under a wrapping key of the installation and takes part in its rotations. The
// tables show in clear whose an answer is, for whom it was made, as a digest, and when it came and goes. Nobody but the owner can tell whether there
// is one. After its time an answer is not shown, swept or not.
//
// A [Store] is safe for concurrent use, on any number of replicas. Errors are those of package fault; a database that does not answer is
// CodeDatabaseUnavailable.
package replies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Config is what a store works on.
type Config struct {
	DB    *gorm.DB
	Keys  *keyring.Ring
	Suite seal.Suite // of what is kept from now on
	Log   *slog.Logger
	// Life is how long an answer is kept.
	Life time.Duration
	// ClaimLife is how long a request with a key may take before another one with the same key runs: longer than any request takes.
	ClaimLife time.Duration
	Metrics   prometheus.Registerer // may be nil
}

const (
	sweepEvery  = time.Minute
	sweepAtOnce = 500
)

// Store keeps answers.
type Store struct {
	cfg      Config
	db       *gorm.DB
	keys     *wrapkey.Keys
	now      func() time.Time
	replayed prometheus.Counter
}

// New returns a store over migrated tables. It starts nothing.
func New(cfg Config) (*Store, error) {
	if !cfg.Suite.Known() {
		return nil, fmt.Errorf("replies: suite %q is unknown to this release", cfg.Suite)
	}
	if cfg.Life <= 0 || cfg.ClaimLife <= 0 {
		return nil, errors.New("replies: the times must be positive")
	}
	s := &Store{
		cfg: cfg, db: cfg.DB, keys: replyKeys(cfg.Keys), now: time.Now,
		replayed: prometheus.NewCounter(prometheus.CounterOpts{Name: "sluice_replies_replayed_total", Help: "Requests with an idempotency key that got the answer which an earlier one had."}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(s.replayed)
	}
	return s, nil
}

func replyKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "replies/reply/v1", "replies/reply/sm4/v1")
}

// Wrapped are the data keys of answers as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[replyRow]{
		Kind: "replies", Keys: replyKeys(ring), Table: replyRow{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: []string{"id", "tenant", "suite", "epoch", "wrapped"},
		Label:   func(r replyRow) []byte { return r.label() },
		Row:     func(r replyRow) (string, wrapkey.Envelope) { return r.ID, r.envelope() },
	}
}

// replyRow is an answer, or a request that is at work on one.
type replyRow struct {
	ID        string
	Tenant    string
	Owner     string
	Subject   string
	Request   string // keyed digest of what was asked with a key
	Claim     string // the request that is at work; "" once the answer is kept
	Suite     string
	Epoch     int64
	Wrapped   []byte
	Sealed    []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	ExpiresAt int64
}

func (replyRow) TableName() string { return "reply_replies" }

func replyColumns() []string {
	return []string{"id", "tenant", "owner", "subject", "request", "claim", "suite", "epoch", "wrapped", "sealed", "created_at", "expires_at"}
}

func (r replyRow) label() []byte { return seal.Label("reply", r.Tenant, r.ID) }

func (r replyRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Wrapped}
}

// Owner is whose an answer is: the keys of a project share it, or the keys of one person. A key of neither has its own.
type Owner struct{ Tenant, ID string }

// OwnerOf returns whose the answers are that a caller gets.
func OwnerOf(p identity.Principal) Owner {
	if p.Owner != "" {
		return Owner{p.Tenant, "person/" + p.Owner}
	}
	if p.Project != "" {
		return Owner{p.Tenant, "project/" + p.Project}
	}
	return Owner{p.Tenant, p.Kind + "/" + p.ID}
}

// Reply is an answer that is kept.
type Reply struct {
	ID      string
	Subject string // digest of the person it is for; "" for nobody known
	Body    []byte
}

// Save keeps an answer. One with this id that is there already stays as it is.
func (s *Store) Save(ctx context.Context, o Owner, r Reply) error {
	now := s.now()
	row := replyRow{ID: r.ID, Tenant: o.Tenant, Owner: o.ID, Subject: r.Subject, CreatedAt: now.UnixMicro(), ExpiresAt: now.Add(s.cfg.Life).UnixMicro()}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := s.seal(tx, &row, r.Body); err != nil {
			return err
		}
		return tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error
	})
	return database.Unavailable("keep an answer", err)
}

// Load returns an answer. Error: CodeNotFound, also for one of somebody else and one whose time is over.
func (s *Store) Load(ctx context.Context, o Owner, id string) (Reply, error) {
	var row replyRow
	db := s.db.WithContext(ctx)
	err := db.Select(replyColumns()).Where("id = ? AND tenant = ? AND owner = ? AND request = '' AND expires_at > ?", id, o.Tenant, o.ID, s.now().UnixMicro()).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Reply{}, notFound(id)
	}
	if err != nil {
		return Reply{}, database.Unavailable("find an answer", err)
	}
	body, err := s.open(db, row)
	return Reply{ID: row.ID, Subject: row.Subject, Body: body}, err
}

// Delete removes an answer. Error: as of Load.
func (s *Store) Delete(ctx context.Context, o Owner, id string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		n, err := remove(tx, "id = ? AND tenant = ? AND owner = ? AND request = '' AND expires_at > ?", id, o.Tenant, o.ID, s.now().UnixMicro())
		if err == nil && n == 0 {
			err = notFound(id)
		}
		return err
	})
	return database.Unavailable("remove an answer", err)
}

func notFound(id string) error {
	return fault.New(fault.CodeNotFound, fault.Say("thing.response"), id)
}

// EraseSubject removes, in the transaction, all answers that were made for a person of a tenant, and returns how many there were.
func EraseSubject(tx *gorm.DB, tenant, subject string) (int64, error) {
	return remove(tx, "tenant = ? AND subject = ?", tenant, subject)
}

// remove deletes rows; SQLite overwrites what is deleted.
func remove(tx *gorm.DB, where string, args ...any) (int64, error) {
	if database.IsSQLite(tx) {
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return 0, err
		}
	}
	res := tx.Where(where, args...).Delete(&replyRow{})
	return res.RowsAffected, res.Error
}

// seal puts a body into a row, under a new data key.
func (s *Store) seal(tx *gorm.DB, row *replyRow, body []byte) error {
	key, e, err := s.keys.NewDataKey(tx, s.cfg.Suite, row.label())
	if err != nil {
		return err
	}
	row.Suite, row.Epoch, row.Wrapped, row.Sealed = string(e.Suite), e.Epoch, e.Sealed, key.Seal(body, row.label())
	return nil
}

func (s *Store) open(db *gorm.DB, row replyRow) ([]byte, error) {
	key, err := s.keys.OpenDataKey(db, row.envelope(), row.label())
	if err != nil {
		return nil, err
	}
	body, err := key.Open(row.Sealed, row.label())
	if err != nil {
		return nil, fmt.Errorf("an answer does not open: it was changed: %w", err)
	}
	return body, nil
}

// Run removes what has had its time, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("answers whose time is over were not removed; the next turn repeats it", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// sweep removes what has had its time, a part in each transaction.
func (s *Store) sweep(ctx context.Context) error {
	for {
		var n int64
		err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
			n, err = remove(tx, "id IN (SELECT id FROM reply_replies WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)", s.now().UnixMicro(), sweepAtOnce)
			return err
		})
		if err != nil || n < sweepAtOnce {
			return database.Unavailable("remove answers whose time is over", err)
		}
	}
}
