package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/simulate"
	"github.com/sluice-project/sluice/server/config"
)

// TestDemoPool: the files of the demonstration are read as the programs read them, every upstream of the gateway has its simulator, which speaks its
// dialect and has its model, and the pool has all of them and the worker.
func TestDemoPool(t *testing.T) {
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join("demo-pool", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	known, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	fleet, err := simulate.ReadFleet(read("fleet.yaml"), known)
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) *config.Config {
		t.Helper()
		path := filepath.Join(t.TempDir(), "sluice.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path, nil, map[string]any{"data": t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	gateway, worker := load(strings.ReplaceAll(string(read("sluice.yaml")), "@DATA@", "/tmp/demo")), load(string(read("worker.yaml")))
	model := string(worker.Engines.Native.Models[0].ID)
	var names []string
	for n, up := range gateway.Engines.Remote {
		m := up.Models[0]
		if sim := fleet[n]; up.BaseURL != "http://"+sim.Listen+"/v1" || m.Dialect != sim.Config.Profile.Name || m.ID != model || sim.Config.Model.Name != model {
			t.Errorf("%s: %s speaks %s and has %s; its simulator is %s, %s, %s", up.Name, up.BaseURL, m.Dialect, m.ID, sim.Listen, sim.Config.Profile.Name, sim.Config.Model.Name)
		}
		names = append(names, up.Name)
	}
	names = append(names, gateway.Engines.Workers[0].Name)
	var pooled []string
	for _, i := range gateway.Engines.Pools[0].Instances {
		pooled = append(pooled, i.Engine)
	}
	if strings.Join(pooled, " ") != strings.Join(names, " ") || len(fleet) != 3 {
		t.Errorf("the pool has %v, the configuration %v, the fleet %d", pooled, names, len(fleet))
	}
}
