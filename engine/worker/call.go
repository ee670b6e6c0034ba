package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

var (
	errClosed = errors.New("the client of the worker was closed")
	errLost   = errors.New("the worker has not been heard of for too long")
	errEarly  = errors.New("the worker ended the answer early")
)

// call is one request to the worker and its reply.
type call struct {
	c      *Client
	caller context.Context //nolint:containedctx // lives as long as the call
	ctx    context.Context //nolint:containedctx // ends with the caller, the client, or when the worker is lost
	cancel context.CancelCauseFunc
	model  engine.ModelID
	sent   atomic.Bool // the request has left
	body   io.ReadCloser
	buffer *bufio.Reader
}

// post sends an order and returns the call once the worker has said 200; nil if it does not hold the prompt that the order names.
func (c *Client) post(ctx context.Context, path string, order any, model engine.ModelID) (*call, error) {
	c.start()                                                        //nolint:contextcheck // looks at the worker have a life of their own
	x, resp, err := c.send(ctx, http.MethodPost, path, order, model) //nolint:bodyclose // end closes it
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return x, nil
	case http.StatusGone:
		x.end()
		return nil, nil //nolint:nilnil // the prompt is gone, which is no error
	}
	defer x.end()
	return nil, x.refusal(resp)
}

// send asks the worker for anything. The caller ends the call.
func (c *Client) send(caller context.Context, method, path string, order any, model engine.ModelID) (*call, *http.Response, error) {
	if err := caller.Err(); err != nil {
		return nil, nil, fmt.Errorf("ask the worker: %w: %w", engine.ErrNotReached, err)
	}
	x := &call{c: c, caller: caller, model: model}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	c.track(x)
	resp, err := x.do(method, path, order) //nolint:contextcheck // the context is that of the call
	if err != nil {
		x.end()
		return nil, nil, err
	}
	x.body = resp.Body
	return x, resp, nil
}

func (x *call) do(method, path string, order any) (*http.Response, error) {
	if x.c.closed.Err() != nil {
		return nil, x.failure(errClosed)
	}
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.sent.Store(true) }})
	var body io.Reader
	if order != nil {
		raw, err := sent(order)
		if err != nil {
			return nil, err
		}
		body = raw
	}
	req, err := http.NewRequestWithContext(ctx, method, x.c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("ask the worker: %w", err)
	}
	// A worker that was restarted has closed the connections that are kept. Without a value the key is not sent, but lets a request on such a one be
	// repeated on a new one if no byte has come back.
	req.Header["Idempotency-Key"] = nil
	resp, err := x.c.http.Do(req)
	if err != nil {
		return nil, x.failure(err)
	}
	return resp, nil
}

// reader reads the body of the reply.
func (x *call) reader() *bufio.Reader {
	x.buffer = x.c.buffers.Get().(*bufio.Reader)
	x.buffer.Reset(x.body)
	return x.buffer
}

// whole reads the end of a reply of which all is read, so that its connection is kept.
func (x *call) whole() { _, _ = x.buffer.ReadByte() }

// end frees everything that the call holds; the connection is closed unless the reply was read to its end.
func (x *call) end() {
	x.c.untrack(x)
	x.cancel(nil)
	if x.body != nil {
		_ = x.body.Close()
	}
	if x.buffer != nil {
		x.buffer.Reset(nil)
		x.c.buffers.Put(x.buffer)
		x.buffer = nil
	}
}

// failure classifies an error of the connection.
func (x *call) failure(err error) error {
	var dial *dialError
	cause := context.Cause(x.ctx)
	unsent := !x.sent.Load()
	switch {
	case x.caller.Err() != nil && unsent:
		return fmt.Errorf("ask the worker: %w: %w", engine.ErrNotReached, x.caller.Err())
	case x.caller.Err() != nil:
		return fmt.Errorf("ask the worker: %w", x.caller.Err())
	case (errors.Is(err, errClosed) || errors.Is(cause, errClosed)) && unsent: // workers go while the gateway runs: another one may take it
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, errClosed), fault.CodeEngineUnavailable, string(x.model)).WithRetryAfter(time.Second)
	case errors.Is(err, errClosed) || errors.Is(cause, errClosed):
		return fault.Wrap(errClosed, fault.CodeEngineUnavailable, string(x.model))
	case errors.Is(cause, errLost):
		err = cause
	case errors.As(err, &dial): // net/http adds a URL that is none
		err = dial
	}
	x.doubt()
	if unsent {
		err = fmt.Errorf("%w: %w", engine.ErrNotReached, err)
	}
	return fault.Wrap(err, fault.CodeEngineUnavailable, string(x.model)).WithRetryAfter(time.Second)
}

// doubt has the worker looked at, if this is not the look.
func (x *call) doubt() {
	if x.model != "" {
		x.c.doubt()
	}
}

// refusal reads an answer that is no 200.
func (x *call) refusal(resp *http.Response) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return x.failure(err)
	}
	return x.refused(raw, fmt.Errorf("the worker answered %d", resp.StatusCode))
}

// refused is the error that the worker sent. What is no error of this product says that the other end is no worker of this version.
func (x *call) refused(raw []byte, cause error) error {
	var r refusal
	if json.Unmarshal(raw, &r) != nil || r.Code == "" {
		return fault.Wrap(fmt.Errorf("%w, without a reason that this release knows; are both ends of the same release?", cause), fault.CodeUpstreamFailed, string(x.model))
	}
	if r.NotReached {
		x.doubt()
		cause = fmt.Errorf("%w: %w", cause, engine.ErrNotReached)
	}
	if r.CallerLimit {
		cause = fmt.Errorf("%w: %w", cause, engine.ErrCallerLimit)
	}
	return r.Error(cause)
}

func decodeReply(raw []byte, reply any, model engine.ModelID) error {
	if reply == nil {
		return nil
	}
	if json.Unmarshal(raw, reply) != nil { // what the decoder says may quote a text
		return fault.Wrap(errors.New("the worker's reply is not what it should be"), fault.CodeUpstreamFailed, string(model))
	}
	return nil
}
