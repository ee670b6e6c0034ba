package external

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/rag/index"
)

// ClientConfig says how a server is reached over HTTP.
type ClientConfig struct {
	URL     string             // http:// or https://, without user, query and fragment
	Header  string             // that has the key; "" if there is none
	Key     keyring.Credential // read anew for each call; never sent in clear beyond this machine
	CAFile  string             // PEM certificates that the server's is checked by, in place of the system's; "" for those
	Timeout time.Duration      // of one call; 0 means 10 seconds
}

// Validate reports what is wrong with the configuration.
func (c ClientConfig) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: must be http:// or https:// with a host")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("url: must have no user, query or fragment")
	case u.Scheme == "http" && !c.Key.Empty() && !local(u.Hostname()):
		return errors.New("url: a key is sent over https only")
	case c.Timeout < 0:
		return errors.New("timeout: must not be negative")
	}
	return nil
}

func local(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// Client calls a server that speaks JSON. It is safe for concurrent use.
type Client struct {
	cfg  ClientConfig
	base string
	http *http.Client
}

// NewClient returns a client. It does not connect. Redirects are not followed: what is sent goes where the configuration says, or nowhere.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 10 * time.Second
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca_file: %w", err)
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("ca_file: has no certificate")
		}
	}
	return &Client{cfg, strings.TrimSuffix(cfg.URL, "/"), &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: min(cfg.Timeout, 5*time.Second)}).DialContext, TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
			TLSClientConfig: trust, MaxIdleConnsPerHost: 32, IdleConnTimeout: 90 * time.Second,
		},
	}}, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Call sends in as JSON, unless it is nil, and decodes the answer into out. An answer of 404 is ErrLost, another above 299 or none in time ErrUnavailable.
// Errors show neither the key nor what either side said, which may quote values.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return errors.New("the url cannot be called")
	}
	req.Header.Set("User-Agent", "Sluice")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cfg.Header != "" && !c.cfg.Key.Empty() {
		req.Header.Set(c.cfg.Header, c.cfg.Key.Reveal())
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.failed(ctx, err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch code := res.StatusCode; {
	case code == http.StatusNotFound:
		return fmt.Errorf("the server answers 404: %w", index.ErrLost)
	case code > 299:
		return fmt.Errorf("the server answers %d %s: %w", code, http.StatusText(code), index.ErrUnavailable)
	case err != nil:
		return c.failed(ctx, err)
	case len(raw) > maxAnswer:
		return fmt.Errorf("the server answers more than %d bytes: %w", maxAnswer, index.ErrUnavailable)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("the server's answer is not what it should be: %w", index.ErrUnavailable)
	}
	return nil
}

func (c *Client) failed(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w: %w", index.ErrUnavailable, context.Cause(ctx))
	}
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	return fmt.Errorf("%w: %w", index.ErrUnavailable, err)
}
