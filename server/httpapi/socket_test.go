package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
)

// socketSurface is the path by which tests ask over a WebSocket.
const socketSurface = "WebSocket"

// overSocket asks one chat over a WebSocket of its own, and returns its frames as a stream has them.
func (k *kit) overSocket(t testing.TB, body io.Reader, headers ...string) (*http.Response, string) {
	t.Helper()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	conn := k.dial(t, headers...)
	defer conn.CloseNow()
	say(t, conn, string(raw))
	resp, frames := &http.Response{StatusCode: http.StatusOK}, answerOf(t, conn)
	if last := frames[len(frames)-1]; strings.HasPrefix(last, errorFrame) {
		resp.StatusCode = decode[socketError](t, last).Status
	}
	return resp, "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n"
}

func (k *kit) dial(t testing.TB, headers ...string) *websocket.Conn {
	t.Helper()
	conn, resp, err := k.tryDial(t, headers...)
	if err != nil {
		t.Fatalf("%v, %+v", err, resp)
	}
	return conn
}

func (k *kit) tryDial(t testing.TB, headers ...string) (*websocket.Conn, *http.Response, error) {
	t.Helper()
	h := http.Header{"Authorization": {"Bearer " + goodKey}}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	var protocols []string
	if p := h.Get("Sec-WebSocket-Protocol"); p != "" {
		protocols = strings.Split(p, ", ")
	}
	conn, resp, err := websocket.Dial(t.Context(), strings.Replace(k.URL, "http", "ws", 1)+socketPath, &websocket.DialOptions{HTTPHeader: h, Subprotocols: protocols})
	if err == nil {
		conn.SetReadLimit(8 << 20)
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp, err
}

func say(t testing.TB, conn *websocket.Conn, frame string) {
	t.Helper()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

func hear(t testing.TB, conn *websocket.Conn) string {
	t.Helper()
	kind, frame, err := conn.Read(t.Context())
	if err != nil || kind != websocket.MessageText {
		t.Fatalf("%v %s, %v", kind, frame, err)
	}
	return string(frame)
}

// answerOf reads the frames of one answer, the last one included.
func answerOf(t testing.TB, conn *websocket.Conn) (frames []string) {
	t.Helper()
	for {
		f := hear(t, conn)
		frames = append(frames, f)
		if f == openai.Done || strings.HasPrefix(f, errorFrame) || strings.HasPrefix(f, cancelledFrame) {
			return frames
		}
	}
}

// closed reads until the connection ends, and returns how.
func closed(t testing.TB, conn *websocket.Conn) websocket.StatusCode {
	t.Helper()
	for {
		if _, _, err := conn.Read(t.Context()); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// TestSocketSaysWhatTheStreamSays: the frames are the events of the same chat as a stream, one chat after the other on one connection, each a
// request with an id and a record of its own.
func TestSocketSaysWhatTheStreamSays(t *testing.T) {
	k := newKit(t, Config{}, nil)
	const chat = `{"model":"chat","messages":[{"role":"user","content":"a SECRET1 and more"}],"stream_options":{"include_usage":true}`
	_, body := k.post(t, socketPath, chat+`,"stream":true}`, "X-Sluice-Session", "s-1")
	<-k.ended
	want, session := events(t, body), k.last().Session
	conn, ids := k.dial(t, "X-Sluice-Session", "s-1"), map[string]bool{}
	for range 2 {
		say(t, conn, chat+"}")
		got := answerOf(t, conn)
		<-k.ended
		if e := k.last(); e.Action != "chat.completions" || e.Dialect != "openai" || e.Outcome != "ok" || ids[e.Request] || e.Session != session || session == "" {
			t.Errorf("%+v", e)
		} else {
			ids[e.Request] = true
		}
		if len(got) != len(want) || got[len(got)-1] != openai.Done {
			t.Fatalf("%q, want %q", got, want)
		}
		for i := range got[:len(got)-1] {
			if a, b := timeless(t, got[i]), timeless(t, want[i]); a != b {
				t.Errorf("frame %d: %s, want %s", i, a, b)
			}
		}
	}
	for _, r := range k.engine.Requests() {
		if strings.Contains(fmt.Sprint(r.Messages), "SECRET") || !strings.Contains(fmt.Sprint(r.Messages), "⟦1⟧") || r.NonStreaming {
			t.Errorf("%+v", r)
		}
	}
}

// timeless leaves out what differs from request to request.
func timeless(t testing.TB, chunk string) string {
	m := decode[map[string]any](t, chunk)
	delete(m, "id")
	delete(m, "created")
	if x, ok := m["sluice"].(map[string]any); ok {
		delete(x, "request_id")
		delete(x, "receipt")
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestSocketRefusals: what a request is refused for, a frame is, in the shape of OpenAI's errors, and the connection goes on; it ends where what was
// refused was not read.
func TestSocketRefusals(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 2000}, nil)
	k.fail["reserve"] = nil
	conn := k.dial(t)
	for frame, want := range map[string]struct {
		status      int
		code, param string
	}{
		`{"`:                       {400, "invalid_json", ""},
		`{"model":"chat"}`:         {400, "missing_required_parameter", "messages"},
		hello + `,"stream":false}`: {400, "unsupported_parameter", "stream"},
		strings.Replace(hello, `"chat"`, `"nope"`, 1) + `}`: {404, "model_not_found", "model"},
	} {
		say(t, conn, frame)
		frames := answerOf(t, conn)
		got := decode[socketError](t, frames[0])
		if len(frames) != 1 || got.Type != "error" || got.Status != want.status || got.Error.Code != want.code || deref(got.Error.Param) != want.param || got.Error.Message == "" || got.Request == "" {
			t.Errorf("%s: %q", frame, frames)
		}
	}
	k.fail["reserve"] = fault.New(fault.CodeTenantBudget, fault.Say("billing.monthly"), "acme", "1 CNY", "1 CNY", fault.Quote("it begins anew", "将重新计算"))
	say(t, conn, hello+"}")
	if got := answerOf(t, conn); !strings.Contains(got[0], `"insufficient_quota"`) || !strings.Contains(got[0], `"receipt":"receipt-`) || !json.Valid([]byte(got[0])) {
		t.Errorf("%q", got)
	}
	delete(k.fail, "reserve")
	say(t, conn, hello+"}") // it goes on
	if got := answerOf(t, conn); got[len(got)-1] != openai.Done {
		t.Errorf("%q", got)
	}
	say(t, conn, strings.Replace(hello, `hello there`, strings.Repeat("x", 2100), 1)+"}")
	if got := answerOf(t, conn); decode[socketError](t, got[0]).Error.Code != "request_too_large" || closed(t, conn) != websocket.StatusPolicyViolation {
		t.Errorf("%q", got)
	}
	conn = k.dial(t)
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte(hello+"}")); err != nil || closed(t, conn) != websocket.StatusUnsupportedData {
		t.Errorf("a binary frame: %v", err)
	}
	conn = k.dial(t, "Accept-Language", "zh-CN")
	say(t, conn, `{}`)
	if got := answerOf(t, conn); englishPhrase.MatchString(decode[socketError](t, got[0]).Error.Message) {
		t.Errorf("%q", got)
	}
	if n := k.api.bodies.Held(); n < socketBytes {
		t.Errorf("open connections hold %d bytes", n)
	}
}

// revocable is an identity that knows a key until it is revoked.
type revocable struct {
	*kit

	revoked chan struct{}
}

func (r revocable) Authenticate(ctx context.Context, p identity.Plane, credential, source string) (identity.Principal, error) {
	select {
	case <-r.revoked:
		return identity.Principal{}, fault.New(fault.CodeInvalidKey)
	default:
		return r.kit.Authenticate(ctx, p, credential, source)
	}
}

// TestSocketChecksTheKeyOfEachFrame: a key that is revoked stops working on a connection that it has opened.
func TestSocketChecksTheKeyOfEachFrame(t *testing.T) {
	revoked := make(chan struct{})
	k := newKitWith(t, Config{}, nil, func(d *gateway.Deps) { d.Identity = revocable{d.Identity.(*kit), revoked} })
	conn := k.dial(t)
	say(t, conn, hello+"}")
	if got := answerOf(t, conn); got[len(got)-1] != openai.Done {
		t.Fatalf("%q", got)
	}
	close(revoked)
	say(t, conn, hello+"}")
	if got := answerOf(t, conn); len(got) != 1 || decode[socketError](t, got[0]).Error.Code != "invalid_api_key" || closed(t, conn) != websocket.StatusPolicyViolation {
		t.Errorf("%q", got)
	}
	if n := len(k.engine.Requests()); n != 1 {
		t.Errorf("the engine was asked %d times", n)
	}
}

// TestSocketOrigins: a web page opens a WebSocket only from this server or from a listed origin, and only such a page may show its key in a
// subprotocol; the key is never said back.
func TestSocketOrigins(t *testing.T) {
	k := newKit(t, Config{SocketOrigins: []string{"https://chat.example"}, PublicURL: "https://Sluice.example:443/ai"}, nil)
	asKey := socketProtocol + ", " + socketKeyProtocol + goodKey
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"a program":                       {nil, 101},
		"a stranger":                      {[]string{"Authorization", ""}, 401},
		"this server":                     {[]string{"Origin", k.URL}, 101},
		"a listed page":                   {[]string{"Origin", "https://chat.example"}, 101},
		"a page of the public address":    {[]string{"Origin", "https://sluice.example"}, 101},
		"another page":                    {[]string{"Origin", "https://evil.example"}, 400},
		"another scheme":                  {[]string{"Origin", "http://chat.example"}, 400},
		"a page below":                    {[]string{"Origin", "https://chat.example.evil.example"}, 400},
		"a sandboxed page":                {[]string{"Origin", "null"}, 400},
		"a page with its key":             {[]string{"Authorization", "", "Origin", "https://chat.example", "Sec-WebSocket-Protocol", asKey}, 101},
		"another page with its key":       {[]string{"Authorization", "", "Origin", "https://evil.example", "Sec-WebSocket-Protocol", asKey}, 401},
		"a program with a subprotocol":    {[]string{"Authorization", "", "Sec-WebSocket-Protocol", asKey}, 401},
		"two credentials":                 {[]string{"Origin", "https://chat.example", "Sec-WebSocket-Protocol", asKey}, 401},
		"two keys":                        {[]string{"Authorization", "", "Origin", "https://chat.example", "Sec-WebSocket-Protocol", asKey + ", " + socketKeyProtocol + "other"}, 401},
		"a page with an unknown key":      {[]string{"Authorization", "", "Origin", "https://chat.example", "Sec-WebSocket-Protocol", asKey + "x"}, 401},
		"a program that offers its own":   {[]string{"Sec-WebSocket-Protocol", socketProtocol}, 101},
		"a program that offers something": {[]string{"Sec-WebSocket-Protocol", "chat"}, 101},
	} {
		if c.status != http.StatusSwitchingProtocols {
			resp, body := k.do(t, http.MethodGet, socketPath, nil, append(slices.Clone(c.headers), "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")...)
			if resp.StatusCode != c.status || decode[socketError](t, body).Error.Message == "" || strings.Contains(fmt.Sprint(resp.Header)+body, goodKey) {
				t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			}
			continue
		}
		conn, resp, err := k.tryDial(t, c.headers...)
		if err != nil || strings.Contains(fmt.Sprint(resp.Header), goodKey) {
			t.Errorf("%s: %v, %+v", name, err, resp)
			continue
		}
		say(t, conn, hello+"}")
		if got := answerOf(t, conn); got[len(got)-1] != openai.Done {
			t.Errorf("%s: %q", name, got)
		}
	}
	if strings.Contains(k.logs.String(), goodKey) {
		t.Error("the key is in the log")
	}
	for _, wrong := range []string{"*", "chat.example", "https://", "https://chat.example/", "https://*.example", "ws://chat.example", "https://chat.example:443", "http://chat.example:80"} {
		if err := (Config{SocketOrigins: []string{wrong}}).Validate(); err == nil {
			t.Errorf("%s is taken for an origin", wrong)
		}
	}
	if err := (Config{SocketOrigins: []string{"https://chat.example:8443", "http://chat.example:443"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestSocketHandshake: what is no handshake of a WebSocket is refused as everything is, by the header that is wrong.
func TestSocketHandshake(t *testing.T) {
	k := newKit(t, Config{}, nil)
	for name, c := range map[string]struct {
		param   string
		headers []string
	}{
		"no option":   {"Connection", []string{"Connection", "keep-alive"}},
		"no version":  {"Sec-WebSocket-Version", []string{"Sec-WebSocket-Version", ""}},
		"an old one":  {"Sec-WebSocket-Version", []string{"Sec-WebSocket-Version", "8"}},
		"no key":      {"Sec-WebSocket-Key", []string{"Sec-WebSocket-Key", ""}},
		"a short key": {"Sec-WebSocket-Key", []string{"Sec-WebSocket-Key", "c2hvcnQ="}},
	} {
		headers := append([]string{"Connection", "keep-alive, Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}, c.headers...)
		resp, body := k.do(t, http.MethodGet, socketPath, nil, headers...)
		if e := decode[socketError](t, body); resp.StatusCode != http.StatusBadRequest || e.Error.Code != "invalid_value" || deref(e.Error.Param) != c.param || e.Error.Message == "" {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
		if v := resp.Header.Get("Sec-WebSocket-Version"); (c.param == "Sec-WebSocket-Version") != (v == "13") {
			t.Errorf("%s: version %q", name, v)
		}
	}
}

const alphabet = `{"model":"chat","messages":[{"role":"user","content":"abcdefghijklmnopqrstuvwxyz"}]}`

// TestSocketStops: a chat that is cancelled, and one whose client leaves, stops the engine between two pieces, and what was made is recorded; the
// connection whose chat was cancelled goes on.
func TestSocketStops(t *testing.T) {
	for name, stop := range map[string]func(*websocket.Conn) error{
		"cancel": func(c *websocket.Conn) error {
			return c.Write(context.Background(), websocket.MessageText, []byte(`{"type": "cancel"}`))
		},
		"cut":   func(c *websocket.Conn) error { return c.CloseNow() },
		"leave": func(c *websocket.Conn) error { go c.Close(websocket.StatusNormalClosure, ""); return nil },
	} {
		step := make(chan struct{})
		k := newKit(t, Config{}, func(n int, _ *engine.Request) enginetest.Plan {
			if n > 0 {
				return enginetest.Plan{}
			}
			return enginetest.Plan{Step: step}
		})
		conn := k.dial(t)
		say(t, conn, `{"type":"cancel"}`) // of nothing
		say(t, conn, alphabet)
		for range 3 {
			step <- struct{}{}
			hear(t, conn)
		}
		if err := stop(conn); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Fatal(err)
		}
		<-k.ended // though nobody lets the engine go on
		if e := k.last(); e.Outcome != "aborted" || e.Usage.CompletionTokens != 3 || k.engine.Aborted() != 1 {
			t.Errorf("%s: %+v, aborted %d", name, e, k.engine.Aborted())
		}
		if name != "cancel" {
			continue
		}
		got := answerOf(t, conn)
		end := decode[struct {
			Request string          `json:"request_id"`
			Receipt string          `json:"receipt"`
			Label   json.RawMessage `json:"label"`
		}](t, got[0])
		if len(got) != 1 || end.Request != k.last().Request || !strings.HasPrefix(end.Receipt, "receipt-") || len(end.Label) == 0 {
			t.Errorf("%q", got)
		}
		say(t, conn, alphabet)
		if got := answerOf(t, conn); got[len(got)-1] != openai.Done {
			t.Errorf("%q", got)
		}
	}
}

// TestSocketTakesOneChatAtATime: another one before the end closes the connection and stops the first.
func TestSocketTakesOneChatAtATime(t *testing.T) {
	step := make(chan struct{})
	k := newKit(t, Config{}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Step: step} })
	conn := k.dial(t)
	say(t, conn, alphabet)
	step <- struct{}{}
	hear(t, conn)
	say(t, conn, alphabet)
	if got := closed(t, conn); got != websocket.StatusPolicyViolation {
		t.Error(got)
	}
	<-k.ended
	if e := k.last(); e.Outcome != "aborted" || len(k.engine.Requests()) != 1 {
		t.Errorf("%+v", e)
	}
}

// TestSocketLives: pings keep a waiting connection open, one without chats is closed, and so are all when the server stops, after what runs.
func TestSocketLives(t *testing.T) {
	start := make(chan struct{})
	k := newKit(t, Config{KeepAlive: time.Millisecond}, func(int, *engine.Request) enginetest.Plan { return enginetest.Plan{Start: start} })
	pings := make(chan struct{}, 1000)
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(k.URL, "http", "ws", 1)+socketPath, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + goodKey}},
		OnPingReceived: func(context.Context, []byte) bool {
			select {
			case pings <- struct{}{}:
			default:
			}
			return true
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	say(t, conn, hello+"}")
	idle := k.dial(t)
	got := make(chan []string, 1)
	go func() { got <- answerOf(t, conn) }()
	for range 3 {
		<-pings
	}
	k.api.Drain()
	if code := closed(t, idle); code != websocket.StatusGoingAway {
		t.Errorf("idle: %v", code)
	}
	close(start)
	if frames := <-got; frames[len(frames)-1] != openai.Done || closed(t, conn) != websocket.StatusGoingAway {
		t.Errorf("%q", frames)
	}

	k = newKit(t, Config{SocketIdle: 50 * time.Millisecond}, nil)
	if code := closed(t, k.dial(t)); code != websocket.StatusGoingAway {
		t.Errorf("idle: %v", code)
	}
}

// TestSocketsAreCounted: each connection holds bytes of its key for as long as it is open, so that their number is bounded.
func TestSocketsAreCounted(t *testing.T) {
	k := newKit(t, Config{MaxBodyBytes: 1000, MaxInFlightPerKey: 2 * socketBytes}, nil)
	first, _ := k.dial(t), k.dial(t)
	if conn, resp, err := k.tryDial(t); err == nil || resp.StatusCode != http.StatusTooManyRequests {
		t.Fatalf("a third: %v, %v", conn, resp)
	}
	if err := first.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(30 * time.Second); k.api.bodies.Held() > socketBytes; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("what was closed is still counted")
		}
	}
	k.dial(t)
}
