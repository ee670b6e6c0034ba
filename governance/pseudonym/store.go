// Package pseudonym is a leaf: the pseudonym store. It keeps the values behind pseudonyms, encrypted, for as long as a conversation lives.
// Authorised people can see a value again after the request, on any replica and after a restart.
//
// [Store.Store] is durable when it returns, and it is idempotent. After an error the values may be stored or not, and the caller refuses its
// request. Concurrent callers share a transaction.
//
// A data key of the tenant seals each value, and the master key wraps the data key. The ciphertext is bound to tenant, scope, code and class,
// so a row that was moved does not decrypt. Codes, scopes and conversation names are stored as keyed digests: the tables reveal only how many
// values of which class a tenant holds.
//
// The key of a row is its entry: a keyed digest of scope, code, class and value. The entry shows whether a value is stored already, without
// unwrapping a key. Two requests may bring different values with one code; their entries differ, so each has its own row. The scope is part of
// the digest, so nobody who reads the tables learns that two conversations are about the same person.
//
// All values of a scope expire together, and each turn that stores one extends them. [Store.Find] never returns expired values, swept or not.
// The number of values per scope and per tenant is bounded. A full scope refuses new values and loses none.
//
// A scope records its participants by digest, so that an [Erasure] finds all values of a person. Each replica caches what it knows to be
// stored, and trusts the cache only for cacheTTL, in which it checks for erasures. An erasure waits that long before it ends, so every replica
// stores the values of later turns again. Values of a turn that began before the erasure are not stored after it.
package pseudonym

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
)

// Config bounds the store. Zero values mean the defaults named at each field.
type Config struct {
	Suite      seal.Suite    `koanf:"suite"`       // of new keys: "intl" (AES-256-GCM) or "gm" (SM4-GCM); intl
	PerSession int64         `koanf:"per_session"` // values that one conversation may hold; 10000
	PerTenant  int64         `koanf:"per_tenant"`  // values that a tenant may hold; 1000000
	Timeout    time.Duration `koanf:"timeout"`     // of a write or a look-up; 5s
	Sweep      time.Duration `koanf:"sweep"`       // between removals of what is past its time; 10m
	RotateKeys time.Duration `koanf:"rotate_keys"` // age at which a tenant gets a new key for new values; 720h
}

// WithDefaults fills the zero values.
func (c Config) WithDefaults() Config {
	if c.Suite == "" {
		c.Suite = seal.Intl
	}
	if c.PerSession == 0 {
		c.PerSession = 10_000
	}
	if c.PerTenant == 0 {
		c.PerTenant = 1_000_000
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Timeout, 5 * time.Second}, {&c.Sweep, 10 * time.Minute}, {&c.RotateKeys, 720 * time.Hour}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var errs []error
	if !c.Suite.Known() {
		errs = append(errs, fmt.Errorf("suite: %q is none; want %s or %s", c.Suite, seal.Intl, seal.GM))
	}
	if c.PerSession < 1 || c.PerTenant < c.PerSession {
		errs = append(errs, errors.New("per_session and per_tenant: must be positive, and per_tenant not the smaller one"))
	}
	if c.Timeout < 0 || c.Sweep < 0 {
		errs = append(errs, errors.New("timeout and sweep: must not be negative"))
	}
	if c.RotateKeys < time.Hour {
		errs = append(errs, errors.New("rotate_keys: must be at least 1h"))
	}
	return errors.Join(errs...)
}

// Value is what a pseudonym stands for.
type Value struct {
	Code  string // of the pseudonym
	Class string
	Text  keyring.Secret
}

// Turn is the values that one request stores.
type Turn struct {
	Tenant string
	Scope  string        // the conversation or the request, as pseudonyms are made from it
	Name   string        // the caller's name of the conversation; "" if it has none
	Keep   time.Duration // from now on
	Values []Value
	// Subject is the digest of the person who takes part with this turn; "" is an unknown person, whom no erasure of a person finds.
	Subject string
	// Began is the epoch in which the turn began; zero means that in which it is stored.
	Began Epoch
}

// Epoch counts erasures: a turn that began in it has seen all erasures up to its generation. The zero value is unset.
type Epoch struct {
	generation int64
	known, set bool // not known: an erasure may have happened that this replica has not noticed
}

// Store stores values. It is safe for concurrent use.
type Store struct {
	cfg        Config
	store      tables
	keys       *keyStore
	digests    []byte // key of every digest here
	metrics    *metrics
	log        *slog.Logger
	now        func() time.Time
	monotonic  func() time.Time // as now, but no test moves it: the age of the cache does not depend on the date
	settleTime time.Duration    // how long an erasure waits for other replicas: cacheTTL

	mu            sync.Mutex // guards what follows
	queue         []*pending
	writing       bool
	cache         map[digest]*cachedScope
	cachedEntries int       // in known
	generation    int64     // of the cache
	checkedAt     time.Time // when the database last confirmed the generation
	writers       sync.WaitGroup
}

const (
	// cacheTTL is how long a replica trusts its cache without checking for erasures.
	cacheTTL             = 1500 * time.Millisecond
	erasureCheckInterval = cacheTTL / 3
)

type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// cachedScope lists what this process knows to be stored.
type cachedScope struct {
	until    time.Time
	entries  map[digest]struct{}
	subjects map[string]struct{}
}

// pending is a turn on its way into the database.
type pending struct {
	turn    Turn
	scope   digest
	name    []byte
	entries []digest // of the values
	sealed  []sealed // the same, sealed
	err     error    // why this turn is not part of a committed transaction
	erased  bool     // since the turn began; its values are dropped silently
	done    chan error
}

const (
	maxQueue  = 4096    // turns that may wait
	maxBatch  = 2048    // values of turns that share a transaction
	maxCached = 400_000 // cached entries; beyond it the cache is cleared
)

// New returns a store over a migrated database. reg may be nil.
func New(cfg Config, s Tables, keys *keyring.Ring, log *slog.Logger, reg prometheus.Registerer) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("pseudonym store: %w", err)
	}
	cfg = cfg.WithDefaults()
	v := &Store{
		cfg: cfg, store: tables(s), digests: keys.Derive("vault/digest/v1"), metrics: newMetrics(reg),
		log: log.With(slog.String("component", "pseudonym")), now: time.Now, monotonic: time.Now, settleTime: cacheTTL, cache: map[digest]*cachedScope{},
	}
	v.keys = newKeyStore(cfg, keys, v.store)
	return v, nil
}

// Close waits for the writes in progress.
func (v *Store) Close() error {
	v.writers.Wait()
	return nil
}

// digest returns a keyed digest of parts; kind separates the domains.
func (v *Store) digest(kind string, parts ...string) digest {
	m := hmac.New(sha256.New, v.digests)
	m.Write(seal.Label(append([]string{kind}, parts...)...))
	var d digest
	copy(d[:], m.Sum(nil))
	return d
}

func (v *Store) codeDigest(scope digest, codeDigest string) digest {
	return v.digest("code", string(scope[:]), codeDigest)
}

// Store stores the values of a turn until they expire, and extends those of earlier turns. Errors: CodeVaultFull, CodeVaultUnavailable,
// and that of ctx, after which the values may be stored or not.
func (v *Store) Store(ctx context.Context, t Turn) error {
	p := v.prepare(t)
	if v.alreadyStored(p) {
		v.metrics.values.WithLabelValues("known").Add(float64(len(p.entries)))
		return nil
	}
	if err := v.enqueue(p); err != nil {
		return v.countRefusal(err)
	}
	late := time.NewTimer(2 * v.cfg.Timeout) // of a queue in front of a database that hangs
	defer late.Stop()
	select {
	case err := <-p.done:
		return v.countRefusal(err)
	case <-late.C:
		return v.countRefusal(fault.Wrap(errors.New("values wait for too long"), fault.CodeVaultUnavailable))
	case <-ctx.Done():
		return fmt.Errorf("store values: %w", ctx.Err())
	}
}

// prepare prepares a turn.
func (v *Store) prepare(t Turn) *pending {
	p := &pending{turn: t, scope: v.digest("scope", t.Tenant, t.Scope), done: make(chan error, 1), entries: make([]digest, len(t.Values))}
	for i, value := range t.Values {
		p.entries[i] = v.digest("entry", string(p.scope[:]), value.Code, value.Class, value.Text.Reveal())
	}
	if t.Name != "" {
		name := v.digest("name", t.Tenant, t.Name)
		p.name = name[:]
	}
	return p
}

// alreadyStored reports whether the cache shows all of p as stored for long enough. Expiry is extended when a quarter of it has passed.
func (v *Store) alreadyStored(p *pending) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.cache[p.scope]
	if k == nil || !v.cacheFresh() || p.turn.Began.olderThan(v.generation) {
		return false
	}
	if _, ok := k.subjects[p.turn.Subject]; !ok {
		return false
	}
	if short := p.turn.Keep - k.until.Sub(v.now()); short.Abs() > p.turn.Keep/4 {
		return false
	}
	for _, c := range p.entries {
		if _, ok := k.entries[c]; !ok {
			return false
		}
	}
	return true
}

// cacheFresh reports whether the database confirmed recently that nothing was erased. The caller holds mu.
func (v *Store) cacheFresh() bool { return v.monotonic().Sub(v.checkedAt) < cacheTTL }

// Epoch returns the epoch of a turn that begins now.
func (v *Store) Epoch() Epoch {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Epoch{generation: v.generation, known: v.cacheFresh(), set: true}
}

// olderThan reports whether something was erased since.
func (m Epoch) olderThan(generation int64) bool { return m.set && m.generation < generation }

// enqueue hands p to the writer, and starts the writer if it is idle.
func (v *Store) enqueue(p *pending) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.queue) >= maxQueue {
		return fault.Wrap(fmt.Errorf("%d turns wait", len(v.queue)), fault.CodeVaultUnavailable)
	}
	v.queue = append(v.queue, p)
	if !v.writing {
		v.writing = true
		v.writers.Go(v.write)
	}
	return nil
}

// write stores the queue batch by batch until it is empty.
func (v *Store) write() {
	for batch := v.next(); len(batch) > 0; batch = v.next() {
		began := v.now()
		at := v.monotonic()
		generation, fresh, err := v.commit(batch)
		v.metrics.commits.Observe(v.now().Sub(began).Seconds())
		if err != nil {
			v.log.Error("values could not be stored; their requests are refused", slog.Int("requests", len(batch)), slog.Any("error", err))
			err = fault.Wrap(err, fault.CodeVaultUnavailable)
		} else {
			v.metrics.values.WithLabelValues("stored").Add(float64(fresh))
			v.cacheStored(batch, generation, at)
		}
		for _, p := range batch {
			if err == nil {
				p.done <- p.err
			} else {
				p.done <- err
			}
		}
	}
}

// next takes a batch off the queue; an empty one ends the writer.
func (v *Store) next() []*pending {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, values := 0, 0
	for n < len(v.queue) && (n == 0 || values+len(v.queue[n].entries) <= maxBatch) {
		values += len(v.queue[n].entries)
		n++
	}
	batch := v.queue[:n:n]
	v.queue = v.queue[n:]
	if n == 0 {
		v.queue, v.writing = nil, false
	}
	return batch
}

// commit seals and stores a batch and returns its generation. A caller that leaves does not end it, since others share it. Where another replica
// has deleted a key that this one remembers, it seals once more, under keys that are there.
func (v *Store) commit(batch []*pending) (generation, fresh int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), v.cfg.Timeout)
	defer cancel()
	v.seal(ctx, batch)
	generation, fresh, err = v.store.put(ctx, batch, v.now(), v.cfg)
	var gone keysGoneError
	if errors.As(err, &gone) {
		v.keys.forget(gone)
		v.seal(ctx, batch)
		generation, fresh, err = v.store.put(ctx, batch, v.now(), v.cfg)
	}
	return generation, fresh, err
}

// seal seals the values of a batch, each under the newest key of its tenant.
func (v *Store) seal(ctx context.Context, batch []*pending) {
	for _, p := range batch {
		p.sealed = p.sealed[:0]
		k, err := v.keys.newest(ctx, p.turn.Tenant, v.now())
		if err != nil { // of this tenant only
			v.log.Error("a tenant's values cannot be encrypted; its requests are refused", slog.String("tenant", p.turn.Tenant), slog.Any("error", err))
			p.err = fault.Wrap(err, fault.CodeVaultUnavailable)
			continue
		}
		for i, value := range p.turn.Values {
			code := v.codeDigest(p.scope, value.Code)
			b := k.key.Seal([]byte(value.Text.Reveal()), additionalData(p.turn.Tenant, p.scope, code, value.Class))
			p.sealed = append(p.sealed, sealed{p.entries[i], code, value.Class, k.id, b})
		}
	}
}

// additionalData returns what a sealed value is bound to (AEAD additional data).
func additionalData(tenant string, scope, code digest, class string) []byte {
	return seal.Label("vault/value/v1", tenant, string(scope[:]), string(code[:]), class)
}

// cacheStored caches what a batch has stored, unless something was erased since. The generation was read after at.
func (v *Store) cacheStored(batch []*pending, generation int64, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observeGeneration(generation, at)
	if generation < v.generation {
		return
	}
	if v.cachedEntries >= maxCached {
		clear(v.cache)
		v.cachedEntries = 0
	}
	now := v.now()
	for _, p := range batch {
		if p.err != nil || p.erased {
			continue
		}
		k := v.cache[p.scope]
		if k == nil {
			k = &cachedScope{entries: map[digest]struct{}{}, subjects: map[string]struct{}{}}
			v.cache[p.scope] = k
		}
		k.until = now.Add(p.turn.Keep)
		before := len(k.entries) + len(k.subjects)
		for _, c := range p.entries {
			k.entries[c] = struct{}{}
		}
		k.subjects[p.turn.Subject] = struct{}{}
		v.cachedEntries += len(k.entries) + len(k.subjects) - before
	}
}

// observeGeneration records the database's generation after at, and clears the cache of an earlier one. The caller holds mu.
func (v *Store) observeGeneration(generation int64, at time.Time) {
	if generation > v.generation {
		clear(v.cache)
		v.cachedEntries, v.generation = 0, generation
	}
	if generation == v.generation && at.After(v.checkedAt) {
		v.checkedAt = at
	}
}

// checkErasures reads the generation from the database.
func (v *Store) checkErasures(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	at := v.monotonic()
	generation, err := v.store.generation(ctx)
	if err != nil {
		return fmt.Errorf("look for erasures: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.observeGeneration(generation, at)
	return nil
}

// forgetScopes removes scopes from the cache.
func (v *Store) forgetScopes(scopes []digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range scopes {
		if k := v.cache[s]; k != nil {
			v.cachedEntries -= len(k.entries) + len(k.subjects)
			delete(v.cache, s)
		}
	}
}

// countRefusal counts an error before the caller gets it.
func (v *Store) countRefusal(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) { // a caller who left was not refused
		v.metrics.refusals.WithLabelValues(string(fault.Public(err).Code())).Inc()
	}
	return err
}
