package capability

// Contract is what is known of one instance of an engine, or in a profile of every instance of one. The comment of each member names its fields
// of the list that [Fields] returns. Maps and lists are not changed once a contract is made.
type Contract struct {
	// Defaults are the evidence of every fact that has none of its own: fields 6, 41 and 45.
	Defaults Evidence `json:"defaults" yaml:"defaults"`

	Engine      Engine                  `json:"engine" yaml:"engine"`                                   // 1 to 3
	Hardware    Hardware                `json:"hardware" yaml:"hardware,omitempty"`                     // 4
	Matrix      map[string]Fact[string] `json:"matrix,omitempty" yaml:"matrix,omitempty"`               // 5: versions by component; "" is one to be probed
	Exec        Exec                    `json:"exec" yaml:"exec,omitempty"`                             // 7 to 14
	Attention   Attention               `json:"attention" yaml:"attention,omitempty"`                   // 15
	Compile     Fact[string]            `json:"compile,omitzero" yaml:"compile,omitempty"`              // 16
	Distributed Distributed             `json:"distributed" yaml:"distributed,omitempty"`               // 17
	LowBit      map[string]Cell         `json:"lowbit,omitempty" yaml:"lowbit,omitempty"`               // 18: by format, such as "w4a16" or "kv.int8"
	KV          KV                      `json:"kv" yaml:"kv,omitempty"`                                 // 19 to 22
	Memory      Memory                  `json:"memory" yaml:"memory,omitempty"`                         // 23
	Sched       Sched                   `json:"sched" yaml:"sched,omitempty"`                           // 24
	Roles       Fact[[]Role]            `json:"roles,omitzero" yaml:"roles,omitempty"`                  // 25
	Spec        map[string]Cell         `json:"spec,omitempty" yaml:"spec,omitempty"`                   // 26: speculation by method
	Structured  Structured              `json:"structured" yaml:"structured,omitempty"`                 // 27; its kinds are features
	Parsers     Parsers                 `json:"parsers" yaml:"parsers,omitempty"`                       // 28
	LoRA        LoRA                    `json:"lora" yaml:"lora,omitempty"`                             // 29
	Modalities  Modalities              `json:"modalities" yaml:"modalities,omitempty"`                 // 30; what goes in and out are features
	Realtime    Realtime                `json:"realtime" yaml:"realtime,omitempty"`                     // 31
	Context     Context                 `json:"context" yaml:"context,omitempty"`                       // 32
	Models      []ModelCells            `json:"models,omitempty" yaml:"models,omitempty"`               // 33
	Fallback    FallbackPath            `json:"fallback" yaml:"fallback,omitempty"`                     // 34
	Correctness Fact[string]            `json:"correctness,omitzero" yaml:"correctness,omitempty"`      // 35: the tolerance of a comparison
	Interfaces  Fact[[]string]          `json:"interfaces,omitzero" yaml:"interfaces,omitempty"`        // 36: openai, vllm, triton, tgi, ollama, batch, embedded
	Ops         Ops                     `json:"ops" yaml:"ops,omitempty"`                               // 37, 38
	Preflight   Fact[[]string]          `json:"preflight,omitzero" yaml:"preflight,omitempty"`          // 39
	Carrier     Fact[string]            `json:"carrier,omitzero" yaml:"carrier,omitempty"`              // 40: image, one-box, cloud, chart
	Plugin      Fact[bool]              `json:"plugin,omitzero" yaml:"plugin,omitempty"`                // 43: upgraded on its own
	Demands     map[string][]Feature    `json:"model_demands,omitempty" yaml:"model_demands,omitempty"` // 44: what a model's maker demands, by model pattern
	Features    map[Feature]Cell        `json:"features" yaml:"features"`                               // 42, and 20, 27, 29, 30, 36, 37 where requests need them
}

// Engine is which software it is.
type Engine struct {
	Name    Fact[string] `json:"name,omitzero" yaml:"name,omitempty"`
	Version Fact[string] `json:"version,omitzero" yaml:"version,omitempty"` // of this instance, as it was probed
	Build   Fact[string] `json:"build,omitzero" yaml:"build,omitempty"`
	Licence Fact[string] `json:"licence,omitzero" yaml:"licence,omitempty"` // an SPDX id, or "proprietary"
	Source  Fact[string] `json:"source,omitzero" yaml:"source,omitempty"`   // where its code is
	// Route is how it came to its hardware: plug-in, platform, independent, tool-chain, compiler or hybrid.
	Route Fact[string] `json:"route,omitzero" yaml:"route,omitempty"`
	// Bearer is which part of it bears the complexity: backend, runtime, state-machine, tool-chain, control-plane or compiler.
	Bearer Fact[string] `json:"complexity_bearer,omitzero" yaml:"complexity_bearer,omitempty"`
}

// Hardware is what it runs on.
type Hardware struct {
	Vendor     Fact[string] `json:"vendor,omitzero" yaml:"vendor,omitempty"`
	Family     Fact[string] `json:"family,omitzero" yaml:"family,omitempty"`
	Generation Fact[string] `json:"generation,omitzero" yaml:"generation,omitempty"`
	Devices    Fact[int]    `json:"device_count,omitzero" yaml:"device_count,omitempty"`
	Slice      Fact[string] `json:"slice,omitzero" yaml:"slice,omitempty"`
}

// Exec is how it computes.
type Exec struct {
	Modes           map[Mode]Cell  `json:"modes,omitempty" yaml:"modes,omitempty"`
	CoveredOps      Fact[[]string] `json:"graph_covered_ops,omitzero" yaml:"graph_covered_ops,omitempty"`
	MustEager       Fact[[]string] `json:"graph_must_eager,omitzero" yaml:"graph_must_eager,omitempty"`
	DynamicShape    Fact[bool]     `json:"dynamic_shape,omitzero" yaml:"dynamic_shape,omitempty"`
	Buckets         Fact[[]int]    `json:"buckets,omitzero" yaml:"buckets,omitempty"` // of prompt tokens; a shape above the last is refused
	GraphCache      Fact[string]   `json:"graph_cache,omitzero" yaml:"graph_cache,omitempty"`
	InitSeconds     Fact[float64]  `json:"init_seconds,omitzero" yaml:"init_seconds,omitempty"`
	Async           Fact[string]   `json:"async_semantics,omitzero" yaml:"async_semantics,omitempty"`
	SyncCostSeconds Fact[float64]  `json:"sync_cost_seconds,omitzero" yaml:"sync_cost_seconds,omitempty"`
	Parallel        Fact[[]string] `json:"parallel,omitzero" yaml:"parallel,omitempty"` // TP, PP, EP, SP, DP
	Patches         Fact[[]string] `json:"patches,omitzero" yaml:"patches,omitempty"`   // model structures that need one
}

// Attention is its attention.
type Attention struct {
	Backend  Fact[string]   `json:"backend,omitzero" yaml:"backend,omitempty"`
	Variants Fact[[]string] `json:"variants,omitzero" yaml:"variants,omitempty"` // MHA, MQA, GQA, MLA, sparse, window
}

// Distributed is what its parts talk over.
type Distributed struct {
	Backend    Fact[string]   `json:"backend,omitzero" yaml:"backend,omitempty"`
	Transports Fact[[]string] `json:"transports,omitzero" yaml:"transports,omitempty"`
	Topology   Fact[string]   `json:"topology,omitzero" yaml:"topology,omitempty"`
	Reach      Fact[string]   `json:"reach,omitzero" yaml:"reach,omitempty"`
}

// KV is its cache of keys and values.
type KV struct {
	BlockTokens  Fact[int]      `json:"block_tokens,omitzero" yaml:"block_tokens,omitempty"`
	Layout       Fact[string]   `json:"layout,omitzero" yaml:"layout,omitempty"`
	DType        Fact[string]   `json:"dtype,omitzero" yaml:"dtype,omitempty"`
	BudgetTokens Fact[int]      `json:"budget_tokens,omitzero" yaml:"budget_tokens,omitempty"`
	Tiers        Fact[[]string] `json:"tiers,omitzero" yaml:"tiers,omitempty"` // device, host, storage
	PrefixCache  Cell           `json:"prefix_cache,omitzero" yaml:"prefix_cache,omitempty"`
	AnyPosition  Cell           `json:"any_position,omitzero" yaml:"any_position,omitempty"`
	ShareScope   Fact[string]   `json:"share_scope,omitzero" yaml:"share_scope,omitempty"` // instance, salt, none
	Transfer     Fact[[]string] `json:"transfer,omitzero" yaml:"transfer,omitempty"`       // formats; instances join if they share one
	Migrate      Cell           `json:"migrate,omitzero" yaml:"migrate,omitempty"`
	Eviction     Fact[string]   `json:"eviction,omitzero" yaml:"eviction,omitempty"`
	Refcount     Fact[bool]     `json:"refcount,omitzero" yaml:"refcount,omitempty"`
	Price        Fact[string]   `json:"price,omitzero" yaml:"price,omitempty"`
}

// Memory is the grain and the cost of moves.
type Memory struct {
	GranularityBytes Fact[int]     `json:"alloc_granularity_bytes,omitzero" yaml:"alloc_granularity_bytes,omitempty"`
	MoveBytesSecond  Fact[float64] `json:"move_bytes_per_second,omitzero" yaml:"move_bytes_per_second,omitempty"`
}

// Sched is what its scheduler does.
type Sched struct {
	Continuous     Cell      `json:"continuous,omitzero" yaml:"continuous,omitempty"`
	ChunkedPrefill Cell      `json:"chunked_prefill,omitzero" yaml:"chunked_prefill,omitempty"`
	Priority       Cell      `json:"priority,omitzero" yaml:"priority,omitempty"`
	Preempt        Cell      `json:"preempt,omitzero" yaml:"preempt,omitempty"`
	MaxBatch       Fact[int] `json:"max_batch,omitzero" yaml:"max_batch,omitempty"`
}

// Structured is who holds answers to their form.
type Structured struct {
	Engine       Fact[string] `json:"engine,omitzero" yaml:"engine,omitempty"`
	RuntimeKnows Fact[bool]   `json:"runtime_knows,omitzero" yaml:"runtime_knows,omitempty"`
}

// Parsers are the names of what takes answers apart.
type Parsers struct {
	Tools     Fact[string] `json:"tools,omitzero" yaml:"tools,omitempty"`
	Reasoning Fact[string] `json:"reasoning,omitzero" yaml:"reasoning,omitempty"`
}

// LoRA is how many adapters there may be.
type LoRA struct {
	Max       Fact[int]    `json:"max,omitzero" yaml:"max,omitempty"`
	Dynamic   Cell         `json:"dynamic,omitzero" yaml:"dynamic,omitempty"`
	Isolation Fact[string] `json:"isolation,omitzero" yaml:"isolation,omitempty"`
	Loaded    []string     `json:"loaded,omitempty" yaml:"-"` // of this instance, as probed
}

// Modalities are the limits of what is no text.
type Modalities struct {
	MaxImages    Fact[int]     `json:"max_images,omitzero" yaml:"max_images,omitempty"`
	MaxFrames    Fact[int]     `json:"max_frames,omitzero" yaml:"max_frames,omitempty"`
	MaxSeconds   Fact[float64] `json:"max_audio_seconds,omitzero" yaml:"max_audio_seconds,omitempty"`
	EncoderCache Cell          `json:"encoder_cache,omitzero" yaml:"encoder_cache,omitempty"`
}

// Realtime is what it does for voice.
type Realtime struct {
	Interrupt    Cell          `json:"interrupt,omitzero" yaml:"interrupt,omitempty"`
	Resume       Cell          `json:"resume,omitzero" yaml:"resume,omitempty"`
	ChunkSeconds Fact[float64] `json:"chunk_seconds,omitzero" yaml:"chunk_seconds,omitempty"`
}

// Context are its lengths, in tokens. MaxIn bounds prompt and completion together, as engines do; MaxOut the completion.
type Context struct {
	MaxIn  Fact[int]       `json:"max_in,omitzero" yaml:"max_in,omitempty"`
	MaxOut Fact[int]       `json:"max_out,omitzero" yaml:"max_out,omitempty"`
	Long   map[string]Cell `json:"long_context_modes,omitempty" yaml:"long_context_modes,omitempty"`
}

// ModelCells are the cells of some models, each where its condition holds. They stand in front of those of the contract.
type ModelCells struct {
	Match    string           `json:"match" yaml:"match"` // a model, or a pattern with * as path.Match has it
	MaxIn    Fact[int]        `json:"max_in,omitzero" yaml:"max_in,omitempty"`
	Features map[Feature]Cell `json:"features,omitempty" yaml:"features,omitempty"`
	LowBit   map[string]Cell  `json:"lowbit,omitempty" yaml:"lowbit,omitempty"`
}

// FallbackPath is what becomes of a request when the engine leaves its fast path.
type FallbackPath struct {
	Reasons   Fact[[]string]          `json:"reasons,omitzero" yaml:"reasons,omitempty"`
	Path      Fact[string]            `json:"path,omitzero" yaml:"path,omitempty"`
	Semantics map[string]Fact[string] `json:"semantics,omitempty" yaml:"semantics,omitempty"` // graph, cache, distributed: what each keeps
}

// Ops is how it is run.
type Ops struct {
	Metrics  Cell         `json:"metrics,omitzero" yaml:"metrics,omitempty"`
	Logs     Fact[string] `json:"logs,omitzero" yaml:"logs,omitempty"`
	Traces   Cell         `json:"traces,omitzero" yaml:"traces,omitempty"`
	Health   Cell         `json:"health,omitzero" yaml:"health,omitempty"`
	Drain    Cell         `json:"drain,omitzero" yaml:"drain,omitempty"`
	Rollback Cell         `json:"rollback,omitzero" yaml:"rollback,omitempty"`
	Canary   Cell         `json:"canary,omitzero" yaml:"canary,omitempty"`
	Template Fact[string] `json:"template_version,omitzero" yaml:"template_version,omitempty"`
}
