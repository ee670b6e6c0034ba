package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/limit"
	"github.com/sluice-project/sluice/governance"
	"github.com/sluice-project/sluice/governance/label"
)

// Our own response headers.
const (
	headerReceipt  = "X-Sluice-Receipt"
	headerOverhead = "X-Sluice-Overhead-Ms"
	headerFallback = "X-Sluice-Fallback" // the model that was asked for and the cause, where another model answers
)

// Our own request headers that say how urgent a call is.
const (
	headerClass             = "X-Sluice-Class"
	headerDataGrade         = governance.DataGradeHeader        // L1 to L4, of the data of a request; it only raises what the policy says
	headerFirstTokenTimeout = "X-Sluice-First-Token-Timeout-Ms" //nolint:gosec // the name of a header, no credential
)

// headerCache says in a reply how the answer came: see gateway.Reply.Cache.
const headerCache = "X-Sluice-Cache"

// extension is the object "sluice" of a reply: what this answer was, under which rules, and what it cost.
type extension struct {
	RequestID        string             `json:"request_id"`
	Receipt          string             `json:"receipt,omitempty"` // none where the policy of records takes best effort, and it failed
	Policy           string             `json:"policy"`
	Model            *modelInfo         `json:"model,omitempty"`
	Label            *label.Extension   `json:"label,omitempty"`
	Findings         []gateway.Finding  `json:"findings"`
	Citations        []gateway.Citation `json:"citations,omitempty"`
	Cost             *cost              `json:"cost,omitempty"`
	Energy           *energy            `json:"energy,omitempty"`
	Estimated        bool               `json:"usage_estimated,omitempty"`
	LogprobsWithheld bool               `json:"logprobs_withheld,omitempty"`
	Replay           string             `json:"replay,omitempty"`
	Signature        string             `json:"signature,omitempty"`
	Watermark        *watermarkInfo     `json:"watermark,omitempty"` // none where the policy wants none
	Cache            string             `json:"cache,omitempty"`     // how the answer came; none where the policy has equal requests share no answer
	Evidence         *gateway.Evidence  `json:"evidence,omitempty"`  // none where the policy does not look
}

// watermarkInfo says what came of the mark that the policy wants.
type watermarkInfo struct {
	Applied bool   `json:"applied"`
	Scheme  string `json:"scheme"`
	Key     string `json:"key,omitempty"`    // its name, which tells nothing of the key; "" where no mark was possible from the start
	Tokens  int    `json:"tokens,omitempty"` // of all choices that carry it
	Reason  string `json:"reason,omitempty"` // why it was not applied: see engine.MarkReason
}

type modelInfo struct {
	Version   string `json:"version"`
	Precision string `json:"precision,omitempty"`
	Rollout   string `json:"rollout,omitempty"`
	Arm       string `json:"arm,omitempty"`
	// FallbackFrom is the model that was asked for, where another one has answered, and FallbackCause why: context, content, capacity or fault.
	FallbackFrom  string `json:"fallback_from,omitempty"`
	FallbackCause string `json:"fallback_cause,omitempty"`
}

// cost is an amount in 10⁻⁹ of the currency's unit.
type cost struct {
	Nano     int64  `json:"nano"`
	Currency string `json:"currency"`
}

// energy is the figure of a request and how it came about; meter and what follows it are there for figures of meters.
type energy struct {
	Microjoules int64  `json:"microjoules"`
	Method      string `json:"method"`
	PerThousand int64  `json:"microjoules_per_1000_tokens,omitempty"` // of the answer
	Meter       string `json:"meter,omitempty"`
	Uncertainty int    `json:"uncertainty_permille,omitempty"`
	Window      int64  `json:"window_ms,omitempty"` // from the first work to the last
}

// energyOf returns nothing where the energy is not known.
func energyOf(s gateway.Summary) *energy {
	if s.Usage.EnergyMethod == "" {
		return nil
	}
	e := &energy{Microjoules: s.Usage.Energy, Method: s.Usage.EnergyMethod}
	if n := s.Usage.CompletionTokens; n > 0 {
		e.PerThousand = int64(float64(e.Microjoules) / float64(n) * 1000)
	}
	if s.Energy.Meter != "" {
		e.Meter, e.Uncertainty, e.Window = s.Energy.Meter, s.Energy.Uncertainty, s.Energy.Window.Milliseconds()
	}
	return e
}

func extend(h gateway.Head, s gateway.Summary) *extension {
	e := &extension{
		RequestID: h.Request, Receipt: h.Receipt, Policy: h.Policy, Findings: s.Findings, Citations: h.Citations,
		Estimated: s.Usage.Estimated, LogprobsWithheld: s.LogprobsWithheld, Replay: s.Replay, Signature: s.Signature,
		Cache: s.Cache, Evidence: s.Evidence,
	}
	if m := s.Watermark; m != nil {
		e.Watermark = &watermarkInfo{Applied: m.Applied, Scheme: m.Scheme, Key: m.Key, Tokens: m.Tokens, Reason: string(m.Reason)}
	}
	if h.Label != (label.Label{}) {
		x := h.Label.Extension()
		e.Label = &x
	}
	if e.Findings == nil {
		e.Findings = []gateway.Finding{}
	}
	if h.Version.Version != "" {
		e.Model = &modelInfo{Version: h.Version.Version, Precision: h.Version.Precision, Rollout: h.Rollout, Arm: h.Arm, FallbackFrom: string(h.FallbackFrom), FallbackCause: string(h.FallbackCause)}
	}
	if s.Usage.Currency != "" {
		e.Cost = &cost{Nano: s.Usage.Cost, Currency: s.Usage.Currency}
	}
	e.Energy = energyOf(s)
	return e
}

// setCache says how the answer comes, if the policy has equal requests share one. As long as nothing has left it may be said again.
func setCache(c *gin.Context, reply *gateway.Reply) {
	if state := reply.Cache(); state != "" {
		c.Header(headerCache, state)
	}
}

// headHeaders adds what is known before the first byte.
func (a *API) headHeaders(c *gin.Context, head gateway.Head) {
	c.Set(keySubject, head.Subject)
	set := headerWriter{into: c.Writer.Header(), values: make([]string, 0, 10)}
	if head.Receipt != "" {
		set.header(headerReceipt, head.Receipt)
	}
	if head.LabelText != "" {
		set.header(label.Header, head.LabelText)
	}
	if head.FallbackFrom != "" {
		set.header(headerFallback, "from="+string(head.FallbackFrom)+"; cause="+string(head.FallbackCause))
	}
	set.header(headerOverhead, milliseconds(head.Overhead().Microseconds()))
	set.header("Server-Timing", timing(head))
	set.rate(head.Rate)
	a.ownLimits(c, &set, head.Rate)
}

// headerWriter sets headers whose values lie in one array.
type headerWriter struct {
	into   http.Header
	values []string
}

func (w *headerWriter) header(name, value string) {
	n := len(w.values)
	w.values = append(w.values, value)
	w.into[http.CanonicalHeaderKey(name)] = w.values[n : n+1 : n+1]
}

// milliseconds spells microseconds as a header does.
func milliseconds(us int64) string { return string(appendMilliseconds(nil, us)) }

func appendMilliseconds(b []byte, us int64) []byte {
	return strconv.AppendFloat(b, float64(us)/1000, 'f', 3, 64)
}

// timing lists the steps that were taken before the engine was asked, as browsers' tools show them. All but embed, which is an engine's time, add up
// to the overhead.
func timing(head gateway.Head) string {
	s, embedding := head.Steps, head.Embedding.Microseconds()
	var room [256]byte
	out := room[:0]
	for _, step := range [...]struct {
		name string
		us   int64
	}{
		{"authenticate", s.Authenticate},
		{"limit", s.Limit},
		{"policy", s.Policy},
		{"route", s.Route},
		{"retrieve", s.Retrieve - embedding},
		{"embed", embedding},
		{"reserve", s.Reserve},
		{"record", s.Record},
	} {
		if step.us <= 0 {
			continue
		}
		if len(out) > 0 {
			out = append(out, ", "...)
		}
		out = appendMilliseconds(append(append(out, step.name...), ";dur="...), step.us)
	}
	return string(out)
}

// rateHeaders adds the published rate headers; the resets are durations, not instants.
func (a *API) rateHeaders(c *gin.Context, s limit.State) {
	set := headerWriter{into: c.Writer.Header(), values: make([]string, 0, 6)}
	set.rate(s)
	a.ownLimits(c, &set, s)
}

// ownLimits adds the headers that only one dialect has.
func (a *API) ownLimits(c *gin.Context, set *headerWriter, s limit.State) {
	if d := a.dialect(c); d.limits != nil {
		d.limits(set, s, a.now())
	}
}

func (w *headerWriter) rate(s limit.State) {
	for _, r := range [...]struct {
		limit.Level

		of, left, reset string
	}{
		{s.Requests, "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{s.Tokens, "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	} {
		if r.Limit == 0 {
			continue
		}
		w.header(r.of, strconv.Itoa(r.Limit))
		w.header(r.left, strconv.Itoa(r.Remaining))
		w.header(r.reset, r.Reset.Round(time.Millisecond).String())
	}
}

// encode renders JSON on one line, without escaping HTML characters, which belong to code and prose.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// contentJSON is the content type of replies.
const contentJSON = "application/json; charset=utf-8"

func (a *API) writeJSON(c *gin.Context, status int, v any) {
	b, err := encode(v)
	if err != nil { // every value rendered here can be encoded, so this is a bug of ours
		a.log.Error("encode reply", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
		c.Status(http.StatusInternalServerError)
		return
	}
	if status == http.StatusOK {
		a.keepAnswer(c, b)
	}
	a.deadline(c)
	c.Data(status, contentJSON, b)
}

// deadline gives the client a fresh time to accept what is written next.
func (a *API) deadline(c *gin.Context) {
	// A writer without deadlines, as in tests, is bounded by its server.
	_ = http.NewResponseController(c.Writer).SetWriteDeadline(a.now().Add(a.cfg.WriteTimeout))
}

func answerID(prefix, request string) string {
	return prefix + "-" + strings.ReplaceAll(request, "-", "")
}

// fingerprint names what answered, so that a caller can notice a change.
func fingerprint(h gateway.Head) string {
	v := h.Version
	sum := sha256.Sum256([]byte(v.Model + "\x00" + v.Version + "\x00" + v.Digest + "\x00" + v.Precision))
	return "fp_" + hex.EncodeToString(sum[:6])
}

func usageOf(u engine.Usage) *openai.Usage {
	return &openai.Usage{
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, TotalTokens: u.PromptTokens + u.CompletionTokens,
		PromptDetails: &openai.PromptDetails{CachedTokens: u.CachedTokens}, CompletionDetail: &openai.CompletionDetails{},
	}
}

func chatLogprobsOf(in []engine.TokenLogprob) *openai.ChatLogprobs {
	if len(in) == 0 {
		return nil
	}
	out := &openai.ChatLogprobs{Content: make([]openai.TokenLogprob, len(in))}
	for i, lp := range in {
		t := openai.TokenLogprob{Token: lp.Token, Logprob: finite(lp.Logprob), Bytes: lp.Bytes, TopLogprobs: []openai.TopLogprob{}}
		for _, a := range lp.Top {
			t.TopLogprobs = append(t.TopLogprobs, openai.TopLogprob{Token: a.Token, Logprob: finite(a.Logprob), Bytes: a.Bytes})
		}
		out.Content[i] = t
	}
	return out
}

// finite is the published stand-in for "very unlikely": JSON has no infinities.
func finite(lp float64) float64 {
	if math.IsNaN(lp) || lp < -9999 {
		return -9999
	}
	return lp
}

// columns renders the older form; offset is the length of the choice's text so far, in characters, and is moved on.
func columns(in []engine.TokenLogprob, offset *int) *openai.CompletionLogprobs {
	if len(in) == 0 {
		return nil
	}
	out := &openai.CompletionLogprobs{}
	for _, lp := range in {
		var value *float64
		var top map[string]float64
		if !math.IsNaN(lp.Logprob) { // nothing is known of the first token of an echoed prompt
			v := finite(lp.Logprob)
			value, top = &v, make(map[string]float64, len(lp.Top))
			for _, a := range lp.Top {
				top[a.Token] = finite(a.Logprob)
			}
			if len(top) > 0 { // the token itself is among them, as OpenAI has it, though it may be one more than was asked for
				top[lp.Token] = v
			}
		}
		out.Tokens = append(out.Tokens, lp.Token)
		out.TokenLogprobs = append(out.TokenLogprobs, value)
		out.TopLogprobs = append(out.TopLogprobs, top)
		out.TextOffset = append(out.TextOffset, *offset)
		*offset += len([]rune(lp.Token))
	}
	return out
}

// vector renders an embedding; clients that ask for base64 read little-endian float32.
func vector(v []float32, asBase64 bool) any {
	if !asBase64 {
		return v
	}
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}
