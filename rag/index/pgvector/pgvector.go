// Package pgvector implements rag/index by tables of a PostgreSQL server, 14 or later, with the extension pgvector, 0.5 or later.
//
// # One table, one owner
//
// An index has a table of its own, named after it, and one process that uses it: ids are numbers in the memory of that process, and mean nothing
// to another. The first use of an index makes its table anew and empty, so that nothing of an earlier process is ever found; what uses the index fills it
// again from what it has stored elsewhere. If a second process takes the same name, the first one's index answers ErrLost from then on.
//
// Every change counts one up in the same transaction, and every search sees the count: if the server comes back with less than it has confirmed, as after a
// fail-over that lost the last commits, searches return ErrLost instead of what is left.
//
// # Exactness
//
// The server compares the query with every vector that is allowed, and with no other: the filter is part of the statement. Vectors are stored
// scaled to length 1 in 4 bytes a component, so that scores are cosines to about 1e-7. There is no graph: pgvector filters while it walks one, so that
// what may not be seen would be scored, and few or no hits would come back where the filter lies far from the query.
//
// # What lies where
//
// Vectors lie on the server in clear, as do their copies in its log and backups; texts do not. Deleted rows stay in the table's
// pages until the server vacuums it. Encrypt its disks, and the connection by the URL's sslmode.
package pgvector

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag/index"
	"github.com/sluice-project/sluice/rag/index/external"
)

const maxDim = 16_000 // of the type vector

// Config says where the server is.
type Config struct {
	// URL is postgres://user:password@host/database?sslmode=…; the user may make tables in the first schema of its search path. A new
	// connection takes user and password from what the credential is then.
	URL keyring.Credential
	// MaxConnections bounds the pool; 0 means 8.
	MaxConnections int
	// Timeout is how long one search or one change may take; 0 means 10 seconds.
	Timeout time.Duration
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	u := c.URL.Reveal()
	if !strings.HasPrefix(u, "postgres://") && !strings.HasPrefix(u, "postgresql://") {
		return errors.New("url: must start with postgres://")
	}
	if _, err := pgx.ParseConfig(u); err != nil {
		return errors.New("url: cannot be read") // the cause holds the URL
	}
	if c.MaxConnections < 0 {
		return errors.New("max_connections: must not be negative")
	}
	if c.Timeout < 0 {
		return errors.New("timeout: must not be negative")
	}
	return nil
}

// Server is a server with indexes. It is safe for concurrent use.
type Server struct {
	pool    *sql.DB
	timeout time.Duration
}

// New returns the server. It does not connect before an index is used.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pgvector: %w", err)
	}
	conn, err := pgx.ParseConfig(cfg.URL.Reveal())
	if err != nil {
		return nil, errors.New("pgvector: url: cannot be read")
	}
	s := &Server{timeout: cfg.Timeout}
	if s.timeout == 0 {
		s.timeout = 10 * time.Second
	}
	if conn.ConnectTimeout == 0 {
		conn.ConnectTimeout = s.timeout
	}
	s.pool = stdlib.OpenDB(*conn, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		now, err := pgx.ParseConfig(cfg.URL.Reveal())
		if err != nil {
			return errors.New("url: cannot be read any more")
		}
		c.User, c.Password = now.User, now.Password
		return nil
	}))
	n := cfg.MaxConnections
	if n == 0 {
		n = 8
	}
	s.pool.SetMaxOpenConns(n)
	s.pool.SetMaxIdleConns(n)
	s.pool.SetConnMaxIdleTime(5 * time.Minute)
	return s, nil
}

// Close closes the connections. Indexes of the server that are not closed keep their tables, and fail from then on.
func (s *Server) Close() error { return s.pool.Close() }

// Index returns the index of that name for vectors of dim components, empty: whatever the server has under the name is dropped when the index is first
// used. The name may be any text, and must not be another live index's. Dimensions beyond 16,000 are an error.
func (s *Server) Index(name string, dim int) (*Index, error) {
	if name == "" || dim < 1 || dim > maxDim {
		return nil, fmt.Errorf("pgvector: an index needs a name and 1 to %d components, not %d", maxDim, dim)
	}
	sum := sha256.Sum256([]byte(name))
	return &Index{server: s, dim: dim, name: hex.EncodeToString(sum[:12])}, nil
}

// Index is a table. It implements [index.Index].
type Index struct {
	server *Server
	dim    int
	name   string // of hexadecimal digits

	mu         sync.Mutex
	generation string // of the table, of letters and digits; "" before it was made
	version    int64  // the highest that the server has confirmed
	closed     bool
	dropped    bool
	lost       bool

	doubts external.Doubts
}

var _ index.Index = (*Index)(nil)

// table returns the name of the table of a generation.
func (x *Index) table(generation string) string { return "sluice_vectors_" + x.name + "_" + generation }

// batch is how many entries one statement stores.
const batch = 1000

// Upsert implements [index.Index]. However many entries there are, they are one transaction.
func (x *Index) Upsert(ctx context.Context, entries []index.Entry) error {
	for _, e := range entries {
		if err := index.Check(e.Vector, x.dim); err != nil {
			return fmt.Errorf("upsert entry %d: %w", e.ID, err)
		}
	}
	entries = external.Distinct(entries)
	return x.change(ctx, "upsert", external.IDs(entries), func(ctx context.Context, tx *sql.Tx, table string) error {
		for part := range slices.Chunk(entries, batch) {
			ids, vectors := make([]int64, len(part)), make([]string, len(part))
			for i, e := range part {
				ids[i], vectors[i] = int64(e.ID), literal(external.Unit(e.Vector))
			}
			//nolint:gosec // the table's name is made here, of letters and digits
			if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" (id, v) SELECT id, v::vector FROM unnest($1::bigint[], $2::text[]) AS given(id, v)"+
				" ON CONFLICT (id) DO UPDATE SET v = excluded.v", ids, vectors); err != nil {
				return err
			}
		}
		return nil
	})
}

// Delete implements [index.Index].
func (x *Index) Delete(ctx context.Context, ids []uint32) error {
	return x.change(ctx, "delete", ids, func(ctx context.Context, tx *sql.Tx, table string) error {
		for part := range slices.Chunk(ids, 100*batch) {
			wide := make([]int64, len(part))
			for i, id := range part {
				wide[i] = int64(id)
			}
			//nolint:gosec // as above
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE id = ANY($1::bigint[])", wide); err != nil {
				return err
			}
		}
		return nil
	})
}

// change runs do in a transaction that counts one up. Counting comes first: it makes changes of one index wait for each other, so that none deadlock.
func (x *Index) change(ctx context.Context, what string, ids []uint32, do func(ctx context.Context, tx *sql.Tx, table string) error) error {
	ctx, cancel := context.WithTimeout(ctx, x.server.timeout)
	defer cancel()
	generation, confirmed, err := x.ready(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if len(ids) == 0 {
		return nil
	}
	tx, err := x.server.pool.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, said(ctx, err))
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing, and a connection that is gone has none left to roll back
	var version int64
	switch err := tx.QueryRowContext(ctx, "UPDATE sluice_vector_indexes SET version = version + 1 WHERE name = $1 AND generation = $2 RETURNING version",
		x.name, generation).Scan(&version); {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%s: %w", what, x.lose())
	case err != nil:
		return fmt.Errorf("%s: %w", what, said(ctx, err))
	case version <= confirmed: // the count of this change would hide it
		return fmt.Errorf("%s: %w", what, x.lose())
	}
	if err := do(ctx, tx, x.table(generation)); err != nil {
		return fmt.Errorf("%s: %w", what, said(ctx, err))
	}
	if err := tx.Commit(); err != nil {
		x.doubts.Add(ids) // the server may have committed all the same
		return fmt.Errorf("%s: commit: %w", what, said(ctx, err))
	}
	x.confirm(version)
	x.doubts.Settle(ids)
	return nil
}

const (
	fewIDs  = 8192    // up to how many allowed ids rows are fetched one by one by the key in place of a scan of the table
	mostIDs = 1 << 20 // up to how many they are joined with; beyond that they are ranges, in which each row looks for its own
	fewRuns = 64      // up to how many ranges these are the quickest
)

// Search implements [index.Index].
func (x *Index) Search(ctx context.Context, q index.Query) ([]index.Hit, error) {
	if err := index.Check(q.Vector, x.dim); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, x.server.timeout)
	defer cancel()
	generation, version, err := x.ready(ctx)
	if err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}
	if q.Allowed == nil || q.Allowed.IsEmpty() || q.TopK <= 0 {
		return nil, nil
	}
	if x.doubts.About(q.Allowed) {
		return nil, fmt.Errorf("search: a change whose outcome is not known has to be made again: %w", index.ErrUnavailable)
	}
	most := int(min(uint64(q.TopK), q.Allowed.GetCardinality()))
	statement, filter := x.statement(x.table(generation), q.Allowed)
	rows, err := x.server.pool.QueryContext(ctx, statement, literal(external.Unit(q.Vector)), filter, most, x.name, generation)
	if err != nil {
		return nil, fmt.Errorf("search: %w", said(ctx, err))
	}
	defer rows.Close() //nolint:errcheck // what goes wrong is in rows.Err
	var hits []index.Hit
	known := false
	for rows.Next() {
		var counted sql.NullInt64
		var id sql.NullInt64
		var distance sql.NullFloat64
		if err := rows.Scan(&counted, &id, &distance); err != nil {
			return nil, fmt.Errorf("search: %w", said(ctx, err))
		}
		if !counted.Valid || counted.Int64 < version {
			return nil, fmt.Errorf("search: %w", x.lose())
		}
		known = true
		if id.Valid {
			hits = append(hits, index.Hit{ID: uint32(id.Int64), Score: float32(0 - distance.Float64)}) // 0 − 0 is no −0
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("search: %w", said(ctx, err))
	}
	if !known {
		return nil, fmt.Errorf("search: %w", x.lose())
	}
	return external.Best(hits, most), nil
}

// statement returns the query and its filter. It yields at least one row, each with the count of changes, in one view of the database.
func (x *Index) statement(table string, allowed *roaring.Bitmap) (statement string, filter any) {
	condition := "id <@ $2::int8multirange"
	n := allowed.GetCardinality()
	_, scattered := external.Runs(allowed, fewRuns)
	switch {
	case n <= fewIDs:
		condition, filter = "id = ANY($2::bigint[])", idsOf(allowed)
	case scattered && n <= mostIDs:
		condition, filter = "id IN (SELECT unnest($2::bigint[]))", idsOf(allowed)
	default:
		filter = multirange(allowed)
	}
	// A graph that somebody has made must not answer: a sum is not what it is ordered by.
	return "SELECT (SELECT version FROM sluice_vector_indexes WHERE name = $4 AND generation = $5), hit.id, hit.distance" +
		" FROM (SELECT 1) AS one LEFT JOIN LATERAL (SELECT id, (v <#> $1::vector) + 0.0::float8 AS distance FROM " + table +
		" WHERE " + condition + " ORDER BY distance, id LIMIT $3) AS hit ON true", filter
}

func idsOf(set *roaring.Bitmap) []int64 {
	out := make([]int64, 0, set.GetCardinality())
	for it := set.Iterator(); it.HasNext(); {
		out = append(out, int64(it.Next()))
	}
	return out
}

// multirange writes a set in the form of PostgreSQL. Sets are mostly ranges, as ids are given out one after the other.
func multirange(set *roaring.Bitmap) string {
	runs, _ := external.Runs(set, int(set.GetCardinality()))
	out := make([]byte, 0, 24*len(runs)+2)
	out = append(out, '{')
	for i, r := range runs {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		out = strconv.AppendUint(out, uint64(r.First), 10)
		out = append(out, ',')
		out = strconv.AppendUint(out, uint64(r.Last)+1, 10)
		out = append(out, ')')
	}
	return string(append(out, '}'))
}

// literal writes a vector in the form of pgvector.
func literal(v []float32) string {
	out := make([]byte, 0, 13*len(v)+2)
	out = append(out, '[')
	for i, c := range v {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, float64(c), 'g', -1, 32)
	}
	return string(append(out, ']'))
}

// Close implements [index.Index]: it drops the table. After an error it may be called again, to try again.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	if x.dropped {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), x.server.timeout)
	defer cancel()
	if err := x.replace(ctx, ""); err != nil {
		return fmt.Errorf("drop the table: %w", err)
	}
	x.dropped = true
	return nil
}

// ready returns the generation of the table, which it makes if this is the first use, and the count of changes that are confirmed.
func (x *Index) ready(ctx context.Context) (generation string, version int64, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.closed:
		return "", 0, index.ErrClosed
	case ctx.Err() != nil:
		return "", 0, context.Cause(ctx)
	case x.lost:
		return "", 0, errLost
	case x.generation == "":
		made := strings.ToLower(rand.Text()[:16])
		if err := x.replace(ctx, made); err != nil {
			return "", 0, fmt.Errorf("make the table: %w", err)
		}
		x.generation = made
	}
	return x.generation, x.version, nil
}

// replace drops the table and, unless generation is empty, makes it anew. The caller holds mu. Closing an index whose name another process has taken
// leaves the table to that one.
func (x *Index) replace(ctx context.Context, generation string) error {
	tx, err := x.server.pool.BeginTx(ctx, nil)
	if err != nil {
		return said(ctx, err)
	}
	defer tx.Rollback() //nolint:errcheck // as in change
	for _, s := range []string{
		"SELECT pg_advisory_xact_lock(7310579663151850350)", // making what is there is no error, but making it twice at once is
		"CREATE EXTENSION IF NOT EXISTS vector",
		"CREATE TABLE IF NOT EXISTS sluice_vector_indexes (name text PRIMARY KEY, generation text NOT NULL, version bigint NOT NULL)",
	} {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return said(ctx, err)
		}
	}
	var before string
	switch err := tx.QueryRowContext(ctx, "DELETE FROM sluice_vector_indexes WHERE name = $1 RETURNING generation", x.name).Scan(&before); {
	case errors.Is(err, sql.ErrNoRows):
	case err != nil:
		return said(ctx, err)
	case generation == "" && x.generation != "" && before != x.generation:
		return nil
	case !word.MatchString(before):
		return errLost // it becomes part of a statement
	}
	var statements []string
	if before != "" {
		statements = append(statements, "DROP TABLE IF EXISTS "+x.table(before))
	}
	if table := x.table(generation); generation != "" {
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (id bigint PRIMARY KEY, v vector(%d) NOT NULL)", table, x.dim),
			"INSERT INTO sluice_vector_indexes (name, generation, version) VALUES ('"+x.name+"', '"+generation+"', 0)")
	}
	for _, s := range statements {
		if _, err := tx.ExecContext(ctx, s); err != nil {
			return said(ctx, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return said(ctx, err)
	}
	return nil
}

var word = regexp.MustCompile(`^[a-z0-9]{1,20}$`)

func (x *Index) confirm(version int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.version = max(x.version, version)
}

var errLost = fmt.Errorf("the server has not all that it confirmed, or another process took the index: %w", index.ErrLost)

func (x *Index) lose() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed { // its table was dropped while somebody searched
		return index.ErrClosed
	}
	x.lost = true
	return errLost
}

// said turns an error of the driver into one of the contract: that the caller has given up, that the table is gone, or that the server is
// unavailable. What a server says about values it did not like may quote them, and is left out.
func said(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w: %w", index.ErrUnavailable, context.Cause(ctx))
	}
	if of := (*pgconn.PgError)(nil); errors.As(err, &of) {
		switch {
		case of.Code == "42P01": // undefined_table
			return fmt.Errorf("a table is gone: %w", index.ErrLost)
		case strings.HasPrefix(of.Code, "22"):
			return fmt.Errorf("SQLSTATE %s: %w", of.Code, index.ErrUnavailable)
		}
		return fmt.Errorf("%s (SQLSTATE %s): %w", of.Message, of.Code, index.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", index.ErrUnavailable, err)
}
