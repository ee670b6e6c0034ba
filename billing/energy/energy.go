// Package energy is a leaf of billing: it attributes electrical energy to requests.
//
// With meters ([Config].Meters) an [Account] splits what they tell, interval by interval, into what the machine takes when idle, what each
// request is charged, and what is nobody's: the three add up to the meter, to the microjoule, and none is negative. Weights are the time that
// the machine worked for each request: by the steps of the native engine where it has some, else by the time that requests were at work. A
// request that was at work while a meter could not be read has no figure at all. Nothing waits for a meter. One that is sampled tells of the time before
// each sample alone: requests that end in between are charged what such work took lately.
//
// Without meters the operator declares what the machine draws when idle and when all its slots are busy ([Model]). While one request occupies
// a slot it causes
//
//	(busy − idle) ÷ max(slots, concurrent)
//
// milliwatts, and its share is that power times its time in the slot, in whole microjoules rounded down. The idle draw is nobody's
// request; it stays unattributed. Since at most max(slots, concurrent) requests run at one instant, the shares of any window sum
// to at most its dynamic energy, and with the idle part to at most what the machine draws when every slot is busy.
//
// Every figure has the method by which it came about: measured, modelled or declared.
package energy

import (
	"errors"
	"time"

	"github.com/sluice-project/sluice/billing/energy/meter"
)

// Config declares the power model and names the meters. The zero value attributes nothing.
type Config struct {
	// IdleMilliwatts is the draw with the models loaded and no request running. With meters it counts until they have seen the machine idle.
	IdleMilliwatts int64 `koanf:"idle_milliwatts"`
	// BusyMilliwatts is the draw with every slot busy.
	BusyMilliwatts int64 `koanf:"busy_milliwatts"`
	// Slots is the number of requests that run at once when the machine is busy; 0 means 1.
	Slots int `koanf:"slots"`
	// Period is the time between two readings of the meters; 0 means 1 s.
	Period time.Duration `koanf:"period"`
	// Meters are read, and what they tell is added up. Without any, figures are declared.
	Meters []meter.Config `koanf:"meters"`
}

const (
	defaultPeriod = time.Second
	minPeriod     = 100 * time.Millisecond // faster than the sensors are updated
	maxPeriod     = 10 * time.Second       // slower, and counters may wrap unseen
)

func (c Config) period() time.Duration {
	if c.Period == 0 {
		return defaultPeriod
	}
	return c.Period
}

// Validate reports what is wrong with the declaration.
func (c Config) Validate() error {
	if c.IdleMilliwatts < 0 || c.BusyMilliwatts > meter.MaxMilliwatts {
		return errors.New("idle_milliwatts and busy_milliwatts: must lie between 0 and 1000000000")
	}
	if c.BusyMilliwatts < c.IdleMilliwatts {
		return errors.New("busy_milliwatts: must not be less than idle_milliwatts")
	}
	if c.Slots < 0 || c.Slots > 1<<20 {
		return errors.New("slots: must lie between 0 and 1048576")
	}
	if p := c.period(); p < minPeriod || p > maxPeriod {
		return errors.New("period: must lie between 100ms and 10s")
	}
	return meter.ValidateAll(c.Meters)
}

// Model attributes energy. It is a value and safe for concurrent use.
type Model struct {
	dynamic uint64 // milliwatts, of all slots together
	slots   int
}

// New returns the model that cfg declares.
func New(cfg Config) (Model, error) {
	if err := cfg.Validate(); err != nil {
		return Model{}, err
	}
	return Model{
		dynamic: uint64(cfg.BusyMilliwatts - cfg.IdleMilliwatts),
		slots:   max(1, cfg.Slots),
	}, nil
}

// Attribute returns the share, in microjoules, of a request that occupied a slot for busy while at most concurrent requests ran,
// itself included. A busy time that is not positive has no share.
func (m Model) Attribute(busy time.Duration, concurrent int) int64 {
	return meter.Microjoules(m.dynamic, busy, max(1, m.slots, concurrent))
}
