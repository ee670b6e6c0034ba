package segment

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/audit/durable"
)

var errDead = errors.New("the process is dead")

// medium is a disk behind a cache: what was not synced, bytes or names, is lost when the power goes. What a process sees meanwhile, also
// one that was killed and started again, lies in a real directory. A failed fsync does as Linux does: the bytes count as written, and are not.
type medium struct {
	mu        sync.Mutex
	now, kept map[string]*inode
	pending   []func(map[string]*inode) // what became of names since the directory was synced
	left      int                       // operations until the fault
	fault     fault
	dead      bool
}

type fault int

const (
	killed fault = iota // from then on nothing happens
	eio                 // one operation fails, nothing is done
)

type inode struct {
	data, kept []byte
	from       int // data is not synced from there on
}

func newMedium() *medium { return &medium{now: map[string]*inode{}, kept: map[string]*inode{}} }

// after arms a fault for after n operations.
func (m *medium) after(n int, f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.fault, m.dead = n, f, false
}

// step is one operation. The caller holds mu.
func (m *medium) step() error {
	if m.dead {
		return errDead
	}
	if m.left--; m.left == 0 {
		if m.fault == eio {
			return syscall.EIO
		}
		m.dead = true // and this one still happens
	}
	return nil
}

func (m *medium) name(op func(map[string]*inode)) {
	op(m.now)
	m.pending = append(m.pending, op)
}

func (m *medium) Create(path string) (durable.File, error) {
	return m.open(path, os.O_CREATE|os.O_EXCL)
}

func (m *medium) Open(path string, flag int) (durable.File, error) { return m.open(path, flag) }

func (m *medium) open(path string, flag int) (durable.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|flag, 0o600)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	i := m.now[base]
	if i == nil {
		i = &inode{}
		m.name(func(all map[string]*inode) { all[base] = i })
	}
	if flag&os.O_TRUNC != 0 {
		i.data, i.from = nil, 0
	}
	return &cachedFile{m, f, i}, nil
}

func (m *medium) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	a, b := filepath.Base(from), filepath.Base(to)
	i := m.now[a]
	m.name(func(all map[string]*inode) { delete(all, a); all[b] = i })
	return os.Rename(from, to)
}

func (m *medium) Remove(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	base := filepath.Base(path)
	m.name(func(all map[string]*inode) { delete(all, base) })
	return os.Remove(path)
}

func (m *medium) SyncDir(string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.step(); err != nil {
		return err
	}
	m.kept, m.pending = maps.Clone(m.now), nil
	return nil
}

type cachedFile struct {
	m *medium
	f *os.File
	i *inode
}

func (c *cachedFile) Write(b []byte) (int, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if err := c.m.step(); err != nil {
		return 0, err
	}
	c.i.data = append(c.i.data, b...) // every writer appends
	return c.f.Write(b)
}

func (c *cachedFile) Sync() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	err := c.m.step()
	switch {
	case err == nil:
		kept := slices.Grow(slices.Clone(c.i.kept), len(c.i.data))[:len(c.i.data)]
		clear(kept[min(len(c.i.kept), len(kept)):])
		copy(kept[min(c.i.from, len(kept)):], c.i.data[min(c.i.from, len(kept)):])
		c.i.kept, c.i.from = kept, len(c.i.data)
	case !errors.Is(err, errDead):
		c.i.from = len(c.i.data)
	}
	return err
}

func (c *cachedFile) Truncate(size int64) error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if err := c.m.step(); err != nil {
		return err
	}
	c.i.data = slices.Clone(c.i.data[:size])
	c.i.from = min(c.i.from, len(c.i.data))
	return c.f.Truncate(size)
}

func (c *cachedFile) Close() error { return c.f.Close() }

// powerLoss returns a directory with what the medium has: what was synced, and with luck some of the rest, in no order.
func (m *medium) powerLoss(t *testing.T, rng *rand.Rand, luck bool) string {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.kept)
	for _, op := range m.pending {
		if luck && rng.IntN(2) == 0 {
			op(names)
		}
	}
	dir := t.TempDir()
	for name, i := range names {
		b := slices.Clone(i.kept)
		if luck && i.from < len(i.data) && len(i.data) >= len(i.kept) {
			b = append(b, make([]byte, len(i.data)-len(b))...)
			for at := i.from; at < len(b); {
				end := min((at/512+1)*512, len(b))
				if rng.IntN(3) > 0 {
					copy(b[at:end], i.data[at:end])
				}
				at = end
			}
			if rng.IntN(2) == 0 {
				b = b[:i.from+rng.IntN(len(b)-i.from)]
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// longSteps is steps and more, with a document of several blocks.
func longSteps(rng *rand.Rand) []Change {
	all := steps(rng)
	for i := range 5 {
		all = append(all, Change{
			Revision: int64(len(all) + 1), Put: []Document{document(rng, fmt.Sprintf("e%d", i), 1, Rule{Group: []byte("g1")}, 1+12*(i%2))},
			Delete: []Name{{ID: fmt.Sprintf("e%d", i-2)}}, Move: []Move{{Name{"a", 0}, Rule{Group: []byte(fmt.Sprintf("g%d", i%3))}}},
		})
	}
	return all
}

// playOn makes changes until one fails. Some are followed by a new log alone, some by a segment.
func playOn(t *testing.T, s *Store, all []Change) (acknowledged int) {
	t.Helper()
	for i, c := range all {
		if s.Apply(t.Context(), c) != nil {
			return i
		}
		var err error
		switch c.Revision % 3 {
		case 0:
			err = s.freeze(true)
		case 1:
			err = s.flush(t.Context(), true)
		}
		if err != nil {
			return i + 1
		}
	}
	_ = s.Purge(t.Context())
	return len(all)
}

// lose lets a store run until a fault, opens it again on the same machine, lets that one run until the power goes, and opens what is left. Nothing
// that was acknowledged, or seen after the second start, is missing; nothing is there in part.
func lose(t *testing.T, rng *rand.Rand, first int, f fault, second int, luck bool) {
	t.Helper()
	what := fmt.Sprintf("fault %d at operation %d, no power after %d more, luck %v", f, first, second, luck)
	m := newMedium()
	all := longSteps(rand.New(rand.NewPCG(5, 5)))
	cfg := config(t, t.TempDir())
	cfg.Files = m
	m.after(first, f)
	acknowledged := 0
	s, err := Open(t.Context(), cfg)
	if err == nil {
		acknowledged = playOn(t, s, all)
		_ = s.Close()
	}
	m.after(second, killed)
	if s, err = Open(t.Context(), cfg); err == nil {
		seen := int(s.Revision())
		if seen < acknowledged {
			t.Fatalf("%s: revision %d after the fault, acknowledged %d", what, seen, acknowledged)
		}
		acknowledged = seen + playOn(t, s, all[seen:])
		_ = s.Close()
	} else if !m.dead {
		t.Fatalf("%s: opened after the fault: %v", what, err)
	}
	cfg.Dir, cfg.Files = m.powerLoss(t, rng, luck), unsynced{}
	s, err = Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: opened after the power came back: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	revision := int(s.Revision())
	if revision < acknowledged || revision > acknowledged+1 {
		t.Fatalf("%s: revision %d, acknowledged %d", what, revision, acknowledged)
	}
	modelOf(all[:revision]).check(t, s.View(), rng)
	if _, err := play(t.Context(), s, all[revision:]); err != nil {
		t.Fatalf("%s: going on: %v", what, err)
	}
	modelOf(all).check(t, s.View(), rng)
}

// unsynced is the operating system without what takes time.
type unsynced struct{ durable.OS }

type unsyncedFile struct{ durable.File }

func (unsyncedFile) Sync() error      { return nil }
func (unsynced) SyncDir(string) error { return nil }
func (u unsynced) Create(path string) (durable.File, error) {
	f, err := u.OS.Create(path)
	return unsyncedFile{f}, err
}

func (u unsynced) Open(path string, flag int) (durable.File, error) {
	f, err := u.OS.Open(path, flag)
	return unsyncedFile{f}, err
}

// The power goes at any moment, also soon after a process was killed or a disk failed: a change that was acknowledged is there, whole.
func TestPowerLoss(t *testing.T) {
	onceEnough(t)
	t.Parallel()
	m := newMedium()
	cfg := config(t, t.TempDir())
	cfg.Files = m
	s := opened(t, cfg)
	if _, err := play(t.Context(), s, longSteps(rand.New(rand.NewPCG(5, 5)))); err != nil {
		t.Fatal(err)
	}
	operations := -m.left
	if operations < 100 {
		t.Errorf("only %d operations", operations)
	}
	rng := rand.New(rand.NewPCG(3, 14))
	long := os.Getenv("SLUICE_TEST_LONG") != ""
	for first := 1; first <= operations; first++ {
		for second := 1; second <= operations; second++ {
			// Soon after the start is where it matters most.
			if !long && rng.IntN(6*operations) > 0 && (second > 3 || (first+second)%12 > 0) {
				continue
			}
			lose(t, rng, first, fault(rng.IntN(2)), second, rng.IntN(2) == 0)
		}
	}
}
