package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// errorType is the error.type of each kind, as the official clients know them.
func errorType(k fault.Kind) string {
	switch k {
	case fault.Invalid, fault.NotFound, fault.Method, fault.Conflict, fault.TooLarge:
		return "invalid_request_error"
	case fault.Unauthenticated:
		return "authentication_error"
	case fault.Denied:
		return "permission_error"
	case fault.Blocked:
		return "policy_violation"
	case fault.RateLimited:
		return "rate_limit_error"
	case fault.Quota:
		return "insufficient_quota"
	case fault.Internal, fault.Unavailable, fault.Timeout:
		return "server_error"
	}
	return "server_error"
}

// openAIRefusal renders an error with its four keys.
func openAIRefusal(p *fault.Error, lang fault.Lang, _ string) (int, any) {
	d := openai.ErrorDetail{Message: p.Message(lang), Type: errorType(p.Kind()), Code: string(p.Code())}
	if param := p.Param(); param != "" {
		d.Param = &param
	}
	return p.Kind().Status(), openai.ErrorBody{Error: d}
}

// plainError is the body of a refusal where clients look for one sentence. Code and param are ours.
type plainError struct {
	Error string     `json:"error"`
	Code  fault.Code `json:"code"`
	Param string     `json:"param,omitempty"`
}

// plainRefusal renders an error as Ollama and the Open Inference Protocol do.
func plainRefusal(e *fault.Error, lang fault.Lang, _ string) (int, any) {
	return e.Kind().Status(), plainError{Error: e.Message(lang), Code: e.Code(), Param: e.Param()}
}

// WriteError renders a refusal in the dialect of the request: the caller gets the public sentence in the language of Accept-Language. The private text is
// logged here, once, where something of ours or an engine is to blame. A caller who has left gets nothing.
func (a *API) WriteError(c *gin.Context, err error) {
	if a.gone(c, err) {
		return
	}
	p := fault.Public(err)
	if k := p.Kind(); k == fault.Internal || k == fault.Unavailable || k == fault.Timeout {
		a.log.Warn("refused", slog.String("request", c.GetString(keyRequestID)), slog.String("code", string(p.Code())), slog.Any("error", err))
	}
	a.headersOf(c, err)
	if d := a.dialect(c); d.fail != nil {
		d.fail(c, p)
		return
	}
	status, body := a.refusal(c, err)
	a.writeJSON(c, status, body)
}

// refusal renders an error in the dialect of the request.
func (a *API) refusal(c *gin.Context, err error) (status int, body any) {
	return a.dialect(c).refusal(fault.Public(err), language(c), c.GetString(keyRequestID))
}

// gone reports whether the error says that the caller has left; the access line then shows 499.
func (a *API) gone(c *gin.Context, err error) bool {
	if !errors.Is(err, context.Canceled) || c.Request.Context().Err() == nil {
		return false
	}
	if !c.Writer.Written() {
		c.Status(statusClientGone)
	}
	return true
}

const statusClientGone = 499

// headersOf adds the headers that belong to an error: where the caller's limits stand, the receipt of the refusal, and when to
// come back. Waits are rounded up, so that whoever obeys is not early.
func (a *API) headersOf(c *gin.Context, err error) {
	h := c.Writer.Header()
	var refusal *gateway.Refusal
	if errors.As(err, &refusal) {
		a.rateHeaders(c, refusal.Rate)
		if refusal.Receipt != "" {
			h.Set(headerReceipt, refusal.Receipt)
		}
	}
	var admitted *withHead
	if errors.As(err, &admitted) {
		a.headHeaders(c, admitted.head)
	}
	p := fault.Public(err)
	if wait := p.RetryAfter(); wait > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(math.Ceil(float64(wait)/float64(time.Millisecond))), 10))
	}
	switch p.Kind() {
	case fault.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="sluice"`)
	case fault.Quota: // a 429 that waiting does not mend
		h.Set("X-Should-Retry", "false")
	case fault.Conflict:
		if p.RetryAfter() == 0 { // official clients try a 409 again, as if somebody held a lock for a moment
			h.Set("X-Should-Retry", "false")
		}
	default:
	}
}

func language(c *gin.Context) fault.Lang { return acceptLanguage(c.GetHeader("Accept-Language")) }
