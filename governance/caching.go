package governance

import (
	"cmp"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/sluice-project/sluice/internal/fault"
)

const (
	cacheOff      = "off"
	cacheCoalesce = "coalesce"
	cacheExact    = "exact"

	defaultCacheTTL   = 5 * time.Minute
	defaultCacheBytes = 8 << 20
	// maxCacheTTL bounds how long an answer is kept, and how long it is stale afterwards.
	maxCacheTTL   = time.Hour
	maxCacheBytes = 1 << 30
	minCacheBytes = 64 << 10 // less has no room for an answer
)

// Caching says whether equal requests share an answer.
type Caching struct {
	On bool // equal requests at one time share an engine's answer
	// Keep: an answer is given to later equal requests, too, for TTL; for Stale after that in the place of one that fails.
	Keep       bool
	TTL, Stale time.Duration
	Bytes      int64 // that the answers of the tenant may take
	Sampled    bool  // also answers that are drawn at random: all who share one get the same draw
}

// caching is what a policy says of it, with all parameters as they were when it was published. nil stands for off.
type caching struct {
	Mode         string `json:"mode"`
	TTL          int64  `json:"ttl_seconds,omitempty"`
	StaleIfError int64  `json:"stale_if_error_seconds,omitempty"`
	MaxBytes     int64  `json:"max_bytes,omitempty"`
	Sampled      bool   `json:"sampled,omitempty"`
}

// readCache reads a mode, or a mode with its bounds.
func (p *policy) readCache(n *yaml.Node, path string) error {
	c := caching{Mode: cacheOff}
	ttl, stale, bytes, sampled := time.Duration(0), time.Duration(-1), 0, "" // what no policy can say: that it does not
	mode := choice(&c.Mode, cacheOff, cacheCoalesce, cacheExact)
	if n.Kind != yaml.MappingNode {
		if err := mode(n, path); err != nil {
			return err
		}
	} else if err := object(n, path, []field{
		{"mode", true, mode},
		{"ttl", false, span(&ttl, time.Second, maxCacheTTL)},
		{"stale_if_error", false, span(&stale, 0, maxCacheTTL)},
		{"max_bytes", false, number(&bytes, minCacheBytes, maxCacheBytes)},
		{"sampled", false, choice(&sampled, "true", "false")},
	}); err != nil {
		return err
	}
	c.Sampled = sampled == "true"
	if c.Mode != cacheExact && (ttl != 0 || stale >= 0 || bytes != 0) || c.Mode == cacheOff && c.Sampled { // it would mean nothing
		return errorAt(n, path, fault.Say("governance.cache"))
	}
	if c.Mode == cacheExact {
		c.TTL, c.StaleIfError = int64(cmp.Or(ttl, defaultCacheTTL)/time.Second), int64(max(0, stale)/time.Second)
		c.MaxBytes = int64(cmp.Or(bytes, defaultCacheBytes))
	}
	if c.Mode != cacheOff {
		p.Cache = &c
	}
	return nil
}

// Caching returns how equal requests share answers.
func (a *Admission) Caching() Caching {
	c := a.active.policy.Cache
	if c == nil {
		return Caching{}
	}
	return Caching{
		On: true, Keep: c.Mode == cacheExact, TTL: time.Duration(c.TTL) * time.Second, Stale: time.Duration(c.StaleIfError) * time.Second,
		Bytes: c.MaxBytes, Sampled: c.Sampled,
	}
}
