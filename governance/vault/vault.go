// Package vault is a leaf that keeps the values of pseudonyms, encrypted, for as long as a conversation lives, so that whoever may see a
// value again can: after the request, on any replica, after a restart.
//
// What [Vault.Store] has taken is durable when it returns, and storing it again changes nothing. If it fails, nothing may be assumed: the values
// may be there or not, and the caller refuses what it was about to do. Callers at the same time share a transaction.
//
// A value is sealed under a data key of its tenant, which the master key wraps, and bound to its tenant, scope, code and class: a row that is
// moved opens nowhere. Codes, scopes and the names that callers give their conversations are stored as keyed digests, so that the tables tell
// no more than how many values of which class a tenant holds.
//
// The row of a value is found by its entry, a keyed digest of scope, code, class and value: it says whether a value is there already, which its
// ciphertext, another one each time, cannot, and without a key being unwrapped; and it keeps two values of one code, which two requests may bring,
// in rows of their own, so that neither is lost or shown for the other. Scopes have different digests of one value, so that nobody who reads the
// tables learns that two conversations are about the same person.
//
// All values of a scope live equally long: each turn that brings one prolongs them, and [Vault.Find] shows none whose time is over, swept or
// not. What a scope and a tenant may hold is bounded; a scope that is full refuses more and loses nothing.
//
// A scope knows who took part in it, by digest, so that a [Removal] finds all that is kept of a person. What a replica remembers to be stored it
// trusts for a moment only, in which it looks whether somebody erased: a removal waits that long before it is over, so a turn that begins behind
// it is stored anew everywhere. What a turn brings that began before the removal is not stored behind it.
package vault

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

// Config bounds the vault. Zero values mean the defaults named at each field.
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

// Turn is what one request wants kept.
type Turn struct {
	Tenant string
	Scope  string        // the conversation or the request, as pseudonyms are made from it
	Name   string        // what the caller calls the conversation; "" if it has no name
	Keep   time.Duration // from now on
	Values []Value
	// Subject is the digest of the person who takes part with this turn; "" is somebody unknown, whom no removal of a person finds.
	Subject string
	// Began is when the turn did; zero means when it is stored.
	Began Moment
}

// Moment stands between erasures: those up to it are over. Its zero value is no moment.
type Moment struct {
	generation int64
	known, set bool // not known: an erasure may have been that this replica has not noticed
}

// Vault stores values. It is safe for concurrent use.
type Vault struct {
	cfg     Config
	store   store
	keys    *dataKeys
	digests []byte // key of every digest here
	metrics *metrics
	log     *slog.Logger
	now     func() time.Time
	elapsed func() time.Time // as now, but no test moves it: how long ago this process looked is no matter of the date
	settle  time.Duration    // how long an erasure waits for other replicas: trust

	mu         sync.Mutex // guards what follows
	queue      []*pending
	writing    bool
	known      map[digest]*knownScope
	entries    int       // in known
	generation int64     // of which known is
	looked     time.Time // when the database last said so
	writers    sync.WaitGroup
}

const (
	// trust is for how long a replica believes what it remembers without looking; what it looks for every so often is whether to forget it.
	trust = 1500 * time.Millisecond
	look  = trust / 3
)

type digest [16]byte

func (d digest) String() string { return hex.EncodeToString(d[:]) }

// knownScope is what this process knows to be stored.
type knownScope struct {
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
	sealed  []sealed // the same, once they are
	err     error    // why this turn was left out of a transaction that went well
	erased  bool     // since it began: it was left out, and nobody is to learn it
	done    chan error
}

const (
	maxQueue = 4096    // turns that may wait
	maxBatch = 2048    // values of turns that share a transaction
	maxKnown = 400_000 // entries in memory; beyond it all are forgotten, and asked of the database again
)

// New returns a vault over a migrated database. reg may be nil.
func New(cfg Config, s Store, keys *keyring.Ring, log *slog.Logger, reg prometheus.Registerer) (*Vault, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	cfg = cfg.WithDefaults()
	v := &Vault{
		cfg: cfg, store: store(s), digests: keys.Derive("vault/digest/v1"), metrics: newMetrics(reg),
		log: log.With(slog.String("component", "vault")), now: time.Now, elapsed: time.Now, settle: trust, known: map[digest]*knownScope{},
	}
	v.keys = newDataKeys(cfg, keys, v.store)
	return v, nil
}

// Close waits for the writes in progress.
func (v *Vault) Close() error {
	v.writers.Wait()
	return nil
}

// digest is a keyed digest of parts, of what kind says.
func (v *Vault) digest(kind string, parts ...string) digest {
	m := hmac.New(sha256.New, v.digests)
	m.Write(seal.Label(append([]string{kind}, parts...)...))
	var d digest
	copy(d[:], m.Sum(nil))
	return d
}

func (v *Vault) code(scope digest, code string) digest {
	return v.digest("code", string(scope[:]), code)
}

// Store keeps the values of a turn until its time is over, and those of the turns before it. Errors: CodeVaultFull, CodeVaultUnavailable,
// and that of ctx, after which the values may be stored or not.
func (v *Vault) Store(ctx context.Context, t Turn) error {
	p := v.pend(t)
	if v.stored(p) {
		v.metrics.values.WithLabelValues("known").Add(float64(len(p.entries)))
		return nil
	}
	if err := v.enqueue(p); err != nil {
		return v.refused(err)
	}
	late := time.NewTimer(2 * v.cfg.Timeout) // of a queue in front of a database that hangs
	defer late.Stop()
	select {
	case err := <-p.done:
		return v.refused(err)
	case <-late.C:
		return v.refused(fault.Wrap(errors.New("values wait for too long"), fault.CodeVaultUnavailable))
	case <-ctx.Done():
		return fmt.Errorf("store values: %w", ctx.Err())
	}
}

// pend prepares a turn.
func (v *Vault) pend(t Turn) *pending {
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

// stored reports whether all of p is known to be there, and for long enough: a time is prolonged when a quarter of it is over.
func (v *Vault) stored(p *pending) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	k := v.known[p.scope]
	if k == nil || !v.trusted() || p.turn.Began.before(v.generation) {
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

// trusted reports whether the database said lately that nobody has erased. It needs mu.
func (v *Vault) trusted() bool { return v.elapsed().Sub(v.looked) < trust }

// Mark returns the moment of a turn that begins now.
func (v *Vault) Mark() Moment {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Moment{generation: v.generation, known: v.trusted(), set: true}
}

// before reports whether there was an erasure since.
func (m Moment) before(generation int64) bool { return m.set && m.generation < generation }

// enqueue hands p to the writer, and starts it if it rests.
func (v *Vault) enqueue(p *pending) error {
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

// write stores what waits, batch by batch, until nothing does.
func (v *Vault) write() {
	for batch := v.next(); len(batch) > 0; batch = v.next() {
		began := v.now()
		at := v.elapsed()
		generation, fresh, err := v.commit(batch)
		v.metrics.commits.Observe(v.now().Sub(began).Seconds())
		if err != nil {
			v.log.Error("values could not be stored; their requests are refused", slog.Int("requests", len(batch)), slog.Any("error", err))
			err = fault.Wrap(err, fault.CodeVaultUnavailable)
		} else {
			v.metrics.values.WithLabelValues("stored").Add(float64(fresh))
			v.learn(batch, generation, at)
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
func (v *Vault) next() []*pending {
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

// commit seals and stores a batch, and returns of which generation that is. Nobody's departure ends it, since others share it.
func (v *Vault) commit(batch []*pending) (generation, fresh int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), v.cfg.Timeout)
	defer cancel()
	for _, p := range batch {
		k, err := v.keys.newest(ctx, p.turn.Tenant, v.now())
		if err != nil { // of this tenant: others are none the worse for it
			v.log.Error("a tenant's values cannot be encrypted; its requests are refused", slog.String("tenant", p.turn.Tenant), slog.Any("error", err))
			p.err = fault.Wrap(err, fault.CodeVaultUnavailable)
			continue
		}
		for i, value := range p.turn.Values {
			code := v.code(p.scope, value.Code)
			b := k.key.Seal([]byte(value.Text.Reveal()), place(p.turn.Tenant, p.scope, code, value.Class))
			p.sealed = append(p.sealed, sealed{p.entries[i], code, value.Class, k.id, b})
		}
	}
	return v.store.put(ctx, batch, v.now(), v.cfg)
}

// place is what a sealed value is bound to.
func place(tenant string, scope, code digest, class string) []byte {
	return seal.Label("vault/value/v1", tenant, string(scope[:]), string(code[:]), class)
}

// learn remembers what a batch has stored, unless there was an erasure since. The database was asked for the generation after at.
func (v *Vault) learn(batch []*pending, generation int64, at time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.saw(generation, at)
	if generation < v.generation {
		return
	}
	if v.entries >= maxKnown {
		clear(v.known)
		v.entries = 0
	}
	now := v.now()
	for _, p := range batch {
		if p.err != nil || p.erased {
			continue
		}
		k := v.known[p.scope]
		if k == nil {
			k = &knownScope{entries: map[digest]struct{}{}, subjects: map[string]struct{}{}}
			v.known[p.scope] = k
		}
		k.until = now.Add(p.turn.Keep)
		before := len(k.entries) + len(k.subjects)
		for _, c := range p.entries {
			k.entries[c] = struct{}{}
		}
		k.subjects[p.turn.Subject] = struct{}{}
		v.entries += len(k.entries) + len(k.subjects) - before
	}
}

// saw notes which generation the database was at after a moment, and forgets what is of an earlier one. It needs mu.
func (v *Vault) saw(generation int64, at time.Time) {
	if generation > v.generation {
		clear(v.known)
		v.entries, v.generation = 0, generation
	}
	if generation == v.generation && at.After(v.looked) {
		v.looked = at
	}
}

// look asks the database whether somebody has erased.
func (v *Vault) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	at := v.elapsed()
	generation, err := v.store.generation(ctx)
	if err != nil {
		return fmt.Errorf("look for erasures: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.saw(generation, at)
	return nil
}

// forget drops what is known of scopes that are gone.
func (v *Vault) forget(scopes []digest) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range scopes {
		if k := v.known[s]; k != nil {
			v.entries -= len(k.entries) + len(k.subjects)
			delete(v.known, s)
		}
	}
}

// refused counts an error on its way to the caller.
func (v *Vault) refused(err error) error {
	if err != nil && !errors.Is(err, context.Canceled) { // nobody was refused who has left
		v.metrics.refusals.WithLabelValues(string(fault.Public(err).Code())).Inc()
	}
	return err
}
