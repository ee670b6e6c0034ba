package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
)

var (
	errClosed      = errors.New("the engine was closed")
	errNoFirstByte = errors.New("the upstream was silent for too long")
)

// httpCall is one request to the upstream and its reply, with a watch that ends it when the upstream falls silent. While a whole reply is
// made the upstream says nothing, so only the caller's own deadline runs then.
type httpCall struct {
	apiCall

	e      *Engine
	caller context.Context //nolint:containedctx // lives as long as the call
	ctx    context.Context //nolint:containedctx // ends with the caller, the engine, or the watch
	model  model
	sent   atomic.Bool // the request has left

	cancel context.CancelCauseFunc
	stop   func() bool
	watch  *time.Timer // nil while a whole answer is awaited
	body   io.ReadCloser
}

// apiCall is what an exchange has to know of its request.
type apiCall struct {
	needs  int  // tokens it may need, for a context overflow
	format bool // it asks for a format, which may be what is refused
	whole  bool // it asks for a generated answer in one piece
	root   bool // its path stands below the root of the server, and not below that of the dialect
}

// post sends body and returns the exchange once the upstream has answered 200.
func (e *Engine) post(caller context.Context, m model, path string, body any, q apiCall) (*httpCall, error) {
	x := &httpCall{apiCall: q, e: e, caller: caller, model: m}
	x.ctx, x.cancel = context.WithCancelCause(caller)
	x.stop = context.AfterFunc(e.closed, func() { x.cancel(errClosed) }) //nolint:contextcheck // the engine has a life of its own
	if !q.whole {
		x.watchSilence(e.cfg.FirstByteTimeout)
	}
	if err := x.send(path, body); err != nil { //nolint:contextcheck // the context is that of the exchange
		x.end()
		return nil, err
	}
	return x, nil
}

// watchSilence ends the call when the upstream has said nothing for so long.
func (x *httpCall) watchSilence(after time.Duration) {
	x.watch = time.AfterFunc(after, func() { x.cancel(errNoFirstByte) })
}

// ask posts body and reads the whole reply, which is JSON of at most limit bytes.
func (e *Engine) ask(ctx context.Context, m model, path string, body any, q apiCall, limit int64, reply any) error {
	x, err := e.post(ctx, m, path, body, q)
	if err != nil {
		return err
	}
	defer x.end()
	raw, err := io.ReadAll(io.LimitReader(x.body, limit))
	if err != nil {
		return x.failure(err)
	}
	if json.Unmarshal(raw, reply) != nil {
		return fault.Wrap(errors.New("the reply to "+path+" is not what it should be"), fault.CodeUpstreamFailed, m.ID)
	}
	return nil
}

// maxStale bounds the kept connections that one request may find closed.
const maxStale = 3

// send sends the request. A kept connection that the upstream closes while the request is being written fails it in ways of which the transport
// repeats only some: so one on which no byte has come back is left for another.
func (x *httpCall) send(path string, body any) error {
	for stale := 0; ; stale++ {
		var kept, answered atomic.Bool
		resp, err := x.do(path, body, &httptrace.ClientTrace{ //nolint:bodyclose // end closes it
			GotConn:              func(c httptrace.GotConnInfo) { kept.Store(c.Reused) },
			WroteRequest:         func(w httptrace.WroteRequestInfo) { x.sent.Store(x.sent.Load() || w.Err == nil) },
			GotFirstResponseByte: func() { answered.Store(true) },
		})
		switch {
		case err == nil:
			return x.accept(resp)
		case !kept.Load() || answered.Load() || x.ctx.Err() != nil || stale == maxStale || !closedByPeer(err):
			return x.failure(err)
		}
	}
}

// closedByPeer reports whether a connection was closed at the other end. Streams of HTTP/2 that are reset are none: the connection is there.
func closedByPeer(err error) bool {
	for _, is := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, net.ErrClosed} {
		if errors.Is(err, is) {
			return true
		}
	}
	return strings.Contains(err.Error(), "server closed idle connection") // an error that net/http keeps for itself
}

// do makes the request, and carries it out once.
func (x *httpCall) do(path string, body any, trace *httptrace.ClientTrace) (*http.Response, error) {
	encoded, size, err := encode(body)
	if err != nil {
		return nil, err
	}
	ctx := httptrace.WithClientTrace(x.ctx, trace)
	base := x.e.base
	if x.root {
		base = strings.TrimSuffix(base, x.model.profile.Endpoints.Base)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, encoded)
	if err != nil {
		return nil, fmt.Errorf("build upstream request: %w", err)
	}
	req.ContentLength, req.GetBody = size, func() (io.ReadCloser, error) {
		again, _, err := encode(body)
		return again, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sluice")
	// Some servers close connections that they said they would keep. Without a value the key is not sent, but lets a request on such a
	// connection be repeated on a new one if no byte has come back: asking twice does nothing that asking once does not.
	req.Header["Idempotency-Key"] = nil
	if key := x.e.cfg.APIKey.Reveal(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return x.e.client.Do(req)
}

// accept takes the reply, which end closes.
func (x *httpCall) accept(resp *http.Response) error {
	x.body = resp.Body
	if resp.StatusCode != http.StatusOK {
		return x.refusal(resp)
	}
	if x.whole && isStream(resp.Header.Get("Content-Type")) { // it streams all the same
		x.whole = false
		x.watchSilence(x.e.cfg.IdleTimeout)
	}
	return nil
}

// outgoing is an encoded request on its way. It lets go of its bytes as soon as they are sent: an answer may take minutes, and a request on hold has
// the texts already. What has to be sent once more is encoded anew. It is closed by other goroutines than that which reads.
type outgoing struct {
	mu   sync.Mutex
	rest []byte
}

func encode(body any) (*outgoing, int64, error) {
	j, err := json.Marshal(body)
	if err != nil {
		return nil, 0, fmt.Errorf("encode upstream request: %w", err)
	}
	return &outgoing{rest: j}, int64(len(j)), nil
}

func (o *outgoing) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, o.rest)
	if o.rest = o.rest[n:]; len(o.rest) == 0 {
		o.rest = nil
	}
	return n, nil
}

func (o *outgoing) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rest = nil
	return nil
}

// isStream reports whether a reply's type is that of a stream. Nearly all are JSON, which needs no parsing.
func isStream(contentType string) bool {
	if strings.HasPrefix(contentType, "application/json") {
		return false
	}
	kind, _, _ := mime.ParseMediaType(contentType)
	return kind == "text/event-stream"
}

// end frees everything the exchange holds; the connection is closed unless its reply was read to the end.
func (x *httpCall) end() {
	if x.watch != nil {
		x.watch.Stop()
	}
	x.stop()
	x.cancel(nil)
	if x.body != nil {
		_ = x.body.Close()
	}
}

// failure classifies an error of the connection.
func (x *httpCall) failure(err error) error {
	var timeout net.Error
	cause := context.Cause(x.ctx)
	switch {
	case x.caller.Err() != nil && !x.sent.Load():
		return fmt.Errorf("ask upstream: %w: %w", engine.ErrNotReached, x.caller.Err())
	case x.caller.Err() != nil:
		return fmt.Errorf("ask upstream: %w", x.caller.Err())
	case errors.Is(cause, errClosed) && !x.sent.Load():
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, cause), fault.CodeEngineUnavailable, x.model.ID)
	case errors.Is(cause, errClosed):
		return fault.Wrap(cause, fault.CodeEngineUnavailable, x.model.ID)
	case errors.Is(cause, errNoFirstByte):
		return fault.Wrap(cause, fault.CodeUpstreamTimeout, x.model.ID)
	case errors.Is(err, errAddress) && !x.sent.Load():
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, err), fault.CodeEngineUnavailable, x.model.ID)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.Wrap(err, fault.CodeUpstreamTimeout, x.model.ID)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		x.e.reach.doubt()
		if x.sent.Load() { // on a connection that was closed over it
			return fault.Wrap(err, fault.CodeUpstreamFailed, x.model.ID)
		}
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, err), fault.CodeEngineUnavailable, x.model.ID).WithRetryAfter(time.Second)
	}
	return fault.Wrap(err, fault.CodeUpstreamFailed, x.model.ID)
}

// refusal classifies a reply that is no 200. Only identifiers of its body are kept: its sentences may repeat the prompt.
func (x *httpCall) refusal(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return x.refused(x.model.profile.Errors.ReadRefusal(resp.StatusCode, resp.Header, raw))
}

// refused says what a refusal means by the rules of the profile.
func (x *httpCall) refused(r profile.Refusal) error {
	r.Format = x.format
	cause := fmt.Errorf("the upstream answered %d (type %q, code %q)", r.Status, identifier(r.Type), identifier(r.Code))
	switch r.Status {
	case 0: // it is a part of an answer
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout: // somebody between speaks for an engine of which he has not heard
	default:
		cause = fmt.Errorf("%w: %w", engine.ErrRefused, cause)
	}
	switch id := x.model.ID; x.model.profile.Errors.Fault(r) {
	case string(fault.CodeContextLength):
		return fault.Wrap(cause, fault.CodeContextLength, x.model.ContextTokens, x.needs).WithParam("messages")
	case "response_format":
		return fault.Wrap(cause, fault.CodeInvalidValue, "response_format", fault.Say("remote.format_refused")).WithParam("response_format")
	case string(fault.CodeUnsupported):
		return fault.Wrap(cause, fault.CodeUnsupported, "model", fault.Say("remote.unsupported")).WithParam("model")
	case string(fault.CodeModelNotFound):
		return fault.Wrap(cause, fault.CodeModelNotFound, id).WithParam("model")
	case string(fault.CodeEngineOverloaded):
		return fault.Wrap(cause, fault.CodeEngineOverloaded, id).WithRetryAfter(max(r.Retry, time.Second))
	case string(fault.CodeEngineUnavailable):
		return fault.Wrap(cause, fault.CodeEngineUnavailable, id).WithRetryAfter(time.Second)
	case string(fault.CodeUpstreamTimeout):
		return fault.Wrap(cause, fault.CodeUpstreamTimeout, id)
	default:
		return fault.Wrap(cause, fault.CodeUpstreamFailed, id)
	}
}

// identifier keeps what looks like a code and drops everything else: a number of more than five digits may be somebody's.
func identifier(s string) string {
	digits := 0
	odd := strings.ContainsFunc(s, func(r rune) bool {
		if '0' <= r && r <= '9' {
			digits++
			return false
		}
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || r == '_' || r == '-' || r == '.')
	})
	if odd || digits > 5 || len(s) > 64 {
		return "withheld"
	}
	return s
}
