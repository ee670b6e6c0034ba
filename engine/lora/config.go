package lora

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
)

// config is what adapter_config.json says about how factors are used.
type config struct {
	rank          int
	alpha         float64
	stable        bool // scale alpha/√r instead of alpha/r
	ranks, alphas []pattern
}

// pattern gives another number to the modules whose names it matches.
type pattern struct {
	name  *regexp.Regexp
	value float64
}

// Bounds of what settings may make us do.
const (
	maxPatterns      = 1024
	maxPatternLength = 512
	maxMatches       = 1 << 20 // modules times patterns
)

// parseConfig reads settings and refuses by name what an adapter would lose without.
func parseConfig(data []byte) (*config, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("it is no JSON object: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if reason := refusal(key, all[key]); reason != "" {
			return nil, fmt.Errorf("the setting %.60q %s", key, reason)
		}
	}
	c := &config{rank: 8, alpha: 8} // what peft takes where a file says nothing
	var kind string
	err := errors.Join(
		read(all, "peft_type", &kind), read(all, "r", &c.rank), read(all, "lora_alpha", &c.alpha), read(all, "use_rslora", &c.stable),
		readPatterns(all, "rank_pattern", &c.ranks), readPatterns(all, "alpha_pattern", &c.alphas),
	)
	switch {
	case err != nil:
		return nil, err
	case kind != "LORA":
		return nil, fmt.Errorf("its peft_type is %.60q; only LORA is supported", kind)
	case c.rank < 1 || c.rank > maxRank:
		return nil, fmt.Errorf("its rank r is %d, outside 1 to %d", c.rank, maxRank)
	}
	return c, nil
}

// refusal says why a setting is not supported, or "". What peft switches on by a value is compared with that value; parameters of
// things that are off mean nothing. fan_in_fan_out says how the model keeps its weight, not the factors.
func refusal(key string, value json.RawMessage) string {
	switch key {
	case "bias":
		if !isText(value, "none") {
			return `is not "none"; adapters that change biases are not supported`
		}
		return ""
	case "init_lora_weights":
		if isSet(value) && !isText(value, "gaussian", "eva", "orthogonal") && string(value) != "true" {
			return "names a way that changes the model's own weights; save the adapter converted (path_initial_model_for_weight_conversion)"
		}
		return ""
	case "peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern", "fan_in_fan_out",
		"target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "base_model_name_or_path", "revision", "task_type",
		"inference_mode", "lora_dropout", "peft_version", "auto_mapping", "megatron_config", "megatron_core", "loftq_config", "eva_config",
		"corda_config", "lora_ga_config", "velora_config", "runtime_config", "ensure_weight_tying":
		return ""
	}
	if !isSet(value) {
		return ""
	}
	switch key {
	case "use_dora":
		return "makes it a DoRA adapter, which is not supported; merge it into the model"
	case "modules_to_save":
		return "replaces whole modules, which is not supported"
	case "trainable_token_indices":
		return "changes embeddings, which is not supported"
	case "lora_bias":
		return "gives the factors biases, which is not supported"
	case "layer_replication":
		return "repeats layers, which is not supported; make a model that has them"
	case "alora_invocation_tokens":
		return "lets it act behind certain tokens only, which is not supported"
	}
	if value[0] == '"' || value[0] == '-' || value[0] >= '0' && value[0] <= '9' {
		return "" // a parameter of something that is off, since what switches it on was looked at
	}
	return "is not one that is known to change nothing here; remove it if it concerns training only"
}

// isSet reports whether a value is more than null, false, or empty.
func isSet(value json.RawMessage) bool {
	switch string(value) {
	case "null", "false", "0", `""`:
		return false
	}
	var compact bytes.Buffer
	if len(value) < 64 && json.Compact(&compact, value) == nil {
		return compact.String() != "{}" && compact.String() != "[]"
	}
	return true
}

func isText(value json.RawMessage, allowed ...string) bool {
	var s string
	return json.Unmarshal(value, &s) == nil && slices.Contains(allowed, s)
}

// read takes one setting; absent and null leave dst as it is.
func read(all map[string]json.RawMessage, key string, dst any) error {
	value, ok := all[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(value, dst); err != nil {
		return fmt.Errorf("the setting %q: %w", key, err)
	}
	return nil
}

// readPatterns keeps the order of the file: the first pattern that matches counts.
func readPatterns(all map[string]json.RawMessage, key string, dst *[]pattern) error {
	value := all[key]
	if !isSet(value) || len(value) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(value))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("the setting %q is no object", key)
	}
	for d.More() {
		name, err := d.Token()
		text, ok := name.(string)
		var number float64
		if err == nil {
			err = d.Decode(&number)
		}
		switch {
		case err != nil || !ok:
			return fmt.Errorf("the setting %q does not map names to numbers", key)
		case len(text) > maxPatternLength || len(*dst) == maxPatterns:
			return fmt.Errorf("the setting %q has more than %d patterns, or one of more than %d bytes", key, maxPatterns, maxPatternLength)
		}
		// As peft matches: the whole name, or what follows one of its dots.
		re, err := regexp.Compile(`^(?:.*\.)?(?:` + text + `)$`)
		if err != nil {
			return fmt.Errorf("the setting %q has the pattern %.80q, which cannot be read; write out the names of the modules", key, text)
		}
		*dst = append(*dst, pattern{re, number})
	}
	return nil
}

// affordable bounds the work of matching.
func (c *config) affordable(modules int) error {
	if modules*(len(c.ranks)+len(c.alphas)) > maxMatches {
		return fmt.Errorf("%s: %d patterns for %d modules are more than supported; write patterns that match more", configName, len(c.ranks)+len(c.alphas), modules)
	}
	return nil
}

func match(patterns []pattern, module string, otherwise float64) float64 {
	for _, p := range patterns {
		if p.name.MatchString(module) {
			return p.value
		}
	}
	return otherwise
}

// scale is what peft multiplies the product of a module's factors by.
func (c *config) scale(module string, rank int) (float64, error) {
	if want := match(c.ranks, module, float64(c.rank)); want != float64(rank) {
		return 0, fmt.Errorf("its rank is %d, the settings say %v", rank, want)
	}
	alpha := match(c.alphas, module, c.alpha)
	if c.stable {
		return alpha / math.Sqrt(float64(rank)), nil
	}
	return alpha / float64(rank), nil
}
