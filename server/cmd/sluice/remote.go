package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluice-project/sluice/server/adminapi"
)

// remote is a signed-in client of the management API. The commands that change a running server use it: they pass the same
// permissions and leave the same audit records as the console.
type remote struct {
	base, token, lang string
	credentials       adminapi.LoginRequest
	http              *http.Client
}

// remoteFlags are the flags of commands that talk to a server.
type remoteFlags struct{ url, user string }

func (f *remoteFlags) register(cmd *cobra.Command, env environment) {
	base := env.get("SLUICE_URL")
	if base == "" {
		base = "http://127.0.0.1:8080"
	}
	user := env.get("SLUICE_ADMIN_USER")
	if user == "" {
		user = "admin"
	}
	cmd.PersistentFlags().StringVar(&f.url, "url", base, both("cli.shared.url"))
	cmd.PersistentFlags().StringVar(&f.user, "user", user, both("cli.remote_flags.user"))
}

// login signs in. The password comes from SLUICE_ADMIN_PASSWORD or from the terminal, never from a flag: flags show in process
// lists.
func (a *app) login(ctx context.Context, f remoteFlags) (*remote, error) {
	password := a.env.get("SLUICE_ADMIN_PASSWORD")
	if password == "" {
		file, ok := a.env.stdin.(*os.File)
		if !ok || !isTerminal(file) {
			return nil, usageError{errors.New("no password: set SLUICE_ADMIN_PASSWORD or run in a terminal")}
		}
		fmt.Fprintf(a.env.stderr, "Password of %s: ", f.user)
		raw, err := readPassword(ctx, int(file.Fd()))
		fmt.Fprintln(a.env.stderr)
		if err != nil {
			return nil, fmt.Errorf("read password: %w", err)
		}
		password = string(raw)
	}
	r := &remote{base: strings.TrimSuffix(f.url, "/") + adminapi.Prefix, lang: a.env.language(), http: &http.Client{Timeout: 2 * time.Minute}}
	r.credentials = adminapi.LoginRequest{User: f.user, Password: password}
	if err := r.signIn(ctx); err != nil {
		return nil, fmt.Errorf("sign in at %s: %w", f.url, err)
	}
	return r, nil
}

// ask signs in and makes one call.
func (a *app) ask(ctx context.Context, flags remoteFlags, method, path string, in, out any) error {
	r, err := a.login(ctx, flags)
	if err != nil {
		return err
	}
	return r.call(ctx, method, path, in, out)
}

// readPassword reads a line that the terminal does not show. Ctrl-C ends it, and gives the terminal its echo back.
func readPassword(ctx context.Context, terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	return unlessDone(ctx, func() ([]byte, error) { return term.ReadPassword(terminal) }, func() { _ = term.Restore(terminal, before) })
}

// unlessDone returns what read returns, or when ctx ends, after undo, that it was interrupted: a read from a terminal cannot be
// called off, so it is left behind for the end of the process.
func unlessDone[T any](ctx context.Context, read func() (T, error), undo func()) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		undo()
		var none T
		return none, errInterrupted
	}
}

func (r *remote) signIn(ctx context.Context) error {
	var s adminapi.Session
	r.token = ""
	if err := r.call(ctx, http.MethodPost, "/session", r.credentials, &s); err != nil {
		return err
	}
	r.token = s.AccessToken
	return nil
}

var errInterrupted = errors.New("interrupted")

// problemError is a problem document that the server answered with.
type problemError struct {
	adminapi.Problem

	status int
	after  time.Duration // the server wants to be asked again then; 0: it does not say
}

// Error implements error with the sentence, the code and the request id.
func (p *problemError) Error() string {
	return fmt.Sprintf("%s (code %s, request %s)", p.Detail, p.Code, p.RequestId)
}

// call sends in as JSON and decodes the answer into out; either may be nil. A problem document becomes a [problemError]. A session
// that ended during a long command is begun anew.
func (r *remote) call(ctx context.Context, method, path string, in, out any) error {
	err := r.callOnce(ctx, method, path, in, out)
	if p := (*problemError)(nil); errors.As(err, &p) && p.status == http.StatusUnauthorized && r.token != "" {
		if err := r.signIn(ctx); err != nil {
			return err
		}
		return r.callOnce(ctx, method, path, in, out)
	}
	return err
}

func (r *remote) callOnce(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept-Language", r.lang)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.http.Do(req)
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	if err != nil {
		return fmt.Errorf("the server does not answer; is it running? (%w)", err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	if err != nil {
		return err
	}
	if res.StatusCode >= http.StatusBadRequest {
		var p adminapi.Problem
		if json.Unmarshal(raw, &p) == nil && p.Detail != "" {
			seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
			return &problemError{Problem: p, status: res.StatusCode, after: time.Duration(seconds) * time.Second}
		}
		return fmt.Errorf("the server answered %s", res.Status)
	}
	if out == nil || len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// query builds a query string from pairs, leaving empty values out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

// ifGiven returns nil for what a flag did not set.
func ifGiven(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
