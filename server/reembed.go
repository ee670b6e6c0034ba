package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/database"
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

// mayReembed reports whether the policy of a tenant lets its data, of which nobody knows more than the policy's own grade, go to the engine of this process.
func (p *parts) mayReembed(tenant string) bool {
	placing, err := p.guard.PlacingOf(tenant, "", 0)
	return err == nil && placing.Allows(string(p.cfg.Engines.PlaceOf(nativeEngine)))
}

var errNotReembedding = errors.New("another replica embeds documents again")

// reembedLease keeps embedding stored passages again with one replica, which prolongs it as long as it runs: of replicas with different models one
// decides. It is longer than the clocks of replicas may differ.
func reembedLease() audit.Lease {
	return audit.Lease{Name: "reembed", For: 5 * time.Minute, Taken: errNotReembedding}
}

// leadsReembedding reports whether this replica holds that lease.
func (p *parts) leadsReembedding(ctx context.Context) (bool, error) {
	return takeReembedding(p.db.WithContext(ctx), p.audit.Writer(), time.Now())
}

func takeReembedding(db *gorm.DB, holder string, now time.Time) (bool, error) {
	err := reembedLease().Take(db, holder, now)
	if errors.Is(err, errNotReembedding) {
		// A first time on this database there is no row yet.
		if err := db.Exec("INSERT INTO audit_lease (name, holder, expires) VALUES (?, '', 0) ON CONFLICT (name) DO NOTHING", reembedLease().Name).Error; err != nil {
			return false, database.Unavailable("make the lease of re-embedding", err)
		}
		if err = reembedLease().Take(db, holder, now); errors.Is(err, errNotReembedding) {
			return false, nil
		}
	}
	return err == nil, database.Unavailable("take the lease of re-embedding", err)
}

// runRetrieval runs retrieval until ctx ends, and lets another replica embed again then.
func (p *parts) runRetrieval(ctx context.Context) error {
	err := p.rag.Run(ctx)
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if rerr := reembedLease().Release(p.db.WithContext(release), p.audit.Writer()); rerr != nil {
		p.log.LogAttrs(release, slog.LevelWarn, "the lease of re-embedding stays until it expires", slog.String("error", rerr.Error()))
	}
	return err
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
