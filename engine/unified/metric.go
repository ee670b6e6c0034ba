package unified

// Name is the name of a metric in the contract, without a prefix.
type Name string

// Kind is what a metric is good for.
type Kind string

// The kinds. A LoadBound metric means something only together with the load under which it was taken.
const (
	Experience Kind = "service-experience"
	State      Kind = "state-organisation"
	Efficiency Kind = "back-end-efficiency"
	LoadBound  Kind = "load-bound"
)

// Unit is the unit of a metric's values.
type Unit string

// The units.
const (
	Seconds  Unit = "seconds"
	Tokens   Unit = "tokens"
	Requests Unit = "requests"
	Ratio    Unit = "ratio" // 0 to 1
	Rate     Unit = "tokens/second"
	Bytes    Unit = "bytes"
	Count    Unit = "count"
)

// Form is how a metric is told.
type Form string

// The forms. A histogram may be told by its sum and count alone, which is what Mean is of; engines that tell a gauge of the last or mean value where the
// contract wants a histogram are read as [Gauge].
const (
	Gauge     Form = "gauge"
	Counter   Form = "counter"
	Histogram Form = "histogram"
)

// Metric is a row of the contract.
type Metric struct {
	Name    Name   `json:"name"`
	Unit    Unit   `json:"unit"`
	Form    Form   `json:"form"`
	Kind    Kind   `json:"kind"`
	Meaning string `json:"meaning"`        // in English
	VLLM    string `json:"vllm,omitempty"` // what vLLM calls it, "" if it has none
}

// Series says where a metric stands on an engine's page.
type Series struct {
	// Name is that of the series as the page writes it: with _total where it does, without _bucket, _sum and _count. On a JSON page it is the path of
	// members, such as "kvCacheStats.usedNumBlocks".
	Name string `json:"name" yaml:"name"`
	// Form is how the page tells it; "" is the form of the contract.
	Form Form `json:"form,omitempty" yaml:"form,omitempty"`
	// Scale times what the page says is our unit; 0 means 1. Milliseconds have 0.001.
	Scale float64 `json:"scale,omitempty" yaml:"scale,omitempty"`
	// Labels select series; a value "*" must be there and may be anything. What is selected is added up, ratios and gauges of durations are averaged.
	Labels map[string]string `json:"labels,omitempty" yaml:"labels,omitempty"`
	// Older are names in earlier releases, newest first, read where Name is not on the page.
	Older []string `json:"older,omitempty" yaml:"older,omitempty"`
	// Optional: only some releases or configurations have it, so that its absence is no fault.
	Optional bool `json:"optional,omitempty" yaml:"optional,omitempty"`
	// Source names the source of the fact in its profile.
	Source string `json:"source,omitempty" yaml:"source,omitempty"`
}

// Map says for each metric where it stands. One that is missing is not reported by the engine.
type Map map[Name]Series

// Format is the form of a page.
type Format string

// The formats.
const (
	Prometheus Format = "prometheus" // its text format
	JSON       Format = "json"       // one object, or a list of which the last counts
)

// Value is what a page says of a metric, in the unit of the contract.
type Value struct {
	Form  Form    `json:"form"`
	Value float64 `json:"value"` // of a gauge or counter; of a histogram the sum
	Count uint64  `json:"count,omitempty"`
	// Buckets are cumulative counts by upper bound in ascending order, nil where the page has none.
	Buckets []Bucket `json:"buckets,omitempty"`
	Series  string   `json:"series"` // the name on the page that it was read from
}

// Bucket is a cumulative count.
type Bucket struct {
	Le    float64 `json:"le"`
	Count uint64  `json:"count"`
}

// Values are what one page has reported.
type Values map[Name]Value
