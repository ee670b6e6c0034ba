package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// rerank answers POST /v1/rerank: documents by how well they answer a query, best first. What is returned of a document is what the
// caller sent, as the policy lets it out again.
func (a *API) rerank(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return rerankCall(f, call) }
	return a.scored(c, who, call, decode, func(reply *gateway.ScoreReply, x *extension) (any, error) {
		out := struct {
			openai.Rerank

			Meta cohereMeta `json:"meta"`
		}{openai.Rerank{
			ID: answerID("rerank", reply.Request), Model: string(call.Model), Usage: scoreUsage(reply), Sluice: x, Results: make([]openai.Ranked, len(reply.Best)),
		}, cohereMetaOf("1", len(call.Documents), reply)}
		for i, place := range reply.Best {
			out.Results[i] = openai.Ranked{Index: place, Score: finite(reply.Scores[place])}
			if reply.Documents == nil {
				continue
			}
			var err error
			if out.Results[i].Document, err = encode(map[string]string{"text": reply.Documents[i]}); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// score answers POST /v1/score: how well pairs of texts fit.
func (a *API) score(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	decode := func(f *fields) error { return scoreCall(f, call) }
	return a.scored(c, who, call, decode, func(reply *gateway.ScoreReply, x *extension) (any, error) {
		out := openai.ScoreList{
			ID: answerID("score", reply.Request), Object: openai.ObjectList, Created: reply.Created.Unix(), Model: string(call.Model),
			Usage: scoreUsage(reply), Sluice: x, Data: make([]openai.Score, len(reply.Scores)),
		}
		for i, score := range reply.Scores {
			out.Data[i] = openai.Score{Index: i, Object: openai.ObjectScore, Score: finite(score)}
		}
		return out, nil
	})
}

func scoreUsage(r *gateway.ScoreReply) openai.EmbeddingUsage {
	n := int(r.Usage.PromptTokens)
	return openai.EmbeddingUsage{PromptTokens: n, TotalTokens: n}
}

// rerankCall decodes POST /v1/rerank, in the forms of Jina, vLLM and Cohere's first version.
func rerankCall(f *fields, c *gateway.Call) error {
	ranking(f, c)
	c.ReturnDocuments = f.flag("return_documents")
	if names := f.strings("rank_fields", fault.Say("type.string_array"), maxDocuments); len(names) > 1 || len(names) == 1 && names[0] != "text" {
		f.unsupported("rank_fields", fault.Say("httpapi.rank_fields"))
	}
	urgency(f, c)
	return f.err
}

// ranking decodes what all forms of a rerank share.
func ranking(f *fields, c *gateway.Call) {
	c.Model = model(f)
	c.Query = f.needText("query")
	items, ok := f.list("documents")
	switch {
	case !ok:
		f.fail(fault.CodeMissing, "documents")
	case len(items) == 0:
		f.invalid("documents", fault.Say("value.empty"))
	case len(items) > maxDocuments:
		f.invalid("documents", fault.Say("value.item_count", maxDocuments))
	}
	for i, raw := range items {
		if f.err == nil {
			c.Documents = append(c.Documents, document(f, i, raw))
		}
	}
	if n := f.integer("top_n", 1, maxDocuments); n != nil {
		c.TopN = int(*n)
	}
	sluiceOptions(f, c)
	onBehalfOf(f, c)
}

// document reads a text, or an object that holds one.
func document(f *fields, i int, raw string) string {
	if text, ok := textOf(raw); ok {
		return text
	}
	item := f.item("documents", i, raw)
	text, ok := item.text("text")
	if !ok {
		item.fail(fault.CodeMissing, "text")
	}
	f.join(item)
	return text
}

// scoreCall decodes POST /v1/score: a text and one or several, or pairs.
func scoreCall(f *fields, c *gateway.Call) error {
	c.Model = model(f)
	texts := func(field string) []string {
		out := f.strings(field, fault.Say("type.strings"), maxDocuments)
		if len(out) == 0 {
			f.fail(fault.CodeMissing, field)
		}
		return out
	}
	first, second := texts("text_1"), texts("text_2")
	if f.err != nil {
		return f.err
	}
	c.Documents = second
	switch len(first) {
	case 1:
		c.Query = first[0]
	case len(second):
		c.Queries = first
	default:
		f.invalid("text_1", fault.Say("httpapi.text_pair"))
	}
	sluiceOptions(f, c)
	urgency(f, c)
	onBehalfOf(f, c)
	return f.err
}
