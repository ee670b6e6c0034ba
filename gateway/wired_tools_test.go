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
const strictPolicy = `schema: 2
name: Strict
models: ["*"]
collections: ["*"]
entities:
  default: {request: token, passage: token, answer: redact}
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

// TestRealNamesInChinese: names of values in any script give them away; digits and dots in a name do not hide the rest of it.
func TestRealNamesInChinese(t *testing.T) {
	for _, key := range []string{"密码", "数据库口令", "db密码", "oauth2_token", "db.password"} {
		w := wire(t, func(_ int, req *engine.Request) enginetest.Plan {
			past := req.Messages[1].ToolCalls[0].Arguments
			return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "c", Name: "login", Arguments: `{"first":` + past + `,"` + key + `":"brought9Along"}`}}}, Pieces: []int{2}}
		})
		must(w.guard.Publish(t.Context(), "acme", []byte(strictPolicy), "test"))(t)
		c := w.call("req-1", "log in")
		c.Messages = append(c.Messages, engine.Message{Role: "assistant", ToolCalls: []engine.ToolCall{{ID: "b", Name: "login", Arguments: `{"` + key + `":"hunter2Xyz"}`}}})
		reply := must(w.Chat(t.Context(), c))(t)
		args := must(reply.Collect())(t).Choices[0].Calls[0].Arguments
		if seen := w.engine.Requests()[0].Messages[1].ToolCalls[0].Arguments; strings.Contains(seen, "hunter2") {
			t.Errorf("%s: the engine saw %s", key, seen)
		}
		if !strings.HasPrefix(args, `{"first":{"`+key+`":"hunter2Xyz"}`) || strings.Contains(args, "brought9") || !json.Valid([]byte(args)) {
			t.Errorf("%s: %s", key, args)
		}
	}
}

// TestRealEscapes: many libraries write JSON in ASCII, so results of tools hold Chinese as escapes. The rules see through them, also
// in JSON inside JSON; what they find nothing in stays as it was.
func TestRealEscapes(t *testing.T) {
	plate := `\u4eacA12345`                        // 京A12345
	secret := `{"\u5bc6\u7801": "hunter2Xyz"}`     // 密码
	inner := `{"r":"{\"car\":\"\\u4eacA12345\"}"}` // JSON in a string
	hidden := `{"tel":"\u0031\u0033800138000"}`
	for _, content := range []string{plate, `{"car":"` + plate + `","note":"\"\u0022\n"}`, secret, inner, hidden} {
		w := wire(t, nil)
		c := w.call("req-1", "x")
		c.Messages = append(c.Messages, engine.Message{Role: "tool", ToolCallID: "b", Content: content})
		reply := must(w.Chat(t.Context(), c))(t)
		must(reply.Collect())(t)
		seen := w.engine.Requests()[0].Messages[1].Content
		if strings.Contains(seen, "12345") || strings.Contains(seen, "hunter2") || strings.Contains(seen, "800138000") || !strings.Contains(seen, "⟦") || json.Valid([]byte(content)) != json.Valid([]byte(seen)) {
			t.Errorf("%s became %s", content, seen)
		}
	}
	for _, content := range []string{`{"a":"\u4f60\u597d"}`, `C:\users\u`, `\\u12`, `\ud83d\ude00`} {
		w := wire(t, nil)
		c := w.call("req-1", content)
		reply := must(w.Chat(t.Context(), c))(t)
		must(reply.Collect())(t)
		if seen := w.engine.Requests()[0].Messages[0].Content; seen != content {
			t.Errorf("%s became %s", content, seen)
		}
	}
}

// TestRealNamesOfPseudonyms: a name that pseudonyms carry, before the bare code of one, is no pseudonym.
func TestRealNamesOfPseudonyms(t *testing.T) {
	w := wire(t, func(_ int, req *engine.Request) enginetest.Plan {
		_, code, _ := strings.Cut(req.Messages[0].Content, "·")
		code, _, _ = strings.Cut(code, "⟧")
		return enginetest.Plan{Calls: [][]engine.ToolCall{{{ID: "c", Name: "dial", Arguments: `{"手机":"` + code + `","手机-` + code + `":"x","note":"a"}`}}}, Pieces: []int{1}}
	})
	reply := must(w.Chat(t.Context(), w.call("req-1", "打给 "+mobile)))(t)
	if args := must(reply.Collect())(t).Choices[0].Calls[0].Arguments; !json.Valid([]byte(args)) || !strings.HasSuffix(args, `"note":"a"}`) {
		t.Error(args)
	}
}

// TestRealFormats: what is put back into an answer of JSON leaves it JSON, and so does what a rule hides there.
func TestRealFormats(t *testing.T) {
	const password = `hunter2\Xyz`
	for _, size := range []int{1, 3, 50} {
		w := wire(t, func(_ int, req *engine.Request) enginetest.Plan {
			_, masked, _ := strings.Cut(req.Messages[0].Content, "password: ")
			return enginetest.Plan{Texts: []string{`{"first": "` + masked + `", "tel":13900001111, "n":[1,2.5,"\"x\""]}` + "\n"}, Pieces: []int{size}}
		})
		must(w.guard.Publish(t.Context(), "acme", []byte(strictPolicy), "test"))(t)
		c := w.call("req-1", "password: "+password)
		c.Format, c.FormatField = &engine.Format{JSONObject: true}, "response_format"
		reply := must(w.Chat(t.Context(), c))(t)
		text := must(reply.Collect())(t).Choices[0].Text
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil || got["first"] != password || strings.Contains(text, "13900001111") || len(got) != 3 {
			t.Errorf("size %d: %s, %v", size, text, err)
		}
	}
}

// TestRealSchemaValues: what a schema allows for a member is seen behind the member's name.
func TestRealSchemaValues(t *testing.T) {
	for _, keyword := range []string{`"const":"hunter2Xyz"`, `"default":"hunter2Xyz"`, `"type":"string","enum":["hunter2Xyz"]`, `"examples":["x",{"a":[]},"hunter2Xyz"]`} {
		w := wire(t, nil)
		c := w.call("req-1", "log in")
		c.Tools = []engine.Tool{{Name: "login", Parameters: json.RawMessage(`{"type":"object","properties":{"user":{"type":"string"},"password":{` + keyword + `},"x":{}}}`)}}
		reply := must(w.Chat(t.Context(), c))(t)
		must(reply.Collect())(t)
		if seen := string(w.engine.Requests()[0].Tools[0].Parameters); strings.Contains(seen, "hunter2") || !strings.Contains(seen, "⟦") || !json.Valid([]byte(seen)) {
			t.Errorf("%s: the engine saw %s", keyword, seen)
		}
	}
}
