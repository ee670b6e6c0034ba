package unified

import "slices"

// The metrics.
const (
	RequestsRunning  Name = "requests_running"
	RequestsWaiting  Name = "requests_waiting"
	RequestsDone     Name = "requests_done_total"
	RequestsFailed   Name = "requests_failed_total"
	PromptTokens     Name = "prompt_tokens_total"
	OutputTokens     Name = "output_tokens_total"
	CachedTokens     Name = "cached_tokens_total"
	PrefixQueried    Name = "prefix_queried_tokens_total"
	PrefixHit        Name = "prefix_hit_tokens_total"
	PrefixHitRatio   Name = "prefix_hit_ratio"
	KVUsage          Name = "kv_usage_ratio"
	KVTokens         Name = "kv_used_tokens" //nolint:gosec // G101: a count of tokens, not a credential
	KVMovedBytes     Name = "kv_moved_bytes_total"
	KVMoveTime       Name = "kv_move_seconds"
	Preemptions      Name = "preemptions_total"
	FirstToken       Name = "time_to_first_token_seconds"
	PerToken         Name = "time_per_output_token_seconds" //nolint:gosec // G101: a count of tokens, not a credential
	RequestTime      Name = "request_seconds"
	QueueTime        Name = "queue_seconds"
	PrefillTime      Name = "prefill_seconds"
	DecodeTime       Name = "decode_seconds"
	OutputRate       Name = "output_tokens_per_second"
	PromptRate       Name = "prompt_tokens_per_second"
	BatchSize        Name = "batch_size"
	StepTokens       Name = "step_tokens"
	DraftTokens      Name = "draft_tokens_total"
	DraftAccepted    Name = "draft_accepted_tokens_total"
	GraphSteps       Name = "graph_steps_total"
	GraphFallbacks   Name = "graph_fallbacks_total"
	AdaptersLoaded   Name = "adapters_loaded"
	DeviceMemoryUsed Name = "device_memory_used_bytes"
)

// Metrics returns the contract, in a fixed order.
func Metrics() []Metric {
	return []Metric{
		{RequestsRunning, Requests, Gauge, Efficiency, "requests that steps are computed for now", "vllm:num_requests_running"},
		{RequestsWaiting, Requests, Gauge, Experience, "requests that wait for their first step", "vllm:num_requests_waiting"},
		{RequestsDone, Requests, Counter, Efficiency, "requests that ended with an answer", "vllm:request_success_total"},
		{RequestsFailed, Requests, Counter, Experience, "requests that ended with an error", ""},
		{PromptTokens, Tokens, Counter, Efficiency, "tokens of prompts", "vllm:prompt_tokens_total"},
		{OutputTokens, Tokens, Counter, Efficiency, "tokens of answers", "vllm:generation_tokens_total"},
		{CachedTokens, Tokens, Counter, State, "tokens of prompts whose keys and values were there", "vllm:prompt_tokens_cached_total"},
		{PrefixQueried, Tokens, Counter, State, "tokens of prompts that were looked for in the prefix cache", "vllm:prefix_cache_queries_total"},
		{PrefixHit, Tokens, Counter, State, "tokens of prompts that the prefix cache had", "vllm:prefix_cache_hits_total"},
		{PrefixHitRatio, Ratio, Gauge, LoadBound, "share of looked-for tokens that the prefix cache had, as the engine tells it", ""},
		{KVUsage, Ratio, Gauge, State, "share of the memory for keys and values that is in use", "vllm:kv_cache_usage_perc"},
		{KVTokens, Tokens, Gauge, State, "tokens whose keys and values are held", ""},
		{KVMovedBytes, Bytes, Counter, State, "keys and values that went to another instance or tier", ""},
		{KVMoveTime, Seconds, Histogram, State, "time of one such move", ""},
		{Preemptions, Count, Counter, State, "requests that lost their memory and began again", "vllm:num_preemptions_total"},
		{FirstToken, Seconds, Histogram, Experience, "time from arrival to the first token", "vllm:time_to_first_token_seconds"},
		{PerToken, Seconds, Histogram, Experience, "time between two tokens of an answer", "vllm:inter_token_latency_seconds"},
		{RequestTime, Seconds, Histogram, Experience, "time from arrival to the end", "vllm:e2e_request_latency_seconds"},
		{QueueTime, Seconds, Histogram, Experience, "time before the first step", "vllm:request_queue_time_seconds"},
		{PrefillTime, Seconds, Histogram, Efficiency, "time of a prompt's steps", "vllm:request_prefill_time_seconds"},
		{DecodeTime, Seconds, Histogram, Efficiency, "time of an answer's steps", "vllm:request_decode_time_seconds"},
		{OutputRate, Rate, Gauge, LoadBound, "tokens of answers in a second, as the engine tells it", ""},
		{PromptRate, Rate, Gauge, LoadBound, "tokens of prompts in a second, as the engine tells it", ""},
		{BatchSize, Requests, Gauge, LoadBound, "requests of the newest step", ""},
		{StepTokens, Tokens, Histogram, LoadBound, "tokens of one step", "vllm:iteration_tokens_total"},
		{DraftTokens, Tokens, Counter, Efficiency, "tokens that were guessed", "vllm:spec_decode_num_draft_tokens_total"},
		{DraftAccepted, Tokens, Counter, Efficiency, "guessed tokens that were right", "vllm:spec_decode_num_accepted_tokens_total"},
		{GraphSteps, Count, Counter, Efficiency, "steps that ran as a graph", ""},
		{GraphFallbacks, Count, Counter, Efficiency, "steps that could not run as a graph", ""},
		{AdaptersLoaded, Count, Gauge, State, "adapters that are loaded", ""},
		{DeviceMemoryUsed, Bytes, Gauge, State, "memory of the device in use", ""},
	}
}

// Lookup returns the row of a metric.
func Lookup(n Name) (Metric, bool) {
	all := Metrics()
	if i := slices.IndexFunc(all, func(m Metric) bool { return m.Name == n }); i >= 0 {
		return all[i], true
	}
	return Metric{}, false
}

// Event is a row of the vocabulary of events.
type Event struct {
	Name       string   `json:"name"`
	Attributes []string `json:"attributes,omitempty"` // each with its unit at the end of its name, where it has one
	Meaning    string   `json:"meaning"`
}

// Events returns the vocabulary, in a fixed order. No attribute ever holds a text of a request or an answer.
func Events() []Event {
	return []Event{
		{"phase_start", []string{"phase"}, "encode, prefill, decode or verify begins"},
		{"phase_end", []string{"phase", "duration_seconds"}, "and ends"},
		{"graph_switch", []string{"shape", "hit"}, "a step changes to another graph"},
		{"fallback", []string{"from", "to", "reason"}, "the fast path is left"},
		{"communication", []string{"bytes", "duration_seconds"}, "parts of the engine exchange data"},
		{"prefix_hit", []string{"tokens", "tier"}, "keys and values were there"},
		{"tier_move", []string{"from", "to", "bytes", "duration_seconds"}, "state moves between tiers"},
		{"state_create", []string{"kind", "bytes"}, "state comes to be"},
		{"state_retain", []string{"kind", "bytes"}, "and is kept"},
		{"state_release", []string{"kind", "bytes"}, "and given up"},
		{"migrate", []string{"from", "to", "bytes", "duration_seconds"}, "a request moves to another instance"},
		{"precision_set", []string{"format"}, "a number format is chosen"},
		{"accuracy_bound", []string{"bound"}, "how far results may be off"},
		{"state_capacity", []string{"bytes"}, "the room for state changes"},
		{"token_cost", []string{"nano"}, "what a token cost"},
		{"queue", []string{"depth_requests"}, "a request begins to wait"},
		{"admit", []string{"waited_seconds"}, "and is let in"},
		{"reject", []string{"reason"}, "or refused"},
		{"retry", []string{"attempt", "reason"}, "another try"},
		{"degrade", []string{"reason"}, "less is given than was asked"},
		{"error", []string{"code"}, "something fails"},
		{"recover", []string{"after_seconds"}, "and works again"},
	}
}
