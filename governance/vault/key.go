package vault

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

// keySlack is how much longer than for new values an unused key stays: the clock of a replica that still gives it to values may be behind.
const keySlack = 24 * time.Hour

// maxKeys bounds the data keys in memory. Beyond it all are forgotten, and asked of the database again.
const maxKeys = 10_000

// dataKeys are the keys of tenants. Each is stored wrapped by a key that is derived from the master key.
type dataKeys struct {
	store   store
	suite   seal.Suite
	rotate  time.Duration
	masters map[seal.Suite][]byte

	mu     sync.Mutex         // guards what follows; nobody holds it while the database is asked
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

func newDataKeys(cfg Config, keys *keyring.Ring, s store) *dataKeys {
	return &dataKeys{
		store: s, suite: cfg.Suite, rotate: cfg.RotateKeys, latest: map[string]dataKey{}, all: map[string]dataKey{},
		masters: map[seal.Suite][]byte{
			seal.Intl: keys.Derive("vault/key/v1"), seal.GM: keys.Derive("vault/key/sm4/v1")[:seal.GM.KeySize()],
		},
	}
}

// newest returns the key for a tenant's new values, and makes one if there is none of this suite that is young enough. Two callers, on one replica
// or two, may make one each: every value names its own.
func (d *dataKeys) newest(ctx context.Context, tenant string, now time.Time) (dataKey, error) {
	if k, ok := d.known(d.latest, tenant); ok && now.Sub(k.created) < d.rotate {
		return k, nil
	}
	w, found, err := d.store.newestKey(ctx, tenant, d.suite, now.Add(-d.rotate).UnixMicro())
	if err != nil {
		return dataKey{}, err
	}
	if !found {
		if w, err = d.make(tenant, now); err != nil {
			return dataKey{}, err
		}
		if err := d.store.addKey(ctx, w); err != nil {
			return dataKey{}, err
		}
	}
	k, err := d.unwrap(w)
	if err != nil {
		return dataKey{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remember(k)
	d.latest[tenant] = k
	return k, nil
}

// byID returns the key of a tenant that a value names. Callers at the same time may all read it.
func (d *dataKeys) byID(ctx context.Context, tenant, id string) (dataKey, error) {
	if k, ok := d.known(d.all, id); ok {
		return k, nil
	}
	w, err := d.store.key(ctx, tenant, id)
	if err != nil {
		return dataKey{}, err
	}
	k, err := d.unwrap(w)
	if err != nil {
		return dataKey{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remember(k)
	return k, nil
}

func (d *dataKeys) known(in map[string]dataKey, name string) (dataKey, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	k, ok := in[name]
	return k, ok
}

// remember needs mu.
func (d *dataKeys) remember(k dataKey) {
	if len(d.all) >= maxKeys {
		clear(d.all)
		clear(d.latest)
	}
	d.all[k.id] = k
}

func (d *dataKeys) make(tenant string, now time.Time) (wrappedKey, error) {
	w := wrappedKey{id: hex.EncodeToString(seal.Random(16)), tenant: tenant, suite: d.suite, created: now.UnixMicro()}
	master, err := seal.NewKey(d.suite, d.masters[d.suite])
	if err != nil {
		return wrappedKey{}, fmt.Errorf("make a key: %w", err)
	}
	w.wrapped = master.Seal(seal.Random(d.suite.KeySize()), w.label())
	return w, nil
}

func (d *dataKeys) unwrap(w wrappedKey) (dataKey, error) {
	master, err := seal.NewKey(w.suite, d.masters[w.suite])
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	raw, err := master.Open(w.wrapped, w.label())
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: it was changed, or the master key is another one", w.id)
	}
	key, err := seal.NewKey(w.suite, raw)
	if err != nil {
		return dataKey{}, fmt.Errorf("unwrap key %s: %w", w.id, err)
	}
	return dataKey{w.id, time.UnixMicro(w.created), key}, nil
}

// label binds a wrapped key to everything that is said of it.
func (w wrappedKey) label() []byte {
	return seal.Label("vault/key/v1", w.id, w.tenant, string(w.suite), strconv.FormatInt(w.created, 10))
}

// drop removes the keys that no value needs and none will get.
func (d *dataKeys) drop(ctx context.Context, now time.Time) error {
	return d.store.dropKeys(ctx, now.Add(-d.rotate-keySlack).UnixMicro())
}
