package native

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/graph"
	"github.com/sluice-project/sluice/engine/native/exec"
	"github.com/sluice-project/sluice/engine/native/sched"
)

// metrics are what operators see of the engine. Tenants are never labels.
type metrics struct {
	plans  *prometheus.CounterVec
	fused  *prometheus.CounterVec
	missed *prometheus.CounterVec

	layouts prometheus.Counter

	active, queued       *prometheus.GaugeVec
	tokens               *prometheus.CounterVec
	steps                prometheus.Histogram
	stepRows             prometheus.Histogram
	refused, preemptions *prometheus.CounterVec
	finished             *prometheus.CounterVec
	ttft, gaps, whole    *prometheus.HistogramVec
	queue                *prometheus.HistogramVec
	prefill, decode      *prometheus.HistogramVec
	grammar              prometheus.Histogram
	forced               prometheus.Counter
	drafts, right        prometheus.Counter
	prefixAsked          prometheus.Counter
	prefixHit            prometheus.Counter
	unattributed         prometheus.Counter
	promptLengths        prometheus.Histogram
	completionLengths    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	fast := []float64{.001, .002, .003, .005, .0075, .01, .015, .02, .03, .05, .075, .1, .2, .5, 1, 2, 5}
	long := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	sizes := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	f := factory{reg}
	m := &metrics{
		plans: f.counters("packed_weights_total",
			"Models loaded, by where their packed weights came from: hit (mapped from the cache), built, rebuilt (the file could not be used), off (not kept).", "model", "result"),
		fused:   f.counters("plan_rewrites_total", "Rewrites that the passes of the compiler made, by pass.", "pass"),
		missed:  f.counters("plan_fallbacks_total", "Rewrites and formats that the compiler had to do without, by pass and reason.", "pass", "reason"),
		layouts: f.counter("plan_specialisations_total", "Times a plan was laid out for another number of rows than the step before had."),

		active:            f.gauges("active_sequences", "Sequences that are being computed, by queue class.", "class"),
		queued:            f.gauges("queued_requests", "Sequences that wait for their turn, by queue class.", "class"),
		tokens:            f.counters("tokens_total", "Tokens, by phase: prompt and completion (computed), cached (found in the prefix cache), draft (guesses computed).", "phase"),
		steps:             f.histogram("step_seconds", "Duration of one step: tokens of many sequences and pieces of prompts.", fast),
		stepRows:          f.histogram("step_tokens", "Tokens that one step computed.", sizes),
		refused:           f.counters("refused_requests_total", "Requests refused at the engine's queue, by reason: which bound was reached, deadline, expired.", "reason"),
		preemptions:       f.counters("preemptions_total", "Sequences that left the engine for others and were continued later, by their queue class.", "class"),
		finished:          f.counters("requests_total", "Requests that ended, by queue class and reason.", "class", "reason"),
		ttft:              f.histograms("time_to_first_token_seconds", "From arrival at the engine to the first token.", long),
		gaps:              f.histograms("inter_token_seconds", "Between two tokens of an answer.", fast),
		whole:             f.histograms("request_seconds", "From arrival at the engine to the last token.", long),
		queue:             f.histograms("request_queue_seconds", "Waiting for admission.", long),
		prefill:           f.histograms("request_prefill_seconds", "From admission to the first token.", long),
		decode:            f.histograms("request_decode_seconds", "From the first token to the last.", long),
		grammar:           f.histogram("grammar_pick_seconds", "Picking one token under a grammar, its mask included.", []float64{.00001, .00002, .00005, .0001, .0002, .0005, .001, .002, .005, .01, .1}),
		forced:            f.counter("grammar_forced_tokens_total", "Tokens that a grammar left no choice about."),
		drafts:            f.counter("draft_tokens_total", "Tokens guessed and verified."),
		right:             f.counter("draft_accepted_tokens_total", "Guessed tokens that were right."),
		prefixAsked:       f.counter("prefix_queries_tokens_total", "Prompt tokens looked up in the prefix cache."),
		prefixHit:         f.counter("prefix_hits_tokens_total", "Prompt tokens found in the prefix cache."),
		unattributed:      f.counter("step_unattributed_tokens_total", "Tokens of steps that belong to no request: always 0, or the log of steps is wrong."),
		promptLengths:     f.histogram("request_prompt_tokens", "Prompt tokens of a request.", sizes),
		completionLengths: f.histogram("request_completion_tokens", "Completion tokens of a request, of all its choices.", sizes),
	}
	for class := range sched.Classes { // what never happened is 0, not absent
		m.preemptions.WithLabelValues(sched.ClassName(class))
	}
	for _, phase := range []string{"prompt", "completion", "cached", "draft"} {
		m.tokens.WithLabelValues(phase)
	}
	return m
}

// factory makes and registers metrics of the engine.
type factory struct{ reg prometheus.Registerer }

const namespace = "sluice_engine_"

func register[C prometheus.Collector](f factory, c C) C {
	f.reg.MustRegister(c)
	return c
}

func (f factory) counter(name, help string) prometheus.Counter {
	return register(f, prometheus.NewCounter(prometheus.CounterOpts{Name: namespace + name, Help: help}))
}

func (f factory) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return register(f, prometheus.NewCounterVec(prometheus.CounterOpts{Name: namespace + name, Help: help}, labels))
}

func (f factory) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return register(f, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: namespace + name, Help: help}, labels))
}

func (f factory) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return register(f, prometheus.NewHistogram(prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: buckets}))
}

func (f factory) histograms(name, help string, buckets []float64) *prometheus.HistogramVec {
	return register(f, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: buckets}, []string{"class"}))
}

func (m *metrics) occupancy(queue, active []*sequence) {
	var waiting, running [sched.Classes]int
	for _, s := range queue {
		waiting[s.job.class]++
	}
	for _, s := range active {
		running[s.job.class]++
	}
	for class := range sched.Classes {
		m.queued.WithLabelValues(sched.ClassName(class)).Set(float64(waiting[class]))
		m.active.WithLabelValues(sched.ClassName(class)).Set(float64(running[class]))
	}
}

func (m *metrics) step(took time.Duration, l sched.Load, accepted int) {
	m.steps.Observe(took.Seconds())
	m.stepRows.Observe(float64(l.Rows()))
	m.tokens.WithLabelValues("prompt").Add(float64(l.Prefill))
	m.tokens.WithLabelValues("completion").Add(float64(l.Decode + accepted))
	m.tokens.WithLabelValues("draft").Add(float64(l.Drafts))
}

func (m *metrics) prefix(asked, found int) {
	m.prefixAsked.Add(float64(asked))
	m.prefixHit.Add(float64(found))
	m.tokens.WithLabelValues("cached").Add(float64(found))
}

func (m *metrics) drafted(guessed, right int) {
	m.drafts.Add(float64(guessed))
	m.right.Add(float64(right))
}

func (m *metrics) firstToken(j *job) {
	m.ttft.WithLabelValues(sched.ClassName(j.class)).Observe(j.first.Sub(j.submitted).Seconds())
}

func (m *metrics) gap(g gap) {
	m.gaps.WithLabelValues(sched.ClassName(g.class)).Observe(g.took.Seconds())
}

func (m *metrics) ended(j *job, u *engine.Usage, reason engine.Finish, now time.Time) {
	class := sched.ClassName(j.class)
	m.finished.WithLabelValues(class, string(reason)).Inc()
	m.whole.WithLabelValues(class).Observe(now.Sub(j.submitted).Seconds())
	m.queue.WithLabelValues(class).Observe(u.Queue.Seconds())
	m.prefill.WithLabelValues(class).Observe(u.Prefill.Seconds())
	m.decode.WithLabelValues(class).Observe(u.Decode.Seconds())
	m.promptLengths.Observe(float64(u.PromptTokens))
	m.completionLengths.Observe(float64(u.CompletionTokens))
}

func (m *metrics) compiled(id engine.ModelID, r exec.Report) {
	m.plans.WithLabelValues(string(id), r.Cache).Inc()
}

func (m *metrics) optimized(r *graph.Report) {
	for pass, n := range r.Applied {
		m.fused.WithLabelValues(pass).Add(float64(n))
	}
	for _, s := range r.Skipped {
		m.missed.WithLabelValues(s.Pass, s.Reason).Inc()
	}
}
