package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/siem"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/billing/energy"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native"
	"github.com/sluice-project/sluice/engine/native/vllm"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/gateway/reconcile"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/accessreview"
	"github.com/sluice-project/sluice/governance/agreement"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/label/c2pa"
	"github.com/sluice-project/sluice/governance/label/labelfile"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/governance/signingkeys"
	"github.com/sluice-project/sluice/governance/tenantmark"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/internal/wrapkey"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/rag"
	"github.com/sluice-project/sluice/rag/reduce"
	"github.com/sluice-project/sluice/server/alerts"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/erasure"
	"github.com/sluice-project/sluice/server/offboard"
	"github.com/sluice-project/sluice/server/provenance"
	"github.com/sluice-project/sluice/server/sla"
	"github.com/sluice-project/sluice/workflows"
	"github.com/sluice-project/sluice/workflows/devserver"
)

// nativeEngine is the name under which model versions refer to the engine of this process.
const nativeEngine = "native"

// parts are the built parts of an installation, in dependency order. There is no container: this is the graph.
type parts struct {
	cfg *config.Config
	log *slog.Logger
	reg *prometheus.Registry

	version    string
	metrics    prometheus.Gatherers // what /metrics shows: reg, and other names of the same
	keys       *keyring.Ring
	db         *gorm.DB
	identity   *identity.Identity
	access     *access.Enforcer
	guard      *governance.Guard
	ledger     *billing.Ledger
	audit      *audit.Log
	siem       *siem.Exporter // nil without a destination
	reconciler *reconcile.Reconciler
	eraser     *erasure.Eraser
	reviews    *accessreview.Service
	offboard   *offboard.Service
	native     *native.Engine // nil without native models
	engines    map[string]engine.Engine
	workers    map[string]*worker.Client // those of engines that run in processes of their own
	scaled     []*scaledPool             // pools whose workers this process starts
	pools      *pool.Set
	profiles   *profile.Set
	instances  *instances.Registry
	rag        *rag.Service // nil without an embedding model
	files      *files.Store
	batches    *batch.Service
	replies    *replies.Store
	askLine    batch.Ask // of the edge, which is built last
	router     *route.Router
	limits     *limit.Limiter
	energy     *energy.Account
	steps      *energySteps
	labels     *label.Labeler
	authority  *c2pa.Authority
	marker     labelfile.Writer
	signing    *signingkeys.Store
	marks      *tenantmark.Store
	agreements *agreement.Store
	watermarks *tenantmark.Service
	provenance *provenance.Service
	registry   *registry.Service
	pipeline   *gateway.Pipeline
	flows      *workflows.Service // nil when switched off
	temporal   *devserver.Server  // nil unless embedded
	notify     *notify.Notifier
	sla        *sla.Service
	watcher    *alerts.Watcher // nil without a channel to tell
	rotator    *wrapkey.Rotator
	secrets    *credentials

	late        lateness           // of what the compliance matrix asks about
	evaluations singleflight.Group // of the compliance matrix, by tenant

	closers []func() error
}

// loop is one background task of a part.
type loop struct {
	name string
	run  func(ctx context.Context) error
}

// build constructs every part and loads its first snapshot. It starts nothing. On error, what was built is closed again.
func build(ctx context.Context, cfg *config.Config, keys *keyring.Ring, version string, log *slog.Logger) (*parts, error) {
	reg := prometheus.NewRegistry()
	p := &parts{
		cfg: cfg, log: log, reg: reg, keys: keys, version: version, metrics: prometheus.Gatherers{reg},
		engines: map[string]engine.Engine{}, workers: map[string]*worker.Client{}, pools: &pool.Set{},
	}
	p.secrets = &credentials{refresh: cfg.RefreshCredentials, log: log}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"data", p.buildData},
		{"notifications", p.buildNotifier},
		{"governance", p.buildGovernance},
		{"billing", p.buildBilling},
		{"audit", p.buildAudit},
		{"engines", p.buildEngines},
		{"erasures", func(context.Context) error { p.buildEraser(false); return nil }},
		{"wrapping keys", p.buildRotator},
		{"offboardings", p.buildOffboard},
		{"retrieval", p.buildRetrieval},
		{"gateway", p.buildGateway},
		{"batches", p.buildBatches},
		{"provenance", p.buildProvenance},
		{"workflows", p.buildWorkflows},
		{"security monitoring", p.buildSIEM},
		{"alerts", p.buildWatcher},
	} {
		if err := step.do(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("start %s: %w", step.name, err), p.close())
		}
	}
	return p, nil
}

// buildData opens the database, whose schema must be the one this binary knows.
func (p *parts) buildData(ctx context.Context) error {
	var err error
	if p.db, err = database.Open(ctx, p.cfg.Database); err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { return database.Close(p.db) })
	st, err := migrations.Check(ctx, p.db)
	if err != nil {
		return err
	}
	if err := st.Usable(); err != nil {
		return err
	}
	if st.Current > st.Latest {
		p.log.LogAttrs(ctx, slog.LevelWarn, "the database was upgraded by a newer release; install that release here too",
			slog.Int64("schema", st.Current), slog.Int64("known", st.Latest))
	}
	return nil
}

// openIdentity opens who may call, as the database has it.
func (p *parts) openIdentity(ctx context.Context) (err error) {
	if p.identity, err = identity.New(p.cfg.Identity, identity.Limits(p.cfg.Limits.Key), p.db, p.keys, p.log, p.reg); err != nil {
		return err
	}
	return p.identity.Load(ctx)
}

func (p *parts) buildGovernance(ctx context.Context) error {
	err := p.openIdentity(ctx)
	if err != nil {
		return err
	}
	if p.access, err = access.New(); err != nil {
		return err
	}
	cfg := p.cfg.Governance
	cfg.Organisation = p.identity.OrganisationOf
	if p.guard, err = governance.New(cfg, governance.NewPolicyStore(p.db), p.keys, classify.New(classify.Classes()...), p.log, p.reg); err != nil {
		return err
	}
	p.closers = append(p.closers, p.guard.Close)
	if p.labels, err = label.New(p.cfg.Label, p.keys); err != nil {
		return err
	}
	if p.authority, p.marker, err = contentCredentials(p.cfg, p.keys); err != nil {
		return err
	}
	if err := p.guard.Load(ctx); err != nil {
		return err
	}
	if err := p.buildSigning(ctx); err != nil {
		return err
	}
	if err := p.buildMarks(ctx); err != nil {
		return err
	}
	return p.buildAgreements(ctx)
}

func (p *parts) buildBilling(ctx context.Context) error {
	var err error
	p.steps = &energySteps{parts: p}
	p.energy, err = energy.NewAccount(energy.AccountConfig{Config: p.cfg.Energy, Steps: p.steps.since, Log: p.log.With(slog.String("component", "energy"))})
	if err != nil {
		return err
	}
	p.energy.Register(p.reg)
	cfg := p.cfg.Billing
	cfg.Organisation = p.identity.OrganisationOf
	if cfg.Node == "" {
		if cfg.Node, err = nodeID(p.cfg.Data); err != nil {
			return err
		}
	}
	if p.ledger, err = billing.New(cfg, p.db, p.log, p.reg); err != nil {
		return err
	}
	p.closers = append(p.closers, func() error { //nolint:contextcheck // at closing time the context has ended
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		return p.ledger.Close(ctx)
	})
	return p.ledger.Load(ctx)
}

// buildAudit opens the log. Recovery of what a crash left behind happens here, before any request is answered.
func (p *parts) buildAudit(ctx context.Context) error {
	err := p.buildRegistry()
	if err == nil {
		err = p.registry.Load(ctx)
	}
	if err != nil {
		return err
	}
	if p.audit, err = audit.Open(p.auditConfig(), p.db, p.keys, reconcile.Sink(p.ledger), p.log, p.reg); err != nil {
		return err
	}
	p.closers = append(p.closers, p.audit.Close)
	p.reconciler = newReconciler(p, p.reg)
	p.reviews = accessreview.New(accessreview.Config{
		Identity: p.identity, Access: p.access, Notice: p.cfg.Identity.WithDefaults().ReviewNotice, Record: p.recordEnd,
	}, p.db, p.log)
	return nil
}

// buildEraser lets what is kept of people be erased. The caches of this process go also when another replica erases.
func (p *parts) buildEraser(command bool) {
	cfg := erasure.Config{
		Audit: p.audit, Values: p.guard.Values(), Approvals: p.guard.Approvals(), Keys: p.keys, Remote: p.outside(),
		Spill: p.cfg.Engines.Native.PrefixCache.SpillDir != "", Log: !database.IsSQLite(p.db), Command: command,
		Tenant: func(ctx context.Context, id string) error { return identity.TenantExists(ctx, p.db, id) },
	}
	if !command { // which keeps nothing
		cfg.Forget = p.forget
		p.audit.WhenErased(p.forget)
	}
	cfg.Beside, cfg.Files = eraseBeside, p.filesStay
	p.eraser = erasure.New(cfg)
}

// filesStay reports whether a tenant has files or batches, which no erasure of a person reaches.
func (p *parts) filesStay(ctx context.Context, tx *gorm.DB, tenant string) (bool, error) {
	if tx == nil {
		tx = p.db
	}
	tx = tx.WithContext(ctx)
	if has, err := files.Any(tx, tenant); has || err != nil {
		return has, err
	}
	return batch.Any(tx, tenant)
}

// outside reports whether engines outside of this process may keep what they are given.
func (p *parts) outside() bool {
	e := p.cfg.Engines
	return len(e.Remote)+len(e.Workers)+len(e.Registered.Networks)+len(p.scaled) > 0
}

// forget has all engines of ours drop what they keep of a tenant's prompts and answers.
func (p *parts) forget(tenant string) {
	p.signing.Forget()
	p.marks.Forget()
	p.registry.Forget(tenant)
	if p.pipeline != nil { // commands have none
		p.pipeline.ForgetAnswers(tenant)
	}
	if p.native != nil {
		p.native.Forget(tenant)
	}
	var asked sync.WaitGroup
	for _, w := range p.workers {
		asked.Go(func() { w.Forget(tenant) })
	}
	for _, s := range p.scaled {
		for _, w := range s.workers.Clients() {
			asked.Go(func() { w.Forget(tenant) })
		}
	}
	asked.Wait()
}

// buildNative loads the models of this process.
func (p *parts) buildNative(ctx context.Context) error {
	cfg := p.nativeConfig()
	if dir := cfg.PrefixCache.SpillDir; dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make engines.native.prefix_cache.spill_dir: %w", err)
		}
	}
	e, err := native.New(cfg, p.log, p.reg)
	if err != nil {
		return err
	}
	p.native = e
	p.engines[nativeEngine] = e
	p.closers = append(p.closers, e.Close)
	if err := checkWeights(ctx, e, p.cfg.Engines.Native.Models); err != nil {
		return err
	}
	if !p.cfg.Metrics.VLLMNames {
		return nil
	}
	theirs, err := vllm.NewMetrics(ctx, p.reg, e, p.log)
	if err != nil {
		return err
	}
	p.metrics = append(p.metrics, theirs)
	return nil
}

func (p *parts) buildEngines(ctx context.Context) error {
	if len(p.cfg.Engines.Native.Models) > 0 {
		if err := p.buildNative(ctx); err != nil {
			return err
		}
	}
	var err error
	if p.profiles, err = profile.New(p.cfg.Engines.Profiles...); err != nil {
		return fmt.Errorf("engines.profiles: %w", err)
	}
	for _, cfg := range p.cfg.Engines.Remote {
		cfg.Profiles = p.profiles
		if _, taken := p.engines[cfg.Name]; taken {
			return fmt.Errorf("engines.remote: the name %q is taken", cfg.Name)
		}
		e, err := remote.New(cfg.Config)
		if err != nil {
			return fmt.Errorf("engine %s: %w", cfg.Name, err)
		}
		p.engines[cfg.Name] = e
		p.closers = append(p.closers, e.Close)
	}
	for _, cfg := range p.cfg.Engines.Workers {
		if _, taken := p.engines[cfg.Name]; taken {
			return fmt.Errorf("engines.workers: the name %q is taken", cfg.Name)
		}
		w, err := worker.New(cfg.Config)
		if err != nil {
			return fmt.Errorf("engine %s: %w", cfg.Name, err)
		}
		p.engines[cfg.Name], p.workers[cfg.Name] = w, w
		p.closers = append(p.closers, w.Close)
	}
	if len(p.engines) == 0 {
		return errors.New("no engine is configured: set engines.native.models, engines.workers or engines.remote")
	}
	return p.buildPools(ctx)
}

// nativeConfig is what the native engine is to run, with absolute paths.
func (p *parts) nativeConfig() native.Config {
	cfg := p.cfg.Engines.Native
	optional := func(path string) string {
		if path == "" {
			return ""
		}
		return p.cfg.ModelPath(path)
	}
	cfg.Models, cfg.Adapters = slices.Clone(cfg.Models), slices.Clone(cfg.Adapters)
	for i := range cfg.Models {
		m := &cfg.Models[i]
		m.Path, m.Calibration = optional(m.Path), optional(m.Calibration)
	}
	for i := range cfg.Adapters {
		cfg.Adapters[i].Path = optional(cfg.Adapters[i].Path)
	}
	if dir := cfg.PrefixCache.SpillDir; dir != "" && !filepath.IsAbs(dir) {
		cfg.PrefixCache.SpillDir = filepath.Join(p.cfg.Data, dir)
	}
	return cfg
}

// embeddingModel returns the place of the model that retrieval embeds with. A file of an earlier release may name only one of the two keys that
// have to agree, and the default of the other has changed, so the error says what to write.
func embeddingModel(models []engine.Model, id string) (int, error) {
	i := slices.IndexFunc(models, func(m engine.Model) bool { return string(m.ID) == id && m.CanEmbed })
	if i >= 0 {
		return i, nil
	}
	var able []string
	for _, m := range models {
		if m.CanEmbed {
			able = append(able, strconv.Quote(string(m.ID)))
		}
	}
	there := "no model there can embed"
	if len(able) > 0 {
		there = "those that can embed there: " + strings.Join(able, ", ")
	}
	return 0, fmt.Errorf("rag.embedding_model is %q, which is not among engines.native.models or cannot embed (%s): set rag.embedding_model to one of them, "+
		"or list %[1]q in engines.native.models with its path and fetch it with 'sluice pull'; both keys have defaults, so set both or neither", id, there)
}

func (p *parts) buildRetrieval(ctx context.Context) error {
	cfg := p.cfg.RAG.Config
	cfg.Dir = filepath.Join(p.cfg.Data, "rag")
	if p.cfg.RAG.EmbeddingModel == "" || p.native == nil {
		return rag.RemoveStored(cfg.Dir)
	}
	models, err := p.native.Models(ctx)
	if err != nil {
		return err
	}
	i, err := embeddingModel(models, p.cfg.RAG.EmbeddingModel)
	if err != nil {
		return err
	}
	shorter, err := reduce.For(models[i].Digest)
	if err != nil {
		return err
	}
	// Vectors of other weights are not comparable, so the index goes by the digest of the weights.
	if p.rag, err = rag.New(cfg, p.db, p.keys, rag.Model{ID: models[i].Digest, Dim: models[i].EmbedDim, Reduce: shorter}, p.log, p.reg); err != nil {
		return err
	}
	p.closers = append(p.closers, p.rag.Close)
	p.rag.Reembed(rag.Reembedding{Embed: p.embedStored(models[i].ID), May: p.mayReembed, Leads: p.leadsReembedding, Record: p.recordReembedding})
	return p.rag.Load(ctx)
}

func (p *parts) buildGateway(ctx context.Context) error {
	var err error
	if p.router, err = route.New(p.cfg.Route, p.db, p.pools, p.log, p.reg); err != nil {
		return err
	}
	if err := p.router.Load(ctx); err != nil {
		return err
	}
	if p.limits, err = newLimiter(p.cfg.Limits, p); err != nil {
		return err
	}
	deps := gateway.Deps{
		Identity: p.identity, Access: p.access, Limits: p.limits, Guard: gateway.FromGuard(p.guard), Router: p.router,
		Ledger: gateway.FromLedger(p.ledger), Audit: p.audit, Energy: p.energy, Labels: p.labels, Agreements: p.agreements, Signers: p.signing, Marks: p.marks, Issuer: p.audit.Origin(), Keys: p.keys, Log: p.log,
	}
	if p.cfg.Registry.Enabled {
		deps.Registry = p.registry
	}
	if p.rag != nil {
		deps.Retriever, deps.Embedding = p.rag, route.Ask{Engine: nativeEngine, Model: p.cfg.RAG.EmbeddingModel, Need: route.Embed}
	}
	p.pipeline, err = gateway.New(p.cfg.Gateway, deps, p.reg)
	if err == nil {
		p.closers = append(p.closers, func() error { p.pipeline.Drain(); return nil })
	}
	return err
}

// loops lists the background tasks of the built parts.
func (p *parts) loops() []loop {
	out := []loop{
		{"identity", p.identity.Run},
		{"policy", p.guard.Run},
		{"pseudonyms", p.guard.Sweep},
		{"signing keys", p.signing.Run},
		{"watermark keys", p.marks.Run},
		{"label agreements", p.agreements.Run},
		{"billing", p.ledger.Run},
		{"energy", p.energy.Run},
		{"audit", p.audit.Run},
		{"retention", p.audit.Retain},
		{"reconciliation", p.reconciler.Run},
		{"instances", p.instances.Run},
		{"route", p.router.Run},
		{"notifications", p.notify.Run},
		{"secrets", p.secrets.Run},
		{"reviews of access", p.reviews.Run},
		{"wrapping keys", p.rotator.Run},
		{"offboardings", p.offboard.Run},
		{"files", p.files.Run},
		{"batches", p.batches.Run},
		{"replies", p.replies.Run},
		{"registry", p.runRegistry},
	}
	if len(p.cfg.Energy.Meters) > 0 && p.native != nil { // else nobody reads them
		out = append(out, loop{"costs of steps", p.steps.run})
	}
	for _, s := range p.scaled {
		out = append(out, loop{"scaling of " + s.name, s.Run})
	}
	if p.rag != nil {
		out = append(out, loop{"retrieval", p.runRetrieval})
	}
	if p.siem != nil {
		out = append(out, loop{"security monitoring", p.siem.Run})
	}
	if p.watcher != nil {
		out = append(out, loop{"alerts", p.watch})
	}
	if p.temporal != nil {
		out = append(out, loop{"temporal", p.temporal.Run})
	}
	if p.flows != nil {
		out = append(out, loop{"workflows", p.flows.Run})
	}
	return out
}

// close releases everything in reverse order.
func (p *parts) close() error {
	var errs []error
	for i := len(p.closers) - 1; i >= 0; i-- {
		errs = append(errs, p.closers[i]())
	}
	p.closers = nil
	return errors.Join(errs...)
}
