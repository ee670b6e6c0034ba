package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/unified"
)

// figure is the state of one metric.
type figure struct {
	value   float64
	count   uint64
	buckets []uint64 // of bounds
}

// tally are the metrics that were counted.
type tally map[unified.Name]figure

// bounds are the upper bounds of histograms: wide enough for seconds and for tokens.
func bounds() []float64 {
	return []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 50, 100, 500, 1000, 5000}
}

func (t *tally) change(n unified.Name, f func(*figure)) {
	if *t == nil {
		*t = tally{}
	}
	x := (*t)[n]
	f(&x)
	(*t)[n] = x
}

func (t *tally) add(n unified.Name, v float64) { t.change(n, func(f *figure) { f.value += v }) }
func (t *tally) set(n unified.Name, v float64) { t.change(n, func(f *figure) { f.value = v }) }

func (t *tally) observe(n unified.Name, v float64) {
	t.change(n, func(f *figure) {
		f.value += v
		f.count++
		all := bounds()
		f.buckets = append([]uint64(nil), f.buckets...)
		if f.buckets == nil {
			f.buckets = make([]uint64, len(all))
		}
		for i, le := range all {
			if v <= le {
				f.buckets[i]++
			}
		}
	})
}

func (t tally) clone() tally {
	if out := maps.Clone(t); out != nil {
		return out
	}
	return tally{}
}

// page writes the figures as the engine would, under its own names and in its own units.
func (s *Simulator) page() string {
	figures := s.core.figures()
	if s.cfg.Mutation == MutateMetricFrozen {
		figures = nil
	}
	m := s.cfg.Profile.Metrics
	if m.Format == unified.JSON {
		return s.jsonPage(figures)
	}
	var b strings.Builder
	for _, n := range slices.Sorted(maps.Keys(m.Map)) {
		series := m.Map[n]
		row, _ := unified.Lookup(n)
		form := series.Form
		if form == "" {
			form = row.Form
		}
		name, scale := series.Name, 1.0
		if series.Scale != 0 {
			scale = series.Scale
		}
		switch s.cfg.Mutation {
		case MutateMetricName:
			if n == s.broken() {
				name = strings.Replace(name, "_", "_x_", 1)
			}
		case MutateMetricUnit:
			if row.Unit == unified.Seconds {
				scale /= 1000
			}
		default:
		}
		write(&b, name, form, s.labels(series), figures[n], row, scale)
	}
	return b.String()
}

// broken is the metric that a mutation renames: the first that has to be there.
func (s *Simulator) broken() unified.Name {
	for _, n := range slices.Sorted(maps.Keys(s.cfg.Profile.Metrics.Map)) {
		if !s.cfg.Profile.Metrics.Map[n].Optional {
			return n
		}
	}
	return ""
}

func (s *Simulator) labels(series unified.Series) string {
	all := map[string]string{}
	for _, set := range []map[string]string{s.cfg.Profile.Metrics.Labels, series.Labels} {
		for k, v := range set {
			if v == "*" {
				v = s.cfg.Model.Name
			}
			all[k] = v
		}
	}
	if s.cfg.Role != "" {
		all["role"] = s.cfg.Role
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+strconv.Quote(all[k]))
	}
	return strings.Join(out, ",")
}

func write(b *strings.Builder, name string, form unified.Form, labels string, f figure, row unified.Metric, scale float64) {
	with := func(more string) string {
		if labels == "" && more == "" {
			return ""
		}
		return "{" + strings.Trim(labels+","+more, ",") + "}"
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, row.Meaning, name, form)
	if form != unified.Histogram {
		v := f.value
		if row.Form == unified.Histogram && f.count > 0 { // told as a gauge: the mean
			v /= float64(f.count)
		}
		fmt.Fprintf(b, "%s%s %g\n", name, with(""), v/scale)
		return
	}
	counts := f.buckets
	if counts == nil {
		counts = make([]uint64, len(bounds()))
	}
	for i, le := range bounds() {
		fmt.Fprintf(b, "%s_bucket%s %d\n", name, with(fmt.Sprintf("le=%q", strconv.FormatFloat(le/scale, 'g', -1, 64))), counts[i])
	}
	fmt.Fprintf(b, "%s_bucket%s %d\n%s_sum%s %g\n%s_count%s %d\n", name, with(`le="+Inf"`), f.count, name, with(""), f.value/scale, name, with(""), f.count)
}

// jsonPage is a list with one object.
func (s *Simulator) jsonPage(figures map[unified.Name]figure) string {
	doc := map[string]any{}
	for n, series := range s.cfg.Profile.Metrics.Map {
		scale := 1.0
		if series.Scale != 0 {
			scale = series.Scale
		}
		name := series.Name
		if s.cfg.Mutation == MutateMetricName && n == s.broken() {
			name += "X"
		}
		put(doc, name, figures[n].value/scale)
	}
	j, _ := json.Marshal([]any{doc}) // numbers and texts
	return string(j)
}

// put sets a member at a path.
func put(doc map[string]any, path string, v any) {
	names := strings.Split(path, ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := doc[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			doc[name] = inner
		}
		doc = inner
	}
	doc[names[len(names)-1]] = v
}
