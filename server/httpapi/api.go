package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// Config bounds what the edge accepts. Zero values mean the defaults named at each field.
type Config struct {
	// MaxBodyBytes bounds one request body; 0 means 4 MiB.
	MaxBodyBytes int64 `koanf:"max_body_bytes"`
	// MaxInFlightBytes bounds the bodies held at one time; beyond it requests are refused with 503. 0 means 256 MiB.
	MaxInFlightBytes int64 `koanf:"max_in_flight_bytes"`
	// MaxInFlightPerTenant and MaxInFlightPerKey bound the part of them that one tenant and one key, or person, may hold; beyond it their
	// requests are refused with 429. 0 means a half and a quarter of all.
	MaxInFlightPerTenant int64 `koanf:"max_in_flight_per_tenant"`
	MaxInFlightPerKey    int64 `koanf:"max_in_flight_per_key"`
	// MaxDepth bounds the nesting of a body; 0 means 64.
	MaxDepth int `koanf:"max_depth"`
	// MaxChoices bounds n; 0 means 16, and 128 is the most.
	MaxChoices int `koanf:"max_choices"`
	// KeepAlive is the silence after which a waiting stream gets a comment, for a model with fallbacks once it has begun; 0 means 15 seconds.
	KeepAlive time.Duration `koanf:"keep_alive"`
	// WriteTimeout is how long a client may take to accept one event or reply; 0 means 30 seconds.
	WriteTimeout time.Duration `koanf:"write_timeout"`
	// KeepAnswers is how long responses, and answers to requests with an idempotency key, are kept; 0 means 24 hours.
	KeepAnswers time.Duration `koanf:"keep_answers"`
	// ForgetResponses keeps no response, whatever the caller says of store: nothing can go on from one.
	ForgetResponses bool `koanf:"forget_responses"`
	// SocketIdle is how long a WebSocket may be without a chat; 0 means 10 minutes.
	SocketIdle time.Duration `koanf:"socket_idle"`
	// SocketOrigins lists origins of web pages, such as https://chat.example, that may open WebSockets, beside those of this server.
	SocketOrigins []string `koanf:"socket_origins"`
	// TrustedProxies lists addresses or networks whose X-Forwarded-For is believed; empty believes nobody.
	TrustedProxies []string `koanf:"trusted_proxies"`

	// Version is that of the server, which one dialect tells. It is no setting.
	Version string `koanf:"-"`
	// BaseURL says under which address, with /v1, whoever sent a request reaches this API; nil: under a path without a host. It is no setting.
	BaseURL func(*http.Request) string `koanf:"-"`
	// PublicURL is where the server is reached from outside, whose web pages may open WebSockets; "" if only the requests say. It is set elsewhere.
	PublicURL string `koanf:"-"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if c.MaxBodyBytes < 0 || c.MaxInFlightBytes < 0 || c.MaxInFlightPerTenant < 0 || c.MaxInFlightPerKey < 0 || c.MaxDepth < 0 || c.KeepAlive < 0 || c.WriteTimeout < 0 || c.KeepAnswers < 0 || c.SocketIdle < 0 {
		return errors.New("limits and times: must not be negative")
	}
	for _, o := range c.SocketOrigins {
		if err := checkOrigin(o); err != nil {
			return err
		}
	}
	c = c.withDefaults()
	if c.MaxChoices < 1 || c.MaxChoices > maxChoices {
		return fmt.Errorf("max_choices: must lie between 1 and %d", maxChoices)
	}
	if min(c.MaxInFlightBytes, c.MaxInFlightPerTenant, c.MaxInFlightPerKey) < c.MaxBodyBytes {
		return errors.New("max_in_flight_bytes, max_in_flight_per_tenant and max_in_flight_per_key: must not be less than max_body_bytes")
	}
	return nil
}

// BodyLimit is the most bytes that the body of a request may have.
func (c Config) BodyLimit() int64 { return c.withDefaults().MaxBodyBytes }

// AnswerLife is how long answers are kept.
func (c Config) AnswerLife() time.Duration { return c.withDefaults().KeepAnswers }

func (c Config) withDefaults() Config {
	if c.KeepAnswers == 0 {
		c.KeepAnswers = 24 * time.Hour
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 4 << 20
	}
	if c.MaxInFlightBytes == 0 {
		c.MaxInFlightBytes = 256 << 20
	}
	if c.MaxInFlightPerTenant == 0 {
		c.MaxInFlightPerTenant = max(c.MaxInFlightBytes/2, c.MaxBodyBytes)
	}
	if c.MaxInFlightPerKey == 0 {
		c.MaxInFlightPerKey = max(c.MaxInFlightBytes/4, c.MaxBodyBytes)
	}
	if c.MaxDepth == 0 {
		c.MaxDepth = 64
	}
	if c.MaxChoices == 0 {
		c.MaxChoices = 16
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = 15 * time.Second
	}
	if c.SocketIdle == 0 {
		c.SocketIdle = 10 * time.Minute
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 30 * time.Second
	}
	return c
}

// Route is one row of the route table: what a request needs to be allowed to do.
type Route struct {
	Method, Path string
	Permission   access.Permission
}

// Routes returns the route table of the data plane.
func Routes() []Route {
	rows := table()
	out := make([]Route, len(rows))
	for i, r := range rows {
		out[i] = r.Route
	}
	return out
}

type row struct {
	Route

	action gateway.Action
	handle func(*API, *gin.Context, identity.Principal, *gateway.Call) error
}

func table() []row {
	return []row{
		{Route{http.MethodPost, "/v1/chat/completions", access.InferenceGenerate}, gateway.ActionChat, (*API).chat},
		{Route{http.MethodGet, socketPath, access.InferenceGenerate}, gateway.ActionChat, (*API).chatSocket},
		{Route{http.MethodPost, "/v1/completions", access.InferenceGenerate}, gateway.ActionCompletion, (*API).completion},
		{Route{http.MethodPost, "/v1/responses", access.InferenceGenerate}, gateway.ActionChat, (*API).response},
		{Route{http.MethodPost, "/v1/responses/input_tokens", access.InferenceGenerate}, gateway.ActionCount, (*API).countResponse},
		{Route{http.MethodGet, "/v1/responses/:id", access.InferenceGenerate}, gateway.ActionReadResponse, (*API).showResponse},
		{Route{http.MethodGet, "/v1/responses/:id/input_items", access.InferenceGenerate}, gateway.ActionReadResponse, (*API).responseInput},
		{Route{http.MethodDelete, "/v1/responses/:id", access.InferenceGenerate}, gateway.ActionDeleteResponse, (*API).deleteResponse},
		{Route{http.MethodPost, "/v1/messages", access.InferenceGenerate}, gateway.ActionChat, (*API).message},
		{Route{http.MethodPost, "/v1/messages/count_tokens", access.InferenceGenerate}, gateway.ActionCount, (*API).countMessage},
		{Route{http.MethodPost, "/v1/messages/batches", access.BatchesUse}, gateway.ActionBatch, kept(versioned((*API).makeMessageBatch))},
		{Route{http.MethodGet, "/v1/messages/batches", access.BatchesUse}, gateway.ActionReadBatches, kept(versioned((*API).listMessageBatches))},
		{Route{http.MethodGet, "/v1/messages/batches/:id", access.BatchesUse}, gateway.ActionReadBatches, kept(versioned((*API).showMessageBatch))},
		{Route{http.MethodPost, "/v1/messages/batches/:id/cancel", access.BatchesUse}, gateway.ActionCancelBatch, kept(versioned((*API).cancelMessageBatch))},
		{Route{http.MethodGet, "/v1/messages/batches/:id/results", access.BatchesUse}, gateway.ActionReadResults, kept(versioned((*API).messageBatchResults))},
		{Route{http.MethodDelete, "/v1/messages/batches/:id", access.BatchesUse}, gateway.ActionDeleteBatch, kept(versioned((*API).deleteMessageBatch))},
		{Route{http.MethodPost, "/v1/embeddings", access.InferenceEmbed}, gateway.ActionEmbed, (*API).embedding},
		{Route{http.MethodPost, "/v1/rerank", access.InferenceRerank}, gateway.ActionRerank, (*API).rerank},
		{Route{http.MethodPost, "/rerank", access.InferenceRerank}, gateway.ActionRerank, (*API).rerank}, // where clients of Jina and vLLM look for it
		{Route{http.MethodPost, "/v1/tokenize", access.InferenceGenerate}, gateway.ActionTokenize, (*API).tokenize},
		{Route{http.MethodPost, "/tokenize", access.InferenceGenerate}, gateway.ActionTokenize, (*API).tokenize}, // where clients of vLLM look for both
		{Route{http.MethodPost, "/v1/detokenize", access.InferenceGenerate}, gateway.ActionDetokenize, (*API).detokenize},
		{Route{http.MethodPost, "/detokenize", access.InferenceGenerate}, gateway.ActionDetokenize, (*API).detokenize},
		{Route{http.MethodPost, "/v1/moderations", access.InferenceGenerate}, gateway.ActionModerate, (*API).moderate},
		{Route{http.MethodPost, "/v2/rerank", access.InferenceRerank}, gateway.ActionRerank, (*API).cohereRerank},
		{Route{http.MethodPost, "/v1/score", access.InferenceRerank}, gateway.ActionScore, (*API).score},
		{Route{http.MethodGet, "/v1/openapi.yaml", access.ModelsRead}, gateway.ActionModels, (*API).showDocument},
		{Route{http.MethodGet, "/v1/models", access.ModelsRead}, gateway.ActionModels, (*API).models},
		{Route{http.MethodGet, "/v1/models/*id", access.ModelsRead}, gateway.ActionModels, (*API).model},
		{Route{http.MethodPost, "/api/chat", access.InferenceGenerate}, gateway.ActionChat, (*API).ollamaChat},
		{Route{http.MethodPost, "/api/generate", access.InferenceGenerate}, gateway.ActionChat, (*API).ollamaGenerate},
		{Route{http.MethodPost, "/api/embed", access.InferenceEmbed}, gateway.ActionEmbed, (*API).ollamaEmbed},
		{Route{http.MethodPost, "/api/embeddings", access.InferenceEmbed}, gateway.ActionEmbed, (*API).ollamaEmbedding},
		{Route{http.MethodGet, "/api/tags", access.ModelsRead}, gateway.ActionModels, (*API).ollamaTags},
		{Route{http.MethodPost, "/api/show", access.ModelsRead}, gateway.ActionModels, (*API).ollamaShow},
		{Route{http.MethodGet, "/api/ps", access.ModelsRead}, gateway.ActionModels, (*API).ollamaRunning},
		{Route{http.MethodGet, "/api/version", access.ModelsRead}, gateway.ActionModels, (*API).ollamaServer},
		{Route{http.MethodGet, "/v2", access.ModelsRead}, gateway.ActionModels, (*API).inferenceServer},
		{Route{http.MethodGet, "/v2/health/live", access.ModelsRead}, gateway.ActionModels, (*API).inferenceLive},
		{Route{http.MethodGet, "/v2/health/ready", access.ModelsRead}, gateway.ActionModels, (*API).inferenceReady},
		{Route{http.MethodGet, "/v2/models/*id", access.ModelsRead}, gateway.ActionModels, (*API).inferenceModel},
		{Route{http.MethodPost, "/v2/models/*id", access.InferenceEmbed}, gateway.ActionEmbed, (*API).infer},
		{Route{http.MethodPost, "/v1/rag/search", access.RAGSearch}, gateway.ActionSearch, (*API).search},
		{Route{http.MethodPost, "/v1/rag/passages", access.RAGSearch}, gateway.ActionPassage, (*API).passage},
		{Route{http.MethodPost, "/v1/files", access.BatchesUse}, gateway.ActionStoreFile, kept((*API).storeFile)},
		{Route{http.MethodGet, "/v1/files", access.BatchesUse}, gateway.ActionReadFiles, kept((*API).listFiles)},
		{Route{http.MethodGet, "/v1/files/:id", access.BatchesUse}, gateway.ActionReadFiles, kept((*API).showFile)},
		{Route{http.MethodGet, "/v1/files/:id/content", access.BatchesUse}, gateway.ActionReadContent, kept((*API).fileContent)},
		{Route{http.MethodDelete, "/v1/files/:id", access.BatchesUse}, gateway.ActionDeleteFile, kept((*API).deleteFile)},
		{Route{http.MethodPost, "/v1/batches", access.BatchesUse}, gateway.ActionBatch, kept((*API).makeBatch)},
		{Route{http.MethodGet, "/v1/batches", access.BatchesUse}, gateway.ActionReadBatches, kept((*API).listBatches)},
		{Route{http.MethodGet, "/v1/batches/:id", access.BatchesUse}, gateway.ActionReadBatches, kept((*API).showBatch)},
		{Route{http.MethodPost, "/v1/batches/:id/cancel", access.BatchesUse}, gateway.ActionCancelBatch, kept((*API).cancelBatch)},
	}
}

// pipeline is what the edge needs of gateway.Pipeline.
type pipeline interface {
	Authenticate(ctx context.Context, c *gateway.Call) (identity.Principal, error)
	Chat(ctx context.Context, c *gateway.Call) (*gateway.Reply, error)
	Embed(ctx context.Context, c *gateway.Call) (*gateway.EmbedReply, error)
	Score(ctx context.Context, c *gateway.Call) (*gateway.ScoreReply, error)
	Count(ctx context.Context, c *gateway.Call) (*gateway.CountReply, error)
	Moderate(ctx context.Context, c *gateway.Call) (*gateway.ModerateReply, error)
	Tokenize(ctx context.Context, c *gateway.Call) (*gateway.TokensReply, error)
	Detokenize(ctx context.Context, c *gateway.Call) (*gateway.TextReply, error)
	Search(ctx context.Context, c *gateway.Call) (*gateway.SearchReply, error)
	Passage(ctx context.Context, c *gateway.Call) (*gateway.SearchReply, error)
	Models(ctx context.Context, c *gateway.Call) ([]gateway.Model, error)
	Act(ctx context.Context, c *gateway.Call, do func(ctx context.Context, who identity.Principal) error) error
	Look(ctx context.Context, c *gateway.Call, do func(ctx context.Context, who identity.Principal) error) error
}

// API serves the data plane. It is safe for concurrent use.
type API struct {
	cfg      Config
	pipeline pipeline
	log      *slog.Logger
	metrics  *metrics
	bodies   *inflight.Limiter
	dialects dialects
	now      func() time.Time
	files    *files.Store   // nil: their routes are not there
	batches  *batch.Service // the same
	replies  *replies.Store // nil: no answer is kept
	handler  http.Handler   // of the data plane, once its routes are registered

	drain    sync.Once
	draining chan struct{} // closed when the server stops
}

// New returns the edge of a pipeline. reg may be nil.
func New(cfg Config, p pipeline, log *slog.Logger, reg prometheus.Registerer) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	cfg = cfg.withDefaults()
	cfg.SocketOrigins = cfg.pageOrigins()
	bodies := inflight.New(inflight.Config{All: cfg.MaxInFlightBytes, PerTenant: cfg.MaxInFlightPerTenant, PerCaller: cfg.MaxInFlightPerKey})
	return &API{
		cfg: cfg, pipeline: p, log: log.With(slog.String("component", "http")), metrics: newMetrics(reg, bodies), now: time.Now, bodies: bodies,
		dialects: newDialects(cfg), draining: make(chan struct{}),
	}, nil
}

// Bodies is what bounds the bytes of bodies, for the other plane, too.
func (a *API) Bodies() *inflight.Limiter { return a.bodies }

// NewEngine returns a gin engine without default middleware, which trusts no proxy but the configured ones, with the edge's
// middleware and no routes. An unknown path, and an unknown method of a known path, are refused by fail.
func (a *API) NewEngine(fail func(*gin.Context, error)) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.RedirectTrailingSlash = false
	e.ContextWithFallback = true
	if err := e.SetTrustedProxies(a.cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("http: trusted_proxies: %w", err)
	}
	e.Use(a.Middleware())
	e.NoRoute(func(c *gin.Context) {
		fail(c, fault.New(fault.CodeNotFound, fault.Say("thing.path"), truncate(c.Request.URL.Path)))
	})
	e.NoMethod(func(c *gin.Context) { // gin has set Allow
		fail(c, fault.New(fault.CodeMethodNotAllowed, truncate(c.Request.URL.Path), truncate(c.Request.Method)))
	})
	return e, nil
}

// Drain has WebSockets end, each after the chat that runs: a server that stops does not know of them. It may be called again.
func (a *API) Drain() { a.drain.Do(func() { close(a.draining) }) }

// Register adds the data plane's routes.
func (a *API) Register(r *gin.Engine) {
	a.handler = r
	for _, row := range table() {
		r.Handle(row.Method, row.Path, func(c *gin.Context) {
			call := a.call(c, row.Permission)
			call.Plane = identity.DataPlane
			call.Route = row.Method + " " + strings.TrimSuffix(row.Path, "/*id")
			call.Action = row.action
			defer a.releaseClaim(c)
			err := a.answer(c, call, row.handle)
			var again *replayed
			switch {
			case errors.As(err, &again):
				a.replay(c, again)
			case err != nil:
				a.WriteError(c, err)
			}
		})
	}
	a.registerElsewhere(r)
}

// Playground answers a chat on the admin plane, for a signed-in user. fail renders a refusal in the dialect of that plane; what
// fails after the first byte is an error event as everywhere.
func (a *API) Playground(fail func(*gin.Context, error)) gin.HandlerFunc {
	return a.onAdminPlane(access.PlaygroundUse, gateway.ActionChat, (*API).chat, fail)
}

// StoreFile takes a file on the admin plane, for a signed-in user, in the form of POST /v1/files.
func (a *API) StoreFile(fail func(*gin.Context, error)) gin.HandlerFunc {
	return a.onAdminPlane(access.BatchesUse, gateway.ActionStoreFile, kept((*API).storeFile), fail)
}

// BatchFile sends the content of a file of a batch on the admin plane, for a signed-in user. The route names the batch and which of its files.
func (a *API) BatchFile(fail func(*gin.Context, error)) gin.HandlerFunc {
	return a.onAdminPlane(access.BatchesUse, gateway.ActionReadContent, kept((*API).batchFile), fail)
}

func (a *API) onAdminPlane(perm access.Permission, action gateway.Action, handle func(*API, *gin.Context, identity.Principal, *gateway.Call) error, fail func(*gin.Context, error)) gin.HandlerFunc {
	return func(c *gin.Context) {
		call := a.call(c, perm)
		call.Plane = identity.AdminPlane
		call.Route = c.Request.Method + " " + c.FullPath()
		call.Action = action
		if err := a.answer(c, call, handle); err != nil && !a.gone(c, err) {
			a.headersOf(c, err)
			fail(c, err)
		}
	}
}

// answer lets a caller who has proved who he is be answered: of anybody else not a byte of the body is read.
func (a *API) answer(c *gin.Context, call *gateway.Call, handle func(*API, *gin.Context, identity.Principal, *gateway.Call) error) error {
	who, err := a.pipeline.Authenticate(c.Request.Context(), call)
	if err == nil {
		err = urgencyHeaders(c.GetHeader(headerClass), c.GetHeader(headerFirstTokenTimeout), call)
	}
	if err == nil {
		err = dataGradeHeader(c.Request.Header.Values(headerDataGrade), call)
	}
	if err == nil {
		err = signHeader(c.GetHeader(signature.Header), call)
	}
	if err != nil {
		inflight.HangUp(c.Writer, c.Request)
		return err
	}
	return handle(a, c, who, call)
}

func truncate(s string) string {
	if len(s) > 100 {
		s = s[:100]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// call starts the gateway call of a request.
func (a *API) call(c *gin.Context, perm access.Permission) *gateway.Call {
	d := a.dialect(c)
	if d.requestID != "" {
		c.Header(d.requestID, c.GetString(keyRequestID))
	}
	line := lineOf(c.Request.Context())
	call := &gateway.Call{
		As: line.as, Batch: line.batch,
		Permission: perm, RequestID: c.GetString(keyRequestID), Source: c.ClientIP(), Dialect: d.name, Language: language(c),
		Received: c.GetTime(keyReceived), Credential: d.credential(c.Request), Logprobs: -1,
	}
	for _, h := range []string{"X-Client-Request-Id", "X-Request-Id"} {
		if id := c.GetHeader(h); validRequestID(id, 64) {
			call.ClientID = id
			break
		}
	}
	if s := c.GetHeader("X-Sluice-Session"); validRequestID(s, 128) {
		call.Session = s
	}
	call.OnBehalfOf = c.GetHeader("X-Sluice-On-Behalf-Of") // any text: only its digest is recorded
	if s := c.GetHeader("X-Sluice-Purpose"); governance.ValidPurpose(s) {
		call.Purpose = s
	}
	return call
}

// bearer returns the credential of a request, "" if it shows none.
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
