package pseudonym

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// keyGrace is how long an unused key outlives its rotation: a replica whose clock is behind may still use it for new values.
const keyGrace = 24 * time.Hour

// maxKeys bounds the cached data keys. Beyond it the cache is cleared.
const maxKeys = 10_000

// keyStore holds the data keys of tenants, each wrapped under the epoch that its row names.
type keyStore struct {
	store  tables
	suite  seal.Suite
	rotate time.Duration
	wrap   *wrapkey.Keys

	mu     sync.Mutex         // guards what follows; never held during a query
	latest map[string]dataKey // by tenant
	all    map[string]dataKey // by id
}

type dataKey struct {
	id      string
	created time.Time
	key     seal.Key
}

// wrappedKey is a data key as it is stored.
type wrappedKey struct {
	id, tenant string
	suite      seal.Suite
	created    int64
	epoch      int64
	wrapped    []byte
}

func newKeyStore(cfg Config, keys *keyring.Ring, s tables) *keyStore {
	return &keyStore{store: s, suite: cfg.Suite, rotate: cfg.RotateKeys, wrap: wrappingKeys(keys), latest: map[string]dataKey{}, all: map[string]dataKey{}}
}

func wrappingKeys(keys *keyring.Ring) *wrapkey.Keys {
	return wrapkey.New(keys, "vault/key/v1", "vault/key/sm4/v1")
}

// Wrapped are the data keys as a rotation of the wrapping keys sees them.
func Wrapped(keys *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[keyRow]{
		Kind: "vault_keys", Keys: wrappingKeys(keys), Table: keyRow{}.TableName(), Sealed: "wrapped", Columns: keyColumns(), Limit: 200,
		Label: func(r keyRow) []byte { return r.key().additionalData() },
		Row:   func(r keyRow) (string, wrapkey.Envelope) { return r.ID, r.key().envelope() },
	}
}

// newest returns the key for a tenant's new values, and creates one if none of this suite is young enough. Concurrent callers may create one
// each: every value names its own key.
func (d *keyStore) newest(ctx context.Context, tenant string, now time.Time) (dataKey, error) {
	if k, ok := d.cached(d.latest, tenant); ok && now.Sub(k.created) < d.rotate {
		return k, nil
	}
	w, found, err := d.store.newestKey(ctx, tenant, d.suite, now.Add(-d.rotate).UnixMicro())
	if err != nil {
		return dataKey{}, err
	}
	if !found {
		if w, err = d.create(ctx, tenant, now); err != nil {
			return dataKey{}, err
		}
	}
	return d.take(ctx, w, func(k dataKey) { d.latest[tenant] = k })
}

// byID returns the key that a value names. Concurrent callers may all read it.
func (d *keyStore) byID(ctx context.Context, tenant, id string) (dataKey, error) {
	if k, ok := d.cached(d.all, id); ok {
		return k, nil
	}
	w, err := d.store.key(ctx, tenant, id)
	if err != nil {
		return dataKey{}, err
	}
	return d.take(ctx, w, func(dataKey) {})
}

// take unwraps a key and caches it; also runs under the lock.
func (d *keyStore) take(ctx context.Context, w wrappedKey, also func(dataKey)) (dataKey, error) {
	k, err := d.unwrap(ctx, w)
	if err != nil {
		return dataKey{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cache(k)
	also(k)
	return k, nil
}

func (d *keyStore) cached(in map[string]dataKey, name string) (dataKey, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := in[name]
	return k, ok
}

// cache adds a key. The caller holds mu.
func (d *keyStore) cache(k dataKey) {
	if len(d.all) >= maxKeys {
		clear(d.all)
		clear(d.latest)
	}
	d.all[k.id] = k
}

// forget removes keys from the cache that are no longer stored.
func (d *keyStore) forget(ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		delete(d.all, id)
	}
	maps.DeleteFunc(d.latest, func(_ string, k dataKey) bool { return slices.Contains(ids, k.id) })
}

// create makes a key and stores it, in one transaction with the choice of the epoch that wraps it.
func (d *keyStore) create(ctx context.Context, tenant string, now time.Time) (wrappedKey, error) {
	w := wrappedKey{id: hex.EncodeToString(seal.Random(16)), tenant: tenant, suite: d.suite, created: now.UnixMicro()}
	err := d.store.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		e, err := d.wrap.Seal(tx, d.suite, seal.Random(d.suite.KeySize()), w.additionalData())
		if err != nil {
			return err
		}
		w.epoch, w.wrapped = e.Epoch, e.Sealed
		return addKey(tx, w)
	})
	if err != nil {
		return wrappedKey{}, fmt.Errorf("make a key: %w", err)
	}
	return w, nil
}

func (d *keyStore) unwrap(ctx context.Context, w wrappedKey) (dataKey, error) {
	raw, err := d.wrap.Open(d.store.db.WithContext(ctx), w.envelope(), w.additionalData())
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	key, err := seal.NewKey(w.suite, raw)
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	return dataKey{w.id, time.UnixMicro(w.created), key}, nil
}

func (w wrappedKey) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: w.epoch, Suite: w.suite, Sealed: w.wrapped}
}

// additionalData binds a wrapped key to its id, tenant, suite and time (AEAD additional data).
func (w wrappedKey) additionalData() []byte {
	return seal.Label("vault/key/v1", w.id, w.tenant, string(w.suite), strconv.FormatInt(w.created, 10))
}

// deleteUnused deletes the keys that no value uses and no new value will get.
func (d *keyStore) deleteUnused(ctx context.Context, now time.Time) error {
	return d.store.dropKeys(ctx, now.Add(-d.rotate-keyGrace).UnixMicro())
}
