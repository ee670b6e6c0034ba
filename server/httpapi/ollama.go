package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// ollamaVersion is the version of Ollama whose API is spoken here. Its clients ask for the version and refuse older ones.
const ollamaVersion = "0.12.11"

// ollamaLatest is the tag of a model name that has none.
const ollamaLatest = ":latest"

// ollama is the dialect of Ollama's own API. Its streams have no comments, since clients take every line for an event.
func ollama() *dialect {
	return &dialect{
		name: dialectOllama, credential: bearer, refusal: plainRefusal,
		stream: framing{contentType: "application/x-ndjson", event: jsonLine},
	}
}

// jsonLine appends an event as a line of its own. None has a name.
func jsonLine(dst []byte, _ string, data []byte) []byte { return append(append(dst, data...), '\n') }

// ollamaPath reports whether a path is one of Ollama's API. Everything else below /api/ is the management API's.
func ollamaPath(path string) bool {
	switch path {
	case "/api/chat", "/api/generate", "/api/embed", "/api/embeddings", "/api/tags", "/api/show", "/api/version", "/api/ps",
		"/api/pull", "/api/push", "/api/create", "/api/copy", "/api/delete", "/api/blobs":
		return true
	}
	return strings.HasPrefix(path, "/api/blobs/")
}

// ollamaChat answers POST /api/chat.
func (a *API) ollamaChat(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	return a.ollamaAnswer(c, who, call, ollamaChatCall, true)
}

// ollamaGenerate answers POST /api/generate.
func (a *API) ollamaGenerate(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	return a.ollamaAnswer(c, who, call, ollamaGenerateCall, false)
}

func (a *API) ollamaAnswer(c *gin.Context, who identity.Principal, call *gateway.Call, decode func(*fields, *gateway.Call) options, chat bool) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	all := a.ollamaModels(c, call)
	opt := decode(f, call)
	opt.model = string(call.Model)
	call.Model = tagged(call.Model, all)
	if f.err != nil {
		return f.err
	}
	s := ollamaShape{chat: chat, received: call.Received, now: a.now}
	if len(call.Messages) == 0 && call.Prompt == "" {
		return a.ollamaLoad(c, call, all, s.loaded(opt.model, f))
	}
	return a.answered(c, who, call, s, opt)
}

// ollamaLoad answers a request that says nothing, by which clients load a model and let go of it. Models here are there or not.
func (a *API) ollamaLoad(c *gin.Context, call *gateway.Call, all []gateway.Model, loaded any) error {
	m, err := findModel(all, call.Model)
	if err == nil && m.Err != nil {
		err = m.Err
	}
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, loaded)
	return nil
}

// ollamaModels lists the models of the caller before its call names one. Where that fails there are none: the call itself is then refused, and
// recorded.
func (a *API) ollamaModels(c *gin.Context, call *gateway.Call) []gateway.Model {
	all, err := a.pipeline.Models(c.Request.Context(), call)
	if err != nil {
		return nil
	}
	return all
}

// tagged returns the name that a model has here: in this dialect a name without a tag and one with the tag "latest" are the same.
func tagged(asked gateway.AskedModel, all []gateway.Model) gateway.AskedModel {
	name := string(asked)
	other := strings.TrimSuffix(name, ollamaLatest)
	if other == name {
		other += ollamaLatest
	}
	found := asked
	for _, m := range all {
		switch m.Name {
		case name:
			return asked
		case other:
			found = gateway.AskedModel(other)
		}
	}
	if found == asked && len(other) < len(name) {
		return gateway.AskedModel(other) // which the refusal then names
	}
	return found
}

// ollamaEmbed answers POST /api/embed.
func (a *API) ollamaEmbed(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	var asked string
	return a.embedded(c, who, call, a.ollamaTexts(c, call, "input", &asked), func(reply *gateway.EmbedReply, x *extension) any {
		return struct {
			Model      string      `json:"model"`
			Embeddings [][]float32 `json:"embeddings"`
			Total      int64       `json:"total_duration"`
			Tokens     int64       `json:"prompt_eval_count"`
			Sluice     *extension  `json:"sluice"`
		}{asked, reply.Vectors, a.now().Sub(call.Received).Nanoseconds(), reply.Usage.PromptTokens, x}
	})
}

// ollamaEmbedding answers POST /api/embeddings, the older form: of one text.
func (a *API) ollamaEmbedding(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	return a.embedded(c, who, call, a.ollamaTexts(c, call, "prompt", new(string)), func(reply *gateway.EmbedReply, x *extension) any {
		return struct {
			Embedding []float32  `json:"embedding"`
			Sluice    *extension `json:"sluice"`
		}{reply.Vectors[0], x}
	})
}

// ollamaTexts decodes the texts in a field, whose vectors are wanted. asked becomes the model as the caller spells it.
func (a *API) ollamaTexts(c *gin.Context, call *gateway.Call, field string, asked *string) func(*fields) error {
	return func(f *fields) error {
		all := a.ollamaModels(c, call)
		ollamaEmbedCall(f, call, field)
		*asked, call.Model = string(call.Model), tagged(call.Model, all)
		return f.err
	}
}

// ollamaTags answers GET /api/tags.
func (a *API) ollamaTags(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	return a.ollamaList(c, call, func(gateway.Model) bool { return true })
}

// ollamaRunning answers GET /api/ps: the models that are ready.
func (a *API) ollamaRunning(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	return a.ollamaList(c, call, func(m gateway.Model) bool { return m.Err == nil })
}

func (a *API) ollamaList(c *gin.Context, call *gateway.Call, wanted func(gateway.Model) bool) error {
	all, err := a.pipeline.Models(c.Request.Context(), call)
	if err != nil {
		return err
	}
	out := struct {
		Models []ollamaModel `json:"models"`
	}{[]ollamaModel{}}
	for _, m := range all {
		if wanted(m) {
			out.Models = append(out.Models, ollamaModelOf(m, call.Language))
		}
	}
	a.writeJSON(c, http.StatusOK, out)
	return nil
}

// ollamaModel is a model in the form of Ollama's lists. How large a model is nobody tells.
type ollamaModel struct {
	Name       string        `json:"name"`
	Model      string        `json:"model"`
	ModifiedAt string        `json:"modified_at"`
	Size       int64         `json:"size"`
	Digest     string        `json:"digest"`
	Details    ollamaDetails `json:"details"`
	Context    int           `json:"context_length,omitempty"`
	Sluice     any           `json:"sluice"`
}

type ollamaDetails struct {
	ParentModel  string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

func ollamaModelOf(m gateway.Model, lang fault.Lang) ollamaModel {
	name := m.Name
	if !strings.Contains(name, ":") {
		name += ollamaLatest
	}
	return ollamaModel{
		Name: name, Model: name, ModifiedAt: time.UnixMicro(m.CreatedAt).UTC().Format(time.RFC3339), Digest: strings.TrimPrefix(m.Info.Digest, "sha256:"),
		Details: ollamaDetails{ParentModel: string(m.Info.Base), Families: []string{}, Quantization: strings.ToUpper(m.Info.Precision)},
		Context: m.Info.ContextTokens, Sluice: modelOf(m, lang).Sluice,
	}
}

// ollamaShow answers POST /api/show.
func (a *API) ollamaShow(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	f, done, err := a.body(c, who)
	defer done()
	if err != nil {
		return err
	}
	all, err := a.pipeline.Models(c.Request.Context(), call)
	if err != nil {
		return err
	}
	field := "model"
	older, named := f.text("name") // what it was called before
	if _, ok := f.raw(field); !ok && named && older != "" {
		field = "name"
	}
	asked := f.needText(field)
	f.flag("verbose")
	if f.err != nil {
		return f.err
	}
	m, err := findModel(all, tagged(gateway.AskedModel(asked), all))
	if err != nil {
		return err
	}
	a.writeJSON(c, http.StatusOK, ollamaShown(m, call.Language))
	return nil
}

// ollamaShown describes a model. Its weights and its template are the operators'.
func ollamaShown(m gateway.Model, lang fault.Lang) any {
	listed := ollamaModelOf(m, lang)
	info := map[string]any{"general.architecture": "model"} // the prefix of the other names
	if n := m.Info.ContextTokens; n > 0 {
		info["model.context_length"] = n
	}
	if n := m.Info.EmbedDim; n > 0 {
		info["model.embedding_length"] = n
	}
	can := []string{}
	for _, ability := range []struct {
		name string
		has  bool
	}{
		{"completion", m.Info.CanGenerate},
		{"tools", m.Info.CanGenerate && m.Info.HasTools},
		{"embedding", m.Info.CanEmbed},
	} {
		if ability.has {
			can = append(can, ability.name)
		}
	}
	return struct {
		Modelfile    string         `json:"modelfile"`
		Parameters   string         `json:"parameters"`
		Template     string         `json:"template"`
		Details      ollamaDetails  `json:"details"`
		Info         map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
		ModifiedAt   string         `json:"modified_at"`
		Sluice       any            `json:"sluice"`
	}{Details: listed.Details, Info: info, Capabilities: can, ModifiedAt: listed.ModifiedAt, Sluice: listed.Sluice}
}

// ollamaServer answers GET /api/version.
func (a *API) ollamaServer(c *gin.Context, _ identity.Principal, _ *gateway.Call) error {
	a.writeJSON(c, http.StatusOK, map[string]string{"version": ollamaVersion})
	return nil
}
