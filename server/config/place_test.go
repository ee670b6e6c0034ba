package config

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/engine/worker"
)

// TestPlaceOf: what is said of an engine holds in all its pools; of what runs on this machine nothing need be said, and everything else is outside.
func TestPlaceOf(t *testing.T) {
	at := func(name, address string, local bool) Worker {
		return Worker{Name: name, Config: worker.Config{Endpoint: worker.Endpoint{Address: address}, Local: local}}
	}
	e := Engines{
		Place:   pool.PlaceDevice,
		Workers: []Worker{at("socket", "unix:/run/w", false), at("local", "127.0.0.1:1", true), at("host", "gpu:1", false), at("pooled", "gpu:2", false)},
		Remote:  []Remote{{Name: "upstream"}, {Name: "near", Place: pool.PlaceEdge}},
		Pools:   []Pool{{Name: "a", Instances: []Instance{{Engine: "pooled", Place: pool.PlaceCentre}}}},
	}
	for name, want := range map[string]pool.Place{
		"native": "device", "socket": "device", "local": "device", "host": "cloud", "pooled": "centre", "upstream": "cloud", "near": "edge",
	} {
		if got := e.PlaceOf(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	e.Pools = append(e.Pools, Pool{Name: "b", Instances: []Instance{{Engine: "pooled", Place: pool.PlaceCloud}}})
	if err := e.validatePools(nil); err == nil || !strings.Contains(err.Error(), "pools[1].instances[0].place: the engine stands at centre") {
		t.Error(err)
	}
}
