package cli

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

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
)

// Remote is a signed-in client of the management API. The commands that change a running server use it: they pass the same
// permissions and leave the same audit records as the console.
type Remote struct {
	base, token, lang string
	Credentials       adminapi.LoginRequest                     // it signed in with these
	code              func(ctx context.Context) (string, error) // asks for one of the second factor
	act               ActFlags
	http              *http.Client
	given             bool                       // the token was: there is nothing to sign in with
	save              func(*http.Response) error // takes a successful answer, if set
}

// RemoteFlags are the flags of commands that talk to a server.
type RemoteFlags struct {
	URL, User string
	Act       ActFlags
}

// ActFlags are the flags of commands whose act may need a second person.
type ActFlags struct{ ask, approval string }

// Register adds the flags to a command and those below it.
func (f *ActFlags) Register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.ask, "ask", "", Both("cli.act.ask"))
	cmd.PersistentFlags().StringVar(&f.approval, "approval", "", Both("cli.shared.approval"))
}

// Register adds the flags to a command and those below it.
func (f *RemoteFlags) Register(cmd *cobra.Command, a *App) {
	base := a.Getenv("SLUICE_URL")
	if base == "" {
		base = "http://127.0.0.1:8080"
	}
	user := a.Getenv("SLUICE_ADMIN_USER")
	if user == "" {
		user = "admin"
	}
	cmd.PersistentFlags().StringVar(&f.URL, "url", base, Both("cli.shared.url"))
	cmd.PersistentFlags().StringVar(&f.User, "user", user, Both("cli.remote_flags.user"))
}

// codeVariable holds a code of the second factor where there is no terminal to ask at.
const codeVariable = "SLUICE_ADMIN_CODE"

// Login signs in. The password comes from SLUICE_ADMIN_PASSWORD or from the terminal, never from a flag: flags show in process
// lists. So does a code, from SLUICE_ADMIN_CODE, if the account has a second factor.
func (a *App) Login(ctx context.Context, f RemoteFlags) (*Remote, error) {
	if token := a.Getenv(sessionVariable); token != "" {
		r := a.Stranger(f)
		r.token, r.given = token, true
		return r, nil
	}
	password := a.Getenv("SLUICE_ADMIN_PASSWORD")
	if password == "" {
		typed, err := a.ask(ctx, a.Say("cli.remote.password_of", f.User), Misuse("cli.remote.no_password"))
		if err != nil {
			return nil, err
		}
		password = typed
	}
	r := a.Stranger(f)
	r.Credentials = adminapi.LoginRequest{User: f.User, Password: password}
	given := a.Getenv(codeVariable)
	r.code = func(ctx context.Context) (string, error) {
		if code := given; code != "" {
			given = "" // it is good once
			return code, nil
		}
		return a.ask(ctx, a.Say("cli.remote.code_of"), Misuse("cli.remote.no_code", codeVariable))
	}
	if err := r.signIn(ctx); err != nil {
		return nil, Failed("cli.remote.sign_in", f.URL, err)
	}
	return r, nil
}

// sessionVariable holds the token of a session to act with in place of a sign-in: that of an emergency, which has no password.
const sessionVariable = "SLUICE_SESSION"

// Stranger is a client that has not signed in.
func (a *App) Stranger(f RemoteFlags) *Remote {
	return &Remote{base: strings.TrimSuffix(f.URL, "/") + adminapi.Prefix, lang: a.Language(), act: f.Act, http: &http.Client{Timeout: 2 * time.Minute}}
}

// Secret returns what an environment variable holds, or what is typed at the terminal without being shown; without either it returns none.
func (a *App) Secret(ctx context.Context, variable, prompt string, none error) (string, error) {
	if s := a.Getenv(variable); s != "" {
		return s, nil
	}
	return a.ask(ctx, prompt, none)
}

// ask reads a line that does not show from the terminal; without one it returns none.
func (a *App) ask(ctx context.Context, prompt string, none error) (string, error) {
	file, ok := a.Stdin.(*os.File)
	if !ok || !IsTerminal(file) {
		return "", none
	}
	fmt.Fprint(a.Stderr, prompt)
	raw, err := ReadPassword(ctx, int(file.Fd()))
	fmt.Fprintln(a.Stderr)
	if err != nil {
		return "", Failed("cli.shared.password_unread", err)
	}
	return string(raw), nil
}

// Ask signs in and makes one call.
func (a *App) Ask(ctx context.Context, flags RemoteFlags, method, path string, in, out any) error {
	r, err := a.Login(ctx, flags)
	if err != nil {
		return err
	}
	return r.Call(ctx, method, path, in, out)
}

// ReadPassword reads a line that the terminal does not show. Ctrl-C ends it, and gives the terminal its echo back.
func ReadPassword(ctx context.Context, terminal int) ([]byte, error) {
	before, err := term.GetState(terminal)
	if err != nil {
		return nil, err
	}
	return UnlessDone(ctx, func() ([]byte, error) { return term.ReadPassword(terminal) }, func() { _ = term.Restore(terminal, before) })
}

// UnlessDone returns what read returns, or when ctx ends, after undo, that it was interrupted: a read from a terminal cannot be
// called off, so it is left behind for the end of the process.
func UnlessDone[T any](ctx context.Context, read func() (T, error), undo func()) (T, error) {
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
		return none, ErrInterrupted
	}
}

func (r *Remote) signIn(ctx context.Context) error {
	var s adminapi.Session
	r.token = ""
	err := r.Call(ctx, http.MethodPost, "/session", r.Credentials, &s)
	if p := (*ProblemError)(nil); errors.As(err, &p) && p.Code == string(fault.CodeSecondFactor) {
		with := r.Credentials
		code, cerr := r.code(ctx)
		if cerr != nil {
			return cerr
		}
		with.Code = &code
		err = r.Call(ctx, http.MethodPost, "/session", with, &s)
	}
	if err != nil {
		return err
	}
	r.token = s.AccessToken
	return nil
}

// ProblemError is a problem document that the server answered with.
type ProblemError struct {
	adminapi.Problem

	Status int
	After  time.Duration // the server wants to be asked again then; 0: it does not say
}

// Error implements error with the sentence, the code and the request id.
func (p *ProblemError) Error() string { return p.in(message.English) }

func (p *ProblemError) in(l message.Lang) string {
	return message.Say("cli.remote.problem", p.Detail, p.Code, p.RequestId).In(l)
}

// Call sends in as JSON and decodes the answer into out; either may be nil. A problem document becomes a [ProblemError].
func (r *Remote) Call(ctx context.Context, method, path string, in, out any) error {
	raw, err := r.ask(ctx, method, path, in)
	if err != nil || out == nil || len(raw) == 0 {
		return err
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// Fetch returns what is at a path, whatever it is.
func (r *Remote) Fetch(ctx context.Context, path string) ([]byte, error) {
	return r.ask(ctx, http.MethodGet, path, nil)
}

// Save sends in as JSON and writes the answer, of any size, into a file. seen is told how much has come.
func (r *Remote) Save(ctx context.Context, path string, in any, to io.Writer, seen func(done, total int)) error {
	r.save = func(res *http.Response) error {
		_, err := io.Copy(to, &counting{res.Body, 0, res.ContentLength, seen})
		return err
	}
	defer func() { r.save = nil }()
	_, err := r.ask(ctx, http.MethodPost, path, in)
	return err
}

type counting struct {
	io.Reader

	done, total int64
	seen        func(done, total int) // nil: nobody looks
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.done += int64(n)
	if c.seen != nil {
		c.seen(int(c.done), int(c.total))
	}
	return n, err
}

// ask begins a session anew that ended during a long command.
func (r *Remote) ask(ctx context.Context, method, path string, in any) ([]byte, error) {
	raw, err := r.askOnce(ctx, method, path, in)
	if p := (*ProblemError)(nil); errors.As(err, &p) && p.Status == http.StatusUnauthorized && r.token != "" && !r.given {
		if err := r.signIn(ctx); err != nil {
			return nil, err
		}
		return r.askOnce(ctx, method, path, in)
	}
	return raw, err
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

func (r *Remote) askOnce(ctx context.Context, method, path string, in any) ([]byte, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, r.base+path, body)
	if err != nil {
		return nil, err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept-Language", r.lang)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	asks := r.act.ask != "" && method != http.MethodGet && r.token != ""
	switch {
	case asks:
		req.Header.Set("X-Sluice-Approval", "request")
		req.Header.Set("X-Sluice-Reason", url.QueryEscape(r.act.ask))
	case r.act.approval != "":
		req.Header.Set("X-Sluice-Approval", r.act.approval)
	}
	res, err := r.http.Do(req)
	if err != nil && ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	if err != nil {
		return nil, Failed("cli.remote.no_answer", err)
	}
	defer func() { _ = res.Body.Close() }()
	if r.save != nil && res.StatusCode == http.StatusOK {
		return nil, r.save(res)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(raw) > maxAnswer:
		return nil, Failed("cli.remote.too_large", maxAnswer>>20)
	case asks && res.StatusCode == http.StatusAccepted:
		return nil, waiting(raw)
	case res.StatusCode < http.StatusBadRequest:
		return raw, nil
	}
	var p adminapi.Problem
	if json.Unmarshal(raw, &p) == nil && p.Detail != "" {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return nil, &ProblemError{Problem: p, Status: res.StatusCode, After: time.Duration(seconds) * time.Second}
	}
	return nil, Failed("cli.remote.status", res.Status)
}

// waiting says that an act was not done, and waits for a second person.
func waiting(answer []byte) error {
	var a adminapi.ActApproval
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return Failed("cli.act.waits", a.ExpiresAt.Format(time.RFC3339), a.Id)
}

// Query builds a query string from pairs, leaving empty values out.
func Query(pairs ...string) string {
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

// IfGiven returns nil for what a flag did not set.
func IfGiven(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Unhurried lets calls take as long as they take.
func (r *Remote) Unhurried() { r.http.Timeout = 0 }
