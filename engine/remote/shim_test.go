package remote

import (
	"cmp"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/profile"
)

// dialects are profiles that were read.
type dialects map[string]*profile.Profile

func (d dialects) wire(t *testing.T, m ModelConfig, q *engine.Request) (string, any, error) {
	t.Helper()
	name := cmp.Or(m.Dialect, dialectOpenAI)
	if d[name] == nil {
		s, err := profile.New()
		if err != nil {
			t.Fatal(err)
		}
		if d[name], err = s.Get(name); err != nil {
			t.Fatal(err)
		}
	}
	return wire(model{m, d[name]}, q)
}
