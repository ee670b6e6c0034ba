package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// ropeSettings is one description of how positions turn, in the older spelling (rope_scaling beside rope_theta) or the newer one
// (rope_parameters with everything inside).
type ropeSettings struct {
	Kind       string   `json:"rope_type"`
	KindOld    string   `json:"type"`
	Theta      *float64 `json:"rope_theta"`
	Factor     *float64 `json:"factor"`
	LowFactor  float64  `json:"low_freq_factor"`
	HighFactor float64  `json:"high_freq_factor"`
	Original   float64  `json:"original_max_position_embeddings"`
	Partial    *float64 `json:"partial_rotary_factor"`
}

// rope reads how positions turn queries and keys. It returns the divisors of the frequencies, if there are any.
func (s *settings) rope(c *Config) ([]float32, error) {
	if c.HeadDim < 1 || c.HeadDim > maxHeadDim {
		return nil, c.validate() // says so
	}
	raw := s.RopeParameters
	if empty(raw) {
		raw = s.RopeScaling
	}
	var both struct {
		Full  json.RawMessage `json:"full_attention"`
		Local json.RawMessage `json:"sliding_attention"`
	}
	if !empty(raw) {
		if err := json.Unmarshal(raw, &both); err != nil {
			return nil, fmt.Errorf("the position scaling: %w", err)
		}
	}
	local := json.RawMessage(nil)
	if !empty(both.Full) || !empty(both.Local) {
		raw, local = both.Full, both.Local
	}
	base, partial := 10000.0, or(s.PartialRotary, 1)
	if c.Arch == Gemma3 {
		base = 1e6
	}
	var divisors []float32
	var err error
	if c.Rope, partial, divisors, err = parseRope(raw, or(s.RopeTheta, base), partial, c.HeadDim); err != nil {
		return nil, err
	}
	c.Rotated = int(float64(c.HeadDim) * partial)
	c.LocalRope = c.Rope
	if c.Arch != Gemma3 {
		return divisors, nil
	}
	c.LocalRope, _, _, err = parseRope(local, or(s.RopeLocalTheta, 10000), partial, c.HeadDim)
	if err == nil && c.LocalRope.Divided {
		err = errors.New("the position scaling llama3 in layers with a window is not supported")
	}
	return divisors, err
}

func parseRope(raw json.RawMessage, base, partial float64, headDim int) (Rope, float64, []float32, error) {
	var p ropeSettings
	if !empty(raw) {
		if err := json.Unmarshal(raw, &p); err != nil {
			return Rope{}, 0, nil, fmt.Errorf("the position scaling: %w", err)
		}
	}
	kind := p.Kind
	if kind == "" {
		kind = p.KindOld
	}
	r := Rope{Base: or(p.Theta, base), Factor: 1}
	if partial = or(p.Partial, partial); !finite(partial, 0, 1) {
		return Rope{}, 0, nil, fmt.Errorf("partial_rotary_factor is %v, outside 0 to 1", partial)
	}
	switch kind {
	case "", "default", "none":
		return r, partial, nil, nil
	case "linear":
		r.Factor = or(p.Factor, 0)
		return r, partial, nil, nil
	case "llama3":
		r.Divided = true
		divisors, err := p.divisors(r.Base, int(float64(headDim)*partial))
		return r, partial, divisors, err
	}
	return Rope{}, 0, nil, fmt.Errorf("the position scaling %q is not supported (supported: none, linear, llama3)", kind)
}

// divisors slow the rotations whose wave is long compared with the original context, by factor; short waves stay, those between go
// over smoothly.
func (p *ropeSettings) divisors(base float64, rotated int) ([]float32, error) {
	factor := or(p.Factor, 0)
	if !(factor > 0) || !(p.Original > 0) || !(p.LowFactor > 0) || !(p.HighFactor > p.LowFactor) || rotated < 2 {
		return nil, fmt.Errorf("the position scaling llama3 needs positive factor, original_max_position_embeddings, low_freq_factor and a larger high_freq_factor; they are %v, %v, %v, %v",
			factor, p.Original, p.LowFactor, p.HighFactor)
	}
	out := make([]float32, rotated/2)
	for i := range out {
		wave := 2 * math.Pi * math.Pow(base, 2*float64(i)/float64(rotated))
		switch {
		case wave < p.Original/p.HighFactor:
			out[i] = 1
		case wave > p.Original/p.LowFactor:
			out[i] = float32(factor)
		default:
			smooth := (p.Original/wave - p.LowFactor) / (p.HighFactor - p.LowFactor)
			out[i] = float32(1 / ((1-smooth)/factor + smooth))
		}
	}
	return out, nil
}

func empty(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}
