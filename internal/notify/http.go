package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 10

// jitter returns a random part of d, at least a half.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2) } //nolint:gosec // no secret depends on it

// httpClient follows no redirect: what is sent goes where the configuration says, or nowhere.
func httpClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		},
	}
}

// post sends a body as JSON and returns the answer, whatever status below 300 it has.
func post(ctx context.Context, client *http.Client, address string, header http.Header, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, &failure{why: "the url cannot be called", final: true}
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	req.Header.Set("User-Agent", "Sluice")
	res, err := client.Do(req)
	if err != nil {
		return nil, &failure{why: fmt.Sprintf("%s: %s", req.URL.Host, withoutAddress(err))}
	}
	defer res.Body.Close() //nolint:errcheck // read only
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch code := res.StatusCode; {
	case code >= 300:
		f := &failure{why: fmt.Sprintf("%s answers %d %s", req.URL.Host, code, http.StatusText(code))}
		f.final = code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout
		if code < 400 {
			f.why += "; redirects are not followed: configure the address it leads to"
		}
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			f.after = time.Duration(s) * time.Second
		}
		return nil, f
	case err != nil:
		return nil, &failure{why: fmt.Sprintf("%s: read the answer: %s", req.URL.Host, withoutAddress(err))}
	}
	return answer, nil
}

// withoutAddress returns what an error says, without the address, which may hold a token.
func withoutAddress(err error) string {
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// webhook sends JSON and signs it as Standard Webhooks has it, so that receivers find libraries that check it.
type webhook struct {
	client *http.Client
	url    keyring.Credential
	secret keyring.Credential // none: unsigned
}

// event is the body of a webhook. Fields are only ever added.
type event struct {
	Type      string       `json:"type"` // "alert"
	Timestamp time.Time    `json:"timestamp"`
	Data      eventOfAlert `json:"data"`
}

type eventOfAlert struct {
	Code         string        `json:"code"`
	About        string        `json:"about"`
	Status       string        `json:"status"` // firing or resolved
	Severity     Severity      `json:"severity"`
	Title        string        `json:"title"`
	Text         string        `json:"text"`
	Details      []eventDetail `json:"details"`
	Installation string        `json:"installation"`
}

type eventDetail struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

func (w *webhook) send(ctx context.Context, m message) error {
	a := m.alert
	e := event{Type: "alert", Timestamp: m.at.UTC(), Data: eventOfAlert{
		Code: a.Code, About: a.About, Status: a.status(), Severity: a.Severity, Title: a.Title.In(m.lang), Text: a.Text.In(m.lang),
		Details: []eventDetail{}, Installation: m.source,
	}}
	for _, d := range a.Details {
		e.Data.Details = append(e.Data.Details, eventDetail{d.Name.In(m.lang), plain(d.Value)})
	}
	body, err := json.Marshal(e)
	if err != nil {
		return &failure{why: err.Error(), final: true}
	}
	header := http.Header{}
	if !w.secret.Empty() {
		key, err := webhookKey(w.secret)
		if err != nil {
			return &failure{why: err.Error(), final: true}
		}
		stamp := strconv.FormatInt(time.Now().Unix(), 10)
		header.Set("Webhook-Timestamp", stamp)
		header.Set("Webhook-Signature", "v1,"+sign(key, m.id+"."+stamp+"."+string(body)))
	}
	header.Set("Webhook-Id", m.id)
	_, err = post(ctx, w.client, w.url.Reveal(), header, body)
	return err
}

// sign returns HMAC-SHA256 in base64.
func sign(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// robot writes into a group of DingTalk, WeCom or Feishu.
type robot struct {
	cfg    Channel
	client *http.Client
	now    func() time.Time
}

func (r *robot) send(ctx context.Context, m message) error {
	address, body := r.cfg.URL.Reveal(), map[string]any{}
	lines := m.lines()
	if k := r.cfg.Keyword; k != "" && !strings.Contains(m.title()+strings.Join(lines, "\n"), k) {
		lines = append([]string{k}, lines...) // first, since the end of a long message is cut off
	}
	switch r.cfg.Kind {
	case kindDingTalk:
		body = dingTalk(m.title(), lines)
		address = r.signedURL(address)
	case kindWeCom:
		body = weCom(m.title(), lines)
	case kindFeishu:
		body = feishu(m, lines)
		r.signBody(body)
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return &failure{why: err.Error(), final: true}
	}
	answer, err := post(ctx, r.client, address, nil, raw)
	if err != nil {
		return err
	}
	return r.verdict(answer)
}

// signedURL adds the time and its signature as DingTalk wants them.
func (r *robot) signedURL(address string) string {
	if r.cfg.Secret.Empty() {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	stamp := strconv.FormatInt(r.now().UnixMilli(), 10)
	q := u.Query()
	q.Set("timestamp", stamp)
	secret := r.cfg.Secret.Reveal()
	q.Set("sign", sign([]byte(secret), stamp+"\n"+secret))
	u.RawQuery = q.Encode()
	return u.String()
}

// signBody adds the time and its signature as Feishu wants them: the time and the secret are the key, and nothing is signed with it.
func (r *robot) signBody(body map[string]any) {
	if r.cfg.Secret.Empty() {
		return
	}
	stamp := strconv.FormatInt(r.now().Unix(), 10)
	body["timestamp"], body["sign"] = stamp, sign([]byte(stamp+"\n"+r.cfg.Secret.Reveal()), "")
}

// dingTalk is a message in the Markdown of DingTalk, where a line ends with two spaces. It takes 20,000 bytes.
func dingTalk(title string, lines []string) map[string]any {
	text := cut("#### "+unmarked(title)+"\n\n"+unmarked(strings.Join(lines, "  \n")), 16_000)
	return map[string]any{"msgtype": "markdown", "markdown": map[string]any{"title": title, "text": text}}
}

// weCom is a message in the Markdown of WeCom, which takes 4,096 bytes.
func weCom(title string, lines []string) map[string]any {
	text := cut("**"+unmarked(title)+"**\n"+unmarked(strings.Join(lines, "\n")), 4_000)
	return map[string]any{"msgtype": "markdown", "markdown": map[string]any{"content": text}}
}

// unmarked takes the meaning from what Markdown would take for a link, an image or a tag: names may be chosen by people.
func unmarked(s string) string {
	return strings.NewReplacer("[", "［", "]", "］", "<", "＜", ">", "＞", "*", "＊", "`", "｀", "#", "＃").Replace(s)
}

// feishu is a message of Feishu's rich text, whose parts are plain.
func feishu(m message, lines []string) map[string]any {
	rows := make([]any, len(lines))
	for i, l := range lines {
		rows[i] = []any{map[string]any{"tag": "text", "text": cut(l, 2_000)}}
	}
	lang := "en_us"
	if m.lang == fault.Chinese {
		lang = "zh_cn"
	}
	post := map[string]any{lang: map[string]any{"title": m.title(), "content": rows}}
	return map[string]any{"msg_type": "post", "content": map[string]any{"post": post}}
}

// verdict reads the answer, which says at status 200 whether the message was taken.
func (r *robot) verdict(answer []byte) error {
	var a struct {
		ErrCode    *int   `json:"errcode"` // DingTalk, WeCom
		ErrMsg     string `json:"errmsg"`
		Code       *int   `json:"code"` // Feishu
		Msg        string `json:"msg"`
		StatusCode *int   `json:"StatusCode"` // Feishu, before
		StatusMsg  string `json:"StatusMessage"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return &failure{why: "the answer is not what a robot says; check the url", final: true}
	}
	for _, said := range []struct {
		code *int
		text string
	}{{a.ErrCode, a.ErrMsg}, {a.Code, a.Msg}, {a.StatusCode, a.StatusMsg}} {
		switch {
		case said.code == nil:
		case *said.code == 0:
			return nil
		default:
			return r.refusal(*said.code, said.text)
		}
	}
	return &failure{why: "the answer is not what a robot says; check the url", final: true}
}

// refusal is what a vendor's code means. Only a busy server and a limit are worth another attempt.
func (r *robot) refusal(code int, text string) error {
	secrets := []string{r.cfg.URL.Reveal(), r.cfg.Secret.Reveal()}
	if u, err := url.Parse(r.cfg.URL.Reveal()); err == nil {
		for _, values := range u.Query() {
			secrets = append(secrets, values...)
		}
		secrets = append(secrets, u.Path[strings.LastIndex(u.Path, "/")+1:])
	}
	for _, s := range secrets {
		if len(s) > 5 { // the last word of a path that is no token may be short
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	f := &failure{why: fmt.Sprintf("the robot refuses with code %d: %s", code, cut(plain(text), 200)), final: true}
	retry := map[string]map[int]time.Duration{
		kindDingTalk: {-1: 0, 130101: 10 * time.Minute, 410100: 10 * time.Minute}, // busy; too many
		kindWeCom:    {-1: 0, 45009: time.Minute, 45033: 0},                       // busy; too many in a minute; too many at once
		kindFeishu:   {9499: time.Minute, 11232: time.Minute},                     // too many of one robot, of all
	}
	if after, ok := retry[r.cfg.Kind][code]; ok {
		f.final, f.after = false, after
	}
	return f
}
