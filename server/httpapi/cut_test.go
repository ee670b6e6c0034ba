package httpapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// cutSurface is a place of an answer that may be cut off, with what stands before the text there.
type cutSurface struct {
	surface

	begin, piece, lead string
	shown              func(said) string
}

// cutSurfaces are the places of answers in which a text may be broken off, in every dialect.
func cutSurfaces() map[string]cutSurface {
	all := surfaces()
	content := func(s said) string { return s.Content }
	reasoning := func(s said) string { return s.Reasoning }
	arguments := func(s said) string {
		if len(s.Calls) == 0 {
			return ""
		}
		return string(s.Calls[0].Function.Arguments)
	}
	delta := func(field string) string { return `{"choices":[{"index":0,"delta":{"` + field + `":%s}}]}` }
	const call = `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"dial","arguments":""}}]}}]}`
	const more = `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}`
	schema := surface{path: "/v1/chat/completions", extra: `,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"type":"object"}}}`}
	return map[string]cutSurface{
		"content":            {all["content"], "", delta("content"), "好的", content},
		"socket content":     {all["socket content"], "", delta("content"), "好的", content},
		"socket arguments":   {all["socket arguments"], call, more, `{"to":"拨`, arguments},
		"reasoning_content":  {all["reasoning_content"], "", delta("reasoning_content"), "好的", reasoning},
		"reasoning":          {all["reasoning"], "", delta("reasoning"), "好的", reasoning},
		"refusal":            {all["refusal"], "", delta("refusal"), "好的", func(s said) string { return s.Refusal }},
		"text":               {all["text"], "", `{"choices":[{"index":0,"text":%s}]}`, "好的", content},
		"text with echo":     {all["text with echo"], "", `{"choices":[{"index":0,"text":%s}]}`, "好的", content},
		"response":           {all["response"], "", delta("content"), "好的", content},
		"response reasoning": {all["response reasoning"], "", delta("reasoning_content"), "好的", reasoning},
		"response refusal":   {all["response refusal"], "", delta("refusal"), "好的", func(s said) string { return s.Refusal }},
		"response arguments": {all["response arguments"], call, more, `{"to":"拨`, arguments},
		"message":            {all["message"], "", delta("content"), "好的", content},
		"message thinking":   {all["message thinking"], "", delta("reasoning_content"), "好的", reasoning},
		"message arguments":  {all["message arguments"], call, more, `{"to":"拨`, arguments},
		"arguments":          {all["arguments"], call, more, `{"to":"拨`, arguments},
		"name in arguments":  {all["arguments"], call, more, `{"to":{"拨`, arguments},
		"JSON":               {all["JSON"], "", delta("content"), `{"to":["拨`, content},
		"JSON of a schema":   {schema, "", delta("content"), `{"to":"拨`, content},
		"no JSON":            {schema, "", delta("content"), "好的", content},
		"ollama content":     {all["ollama content"], "", delta("content"), "好的", content},
		"ollama thinking":    {all["ollama thoughts"], "", delta("reasoning_content"), "好的", reasoning},
		"ollama arguments":   {all["ollama arguments"], call, more, `{"to":"拨`, arguments},
	}
}

// ending is how an answer ends in a test: what the upstream says, and what the request says more.
type ending struct{ reason, extra string }

// TestCutAnswers: an answer that a limit, a filter, a stop string or its own end breaks off inside a pseudonym shows no part of it, in
// whatever place, spelling and dialect, streamed or not; none is kept, a finding tells, and what is shown is the same however it came.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	ways := []string{"⟦手机·%s⟧", "〚 手机: %s 〛", "【手机·%s】", "手机·%s", "%s⟧"}
	for name, s := range cutSurfaces() {
		for end, ways := range map[ending][]string{
			{"length", ""}: ways, {"content_filter", ""}: ways, {"stop", `,"stop":["号","⟧","·","机"]`}: ways[:2], {"stop", ""}: ways[:2],
		} {
			if s.path == "/v1/responses" && end.extra != "" { // they have no stop strings
				continue
			}
			if s.begin != "" && end.reason == "stop" { // arguments of a call that ends by itself must be whole
				continue
			}
			for _, way := range ways {
				for cut, size := true, 1; cut; size++ {
					var at [2]string
					for i, streamed := range []bool{true, false} {
						code := ""
						before := len(m.texts())
						m.upstream.says(func(value string) string {
							code = strings.TrimSuffix(value[strings.Index(value, "·")+len("·"):], "⟧")
							text := []rune(fmt.Sprintf(way, code))
							cut = size < len(text)
							return stream(append(s.chunks(string(text[:min(size, len(text))]), 1+(size+i)%3),
								fmt.Sprintf(`{"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, end.reason))...)
						})
						_, body := m.post(t, s.path, s.request(streamed, end.extra))
						got := whole(t, body)[0]
						shown, full := strings.CutPrefix(s.shown(got), s.lead)
						rest, restored := strings.CutPrefix(shown, sentValue)
						word := rest != "" && len(rest) < 3 && strings.HasPrefix(code, rest) // no more than a word as yet
						if at[i] = shown; !full || strings.TrimLeft(rest, " ") != "" && !word || got.Finish != end.reason {
							t.Errorf("%s, %v, %d of %q: %s", name, end, size, way, body)
						}
						kept := strings.Join(m.texts()[before+1:], "") // the answer
						if !restored && strings.ContainsAny(kept, "⟦⟧〚〛手机") {
							t.Errorf("%s, %v, %d of %q: kept %q", name, end, size, way, kept)
						}
						if told := strings.Contains(fmt.Sprint(m.last().Findings), "{answer pseudonym pseudonym@4 cut 1}"); told != (!restored && !word) || told != strings.Contains(body, `"action":"cut"`) {
							t.Errorf("%s, %v, %d of %q: findings %v, %s", name, end, size, way, m.last().Findings, body)
						}
					}
					if at[0] != at[1] {
						t.Errorf("%s, %v, %d of %q: streamed %q, at once %q", name, end, size, way, at[0], at[1])
					}
				}
			}
		}
	}
}

// chunks are those of a text, in pieces of so many characters.
func (s cutSurface) chunks(text string, runes int) []string {
	out := pieces(s.piece, s.lead+text, runes)
	if s.begin != "" {
		out = append([]string{s.begin}, out...)
	}
	return out
}

// TestFailingUpstreamsShowNoPart: a stream that fails inside a pseudonym ends in front of it, and so does what is kept.
func TestFailingUpstreamsShowNoPart(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	for name, s := range cutSurfaces() {
		if name == "ollama arguments" {
			continue // which leave as a whole
		}
		for size := 1; size < 10; size++ {
			before := len(m.texts())
			m.upstream.says(func(value string) string {
				return strings.TrimSuffix(stream(append(s.chunks(string([]rune(value)[:size]), 2), `{"error":{"message":"x"}}`)...), "data: [DONE]\n\n")
			})
			_, body := m.post(t, s.path, s.request(true, ""))
			if kept := strings.Join(m.texts()[before+1:], ""); !strings.Contains(body, `"error"`) || !strings.Contains(body, strings.TrimLeft(s.lead, `{"to:[`)) || strings.ContainsAny(body+kept, "⟦手机") {
				t.Errorf("%s, %d: %s, kept %q", name, size, body, kept)
			}
		}
	}
}

// TestTextBeforeTheCut: what ended before the answer was cut off stays, though it looks like a part of a pseudonym; so does JSON whose
// strings are whole.
func TestTextBeforeTheCut(t *testing.T) {
	t.Parallel()
	m := newMasked(t, "observe")
	chunk := func(delta string) string { return `{"choices":[{"index":0,"delta":{` + delta + `}}]}` }
	const end = `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`
	m.upstream.says(func(string) string {
		return stream(chunk(`"reasoning_content":"想手机"`), chunk(`"content":"打手"`), chunk(`"tool_calls":[{"index":0,"id":"c1","function":{"name":"dial","arguments":"{\"to\":\"手机\""}}]`), end)
	})
	for _, streamed := range []bool{true, false} {
		_, body := m.post(t, "/v1/chat/completions", surfaces()["arguments"].request(streamed, ""))
		if got := whole(t, body)[0]; got.Reasoning != "想手机" || got.Content != "打手" || got.Calls[0].Function.Arguments != `{"to":"手机"` || got.Finish != "length" {
			t.Errorf("%+v", got)
		}
	}
	m.upstream.says(func(string) string {
		return stream(chunk(`"reasoning_content":"想手机"`), chunk(`"content":"{\"to\":\"⟦手机\",\"from\":\"手机\"}"`), strings.ReplaceAll(end, "length", "stop"))
	})
	for _, streamed := range []bool{true, false} {
		_, body := m.post(t, "/v1/chat/completions", surfaces()["JSON"].request(streamed, ""))
		got := whole(t, body)[0]
		if got.Reasoning != "想手机" || got.Content != `{"to":"","from":"手机"}` || !json.Valid([]byte(got.Content)) {
			t.Errorf("%+v", got)
		}
	}
}
