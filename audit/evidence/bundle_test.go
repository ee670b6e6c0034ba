package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

func TestBundle(t *testing.T) {
	l := newLog(t, 700)
	cfg := l.config(t)
	w, err := checkpoint.NewWitness("witness.example", seed(9), func() time.Time { return time.Unix(1_700_000_000, 0) })
	must(t, err)
	line, err := w.Cosign(cfg.Checkpoint)
	must(t, err)
	cfg.Checkpoint = checkpoint.Add(cfg.Checkpoint, line)
	b := l.bundle(t, cfg)
	if again := l.bundle(t, cfg); !bytes.Equal(b, again) {
		t.Error("the same records make different bundles")
	}
	witnesses, err := checkpoint.NewWitnesses(w.Key())
	must(t, err)
	var marks [][2]int64
	r, err := VerifyBundle(t.Context(), bytes.NewReader(b), int64(len(b)), l.signer.Verifier(), witnesses, func(done, total int64) { marks = append(marks, [2]int64{done, total}) })
	must(t, err)
	if !r.OK || !r.Complete || r.Filtered || r.Records != 700 || r.Proven != 700 || r.Size != 700 || r.Root != fmt.Sprintf("%x", cfg.Tree.Root[:]) {
		t.Errorf("report: %+v", r)
	}
	if len(r.Cosignatures) != 1 || r.Cosignatures[0].Witness != "witness.example" || r.Cosignatures[0].Time.Unix() != 1_700_000_000 {
		t.Errorf("cosignatures: %+v", r.Cosignatures)
	}
	if want := [][2]int64{{256, 700}, {512, 700}, {700, 700}}; !slices.Equal(marks, want) {
		t.Errorf("progress %v, want %v", marks, want)
	}
	if m := r.Manifest; m.By != "auditor" || m.First != 0 || m.Last != 699 || m.Records != 700 || m.Origin != "log.example/audit" {
		t.Errorf("manifest: %+v", m)
	}
	if key, err := BundleKey(bytes.NewReader(b), int64(len(b))); err != nil || key != l.signer.Key() {
		t.Errorf("the key inside: %q, %v", key, err)
	}
}

// TestBundleRanges makes bundles of random logs and ranges, which all verify, and drops one record of each, which never does when it shows.
func TestBundleRanges(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := newLog(t, 300)
	for range 60 {
		size := rng.IntN(300) + 1
		cfg := l.config(t)
		cfg.Tree, cfg.Checkpoint = l.tree(t, size)
		switch rng.IntN(3) {
		case 0:
			cfg.Least = rng.Int64N(int64(size) + 1)
			if rng.IntN(2) == 0 {
				cfg.Until = cfg.Least + rng.Int64N(int64(size)-cfg.Least+1)
			}
		case 1:
			cfg.Tenant = []string{"demo", "other", "nobody"}[rng.IntN(3)]
		}
		if rng.IntN(2) == 0 {
			cfg.From = rng.Int64N(300e6)
			cfg.To = cfg.From + 1 + rng.Int64N(100e6)
		}
		want := l.chosen(t, cfg)
		b := l.bundle(t, cfg)
		r := l.verify(t, b)
		if !r.OK || r.Records != int64(len(want)) || r.Proven != r.Records || r.Complete != r.Manifest.whole() {
			t.Fatalf("size %d, %+v: %+v", size, cfg, r)
		}
		p := unzip(t, b)
		checkRecords(t, p, want)
		if len(want) == 0 {
			continue
		}
		// The owner of the key leaves one record out: a complete bundle shows it.
		gone := rng.IntN(len(want))
		cut := slices.Delete(slices.Clone(want), gone, gone+1)
		rebuild(t, p, cut)
		p.seal(t, l.signer, func(m *Manifest) { m.count(cut) })
		if r := l.verify(t, p.pack(t)); r.Filtered != r.OK {
			t.Fatalf("without record %d: %+v", want[gone].Index, r)
		}
	}
}

func (m *Manifest) count(list []Sealed) {
	m.Records, m.First, m.Last = int64(len(list)), -1, -1
	if len(list) > 0 {
		m.First, m.Last = list[0].Index, list[len(list)-1].Index
	}
}

// checkRecords wants the exact bytes of the records in the bundle.
func checkRecords(t *testing.T, p parts, want []Sealed) {
	t.Helper()
	lines := bytes.SplitAfter(p.get(recordsName), []byte("\n"))
	if len(lines) != len(want)+1 {
		t.Fatalf("%d lines, want %d", len(lines)-1, len(want))
	}
	for i, r := range want {
		got, err := parseLine(lines[i])
		must(t, err)
		if got.Index != r.Index || !bytes.Equal(got.Payload, r.Payload) {
			t.Fatalf("line %d is %d %s", i, got.Index, got.Payload)
		}
	}
}

// rebuild writes the records and the table of a bundle anew.
func rebuild(t testing.TB, p parts, list []Sealed) {
	t.Helper()
	var lines, rows []byte
	var table csvTable
	rows = append(rows, table.header()...)
	for _, r := range list {
		lines = appendLine(lines, r)
		if e, err := record.Decode(r.Payload); err == nil {
			rows = append(rows, table.row(r.Index, e)...)
		}
	}
	p.set(recordsName, lines)
	p.set(csvName, rows)
}

// TestNeeded compares the hashes of a bundle with those that package tlog asks for.
func TestNeeded(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	l := newLog(t, 130)
	for size := range int64(131) {
		var chosen []int64
		share := rng.Float64()
		for i := range size {
			if rng.Float64() < share {
				chosen = append(chosen, i)
			}
		}
		asked := map[int64]bool{}
		remember := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
			for _, i := range indexes {
				asked[i] = true
			}
			return l.hashes.ReadHashes(indexes)
		})
		for _, n := range chosen {
			_, err := tlog.ProveRecord(size, n, remember)
			must(t, err)
		}
		var want []int64
		for i := range asked {
			want = append(want, i)
		}
		slices.Sort(want)
		if got := slices.Collect(needed(size, chosen)); !slices.Equal(got, want) {
			t.Fatalf("size %d, records %v: %v, want %v", size, chosen, got, want)
		}
	}
}

// TestHashFileEvicts reads more blocks than are kept.
func TestHashFileEvicts(t *testing.T) {
	const n = blockOf*(cacheLimit+50) + 7
	hashes := make(stored, n)
	for i := range hashes {
		hashes[i][0], hashes[i][31] = byte(i), byte(i>>8)
	}
	file := make([]byte, 0, n*hashBytes)
	for i, h := range hashes {
		file = append(file, 0, 0, 0, 0, byte(i>>24), byte(i>>16), byte(i>>8), byte(i))
		file = append(file, h[:]...)
	}
	f, err := openHashes(bytes.NewReader(file), bytes.NewReader(file), int64(len(file)), n)
	must(t, err)
	for _, i := range rand.New(rand.NewPCG(5, 6)).Perm(n)[:5000] {
		h, err := f.ReadHashes([]int64{int64(i)})
		if err != nil || h[0] != hashes[i] {
			t.Fatalf("hash %d: %v, %v", i, h, err)
		}
	}
	if len(f.blocks) > cacheLimit {
		t.Errorf("%d blocks are kept", len(f.blocks))
	}
	if _, err := f.ReadHashes([]int64{n}); err == nil {
		t.Error("a hash that is not there was read")
	}
}

// TestWriteBundleRefuses: what would not verify is not written.
func TestWriteBundleRefuses(t *testing.T) {
	l := newLog(t, 20)
	broken := errors.New("database is gone")
	payload := func(i int, text string) []Sealed {
		list := slices.Clone(l.records)
		list[i].Payload = []byte(text)
		return list
	}
	for name, c := range map[string]struct {
		change  func(*BundleConfig)
		records iter2
		want    string
	}{
		"read error":   {nil, func(yield func(Sealed, error) bool) { yield(Sealed{}, broken) }, "database is gone"},
		"gap":          {nil, sequence(slices.Delete(slices.Clone(l.records), 7, 8)), "1 records before it are missing, from index 7"},
		"end missing":  {nil, sequence(l.records[:15]), "5 records are missing, from index 15"},
		"order":        {func(c *BundleConfig) { c.From = 1 }, sequence([]Sealed{l.records[5], l.records[4]}), "does not follow"},
		"twice":        {func(c *BundleConfig) { c.From = 1 }, sequence([]Sealed{l.records[5], l.records[5]}), "does not follow"},
		"pruned":       {func(c *BundleConfig) { c.Least = 3 }, sequence(l.records[2:]), "below 3"},
		"behind range": {func(c *BundleConfig) { c.Least, c.Until = 3, 6 }, sequence(l.records[3:7]), "behind the range of the bundle, which ends at 6"},
		"range ends":   {func(c *BundleConfig) { c.Least, c.Until = 3, 6 }, sequence(l.records[3:5]), "1 records are missing, from index 5"},
		"odd range":    {func(c *BundleConfig) { c.Least, c.Until = 6, 3 }, sequence(nil), "does not lie in a tree"},
		"tenant":       {func(c *BundleConfig) { c.Tenant = "other" }, sequence(l.records), `belongs to tenant "demo"`},
		"too early":    {func(c *BundleConfig) { c.From = 5e6 }, sequence(l.records[4:]), "outside the time"},
		"too late":     {func(c *BundleConfig) { c.To = 5e6 }, sequence(l.records), "outside the time"},
		"no record":    {nil, sequence(payload(3, `{"schema":99}`)), "schema is unknown"},
		"two lines":    {nil, sequence(payload(3, "{\n}")), "not one line"},
		"above tree":   {func(c *BundleConfig) { c.Tree, c.Checkpoint = l.tree(t, 10); c.From = 1 }, sequence(l.records[1:]), "covers 10 records only"},
		"other root":   {func(c *BundleConfig) { c.Tree.Root[0] ^= 1 }, sequence(l.records), "the checkpoint states"},
		"other key":    {func(c *BundleConfig) { c.Key = newSigner(t, 2).Key() }, sequence(l.records), "open checkpoint"},
		"tree changed": {func(c *BundleConfig) { c.Tree, c.Checkpoint = forged(t, l) }, sequence(l.records), "do not give the root"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := l.config(t)
			if c.change != nil {
				c.change(&cfg)
			}
			if _, err := WriteBundle(io.Discard, cfg, c.records, l.hashes); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

type iter2 = func(yield func(Sealed, error) bool)

// forged is a checkpoint that the key signed for a root that the tree has not.
func forged(t *testing.T, l *testLog) (checkpoint.Tree, string) {
	t.Helper()
	tree, _ := l.tree(t, len(l.records))
	tree.Root[5] ^= 1
	note, err := l.signer.Sign(tree)
	must(t, err)
	return tree, note
}

type failingReader struct {
	io.ReaderAt
	left int
	err  error
}

func (f *failingReader) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestVerifyCannotRead: a device that fails says nothing about the bundle, wherever it fails.
func TestVerifyCannotRead(t *testing.T) {
	l := newLog(t, 30)
	b := l.bundle(t, l.config(t))
	broken, whole := errors.New("input/output error"), false
	for n := 0; !whole; n++ {
		f := &failingReader{bytes.NewReader(b), n, broken}
		r, err := VerifyBundle(t.Context(), f, int64(len(b)), l.signer.Verifier(), checkpoint.Witnesses{}, nil)
		if whole = f.left >= 0; whole {
			if n < 20 || err != nil || !r.OK {
				t.Fatalf("after %d reads: %+v, %v", n, r, err)
			}
		} else if !errors.Is(err, broken) || len(r.Problems) > 0 {
			t.Fatalf("failure of read %d: %+v, %v", n, r, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := VerifyBundle(ctx, bytes.NewReader(b), int64(len(b)), l.signer.Verifier(), checkpoint.Witnesses{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRotatedKey: during an overlap, each of the keys opens a bundle.
func TestRotatedKey(t *testing.T) {
	l := newLog(t, 5)
	l.signer = newSigner(t, 1, 2)
	b := l.bundle(t, l.config(t))
	for _, s := range []byte{1, 2} {
		l.signer = newSigner(t, s)
		if r := l.verify(t, b); !r.OK {
			t.Errorf("key %d: %+v", s, r.Problems)
		}
	}
}

// TestVersion1: records of version 1 stay provable.
func TestVersion1(t *testing.T) {
	l := newLog(t, 3)
	l.seal(t, []byte(`{"schema":1,"id":"01890000-0000-7000-8000-000000000009","stage":"action","time":7,"tenant":"demo","detail":{"a":"b"}}`))
	if r := l.verify(t, l.bundle(t, l.config(t))); !r.OK || r.Records != 4 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkVerifyBundle(b *testing.B) {
	l := newLog(b, 5000)
	z := l.bundle(b, l.config(b))
	for b.Loop() {
		if r := l.verify(b, z); !r.OK {
			b.Fatal(r.Problems)
		}
	}
	b.ReportMetric(5000*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(len(z))/5000, "B/record")
}
