package httpapi

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
)

type inferred struct {
	ID      string
	Model   string `json:"model_name"`
	Version string `json:"model_version"`
	Outputs []tensor
	Sluice  extension
}

// TestInfer: vectors come as one tensor, row by row, and are those that the other dialects give.
func TestInfer(t *testing.T) {
	k := newKit(t, Config{}, nil)
	var want []float32
	for _, v := range decode[struct{ Embeddings [][]float32 }](t, second(k.post(t, "/api/embed", `{"model":"embed","input":["a SECRET1","b"]}`))).Embeddings {
		want = append(want, v...)
	}
	for path, input := range map[string]string{
		"/v2/models/embed/infer":             `{"name":"input","datatype":"BYTES","shape":[2],"data":["a SECRET1","b"]}`,
		"/v2/models/embed/versions/v1/infer": `{"name":"input","datatype":"BYTES","shape":[2,1],"data":[["a SECRET1"],["b"]],"parameters":{"binary_data":false}}`,
	} {
		resp, body := k.post(t, path, `{"id":"mine","inputs":[`+input+`],"outputs":[{"name":"embedding"}],"parameters":{"input_type":"query"}}`)
		got := decode[inferred](t, body)
		if resp.StatusCode != 200 || got.ID != "mine" || got.Version != "v1" || got.Model != "embed" || len(got.Outputs) != 1 || got.Sluice.Receipt == "" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
			continue
		}
		if out := got.Outputs[0]; out.Name != "embedding" || out.Datatype != "FP32" || !reflect.DeepEqual(out.Shape, []int{2, 32}) || !reflect.DeepEqual(out.Data, want) {
			t.Errorf("%s: %+v", path, out)
		}
	}
	for _, q := range k.engine.Inputs()[1:] {
		if strings.Contains(strings.Join(q.Input, ""), "SECRET") || q.Role != engine.RoleQuery {
			t.Errorf("%+v", q)
		}
	}
	if e := k.last(); e.Action != "embeddings" || e.Dialect != "open_inference" {
		t.Errorf("%+v", e)
	}
}

func second(_ *http.Response, body string) string { return body }

// TestInferenceMetadata: names may have slashes, and what is away is not ready.
func TestInferenceMetadata(t *testing.T) {
	k := newKit(t, Config{Version: "1.2.3"}, nil)
	for path, want := range map[string]struct {
		status int
		has    string
	}{
		"/v2":                                       {200, `"name":"sluice","version":"1.2.3"`},
		"/v2/health/live":                           {200, `{"live":true}`},
		"/v2/health/ready":                          {200, `{"ready":true}`},
		"/v2/models/chat":                           {200, `"name":"chat","versions":["v1"],"platform":"native","inputs":[],"outputs":[]`},
		"/v2/models/chat/versions/v1":               {200, `"name":"chat"`},
		"/v2/models/chat/versions/v9":               {404, `"model_not_found"`},
		"/v2/models/chat/ready":                     {200, `{"name":"chat","ready":true}`},
		"/v2/models/away/ready":                     {400, `{"name":"away","ready":false}`},
		"/v2/models/nope":                           {404, `"model_not_found"`},
		"/v2/models/org/embed":                      {200, `"inputs":[{"name":"input","datatype":"BYTES","shape":[-1]}],"outputs":[{"name":"embedding","datatype":"FP32","shape":[-1,32]}]`},
		"/v2/models/org/embed/ready":                {200, `{"name":"org/embed","ready":true}`},
		"/v2/models/org/embed/versions/v1/ready":    {200, `{"name":"org/embed","ready":true}`},
		"/v2/models/org/embed/versions/other/ready": {404, `"model_not_found"`},
	} {
		if resp, body := k.do(t, http.MethodGet, path, nil); resp.StatusCode != want.status || !strings.Contains(body, want.has) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	for method, path := range map[string]string{http.MethodGet: "/v2/models/chat/infer", http.MethodPost: "/v2/models/chat"} {
		other := map[string]string{http.MethodGet: http.MethodPost, http.MethodPost: http.MethodGet}[method]
		if resp, body := k.do(t, method, path, nil); resp.StatusCode != 405 || resp.Header.Get("Allow") != other || decode[plainError](t, body).Code != "method_not_allowed" {
			t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, body)
		}
	}
}

func TestInferenceRefusals(t *testing.T) {
	k := newKit(t, Config{}, nil)
	in := func(input string) string { return `{"inputs":[` + input + `]}` }
	const input = `{"name":"input","datatype":"BYTES","shape":[1],"data":["a"]}`
	for name, c := range map[string]struct {
		body        string
		status      int
		code, param string
	}{
		"no inputs":       {`{}`, 400, "missing_required_parameter", "inputs"},
		"two inputs":      {in(input + "," + input), 400, "invalid_value", "inputs"},
		"other name":      {in(`{"name":"x","datatype":"BYTES","shape":[1],"data":["a"]}`), 400, "invalid_value", "inputs[0].name"},
		"numbers":         {in(`{"name":"input","datatype":"FP32","shape":[1],"data":[1]}`), 400, "invalid_value", "inputs[0].datatype"},
		"no data":         {in(`{"name":"input","datatype":"BYTES","shape":[1]}`), 400, "missing_required_parameter", "inputs[0].data"},
		"empty":           {in(`{"name":"input","datatype":"BYTES","shape":[0],"data":[]}`), 400, "invalid_value", "inputs[0].data"},
		"empty text":      {in(`{"name":"input","datatype":"BYTES","shape":[1],"data":[""]}`), 400, "invalid_value", "inputs[0].data"},
		"number in data":  {in(`{"name":"input","datatype":"BYTES","shape":[1],"data":[5]}`), 400, "invalid_type", "inputs[0].data"},
		"rows of two":     {in(`{"name":"input","datatype":"BYTES","shape":[1,2],"data":[["a","b"]]}`), 400, "invalid_type", "inputs[0].data"},
		"other shape":     {in(`{"name":"input","datatype":"BYTES","shape":[2],"data":["a"]}`), 400, "invalid_value", "inputs[0].shape"},
		"wide shape":      {in(`{"name":"input","datatype":"BYTES","shape":[1,2],"data":["a"]}`), 400, "invalid_value", "inputs[0].shape"},
		"no shape":        {in(`{"name":"input","datatype":"BYTES","data":["a"]}`), 400, "missing_required_parameter", "inputs[0].shape"},
		"shape of texts":  {in(`{"name":"input","datatype":"BYTES","shape":["1"],"data":["a"]}`), 400, "invalid_type", "inputs[0].shape"},
		"binary input":    {in(`{"name":"input","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}`), 400, "unsupported_parameter", "inputs[0].parameters.binary_data_size"},
		"binary output":   {`{"inputs":[` + input + `],"outputs":[{"name":"embedding","parameters":{"binary_data":true}}]}`, 400, "unsupported_parameter", "outputs[0].parameters.binary_data"},
		"other output":    {`{"inputs":[` + input + `],"outputs":[{"name":"logits"}]}`, 400, "invalid_value", "outputs[0].name"},
		"long id":         {`{"id":"` + strings.Repeat("x", 129) + `","inputs":[` + input + `]}`, 400, "invalid_value", "id"},
		"role":            {`{"parameters":{"input_type":"song"},"inputs":[` + input + `]}`, 400, "invalid_value", "parameters.input_type"},
		"more dimensions": {`{"parameters":{"dimensions":4000},"inputs":[` + input + `]}`, 400, "unsupported_parameter", "dimensions"},
	} {
		resp, body := k.post(t, "/v2/models/embed/infer", c.body)
		got := decode[plainError](t, body)
		if resp.StatusCode != c.status || string(got.Code) != c.code || got.Param != c.param || got.Error == "" || strings.Contains(got.Error, "%!") {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		_, chinese := k.post(t, "/v2/models/embed/infer", c.body, "Accept-Language", "zh-CN")
		if m := decode[plainError](t, chinese).Error; m == got.Error || englishPhrase.MatchString(m) {
			t.Errorf("%s in Chinese: %s", name, m)
		}
	}
	if resp, body := k.post(t, "/v2/models/embed/infer", in(input), headerInferenceLength, "12"); resp.StatusCode != 400 || decode[plainError](t, body).Param != headerInferenceLength {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	for _, path := range []string{"/v2/models/" + strings.Repeat("x", 201) + "/infer", "/v2/models/a%0Ab/infer", "/v2/models//infer"} {
		if resp, body := k.post(t, path, in(input)); resp.StatusCode != 400 || decode[plainError](t, body).Param != "model" {
			t.Errorf("%s: %d %s", path, resp.StatusCode, body)
		}
	}
	if n := len(k.engine.Inputs()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}
