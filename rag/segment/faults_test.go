package segment

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
)

// steps is what the fault tests let a store do: changes, a segment, another, a merge, a purge.
func steps(rng *rand.Rand) []Change {
	rule := func(g string) Rule { return Rule{Group: []byte(g)} }
	return []Change{
		{Revision: 1, Put: []Document{document(rng, "a", 1, rule("g0"), 2), document(rng, "b", 1, rule("g1"), 2)}},
		{Revision: 2, Put: []Document{document(rng, "c", 1, rule("g0"), 2)}, Delete: []Name{{ID: "b"}}},
		{Revision: 3, Move: []Move{{Name{"a", 0}, rule("g2")}}, Put: []Document{document(rng, "d", 1, rule("g1"), 2)}},
	}
}

// play runs the steps until one fails, and returns the changes that were acknowledged and the one that failed, if one did.
func play(ctx context.Context, s *Store, all []Change) (acknowledged int, err error) {
	for i, c := range all {
		if err := s.Apply(ctx, c); err != nil {
			return i, err
		}
		if i == 2 {
			continue
		}
		if err := s.flush(ctx, true); err != nil {
			return i + 1, err
		}
	}
	return len(all), s.Purge(ctx)
}

// onceEnough skips a test in the short form, which is the race detector's: its store has one user at a time, and many stores.
func onceEnough(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("one goroutine uses each store, which the race detector makes slow and finds nothing in")
	}
}

// Every operation on the disk fails once, in every way, and the file system stays as that leaves it. No change that was acknowledged is lost,
// none is there in part, a spoiled store says so, and the next start goes on.
func TestEveryWriteFails(t *testing.T) {
	onceEnough(t)
	for _, op := range []string{"create", "open", "write", "sync", "rename", "syncdir", "remove", "close"} {
		for _, mode := range []durabletest.Mode{durabletest.FailsBefore, durabletest.FailsAfter, durabletest.FailsShort, durabletest.FailsHalf} {
			if op != "write" && mode > durabletest.FailsAfter {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", op, mode), func(t *testing.T) {
				t.Parallel()
				failed := 0
				for n := 1; ; n++ {
					if !failsOnce(t, op, n, mode) {
						break
					}
					failed++
				}
				if failed == 0 {
					t.Errorf("no %s happened", op)
				}
			})
		}
	}
}

// failsOnce reports whether there was an n-th operation.
func failsOnce(t *testing.T, op string, n int, mode durabletest.Mode) bool {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	all := steps(rng)
	disk := &durabletest.Files{}
	happened := false
	plan := durabletest.Once(op, n, mode, false)
	disk.Set(func(got string) durabletest.Mode {
		m := plan(got)
		happened = happened || m != durabletest.Healthy
		return m
	})
	cfg := config(t, t.TempDir())
	cfg.Files = disk
	what := fmt.Sprintf("%s number %d, mode %d", op, n, mode)
	s, err := Open(t.Context(), cfg)
	acknowledged := 0
	if err == nil {
		acknowledged, err = play(t.Context(), s, all)
		if err != nil {
			// Views go on; a store that is spoiled refuses, one that is not does not.
			want := model{}
			for _, c := range all[:s.View().Revision()] {
				want.apply(c)
			}
			want.check(t, s.View(), rng)
			next := Change{Revision: s.View().Revision()}
			if got := s.Apply(t.Context(), next); (s.spoiled != nil) != errors.Is(got, ErrSpoiled) {
				t.Fatalf("%s: spoiled by %v, and the next change: %v", what, s.spoiled, got)
			}
			if op == "sync" && !strings.Contains(err.Error(), "seg-") && s.spoiled == nil {
				t.Fatalf("%s: an fsync failed (%v) and the store goes on", what, err)
			}
		}
		_ = s.Close()
	}
	if gone := op == "remove" && mode == durabletest.FailsAfter; happened && err == nil && op != "close" && !gone {
		t.Fatalf("%s: nobody was told", what)
	}
	disk.Set(nil)
	s, err = Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: opened again: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	revision := s.Revision()
	if revision < int64(acknowledged) || revision > int64(acknowledged+1) {
		t.Fatalf("%s: revision %d, acknowledged %d", what, revision, acknowledged)
	}
	want := modelOf(all[:revision])
	want.check(t, s.View(), rng)
	if _, err := play(t.Context(), s, all[revision:]); err != nil {
		t.Fatalf("%s: going on: %v", what, err)
	}
	modelOf(all).check(t, s.View(), rng)
	return happened
}

func modelOf(all []Change) model {
	m := model{}
	for _, c := range all {
		m.apply(c)
	}
	return m
}

func (m model) passages() int {
	n := 0
	for _, d := range m {
		n += len(d.Passages)
	}
	return n
}

// small returns the directory of a store with a segment, with changes to it, and with a log, and what is in it.
func small(t *testing.T, cfg Config) (want model, revisions []model) {
	t.Helper()
	rng := rand.New(rand.NewPCG(6, 6))
	s := opened(t, cfg)
	all := steps(rng)
	for i, c := range all {
		apply(t, s, c)
		if i == 0 {
			if err := s.flush(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range len(all) + 1 {
		revisions = append(revisions, modelOf(all[:i]))
	}
	return revisions[len(all)], revisions
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// damage opens a store of which one file was changed. It must be as it was at some revision of its log, if the file is the log and was
// cut, or say which file is damaged: when it is opened, or when the texts are read.
func damage(t *testing.T, cfg Config, name, what string, revisions []model, cut bool) {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err == nil {
		defer func() { _ = s.Close() }()
		if strings.HasPrefix(name, "wal-") && cut {
			revisions[s.Revision()].check(t, s.View(), rand.New(rand.NewPCG(1, 1)))
			return
		}
		v := s.View()
		f := v.Filter(groups(v), 1)
		for _, id := range ids(f) {
			if _, failed := f.Passages([]uint32{id}); failed != nil {
				err = failed
			}
		}
	}
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Join(cfg.Dir, name)) || !strings.Contains(err.Error(), "offset") {
		t.Fatalf("%s, %s: %v", name, what, err)
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, n := range names {
		if n.Name() != "lock" {
			out = append(out, n.Name())
		}
	}
	return out
}

func TestTruncationAtEveryByte(t *testing.T) {
	onceEnough(t)
	cfg := config(t, t.TempDir())
	_, revisions := small(t, cfg)
	seen := 0
	for _, name := range files(t, cfg.Dir) {
		b, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		step := 1
		if os.Getenv("SLUICE_TEST_LONG") == "" {
			step = 1 + len(b)/80
		}
		for size := 0; size < len(b); size++ {
			if size%step != 0 && size > 16 && size < len(b)-16 {
				continue
			}
			at := cfg
			at.Dir = copyDir(t, cfg.Dir)
			if err := os.Truncate(filepath.Join(at.Dir, name), int64(size)); err != nil {
				t.Fatal(err)
			}
			damage(t, at, name, fmt.Sprintf("cut at %d of %d", size, len(b)), revisions, true)
			seen++
		}
	}
	if seen < 300 {
		t.Errorf("only %d sizes", seen)
	}
}

func TestFlippedBytes(t *testing.T) {
	onceEnough(t)
	cfg := config(t, t.TempDir())
	_, revisions := small(t, cfg)
	rng := rand.New(rand.NewPCG(2, 3))
	for _, name := range files(t, cfg.Dir) {
		b, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range min(len(b), 90) {
			at := cfg
			at.Dir = copyDir(t, cfg.Dir)
			place := i
			if i > 40 {
				place = rng.IntN(len(b))
			}
			changed := slices.Clone(b)
			changed[place] ^= 1 << rng.IntN(8)
			if err := os.WriteFile(filepath.Join(at.Dir, name), changed, 0o600); err != nil {
				t.Fatal(err)
			}
			damage(t, at, name, fmt.Sprintf("byte %d of %d flipped", place, len(b)), revisions, false)
		}
	}
}

// A page, a record and a file that were put where another was.
func TestSwapped(t *testing.T) {
	cfg := config(t, t.TempDir())
	cfg.TailPassages = 1 << 20
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(2, 9))
	big := func(id string) Document {
		d := document(rng, id, 1, Rule{}, 30)
		for i := range d.Passages {
			d.Passages[i].Text += strings.Repeat("x", 3000)
		}
		return d
	}
	apply(t, s, Change{Revision: 1, Put: []Document{big("a")}})
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	same := document(rng, "b", 1, Rule{}, 1)
	apply(t, s, Change{Revision: 2, Put: []Document{same}})
	apply(t, s, Change{Revision: 2, Put: []Document{same}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range files(t, cfg.Dir) {
		if name == manifestName {
			continue
		}
		b, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		const page = pageBytes + 28
		from, size := 0, page
		if strings.HasPrefix(name, "wal-") {
			from = len(walMagic)
			size = (len(b) - from) / 2
		}
		if len(b) < from+2*size {
			continue
		}
		at := cfg
		at.Dir = copyDir(t, cfg.Dir)
		changed := slices.Concat(b[:from], b[from+size:from+2*size], b[from:from+size], b[from+2*size:])
		if len(changed) != len(b) {
			t.Fatal("lengths")
		}
		if err := os.WriteFile(filepath.Join(at.Dir, name), changed, 0o600); err != nil {
			t.Fatal(err)
		}
		damage(t, at, name, "two parts swapped", nil, false)
	}
}

// Zeros behind the last record are what a file system leaves of a record that was not written; they are cut, and nothing else is.
func TestZerosBehindTheLog(t *testing.T) {
	cfg := config(t, t.TempDir())
	want, _ := small(t, cfg)
	name := files(t, cfg.Dir)
	path := filepath.Join(cfg.Dir, name[slices.IndexFunc(name, func(n string) bool { return strings.HasPrefix(n, "wal-") })])
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 2 {
		s := opened(t, cfg)
		if got := s.Cut(); got != int64(5000*(1-i)) {
			t.Errorf("%d bytes cut", got)
		}
		want.check(t, s.View(), rng)
		c := Change{Revision: s.Revision() + 1, Put: []Document{document(rng, fmt.Sprintf("n%d", s.Revision()), 1, Rule{Group: []byte("g0")}, 1)}}
		apply(t, s, c)
		want.apply(c)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

const childVariable = "SLUICE_TEST_SEGMENT_CHILD"

func childChange(i int) Change {
	rng := rand.New(rand.NewPCG(uint64(i), 1))
	c := Change{Revision: int64(i), Put: []Document{
		document(rng, fmt.Sprintf("left%d", i), 1, Rule{Group: []byte("g0")}, 2), document(rng, fmt.Sprintf("right%d", i), 1, Rule{Group: []byte("g1")}, 1),
	}}
	if i > 5 {
		c.Delete = []Name{{ID: fmt.Sprintf("left%d", i-5)}}
	}
	return c
}

// TestChild is no test: it ingests until it is killed, and says which changes were acknowledged.
func TestChild(t *testing.T) {
	dir := os.Getenv(childVariable)
	if dir == "" {
		t.Skip("it runs as the child of TestKilled")
	}
	s := opened(t, config(t, dir))
	go func() { _ = s.Run(t.Context()) }()
	for i := int(s.Revision()) + 1; ; i++ {
		if err := s.Apply(t.Context(), childChange(i)); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("acknowledged %d\n", i)
	}
}

// A process that is killed while it ingests loses nothing that it acknowledged, and leaves no change in part.
func TestKilled(t *testing.T) {
	onceEnough(t)
	dir := t.TempDir()
	rng := rand.New(rand.NewPCG(9, 9))
	last := 0
	for range 4 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.v")
		child.Env = append(os.Environ(), childVariable+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		said, stop := bufio.NewReader(out), last+40+rng.IntN(40)
		for {
			line, err := said.ReadString('\n')
			if err != nil {
				break
			}
			if _, err := fmt.Sscanf(line, "acknowledged %d", &last); err == nil && last >= stop {
				break
			}
		}
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, _ := io.ReadAll(said) // also what is buffered
		for line := range strings.Lines(string(rest)) {
			if strings.HasSuffix(line, "\n") { // else it was cut
				_, _ = fmt.Sscanf(line, "acknowledged %d", &last)
			}
		}
		_ = child.Wait()
		if last < stop {
			t.Fatalf("the child ended at %d", last)
		}
		s, err := Open(t.Context(), config(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Revision(); r < int64(last) || r > int64(last)+1 {
			t.Fatalf("revision %d, acknowledged %d", r, last)
		}
		last = int(s.Revision())
		want := model{}
		for i := range last {
			want.apply(childChange(i + 1))
		}
		want.check(t, s.View(), rng)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// hangingFiles lets one creation of a file whose name begins with at wait when it is armed.
type hangingFiles struct {
	durable.OS
	at               string
	armed            atomic.Bool
	entered, release chan struct{}
}

func (h *hangingFiles) wait(path string) {
	if strings.HasPrefix(filepath.Base(path), h.at) && h.armed.CompareAndSwap(true, false) {
		close(h.entered)
		<-h.release
	}
}

func (h *hangingFiles) Create(path string) (durable.File, error) {
	h.wait(path)
	return h.OS.Create(path)
}

func (h *hangingFiles) Open(path string, flag int) (durable.File, error) {
	h.wait(path)
	return h.OS.Open(path, flag)
}

// Searches and changes go on while segments are written and merged, and see whole changes only. A disk that hangs in a merge stops neither.
func TestMergesStopNobody(t *testing.T) {
	for _, at := range []string{"seg-", manifestName} {
		t.Run(at, func(t *testing.T) { mergeHangs(t, at) })
	}
}

func mergeHangs(t *testing.T, at string) {
	disk := &hangingFiles{at: at, entered: make(chan struct{}), release: make(chan struct{})}
	cfg := config(t, t.TempDir())
	cfg.Files = disk
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(4, 4))
	want := model{}
	revision := int64(0)
	change := func(c Change) {
		revision++
		c.Revision = revision
		apply(t, s, c)
		want.apply(c)
	}
	for i := range 20 {
		change(childChange(i + 1))
	}
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	disk.armed.Store(true)
	merging := make(chan error, 1)
	go func() {
		_, err := s.mergeSome(context.Background(), func() []*part { return []*part{s.states[0].part} })
		merging <- err
	}()
	<-disk.entered
	// More than fits into memory can be put, if the disk takes segments; and documents go and move whatever it takes.
	puts := 10
	if at == "seg-" {
		puts = 2 * 4 * cfg.TailPassages / 3
	}
	for i := range puts {
		change(childChange(i + 21))
	}
	if at != "seg-" {
		for i := range int64(200) {
			change(Change{Move: []Move{{Name{ID: fmt.Sprintf("right%d", 1+i%20)}, Rule{Group: []byte(fmt.Sprintf("g%d", i%3))}}}})
		}
	}
	only := Move{Name{"right2", 1}, Rule{Group: []byte("g1"), Parts: []Part{{[]byte("g3"), []int{0}}}}} // in nothing but a part
	change(Change{Delete: []Name{{ID: "right3"}, {ID: "right21"}}, Move: []Move{only}})
	want.check(t, s.View(), rng)
	if n := len(s.View().parts[0].docs); n != 40 {
		t.Errorf("the merge ended while it hung: %d documents", n)
	}
	close(disk.release)
	if err := <-merging; err != nil {
		t.Fatal(err)
	}
	want.check(t, s.View(), rng) // with what was deleted while it hung
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want.check(t, opened(t, cfg).View(), rng)
}

// While segments cannot be written, a change that needs room waits no longer than it may; one that only deletes, moves or puts what was prepared does not wait. Close does not
// either, and a merge that it finds leaves nothing.
func TestNothingWaitsForAHangingDisk(t *testing.T) {
	disk := &hangingFiles{at: "seg-", entered: make(chan struct{}), release: make(chan struct{})}
	cfg := config(t, t.TempDir())
	cfg.Files = disk
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(4, 4))
	want := model{}
	full := Change{Revision: 1, Put: []Document{document(rng, "a", 1, Rule{Group: []byte("g0")}, 4*cfg.TailPassages)}}
	ready := Change{Revision: 2, Put: []Document{document(rng, "c", 1, Rule{Group: []byte("g0")}, 2)}}
	if err := s.IndexWords(t.Context(), &ready.Put[0]); err != nil {
		t.Fatal(err)
	}
	apply(t, s, full)
	want.apply(full)
	disk.armed.Store(true)
	flushing := make(chan error, 1)
	go func() { flushing <- s.flush(context.Background(), false) }()
	<-disk.entered
	more := Change{Revision: 2, Put: []Document{document(rng, "b", 1, Rule{Group: []byte("g0")}, 1)}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Apply(ctx, more); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without room: %v", err)
	}
	if err := s.IndexWords(ctx, &more.Put[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without room to prepare: %v", err)
	}
	apply(t, s, ready)
	want.apply(ready)
	move := Change{Revision: 2, Move: []Move{{Name{ID: "a"}, Rule{Group: []byte("g1")}}}}
	apply(t, s, move)
	want.apply(move)
	want.check(t, s.View(), rng)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cfg.Files = nil
	again := opened(t, cfg)
	want.check(t, again.View(), rng)
	close(disk.release)
	if err := <-flushing; !errors.Is(err, ErrClosed) {
		t.Errorf("the segment of a closed store: %v", err)
	}
	for _, name := range files(t, cfg.Dir) {
		if strings.HasPrefix(name, "seg-") {
			t.Errorf("%s is left", name)
		}
	}
	apply(t, again, more)
}

// An error in a merge leaves the segments as they were, and the store goes on.
func TestFailedMergeLosesNothing(t *testing.T) {
	disk := &durabletest.Files{}
	cfg := config(t, t.TempDir())
	cfg.Files = disk
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(4, 4))
	all := steps(rng)
	apply(t, s, all[0])
	apply(t, s, all[1])
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	before := files(t, cfg.Dir)
	for n := 1; n < 4; n++ {
		disk.Set(durabletest.Once("write", n, durabletest.FailsHalf, false))
		if _, err := s.mergeSome(t.Context(), s.unclean); err == nil && n < 3 {
			t.Fatalf("write %d failed and nobody was told", n)
		}
		if n < 3 {
			modelOf(all[:2]).check(t, s.View(), rng)
			if got := files(t, cfg.Dir); !slices.Equal(got, before) {
				t.Errorf("write %d left %v, before %v", n, got, before)
			}
		}
	}
	disk.Set(nil)
	_ = s.Close()
	s = opened(t, cfg)
	modelOf(all[:2]).check(t, s.View(), rng)
	apply(t, s, all[2])
	modelOf(all).check(t, s.View(), rng)
}

// Searches run beside everything else; the race detector looks on.
func TestConcurrency(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, 7))
			for {
				select {
				case <-done:
					return
				default:
				}
				v := s.View()
				want := model{}
				for i := range int(v.Revision()) {
					want.apply(childChange(i + 1))
				}
				f := v.Filter(groups(v), 1)
				if f.Len() != want.passages() {
					t.Errorf("revision %d has %d passages instead of %d", v.Revision(), f.Len(), want.passages())
					return
				}
				if _, err := f.Near(t.Context(), vector(rng), 5); err != nil {
					t.Error(err)
				}
				if all := ids(f); len(all) > 0 {
					if _, err := f.Passages(all[:min(5, len(all))]); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 150 {
		apply(t, s, childChange(i+1))
	}
	close(done)
	cancel()
	wg.Wait()
}

func FuzzDecodeChange(f *testing.F) {
	f.Add((&steps(rand.New(rand.NewPCG(1, 1)))[0]).encode())
	f.Add([]byte{2, 0, 0, 0xfe, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := decodeChange(b, testDim)
		if err != nil {
			return
		}
		again, err := decodeChange(c.encode(), testDim)
		if err != nil || len(again.Put) != len(c.Put) || len(again.Delete) != len(c.Delete) || len(again.Move) != len(c.Move) {
			t.Fatalf("%v, %v", again, err)
		}
	})
}
