package httpapi

import (
	"cmp"
	"encoding/binary"
	"math"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gin-gonic/gin"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/server/httpapi/inferencepb"
)

// The Open Inference Protocol over gRPC. A call is a POST over HTTP/2 with one message each way, so it goes where requests go: the same middleware,
// the same look at the credential before a byte of the message is read, the same bounds of bytes. A library of gRPC would read the message first.

const (
	rpcPrefix  = "/inference.GRPCInferenceService/"
	contentRPC = "application/grpc"
	rpcHead    = 5 // bytes before a message: whether it is compressed, and its length
)

// Codes of gRPC.
const (
	rpcInvalidArgument   = 3
	rpcDeadlineExceeded  = 4
	rpcNotFound          = 5
	rpcPermissionDenied  = 7
	rpcResourceExhausted = 8
	rpcAborted           = 10
	rpcUnimplemented     = 12
	rpcInternal          = 13
	rpcUnavailable       = 14
	rpcUnauthenticated   = 16
)

// headerEncoding says how messages are compressed.
const headerEncoding = "grpc-encoding"

// maxFields is the most fields that a message may have, in all messages within it: texts, and what stands beside them.
const maxFields = maxInputs + 256

// The metadata of a refusal: our code, and the field.
const (
	headerErrorCode  = "Sluice-Error-Code"
	headerErrorParam = "Sluice-Error-Param"
)

func rpcCode(e *fault.Error) int {
	if e.Code() == fault.CodeNotOffered || e.Param() == headerEncoding { // of which clients know by this code to send without
		return rpcUnimplemented
	}
	switch e.Kind() {
	case fault.Invalid:
		return rpcInvalidArgument
	case fault.Unauthenticated:
		return rpcUnauthenticated
	case fault.Denied, fault.Blocked:
		return rpcPermissionDenied
	case fault.NotFound:
		return rpcNotFound
	case fault.Method:
		return rpcUnimplemented
	case fault.Conflict:
		return rpcAborted
	case fault.TooLarge, fault.RateLimited, fault.Quota:
		return rpcResourceExhausted
	case fault.Unavailable:
		return rpcUnavailable
	case fault.Timeout:
		return rpcDeadlineExceeded
	case fault.Internal:
	}
	return rpcInternal
}

// overRPC is the dialect of the Open Inference Protocol, version 2, over gRPC. Its streams are none.
func overRPC() *dialect {
	return &dialect{name: dialectOpenInference, credential: bearer, refusal: plainRefusal, fail: failRPC}
}

// failRPC writes a refusal: a status, its sentence, and our code and field as metadata.
func failRPC(c *gin.Context, e *fault.Error) {
	c.Set(keyStatus, e.Kind().Status())
	h := c.Writer.Header()
	h.Set("Content-Type", contentRPC)
	h.Set("Grpc-Accept-Encoding", "identity")
	h.Set("Grpc-Status", strconv.Itoa(rpcCode(e)))
	h.Set("Grpc-Message", percentEncoded(e.Message(language(c))))
	h.Set(headerErrorCode, string(e.Code()))
	if p := e.Param(); p != "" {
		h.Set(headerErrorParam, percentEncoded(p))
	}
	c.Status(http.StatusOK)
	c.Writer.WriteHeaderNow()
}

// percentEncoded writes what a header of gRPC cannot have as it is.
func percentEncoded(s string) string {
	const digits = "0123456789ABCDEF"
	var out strings.Builder
	for _, b := range []byte(s) {
		if b < ' ' || b > '~' || b == '%' {
			out.Write([]byte{'%', digits[b>>4], digits[b&15]})
			continue
		}
		out.WriteByte(b)
	}
	return out.String()
}

// rpc is one call of the protocol.
type rpc struct {
	name       string
	permission access.Permission
	action     gateway.Action
	answer     func(a *API, c *gin.Context, call *gateway.Call, in rpcMessage) (proto.Message, error)
}

// rpcMessage is the message of a call, and whose it is.
type rpcMessage struct {
	raw  []byte
	from inflight.Caller
}

func rpcs() []rpc {
	return []rpc{
		{"ServerLive", access.ModelsRead, gateway.ActionModels, (*API).rpcLive},
		{"ServerReady", access.ModelsRead, gateway.ActionModels, (*API).rpcReady},
		{"ServerMetadata", access.ModelsRead, gateway.ActionModels, (*API).rpcServer},
		{"ModelReady", access.ModelsRead, gateway.ActionModels, (*API).rpcModelReady},
		{"ModelMetadata", access.ModelsRead, gateway.ActionModels, (*API).rpcModel},
		{"ModelInfer", access.InferenceEmbed, gateway.ActionEmbed, (*API).rpcInfer},
	}
}

// RPC returns the handler of the Open Inference Protocol over gRPC, for a listener of HTTP/2 of its own.
func (a *API) RPC() (http.Handler, error) {
	e, err := a.NewEngine(func(c *gin.Context, _ error) {
		a.WriteError(c, fault.New(fault.CodeNotOffered, truncate(c.Request.URL.Path), fault.Say("httpapi.instead_use", "/v2")))
	})
	if err != nil {
		return nil, err
	}
	e.Use(func(c *gin.Context) {
		c.Set(keyDialect, a.dialects.rpc)
		if kind := c.GetHeader("Content-Type"); kind != contentRPC && !strings.HasPrefix(kind, contentRPC+"+proto") {
			c.AbortWithStatus(http.StatusUnsupportedMediaType)
		}
	})
	for _, p := range rpcs() {
		e.POST(rpcPrefix+p.name, func(c *gin.Context) {
			call := a.call(c, p.permission)
			call.Plane, call.Route, call.Action = identity.DataPlane, "POST "+rpcPrefix+p.name, p.action
			err := a.answer(c, call, func(a *API, c *gin.Context, who identity.Principal, call *gateway.Call) error {
				return a.answerRPC(c, who, call, p)
			})
			if err != nil {
				a.WriteError(c, err)
			}
		})
	}
	return e, nil
}

// answerRPC reads the message of a known caller, has it answered, and writes the answer.
func (a *API) answerRPC(c *gin.Context, who identity.Principal, call *gateway.Call, p rpc) error {
	if c.GetHeader(headerIdempotencyKey) != "" {
		return fault.New(fault.CodeUnsupported, headerIdempotencyKey, fault.Say("httpapi.leave_out")).WithParam(headerIdempotencyKey)
	}
	from := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	raw, done, err := a.bodies.Body(c.Writer, c.Request, from, a.cfg.MaxBodyBytes)
	defer done()
	if err != nil {
		return err
	}
	switch {
	case len(raw) < rpcHead || int64(len(raw)-rpcHead) != int64(binary.BigEndian.Uint32(raw[1:rpcHead])):
		return badMessage()
	case raw[0] != 0:
		return fault.New(fault.CodeUnsupported, headerEncoding, fault.Say("httpapi.compressed")).WithParam(headerEncoding)
	}
	out, err := p.answer(a, c, call, rpcMessage{raw[rpcHead:], from})
	if err != nil {
		return err
	}
	return a.writeRPC(c, out)
}

// badMessage refuses what is no message of the call.
func badMessage() error {
	return fault.New(fault.CodeInvalidValue, "message", fault.Say("httpapi.rpc_message")).WithParam("message")
}

func (a *API) writeRPC(c *gin.Context, m proto.Message) error {
	b, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, rpcHead), m)
	if err != nil {
		return err
	}
	if int64(len(b)) > math.MaxUint32 {
		return fault.New(fault.CodeAnswerTooLarge, maxLineAnswer)
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-rpcHead))
	c.Header(http.TrailerPrefix+"Grpc-Status", "0")
	a.deadline(c)
	c.Data(http.StatusOK, contentRPC, b)
	return nil
}

// readRPC decodes a message. Some that are short on the wire would be long in memory: their fields are counted before.
func readRPC(raw []byte, m proto.Message) error {
	count := &fieldCount{left: maxFields}
	if err := count.message(raw, m.ProtoReflect().Descriptor()); err != nil {
		return err
	}
	if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, m) != nil { // which quotes none of it, and says nothing that a caller needs
		return badMessage()
	}
	return nil
}

// fieldCount is how many fields more a message may have. Elements of a list count one each.
type fieldCount struct{ left int }

func (n *fieldCount) message(raw []byte, of protoreflect.MessageDescriptor) error {
	for len(raw) > 0 {
		number, kind, size := protowire.ConsumeField(raw)
		if size < 0 {
			return badMessage()
		}
		field := of.Fields().ByNumber(number)
		if of.Name() == "InferTensorContents" && (field == nil || field.Name() != "bytes_contents") {
			return fault.New(fault.CodeInvalidValue, "inputs[0].contents", fault.Say("httpapi.inference_bytes")).WithParam("inputs[0].contents")
		}
		var inside []byte
		if kind == protowire.BytesType {
			_, _, head := protowire.ConsumeTag(raw)
			inside, _ = protowire.ConsumeBytes(raw[head:])
		}
		if err := n.field(field, inside); err != nil {
			return err
		}
		raw = raw[size:]
	}
	return nil
}

// field counts a field, and what is inside it if it has a length.
func (n *fieldCount) field(field protoreflect.FieldDescriptor, inside []byte) error {
	switch {
	case field == nil || field.Kind() == protoreflect.BytesKind || field.Kind() == protoreflect.StringKind:
		n.left--
	case field.Message() != nil:
		n.left--
		if n.left >= 0 {
			return n.message(inside, field.Message())
		}
	default:
		n.left -= max(1, len(inside)) // each number in a row of them has at least one byte
	}
	if n.left < 0 {
		return fault.New(fault.CodeInvalidValue, "message", fault.Say("httpapi.rpc_fields", maxFields)).WithParam("message")
	}
	return nil
}

func (a *API) rpcLive(_ *gin.Context, _ *gateway.Call, in rpcMessage) (proto.Message, error) {
	return &inferencepb.ServerLiveResponse{Live: true}, readRPC(in.raw, &inferencepb.ServerLiveRequest{})
}

func (a *API) rpcReady(c *gin.Context, call *gateway.Call, in rpcMessage) (proto.Message, error) {
	if err := readRPC(in.raw, &inferencepb.ServerReadyRequest{}); err != nil {
		return nil, err
	}
	ready, err := a.anyReady(c.Request.Context(), call)
	return &inferencepb.ServerReadyResponse{Ready: ready}, err
}

func (a *API) rpcServer(_ *gin.Context, _ *gateway.Call, in rpcMessage) (proto.Message, error) {
	return &inferencepb.ServerMetadataResponse{Name: "sluice", Version: a.cfg.Version}, readRPC(in.raw, &inferencepb.ServerMetadataRequest{})
}

func (a *API) rpcModelReady(c *gin.Context, call *gateway.Call, in rpcMessage) (proto.Message, error) {
	var q inferencepb.ModelReadyRequest
	if err := readRPC(in.raw, &q); err != nil {
		return nil, err
	}
	m, err := a.inferenceFind(c.Request.Context(), call, q.GetName(), q.GetVersion())
	return &inferencepb.ModelReadyResponse{Ready: m.Err == nil}, err
}

func (a *API) rpcModel(c *gin.Context, call *gateway.Call, in rpcMessage) (proto.Message, error) {
	var q inferencepb.ModelMetadataRequest
	if err := readRPC(in.raw, &q); err != nil {
		return nil, err
	}
	m, err := a.inferenceFind(c.Request.Context(), call, q.GetName(), q.GetVersion())
	if err != nil {
		return nil, err
	}
	inputs, outputs := tensorsOf(m)
	return &inferencepb.ModelMetadataResponse{
		Name: m.Name, Versions: []string{m.Stable}, Platform: m.Engine, Inputs: rpcTensors(inputs), Outputs: rpcTensors(outputs),
	}, nil
}

func rpcTensors(in []tensor) []*inferencepb.ModelMetadataResponse_TensorMetadata {
	out := make([]*inferencepb.ModelMetadataResponse_TensorMetadata, len(in))
	for i, t := range in {
		out[i] = &inferencepb.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: shape64(t.Shape)}
	}
	return out
}

func shape64(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, n := range shape {
		out[i] = int64(n)
	}
	return out
}

// rpcInfer answers ModelInfer. The message becomes the JSON that the protocol has for it over HTTP, and that is decoded: there is one decoder.
func (a *API) rpcInfer(c *gin.Context, call *gateway.Call, in rpcMessage) (proto.Message, error) {
	var q inferencepb.ModelInferRequest
	if err := readRPC(in.raw, &q); err != nil {
		return nil, err
	}
	body, err := inferBody(&q)
	if err != nil {
		return nil, err
	}
	if more := int64(len(body) - len(in.raw)); more > 0 { // escapes: a byte of a message may be six of JSON
		if err := a.bodies.Acquire(in.from, more); err != nil {
			return nil, err
		}
		defer a.bodies.Release(in.from, more)
	}
	f, err := parse(body, a.cfg.MaxDepth)
	if err != nil {
		return nil, err
	}
	call.Model = askedVersion(q.GetModelName(), q.GetModelVersion())
	if inferCall(f, call); f.err != nil {
		return nil, f.err
	}
	reply, err := a.pipeline.Embed(c.Request.Context(), call)
	if err != nil {
		return nil, err
	}
	a.headHeaders(c, reply.Head)
	t := vectorsTensor(reply.Vectors)
	out := &inferencepb.ModelInferResponse_InferOutputTensor{Name: t.Name, Datatype: t.Datatype, Shape: shape64(t.Shape)}
	answer := &inferencepb.ModelInferResponse{
		ModelName: q.GetModelName(), ModelVersion: cmp.Or(q.GetModelVersion(), reply.Version.Version), Id: q.GetId(),
		Outputs: []*inferencepb.ModelInferResponse_InferOutputTensor{out},
	}
	if len(q.GetRawInputContents()) == 0 {
		out.Contents = &inferencepb.InferTensorContents{Fp32Contents: t.Data}
		return answer, nil
	}
	bytes := make([]byte, 0, 4*len(t.Data)) // as it was asked
	for _, x := range t.Data {
		bytes = binary.LittleEndian.AppendUint32(bytes, math.Float32bits(x))
	}
	answer.RawOutputContents = [][]byte{bytes}
	return answer, nil
}

// inferTensor is a tensor of a request in JSON.
type inferTensor struct {
	Name       string         `json:"name"`
	Datatype   string         `json:"datatype,omitempty"`
	Shape      []int64        `json:"shape,omitempty"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Data       []string       `json:"data,omitempty"`
}

// inferBody writes a request as the protocol has it over HTTP.
func inferBody(q *inferencepb.ModelInferRequest) (string, error) {
	raw := q.GetRawInputContents()
	if len(raw) > 0 && len(raw) != len(q.GetInputs()) {
		return "", fault.New(fault.CodeInvalidValue, "raw_input_contents", fault.Say("httpapi.rpc_raw")).WithParam("raw_input_contents")
	}
	body := struct {
		ID         string         `json:"id,omitempty"`
		Parameters map[string]any `json:"parameters,omitempty"`
		Inputs     []inferTensor  `json:"inputs,omitempty"`
		Outputs    []inferTensor  `json:"outputs,omitempty"`
	}{ID: q.GetId(), Parameters: rpcParameters(q.GetParameters())}
	for i, in := range q.GetInputs() {
		texts := in.GetContents().GetBytesContents()
		if len(raw) > 0 {
			texts = splitTexts(raw[i])
			if texts == nil || len(in.GetContents().GetBytesContents()) > 0 {
				return "", fault.New(fault.CodeInvalidValue, "raw_input_contents", fault.Say("httpapi.rpc_raw")).WithParam("raw_input_contents")
			}
		}
		t := inferTensor{Name: in.GetName(), Datatype: in.GetDatatype(), Shape: in.GetShape(), Parameters: rpcParameters(in.GetParameters())}
		for _, text := range texts {
			if !utf8.Valid(text) {
				return "", fault.New(fault.CodeInvalidUTF8, invalidAt(string(text)))
			}
			t.Data = append(t.Data, string(text))
		}
		body.Inputs = append(body.Inputs, t)
	}
	for _, out := range q.GetOutputs() {
		body.Outputs = append(body.Outputs, inferTensor{Name: out.GetName(), Parameters: rpcParameters(out.GetParameters())})
	}
	b, err := encode(body)
	if err != nil { // a parameter that is no number
		return "", badMessage()
	}
	return string(b), nil
}

// splitTexts cuts raw contents, in which each text has its length before it; nil if they are no texts. Of more texts than an input may have it cuts one
// more, which is enough to refuse them.
func splitTexts(raw []byte) [][]byte {
	out := [][]byte{}
	for len(raw) > 0 && len(out) <= maxInputs {
		if len(raw) < 4 {
			return nil
		}
		n := int64(binary.LittleEndian.Uint32(raw))
		if n > int64(len(raw)-4) {
			return nil
		}
		out, raw = append(out, raw[4:4+n]), raw[4+n:]
	}
	return out
}

func rpcParameters(in map[string]*inferencepb.InferParameter) map[string]any {
	out := make(map[string]any, len(in))
	for name, p := range in {
		switch v := p.GetParameterChoice().(type) {
		case *inferencepb.InferParameter_BoolParam:
			out[name] = v.BoolParam
		case *inferencepb.InferParameter_Int64Param:
			out[name] = v.Int64Param
		case *inferencepb.InferParameter_StringParam:
			out[name] = v.StringParam
		case *inferencepb.InferParameter_DoubleParam:
			out[name] = v.DoubleParam
		case *inferencepb.InferParameter_Uint64Param:
			out[name] = v.Uint64Param
		}
	}
	return out
}
