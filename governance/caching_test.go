package governance

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
)

// TestCacheOfPolicies: a policy says whether equal requests share an answer; what it cannot mean is refused, and its canonical form says the same.
func TestCacheOfPolicies(t *testing.T) {
	exact := Caching{On: true, Keep: true, TTL: 5 * time.Minute, Bytes: 8 << 20}
	for text, want := range map[string]Caching{
		"":                                       {},
		"cache: off":                             {},
		"cache: {mode: off}":                     {},
		"cache: coalesce":                        {On: true},
		"cache: {mode: coalesce}":                {On: true},
		"cache: exact":                           exact,
		"cache: {mode: exact, ttl: 300s}":        exact,
		"cache: {mode: coalesce, sampled: true}": {On: true, Sampled: true},
		"cache: {mode: exact, ttl: 1h, stale_if_error: 10m, max_bytes: 65536, sampled: true}": {On: true, Keep: true, TTL: time.Hour, Stale: 10 * time.Minute, Bytes: 65536, Sampled: true},
	} {
		p, err := parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\ncache: off\n", "\n"+text+"\n", 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		canonical, digest := p.canonical()
		back, err := readCanonical(canonical, digest)
		if err != nil || strings.Contains(canonical, `"cache"`) != want.On {
			t.Fatalf("%s: %s, %v", text, canonical, err)
		}
		for _, p := range []*policy{p, back} {
			if got := (&Admission{active: activePolicy{policy: p}}).Caching(); got != want {
				t.Errorf("%s: %+v", text, got)
			}
		}
	}
	for _, text := range []string{
		"yes", "[exact]", "{ttl: 5m}", "{mode: exact, ttl: 0s}", "{mode: exact, ttl: 61m}", "{mode: exact, ttl: 1500ms}", "{mode: exact, ttl: 5}", "{mode: exact, stale_if_error: -1s}",
		"{mode: exact, stale_if_error: 2h}", "{mode: exact, max_bytes: 0}", "{mode: exact, max_bytes: 1073741825}", "{mode: exact, sampled: maybe}", "{mode: coalesce, ttl: 5m}",
		"{mode: coalesce, stale_if_error: 0s}", "{mode: coalesce, max_bytes: 65536}", "{mode: exact, ttl: ~}", "{mode: exact, max_bytes: 65536.0}",
		"{mode: off, sampled: true}", "{mode: exact, key: x}", "{mode: exact, max_bytes: 1e3}", "{mode: exact, max_bytes: +65536}", "{mode: exact, max_bytes: 65535}", "{mode: exact, sampled: T}",
	} {
		_, err := parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\ncache: off\n", "\ncache: "+text+"\n", 1)))
		if !fault.Is(err, fault.CodeInvalidPolicy) || !strings.Contains(err.Error(), "cache") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
