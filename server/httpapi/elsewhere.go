package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// elsewhere is what clients of the dialects may look for and is not offered here: a path, that path with all below it where below is set, and what
// to do instead.
type elsewhere struct {
	path    string
	below   bool
	instead fault.Phrase
}

// notOffered lists them. A path that is served, or one above it, must not be here.
func notOffered() []elsewhere {
	textOnly := fault.Say("httpapi.instead_text")
	use := func(path string) fault.Phrase { return fault.Say("httpapi.instead_use", path) }
	installed := fault.Say("httpapi.instead_installed")
	return []elsewhere{
		{"/v1/audio", true, textOnly},
		{"/v1/images", true, textOnly},
		{"/v1/videos", true, textOnly},
		{"/v1/realtime", true, use("/v1/chat/completions")},
		{"/v1/assistants", true, use("/v1/chat/completions")},
		{"/v1/threads", true, use("/v1/chat/completions")},
		{"/v1/vector_stores", true, fault.Say("httpapi.instead_search")},
		{"/v1/fine_tuning", true, fault.Say("httpapi.instead_adapters")},
		{"/v1/complete", false, use("/v1/messages")},
		{"/v1/chat", false, use("/v1/chat/completions")},
		{"/v1/embed", false, use("/v1/embeddings")},
		{"/v1/classify", false, use("/v1/chat/completions")},
		{"/v1/summarize", false, use("/v1/chat/completions")},
		{"/v2/chat", false, use("/v1/chat/completions")},
		{"/v2/embed", false, use("/v1/embeddings")},
		{"/v2/repository", true, installed},
		{"/api/pull", false, installed},
		{"/api/push", false, installed},
		{"/api/create", false, installed},
		{"/api/copy", false, installed},
		{"/api/delete", false, installed},
		{"/api/blobs", true, installed},
	}
}

// registerElsewhere refuses what is not offered, to known callers, in the dialect of its path. The status is 404: clients raise it by a name of its
// own and do not try again, as some do after 501.
func (a *API) registerElsewhere(r gin.IRouter) {
	for _, e := range notOffered() {
		handle := func(c *gin.Context) {
			call := a.call(c, access.ModelsRead)
			call.Plane, call.Route, call.Action = identity.DataPlane, c.Request.Method+" "+e.path, gateway.ActionModels
			a.WriteError(c, a.answer(c, call, func(_ *API, c *gin.Context, _ identity.Principal, _ *gateway.Call) error {
				return fault.New(fault.CodeNotOffered, truncate(c.Request.URL.Path), e.instead)
			}))
		}
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			r.Handle(method, e.path, handle)
			if e.below {
				r.Handle(method, e.path+"/*rest", handle)
			}
		}
	}
}
