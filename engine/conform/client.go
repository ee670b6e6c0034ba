package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/engine/peer"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/unified"
)

// client asks the engine for text, in the words of its profile.
type client struct {
	prof      *profile.Profile
	peer      *peer.Peer
	http      *http.Client
	key       string
	model     string
	context   int         // the longest, 0 if not told
	simulated atomic.Bool // one of its answers said so, whatever it was asked
}

// body is a request under way.
type body map[string]any

// with sets a member at a path and returns the body.
func (b body) with(path string, v any) body {
	names := strings.Split(path, ".")
	at := map[string]any(b)
	for _, name := range names[:len(names)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	at[names[len(names)-1]] = v
	return b
}

// ownForm is the form that is spoken where there is none of OpenAI's.
func (c *client) ownForm() bool {
	return c.prof.Endpoints.Chat == "" && c.prof.Endpoints.Completions == ""
}

// ask is a request for a text: greedy, of at most so many tokens.
func (c *client) ask(prompt string, most int) body {
	if c.ownForm() {
		return ownBody(c.prof.Endpoints.Form, prompt, most)
	}
	b := body{"model": c.model, "temperature": 0, "max_tokens": most, "stream": false}
	for _, p := range []profile.Parameter{c.prof.Request.TopP} {
		if p.Name != "" && p.Neutral != nil {
			b.with(p.Name, *p.Neutral)
		}
	}
	if c.prof.Endpoints.Chat == "" {
		return b.with("prompt", prompt)
	}
	return b.with("messages", []any{map[string]any{"role": "user", "content": prompt}})
}

// drawn makes a request draw its tokens, with nothing but the temperature in the way.
func (c *client) drawn(b body) body {
	b.with("temperature", 1.5)
	for _, p := range []profile.Parameter{c.prof.Request.TopK, c.prof.Request.MinP} {
		if p.Name != "" && p.Neutral != nil {
			b.with(p.Name, *p.Neutral)
		}
	}
	return b
}

func ownBody(form, prompt string, most int) body {
	if form == "tgi" {
		return body{"inputs": prompt, "parameters": map[string]any{"max_new_tokens": most, "details": true}}
	}
	return body{"text_input": prompt, "parameters": map[string]any{"max_tokens": most}}
}

// path is where a request for text goes.
func (c *client) path(stream bool) string {
	e := c.prof.Endpoints
	switch {
	case e.Chat != "":
		return e.Chat
	case e.Completions != "":
		return e.Completions
	}
	return c.ownPath(stream)
}

func (c *client) ownPath(stream bool) string {
	path := strings.ReplaceAll(c.prof.Endpoints.Generate, "{model}", c.model)
	if stream {
		path += "_stream"
	}
	return path
}

// errRefused is an answer with another status than 200.
type errRefused struct{ profile.Refusal }

func (e *errRefused) Error() string { return fmt.Sprintf("status %d", e.Status) }

// post sends a body. The caller closes the answer's.
func (c *client) post(ctx context.Context, path string, b any) (*http.Response, error) {
	j, ok := b.([]byte)
	if !ok {
		var err error
		if j, err = json.Marshal(b); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.peer.URL(profile.PortMain)+path, bytes.NewReader(j))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "sluice")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close()
	return nil, &errRefused{c.prof.Errors.ReadRefusal(resp.StatusCode, resp.Header, raw)}
}

// call is a call of a tool.
type call struct{ id, name, arguments string }

// answer is what came, as far as cases look at it.
type answer struct {
	text, thoughts     string
	finish             string
	calls              []call
	usage              bool
	prompt, completion int
	total              int
	logprobs, top      int  // entries, and the most alternatives of one
	done               bool // of a stream: its end mark came
	events             int
	broken             string // what of it breaks the dialect
}

// maxAnswer bounds an answer.
const maxAnswer = 32 << 20

// whole asks and reads an answer in one piece.
func (c *client) whole(ctx context.Context, b body) (answer, error) {
	return c.wholeAt(ctx, c.path(false), b)
}

func (c *client) wholeAt(ctx context.Context, path string, b body) (answer, error) {
	resp, err := c.post(ctx, path, b)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, err
	}
	var doc map[string]any
	if json.Unmarshal(raw, &doc) != nil {
		return answer{broken: "JSON"}, nil
	}
	var a answer
	if _, ours := doc["choices"]; !ours && path == c.ownPath(false) {
		a.readOwn(c.prof.Endpoints.Form, doc)
		return a, nil
	}
	a.read(c.prof, doc, "message")
	return a, nil
}

// readOwn reads an answer in the engine's own form.
func (a *answer) readOwn(form string, doc map[string]any) {
	if form != "tgi" {
		text, ok := doc["text_output"].(string)
		if a.text = text; !ok {
			a.broken = "text_output"
		}
		return
	}
	text, ok := doc["generated_text"].(string)
	if a.text += text; !ok {
		a.broken = "generated_text"
	}
	a.finish, _ = unified.Member(doc, "details.finish_reason").(string)
	if n, ok := unified.Member(doc, "details.generated_tokens").(float64); ok {
		a.completion, a.usage = int(n), true
	}
}

// read adds what one object of OpenAI's form holds; part is message or delta.
func (a *answer) read(p *profile.Profile, doc map[string]any, part string) {
	if u, ok := doc["usage"].(map[string]any); ok {
		a.usage = true
		a.prompt, a.completion, a.total = integer(u["prompt_tokens"]), integer(u["completion_tokens"]), integer(u["total_tokens"])
	}
	choices, ok := doc["choices"].([]any)
	if !ok {
		a.broken = "choices"
		return
	}
	for _, raw := range choices {
		choice, _ := raw.(map[string]any)
		if f, ok := choice["finish_reason"].(string); ok && f != "" {
			a.finish = f
		}
		if text, ok := choice["text"].(string); ok {
			a.text += text
		}
		m, _ := choice[part].(map[string]any)
		text, _ := m["content"].(string)
		a.text += text
		for _, name := range []string{p.Stream.Reasoning, "reasoning_content", "reasoning"} {
			if t, ok := m[name].(string); ok && name != "" && t != "" {
				a.thoughts += t
				break
			}
		}
		calls, _ := m["tool_calls"].([]any)
		for _, k := range calls {
			a.readCall(k)
		}
		a.readLogprobs(choice["logprobs"])
	}
}

func integer(v any) int {
	n, _ := v.(float64)
	return int(n)
}

func (a *answer) readCall(v any) {
	at := len(a.calls)
	if i, ok := unified.Member(v, "index").(float64); ok {
		at = int(i)
	}
	if at < 0 || at > len(a.calls) {
		a.broken = "tool_calls.index"
		return
	}
	if at == len(a.calls) {
		a.calls = append(a.calls, call{})
	}
	k := &a.calls[at]
	if id, ok := unified.Member(v, "id").(string); ok && id != "" {
		k.id = id
	}
	if name, ok := unified.Member(v, "function.name").(string); ok && name != "" {
		k.name = name
	}
	switch arguments := unified.Member(v, "function.arguments").(type) {
	case string:
		k.arguments += arguments
	case map[string]any: // some send the object itself
		j, _ := json.Marshal(arguments)
		k.arguments += string(j)
	}
}

func (a *answer) readLogprobs(v any) {
	if list, ok := unified.Member(v, "content").([]any); ok {
		for _, t := range list {
			if _, ok := unified.Member(t, "logprob").(float64); ok {
				a.logprobs++
			}
			top, _ := unified.Member(t, "top_logprobs").([]any)
			a.top = max(a.top, len(top))
		}
		return
	}
	columns, _ := unified.Member(v, "token_logprobs").([]any)
	a.logprobs += len(columns)
	tops, _ := unified.Member(v, "top_logprobs").([]any)
	for _, t := range tops {
		top, _ := t.(map[string]any)
		a.top = max(a.top, len(top))
	}
}

// errStop ends the reading of a stream.
var errStop = errors.New("enough")

// stream asks and reads an answer in pieces. each, if set, sees the answer after every event and may end it with errStop.
func (c *client) stream(ctx context.Context, b body, each func(*answer) error) (answer, error) {
	if !c.ownForm() {
		b.with("stream", true)
		if c.prof.Stream.Usage == "asked" {
			b.with("stream_options.include_usage", true)
		}
	}
	resp, err := c.post(ctx, c.path(true), b)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	var a answer
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" && c.prof.Stream.Framing == "sse" {
		a.broken = "Content-Type"
		return a, nil
	}
	events := openai.NewEventReader(resp.Body, maxAnswer)
	for {
		ev, err := events.Next()
		if errors.Is(err, io.EOF) {
			return a, nil
		}
		if err != nil {
			return a, err
		}
		if c.prof.Stream.Done != "" && string(ev.Data) == c.prof.Stream.Done {
			a.done = true
			return a, nil
		}
		var doc map[string]any
		if json.Unmarshal(ev.Data, &doc) != nil {
			a.broken = "JSON"
			return a, nil
		}
		a.events++
		c.readEvent(&a, doc)
		if each != nil {
			if err := each(&a); err != nil {
				return a, err
			}
		}
	}
}

func (c *client) readEvent(a *answer, doc map[string]any) {
	switch {
	case doc["error"] != nil || doc["detail"] != nil:
		a.broken = "error"
	case !c.ownForm():
		a.read(c.prof, doc, "delta")
	case c.prof.Endpoints.Form == "tgi":
		text, _ := unified.Member(doc, "token.text").(string)
		a.text += text
		if f, ok := unified.Member(doc, "details.finish_reason").(string); ok {
			a.finish = f
		}
	default:
		a.readOwn(c.prof.Endpoints.Form, doc)
	}
}
