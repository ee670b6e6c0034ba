package arch

import "github.com/sluice-project/sluice/engine/lora"

// AdapterBase says what reading adapters for the model takes to know of it.
func (c *Config) AdapterBase() lora.Base {
	names := namesOf(c.Arch)
	return lora.Base{Arch: c.Arch, Heads: c.Heads, KVHeads: c.KVHeads, Interleaved: c.Interleaved, Name: func(name string) (string, bool) {
		if names.ignores(name) {
			return "", true
		}
		return names.canonical(name), false
	}}
}
