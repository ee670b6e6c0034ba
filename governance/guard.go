package governance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/governance/reveal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Config sets how fresh policies are, and bounds what is kept and shown of values that they let people see again. Zero values mean the
// defaults named at each field.
type Config struct {
	Poll     time.Duration    `koanf:"poll"`      // between looks at the change counter; 1s, also the most
	MaxStale time.Duration    `koanf:"max_stale"` // how long to trust policies that cannot be refreshed; 5m
	Vault    pseudonym.Config `koanf:"vault"`     // what is kept
	Reveal   reveal.Config    `koanf:"reveal"`    // how much of it one person sees
	Safety   SafetyConfig     `koanf:"safety"`    // rule libraries that policies may use
	// Organisation returns the organisation of a tenant, whose policy holds where the tenant has none; nil: none has.
	Organisation func(tenant string) string `koanf:"-"`
}

// WithDefaults fills the zero values.
func (c Config) WithDefaults() Config {
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.MaxStale == 0 {
		c.MaxStale = snapshot.DefaultMaxAge
	}
	return c
}

func (c Config) freshness() snapshot.Config {
	return snapshot.Config{Poll: c.Poll, MaxAge: c.MaxStale}
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if c.Poll < 0 || c.Poll > time.Second {
		return errors.New("poll: must be positive and at most 1s")
	}
	if err := c.freshness().Validate(); err != nil {
		return err
	}
	if err := c.Vault.Validate(); err != nil {
		return fmt.Errorf("vault.%w", err)
	}
	if err := c.Reveal.Validate(); err != nil {
		return fmt.Errorf("reveal.%w", err)
	}
	if err := c.Safety.Validate(); err != nil {
		return fmt.Errorf("safety.%w", err)
	}
	return nil
}

// Guard admits requests. It is safe for concurrent use.
type Guard struct {
	cfg       Config
	store     *PolicyStore
	keys      *keyring.Ring
	detectors *classify.Set
	log       *slog.Logger
	metrics   *metrics
	libraries *libraries
	values    *pseudonym.Store
	reveals   *reveal.Service
	approvals *approval.Store
	channels  map[string]string // by action
	now       func() time.Time

	policies *snapshot.Snapshot[policies] // in force, by scope
}

// policies are those in force, by scope.
type policies map[string]activePolicy

// activePolicy is the effective policy of a scope, or the reason why it cannot be used.
type activePolicy struct {
	policy    *policy
	detectors *classify.Set
	rules     map[ruleKey]*mask.Rules
	ref       PolicyRef
	safety    *atomic.Pointer[compiledSafety] // with a policy that has any
	placings  placings
	broken    error
}

// ruleKey selects masking rules: by channel, "" without exceptions, and by direction.
type ruleKey struct {
	channel   string
	direction Direction
}

// rules returns the rules for texts that detectors look at.
func (p *policy) rules(detectors *classify.Set) map[ruleKey]*mask.Rules {
	out := map[ruleKey]*mask.Rules{}
	for _, channel := range append(slices.Collect(maps.Keys(p.Channels)), "") {
		for _, d := range directions() {
			out[ruleKey{channel, d}] = mask.NewRules(detectors, func(c classify.Class) mask.Action { return p.lookedFor(channel, c, d) })
		}
	}
	return out
}

// rulesFor returns the rules for texts of a channel.
func (f activePolicy) rulesFor(channel string, d Direction) *mask.Rules {
	if r, ok := f.rules[ruleKey{channel, d}]; ok {
		return r
	}
	return f.rules[ruleKey{"", d}]
}

// PolicyRef names the policy a decision was made under.
type PolicyRef struct {
	Version string // its scope, @, number
	Digest  string // SHA-256 of the canonical document, hex
	Purpose string // which of the purposes the policy lists the caller stated; "" where it lists none
}

// New returns a guard without policies: it refuses everything until [Guard.Load]. reg may be nil.
func New(cfg Config, store *PolicyStore, keys *keyring.Ring, detectors *classify.Set, log *slog.Logger, reg prometheus.Registerer) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	g := &Guard{
		cfg: cfg.WithDefaults(), store: store, keys: keys, detectors: detectors, log: log.With(slog.String("component", "governance")),
		metrics: newMetrics(reg), channels: channels(), now: time.Now,
	}
	g.libraries = newLibraries(cfg.Safety, g.metrics)
	var err error
	g.policies, err = snapshot.New(g.cfg.freshness(), snapshot.Source[policies]{
		Name: "policy", Version: store.counter, Load: g.load, Now: func() time.Time { return g.now() }, Failures: g.metrics.failures,
	}, g.log, reg)
	if err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	if g.values, err = pseudonym.New(cfg.Vault, pseudonym.NewTables(store.db), keys, log, reg); err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	g.approvals = approval.New(approval.NewTables(store.db), cfg.Reveal.WithDefaults().Fresh, func() time.Time { return g.now() })
	if g.reveals, err = reveal.New(cfg.Reveal, g.values, reveal.NewTables(store.db), g.approvals, g.revealRules, keys, log, reg); err != nil {
		return nil, fmt.Errorf("governance: %w", err)
	}
	return g, nil
}

// Load reads the policies in force. Call it once before serving.
func (g *Guard) Load(ctx context.Context) error { return g.policies.Load(ctx) }

// load reads the policies in force from the database. It logs one that cannot be used, and not again while that stays so for the same reason.
func (g *Guard) load(ctx context.Context) (policies, error) {
	rows, err := g.store.newestVersions(ctx)
	if err != nil {
		return nil, err
	}
	before, _ := g.policies.Last()
	next, unusable := policies{}, 0
	for _, r := range rows {
		active, version := activePolicy{}, fmt.Sprintf("%s@%d", r.Scope, r.Version)
		p, err := readCanonical(r.Canonical, r.Digest)
		if err == nil {
			active, err = g.apply(p, false)
		}
		if err != nil {
			unusable++
			// The scope is refused; falling back to another policy could allow what its own forbids.
			if was := before[r.Scope]; was.broken == nil || was.ref.Version != version || was.broken.Error() != err.Error() {
				g.log.Error("a policy cannot be used; whom it is of is refused", slog.String("scope", r.Scope), slog.Int64("version", r.Version), slog.Any("error", err))
			}
		}
		active.broken, active.ref = err, PolicyRef{Version: version, Digest: r.Digest}
		next[r.Scope] = active
	}
	g.metrics.unusable.Set(float64(unusable))
	return next, nil
}

// apply builds the detectors and rules of a policy. Those of content safety of a draft are not kept.
func (g *Guard) apply(p *policy, draft bool) (activePolicy, error) {
	detectors, err := p.detectors(g.detectors)
	if err != nil {
		return activePolicy{}, err
	}
	compiled := &atomic.Pointer[compiledSafety]{}
	if p.Safety != nil { // now, so that no request waits for it, and one that cannot be used is known
		c, err := g.libraries.compiled(p.Safety, g.now(), draft)
		if err != nil {
			return activePolicy{}, err
		}
		compiled.Store(c)
	}
	return activePolicy{policy: p, detectors: detectors, rules: p.rules(detectors), safety: compiled, placings: p.placings()}, nil
}

// tendEvery is how often policies that could not be used are read again, and rules of another day are made.
const tendEvery = 30 * time.Second

// Run keeps the policies fresh until ctx ends.
func (g *Guard) Run(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(tendEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				g.tendSafety(ctx)
			}
		}
	}()
	g.policies.Run(ctx)
	<-done
	return nil
}

// policy returns what is in force for a tenant, or for a project of it unless that is "", or CodePolicyUnavailable. The most specific one holds
// alone: nothing of the others is added.
func (g *Guard) policy(tenant, project string) (activePolicy, error) {
	all, err := g.policies.Get()
	if err != nil {
		return activePolicy{}, fault.Wrap(err, fault.CodePolicyUnavailable)
	}
	p, ok := activePolicy{}, false
	if project != "" {
		p, ok = all[ProjectScope(tenant, project)]
	}
	if !ok {
		p, ok = all[tenant]
	}
	if !ok {
		p, ok = all[OrganisationScope(g.organisation(tenant))]
	}
	if !ok {
		p, ok = all[EveryTenant]
	}
	if !ok || tenant == "" {
		return activePolicy{}, fault.Wrap(errors.New("none published for this tenant"), fault.CodePolicyUnavailable)
	}
	if p.broken != nil {
		return activePolicy{}, fault.Wrap(p.broken, fault.CodePolicyUnavailable)
	}
	return p, nil
}

// Purposes returns those that the policy in force for a tenant, or for a project of it, takes, one of which it demands of each request; none where it
// demands none. Error: CodePolicyUnavailable.
func (g *Guard) Purposes(tenant, project string) ([]string, error) {
	active, err := g.policy(tenant, project)
	if err != nil {
		return nil, err
	}
	return slices.Clone(active.policy.Purposes), nil
}

// Labelling says how the policy in force for a tenant, or for a project of it unless that is "", has answers labelled where the key does not choose: mode is that of
// [Admission.LabelMode], and agreement what [Admission.DemandsAgreement] says. Error: CodePolicyUnavailable.
func (g *Guard) Labelling(tenant, project string) (mode string, agreement bool, err error) {
	active, err := g.policy(tenant, project)
	if err != nil {
		return "", false, err
	}
	return active.policy.Label, active.policy.demandsAgreement(), nil
}

// Validate checks a policy document. Error: CodeInvalidPolicy with the path of what is wrong.
func (g *Guard) Validate(source []byte) error {
	_, err := g.parse(source)
	return err
}

// parse reads a document whose libraries there are.
func (g *Guard) parse(source []byte) (*policy, error) {
	p, err := parsePolicy(source)
	if err != nil {
		return nil, err
	}
	return p, g.libraries.check(p)
}

// Publish puts a document in force for a scope: a tenant, [EveryTenant], or what [OrganisationScope] or [ProjectScope] names. It is at once here, within
// two polls elsewhere. Errors: CodeInvalidPolicy, CodeInvalidValue (tenant), CodeDatabaseUnavailable.
func (g *Guard) Publish(ctx context.Context, scope string, source []byte, actor string) (Version, error) {
	return g.publish(ctx, scope, source, actor, false, nil)
}

// PublishAfter is Publish for whoever has seen what it replaces: expected names the version in force for the scope, such as "demo@3" or
// "*@1", "" where none is. Error, besides: CodePolicyChanged naming the one that is.
func (g *Guard) PublishAfter(ctx context.Context, scope string, source []byte, actor, expected string) (Version, error) {
	return g.publish(ctx, scope, source, actor, false, &expected)
}

// EnsureDefault publishes the embedded default document for [EveryTenant] unless a document for it exists. created says whether it did.
func (g *Guard) EnsureDefault(ctx context.Context, actor string) (created bool, err error) {
	v, err := g.publish(ctx, EveryTenant, defaultPolicy, actor, true, nil)
	return err == nil && v.Version > 0, err
}

func (g *Guard) publish(ctx context.Context, scope string, source []byte, actor string, onlyFirst bool, expected *string) (Version, error) {
	if scope == "" || len(scope) > maxScope {
		return Version{}, fault.New(fault.CodeInvalidValue, "tenant", fault.Say("governance.tenant")).WithParam("tenant")
	}
	p, err := g.parse(source)
	if err != nil {
		return Version{}, err
	}
	text, digest := p.canonical()
	row, err := g.store.publish(ctx, policyRow{
		Scope: scope, Digest: digest, Name: p.Name, Source: string(source), Canonical: text, CreatedAt: g.now().UnixMicro(),
		CreatedBy: actor,
	}, onlyFirst, expected, g.Scopes(scope))
	if err != nil {
		return Version{}, err
	}
	if err := g.Load(ctx); err != nil {
		g.log.Error("reload after a publication failed; the poll repeats it", slog.Any("error", err))
	}
	if row.Version == 0 {
		return Version{}, nil
	}
	return row.version(), nil
}

// Versions lists the published documents of a scope, newest first.
func (g *Guard) Versions(ctx context.Context, scope string) ([]Version, error) {
	rows, err := g.store.versions(ctx, scope)
	out := make([]Version, len(rows))
	for i, r := range rows {
		out[i] = r.version()
	}
	return out, err
}

// Get returns a published document as it was written. Error: CodeNotFound.
func (g *Guard) Get(ctx context.Context, scope string, version int64) (Version, []byte, error) {
	row, err := g.store.get(ctx, scope, version)
	if err != nil {
		return Version{}, nil, err
	}
	return row.version(), []byte(row.Source), nil
}

// Models returns those of all that the policy in force for a tenant, or for a project of it, allows, in order; none without a policy.
func (g *Guard) Models(_ context.Context, tenant, project string, all []string) []string {
	p, err := g.policy(tenant, project)
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range all {
		if p.policy.allowsModel(m) {
			out = append(out, m)
		}
	}
	return out
}

// newPseudonyms returns an empty set of pseudonyms of a scope.
func (g *Guard) newPseudonyms(tenant, scope string) *mask.Pseudonyms {
	return mask.NewPseudonyms(g.keys.MAC("governance/pseudonym/v1", tenant), scope)
}
