package audit

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/fault"
)

// Prove returns the proof of inclusion of the record called id under the newest checkpoint. A record that is not sealed yet, which
// takes about a checkpoint interval, is a conflict: ask again.
func (l *Log) Prove(ctx context.Context, id string) (evidence.Proof, error) {
	row, err := l.store.entry(ctx, id)
	if err != nil {
		return evidence.Proof{}, err
	}
	if row.Idx == nil {
		return evidence.Proof{}, fault.New(fault.CodeConflict, fault.Say("the record is not sealed yet, ask again in a moment", "该记录尚未封存，请稍后再试")).WithRetryAfter(l.cfg.CheckpointEvery)
	}
	text, t, err := l.store.checkpoint(ctx, l.reads)
	if err != nil {
		return evidence.Proof{}, err
	}
	path, err := tlog.ProveRecord(t.Size, *row.Idx, l.store.hashes(ctx))
	if err != nil {
		return evidence.Proof{}, fmt.Errorf("prove audit record: %w", err)
	}
	p := evidence.Proof{Record: string(row.Payload), Index: *row.Idx, Hashes: path, Checkpoint: text}
	if _, err := evidence.VerifyProof(l.key, p); err != nil {
		return evidence.Proof{}, fmt.Errorf("prove audit record %s: %w; run `sluice audit verify`", id, err)
	}
	return p, nil
}
