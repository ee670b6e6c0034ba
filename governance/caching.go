package governance

import (
	"strconv"
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
	var ttl, stale *time.Duration
	var bytes *int64
	mode := choice(&c.Mode, cacheOff, cacheCoalesce, cacheExact)
	if n.Kind != yaml.MappingNode {
		if err := mode(n, path); err != nil {
			return err
		}
	} else if err := object(n, path, []field{
		{"mode", true, mode},
		{"ttl", false, cacheSetting(func(s string) (err error) { ttl, err = seconds(s, time.Second); return err })},
		{"stale_if_error", false, cacheSetting(func(s string) (err error) { stale, err = seconds(s, 0); return err })},
		{"max_bytes", false, cacheSetting(func(s string) error {
			v, err := strconv.ParseInt(s, 10, 64)
			if bytes = &v; err == nil && (v < 1 || v > maxCacheBytes) {
				err = strconv.ErrRange
			}
			return err
		})},
		{"sampled", false, cacheSetting(func(s string) (err error) { c.Sampled, err = strconv.ParseBool(s); return err })},
	}); err != nil {
		return err
	}
	if c.Mode != cacheExact && (ttl != nil || stale != nil || bytes != nil) || c.Mode == cacheOff && c.Sampled { // it would mean nothing
		return errorAt(n, path, fault.Say("governance.cache"))
	}
	if c.Mode == cacheExact {
		c.TTL, c.MaxBytes = int64(defaultCacheTTL/time.Second), defaultCacheBytes
		if ttl != nil {
			c.TTL = int64(*ttl / time.Second)
		}
		if stale != nil {
			c.StaleIfError = int64(*stale / time.Second)
		}
		if bytes != nil {
			c.MaxBytes = *bytes
		}
	}
	if c.Mode != cacheOff {
		p.Cache = &c
	}
	return nil
}

// seconds reads a duration of whole seconds, from least to maxCacheTTL.
func seconds(s string, least time.Duration) (*time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err == nil && (d < least || d > maxCacheTTL || d%time.Second != 0) {
		err = strconv.ErrRange
	}
	return &d, err
}

// cacheSetting reads a scalar of a cache.
func cacheSetting(read func(string) error) func(*yaml.Node, string) error {
	return func(n *yaml.Node, path string) error {
		if err := rejectAliases(n, path); err != nil {
			return err
		}
		if n.Kind != yaml.ScalarNode || read(n.Value) != nil {
			return errorAt(n, path, fault.Say("governance.cache"))
		}
		return nil
	}
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
