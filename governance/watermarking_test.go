package governance

import (
	"strings"
	"testing"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

// TestWatermarkOfPolicies: a policy says whether and how answers are marked; what it cannot mean is refused, and its canonical form says the same.
func TestWatermarkOfPolicies(t *testing.T) {
	gumbel := watermark.Params{}.WithDefaults()
	kgw := watermark.Params{SubKeys: 256, Scheme: watermark.KGW, Context: 2, Gamma: 0.5, Delta: 1.5}
	for text, want := range map[string]Watermarking{
		"":                                      {},
		"watermark: off":                        {},
		`watermark: "on"`:                       {On: true, Params: gumbel},
		"watermark: on":                         {On: true, Params: gumbel},
		"watermark: required":                   {On: true, Required: true, Params: gumbel},
		"watermark: {mode: off}":                {},
		"watermark: {mode: on, scheme: gumbel}": {On: true, Params: gumbel},
		"watermark: {mode: required, scheme: kgw, context: 2, gamma: 0.5, delta: 1.5, greedy: true}": {On: true, Required: true, Params: kgw, Greedy: true},
	} {
		p, err := parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\nwatermark: off\n", "\n"+text+"\n", 1)))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		canonical, digest := p.canonical()
		back, err := readCanonical(canonical, digest)
		if err != nil || strings.Contains(canonical, "watermark") != want.On {
			t.Fatalf("%s: %s, %v", text, canonical, err)
		}
		for _, p := range []*policy{p, back} {
			if got := (&Admission{active: activePolicy{policy: p}}).Watermark(); got != want {
				t.Errorf("%s: %+v", text, got)
			}
		}
	}
	for _, text := range []string{
		"yes", "true", "[on]", "{scheme: kgw}", "{mode: on, scheme: synthid}", "{mode: on, gamma: 0.5}", "{mode: on, scheme: kgw, gamma: 1}", "{mode: on, scheme: kgw, gamma: NaN}",
		"{mode: on, scheme: kgw, delta: 0.x}", "{mode: on, scheme: kgw, context: 5}", "{mode: on, scheme: kgw, greedy: maybe}", "{mode: on, greedy: true}", "{mode: on, scheme: kgw, key: x}",
		"{mode: off, scheme: gumbel, delta: 1}", "{mode: on, scheme: kgw, gamma: 0}", "{mode: on, scheme: kgw, delta: 0}", "{mode: on, scheme: kgw, delta: -0}", "{mode: on, scheme: kgw, context: 0}",
		"{mode: on, scheme: gumbel, context: 4}", "{mode: on, gamma: 0}", "{mode: on, delta: -0.0}",
	} {
		_, err := parsePolicy([]byte(strings.Replace(string(defaultPolicy), "\nwatermark: off\n", "\nwatermark: "+text+"\n", 1)))
		if !fault.Is(err, fault.CodeInvalidPolicy) || !strings.Contains(err.Error(), "watermark") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
