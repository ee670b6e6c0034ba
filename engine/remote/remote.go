// Package remote implements the engine contract over an OpenAI-compatible upstream: vLLM, SGLang, MindIE, LMDeploy, another
// installation of this product, or any other server of that dialect.
//
// An upstream comes from the administrator's configuration only. Its addresses are checked after name resolution, at every
// connection: private, loopback and link-local ranges are refused unless listed. Redirects are not followed, proxies of the
// environment are not used, and no header of a caller is passed on. What an upstream says in an error reaches neither callers nor
// the log; its status, type and code do.
//
// Models are what the configuration lists, not what the upstream offers. What may be asked of them is in their contracts ([Engine.Capabilities]): what the
// profile of the dialect claims, what the configuration vouches for, and what the upstream has said of itself.
//
// Every ten seconds somebody looks at the upstream, by the questions of the profile: whether it is ready, or loads yet; when it comes (back), and every ten
// minutes, which version it is and how long its contexts are; and its page of metrics. Where the profile knows no question of health, or the upstream does not
// answer it, a connection is made and nothing is said. None of this happens on the way of a request. An upstream that can be asked how it is gets no request
// before it was asked once.
//
// What the server of llama.cpp (build 11549) does of the contract, as the suite of package enginetest finds it:
//
//	sampling fields, logit bias, seeds, n     yes; temperature comes after top_k, top_p and min_p, and texts differ between batches
//	min_tokens, echo                          no such fields: refused
//	log-probabilities with alternatives       yes
//	json_object, json_schema, GBNF, choices   yes; schemas leave room for white space without end, which may use up max_tokens
//	regular expressions                       no such field: refused
//	tools, streamed calls                     yes, with a template that knows tools
//	tool_choice "required"                    text may come first, or instead where the model ends it
//	tool_choice with a name                   ignores the name, so it is offered that tool alone
//	stop strings                              yes; a text that ends with the beginning of one loses it
//	classes, deadlines, tenants, adapters     not passed on; a deadline that has passed is refused here
//	special tokens in texts of callers        taken for what they spell: put a filter before it
//	embeddings, reranking                     yes, by servers of their own
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Config describes one upstream. Zero durations mean the defaults named at each field.
type Config struct {
	// BaseURL is the root of the dialect, such as "https://gpu-1.example.com/v1".
	BaseURL string `koanf:"base_url"`
	// APIKey is sent as a bearer token; empty sends none.
	APIKey keyring.Credential `koanf:"api_key"`
	// Models lists what may be used of the upstream.
	Models []ModelConfig `koanf:"models"`
	// AllowPrivate lists the networks (such as "10.2.0.0/16" or "127.0.0.1/32") in which an otherwise refused address is allowed.
	AllowPrivate []string `koanf:"allow_private"`
	// OnlyAllowed refuses public addresses, too, unless they lie in a network of AllowPrivate.
	OnlyAllowed bool `koanf:"-"`
	// ConnectTimeout bounds connecting and the TLS handshake; 0 means 5 seconds.
	ConnectTimeout time.Duration `koanf:"connect_timeout"`
	// FirstByteTimeout bounds the wait for the first event of a streamed answer; 0 means 2 minutes. An answer in one piece has until the
	// request's own timeout.
	FirstByteTimeout time.Duration `koanf:"first_byte_timeout"`
	// IdleTimeout bounds the silence between two events; 0 means 1 minute.
	IdleTimeout time.Duration `koanf:"idle_timeout"`
	// MaxEventBytes bounds one event; 0 means 1 MiB.
	MaxEventBytes int `koanf:"max_event_bytes"`
	// Profiles has the profiles that models may name as their dialect; nil means those of the program.
	Profiles *profile.Set `koanf:"-"`
}

// ModelConfig describes one model of an upstream, as far as the upstream does not tell. Abilities are off unless they are listed:
// a field that an upstream ignores would make an answer something else than what was asked for.
type ModelConfig struct {
	ID            string `koanf:"id"`       // name inside this installation
	Upstream      string `koanf:"upstream"` // name at the upstream; "" means ID
	ContextTokens int    `koanf:"context_tokens"`
	EmbedDim      int    `koanf:"embed_dim"` // > 0 makes it an embedding model
	Logprobs      bool   `koanf:"logprobs"`
	Deterministic bool   `koanf:"deterministic"`
	// Seed and Choices say that the upstream honours a seed, and answers n times, where its profile does not know.
	Seed      bool   `koanf:"seed"`
	Choices   bool   `koanf:"choices"`
	Digest    string `koanf:"digest"`
	Precision string `koanf:"precision"`

	// Tools, Formats and Sampling say that the upstream honours tools, the shape of answers, and the sampling fields that not every
	// server knows.
	Tools    bool `koanf:"tools"`
	Formats  bool `koanf:"formats"`
	Sampling bool `koanf:"sampling"`
	// Rerank makes it a model that scores documents against a query.
	Rerank bool `koanf:"rerank"`
	// Dialect is the profile of the upstream (engine/profile), such as "vllm", "sglang" or "llama.cpp"; "" means "openai". It decides paths, which
	// formats and sampling fields there are and what they are called, and what errors mean.
	Dialect string `koanf:"dialect"`
	// QueryPrefix and PassagePrefix are what an embedding model wants before questions and passages.
	QueryPrefix   string `koanf:"query_prefix"`
	PassagePrefix string `koanf:"passage_prefix"`
}

// dialectOpenAI is the profile of an upstream of which nothing more is known.
const dialectOpenAI = "openai"

// Dialect returns the profile that the upstream is looked at by, which is that of its first model.
func (c Config) Dialect() string { return cmp.Or(c.Models[0].Dialect, dialectOpenAI) }

// Outside reports whether a dialect of the upstream, as known has it, is that of a cloud: it runs outside, whatever else is said of it.
func (c Config) Outside(known *profile.Set) bool {
	return known != nil && slices.ContainsFunc(c.Models, func(m ModelConfig) bool {
		p, err := known.Get(cmp.Or(m.Dialect, dialectOpenAI))
		return err == nil && p.Cloud
	})
}

// profiles returns the set that dialects are looked up in.
func (c Config) profiles() (*profile.Set, error) {
	if c.Profiles != nil {
		return c.Profiles, nil
	}
	return profile.New()
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	u, err := url.Parse(c.BaseURL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("base_url: must be an http or https address without user, query or fragment")
	}
	if len(c.Models) == 0 {
		return errors.New("models: list at least one")
	}
	known, err := c.profiles()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, m := range c.Models {
		if m.ID == "" || seen[m.ID] {
			return fmt.Errorf("models[%d].id: must be set, and only once", i)
		}
		seen[m.ID] = true
		if m.ContextTokens < 0 || m.EmbedDim < 0 {
			return fmt.Errorf("models[%d]: context_tokens and embed_dim must not be negative", i)
		}
		if m.Rerank && m.EmbedDim > 0 {
			return fmt.Errorf("models[%d]: a model either embeds or reranks; list it twice under two ids if it does both", i)
		}
		if d := cmp.Or(m.Dialect, dialectOpenAI); !known.Has(d) {
			return fmt.Errorf("models[%d].dialect: there is no profile %q; `sluice profiles list` names them", i, d)
		}
	}
	if _, err := prefixes(c.AllowPrivate); err != nil {
		return err
	}
	if c.ConnectTimeout < 0 || c.FirstByteTimeout < 0 || c.IdleTimeout < 0 || c.MaxEventBytes < 0 {
		return errors.New("timeouts and max_event_bytes: must not be negative")
	}
	return nil
}

func prefixes(list []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("allow_private[%d]: %q is no network; write it as 10.2.0.0/16", i, s)
		}
		out[i] = p.Masked()
	}
	return out, nil
}

// Engine asks one upstream. It is safe for concurrent use.
type Engine struct {
	cfg    Config
	base   string
	client *http.Client
	models []model // ordered by ID

	reach   *reach
	known   atomic.Pointer[known]
	figures atomic.Pointer[figures] // nil: not reported

	closed context.Context //nolint:containedctx // ends when the engine is closed
	close  context.CancelFunc
	once   sync.Once
}

// model is a model with the profile of its dialect.
type model struct {
	ModelConfig

	profile *profile.Profile
}

// withProfiles resolves the dialects of models, ordered by ID.
func withProfiles(cfg Config) ([]model, error) {
	known, err := cfg.profiles()
	if err != nil {
		return nil, err
	}
	var out []model
	for _, m := range cfg.Models {
		p, err := known.Get(cmp.Or(m.Dialect, dialectOpenAI))
		if err != nil {
			return nil, err
		}
		out = append(out, model{m, p})
	}
	slices.SortFunc(out, func(a, b model) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// New returns an engine over the upstream of cfg. It does not connect before it is asked for something, be it its models.
func New(cfg Config) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("remote engine: %w", err)
	}
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&cfg.ConnectTimeout, 5*time.Second)
	set(&cfg.FirstByteTimeout, 2*time.Minute)
	set(&cfg.IdleTimeout, time.Minute)
	if cfg.MaxEventBytes == 0 {
		cfg.MaxEventBytes = 1 << 20
	}
	allowed, err := prefixes(cfg.AllowPrivate)
	if err != nil {
		return nil, fmt.Errorf("remote engine: %w", err)
	}
	dialer := &net.Dialer{Timeout: cfg.ConnectTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address, allowed, cfg.OnlyAllowed)
	}}
	e := &Engine{
		cfg: cfg, base: strings.TrimSuffix(cfg.BaseURL, "/"),
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext: dialer.DialContext, TLSHandshakeTimeout: cfg.ConnectTimeout, ForceAttemptHTTP2: true,
				DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
			},
		},
	}
	if e.models, err = withProfiles(cfg); err != nil {
		return nil, fmt.Errorf("remote engine: %w", err)
	}
	e.judge(capability.Observation{})
	e.closed, e.close = context.WithCancel(context.Background())
	if err := e.watch(dialer.DialContext); err != nil {
		e.close()
		return nil, fmt.Errorf("remote engine: %w", err)
	}
	return e, nil
}

// errAddress is why a connection was not made.
var errAddress = errors.New("the address lies in a range that the configuration does not list")

// checkAddress runs on the address a name has resolved to, so a name that changes its mind later is checked again.
func checkAddress(address string, allowed []netip.Prefix, only bool) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("connect to %q: %w", address, err)
	}
	a := ap.Addr().Unmap().WithZone("")
	if public(a) && !only || slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	return fmt.Errorf("connect to %s: %w", a, errAddress)
}

// public reports whether an address is an ordinary one of the Internet.
func public(a netip.Addr) bool {
	if !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	for _, special := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", // not of the Internet
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", // carry an IPv4 address that is not looked at
	} {
		if netip.MustParsePrefix(special).Contains(a) {
			return false
		}
	}
	return true
}

// Models implements engine.Engine. While the upstream cannot be reached, or says that it is not ready, there are none to ask for. The first question waits
// for the first look, for two seconds after the engine was made at most, so that whoever starts knows how its upstreams are.
func (e *Engine) Models(ctx context.Context) ([]engine.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err := e.reach.state()
	if e.reach.fresh.Load() {
		e.reach.await(ctx)
		err = e.reach.state()
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.CodeEngineUnavailable, e.models[0].ID)
	}
	version := e.version()
	out := make([]engine.Model, len(e.models))
	for i, m := range e.models {
		out[i] = engine.Model{
			ID: engine.ModelID(m.ID), Digest: m.Digest, Precision: m.Precision, ContextTokens: m.ContextTokens, EmbedDim: m.EmbedDim,
			EngineVersion: version, CanGenerate: m.task() == generates, CanEmbed: m.task() == embeds, CanScore: m.task() == reranks, Deterministic: m.Deterministic,
		}
		if m.task() == generates {
			out[i].NonStreaming = true
			out[i].HasLogprobs, out[i].HasTools, out[i].HasFormats, out[i].HasSampling = m.Logprobs, m.Tools, m.Formats, m.Sampling
			out[i].HasTokens = m.tellsTokens()
		}
	}
	return out, nil
}

// task is what a model does.
type task uint8

const (
	generates task = iota
	embeds
	reranks
)

func (m ModelConfig) task() task {
	switch {
	case m.Rerank:
		return reranks
	case m.EmbedDim > 0:
		return embeds
	}
	return generates
}

// model finds a model that does what is needed, or says why not.
func (e *Engine) model(ctx context.Context, id engine.ModelID, need task) (model, error) {
	if e.closed.Err() != nil {
		return model{}, fault.Wrap(fmt.Errorf("%w: %w", engine.ErrNotReached, errClosed), fault.CodeEngineUnavailable, string(id))
	}
	if err := ctx.Err(); err != nil {
		return model{}, err
	}
	i := slices.IndexFunc(e.models, func(m model) bool { return m.ID == string(id) })
	if i < 0 {
		return model{}, fault.New(fault.CodeModelNotFound, string(id)).WithParam("model")
	}
	m := e.models[i]
	if m.task() != need {
		what := fault.Say("model.no_generation")
		switch need {
		case embeds:
			what = fault.Say("model.no_embedding")
		case reranks:
			what = fault.Say("model.no_scoring")
		case generates:
		}
		return model{}, fault.New(fault.CodeUnsupported, "model", what).WithParam("model")
	}
	if m.Upstream == "" {
		m.Upstream = m.ID
	}
	return m, nil
}

// The bounds of tokens that chat templates add: most add under ten a message, and some put a system message of their own first.
const (
	templateTokens = 64
	messageTokens  = 16
	textTokens     = 4 // that mark the ends of a text, or of the two of a pair

	// Bytes that templates put around a call or a tool, and around all of them: instructions of up to a page.
	callBytes  = 128
	toolsBytes = 2048
)

// Prepare implements engine.Engine. Its lengths are bounds: a token has at least one byte. Usage says what the upstream reports.
func (e *Engine) Prepare(ctx context.Context, w engine.Work) (*engine.Prompt, error) {
	switch q := w.(type) {
	case *engine.Request:
		m, err := e.model(ctx, q.Model, generates)
		if err != nil {
			return nil, err
		}
		return engine.FitPrompt(q, engine.TokenCounts{
			Context: m.ContextTokens, Base: promptBytes(q) + templateTokens + messageTokens*len(q.Messages),
			Segment: func(i int) (int, error) { return len(q.Segments[i]), nil },
		})
	case *engine.EmbedRequest:
		return e.prepareEmbed(ctx, q)
	case *engine.ScoreRequest:
		return e.prepareScore(ctx, q)
	default:
		return nil, engine.ErrOtherWork
	}
}

func promptBytes(req *engine.Request) int {
	if req.Messages == nil {
		return len(req.Prompt)
	}
	n := 0
	for _, m := range req.Messages {
		n += len(m.Role) + len(m.Content) + len(m.Name)
		for _, c := range m.ToolCalls {
			n += callBytes + len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	for _, t := range req.Tools {
		// Templates print schemas indented: a level adds at most its depth to every line, and no line is shorter than a byte.
		n += callBytes + len(t.Name) + len(t.Description) + 4*len(t.Parameters)
	}
	if len(req.Tools) > 0 {
		n += toolsBytes
	}
	return n
}

// Close implements engine.Engine.
func (e *Engine) Close() error {
	e.once.Do(func() {
		e.close()
		e.reach.end()
		e.client.CloseIdleConnections()
	})
	return nil
}

// Bills implements pool.Billing: engines do not. Clouds do, what stands before other servers may stand before clouds, and of a server of which only the
// dialect is known nobody knows.
func (e *Engine) Bills(id engine.ModelID) bool {
	for i := range e.models {
		if m := &e.models[i]; m.ID == string(id) {
			return m.profile.Kind != "engine" && m.profile.Kind != "plug-in"
		}
	}
	return true
}
