package worker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/internal/fault"
)

// Config says where a worker is. Zero durations mean the defaults named at each field.
type Config struct {
	Endpoint `koanf:",squash"`
	// ServerName is the name in the worker's certificate; "" means the host of Address.
	ServerName string `koanf:"server_name"`
	// Models lists what may be used of the worker; empty means all that it has.
	Models []string `koanf:"models"`
	// Local: the worker runs on this machine, whose declared power its requests are accounted by.
	Local bool `koanf:"local"`
	// ConnectTimeout bounds connecting and the TLS handshake; 0 means 5 seconds.
	ConnectTimeout time.Duration `koanf:"connect_timeout"`
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	if err := c.Endpoint.Validate(); err != nil {
		return err
	}
	if slices.Contains(c.Models, "") {
		return errors.New("models: a name is empty")
	}
	if c.ConnectTimeout < 0 {
		return errors.New("connect_timeout: must not be negative")
	}
	return nil
}

const (
	maxHealth  = 16 << 20 // bytes of what a worker answers
	maxReply   = 1 << 20
	maxMetrics = 32 << 20
	maxTokens  = 1 << 30 // bytes of a prompt's tokens, of which each has some in what comes back
)

// Client asks one worker. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	http *http.Client

	begin  sync.Once
	looked chan struct{}   // closed when the first look is over
	doubts chan struct{}   // a look is due at once
	closed context.Context //nolint:containedctx // ends when the client is closed
	close  context.CancelFunc
	once   sync.Once

	heard   atomic.Int64 // when the worker was heard of last, in nanoseconds
	buffers sync.Pool    // of *bufio.Reader

	mu      sync.Mutex
	health  Health
	cause   error // why there are no models; nil while there are
	running map[*call]struct{}
	forget  map[string]uint64 // tenants that the worker has not forgotten yet, each with the number of the last demand
	demands uint64
}

var _ engine.Engine = (*Client)(nil)

// New returns an engine over the worker of cfg. It does not connect before it is asked for something, be it its models; from then on it looks at the
// worker once a second until it is closed.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 5*time.Second)
	c := &Client{
		cfg: cfg, base: "http://worker" + prefix, looked: make(chan struct{}), doubts: make(chan struct{}, 1),
		buffers: sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 16<<10) }},
		running: map[*call]struct{}{}, forget: map[string]uint64{}, health: Health{State: Unreachable},
		http: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			// What is dialled is secure by itself: a socket of this account, or a connection with TLS. To the transport it is plain.
			Transport: &http.Transport{DialContext: cfg.dialer(), DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second},
		},
	}
	c.closed, c.close = context.WithCancel(context.Background())
	return c, nil
}

// prepared is what this client keeps of a prompt.
type prepared struct {
	of   *Client
	id   string      // of the worker's
	work engine.Work // with the segments that were kept, each of which is tokenised by itself: sent again it gives the same tokens
	// What was made of it: a prompt that was changed since is prepared as it is.
	request engine.Request
	embed   engine.EmbedRequest
	score   engine.ScoreRequest
}

// Models implements engine.Engine: it answers from the latest look. Error: CodeEngineUnavailable while the worker cannot be reached, loads or has
// failed. One that warms up or drains has its models still, and takes no work: [Client.Health] says so.
func (c *Client) Models(ctx context.Context) ([]engine.Model, error) {
	h, err := c.state(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(h.Models), nil
}

// Prepare implements engine.Engine: the worker prepares, and holds what it has made.
func (c *Client) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	if q, ok := w.(*engine.Request); ok && q != nil {
		if err := noHook(q); err != nil {
			return nil, err
		}
	}
	asked, err := workOf(w, time.Now())
	if err == nil {
		err = c.offers(asked.model())
	}
	if err != nil {
		return nil, err
	}
	var got preparedReply
	if err := c.ask(ctx, "prepare", asked, maxReply, &got); err != nil {
		return nil, err
	}
	p := &engine.Prompt{Tokens: got.Tokens, Exact: got.Exact, SegmentsKept: got.SegmentsKept}
	own := &prepared{of: c, id: got.Prompt, work: w}
	p.Prepared = own
	switch q := w.(type) {
	case *engine.Request:
		if got.SegmentsKept < 0 || got.SegmentsKept > len(q.Segments) {
			return nil, fault.Wrap(errors.New("the worker kept segments that there are not"), fault.CodeUpstreamFailed, string(q.Model))
		}
		p.Request = q.Keep(got.SegmentsKept)
		p.Request.MaxTokens = got.MaxTokens
		own.request = *p.Request
		again := *q
		again.Segments = q.Segments[:got.SegmentsKept]
		own.work = &again
	case *engine.EmbedRequest:
		p.Embed, own.embed = q, *q
	case *engine.ScoreRequest:
		p.Score, own.score = q, *q
	}
	return p, nil
}

func noHook(q *engine.Request) error {
	if q.Hook == nil {
		return nil
	}
	return fault.New(fault.CodeUnsupported, "hook", fault.Say("remote.no_token_choice")).WithParam("hook")
}

// held returns what this client has prepared of a prompt; nil if the prompt is not its own, or was changed.
func (c *Client) held(p *engine.Prompt) *prepared {
	own, ok := p.Prepared.(*prepared)
	switch {
	case !ok || own.of != c:
		return nil
	case p.Request != nil && reflect.DeepEqual(*p.Request, own.request), // what both share is compared by address
		p.Embed != nil && reflect.DeepEqual(*p.Embed, own.embed),
		p.Score != nil && reflect.DeepEqual(*p.Score, own.score):
		return own
	}
	return nil
}

// run has the worker run a prompt: what it holds of it, or else the whole.
func (c *Client) run(ctx context.Context, path string, p *engine.Prompt, w engine.Work) (*call, error) {
	if err := c.offers(modelOf(w)); err != nil {
		return nil, err
	}
	if own := c.held(p); own != nil {
		x, err := c.post(ctx, path, &work{Prompt: own.id}, modelOf(w))
		if err != nil || x != nil {
			return x, err
		}
		w = own.work
	}
	asked, err := workOf(w, time.Now())
	if err != nil {
		return nil, err
	}
	x, err := c.post(ctx, path, asked, modelOf(w))
	if err == nil && x == nil {
		err = fault.Wrap(errors.New("the worker does not know what it was sent"), fault.CodeUpstreamFailed, string(modelOf(w)))
	}
	return x, err
}

// offers refuses a model that the configuration does not list.
func (c *Client) offers(id engine.ModelID) error {
	if len(c.cfg.Models) == 0 || slices.Contains(c.cfg.Models, string(id)) {
		return nil
	}
	return fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
}

func modelOf(w engine.Work) engine.ModelID {
	switch q := w.(type) {
	case *engine.Request:
		return q.Model
	case *engine.EmbedRequest:
		return q.Model
	case *engine.ScoreRequest:
		return q.Model
	}
	return ""
}

// Embed implements engine.Engine.
func (c *Client) Embed(ctx context.Context, p *engine.Prompt) (*engine.Embeddings, error) {
	if p.Embed == nil {
		return nil, engine.ErrOtherWork
	}
	x, err := c.run(ctx, "embed", p, p.Embed)
	if err != nil {
		return nil, err
	}
	return resultOf(x, parseEmbeddings)
}

// Score implements engine.Engine.
func (c *Client) Score(ctx context.Context, p *engine.Prompt) (*engine.Scores, error) {
	if p.Score == nil {
		return nil, engine.ErrOtherWork
	}
	x, err := c.run(ctx, "score", p, p.Score)
	if err != nil {
		return nil, err
	}
	return resultOf(x, parseScores)
}

// Tokens implements engine.Engine.
func (c *Client) Tokens(ctx context.Context, p *engine.Prompt) (*engine.TokenList, error) {
	if p.Request == nil {
		return nil, engine.ErrOtherWork
	}
	x, err := c.run(ctx, "tokens", p, p.Request)
	if err != nil {
		return nil, err
	}
	var got tokensReply
	if err := x.json(maxTokens, &got); err != nil {
		return nil, err
	}
	out := engine.TokenList(got)
	return &out, nil
}

// Detokenize implements engine.Engine.
func (c *Client) Detokenize(ctx context.Context, q *engine.DetokenizeRequest) (string, error) {
	if err := c.offers(q.Model); err != nil {
		return "", err
	}
	asked := detokenizeWork(*q)
	var got textReply
	err := c.ask(ctx, "detokenize", &work{Detokenize: &asked}, maxTokens, &got)
	return got.Text, err
}

func resultOf[T any](x *call, parse func([]byte) (*T, error)) (*T, error) {
	defer x.end()
	f := frames{r: x.reader()}
	kind, body, err := f.next()
	if err != nil {
		return nil, x.failure(err)
	}
	x.whole()
	out, err := parse(body)
	if err != nil || kind != frameResult {
		return nil, fault.Wrap(errFrame, fault.CodeUpstreamFailed, string(x.model))
	}
	return out, nil
}

// ask posts an order and reads the JSON that answers it; reply may be nil.
func (c *Client) ask(ctx context.Context, path string, order *work, limit int64, reply any) error {
	x, err := c.post(ctx, path, order, order.model())
	if err != nil {
		return err
	}
	if x == nil {
		return fault.Wrap(errors.New("the worker does not know what it was sent"), fault.CodeUpstreamFailed, string(order.model()))
	}
	return x.json(limit, reply)
}

// json reads the JSON that answers a call, which ends.
func (x *call) json(limit int64, reply any) error {
	defer x.end()
	raw, err := io.ReadAll(io.LimitReader(x.body, limit))
	if err != nil {
		return x.failure(err)
	}
	return decodeReply(raw, reply, x.model)
}

// Close implements engine.Engine. The worker goes on: others may ask it.
func (c *Client) Close() error {
	c.once.Do(func() {
		c.close()
		c.abandon(errClosed)
		c.http.CloseIdleConnections()
	})
	return nil
}

// sent is an encoded request on its way.
func sent(v any) (*bytes.Reader, error) {
	raw, err := encode(v)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(raw), nil
}
