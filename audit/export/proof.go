package export

import (
	"context"
	"encoding/hex"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/fault"
)

// Prove returns the proof of inclusion of the record called id under the newest checkpoint. A record that is not sealed yet, which
// takes about a checkpoint interval, is a conflict: ask again. The checkpoint has the cosignatures that are there.
func (x *Exporter) Prove(ctx context.Context, id string) (evidence.Proof, error) {
	payload, index, err := x.records.Payload(ctx, id)
	if err != nil {
		return evidence.Proof{}, err
	}
	if index < 0 {
		return evidence.Proof{}, fault.New(fault.CodeConflict, fault.Say("audit.record_unsealed")).WithRetryAfter(x.every)
	}
	text, err := x.tree.CosignedCheckpoint(ctx)
	if err != nil {
		return evidence.Proof{}, err
	}
	t, err := x.keys.Open(text)
	if err != nil {
		return evidence.Proof{}, fmt.Errorf("prove audit record: %w", err)
	}
	path, err := tlog.ProveRecord(t.Size, index, x.tree.Hashes(ctx))
	if err != nil {
		return evidence.Proof{}, fmt.Errorf("prove audit record: %w", err)
	}
	p := evidence.Proof{Record: string(payload), Index: index, Hashes: path, Checkpoint: text}
	if _, err := evidence.VerifyProof(x.key, p); err != nil {
		return evidence.Proof{}, fmt.Errorf("prove audit record %s: %w; run `sluice audit verify`", id, err)
	}
	return p, nil
}

// ProofFile is Prove as a file that convinces others, with the keys of this log in it.
func (x *Exporter) ProofFile(ctx context.Context, id string) (evidence.ProofFile, error) {
	p, err := x.Prove(ctx, id)
	if err != nil {
		return evidence.ProofFile{}, err
	}
	t, err := x.keys.Open(p.Checkpoint)
	if err != nil {
		return evidence.ProofFile{}, fmt.Errorf("prove audit record: %w", err)
	}
	leaf := tlog.RecordHash([]byte(p.Record))
	f := evidence.ProofFile{
		Checkpoint: p.Checkpoint, Hashes: []string{}, ID: id, Index: p.Index, LeafHash: hex.EncodeToString(leaf[:]), Record: p.Record, TreeSize: t.Size, VerifierKey: x.key,
	}
	for _, h := range p.Hashes {
		f.Hashes = append(f.Hashes, h.String())
	}
	return f, nil
}
