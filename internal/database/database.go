// Package database opens the one SQL database of an installation: an SQLite file (cgo-free) or PostgreSQL, behind one gorm
// handle. Stores write portable SQL through it; no store knows which of the two it runs on unless it asks [IsSQLite].
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ncruces/go-sqlite3/driver" // SQLite without cgo
	"github.com/ncruces/go-sqlite3/gormlite"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	gormlog "gorm.io/gorm/logger"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Config says which database to open.
type Config struct {
	// URL is "sqlite:/path/to/file.db" or "postgres://user:password@host/database?…". It may hold a password, hence a credential; a
	// new connection takes user and password from what it is then.
	URL keyring.Credential `koanf:"url"`
	// MaxConnections bounds the pool; 0 means 16. SQLite uses the same pool: one writer at a time, many readers (WAL).
	MaxConnections int `koanf:"max_connections"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	u := c.URL.Reveal()
	if !strings.HasPrefix(u, "sqlite:") && !strings.HasPrefix(u, "postgres://") && !strings.HasPrefix(u, "postgresql://") {
		return fmt.Errorf("url: must start with sqlite: or postgres://")
	}
	if c.MaxConnections < 0 {
		return fmt.Errorf("max_connections: must not be negative")
	}
	return nil
}

// Open connects and checks the connection. SQLite runs in WAL mode with full synchronisation, since a committed audit record
// must survive a power cut, and takes the write lock when a transaction begins, so that two writers queue instead of failing.
func Open(ctx context.Context, cfg Config) (*gorm.DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	var dial gorm.Dialector
	u := cfg.URL.Reveal()
	if path, ok := strings.CutPrefix(u, "sqlite:"); ok {
		q := url.Values{"_txlock": {"immediate"}, "_pragma": {
			"busy_timeout(10000)", "journal_mode(wal)", "synchronous(full)", "foreign_keys(on)",
		}}
		pool, err := driver.Open("file:"+(&url.URL{Path: path}).EscapedPath()+"?"+q.Encode(), registerRows)
		if err != nil {
			return nil, redact(fmt.Errorf("open database: %w", err), u)
		}
		dial = gormlite.OpenDB(pool)
	} else {
		dial = postgres.New(postgres.Config{DSN: u, OptionOpenDB: []stdlib.OptionOpenDB{stdlib.OptionBeforeConnect(cfg.signIn)}})
	}
	db, err := gorm.Open(dial, &gorm.Config{
		Logger:                 gormlog.Discard, // errors are returned; statements could hold personal data
		SkipDefaultTransaction: true,
		TranslateError:         true,
		NowFunc:                func() time.Time { return time.Now().UTC() },
	})
	if err != nil {
		return nil, redact(fmt.Errorf("open database: %w", err), u)
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	n := cfg.MaxConnections
	if n == 0 {
		n = 16
	}
	pool.SetMaxOpenConns(n)
	pool.SetMaxIdleConns(n)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	if err := pool.PingContext(ctx); err != nil {
		_ = pool.Close()
		return nil, redact(fmt.Errorf("open database: %w", err), u)
	}
	return db, nil
}

// signIn gives a new connection the user and password that the URL has now: who rotates them restarts nothing.
func (c Config) signIn(_ context.Context, conn *pgx.ConnConfig) error {
	now, err := pgx.ParseConfig(c.URL.Reveal())
	if err != nil {
		return errors.New("database.url: cannot be read any more") // the cause holds the password
	}
	conn.User, conn.Password = now.User, now.Password
	return nil
}

// redact wraps err as Unavailable with the password of the connection string removed: drivers like to print it whole.
func redact(err error, raw string) error {
	text := err.Error()
	if u, perr := url.Parse(raw); perr == nil && u.User != nil {
		if pw, ok := u.User.Password(); ok && pw != "" {
			text = strings.ReplaceAll(text, pw, "xxxxx")
		}
	}
	return fault.Wrap(fmt.Errorf("%s", text), fault.CodeDatabaseUnavailable)
}

// Close closes the pool.
func Close(db *gorm.DB) error {
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

// Snapshot calls read with a transaction that reads only, and sees the database as it is when it first looks: its statements agree with
// each other whatever is written meanwhile, and nobody waits for it.
func Snapshot(ctx context.Context, db *gorm.DB, read func(tx *gorm.DB) error) error {
	opts := sql.TxOptions{ReadOnly: true}
	if !IsSQLite(db) { // there every transaction does
		opts.Isolation = sql.LevelRepeatableRead
	}
	return db.WithContext(ctx).Transaction(read, &opts)
}

// SetIdleTimeout makes PostgreSQL give up a transaction, and the rows it holds, when nothing is heard of it for so long: a replica that is paused in
// the middle of one must not hold up the others. SQLite files belong to one machine, where a lock goes with its process.
func SetIdleTimeout(tx *gorm.DB, after time.Duration) error {
	if IsSQLite(tx) {
		return nil
	}
	return tx.Exec(fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = %d", max(1, after.Milliseconds()))).Error
}

// IsSQLite reports whether db is an SQLite file.
func IsSQLite(db *gorm.DB) bool { return db.Name() == "sqlite" }

// LogValue describes the database without its secrets.
func (c Config) LogValue() slog.Value {
	scheme, _, _ := strings.Cut(c.URL.Reveal(), ":")
	return slog.StringValue(scheme)
}
