package witness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	tileHeight = 8
	// Every answer is bounded: a log is not trusted to be brief.
	maxNote        = 64 << 10
	maxRefusal     = 512
	requestTimeout = 30 * time.Second
)

// client speaks to the endpoints of one log.
type client struct {
	base  string // without a slash at its end
	http  *http.Client
	token func(ctx context.Context, refused string) (string, error)
}

func newClient(cfg Config) (*client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("the address of the log must be an http or https URL, not %q", cfg.URL)
	}
	c := &client{base: strings.TrimSuffix(cfg.URL, "/"), http: cfg.Client, token: cfg.Token}
	if c.http == nil {
		// A redirect is an error of the address: followed, it would carry the question to who knows where.
		c.http = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c, nil
}

// checkpoint returns the newest checkpoint as the log shows it.
func (c *client) checkpoint(ctx context.Context) (string, error) {
	b, err := c.do(ctx, http.MethodGet, "/checkpoint", "", maxNote)
	return string(b), err
}

// tile returns the hashes of a tile.
func (c *client) tile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	path := strings.TrimPrefix(t.Path(), fmt.Sprintf("tile/%d/", tileHeight))
	b, err := c.do(ctx, http.MethodGet, "/tile/"+path, "", int64(t.W)*tlog.HashSize)
	if err == nil && len(b) != t.W*tlog.HashSize {
		err = fmt.Errorf("tile %s has %d bytes, not %d", path, len(b), t.W*tlog.HashSize)
	}
	return b, err
}

// cosignatures hands a cosigned note back.
func (c *client) cosignatures(ctx context.Context, note string) error {
	_, err := c.do(ctx, http.MethodPost, "/cosignatures", note, maxNote)
	return err
}

// do sends one request and returns the body of the answer, of at most limit bytes. A token that is refused is renewed once.
func (c *client) do(ctx context.Context, method, path, body string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if c.token == nil {
		b, _, err := c.send(ctx, method, path, body, "", limit)
		return b, err
	}
	token, err := c.token(ctx, "")
	if err != nil {
		return nil, err
	}
	b, status, err := c.send(ctx, method, path, body, token, limit)
	if status != http.StatusUnauthorized {
		return b, err
	}
	next, terr := c.token(ctx, token)
	if terr != nil || next == token {
		return nil, errors.Join(err, terr)
	}
	b, _, err = c.send(ctx, method, path, body, next, limit)
	return b, err
}

func (c *client) send(ctx context.Context, method, path, body, token string, limit int64) ([]byte, int, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, 0, fmt.Errorf("ask the log: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	if res.StatusCode < 200 || res.StatusCode > 299 {
		why, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal))
		return nil, res.StatusCode, fmt.Errorf("ask the log: %s %s was answered %s: %q", method, c.base+path, res.Status, why)
	}
	b, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, res.StatusCode, fmt.Errorf("ask the log: %w", err)
	}
	if int64(len(b)) > limit {
		return nil, res.StatusCode, fmt.Errorf("ask the log: the answer to %s %s is longer than %d bytes", method, c.base+path, limit)
	}
	return b, res.StatusCode, nil
}

// tileReader reads tiles for [tlog.TileHashReader], which authenticates them against a signed root.
type tileReader func(tlog.Tile) ([]byte, error)

// Height implements tlog.TileReader.
func (tileReader) Height() int { return tileHeight }

// SaveTiles implements tlog.TileReader. Nothing is kept: a pass reads a handful.
func (tileReader) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (r tileReader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		b, err := r(t)
		if err != nil {
			return nil, err
		}
		out[i] = b
	}
	return out, nil
}
