package peer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine/capability"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
)

// ErrNotTold is the error of a question that the profile knows no way to ask.
var ErrNotTold = errors.New("the engine does not tell")

// Config says which engine is asked.
type Config struct {
	Profile *profile.Profile
	// URL is the root of the server, without /v1. Management and Metrics are the roots of its other ports; "" is derived from the profile's ports: the
	// same host, or URL itself where the profile names no port.
	URL, Management, Metrics string
	Key                      string       // sent as a bearer token; "" sends none
	Client                   *http.Client // nil: http.DefaultTransport without redirects
}

// State is how an engine says it is.
type State string

// The states.
const (
	Ready       State = "ready"
	Loading     State = "loading" // lives, and will be ready
	Standby     State = "standby" // lives, behind another one
	NotReady    State = "not-ready"
	Unreachable State = "unreachable"
)

// Peer asks one engine. It is safe for concurrent use.
type Peer struct {
	cfg Config
}

// maxAnswer bounds an answer that is no page of metrics.
const maxAnswer = 4 << 20

// New returns a peer. It does not connect.
func New(cfg Config) (*Peer, error) {
	if cfg.Profile == nil {
		return nil, errors.New("peer: no profile")
	}
	main, err := root(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	if cfg.Client == nil {
		cfg.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	cfg.URL = main.String()
	for _, other := range []struct {
		url  *string
		port int
	}{{&cfg.Management, cfg.Profile.Ports.Management}, {&cfg.Metrics, cfg.Profile.Ports.Metrics}} {
		if *other.url == "" {
			*other.url = beside(main, other.port)
		}
		u, err := root(*other.url)
		if err != nil {
			return nil, fmt.Errorf("peer: %w", err)
		}
		*other.url = u.String()
	}
	return &Peer{cfg}, nil
}

// root reads the root of a server.
func root(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSuffix(s, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the address must be an http or https one without user, query or fragment")
	}
	return u, nil
}

// beside is the root at another port of the same host, or the same if there is none.
func beside(main *url.URL, port int) string {
	if port == 0 {
		return main.String()
	}
	u := *main
	u.Host, u.Path = net.JoinHostPort(u.Hostname(), strconv.Itoa(port)), ""
	return u.String()
}

// URL is the root of the server at a port.
func (p *Peer) URL(port profile.Port) string {
	switch port {
	case profile.PortManagement:
		return p.cfg.Management
	case profile.PortMetrics:
		return p.cfg.Metrics
	default:
		return p.cfg.URL
	}
}

// answer is a reply that was read.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask asks a question without a body. An answer of more than limit bytes is an error: what was cut off would pass for what was not told.
func (p *Peer) ask(ctx context.Context, method string, port profile.Port, path string, limit int64) (answer, error) {
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, p.URL(port)+path, nil)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", path, err)
	}
	req.Header.Set("User-Agent", "sluice")
	if p.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+p.cfg.Key)
	}
	resp, err := p.cfg.Client.Do(req)
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return answer{}, fmt.Errorf("ask %s: %w", path, err)
	}
	if int64(len(body)) > limit {
		return answer{}, fmt.Errorf("ask %s: the answer has more than %d bytes", path, limit)
	}
	return answer{resp.StatusCode, resp.Header, body}, nil
}

// errStatus is the error of an answer with an unexpected status.
func errStatus(path string, status int) error {
	err := fmt.Errorf("ask %s: the engine answered %d", path, status)
	if withheld(status) {
		return fmt.Errorf("%w: %w", errWithheld, err)
	}
	return err
}

// errWithheld is wrapped by the error of a question that is not answered to us, whatever the engine would say.
var errWithheld = errors.New("the question is not answered here")

// silent reports whether a status says nothing of how the engine is: it is somebody else's, or says that we have asked in a wrong way.
func silent(status int) bool { return status >= 300 && status < 500 || withheld(status) }

// withheld reports whether a status says that there is no such path here, or that we may not ask: the profile does not fit, or a proxy stands in front
// that lets some paths through.
func withheld(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotImplemented:
		return true
	}
	return false
}

// Health asks whether the engine is ready, or, where the profile knows no such question, whether it lives.
func (p *Peer) Health(ctx context.Context) (State, error) {
	state, _, err := p.check(ctx, p.cfg.Profile.Health.Question())
	return state, err
}

// Look is Health for somebody who sends requests by it: where the path is not there, or we may not ask (501 and what is between 300 and 499, but for what the
// profile names), the answer says nothing of the engine, and the error is ErrNotTold.
func (p *Peer) Look(ctx context.Context) (State, error) {
	state, status, err := p.check(ctx, p.cfg.Profile.Health.Question())
	if err == nil && state == NotReady && silent(status) {
		return NotReady, ErrNotTold
	}
	return state, err
}

// Live asks whether the engine lives, ready or not.
func (p *Peer) Live(ctx context.Context) (State, error) {
	state, _, err := p.check(ctx, p.cfg.Profile.Health.Live)
	return state, err
}

// check asks a question of health and returns its status, too.
func (p *Peer) check(ctx context.Context, c profile.Check) (State, int, error) {
	if c.Path == "" {
		return NotReady, 0, ErrNotTold
	}
	a, err := p.ask(ctx, c.Method, c.Port, c.Path, maxAnswer)
	if err != nil {
		return Unreachable, 0, err
	}
	return read(c, a), a.status, nil
}

// read is what an answer to a question of health says.
func read(c profile.Check, a answer) State {
	ok := c.OK
	if len(ok) == 0 {
		ok = []int{http.StatusOK}
	}
	switch {
	case slices.Contains(ok, a.status):
	case slices.Contains(c.Loading, a.status):
		return Loading
	case slices.Contains(c.Standby, a.status):
		return Standby
	default:
		return NotReady
	}
	if c.Body != "" {
		v, err := readMember(a.body, c.Body)
		if err != nil || v != c.Is {
			return NotReady // an answer that does not say yes says no
		}
	}
	if c.Some != "" && !hasSome(a.body, c.Some) {
		return NotReady
	}
	return Ready
}

// hasSome reports whether a member of a JSON value is a list with an entry.
func hasSome(body []byte, path string) bool {
	var doc any
	if json.Unmarshal(body, &doc) != nil {
		return false
	}
	list, _ := unified.Member(doc, path).([]any)
	return len(list) > 0
}

// readMember returns the text at a path of members of a JSON value.
func readMember(body []byte, path string) (string, error) {
	var doc any
	if err := json.Unmarshal(body, &doc); err != nil {
		return "", errors.New("the answer is no JSON")
	}
	switch v := unified.Member(doc, path).(type) {
	case nil:
		return "", fmt.Errorf("the answer has no member %q", path)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	default:
		return fmt.Sprint(v), nil
	}
}

// Version asks which version of the software answers.
func (p *Peer) Version(ctx context.Context) (string, error) {
	return p.probe(ctx, p.cfg.Profile.Version)
}

func (p *Peer) probe(ctx context.Context, q profile.Probe) (string, error) {
	if q.Path == "" {
		return "", ErrNotTold
	}
	a, err := p.ask(ctx, "", q.Port, q.Path, maxAnswer)
	if err != nil {
		return "", err
	}
	if a.status != http.StatusOK {
		return "", errStatus(q.Path, a.status)
	}
	switch {
	case q.Header != "":
		return a.header.Get(q.Header), nil
	case q.Member == "":
		return strings.TrimSpace(string(a.body[:min(len(a.body), 200)])), nil
	}
	v, err := readMember(a.body, q.Member)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", q.Path, err)
	}
	return v[:min(len(v), 200)], nil
}

// Model is a model of an engine's list.
type Model struct {
	ID      string
	Context int // 0: not told
}

// Models asks for the list of models.
func (p *Peer) Models(ctx context.Context) ([]Model, error) {
	l := p.cfg.Profile.Models
	if l.Path == "" {
		return nil, ErrNotTold
	}
	a, err := p.ask(ctx, "", profile.PortMain, l.Path, maxAnswer)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, errStatus(l.Path, a.status)
	}
	var doc any
	if json.Unmarshal(a.body, &doc) != nil {
		return nil, fmt.Errorf("ask %s: the answer is no JSON", l.Path)
	}
	list, ok := unified.Member(doc, cmp.Or(l.List, "data")).([]any)
	if !ok {
		return nil, fmt.Errorf("ask %s: the answer has no list", l.Path)
	}
	var out []Model
	for _, item := range list {
		id, ok := unified.Member(item, cmp.Or(l.ID, "id")).(string)
		if !ok {
			return nil, fmt.Errorf("ask %s: a model has no name", l.Path)
		}
		m := Model{ID: id}
		if l.Context != "" {
			n, _ := unified.Member(item, l.Context).(float64)
			m.Context = int(n)
		}
		out = append(out, m)
	}
	return p.lengths(ctx, out)
}

// lengths adds the longest context where the list does not tell it.
func (p *Peer) lengths(ctx context.Context, models []Model) ([]Model, error) {
	q := p.cfg.Profile.Models.ContextFrom
	if q.Path == "" {
		return models, nil
	}
	text, err := p.probe(ctx, q)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("ask %s: the longest context is no number", q.Path)
	}
	for i := range models {
		if models[i].Context == 0 {
			models[i].Context = n
		}
	}
	return models, nil
}

// Metrics reads the page of metrics. What it does not report is not in the values.
func (p *Peer) Metrics(ctx context.Context) (unified.Values, error) {
	m := p.cfg.Profile.Metrics
	if m.Path == "" {
		return nil, ErrNotTold
	}
	a, err := p.ask(ctx, "", m.Port, m.Path, unified.MaxPage)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, errStatus(m.Path, a.status)
	}
	return unified.Read(m.Format, bytes.NewReader(a.body), m.Map)
}

// Drain tells the engine to finish what it has and take no more.
func (p *Peer) Drain(ctx context.Context) error {
	d := p.cfg.Profile.Drain
	if d.Path == "" {
		return ErrNotTold
	}
	a, err := p.ask(ctx, d.Method, d.Port, d.Path, maxAnswer)
	if err != nil {
		return err
	}
	if a.status/100 != 2 {
		return errStatus(d.Path, a.status)
	}
	return nil
}

// Observe asks for everything that narrows a contract. What the engine does not tell, or does not tell us, stays out; the grade is that of real software, unless simulated.
func (p *Peer) Observe(ctx context.Context, simulated bool) (capability.Observation, error) {
	o := capability.Observation{Grade: capability.E3, Source: "probe"}
	if simulated {
		o.Grade = capability.E2
	}
	v, err := p.Version(ctx)
	if err != nil && !untold(err) {
		return o, err
	}
	o.Version = v
	models, err := p.Models(ctx)
	if err != nil && !untold(err) {
		return o, err
	}
	for _, m := range models {
		if o.Models == nil {
			o.Models = map[string]int{}
		}
		o.Models[m.ID] = m.Context
	}
	return o, nil
}

func untold(err error) bool { return errors.Is(err, ErrNotTold) || errors.Is(err, errWithheld) }
