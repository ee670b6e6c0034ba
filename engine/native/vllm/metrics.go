// Package vllm shows the metrics of the native engine under the names of vLLM, so that dashboards made for vLLM work.
package vllm

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
)

// metricName says which of our metrics is shown under which name of vLLM. The collector adds our classes up, since vLLM has none.
type metricName struct {
	ours, theirs string
	phases       []string // of ours, that count; none: all
}

// Histograms and gauges keep their names as they are; counters end in _total, as vLLM's do where they are shown.
func metricNames() []metricName {
	name := func(ours, theirs string, phases ...string) metricName {
		return metricName{"sluice_engine_" + ours, "vllm:" + theirs, phases}
	}
	return []metricName{
		name("active_sequences", "num_requests_running"),
		name("queued_requests", "num_requests_waiting"),
		name("kv_usage_ratio", "kv_cache_usage_perc"),
		name("prefix_queries_tokens_total", "prefix_cache_queries_total"),
		name("prefix_hits_tokens_total", "prefix_cache_hits_total"),
		name("tokens_total", "prompt_tokens_total", "prompt", "cached"),
		name("tokens_total", "generation_tokens_total", "completion"),
		name("requests_total", "request_success_total"),
		name("time_to_first_token_seconds", "time_to_first_token_seconds"),
		name("inter_token_seconds", "inter_token_latency_seconds"),
		name("request_seconds", "e2e_request_latency_seconds"),
		name("request_queue_seconds", "request_queue_time_seconds"),
		name("request_prefill_seconds", "request_prefill_time_seconds"),
		name("request_decode_seconds", "request_decode_time_seconds"),
		name("step_tokens", "iteration_tokens_total"),
		name("request_prompt_tokens", "request_prompt_tokens"),
		name("request_completion_tokens", "request_generation_tokens"),
		name("preemptions_total", "num_preemptions_total"),
		name("draft_tokens_total", "spec_decode_num_draft_tokens_total"),
		name("draft_accepted_tokens_total", "spec_decode_num_accepted_tokens_total"),
	}
}

// collector reads the figures of source. model is the value of model_name where we do not tell models apart.
type collector struct {
	source prometheus.Gatherer
	model  string
	log    *slog.Logger
}

// NewMetrics returns the metrics that source has of engine e, under the names of vLLM. Most figures are of the engine as a whole. With several
// models that generate, their model_name therefore joins all names by commas: no figure shows as that of a model to which only a part belongs.
func NewMetrics(ctx context.Context, source prometheus.Gatherer, e engine.Engine, log *slog.Logger) (prometheus.Gatherer, error) {
	models, err := e.Models(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range models {
		if m.CanGenerate && m.Base == "" {
			names = append(names, string(m.ID))
		}
	}
	reg := prometheus.NewRegistry()
	return reg, reg.Register(collector{source, strings.Join(names, ","), log})
}

// Describe implements prometheus.Collector: what there is shows when it is collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// sample is one series of a metric.
type sample struct {
	labels  map[string]string
	kind    prometheus.ValueType
	value   float64
	count   uint64
	buckets map[float64]uint64 // nil: no histogram
}

func (s *sample) add(o sample) {
	s.kind, s.value, s.count = o.kind, s.value+o.value, s.count+o.count
	for bound, n := range o.buckets {
		if s.buckets == nil {
			s.buckets = map[float64]uint64{}
		}
		s.buckets[bound] += n
	}
}

// family is all series of a metric.
type family struct {
	help    string
	samples []sample
}

// read takes the figures of the source.
func (v collector) read() map[string]family {
	families, err := v.source.Gather()
	if err != nil {
		v.log.Warn("metrics under the names of vLLM may be incomplete", slog.Any("error", err))
	}
	out := map[string]family{}
	for _, from := range families {
		f := family{help: from.GetHelp()}
		for _, m := range from.GetMetric() {
			s := sample{labels: map[string]string{}, kind: prometheus.GaugeValue, value: m.GetGauge().GetValue()}
			for _, l := range m.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			if m.GetCounter() != nil {
				s.kind, s.value = prometheus.CounterValue, m.GetCounter().GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				s.value, s.count, s.buckets = h.GetSampleSum(), h.GetSampleCount(), map[float64]uint64{}
				for _, b := range h.GetBucket() {
					s.buckets[b.GetUpperBound()] = b.GetCumulativeCount()
				}
			}
			f.samples = append(f.samples, s)
		}
		out[from.GetName()] = f
	}
	return out
}

// Collect implements prometheus.Collector.
func (v collector) Collect(out chan<- prometheus.Metric) {
	families := v.read()
	for _, name := range metricNames() {
		f := families[name.ours]
		labels := []string{"model_name"}
		if name.ours == "sluice_engine_requests_total" {
			labels = append(labels, "finished_reason")
		}
		desc := prometheus.NewDesc(name.theirs, f.help, labels, nil)
		sums := v.sum(name, f.samples)
		for _, key := range slices.Sorted(maps.Keys(sums)) {
			s, values := sums[key], strings.Split(key, separator)
			if s.buckets != nil {
				out <- prometheus.MustNewConstHistogram(desc, s.count, s.value, s.buckets, values...)
			} else {
				out <- prometheus.MustNewConstMetric(desc, s.kind, s.value, values...)
			}
		}
	}
}

// separator stands between the labels of a sum.
const separator = "\xff"

// sum adds up the series that count under a name, by the labels that vLLM has.
func (v collector) sum(name metricName, samples []sample) map[string]*sample {
	sums := map[string]*sample{}
	for _, s := range samples {
		if len(name.phases) > 0 && !slices.Contains(name.phases, s.labels["phase"]) {
			continue
		}
		key := cmp.Or(s.labels["model"], v.model)
		if reason, ok := s.labels["reason"]; ok {
			key += separator + finishedReason(reason)
		}
		if sums[key] == nil {
			sums[key] = &sample{}
		}
		sums[key].add(s)
	}
	return sums
}

// finishedReason is vLLM's word: it counts answers that end in calls as stopped.
func finishedReason(ours string) string {
	if ours == string(engine.FinishTools) {
		return string(engine.FinishStop)
	}
	return ours
}
