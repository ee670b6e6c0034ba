package governance

import (
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/governance/watermark"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	watermarkOff      = "off"
	watermarkOn       = "on"
	watermarkRequired = "required"
)

// Watermarking says how a policy has answers marked.
type Watermarking struct {
	On bool
	// Required: a model whose engine cannot mark is not asked.
	Required bool
	Params   watermark.Params
	// Greedy: answers at temperature 0 are marked, too; of KGW alone.
	Greedy bool
}

// watermarking is what a policy says of it, with all parameters as they were when it was published: defaults that change later leave it as it is. nil
// stands for off.
type watermarking struct {
	Mode    string           `json:"mode"`
	Scheme  watermark.Scheme `json:"scheme,omitempty"`
	SubKeys int              `json:"sub_keys,omitempty"`
	Context int              `json:"context,omitempty"`
	Gamma   float64          `json:"gamma,omitempty"`
	Delta   float64          `json:"delta,omitempty"`
	Greedy  bool             `json:"greedy,omitempty"`
}

func (w *watermarking) params() watermark.Params {
	return watermark.Params{Scheme: w.Scheme, SubKeys: w.SubKeys, Context: w.Context, Gamma: w.Gamma, Delta: w.Delta}
}

// readWatermark reads a mode, or a mode with its scheme.
func (p *policy) readWatermark(n *yaml.Node, path string) error {
	w := watermarking{Mode: watermarkOff}
	var context *int
	var gamma, delta *float64
	mode := choice(&w.Mode, watermarkOff, watermarkOn, watermarkRequired)
	if n.Kind != yaml.MappingNode {
		if err := mode(n, path); err != nil {
			return err
		}
	} else if err := object(n, path, []field{
		{"mode", true, mode},
		{"scheme", false, choice((*string)(&w.Scheme), string(watermark.Gumbel), string(watermark.KGW))},
		{"context", false, setting(func(s string) (err error) { context, err = given(strconv.Atoi(s)); return err })},
		{"gamma", false, setting(func(s string) (err error) { gamma, err = given(strconv.ParseFloat(s, 64)); return err })},
		{"delta", false, setting(func(s string) (err error) { delta, err = given(strconv.ParseFloat(s, 64)); return err })},
		{"greedy", false, setting(func(s string) (err error) { w.Greedy, err = strconv.ParseBool(s); return err })},
	}); err != nil {
		return err
	}
	ok := set(&w.Context, context) && set(&w.Gamma, gamma) && set(&w.Delta, delta)
	if parameters := context != nil || gamma != nil || delta != nil || w.Greedy; parameters && w.Scheme != watermark.KGW || !ok || w.params().Validate() != nil {
		return errorAt(n, path, fault.Say("governance.watermark"))
	}
	if w.Mode != watermarkOff {
		q := w.params().WithDefaults()
		w.Scheme, w.SubKeys, w.Context, w.Gamma, w.Delta = q.Scheme, q.SubKeys, q.Context, q.Gamma, q.Delta
		p.Watermark = &w
	}
	return nil
}

// given is a parameter that the policy names.
func given[T int | float64](v T, err error) (*T, error) { return &v, err }

// set takes a parameter over if it is given. It reports whether it may be: 0 would mean the default, which nobody asked for.
func set[T int | float64](to, v *T) bool {
	if v == nil {
		return true
	}
	*to = *v
	return *v != 0
}

// setting reads a scalar of a watermark.
func setting(read func(string) error) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || read(n.Value) != nil {
			return errorAt(n, path, fault.Say("governance.watermark"))
		}
		return nil
	}
}

// Watermark returns how answers are marked.
func (a *Admission) Watermark() Watermarking {
	w := a.active.policy.Watermark
	if w == nil {
		return Watermarking{}
	}
	return Watermarking{On: true, Required: w.Mode == watermarkRequired, Params: w.params(), Greedy: w.Greedy}
}
