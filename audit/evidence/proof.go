// Package evidence is what leaves a log to convince others, and what they check it with: a public key and nothing else. It reads no
// database.
package evidence

import (
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
)

// Proof shows, to anyone who has the verifier key, that a record is in the log: hash the record, walk the hashes up to the root,
// find the root in the signed checkpoint. It is self-contained and needs no access to the log.
type Proof struct {
	Record     string      `json:"record"` // the exact bytes the leaf hash covers
	Index      int64       `json:"index"`
	Hashes     []tlog.Hash `json:"hashes"` // from the leaf towards the root
	Checkpoint string      `json:"checkpoint"`
}

// VerifyProof checks p with the verifier key alone and returns the record it proves.
func VerifyProof(verifierKey string, p Proof) (record.Event, error) {
	v, err := checkpoint.NewVerifier(verifierKey)
	if err != nil {
		return record.Event{}, err
	}
	t, err := v.Open(p.Checkpoint)
	if err != nil {
		return record.Event{}, err
	}
	if p.Index < 0 || p.Index >= t.Size {
		return record.Event{}, fmt.Errorf("check proof: index %d is outside the %d records of the checkpoint", p.Index, t.Size)
	}
	if err := tlog.CheckRecord(p.Hashes, t.Size, t.Root, p.Index, tlog.RecordHash([]byte(p.Record))); err != nil {
		return record.Event{}, fmt.Errorf("check proof: %w", err)
	}
	return record.Decode([]byte(p.Record))
}
