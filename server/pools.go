package server

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/engine/worker"
	"github.com/sluice-project/sluice/gateway/instances"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/snapshot"
	"github.com/sluice-project/sluice/server/config"
)

// buildPools makes every engine a pool of its own, by which versions that were registered before it joined another one still find it, and the
// pools of the configuration; then it adds what administrators have registered.
func (p *parts) buildPools(ctx context.Context) error {
	configured := map[string][]pool.Member{}
	for name := range p.engines {
		configured[name] = []pool.Member{p.member(config.Instance{Engine: name})}
	}
	for _, c := range p.cfg.Engines.Pools {
		for _, in := range c.Instances {
			configured[c.Name] = append(configured[c.Name], p.member(in))
		}
	}
	var err error
	p.instances, err = instances.New(p.cfg.Engines.Registered, snapshot.Config{Poll: p.cfg.Route.Poll, MaxAge: p.cfg.MaxStale}, instances.Deps{
		DB: p.db, Pools: p.pools, Configured: configured, Open: p.openInstance, Log: p.log,
	}, p.reg)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, p.instances.Close)
	if err := p.instances.Load(ctx); err != nil {
		return err
	}
	return p.buildScaling()
}

// openInstance makes the engine of a registered upstream.
func (p *parts) openInstance(s instances.Spec, networks []string, key keyring.Credential) (engine.Engine, error) {
	cfg := remote.Config{BaseURL: s.BaseURL, APIKey: key, AllowPrivate: networks, OnlyAllowed: true, Profiles: p.profiles}
	for _, m := range s.Models {
		cfg.Models = append(cfg.Models, remote.ModelConfig{
			ID: m.ID, Upstream: m.Upstream, ContextTokens: m.ContextTokens, EmbedDim: m.EmbedDim, Digest: m.Digest, Precision: m.Precision,
			Logprobs: m.Logprobs, Tools: m.Tools, Formats: m.Formats, Sampling: m.Sampling, Seed: m.Seed, Choices: m.Choices, Rerank: m.Rerank, Dialect: s.Dialect,
		})
	}
	if place := s.Attributes.Place; place != "" && place != pool.PlaceCloud && cfg.Outside(p.profiles) {
		return nil, fault.New(fault.CodeInvalidValue, "place", fault.Say("instances.outside")).WithParam("place")
	}
	if err := cfg.Validate(); err != nil {
		field := "models"
		if strings.HasPrefix(err.Error(), "base_url") {
			field = "base_url"
		}
		return nil, fault.Wrap(err, fault.CodeInvalidValue, field, fault.Say("instances.upstream")).WithParam(field)
	}
	return remote.New(cfg)
}

func (p *parts) member(in config.Instance) pool.Member {
	m := pool.Member{Name: in.Engine, Kind: pool.KindRemote, Engine: p.engines[in.Engine], Attributes: in.Attributes()}
	if in.Engine == nativeEngine {
		m.Kind = pool.KindNative
	}
	if w := p.workers[in.Engine]; w != nil {
		m.Kind, m.Engine = pool.KindWorker, workerInstance{w}
	}
	m.Place = p.cfg.Engines.PlaceOf(in.Engine)
	if i := slices.IndexFunc(p.cfg.Engines.Remote, func(r config.Remote) bool { return r.Name == in.Engine }); i >= 0 {
		m.Profile = p.cfg.Engines.Remote[i].Dialect()
	}
	return m
}

// workerInstance is a worker as a pool sees it.
type workerInstance struct{ *worker.Client }

// Condition implements pool.Conditioned.
func (w workerInstance) Condition() pool.State {
	switch w.State() {
	case worker.Ready:
		return pool.StateReady
	case worker.Draining:
		return pool.StateDraining
	default: // it takes no requests yet
		return pool.StateWarming
	}
}

// pooled are the names under which the models of this installation are registered at first: its pools, and every engine that is in none.
func (p *parts) pooled() []string {
	return slices.DeleteFunc(p.pools.Names(), func(name string) bool {
		return slices.ContainsFunc(p.cfg.Engines.Pools, func(c config.Pool) bool {
			return slices.ContainsFunc(c.Instances, func(in config.Instance) bool { return in.Engine == name })
		})
	})
}
