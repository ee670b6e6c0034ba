package limit

import (
	"context"
	"hash/maphash"
	"sync"
)

const shards = 64

// memory keeps the state of one process, sharded by group. An entry that has recovered equals an absent one, so each access
// drops a few such entries and the map stays near the number of callers of the last minute.
type memory struct {
	seed   maphash.Seed
	shards [shards]shard
}

type shard struct {
	mu      sync.Mutex
	entries map[entryKey]entry
}

// entryKey names what is bounded: the key of a charge, in a group.
type entryKey struct{ group, charge string }

type entry struct {
	at   int64 // rates: the instant at which all is free again
	used int64 // slots in use
}

func newMemory() *memory {
	m := &memory{seed: maphash.MakeSeed()}
	for i := range m.shards {
		m.shards[i].entries = map[entryKey]entry{}
	}
	return m
}

func (m *memory) shard(group string) *shard {
	return &m.shards[maphash.String(m.seed, group)%shards]
}

func (s *shard) forget(now int64) {
	n := 0
	for k, e := range s.entries {
		if e.used == 0 && e.at <= now {
			delete(s.entries, k)
		}
		if n++; n == 4 {
			return
		}
	}
}

func (m *memory) take(_ context.Context, group, _ string, now int64, charges []charge) (decision, error) {
	s := m.shard(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(now)
	d := decision{refused: -1, levels: make([]int64, len(charges))}
	for i, c := range charges {
		e := s.entries[entryKey{group, c.key}]
		if c.slots > 0 {
			d.levels[i] = e.used
			if e.used >= c.slots && d.refused < 0 {
				d.refused = i
			}
			continue
		}
		d.levels[i] = max(0, e.at-now)
		if over := d.levels[i] + c.cost - window; over > 0 && d.refused < 0 {
			d.refused, d.wait = i, over
		}
	}
	if d.refused >= 0 {
		return d, nil
	}
	for i, c := range charges {
		e := s.entries[entryKey{group, c.key}]
		if c.slots > 0 {
			e.used++
			d.levels[i] = e.used
		} else {
			e.at = max(e.at, now) + c.cost
			d.levels[i] = e.at - now
		}
		s.entries[entryKey{group, c.key}] = e
	}
	return d, nil
}

func (m *memory) adjust(_ context.Context, group string, now int64, charges []charge, delta []int64) (decision, error) {
	s := m.shard(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	d := decision{refused: -1, levels: make([]int64, len(charges))}
	for i, c := range charges {
		if c.slots > 0 {
			continue
		}
		d.levels[i] = max(0, s.entries[entryKey{group, c.key}].at-now)
		if over := d.levels[i] + delta[i] - window; delta[i] > 0 && over > 0 && d.refused < 0 {
			d.refused, d.wait = i, over
		}
	}
	if d.refused >= 0 {
		return d, nil
	}
	for i, c := range charges {
		if c.slots > 0 || delta[i] == 0 {
			continue
		}
		d.levels[i] = max(0, d.levels[i]+delta[i])
		e := s.entries[entryKey{group, c.key}]
		e.at = now + d.levels[i]
		s.entries[entryKey{group, c.key}] = e
	}
	return d, nil
}

func (m *memory) settle(_ context.Context, group, _ string, now int64, charges []charge, delta []int64) error {
	s := m.shard(group)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range charges {
		e := s.entries[entryKey{group, c.key}]
		if c.slots > 0 {
			e.used = max(0, e.used-1)
		} else {
			// What was taken too much returns only as far as it has not recovered by itself.
			e.at = max(e.at, now) + delta[i]
		}
		s.entries[entryKey{group, c.key}] = e
	}
	return nil
}
