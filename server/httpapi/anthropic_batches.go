package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/sluice-project/sluice/internal/sleep"
)

const (
	messageBatches = "/messages/batches/" // behind /v1
	// maxMessagePage is the most that a page may be asked to have; it has maxBatchPage at most, and has_more.
	maxMessagePage = 1000
	// resultMemory is what a reader of results counts as; a longer one counts more while it is written.
	resultMemory = 1 << 20
	// resultWait is how long a reader of results waits for room for a long one, and resultPoll how often it looks for it.
	resultWait, resultPoll = 20 * time.Second, 50 * time.Millisecond
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
	if b.State == batch.Failed { // its results are gone, of whatever it had
		out.RequestCounts = wireMessageCounts{Errored: b.Total}
		return out
	}
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
		inflight.HangUp(c.Writer, c.Request)
		return err
	}
	a.writeJSON(c, http.StatusOK, a.wireMessageBatchOf(c, made))
	return nil
}

func (a *API) takeMessageBatch(c *gin.Context, who identity.Principal, call *gateway.Call) (made batch.Batch, err error) {
	if err := a.inPieces(c); err != nil {
		return made, err
	}
	as := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	if err := a.bodies.Acquire(as, uploadMemory); err != nil {
		return made, err
	}
	defer a.bodies.Release(as, uploadMemory)
	n := batch.NewBatch{ID: "msg" + batch.NewID(), OutputLife: messageResultsLife}
	asCalled(&n, call)
	bounded := http.MaxBytesReader(c.Writer, c.Request.Body, a.files.Limits().MaxFileBytes)
	body := &valueReader{from: &patientReader{bounded, http.NewResponseController(c.Writer), a.now}, most: a.cfg.MaxBodyBytes, in: a.bodies, who: as}
	defer body.hold(0)
	err = a.pipeline.Act(c.Request.Context(), call, func(ctx context.Context, who identity.Principal) error {
		in, err := a.batches.NewInput(ctx, files.OwnerOf(who))
		if err != nil {
			return err
		}
		defer in.Abort(ctx)
		take := func(place string, raw []byte) error { return a.oneRequest(in, place, raw) }
		if err := a.newRequestReader(body, take).read(); err != nil {
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

// valueFrame is how many bytes may stand around a value: commas and space.
const valueFrame = 4 << 10

// valueReader reads a body value by value. It lets not much more be read for one than it may have, so that none has to be held which is longer, and counts what
// has come of the one that is being read: a client that sends little holds little.
type valueReader struct {
	from io.Reader
	most int64 // bytes of a value
	in   *inflight.Limiter
	who  inflight.Caller

	taken, begun int64 // of the body: what has come; where the value begins
	held         int64
	broke        error // of the connection
}

// errPiece ends the reading of a value that is too long.
var errPiece = errors.New("a value is too long")

// next begins a value at a place of the body, up to which nothing is held any more.
func (p *valueReader) next(at int64) {
	p.begun = at
	p.hold(p.taken - at)
}

// hold gives back what is held beyond n bytes.
func (p *valueReader) hold(n int64) {
	if less := p.held - n; less > 0 {
		p.in.Release(p.who, less)
		p.held = n
	}
}

func (p *valueReader) Read(b []byte) (int, error) {
	left := p.begun + p.most + valueFrame - p.taken
	if left <= 0 {
		return 0, errPiece
	}
	n, err := p.from.Read(b[:min(int64(len(b)), left)])
	if err != nil && !errors.Is(err, io.EOF) {
		p.broke = err
	}
	p.taken += int64(n)
	if refused := p.in.Acquire(p.who, int64(n)); refused != nil {
		return 0, refused
	}
	p.held += int64(n)
	return n, err
}

// requestReader reads a body, {"requests": [...]}, to its end. Other members are passed over, as everywhere.
type requestReader struct {
	a    *API
	body *valueReader
	dec  *json.Decoder // of body
	take func(place string, raw []byte) error

	n     int64  // requests that were taken
	place string // what is being read, for errors
}

func (a *API) newRequestReader(body *valueReader, take func(place string, raw []byte) error) *requestReader {
	return &requestReader{a: a, body: body, dec: json.NewDecoder(body), take: take}
}

// read returns what take has returned, or what is wrong with the body.
func (r *requestReader) read() error {
	if t, err := r.token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fault.New(fault.CodeInvalidType, "body", fault.Say("type.object"))
	}
	for listed := false; ; {
		name, err := r.token()
		switch {
		case err != nil:
			return err
		case name == json.Delim('}'):
			return r.end()
		case name != "requests":
			_, err = r.value(truncate(fmt.Sprint(name)))
		case listed:
			return fault.New(fault.CodeInvalidValue, "requests", fault.Say("httpapi.one_list")).WithParam("requests")
		default:
			listed = true
			err = r.list()
		}
		if err != nil {
			return err
		}
	}
}

func (r *requestReader) list() error {
	if t, err := r.token(); err != nil {
		return err
	} else if t != json.Delim('[') {
		return fault.New(fault.CodeInvalidType, "requests", fault.Say("type.array")).WithParam("requests")
	}
	for r.more() {
		place := "requests[" + strconv.FormatInt(r.n, 10) + "]"
		raw, err := r.value(place)
		if err == nil {
			err = r.take(place, raw)
		}
		if err != nil {
			return err
		}
		r.n++
	}
	_, err := r.token()
	return err
}

func (r *requestReader) more() bool {
	r.body.next(r.dec.InputOffset())
	return r.dec.More()
}

// end refuses a body without requests, and one that goes on behind its end.
func (r *requestReader) end() error {
	if r.n == 0 {
		return fault.New(fault.CodeMissing, "requests").WithParam("requests")
	}
	r.body.next(r.dec.InputOffset())
	switch _, err := r.dec.Token(); {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return r.broken(&json.SyntaxError{})
	default:
		return r.broken(err)
	}
}

func (r *requestReader) token() (json.Token, error) {
	r.place = ""
	r.body.next(r.dec.InputOffset())
	t, err := r.dec.Token()
	return t, r.broken(err)
}

func (r *requestReader) value(place string) (raw json.RawMessage, err error) {
	r.place = place
	r.body.next(r.dec.InputOffset())
	if err := r.broken(r.dec.Decode(&raw)); err != nil {
		return nil, err
	}
	if int64(len(raw)) > r.body.most {
		return nil, r.tooLong()
	}
	return raw, nil
}

func (r *requestReader) tooLong() error {
	return fault.New(fault.CodeInvalidValue, cmp.Or(r.place, "body"), fault.Say("value.bytes_at_most", r.body.most)).WithParam(r.place)
}

// broken says why a body cannot be read.
func (r *requestReader) broken(err error) error {
	var coded *fault.Error
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &tooLarge):
		return fault.New(fault.CodeFileTooLarge, r.a.files.Limits().MaxFileBytes)
	case errors.Is(err, errPiece):
		return r.tooLong()
	case r.body.broke != nil: // nobody reads this but the log
		return fault.Wrap(r.body.broke, fault.CodeInvalidJSON, r.dec.InputOffset())
	default: // the decoder's own words would quote the body
		return fault.New(fault.CodeInvalidJSON, r.dec.InputOffset())
	}
}

// oneRequest gives a request to the input of a batch.
func (a *API) oneRequest(in *batch.Input, place string, raw []byte) error {
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
		room := func(n int64) (func(), error) { return a.roomForResult(ctx, as, n) }
		return a.batches.Outcomes(ctx, anthropicBatches().of(who), c.Param("id"), room, func(o batch.Outcome) error {
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

// roomForResult counts a result of n bytes, and waits for a while where there is no room for it: what is out of the answer would be lost. One that is longer than
// the caller may hold at all counts as all of that. Errors: as of [inflight.Limiter.Acquire]; of ctx.
func (a *API) roomForResult(ctx context.Context, as inflight.Caller, n int64) (release func(), err error) {
	long := max(min(n, a.bodies.PerCaller())-resultMemory, 0)
	waiting, stop := context.WithTimeout(ctx, resultWait)
	defer stop()
	for {
		if err = a.bodies.Acquire(as, long); err == nil {
			return func() { a.bodies.Release(as, long) }, nil
		}
		if !sleep.For(waiting, resultPoll) {
			return nil, cmp.Or(ctx.Err(), err)
		}
	}
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
