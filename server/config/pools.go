package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/scaling/local"
)

// Pool is a name under which several engines answer for each other. They have the same models under the same ids.
type Pool struct {
	Name      string
	Instances []Instance
	// Scale has workers started and ended beside the instances; nil: nobody is.
	Scale *Scale
}

// Scale says how many instances a pool has, and how workers for it are started.
type Scale struct {
	scaling.Policy `koanf:",squash"`

	// Every is the time between decisions; 0 means 5 seconds.
	Every   time.Duration
	Workers local.Config
}

// maxCost bounds costs, so that what is computed of them stays a number.
const maxCost = 1e9

// Validate reports what is wrong with the scaling of a pool; the message begins with the name of the field.
func (s Scale) Validate() error {
	if err := s.Policy.Validate(); err != nil {
		return err
	}
	if s.Every < 0 || s.Every > time.Minute {
		return errors.New("every: must lie between 0 and a minute")
	}
	if s.Targets.Misses > 0 {
		return errors.New("targets.misses: is not measured of local workers; leave it out")
	}
	if s.Cost.Carbon > 0 {
		return errors.New("cost.carbon: nothing says here what power emits; leave it out")
	}
	if s.Cost.Watts > maxCost || s.Cost.Instance > maxCost || s.Cost.Miss > maxCost {
		return errors.New("cost: must not be above a billion")
	}
	if len(s.Domains) > 0 {
		return errors.New("domains: all workers are on this machine; leave them out")
	}
	if err := s.Workers.Validate(); err != nil {
		return fmt.Errorf("workers.%w", err)
	}
	return nil
}

// Instance is an engine in a pool, and what there is to say of it.
type Instance struct {
	// Engine is "native", or the name of an upstream or a worker.
	Engine string
	// Weight is its share of the requests, next to the others' weights; 0 means 1.
	Weight int
	// Zone is where it stands, such as "room-2".
	Zone string
	// Place is what kind of place that is; "" is the place of the engine.
	Place pool.Place
	// Roles are what it is for; none: everything.
	Roles []string
	// CostPerHour is what an hour of it costs, in the currency of the price books; 0: not told.
	CostPerHour float64
	// CostPerMillion is what a million tokens of it cost, in the same currency, and JoulesPerToken the energy of one; 0: not told.
	CostPerMillion float64
	JoulesPerToken float64
	// Power says where figures of its electric power come from: "measured", "modelled", "declared" or "" for nobody says.
	Power string
}

// Attributes returns the same for a pool.
func (i Instance) Attributes() pool.Attributes {
	return pool.Attributes{Weight: i.Weight, Place: i.Place, Zone: i.Zone, Roles: i.Roles, CostPerHour: int64(math.Round(i.CostPerHour * 1e9)), CostPerMillion: i.CostPerMillion, JoulesPerToken: i.JoulesPerToken, Power: pool.Power(i.Power)}
}

// outside reports whether an engine is an upstream whose dialect is that of a cloud.
func (e Engines) outside(name string, profiles *profile.Set) bool {
	i := slices.IndexFunc(e.Remote, func(r Remote) bool { return r.Name == name })
	return i >= 0 && e.Remote[i].Outside(profiles)
}

// PlaceOf returns the kind of place where an engine stands, whichever pool it is asked in: what is said of it, else that of this machine for the engine of this
// process and workers of this machine, and outside for everything else.
func (e Engines) PlaceOf(name string) pool.Place {
	said, here := e.saidPlace(name)
	switch {
	case said != "":
		return said
	case here:
		return cmp.Or(e.Place, pool.PlaceCentre)
	}
	return pool.PlaceCloud
}

// saidPlace returns what is said of the place of an engine, by itself or in a pool; here, whether it runs on this machine.
func (e Engines) saidPlace(name string) (said pool.Place, here bool) {
	here = true
	for _, r := range e.Remote {
		if r.Name == name {
			said, here = r.Place, false
		}
	}
	for _, w := range e.Workers {
		if w.Name == name {
			said, here = w.Place, w.Local || strings.HasPrefix(w.Address, "unix:")
		}
	}
	for _, p := range e.Pools {
		for _, in := range p.Instances {
			if in.Engine == name {
				said = cmp.Or(said, in.Place)
			}
		}
	}
	return said, here
}

// validatePools returns what is wrong with the pools, as key and reason.
func (e Engines) validatePools(profiles *profile.Set) error {
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
	for _, w := range e.Workers {
		engines = append(engines, w.Name)
	}
	for i, p := range e.Pools {
		at := fmt.Sprintf("pools[%d]", i)
		key(p.Name != "" && !names[p.Name] && !slices.Contains(engines, p.Name), "%s.name: must be set, only once, and not be that of an engine", at)
		names[p.Name] = true
		key(len(p.Instances) > 0, "%s.instances: list at least one", at)
		if p.Scale != nil {
			key(filepath.IsLocal(p.Name) && !strings.ContainsAny(p.Name, `/\`), "%s.name: is part of a path where there is scale: it must be without slashes", at)
			if err := p.Scale.Validate(); err != nil {
				errs = append(errs, fmt.Errorf("%s.scale.%w", at, err))
			}
		}
		seen := map[string]bool{}
		for k, in := range p.Instances {
			at := fmt.Sprintf("%s.instances[%d]", at, k)
			key(slices.Contains(engines, in.Engine) && !seen[in.Engine], "%s.engine: must be native or the name of an upstream or a worker, and only once", at)
			seen[in.Engine] = true
			key(p.Scale == nil || !strings.HasPrefix(in.Engine, local.NamePrefix), "%s.engine: must not begin with "+local.NamePrefix+" where there is scale: those are the names of the workers that are started", at)
			key(in.Place == "" || in.Place == pool.PlaceCloud || !e.outside(in.Engine, profiles), "%s.place: the dialect of the engine is that of a cloud, which is outside", at)
			said, _ := e.saidPlace(in.Engine)
			key(in.Place == "" || in.Place == said, "%s.place: the engine stands at %s, as is said elsewhere; it stands at one place", at, said)
			if err := in.Attributes().Validate(); err != nil {
				errs = append(errs, fmt.Errorf("%s.%w", at, err))
			}
		}
	}
	return errors.Join(errs...)
}
