package evidence

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
)

func replaced(t testing.TB, b []byte, old, by string) []byte {
	t.Helper()
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("%q is not there", old)
	}
	return bytes.Replace(b, []byte(old), []byte(by), 1)
}

// TestTamper changes a bundle in every way and wants the verifier to name it: once by someone without the key of the log, whom the signature
// stops, and once by someone with the key, whom the tree stops.
func TestTamper(t *testing.T) {
	l := newLog(t, 40)
	good := l.bundle(t, l.config(t))
	other := newSigner(t, 7)
	type class struct {
		change  func(t *testing.T, p parts) parts
		without string // the problem that it is without the key of the log
		with    string // and with it
		index   int64
	}
	records := func(change func(list []Sealed) []Sealed) func(*testing.T, parts) parts {
		return func(t *testing.T, p parts) parts {
			list := slices.Clone(l.records)
			rebuild(t, p, change(list))
			return p
		}
	}
	for name, c := range map[string]class{
		"record altered": {records(func(list []Sealed) []Sealed {
			list[11].Payload = replaced(t, list[11].Payload, `"status":200`, `"status":403`)
			return list
		}), "inclusion", "inclusion", 11},
		"records swapped": {records(func(list []Sealed) []Sealed {
			list[4].Payload, list[9].Payload = list[9].Payload, list[4].Payload
			return list
		}), "inclusion", "inclusion", 4},
		"lines swapped": {records(func(list []Sealed) []Sealed {
			list[4], list[9] = list[9], list[4]
			return list
		}), "gap", "gap", 9},
		"record removed": {records(func(list []Sealed) []Sealed { return slices.Delete(list, 20, 21) }), "gap", "gap", 21},
		"end removed":    {records(func(list []Sealed) []Sealed { return list[:35] }), "gap", "gap", 35},
		"record added": {records(func(list []Sealed) []Sealed {
			return append(list, Sealed{40, list[3].Payload})
		}), "inclusion", "inclusion", 40},
		"record twice": {records(func(list []Sealed) []Sealed { return slices.Insert(list, 6, list[5]) }), "order", "order", 5},
		"not a record": {records(func(list []Sealed) []Sealed {
			list[8].Payload = []byte(`{"schema":2,"unknown":1}`)
			return list
		}), "record", "record", 8},
		"line unreadable": {func(t *testing.T, p parts) parts {
			p.set(recordsName, replaced(t, p.get(recordsName), `{"index":13,`, `{"index":013,`))
			return p
		}, "line", "line", 12},
		"line too long": {func(t *testing.T, p parts) parts {
			p.set(recordsName, replaced(t, p.get(recordsName), `{"index":13,`, strings.Repeat("x", maxLine)))
			return p
		}, "line", "line", 12},
		"line cut": {func(_ *testing.T, p parts) parts {
			p.set(recordsName, bytes.TrimSuffix(p.get(recordsName), []byte("\n")))
			return p
		}, "line", "line", 38},
		"table changed": {func(t *testing.T, p parts) parts {
			p.set(csvName, replaced(t, p.get(csvName), "req-7,", "req-8,"))
			return p
		}, "table", "table", 7},
		"table header": {func(t *testing.T, p parts) parts {
			p.set(csvName, replaced(t, p.get(csvName), "index,time", "index,Time"))
			return p
		}, "table", "table", -1},
		"table longer": {func(_ *testing.T, p parts) parts {
			p.set(csvName, append(p.get(csvName), "40,x\n"...))
			return p
		}, "table", "table", -1},
		"table shorter": {func(_ *testing.T, p parts) parts {
			b := p.get(csvName)
			p.set(csvName, b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1])
			return p
		}, "table", "table", 39},
		"tree hash changed": {func(_ *testing.T, p parts) parts {
			p.get(treeName)[8] ^= 1 // the leaf of record 0, by which only record 1 is proven
			return p
		}, "inclusion", "inclusion", 1},
		"tree hash removed": {func(_ *testing.T, p parts) parts {
			p.set(treeName, p.get(treeName)[hashBytes:])
			return p
		}, "inclusion", "inclusion", 1},
		"tree disordered": {func(_ *testing.T, p parts) parts {
			b := p.get(treeName)
			copy(b, slices.Concat(b[hashBytes:2*hashBytes], b[:hashBytes]))
			return p
		}, "tree", "tree", -1},
		"tree hash twice": {func(_ *testing.T, p parts) parts {
			b := p.get(treeName)
			p.set(treeName, slices.Concat(b[:hashBytes], b))
			return p
		}, "tree", "tree", -1},
		"tree index too large": {func(_ *testing.T, p parts) parts {
			b := p.get(treeName)
			binary.BigEndian.PutUint64(b[len(b)-hashBytes:], 1<<63+5)
			return p
		}, "tree", "tree", -1},
		"tree cut": {func(_ *testing.T, p parts) parts {
			b := p.get(treeName)
			p.set(treeName, b[:len(b)-1])
			return p
		}, "tree", "tree", -1},
		"checkpoint of another key": {func(t *testing.T, p parts) parts {
			tree, _ := l.tree(t, 40)
			note, err := other.Sign(tree)
			must(t, err)
			p.set(checkpointName, []byte(note))
			return p
		}, "checkpoint", "checkpoint", -1},
		"checkpoint of another size": {func(t *testing.T, p parts) parts {
			_, note := l.tree(t, 39)
			p.set(checkpointName, []byte(note))
			return p
		}, "checkpoint", "checkpoint", -1},
		"readme changed": {func(_ *testing.T, p parts) parts {
			p.get(readmeName)[100] ^= 1
			return p
		}, "file", "", -1},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.change(t, clone(unzip(t, good)))
			blind := l.verify(t, p.pack(t)) // the manifest is as it was: it lists other files
			if blind.OK || !slices.ContainsFunc(blind.Problems, func(x Problem) bool { return x.Kind == "file" || x.Kind == c.without }) {
				t.Errorf("without the key: %+v", blind.Problems)
			}
			forger := clone(p)
			forger.seal(t, other, nil)
			if r := l.verify(t, forger.pack(t)); r.OK || !r.has("signature", -1) || r.Manifest.Format != "" {
				t.Errorf("with another key: %+v", r)
			}
			p.seal(t, l.signer, nil)
			r := l.verify(t, p.pack(t))
			if c.with == "" {
				if !r.OK {
					t.Errorf("what the log wrote itself: %+v", r.Problems)
				}
				return
			}
			if r.OK || !r.has(c.with, c.index) || r.Problems[0].Kind != c.with && c.with != "gap" {
				t.Errorf("with the key: want %s at %d: %+v", c.with, c.index, r.Problems)
			}
		})
	}
}

func clone(p parts) parts {
	out := slices.Clone(p)
	for i := range out {
		out[i].data = bytes.Clone(out[i].data)
	}
	return out
}

// TestTamperManifest: each claim of the manifest is compared with what is there, even when the log signed the claim.
func TestTamperManifest(t *testing.T) {
	l := newLog(t, 40)
	good := unzip(t, l.bundle(t, l.config(t)))
	for name, c := range map[string]struct {
		change func(*Manifest)
		kind   string
	}{
		"format":         {func(m *Manifest) { m.Format = "sluice-evidence/2" }, "manifest"},
		"tenant":         {func(m *Manifest) { m.Tenant = "demo" }, "scope"},
		"from":           {func(m *Manifest) { m.From = 1 }, "scope"},
		"to":             {func(m *Manifest) { m.To = 39e6 }, "scope"},
		"records":        {func(m *Manifest) { m.Records++ }, "count"},
		"first":          {func(m *Manifest) { m.First++ }, "count"},
		"last":           {func(m *Manifest) { m.Last-- }, "count"},
		"size":           {func(m *Manifest) { m.Size++ }, "checkpoint"},
		"root":           {func(m *Manifest) { m.Root = strings.Repeat("0", 64) }, "checkpoint"},
		"least":          {func(m *Manifest) { m.Least = 1 }, "order"},
		"until":          {func(m *Manifest) { m.Until = 39 }, "scope"},
		"until behind":   {func(m *Manifest) { m.Until = 41 }, "checkpoint"},
		"until below":    {func(m *Manifest) { m.Least, m.Until = 3, 2 }, "checkpoint"},
		"least negative": {func(m *Manifest) { m.Least = -1 }, "checkpoint"},
		"file missing":   {func(m *Manifest) { m.Files = m.Files[1:] }, "manifest"},
		"file twice":     {func(m *Manifest) { m.Files = append(m.Files, m.Files[0]) }, "manifest"},
		"file negative":  {func(m *Manifest) { m.Files[0].Bytes = -1 }, "manifest"},
		"file larger":    {func(m *Manifest) { m.Files[0].Bytes++ }, "file"},
		"file other":     {func(m *Manifest) { m.Files[0].SHA256 = strings.Repeat("0", 64) }, "file"},
	} {
		t.Run(name, func(t *testing.T) {
			p := clone(good)
			p.seal(t, l.signer, c.change)
			r := l.verify(t, p.pack(t))
			if r.OK || !slices.ContainsFunc(r.Problems, func(x Problem) bool { return x.Kind == c.kind }) {
				t.Errorf("%+v", r.Problems)
			}
			old := clone(good) // the old signature
			old.set(manifestName, p.get(manifestName))
			if r := l.verify(t, old.pack(t)); r.OK || !r.has("signature", -1) {
				t.Errorf("under the old signature: %+v", r.Problems)
			}
		})
	}
	p := clone(good)
	p.set(manifestName, replaced(t, p.get(manifestName), `"by"`, `"unknown": 1, "by"`))
	text, err := l.signer.SignText(statement("log.example/audit", hexSum(p.get(manifestName))))
	must(t, err)
	p.set(signatureName, []byte(text))
	if r := l.verify(t, p.pack(t)); !r.has("manifest", -1) {
		t.Errorf("unknown field: %+v", r.Problems)
	}
}

// TestTamperZip: the file holds the entries of a bundle, each once, and nothing else.
func TestTamperZip(t *testing.T) {
	l := newLog(t, 40)
	good := l.bundle(t, l.config(t))
	p := unzip(t, good)
	if r := l.verify(t, p.pack(t)); !r.OK {
		t.Fatalf("packed as it was: %+v", r.Problems)
	}
	with := func(name string) []byte { return append(clone(p), part{name, nil}).pack(t) }
	without := func(i int) []byte { return slices.Delete(clone(p), i, i+1).pack(t) }
	cases := map[string][]byte{
		"empty": {}, "no zip": []byte("PK, or so they say"), "prefix": append([]byte("#!/bin/sh\n"), good...), "suffix": append(bytes.Clone(good), 'x'),
		"extra entry": with("notes.txt"), "path": with("../../etc/passwd"), "folder": with("records.jsonl/"), "entry twice": append(clone(p), p[0]).pack(t),
		"compressed tree": compressed(t, p), "comment": commented(t, p), "other name for some": bytes.Replace(p.pack(t), []byte("\x00records.csv"), []byte("\x00records.xls"), 1),
	}
	for n := range 120 { // of any length, so that it cannot pass for a part of the format
		cases[fmt.Sprint("hidden entry ", n)] = hidden(t, p, strings.Repeat("another table ", 9)[:n])
	}
	for i, x := range p {
		cases["without "+x.name] = without(i)
	}
	for cut := 1; cut < len(good); cut += 97 {
		cases[fmt.Sprint("cut at ", cut)] = good[:cut]
	}
	for name, b := range cases {
		if r := l.verify(t, b); r.OK || len(r.Problems) == 0 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func compressed(t *testing.T, p parts) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	for _, x := range p {
		w, err := z.Create(x.name)
		must(t, err)
		_, err = w.Write(x.data)
		must(t, err)
	}
	must(t, z.Close())
	return buf.Bytes()
}

func commented(t *testing.T, p parts) []byte {
	t.Helper()
	b := bytes.Clone(p.pack(t))
	b[len(b)-2] = 3
	return append(b, "abc"...)
}

// hidden puts a second zip entry in front of the directory, which the directory does not list but a program that reads from the start finds.
func hidden(t *testing.T, p parts, text string) []byte {
	t.Helper()
	b := p.pack(t)
	end := len(b) - 22
	at := int(binary.LittleEndian.Uint32(b[end+16:]))
	extra := parts{{csvName, []byte(text)}}.pack(t)
	extra = extra[:bytes.Index(extra, []byte("PK\x01\x02"))]
	out := slices.Concat(b[:at], extra, b[at:])
	binary.LittleEndian.PutUint32(out[len(out)-22+16:], uint32(at+len(extra)))
	if z, err := zip.NewReader(bytes.NewReader(out), int64(len(out))); err != nil || len(z.File) != len(p) {
		t.Fatalf("the test is broken: %v", err)
	}
	return out
}

// TestTamperEveryByte: no byte of a bundle, here every third or so, can change without being noticed, but for those that say nothing: dates and other attributes in the
// headers of the zip.
func TestTamperEveryByte(t *testing.T) {
	l := newLog(t, 6)
	good := l.bundle(t, l.config(t))
	want := unzip(t, good)
	rng := rand.New(rand.NewPCG(1, 1))
	for at := 0; at < len(good); at += 1 + rng.IntN(5) {
		b := bytes.Clone(good)
		b[at] ^= 1 << rng.IntN(8)
		if r := l.verify(t, b); r.OK {
			for i, x := range unzip(t, b) {
				if x.name != want[i].name || !bytes.Equal(x.data, want[i].data) {
					t.Errorf("byte %d of %d: the change in %s went unnoticed", at, len(good), x.name)
				}
			}
		}
	}
}

func TestCosignatures(t *testing.T) {
	l := newLog(t, 4)
	now := func() time.Time { return time.Unix(1_700_000_000, 0) }
	a, err := checkpoint.NewWitness("a.example", seed(20), now)
	must(t, err)
	b, err := checkpoint.NewWitness("b.example", seed(21), now)
	must(t, err)
	cfg := l.config(t)
	line, err := a.Cosign(cfg.Checkpoint)
	must(t, err)
	_, longer := l.tree(t, 3)
	foreign, err := b.Cosign(longer)
	must(t, err)
	for name, c := range map[string]struct {
		lines []string
		kinds []string
		found int
	}{
		"one of two":               {[]string{line}, []string{"cosignature"}, 1},
		"none":                     {nil, []string{"cosignature"}, 0},
		"of another checkpoint":    {[]string{line, foreign}, []string{"checkpoint"}, 0},
		"the other one's is wrong": {[]string{foreign}, []string{"checkpoint"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := cfg
			for _, x := range c.lines {
				cfg.Checkpoint = checkpoint.Add(cfg.Checkpoint, x)
			}
			z := l.bundle(t, cfg)
			keys, err := checkpoint.NewWitnesses(a.Key() + " " + b.Key())
			must(t, err)
			r, err := VerifyBundle(t.Context(), bytes.NewReader(z), int64(len(z)), l.signer.Verifier(), keys, nil)
			must(t, err)
			var kinds []string
			for _, p := range r.Problems {
				kinds = append(kinds, p.Kind)
			}
			if !slices.Equal(kinds, c.kinds) || len(r.Cosignatures) != c.found || r.Proven != 4 {
				t.Errorf("%+v", r)
			}
		})
	}
}
