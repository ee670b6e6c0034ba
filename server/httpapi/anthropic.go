package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// Headers of Anthropic's dialect.
const (
	headerAnthropicVersion = "Anthropic-Version"
	headerAnthropicKey     = "X-Api-Key"
)

// anthropicVersion is the oldest version of the dialect that is spoken here: the one that brought streams of named events. Clients send theirs, a
// date, with every request. What later ones have added does not change what is answered to older ones.
const anthropicVersion = "2023-06-01"

// statusOverloaded is what Anthropic's clients know an overloaded service by.
const statusOverloaded = 529

// anthropic is the dialect of Anthropic's messages.
func anthropic() *dialect {
	return &dialect{
		name: dialectAnthropic, credential: anthropicCredential, refusal: anthropicRefusal, requestID: "Request-Id", limits: anthropicLimits,
		stream: framing{
			contentType: eventStream, event: serverSentEvent, failure: "error",
			keepAlive: serverSentEvent(nil, "ping", []byte(`{"type":"ping"}`)),
		},
	}
}

// anthropicCredential returns the credential of a request in either of the headers that its clients use.
func anthropicCredential(r *http.Request) string {
	if key := strings.TrimSpace(r.Header.Get(headerAnthropicKey)); key != "" {
		return key
	}
	return bearer(r)
}

// anthropicError is the body of a refusal. Code and Param are ours: the type names a class of causes, the code the cause.
type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string     `json:"type"`
		Message string     `json:"message"`
		Code    fault.Code `json:"code"`
		Param   string     `json:"param,omitempty"`
	} `json:"error"`
	RequestID string `json:"request_id"`
}

func anthropicRefusal(e *fault.Error, lang fault.Lang, request string) (int, any) {
	out := anthropicError{Type: "error", RequestID: request}
	status, name := anthropicErrorType(e)
	out.Error.Type, out.Error.Message, out.Error.Code, out.Error.Param = name, e.Message(lang), e.Code(), e.Param()
	return status, out
}

// anthropicErrorType is the status and the type of an error, as Anthropic publishes them.
func anthropicErrorType(e *fault.Error) (status int, name string) {
	status = e.Kind().Status()
	switch e.Kind() {
	case fault.Invalid, fault.Method, fault.Conflict, fault.Blocked:
		return status, "invalid_request_error"
	case fault.Unauthenticated:
		return status, "authentication_error"
	case fault.Denied:
		return status, "permission_error"
	case fault.NotFound:
		return status, "not_found_error"
	case fault.TooLarge:
		return status, "request_too_large"
	case fault.RateLimited:
		return status, "rate_limit_error"
	case fault.Quota: // its clients try a 429 again
		return http.StatusPaymentRequired, "billing_error"
	case fault.Timeout:
		return status, "timeout_error"
	case fault.Unavailable:
		if code := e.Code(); code == fault.CodeEngineOverloaded || code == fault.CodeOverloaded {
			return statusOverloaded, "overloaded_error"
		}
		return status, "api_error"
	case fault.Internal:
	}
	return status, "api_error"
}

// anthropicLimits adds the headers that its clients look for. Their resets are instants.
func anthropicLimits(w *headerWriter, s limit.State, now time.Time) {
	for _, l := range [...]struct {
		of    string
		level limit.Level
	}{{"Requests", s.Requests}, {"Tokens", s.Tokens}} {
		if l.level.Limit == 0 {
			continue
		}
		name := "Anthropic-Ratelimit-" + l.of
		w.header(name+"-Limit", strconv.Itoa(l.level.Limit))
		w.header(name+"-Remaining", strconv.Itoa(l.level.Remaining))
		w.header(name+"-Reset", now.Add(l.level.Reset).UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339))
	}
}

// message answers POST /v1/messages.
func (a *API) message(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	if err := knownVersion(c); err != nil {
		return err
	}
	return a.generate(c, who, call, messageCall, messageShape{})
}

// countMessage answers POST /v1/messages/count_tokens.
func (a *API) countMessage(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	if err := knownVersion(c); err != nil {
		return err
	}
	decode := func(f *fields) error { return countMessageCall(f, call) }
	return a.counted(c, who, call, decode, func(reply *gateway.CountReply, x *extension) any {
		return struct {
			InputTokens int        `json:"input_tokens"`
			Sluice      *extension `json:"sluice"`
		}{reply.Tokens, x}
	})
}

// knownVersion refuses versions of the dialect that are too old. A request that names none is taken for one of a version that is not.
func knownVersion(c *gin.Context) error {
	all := c.Request.Header.Values(headerAnthropicVersion)
	if len(all) == 0 {
		return nil
	}
	v := all[0]
	if _, err := time.Parse(time.DateOnly, v); err != nil || v < anthropicVersion {
		return fault.New(fault.CodeInvalidValue, "anthropic-version", fault.Say("httpapi.anthropic_version", anthropicVersion)).WithParam("anthropic-version")
	}
	return nil
}

// anthropicModel is a model in the form of Anthropic's list.
type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
	MaxInput    int    `json:"max_input_tokens,omitempty"`
	Sluice      any    `json:"sluice"`
}

// anthropicModels are the models as Anthropic's clients list them, on one page.
func anthropicModels(all []gateway.Model, lang fault.Lang) any {
	list := make([]anthropicModel, len(all))
	for i, m := range all {
		list[i] = anthropicModelOf(m, lang)
	}
	out := newPage(list, false, func(m anthropicModel) string { return m.ID })
	out.Object = "" // which Anthropic's lists have not
	return out
}

func anthropicModelOf(m gateway.Model, lang fault.Lang) anthropicModel {
	common := modelOf(m, lang)
	return anthropicModel{
		Type: "model", ID: common.ID, DisplayName: common.ID, CreatedAt: time.Unix(common.Created, 0).UTC().Format(time.RFC3339),
		MaxInput: m.Info.ContextTokens, Sluice: common.Sluice,
	}
}

// messageID is the id of a message.
func messageID(request string) string { return "msg_" + strings.ReplaceAll(request, "-", "") }
