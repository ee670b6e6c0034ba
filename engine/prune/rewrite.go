package prune

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-project/sluice/engine/gguf"
)

// write makes the new file.
func (m *model) write(out string, opt Options, keeps []keep, report *Report) error {
	w := gguf.NewWriter()
	w.CopyMeta(m.file)
	parameters := int64(0)
	for t := range m.file.All() {
		shape, err := m.addTensor(w, t, opt, keeps, report)
		if err != nil {
			return err
		}
		n := int64(1)
		for _, d := range shape {
			n *= int64(d)
		}
		parameters += n
	}
	groups, channels := len(keeps[0].groups), len(keeps[0].channels)
	for _, pair := range []struct {
		key   string
		value any
	}{
		{m.arch + ".attention.head_count", uint32(groups * m.group())},
		{m.arch + ".attention.head_count_kv", uint32(groups)},
		{m.arch + ".feed_forward_length", uint32(channels)},
		// The size of a head no longer follows from the width and the number of heads.
		{m.arch + ".attention.key_length", uint32(m.keyDim)},
		{m.arch + ".attention.value_length", uint32(m.valueDim)},
		// Where the file comes from.
		{"sluice.prune.source", m.file.Digest()},
		{"sluice.prune.importance", report.Importance},
	} {
		if err := w.Set(pair.key, pair.value); err != nil {
			return err
		}
	}
	if err := m.setCounts(w, parameters); err != nil {
		return err
	}
	return w.WriteFile(out)
}

// setCounts corrects the sizes that the file tells about itself.
func (m *model) setCounts(w *gguf.Writer, parameters int64) error {
	if m.file.Has("general.parameter_count") {
		if err := w.Set("general.parameter_count", uint64(parameters)); err != nil {
			return err
		}
	}
	if !m.file.Has("general.size_label") {
		return nil
	}
	label := fmt.Sprintf("%.0fM", float64(parameters)/1e6)
	if parameters >= 1e9 {
		label = fmt.Sprintf("%.1fB", float64(parameters)/1e9)
	}
	return w.Set("general.size_label", label)
}

// addTensor announces what becomes of a tensor and returns its new shape.
func (m *model) addTensor(w *gguf.Writer, t *gguf.Tensor, opt Options, keeps []keep, report *Report) ([]int, error) {
	layer, suffix, ok := splitName(t.Name)
	role, _ := roles(suffix)
	if !ok || role.unit == 0 {
		return t.Shape, w.Copy(t)
	}
	indices := m.indices(role.unit, keeps[layer])
	switch {
	case len(indices) == m.width(role.unit):
		return t.Shape, w.Copy(t)
	case role.columns:
		return addColumns(w, t, indices, opt.SameFormat, report)
	}
	shape := []int{t.Cols(), len(indices)}
	return shape, w.AddRaw(t.Name, t.Type, shape, func(i int, dst []byte) error {
		copy(dst, t.Raw(indices[i]))
		return nil
	})
}

// indices returns the rows or columns of the units that stay.
func (m *model) indices(unit byte, k keep) []int {
	per, units := 1, k.channels
	switch unit {
	case 'q':
		per, units = m.group()*m.keyDim, k.groups
	case 'k':
		per, units = m.keyDim, k.groups
	case 'v':
		per, units = m.valueDim, k.groups
	case 'o':
		per, units = m.group()*m.valueDim, k.groups
	}
	out := make([]int, 0, per*len(units))
	for _, u := range units {
		for i := range per {
			out = append(out, u*per+i)
		}
	}
	return out
}

// addColumns announces a tensor of which the columns at indices stay.
func addColumns(w *gguf.Writer, t *gguf.Tensor, indices []int, sameFormat bool, report *Report) ([]int, error) {
	shape := slices.Clone(t.Shape)
	shape[0] = len(indices)
	elements, bytes := t.Type.Block()
	if wholeBlocks(indices, elements) {
		return shape, w.AddRaw(t.Name, t.Type, shape, func(i int, dst []byte) error {
			raw := t.Raw(i)
			for b := range len(indices) / elements {
				from := indices[b*elements] / elements * bytes
				copy(dst[b*bytes:(b+1)*bytes], raw[from:])
			}
			return nil
		})
	}
	kind := gguf.Q8_0
	switch {
	case len(indices)%32 != 0:
		kind = gguf.F16
	case sameFormat && elements == 32:
		kind = t.Type
	}
	report.Requantised = append(report.Requantised, Requantised{Tensor: t.Name, From: t.Format(), To: strings.ToLower(kind.String())})
	row := make([]float32, t.Cols())
	return shape, w.Add(t.Name, kind, shape, func(i int, dst []float32) error {
		t.Row(i, row)
		for j, from := range indices {
			dst[j] = row[from]
		}
		return nil
	})
}

// wholeBlocks reports whether indices are runs that begin and end with blocks of that many elements.
func wholeBlocks(indices []int, elements int) bool {
	if len(indices)%elements != 0 {
		return false
	}
	for i, index := range indices {
		if index%elements != i%elements || (i%elements > 0 && index != indices[i-1]+1) {
			return false
		}
	}
	return true
}
