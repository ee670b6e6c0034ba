package httpapi

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/billing/price"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// models answers GET /v1/models.
func (a *API) models(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	all, err := a.pipeline.Models(c.Request.Context(), call)
	if err != nil {
		return err
	}
	if a.dialect(c).name == dialectAnthropic {
		a.writeJSON(c, http.StatusOK, anthropicModels(all, call.Language))
		return nil
	}
	out := openai.ModelList{Object: openai.ObjectList, Data: make([]openai.Model, len(all))}
	for i, m := range all {
		out.Data[i] = modelOf(m, call.Language)
	}
	a.writeJSON(c, http.StatusOK, out)
	return nil
}

// model answers GET /v1/models/{id}; ids may hold slashes.
func (a *API) model(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	all, err := a.pipeline.Models(c.Request.Context(), call)
	if err != nil {
		return err
	}
	id := strings.TrimPrefix(c.Param("id"), "/")
	m, err := findModel(all, gateway.AskedModel(id))
	if err != nil {
		return err
	}
	if a.dialect(c).name == dialectAnthropic {
		a.writeJSON(c, http.StatusOK, anthropicModelOf(m, call.Language))
	} else {
		a.writeJSON(c, http.StatusOK, modelOf(m, call.Language))
	}
	return nil
}

// findModel returns the model of a name among those that the caller may use.
func findModel(all []gateway.Model, name gateway.AskedModel) (gateway.Model, error) {
	for _, m := range all {
		if m.Name == string(name) {
			return m, nil
		}
	}
	return gateway.Model{}, fault.New(fault.CodeModelNotFound, truncate(string(name))).WithParam("model")
}

// modelExtension is the object "sluice" of a model: what it is for, what it takes and what it costs.
type modelExtension struct {
	Status       string      `json:"status"`           // ready or unavailable
	Reason       string      `json:"reason,omitempty"` // why it is unavailable, in the caller's language
	Capabilities []string    `json:"capabilities"`     // empty while nobody knows
	Formats      []string    `json:"response_formats,omitempty"`
	Context      int         `json:"context_tokens,omitempty"` // prompt and completion together
	Dimensions   int         `json:"embedding_dimensions,omitempty"`
	Price        *modelPrice `json:"price,omitempty"`
	Version      string      `json:"version"`
	Precision    string      `json:"precision,omitempty"`
}

// modelPrice says what the tokens of a model cost.
type modelPrice struct {
	Currency  string `json:"currency"`
	PriceBook string `json:"price_book"`
	tokenPrices

	Batch *tokenPrices `json:"batch,omitempty"` // of requests of this queue class, where they cost less
}

// tokenPrices are in whole units of the currency for a million tokens. Books price a token in 10⁻⁹ units, so three decimals are exact.
type tokenPrices struct {
	Prompt     float64  `json:"prompt_per_million"`
	Cached     *float64 `json:"cached_prompt_per_million,omitempty"`
	Completion *float64 `json:"completion_per_million,omitempty"`
}

func tokenPricesOf(r price.Rate, generates bool) tokenPrices {
	perMillion := func(unit int64) float64 { return float64(unit) / 1000 }
	p := tokenPrices{Prompt: perMillion(r.Prompt)}
	if generates {
		cached, completion := perMillion(r.Cached), perMillion(r.Completion)
		p.Cached, p.Completion = &cached, &completion
	}
	return p
}

const (
	statusReady       = "ready"
	statusUnavailable = "unavailable"
)

// modelOf describes a model. Who owns it is what runs it here: "native" is this server, any other name an upstream that prompts go to.
func modelOf(m gateway.Model, lang fault.Lang) openai.Model {
	x := modelExtension{
		Status: statusReady, Capabilities: capabilities(m.Info), Context: m.Info.ContextTokens, Dimensions: m.Info.EmbedDim,
		Version: m.Stable, Precision: m.Info.Precision,
	}
	if m.Info.CanGenerate {
		x.Formats = []string{"text"}
		if m.Info.HasFormats {
			x.Formats = append(x.Formats, "json_object", "json_schema", "regex", "choice", "grammar")
		}
	}
	if p := m.Price; p != nil {
		x.Price = &modelPrice{Currency: p.Currency, PriceBook: p.PriceBook, tokenPrices: tokenPricesOf(p.Rate, m.Info.CanGenerate)}
		if p.Batch != nil {
			batch := tokenPricesOf(*p.Batch, m.Info.CanGenerate)
			x.Price.Batch = &batch
		}
	}
	switch {
	case m.Err != nil:
		x.Status, x.Reason = statusUnavailable, fault.Public(m.Err).Message(lang)
	case m.Price == nil:
		x.Status, x.Reason = statusUnavailable, fault.Say("httpapi.no_price").In(lang)
	}
	return openai.Model{ID: m.Name, Object: openai.ObjectModel, Created: m.CreatedAt / 1_000_000, OwnedBy: m.Engine, Sluice: x}
}

// capabilities are what a model does, as its engine says.
func capabilities(m engine.Model) []string {
	out := []string{}
	for _, c := range []struct {
		name string
		has  bool
	}{
		{"chat", gateway.ActionChat.Can(m)},
		{"completions", gateway.ActionCompletion.Can(m)},
		{"streaming", m.CanGenerate},
		{"embeddings", gateway.ActionEmbed.Can(m)},
		{"rerank", gateway.ActionRerank.Can(m)},
		{"score", gateway.ActionScore.Can(m)},
		{"tools", m.CanGenerate && m.HasTools},
		{"response_formats", m.CanGenerate && m.HasFormats},
		{"logprobs", m.CanGenerate && m.HasLogprobs},
		{"sampling", m.CanGenerate && m.HasSampling},
		{"deterministic", m.Deterministic},
	} {
		if c.has {
			out = append(out, c.name)
		}
	}
	return out
}
