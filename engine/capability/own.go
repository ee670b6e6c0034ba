package capability

import (
	"runtime"

	"github.com/sluice-project/sluice/engine"
)

// Own returns the contract of a model of this program's own engine, by what the engine lists of it. The suite of the engine's contract
// (engine/enginetest) has shown it on real models, so it is known at E3; on which processors is another matter. How long a prompt may be the engine says
// itself, which counts the tokens.
func Own(m engine.Model) *Contract {
	seen := E3
	c := &Contract{
		Defaults: Evidence{Grade: &seen, Owner: OwnerEngine, Source: "engine/enginetest"},
		Engine:   Engine{Name: Know("sluice"), Licence: Know("Apache-2.0"), Route: Know("independent"), Bearer: Know("runtime")},
		Hardware: Hardware{Vendor: Know("cpu"), Family: Know(runtime.GOARCH)},
		Exec:     Exec{Modes: map[Mode]Cell{Eager: validated()}, DynamicShape: Know(true)},
		Features: map[Feature]Cell{},
	}
	if m.EngineVersion != "" {
		c.Engine.Version = Know(m.EngineVersion)
	}
	for _, f := range Features() {
		if has, _ := Listed(&m, f); has {
			c.Features[f] = validated()
		}
	}
	for _, more := range []struct { // what no list speaks of
		yes      bool
		features []Feature
	}{
		{m.CanGenerate, []Feature{Usage, Cancel, Drain, Salt}},
		{m.CanEmbed || m.CanScore, []Feature{Usage}},
		{m.CanGenerate && m.Adapter != "", []Feature{Adapters}},
	} {
		for _, f := range more.features {
			if more.yes {
				c.Features[f] = validated()
			}
		}
	}
	return c
}

func validated() Cell {
	return Cell{Status: Validated, Grade: E3, Owner: OwnerEngine, Source: "engine/enginetest"}
}
