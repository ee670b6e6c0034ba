package arch

import (
	"path/filepath"
	"testing"

	"github.com/sluice-project/sluice/engine/graph"
)

// The passes fuse what every family has to fuse, a plan of memory can be made of the result, and it computes what transformers does.
// Whether a plan rounds rows to int8 is left to the engine: here they stay as they are.
func TestOptimisedGraphsComputeTheSame(t *testing.T) {
	for _, family := range families() {
		for _, plan := range []string{"f32", "native", "int8"} {
			t.Run(family+"/"+plan, func(t *testing.T) {
				t.Parallel()
				m := open(t, filepath.Join("testdata", family))
				p, err := graph.NewPrecision(plan, nil)
				if err != nil {
					t.Fatal(err)
				}
				nodes := len(m.Graph.Nodes)
				report, err := graph.Optimize(m.Graph, p)
				if err != nil {
					t.Fatal(err)
				}
				layers := m.Config.Layers
				want := map[string]int{"qkv": layers, "residual": 2 * layers}
				if !m.Config.Encoder() {
					want["gateup"], want["rope"] = layers, layers
				}
				for pass, n := range want {
					if report.Applied[pass] < n {
						t.Errorf("%s applied %d times, want %d; not: %v", pass, report.Applied[pass], n, report.Skipped)
					}
				}
				if len(m.Graph.Nodes) >= nodes && plan == "f32" {
					t.Errorf("%d nodes became %d", nodes, len(m.Graph.Nodes))
				}
				if _, err := graph.NewPlan(m.Graph); err != nil {
					t.Error(err)
				}
				checkGolden(t, m, readExpected(t, family))
			})
		}
	}
}
