package config

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-project/sluice/engine/pool"
)

// Pool is a name under which several engines answer for each other. They have the same models under the same ids.
type Pool struct {
	Name      string
	Instances []Instance
}

// Instance is an engine in a pool, and what there is to say of it.
type Instance struct {
	// Engine is "native", or the name of an upstream.
	Engine string
	// Weight is its share of the requests, next to the others' weights; 0 means 1.
	Weight int
	// Zone is where it stands, such as "room-2".
	Zone string
	// Roles are what it is for; none: everything.
	Roles []string
	// CostPerHour is what an hour of it costs, in the currency of the price books; 0: not told.
	CostPerHour float64
	// Power says where figures of its electric power come from: "measured", "modelled", "declared" or "" for nobody says.
	Power string
}

// Attributes returns the same for a pool.
func (i Instance) Attributes() pool.Attributes {
	return pool.Attributes{Weight: i.Weight, Zone: i.Zone, Roles: i.Roles, CostPerHour: int64(math.Round(i.CostPerHour * 1e9)), Power: pool.Power(i.Power)}
}

// validatePools returns what is wrong with the pools, as key and reason.
func (e Engines) validatePools() error {
	var errs []error
	key := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	engines, names := []string{}, map[string]bool{}
	if len(e.Native.Models) > 0 {
		engines = append(engines, "native")
	}
	for _, r := range e.Remote {
		engines = append(engines, r.Name)
	}
	for i, p := range e.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		key(p.Name != "" && !names[p.Name] && !slices.Contains(engines, p.Name), "%s.name: must be set, only once, and not be that of an engine", at)
		names[p.Name] = true
		key(len(p.Instances) > 0, "%s.instances: list at least one", at)
		seen := map[string]bool{}
		for k, in := range p.Instances {
			at := fmt.Sprintf("%s.instances[%d]", at, k)
			key(slices.Contains(engines, in.Engine) && !seen[in.Engine], "%s.engine: must be native or the name of an upstream, and only once", at)
			seen[in.Engine] = true
			if err := in.Attributes().Validate(); err != nil {
				errs = append(errs, fmt.Errorf("%s.%w", at, err))
			}
		}
	}
	return errors.Join(errs...)
}
