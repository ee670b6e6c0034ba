package auditcmd

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/witness"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// logPath is where a Sluice server has the endpoints of its log.
const logPath = adminapi.Prefix + "/audit/log"

// witnessFlags are what the command line says.
type witnessFlags struct {
	log, name, dir, listen        string
	tokenFile, user, passwordFile string
	firstRoot, suite              string
	firstSize                     int64
	keys                          []string
	every                         time.Duration
	once, printKey                bool
}

func (a *app) witnessCommand() *cobra.Command {
	var f witnessFlags
	cmd := &cobra.Command{
		Use: "witness", Short: cli.Both("cli.witness.short"), Args: cli.Exactly(0),
		Long: message.Both("cli.witness.long", "\n\n"),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.witness(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", cli.Both("cli.witness.log"))
	flags.StringArrayVar(&f.keys, "key", nil, cli.Both("cli.witness.key"))
	flags.StringVar(&f.name, "name", "", cli.Both("cli.witness.name"))
	flags.StringVar(&f.dir, "dir", "", cli.Both("cli.witness.dir"))
	flags.StringVar(&f.suite, "suite", "intl", cli.Both("cli.witness.suite"))
	flags.DurationVar(&f.every, "every", 10*time.Second, cli.Both("cli.witness.every"))
	flags.StringVar(&f.tokenFile, "token-file", "", cli.Both("cli.witness.token_file"))
	flags.StringVar(&f.user, "user", "", cli.Both("cli.witness.user"))
	flags.StringVar(&f.passwordFile, "password-file", "", cli.Both("cli.witness.password_file"))
	flags.Int64Var(&f.firstSize, "first-size", 0, cli.Both("cli.witness.first_size"))
	flags.StringVar(&f.firstRoot, "first-root", "", cli.Both("cli.witness.first_root"))
	flags.BoolVar(&f.once, "once", false, cli.Both("cli.witness.once"))
	flags.StringVar(&f.listen, "listen", "", cli.Both("cli.witness.listen"))
	flags.BoolVar(&f.printKey, "print-key", false, cli.Both("cli.witness.print_key"))
	return cmd
}

func (a *app) witness(ctx context.Context, f witnessFlags) error {
	if f.name == "" || f.dir == "" {
		return cli.Misuse("cli.witness.no_name")
	}
	if f.suite != string(content.Intl) && f.suite != string(content.GM) {
		return cli.Misuse("cli.witness.no_suite", content.Intl, content.GM, f.suite)
	}
	if f.printKey {
		key, err := witness.Key(witness.Config{Dir: f.dir, Name: f.name, SM2: f.suite == string(content.GM)})
		if err == nil {
			fmt.Fprintln(a.Stdout, key)
		}
		return err
	}
	cfg, err := f.config()
	if err != nil {
		return err
	}
	w, err := witness.Open(cfg, slog.New(slog.NewTextHandler(a.Stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout, w.Key())
	err = a.runWitness(ctx, w, f)
	if errors.Is(err, witness.ErrAlarm) { // said in the log already
		err = cli.ErrFindings
	}
	return errors.Join(err, w.Close())
}

func (a *app) runWitness(ctx context.Context, w *witness.Witness, f witnessFlags) error {
	if f.once {
		return w.Pass(ctx)
	}
	if f.listen == "" {
		return w.Run(ctx)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	fmt.Fprintln(a.Stderr, a.Say("cli.witness.state_at", listener.Addr()))
	server := &http.Server{Handler: w, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("tell the state: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		defer server.Close() //nolint:errcheck // it ends
		return w.Run(ctx)
	})
	return group.Wait()
}

// config reads the flags; what is wrong with them is a mistake of the caller.
func (f witnessFlags) config() (witness.Config, error) {
	cfg := witness.Config{Name: f.name, Dir: f.dir, Every: f.every, SM2: f.suite == string(content.GM)}
	if f.log == "" || len(f.keys) == 0 {
		return cfg, cli.Misuse("cli.witness.no_log")
	}
	if f.every <= 0 {
		return cfg, cli.Misuse("cli.witness.no_interval")
	}
	var err error
	if cfg.Verifier, err = checkpoint.NewVerifier(strings.Join(f.keys, "\n")); err != nil {
		return cfg, cli.Misuse("cli.witness.bad_key", err)
	}
	if cfg.URL, err = logAddress(f.log); err != nil {
		return cfg, err
	}
	if cfg.First, err = firstTree(f.firstSize, f.firstRoot); err != nil {
		return cfg, err
	}
	cfg.Token, err = f.token(cfg.URL)
	return cfg, err
}

// logAddress completes the address of a server to that of its log; an address with a path is one of a log.
func logAddress(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
		return "", cli.Misuse("cli.witness.bad_log", address)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = logPath
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

func firstTree(size int64, root string) (checkpoint.Tree, error) {
	if size == 0 && root == "" {
		return checkpoint.Tree{}, nil
	}
	h, err := tlog.ParseHash(root)
	if raw, herr := hex.DecodeString(root); herr == nil && len(raw) == tlog.HashSize {
		h, err = tlog.Hash(raw), nil
	}
	if err != nil || size <= 0 {
		return checkpoint.Tree{}, cli.Misuse("cli.witness.first_incomplete")
	}
	return checkpoint.Tree{Size: size, Root: h}, nil
}

// token returns what the witness asks for its bearer token; nil without credentials.
func (f witnessFlags) token(logURL string) (func(context.Context, string) (string, error), error) {
	switch {
	case f.tokenFile != "" && f.user != "" || (f.user == "") != (f.passwordFile == ""):
		return nil, cli.Misuse("cli.witness.credentials")
	case f.tokenFile != "":
		return func(context.Context, string) (string, error) { return readSecret(f.tokenFile) }, nil
	case f.user == "":
		return nil, nil
	}
	server, ok := strings.CutSuffix(logURL, logPath)
	if !ok {
		return nil, cli.Misuse("cli.witness.no_sign_in", logURL)
	}
	s := &witnessSession{url: server + adminapi.Prefix + "/session", user: f.user, passwordFile: f.passwordFile}
	return s.token, nil
}

// readSecret reads a file of one line.
func readSecret(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", cli.Failed("cli.witness.empty_file", path)
	}
	return secret, nil
}

// witnessSession signs in at a server and keeps the session until it is refused, whatever the clocks of the two machines say.
type witnessSession struct {
	url, user, passwordFile string

	access string
}

func (s *witnessSession) token(ctx context.Context, refused string) (string, error) {
	if s.access != "" && s.access != refused {
		return s.access, nil
	}
	password, err := readSecret(s.passwordFile)
	if err != nil {
		return "", fmt.Errorf("sign in: %w", err)
	}
	session, err := signInWitness(ctx, s.url, adminapi.LoginRequest{User: s.user, Password: password})
	if err != nil {
		return "", cli.Failed("cli.witness.sign_in", s.user, err)
	}
	s.access = session.AccessToken
	return s.access, nil
}

func signInWitness(ctx context.Context, address string, credentials any) (adminapi.Session, error) {
	body, err := json.Marshal(credentials)
	if err != nil {
		return adminapi.Session{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return adminapi.Session{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return adminapi.Session{}, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return adminapi.Session{}, err
	}
	if res.StatusCode != http.StatusOK {
		var p adminapi.Problem
		if json.Unmarshal(raw, &p) == nil && p.Detail != "" {
			return adminapi.Session{}, errors.New(p.Detail)
		}
		return adminapi.Session{}, cli.Failed("cli.remote.status", res.Status)
	}
	var session adminapi.Session
	if err := json.Unmarshal(raw, &session); err != nil || session.AccessToken == "" {
		return adminapi.Session{}, cli.Failed("cli.witness.no_session")
	}
	return session, nil
}
