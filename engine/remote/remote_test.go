package remote_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/profile"
	"github.com/sluice-project/sluice/engine/remote"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

func config(url string) remote.Config {
	return remote.Config{
		BaseURL: url + "/v1", APIKey: keyring.Inline("upstream-secret"), AllowPrivate: []string{"127.0.0.0/8"},
		Models: []remote.ModelConfig{
			{ID: "chat", Upstream: "scripted", ContextTokens: 4096, Logprobs: true, Deterministic: true},
			{ID: "embed", Upstream: "scripted-embed", EmbedDim: 32},
		},
	}
}

func open(t *testing.T, cfg remote.Config) *remote.Engine {
	t.Helper()
	e, err := remote.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestConformance(t *testing.T) {
	for name, hide := range map[string]bool{"usage": false, "no usage": true} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
				up := &enginetest.Upstream{Engine: enginetest.NewScripted(nil), HideUsage: hide}
				c := config(serve(t, up))
				c.Models = append(c.Models, remote.ModelConfig{ID: "rank", Upstream: "scripted-rerank", Rerank: true})
				return open(t, c), enginetest.Options{Generate: "chat", Embed: "embed", Score: "rank"}
			})
		})
	}
}

// wholeAnswers asks for every answer in one piece.
type wholeAnswers struct{ engine.Engine }

func (w wholeAnswers) Generate(ctx context.Context, p *engine.Prompt) iter.Seq2[engine.Event, error] {
	if p.Request == nil {
		return w.Engine.Generate(ctx, p)
	}
	req, whole := *p.Request, *p
	req.NonStreaming, whole.Request = true, &req
	return w.Engine.Generate(ctx, &whole)
}

// TestConformanceOfWholeAnswers: the contract holds for answers in one piece, too.
func TestConformanceOfWholeAnswers(t *testing.T) {
	for name, hide := range map[string]bool{"usage": false, "no usage": true} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(t *testing.T) (engine.Engine, enginetest.Options) {
				up := &enginetest.Upstream{Engine: enginetest.NewScripted(nil), HideUsage: hide}
				return wholeAnswers{open(t, config(serve(t, up)))}, enginetest.Options{Generate: "chat", Embed: "embed"}
			})
		})
	}
}

// TestWholeAnswers: an answer in one piece is asked for without a stream, is one event of a choice, takes as long as it takes, and is none
// when anything of it is missing. A server that streams all the same is read as a stream.
func TestWholeAnswers(t *testing.T) {
	const choice = `{"index":0,"message":{"role":"assistant","content":"hello","reasoning":"why"},"finish_reason":"stop"}`
	for name, c := range map[string]struct {
		kind, body, want string
		code             fault.Code
	}{
		"whole":       {"application/json", `{"choices":[` + choice + `],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, "hello", ""},
		"refused":     {"application/json", `{"error":{"message":"SECRET","code":"x"}}`, "", fault.CodeUpstreamFailed},
		"no choice":   {"application/json", `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, "", fault.CodeUpstreamFailed},
		"no end":      {"application/json", `{"choices":[{"index":0,"message":{"content":"SECRET"},"finish_reason":null}]}`, "", fault.CodeUpstreamFailed},
		"cut":         {"application/json", `{"choices":[` + choice[:60], "", fault.CodeUpstreamFailed},
		"no JSON":     {"text/html", `<p>SECRET</p>`, "", fault.CodeUpstreamFailed},
		"empty":       {"application/json", ``, "", fault.CodeUpstreamFailed},
		"streams":     {"text/event-stream; charset=utf-8", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n", "hello", ""},
		"stream, cut": {"text/event-stream", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hel\"}}]}\n\n", "hel", fault.CodeUpstreamFailed},
	} {
		t.Run(name, func(t *testing.T) {
			var sent string
			cfg := config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				sent = string(raw)
				w.Header().Set("Content-Type", c.kind)
				_, _ = io.WriteString(w, c.body)
			})))
			cfg.FirstByteTimeout = time.Nanosecond // of streams only
			text, u, err := ask(t, wholeAnswers{open(t, cfg)}, t.Context())
			if text != c.want || c.code == "" && (err != nil || u == nil) || c.code != "" && (!fault.Is(err, c.code) || strings.Contains(err.Error(), "SECRET")) {
				t.Errorf("%q, %+v, %v", text, u, err)
			}
			if !strings.Contains(sent, `"stream":false`) || strings.Contains(sent, "stream_options") {
				t.Errorf("sent %s", sent)
			}
		})
	}
}

func ask(t *testing.T, e engine.Engine, ctx context.Context) (string, *engine.Usage, error) {
	t.Helper()
	var text strings.Builder
	for ev, err := range enginetest.Ask(ctx, e, &engine.Request{Model: "chat", Messages: []engine.Message{{Role: "user", Content: "hello"}}, MaxTokens: 50, Logprobs: -1}) {
		if err != nil {
			return text.String(), nil, err
		}
		text.WriteString(ev.Text)
		if ev.Usage != nil {
			return text.String(), ev.Usage, nil
		}
	}
	return text.String(), nil, errors.New("the stream ended without usage")
}

func TestWhatIsSent(t *testing.T) {
	var auth, body string
	up := &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}
	e := open(t, config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		auth = r.Header.Get("Authorization")
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		r.Body = io.NopCloser(strings.NewReader(body))
		up.ServeHTTP(w, r)
	}))))
	text, u, err := ask(t, e, t.Context())
	if err != nil || text != "hello" || u.Estimated || u.Model != "scripted" {
		t.Errorf("%q, %+v, %v", text, u, err)
	}
	if auth != "Bearer upstream-secret" || !strings.Contains(body, `"include_usage":true`) || !strings.Contains(body, `"model":"scripted"`) || strings.Contains(body, "logprobs") {
		t.Errorf("sent %q with %q", body, auth)
	}
}

func TestEstimatedUsage(t *testing.T) {
	e := open(t, config(serve(t, &enginetest.Upstream{Engine: enginetest.NewScripted(nil), HideUsage: true})))
	_, u, err := ask(t, e, t.Context())
	if err != nil || !u.Estimated || u.CompletionTokens != 2 || u.PromptTokens == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestRefusals maps every status, and lets no sentence of the upstream through, neither to callers nor to the log.
func TestRefusals(t *testing.T) {
	const leak = "the prompt was: my name is Wang"
	cases := []struct {
		status int
		body   string
		header string
		code   fault.Code
		retry  time.Duration
	}{
		{400, `{"error":{"message":"` + leak + `","type":"BadRequestError","code":400}}`, "", fault.CodeUpstreamFailed, 0},
		{400, `{"error":{"message":"x","type":"x","code":"context_length_exceeded"}}`, "", fault.CodeContextLength, 0},
		{400, `{"object":"error","message":"This model's maximum context length is 10 tokens. ` + leak + `","type":"BadRequestError","code":400}`, "", fault.CodeContextLength, 0},
		{401, `{"error":{"message":"bad key upstream-secret","type":"auth","code":"invalid_api_key"}}`, "", fault.CodeUpstreamFailed, 0},
		{404, ``, "", fault.CodeModelNotFound, 0},
		{408, ``, "", fault.CodeUpstreamTimeout, 0},
		{429, leak, "7", fault.CodeEngineOverloaded, 7 * time.Second},
		{429, ``, "7200", fault.CodeEngineOverloaded, time.Hour},
		{429, ``, "x", fault.CodeEngineOverloaded, time.Second},
		{500, `{"error":{"message":"m","type":"` + leak + `","code":"` + leak + `"}}`, "", fault.CodeUpstreamFailed, 0},
		{502, `<html>`, "", fault.CodeEngineUnavailable, time.Second},
		{503, ``, "", fault.CodeEngineUnavailable, time.Second},
		{503, `upstream connect error or disconnect/reset before headers`, "", fault.CodeEngineUnavailable, time.Second},
		{503, `{"error":{"message":"m","type":"t"}}`, "", fault.CodeEngineUnavailable, time.Second},
		{520, `<html>`, "", fault.CodeUpstreamFailed, 0},
		{502, `{"error":{"message":"m","type":"t"}}`, "", fault.CodeEngineUnavailable, time.Second},
		{503, ``, "0.5", fault.CodeEngineOverloaded, time.Second},
		{504, ``, "", fault.CodeUpstreamTimeout, 0},
		{302, ``, "", fault.CodeUpstreamFailed, 0},
	}
	for _, c := range cases {
		e := open(t, config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.header)
			w.Header().Set("Location", "http://169.254.169.254/")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))))
		_, _, err := ask(t, e, t.Context())
		if !fault.Is(err, c.code) || fault.Public(err).RetryAfter() != c.retry {
			t.Errorf("%d %s: %v, retry %v", c.status, c.body, err, fault.Public(err).RetryAfter())
		}
		// Who serves the model has an error, in the words of its dialect; what else there is may be of somebody between, after an answer that is billed.
		if own := c.status == 429 || c.status != 502 && strings.HasPrefix(c.body, "{"); errors.Is(err, engine.ErrRefused) != own {
			t.Errorf("%d %s: a refusal of the engine: %v, want %v", c.status, c.body, !own, own)
		}
		if s := fmt.Sprintf("%v %+v", err, err); strings.Contains(s, "Wang") || strings.Contains(s, "upstream-secret") {
			t.Errorf("leaked: %s", s)
		}
	}
}

// TestWhoBills: nothing but engines is taken to bill nobody: what stands before other servers may stand before clouds.
func TestWhoBills(t *testing.T) {
	known, err := profile.New()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, name := range known.Names() {
		p, err := known.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg := config("http://127.0.0.1:1")
		cfg.Models = []remote.ModelConfig{{ID: "chat", Upstream: "m", ContextTokens: 4096, Dialect: name}}
		e, err := remote.New(cfg)
		if err != nil {
			continue // it needs more than a name
		}
		kinds[p.Kind]++
		want := map[string]bool{"engine": false, "plug-in": false, "platform": true, "stack": true, "cloud": true, "protocol": true}[p.Kind]
		if e.Bills("chat") != want || !e.Bills("another") {
			t.Errorf("%s, of kind %s: bills %v", name, p.Kind, !want)
		}
		_ = e.Close()
	}
	if len(kinds) < 5 {
		t.Errorf("only %v", kinds)
	}
}

// TestBrokenStreams: what is no complete answer never looks like one.
func TestBrokenStreams(t *testing.T) {
	const piece = `data: {"choices":[{"index":0,"delta":{"content":"hi"}}]}` + "\n\n"
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	cases := []struct {
		name, body, text string
		code             fault.Code // "" is success
	}{
		{"ends early", piece, "hi", fault.CodeUpstreamFailed},
		{"empty", "", "", fault.CodeUpstreamFailed},
		{"error event", piece + `data: {"error":{"message":"Wang","type":"x","code":"y"}}` + "\n\n", "hi", fault.CodeUpstreamFailed},
		{"no JSON", piece + "data: Wang\n\n", "hi", fault.CodeUpstreamFailed},
		{"cut JSON", piece + `data: {"choices":[{"index":0,`, "hi", fault.CodeUpstreamFailed},
		{"wrong choice", `data: {"choices":[{"index":7,"delta":{"content":"hi"}}]}` + "\n\n", "", fault.CodeUpstreamFailed},
		{"huge event", piece + "data: " + strings.Repeat("x", 2<<20) + "\n\n", "hi", fault.CodeUpstreamFailed},
		{"HTML", "<html><body>Wang</body></html>", "", fault.CodeUpstreamFailed},
		{"no end marker but finished", piece + end, "hi", ""},
		{"end marker only", piece + "data: [DONE]\n\n", "hi", ""},
		{"comments, CRLF, no final blank", ": ping\r\n\r\n" + piece + end + "data: [DONE]", "hi", ""},
		{"finish twice", piece + end + end + "data: [DONE]\n\n", "hi", ""},
		{"content filter", piece + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}` + "\n\ndata: [DONE]\n\n", "hi", ""},
	}
	for _, c := range cases {
		e := open(t, config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) }))))
		text, u, err := ask(t, e, t.Context())
		if text != c.text || c.code == "" && (err != nil || u.CompletionTokens != 1) || c.code != "" && !fault.Is(err, c.code) {
			t.Errorf("%s: %q, %+v, %v", c.name, text, u, err)
		}
		if err != nil && strings.Contains(err.Error(), "Wang") {
			t.Errorf("%s: leaked %v", c.name, err)
		}
	}
}

func TestSilence(t *testing.T) {
	for name, first := range map[string]string{"before the first event": "", "between events": "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\n"} {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			cfg := config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.ReadAll(r.Body)
				_, _ = io.WriteString(w, first)
				if first != "" {
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
				close(gone)
			})))
			cfg.FirstByteTimeout, cfg.IdleTimeout = 50*time.Millisecond, 50*time.Millisecond
			if _, _, err := ask(t, open(t, cfg), t.Context()); !fault.Is(err, fault.CodeUpstreamTimeout) {
				t.Errorf("%v", err)
			}
			<-gone
		})
	}
}

// TestSlowConsumerIsNotSilence: the watch rests while the consumer works.
func TestSlowConsumerIsNotSilence(t *testing.T) {
	cfg := config(serve(t, &enginetest.Upstream{Engine: enginetest.NewScripted(nil)}))
	cfg.FirstByteTimeout, cfg.IdleTimeout = 2*time.Second, 60*time.Millisecond
	timer := time.After(150 * time.Millisecond)
	waited := false
	for _, err := range enginetest.Ask(t.Context(), open(t, cfg), &engine.Request{Model: "chat", Prompt: "abcdefghi", Logprobs: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		if !waited {
			<-timer
			waited = true
		}
	}
}

// TestClosedConnections: an upstream closes a connection that it promised to keep, just when the next request is on its way.
func TestClosedConnections(t *testing.T) {
	const reply = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	again := make(chan struct{}, 10) // connections on which a second request began
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			if req, err := http.ReadRequest(in); err == nil {
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply)
			}
			if _, err := in.Peek(1); err == nil {
				again <- struct{}{}
			}
			_ = conn.Close()
		}
	}()
	e := open(t, config("http://"+listener.Addr().String()))
	for i := range 3 {
		if text, _, err := ask(t, e, t.Context()); err != nil || text != "hi" {
			t.Errorf("request %d: %q, %v", i, text, err)
		}
	}
	if len(again) == 0 {
		t.Error("no connection was used twice: the test shows nothing")
	}
}

// TestSentBeforeItWasLost: a request that was written on a kept connection which is closed over it has been there, though nobody takes it a second time.
func TestSentBeforeItWasLost(t *testing.T) {
	const reply = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		for n := range 2 {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			if n == 0 {
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(reply), reply)
			}
		}
		_ = listener.Close() // it falls over the second request
	}()
	e := open(t, config("http://"+listener.Addr().String()))
	if text, _, err := ask(t, e, t.Context()); err != nil || text != "hi" {
		t.Fatalf("%q, %v", text, err)
	}
	if _, _, err := ask(t, e, t.Context()); !fault.Is(err, fault.CodeUpstreamFailed) || errors.Is(err, engine.ErrNotReached) {
		t.Errorf("%v: the upstream has had it", err)
	}
}

// TestClosedWhileItConnects: what a closed engine has not sent was not reached, and the sentence names the model.
func TestClosedWhileItConnects(t *testing.T) {
	full, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // a TLS handshake that nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	e := open(t, config("https://"+full.Addr().String()))
	go func() {
		if conn, err := full.Accept(); err == nil {
			_ = e.Close()
			_ = conn.Close()
		}
	}()
	_, _, err = ask(t, e, t.Context())
	f := (*fault.Error)(nil)
	if !errors.As(err, &f) || !errors.Is(err, engine.ErrNotReached) || f.Code() != fault.CodeEngineUnavailable || strings.Contains(f.Message(fault.English), "%!") {
		t.Errorf("%v", err)
	}
}

// TestGivenUpBeforeItWasSent: of a request that is given up while it connects nothing can have been made.
func TestGivenUpBeforeItWasSent(t *testing.T) {
	asked := make(chan struct{}, 1)
	busy := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices who leaves only then
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	full, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // a TLS handshake that nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	go func() {
		if _, err := full.Accept(); err == nil {
			asked <- struct{}{}
		}
	}()
	for url, unsent := range map[string]bool{busy: false, "https://" + full.Addr().String(): true} {
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			<-asked
			leave()
		}()
		_, _, err := ask(t, wholeAnswers{open(t, config(url))}, ctx)
		if !errors.Is(err, context.Canceled) || errors.Is(err, engine.ErrNotReached) != unsent {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestCancelReachesTheUpstream(t *testing.T) {
	step := make(chan struct{}, 1)
	up := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
	e := open(t, config(serve(t, &enginetest.Upstream{Engine: up})))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	step <- struct{}{}
	for _, err := range enginetest.Ask(ctx, e, &engine.Request{Model: "chat", Prompt: "abcdefghi", Logprobs: -1}) {
		last = err
		cancel()
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("got %v", last)
	}
	deadline, look := time.After(10*time.Second), time.NewTicker(time.Millisecond)
	defer look.Stop()
	for up.Aborted() == 0 { // it waits for the next step, or for the caller to leave
		select {
		case <-deadline:
			t.Fatal("the upstream went on")
		case <-look.C:
		}
	}
}

func TestCloseEndsRequests(t *testing.T) {
	start := make(chan struct{})
	up := enginetest.NewScripted(func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	asked := make(chan struct{})
	h := &enginetest.Upstream{Engine: up}
	e := open(t, config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(asked)
		h.ServeHTTP(w, r)
	}))))
	go func() {
		<-asked
		_ = e.Close()
	}()
	if _, _, err := ask(t, e, t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("%v", err)
	}
}

// TestPrivateAddresses: an upstream whose name leads into a private network is not asked unless the network is listed.
func TestPrivateAddresses(t *testing.T) {
	asked := false
	url := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	cfg := config(url)
	cfg.AllowPrivate = []string{"10.0.0.0/8"}
	if _, _, err := ask(t, open(t, cfg), t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) || asked {
		t.Errorf("asked %v, %v", asked, err)
	}
	cfg.BaseURL = strings.Replace(cfg.BaseURL, "127.0.0.1", "localhost", 1)
	if _, _, err := ask(t, open(t, cfg), t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) || asked {
		t.Errorf("by name: asked %v, %v", asked, err)
	}
}

func TestUnreachable(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	url := s.URL
	s.Close()
	if _, _, err := ask(t, open(t, config(url)), t.Context()); !fault.Is(err, fault.CodeEngineUnavailable) {
		t.Errorf("%v", err)
	}
}

func TestEmbedRefusesBrokenReplies(t *testing.T) {
	vec := "[" + strings.TrimSuffix(strings.Repeat("1,", 32), ",") + "]"
	for body, ok := range map[string]bool{
		`{"data":[{"index":0,"embedding":` + vec + `}]}`: true,
		`{"data":[{"index":1,"embedding":` + vec + `}]}`: false,
		`{"data":[]}`: false,
		`{"data":[{"index":0,"embedding":[1,2]}]}`:                                           false,
		`{"data":[{"index":0,"embedding":` + strings.ReplaceAll(vec, "1", "0") + `}]}`:       false,
		`{"data":[{"index":0,"embedding":` + vec + `},{"index":0,"embedding":` + vec + `}]}`: false,
		`{"data":[{"index":0,"embedding":"AAAA"}]}`:                                          false,
		`not JSON`: false,
	} {
		e := open(t, config(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))))
		got, err := enginetest.Embed(t.Context(), e, &engine.EmbedRequest{Model: "embed", Input: []string{"a"}})
		if ok != (err == nil) || !ok && !fault.Is(err, fault.CodeUpstreamFailed) || ok && got.PromptTokens == 0 {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

func TestValidate(t *testing.T) {
	good := config("http://127.0.0.1:1")
	for name, change := range map[string]func(*remote.Config){
		"no url":      func(c *remote.Config) { c.BaseURL = "" },
		"file":        func(c *remote.Config) { c.BaseURL = "file:///etc/passwd" },
		"user":        func(c *remote.Config) { c.BaseURL = "http://a:b@host/v1" },
		"query":       func(c *remote.Config) { c.BaseURL = "http://host/v1?x=1" },
		"no models":   func(c *remote.Config) { c.Models = nil },
		"same id":     func(c *remote.Config) { c.Models = append(c.Models, c.Models[0]) },
		"no network":  func(c *remote.Config) { c.AllowPrivate = []string{"10.0.0.1"} },
		"negative":    func(c *remote.Config) { c.IdleTimeout = -1 },
		"context < 0": func(c *remote.Config) { c.Models = []remote.ModelConfig{{ID: "x", ContextTokens: -1}} },
	} {
		c := good
		c.Models = append([]remote.ModelConfig(nil), good.Models...)
		change(&c)
		if _, err := remote.New(c); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// FuzzStream: whatever an upstream sends, the contract of the event sequence holds and no byte of it reaches an error.
func FuzzStream(f *testing.F) {
	for _, s := range []string{
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
		"data: {\"error\":{\"message\":\"x\"}}\n\n", "data: {\"choices\":[{\"index\":-1}]}\n\n", ": c\n\n", "data: {\"usage\":{\"prompt_tokens\":-5}}\n\ndata: [DONE]",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":\"{\"}},{\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":{}}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
		"data: {\"choices\":[{\"logprobs\":{\"tokens\":[\"a\"],\"top_logprobs\":[null]},\"text\":\"a\"}]}\n\n",
	} {
		f.Add([]byte(s), false)
	}
	f.Add([]byte(`{"choices":[{"index":1,"message":{"content":"a"},"finish_reason":"stop"},{"index":0,"text":"a","finish_reason":"length"}]}`), true)
	f.Add([]byte(`{"choices":[{"index":0,"message":{"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"stop"}]}`), true)
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	f.Cleanup(server.Close)
	e, err := remote.New(config(server.URL))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, whole bool) {
		body = in
		var ended, failed bool
		finished, begun := [2]bool{}, [2]int{}
		for ev, err := range enginetest.Ask(t.Context(), e, &engine.Request{Model: "chat", Prompt: "x", Choices: 2, Logprobs: 2, NonStreaming: whole}) {
			if ended || failed {
				t.Fatal("an event after the last")
			}
			if err != nil {
				failed = true
				continue
			}
			if ev.Choice < 0 || ev.Choice > 1 || finished[ev.Choice] && (ev.Text != "" || ev.Finish != "") {
				t.Fatalf("%+v", ev)
			}
			for _, d := range ev.Calls {
				if finished[ev.Choice] || d.Index < 0 || d.Index > begun[ev.Choice] || (d.Index == begun[ev.Choice]) != (d.Name != "") || (d.Name != "") != (d.ID != "") {
					t.Fatalf("%+v, %d have begun", d, begun[ev.Choice])
				}
				begun[ev.Choice] = max(begun[ev.Choice], d.Index+1)
			}
			finished[ev.Choice] = finished[ev.Choice] || ev.Finish != ""
			if ev.Usage != nil {
				ended = true
				if ev.Usage.PromptTokens < 0 || ev.Usage.CompletionTokens < 0 || ev.Usage.CachedTokens > ev.Usage.PromptTokens || !finished[0] || !finished[1] {
					t.Fatalf("%+v, finished %v", ev.Usage, finished)
				}
			}
		}
		if ended == failed {
			t.Fatal("the sequence must end with usage or with an error")
		}
	})
}

// TestEventsThatCameTogether: an event says that there is more where the upstream has sent more already, and nobody waits for a promise that
// only a chunk without text has kept.
func TestEventsThatCameTogether(t *testing.T) {
	const text, nothing = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", "data: {\"choices\":[{\"index\":0,\"delta\":{}}]}\n\n"
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text+text+nothing)
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	var got []string
	for ev, err := range enginetest.Ask(t.Context(), open(t, config(server.URL)), &engine.Request{Model: "chat", Prompt: "abc", Logprobs: -1}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s%v%v", ev.Text, ev.Finish, ev.More))
		if len(got) == 3 { // it came although the upstream waits
			close(release)
		}
	}
	if want := "[atrue atrue false stoptrue false]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}
