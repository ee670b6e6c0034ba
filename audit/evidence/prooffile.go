package evidence

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// ProofFile is the proof of one record as a file that convinces others: what GET /audit/records/{id}/proof answers, in the same order. What it
// says twice has to agree.
type ProofFile struct {
	Checkpoint  string   `json:"checkpoint"` // with cosignatures
	Hashes      []string `json:"hashes"`     // base64, from the leaf towards the root
	ID          string   `json:"id"`
	Index       int64    `json:"index"`
	LeafHash    string   `json:"leaf_hash"` // hex
	Record      string   `json:"record"`    // the exact bytes that the leaf hash covers
	TreeSize    int64    `json:"tree_size"`
	VerifierKey string   `json:"verifier_key"` // a claim only, as the file makes it itself
}

// MaxProofFile bounds a proof file: a record, its escapes, a path and a checkpoint are far smaller.
const MaxProofFile = 1 << 20

// ProofReport is the result of [VerifyProofFile]. OK means that the log stated the record, unchanged, at its place.
type ProofReport struct {
	OK           bool          `json:"ok"`
	ID           string        `json:"id"`
	Index        int64         `json:"index"`
	Size         int64         `json:"checkpoint_size"`
	Root         string        `json:"root"` // hex
	Origin       string        `json:"origin"`
	Cosignatures []Cosignature `json:"cosignatures"`
	// Unchecked counts signatures on the checkpoint whose keys were not given: nothing is known of them.
	Unchecked int           `json:"unchecked_signatures"`
	Event     *record.Event `json:"record"` // absent unless it was proven
	Problems  []Problem     `json:"problems"`
}

// ParseProofFile reads a proof file. A change that no signature would show, such as one in how a character is spelled, is an error, too.
func ParseProofFile(b []byte) (ProofFile, error) {
	if len(b) > MaxProofFile {
		return ProofFile{}, fmt.Errorf("read proof: it has more than %d bytes", MaxProofFile)
	}
	f, err := strictjson.Decode[ProofFile](b)
	if err != nil {
		return ProofFile{}, fmt.Errorf("read proof: %w", err)
	}
	if !spelled(b, f) {
		return ProofFile{}, errors.New("read proof: it was changed, or written anew by another program: use the file as it was downloaded")
	}
	return f, nil
}

// spelled reports whether b is what a program of ours writes for f, but for white space. The server escapes characters of HTML, browsers do not.
func spelled(b []byte, f ProofFile) bool {
	var have bytes.Buffer
	if err := json.Compact(&have, b); err != nil {
		return false
	}
	for _, escape := range []bool{true, false} {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(escape)
		if err := enc.Encode(f); err != nil {
			return false
		}
		if bytes.Equal(have.Bytes(), bytes.TrimSuffix(want.Bytes(), []byte("\n"))) {
			return true
		}
	}
	return false
}

// VerifyProofFile checks a proof file with the public keys of the log and, if there are any, of witnesses, all of whom have to have cosigned.
func VerifyProofFile(f ProofFile, keys checkpoint.Verifier, witnesses checkpoint.Witnesses) ProofReport {
	r := ProofReport{ID: f.ID, Index: f.Index, Origin: keys.Origin(), Cosignatures: []Cosignature{}, Problems: []Problem{}}
	bad := func(kind string, err error) {
		if err != nil {
			r.Problems = append(r.Problems, Problem{kind, f.ID, f.Index, err.Error()})
		}
	}
	tree, cosigned, err := keys.OpenCosigned(f.Checkpoint, witnesses)
	if err == nil {
		r.Unchecked, err = signatures(f.Checkpoint, keys, witnesses)
	}
	bad("checkpoint", err)
	if err == nil {
		missing := witnesses.Names()
		for _, c := range cosigned {
			r.Cosignatures = append(r.Cosignatures, Cosignature(c))
			missing = slices.DeleteFunc(missing, func(name string) bool { return name == c.Witness })
		}
		if len(missing) > 0 {
			bad("cosignature", fmt.Errorf("these witnesses did not cosign the checkpoint: %s", strings.Join(missing, ", ")))
		}
		r.Size, r.Root = tree.Size, hex.EncodeToString(tree.Root[:])
		bad("inclusion", f.included(tree))
		own, err := checkpoint.NewVerifier(f.VerifierKey)
		if err == nil {
			_, err = own.Open(f.Checkpoint)
		}
		if err != nil {
			bad("key", fmt.Errorf("the key inside did not sign the checkpoint: %w", err))
		}
	}
	e, err := record.Decode([]byte(f.Record))
	bad("record", err)
	if err == nil && f.ID != e.ID {
		bad("record", fmt.Errorf("the file is about the record %s, and holds another one", f.ID))
	}
	if r.OK = len(r.Problems) == 0; r.OK {
		r.Event = &e
	}
	return r
}

// included says whether the record is in the tree, by everything that the file says of it.
func (f ProofFile) included(tree checkpoint.Tree) error {
	leaf := tlog.RecordHash([]byte(f.Record))
	if f.LeafHash != hex.EncodeToString(leaf[:]) || f.TreeSize != tree.Size {
		return errors.New("the hash of the record, or the size of the tree, is not what the file says it is")
	}
	path := make([]tlog.Hash, len(f.Hashes))
	for i, text := range f.Hashes {
		h, err := tlog.ParseHash(text)
		if err != nil || h.String() != text {
			return fmt.Errorf("hash %d of the path is unreadable", i)
		}
		path[i] = h
	}
	if f.Index < 0 || f.Index >= tree.Size {
		return fmt.Errorf("the checkpoint covers %d records only", tree.Size)
	}
	if tlog.CheckRecord(path, tree.Size, tree.Root, f.Index, leaf) != nil {
		return errors.New("the record and its proof do not lead to the root of the checkpoint: it is not what the log sealed")
	}
	return nil
}

// signatures counts the signatures of a checkpoint that none of the keys checks.
func signatures(text string, keys checkpoint.Verifier, witnesses checkpoint.Witnesses) (unchecked int, err error) {
	_, lines, _ := strings.Cut(text, "\n\n")
	for line := range strings.Lines(lines) {
		fields := strings.Fields(line)
		if len(fields) != 3 || line != strings.Join(fields, " ")+"\n" {
			return 0, errors.New("a line of a signature is unreadable")
		}
		if fields[1] != keys.Origin() && !slices.Contains(witnesses.Names(), fields[1]) {
			unchecked++
		}
	}
	return unchecked, nil
}
