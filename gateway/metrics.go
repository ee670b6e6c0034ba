package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/gateway/answercache"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/refusal"
)

type metrics struct {
	requests   *prometheus.CounterVec
	refusals   *prometheus.CounterVec
	stages     *prometheus.HistogramVec
	overhead   prometheus.Histogram
	firstToken prometheus.Histogram
	duration   *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	running    prometheus.Gauge
	unrecorded prometheus.Counter
	imitations prometheus.Counter
	held       *prometheus.HistogramVec
	wait       *prometheus.HistogramVec
	watermarks *prometheus.CounterVec
	retries    *prometheus.CounterVec
	fallbacks  *prometheus.CounterVec
	hedges     prometheus.Counter
	cache      *prometheus.CounterVec
	verdicts   *prometheus.CounterVec
	sentences  *prometheus.CounterVec

	// What every call counts is looked up by its labels once.
	byStage                                      map[string]prometheus.Observer
	promptTokens, cachedTokens, completionTokens prometheus.Counter
}

// retry counts that another instance gets a request: one that the first has not had or has too little room for, or one that it failed.
func (m *metrics) retry(moved bool) {
	kind := "retried"
	if moved {
		kind = "moved"
	}
	m.retries.WithLabelValues(kind).Inc()
}

// stage is where the time of a step is counted.
func (m *metrics) stage(name string) prometheus.Observer {
	if o, ok := m.byStage[name]; ok {
		return o
	}
	return m.stages.WithLabelValues(name)
}

func newMetrics(reg prometheus.Registerer) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	fast := []float64{.00001, .000025, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 1}
	slow := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_gateway_requests_total", Help: "Calls by action and outcome; outcome unauthenticated is not audited.",
		}, []string{"action", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_gateway_refusals_total", Help: "Calls not answered, by error code.",
		}, []string{"code"}),
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_gateway_stage_seconds", Help: "Time spent in each step before the engine is asked; retrieve includes the embedding of the question.", Buckets: fast,
		}, []string{"stage"}),
		overhead: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_gateway_overhead_seconds", Help: "Time of a call's own steps before the engine is asked or passages are shown, without the engine that embeds its question.", Buckets: fast,
		}),
		firstToken: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sluice_gateway_first_token_seconds", Help: "Time from the arrival of a call to the first text; without answers that are shared with another call.", Buckets: slow,
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_gateway_duration_seconds", Help: "Time from the arrival of a call to its end; without answers that are shared with another call.", Buckets: slow,
		}, []string{"action"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_gateway_tokens_total", Help: "Tokens by class.",
		}, []string{"class"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sluice_gateway_running_requests", Help: "Calls that an engine is working on.",
		}),
		unrecorded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_gateway_unrecorded_outcomes_total", Help: "Outcome records that could not be written: their usage is not billed, the verifier lists them as unfinished.",
		}),
		imitations: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sluice_gateway_passage_imitations_total", Help: "Passages that imitated the tags around them, as a document does that tries to give the model orders.",
		}),
		held: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_gateway_held_characters", Help: "Characters of an answer that wait for what follows, after each piece of it, by kind of text.",
			Buckets: []float64{0, 1, 2, 4, 8, 16, 24, 32, 64, 128, 256, 1024},
		}, []string{"kind"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_gateway_held_seconds", Help: "Time that a piece of an answer waited for what follows before it could leave, by kind of text.",
			Buckets: []float64{.0001, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"kind"}),
	}
	m.watermarks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_watermarks_total", Help: "Complete answers that the policy wants marked, by what came of it: applied, or the reason why not.",
	}, []string{"result"})
	m.retries = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_retries_total", Help: "Requests that went to another instance: moved, which the first has not had or has too little room for, and retried, which it failed.",
	}, []string{"kind"})
	m.fallbacks = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_fallbacks_total", Help: "Requests that another model has answered, by cause.",
	}, []string{"reason"})
	m.hedges = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sluice_gateway_hedges_total", Help: "Requests for which a second instance was asked beside the first.",
	})
	for _, kind := range []string{"moved", "retried"} {
		m.retries.WithLabelValues(kind)
	}
	for _, cause := range []route.Cause{route.CauseContext, route.CauseContent, route.CauseCapacity, route.CauseFault} {
		m.fallbacks.WithLabelValues(string(cause))
	}
	m.watermarks.WithLabelValues("applied") // there from the start, so that a rate has a beginning
	m.verdicts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_rag_answers_total", Help: "Chats with passages that the policy has judged or checked, by result: answered, or the reason why not.",
	}, []string{"result"})
	m.sentences = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_rag_sentences_total", Help: "Sentences of answers that were held against their passages, by result.",
	}, []string{"result"})
	m.verdicts.WithLabelValues(resultAnswered) // there from the start, so that a rate has a beginning
	m.sentences.WithLabelValues(resultSupported)
	m.sentences.WithLabelValues(resultUnsupported)
	for _, why := range refusal.Reasons() {
		m.verdicts.WithLabelValues(string(why))
	}
	m.cache = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sluice_gateway_answer_cache_total", Help: "Calls whose policy has equal calls share an answer, by how it came: miss, coalesced, hit, stale, or bypass with its reason.",
	}, []string{"result", "reason"})
	for _, state := range []answercache.State{answercache.Miss, answercache.Coalesced, answercache.Hit, answercache.Stale} {
		m.cache.WithLabelValues(string(state), "")
	}
	m.promptTokens, m.cachedTokens, m.completionTokens = m.tokens.WithLabelValues("prompt"), m.tokens.WithLabelValues("cached"), m.tokens.WithLabelValues("completion")
	m.byStage = map[string]prometheus.Observer{}
	for _, s := range []step{authenticate, authorize, takeSlot, admit, pickRoute, maskTexts, reserve, record} {
		m.byStage[s.name] = m.stages.WithLabelValues(s.name)
	}
	reg.MustRegister(m.requests, m.refusals, m.stages, m.overhead, m.firstToken, m.duration, m.tokens, m.running, m.unrecorded, m.imitations, m.held, m.wait, m.watermarks,
		m.retries, m.fallbacks, m.hedges, m.cache, m.verdicts, m.sentences)
	return m
}
