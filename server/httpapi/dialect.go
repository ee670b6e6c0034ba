package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/internal/fault"
)

// dialect is how a family of clients uses HTTP: where it shows its credential, and how it reads refusals, limits and streams. What a request
// means, the decoder of its endpoint says; what a reply says, its shape. A dialect is constant.
type dialect struct {
	name       string // in records
	credential func(*http.Request) string
	// refusal renders an error with a public sentence, of the request with this id, and the status that goes with it.
	refusal func(e *fault.Error, lang fault.Lang, request string) (status int, body any)
	// fail writes a refusal where that is no JSON; nil elsewhere.
	fail func(c *gin.Context, e *fault.Error)
	// requestID is another header for the id of a request, beside X-Request-Id; "" for none.
	requestID string
	// limits adds headers of its own about where the caller's limits stand, beside ours; nil for none.
	limits func(w *headerWriter, s limit.State, now time.Time)
	stream framing
}

// framing is how a dialect's streams are written.
type framing struct {
	contentType string
	// event appends one event to dst. data is JSON on one line; name is "" for what has none.
	event func(dst []byte, name string, data []byte) []byte
	// keepAlive is written when there was nothing else for a while; nil where clients would take it for an event.
	keepAlive []byte
	// failure is the name of an event that says that a stream has failed.
	failure string
}

// The names of the dialects, which records have.
const (
	dialectOpenAI    = "openai"
	dialectAnthropic = "anthropic"
	dialectOllama    = "ollama"
	dialectCohere    = "cohere"

	dialectOpenInference = "open_inference"
)

// openAI is the dialect of everybody who speaks no other.
func openAI() *dialect {
	return &dialect{
		name: dialectOpenAI, credential: bearer, refusal: openAIRefusal,
		stream: framing{contentType: eventStream, event: serverSentEvent, keepAlive: openai.AppendComment(nil, "keep-alive")},
	}
}

// eventStream is the content type of server-sent events.
const eventStream = "text/event-stream; charset=utf-8"

// serverSentEvent appends an event with its name, if it has one.
func serverSentEvent(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	return openai.AppendEvent(dst, data)
}

// keyDialect is the dialect of a request in the gin context, once that is known.
const keyDialect = "dialect"

// dialects are all there are.
type dialects struct {
	openAI, socket, anthropic, ollama, cohere, inference, rpc *dialect
}

func newDialects(cfg Config) dialects {
	return dialects{openAI: openAI(), socket: overSocket(cfg.SocketOrigins), anthropic: anthropic(), ollama: ollama(), cohere: cohere(), inference: openInference(), rpc: overRPC()}
}

// of returns the dialect of a request: that of its path, or the one that its headers show where dialects share a path.
func (d *dialects) of(r *http.Request) *dialect {
	if upgrades(r) {
		return d.socket
	}
	if strings.HasPrefix(r.URL.Path, "/v1/models") && r.Header.Get(headerAnthropicVersion) != "" {
		return d.anthropic
	}
	return d.ofPath(r.URL.Path)
}

func (d *dialects) ofPath(path string) *dialect {
	switch {
	case strings.HasPrefix(path, "/v1/messages"), path == "/v1/complete":
		return d.anthropic
	case ollamaPath(path):
		return d.ollama
	case coherePath(path):
		return d.cohere
	case inferencePath(path):
		return d.inference
	default:
		return d.openAI
	}
}

// Serves reports whether a path below /api/ is the data plane's. All others there are the management API's.
func Serves(path string) bool { return ollamaPath(path) }

// dialect is the dialect of the request in c.
func (a *API) dialect(c *gin.Context) *dialect {
	if d, ok := c.Get(keyDialect); ok {
		return d.(*dialect) //nolint:forcetypeassert // nobody else sets it
	}
	d := a.dialects.of(c.Request)
	c.Set(keyDialect, d)
	return d
}
