package httpapi

import (
	"context"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	usualBatchPage, maxBatchPage     = 20, 100
	maxMetadata                      = 16
	maxMetadataName, maxMetadataText = 64, 512 // characters
)

// wireBatch is a batch in the dialect.
type wireBatch struct {
	ID               string            `json:"id"`
	Object           string            `json:"object"`
	Endpoint         string            `json:"endpoint"`
	Errors           *wireProblems     `json:"errors"`
	InputFileID      string            `json:"input_file_id"`
	CompletionWindow string            `json:"completion_window"`
	Status           string            `json:"status"`
	OutputFileID     *string           `json:"output_file_id"`
	ErrorFileID      *string           `json:"error_file_id"`
	CreatedAt        int64             `json:"created_at"`
	InProgressAt     *int64            `json:"in_progress_at"`
	ExpiresAt        int64             `json:"expires_at"`
	FinalizingAt     *int64            `json:"finalizing_at"`
	CompletedAt      *int64            `json:"completed_at"`
	FailedAt         *int64            `json:"failed_at"`
	ExpiredAt        *int64            `json:"expired_at"`
	CancellingAt     *int64            `json:"cancelling_at"`
	CancelledAt      *int64            `json:"cancelled_at"`
	RequestCounts    wireCounts        `json:"request_counts"`
	Metadata         map[string]string `json:"metadata"`
}

type wireCounts struct {
	Total     int64 `json:"total"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

type wireProblems struct {
	Object string        `json:"object"`
	Data   []wireProblem `json:"data"`
}

type wireProblem struct {
	Code    string  `json:"code"`
	Line    *int64  `json:"line"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

func wireBatchOf(b batch.Batch, lang fault.Lang) wireBatch {
	out := wireBatch{
		ID: b.ID, Object: "batch", Endpoint: b.Endpoint, InputFileID: b.InputFile, CompletionWindow: b.Window, Status: b.State, OutputFileID: some(b.OutputFile),
		ErrorFileID: some(b.ErrorFile), CreatedAt: b.Created.Unix(), InProgressAt: seconds(b.InProgressAt), ExpiresAt: b.Expires.Unix(), FinalizingAt: seconds(b.FinalizingAt),
		CancellingAt: seconds(b.CancellingAt), RequestCounts: wireCounts{b.Total, b.Completed, b.Failed}, Metadata: b.Metadata,
	}
	switch ended := seconds(b.EndedAt); b.State {
	case batch.Completed:
		out.CompletedAt = ended
	case batch.Failed:
		out.FailedAt = ended
	case batch.Expired:
		out.ExpiredAt = ended
	case batch.Cancelled:
		out.CancelledAt = ended
	}
	if len(b.Problems) > 0 {
		out.Errors = &wireProblems{Object: openai.ObjectList}
	}
	for _, p := range b.Problems {
		w := wireProblem{Code: p.Code, Message: p.Message().In(lang), Param: some(p.Param)}
		if p.Line > 0 {
			w.Line = &p.Line
		}
		out.Errors.Data = append(out.Errors.Data, w)
	}
	return out
}

func seconds(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	n := t.Unix()
	return &n
}

// makeBatch answers POST /v1/batches.
func (a *API) makeBatch(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	n, err := newBatch(f)
	if err != nil {
		return err
	}
	n.ID = batch.NewID()
	asCalled(&n, call)
	ctx, err := a.once(c, who, call)
	if err != nil {
		return err
	}
	var made batch.Batch
	err = a.pipeline.Act(ctx, call, func(ctx context.Context, who identity.Principal) error {
		made, err = a.batches.Create(ctx, who, n)
		return err
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireBatchOf(made, call.Language))
	return nil
}

// asCalled takes over what the request that makes a batch says of its lines.
func asCalled(n *batch.NewBatch, call *gateway.Call) {
	n.Source, n.Language, n.Purpose, n.OnBehalfOf, n.DataGrade = call.Source, languageTag(call.Language), call.Purpose, call.OnBehalfOf, call.DataGrade.String()
	call.Resource = n.ID
}

// newBatch decodes what a batch is to do.
func newBatch(f *fields) (batch.NewBatch, error) {
	n := batch.NewBatch{InputFile: f.needText("input_file_id"), Endpoint: f.needText("endpoint")}
	if w := f.needText("completion_window"); w != batch.WindowText {
		f.invalid("completion_window", fault.Say("httpapi.completion_window"))
	}
	if m, ok := f.object("metadata"); ok {
		n.Metadata = metadata(m)
		f.join(m)
	}
	if o, ok := f.object("output_expires_after"); ok {
		if anchor := o.needText("anchor"); anchor != "created_at" {
			o.invalid("anchor", fault.Say("value.one_of", "created_at"))
		}
		if s := o.integer("seconds", minFileLife, maxFileLife); s != nil {
			n.OutputLife = time.Duration(*s) * time.Second
		} else {
			o.fail(fault.CodeMissing, "seconds")
		}
		f.join(o)
	}
	return n, f.err
}

func metadata(f *fields) map[string]string {
	out := map[string]string{}
	for _, m := range f.m.All() {
		s, ok := textOf(m.Value)
		if !ok || len(out) == maxMetadata || utf8.RuneCountInString(m.Name) > maxMetadataName || utf8.RuneCountInString(s) > maxMetadataText {
			f.err = fault.New(fault.CodeInvalidValue, "metadata", fault.Say("httpapi.metadata", maxMetadata, maxMetadataName, maxMetadataText)).WithParam("metadata")
			return nil
		}
		out[m.Name] = s
	}
	return out
}

// listBatches answers GET /v1/batches.
func (a *API) listBatches(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	q := c.Request.URL.Query()
	limit, err := pageLimit(q, usualBatchPage, maxBatchPage)
	if err != nil {
		return err
	}
	page, more, err := a.lookForBatches(c, call, openAIBatches(), batch.Page{After: q.Get("after"), Limit: limit})
	if err != nil {
		return err
	}
	out := make([]wireBatch, len(page))
	for i, b := range page {
		out[i] = wireBatchOf(b, call.Language)
	}
	a.writeJSON(c, http.StatusOK, newPage(out, more, func(b wireBatch) string { return b.ID }))
	return nil
}

// dialectBatches are the batches that a dialect shows: those that were made in it, which their endpoints tell.
type dialectBatches []string

func openAIBatches() dialectBatches { return batch.Endpoints() }

func (d dialectBatches) of(who identity.Principal) batch.Scope {
	return batch.Scope{Owner: files.OwnerOf(who), Endpoints: d}
}

func (a *API) lookForBatches(c *gin.Context, call *gateway.Call, d dialectBatches, p batch.Page) (page []batch.Batch, more bool, err error) {
	err = a.pipeline.Look(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		page, more, err = a.batches.List(ctx, d.of(who), p)
		return err
	})
	return page, more, err
}

func (a *API) lookAtBatch(c *gin.Context, call *gateway.Call, d dialectBatches) (b batch.Batch, err error) {
	err = a.pipeline.Look(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		b, err = a.batches.Get(ctx, d.of(who), c.Param("id"))
		return err
	})
	return b, err
}

func (a *API) endBatch(c *gin.Context, call *gateway.Call, d dialectBatches) (b batch.Batch, err error) {
	call.Resource = truncate(c.Param("id"))
	err = a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) (err error) {
		b, err = a.batches.Cancel(ctx, d.of(who), c.Param("id"))
		return err
	})
	return b, err
}

// showBatch answers GET /v1/batches/{id}.
func (a *API) showBatch(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	b, err := a.lookAtBatch(c, call, openAIBatches())
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireBatchOf(b, call.Language))
	return nil
}

// cancelBatch answers POST /v1/batches/{id}/cancel.
func (a *API) cancelBatch(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	b, err := a.endBatch(c, call, openAIBatches())
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, wireBatchOf(b, call.Language))
	return nil
}

// languageTag is a language as Accept-Language names it.
func languageTag(l fault.Lang) string {
	if l == fault.Chinese {
		return "zh"
	}
	return "en"
}
