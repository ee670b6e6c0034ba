package tenantmark

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// MaxTried is how many keys of a tenant a detection tries, the newest first: each makes it slower and its p greater. Older ones are tried when they are named.
const MaxTried = 64

// Config is what a store works on.
type Config struct {
	DB        *gorm.DB
	Keys      *keyring.Ring
	Suite     seal.Suite // under which secrets are stored from now on
	Freshness snapshot.Config
	// Exists refuses a tenant that there is not.
	Exists  func(ctx context.Context, tenant string) error
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Store has the keys.
type Store struct {
	cfg    Config
	keys   *wrapkey.Keys
	known  *snapshot.Snapshot[map[string][]row] // by tenant, in the order of their numbers, without secrets
	opened sync.Map                             // *watermark.Key by id, for a minute at most
	now    func() time.Time
}

// New returns a store over migrated tables. It answers after [Store.Load].
func New(cfg Config) (*Store, error) {
	if !cfg.Suite.Known() {
		return nil, fmt.Errorf("watermark keys: the suite %q is unknown to this release", cfg.Suite)
	}
	s := &Store{cfg: cfg, keys: secretKeys(cfg.Keys), now: time.Now}
	var err error
	s.known, err = snapshot.New(cfg.Freshness, snapshot.Source[map[string][]row]{Name: "watermark_keys", Version: s.version, Load: s.load}, cfg.Log, cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("watermark keys: %w", err)
	}
	return s, nil
}

// Load reads which keys there are.
func (s *Store) Load(ctx context.Context) error { return s.known.Load(ctx) }

// forgetEvery is how long a secret stays in memory at most.
const forgetEvery = time.Minute

// Run follows changes of other replicas until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { s.known.Run(ctx) })
	defer following.Wait()
	t := time.NewTicker(forgetEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			s.Forget()
		}
	}
}

// Forget lets go of all secrets in memory; those that are still stored are read again when they are needed.
func (s *Store) Forget() { s.opened.Clear() }

func secretKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "watermark/secret/v1", "watermark/secret/sm4/v1")
}

// Wrapped are the secrets as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[row]{
		Kind: "watermark_keys", Keys: secretKeys(ring), Table: row{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: append(publicColumns(), secretColumns()...),
		Label:   func(r row) []byte { return r.label() },
		Row:     func(r row) (string, wrapkey.Envelope) { return r.ID, r.envelope() },
	}
}

// row is a key.
type row struct {
	ID        string
	Tenant    string
	Number    int64
	Params    string
	Suite     string
	Epoch     int64
	Wrapped   []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	RetiredAt int64
	RevokedAt int64
}

func (row) TableName() string { return "watermark_keys" }

func publicColumns() []string {
	return []string{"id", "tenant", "number", "params", "created_at", "retired_at", "revoked_at"}
}

func secretColumns() []string { return []string{"suite", "epoch", "wrapped"} }

func (r row) label() []byte {
	return seal.Label("watermark key", r.Tenant, fmt.Sprint(r.Number), r.Params)
}

func (r row) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Wrapped}
}

// storedParams are parameters as a row has them, defaults filled in, so that they stay what they are when defaults change.
type storedParams struct {
	Scheme  watermark.Scheme `json:"scheme"`
	SubKeys int              `json:"sub_keys"`
	Context int              `json:"context"`
	Gamma   float64          `json:"gamma"`
	Delta   float64          `json:"delta"`
}

func store(p watermark.Params) string {
	b, _ := json.Marshal(storedParams(p.WithDefaults())) // valid parameters always marshal
	return string(b)
}

func (r row) params() (watermark.Params, error) {
	var p storedParams
	if err := json.Unmarshal([]byte(r.Params), &p); err != nil {
		return watermark.Params{}, fmt.Errorf("the parameters of the watermark key %s: %w", r.ID, err)
	}
	return watermark.Params(p), nil
}

// version grows with every change.
func (s *Store) version(ctx context.Context) (n int64, err error) {
	err = s.cfg.DB.WithContext(ctx).Raw("SELECT version FROM watermark_changes WHERE name = 'watermark'").Scan(&n).Error
	return n, err
}

func (s *Store) load(ctx context.Context) (map[string][]row, error) {
	var rows []row
	if err := s.cfg.DB.WithContext(ctx).Select(publicColumns()).Order("number").Find(&rows).Error; err != nil {
		return nil, err
	}
	all, there := map[string][]row{}, map[string]bool{}
	for _, r := range rows {
		all[r.Tenant], there[r.ID] = append(all[r.Tenant], r), true
	}
	s.opened.Range(func(id, _ any) bool {
		if !there[id.(string)] { // the tenant has left
			s.opened.Delete(id)
		}
		return true
	})
	return all, nil
}

// Key describes a key that a tenant has or had.
type Key struct {
	ID      string
	Number  int64 // of its epoch
	Params  watermark.Params
	Created time.Time
	Retired time.Time // zero: it marks
	Revoked time.Time // zero: what it finds counts
}

// List returns the keys that a tenant has and had, the newest first.
func (s *Store) List(tenant string) ([]Key, error) {
	all, err := s.known.Get()
	if err != nil {
		return nil, unreadable(err)
	}
	var out []Key
	for _, r := range slices.Backward(all[tenant]) {
		p, err := r.params()
		if err != nil {
			return nil, unreadable(err)
		}
		out = append(out, Key{ID: r.ID, Number: r.Number, Params: p, Created: moment(r.CreatedAt), Retired: moment(r.RetiredAt), Revoked: moment(r.RevokedAt)})
	}
	return out, nil
}

// moment is a time of a row; zero where there is none.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}

// MarkKey returns the key by which the answers of a tenant are marked with these parameters, and makes it if there is none. It asks the database only
// once in a minute.
func (s *Store) MarkKey(ctx context.Context, tenant string, p watermark.Params) (*watermark.Key, error) {
	params := store(p)
	for range 3 {
		all, err := s.known.Get()
		if err != nil {
			return nil, unreadable(err)
		}
		i := slices.IndexFunc(all[tenant], func(r row) bool { return r.RetiredAt == 0 && r.Params == params })
		if i < 0 {
			if err := s.first(ctx, tenant, params); err != nil {
				return nil, err
			}
			continue
		}
		k, retired, err := s.open(ctx, all[tenant][i].ID)
		if err != nil || !retired {
			return k, err
		}
		if err := s.refresh(ctx); err != nil { // another replica has put a key in its place
			return nil, err
		}
	}
	return nil, unreadable(fmt.Errorf("the new key of %s is not there", tenant))
}

// first makes the key of parameters, unless another replica has.
func (s *Store) first(ctx context.Context, tenant, params string) error {
	return s.change(ctx, tenant, func(_ *gorm.DB, rows []row, _ int64) (string, error) {
		if slices.ContainsFunc(rows, func(r row) bool { return r.RetiredAt == 0 && r.Params == params }) {
			return "", nil
		}
		return params, nil
	})
}

// tried are keys to try.
type tried struct {
	keys       []*watermark.Key // those that were not revoked
	revoked    []*watermark.Key
	left       int      // older ones
	unreadable []string // ids of those whose secret does not open
}

// keysToTry returns the newest keys by which texts of a tenant may be marked, as they stand in the database now, or the one that is named. Keys that do not
// open are left out, unless none does. Errors: CodeNotFound for a name that the tenant has not; CodeDatabaseUnavailable; that of ctx.
func (s *Store) keysToTry(ctx context.Context, tenant, named string) (out tried, err error) {
	if err := s.refresh(ctx); err != nil {
		return out, err
	}
	all, err := s.known.Get()
	if err != nil {
		return out, unreadable(err)
	}
	rows := slices.Clone(all[tenant])
	slices.Reverse(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(min(a.RevokedAt, 1), min(b.RevokedAt, 1)) }) // these keep none from its place that can prove
	if named != "" {
		rows = slices.DeleteFunc(rows, func(r row) bool { return r.ID != named })
		if len(rows) == 0 {
			return out, fault.New(fault.CodeNotFound, fault.Say("thing.key"), named).WithParam("key")
		}
	}
	out.left = max(0, len(rows)-MaxTried)
	var failed error
	for _, r := range rows[:len(rows)-out.left] {
		k, _, err := s.open(ctx, r.ID)
		switch {
		case err == nil && r.RevokedAt != 0:
			out.revoked = append(out.revoked, k)
		case err == nil:
			out.keys = append(out.keys, k)
		case errors.Is(err, errSecret):
			failed = err
			out.unreadable = append(out.unreadable, r.ID)
			s.cfg.Log.Error("a watermark key does not open; texts are examined without it", slog.String("key", r.ID), slog.String("tenant", tenant), slog.Any("error", err))
		default:
			return out, err
		}
	}
	if len(out.keys)+len(out.revoked) == 0 && failed != nil {
		return out, failed
	}
	return out, nil
}

// damaged reports whether the secret of a key is to blame, so that trying again would not help.
func damaged(err error) bool {
	return errors.Is(err, wrapkey.ErrDamaged) || errors.Is(err, wrapkey.ErrUnknown) || errors.Is(err, wrapkey.ErrDestroyed) || errors.Is(err, wrapkey.ErrSuite)
}

// errSecret says that what is stored of a key does not make that key.
var errSecret = errors.New("the secret does not open")

// open returns a key, whose secret is read unless it is in memory. retired says that it is read and marks no more.
func (s *Store) open(ctx context.Context, id string) (_ *watermark.Key, retired bool, err error) {
	if k, ok := s.opened.Load(id); ok {
		return k.(*watermark.Key), false, nil
	}
	var sealed []row
	db := s.cfg.DB.WithContext(ctx)
	if err := db.Select(append(publicColumns(), secretColumns()...)).Where("id = ?", id).Find(&sealed).Error; err != nil {
		return nil, false, failed(ctx, "read a watermark key", err)
	}
	if len(sealed) == 0 {
		return nil, false, unreadable(fmt.Errorf("the watermark key %s is gone", id))
	}
	r := sealed[0]
	secret, err := s.keys.Open(db, r.envelope(), r.label())
	if err != nil {
		if !damaged(err) {
			return nil, false, failed(ctx, "open a watermark key", err)
		}
		return nil, false, unreadable(fmt.Errorf("the watermark key %s: %w: %w", id, errSecret, err))
	}
	defer clear(secret)
	k, err := r.key(secret)
	if err == nil && (k.ID() != r.ID || k.Tenant() != r.Tenant) {
		err = errors.New("it is that of another key")
	}
	if err != nil {
		return nil, false, unreadable(fmt.Errorf("the watermark key %s: %w: %w", id, errSecret, err))
	}
	s.opened.Store(id, k)
	return k, r.RetiredAt != 0, nil
}

func (r row) key(secret []byte) (*watermark.Key, error) {
	p, err := r.params()
	if err != nil {
		return nil, err
	}
	return watermark.NewKey(watermark.KeyConfig{Secret: secret, Tenant: r.Tenant, Epoch: uint32(r.Number), Params: p})
}

// Rotate has another key mark the texts of a tenant, with the parameters of its newest one that marks, and returns all of them; those before find what they
// have marked. Where a policy still wants other parameters, its next answer makes a key of them. Errors: CodeNotFound.
func (s *Store) Rotate(ctx context.Context, tenant string) ([]Key, error) {
	if err := s.cfg.Exists(ctx, tenant); err != nil {
		return nil, err
	}
	err := s.change(ctx, tenant, func(tx *gorm.DB, rows []row, now int64) (string, error) {
		params := store(watermark.Params{})
		for _, r := range rows {
			if r.RetiredAt == 0 {
				params = r.Params
			}
		}
		return params, tx.Model(&row{}).Where("tenant = ? AND retired_at = 0", tenant).Update("retired_at", now).Error
	})
	if err != nil {
		return nil, err
	}
	return s.List(tenant)
}

// Revoke takes its power to prove from a key that somebody else may know: what it finds is an indication at most from then on. If it marks, another one of
// its parameters does so in its place. It returns the key as it is then. Errors: CodeNotFound for a key that the tenant has not, CodeConflict if it was
// revoked before.
func (s *Store) Revoke(ctx context.Context, tenant, id string) (Key, error) {
	err := s.change(ctx, tenant, func(tx *gorm.DB, rows []row, now int64) (string, error) {
		i := slices.IndexFunc(rows, func(r row) bool { return r.ID == id })
		switch {
		case i < 0:
			return "", fault.New(fault.CodeNotFound, fault.Say("thing.key"), id)
		case rows[i].RevokedAt != 0:
			return "", fault.New(fault.CodeConflict, fault.Say("watermark.revoked_before"))
		}
		update := map[string]any{"revoked_at": now}
		params := ""
		if rows[i].RetiredAt == 0 {
			update["retired_at"], params = now, rows[i].Params
		}
		return params, tx.Model(&row{}).Where("id = ?", id).Updates(update).Error
	})
	if err != nil {
		return Key{}, err
	}
	s.opened.Delete(id)
	all, err := s.List(tenant)
	if err != nil {
		return Key{}, err
	}
	i := slices.IndexFunc(all, func(k Key) bool { return k.ID == id })
	if i < 0 {
		return Key{}, unreadable(fmt.Errorf("the watermark key %s is gone", id)) // with its tenant
	}
	return all[i], nil
}

// change has do change the keys of a tenant, given all of them, adds one of the parameters that it returns, unless they are "", and reads the keys again.
// Changes take turns: the counter, which is written first, is locked until the end. A fault of do is the error.
func (s *Store) change(ctx context.Context, tenant string, do func(tx *gorm.DB, rows []row, now int64) (params string, err error)) error {
	err := s.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE watermark_changes SET version = version + 1 WHERE name = 'watermark'").Error; err != nil {
			return err
		}
		var rows []row
		if err := tx.Select(publicColumns()).Where("tenant = ?", tenant).Order("number").Find(&rows).Error; err != nil {
			return err
		}
		now := s.now().UnixMicro()
		params, err := do(tx, rows, now)
		if err != nil || params == "" {
			return err
		}
		return s.add(tx, row{Tenant: tenant, Number: int64(len(rows) + 1), Params: params, CreatedAt: now})
	})
	var coded *fault.Error
	switch {
	case errors.As(err, &coded):
		return err
	case err != nil:
		return failed(ctx, "change the watermark keys", err)
	}
	return s.refresh(ctx)
}

// add stores a new key.
func (s *Store) add(tx *gorm.DB, r row) error {
	secret := seal.Random(32)
	defer clear(secret)
	k, err := r.key(secret)
	if err != nil {
		return err
	}
	e, err := s.keys.Seal(tx, s.cfg.Suite, secret, r.label())
	if err != nil {
		return err
	}
	r.ID, r.Suite, r.Epoch, r.Wrapped = k.ID(), string(e.Suite), e.Epoch, e.Sealed
	return tx.Create(&r).Error
}

func (s *Store) refresh(ctx context.Context) error {
	if err := s.known.Refresh(ctx); err != nil {
		return failed(ctx, "read the watermark keys", err)
	}
	return nil
}

// failed is the error of a step that broke: the departure of who asks is told apart from a failure.
func failed(ctx context.Context, step string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fmt.Errorf("%s: %w", step, context.Canceled)
	}
	return database.Unavailable(step, err)
}

func unreadable(err error) error {
	return fault.Wrap(fmt.Errorf("read the watermark keys: %w", err), fault.CodeDatabaseUnavailable)
}
