package server

import (
	"slices"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/server/config"
)

// buildPools makes every engine a pool of its own, by which versions that were registered before it joined another one still find it, and the
// pools of the configuration.
func (p *parts) buildPools() {
	for name := range p.engines {
		p.pools.Replace(name, []pool.Member{p.member(config.Instance{Engine: name})})
	}
	for _, c := range p.cfg.Engines.Pools {
		members := make([]pool.Member, len(c.Instances))
		for i, in := range c.Instances {
			members[i] = p.member(in)
		}
		p.pools.Replace(c.Name, members)
	}
}

func (p *parts) member(in config.Instance) pool.Member {
	m := pool.Member{Name: in.Engine, Kind: pool.KindRemote, Engine: p.engines[in.Engine], Attributes: in.Attributes()}
	if in.Engine == nativeEngine {
		m.Kind = pool.KindNative
	}
	return m
}

// pooled are the names under which the models of this installation are registered at first: its pools, and every engine that is in none.
func (p *parts) pooled() []string {
	return slices.DeleteFunc(p.pools.Names(), func(name string) bool {
		return slices.ContainsFunc(p.cfg.Engines.Pools, func(c config.Pool) bool {
			return slices.ContainsFunc(c.Instances, func(in config.Instance) bool { return in.Engine == name })
		})
	})
}
