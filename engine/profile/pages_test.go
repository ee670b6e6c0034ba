package profile_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
)

// own reports whether a profile says where metrics stand otherwise than what it extends.
func own(t *testing.T, s *profile.Set, p *profile.Profile) bool {
	t.Helper()
	if len(p.Metrics.Map) == 0 {
		return false
	}
	if p.Extends == "" {
		return true
	}
	parent, err := s.Get(p.Extends)
	if err != nil {
		t.Fatal(err)
	}
	return parent.Metrics.Source != p.Metrics.Source
}

// TestPages: from a page that is documented or recorded, each profile reads what the page says, in our units, and nothing else: what is not on it is not
// reported.
func TestPages(t *testing.T) {
	s := set(t)
	for _, name := range s.Names() {
		p, err := s.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.Open(filepath.Join("testdata", "pages", name+".txt"))
		if err != nil {
			if own(t, s, p) && name != "mindie-coordinator" { // whose page is that of the server
				t.Errorf("%s has metrics of its own and no page", name)
			}
			continue
		}
		got, err := unified.Read(p.Metrics.Format, page, p.Metrics.Map)
		_ = page.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := os.ReadFile(filepath.Join("testdata", "pages", name+".want"))
		if err != nil {
			t.Fatal(err)
		}
		if name == "vllm" { // the aliases of the contract are what its profile reads
			for _, m := range unified.Metrics() {
				if row := p.Metrics.Map[m.Name]; row.Name != m.VLLM {
					t.Errorf("the alias of %s is %q, and vLLM's page has %q", m.Name, m.VLLM, row.Name)
				}
			}
		}
		seen := map[unified.Name]bool{}
		for line := range strings.Lines(string(want)) {
			f := strings.Fields(line)
			n := unified.Name(f[0])
			seen[n] = true
			v, ok := got[n]
			x := v.Value
			if f[1] == "mean" {
				x, ok = v.Mean()
				ok = ok && v.Form == unified.Histogram
			}
			w, err := strconv.ParseFloat(f[len(f)-1], 64)
			if err != nil {
				t.Fatal(err)
			}
			if !ok || math.Abs(x-w) > 1e-2*math.Abs(w) {
				t.Errorf("%s: %s is %g (%t), want %g", name, n, x, ok, w)
			}
		}
		for n, v := range got {
			if !seen[n] {
				t.Errorf("%s: %s is %+v, though the page does not say it", name, n, v)
			}
		}
		if missing := got.Missing(); len(missing)+len(got) != len(unified.Metrics()) || slices.ContainsFunc(missing, func(n unified.Name) bool { _, ok := got[n]; return ok }) {
			t.Errorf("%s: missing %v", name, missing)
		}
	}
}
