package httpapi

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/server/httpapi/inferencepb"
)

// rpcKit is a kit with a listener for gRPC.
type rpcKit struct {
	*kit

	server *httptest.Server
	client *http.Client
}

func newRPC(t *testing.T, cfg Config) *rpcKit {
	t.Helper()
	return overHTTP2(t, newKit(t, cfg, nil))
}

// overHTTP2 serves a kit over gRPC, too.
func overHTTP2(t *testing.T, k *kit) *rpcKit {
	t.Helper()
	h, err := k.api.RPC()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = &http.Protocols{}
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	transport := &http.Transport{Protocols: s.Config.Protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &rpcKit{k, s, &http.Client{Transport: transport}}
}

// rpcAnswer is what a call got.
type rpcAnswer struct {
	status  int    // of gRPC
	message string // of the refusal
	code    string // ours
	param   string
	header  http.Header
	raw     []byte
}

// send sends bytes as a call's.
func (k *rpcKit) send(t testing.TB, name string, body []byte, headers ...string) rpcAnswer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, k.server.URL+rpcPrefix+name, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+goodKey)
	r.Header.Set("Content-Type", contentRPC)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := k.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != contentRPC {
		t.Fatalf("%s: %d %v, %v", name, resp.StatusCode, resp.Header, err)
	}
	a := rpcAnswer{code: resp.Header.Get(headerErrorCode), param: resp.Header.Get(headerErrorParam), header: resp.Header, raw: raw}
	a.message, _ = url.PathUnescape(resp.Header.Get("Grpc-Message"))
	status := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
	if _, err := fmt.Sscan(status, &a.status); err != nil {
		t.Fatalf("%s: the status is %q", name, status)
	}
	return a
}

// framed puts a message behind its head.
func framed(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

func (k *rpcKit) call(t testing.TB, name string, in, out proto.Message, headers ...string) rpcAnswer {
	t.Helper()
	a := k.send(t, name, framed(t, in), headers...)
	if a.status == 0 {
		if err := proto.Unmarshal(a.raw[rpcHead:], out); err != nil || a.raw[0] != 0 || int(binary.BigEndian.Uint32(a.raw[1:])) != len(a.raw)-rpcHead {
			t.Fatalf("%s: %x, %v", name, a.raw, err)
		}
	}
	return a
}

func rpcInput(texts ...string) *inferencepb.ModelInferRequest {
	in := &inferencepb.ModelInferRequest_InferInputTensor{Name: "input", Datatype: "BYTES", Shape: []int64{int64(len(texts))}, Contents: &inferencepb.InferTensorContents{}}
	for _, x := range texts {
		in.Contents.BytesContents = append(in.Contents.BytesContents, []byte(x))
	}
	return &inferencepb.ModelInferRequest{ModelName: "embed", Id: "mine", Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{in}}
}

// raw moves the contents of a request to where most clients put them.
func rawInput(q *inferencepb.ModelInferRequest) *inferencepb.ModelInferRequest {
	var b []byte
	for _, x := range q.Inputs[0].Contents.BytesContents {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(x))), x...)
	}
	q.Inputs[0].Contents, q.RawInputContents = nil, [][]byte{b}
	return q
}

// TestRPCInfers: vectors over gRPC are those that the protocol gives over HTTP, masked and recorded alike, and come the way the texts have.
func TestRPCInfers(t *testing.T) {
	k := newRPC(t, Config{})
	var want []float32
	for _, v := range decode[struct{ Embeddings [][]float32 }](t, second(k.post(t, "/api/embed", `{"model":"embed","input":["a SECRET1","b"]}`))).Embeddings {
		want = append(want, v...)
	}
	for name, q := range map[string]*inferencepb.ModelInferRequest{"contents": rpcInput("a SECRET1", "b"), "raw": rawInput(rpcInput("a SECRET1", "b"))} {
		q.Parameters = map[string]*inferencepb.InferParameter{"input_type": {ParameterChoice: &inferencepb.InferParameter_StringParam{StringParam: "query"}}}
		var got inferencepb.ModelInferResponse
		a := k.call(t, "ModelInfer", q, &got)
		if a.status != 0 || got.Id != "mine" || got.ModelName != "embed" || got.ModelVersion != "v1" || len(got.Outputs) != 1 || a.header.Get(headerReceipt) == "" || a.header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %+v, %v", name, a, &got)
			continue
		}
		out := got.Outputs[0]
		vectors := out.Contents.GetFp32Contents()
		if name == "raw" {
			vectors = nil
			for b := got.RawOutputContents[0]; len(b) > 0; b = b[4:] {
				vectors = append(vectors, math.Float32frombits(binary.LittleEndian.Uint32(b)))
			}
		}
		if out.Name != "embedding" || out.Datatype != "FP32" || !reflect.DeepEqual(out.Shape, []int64{2, 32}) || !reflect.DeepEqual(vectors, want) {
			t.Errorf("%s: %v", name, out)
		}
		if e := k.last(); e.Action != "embeddings" || e.Dialect != "open_inference" || e.Route != "POST /inference.GRPCInferenceService/ModelInfer" || e.Outcome != "ok" || e.Usage.Cost == 0 {
			t.Errorf("%s: %+v", name, e)
		}
	}
	for _, q := range k.engine.Inputs() {
		if strings.Contains(strings.Join(q.Input, ""), "SECRET") {
			t.Errorf("%+v", q)
		}
	}
}

// TestRPCMetadata: the other calls say what the routes over HTTP say.
func TestRPCMetadata(t *testing.T) {
	k := newRPC(t, Config{Version: "1.2.3"})
	model := func(name, version string) *inferencepb.ModelMetadataRequest {
		return &inferencepb.ModelMetadataRequest{Name: name, Version: version}
	}
	for name, c := range map[string]struct {
		in, out, want proto.Message
		status        int
	}{
		"ServerLive":     {&inferencepb.ServerLiveRequest{}, &inferencepb.ServerLiveResponse{}, &inferencepb.ServerLiveResponse{Live: true}, 0},
		"ServerReady":    {&inferencepb.ServerReadyRequest{}, &inferencepb.ServerReadyResponse{}, &inferencepb.ServerReadyResponse{Ready: true}, 0},
		"ServerMetadata": {&inferencepb.ServerMetadataRequest{}, &inferencepb.ServerMetadataResponse{}, &inferencepb.ServerMetadataResponse{Name: "sluice", Version: "1.2.3"}, 0},
		"ModelReady":     {&inferencepb.ModelReadyRequest{Name: "chat", Version: "v1"}, &inferencepb.ModelReadyResponse{}, &inferencepb.ModelReadyResponse{Ready: true}, 0},
		"ModelReady ":    {&inferencepb.ModelReadyRequest{Name: "away"}, &inferencepb.ModelReadyResponse{}, &inferencepb.ModelReadyResponse{}, 0},
		"ModelReady  ":   {&inferencepb.ModelReadyRequest{Name: "chat", Version: "v9"}, nil, nil, rpcNotFound},
		"ModelMetadata": {model("org/embed", ""), &inferencepb.ModelMetadataResponse{}, &inferencepb.ModelMetadataResponse{
			Name: "org/embed", Versions: []string{"v1"}, Platform: "upstream",
			Inputs:  []*inferencepb.ModelMetadataResponse_TensorMetadata{{Name: "input", Datatype: "BYTES", Shape: []int64{-1}}},
			Outputs: []*inferencepb.ModelMetadataResponse_TensorMetadata{{Name: "embedding", Datatype: "FP32", Shape: []int64{-1, 32}}},
		}, 0},
		"ModelMetadata ": {model("nope", ""), nil, nil, rpcNotFound},
	} {
		if a := k.call(t, strings.TrimSpace(name), c.in, c.out); a.status != c.status || c.status == 0 && !proto.Equal(c.out, c.want) {
			t.Errorf("%s: %+v, %v", name, a, c.out)
		}
	}
}

// TestRPCIsGuarded: without a key, with a wrong one, and without its permission no call answers, and of a stranger no message is read.
func TestRPCIsGuarded(t *testing.T) {
	k := newRPC(t, Config{MaxBodyBytes: 1000})
	for _, p := range rpcs() {
		for _, auth := range []string{"", "Bearer wrong", goodKey} {
			if a := k.send(t, p.name, []byte("no message"), "Authorization", auth); a.status != rpcUnauthenticated || a.code != "invalid_api_key" || a.message == "" {
				t.Errorf("%s with %q: %+v", p.name, auth, a)
			}
		}
		k.deny = p.permission
		if a := k.send(t, p.name, framed(t, &inferencepb.ServerLiveRequest{})); a.status != rpcPermissionDenied || !strings.Contains(a.message, string(p.permission)) {
			t.Errorf("%s: %+v", p.name, a)
		}
		k.deny = ""
		if a := k.send(t, p.name, []byte{0, 0, 0, 0, 2, 0xff, 0xff}); a.status != rpcInvalidArgument || a.param != "message" {
			t.Errorf("%s: %+v", p.name, a)
		}
	}
	if p := rpcs()[len(rpcs())-1]; p.name != "ModelInfer" || p.permission != access.InferenceEmbed {
		t.Errorf("%+v", p)
	}
	for _, line := range []string{"status=401", "status=403", "status=400"} { // though HTTP says 200
		if !strings.Contains(k.logs.String(), line) {
			t.Errorf("no access line has %s", line)
		}
	}
	if strings.Contains(k.logs.String(), "status=200") {
		t.Error("an access line calls a refusal a success")
	}
	whole := framed(t, rpcInput("a"))
	for name, c := range map[string]struct {
		call    string
		body    []byte
		status  int
		code    string
		headers []string
	}{
		"nothing":         {"ModelInfer", nil, rpcInvalidArgument, "invalid_value", nil},
		"cut":             {"ModelInfer", whole[:len(whole)-1], rpcInvalidArgument, "invalid_value", nil},
		"two messages":    {"ModelInfer", append(bytes.Clone(whole), whole...), rpcInvalidArgument, "invalid_value", nil},
		"compressed":      {"ModelInfer", append([]byte{1}, whole[1:]...), rpcUnimplemented, "unsupported_parameter", nil},
		"too long":        {"ModelInfer", framed(t, rpcInput(strings.Repeat("x", 1001))), rpcResourceExhausted, "request_too_large", nil},
		"no text":         {"ModelInfer", framed(t, rpcInput("\xff")), rpcInvalidArgument, "invalid_utf8", nil},
		"an unknown call": {"ModelStreamInfer", whole, rpcUnimplemented, "not_offered", nil},
		"again":           {"ModelInfer", whole, rpcInvalidArgument, "unsupported_parameter", []string{headerIdempotencyKey, "k"}},
	} {
		a := k.send(t, c.call, c.body, c.headers...)
		chinese := k.send(t, c.call, c.body, append([]string{"Accept-Language", "zh-CN"}, c.headers...)...)
		if a.status != c.status || a.code != c.code || a.message == "" || strings.Contains(a.message, "%!") || chinese.message == a.message {
			t.Errorf("%s: %+v", name, a)
		}
	}
	for name, change := range map[string]func(*inferencepb.ModelInferRequest){
		"model":              func(q *inferencepb.ModelInferRequest) { q.ModelName = "" },
		"inputs":             func(q *inferencepb.ModelInferRequest) { q.Inputs, q.RawInputContents = nil, nil },
		"inputs[0].name":     func(q *inferencepb.ModelInferRequest) { q.Inputs[0].Name = "x" },
		"inputs[0].datatype": func(q *inferencepb.ModelInferRequest) { q.Inputs[0].Datatype = "FP32" },
		"inputs[0].shape":    func(q *inferencepb.ModelInferRequest) { q.Inputs[0].Shape = []int64{2} },
		"parameters.input_type": func(q *inferencepb.ModelInferRequest) {
			q.Parameters = map[string]*inferencepb.InferParameter{"input_type": {ParameterChoice: &inferencepb.InferParameter_Int64Param{Int64Param: 1}}}
		},
		"message": func(q *inferencepb.ModelInferRequest) {
			q.Parameters = map[string]*inferencepb.InferParameter{"x": {ParameterChoice: &inferencepb.InferParameter_DoubleParam{DoubleParam: math.NaN()}}}
		},
		"outputs[0].name": func(q *inferencepb.ModelInferRequest) {
			q.Outputs = []*inferencepb.ModelInferRequest_InferRequestedOutputTensor{{Name: "logits"}}
		},
		"inputs[0].contents": func(q *inferencepb.ModelInferRequest) {
			q.Inputs[0].Contents = &inferencepb.InferTensorContents{BytesContents: [][]byte{{'a'}}}
			q.Inputs[0].Contents.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 7)) // int_contents
			q.RawInputContents = nil
		},
		"raw_input_contents":          func(q *inferencepb.ModelInferRequest) { q.RawInputContents = [][]byte{{9, 0, 0, 0, 'x'}} },
		"raw_input_contents ":         func(q *inferencepb.ModelInferRequest) { q.RawInputContents = [][]byte{{0, 0}} },
		"raw_input_contents of more":  func(q *inferencepb.ModelInferRequest) { q.RawInputContents = append(q.RawInputContents, nil) },
		"raw_input_contents of both":  func(q *inferencepb.ModelInferRequest) { q.Inputs[0].Contents = rpcInput("b").Inputs[0].Contents },
		"inputs[0].data of no text":   func(q *inferencepb.ModelInferRequest) { q.RawInputContents = [][]byte{{}} },
		"inputs[0].data, empty texts": func(q *inferencepb.ModelInferRequest) { q.RawInputContents = [][]byte{{0, 0, 0, 0}} },
	} {
		q := rawInput(rpcInput("a"))
		change(q)
		if a := k.call(t, "ModelInfer", q, nil); a.status != rpcInvalidArgument || !strings.HasPrefix(name, a.param) || a.param == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	if n := len(k.engine.Inputs()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, k.server.URL+rpcPrefix+"ModelInfer", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := k.client.Do(r)
	if err != nil || resp.StatusCode != http.StatusUnsupportedMediaType {
		t.Errorf("another content type: %v, %v", resp, err)
	}
	if resp, body := k.post(t, rpcPrefix+"ServerLive", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("on the listener of HTTP: %d %s", resp.StatusCode, body)
	}
}

// TestRPCBounds: what is short on the wire and long in memory is refused before it is there.
func TestRPCBounds(t *testing.T) {
	k := newRPC(t, Config{})
	head := func(b []byte) []byte { return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...) }
	inside := func(b []byte, fields ...protowire.Number) []byte {
		for _, f := range fields {
			b = protowire.AppendBytes(protowire.AppendTag(nil, f, protowire.BytesType), b)
		}
		return b
	}
	const many = 2<<20 - 64
	for name, body := range map[string][]byte{
		"inputs":             bytes.Repeat([]byte("\x2a\x00"), many),
		"outputs":            bytes.Repeat([]byte("\x32\x00"), many),
		"raw":                bytes.Repeat([]byte("\x3a\x00"), many),
		"parameters":         bytes.Repeat([]byte("\x22\x00"), many),
		"contents":           inside(bytes.Repeat([]byte("\x42\x00"), many), 5, 5),
		"shape":              inside(bytes.Repeat([]byte("\x01"), many), 3, 5),
		"texts in raw":       inside(make([]byte, 2*many), 7),
		"unknown":            bytes.Repeat([]byte("\xa0\x06\x01"), many/2),
		"unknown in unknown": bytes.Repeat([]byte("\xa3\x06\xa4\x06"), many/2),
	} {
		if name == "texts in raw" {
			body = append(framed(t, &inferencepb.ModelInferRequest{ModelName: "embed", Inputs: []*inferencepb.ModelInferRequest_InferInputTensor{{Name: "input", Datatype: "BYTES", Shape: []int64{1}}}})[rpcHead:], body...)
		}
		for _, call := range []string{"ModelInfer", "ModelReady"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a := k.send(t, call, head(body))
			runtime.ReadMemStats(&after)
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; call == "ModelInfer" && a.status != rpcInvalidArgument || made > 48 {
				t.Errorf("%s, %s: %d MiB for %d MiB, %+v", name, call, made, len(body)>>20, a)
			}
		}
	}
	if n := len(k.engine.Inputs()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// TestRPCSharesItsConnection: a refusal ends one call, and not the connection that others share.
func TestRPCSharesItsConnection(t *testing.T) {
	k := newRPC(t, Config{MaxBodyBytes: 1000})
	for i := range 3 {
		reused := false
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, k.server.URL+rpcPrefix+"ModelInfer", bytes.NewReader(make([]byte, 2000)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentRPC)
		if i > 0 { // one of a stranger, others too long
			r.Header.Set("Authorization", "Bearer "+goodKey)
		}
		resp, err := k.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.Header.Get("Grpc-Status") == "" || reused != (i > 0) {
			t.Errorf("call %d: %v, on the same connection: %v", i, resp.Header, reused)
		}
	}
}

// TestRPCCountsItsJSON: what a message becomes counts among the bytes of bodies while it is there.
func TestRPCCountsItsJSON(t *testing.T) {
	k := newRPC(t, Config{MaxBodyBytes: 1000, MaxInFlightPerKey: 2000})
	if a := k.send(t, "ModelInfer", framed(t, rpcInput(strings.Repeat("\x01", 500)))); a.status != rpcResourceExhausted || a.code != "bytes_in_flight_limit_exceeded" {
		t.Errorf("%+v", a)
	}
	if n := k.api.bodies.Held(); n != 0 {
		t.Errorf("%d bytes are held", n)
	}
}
