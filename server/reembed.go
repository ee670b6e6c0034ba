package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/rag"
)

// embedStored embeds stored passages for the system: on nobody's bill, since nobody asked for it, and in the class that takes what the others
// leave. The texts stay in this process.
func (p *parts) embedStored(model engine.ModelID) rag.EmbedFunc {
	return func(ctx context.Context, texts []string, _ bool) ([][]float32, error) {
		prompt, err := p.native.Prepare(ctx, &engine.EmbedRequest{Model: model, Input: texts, Role: engine.RolePassage, Class: engine.ClassBatch})
		if err != nil {
			return nil, err
		}
		out, err := p.native.Embed(ctx, prompt)
		if err != nil {
			return nil, err
		}
		return out.Vectors, nil
	}
}

const actionReembedded = "rag.reembed"

// recordReembedding records an act of the system in the tenant's log. It returns when the record is on the disk.
func (p *parts) recordReembedding(ctx context.Context, r rag.ReembedRecord) error {
	state := "begun"
	if r.Done {
		state = "done"
	}
	receipt, err := p.audit.Append(ctx, audit.Event{
		Stage: audit.StageAction, Tenant: r.Tenant, Actor: audit.Actor{Kind: "system", ID: "reembedding"}, Action: actionReembedded,
		Resource: "collection/" + r.Collection, Detail: map[string]string{"documents": strconv.Itoa(r.Documents), "model": r.Model, "state": state},
		Decision: "allow", Outcome: "ok",
	})
	if err == nil && receipt.Seq == 0 {
		err = errors.New("the record was lost")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", actionReembedded, err)
	}
	return nil
}
