package evidence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

// proofOf is the proof file of a record among some, cosigned, with characters that programs spell in different ways.
func proofOf(t testing.TB, signer checkpoint.Signer, witness checkpoint.Witness) ProofFile {
	t.Helper()
	var tree memory
	var payloads [][]byte
	for i := range int64(11) {
		b, err := record.Encode(record.Event{ID: fmt.Sprint("record-", i), Stage: record.StageAction, Time: i, Tenant: "demo", Action: "audit.erase", Resource: "<a>&\u2028b"})
		if err != nil {
			t.Fatal(err)
		}
		h, err := tlog.StoredHashes(i, b, tree)
		if err != nil {
			t.Fatal(err)
		}
		tree, payloads = append(tree, h...), append(payloads, b)
	}
	root, err := tlog.TreeHash(11, tree)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signer.Sign(checkpoint.Tree{Size: 11, Root: root})
	if err != nil {
		t.Fatal(err)
	}
	line, err := witness.Cosign(text)
	if err != nil {
		t.Fatal(err)
	}
	path, err := tlog.ProveRecord(11, 6, tree)
	if err != nil {
		t.Fatal(err)
	}
	leaf := tlog.RecordHash(payloads[6])
	f := ProofFile{Checkpoint: checkpoint.Add(text, line), ID: "record-6", Index: 6, LeafHash: fmt.Sprintf("%x", leaf[:]), Record: string(payloads[6]), TreeSize: 11, VerifierKey: signer.Key()}
	for _, h := range path {
		f.Hashes = append(f.Hashes, h.String())
	}
	return f
}

type memory []tlog.Hash

func (m memory) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, m[i])
	}
	return out, nil
}

// spellings are the file as the server, a browser and jq write it.
func spellings(t testing.TB, f ProofFile) map[string][]byte {
	t.Helper()
	server, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	var plain, jq bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(f); err != nil {
		t.Fatal(err)
	}
	if err := json.Indent(&jq, plain.Bytes(), "", "  "); err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"server": server, "browser": bytes.TrimSpace(plain.Bytes()), "jq": jq.Bytes()}
}

func checked(b []byte, keys checkpoint.Verifier, witnesses checkpoint.Witnesses) bool {
	f, err := ParseProofFile(b)
	return err == nil && VerifyProofFile(f, keys, witnesses).OK
}

// TestProofFile: a proof holds however it was written down, with the keys of the log and of witnesses; another key or a missing witness is a
// problem, and no byte of it can be flipped unnoticed.
func TestProofFile(t *testing.T) {
	t.Parallel()
	signer, err := checkpoint.NewSigner("log.example/audit", bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	witness, err := checkpoint.NewWitness("witness.example", bytes.Repeat([]byte{9}, 32), func() time.Time { return time.Unix(1_700_000_000, 0) })
	if err != nil {
		t.Fatal(err)
	}
	keys := verifier(t, signer.Key())
	witnesses, err := checkpoint.NewWitnesses(witness.Key())
	if err != nil {
		t.Fatal(err)
	}
	f := proofOf(t, signer, witness)
	r := VerifyProofFile(f, keys, witnesses)
	if !r.OK || r.Event == nil || r.Event.ID != "record-6" || r.Size != 11 || len(r.Cosignatures) != 1 || r.Unchecked != 0 {
		t.Fatalf("%+v", r)
	}
	if r := VerifyProofFile(f, keys, checkpoint.Witnesses{}); !r.OK || r.Unchecked != 1 {
		t.Errorf("%+v", r)
	}
	other, err := checkpoint.NewSigner("log.example/audit", bytes.Repeat([]byte{2}, 32))
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := checkpoint.NewWitness("other.example", bytes.Repeat([]byte{8}, 32), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	absent, err := checkpoint.NewWitnesses(witness.Key() + " " + stranger.Key())
	if err != nil {
		t.Fatal(err)
	}
	for kind, r := range map[string]ProofReport{
		"checkpoint":  VerifyProofFile(f, verifier(t, other.Key()), checkpoint.Witnesses{}),
		"cosignature": VerifyProofFile(f, keys, absent),
	} {
		if r.OK || r.Event != nil || len(r.Problems) != 1 || r.Problems[0].Kind != kind {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	for change, edit := range map[string]func(*ProofFile){
		"id": func(f *ProofFile) { f.ID = "record-5" }, "size": func(f *ProofFile) { f.TreeSize++ }, "leaf": func(f *ProofFile) { f.LeafHash = strings.ToUpper(f.LeafHash) },
		"key": func(f *ProofFile) { f.VerifierKey = other.Key() }, "index": func(f *ProofFile) { f.Index = -1 }, "beyond": func(f *ProofFile) { f.Index = 11 },
		"path": func(f *ProofFile) { f.Hashes = f.Hashes[1:] }, "record": func(f *ProofFile) { f.Record = "{}" },
	} {
		g := f
		if edit(&g); VerifyProofFile(g, keys, witnesses).OK {
			t.Errorf("%s was not noticed", change)
		}
	}
	for name, b := range spellings(t, f) {
		if !checked(b, keys, witnesses) {
			t.Errorf("as %s writes it: not checked", name)
		}
		for i := range b {
			for bit := range 8 {
				flipped := bytes.Clone(b)
				if flipped[i] ^= 1 << bit; checked(flipped, keys, witnesses) {
					t.Errorf("%s: bit %d of byte %d was flipped unnoticed, in %q", name, bit, i, b[max(0, i-20):min(len(b), i+20)])
				}
			}
		}
		for _, n := range []int{0, 1, len(b) / 2, len(b) - 2} {
			if checked(b[:n], keys, witnesses) {
				t.Errorf("%s: cut at %d unnoticed", name, n)
			}
		}
	}
	for _, b := range []string{"", "{}", "[]", "null", strings.Repeat(" ", MaxProofFile+1)} {
		if checked([]byte(b), keys, checkpoint.Witnesses{}) {
			t.Errorf("%.10q is no proof", b)
		}
	}
}

func verifier(t testing.TB, key string) checkpoint.Verifier {
	t.Helper()
	v, err := checkpoint.NewVerifier(key)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func FuzzParseProofFile(f *testing.F) {
	f.Add([]byte(`{"checkpoint":"","hashes":[],"id":"","index":0,"leaf_hash":"","record":"","tree_size":0,"verifier_key":""}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParseProofFile(b)
		if err != nil {
			return
		}
		signer, err := checkpoint.NewSigner("log.example/audit", bytes.Repeat([]byte{1}, 32))
		if err != nil {
			t.Fatal(err)
		}
		if VerifyProofFile(p, verifier(t, signer.Key()), checkpoint.Witnesses{}).OK {
			t.Error("proven without a signature")
		}
	})
}
