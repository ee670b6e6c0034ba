package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

const (
	messageBatches = "/messages/batches/" // behind /v1
	// maxMessagePage is the most that a page may be asked to have; it has maxBatchPage at most, and has_more.
	maxMessagePage = 1000
	// resultMemory is what a reader of results counts as; a longer answer counts more while it is written.
	resultMemory = 1 << 20
	// messageResultsLife is how long results of batches of messages are kept once these have ended, as Anthropic keeps them.
	messageResultsLife = 29 * 24 * time.Hour
)

func anthropicBatches() dialectBatches { return dialectBatches{batch.MessagesEndpoint} }

// wireMessageBatch is a batch in Anthropic's dialect.
type wireMessageBatch struct {
	ID                string            `json:"id"`
	Type              string            `json:"type"`
	ProcessingStatus  string            `json:"processing_status"`
	RequestCounts     wireMessageCounts `json:"request_counts"`
	EndedAt           *string           `json:"ended_at"`
	CreatedAt         string            `json:"created_at"`
	ExpiresAt         string            `json:"expires_at"`
	ArchivedAt        *string           `json:"archived_at"`
	CancelInitiatedAt *string           `json:"cancel_initiated_at"`
	ResultsURL        *string           `json:"results_url"`
}

type wireMessageCounts struct {
	Processing int64 `json:"processing"`
	Succeeded  int64 `json:"succeeded"`
	Errored    int64 `json:"errored"`
	Canceled   int64 `json:"canceled"`
	Expired    int64 `json:"expired"`
}

func (a *API) wireMessageBatchOf(c *gin.Context, b batch.Batch) wireMessageBatch {
	out := wireMessageBatch{
		ID: b.ID, Type: "message_batch", ProcessingStatus: "in_progress", RequestCounts: wireMessageCounts{Processing: b.Total},
		CreatedAt: *instant(b.Created), ExpiresAt: *instant(b.Expires), EndedAt: instant(b.EndedAt), CancelInitiatedAt: instant(b.CancellingAt),
	}
	if b.State == batch.Cancelling {
		out.ProcessingStatus = "canceling"
	}
	if b.EndedAt.IsZero() {
		return out // the counts move when a batch has ended, and not before
	}
	out.ProcessingStatus = "ended"
	out.RequestCounts = wireMessageCounts{Succeeded: b.Completed, Canceled: b.Cancelled, Expired: b.Expired, Errored: b.Total - b.Completed - b.Cancelled - b.Expired}
	if gone := b.ResultsGone; !gone.IsZero() && !a.now().Before(gone) {
		out.ArchivedAt = instant(gone)
	} else if b.OutputFile != "" || b.ErrorFile != "" {
		out.ResultsURL = some(a.base(c.Request) + messageBatches + b.ID + "/results")
	}
	return out
}

// base is the address of the business API as whoever sent a request knows it.
func (a *API) base(r *http.Request) string {
	if a.cfg.BaseURL == nil {
		return "/v1"
	}
	return a.cfg.BaseURL(r)
}

func instant(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format(time.RFC3339)
	return &s
}

// makeMessageBatch answers POST /v1/messages/batches. The requests go from the connection to the store one by one.
func (a *API) makeMessageBatch(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	made, err := a.takeMessageBatch(c, who, call)
	if err != nil {
		inflight.HangUp(c.Writer)
		return err
	}
	a.writeJSON(c, http.StatusOK, a.wireMessageBatchOf(c, made))
	return nil
}

func (a *API) takeMessageBatch(c *gin.Context, who identity.Principal, call *gateway.Call) (made batch.Batch, err error) {
	if err := a.inPieces(c); err != nil {
		return made, err
	}
	as, held := inflight.Caller{Tenant: who.Tenant, ID: who.ID}, max(uploadMemory, a.cfg.MaxBodyBytes)
	if err := a.bodies.Acquire(as, held); err != nil {
		return made, err
	}
	defer a.bodies.Release(as, held)
	n := batch.NewBatch{ID: "msg" + batch.NewID(), OutputLife: messageResultsLife}
	asCalled(&n, call)
	body := &valueReader{from: &patientReader{http.MaxBytesReader(c.Writer, c.Request.Body, a.files.Limits().MaxFileBytes), http.NewResponseController(c.Writer), a.now}, most: a.cfg.MaxBodyBytes}
	err = a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		in, err := a.batches.NewInput(ctx, files.OwnerOf(who))
		if err != nil {
			return err
		}
		defer in.Abort(ctx)
		if err := a.receiveRequests(body, in); err != nil {
			return err
		}
		made, err = a.batches.CreateFrom(ctx, who, n, in)
		return err
	})
	return made, err
}

// inPieces refuses what a body that is never held whole cannot be.
func (a *API) inPieces(c *gin.Context) error {
	if enc := c.GetHeader("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return fault.New(fault.CodeUnsupported, "Content-Encoding", fault.Say("httpapi.compressed")).WithParam("Content-Encoding")
	}
	if c.GetHeader(headerIdempotencyKey) != "" { // what a body asks is known when all of it has been done
		return fault.New(fault.CodeUnsupported, headerIdempotencyKey, fault.Say("httpapi.idempotent_batch")).WithParam(headerIdempotencyKey)
	}
	if limit := a.files.Limits().MaxFileBytes; c.Request.ContentLength > limit {
		return fault.New(fault.CodeFileTooLarge, limit)
	}
	return nil
}

// valueReader lets no more be read for one value than it may have, so that none has to be held which is longer.
type valueReader struct {
	from io.Reader
	most int64
	left int64
}

// errPiece ends the reading of a value that is too long.
var errPiece = errors.New("a value is too long")

func (p *valueReader) next() { p.left = p.most }

func (p *valueReader) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, errPiece
	}
	n, err := p.from.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	return n, err
}

// receiveRequests reads a body, {"requests": [...]}, to its end. Other members are passed over, as everywhere.
func (a *API) receiveRequests(body *valueReader, in *batch.Input) error {
	dec := json.NewDecoder(body)
	broken := func(err error) error { return a.brokenRequests(err, dec.InputOffset(), in) }
	body.next()
	if t, err := dec.Token(); err != nil {
		return broken(err)
	} else if t != json.Delim('{') {
		return fault.New(fault.CodeInvalidType, "body", fault.Say("type.object"))
	}
	for seen := false; ; {
		body.next()
		name, err := dec.Token()
		switch {
		case err != nil:
			return broken(err)
		case name == json.Delim('}'):
			if in.Total() == 0 {
				return fault.New(fault.CodeMissing, "requests").WithParam("requests")
			}
			return broken(rest(dec))
		case name != "requests":
			err = dec.Decode(new(json.RawMessage))
		case seen:
			return fault.New(fault.CodeInvalidValue, "requests", fault.Say("httpapi.one_list")).WithParam("requests")
		default:
			seen = true
			err = a.requestList(dec, body, in)
		}
		if err != nil {
			return broken(err)
		}
	}
}

// rest reports what stands behind a value that should be all.
func rest(dec *json.Decoder) error {
	_, err := dec.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = &json.SyntaxError{}
	}
	return err
}

func (a *API) requestList(dec *json.Decoder, body *valueReader, in *batch.Input) error {
	body.next()
	if t, err := dec.Token(); err != nil {
		return err
	} else if t != json.Delim('[') {
		return fault.New(fault.CodeInvalidType, "requests", fault.Say("type.array")).WithParam("requests")
	}
	for body.next(); dec.More(); body.next() {
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return err
		}
		if err := a.oneRequest(raw, in); err != nil {
			return err
		}
	}
	_, err := dec.Token()
	return err
}

// oneRequest gives a request to the input of a batch.
func (a *API) oneRequest(raw []byte, in *batch.Input) error {
	place := "requests[" + strconv.FormatInt(in.Total(), 10) + "]"
	f, err := parse(string(raw), a.cfg.MaxDepth+1) // what it asks has the depth that it has alone
	if err != nil {
		return fault.Public(err).WithParam(place)
	}
	f.path = place
	id := f.needText("custom_id")
	if _, ok := f.object("params"); !ok {
		f.fail(fault.CodeMissing, "params")
	}
	if f.err != nil {
		return f.err
	}
	asked, _ := f.raw("params")
	p, err := in.Add(id, []byte(asked))
	if p == nil {
		return err
	}
	field := place
	switch p.Param {
	case "":
	case "custom_id":
		field += ".custom_id"
	default: // of the body
		field += ".params" + strings.TrimPrefix(p.Param, "body")
	}
	why := p.Message()
	return fault.New(fault.CodeInvalidValue, field, why).WithParam(field)
}

// brokenRequests says what is wrong with a body that cannot be read, at is how much of it could.
func (a *API) brokenRequests(err error, at int64, in *batch.Input) error {
	var coded *fault.Error
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &tooLarge):
		return fault.New(fault.CodeFileTooLarge, a.files.Limits().MaxFileBytes)
	case errors.Is(err, errPiece):
		place := "requests[" + strconv.FormatInt(in.Total(), 10) + "]"
		return fault.New(fault.CodeInvalidValue, place, fault.Say("batch.line_too_long", a.cfg.MaxBodyBytes)).WithParam(place)
	default: // the decoder's own words would quote the body
		return fault.New(fault.CodeInvalidJSON, at)
	}
}

// listMessageBatches answers GET /v1/messages/batches.
func (a *API) listMessageBatches(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	q := c.Request.URL.Query()
	limit, err := pageLimit(q, usualBatchPage, maxMessagePage)
	if err != nil {
		return err
	}
	p := batch.Page{After: q.Get("after_id"), Before: q.Get("before_id"), Limit: min(limit, maxBatchPage)}
	if p.After != "" && p.Before != "" {
		return fault.New(fault.CodeInvalidValue, "before_id", fault.Say("httpapi.batch_page")).WithParam("before_id")
	}
	page, more, err := a.lookForBatches(c, call, anthropicBatches(), p)
	if err != nil {
		return err
	}
	list := make([]wireMessageBatch, len(page))
	for i, b := range page {
		list[i] = a.wireMessageBatchOf(c, b)
	}
	out := newPage(list, more, func(b wireMessageBatch) string { return b.ID })
	out.Object = "" // which Anthropic's lists have not
	a.writeJSON(c, http.StatusOK, out)
	return nil
}

// showMessageBatch answers GET /v1/messages/batches/{id}.
func (a *API) showMessageBatch(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	b, err := a.lookAtBatch(c, call, anthropicBatches())
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, a.wireMessageBatchOf(c, b))
	return nil
}

// cancelMessageBatch answers POST /v1/messages/batches/{id}/cancel.
func (a *API) cancelMessageBatch(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	b, err := a.endBatch(c, call, anthropicBatches())
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, a.wireMessageBatchOf(c, b))
	return nil
}

// deleteMessageBatch answers DELETE /v1/messages/batches/{id}.
func (a *API) deleteMessageBatch(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	id := c.Param("id")
	call.Resource = truncate(id)
	err := a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		return a.batches.Delete(ctx, anthropicBatches().of(who), id)
	})
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, struct {
		ID   string `json:"id"`
		Type string `json:"type"`
	}{id, "message_batch_deleted"})
	return nil
}

// wireMessageResult is a line of results in Anthropic's dialect.
type wireMessageResult struct {
	CustomID string `json:"custom_id"`
	Result   struct {
		Type    string          `json:"type"`
		Message json.RawMessage `json:"message,omitempty"`
		Error   json.RawMessage `json:"error,omitempty"`
	} `json:"result"`
}

// messageBatchResults answers GET /v1/messages/batches/{id}/results. What fails once some of it is out ends the connection: nobody may take a part for the
// whole.
func (a *API) messageBatchResults(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	call.Resource = truncate(c.Param("id"))
	as := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	if err := a.bodies.Acquire(as, resultMemory); err != nil {
		return err
	}
	defer a.bodies.Release(as, resultMemory)
	head := sync.OnceFunc(func() {
		c.Writer.Header().Set("Content-Type", "application/x-jsonl")
		c.Status(http.StatusOK)
	})
	w := &patientWriter{a, c, head}
	err := a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		return a.batches.Outcomes(ctx, anthropicBatches().of(who), c.Param("id"), func(o batch.Outcome) error {
			long := max(int64(len(o.Answer))-resultMemory, 0)
			if err := a.bodies.Acquire(as, long); err != nil {
				return err
			}
			defer a.bodies.Release(as, long)
			line, err := messageResult(o, call)
			if err == nil {
				_, err = w.Write(line)
			}
			return err
		})
	})
	if err != nil && c.Writer.Written() {
		panic(http.ErrAbortHandler)
	}
	return err
}

// messageResult renders an outcome as a line.
func messageResult(o batch.Outcome, call *gateway.Call) ([]byte, error) {
	out := wireMessageResult{CustomID: o.CustomID}
	r := &out.Result
	switch o.State {
	case batch.Completed:
		r.Type, r.Message = "succeeded", o.Answer
	case batch.Expired:
		r.Type = "expired"
	case batch.Cancelled:
		r.Type = "canceled"
	default:
		r.Type, r.Error = "errored", o.Answer
		if o.Answer == nil {
			body, err := encode(notAsked(o, call.RequestID))
			if err != nil {
				return nil, err
			}
			r.Error = bytes.TrimSpace(body)
		}
	}
	line, err := encode(out)
	return append(bytes.TrimSpace(line), '\n'), err
}

// notAsked is the error of a request that nobody was asked, with the words that its batch has for that.
func notAsked(o batch.Outcome, request string) anthropicError {
	out := anthropicError{Type: "error", RequestID: request}
	code := fault.Code(o.Code)
	_, out.Error.Type = anthropicErrorType(fault.New(code))
	out.Error.Code, out.Error.Message = code, o.Message
	return out
}

// versioned refuses requests of a version of Anthropic's dialect that is too old.
func versioned(handle func(*API, *gin.Context, identity.Principal, *gateway.Call) error) func(*API, *gin.Context, identity.Principal, *gateway.Call) error {
	return func(a *API, c *gin.Context, who identity.Principal, call *gateway.Call) error {
		if err := knownVersion(c); err != nil {
			return err
		}
		return handle(a, c, who, call)
	}
}
