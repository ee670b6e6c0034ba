package simulate

import (
	"cmp"
	"errors"
	"time"
)

// DefaultModel is a model of eight billion parameters in two bytes each.
func DefaultModel() Model {
	return Model{Name: "simulated", Parameters: 8e9, BytesPerParam: 2, KVBytesToken: 131072, Context: 8192}
}

// DefaultMachine is a data-centre card of its time, at what it really reaches.
func DefaultMachine() Machine {
	return Machine{
		Name: "simulated card", FLOPS: 4e14, BytesSecond: 2.5e12, Memory: 80e9, StepOverhead: 200 * time.Microsecond, MaxBatch: 64, MaxQueue: 256, PrefillChunk: 2048,
	}
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	m, h := c.Model, c.Machine
	switch {
	case c.Profile == nil:
		return errors.New("profile: must be set")
	case m.Name == "" || m.Context <= 0 || m.Parameters <= 0 || m.BytesPerParam <= 0 || m.KVBytesToken <= 0:
		return errors.New("model: name, context, parameters and bytes must be set")
	case h.FLOPS <= 0 || h.BytesSecond <= 0 || h.MaxBatch <= 0 || h.PrefillChunk <= 0 || h.MaxQueue < 0:
		return errors.New("machine: speeds, batch and chunk must be above 0")
	case h.Memory <= m.Parameters*m.BytesPerParam:
		return errors.New("machine: the weights do not fit into its memory")
	}
	for _, f := range c.Faults {
		if f.Every < 0 || f.After < 0 || f.Delay < 0 {
			return errors.New("faults: numbers must not be negative")
		}
	}
	return nil
}

// StepTime is what one step takes: the longer of computing its tokens and of moving the weights and the keys and values that it reads, and the overhead.
// tokens are those of prompts and answers that it computes, held the tokens whose keys and values it reads.
func (c Config) StepTime(tokens, held int) time.Duration {
	active := cmp.Or(c.Model.Active, c.Model.Parameters)
	compute := 2 * active * float64(tokens) / c.Machine.FLOPS
	move := (c.Model.Parameters*c.Model.BytesPerParam + c.Model.KVBytesToken*float64(held)) / c.Machine.BytesSecond
	return time.Duration(max(compute, move)*float64(time.Second)) + c.Machine.StepOverhead
}

// Capacity is how many tokens have room beside the weights.
func (c Config) Capacity() int {
	return int((c.Machine.Memory - c.Model.Parameters*c.Model.BytesPerParam) / c.Model.KVBytesToken)
}
