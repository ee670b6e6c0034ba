package keysource

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
)

// Transit says how a Transit service is reached, as OpenBao and its relatives have one. Only starts and commands ask it.
type Transit struct {
	Address   string             // https://host:8200
	Mount     string             // "": transit
	Key       string             // the name of the key
	Namespace string             // "": none
	Token     keyring.Credential // may encrypt, decrypt and rewrap with the key, and nothing else
	CAFile    string             // "": the authorities of the machine
	Timeout   time.Duration      // of a call; 0: 10s
}

func (t Transit) validate(used bool) error {
	var errs []error
	key := func(name string, ok bool, message string) {
		if !ok {
			errs = append(errs, fmt.Errorf("transit.%s: %s", name, message))
		}
	}
	if t.Address != "" {
		u, err := url.Parse(t.Address)
		whole := err == nil && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == ""
		key("address", whole && (u.Scheme == "https" || u.Scheme == "http" && loopback(u.Hostname())),
			"must be an https address without a password; http only to this machine: the answer is the master key")
	}
	for name, value := range map[string]string{"mount": t.Mount, "key": t.Key, "namespace": t.Namespace} {
		key(name, value == "" || transitName.MatchString(value), "must be a name of letters, digits, and . _ - /")
	}
	key("timeout", t.Timeout >= 0 && t.Timeout <= 5*time.Minute, "must lie between 0 and 5m")
	key("address", !used || t.Address != "", "must be set")
	key("key", !used || t.Key != "", "must be set")
	key("token", !used || !t.Token.Empty(), "must be set, best as file:/run/secrets/token")
	return errors.Join(errs...)
}

// transitName has no way to leave its place in a path.
var transitName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*/?$`)

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// transit is the source whose key a Transit service keeps: it wraps and unwraps there, and never shows its key.
type transit struct {
	cfg    Transit
	client *http.Client
}

func newTransit(cfg Transit) (*transit, error) {
	if cfg.Address == "" || cfg.Key == "" || cfg.Token.Empty() {
		return nil, failed("keysource.not_configured", "key_source.transit.address, key, token")
	}
	roots := (*x509.CertPool)(nil)
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, failed("keysource.transit_ca", err)
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return nil, failed("keysource.transit_ca", cfg.CAFile)
		}
	}
	return &transit{cfg, &http.Client{
		Timeout: cmp.Or(cfg.Timeout, 10*time.Second),
		// Neither a proxy of the environment nor a redirect gets the token.
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// transitAnswer is what is used of an answer.
type transitAnswer struct {
	Data struct {
		Ciphertext string `json:"ciphertext"`
		Plaintext  string `json:"plaintext"`
	} `json:"data"`
	Errors []string `json:"errors"`
}

func (t *transit) wrap(ctx context.Context, root []byte, _ func(string) []byte) (wrapped, keyID string, err error) {
	a, err := t.call(ctx, "encrypt", map[string]string{"plaintext": base64.StdEncoding.EncodeToString(root)})
	if err != nil {
		return "", "", err
	}
	return t.ciphertext(a)
}

func (t *transit) unwrap(ctx context.Context, s Sealed) ([]byte, error) {
	a, err := t.call(ctx, "decrypt", map[string]string{"ciphertext": s.Wrapped})
	if err != nil {
		return nil, err
	}
	root, err := base64.StdEncoding.DecodeString(a.Data.Plaintext)
	if err != nil {
		return nil, failed("keysource.transit_answer", t.cfg.Address)
	}
	return root, nil
}

// rewrap has a ciphertext wrapped under the newest version of its key, without seeing what it holds.
func (t *transit) rewrap(ctx context.Context, wrapped string) (again, keyID string, err error) {
	a, err := t.call(ctx, "rewrap", map[string]string{"ciphertext": wrapped})
	if err != nil {
		return "", "", err
	}
	return t.ciphertext(a)
}

// transitCiphertext is `vault:v3:…`, whatever the service puts in front.
var transitCiphertext = regexp.MustCompile(`^[a-z]+:(v[0-9]{1,9}):[A-Za-z0-9+/=_-]+$`)

func (t *transit) ciphertext(a transitAnswer) (wrapped, keyID string, err error) {
	m := transitCiphertext.FindStringSubmatch(a.Data.Ciphertext)
	if m == nil {
		return "", "", failed("keysource.transit_answer", t.cfg.Address)
	}
	return a.Data.Ciphertext, t.name() + ":" + m[1], nil
}

// name is the path of the key.
func (t *transit) name() string {
	return strings.Trim(cmp.Or(t.cfg.Mount, "transit"), "/") + "/" + t.cfg.Key
}

func (t *transit) call(ctx context.Context, act string, in map[string]string) (a transitAnswer, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return a, err
	}
	mount := strings.Trim(cmp.Or(t.cfg.Mount, "transit"), "/")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(t.cfg.Address, "/")+"/v1/"+mount+"/"+act+"/"+t.cfg.Key, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	token := t.cfg.Token.Reveal()
	req.Header.Set("X-Vault-Token", token)
	req.Header.Set("X-Vault-Request", "true") // its agent demands it, against requests that pages forge
	req.Header.Set("Content-Type", "application/json")
	if t.cfg.Namespace != "" {
		req.Header.Set("X-Vault-Namespace", t.cfg.Namespace)
	}
	res, err := t.client.Do(req)
	if err != nil {
		return a, t.unreached(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxFile+1))
	if err != nil {
		return a, t.unreached(ctx, err)
	}
	decoded := len(raw) <= maxFile && json.Unmarshal(raw, &a) == nil
	if res.StatusCode == http.StatusOK && decoded {
		return a, nil
	}
	said := foreign(strings.Join(a.Errors, "; "), token)
	switch res.StatusCode {
	case http.StatusOK:
		return a, failed("keysource.transit_answer", t.cfg.Address)
	case http.StatusForbidden, http.StatusUnauthorized:
		return a, failed("keysource.transit_denied", t.cfg.Address, act, t.name())
	case http.StatusBadRequest:
		return a, failed("keysource.transit_refused", t.cfg.Address, act, t.name(), said)
	case http.StatusNotFound:
		return a, failed("keysource.transit_not_found", t.cfg.Address, t.name())
	case http.StatusServiceUnavailable:
		return a, failed("keysource.transit_sealed", t.cfg.Address)
	default:
		return a, failed("keysource.transit_status", t.cfg.Address, res.StatusCode, said)
	}
}

// unreached says why no answer came. The error of the client names the address, and no header.
func (t *transit) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var wrong *tls.CertificateVerificationError
	var slow net.Error
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	switch {
	case errors.As(err, &wrong):
		return failed("keysource.transit_certificate", t.cfg.Address, wrong.Err)
	case errors.As(err, &slow) && slow.Timeout():
		return failed("keysource.transit_slow", t.cfg.Address, t.client.Timeout)
	}
	return failed("keysource.transit_unreached", t.cfg.Address, err)
}
