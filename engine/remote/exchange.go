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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
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
	model  string
	limit  int         // the model's context
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
}

// post sends body and returns the exchange once the upstream has answered 200.
func (e *Engine) post(caller context.Context, m ModelConfig, path string, body any, q apiCall) (*httpCall, error) {
	x := &httpCall{apiCall: q, e: e, caller: caller, model: m.ID, limit: m.ContextTokens}
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

// ask posts body, which may need so many tokens, and reads the whole reply, which is JSON of at most limit bytes.
func (e *Engine) ask(ctx context.Context, m ModelConfig, path string, body any, needs int, limit int64, reply any) error {
	x, err := e.post(ctx, m, path, body, apiCall{needs: needs})
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

func (x *httpCall) send(path string, body any) error {
	encoded, size, err := encode(body)
	if err != nil {
		return err
	}
	ctx := httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { x.sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.e.base+path, encoded)
	if err != nil {
		return fmt.Errorf("build upstream request: %w", err)
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
	resp, err := x.e.client.Do(req) //nolint:bodyclose // end closes it
	if err != nil {
		return x.failure(err)
	}
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
	case errors.Is(cause, errClosed):
		return fault.Wrap(cause, fault.CodeEngineUnavailable, x.model)
	case errors.Is(cause, errNoFirstByte):
		return fault.Wrap(cause, fault.CodeUpstreamTimeout, x.model)
	case errors.Is(err, errAddress):
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, err), fault.CodeEngineUnavailable, x.model)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fault.Wrap(err, fault.CodeUpstreamTimeout, x.model)
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		x.e.reach.doubt()
		return fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, err), fault.CodeEngineUnavailable, x.model).WithRetryAfter(time.Second)
	}
	return fault.Wrap(err, fault.CodeUpstreamFailed, x.model)
}

// refusal classifies a reply that is no 200. Only identifiers of its body are kept: its sentences may repeat the prompt.
func (x *httpCall) refusal(resp *http.Response) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	var body openai.ErrorBody
	if json.Unmarshal(raw, &body) != nil || body.Error.Type == "" && body.Error.Code == nil {
		_ = json.Unmarshal(raw, &body.Error) // some servers leave the envelope out
	}
	return x.refused(resp.StatusCode, body.Error, wait(resp.Header.Get("Retry-After")))
}

func (x *httpCall) refused(status int, d openai.ErrorDetail, retry time.Duration) error {
	code := fmt.Sprint(d.Code)
	cause := fmt.Errorf("the upstream answered %d (type %q, code %q)", status, identifier(d.Type), identifier(code))
	switch {
	// vLLM and its relatives tell an overflow by their sentence only, llama.cpp by its type or, where it embeds and reranks, by a sentence.
	case code == "context_length_exceeded" || d.Type == "exceed_context_size_error",
		status == http.StatusBadRequest && strings.Contains(d.Message, "maximum context length"),
		status >= http.StatusBadRequest && strings.Contains(d.Message, "too large to process"):
		return fault.Wrap(cause, fault.CodeContextLength, x.limit, x.needs).WithParam("messages")
	case x.format && status == http.StatusBadRequest && aboutFormat(d.Message):
		return fault.Wrap(cause, fault.CodeInvalidValue, "response_format", fault.Say("remote.format_refused")).WithParam("response_format")
	case status == http.StatusNotFound:
		return fault.Wrap(cause, fault.CodeModelNotFound, x.model).WithParam("model")
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable && retry > 0:
		return fault.Wrap(cause, fault.CodeEngineOverloaded, x.model).WithRetryAfter(max(retry, time.Second))
	case status == http.StatusServiceUnavailable, status == http.StatusBadGateway:
		return fault.Wrap(cause, fault.CodeEngineUnavailable, x.model).WithRetryAfter(time.Second)
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		return fault.Wrap(cause, fault.CodeUpstreamTimeout, x.model)
	default:
		return fault.Wrap(cause, fault.CodeUpstreamFailed, x.model)
	}
}

// aboutFormat reports whether a sentence of an upstream is about the format that an answer shall have.
func aboutFormat(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{"grammar", "schema", "regex", "response_format", "structured"}, func(word string) bool {
		return strings.Contains(message, word)
	})
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

// wait reads a Retry-After header: seconds or a date, at most an hour.
func wait(header string) time.Duration {
	d := time.Duration(0)
	if s, err := strconv.ParseFloat(header, 64); err == nil && s > 0 {
		d = time.Duration(min(s, 3600) * float64(time.Second))
	} else if t, err := http.ParseTime(header); err == nil {
		d = time.Until(t)
	}
	return min(max(d, 0), time.Hour)
}
