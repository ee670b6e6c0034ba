package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/internal/fault"
)

// Proof shows, to anyone who has the verifier key, that a record is in the log: hash the record, walk the hashes up to the root,
// find the root in the signed checkpoint. It is self-contained and needs no access to the log.
type Proof struct {
	Record     string      `json:"record"` // the exact bytes the leaf hash covers
	Index      int64       `json:"index"`
	Hashes     []tlog.Hash `json:"hashes"` // from the leaf towards the root
	Checkpoint string      `json:"checkpoint"`
}

// Prove returns the proof of inclusion of the record called id under the newest checkpoint. A record that is not sealed yet, which
// takes about a checkpoint interval, is a conflict: ask again.
func (l *Log) Prove(ctx context.Context, id string) (Proof, error) {
	row, err := l.store.entry(ctx, id)
	if err != nil {
		return Proof{}, err
	}
	if row.Idx == nil {
		return Proof{}, fault.New(fault.CodeConflict, fault.Say("the record is not sealed yet, ask again in a moment", "该记录尚未封存，请稍后再试")).WithRetryAfter(l.cfg.CheckpointEvery)
	}
	text, t, err := l.store.checkpoint(ctx, l.signer.verifier)
	if err != nil {
		return Proof{}, err
	}
	path, err := tlog.ProveRecord(t.size, *row.Idx, l.store.hashes(ctx))
	if err != nil {
		return Proof{}, fmt.Errorf("prove audit record: %w", err)
	}
	p := Proof{Record: string(row.Payload), Index: *row.Idx, Hashes: path, Checkpoint: text}
	if _, err := VerifyProof(l.key, p); err != nil {
		return Proof{}, fmt.Errorf("prove audit record %s: %w; run `sluice audit verify`", id, err)
	}
	return p, nil
}

// VerifyProof checks p with the verifier key alone and returns the record it proves.
func VerifyProof(verifierKey string, p Proof) (Event, error) {
	v, err := newVerifier(verifierKey)
	if err != nil {
		return Event{}, err
	}
	t, err := v.open(p.Checkpoint)
	if err != nil {
		return Event{}, err
	}
	if p.Index < 0 || p.Index >= t.size {
		return Event{}, fmt.Errorf("check proof: index %d is outside the %d records of the checkpoint", p.Index, t.size)
	}
	if err := tlog.CheckRecord(p.Hashes, t.size, t.root, p.Index, tlog.RecordHash([]byte(p.Record))); err != nil {
		return Event{}, fmt.Errorf("check proof: %w", err)
	}
	return decode([]byte(p.Record))
}
