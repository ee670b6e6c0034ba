package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// cohere is the dialect of Cohere's second version. Its first shares /v1/rerank with Jina's and vLLM's.
func cohere() *dialect {
	return &dialect{name: dialectCohere, credential: bearer, refusal: cohereRefusal}
}

// coherePath reports whether a path is one of Cohere's API, offered or not.
func coherePath(path string) bool {
	switch path {
	case "/v2/rerank", "/v2/chat", "/v2/embed", "/v1/chat", "/v1/embed", "/v1/classify", "/v1/summarize":
		return true
	}
	return false
}

// cohereError is the body of a refusal. Code and param are ours.
type cohereError struct {
	ID      string     `json:"id"`
	Message string     `json:"message"`
	Code    fault.Code `json:"code"`
	Param   string     `json:"param,omitempty"`
}

func cohereRefusal(e *fault.Error, lang fault.Lang, request string) (int, any) {
	status := e.Kind().Status()
	if e.Kind() == fault.Quota { // its clients try a 429 again
		status = http.StatusPaymentRequired
	}
	return status, cohereError{ID: request, Message: e.Message(lang), Code: e.Code(), Param: e.Param()}
}

// documentsPerUnit is how many documents of one query make a unit, as Cohere counts them.
const documentsPerUnit = 100

// cohereMeta is what an answer of Cohere's says about itself.
type cohereMeta struct {
	APIVersion struct {
		Version string `json:"version"`
	} `json:"api_version"`
	BilledUnits struct {
		SearchUnits int `json:"search_units"`
	} `json:"billed_units"`
	Tokens struct {
		InputTokens int64 `json:"input_tokens"`
	} `json:"tokens"`
}

func cohereMetaOf(version string, documents int, r *gateway.ScoreReply) cohereMeta {
	var out cohereMeta
	out.APIVersion.Version = version
	out.BilledUnits.SearchUnits = (documents + documentsPerUnit - 1) / documentsPerUnit
	out.Tokens.InputTokens = r.Usage.PromptTokens
	return out
}

// cohereRerank answers POST /v2/rerank.
func (a *API) cohereRerank(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	type result struct {
		Index int     `json:"index"`
		Score float64 `json:"relevance_score"`
	}
	decode := func(f *fields) error { return cohereRerankCall(f, call) }
	return a.scored(c, who, call, decode, func(reply *gateway.ScoreReply, x *extension) (any, error) {
		results := make([]result, len(reply.Best))
		for i, place := range reply.Best {
			results[i] = result{place, finite(reply.Scores[place])}
		}
		return struct {
			ID      string     `json:"id"`
			Results []result   `json:"results"`
			Meta    cohereMeta `json:"meta"`
			Sluice  *extension `json:"sluice"`
		}{reply.Request, results, cohereMetaOf("2", len(call.Documents), reply), x}, nil
	})
}

// cohereRerankCall decodes POST /v2/rerank. Documents are never cut: one that is too long for the model is refused.
func cohereRerankCall(f *fields, c *gateway.Call) error {
	ranking(f, c)
	f.integer("max_tokens_per_doc", 1, maxTokens)
	if p := f.integer("priority", 0, maxPriority-1); p != nil { // the lowest goes first
		c.Priority = -int(*p)
	}
	if raw, ok := f.raw("relevant_spans"); ok && raw != "false" {
		f.unsupported("relevant_spans", fault.Say("httpapi.leave_out"))
	}
	return f.err
}
