package httpapi

import (
	"crypto/sha256"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
)

// body reads the request body of a known caller within its bounds and parses it. done gives its bytes back; the caller calls it when the
// request has ended, since what masking makes of a body is as long. It is never nil.
func (a *API) body(c *gin.Context, who identity.Principal) (f *fields, done func(), err error) {
	if enc := c.GetHeader("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		inflight.HangUp(c.Writer, c.Request)
		return nil, func() {}, fault.New(fault.CodeUnsupported, "Content-Encoding", fault.Say("httpapi.compressed")).WithParam("Content-Encoding")
	}
	raw, done, err := a.bodies.Body(c.Writer, c.Request, inflight.Caller{Tenant: who.Tenant, ID: who.ID}, a.cfg.MaxBodyBytes)
	if err != nil {
		return nil, done, err
	}
	if c.GetHeader(headerIdempotencyKey) != "" {
		c.Set(keyAsked, sha256.Sum256(raw))
	}
	f, err = parse(string(raw), a.cfg.MaxDepth)
	return f, done, err
}
