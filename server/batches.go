package server

import (
	"cmp"
	"context"
	"time"

	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/internal/seal"
)

// lineExtra is what a line of a batch may have beside the body of its request.
const lineExtra = 16 << 10

// claimExtra is how long after the time of a request another one with its idempotency key runs.
const claimExtra = time.Minute

// buildBatches lets callers store files and have batches asked, and keeps answers. The lines are asked by the edge, which is there before the first one is.
func (p *parts) buildBatches(context.Context) (err error) {
	suite := cmp.Or(p.cfg.Audit.Suite, seal.Intl)
	if p.files, err = files.New(files.Config{
		Limits: p.cfg.Batches.Files, DB: p.db, Keys: p.keys, Suite: suite, Log: p.log, Metrics: p.reg,
	}); err != nil {
		return err
	}
	if p.replies, err = replies.New(replies.Config{
		DB: p.db, Keys: p.keys, Suite: suite, Log: p.log, Life: p.cfg.HTTP.AnswerLife(), ClaimLife: p.cfg.Gateway.TotalTimeout() + claimExtra, Metrics: p.reg,
	}); err != nil {
		return err
	}
	node, err := nodeID(p.cfg.Data)
	if err != nil {
		return err
	}
	p.batches, err = batch.New(batch.Config{
		Limits: p.cfg.Batches.Limits, DB: p.db, Keys: p.keys, Suite: suite, Files: p.files, MaxLineBytes: p.cfg.HTTP.BodyLimit() + lineExtra, Node: node,
		Act: p.identity.Act, Log: p.log, Metrics: p.reg,
		Ask: func(ctx context.Context, q batch.Request) batch.Response { return p.askLine(ctx, q) },
	})
	return err
}
