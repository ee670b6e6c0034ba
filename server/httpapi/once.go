package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	headerIdempotencyKey = "Idempotency-Key"
	headerReplayed       = "Idempotent-Replayed"
	maxIdempotencyKey    = 255
	releaseTimeout       = 10 * time.Second
)

// keyClaim is the claim of a request with an idempotency key in the gin context; keySubject the digest of the person that its answer is for.
const (
	keyClaim   = "claim"
	keySubject = "subject"
)

// replayed ends a request that gets the answer which an earlier one had.
type replayed struct{ body []byte }

func (*replayed) Error() string { return "answered before" }

// claim takes the right to answer a request that brings a key. Errors: those of [replies.Store.Claim], and *replayed.
func (a *API) claim(c *gin.Context, who identity.Principal, body []byte) error {
	key := c.GetHeader(headerIdempotencyKey)
	if key == "" || a.replies == nil {
		return nil
	}
	if len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fault.New(fault.CodeInvalidValue, headerIdempotencyKey, fault.Say("httpapi.idempotency_key", maxIdempotencyKey)).WithParam(headerIdempotencyKey)
	}
	asked := append([]byte(c.FullPath()+"\x00"), body...)
	claim, answer, err := a.replies.Claim(c.Request.Context(), replies.Attempt{
		ID: c.GetString(keyRequestID), Tenant: who.Tenant, Caller: who.ID, Key: key, Asked: asked,
	})
	if err != nil {
		return err
	}
	if claim == nil {
		return &replayed{answer}
	}
	c.Set(keyClaim, claim)
	return nil
}

// claimOf returns the claim of a request, nil if it has none.
func claimOf(c *gin.Context) *replies.Claim {
	claim, _ := c.Value(keyClaim).(*replies.Claim)
	return claim
}

// replay writes the answer that an earlier request has had.
func (a *API) replay(c *gin.Context, r *replayed) {
	c.Header(headerReplayed, "true")
	a.deadline(c)
	c.Data(http.StatusOK, contentJSON, r.body)
}

// keepAnswer makes the answer to a request with a key durable before it leaves. One that cannot be kept leaves all the same: it is paid for, and
// refusing it would have it paid for again.
func (a *API) keepAnswer(c *gin.Context, body []byte) {
	claim := claimOf(c)
	if claim == nil {
		return
	}
	c.Set(keyClaim, nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), releaseTimeout)
	defer cancel()
	if err := claim.Keep(ctx, c.GetString(keySubject), body); err != nil {
		a.log.Error("an answer was not kept for its idempotency key; sent again, the request is answered and billed anew", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
	}
}

// releaseClaim lets the next request with the key run, where this one had no answer.
func (a *API) releaseClaim(c *gin.Context) {
	claim := claimOf(c)
	if claim == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Request.Context()), releaseTimeout)
	defer cancel()
	if err := claim.Release(ctx); err != nil {
		a.log.Warn("a claim was not given up; it ends by itself", slog.String("request", c.GetString(keyRequestID)), slog.Any("error", err))
	}
}
