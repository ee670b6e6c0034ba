// Package route decides which version of a model answers a request, and which instance of a pool runs it.
//
// A model is a name that callers use; versions of it say what runs: a pool of engines, a model in it, sampling defaults. An assignment
// names a model's stable version and, during a rollout, a candidate with its share. A request falls on one side by a hash of the
// rollout's salt and its conversation, so every turn and every retry of a conversation meets the same version, and who was in
// a small share stays in every larger one.
//
// Picking reads immutable snapshots and runs no SQL. Writes bump a counter; every replica looks at it each poll, and refuses when it could not
// look for longer than [Config.MaxStale].
package route

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Scale is the whole of a share: a basis of 4000 is 40 %.
const Scale = 10_000

// Config sets the router up. The zero value is usable.
type Config struct {
	Poll     time.Duration `koanf:"poll"` // between looks at the change counter; 0 means 1 s, also the most
	MaxStale time.Duration `koanf:"-"`    // how long to trust routes that cannot be refreshed; 0 means 5 min. It is the installation's, not a key of this branch
	// Models says what is done for models whose engines fail or are slow.
	Models []Policy `koanf:"models"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Poll < 0 || c.Poll > time.Second {
		return errors.New("poll: must lie between 0 and 1s")
	}
	for i := range c.Models {
		if err := c.Models[i].Validate(); err != nil {
			return fmt.Errorf("models[%d].%w", i, err)
		}
		if slices.ContainsFunc(c.Models[:i], func(o Policy) bool { return o.Model == c.Models[i].Model }) {
			return fmt.Errorf("models[%d].model: %s has a policy already", i, c.Models[i].Model)
		}
	}
	return nil
}

func (c Config) freshness() snapshot.Config {
	return snapshot.Config{Poll: c.Poll, MaxAge: c.MaxStale}
}

// Defaults are the sampling values of a version for fields that a caller leaves unset.
type Defaults struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
}

// Version is one way to run a model. Versions are never changed.
type Version struct {
	Model, Version string
	Engine         string         // name of the pool in this installation
	EngineModel    engine.ModelID // the model inside it
	Defaults       Defaults
	Digest         string // of the weights; Register fills "" with what the engine says
	Precision      string // precision plan; Register fills "" with what the engine says
	CreatedAt      int64  // UTC unix microseconds; Register fills a zero
}

// Assignment says which versions of a model answer.
type Assignment struct {
	Model     string
	Stable    string
	Candidate string // "" outside a rollout
	Basis     int    // the candidate's share of conversations, 0..Scale
	Rollout   string // id of the rollout, for audit
	Salt      string // fixed for the life of a rollout
}

// The arms of a rollout.
const (
	ArmStable    = "stable"
	ArmCandidate = "candidate"
)

// Need is what a request needs a model to do.
type Need uint8

// The needs.
const (
	Generate Need = iota
	Embed
	Score
)

// Met reports whether a model does what is needed.
func (n Need) Met(m engine.Model) bool {
	switch n {
	case Generate:
		return m.CanGenerate
	case Embed:
		return m.CanEmbed
	case Score:
		return m.CanScore
	}
	return false
}

// Ask is a request that wants a model.
type Ask struct {
	Model string // "model" or "model@version", which is never diverted
	Unit  string // what stays on one side: the conversation
	Need  Need

	// Engine, if set, is the pool that the request goes to, and Model is the name there: neither versions nor rollouts divert it.
	Engine string

	// Fits reports whether an instance can run the request; nil: every one that meets Need can.
	Fits func(pool.Offer) bool
	// Why says in a word why Fits has refused the last instance. nil: nobody says.
	Why func() string
	// Prefix returns the hashes of the prompt, once it is known; nil: it never is.
	Prefix func() []uint64
	// Trace, if it is set, is told how Pick, and Again with nobody tried, have chosen.
	Trace *pool.Trace
}

func (a Ask) fits(o pool.Offer) bool { return a.Need.Met(*o.Model) && (a.Fits == nil || a.Fits(o)) }

// Choice is where a request goes.
type Choice struct {
	Version  Version
	Instance *pool.Instance
	Info     engine.Model    // what the instance says about the model
	Rollout  string          // "" outside a rollout
	Arm      string          // ArmStable or ArmCandidate during a rollout, else ""
	Closed   []*engine.Model // without an instance: what those say about the model that take no requests now
	Away     []pool.Place    // and the places of those that may have it then

	// Resilience is what is done when the instance fails; nil: nothing.
	Resilience *Resilience

	ask       Ask
	precision string // as the version was registered
}

// Model is a name callers may ask for, with what its stable version is.
type Model struct {
	Name      string
	Stable    string
	CreatedAt int64        // of its first version, UTC unix microseconds
	Engine    string       // the name of what runs it here
	Info      engine.Model // what the engine says about it; zero if the engine says nothing
	Err       error        // why it cannot run now; nil if it can
	Gone      bool         // its engine answers and no longer has it, as with an adapter that was unloaded
}

// Router picks. It is safe for concurrent use.
type Router struct {
	store store
	pools *pool.Set
	log   *slog.Logger
	now   func() time.Time

	policies *policies

	routes *snapshot.Snapshot[*routes]
	models *snapshot.Snapshot[catalogue]
}

// routes are what the database says. They are immutable.
type routes struct {
	versions    map[string]map[string]Version // model → version
	assignments map[string]Assignment
	resilience  map[string]*Resilience // by model
}

// catalogue is what the instances said that they can run when they were asked last. It is immutable.
type catalogue map[place]engine.Model

// place is where a model runs.
type place struct {
	pool, instance string
	model          engine.ModelID
}

// New returns a router over the pools. It knows no routes until [Router.Load], and keeps asking the instances what they can run. reg may be nil.
func New(cfg Config, db *gorm.DB, pools *pool.Set, log *slog.Logger, reg prometheus.Registerer) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	r := &Router{store: store{db}, pools: pools, log: log.With(slog.String("component", "route")), now: time.Now, policies: newPolicies(cfg.Models)}
	now := func() time.Time { return r.now() }
	var err1, err2 error
	r.routes, err1 = snapshot.New(cfg.freshness(), snapshot.Source[*routes]{Name: "route", Version: r.store.changes, Load: r.load, Now: now}, r.log, reg)
	r.models, err2 = snapshot.New(cfg.freshness(), snapshot.Source[catalogue]{Name: "engines", Load: r.ask, Now: now}, r.log, reg)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	return r, nil
}

// load reads the routes, with the policies of their models.
func (r *Router) load(ctx context.Context) (*routes, error) {
	s, err := r.store.load(ctx)
	if err == nil {
		s.resilience = r.policies.of(s.assignments)
	}
	return s, err
}

// Load reads the routes and asks the engines. Call it once before serving.
func (r *Router) Load(ctx context.Context) error {
	return errors.Join(r.routes.Load(ctx), r.models.Load(ctx))
}

// fresh returns what requests are routed by, unless it is missing or too old to be trusted.
func (r *Router) fresh() (*routes, error) {
	all, err1 := r.routes.Get()
	_, err2 := r.models.Get()
	return all, errors.Join(err1, err2)
}

// report tells the operator about versions that cannot run, models that nobody can ask for, and policies that name none.
func (r *Router) report(ctx context.Context, s *routes, models catalogue) {
	for _, name := range r.policies.names() {
		if s.assignments[name].Model == "" {
			r.log.LogAttrs(ctx, slog.LevelWarn, "route.models names a model that no version is registered for", slog.String("model", name))
		}
	}
	used := map[place]bool{}
	for _, versions := range s.versions {
		for _, v := range versions {
			used[place{pool: v.Engine, model: v.EngineModel}] = true
		}
	}
	for at, info := range models {
		if !used[place{pool: at.pool, model: at.model}] {
			r.log.LogAttrs(ctx, slog.LevelWarn, "an engine has a model that no version names; register one to make it callable",
				slog.String("engine", at.pool), slog.String("instance", at.instance), slog.String("engine_model", string(at.model)))
		}
		for _, versions := range s.versions {
			for _, v := range versions {
				if v.Engine == at.pool && v.EngineModel == at.model && changed(v, &info) {
					r.log.LogAttrs(ctx, slog.LevelError, "the weights of a model version have changed, it is refused there; put the old file back or register a new version",
						slog.String("model", v.Model), slog.String("version", v.Version), slog.String("instance", at.instance),
						slog.String("registered", v.Digest), slog.String("found", digest(&info)))
				}
			}
		}
	}
}

// ask asks every instance what it can run now. One that does not answer runs nothing.
func (r *Router) ask(ctx context.Context) (catalogue, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.pools.Refresh(ctx)
	out := catalogue{}
	for _, name := range r.pools.Names() {
		for _, i := range r.pools.Instances(name) {
			st := i.Status()
			if st.Cause != nil {
				r.log.Warn("an engine does not answer", slog.String("engine", name), slog.String("instance", i.Name), slog.Any("error", st.Cause))
			}
			for _, m := range st.Models {
				out[place{name, i.Name, m.ID}] = m
			}
		}
	}
	before, asked := r.models.Last()
	if known, loaded := r.routes.Last(); asked && loaded && !maps.Equal(out, before) {
		r.report(ctx, known, out)
	}
	return out, nil
}

// Run keeps routes and models fresh until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	known, loaded := r.routes.Last()
	if models, asked := r.models.Last(); loaded && asked {
		r.report(ctx, known, models)
	}
	var fresh sync.WaitGroup
	fresh.Go(func() { r.models.Run(ctx) })
	r.routes.Run(ctx)
	fresh.Wait()
	return nil
}

// Pick returns where the request goes. Errors: CodeModelNotFound; CodeModelNotCapable, whose choice says what the model is;
// CodeEngineUnavailable, whose choice still says which version and arm failed, so that a rollout can count it. Where no instance fits, the choice
// has no instance and says what one of them is: the caller knows what it lacks.
func (r *Router) Pick(a Ask) (Choice, error) {
	s, err := r.fresh()
	if err != nil {
		return Choice{}, fault.Wrap(err, fault.CodeEngineUnavailable, a.Model).WithRetryAfter(time.Second)
	}
	if a.Engine != "" {
		return r.within(s, a)
	}
	notFound := fault.New(fault.CodeModelNotFound, a.Model).WithParam("model")
	model, pin, pinned := strings.Cut(a.Model, "@")
	as, ok := s.assignments[model]
	if !ok {
		return Choice{}, notFound
	}
	c := Choice{ask: a, Resilience: s.resilience[model]}
	name := as.Stable
	switch {
	case pinned:
		name = pin
	case as.Rollout != "" && as.Candidate != "":
		c.Rollout, c.Arm = as.Rollout, ArmStable
		if bucket(as.Salt, a.Unit) < as.Basis {
			c.Arm, name = ArmCandidate, as.Candidate
		}
	}
	if c.Version, ok = s.versions[model][name]; !ok {
		return Choice{}, notFound
	}
	c.precision = c.Version.Precision
	return r.place(c)
}

// Again returns another instance for a choice whose instance did not take the request, under the same version. tried are all that it has been to.
// Error: CodeEngineUnavailable, CodeModelNotCapable if none of the others can run it.
func (r *Router) Again(c Choice, tried []*pool.Instance) (Choice, error) { return r.place(c, tried...) }

// place chooses the instance of a choice whose version is known.
func (r *Router) place(c Choice, tried ...*pool.Instance) (Choice, error) {
	v := c.Version
	why := "" // the last one does not fit, where Fits was not asked
	w := pool.Wanted{Model: v.EngineModel, Tried: tried, Prefer: c.Resilience.Prefers(), Fits: func(o pool.Offer) bool {
		why = ""
		switch {
		case changed(v, o.Model):
			why = whyWeights
		case !c.ask.Need.Met(*o.Model):
			why = WhyModel
		}
		return why == "" && c.ask.fits(o)
	}, Why: func() string {
		if why == "" && c.ask.Why != nil {
			return c.ask.Why()
		}
		return why
	}}
	if len(tried) == 0 {
		w.Trace = c.ask.Trace
	}
	if w.Prefer != nil {
		if c.ask.Unit != "" {
			w.Session = pool.HashOf(c.ask.Unit)
		}
		if c.ask.Prefix != nil {
			w.Prefix = c.ask.Prefix()
		}
	}
	i, info, none := r.pools.Choose(v.Engine, w)
	if i == nil {
		return c.nobody(none)
	}
	c.Instance, c.Info = i, *info
	c.Version.Digest, c.Version.Precision = cmp.Or(v.Digest, digest(info)), cmp.Or(c.precision, info.Precision)
	return c, nil
}

// nobody returns why no instance runs a choice.
func (c Choice) nobody(none pool.Nobody) (Choice, error) {
	c.Instance, c.Info, c.Closed, c.Away = nil, engine.Model{}, none.Closed, none.Away
	if none.Known != nil {
		c.Info = *none.Known
	}
	switch {
	case !none.Unfit:
		return c, fault.Wrap(absent(none), fault.CodeEngineUnavailable, c.ask.Model).WithRetryAfter(time.Second)
	case !c.ask.Need.Met(c.Info):
		return c, fault.New(fault.CodeModelNotCapable, c.ask.Model, fault.Say("route.other_use"), fault.Say("route.choose_another")).WithParam("model")
	case changed(c.Version, &c.Info):
		return c, fault.Wrap(fmt.Errorf("the weights are not those that version %s was registered with", c.Version.Version), fault.CodeEngineUnavailable, c.ask.Model)
	}
	return c, nil // it can do this, and not all that is asked
}

// absent says why nobody runs a model that every instance might fit.
func absent(none pool.Nobody) error {
	switch {
	case none.Silent:
		return errors.New("the engine does not answer")
	case none.Known == nil:
		return errors.New("the engine does not have the model")
	}
	return errors.New("no instance takes requests")
}

// within returns an instance of the pool that is named, under the version that has its weights: a stable one if there is one. Without any the
// model has no version, and the name that the pool has for it.
func (r *Router) within(s *routes, a Ask) (Choice, error) {
	id := engine.ModelID(a.Model)
	i, info, none := r.pools.Choose(a.Engine, pool.Wanted{Model: id, Fits: a.fits})
	c := Choice{Instance: i, Away: none.Away, ask: a, Version: Version{Model: a.Model, Engine: a.Engine, EngineModel: id}}
	if i == nil {
		return c, fault.Wrap(fmt.Errorf("engine %q has no such model for this", a.Engine), fault.CodeEngineUnavailable, a.Model).WithRetryAfter(time.Second)
	}
	c.Info = *info
	stable := false
	for _, model := range slices.Sorted(maps.Keys(s.versions)) {
		for _, name := range slices.Sorted(maps.Keys(s.versions[model])) {
			v, first := s.versions[model][name], s.assignments[model].Stable == name
			if v.Engine == a.Engine && v.EngineModel == id && !changed(v, info) && (c.Version.Version == "" || first && !stable) {
				c.Version, stable = v, first
			}
		}
	}
	c.Version.Model, c.precision = a.Model, c.Version.Precision // by the name it is priced, billed and recorded
	c.Version.Digest, c.Version.Precision = cmp.Or(c.Version.Digest, digest(info)), cmp.Or(c.Version.Precision, info.Precision)
	return c, nil
}

// info returns what an instance of a version says about its model, and why the version cannot run. Other weights than it was registered with are
// described and not run.
func (r *Router) info(v Version) (engine.Model, error) {
	i, info, none := r.pools.Choose(v.Engine, pool.Wanted{Model: v.EngineModel, Fits: func(o pool.Offer) bool { return !changed(v, o.Model) }})
	switch {
	case i != nil:
		return *info, nil
	case none.Unfit:
		return *none.Known, fmt.Errorf("the weights are not those that version %s was registered with", v.Version)
	}
	if none.Known != nil {
		return *none.Known, absent(none)
	}
	return engine.Model{}, absent(none)
}

// changed reports whether the engine now runs other weights under the version's name: evidence and audit records would be about a
// model that is gone.
func changed(v Version, info *engine.Model) bool {
	return v.Digest != "" && info.Digest != "" && v.Digest != digest(info)
}

// digest names the weights of a model: its own, and those of the adapter that changes them.
func digest(info *engine.Model) string {
	if info.Adapter == "" {
		return info.Digest
	}
	return info.Digest + "+" + info.Adapter
}

// bucket spreads units over 0..Scale-1, differently for every salt. The bias of the modulus is below 10⁻¹⁵.
func bucket(salt, unit string) int {
	h := sha256.New()
	h.Write([]byte(salt))
	h.Write([]byte{0})
	h.Write([]byte(unit))
	return int(binary.BigEndian.Uint64(h.Sum(nil)) % Scale)
}

// Models lists the names callers may ask for, ordered, also of those whose stable version cannot run now.
func (r *Router) Models() []Model {
	s, loaded := r.routes.Last()
	if !loaded {
		return nil
	}
	_, stale := r.fresh()
	var out []Model
	for _, name := range slices.Sorted(maps.Keys(s.assignments)) {
		v, ok := s.versions[name][s.assignments[name].Stable]
		if !ok {
			continue
		}
		m := Model{Name: name, Stable: v.Version, CreatedAt: v.CreatedAt, Engine: v.Engine}
		m.Info, m.Err = r.info(v)
		m.Gone = m.Info.ID == "" && r.pools.Answers(v.Engine)
		if m.Err = errors.Join(stale, m.Err); m.Err != nil {
			m.Err = fault.Wrap(m.Err, fault.CodeEngineUnavailable, name)
		}
		for _, other := range s.versions[name] {
			m.CreatedAt = min(m.CreatedAt, other.CreatedAt)
		}
		out = append(out, m)
	}
	return out
}

// Versions returns a model's versions, oldest first.
func (r *Router) Versions(ctx context.Context, model string) ([]Version, error) {
	s, err := r.store.load(ctx)
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(s.versions[model]), func(a, b Version) int {
		if a.CreatedAt != b.CreatedAt {
			return int(min(1, max(-1, a.CreatedAt-b.CreatedAt)))
		}
		return strings.Compare(a.Version, b.Version)
	}), nil
}

// Assignment returns a model's assignment from the database. Error: CodeModelNotFound.
func (r *Router) Assignment(ctx context.Context, model string) (Assignment, error) {
	s, err := r.store.load(ctx)
	if err != nil {
		return Assignment{}, err
	}
	a, ok := s.assignments[model]
	if !ok {
		return Assignment{}, fault.New(fault.CodeModelNotFound, model).WithParam("model")
	}
	return a, nil
}

// Register adds a version; the first of a model becomes its stable one. Registering the same version again changes nothing.
// Errors: CodeInvalidValue, CodeExists if it exists with other content, CodeDatabaseUnavailable.
func (r *Router) Register(ctx context.Context, v Version) error {
	if v.CreatedAt == 0 {
		v.CreatedAt = r.now().UnixMicro()
	}
	if err := v.check(); err != nil {
		return err
	}
	if !r.pools.Has(v.Engine) {
		return invalid("engine", fault.Say("route.no_engine"))
	}
	info, err := r.info(v)
	if err != nil && changed(v, &info) {
		return invalid("digest", fault.Say("route.digest", digest(&info)))
	}
	v.Digest, v.Precision = cmp.Or(v.Digest, digest(&info)), cmp.Or(v.Precision, info.Precision)
	if err := r.store.register(ctx, v); err != nil {
		return err
	}
	return r.Load(ctx)
}

func invalid(field string, why fault.Phrase) *fault.Error {
	return fault.New(fault.CodeInvalidValue, field, why).WithParam(field)
}

func (v Version) check() error {
	for _, f := range []struct{ field, value string }{{"model", v.Model}, {"version", v.Version}, {"engine", v.Engine}, {"engine_model", string(v.EngineModel)}} {
		if f.value == "" {
			return fault.New(fault.CodeMissing, f.field).WithParam(f.field)
		}
		if len(f.value) > 200 || f.field != "engine_model" && strings.ContainsAny(f.value, "@\n\r\t ") {
			return invalid(f.field, fault.Say("route.name"))
		}
	}
	d := v.Defaults
	if d.Temperature != nil && (*d.Temperature < 0 || *d.Temperature > 2) {
		return invalid("temperature", fault.Say("value.from_zero_to_two")).WithParam("defaults.temperature")
	}
	if d.TopP != nil && (*d.TopP <= 0 || *d.TopP > 1) {
		return invalid("top_p", fault.Say("value.fraction")).WithParam("defaults.top_p")
	}
	if d.MaxTokens != nil && *d.MaxTokens < 1 {
		return invalid("max_tokens", fault.Say("value.positive")).WithParam("defaults.max_tokens")
	}
	return nil
}

// Digest names the weights that an engine runs under a model's id, as of the last look at it. Error: CodeModelNotFound.
func (r *Router) Digest(engineName string, id engine.ModelID) (string, error) {
	if info, _ := r.info(Version{Engine: engineName, EngineModel: id}); info.ID != "" {
		return digest(&info), nil
	}
	return "", fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
}

// SetAssignment replaces a model's assignment; this replica follows at once, others within a poll. Errors: CodeInvalidValue,
// CodeNotFound (version), CodeDatabaseUnavailable.
func (r *Router) SetAssignment(ctx context.Context, a Assignment) error {
	if a.Basis < 0 || a.Basis > Scale {
		return invalid("basis", fault.Say("value.from_zero", Scale))
	}
	if a.Candidate != "" && (a.Rollout == "" || a.Salt == "") {
		return invalid("candidate", fault.Say("route.no_rollout"))
	}
	if a.Candidate == "" && a.Basis != 0 {
		return invalid("basis", fault.Say("route.no_candidate"))
	}
	if err := r.store.assign(ctx, a, r.now().UnixMicro()); err != nil {
		return err
	}
	return r.Load(ctx)
}
