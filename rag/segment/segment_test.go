package segment

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/engine/kernel"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/rag/lexical"
)

const testDim = 8

func testKey(t testing.TB, suite seal.Suite, fill byte) seal.Key {
	t.Helper()
	key, err := seal.NewKey(suite, slices.Repeat([]byte{fill}, suite.KeySize()))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func config(t testing.TB, dir string) Config {
	t.Helper()
	return Config{
		Dir: dir, Key: testKey(t, seal.Intl, 7), Model: "test", Dim: testDim, Kernels: kernel.Detect(slog.New(slog.DiscardHandler)),
		TailPassages: 32, SegmentPassages: 4096,
	}
}

func opened(t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func apply(t testing.TB, s *Store, c Change) {
	t.Helper()
	if err := s.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

func vector(rng *rand.Rand) []float32 {
	v := make([]float32, testDim)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

// document returns a document whose passages say which they are.
func document(rng *rand.Rand, id string, version int64, rule Rule, passages int) Document {
	d := Document{Name: Name{id, version}, Rule: rule, Detail: []byte("detail of " + id)}
	for i := range passages {
		text := fmt.Sprintf("%s.%d passage %d of word%d", id, version, i, rng.IntN(20))
		d.Passages = append(d.Passages, Passage{Number: i, Start: 10 * i, End: 10*i + 9, Section: fmt.Sprintf("section %d", i), Text: text, Words: text, Vector: vector(rng)})
	}
	return d
}

// model is what a store must hold.
type model map[Name]Document

func (m model) apply(c Change) {
	all := func(n Name, f func(Name)) {
		for name := range m {
			if name.ID == n.ID && (n.Version == 0 || name.Version == n.Version) {
				f(name)
			}
		}
	}
	for _, n := range c.Delete {
		all(n, func(n Name) { delete(m, n) })
	}
	for _, move := range c.Move {
		all(move.Name, func(n Name) {
			d := m[n]
			d.Rule = move.Rule
			m[n] = d
		})
	}
	for _, d := range c.Put {
		m[d.Name] = d
	}
}

// groups returns the numbers of these groups.
func groups(v *View, names ...string) *roaring.Bitmap {
	out := roaring.New()
	for i, g := range v.Groups() {
		if len(names) == 0 || slices.Contains(names, string(g)) {
			out.Add(uint32(i))
		}
	}
	return out
}

func ids(f *Filter) []uint32 {
	var out []uint32
	for i, b := range f.rows {
		for it := b.Iterator(); it.HasNext(); {
			out = append(out, f.view.parts[i].base+it.Next())
		}
	}
	return out
}

// check compares a view with the model: what every filter lets through, what passages say, what the words and the vectors find.
func (m model) check(t testing.TB, v *View, rng *rand.Rand) {
	t.Helper()
	for _, names := range [][]string{nil, {"g0"}, {"g1", "g2"}} {
		for _, at := range []int64{1, 50, 1000} {
			want := map[string]Document{}
			for _, d := range m {
				for i, p := range d.Passages {
					if (len(names) == 0 || slices.Contains(names, groupOf(d, i))) && (span{d.From, d.Until}).holds(at) {
						want[p.Text] = d
					}
				}
			}
			f := v.Filter(groups(v, names...), at)
			documents := map[string]bool{}
			for _, d := range want {
				documents[d.ID] = true
			}
			if f.Documents() != len(documents) {
				t.Fatalf("groups %v at %d: %d documents instead of %d", names, at, f.Documents(), len(documents))
			}
			begun := 0
			for _, d := range m {
				for i := range d.Passages {
					if (len(names) == 0 || slices.Contains(names, groupOf(d, i))) && d.From <= at {
						begun++
					}
				}
			}
			if got := v.In(groups(v, names...)).Begun(at).Len(); got != begun {
				t.Fatalf("groups %v at %d: %d passages that have begun instead of %d", names, at, got, begun)
			}
			all := ids(f)
			if len(all) != len(want) || f.Len() != len(want) {
				t.Fatalf("groups %v at %d: %d passages (%d) instead of %d", names, at, len(all), f.Len(), len(want))
			}
			found, err := f.Passages(all)
			if err != nil {
				t.Fatal(err)
			}
			byText := map[string]uint32{}
			for i, p := range found {
				d, ok := want[p.Text]
				if !ok || p.Name != d.Name || string(p.Group) != groupOf(d, p.Number) || p.From != d.From || p.Until != d.Until || string(p.Detail) != string(d.Detail) {
					t.Fatalf("found %+v, which is not in the model so", p)
				}
				q := d.Passages[p.Number]
				if q.Text != p.Text || q.Section != p.Section || q.Start != p.Start || q.End != p.End {
					t.Fatalf("found %+v instead of %+v", p, q)
				}
				byText[p.Text] = all[i]
			}
			if len(want) == 0 {
				continue
			}
			texts := slices.Sorted(maps.Keys(want))
			text := texts[rng.IntN(len(texts))]
			d := want[text]
			var p Passage
			for _, q := range d.Passages {
				if q.Text == text {
					p = q
				}
			}
			near, err := f.Near(t.Context(), p.Vector, 3)
			if err != nil || len(near) == 0 || near[0].ID != byText[text] || near[0].Score < 0.9999 {
				t.Fatalf("the vector of %q found %v (%v), not %d", text, near, err, byText[text])
			}
			ranking, err := lexical.Rank(lexical.Parse(d.ID), f.Words())
			if err != nil {
				t.Fatal(err)
			}
			best, err := ranking.Best(1000)
			if err != nil {
				t.Fatal(err)
			}
			has := map[uint32]bool{}
			for _, h := range best {
				has[h.ID] = true
			}
			for _, q := range texts {
				if want[q].ID == d.ID && !has[byText[q]] {
					t.Fatalf("the word %q does not find %q", d.ID, q)
				}
			}
			for id := range has {
				if !f.rows[must(v.locate(id))].Contains(id - v.parts[must(v.locate(id))].base) {
					t.Fatalf("the word %q finds %d, which the filter hides", d.ID, id)
				}
			}
		}
	}
	m.checkEntries(t, v)
	if v.Len() != len(ids(v.Filter(groups(v), 0)))+m.hidden(0) {
		t.Fatalf("the view has %d passages", v.Len())
	}
}

func must(i int, _ uint32, _ bool) int { return i }

// groupOf is the group of a passage of a document.
func groupOf(d Document, passage int) string {
	for _, p := range d.Parts {
		if slices.Contains(p.Passages, passage) {
			return string(p.Group)
		}
	}
	return string(d.Group)
}

// checkEntries compares what is found document by document with the model.
func (m model) checkEntries(t testing.TB, v *View) {
	t.Helper()
	seen := 0
	check := func(e Entry, detail []byte) error {
		seen++
		d, ok := m[e.Name]
		if own, err := e.Detail(); err != nil || string(own) != string(d.Detail) || string(detail) != string(own) {
			t.Fatalf("%v has the details %q and %q, %v", e.Name, detail, own, err)
		}
		texts, err := e.Texts()
		if err != nil {
			return err
		}
		if !ok || e.From != d.From || e.Until != d.Until || len(texts) != len(d.Passages) || e.Passages != len(texts) {
			t.Fatalf("%+v is not in the model so", e)
		}
		all := v.In(groups(v))
		for i, g := range e.Groups() {
			if string(v.Groups()[g]) != groupOf(d, i) || texts[i].Text != d.Passages[i].Text || !all.Has(e.First+uint32(i)) || !all.HasAny(e) {
				t.Fatalf("passage %d of %v is in group %q, and %+v", i, e.Name, v.Groups()[g], texts[i])
			}
		}
		return nil
	}
	if err := v.Each(check); err != nil {
		t.Fatal(err)
	}
	for n, d := range m {
		if len(d.Passages) > 0 {
			seen--
		}
		all := v.Find(n.ID)
		if i := slices.IndexFunc(all, func(e Entry) bool { return e.Name == n }); (i >= 0) != (len(d.Passages) > 0) {
			t.Fatalf("%v is found among %d versions at %d", n, len(all), i)
		}
	}
	if seen != 0 {
		t.Fatalf("%d documents more than the model has", seen)
	}
}

func (m model) hidden(at int64) int {
	n := 0
	for _, d := range m {
		if !(span{d.From, d.Until}).holds(at) {
			n += len(d.Passages)
		}
	}
	return n
}

func randomChange(rng *rand.Rand, revision int64) Change {
	c := Change{Revision: revision, Mark: fmt.Sprint("mark ", revision)}
	name := func() Name { return Name{fmt.Sprintf("doc%d", rng.IntN(30)), int64(rng.IntN(3))} }
	rule := func() Rule {
		r := Rule{Group: []byte(fmt.Sprintf("g%d", rng.IntN(4)))}
		if rng.IntN(3) == 0 {
			r.From, r.Until = int64(rng.IntN(60)), int64(rng.IntN(100))
		}
		return r
	}
	for range rng.IntN(3) {
		c.Delete = append(c.Delete, name())
	}
	for range rng.IntN(3) {
		c.Move = append(c.Move, Move{name(), rule()})
	}
	seen := map[Name]bool{}
	for range rng.IntN(4) {
		n := name()
		if n.Version++; !seen[n] {
			seen[n] = true
			d := document(rng, n.ID, n.Version, rule(), rng.IntN(4))
			if len(d.Passages) == 3 && rng.IntN(2) == 0 {
				d.Parts = []Part{{[]byte(fmt.Sprintf("g%d", rng.IntN(4))), []int{0, 2}}, {[]byte("g9"), []int{1}}}[:1+rng.IntN(2)]
			}
			c.Put = append(c.Put, d)
		}
	}
	return c
}

// split moves a document that is there, and that nothing else of the change is about, so that its passages have several groups.
func (m model) split(rng *rand.Rand, c *Change) {
	for n, d := range m {
		same := func(o Name) bool { return o.ID == n.ID }
		if len(d.Passages) < 2 || slices.ContainsFunc(c.Delete, same) || slices.ContainsFunc(c.Move, func(o Move) bool { return same(o.Name) }) {
			continue
		}
		c.Move = append(c.Move, Move{n, Rule{Group: []byte("g1"), Parts: []Part{{[]byte(fmt.Sprintf("g%d", rng.IntN(4))), []int{1}}}, Until: d.Until}})
		return
	}
}

// A store holds what its changes say, however they are followed by segments, merges, purges and new starts; and a view stays as it was.
func TestStoreEqualsModel(t *testing.T) {
	for _, suite := range []seal.Suite{seal.Intl, seal.GM} {
		t.Run(string(suite), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, 12))
			cfg := config(t, t.TempDir())
			cfg.Key = testKey(t, suite, 3)
			s := opened(t, cfg)
			want := model{}
			old, oldWant := s.View(), maps.Clone(want)
			for i := range 300 {
				c := randomChange(rng, int64(i+1))
				want.split(rng, &c)
				for j := range c.Put {
					if rng.IntN(3) == 0 {
						if err := s.IndexWords(t.Context(), &c.Put[j]); err != nil {
							t.Fatal(err)
						}
					}
				}
				apply(t, s, c)
				want.apply(c)
				switch rng.IntN(12) {
				case 0:
					if err := s.flush(t.Context(), rng.IntN(2) == 0); err != nil {
						t.Fatal(err)
					}
				case 1:
					if err := errors.Join(s.flush(t.Context(), false), s.mergeAll(t.Context())); err != nil {
						t.Fatal(err)
					}
				case 2:
					if err := s.Purge(t.Context()); err != nil {
						t.Fatal(err)
					}
				case 3:
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s = opened(t, cfg)
					if s.Revision() != int64(i+1) || s.View().Mark() != c.Mark {
						t.Fatalf("revision %d instead of %d", s.Revision(), i+1)
					}
				case 4:
					oldWant.check(t, old, rng)
					old, oldWant = s.View(), maps.Clone(want)
				}
				if i%5 == 0 {
					want.check(t, s.View(), rng)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	cfg := config(t, dir)
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	good := document(rng, "a", 1, Rule{}, 1)
	apply(t, s, Change{Revision: 5, Put: []Document{good}})
	short := document(rng, "b", 1, Rule{}, 1)
	short.Passages[0].Vector = short.Passages[0].Vector[:3]
	late := document(rng, "c", 1, Rule{}, 1)
	late.Passages[0].End = 1 << 40
	for name, c := range map[string]Change{
		"older revision":  {Revision: 4},
		"no id":           {Revision: 6, Delete: []Name{{}}},
		"no version":      {Revision: 6, Put: []Document{document(rng, "b", 0, Rule{}, 1)}},
		"twice":           {Revision: 6, Put: []Document{good, good}},
		"vector":          {Revision: 6, Put: []Document{document(rng, "z", 1, Rule{}, 1), short}},
		"end":             {Revision: 6, Put: []Document{late}},
		"a part twice":    {Revision: 6, Move: []Move{{Name{"a", 1}, Rule{Parts: []Part{{Passages: []int{0}}, {Passages: []int{0}}}}}}},
		"no such part":    {Revision: 6, Move: []Move{{Name{"a", 1}, Rule{Parts: []Part{{Passages: []int{1}}}}}}},
		"parts of all":    {Revision: 6, Move: []Move{{Name{"a", 0}, Rule{Parts: []Part{{Passages: []int{0}}}}}}},
		"parts put":       {Revision: 6, Put: []Document{document(rng, "p", 1, Rule{Parts: []Part{{Passages: []int{1}}}}, 1)}},
		"negative period": {Revision: 6, Move: []Move{{Name{"a", 1}, Rule{From: -1}}}},
	} {
		if err := s.Apply(t.Context(), c); !errors.Is(err, ErrChange) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s.Revision() != 5 || s.View().Len() != 1 {
		t.Errorf("revision %d, %d passages", s.Revision(), s.View().Len())
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), Change{Revision: 6}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	other := cfg
	other.Model = "another"
	if _, err := Open(t.Context(), other); !errors.Is(err, ErrForeign) {
		t.Errorf("another model: %v", err)
	}
	other = cfg
	other.Key = testKey(t, seal.Intl, 8)
	if _, err := Open(t.Context(), other); !errors.Is(err, ErrDamaged) {
		t.Errorf("another key: %v", err)
	}
	opened(t, cfg)
}

// Nobody reads a passage through a filter that does not have it.
func TestPassagesNeedTheirFilter(t *testing.T) {
	s := opened(t, config(t, t.TempDir()))
	rng := rand.New(rand.NewPCG(1, 2))
	apply(t, s, Change{Revision: 1, Put: []Document{document(rng, "a", 1, Rule{Group: []byte("g0")}, 1), document(rng, "b", 1, Rule{Group: []byte("g1")}, 1)}})
	v := s.View()
	mine, all := v.Filter(groups(v, "g0"), 1), v.Filter(groups(v), 1)
	for _, id := range ids(all) {
		_, err := mine.Passages([]uint32{id})
		if allowed := slices.Contains(ids(mine), id); allowed != (err == nil) {
			t.Errorf("passage %d: %v", id, err)
		}
	}
	if _, err := all.Passages([]uint32{77}); err == nil {
		t.Error("a passage that is not there was read")
	}
	if got := ids(all.Only([]uint32{1, 77})); !slices.Equal(got, []uint32{1}) {
		t.Errorf("only %v", got)
	}
}

// plain returns everything that the files of a store say, decrypted.
func plain(t testing.TB, cfg Config) map[string]string {
	t.Helper()
	m, v, err := readManifest(cfg.Dir, cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	names, err := os.ReadDir(cfg.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		name := n.Name()
		var b strings.Builder
		switch {
		case strings.HasPrefix(name, "wal-"):
			var number int64
			if _, err := fmt.Sscanf(name, "wal-%d", &number); err != nil {
				t.Fatal(err)
			}
			w, err := loadWAL(cfg.Dir, v, number)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := w.read(true, link(m.Before), func(p []byte) error { b.Write(p); return nil }); err != nil {
				t.Fatal(err)
			}
		case name == manifestName:
			b.Write(bytes.Join(m.Groups, []byte(" ")))
		case strings.HasPrefix(name, "seg-"):
			for _, e := range m.Segments {
				size := e.TextBytes
				if strings.HasSuffix(name, ".index") {
					size = e.IndexBytes
				}
				if !strings.HasPrefix(name, e.Name+".") {
					continue
				}
				f, err := openSealed(cfg.Dir, v, name, size)
				if err != nil {
					t.Fatal(err)
				}
				for i := int64(0); i*pageBytes < size; i++ {
					p, err := f.page(i)
					if err != nil {
						t.Fatal(err)
					}
					b.Write(p)
				}
				if err := f.f.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if b.Len() == 0 {
				b.WriteString("(not named by the manifest)")
			}
		}
		out[name] = b.String()
	}
	return out
}

// What was deleted is in no file any more, nor was anything ever there in clear.
func TestPurgeLeavesNothing(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(3, 4))
	secret := func(id string) Document {
		d := document(rng, id, 1, Rule{Group: []byte("quokkagroup of " + id)}, 2)
		d.Detail = []byte("quokkadetail")
		d.Passages[0].Text, d.Passages[0].Words, d.Passages[1].Section = "quokkatext", "quokkaword", "quokkasection"
		return d
	}
	apply(t, s, Change{Revision: 1, Put: []Document{secret("early"), document(rng, "kept", 1, Rule{Group: []byte("quokkaroom")}, 3)}})
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	apply(t, s, Change{Revision: 2, Put: []Document{secret("late")}})
	before := 0
	for name, text := range plain(t, cfg) {
		before += strings.Count(text, "quokka")
		b, err := os.ReadFile(filepath.Join(cfg.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "quokka") || strings.Contains(string(b), "kept") {
			t.Errorf("%s has it in clear", name)
		}
	}
	if before < 11 {
		t.Fatalf("the test sees %d places of what it deletes", before)
	}
	apply(t, s, Change{Revision: 3, Delete: []Name{{ID: "early"}, {ID: "late"}}, Move: []Move{{Name{ID: "kept"}, Rule{Group: []byte("g1")}}}})
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := plain(t, cfg)
	for name, text := range files {
		if strings.Contains(text, "quokka") || strings.Contains(text, "not named") || strings.Contains(text, "early") {
			t.Errorf("%s still has it", name)
		}
	}
	if len(files) != 5 { // lock, manifest, a log, two files of a segment
		t.Errorf("files %v", slices.Sorted(maps.Keys(files)))
	}
	number := s.log.number
	for range 10 {
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.states) != 2 || s.log.number != number {
		t.Errorf("%d parts, log %d after log %d", len(s.states), s.log.number, number)
	}
	if v := s.View(); v.Len() != 3 || len(v.parts) != 2 || len(files) != len(plain(t, cfg)) {
		t.Errorf("%d passages in %d parts", v.Len(), len(v.parts))
	}
}

// run does what Run does, where the test can see it.
func run(t *testing.T, s *Store) {
	t.Helper()
	for {
		select {
		case <-s.wakeFlush:
			if err := s.flush(t.Context(), false); err != nil {
				t.Fatal(err)
			}
		case <-s.wakeMerge:
			if err := s.mergeAll(t.Context()); err != nil {
				t.Fatal(err)
			}
		default:
			return
		}
	}
}

// Changes that bring no passages begin new logs, too, and those that bring long ones begin them earlier.
func TestLogsAreBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	long := document(rng, "long", 1, Rule{}, 1)
	long.Passages[0].Text = strings.Repeat("x", 20_000)
	for name, next := range map[string]func(i int) Change{
		"moves":   func(i int) Change { return Change{Move: []Move{{Name{ID: "a"}, Rule{Group: []byte{byte(i % 5)}}}}} },
		"deletes": func(int) Change { return Change{Delete: []Name{{ID: "nobody"}}} },
		"empty":   func(int) Change { return Change{Put: []Document{{Name: Name{"e", 1}}}} },
		"bytes":   func(int) Change { return Change{Put: []Document{long}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, t.TempDir())
			cfg.Files = unsynced{}
			cfg.TailBytes = 64 << 10
			s := opened(t, cfg)
			apply(t, s, Change{Revision: 1, Put: []Document{document(rand.New(rand.NewPCG(1, 2)), "a", 1, Rule{}, 3)}})
			for i := range 500 {
				c := next(i)
				c.Revision = int64(i + 2)
				apply(t, s, c)
				run(t, s)
			}
			size, logs := int64(0), 0
			for _, f := range files(t, cfg.Dir) {
				info, err := os.Stat(filepath.Join(cfg.Dir, f))
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(f, "wal-") {
					size, logs = size+info.Size(), logs+1
				}
			}
			if logs != 1 || size > cfg.TailBytes {
				t.Errorf("%d logs with %d bytes", logs, size)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if s = opened(t, cfg); s.Revision() != 501 || s.pending.changes > cfg.TailPassages {
				t.Errorf("revision %d, %d changes to do again", s.Revision(), s.pending.changes)
			}
		})
	}
}

// Deleting is reason enough to merge.
func TestDeletesLeadToAMerge(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	apply(t, s, Change{Revision: 1, Put: []Document{document(rng, "a", 1, Rule{}, 20), document(rng, "b", 1, Rule{}, 20)}})
	run(t, s)
	if n := len(s.View().parts[0].rows); n != 40 || s.states[0].part.entry.Name == "" {
		t.Fatalf("%d rows, not in files", n)
	}
	apply(t, s, Change{Revision: 2, Delete: []Name{{ID: "b"}}})
	run(t, s)
	if n := len(s.View().parts[0].rows); n != 20 {
		t.Errorf("%d rows are left", n)
	}
}

// whenWritten calls then before each segment.
type whenWritten struct {
	unsynced
	then func()
}

func (w *whenWritten) Create(path string) (durable.File, error) {
	if strings.HasSuffix(path, ".texts") {
		w.then()
	}
	return w.unsynced.Create(path)
}

// A purge ends, also where something is deleted all the time: it writes each segment once.
func TestPurgeEnds(t *testing.T) {
	disk := &whenWritten{then: func() {}}
	cfg := config(t, t.TempDir())
	cfg.Files = disk
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	c := Change{Revision: 1}
	for i := range 10 {
		c.Put = append(c.Put, document(rng, fmt.Sprintf("d%d", i), 1, Rule{}, 1))
	}
	apply(t, s, c)
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	apply(t, s, Change{Revision: 2, Delete: []Name{{ID: "d0"}}})
	written := 0
	disk.then = func() {
		written++
		apply(t, s, Change{Revision: 2, Delete: []Name{{ID: fmt.Sprintf("d%d", written)}}})
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := s.View().Len(); written != 1 || n != 8 {
		t.Errorf("%d segments written, %d passages", written, n)
	}
}

// With an older manifest the store does not open, and loses nothing more.
func TestOlderManifestDestroysNothing(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	rng := rand.New(rand.NewPCG(1, 2))
	path := filepath.Join(cfg.Dir, manifestName)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, Change{Revision: 1, Put: []Document{document(rng, "a", 1, Rule{}, 2)}})
	if err := errors.Join(s.Purge(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	newest, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrDamaged) {
		t.Errorf("with an older manifest: %v", err)
	}
	if err := os.WriteFile(path, newest, 0o600); err != nil {
		t.Fatal(err)
	}
	if n := opened(t, cfg).View().Len(); n != 2 {
		t.Errorf("%d passages", n)
	}
}

// A log fits only what it was written behind: no record of another history, and no log that lost its end.
func TestLogIsAChain(t *testing.T) {
	dir := t.TempDir()
	v := sealer{testKey(t, seal.Intl, 7), "store"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func(number int64, last bool, before link) (*walFile, int64, link, error) {
		w, err := loadWAL(dir, v, number)
		must(err)
		whole, end, err := w.read(last, before, func([]byte) error { return nil })
		return w, whole, end, err
	}
	one, err := createWAL(durable.OS{}, dir, v, 1, link{})
	must(err)
	must(one.append([]byte("first")))
	kept, keptEnd := one.size, one.last
	must(one.append([]byte("other")))
	other, err := loadWAL(dir, v, 1)
	must(err)
	must(one.f.Close())
	one, err = (&walFile{v, other.path, 1, other.b}).resume(durable.OS{}, kept, keptEnd)
	must(err)
	must(one.append([]byte("again")))
	must(one.append([]byte("third")))
	two, err := createWAL(durable.OS{}, dir, v, 2, one.last)
	must(err)
	must(errors.Join(one.f.Close(), two.f.Close()))
	_, _, end, err := read(1, false, link{})
	must(err)
	if _, _, _, err := read(2, true, end); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := read(2, true, keptEnd); !errors.Is(err, ErrDamaged) {
		t.Errorf("the log before lacks two records: %v", err)
	}
	w, whole, _, err := read(1, false, link{})
	must(err)
	mixed := slices.Clone(w.b[:whole])
	copy(mixed[kept:], other.b[kept:])
	must(os.WriteFile(w.path, mixed, 0o600))
	if _, _, _, err := read(1, true, link{}); !errors.Is(err, ErrDamaged) {
		t.Errorf("a record of another history: %v", err)
	}
}

// What of the last record did not reach the disk, in whatever order, is cut; zeros before a record that did are damage.
func TestTornRecords(t *testing.T) {
	dir := t.TempDir()
	v := sealer{testKey(t, seal.Intl, 7), "store"}
	l, err := createWAL(durable.OS{}, dir, v, 1, link{})
	if err != nil {
		t.Fatal(err)
	}
	var starts []int64
	for range 3 {
		starts = append(starts, l.size)
		if err := l.append(make([]byte, 3000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.f.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := loadWAL(dir, v, 1)
	if err != nil {
		t.Fatal(err)
	}
	for from := int64(0); from < l.size; from += 512 {
		w := *whole
		w.b = slices.Clone(whole.b)
		lost := w.b[max(from, int64(walBegin)):min(from+512, l.size)]
		if from < starts[2] && from+512 > starts[2] {
			lost = w.b[starts[2]:min(from+512, l.size)]
		}
		clear(lost)
		got, _, err := w.read(true, link{}, func([]byte) error { return nil })
		if from+512 > starts[2] {
			if err != nil || got != starts[2] {
				t.Errorf("zeros at %d: %d bytes are whole, %v", from, got, err)
			}
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("zeros at %d, before what was stored: %v", from, err)
		}
	}
}

// Names of groups that nobody is in are forgotten, and their places are used again, but not in a store that is open.
func TestGroupsDoNotPileUp(t *testing.T) {
	cfg := config(t, t.TempDir())
	rng := rand.New(rand.NewPCG(1, 2))
	doc := document(rng, "a", 1, Rule{Group: []byte("g0")}, 2)
	want, revision := model{}, int64(0)
	for range 5 {
		s := opened(t, cfg)
		seen := map[int]string{}
		for range 4 {
			revision++
			c := Change{Revision: revision, Move: []Move{{Name{ID: "a"}, Rule{Group: fmt.Appendf(nil, "g%d", revision)}}}}
			if revision == 1 {
				c.Put = []Document{doc}
			}
			apply(t, s, c)
			want.apply(c)
			if err := s.flush(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			want.check(t, s.View(), rng)
			for i, g := range s.View().Groups() {
				if g != nil && seen[i] != "" && seen[i] != string(g) {
					t.Errorf("group %d was %q and is %q", i, seen[i], g)
				}
				if g != nil {
					seen[i] = string(g)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if all := opened(t, cfg).View().Groups(); len(all) > 8 {
		t.Errorf("%d groups", len(all))
	}
}

// Nil groups are none.
func TestNilGroupsAllowNothing(t *testing.T) {
	s := opened(t, config(t, t.TempDir()))
	apply(t, s, Change{Revision: 1, Put: []Document{document(rand.New(rand.NewPCG(1, 2)), "a", 1, Rule{}, 2)}})
	if n := s.View().Filter(nil, 0).Len(); n != 0 {
		t.Errorf("%d passages", n)
	}
}

// A purge takes the logs, too, of which an earlier process began the next without more.
func TestPurgeTakesLogsOfBefore(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	apply(t, s, Change{Revision: 1, Put: []Document{document(rand.New(rand.NewPCG(1, 2)), "a", 1, Rule{}, 2)}})
	if err := s.flush(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for _, g := range []string{"quokka", "g1"} {
		apply(t, s, Change{Revision: 2, Move: []Move{{Name{ID: "a"}, Rule{Group: []byte(g)}}}})
	}
	if err := errors.Join(s.freeze(true), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := opened(t, cfg).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, text := range plain(t, cfg) {
		if strings.Contains(text, "quokka") {
			t.Errorf("%s still has it", name)
		}
	}
}

// A rule that was replaced names people: it is unclean until it has left the files, also after a restart, and then no more.
func TestRulesOfBeforeAreUnclean(t *testing.T) {
	cfg := config(t, t.TempDir())
	s := opened(t, cfg)
	apply(t, s, Change{Revision: 1, Put: []Document{document(rand.New(rand.NewPCG(1, 2)), "a", 1, Rule{Group: []byte("quokka")}, 2)}})
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Unclean() {
		t.Error("unclean, and nothing was replaced")
	}
	apply(t, s, Change{Revision: 2, Move: []Move{{Name{ID: "a"}, Rule{Group: []byte("g1")}}}})
	if !s.Unclean() {
		t.Error("the rule of before is in the manifest, and nobody purges it")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s = opened(t, cfg); !s.Unclean() {
		t.Error("a restart forgets that there is something to purge")
	}
	if err := s.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.Unclean() {
		t.Error("unclean after a purge")
	}
	for name, text := range plain(t, cfg) {
		if strings.Contains(text, "quokka") {
			t.Errorf("%s still has it", name)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if opened(t, cfg).Unclean() {
		t.Error("unclean after a purge and a restart")
	}
}
