package sla

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Config is the service level that is promised. The zero value promises nothing, and everything is counted all the same.
type Config struct {
	// Window is the span over which an error budget is reckoned; 0 means 30 days. A whole number of hours, at most 90 days.
	Window time.Duration `koanf:"window"`
	// Keep is for how long counts are kept; 0 means 400 days.
	Keep time.Duration `koanf:"keep"`
	// Objectives are at most 100, each for other requests.
	Objectives []Objective `koanf:"objectives"`
}

// Objective is what is promised for some requests. An empty Model, Tenant or Class is any, but that nothing is promised of the class batch unless it is named.
// Of several that hold for a request the one with most of the three counts, and of equal ones that with the model, then the tenant.
type Objective struct {
	Model  string `koanf:"model" json:"model,omitempty"`
	Tenant string `koanf:"tenant" json:"tenant,omitempty"`
	Class  string `koanf:"class" json:"class,omitempty"`
	// Availability is the share of requests that must not fail, in percent, such as 99.9; 0: nothing is promised.
	Availability float64 `koanf:"availability" json:"availability,omitempty"`
	FirstToken   Latency `koanf:"first_token" json:"first_token,omitzero"`
	Total        Latency `koanf:"total" json:"total,omitzero"`
}

// Latency is promised of a share of the answers; a zero Within promises nothing.
type Latency struct {
	Percent float64       `koanf:"percent" json:"percent"` // of the answers, such as 95
	Within  time.Duration `koanf:"within" json:"within_ns"`
}

const (
	defaultWindow = 30 * 24 * time.Hour
	longestWindow = 90 * 24 * time.Hour
	defaultKeep   = 400 * 24 * time.Hour
	maxObjectives = 100
	classBatch    = "batch"
	million       = 1_000_000
)

func (c Config) withDefaults() Config {
	c.Window = cmp.Or(c.Window, defaultWindow)
	c.Keep = cmp.Or(c.Keep, defaultKeep)
	return c
}

// Validate reports what is wrong; the message begins with the key.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	wrong := func(key, why string) { errs = append(errs, fmt.Errorf("%s: %s", key, why)) }
	if c.Window < time.Hour || c.Window > longestWindow || c.Window%time.Hour != 0 {
		wrong("window", "must be a whole number of hours, from 1h to 2160h")
	}
	if c.Keep < c.Window {
		wrong("keep", "must not be shorter than window")
	}
	if len(c.Objectives) > maxObjectives {
		wrong("objectives", fmt.Sprintf("must be at most %d", maxObjectives))
	}
	seen := map[scope]bool{}
	for i, o := range c.Objectives {
		key := fmt.Sprintf("objectives[%d]", i)
		switch s := o.scope(); {
		case seen[s]:
			wrong(key, "another one has the same model, tenant and class")
		default:
			seen[s] = true
		}
		if strings.Contains(o.Model, "@") {
			wrong(key+".model", "must be without a version: all versions of a model count together")
		}
		if o.Class != "" && !slices.Contains(classes(), o.Class) {
			wrong(key+".class", "must be interactive, standard or batch")
		}
		if o.Availability != 0 && !promisable(o.Availability) {
			wrong(key+".availability", "must be a percentage from 50 to 99.9999, such as 99.9")
		}
		for name, l := range map[string]Latency{"first_token": o.FirstToken, "total": o.Total} {
			if l != (Latency{}) && (l.Within <= 0 || l.Within > time.Hour || !promisable(l.Percent)) {
				wrong(key+"."+name, "needs percent, from 50 to 99.9999, and within, up to 1h")
			}
		}
		if o.Availability == 0 && o.FirstToken == (Latency{}) && o.Total == (Latency{}) {
			wrong(key, "promises nothing")
		}
	}
	return errors.Join(errs...)
}

func promisable(percent float64) bool { return percent >= 50 && percent <= 99.9999 } // also false for NaN

// classes are those of requests; the gateway takes no other.
func classes() []string { return []string{"interactive", "standard", classBatch} }

// allowed is how many of a million may miss a percentage.
func allowed(percent float64) int64 { return int64(math.Round((100 - percent) * million / 100)) }

type scope struct{ model, tenant, class string }

func (o Objective) scope() scope { return scope{o.Model, o.Tenant, o.Class} }

// Name tells the objective from all others.
func (o Objective) Name() string {
	return cmp.Or(o.Model, "*") + " / " + cmp.Or(o.Tenant, "*") + " / " + cmp.Or(o.Class, "*")
}

func (o Objective) holdsFor(s scope) bool {
	return (o.Model == "" || o.Model == s.model) && (o.Tenant == "" || o.Tenant == s.tenant) && (o.Class == s.class || o.Class == "" && s.class != classBatch)
}

func (o Objective) rank() int {
	rank := 0
	for _, x := range []struct {
		set    bool
		weight int
	}{{o.Model != "", 10 + 4}, {o.Tenant != "", 10 + 2}, {o.Class != "", 10 + 1}} {
		if x.set {
			rank += x.weight
		}
	}
	return rank
}

// objectiveOf returns the objective of a request, -1 if nothing is promised.
func (c Config) objectiveOf(s scope) int {
	best := -1
	for i, o := range c.Objectives {
		if o.holdsFor(s) && (best < 0 || o.rank() > c.Objectives[best].rank()) {
			best = i
		}
	}
	return best
}
