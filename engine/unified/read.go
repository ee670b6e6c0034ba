package unified

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxPage bounds a page, in bytes.
const MaxPage = 16 << 20

// Check returns what is wrong with where a metric is said to stand.
func (s Series) Check(n Name) error {
	m, ok := Lookup(n)
	switch {
	case !ok:
		return errors.New("there is no such metric")
	case s.Name == "":
		return errors.New("name: must be set")
	case s.Scale < 0 || math.IsNaN(s.Scale) || math.IsInf(s.Scale, 0):
		return errors.New("scale: must be above 0")
	case s.Form != "" && s.Form != Gauge && s.Form != Counter && s.Form != Histogram:
		return fmt.Errorf("form: %q must be gauge, counter or histogram", string(s.Form))
	case m.Form == Counter && s.Form == Gauge, m.Form == Gauge && s.Form == Histogram:
		return fmt.Errorf("form: a %s is not told by a %s", m.Form, s.Form)
	}
	return nil
}

func (s Series) scale() float64 {
	if s.Scale == 0 {
		return 1
	}
	return s.Scale
}

// Read takes a page apart. A metric of the map that is not on it is not in the values; nothing is ever made up for it.
func Read(f Format, page io.Reader, m Map) (Values, error) {
	if f == JSON {
		return readJSON(page, m)
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(io.LimitReader(page, MaxPage))
	if err != nil {
		return nil, fmt.Errorf("metrics page: %w", err)
	}
	out := Values{}
	for name, s := range m {
		if v, ok := find(families, name, s); ok {
			out[name] = v
		}
	}
	return out, nil
}

// find looks for a series under its name and its older ones.
func find(families map[string]*dto.MetricFamily, n Name, s Series) (Value, bool) {
	for _, name := range append([]string{s.Name}, s.Older...) {
		f, ok := families[name]
		if !ok {
			continue
		}
		if v, ok := value(f, n, s); ok {
			v.Series = name
			return v, true
		}
	}
	return Value{}, false
}

// value adds up the series of a family that are selected.
func value(f *dto.MetricFamily, n Name, s Series) (Value, bool) {
	row, _ := Lookup(n)
	form, found := s.Form, 0
	if form == "" {
		form = row.Form
	}
	v := Value{Form: form}
	buckets := map[float64]uint64{}
	for _, m := range f.GetMetric() {
		if !selected(m, s.Labels) {
			continue
		}
		if h := m.GetHistogram(); h != nil {
			if form != Histogram {
				continue
			}
			v.Value, v.Count, found = v.Value+h.GetSampleSum(), v.Count+h.GetSampleCount(), found+1
			for _, b := range h.GetBucket() {
				buckets[b.GetUpperBound()] += b.GetCumulativeCount()
			}
			continue
		}
		if form == Histogram {
			continue
		}
		x, ok := number(m)
		if !ok {
			continue
		}
		v.Value, found = v.Value+x, found+1
	}
	if found == 0 || math.IsNaN(v.Value) {
		return Value{}, false
	}
	if form == Gauge && (row.Unit == Ratio || row.Unit == Seconds) {
		v.Value /= float64(found)
	}
	v.Value *= s.scale()
	for le, count := range buckets {
		v.Buckets = append(v.Buckets, Bucket{le * s.scale(), count})
	}
	slices.SortFunc(v.Buckets, func(a, b Bucket) int {
		if a.Le < b.Le {
			return -1
		}
		return 1
	})
	return v, true
}

func selected(m *dto.Metric, want map[string]string) bool {
	have := map[string]string{}
	for _, l := range m.GetLabel() {
		have[l.GetName()] = l.GetValue()
	}
	for name, v := range want {
		if got, ok := have[name]; !ok || v != "*" && v != got {
			return false
		}
	}
	return true
}

func number(m *dto.Metric) (float64, bool) {
	switch {
	case m.Gauge != nil:
		return m.GetGauge().GetValue(), true
	case m.Counter != nil:
		return m.GetCounter().GetValue(), true
	case m.Untyped != nil:
		return m.GetUntyped().GetValue(), true
	}
	return 0, false
}

func readJSON(page io.Reader, m Map) (Values, error) {
	var doc any
	if err := json.NewDecoder(io.LimitReader(page, MaxPage)).Decode(&doc); err != nil {
		return nil, fmt.Errorf("metrics page: %w", err)
	}
	if list, ok := doc.([]any); ok {
		if len(list) == 0 {
			return Values{}, nil
		}
		doc = list[len(list)-1]
	}
	out := Values{}
	for n, s := range m {
		row, _ := Lookup(n)
		form := s.Form
		if form == "" {
			form = row.Form
		}
		for _, name := range append([]string{s.Name}, s.Older...) {
			if x, ok := Member(doc, name).(float64); ok {
				out[n] = Value{Form: form, Value: x * s.scale(), Series: name}
				break
			}
		}
	}
	return out, nil
}

// Member returns what stands at a path of members in a decoded JSON value, nil if nothing does.
func Member(doc any, path string) any {
	if path == "" {
		return doc
	}
	for name := range strings.SplitSeq(path, ".") {
		o, ok := doc.(map[string]any)
		if !ok {
			return nil
		}
		doc = o[name]
	}
	return doc
}

// Missing returns the metrics that a page did not report, in the order of the contract.
func (v Values) Missing() []Name {
	var out []Name
	for _, m := range Metrics() {
		if _, ok := v[m.Name]; !ok {
			out = append(out, m.Name)
		}
	}
	return out
}

// Mean returns the mean of a histogram's or gauge's observations, false if there are none.
func (v Value) Mean() (float64, bool) {
	if v.Form != Histogram {
		return v.Value, true
	}
	if v.Count == 0 {
		return 0, false
	}
	return v.Value / float64(v.Count), true
}
