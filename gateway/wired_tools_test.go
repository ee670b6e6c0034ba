package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/internal/fault"
)

// strictPolicy masks both ways.
const strictPolicy = `schema: 1
name: Strict
models: ["*"]
collections: ["*"]
entities:
  default: {request: mask, passage: mask, answer: mask}
`

// TestRealTools: with the real detectors, a number in a tool, in the calls of the past, in their results and
// in a format never reaches the engine; it comes back in the arguments of a call, which stay JSON, however the engine cuts; and a
// number that the model brings itself does not leave.
func TestRealTools(t *testing.T) {
	const brought = "13900001111"
	for _, size := range []int{1, 2, 7} {
		w := wire(t, func(_ int, req *engine.Request) enginetest.Plan {
			var past struct{ To string }
			if err := json.Unmarshal([]byte(req.Messages[1].ToolCalls[0].Arguments), &past); err != nil || !strings.Contains(past.To, "⟦") {
				t.Fatalf("arguments of the past: %s, %v", req.Messages[1].ToolCalls[0].Arguments, err)
			}
			args := fmt.Sprintf(`{"to":"tel: %s","also":%s,"note":"call %s","n":[1,2.5]}`, past.To, brought, brought)
			return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "call_2", Name: "dial", Arguments: args}}}, Pieces: []int{size}}
		})
		must(w.guard.Publish(t.Context(), "acme", []byte(strictPolicy), "test"))(t)
		c := w.call("req-1", "打给 "+mobile)
		c.Messages = append(c.Messages,
			engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "call_1", Name: "dial", Arguments: `{"to":` + mobile + `}`}}}, // a number, not a string
			engine.Message{Role: "tool", ToolCallID: "call_1", Content: "busy: " + mobile})
		c.Tools = []engine.Tool{{Name: "dial", Description: "Not " + mobile, Parameters: json.RawMessage(`{"type":"object","properties":{"to":{"enum":["` + mobile + `"]}}}`)}}
		c.Format, c.FormatField = &engine.Format{JSONSchema: json.RawMessage(`{"properties":{"a":{"const":"` + mobile + `"}}}`)}, "response_format"
		reply := must(w.Chat(t.Context(), c))(t)
		answer := must(reply.Collect())(t)
		q := w.engine.Requests()[0]
		if seen := fmt.Sprintf("%+v %s %s", q, q.Tools[0].Parameters, q.Format.JSONSchema); strings.Contains(seen, mobile) || !json.Valid(q.Tools[0].Parameters) || !json.Valid(q.Format.JSONSchema) {
			t.Errorf("the engine saw %s", seen)
		}
		var got struct {
			To   string
			Also any
			Note string
			N    []float64
		}
		args := answer.Choices[0].Calls[0].Arguments
		if err := json.Unmarshal([]byte(args), &got); err != nil || got.To != "tel: "+mobile || len(got.N) != 2 || strings.Contains(args, brought) {
			t.Errorf("size %d: %s, %v", size, args, err)
		}
	}
}

// TestRealFixedTexts: a number in a place that must keep its spelling refuses the request; so does one that a rule blocks.
func TestRealFixedTexts(t *testing.T) {
	w := wire(t, nil)
	for field, set := range map[string]func(c *gateway.Call){
		"guided_regex": func(c *gateway.Call) { c.Format = &engine.Format{Regex: "tel:" + mobile} },
		"grammar":      func(c *gateway.Call) { c.Format = &engine.Format{GBNF: `root ::= "` + mobile + `"`} },
		"response_format": func(c *gateway.Call) {
			c.Format = &engine.Format{JSONSchema: json.RawMessage(`{"maximum":` + mobile + `}`)}
		},
		"tools[0].function.name": func(c *gateway.Call) { c.Tools = []engine.Tool{{Name: "call-" + mobile}} },
	} {
		c := w.call("req-"+field, "x")
		c.FormatField = field
		set(c)
		if _, err := w.Chat(t.Context(), c); !fault.Is(err, fault.CodeInvalidValue) || fault.Public(err).Param() != field || strings.Contains(err.Error(), mobile) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if n := len(w.engine.Requests()); n != 0 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// TestRealNames: a value that only its name gives away is masked and put back like any other; one that the model brings does not
// leave.
func TestRealNames(t *testing.T) {
	const password = `hunter2\\Xyz`
	for _, size := range []int{1, 3, 50} {
		w := wire(t, func(_ int, req *engine.Request) enginetest.Plan {
			past := req.Messages[1].ToolCalls[0].Arguments
			return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "c", Name: "login", Arguments: `{"first":` + past + `,"password":"brought9Along","plain":"brought9Along"}`}}}, Pieces: []int{size}}
		})
		must(w.guard.Publish(t.Context(), "acme", []byte(strictPolicy), "test"))(t)
		c := w.call("req-1", "log in")
		c.Messages = append(c.Messages, engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "b", Name: "login", Arguments: `{"password":"` + password + `"}`}}})
		reply := must(w.Chat(t.Context(), c))(t)
		args := must(reply.Collect())(t).Choices[0].Calls[0].Arguments
		if seen := w.engine.Requests()[0].Messages[1].ToolCalls[0].Arguments; strings.Contains(seen, "hunter2") || !json.Valid([]byte(seen)) {
			t.Errorf("the engine saw %s", seen)
		}
		if !strings.HasPrefix(args, `{"first":{"password":"`+password+`"},"password":"〔`) || !strings.HasSuffix(args, `"plain":"brought9Along"}`) || !json.Valid([]byte(args)) {
			t.Errorf("size %d: %s", size, args)
		}
	}
}
