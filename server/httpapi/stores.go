package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/gateway/batch"
	"github.com/sluice-project/sluice/gateway/files"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// Keep gives the edge what it stores files, batches and answers in. Call it before Register; without it their routes are not there, and no answer
// is kept.
func (a *API) Keep(f *files.Store, b *batch.Service, r *replies.Store) {
	a.files, a.batches, a.replies = f, b, r
}

// kept answers with a handler that needs the stores.
func kept(handle func(*API, *gin.Context, identity.Principal, *gateway.Call) error) func(*API, *gin.Context, identity.Principal, *gateway.Call) error {
	return func(a *API, c *gin.Context, who identity.Principal, call *gateway.Call) error {
		if a.files == nil {
			return fault.New(fault.CodeNotFound, fault.Say("thing.path"), truncate(c.Request.URL.Path))
		}
		return handle(a, c, who, call)
	}
}
