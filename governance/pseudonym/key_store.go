package pseudonym

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// keyGrace is how long an unused key outlives its rotation: a replica whose clock is behind may still use it for new values.
const keyGrace = 24 * time.Hour

// maxKeys bounds the cached data keys. Beyond it the cache is cleared.
const maxKeys = 10_000

// keyStore holds the data keys of tenants. Keys derived from the master key wrap them.
type keyStore struct {
	store   tables
	suite   seal.Suite
	rotate  time.Duration
	masters map[seal.Suite][]byte

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
	wrapped    []byte
}

func newKeyStore(cfg Config, keys *keyring.Ring, s tables) *keyStore {
	return &keyStore{
		store: s, suite: cfg.Suite, rotate: cfg.RotateKeys, latest: map[string]dataKey{}, all: map[string]dataKey{},
		masters: map[seal.Suite][]byte{
			seal.Intl: keys.Derive("vault/key/v1"), seal.GM: keys.Derive("vault/key/sm4/v1")[:seal.GM.KeySize()],
		},
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
		if w, err = d.create(tenant, now); err != nil {
			return dataKey{}, err
		}
		if err := d.store.addKey(ctx, w); err != nil {
			return dataKey{}, err
		}
	}
	return d.take(w, func(k dataKey) { d.latest[tenant] = k })
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
	return d.take(w, func(dataKey) {})
}

// take unwraps a key and caches it; also runs under the lock.
func (d *keyStore) take(w wrappedKey, also func(dataKey)) (dataKey, error) {
	k, err := d.unwrap(w)
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

func (d *keyStore) create(tenant string, now time.Time) (wrappedKey, error) {
	w := wrappedKey{id: hex.EncodeToString(seal.Random(16)), tenant: tenant, suite: d.suite, created: now.UnixMicro()}
	master, err := seal.NewKey(d.suite, d.masters[d.suite])
	if err != nil {
		return wrappedKey{}, fmt.Errorf("make a key: %w", err)
	}
	w.wrapped = master.Seal(seal.Random(d.suite.KeySize()), w.additionalData())
	return w, nil
}

func (d *keyStore) unwrap(w wrappedKey) (dataKey, error) {
	master, err := seal.NewKey(w.suite, d.masters[w.suite])
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	raw, err := master.Open(w.wrapped, w.additionalData())
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: it was changed, or the master key is another one", w.id)
	}
	key, err := seal.NewKey(w.suite, raw)
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	return dataKey{w.id, time.UnixMicro(w.created), key}, nil
}

// additionalData binds a wrapped key to its id, tenant, suite and time (AEAD additional data).
func (w wrappedKey) additionalData() []byte {
	return seal.Label("vault/key/v1", w.id, w.tenant, string(w.suite), strconv.FormatInt(w.created, 10))
}

// deleteUnused deletes the keys that no value uses and no new value will get.
func (d *keyStore) deleteUnused(ctx context.Context, now time.Time) error {
	return d.store.dropKeys(ctx, now.Add(-d.rotate-keyGrace).UnixMicro())
}
