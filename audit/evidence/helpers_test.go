package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/record/recordtest"
)

// stored is a tree in memory.
type stored []tlog.Hash

func (s stored) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, n := range indexes {
		if n < 0 || n >= int64(len(s)) {
			return nil, fmt.Errorf("no hash %d", n)
		}
		out[i] = s[n]
	}
	return out, nil
}

// testLog is a log in memory.
type testLog struct {
	signer  checkpoint.Signer
	hashes  stored
	records []Sealed
}

func seed(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func newSigner(t testing.TB, seeds ...byte) checkpoint.Signer {
	t.Helper()
	var all [][]byte
	for _, b := range seeds {
		all = append(all, seed(b))
	}
	s, err := checkpoint.NewSigner("log.example/audit", all...)
	must(t, err)
	return s
}

// newLog has n records, every third of tenant other, a second apart.
func newLog(t testing.TB, n int) *testLog {
	t.Helper()
	l := &testLog{signer: newSigner(t, 1)}
	for i := range n {
		l.append(t, sample(i))
	}
	return l
}

func sample(i int) record.Event {
	e := recordtest.Sample(i)
	e.ID = fmt.Sprintf("01890000-0000-7000-8000-%012d", i)
	e.Time = int64(i) * 1e6
	if i%3 == 2 {
		e.Tenant = "other"
	}
	return e
}

func (l *testLog) append(t testing.TB, e record.Event) {
	t.Helper()
	b, err := record.Encode(e)
	must(t, err)
	l.seal(t, b)
}

func (l *testLog) seal(t testing.TB, payload []byte) {
	t.Helper()
	n := int64(len(l.records))
	h, err := tlog.StoredHashes(n, payload, l.hashes)
	must(t, err)
	l.hashes = append(l.hashes, h...)
	l.records = append(l.records, Sealed{n, payload})
}

// tree is the log at a size, with its signed checkpoint.
func (l *testLog) tree(t testing.TB, size int) (checkpoint.Tree, string) {
	t.Helper()
	root, err := tlog.TreeHash(int64(size), l.hashes)
	must(t, err)
	tree := checkpoint.Tree{Size: int64(size), Root: root}
	note, err := l.signer.Sign(tree)
	must(t, err)
	return tree, note
}

func (l *testLog) config(t testing.TB) BundleConfig {
	t.Helper()
	tree, note := l.tree(t, len(l.records))
	return BundleConfig{
		By: "auditor", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Signer: l.signer, Checkpoint: note, Tree: tree, Key: l.signer.Key(),
	}
}

// chosen are the records that cfg asks for.
func (l *testLog) chosen(t testing.TB, cfg BundleConfig) []Sealed {
	t.Helper()
	var out []Sealed
	for _, r := range l.records[:cfg.Tree.Size] {
		e, err := record.Decode(r.Payload)
		must(t, err)
		if r.Index >= cfg.Least && (cfg.Until == 0 || r.Index < cfg.Until) && (cfg.Tenant == "" || e.Tenant == cfg.Tenant) && e.Time >= cfg.From && (cfg.To == 0 || e.Time < cfg.To) {
			out = append(out, r)
		}
	}
	return out
}

func sequence(list []Sealed) iter.Seq2[Sealed, error] {
	return func(yield func(Sealed, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (l *testLog) bundle(t testing.TB, cfg BundleConfig) []byte {
	t.Helper()
	var buf bytes.Buffer
	_, err := WriteBundle(&buf, cfg, sequence(l.chosen(t, cfg)), l.hashes)
	must(t, err)
	return buf.Bytes()
}

func (l *testLog) verify(t testing.TB, b []byte) BundleReport {
	t.Helper()
	r, err := VerifyBundle(t.Context(), bytes.NewReader(b), int64(len(b)), l.signer.Verifier(), checkpoint.Witnesses{}, nil)
	must(t, err)
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// part is an entry of an unpacked bundle.
type part struct {
	name string
	data []byte
}

type parts []part

func unzip(t testing.TB, b []byte) parts {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	must(t, err)
	var out parts
	for _, f := range z.File {
		r, err := f.Open()
		must(t, err)
		data, err := io.ReadAll(r)
		must(t, err)
		out = append(out, part{f.Name, data})
	}
	return out
}

func (p parts) get(name string) []byte {
	return p[slices.IndexFunc(p, func(x part) bool { return x.name == name })].data
}

func (p parts) set(name string, data []byte) {
	p[slices.IndexFunc(p, func(x part) bool { return x.name == name })].data = data
}

// pack makes a zip of the parts as they are.
func (p parts) pack(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, x := range p {
		method := zip.Deflate
		if x.name == treeName {
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: x.name, Method: method})
		must(t, err)
		_, err = w.Write(x.data)
		must(t, err)
	}
	must(t, z.Close())
	return buf.Bytes()
}

// seal writes the manifest anew for the parts as they are, and signs it: what the owner of the key could do.
func (p parts) seal(t testing.TB, s checkpoint.Signer, change func(*Manifest)) {
	t.Helper()
	var m Manifest
	must(t, json.Unmarshal(p.get(manifestName), &m))
	for i, f := range m.Files {
		b := p.get(f.Name)
		m.Files[i] = File{f.Name, int64(len(b)), hexSum(b)}
	}
	if change != nil {
		change(&m)
	}
	b, err := json.Marshal(m)
	must(t, err)
	p.set(manifestName, b)
	text, err := s.SignText(statement(m.Origin, hexSum(b)))
	must(t, err)
	p.set(signatureName, []byte(text))
}

func (r BundleReport) has(kind string, index int64) bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Kind == kind && p.Index == index })
}
