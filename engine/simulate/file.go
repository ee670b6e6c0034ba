package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/engine/profile"
)

// Instance is a simulator with where it listens.
type Instance struct {
	Listen string
	Config Config
}

// document is the file of a fleet.
type document struct {
	Instances []instance `yaml:"instances"`
}

type instance struct {
	Profile string   `yaml:"profile"`
	Listen  string   `yaml:"listen"`
	Seed    uint64   `yaml:"seed"`
	Version string   `yaml:"version"`
	Role    string   `yaml:"role"`
	Key     string   `yaml:"key"`
	Broken  Mutation `yaml:"broken"`
	Model   struct {
		Name          string   `yaml:"name"`
		Parameters    float64  `yaml:"parameters"`
		Active        float64  `yaml:"active"`
		BytesPerParam float64  `yaml:"bytes_per_parameter"`
		KVBytesToken  float64  `yaml:"kv_bytes_per_token"`
		Context       int      `yaml:"context"`
		Adapters      []string `yaml:"adapters"`
		Embedding     int      `yaml:"embedding"`
		Vision        bool     `yaml:"vision"`
		Audio         bool     `yaml:"audio"`
		Thinks        bool     `yaml:"thinks"`
	} `yaml:"model"`
	Machine struct {
		Name         string        `yaml:"name"`
		FLOPS        float64       `yaml:"flops"`
		BytesSecond  float64       `yaml:"bytes_per_second"`
		Memory       float64       `yaml:"memory_bytes"`
		StepOverhead time.Duration `yaml:"step_overhead"`
		MaxBatch     int           `yaml:"max_batch"`
		MaxQueue     int           `yaml:"max_queue"`
		PrefillChunk int           `yaml:"prefill_chunk"`
		LoadTime     time.Duration `yaml:"load_time"`
		KeepAlive    time.Duration `yaml:"keep_alive"`
	} `yaml:"machine"`
	Faults []struct {
		Kind  FaultKind     `yaml:"kind"`
		Every int           `yaml:"every"`
		Delay time.Duration `yaml:"delay"`
		After int           `yaml:"after"`
	} `yaml:"faults"`
}

// FaultKinds returns the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{FaultSlow, FaultError, FaultOverload, FaultCut, FaultMalformed, FaultUsage, FaultStuck, FaultHealth, FaultVersion}
}

// ReadFleet reads the file of a fleet: a list of instances, each with a profile, an address, a model, a machine and faults. What a model or a machine leaves out is
// that of DefaultModel and DefaultMachine. It is strict.
func ReadFleet(data []byte, known *profile.Set) ([]Instance, error) {
	var doc document
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	if len(doc.Instances) == 0 {
		return nil, errors.New("fleet: no instances")
	}
	var out []Instance
	for i, in := range doc.Instances {
		c, err := in.config(known)
		if err == nil {
			err = c.Validate()
		}
		if err == nil && in.Listen == "" {
			err = errors.New("listen: must be set")
		}
		if err != nil {
			return nil, fmt.Errorf("fleet: instances[%d]: %w", i, err)
		}
		out = append(out, Instance{in.Listen, c})
	}
	return out, nil
}

// or sets what was not said.
func or[T comparable](v *T, said T) {
	var zero T
	if said != zero {
		*v = said
	}
}

func (in *instance) config(known *profile.Set) (Config, error) {
	p, err := known.Get(in.Profile)
	if err != nil {
		return Config{}, err
	}
	c := Config{Profile: p, Model: DefaultModel(), Machine: DefaultMachine(), Seed: in.Seed, Version: in.Version, Role: in.Role, Key: in.Key, Mutation: in.Broken}
	m, h := in.Model, in.Machine
	or(&c.Model.Name, m.Name)
	or(&c.Model.Parameters, m.Parameters)
	or(&c.Model.BytesPerParam, m.BytesPerParam)
	or(&c.Model.KVBytesToken, m.KVBytesToken)
	or(&c.Model.Context, m.Context)
	c.Model.Active, c.Model.Adapters, c.Model.Embedding = m.Active, m.Adapters, m.Embedding
	c.Model.Vision, c.Model.Audio, c.Model.Thinks = m.Vision, m.Audio, m.Thinks
	or(&c.Machine.Name, h.Name)
	or(&c.Machine.FLOPS, h.FLOPS)
	or(&c.Machine.BytesSecond, h.BytesSecond)
	or(&c.Machine.Memory, h.Memory)
	or(&c.Machine.StepOverhead, h.StepOverhead)
	or(&c.Machine.MaxBatch, h.MaxBatch)
	or(&c.Machine.MaxQueue, h.MaxQueue)
	or(&c.Machine.PrefillChunk, h.PrefillChunk)
	c.Machine.LoadTime, c.Machine.KeepAlive = h.LoadTime, h.KeepAlive
	if _, ok := Mutations()[in.Broken]; in.Broken != "" && !ok {
		return Config{}, fmt.Errorf("broken: there is no mutation %q", string(in.Broken))
	}
	for _, f := range in.Faults {
		kinds := map[FaultKind]bool{}
		for _, k := range FaultKinds() {
			kinds[k] = true
		}
		if !kinds[f.Kind] {
			return Config{}, fmt.Errorf("faults: there is no fault %q", string(f.Kind))
		}
		c.Faults = append(c.Faults, Fault{Kind: f.Kind, Every: f.Every, Delay: f.Delay, After: f.After})
	}
	return c, nil
}
