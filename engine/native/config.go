package native

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sluice-project/sluice/engine"
)

// Kinds of models.
const (
	KindLlama = "llama" // generates text: a GGUF file
	KindBERT  = "bert"  // computes embeddings: a directory with safetensors weights and a tokenizer
)

// Precisions of a Llama model.
const (
	PrecisionFile  = ""    // as the file stores it
	PrecisionExact = "f32" // weights and activations in float32: slow, large, for comparisons
)

// Config describes what the engine runs.
type Config struct {
	Models        []ModelConfig
	Threads       int // threads that compute; 0 means all processors
	Concurrency   int // sequences computed at a time; 0 means 8
	QueueLimit    int // requests that may wait for a slot; 0 means 64
	ContextTokens int // bound on prompt plus completion; 0 means each model's own
}

// ModelConfig names one model.
type ModelConfig struct {
	ID        engine.ModelID
	Kind      string
	Path      string
	Precision string
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
		case m.Kind != KindLlama && m.Kind != KindBERT:
			errs = append(errs, fmt.Errorf("models[%d] (%s): the kind %q is unknown, use %q or %q", i, m.ID, m.Kind, KindLlama, KindBERT))
		case m.Precision != PrecisionFile && m.Precision != PrecisionExact:
			errs = append(errs, fmt.Errorf("models[%d] (%s): the precision %q is unknown, use %q or nothing", i, m.ID, m.Precision, PrecisionExact))
		}
		seen[m.ID] = true
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
