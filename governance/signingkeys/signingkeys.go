package signingkeys

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// Config is what a store works on.
type Config struct {
	DB        *gorm.DB
	Keys      *keyring.Ring
	Suite     seal.Suite          // under which private halves are stored from now on
	Algorithm signature.Algorithm // of keys that are made from now on
	Freshness snapshot.Config
	// Exists refuses a tenant that there is not.
	Exists  func(ctx context.Context, tenant string) error
	Log     *slog.Logger
	Metrics prometheus.Registerer // may be nil
}

// Store has the keys.
type Store struct {
	cfg     Config
	keys    *wrapkey.Keys
	public  *snapshot.Snapshot[*keySet]
	signers sync.Map // by id of the key, for a minute at most
	now     func() time.Time
}

// New returns a store over migrated tables. It answers after [Store.Load].
func New(cfg Config) (*Store, error) {
	if !cfg.Suite.Known() || !cfg.Algorithm.Known() {
		return nil, fmt.Errorf("signing keys: suite %q or algorithm %q is unknown to this release", cfg.Suite, cfg.Algorithm)
	}
	s := &Store{cfg: cfg, keys: seedKeys(cfg.Keys), now: time.Now}
	var err error
	s.public, err = snapshot.New(cfg.Freshness, snapshot.Source[*keySet]{Name: "signing_keys", Version: s.version, Load: s.load}, cfg.Log, cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("signing keys: %w", err)
	}
	return s, nil
}

// Load reads the public keys.
func (s *Store) Load(ctx context.Context) error { return s.public.Load(ctx) }

// forgetEvery is how long a private half stays in memory at most.
const forgetEvery = time.Minute

// Run follows changes of other replicas until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { s.public.Run(ctx) })
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

// Forget lets go of all private halves in memory; those that are still stored are read again when they are needed.
func (s *Store) Forget() { s.signers.Clear() }

func seedKeys(ring *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(ring, "signature/seed/v1", "signature/seed/sm4/v1")
}

// Wrapped are the private halves as a rotation of the wrapping keys sees them.
func Wrapped(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[seedRow]{
		Kind: "signing_keys", Keys: seedKeys(ring), Table: seedRow{}.TableName(), Sealed: "wrapped", Limit: 100,
		Columns: seedColumns(),
		Label:   func(r seedRow) []byte { return r.label() },
		Row:     func(r seedRow) (string, wrapkey.Envelope) { return r.ID, r.envelope() },
	}
}

// keyRow is a public half. Rows are never removed.
type keyRow struct {
	ID        string
	Tenant    string
	Number    int64
	Algorithm string
	Public    []byte
	CreatedAt int64 `gorm:"autoCreateTime:false"`
	RetiredAt int64
	RevokedAt int64
}

func (keyRow) TableName() string { return "signature_keys" }

func keyColumns() []string {
	return []string{"id", "tenant", "number", "algorithm", "public", "created_at", "retired_at", "revoked_at"}
}

func (r keyRow) key() signature.Key {
	return signature.Key{
		ID: r.ID, Algorithm: signature.Algorithm(r.Algorithm), Public: r.Public,
		Created: timeOf(r.CreatedAt), Retired: timeOf(r.RetiredAt), Revoked: timeOf(r.RevokedAt),
	}
}

// timeOf is the time of a column; 0 is none.
func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// seedRow is a private half.
type seedRow struct {
	ID      string
	Tenant  string
	Suite   string
	Epoch   int64
	Wrapped []byte
}

func (seedRow) TableName() string { return "signature_seeds" }

func seedColumns() []string { return []string{"id", "tenant", "suite", "epoch", "wrapped"} }

func (r seedRow) label() []byte { return seal.Label("signing key", r.Tenant, r.ID) }

func (r seedRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Wrapped}
}

// version grows with every change: rows are added, retired and revoked, once each.
func (s *Store) version(ctx context.Context) (n int64, err error) {
	err = s.cfg.DB.WithContext(ctx).Model(&keyRow{}).Select("COUNT(*) + COUNT(NULLIF(retired_at, 0)) + COUNT(NULLIF(revoked_at, 0))").Scan(&n).Error
	return n, err
}

// keySet is all public keys. It is immutable.
type keySet struct {
	tenants   map[string][]keyRow // in the order of their numbers
	all       []signature.Key     // by id, which says nothing of whose they are
	published []byte
}

func (s *Store) load(ctx context.Context) (*keySet, error) {
	var rows []keyRow
	if err := s.cfg.DB.WithContext(ctx).Select(keyColumns()).Order("number").Find(&rows).Error; err != nil {
		return nil, err
	}
	set := &keySet{tenants: map[string][]keyRow{}}
	current := map[string]bool{}
	for _, r := range rows {
		set.tenants[r.Tenant] = append(set.tenants[r.Tenant], r)
		set.all = append(set.all, r.key())
		current[r.ID] = r.RetiredAt == 0
	}
	slices.SortFunc(set.all, func(a, b signature.Key) int { return cmp.Compare(a.ID, b.ID) })
	s.signers.Range(func(id, _ any) bool {
		if !current[id.(string)] {
			s.signers.Delete(id)
		}
		return true
	})
	var err error
	set.published, err = signature.MarshalKeys(set.all)
	return set, err
}

// known returns the keys in memory.
func (s *Store) known() (*keySet, error) {
	set, err := s.public.Get()
	if err != nil {
		return &keySet{}, fault.Wrap(fmt.Errorf("read the signing keys: %w", err), fault.CodeDatabaseUnavailable)
	}
	return set, nil
}

// Public returns the public keys of all tenants. They must not be changed.
func (s *Store) Public() ([]signature.Key, error) {
	set, err := s.known()
	return set.all, err
}

// Published returns the same as [signature.MarshalKeys] writes them. It must not be changed.
func (s *Store) Published() ([]byte, error) {
	set, err := s.known()
	return set.published, err
}

// List returns the keys that a tenant has and had, the newest first.
func (s *Store) List(tenant string) ([]signature.Key, error) {
	set, err := s.known()
	var out []signature.Key
	for _, r := range slices.Backward(set.tenants[tenant]) {
		out = append(out, r.key())
	}
	return out, err
}

// Signer returns what signs for a tenant. It asks the database only for the first result of a key.
func (s *Store) Signer(ctx context.Context, tenant string) (*signature.Signer, error) {
	for range 2 {
		set, err := s.known()
		if err != nil {
			return nil, err
		}
		if signer, err := s.current(ctx, set.tenants[tenant]); signer != nil || err != nil {
			return signer, err
		}
		if _, err := s.replace(ctx, tenant, int64(len(set.tenants[tenant]))); err != nil { // whoever made it
			return nil, err
		}
	}
	set, err := s.known()
	if err != nil {
		return nil, err
	}
	signer, err := s.current(ctx, set.tenants[tenant])
	if signer == nil && err == nil {
		err = fault.Wrap(errors.New("the new signing key is not there"), fault.CodeDatabaseUnavailable)
	}
	return signer, err
}

// current returns the signer of the last of a tenant's keys; nil if there is none that can sign.
func (s *Store) current(ctx context.Context, rows []keyRow) (*signature.Signer, error) {
	if len(rows) == 0 || rows[len(rows)-1].RetiredAt > 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	last := rows[len(rows)-1]
	if signer, ok := s.signers.Load(last.ID); ok {
		return signer.(*signature.Signer), nil
	}
	var seeds []seedRow
	db := s.cfg.DB.WithContext(ctx)
	if err := db.Select(seedColumns()).Where("id = ?", last.ID).Find(&seeds).Error; err != nil {
		return nil, database.Unavailable("read a signing key", err)
	}
	if len(seeds) == 0 { // a rotation elsewhere has destroyed it, or the tenant has left
		return nil, nil //nolint:nilnil // there is none
	}
	seed, err := s.keys.Open(db, seeds[0].envelope(), seeds[0].label())
	if err != nil {
		return nil, fault.Wrap(fmt.Errorf("open the signing key %s: %w", last.ID, err), fault.CodeDatabaseUnavailable)
	}
	defer clear(seed)
	signer, err := signature.NewSigner(signature.Algorithm(last.Algorithm), seed)
	if err == nil && signer.ID != last.ID {
		err = fmt.Errorf("the signing key %s is another one than its public half", last.ID)
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	s.signers.Store(last.ID, signer)
	return signer, nil
}

// Rotate makes a new key for a tenant and returns it. The private half of the one before is destroyed. Errors: CodeNotFound; CodeConflict if another rotation came first.
func (s *Store) Rotate(ctx context.Context, tenant string) (signature.Key, error) {
	if err := s.cfg.Exists(ctx, tenant); err != nil {
		return signature.Key{}, err
	}
	rows, err := s.fresh(ctx, tenant)
	if err != nil {
		return signature.Key{}, err
	}
	made, err := s.replace(ctx, tenant, int64(len(rows)))
	if err == nil && !made {
		err = fault.New(fault.CodeConflict, fault.Say("signature.rotated_elsewhere"))
	}
	if err != nil {
		return signature.Key{}, err
	}
	all, err := s.List(tenant)
	if err != nil || len(all) == 0 {
		return signature.Key{}, err
	}
	return all[0], nil
}

// Revoke takes its power to prove from a key of a tenant; if it signs, another one does from now on. Errors: CodeNotFound; CodeConflict if it was revoked before.
func (s *Store) Revoke(ctx context.Context, tenant, id string) (signature.Key, error) {
	rows, err := s.fresh(ctx, tenant)
	if err != nil {
		return signature.Key{}, err
	}
	i := slices.IndexFunc(rows, func(r keyRow) bool { return r.ID == id })
	if i < 0 {
		return signature.Key{}, fault.New(fault.CodeNotFound, fault.Say("thing.signing_key"), id)
	}
	if rows[i].RetiredAt == 0 {
		if _, err := s.replace(ctx, tenant, int64(len(rows))); err != nil { // whoever made it, this one signs no more
			return signature.Key{}, err
		}
	}
	res := s.cfg.DB.WithContext(ctx).Model(&keyRow{}).Where("id = ? AND revoked_at = 0", id).Update("revoked_at", s.now().UnixMicro())
	if res.Error != nil {
		return signature.Key{}, database.Unavailable("revoke a signing key", res.Error)
	}
	if res.RowsAffected == 0 {
		return signature.Key{}, fault.New(fault.CodeConflict, fault.Say("signature.revoked_before"))
	}
	if rows, err = s.fresh(ctx, tenant); err != nil || i >= len(rows) {
		return signature.Key{}, err
	}
	return rows[i].key(), nil
}

// fresh reads the keys of a tenant anew.
func (s *Store) fresh(ctx context.Context, tenant string) ([]keyRow, error) {
	if err := s.reload(ctx); err != nil {
		return nil, err
	}
	set, err := s.known()
	return set.tenants[tenant], err
}

// replace makes the key of a tenant behind so many others, unless somebody else has made it, and reads the keys again. It reports whether it made one.
func (s *Store) replace(ctx context.Context, tenant string, after int64) (made bool, err error) {
	seed, signer, err := s.draw()
	if err != nil {
		return false, err
	}
	defer clear(seed)
	now := s.now().UnixMicro()
	row := keyRow{ID: signer.ID, Tenant: tenant, Number: after + 1, Algorithm: string(signer.Algorithm), Public: signer.Public, CreatedAt: now}
	err = s.cfg.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if made = res.RowsAffected > 0; res.Error != nil || !made {
			return res.Error
		}
		if err := tx.Model(&keyRow{}).Where("tenant = ? AND number <= ? AND retired_at = 0", tenant, after).Update("retired_at", now).Error; err != nil {
			return err
		}
		if err := destroy(tx, tenant); err != nil {
			return err
		}
		private := seedRow{ID: signer.ID, Tenant: tenant}
		e, err := s.keys.Seal(tx, s.cfg.Suite, seed, private.label())
		if err != nil {
			return err
		}
		private.Suite, private.Epoch, private.Wrapped = string(e.Suite), e.Epoch, e.Sealed
		return tx.Create(&private).Error
	})
	if err != nil {
		return false, database.Unavailable("make a signing key", err)
	}
	return made, s.reload(ctx)
}

// draw returns a random seed and its signer. One of 2³² seeds is no key of SM2, so it is drawn again then.
func (s *Store) draw() (seed []byte, signer *signature.Signer, err error) {
	for range 3 {
		seed = seal.Random(signature.SeedSize)
		if signer, err = signature.NewSigner(s.cfg.Algorithm, seed); err == nil {
			break
		}
	}
	return seed, signer, err
}

// destroy removes the private halves of a tenant; SQLite overwrites what is deleted.
func destroy(tx *gorm.DB, tenant string) error {
	if database.IsSQLite(tx) {
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	return tx.Where("tenant = ?", tenant).Delete(&seedRow{}).Error
}

func (s *Store) reload(ctx context.Context) error {
	if err := s.public.Load(ctx); err != nil {
		return fault.Wrap(fmt.Errorf("read the signing keys: %w", err), fault.CodeDatabaseUnavailable)
	}
	return nil
}
