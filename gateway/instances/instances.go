// Package instances keeps the instances of pools that administrators register, drain and remove while the installation runs. What the configuration
// lists is in the same pools and cannot be removed here, only drained and weighed.
//
// A change is in force here at once, and on other replicas within two polls. Requests that run on an instance go on when it is drained or removed;
// its engine is closed after the last one.
//
// A registration says where texts go, so three things bound it: its addresses lie in networks that the configuration lists, checked after name
// resolution at every connection; it names a credential of the configuration and never carries one or the path of one; every change is an
// administrator's, recorded like his others.
package instances

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Config bounds what may be registered. The zero value lets nothing be.
type Config struct {
	// Networks are those in which registered instances may live, such as 10.2.0.0/16; public ones have to be listed, too.
	Networks []string `koanf:"networks"`
	// Keys are the credentials that registrations may name.
	Keys []Key `koanf:"keys"`
}

// Key is a credential for upstreams, by name.
type Key struct {
	Name   string             `koanf:"name"`
	Secret keyring.Credential `koanf:"secret"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	for i, n := range c.Networks {
		if _, err := netip.ParsePrefix(n); err != nil {
			return fmt.Errorf("networks[%d]: %q is no network; write it as 10.2.0.0/16", i, n)
		}
	}
	seen := map[string]bool{}
	for i, k := range c.Keys {
		if k.Name == "" || seen[k.Name] || k.Secret.Reveal() == "" {
			return fmt.Errorf("keys[%d]: name must be set and only once, and secret must be set", i)
		}
		seen[k.Name] = true
	}
	return nil
}

// Spec is an upstream as an administrator registers it.
type Spec struct {
	Pool, Name string  `json:"-"`
	BaseURL    string  `json:"base_url"`
	Dialect    string  `json:"dialect"`
	Key        string  `json:"key,omitempty"` // the name of a credential; "" sends none
	Models     []Model `json:"models"`
	// Place is that of Attributes, as it is stored.
	Place pool.Place `json:"place,omitempty"`

	Attributes pool.Attributes `json:"-"`
}

// Model is a model of an upstream, as far as the upstream does not tell.
type Model struct {
	ID            string `json:"id"`
	Upstream      string `json:"upstream,omitempty"`
	ContextTokens int    `json:"context_tokens,omitempty"`
	EmbedDim      int    `json:"embed_dim,omitempty"`
	Digest        string `json:"digest,omitempty"`
	Precision     string `json:"precision,omitempty"`
	Logprobs      bool   `json:"logprobs,omitempty"`
	Tools         bool   `json:"tools,omitempty"`
	Formats       bool   `json:"formats,omitempty"`
	Sampling      bool   `json:"sampling,omitempty"`
	Seed          bool   `json:"seed,omitempty"`
	Choices       bool   `json:"choices,omitempty"`
	Rerank        bool   `json:"rerank,omitempty"`
}

// Change is what an administrator changes of an instance; nil fields stay.
type Change struct {
	Weight   *int
	Draining *bool
}

// Deps are what the registry works with.
type Deps struct {
	DB    *gorm.DB
	Pools *pool.Set
	// Configured are the members of the pools that the configuration lists, by pool.
	Configured map[string][]pool.Member
	// Open makes the engine of a registration. It connects to nothing.
	Open func(s Spec, networks []string, key keyring.Credential) (engine.Engine, error)
	Log  *slog.Logger
}

// Registry is the instances of all pools. It is safe for concurrent use.
type Registry struct {
	cfg   Config
	deps  Deps
	store store
	now   func() time.Time
	rows  *snapshot.Snapshot[[]row]

	mu      sync.Mutex // guards what follows, and the pools against two changes at once
	last    []row      // that were put into the pools
	scaled  map[string][]pool.Member
	open    map[instanceID]opened
	retired []retired
}

type instanceID struct{ pool, name string }

// opened is the engine of a registration, with the text that it was made from.
type opened struct {
	spec   string
	engine engine.Engine
}

// retired is an engine that gets no new requests.
type retired struct {
	engine   engine.Engine
	instance *pool.Instance // nil if it was in no pool
	at       time.Time
}

// closeAfter is how long a retired engine stays open at least: requests that were routed to it may not have begun.
const closeAfter = time.Minute

// New returns a registry. The pools are those of the configuration until [Registry.Load]. reg may be nil.
func New(cfg Config, poll snapshot.Config, deps Deps, reg prometheus.Registerer) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	deps.Log = deps.Log.With(slog.String("component", "instances"))
	r := &Registry{cfg: cfg, deps: deps, store: store{deps.DB}, now: time.Now, open: map[instanceID]opened{}}
	var err error
	r.rows, err = snapshot.New(poll, snapshot.Source[[]row]{
		Name: "instances", Version: r.store.changes, Load: r.load, Now: func() time.Time { return r.now() },
	}, deps.Log, reg)
	if err != nil {
		return nil, fmt.Errorf("instances: %w", err)
	}
	r.apply(nil)
	return r, nil
}

// Load reads the registrations and puts them into the pools.
func (r *Registry) Load(ctx context.Context) error { return r.rows.Load(ctx) }

// Run follows changes of other replicas until ctx ends, and closes engines whose last request has ended.
func (r *Registry) Run(ctx context.Context) error {
	var following sync.WaitGroup
	following.Go(func() { r.rows.Run(ctx) })
	defer following.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.closeIdle()
		}
	}
}

// Close closes the engines of all registrations.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, o := range r.open {
		errs = append(errs, o.engine.Close())
	}
	for _, o := range r.retired {
		errs = append(errs, o.engine.Close())
	}
	r.open, r.retired = map[instanceID]opened{}, nil
	return errors.Join(errs...)
}

// load is the look of the snapshot: what it read is in the pools when it returns.
func (r *Registry) load(ctx context.Context) ([]row, error) {
	rows, err := r.store.list(ctx)
	if err != nil {
		return nil, err
	}
	if r.apply(rows) {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		r.deps.Pools.Refresh(ctx) // so that nobody waits for the next look before the new ones serve
	}
	return rows, nil
}

// apply puts rows and what is configured into the pools. It reports whether there are engines that nobody has asked yet.
func (r *Registry) apply(rows []row) (fresh bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(rows)
}

// Scale makes members those that a pool has beside what is configured and registered: whoever starts and ends instances of this process calls it, with
// all of them each time. It returns when requests may go to them, and waits for that five seconds at most, and no longer than ctx. Their engines are the caller's to close,
// after the last request. A registration whose name one of them has is not used meanwhile.
func (r *Registry) Scale(ctx context.Context, name string, members []pool.Member) {
	r.mu.Lock()
	if r.scaled == nil {
		r.scaled = map[string][]pool.Member{}
	}
	r.scaled[name] = slices.Clone(members)
	r.put(r.last)
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.deps.Pools.RefreshNew(ctx, name)
}

// put is apply; the caller holds mu.
func (r *Registry) put(rows []row) (fresh bool) {
	r.last = rows
	members := map[string][]pool.Member{}
	for name, all := range r.deps.Configured {
		members[name] = slices.Clone(all)
	}
	for name, all := range r.scaled {
		members[name] = append(members[name], all...)
	}
	before := r.open
	r.open = map[instanceID]opened{}
	for _, row := range rows {
		at := instanceID{row.Pool, row.Name}
		if row.Spec == "" { // of a configured one
			if i := slices.IndexFunc(members[row.Pool], func(m pool.Member) bool { return m.Name == row.Name }); i >= 0 {
				row.override(&members[row.Pool][i].Attributes)
			}
			continue
		}
		if slices.ContainsFunc(r.scaled[row.Pool], func(m pool.Member) bool { return m.Name == row.Name }) {
			r.deps.Log.Error("a registered instance is not used, since one that was started has its name", slog.String("pool", row.Pool), slog.String("instance", row.Name))
			continue
		}
		if err := r.clash(row.Pool, row.Name); err != nil {
			r.deps.Log.Error("a registered instance is not used, since the configuration has its place", slog.String("pool", row.Pool), slog.String("instance", row.Name), slog.Any("error", err))
			continue
		}
		s, err := row.spec()
		o, kept := before[at]
		if !kept || o.spec != row.Spec {
			if err == nil {
				o.engine, err = r.openSpec(s)
			}
			if err != nil { // a configuration that lists less than another replica's
				r.deps.Log.Error("a registered instance cannot be used here", slog.String("pool", row.Pool), slog.String("instance", row.Name), slog.Any("error", err))
				continue
			}
			o.spec, fresh = row.Spec, true
		}
		r.open[at] = o
		members[row.Pool] = append(members[row.Pool], pool.Member{
			Name: row.Name, Kind: pool.KindRemote, Profile: s.Dialect, Engine: o.engine, Attributes: s.Attributes,
		})
	}
	r.retire(before)
	for _, name := range r.deps.Pools.Names() {
		if len(members[name]) == 0 {
			r.deps.Pools.Replace(name, nil)
		}
	}
	for name, all := range members {
		r.deps.Pools.Replace(name, all)
	}
	return fresh
}

// retire notes the engines that are in the pools still and will not be. The caller holds mu.
func (r *Registry) retire(before map[instanceID]opened) {
	for at, o := range before {
		if r.open[at].engine == o.engine {
			continue
		}
		was := retired{engine: o.engine, at: r.now()}
		for _, i := range r.deps.Pools.Instances(at.pool) {
			if i.Engine == o.engine {
				was.instance = i
			}
		}
		r.retired = append(r.retired, was)
	}
}

// closeIdle closes the retired engines that nothing runs on.
func (r *Registry) closeIdle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired = slices.DeleteFunc(r.retired, func(o retired) bool {
		if o.instance != nil && (r.now().Sub(o.at) < closeAfter || o.instance.Status().Running > 0) {
			return false
		}
		if err := o.engine.Close(); err != nil {
			r.deps.Log.Warn("the engine of an instance that was removed could not be closed", slog.Any("error", err))
		}
		return true
	})
}

func (r *Registry) openSpec(s Spec) (engine.Engine, error) {
	var key keyring.Credential
	if s.Key != "" {
		i := slices.IndexFunc(r.cfg.Keys, func(k Key) bool { return k.Name == s.Key })
		if i < 0 {
			return nil, invalid("key", fault.Say("instances.key"))
		}
		key = r.cfg.Keys[i].Secret
	}
	return r.deps.Open(s, r.cfg.Networks, key)
}

// Add registers an instance of a pool, which need not exist before. Errors: CodeInvalidValue and CodeMissing of a field, CodeExists,
// CodeNotAllowed where the configuration lists no networks, CodeDatabaseUnavailable.
func (r *Registry) Add(ctx context.Context, s Spec, by string) error {
	if len(r.cfg.Networks) == 0 {
		return fault.New(fault.CodeConflict, fault.Say("instances.no_networks"))
	}
	if err := r.check(s); err != nil {
		return err
	}
	e, err := r.openSpec(s)
	if err != nil {
		return err
	}
	_ = e.Close() // it was a trial: what is stored is opened by everybody alike
	s.Place = s.Attributes.Place
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("register instance: %w", err)
	}
	now := r.now().UnixMicro()
	a := s.Attributes
	added := row{
		Pool: s.Pool, Name: s.Name, Spec: string(text), Weight: a.Weight, Zone: a.Zone, Roles: strings.Join(a.Roles, ","), CostPerHour: a.CostPerHour,
		Power: string(a.Power), Draining: boolean(a.Draining), CreatedAt: now, CreatedBy: by, UpdatedAt: now,
	}
	if err := r.store.add(ctx, added); err != nil {
		return err
	}
	return r.Load(ctx)
}

// maxModels bounds the models of one registration.
const maxModels = 200

func (r *Registry) check(s Spec) error {
	for _, f := range []struct{ field, value string }{{"pool", s.Pool}, {"name", s.Name}, {"base_url", s.BaseURL}} {
		if f.value == "" {
			return fault.New(fault.CodeMissing, f.field).WithParam(f.field)
		}
	}
	for _, f := range []struct{ field, value string }{{"pool", s.Pool}, {"name", s.Name}} {
		if len(f.value) > 100 || strings.ContainsAny(f.value, "@/\n\r\t ") {
			return invalid(f.field, fault.Say("route.name"))
		}
	}
	if n := len(s.Models); n == 0 || n > maxModels {
		return invalid("models", fault.Say("instances.models", maxModels))
	}
	for i, m := range s.Models {
		if m.ID == "" || len(m.ID) > 200 || m.ContextTokens < 0 || m.EmbedDim < 0 || slices.ContainsFunc(s.Models[:i], func(o Model) bool { return o.ID == m.ID }) {
			return invalid("models", fault.Say("instances.model", i))
		}
	}
	if err := s.Attributes.Validate(); err != nil {
		field, _, _ := strings.Cut(err.Error(), ":")
		return fault.Wrap(err, fault.CodeInvalidValue, field, fault.Say("instances.attribute")).WithParam(field)
	}
	return r.clash(s.Pool, s.Name)
}

// clash refuses a registration whose place the configuration has, be it since it was made. Errors: CodeExists, CodeInvalidValue.
func (r *Registry) clash(poolName, name string) error {
	if _, taken := r.configured(poolName, name); taken {
		return fault.New(fault.CodeExists, fault.Say("thing.instance"), poolName+"/"+name)
	}
	if m, ok := r.configured(poolName, poolName); ok && m.Kind == pool.KindNative { // what is asked of it stays in this process
		return invalid("pool", fault.Say("instances.native"))
	}
	return nil
}

func (r *Registry) configured(poolName, name string) (pool.Member, bool) {
	all := r.deps.Configured[poolName]
	if i := slices.IndexFunc(all, func(m pool.Member) bool { return m.Name == name }); i >= 0 {
		return all[i], true
	}
	return pool.Member{}, false
}

// Change drains an instance, takes it in again or weighs it anew, be it registered or configured. before and after are its attributes. Errors:
// CodeNotFound, CodeInvalidValue, CodeDatabaseUnavailable.
func (r *Registry) Change(ctx context.Context, poolName, name string, c Change) (before, after pool.Attributes, err error) {
	if c.Weight != nil {
		if err := (pool.Attributes{Weight: *c.Weight}).Validate(); err != nil {
			return before, after, fault.Wrap(err, fault.CodeInvalidValue, "weight", fault.Say("instances.attribute")).WithParam("weight")
		}
	}
	m, configured := r.configured(poolName, name)
	err = r.store.change(ctx, poolName, name, configured, r.now().UnixMicro(), func(row *row) {
		if before = row.attributes(); configured {
			before = m.Attributes
			row.override(&before)
		}
		if c.Weight != nil {
			row.Weight = *c.Weight
		}
		if c.Draining != nil {
			row.Draining = boolean(*c.Draining)
		}
		if after = row.attributes(); configured {
			after = m.Attributes
			row.override(&after)
		}
	})
	if err != nil {
		return before, after, err
	}
	return before, after, r.Load(ctx)
}

// Remove takes a registered instance out of its pool. Errors: CodeNotFound, CodeConflict for one of the configuration, CodeDatabaseUnavailable.
func (r *Registry) Remove(ctx context.Context, poolName, name string) error {
	err := r.store.remove(ctx, poolName, name)
	if _, ok := r.configured(poolName, name); ok && fault.Is(err, fault.CodeNotFound) {
		return fault.New(fault.CodeConflict, fault.Say("instances.configured"))
	}
	if err != nil {
		return err
	}
	return r.Load(ctx)
}

// Described is an instance with where it comes from.
type Described struct {
	pool.Status

	Pool       string
	Configured bool
	BaseURL    string // of a registered one
	CreatedAt  time.Time
	CreatedBy  string
}

// List returns every instance as it is for this replica, by pool and name.
func (r *Registry) List() []Described {
	rows, _ := r.rows.Last()
	var out []Described
	for _, name := range r.deps.Pools.Names() {
		for _, i := range r.deps.Pools.Instances(name) {
			d := Described{Status: i.Status(), Pool: name}
			_, d.Configured = r.configured(name, i.Name)
			for _, row := range rows {
				if row.Pool == name && row.Name == i.Name && !d.Configured {
					s, _ := row.spec()
					d.BaseURL, d.CreatedAt, d.CreatedBy = s.BaseURL, time.UnixMicro(row.CreatedAt).UTC(), row.CreatedBy
				}
			}
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b Described) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name)) })
	return out
}

func invalid(field string, why fault.Phrase) *fault.Error {
	return fault.New(fault.CodeInvalidValue, field, why).WithParam(field)
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}
