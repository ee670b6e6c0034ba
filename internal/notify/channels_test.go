package notify

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

const (
	token     = "canary-token-4711"
	secret    = "SECcanary4712"
	hookKey   = "whsec_Y2FuYXJ5LWNhbmFyeS1jYW5hcnktY2FuYXJ5LTQ3MTM="
	password  = "canary-password-4714"
	recipient = "ops@example.com"
)

// mood is how a server treats the next message.
type mood int

const (
	takes   mood = iota
	busy         // another attempt may succeed
	refuses      // none will
	hangs        // it says nothing
)

// peer is the other side of a channel.
type peer struct {
	mu       sync.Mutex
	moods    []mood // of the next messages; then it takes them
	attempts int
	got      []string // the text that people would read, of what was taken
	ids      []string // of all attempts, where the format has one
	release  chan struct{}
}

func newPeer() *peer { return &peer{release: make(chan struct{})} }

// next notes an attempt and says how to treat it.
func (p *peer) next(id string) mood {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts++
	p.ids = append(p.ids, id)
	if len(p.moods) == 0 {
		return takes
	}
	m := p.moods[0]
	p.moods = p.moods[1:]
	return m
}

// then says how the next messages are treated, and forgets what there was.
func (p *peer) then(moods ...mood) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.moods, p.attempts, p.got, p.ids = moods, 0, nil, nil
}

// seen returns what there was since then.
func (p *peer) seen() (attempts int, got, ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.attempts, slices.Clone(p.got), slices.Clone(p.ids)
}

func (p *peer) took(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, text)
}

// server is an HTTP server that answers as tell says and reads the text of a message with read.
func (p *peer) server(t *testing.T, read func(t *testing.T, r *http.Request, body []byte) (id, text string), tell map[mood]string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %v: %v", r.Method, r.Header, err)
		}
		id, text := read(t, r, body)
		m := p.next(id)
		switch {
		case m == hangs:
			<-p.release
			return
		case tell[m] != "":
			fmt.Fprint(w, tell[m]) // what went wrong is told at status 200
		case m == busy:
			http.Error(w, "down "+token, http.StatusBadGateway)
		case m == refuses:
			http.Error(w, "gone "+token, http.StatusGone)
		}
		if m == takes {
			p.took(text)
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(p.release) }) // first, so that the server can close
	return s.URL
}

// eachChannel runs a test on every kind of channel with a server of its own.
func eachChannel(t *testing.T, test func(t *testing.T, p *peer, c Channel)) {
	for name, open := range map[string]func(t *testing.T, p *peer) Channel{
		kindWebhook: webhookPeer, kindDingTalk: dingTalkPeer, kindWeCom: weComPeer, kindFeishu: feishuPeer,
		kindEmail:    func(t *testing.T, p *peer) Channel { return emailPeer(t, p, tlsStart) },
		"email-tls":  func(t *testing.T, p *peer) Channel { return emailPeer(t, p, tlsFirst) },
		"email-none": func(t *testing.T, p *peer) Channel { return emailPeer(t, p, tlsNone) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPeer()
			c := open(t, p)
			c.Name, c.Severity = "ops", "info"
			test(t, p, c)
		})
	}
}

func webhookPeer(t *testing.T, p *peer) Channel {
	check, err := webhooks.NewWebhook(hookKey)
	if err != nil {
		t.Fatal(err)
	}
	at := p.server(t, func(t *testing.T, r *http.Request, body []byte) (string, string) {
		if err := check.Verify(body, r.Header); err != nil {
			t.Errorf("the signature: %v", err)
		}
		var e event
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil || e.Type != "alert" || e.Data.Status == "" || e.Timestamp.IsZero() {
			t.Errorf("%s: %v", body, err)
		}
		text := e.Data.Title + "\n" + e.Data.Text + "\n" + e.Data.Code
		for _, d := range e.Data.Details {
			text += "\n" + d.Name + " " + d.Value
		}
		return r.Header.Get(webhooks.HeaderWebhookID), text
	}, nil)
	return Channel{Kind: kindWebhook, URL: keyring.Inline(at + "/in?auth=" + token), Secret: keyring.Inline(hookKey)}
}

func dingTalkPeer(t *testing.T, p *peer) Channel {
	at := p.server(t, func(t *testing.T, r *http.Request, body []byte) (string, string) {
		q := r.URL.Query()
		if q.Get("access_token") != token || q.Get("sign") != sign([]byte(secret), q.Get("timestamp")+"\n"+secret) {
			t.Errorf("the address is %s", r.URL)
		}
		var b struct {
			MsgType  string `json:"msgtype"`
			Markdown struct{ Title, Text string }
		}
		if err := json.Unmarshal(body, &b); err != nil || b.MsgType != "markdown" || b.Markdown.Title == "" || len(body) > 20_000 {
			t.Errorf("%s: %v", body, err)
		}
		return "", b.Markdown.Text
	}, map[mood]string{
		takes: `{"errcode":0,"errmsg":"ok"}`, busy: `{"errcode":-1,"errmsg":"system busy"}`,
		refuses: `{"errcode":310000,"errmsg":"keywords not in content, ` + token + `"}`,
	})
	return Channel{Kind: kindDingTalk, URL: keyring.Inline(at + "/robot/send?access_token=" + token), Secret: keyring.Inline(secret)}
}

func weComPeer(t *testing.T, p *peer) Channel {
	at := p.server(t, func(t *testing.T, r *http.Request, body []byte) (string, string) {
		var b struct {
			MsgType  string `json:"msgtype"`
			Markdown struct{ Content string }
		}
		if err := json.Unmarshal(body, &b); err != nil || b.MsgType != "markdown" || len(b.Markdown.Content) > 4096 || r.URL.Query().Get("key") != token {
			t.Errorf("%s %s: %v", r.URL, body, err)
		}
		return "", b.Markdown.Content
	}, map[mood]string{
		takes: `{"errcode":0,"errmsg":"ok"}`, busy: `{"errcode":-1,"errmsg":"system busy"}`,
		refuses: `{"errcode":93000,"errmsg":"invalid webhook url, hint: [` + token + `]"}`,
	})
	return Channel{Kind: kindWeCom, URL: keyring.Inline(at + "/cgi-bin/webhook/send?key=" + token)}
}

func feishuPeer(t *testing.T, p *peer) Channel {
	at := p.server(t, func(t *testing.T, r *http.Request, body []byte) (string, string) {
		var b struct {
			Timestamp, Sign string
			MsgType         string `json:"msg_type"`
			Content         struct {
				Post map[string]struct {
					Title   string
					Content [][]struct{ Tag, Text string }
				}
			}
		}
		if err := json.Unmarshal(body, &b); err != nil || b.MsgType != "post" || len(b.Content.Post) != 1 || b.Sign != sign([]byte(b.Timestamp+"\n"+secret), "") || len(body) > 20_000 {
			t.Errorf("%s: %v", body, err)
		}
		text := ""
		for _, in := range b.Content.Post {
			text = in.Title
			for _, row := range in.Content {
				text += "\n" + row[0].Text
			}
		}
		return "", text
	}, map[mood]string{
		takes:   `{"StatusCode":0,"StatusMessage":"success","code":0,"data":{},"msg":"success"}`,
		refuses: `{"code":19021,"msg":"sign match fail or timestamp is not within one hour from current time, ` + secret + `"}`,
	})
	return Channel{Kind: kindFeishu, URL: keyring.Inline(at + "/open-apis/bot/v2/hook/" + token), Secret: keyring.Inline(secret)}
}

// session is one conversation with the e-mail server.
type session struct {
	peer   *peer
	signed bool
	from   string
	to     []string
}

func (s *session) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, pass string) error {
		s.signed = user == "sluice" && pass == password
		if !s.signed {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *session) Reset()                                      {}
func (s *session) Logout() error                               { return nil }
func (s *session) Mail(from string, _ *smtp.MailOptions) error { s.from = from; return nil }
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error   { s.to = append(s.to, to); return nil }

func (s *session) Data(r io.Reader) error {
	msg, err := mail.ReadMessage(r)
	if err != nil {
		return err
	}
	if !slices.Equal(s.to, []string{recipient}) || s.from != "sluice@example.com" || msg.Header.Get("Auto-Submitted") != "auto-generated" {
		return fmt.Errorf("from %s to %s: %v", s.from, s.to, msg.Header)
	}
	switch s.peer.next(msg.Header.Get("Message-Id")) {
	case busy:
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "come back later"}
	case refuses:
		told := ""
		if s.signed {
			told = password // a server that says more than it should
		}
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not from you " + told}
	case hangs:
		<-s.peer.release
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(msg.Header.Get("Subject"))
	if err != nil {
		return err
	}
	body := msg.Body
	if msg.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		body = quotedprintable.NewReader(body)
	}
	text, err := io.ReadAll(body)
	s.peer.took(subject + "\n" + string(text))
	return err
}

func emailPeer(t *testing.T, p *peer, how string) Channel {
	certificates := httptest.NewTLSServer(nil)
	certificates.Close()
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{peer: p}, nil }))
	server.Domain, server.ErrorLog = "mail.example.com", slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	switch how {
	case tlsStart:
		server.TLSConfig = certificates.TLS
	case tlsFirst:
		l = tls.NewListener(l, certificates.TLS)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { close(p.release); _ = server.Close(); <-done })
	c := Channel{Kind: kindEmail, Server: l.Addr().String(), TLS: how, From: "Sluice <sluice@example.com>", To: []string{recipient}}
	if how != tlsNone {
		c.Username, c.Password = "sluice", keyring.Inline(password)
	}
	return c
}

// notifier is one with short pauses that trusts the certificates of the test, and its log.
func notifier(t *testing.T, cfg Config) (*Notifier, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	n, err := New(cfg, "https://sluice.example", slog.New(slog.NewJSONHandler(&log, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	certificates := httptest.NewTLSServer(nil)
	certificates.Close()
	pool.AddCert(certificates.Certificate())
	for _, c := range n.channels {
		c.pause = 2 * time.Nanosecond
		if e, ok := c.sender.(*email); ok {
			e.tls.RootCAs = pool
		}
	}
	return n, &log
}

// sendOut notifies and runs until everything is delivered or dropped.
func sendOut(t *testing.T, n *Notifier, alerts ...Alert) {
	t.Helper()
	for _, a := range alerts {
		n.Notify(t.Context(), a)
	}
	for _, c := range n.channels {
		for len(c.queue) > 0 {
			c.deliver(t.Context(), <-c.queue)
		}
	}
}

func sample() Alert {
	return Alert{
		Code: "audit.rewritten", Severity: Critical, Title: fault.Quote("The audit log was rewritten", "审计日志被改写"),
		Text:    fault.Quote("Requests are refused; run `sluice audit verify`", "请求已被拒绝，请运行 `sluice audit verify`"),
		Details: []Detail{{fault.Quote("Node", "节点"), "n-1\nline [two](http://x)"}},
	}
}

func TestChannelsDeliver(t *testing.T) {
	eachChannel(t, func(t *testing.T, p *peer, c Channel) {
		for language, want := range map[string][]string{
			"en": {"The audit log was rewritten", "Requests are refused", "Node", "n-1 line", "audit.rewritten"},
			"zh": {"审计日志被改写", "请求已被拒绝", "节点", "n-1 line", "audit.rewritten"},
		} {
			c.Language = language
			n, _ := notifier(t, Config{Channels: []Channel{c}})
			p.then(takes)
			sendOut(t, n, sample())
			_, got, _ := p.seen()
			if len(got) != 1 {
				t.Fatalf("%s: got %q", language, got)
			}
			for _, w := range want {
				if !strings.Contains(got[0], w) {
					t.Errorf("%s: %q lacks %q", language, got[0], w)
				}
			}
			if c.robot() && strings.Contains(got[0], "](") && c.Kind != kindFeishu {
				t.Errorf("a name has become a link: %s", got[0])
			}
		}
	})
}

// TestChannelsTryAgain: what may pass is tried again under the same id, what will not is dropped at once, and no secret shows.
func TestChannelsTryAgain(t *testing.T) {
	eachChannel(t, func(t *testing.T, p *peer, c Channel) {
		n, log := notifier(t, Config{Channels: []Channel{c}})
		p.then(busy, busy)
		sendOut(t, n, sample())
		attempts, got, ids := p.seen()
		if attempts != 3 || len(got) != 1 || ids[0] != ids[2] || (ids[0] == "") != c.robot() {
			t.Errorf("%d attempts with ids %q, %d taken", attempts, ids, len(got))
		}
		p.then(refuses)
		other := sample()
		other.About = "another"
		sendOut(t, n, other)
		if attempts, got, _ = p.seen(); attempts != 1 || len(got) != 0 || !strings.Contains(log.String(), `"reason":"refused"`) {
			t.Errorf("%d attempts, %d taken\n%s", attempts, len(got), log)
		}
		if strings.Contains(log.String(), "canary") {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	})
}

func TestChannelsThatHang(t *testing.T) {
	eachChannel(t, func(t *testing.T, p *peer, c Channel) {
		n, log := notifier(t, Config{Channels: []Channel{c}, Timeout: 100 * time.Millisecond, Deadline: time.Millisecond})
		p.then(hangs)
		sendOut(t, n, sample())
		if attempts, got, _ := p.seen(); attempts != 1 || len(got) != 0 || !strings.Contains(log.String(), `"reason":"deadline"`) {
			t.Errorf("%d attempts\n%s", attempts, log)
		}
		if strings.Contains(log.String(), "canary") {
			t.Errorf("a secret is in the log:\n%s", log)
		}
	})
}

// TestUnreachable: the error of a connection names the host and nothing behind it.
func TestUnreachable(t *testing.T) {
	n, _ := notifier(t, Config{Channels: []Channel{
		{Name: "a", Kind: kindDingTalk, URL: keyring.Inline("https://127.0.0.1:1/robot/send?access_token=" + token), Secret: keyring.Inline(secret)},
		{Name: "b", Kind: kindEmail, Server: "127.0.0.1:1", Username: "u", Password: keyring.Inline(password), From: "a@b.example", To: []string{"a@b.example"}},
	}})
	results, err := n.Test(t.Context(), "")
	if err != nil || len(results) != 2 {
		t.Fatal(results, err)
	}
	for _, r := range results {
		if r.Err == nil || strings.Contains(r.Err.Error(), "canary") || !strings.Contains(r.Err.Error(), "127.0.0.1:1") {
			t.Errorf("%s: %v", r.Channel, r.Err)
		}
	}
	if _, err := n.Test(t.Context(), "none"); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("an unknown channel: %v", err)
	}
}

// TestRedirectsAreNotFollowed: a message never goes to an address that nobody configured.
func TestRedirectsAreNotFollowed(t *testing.T) {
	called := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	n, _ := notifier(t, Config{Channels: []Channel{{Name: "a", Kind: kindWebhook, URL: keyring.Inline(s.URL)}}})
	results, err := n.Test(t.Context(), "a")
	f := &failure{}
	if err != nil || called || !errors.As(results[0].Err, &f) || !f.final || !strings.Contains(f.why, "redirect") {
		t.Errorf("called %v, %v %v", called, results, err)
	}
}

// TestRobotsSignLikeTheirVendors: what the samples compute that DingTalk and Feishu publish, at a fixed time.
func TestRobotsSignLikeTheirVendors(t *testing.T) {
	r := &robot{cfg: Channel{Secret: keyring.Inline("this is secret")}, now: func() time.Time { return time.UnixMilli(1700000000000) }}
	want := "https://oapi.dingtalk.com/robot/send?access_token=x&sign=sSFWELbV2YwjdDQhWZwTcWlX5BWUx5J6TPpsZmuPii0%3D&timestamp=1700000000000"
	if got := r.signedURL("https://oapi.dingtalk.com/robot/send?access_token=x"); got != want {
		t.Errorf("DingTalk: %s", got)
	}
	r = &robot{cfg: Channel{Secret: keyring.Inline("demo")}, now: func() time.Time { return time.Unix(1599360473, 0) }}
	body := map[string]any{}
	r.signBody(body)
	if diff := cmp.Diff(map[string]any{"timestamp": "1599360473", "sign": "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8="}, body); diff != "" {
		t.Errorf("Feishu: %s", diff)
	}
}

// TestVerdicts: a robot answers 200 whatever happens.
func TestVerdicts(t *testing.T) {
	for _, tc := range []struct {
		kind, answer string
		final        bool
		after        time.Duration
		ok           bool
	}{
		{kindDingTalk, `{"errcode":0}`, false, 0, true},
		{kindDingTalk, `{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}`, false, 10 * time.Minute, false},
		{kindDingTalk, `{"errcode":300001,"errmsg":"token is not exist"}`, true, 0, false},
		{kindWeCom, `{"errcode":45009,"errmsg":"api freq out of limit"}`, false, time.Minute, false},
		{kindFeishu, `{"StatusCode":0,"StatusMessage":"success"}`, false, 0, true},
		{kindFeishu, `{"code":9499,"msg":"Bad Request","data":{}}`, false, time.Minute, false},
		{kindFeishu, `{"code":19024,"msg":"Key Words Not Found"}`, true, 0, false},
		{kindFeishu, `<html>a login page</html>`, true, 0, false},
		{kindFeishu, `{}`, true, 0, false},
	} {
		r := &robot{cfg: Channel{Kind: tc.kind}}
		err := r.verdict([]byte(tc.answer))
		f := &failure{}
		if (err == nil) != tc.ok || err != nil && (!errors.As(err, &f) || f.final != tc.final || f.after != tc.after) {
			t.Errorf("%s %s: %+v", tc.kind, tc.answer, err)
		}
	}
}

// TestKeyword: a robot that demands a word gets it in every message, and long messages stay within what the vendors take.
func TestKeyword(t *testing.T) {
	p := newPeer()
	c := weComPeer(t, p)
	c.Name, c.Keyword = "ops", "值班"
	n, _ := notifier(t, Config{Channels: []Channel{c}})
	a := sample()
	for range 40 {
		a.Details = append(a.Details, Detail{fault.Quote("Name", "名称"), strings.Repeat("很长", 300)})
	}
	short := sample()
	short.About = "short"
	sendOut(t, n, a, short)
	if _, got, _ := p.seen(); len(got) != 2 || !strings.Contains(got[0], "值班") || !strings.Contains(got[1], "值班") || !strings.Contains(got[1], "Sluice") || len(got[0]) < 3000 {
		t.Errorf("%q", got)
	}
}

// TestEmailIsPrivate: a server that offers no TLS gets no message, and one that refuses the password is not asked again.
func TestEmailIsPrivate(t *testing.T) {
	t.Run("no TLS", func(t *testing.T) {
		p := newPeer()
		c := emailPeer(t, p, tlsNone)
		c.Name, c.TLS = "ops", tlsStart
		n, _ := notifier(t, Config{Channels: []Channel{c}})
		results, err := n.Test(t.Context(), "ops")
		if attempts, _, _ := p.seen(); err != nil || results[0].Err == nil || attempts != 0 {
			t.Errorf("%v %v, %d messages", results, err, attempts)
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		p := newPeer()
		c := emailPeer(t, p, tlsStart)
		c.Name, c.Password = "ops", keyring.Inline("canary-wrong")
		n, _ := notifier(t, Config{Channels: []Channel{c}})
		results, err := n.Test(t.Context(), "ops")
		f := &failure{}
		if err != nil || !errors.As(results[0].Err, &f) || !f.final || strings.Contains(f.why, "canary") {
			t.Errorf("%v %v", results, err)
		}
	})
}
