package httpapi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"

	"github.com/sluice-project/sluice/engine/openai"
	"github.com/sluice-project/sluice/gateway"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/inflight"
	"github.com/sluice-project/sluice/internal/jsontext"
)

// Chats over a WebSocket. A text frame of the client is the body of one chat; the frames of the server are the data of the events that the same
// chat has as a stream, the end marker included, or one with an error. Each frame of the client becomes a request of its own to the same handler,
// with the credential and the headers of the upgrade: whatever binds a request binds a frame.

const (
	socketPath = "/v1/chat/completions"

	// socketProtocol is the subprotocol that browsers, which must name one, name beside their key.
	socketProtocol = "sluice.chat"
	// socketKeyProtocol begins the subprotocol by which browsers, which can set no header, show a key, as they do to OpenAI.
	socketKeyProtocol = "openai-insecure-api-key."

	// socketBytes is what a connection counts among the bytes of bodies: its buffers and its goroutines.
	socketBytes = 64 << 10
	// maxControlFrame is the most bytes of a frame that is no chat.
	maxControlFrame = 256
	// messageTimeout is how long a frame may take to arrive once it has begun, as long as the body of a request may.
	messageTimeout = 2 * time.Minute
	// closeTimeout is the most that the end of a connection may take, or the write timeout if that is less.
	closeTimeout = 5 * time.Second
)

// socketKey marks the context of a request that is a frame. Only [socket.request] puts it there.
type socketKey struct{}

// overSocket is the dialect of OpenAI over a WebSocket.
func overSocket(origins []string) *dialect {
	return &dialect{
		name: dialectOpenAI, refusal: socketRefusal,
		credential: func(r *http.Request) string { return socketCredential(r, origins) },
		stream:     framing{contentType: contentJSON, event: func(dst []byte, _ string, data []byte) []byte { return append(dst, data...) }},
	}
}

// upgrades reports whether a request wants chats over a WebSocket, or is one of them.
func upgrades(r *http.Request) bool {
	return r.Context().Value(socketKey{}) != nil ||
		r.Method == http.MethodGet && r.URL.Path == socketPath && strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// socketCredential returns the credential of an upgrade. A key in a subprotocol counts for web pages of allowed origins only: everybody else can set
// the header, which fewer logs of proxies have. Who shows both shows none.
func socketCredential(r *http.Request, origins []string) string {
	key := ""
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			if k, ok := strings.CutPrefix(textproto.TrimString(p), socketKeyProtocol); ok {
				if key != "" {
					return ""
				}
				key = k
			}
		}
	}
	switch {
	case key == "":
		return bearer(r)
	case r.Header.Get("Authorization") != "", r.Header.Get("Origin") == "", !originAllowed(r, origins):
		return ""
	}
	return key
}

// originAllowed reports whether the web page that a request comes from, if any, may use WebSockets: one of this server, or of a listed origin.
func originAllowed(r *http.Request, origins []string) bool {
	from := r.Header.Values("Origin")
	if len(from) != 1 {
		return len(from) == 0
	}
	u, err := url.Parse(from[0])
	if err != nil || u.Host == "" {
		return false
	}
	return strings.EqualFold(u.Host, r.Host) || slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, from[0]) })
}

// checkOrigin reports whether a configured origin can be that of a web page.
func checkOrigin(o string) error {
	u, err := url.Parse(o)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || originOf(u) != strings.ToLower(o) || strings.Contains(o, "*") {
		return fmt.Errorf("socket_origins: %q is no origin such as https://chat.example; patterns and ports that the scheme implies match none", o)
	}
	return nil
}

// originOf is what browsers call the origin of a page: the scheme, the host, and the port unless the scheme implies it.
func originOf(u *url.URL) string {
	implied := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return u.Scheme + "://" + strings.TrimSuffix(strings.ToLower(u.Host), implied)
}

// pageOrigins lists the origins of web pages that may use WebSockets, that at which this server is reached from outside included.
func (c Config) pageOrigins() []string {
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" {
		return c.SocketOrigins
	}
	return append(slices.Clone(c.SocketOrigins), originOf(u))
}

// socketError is the frame that ends a chat with an error. The object error is that of OpenAI; the rest is what headers say elsewhere.
type socketError struct {
	Type       string             `json:"type"` // begins the frame, by which it is told from chunks
	Status     int                `json:"status"`
	Request    string             `json:"request_id"`
	RetryAfter int64              `json:"retry_after_ms,omitempty"`
	Error      openai.ErrorDetail `json:"error"`
}

// cancelledFrame begins the frame that ends a chat that the client has cancelled.
const cancelledFrame = `{"type":"cancelled",`

// errorFrame begins every frame with an error, and no other: chunks begin with their id.
const errorFrame = `{"type":"error",`

func socketRefusal(e *fault.Error, lang fault.Lang, request string) (int, any) {
	status, body := openAIRefusal(e, lang, request)
	return status, socketError{
		Type: "error", Status: status, Request: request, RetryAfter: int64(math.Ceil(float64(e.RetryAfter()) / float64(time.Millisecond))),
		Error: body.(openai.ErrorBody).Error, //nolint:forcetypeassert // it makes no other
	}
}

// chatSocket answers GET /v1/chat/completions: chats over a WebSocket, until one of the two sides has enough.
func (a *API) chatSocket(c *gin.Context, who identity.Principal, _ *gateway.Call) error {
	if !upgrades(c.Request) {
		return notThisMethod(c, http.MethodPost)
	}
	if err := handshake(c); err != nil {
		return err
	}
	if !originAllowed(c.Request, a.cfg.SocketOrigins) {
		return fault.New(fault.CodeUnsupported, "Origin", fault.Say("httpapi.socket_origin")).WithParam("Origin")
	}
	caller := inflight.Caller{Tenant: who.Tenant, ID: who.ID}
	if err := a.bodies.Acquire(caller, socketBytes); err != nil {
		return err
	}
	defer a.bodies.Release(caller, socketBytes)
	w := &upgradeWriter{ResponseWriter: c.Writer}
	conn, err := websocket.Accept(w, c.Request, &websocket.AcceptOptions{
		Subprotocols: []string{socketProtocol}, InsecureSkipVerify: true, // the origin is known by now
	})
	if err != nil {
		return nil // the client has been told
	}
	s := &socket{a: a, conn: conn, line: w.line, upgrade: c.Request, credential: a.dialect(c).credential(c.Request)}
	s.serve(c.Request.Context())
	return nil
}

// handshake refuses an upgrade that is none of RFC 6455, section 4.2.1.
func handshake(c *gin.Context) error {
	r := c.Request
	var wrong string
	keys := r.Header.Values("Sec-Websocket-Key")
	switch {
	case !upgradesConnection(r.Header.Values("Connection")):
		wrong = "Connection"
	case r.Header.Get("Sec-Websocket-Version") != "13":
		wrong = "Sec-WebSocket-Version"
		c.Header(wrong, "13")
	case len(keys) != 1 || !nonce(keys[0]):
		wrong = "Sec-WebSocket-Key"
	case r.ProtoMajor != 1 || r.ProtoMinor < 1:
		wrong = "Upgrade"
	default:
		return nil
	}
	return fault.New(fault.CodeInvalidValue, wrong, fault.Say("httpapi.socket_handshake")).WithParam(wrong)
}

func upgradesConnection(lines []string) bool {
	return slices.ContainsFunc(strings.Split(strings.Join(lines, ","), ","), func(option string) bool {
		return strings.EqualFold(textproto.TrimString(option), "upgrade")
	})
}

func nonce(key string) bool {
	raw, err := base64.StdEncoding.DecodeString(textproto.TrimString(key))
	return err == nil && len(raw) == 16
}

// upgradeWriter keeps the connection that a handshake takes over.
type upgradeWriter struct {
	gin.ResponseWriter

	line *line
}

func (w *upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffers, err := w.ResponseWriter.Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take over the connection: %w", err)
	}
	w.line = &line{Conn: conn}
	return w.line, buffers, nil
}

// line is the connection below a WebSocket. It knows whether the client has stopped sending: to a reader of messages, a message that was cut there
// looks like a whole one.
type line struct {
	net.Conn

	over atomic.Bool
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil {
		l.over.Store(true)
	}
	return n, err //nolint:wrapcheck // as it is
}

// socketCall decodes a frame. Its chat is always a stream.
func socketCall(f *fields, choices int, c *gateway.Call) (options, error) {
	if raw, ok := f.raw("stream"); ok && raw != "true" {
		f.unsupported("stream", fault.Say("httpapi.socket_stream"))
	}
	f.streams = true
	return chatCall(f, choices, c)
}

// socket is one connection. One goroutine reads frames; a chat is answered in one of its own, so that the other hears of a cancellation, and of a
// client that has left.
type socket struct {
	a          *API
	conn       *websocket.Conn
	line       *line // below conn
	upgrade    *http.Request
	credential string

	idle    *time.Timer  // ends a connection without chats
	alive   atomic.Int64 // when the client gave its last sign of life, in Unix nanoseconds
	spoken  atomic.Int64 // when the last frame had left, the same
	taking  atomic.Bool  // a message arrives
	writing sync.Mutex   // held while a frame leaves
	busy    sync.Mutex   // held from the beginning of a chat to its end, and for good once the server stops
	current *exchange    // the last chat; nil before the first
}

// exchange is one chat.
type exchange struct {
	cancel    context.CancelFunc
	cancelled atomic.Bool
	ended     atomic.Bool // its last frame leaves, or has left
	read      chan struct{}
	done      chan struct{}
}

// serve answers until the connection ends, and returns when nothing of it runs any more.
func (s *socket) serve(ctx context.Context) {
	ctx, leave := context.WithCancel(ctx)
	defer func() {
		leave()
		_ = s.conn.CloseNow()
		if s.current != nil {
			<-s.current.done
		}
		s.idle.Stop() // which the end of a chat has wound up
	}()
	s.conn.SetReadLimit(-1) // the bounds of bodies hold
	s.idle = time.AfterFunc(s.a.cfg.SocketIdle, func() { s.end(websocket.StatusGoingAway, "nothing was asked for a while") })
	s.lives()
	go s.ping(ctx)
	go s.drain(ctx)
	for s.next(ctx) {
	}
}

// end closes the connection, for a reason that clients may show. What the client has announced of a message is read before, so that it sees the reason,
// and no longer than the end may take.
func (s *socket) end(code websocket.StatusCode, reason string) {
	late := time.AfterFunc(min(closeTimeout, s.a.cfg.WriteTimeout), func() { _ = s.line.Close() })
	defer late.Stop()
	_ = s.conn.Close(code, reason)
}

// lives notes a sign of life.
func (s *socket) lives() { s.alive.Store(s.a.now().UnixNano()) }

// since is how long ago a noted time was.
func (s *socket) since(noted *atomic.Int64) time.Duration {
	return s.a.now().Sub(time.Unix(0, noted.Load()))
}

// drain ends the connection when the server stops, after the chat that runs.
func (s *socket) drain(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.a.draining:
		s.busy.Lock()
		s.end(websocket.StatusGoingAway, "the server stops")
	}
}

// ping asks for a sign of life again and again, so that proxies do not take the connection for a dead one. A client may be slow to answer: what was said
// before comes first to it, and what it says itself. It is gone when it has given no sign for as long as a connection may be idle; the deadlines of
// frames and the TCP of the system mostly know before.
func (s *socket) ping(ctx context.Context) {
	every := time.NewTicker(s.a.cfg.KeepAlive)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		if s.taking.Load() || s.since(&s.spoken) < s.a.cfg.KeepAlive || !s.writing.TryLock() {
			continue
		}
		s.writing.Unlock()
		limit, cancel := context.WithTimeout(ctx, s.a.cfg.WriteTimeout)
		err := s.conn.Ping(limit)
		cancel()
		switch {
		case err == nil:
			s.lives()
		case !s.taking.Load() && s.since(&s.alive) > s.a.cfg.SocketIdle:
			_ = s.conn.CloseNow()
			return
		}
	}
}

// next takes one message. It reports whether there may be another.
func (s *socket) next(ctx context.Context) bool {
	kind, message, err := s.conn.Reader(ctx)
	if err != nil {
		return false
	}
	late := time.AfterFunc(messageTimeout, func() { _ = s.line.Close() })
	defer late.Stop()
	s.taking.Store(true)
	defer func() {
		s.lives()
		s.taking.Store(false)
	}()
	if kind != websocket.MessageText {
		s.end(websocket.StatusUnsupportedData, "frames are JSON in text")
		return false
	}
	head := make([]byte, maxControlFrame)
	n, err := io.ReadFull(message, head)
	whole := err == io.EOF || err == io.ErrUnexpectedEOF //nolint:errorlint // of a connection that broke it is wrapped
	head = head[:n]
	switch {
	case err != nil && !whole, whole && s.line.over.Load():
		return false
	case whole && cancels(head):
		s.cancel()
		return true
	case !s.claim():
		s.silence()
		s.end(websocket.StatusPolicyViolation, "one chat at a time")
		return false
	}
	return s.begin(ctx, io.MultiReader(bytes.NewReader(head), message))
}

// cancels reports whether a message is {"type":"cancel"}.
func cancels(message []byte) bool {
	var m struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(message, &m) == nil && m.Type == "cancel"
}

// cancel stops the chat that runs, if one does.
func (s *socket) cancel() {
	if s.current != nil {
		s.current.cancelled.Store(true)
		s.current.cancel()
	}
}

// silence stops the chat that runs, if one does, of which nothing more is said.
func (s *socket) silence() {
	if s.current != nil {
		s.current.ended.Store(true)
		s.current.cancel()
	}
}

// claim takes the right to have a chat answered. The one before may have told its end and not be over yet.
func (s *socket) claim() bool {
	if s.busy.TryLock() {
		return true
	}
	if s.current == nil || !s.current.ended.Load() {
		return false
	}
	<-s.current.done
	return s.busy.TryLock()
}

// begin has a chat answered and returns when its body is read. It reports whether it was read to its end: of a caller who is not known any more, and
// of a body that is too long, it is not, and nothing can follow.
func (s *socket) begin(ctx context.Context, body io.Reader) bool {
	s.idle.Stop()
	ask, cancel := context.WithCancel(ctx)
	ex := &exchange{cancel: cancel, read: make(chan struct{}), done: make(chan struct{})}
	s.current = ex
	go s.answer(ctx, ask, ex, &frameBody{from: body, line: s.line, read: ex.read})
	select {
	case <-ex.read:
		return true
	case <-ex.done:
	}
	select {
	case <-ex.read:
		return true
	default:
		s.end(websocket.StatusPolicyViolation, "the last frame says why")
		return false
	}
}

// answer has the handler of the data plane answer a chat in the context ask, and says how it ended where the handler did not.
func (s *socket) answer(ctx, ask context.Context, ex *exchange, body io.ReadCloser) {
	defer close(ex.done)
	defer s.busy.Unlock()
	defer ex.cancel()
	defer s.recovered()
	w := &frameWriter{s: s, ctx: ctx, ex: ex, header: http.Header{}}
	w.deadline = s.a.now().Add(s.a.cfg.WriteTimeout)
	err := serve(s.a.handler, w, s.request(ask, body))
	s.idle.Reset(s.a.cfg.SocketIdle)
	switch {
	case ex.ended.Load():
	case ex.cancelled.Load() && err == nil:
		ex.ended.Store(true)
		w.deadline = s.a.now().Add(s.a.cfg.WriteTimeout)
		_ = w.send(w.cancelled()) //nolint:contextcheck // the connection's, which it has
	default: // the answer broke off, as that of a request that is cut
		s.end(websocket.StatusInternalError, "the answer broke off")
	}
}

// recovered ends the connection where the program is at fault, which must not end for everybody.
func (s *socket) recovered() {
	if v := recover(); v != nil {
		s.a.log.Error("panic", slog.String("panic", fmt.Sprintf("%T", v)), slog.String("stack", string(debug.Stack())))
		s.end(websocket.StatusInternalError, "the answer broke off")
	}
}

// request makes a request of a frame: the upgrade's, with a body.
func (s *socket) request(ctx context.Context, body io.ReadCloser) *http.Request {
	r := s.upgrade.Clone(context.WithValue(ctx, socketKey{}, true))
	r.Method, r.Body, r.ContentLength = http.MethodPost, body, -1
	for name := range r.Header {
		if name == "Connection" || name == "Upgrade" || strings.HasPrefix(name, "Sec-Websocket-") {
			delete(r.Header, name)
		}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.credential)
	return r
}

// frameBody says when it was read to its end.
type frameBody struct {
	from io.Reader
	line *line
	read chan struct{}
	over bool
}

func (b *frameBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	switch {
	case err == io.EOF && b.over:
	case err == io.EOF && b.line.over.Load():
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		b.over = true
		close(b.read)
	}
	return n, err
}

func (*frameBody) Close() error { return nil }

// frameWriter is where a handler writes the answer to a chat: each write is a frame, which blocks until the client takes it.
type frameWriter struct {
	s        *socket
	ctx      context.Context //nolint:containedctx // of the connection: a chat that is cancelled must not close it in the middle of a frame
	ex       *exchange
	header   http.Header
	deadline time.Time
}

func (w *frameWriter) Header() http.Header { return w.header }
func (*frameWriter) WriteHeader(int)       {}
func (*frameWriter) Flush()                {}

func (*frameWriter) SetReadDeadline(time.Time) error { return nil }

func (w *frameWriter) SetWriteDeadline(t time.Time) error {
	w.deadline = t
	return nil
}

func (w *frameWriter) Write(p []byte) (int, error) {
	frame := p
	failed := bytes.HasPrefix(p, []byte(errorFrame))
	if failed {
		frame = append(w.told([]byte(errorFrame)), p[len(errorFrame):]...)
	}
	if failed || string(p) == openai.Done {
		w.ex.ended.Store(true) // before it leaves: what comes next may be there at once
	}
	if err := w.send(frame); err != nil {
		return 0, err
	}
	return len(p), nil
}

// cancelled is the frame that ends a chat that the client has cancelled.
func (w *frameWriter) cancelled() []byte {
	frame := append(w.told([]byte(cancelledFrame)), `"request_id":`...)
	return append(jsontext.AppendString(frame, w.header.Get("X-Request-Id")), '}')
}

// told appends what headers say elsewhere about an answer, each member with a comma behind it.
func (w *frameWriter) told(dst []byte) []byte {
	if receipt := w.header.Get(headerReceipt); receipt != "" {
		dst = append(jsontext.AppendString(append(dst, `"receipt":`...), receipt), ',')
	}
	if text := w.header.Get(label.Header); text != "" { // JSON by itself
		dst = append(append(append(dst, `"label":`...), text...), ',')
	}
	return dst
}

func (w *frameWriter) send(frame []byte) error {
	w.s.writing.Lock()
	defer w.s.writing.Unlock()
	ctx, cancel := context.WithDeadline(w.ctx, w.deadline)
	defer cancel()
	defer func() { w.s.spoken.Store(w.s.a.now().UnixNano()) }()
	return w.s.conn.Write(ctx, websocket.MessageText, frame)
}
