package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestProofs takes proofs through JSON, as the API does, checks them against an independent walk, and flips every part.
func TestProofs(t *testing.T) {
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	receipts := appendN(t, l, 0, 13)
	flush(t, l)
	for _, r := range receipts {
		p, err := l.Prove(t.Context(), r.ID)
		must(t, err)
		b, err := json.Marshal(p)
		must(t, err)
		var back evidence.Proof
		must(t, json.Unmarshal(b, &back))
		e, err := evidence.VerifyProof(l.VerifierKey(), back)
		if err != nil || e.ID != r.ID {
			t.Fatalf("proof of %s: %+v, %v", r.ID, e, err)
		}
		top, err := l.signer.Verifier().Open(p.Checkpoint)
		must(t, err)
		if got := climb(p, top.Size); got != top.Root {
			t.Errorf("an independent walk of the proof gives another root")
		}
		for name, broken := range map[string]func(*evidence.Proof){
			"record":     func(p *evidence.Proof) { p.Record = strings.Replace(p.Record, "demo", "dem0", 1) },
			"index":      func(p *evidence.Proof) { p.Index ^= 1 },
			"range":      func(p *evidence.Proof) { p.Index += 100 },
			"negative":   func(p *evidence.Proof) { p.Index = -1 },
			"hash":       func(p *evidence.Proof) { p.Hashes = slices.Clone(p.Hashes); p.Hashes[0][0] ^= 1 },
			"short":      func(p *evidence.Proof) { p.Hashes = p.Hashes[1:] },
			"checkpoint": func(p *evidence.Proof) { p.Checkpoint = strings.Replace(p.Checkpoint, "\n13\n", "\n14\n", 1) },
		} {
			q := p
			broken(&q)
			if _, err := evidence.VerifyProof(l.VerifierKey(), q); err == nil {
				t.Errorf("a proof with another %s was accepted", name)
			}
		}
		foreign, err := VerifierKey(Config{}, otherKeys())
		must(t, err)
		if _, err := evidence.VerifyProof(foreign, p); err == nil {
			t.Error("a foreign key accepted the checkpoint")
		}
	}
	r := appendN(t, l, 50, 1)[0]
	if _, err := l.Prove(t.Context(), r.ID); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("proof of a record that is not shipped: %v", err)
	}
	l.work.Lock()
	must(t, l.ship(t.Context()))
	l.work.Unlock()
	if _, err := l.Prove(t.Context(), r.ID); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("proof of a record that is not sealed: %v", err)
	}
}

// climb computes the root from an inclusion proof by RFC 9162 section 2.1.3.2, apart from the library under test.
func climb(p evidence.Proof, size int64) tlog.Hash {
	node := func(l, r []byte) []byte {
		s := sha256.Sum256(slices.Concat([]byte{1}, l, r))
		return s[:]
	}
	leaf := sha256.Sum256(append([]byte{0}, p.Record...))
	h := leaf[:]
	at, last := p.Index, size-1
	for _, s := range p.Hashes {
		if at&1 == 1 || at == last {
			h = node(s[:], h)
			for at&1 == 0 && at != 0 {
				at, last = at>>1, last>>1
			}
		} else {
			h = node(h, s[:])
		}
		at, last = at>>1, last>>1
	}
	return tlog.Hash(h)
}

// TestCheckpointFormat holds the C2SP tlog-checkpoint form: origin, decimal size, base64 root, blank line, one signature.
func TestCheckpointFormat(t *testing.T) {
	sg, err := newSigner(Config{Origin: "log.example/audit"}, testKeys(), 1)
	must(t, err)
	text, err := sg.Sign(checkpoint.Tree{Size: 7, Root: tlog.RecordHash([]byte("x"))})
	must(t, err)
	golden(t, "testdata/checkpoint.txt", []byte(sg.Key()+"\n"+text))
	if again, err := newSigner(Config{Origin: "log.example/audit"}, testKeys(), 1); err != nil || again.Key() != sg.Key() {
		t.Error("the key is not stable")
	}
	for _, bad := range []string{"", "x", strings.Replace(text, "7", "07", 1), strings.Replace(text, "log.", "lag.", 1)} {
		if _, err := sg.Verifier().Open(bad); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
	if _, err := checkpoint.NewVerifier("nonsense"); err == nil {
		t.Error("a malformed key was accepted")
	}
}

func TestMetricsAreListed(t *testing.T) {
	reg := prometheus.NewRegistry()
	newMetrics(reg)
	families, err := reg.Gather()
	must(t, err)
	var out bytes.Buffer
	for _, f := range families {
		out.WriteString(f.GetName() + " " + f.GetType().String() + " " + f.GetHelp() + "\n")
	}
	golden(t, "testdata/metrics.txt", out.Bytes())
}

func TestConfigValidate(t *testing.T) {
	if err := (Config{Dir: "x"}).Validate(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	err := Config{Origin: "a b", SegmentBytes: 1, MaxBytes: 1, ShipEvery: -1}.Validate()
	for _, want := range []string{"dir:", "origin:", "segment_bytes:", "max_bytes:", "ship_every"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not reported: %v", want, err)
		}
	}
}

// TestAnswerDigest: cuts do not matter, it is keyed, and none is that of a prompt.
func TestAnswerDigest(t *testing.T) {
	digest := func(keys *keyring.Ring, tenant string, pieces ...string) string {
		d := NewAnswerDigest(keys, tenant)
		for _, p := range pieces {
			if n, err := d.WriteString(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		return d.String()
	}
	a := digest(testKeys(), "t1", "hello")
	if a != digest(testKeys(), "t1", "he", "", "llo") || !strings.HasPrefix(a, "v2:") || len(a) != 3+64 {
		t.Errorf("%q, in pieces %q", a, digest(testKeys(), "t1", "he", "", "llo"))
	}
	if a == digest(testKeys(), "t2", "hello") || a == digest(otherKeys(), "t1", "hello") || a == digest(testKeys(), "t1h", "ello") || a[3:] == Digest(testKeys(), "t1", "hello") {
		t.Error("two digests are one")
	}
	d := NewAnswerDigest(testKeys(), "t1")
	piece := strings.Repeat("x", 20)
	if n := testing.AllocsPerRun(100, func() { _, _ = d.WriteString(piece) }); n != 0 {
		t.Errorf("%v allocations per piece", n)
	}
}

func TestDigestIsKeyed(t *testing.T) {
	a := Digest(testKeys(), "t1", "hello")
	if a != Digest(testKeys(), "t1", "hello") || len(a) != 64 {
		t.Error("not stable")
	}
	if a == Digest(testKeys(), "t2", "hello") || a == Digest(otherKeys(), "t1", "hello") || a == Digest(testKeys(), "t1h", "ello") {
		t.Error("the digest does not depend on key, tenant and text")
	}
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	want, err := os.ReadFile(path)
	must(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s", path, got)
	}
}
