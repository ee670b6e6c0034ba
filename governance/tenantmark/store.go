package tenantmark

import (
	"context"
	"encoding/json"
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

// MaxKeys is how many keys a tenant can have: each makes a detection slower and its p greater.
const MaxKeys = 64

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
}

func (row) TableName() string { return "watermark_keys" }

func publicColumns() []string {
	return []string{"id", "tenant", "number", "params", "created_at", "retired_at"}
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
		k := Key{ID: r.ID, Number: r.Number, Params: p, Created: time.UnixMicro(r.CreatedAt).UTC()}
		if r.RetiredAt > 0 {
			k.Retired = time.UnixMicro(r.RetiredAt).UTC()
		}
		out = append(out, k)
	}
	return out, nil
}

// MarkKey returns the key by which the answers of a tenant are marked with these parameters, and makes it if there is none. It asks the database only
// once in a minute.
func (s *Store) MarkKey(ctx context.Context, tenant string, p watermark.Params) (*watermark.Key, error) {
	params := store(p)
	for range 2 {
		all, err := s.known.Get()
		if err != nil {
			return nil, unreadable(err)
		}
		if i := slices.IndexFunc(all[tenant], func(r row) bool { return r.RetiredAt == 0 && r.Params == params }); i >= 0 {
			return s.open(ctx, all[tenant][i])
		}
		if err := s.change(ctx, tenant, func(rows []row) []string {
			if slices.ContainsFunc(rows, func(r row) bool { return r.RetiredAt == 0 && r.Params == params }) {
				return nil // another replica has made it
			}
			return []string{params}
		}); err != nil {
			return nil, err
		}
	}
	return nil, unreadable(fmt.Errorf("the new key of %s is not there", tenant))
}

// Keys returns all keys by which texts of a tenant may be marked, as they stand in the database now.
func (s *Store) Keys(ctx context.Context, tenant string) ([]*watermark.Key, error) {
	if err := s.reload(ctx); err != nil {
		return nil, err
	}
	all, err := s.known.Get()
	if err != nil {
		return nil, unreadable(err)
	}
	var out []*watermark.Key
	for _, r := range all[tenant] {
		k, err := s.open(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// open returns the key of a row, whose secret is read unless it is in memory.
func (s *Store) open(ctx context.Context, r row) (*watermark.Key, error) {
	if k, ok := s.opened.Load(r.ID); ok {
		return k.(*watermark.Key), nil
	}
	var sealed []row
	db := s.cfg.DB.WithContext(ctx)
	if err := db.Select(append(publicColumns(), secretColumns()...)).Where("id = ?", r.ID).Find(&sealed).Error; err != nil {
		return nil, database.Unavailable("read a watermark key", err)
	}
	if len(sealed) == 0 {
		return nil, unreadable(fmt.Errorf("the watermark key %s is gone", r.ID))
	}
	secret, err := s.keys.Open(db, sealed[0].envelope(), sealed[0].label())
	if err != nil {
		return nil, unreadable(fmt.Errorf("open the watermark key %s: %w", r.ID, err))
	}
	defer clear(secret)
	k, err := sealed[0].key(secret)
	if err == nil && (k.ID() != r.ID || k.Tenant() != r.Tenant) {
		err = fmt.Errorf("the watermark key %s is another one than its secret", r.ID)
	}
	if err != nil {
		return nil, unreadable(err)
	}
	s.opened.Store(r.ID, k)
	return k, nil
}

func (r row) key(secret []byte) (*watermark.Key, error) {
	p, err := r.params()
	if err != nil {
		return nil, err
	}
	return watermark.NewKey(watermark.KeyConfig{Secret: secret, Tenant: r.Tenant, Epoch: uint32(r.Number), Params: p})
}

// Rotate has other keys mark the texts of a tenant and returns all of them; those before find what they have marked. Errors: CodeNotFound; CodeConflict
// if the tenant has MaxKeys.
func (s *Store) Rotate(ctx context.Context, tenant string) ([]Key, error) {
	if err := s.cfg.Exists(ctx, tenant); err != nil {
		return nil, err
	}
	err := s.change(ctx, tenant, func(rows []row) []string {
		var params []string
		for _, r := range rows {
			if r.RetiredAt == 0 {
				params = append(params, r.Params)
			}
		}
		if params == nil {
			params = []string{store(watermark.Params{})}
		}
		return params
	})
	if err != nil {
		return nil, err
	}
	return s.List(tenant)
}

// change adds keys of the parameters that decide returns, given all keys of the tenant, retires those of the same parameters, and reads the keys again.
// Changes take turns: the counter, which is written first, is locked until the end.
func (s *Store) change(ctx context.Context, tenant string, decide func([]row) []string) error {
	err := s.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec("UPDATE watermark_changes SET version = version + 1 WHERE name = 'watermark'").Error; err != nil {
			return err
		}
		var rows []row
		if err := tx.Select(publicColumns()).Where("tenant = ?", tenant).Order("number").Find(&rows).Error; err != nil {
			return err
		}
		for i, params := range decide(rows) {
			number := int64(len(rows) + i + 1)
			if number > MaxKeys {
				return fault.New(fault.CodeConflict, fault.Say("watermark.too_many_keys", MaxKeys))
			}
			if err := s.add(tx, row{Tenant: tenant, Number: number, Params: params}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return database.Unavailable("make a watermark key", err)
	}
	return s.reload(ctx)
}

// add stores a new key in the place of that which marks with the same parameters.
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
	now := s.now().UnixMicro()
	if err := tx.Model(&row{}).Where("tenant = ? AND params = ? AND retired_at = 0", r.Tenant, r.Params).Update("retired_at", now).Error; err != nil {
		return err
	}
	r.ID, r.Suite, r.Epoch, r.Wrapped, r.CreatedAt = k.ID(), string(e.Suite), e.Epoch, e.Sealed, now
	return tx.Create(&r).Error
}

func (s *Store) reload(ctx context.Context) error {
	if err := s.known.Load(ctx); err != nil {
		return unreadable(err)
	}
	return nil
}

func unreadable(err error) error {
	return fault.Wrap(fmt.Errorf("read the watermark keys: %w", err), fault.CodeDatabaseUnavailable)
}
