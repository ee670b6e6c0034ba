package notify

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// The kinds of channels.
const (
	kindWebhook  = "webhook"
	kindEmail    = "email"
	kindDingTalk = "dingtalk"
	kindWeCom    = "wecom"
	kindFeishu   = "feishu"
)

// How a connection to an e-mail server is kept private.
const (
	tlsStart = "starttls" // the connection becomes TLS before anything is sent, or ends
	tlsFirst = "tls"      // it is TLS from the beginning
	tlsNone  = "none"
)

// Config lists the channels. Zero values mean the defaults named at each field.
type Config struct {
	Channels []Channel
	// Repeat is how long an alert that lasts is not sent again; 0 = 4h.
	Repeat time.Duration
	// Deadline is how long an alert is tried; 0 = 1h.
	Deadline time.Duration
	// Timeout bounds one attempt; 0 = 10s.
	Timeout time.Duration
	// Queue is how many alerts may wait in one channel; 0 = 100.
	Queue int
}

// Channel is one way out.
type Channel struct {
	Name     string // in the log, in metrics and on the command line
	Kind     string // webhook, email, dingtalk, wecom or feishu
	Language string // en or zh; "" = en
	Severity string // the least: info, warning or critical; "" = warning

	URL     keyring.Credential // of a webhook or a robot; that of a robot holds its token
	Secret  keyring.Credential // signs what is sent: whsec_… of a webhook, the signing secret of a robot of DingTalk or Feishu
	Keyword string             // word that a robot demands in every message

	Server   string // host:port of the e-mail server
	TLS      string // starttls, tls or none; "" = starttls
	Username string
	Password keyring.Credential
	From     string
	To       []string
}

func (c Config) withDefaults() Config {
	c.Repeat = cmp.Or(c.Repeat, 4*time.Hour)
	c.Deadline = cmp.Or(c.Deadline, time.Hour)
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Queue = cmp.Or(c.Queue, 100)
	c.Channels = slices.Clone(c.Channels)
	for i := range c.Channels {
		ch := &c.Channels[i]
		ch.Severity = cmp.Or(ch.Severity, string(Warning))
		if ch.Kind == kindEmail {
			ch.TLS = cmp.Or(ch.TLS, tlsStart)
		}
	}
	return c
}

func (c Channel) lang() fault.Lang {
	if c.Language == "zh" {
		return fault.Chinese
	}
	return fault.English
}

func (c Channel) robot() bool { return c.Kind != kindWebhook && c.Kind != kindEmail }

// Validate reports everything that is wrong with the configuration. It shows no secret.
func (c Config) Validate() error {
	var errs []error
	for name, d := range map[string]time.Duration{"repeat": c.Repeat, "deadline": c.Deadline, "timeout": c.Timeout} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("%s: must not be negative", name))
		}
	}
	if c.Queue < 0 || c.Queue > 100_000 {
		errs = append(errs, errors.New("queue: must be between 0 and 100000"))
	}
	seen := map[string]bool{}
	for i, ch := range c.Channels {
		wrong := func(key, why string) { errs = append(errs, fmt.Errorf("channels[%d].%s: %s", i, key, why)) }
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`).MatchString(ch.Name) || seen[ch.Name] {
			wrong("name", "must be set, only once, of small letters, digits, hyphens and underscores, 32 at most")
		}
		seen[ch.Name] = true
		if ch.Language != "" && ch.Language != "en" && ch.Language != "zh" {
			wrong("language", "must be en or zh")
		}
		if ch.Severity != "" && rank(Severity(ch.Severity)) < 0 {
			wrong("severity", "must be info, warning or critical")
		}
		switch ch.Kind {
		case kindEmail:
			ch.validateEmail(wrong)
		case kindWebhook, kindDingTalk, kindWeCom, kindFeishu:
			ch.validateHTTP(wrong)
		default:
			wrong("kind", "must be webhook, email, dingtalk, wecom or feishu")
		}
	}
	return errors.Join(errs...)
}

func (c Channel) validateHTTP(wrong func(key, why string)) {
	u, err := url.Parse(c.URL.Reveal())
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		wrong("url", "must be an http or https address without user and fragment")
	case c.robot() && u.Scheme != "https" && !loopback(u.Hostname()):
		wrong("url", "must be https, since it holds the robot's token")
	}
	switch c.Kind {
	case kindWebhook:
		if _, err := webhookKey(c.Secret); err != nil && !c.Secret.Empty() {
			wrong("secret", "must be whsec_ and 24 to 64 bytes in base64; make one with: echo whsec_$(openssl rand -base64 32)")
		}
		if c.Keyword != "" {
			wrong("keyword", "is for robots only")
		}
	case kindWeCom:
		if !c.Secret.Empty() {
			wrong("secret", "robots of WeCom sign nothing: the key is in the url")
		}
	}
	if c.Server != "" || c.TLS != "" || c.Username != "" || !c.Password.Empty() || c.From != "" || len(c.To) > 0 {
		wrong("kind", "server, tls, username, password, from and to are for email only")
	}
}

func (c Channel) validateEmail(wrong func(key, why string)) {
	if host, port, err := net.SplitHostPort(c.Server); err != nil || host == "" || port == "" {
		wrong("server", "must be host:port, such as smtp.example.com:587")
	}
	if !slices.Contains([]string{"", tlsStart, tlsFirst, tlsNone}, c.TLS) {
		wrong("tls", "must be starttls, tls or none")
	}
	if (c.Username == "") != c.Password.Empty() {
		wrong("username", "set both username and password, or neither")
	}
	if c.TLS == tlsNone && !c.Password.Empty() {
		wrong("tls", "must not be none with a password, which would be sent in the clear")
	}
	if _, err := mail.ParseAddress(c.From); err != nil {
		wrong("from", "must be an address, such as Sluice <sluice@example.com>")
	}
	if len(c.To) == 0 {
		wrong("to", "list at least one address")
	}
	for _, to := range c.To {
		if _, err := mail.ParseAddress(to); err != nil {
			wrong("to", fmt.Sprintf("%q is no address", to))
		}
	}
	if !c.URL.Empty() || !c.Secret.Empty() || c.Keyword != "" {
		wrong("kind", "url, secret and keyword are not for email")
	}
}

// webhookKey returns the key behind a secret of the form that Standard Webhooks gives it.
func webhookKey(s keyring.Credential) ([]byte, error) {
	text, ok := strings.CutPrefix(s.Reveal(), "whsec_")
	key, err := base64.StdEncoding.DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("not a secret of a webhook")
	}
	return key, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
