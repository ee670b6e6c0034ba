package adminapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// maxFailures bounds the failures that one answer names.
const maxFailures = 100

// ListBatches implements GET /batches.
func (s *Server) ListBatches(c *gin.Context, params ListBatchesParams) {
	const usual = 50
	out := BatchPage{Items: []Batch{}}
	err := s.deps.Pipeline.Look(c.Request.Context(), batchCall(c, gateway.ActionReadBatches), func(ctx context.Context, who identity.Principal) error {
		found, more, err := s.deps.Batches.List(ctx, ownBatches(who), batch.Page{After: deref(params.Cursor), Limit: cmp.Or(deref(params.Limit), usual)})
		for _, b := range found {
			out.Items = append(out.Items, batchView(b))
		}
		if more {
			out.Next = &found[len(found)-1].ID
		}
		return err
	})
	s.reply(c, http.StatusOK, out, err)
}

// CreateBatch implements POST /batches.
func (s *Server) CreateBatch(c *gin.Context, params CreateBatchParams) {
	in, err := decode[NewBatch](c)
	if err != nil {
		s.Fail(c, err)
		return
	}
	call, lang := batchCall(c, gateway.ActionBatch), "en"
	if call.Language == fault.Chinese {
		lang = "zh"
	}
	call.Purpose, call.Resource = deref(params.XSluicePurpose), batch.NewID()
	var made batch.Batch
	err = s.deps.Pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		made, err = s.deps.Batches.Create(ctx, who, batch.NewBatch{
			ID: call.Resource, Endpoint: string(in.Endpoint), InputFile: in.File, Source: call.Source, Language: lang, Purpose: call.Purpose,
		})
		return err
	})
	s.reply(c, http.StatusCreated, batchView(made), err)
}

// GetBatch implements GET /batches/{id}.
func (s *Server) GetBatch(c *gin.Context, id IdPath) {
	var out BatchDetail
	err := s.deps.Pipeline.Look(c.Request.Context(), batchCall(c, gateway.ActionReadBatches), func(ctx context.Context, who identity.Principal) (err error) {
		out, err = s.batchDetail(ctx, who, id, language(c.GetHeader("Accept-Language")))
		return err
	})
	s.reply(c, http.StatusOK, out, err)
}

func (s *Server) batchDetail(ctx context.Context, who identity.Principal, id string, lang fault.Lang) (BatchDetail, error) {
	b, err := s.deps.Batches.Get(ctx, ownBatches(who), id)
	if err != nil {
		return BatchDetail{}, err
	}
	v := batchView(b)
	out := BatchDetail{
		Id: v.Id, Endpoint: v.Endpoint, State: v.State, Class: v.Class, Project: v.Project, Total: v.Total, Completed: v.Completed, Failed: v.Failed,
		CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt, EndedAt: v.EndedAt, Input: v.Input, Output: v.Output, Errors: v.Errors, Problems: []BatchProblem{}, Failures: []BatchFailure{},
	}
	for _, p := range b.Problems {
		view := BatchProblem{Code: p.Code, Detail: p.Message().In(lang), Param: optional(p.Param)}
		if p.Line > 0 {
			view.Line = &p.Line
		}
		out.Problems = append(out.Problems, view)
	}
	model, err := s.deps.Batches.Model(ctx, ownBatches(who), id)
	if err != nil {
		return out, err
	}
	out.Model = optional(model)
	cost, currency, err := s.deps.Ledger.CostOf(ctx, who.Tenant, b.ID+".")
	if err != nil {
		return out, err
	}
	if currency != "" {
		money := int64(cost)
		out.Cost, out.Currency = &money, &currency
	}
	if b.EndedAt.IsZero() {
		return out, nil
	}
	as := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	failed, err := s.deps.Batches.Failures(ctx, ownBatches(who), id, maxFailures, func(n int64) (func(), error) {
		return func() { s.deps.Bodies.Release(as, n) }, s.deps.Bodies.Acquire(as, n)
	})
	if fault.Is(err, fault.CodeNotFound) { // the file has gone, the batch has not
		err = nil
	}
	for _, f := range failed {
		view := BatchFailure{CustomId: f.CustomID, Code: f.Code}
		if f.Status > 0 {
			view.Status = &f.Status
		}
		out.Failures = append(out.Failures, view)
	}
	return out, err
}

// CancelBatch implements POST /batches/{id}/cancel.
func (s *Server) CancelBatch(c *gin.Context, id IdPath) {
	call := batchCall(c, gateway.ActionCancelBatch)
	call.Resource = truncate(id, maxResource)
	var out batch.Batch
	err := s.deps.Pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		out, err = s.deps.Batches.Cancel(ctx, ownBatches(who), id)
		return err
	})
	s.reply(c, http.StatusOK, batchView(out), err)
}

// StoreBatchFile implements POST /batches/files.
func (s *Server) StoreBatchFile(c *gin.Context) { s.deps.StoreFile(c) }

// ReadBatchFile implements GET /batches/{id}/files/{file}.
func (s *Server) ReadBatchFile(c *gin.Context, _ IdPath, _ ReadBatchFileParamsFile) {
	s.deps.BatchFile(c)
}

// batchCall is an act of the signed-in person about his batches.
func batchCall(c *gin.Context, action gateway.Action) *gateway.Call {
	token, _ := bearer(c)
	return &gateway.Call{
		Credential: token, Plane: identity.AdminPlane, Permission: access.BatchesUse, RequestID: c.GetString(KeyRequestID), Source: c.ClientIP(),
		Route: c.Request.Method + " " + c.FullPath(), Dialect: "admin", Language: language(c.GetHeader("Accept-Language")), Action: action,
	}
}

// ownBatches are the batches that somebody has made here, or with keys of his own.
func ownBatches(who identity.Principal) batch.Scope {
	return batch.Scope{Owner: files.OwnerOf(who), Endpoints: append(batch.Endpoints(), batch.MessagesEndpoint), AnyProject: true}
}

func batchView(b batch.Batch) Batch {
	return Batch{
		Id: b.ID, Endpoint: b.Endpoint, State: b.State, Class: string(engine.ClassBatch), Project: optional(b.Project), Total: b.Total, Completed: b.Completed, Failed: b.Failed,
		CreatedAt: b.Created.UTC(), ExpiresAt: b.Expires.UTC(), EndedAt: optionalTime(b.EndedAt), Input: b.InputFile != "", Output: b.OutputFile != "", Errors: b.ErrorFile != "",
	}
}
