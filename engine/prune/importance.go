package prune

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Importance is what was seen of a model's activations while it read a calibration text.
type Importance struct {
	Layers []LayerImportance
}

// LayerImportance holds sums of squares over the tokens of the text. Only their proportions within a layer matter.
type LayerImportance struct {
	// Attention has one number per input of attn_output (heads × size of a head), or one per head.
	Attention []float64
	// FFN has one number per input of ffn_down.
	FFN []float64
}

// NewImportance returns an Importance for a model of that many layers, to be filled by Observe.
func NewImportance(layers int) *Importance {
	return &Importance{Layers: make([]LayerImportance, layers)}
}

// Observe adds one token: attention is the input of the layer's attn_output, ffn that of its ffn_down; either may be nil. Calls for
// different layers may run at the same time.
func (im *Importance) Observe(layer int, attention, ffn []float32) {
	l := &im.Layers[layer]
	l.Attention, l.FFN = addSquares(l.Attention, attention), addSquares(l.FFN, ffn)
}

func addSquares(sum []float64, x []float32) []float64 {
	if sum == nil && len(x) > 0 {
		sum = make([]float64, len(x))
	}
	for i, v := range x {
		sum[i] += float64(v) * float64(v)
	}
	return sum
}

// check makes sure that the numbers are of this model and are numbers.
func (im *Importance) check(m *model) error {
	if len(im.Layers) != m.layers {
		return fmt.Errorf("the calibration is of %d layers, the model has %d; record it with this model", len(im.Layers), m.layers)
	}
	for i, l := range im.Layers {
		if n := len(l.Attention); (n != m.heads && n != m.heads*m.valueDim) || len(l.FFN) != m.hidden {
			return fmt.Errorf("the calibration of layer %d has %d attention values and %d channels, the model %d (or %d) and %d; record it with this model",
				i, n, len(l.FFN), m.heads*m.valueDim, m.heads, m.hidden)
		}
		for _, v := range slices.Concat(l.Attention, l.FFN) {
			if !(v >= 0) || math.IsInf(v, 0) {
				return fmt.Errorf("the calibration of layer %d has the energy %v; record it again", i, v)
			}
		}
	}
	return nil
}

// keep says which key-value heads and which channels a layer keeps, in their order.
type keep struct {
	groups, channels []int
}

// choose ranks the units of every layer and keeps the most important.
func (m *model) choose(opt Options, report *Report) ([]keep, error) {
	groups, channels := m.kvHeads, m.hidden
	if opt.Heads > 0 {
		groups = opt.Heads / m.group()
	}
	if opt.FFN > 0 {
		channels = opt.FFN
	}
	report.HeadsKept, report.FFNKept = Share{Worst: 1}, Share{Worst: 1}
	keeps := make([]keep, m.layers)
	for i := range keeps {
		heads, err := m.headScores(i, opt.Importance)
		if err != nil {
			return nil, err
		}
		ffn, err := m.ffnScores(i, opt.Importance)
		if err != nil {
			return nil, err
		}
		keeps[i].groups = report.HeadsKept.add(heads, groups, i, m.layers)
		keeps[i].channels = report.FFNKept.add(ffn, channels, i, m.layers)
	}
	return keeps, nil
}

// add keeps the n best of a layer's units and notes the share of the sum that they have.
func (s *Share) add(scores []float64, n, layer, layers int) []int {
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	kept, all := 0.0, 0.0
	for i, unit := range order {
		all += scores[unit]
		if i < n {
			kept = all
		}
	}
	share := 1.0
	if all > 0 {
		share = kept / all
	}
	s.Mean += share
	if layer == layers-1 {
		s.Mean /= float64(layers)
	}
	if share < s.Worst {
		s.Worst, s.Layer = share, layer
	}
	order = order[:n]
	slices.Sort(order)
	return order
}

// headScores returns the energy of each group of query heads with its key-value head.
func (m *model) headScores(layer int, im *Importance) ([]float64, error) {
	out, err := m.columnEnergies(layer, "attn_output.weight")
	if err != nil {
		return nil, err
	}
	var energy func(i int) float64
	if im != nil {
		seen := im.Layers[layer].Attention
		per := len(out) / len(seen) // columns per number
		energy = func(i int) float64 { return seen[i/per] }
	} else {
		rows, err := m.rowEnergies(layer, "attn_v", "attn_norm.weight")
		if err != nil {
			return nil, err
		}
		group := m.group()
		energy = func(i int) float64 { return rows[i/m.valueDim/group*m.valueDim+i%m.valueDim] }
	}
	scores := make([]float64, m.kvHeads)
	for i, e := range out {
		scores[i/(m.valueDim*m.group())] += float64(e * energy(i))
	}
	return scores, finite(scores, layer)
}

// ffnScores returns the energy of each channel.
func (m *model) ffnScores(layer int, im *Importance) ([]float64, error) {
	scores, err := m.columnEnergies(layer, "ffn_down.weight")
	if err != nil {
		return nil, err
	}
	var energy []float64
	if im != nil {
		energy = im.Layers[layer].FFN
	} else if energy, err = m.channelEnergies(layer); err != nil {
		return nil, err
	}
	for i := range scores {
		scores[i] *= energy[i]
	}
	return scores, finite(scores, layer)
}

// channelEnergies estimates the activations of the channels from the weights that make them: by the squared cosine between a
// channel's rows of gate and up. Where both point the same way, every input that opens the gate also drives the channel, and the few
// channels that a model cannot do without are of that kind. The norms of the rows say less than nothing: in trained models small rows
// belong to channels that fire often.
func (m *model) channelEnergies(layer int) ([]float64, error) {
	scale, err := m.vector(m.name(layer, "ffn_norm.weight"), m.dim)
	if err != nil {
		return nil, err
	}
	up, errUp := m.file.Tensor(m.name(layer, "ffn_up.weight"))
	gate, errGate := m.file.Tensor(m.name(layer, "ffn_gate.weight"))
	if err := errors.Join(errUp, errGate); err != nil {
		return nil, err
	}
	u, g, out := make([]float32, m.dim), make([]float32, m.dim), make([]float64, m.hidden)
	for i := range out {
		up.Row(i, u)
		gate.Row(i, g)
		var uu, gg, ug float64
		for j, s := range scale {
			a, b := float64(u[j])*float64(s), float64(g[j])*float64(s)
			uu, gg, ug = uu+float64(a*a), gg+float64(b*b), ug+float64(a*b) // rounded alike on every machine
		}
		if uu > 0 && gg > 0 {
			out[i] = ug * ug / (uu * gg)
		} else if uu+gg != uu+gg { // NaN
			out[i] = uu + gg
		}
	}
	return out, nil
}

func finite(scores []float64, layer int) error {
	for _, s := range scores {
		if math.IsNaN(s) || math.IsInf(s, 0) {
			return fmt.Errorf("layer %d has weights that are not finite; the file is damaged", layer)
		}
	}
	return nil
}

// columnEnergies returns the squared norm of each column.
func (m *model) columnEnergies(layer int, suffix string) ([]float64, error) {
	t, err := m.file.Tensor(m.name(layer, suffix))
	if err != nil {
		return nil, err
	}
	row, sum := make([]float32, t.Cols()), make([]float64, t.Cols())
	for i := range t.Rows() {
		t.Row(i, row)
		addSquares(sum, row)
	}
	return sum, nil
}

// rowEnergies returns the squared norm of each row, its columns scaled by the norm's weights, plus the square of its bias if any.
func (m *model) rowEnergies(layer int, name, norm string) ([]float64, error) {
	t, err := m.file.Tensor(m.name(layer, name+".weight"))
	if err != nil {
		return nil, err
	}
	scale, err := m.vector(m.name(layer, norm), t.Cols())
	if err != nil {
		return nil, err
	}
	sum := make([]float64, t.Rows())
	if bias := m.name(layer, name+".bias"); m.file.HasTensor(bias) {
		values, err := m.vector(bias, t.Rows())
		if err != nil {
			return nil, err
		}
		addSquares(sum, values)
	}
	row := make([]float32, t.Cols())
	for i := range sum {
		t.Row(i, row)
		for j, v := range row {
			x := float64(v) * float64(scale[j])
			sum[i] += float64(x * x)
		}
	}
	return sum, nil
}

func (m *model) vector(name string, n int) ([]float32, error) {
	t, err := m.file.Tensor(name)
	if err != nil {
		return nil, err
	}
	if t.Rows() != 1 || t.Cols() != n {
		return nil, fmt.Errorf("tensor %q has the shape %v, the model's numbers call for [%d]", name, t.Shape, n)
	}
	v := make([]float32, n)
	t.Row(0, v)
	return v, nil
}
