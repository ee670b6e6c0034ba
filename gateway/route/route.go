// Package route decides which version of a model answers a request, and on which engine.
//
// A model is a name that callers use; versions of it say what runs: an engine, a model in it, sampling defaults. An assignment
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
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/snapshot"
)

// Scale is the whole of a share: a basis of 4000 is 40 %.
const Scale = 10_000

// Config sets the router up. The zero value is usable.
type Config struct {
	Poll     time.Duration `koanf:"poll"` // between looks at the change counter; 0 means 1 s, also the most
	MaxStale time.Duration `koanf:"-"`    // how long to trust routes that cannot be refreshed; 0 means 5 min. It is the installation's, not a key of this branch
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.Poll < 0 || c.Poll > time.Second {
		return errors.New("poll: must lie between 0 and 1s")
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
	Engine         string         // name of the engine in this installation
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

	// Engine, if set, is where the request goes, and Model is that engine's name for the model: neither versions nor rollouts divert it.
	Engine string
}

// Choice is where a request goes.
type Choice struct {
	Version Version
	Engine  engine.Engine
	Info    engine.Model // what the engine says about the model
	Rollout string       // "" outside a rollout
	Arm     string       // ArmStable or ArmCandidate during a rollout, else ""
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
	store   store
	engines map[string]engine.Engine
	log     *slog.Logger
	now     func() time.Time

	routes *snapshot.Snapshot[*routes]
	models *snapshot.Snapshot[catalogue]
}

// routes are what the database says. They are immutable.
type routes struct {
	versions    map[string]map[string]Version // model → version
	assignments map[string]Assignment
}

// catalogue is what the engines say they can run: engine → model; nil for an engine that does not answer. It is immutable.
type catalogue map[string]map[engine.ModelID]engine.Model

// view is what a request is routed by.
type view struct {
	*routes

	models catalogue
}

// New returns a router over the given engines, by name. It knows no routes until [Router.Load]. reg may be nil.
func New(cfg Config, db *gorm.DB, engines map[string]engine.Engine, log *slog.Logger, reg prometheus.Registerer) (*Router, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	r := &Router{store: store{db}, engines: engines, log: log.With(slog.String("component", "route")), now: time.Now}
	now := func() time.Time { return r.now() }
	var err1, err2 error
	r.routes, err1 = snapshot.New(cfg.freshness(), snapshot.Source[*routes]{Name: "route", Version: r.store.changes, Load: r.store.load, Now: now}, r.log, reg)
	r.models, err2 = snapshot.New(cfg.freshness(), snapshot.Source[catalogue]{Name: "engines", Load: r.ask, Now: now}, r.log, reg)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("route: %w", err)
	}
	return r, nil
}

// Load reads the routes and asks the engines. Call it once before serving.
func (r *Router) Load(ctx context.Context) error {
	return errors.Join(r.routes.Load(ctx), r.models.Load(ctx))
}

// fresh returns what requests are routed by, unless it is missing or too old to be trusted.
func (r *Router) fresh() (view, error) {
	all, err1 := r.routes.Get()
	models, err2 := r.models.Get()
	return view{all, models}, errors.Join(err1, err2)
}

// last returns what was known last, however old it is, for descriptions.
func (r *Router) last() (v view, loaded bool) {
	v.routes, loaded = r.routes.Last()
	v.models, _ = r.models.Last()
	return v, loaded
}

// report tells the operator about versions that cannot run, and models that nobody can ask for.
func (r *Router) report(ctx context.Context, s view) {
	type place struct {
		engine string
		model  engine.ModelID
	}
	used := map[place]bool{}
	for _, versions := range s.versions {
		for _, v := range versions {
			used[place{v.Engine, v.EngineModel}] = true
			if info, ok := s.models[v.Engine][v.EngineModel]; ok && changed(v, info) {
				r.log.LogAttrs(ctx, slog.LevelError, "the weights of a model version have changed, it is refused; put the old file back or register a new version",
					slog.String("model", v.Model), slog.String("version", v.Version), slog.String("registered", v.Digest), slog.String("found", digest(info)))
			}
		}
	}
	for name, models := range s.models {
		for id := range models {
			if !used[place{name, id}] {
				r.log.LogAttrs(ctx, slog.LevelWarn, "an engine has a model that no version names; register one to make it callable",
					slog.String("engine", name), slog.String("engine_model", string(id)))
			}
		}
	}
}

// ask collects what every engine can run now. An engine that does not answer is one that runs nothing.
func (r *Router) ask(ctx context.Context) (catalogue, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out := catalogue{}
	for name, e := range r.engines {
		all, err := e.Models(ctx)
		if err != nil {
			r.log.Warn("engine does not list its models", slog.String("engine", name), slog.Any("error", err))
			continue
		}
		out[name] = map[engine.ModelID]engine.Model{}
		for _, m := range all {
			out[name][m.ID] = m
		}
	}
	before, asked := r.models.Last()
	known, loaded := r.routes.Last()
	if asked && loaded && !maps.EqualFunc(out, before, maps.Equal[map[engine.ModelID]engine.Model, map[engine.ModelID]engine.Model]) {
		r.report(ctx, view{known, out})
	}
	return out, nil
}

// Run keeps routes and models fresh until ctx ends.
func (r *Router) Run(ctx context.Context) error {
	if v, loaded := r.last(); loaded {
		r.report(ctx, v)
	}
	var fresh sync.WaitGroup
	fresh.Go(func() { r.models.Run(ctx) })
	r.routes.Run(ctx)
	fresh.Wait()
	return nil
}

// Pick returns where the request goes. Errors: CodeModelNotFound; CodeModelNotCapable, whose choice says what the model is;
// CodeEngineUnavailable, whose choice still says which version and arm failed, so that a rollout can count it.
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
	c := Choice{}
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
	if c.Engine, ok = r.engines[c.Version.Engine]; !ok {
		return c, fault.New(fault.CodeEngineUnavailable, a.Model).WithRetryAfter(time.Second)
	}
	if c.Info, err = s.info(c.Version); err != nil && c.Info.ID == "" {
		return c, fault.Wrap(err, fault.CodeEngineUnavailable, a.Model).WithRetryAfter(time.Second)
	}
	if !a.Need.Met(c.Info) {
		return c, fault.New(fault.CodeModelNotCapable, a.Model, fault.Say("route.other_use"), fault.Say("route.choose_another")).WithParam("model")
	}
	if err != nil {
		return c, fault.Wrap(err, fault.CodeEngineUnavailable, a.Model)
	}
	if c.Version.Digest == "" {
		c.Version.Digest = digest(c.Info)
	}
	if c.Version.Precision == "" {
		c.Version.Precision = c.Info.Precision
	}
	return c, nil
}

// within returns the model of the engine that is named, under the version that has these weights: a stable one if there is one. Without any the
// model has no version, and the name that its engine has for it.
func (r *Router) within(s view, a Ask) (Choice, error) {
	id := engine.ModelID(a.Model)
	info, ok := s.models[a.Engine][id]
	c := Choice{Engine: r.engines[a.Engine], Info: info, Version: Version{Model: a.Model, Engine: a.Engine, EngineModel: id}}
	if c.Engine == nil || !ok || !a.Need.Met(info) {
		return c, fault.Wrap(fmt.Errorf("engine %q has no such model for this", a.Engine), fault.CodeEngineUnavailable, a.Model).WithRetryAfter(time.Second)
	}
	stable := false
	for _, model := range slices.Sorted(maps.Keys(s.versions)) {
		for _, name := range slices.Sorted(maps.Keys(s.versions[model])) {
			v, first := s.versions[model][name], s.assignments[model].Stable == name
			if v.Engine == a.Engine && v.EngineModel == id && !changed(v, info) && (c.Version.Version == "" || first && !stable) {
				c.Version, stable = v, first
			}
		}
	}
	c.Version.Model = a.Model // by which it is priced, billed and recorded
	c.Version.Digest, c.Version.Precision = cmp.Or(c.Version.Digest, digest(info)), cmp.Or(c.Version.Precision, info.Precision)
	return c, nil
}

// info returns what the engine of a version says about its model, and why the version cannot run. Other weights than it was
// registered with are described and not run.
func (s view) info(v Version) (engine.Model, error) {
	info, ok := s.models[v.Engine][v.EngineModel]
	switch {
	case s.models[v.Engine] == nil:
		return info, errors.New("the engine does not answer")
	case !ok:
		return info, errors.New("the engine does not have the model")
	case changed(v, info):
		return info, fmt.Errorf("the weights are not those that version %s was registered with", v.Version)
	}
	return info, nil
}

// changed reports whether the engine now runs other weights under the version's name: evidence and audit records would be about a
// model that is gone.
func changed(v Version, info engine.Model) bool {
	return v.Digest != "" && info.Digest != "" && v.Digest != digest(info)
}

// digest names the weights of a model: its own, and those of the adapter that changes them.
func digest(info engine.Model) string {
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
	s, loaded := r.last()
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
		m.Info, m.Err = s.info(v)
		m.Gone = m.Info.ID == "" && s.models[v.Engine] != nil
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
	if _, ok := r.engines[v.Engine]; !ok {
		return invalid("engine", fault.Say("route.no_engine"))
	}
	if s, loaded := r.last(); loaded {
		info := s.models[v.Engine][v.EngineModel]
		if changed(v, info) {
			return invalid("digest", fault.Say("route.digest", digest(info)))
		}
		v.Digest, v.Precision = cmp.Or(v.Digest, digest(info)), cmp.Or(v.Precision, info.Precision)
	}
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
	if models, asked := r.models.Last(); asked {
		if info, ok := models[engineName][id]; ok {
			return digest(info), nil
		}
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
