package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/rawjson"
)

// openInference is the dialect of the Open Inference Protocol, version 2, over HTTP.
func openInference() *dialect {
	return &dialect{name: dialectOpenInference, credential: bearer, refusal: plainRefusal}
}

// inferencePath reports whether a path is one of the Open Inference Protocol's, offered or not.
func inferencePath(path string) bool { return path == "/v2" || strings.HasPrefix(path, "/v2/") }

// The tensors of a model that embeds: texts go in, a vector for each comes out.
const (
	tensorIn, tensorOut = "input", "embedding"
	typeBytes, typeFP32 = "BYTES", "FP32"
)

// tensor describes what goes into a model, or comes out. -1 is a length that the request decides.
type tensor struct {
	Name     string    `json:"name"`
	Datatype string    `json:"datatype"`
	Shape    []int     `json:"shape"`
	Data     []float32 `json:"data,omitempty"`
}

// inferenceServer answers GET /v2.
func (a *API) inferenceServer(c *gin.Context, _ identity.Principal, _ *gateway.Call) error {
	a.writeJSON(c, http.StatusOK, struct {
		Name       string   `json:"name"`
		Version    string   `json:"version"`
		Extensions []string `json:"extensions"`
	}{"sluice", a.cfg.Version, []string{}})
	return nil
}

// inferenceLive answers GET /v2/health/live.
func (a *API) inferenceLive(c *gin.Context, _ identity.Principal, _ *gateway.Call) error {
	a.writeJSON(c, http.StatusOK, map[string]bool{"live": true})
	return nil
}

// inferenceReady answers GET /v2/health/ready: whether any model is there that the caller may use.
func (a *API) inferenceReady(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	ready, err := a.anyReady(c.Request.Context(), call)
	if err != nil {
		return err
	}
	a.writeJSON(c, readyStatus(ready), map[string]bool{"ready": ready})
	return nil
}

// anyReady reports whether any model is there that the caller may use.
func (a *API) anyReady(ctx context.Context, call *gateway.Call) (bool, error) {
	all, err := a.pipeline.Models(ctx, call)
	return slices.ContainsFunc(all, func(m gateway.Model) bool { return m.Err == nil }), err
}

// readyStatus is how the protocol says yes and no.
func readyStatus(ready bool) int {
	if ready {
		return http.StatusOK
	}
	return http.StatusBadRequest
}

// inferenceTarget is what a path below /v2/models asks for.
type inferenceTarget struct {
	model, version string
	verb           string // infer, ready, or nothing: what the model is like
}

// inferenceTargetOf reads such a path from its end, since names of models may have slashes.
func inferenceTargetOf(path string) inferenceTarget {
	t := inferenceTarget{model: strings.TrimPrefix(path, "/")}
	for _, verb := range []string{"infer", "ready"} {
		if model, ok := strings.CutSuffix(t.model, "/"+verb); ok {
			t.model, t.verb = model, verb
			break
		}
	}
	if i := strings.LastIndex(t.model, "/versions/"); i >= 0 && !strings.Contains(t.model[i+len("/versions/"):], "/") {
		t.model, t.version = t.model[:i], t.model[i+len("/versions/"):]
	}
	return t
}

// inferenceModel answers GET /v2/models/{model}, with a version or without, and the same with /ready.
func (a *API) inferenceModel(c *gin.Context, _ identity.Principal, call *gateway.Call) error {
	t := inferenceTargetOf(c.Param("id"))
	if t.verb == "infer" {
		return notThisMethod(c, http.MethodPost)
	}
	m, err := a.inferenceFind(c.Request.Context(), call, t.model, t.version)
	if err != nil {
		return err
	}
	if t.verb == "ready" {
		a.writeJSON(c, readyStatus(m.Err == nil), struct {
			Name  string `json:"name"`
			Ready bool   `json:"ready"`
		}{m.Name, m.Err == nil})
		return nil
	}
	a.writeJSON(c, http.StatusOK, inferenceMetadata(m, call.Language))
	return nil
}

// inferenceFind returns a model that the caller may use, in the version that is in use.
func (a *API) inferenceFind(ctx context.Context, call *gateway.Call, model, version string) (gateway.Model, error) {
	all, err := a.pipeline.Models(ctx, call)
	if err != nil {
		return gateway.Model{}, err
	}
	m, err := findModel(all, gateway.AskedModel(model))
	if err == nil && version != "" && version != m.Stable {
		err = fault.New(fault.CodeModelNotFound, truncate(model+"@"+version)).WithParam("model")
	}
	return m, err
}

// notThisMethod refuses a method where the path decides after the router has.
func notThisMethod(c *gin.Context, takes string) error {
	c.Header("Allow", takes)
	return fault.New(fault.CodeMethodNotAllowed, truncate(c.Request.URL.Path), truncate(c.Request.Method))
}

// tensorsOf are the tensors of a model.
func tensorsOf(m gateway.Model) (inputs, outputs []tensor) {
	if !m.Info.CanEmbed {
		return []tensor{}, []tensor{}
	}
	return []tensor{{Name: tensorIn, Datatype: typeBytes, Shape: []int{-1}}}, []tensor{{Name: tensorOut, Datatype: typeFP32, Shape: []int{-1, m.Info.EmbedDim}}}
}

// inferenceMetadata describes a model. One that does something else than embed has no tensors: other dialects speak to it.
func inferenceMetadata(m gateway.Model, lang fault.Lang) any {
	inputs, outputs := tensorsOf(m)
	return struct {
		Name     string   `json:"name"`
		Versions []string `json:"versions"`
		Platform string   `json:"platform"`
		Inputs   []tensor `json:"inputs"`
		Outputs  []tensor `json:"outputs"`
		Sluice   any      `json:"sluice"`
	}{m.Name, []string{m.Stable}, m.Engine, inputs, outputs, modelOf(m, lang).Sluice}
}

// infer answers POST /v2/models/{model}/infer, with a version or without.
func (a *API) infer(c *gin.Context, who identity.Principal, call *gateway.Call) error {
	t := inferenceTargetOf(c.Param("id"))
	if t.verb != "infer" {
		return notThisMethod(c, http.MethodGet)
	}
	if c.GetHeader(headerInferenceLength) != "" {
		return fault.New(fault.CodeUnsupported, headerInferenceLength, fault.Say("httpapi.inference_json")).WithParam(headerInferenceLength)
	}
	call.Model = askedVersion(t.model, t.version)
	id := ""
	decode := func(f *fields) error {
		id = inferCall(f, call)
		return f.err
	}
	return a.embedded(c, who, call, decode, func(reply *gateway.EmbedReply, x *extension) any {
		return struct {
			ID      string     `json:"id,omitempty"`
			Model   string     `json:"model_name"`
			Version string     `json:"model_version"`
			Outputs []tensor   `json:"outputs"`
			Sluice  *extension `json:"sluice"`
		}{id, t.model, cmp.Or(t.version, reply.Version.Version), []tensor{vectorsTensor(reply.Vectors)}, x}
	})
}

// askedVersion names a model, and its version if the caller names one.
func askedVersion(model, version string) gateway.AskedModel {
	if version != "" {
		model += "@" + version
	}
	return gateway.AskedModel(model)
}

// headerInferenceLength says that a body has tensors in binary form behind its JSON.
const headerInferenceLength = "Inference-Header-Content-Length"

// vectorsTensor lays vectors out row by row.
func vectorsTensor(vectors [][]float32) tensor {
	out := tensor{Name: tensorOut, Datatype: typeFP32, Shape: []int{len(vectors), len(vectors[0])}}
	for _, v := range vectors {
		out.Data = append(out.Data, v...)
	}
	return out
}

// inferCall decodes a request for vectors, and returns the id that the caller has given it.
func inferCall(f *fields, c *gateway.Call) (id string) {
	if c.Model == "" {
		f.fail(fault.CodeMissing, "model")
	}
	printable(f, string(c.Model))
	if id, _ = f.text("id"); len(id) > maxIDBytes {
		f.invalid("id", fault.Say("value.bytes_at_most", maxIDBytes))
	}
	items, ok := f.list("inputs")
	switch {
	case !ok:
		f.fail(fault.CodeMissing, "inputs")
	case len(items) != 1:
		f.invalid("inputs", fault.Say("httpapi.inference_input", tensorIn))
	default:
		in := f.item("inputs", 0, items[0])
		c.Input = texts(in)
		f.join(in)
	}
	outputs, _ := f.list("outputs")
	for i, raw := range outputs {
		out := f.item("outputs", i, raw)
		if out.needText("name") != tensorOut {
			out.invalid("name", fault.Say("httpapi.inference_output", tensorOut))
		}
		noBinary(out)
		f.join(out)
	}
	if p, ok := f.object("parameters"); ok {
		role(p, c)
		if d := p.integer("dimensions", 1, 1<<20); d != nil {
			c.Dimensions = int(*d)
		}
		f.join(p)
	}
	sluiceOptions(f, c)
	urgency(f, c)
	return id
}

// noBinary refuses tensors in binary form.
func noBinary(t *fields) {
	p, ok := t.object("parameters")
	if !ok {
		return
	}
	for _, field := range []string{"binary_data", "binary_data_size", "shared_memory_region", "classification"} {
		if raw, ok := p.raw(field); ok && raw != "false" && raw != "0" {
			p.unsupported(field, fault.Say("httpapi.inference_json"))
		}
	}
	t.join(p)
}

// texts decodes a tensor of texts: a row of them, or a column.
func texts(in *fields) []string {
	if in.needText("name") != tensorIn {
		in.invalid("name", fault.Say("httpapi.inference_input", tensorIn))
	}
	if in.needText("datatype") != typeBytes {
		in.invalid("datatype", fault.Say("httpapi.inference_bytes"))
	}
	noBinary(in)
	out := column(in)
	if n := elements(in); in.err == nil && n != len(out) {
		in.invalid("shape", fault.Say("httpapi.inference_shape"))
	}
	return out
}

// column reads the texts of a tensor, which may stand in lists of one each.
func column(in *fields) []string {
	items, ok := in.list("data")
	switch {
	case !ok:
		in.fail(fault.CodeMissing, "data")
	case len(items) == 0:
		in.invalid("data", fault.Say("value.empty"))
	case len(items) > maxInputs:
		in.invalid("data", fault.Say("value.item_count", maxInputs))
	}
	out := make([]string, 0, len(items))
	for _, raw := range items {
		if row, nested := rawjson.Items(raw); nested && len(row) == 1 {
			raw = row[0]
		}
		text, ok := textOf(raw)
		switch {
		case !ok:
			in.wrongType("data", fault.Say("type.string_array"))
		case text == "":
			in.invalid("data", fault.Say("httpapi.empty_items"))
		}
		if in.err != nil {
			return nil
		}
		out = append(out, text)
	}
	return out
}

// elements is how many elements a tensor says that it has: one length, or one and 1.
func elements(in *fields) int {
	lengths, ok := in.list("shape")
	if !ok {
		in.fail(fault.CodeMissing, "shape")
		return 0
	}
	if len(lengths) == 0 || len(lengths) > 2 || len(lengths) == 2 && lengths[1] != "1" {
		in.invalid("shape", fault.Say("httpapi.inference_shape"))
		return 0
	}
	one := &fields{path: in.path, m: rawjson.One("shape", lengths[0])}
	n := one.integer("shape", 1, maxInputs)
	if in.join(one); n == nil {
		return 0
	}
	return int(*n)
}
