// Package verifypage lets anybody check a signed result, without an account: whether this installation has signed it, and whether the text is the one that it
// was signed with. It says nothing else: not whose it is, nor what was asked, and nothing of what is checked is kept or logged.
//
// A form answers with a page in both languages, JSON with JSON. The public keys are published beside it, for whoever would rather check by himself.
package verifypage

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"golang.org/x/time/rate"

	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/strictjson"
)

// Where the page and the keys are.
const (
	Path     = "/verify"
	KeysPath = "/.well-known/sluice-signing-keys.json"
)

const (
	maxBody    = 1 << 20
	maxHeld    = 16 << 20 // of all bodies at one time
	perMinute  = 30       // checks of one source
	perSecond  = 20       // of all
	maxSources = 10_000   // that are remembered at a time

	formType = "application/x-www-form-urlencoded"
)

// Verdict is all that is said of a signed result.
type Verdict string

// The verdicts.
const (
	Authentic   Verdict = "authentic"    // this installation has signed this text
	OtherAnswer Verdict = "other_answer" // it has signed another text
	Altered     Verdict = "altered"      // the signature was changed, or somebody else made it
	UnknownKey  Verdict = "unknown_key"  // the signature names no key of this installation
	RevokedKey  Verdict = "revoked_key"  // by a key that has been revoked
	Malformed   Verdict = "malformed"    // this is no signature of a result
)

// Deps are what a page works with.
type Deps struct {
	// Keys returns the public keys of the installation.
	Keys func() ([]signature.Key, error)
	// Published returns the same, written out.
	Published func() ([]byte, error)
	// Fail answers with an error.
	Fail func(c *gin.Context, err error)
}

//go:embed page.html
var files embed.FS

type page struct {
	deps   Deps
	html   *template.Template
	bodies *inflight.Limiter // of its own: strangers take nothing from those who pay

	all     *rate.Limiter
	mu      sync.Mutex // guards sources
	sources map[string]*rate.Limiter
}

// Register adds the page and the keys to r.
func Register(deps Deps, r gin.IRouter) error {
	html, err := template.ParseFS(files, "page.html")
	if err != nil {
		return err
	}
	p := &page{deps: deps, html: html, bodies: inflight.New(inflight.Config{All: maxHeld, PerTenant: maxHeld, PerCaller: 2 * maxBody}), all: rate.NewLimiter(perSecond, 2*perSecond), sources: map[string]*rate.Limiter{}}
	r.GET(Path, func(c *gin.Context) { p.show(c, http.StatusOK, "") })
	r.POST(Path, p.check)
	r.GET(KeysPath, p.keys)
	return nil
}

// question is what is checked.
type question struct {
	Text      string `json:"text"`
	Signature string `json:"signature"`

	asSent string // of a form: its text with the line breaks that it came with
}

func (p *page) check(c *gin.Context) {
	c.Header("Cache-Control", "no-store")
	if err := p.wait(sourceOf(c.ClientIP()), time.Now()); err != nil {
		inflight.HangUp(c.Writer, c.Request)
		p.deps.Fail(c, err)
		return
	}
	body, release, err := p.bodies.Body(c.Writer, c.Request, inflight.Caller{ID: sourceOf(c.ClientIP())}, maxBody)
	defer release()
	if err != nil {
		p.deps.Fail(c, err)
		return
	}
	form := c.ContentType() == formType
	q, err := parse(body, form)
	if err != nil {
		p.deps.Fail(c, err)
		return
	}
	keys, err := p.deps.Keys()
	if err != nil {
		p.deps.Fail(c, err)
		return
	}
	v := judge(q, keys)
	if form {
		p.show(c, http.StatusOK, v)
		return
	}
	c.JSON(http.StatusOK, map[string]Verdict{"verdict": v})
}

// parse reads a question. Forms bring every line break as two characters, of which most answers have the second one only.
func parse(body []byte, form bool) (question, error) {
	if !form {
		q, err := strictjson.Decode[question](body)
		if err != nil || q.Text == "" || q.Signature == "" {
			return question{}, fault.New(fault.CodeInvalidValue, "body", fault.Say("verifypage.members")).WithParam("body")
		}
		return q, nil
	}
	values, err := url.ParseQuery(string(body))
	text := values.Get("text")
	if err != nil || text == "" || values.Get("signature") == "" {
		return question{}, fault.New(fault.CodeInvalidValue, "body", fault.Say("verifypage.members")).WithParam("body")
	}
	return question{strings.ReplaceAll(text, "\r\n", "\n"), values.Get("signature"), text}, nil
}

func judge(q question, keys []signature.Key) Verdict {
	x, err := signature.Verify(q.Signature, keys)
	switch {
	case errors.Is(err, signature.ErrUnknownKey):
		return UnknownKey
	case errors.Is(err, signature.ErrAltered):
		return Altered
	case errors.Is(err, signature.ErrRevoked):
		return RevokedKey
	case err != nil:
		return Malformed
	case x.MatchesText(q.Text) < 0 && x.MatchesText(q.asSent) < 0:
		return OtherAnswer
	default:
		return Authentic
	}
}

// wait counts a check of a source, or refuses it until later.
func (p *page) wait(source string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.sources[source]
	if of == nil {
		if len(p.sources) >= maxSources {
			clear(p.sources) // the limit of all still holds
		}
		of = rate.NewLimiter(rate.Every(time.Minute/perMinute), perMinute)
		p.sources[source] = of
	}
	if !of.AllowN(now, 1) {
		return fault.New(fault.CodeRateLimited, fault.Say("verifypage.checks"), perMinute).WithRetryAfter(time.Minute / perMinute)
	}
	if !p.all.AllowN(now, 1) {
		return fault.New(fault.CodeOverloaded).WithRetryAfter(time.Second)
	}
	return nil
}

// sourceOf is what the checks of an address count for: the network of 64 bits that one customer has, where it is of the sixth version.
func sourceOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Unmap().Is4() {
		return address
	}
	network, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return network.String()
}

func (p *page) show(c *gin.Context, status int, v Verdict) {
	var b bytes.Buffer
	if err := p.html.Execute(&b, map[string]any{"Verdict": string(v), "Good": v == Authentic}); err != nil {
		p.deps.Fail(c, fault.Wrap(err, fault.CodeInternal))
		return
	}
	c.Header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	c.Header("Referrer-Policy", "no-referrer")
	c.Data(status, "text/html; charset=utf-8", b.Bytes())
}

func (p *page) keys(c *gin.Context) {
	raw, err := p.deps.Published()
	if err != nil {
		p.deps.Fail(c, err)
		return
	}
	c.Header("Cache-Control", "public, max-age=60")
	c.Data(http.StatusOK, "application/jwk-set+json", raw)
}
