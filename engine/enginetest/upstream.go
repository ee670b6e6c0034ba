package enginetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/internal/fault"
)

// Upstream is an OpenAI-compatible server in front of an engine, as plain as such servers get. It checks nothing: its callers
// are tests.
type Upstream struct {
	Engine engine.Engine
	// HideUsage leaves the usage event out, as some servers do even when asked for it.
	HideUsage bool
	// Cut ends a stream after this many events without [DONE]; 0 never.
	Cut int
}

// ServeHTTP implements http.Handler for the paths /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/rerank, and for /tokenize as vLLM has it
// and as the server of llama.cpp has it, with its /apply-template.
func (u *Upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions", "/v1/completions":
		u.generate(w, r)
	case "/v1/embeddings":
		u.embed(w, r)
	case "/v1/rerank":
		u.rerank(w, r)
	case "/tokenize":
		u.tokenize(w, r)
	case "/apply-template":
		u.applyTemplate(w, r)
	default:
		writeError(w, http.StatusNotFound, "not_found", 0)
	}
}

func writeError(w http.ResponseWriter, status int, code string, retrySeconds int) {
	if retrySeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(openai.ErrorBody{Error: openai.ErrorDetail{Message: "upstream says no", Type: "x", Code: code}})
}

func writeFault(w http.ResponseWriter, err error) {
	p := fault.Public(err)
	status := http.StatusInternalServerError
	switch p.Kind() {
	case fault.Invalid:
		status = http.StatusBadRequest
	case fault.NotFound:
		status = http.StatusNotFound
	case fault.Unavailable:
		status = http.StatusServiceUnavailable
	case fault.Timeout:
		status = http.StatusGatewayTimeout
	default: // an upstream that breaks
	}
	writeError(w, status, string(p.Code()), int(p.RetryAfter().Seconds()))
}

// upstreamRequest is the union of the two generating bodies.
type upstreamRequest struct {
	openai.ChatRequest

	Prompt     *string         `json:"prompt"`
	Logprobs   json.RawMessage `json:"logprobs"`
	ToolChoice json.RawMessage `json:"tool_choice"`
	Echo       bool            `json:"echo"`
}

func (q *upstreamRequest) request() *engine.Request {
	req := &engine.Request{
		Model: engine.ModelID(q.Model), MaxTokens: q.MaxTokens, Choices: q.N, Temperature: q.Temperature, TopP: q.TopP,
		Seed: q.Seed, Stop: q.Stop, Logprobs: -1, Echo: q.Echo, TopK: q.TopK, MinP: q.MinP, MinTokens: q.MinTokens,
		RepetitionPenalty: max(q.RepetitionPenalty, q.RepeatPenalty), FrequencyPenalty: q.FrequencyPenalty, PresencePenalty: q.PresencePenalty,
		ParallelTools: q.ParallelToolCalls == nil || *q.ParallelToolCalls, Format: q.format(),
	}
	for id, v := range q.LogitBias {
		if req.LogitBias == nil {
			req.LogitBias = map[int32]float64{}
		}
		n, _ := strconv.ParseInt(id, 10, 32)
		req.LogitBias[int32(n)] = v
	}
	q.talk(req)
	if q.Prompt != nil {
		req.Prompt = *q.Prompt
		var n int
		if json.Unmarshal(q.Logprobs, &n) == nil && string(q.Logprobs) != "null" {
			req.Logprobs = n
		}
	} else if string(q.Logprobs) == "true" {
		req.Logprobs = 0
		if q.TopLogprobs != nil {
			req.Logprobs = *q.TopLogprobs
		}
	}
	return req
}

// talk fills in the turns and the tools.
func (q *upstreamRequest) talk(req *engine.Request) {
	for _, m := range q.Messages {
		msg := engine.Message{Role: m.Role, Name: m.Name, ToolCallID: m.ToolCallID}
		if m.Content != nil {
			msg.Content = *m.Content
		}
		for _, c := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, engine.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: string(c.Function.Arguments)})
		}
		req.Messages = append(req.Messages, msg)
	}
	for _, t := range q.Tools {
		f := t.Function
		req.Tools = append(req.Tools, engine.Tool{Name: f.Name, Description: f.Description, Parameters: f.Parameters, Strict: f.Strict})
	}
	var mode string
	var named openai.NamedTool
	switch {
	case json.Unmarshal(q.ToolChoice, &mode) == nil:
		req.ToolChoice.Mode = engine.ToolMode(mode)
	case json.Unmarshal(q.ToolChoice, &named) == nil:
		req.ToolChoice = engine.ToolChoice{Mode: engine.ToolFunction, Name: named.Function.Name}
	}
}

func (q *upstreamRequest) format() *engine.Format {
	switch f, s := q.ResponseFormat, q.StructuredOutputs; {
	case f != nil && f.Type == openai.FormatObject:
		return &engine.Format{JSONObject: true}
	case f != nil && f.JSONSchema != nil:
		return &engine.Format{JSONSchema: f.JSONSchema.Schema}
	case s != nil:
		return &engine.Format{JSONSchema: s.JSON, Regex: s.Regex, Choice: s.Choice, GBNF: s.Grammar}
	case q.Grammar != "":
		return &engine.Format{GBNF: q.Grammar}
	}
	return nil
}

func (u *Upstream) generate(w http.ResponseWriter, r *http.Request) {
	var q upstreamRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", 0)
		return
	}
	if !q.Stream {
		u.whole(w, r, &q)
		return
	}
	out := &upstreamStream{u: u, w: w, model: q.Model, chat: q.Prompt == nil, stops: q.request().Stop}
	for ev, err := range Ask(r.Context(), u.Engine, q.request()) {
		if err != nil {
			out.fail(err)
			return
		}
		if !out.event(ev) {
			return
		}
	}
	if q.StreamOptions != nil && q.StreamOptions.IncludeUsage && !u.HideUsage && out.usage != nil {
		out.send(openai.ChatChunk{Choices: []openai.ChatChunkChoice{}, Usage: out.usage})
	}
	out.raw([]byte(openai.Done))
}

// whole answers in one piece.
func (u *Upstream) whole(w http.ResponseWriter, r *http.Request, q *upstreamRequest) {
	chat := openai.Chat{Object: openai.ObjectChat, Model: q.Model, Choices: make([]openai.ChatChoice, max(1, q.N))}
	plain := openai.Completion{Object: openai.ObjectCompletion, Model: q.Model, Choices: make([]openai.CompletionChoice, max(1, q.N))}
	logprobs := make([][]engine.TokenLogprob, max(1, q.N))
	for ev, err := range Ask(r.Context(), u.Engine, q.request()) {
		if err != nil {
			if r.Context().Err() == nil {
				writeFault(w, err)
			}
			return
		}
		c, p := &chat.Choices[ev.Choice], &plain.Choices[ev.Choice]
		c.Index, p.Index = ev.Choice, ev.Choice
		p.Text += ev.Text
		logprobs[ev.Choice] = append(logprobs[ev.Choice], ev.Logprobs...)
		for _, d := range ev.Calls {
			if d.Index == len(c.Message.ToolCalls) {
				c.Message.ToolCalls = append(c.Message.ToolCalls, openai.ToolCall{ID: d.ID, Type: openai.TypeFunction, Function: openai.FunctionCall{Name: d.Name}})
			}
			c.Message.ToolCalls[d.Index].Function.Arguments += openai.Arguments(d.Arguments)
		}
		if ev.Finish != engine.FinishNone {
			c.FinishReason = string(ev.Finish)
			p.FinishReason = &c.FinishReason
			c.StopReason = stopReason(ev.StoppedBy, q.request().Stop)
			p.StopReason = c.StopReason
		}
		if ev.Usage != nil && !u.HideUsage {
			used := usage(ev.Usage)
			chat.Usage = &used
			plain.Usage, _ = json.Marshal(used)
		}
	}
	for i := range chat.Choices {
		c, p := &chat.Choices[i], &plain.Choices[i]
		c.Message.Role = "assistant"
		if p.Text != "" || len(c.Message.ToolCalls) == 0 {
			c.Message.Content = &p.Text
		}
		if len(logprobs[i]) > 0 {
			c.Logprobs, p.Logprobs = &openai.ChatLogprobs{Content: chatLogprobs(logprobs[i])}, columns(logprobs[i])
		}
	}
	w.Header().Set("Content-Type", "application/json")
	if q.Prompt == nil {
		_ = json.NewEncoder(w).Encode(chat)
	} else {
		_ = json.NewEncoder(w).Encode(plain)
	}
}

func usage(u *engine.Usage) openai.Usage {
	return openai.Usage{
		PromptTokens: u.PromptTokens, CompletionTokens: u.CompletionTokens, TotalTokens: u.PromptTokens + u.CompletionTokens,
		PromptDetails: &openai.PromptDetails{CachedTokens: u.CachedTokens},
	}
}

// stopReason names the stop string that ended a choice, as vLLM does.
func stopReason(stoppedBy int, stops []string) string {
	if stoppedBy == 0 {
		return ""
	}
	return stops[stoppedBy-1]
}

type upstreamStream struct {
	u       *Upstream
	w       http.ResponseWriter
	model   string
	chat    bool
	stops   []string
	started bool
	sent    int
	usage   json.RawMessage
}

func (s *upstreamStream) event(ev engine.Event) bool {
	if ev.Usage != nil {
		s.usage, _ = json.Marshal(usage(ev.Usage))
	}
	var finish *string
	if ev.Finish != engine.FinishNone {
		f := string(ev.Finish)
		finish = &f
	}
	if s.chat {
		c := openai.ChatChunkChoice{Index: ev.Choice, FinishReason: finish, StopReason: stopReason(ev.StoppedBy, s.stops)}
		if ev.Text != "" || len(ev.Calls) == 0 {
			c.Delta.Content = &ev.Text
		}
		for _, d := range ev.Calls {
			call := openai.ToolCall{Index: &d.Index, ID: d.ID, Function: openai.FunctionCall{Name: d.Name, Arguments: openai.Arguments(d.Arguments)}}
			if d.ID != "" {
				call.Type = openai.TypeFunction
			}
			c.Delta.ToolCalls = append(c.Delta.ToolCalls, call)
		}
		if len(ev.Logprobs) > 0 {
			c.Logprobs = &openai.ChatLogprobs{Content: chatLogprobs(ev.Logprobs)}
		}
		s.send(openai.ChatChunk{Object: openai.ObjectChatChunk, Choices: []openai.ChatChunkChoice{c}})
	} else {
		c := openai.CompletionChoice{Index: ev.Choice, Text: ev.Text, FinishReason: finish, StopReason: stopReason(ev.StoppedBy, s.stops)}
		if len(ev.Logprobs) > 0 {
			c.Logprobs = columns(ev.Logprobs)
		}
		s.send(openai.Completion{Object: openai.ObjectCompletion, Choices: []openai.CompletionChoice{c}})
	}
	s.sent++
	return s.u.Cut == 0 || s.sent < s.u.Cut
}

func chatLogprobs(in []engine.TokenLogprob) []openai.TokenLogprob {
	var out []openai.TokenLogprob
	for _, lp := range in {
		t := openai.TokenLogprob{Token: lp.Token, Logprob: lp.Logprob, Bytes: lp.Bytes}
		for _, a := range lp.Top {
			t.TopLogprobs = append(t.TopLogprobs, openai.TopLogprob{Token: a.Token, Logprob: a.Logprob, Bytes: a.Bytes})
		}
		out = append(out, t)
	}
	return out
}

func columns(in []engine.TokenLogprob) *openai.CompletionLogprobs {
	out := &openai.CompletionLogprobs{}
	for _, lp := range in {
		out.Tokens = append(out.Tokens, lp.Token)
		var value *float64
		var top map[string]float64
		if !math.IsNaN(lp.Logprob) {
			value, top = &lp.Logprob, map[string]float64{}
		}
		for _, a := range lp.Top {
			top[a.Token] = a.Logprob
		}
		out.TokenLogprobs = append(out.TokenLogprobs, value)
		out.TopLogprobs = append(out.TopLogprobs, top)
	}
	return out
}

// fail answers with a status before the first byte and with an error event after it.
func (s *upstreamStream) fail(err error) {
	if !s.started {
		writeFault(s.w, err)
		return
	}
	p := fault.Public(err)
	j, _ := json.Marshal(openai.ErrorBody{Error: openai.ErrorDetail{Message: "upstream says no", Type: "server_error", Code: string(p.Code())}})
	s.raw(j)
}

func (s *upstreamStream) send(v any) {
	j, err := json.Marshal(v)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.raw(j)
}

func (s *upstreamStream) raw(data []byte) {
	if !s.started {
		s.started = true
		s.w.Header().Set("Content-Type", "text/event-stream")
	}
	if _, err := s.w.Write(openai.AppendEvent(nil, data)); err == nil {
		_ = http.NewResponseController(s.w).Flush()
	}
}

func (u *Upstream) embed(w http.ResponseWriter, r *http.Request) {
	var q openai.EmbeddingRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", 0)
		return
	}
	got, err := Embed(r.Context(), u.Engine, &engine.EmbedRequest{Model: engine.ModelID(q.Model), Input: q.Input})
	if err != nil {
		if !errors.Is(err, r.Context().Err()) {
			writeFault(w, err)
		}
		return
	}
	out := openai.EmbeddingList{Object: openai.ObjectList, Model: string(got.Model), Usage: openai.EmbeddingUsage{PromptTokens: got.PromptTokens, TotalTokens: got.PromptTokens}}
	for i, v := range got.Vectors {
		out.Data = append(out.Data, openai.Embedding{Object: openai.ObjectEmbedding, Index: i, Embedding: v})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

func (u *Upstream) rerank(w http.ResponseWriter, r *http.Request) {
	var q openai.RerankRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", 0)
		return
	}
	got, err := Score(r.Context(), u.Engine, &engine.ScoreRequest{Model: engine.ModelID(q.Model), Query: q.Query, Documents: q.Documents})
	if err != nil {
		if !errors.Is(err, r.Context().Err()) {
			writeFault(w, err)
		}
		return
	}
	out := openai.Rerank{Model: string(got.Model), Usage: openai.EmbeddingUsage{PromptTokens: got.PromptTokens, TotalTokens: got.PromptTokens}}
	for i, v := range got.Scores {
		out.Results = append(out.Results, openai.Ranked{Index: i, Score: v})
	}
	slices.SortStableFunc(out.Results, func(a, b openai.Ranked) int { return cmp.Compare(b.Score, a.Score) })
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// tokenize answers both forms of the question for tokens.
func (u *Upstream) tokenize(w http.ResponseWriter, r *http.Request) {
	var q struct {
		upstreamRequest

		Content *string `json:"content"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", 0)
		return
	}
	req := q.request()
	if q.Content != nil { // by llama.cpp, which has one model
		req.Model, req.Prompt = "scripted", *q.Content
	}
	p, err := u.Engine.Prepare(r.Context(), req)
	var got *engine.TokenList
	if err == nil {
		got, err = u.Engine.Tokens(r.Context(), p)
	}
	if err != nil {
		writeFault(w, err)
		return
	}
	var out any = map[string]any{"count": len(got.IDs), "max_model_len": 4096, "tokens": got.IDs, "token_strs": got.Texts}
	if q.Content != nil {
		type token struct {
			ID    int32  `json:"id"`
			Piece string `json:"piece"`
		}
		all := make([]token, len(got.IDs))
		for i, id := range got.IDs {
			all[i] = token{id, got.Texts[i]}
		}
		out = map[string]any{"tokens": all}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// applyTemplate says the text of a chat.
func (u *Upstream) applyTemplate(w http.ResponseWriter, r *http.Request) {
	var q upstreamRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		writeError(w, http.StatusBadRequest, "bad_request", 0)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"prompt": strings.Join(promptTexts(q.request()), "")})
}
