package httpapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/signature"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
	maxIdempotencyKey    = 255
	keepTimeout          = 10 * time.Second
)

// In the gin context: the claim of a request with an idempotency key, the digest of its body, and the digest of the person that its answer is for.
const (
	keyClaim   = "claim"
	keyAsked   = "asked"
	keySubject = "subject"
)

// answerHeaders are those of an answer that are kept with it.
func answerHeaders() []string { return []string{headerReceipt, headerFallback, label.Header} }

// askHeaders are those of a request that decide its answer or its record: with others it is another request.
func askHeaders() []string {
	return []string{headerClass, headerFirstTokenTimeout, "X-Sluice-On-Behalf-Of", "X-Sluice-Purpose", "X-Sluice-Session", headerAnthropicVersion}
}

// keptAnswer is an answer as it is stored.
type keptAnswer struct {
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// replayed ends a request that gets the answer which an earlier one had.
type replayed struct{ answer keptAnswer }

func (*replayed) Error() string { return "answered before" }

// keyed reports whether a request brings an idempotency key that counts.
func (a *API) keyed(c *gin.Context, call *gateway.Call) bool {
	return a.replies != nil && call.Plane == identity.DataPlane && c.GetHeader(headerIdempotencyKey) != ""
}

// once takes the right to answer a decoded request that brings a key, and returns the context to answer it in. That one goes on when the caller leaves:
// a lost connection is why callers ask again, and then the answer is there. A request that was answered before ends with *replayed, if the caller may
// still ask it. Errors: those of [replies.Store.Claim].
func (a *API) once(c *gin.Context, who identity.Principal, call *gateway.Call) (context.Context, error) {
	ctx := c.Request.Context()
	if !a.keyed(c, call) {
		return ctx, nil
	}
	key := c.GetHeader(headerIdempotencyKey)
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ctx, fault.New(fault.CodeInvalidValue, headerIdempotencyKey, fault.Say("httpapi.idempotency_key", maxIdempotencyKey)).WithParam(headerIdempotencyKey)
	}
	claim, raw, err := a.replies.Claim(ctx, replies.Attempt{ID: c.GetString(keyRequestID), Tenant: who.Tenant, Caller: who.ID, Key: key, Asked: asks(c)})
	if err != nil {
		return ctx, err
	}
	if claim != nil {
		c.Set(keyClaim, claim)
		return context.WithoutCancel(ctx), nil
	}
	again := &replayed{}
	if err := json.Unmarshal(raw, &again.answer); err != nil {
		return ctx, fmt.Errorf("read a kept answer: %w", err)
	}
	if err := a.pipeline.Look(ctx, call, func(context.Context, identity.Principal) error { return nil }); err != nil {
		return ctx, err
	}
	return ctx, again
}

// asks is what a request asks: where, with which headers, and for what.
func asks(c *gin.Context) []byte {
	parts := []string{c.Request.Method, c.Request.URL.Path, c.Request.URL.RawQuery}
	for _, h := range askHeaders() {
		parts = append(parts, c.GetHeader(h))
	}
	if form := c.GetHeader(signature.Header); form != "" { // only then: answers that are kept were asked for before there was this header
		parts = append(parts, signature.Header, form)
	}
	if grades := c.Request.Header.Values(headerDataGrade); len(grades) > 0 { // the same
		parts = append(append(parts, headerDataGrade, strconv.Itoa(len(grades))), grades...)
	}
	sum, _ := c.Value(keyAsked).([sha256.Size]byte)
	return seal.Label(append(parts, string(sum[:]))...)
}

// claimOf returns the claim of a request, nil if it has none.
func claimOf(c *gin.Context) *replies.Claim {
	claim, _ := c.Value(keyClaim).(*replies.Claim)
	return claim
}

// replay writes the answer that an earlier request has had.
func (a *API) replay(c *gin.Context, r *replayed) {
	for name, value := range r.answer.Headers {
		c.Header(name, value)
	}
	c.Header(headerReplayed, "true")
	a.deadline(c)
	c.Data(http.StatusOK, contentJSON, r.answer.Body)
}

// keepAnswer makes the answer to a request with a key durable before it leaves. One that cannot be kept leaves all the same: it is paid for, and
// refusing it would have it paid for again. One that is longer than a request may be is not kept.
func (a *API) keepAnswer(c *gin.Context, body []byte) {
	claim := claimOf(c)
	if claim == nil || int64(len(body)) > a.cfg.MaxBodyBytes {
		return
	}
	kept := keptAnswer{Headers: map[string]string{}, Body: body}
	for _, name := range answerHeaders() {
		if value := c.Writer.Header().Get(name); value != "" {
			kept.Headers[name] = value
		}
	}
	answer, err := encode(kept)
	if err != nil {
		return
	}
	c.Set(keyClaim, nil)
	ctx, cancel := afterwards(c)
	defer cancel()
	if err := claim.Keep(ctx, c.GetString(keySubject), answer); err != nil {
		a.log.Error("an answer was not kept for its idempotency key; sent again, the request is answered and billed anew", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
	}
}

// afterwards is the context of what is written when an answer is there, whether its caller is or not.
func afterwards(c *gin.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request.Context()), keepTimeout)
}

// releaseClaim lets the next request with the key run, where this one had no answer.
func (a *API) releaseClaim(c *gin.Context) {
	claim := claimOf(c)
	if claim == nil {
		return
	}
	ctx, cancel := afterwards(c)
	defer cancel()
	if err := claim.Release(ctx); err != nil {
		a.log.Warn("a claim was not given up; it ends by itself", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
	}
}
