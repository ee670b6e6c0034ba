package main

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
	"github.com/sluice-project/sluice/server/adminapi"
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
		Use: "witness", Short: "Remember what an audit log states, and object when it states something else / 为审计日志作见证", Args: exactly(0),
		Long: `Runs on another team's machine, with its own key and its own directory, and needs nothing of the server but its address and its public key.
It reads each new checkpoint, demands a proof that it extends the one before, cosigns it and hands the cosignature back.
Register its public key, which it prints, with the log (audit.witnesses), and give it an account with the role witness.

The first checkpoint it ever sees is trusted, unless --first-size and --first-root name one. From then on nothing is.
An alarm, such as a database restored from an older copy, is kept in DIR/alarms and repeated until somebody moves the file away.
With --once it looks once: exit code 0 all is proven, 3 there are alarms, 1 the log could not be read.

运行在另一团队的机器上，拥有自己的密钥和目录；除服务器的地址和公钥外不依赖服务器的任何内容。
它读取每个新检查点，要求证明其延续了前一个检查点，然后联署并交回签名。
请将其打印的公钥登记到日志（audit.witnesses），并为其建立角色为 witness 的账号。
首次见到的检查点将被信任（除非用 --first-size 和 --first-root 指定），此后一律要求证明。
告警（例如数据库被恢复为旧副本）保存在 DIR/alarms，在有人移走文件之前会一直重复。
使用 --once 时只检查一次：退出码 0 表示全部得到证明，3 表示有告警，1 表示无法读取日志。`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.witness(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "address of the server, or of the log's endpoints / 服务器或日志接口的地址")
	flags.StringArrayVar(&f.keys, "key", nil, "public `KEY` of the log, as sluice audit key printed it; repeat it for several / 日志的公钥")
	flags.StringVar(&f.name, "name", "", "name of this witness in its cosignatures, for example its host name / 见证方名称")
	flags.StringVar(&f.dir, "dir", "", "directory of its key and its memory / 保存密钥和记忆的目录")
	flags.StringVar(&f.suite, "suite", "intl", "what it cosigns with: intl (Ed25519) or gm (SM2 with SM3); each has its own key / 联署所用密码套件，各有公钥")
	flags.DurationVar(&f.every, "every", 10*time.Second, "pause between two looks / 检查间隔")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the bearer token to show, read anew for each request / 令牌文件")
	flags.StringVar(&f.user, "user", "", "account to sign in with, in place of a token / 登录账号")
	flags.StringVar(&f.passwordFile, "password-file", "", "file with the password of the account / 密码文件")
	flags.Int64Var(&f.firstSize, "first-size", 0, "size of a checkpoint to start from, with --first-root / 起始检查点的记录数")
	flags.StringVar(&f.firstRoot, "first-root", "", "root of that checkpoint, in base64 or hex / 起始检查点的根")
	flags.BoolVar(&f.once, "once", false, "look once and end / 只检查一次")
	flags.StringVar(&f.listen, "listen", "", "`ADDRESS` at which GET / tells the state as JSON, 200 or 503 / 状态监听地址")
	flags.BoolVar(&f.printKey, "print-key", false, "print the public key of the witness and end / 打印见证方公钥后退出")
	return cmd
}

func (a *app) witness(ctx context.Context, f witnessFlags) error {
	if f.name == "" || f.dir == "" {
		return usageError{errors.New("a witness needs --name and --dir; see sluice audit witness --help")}
	}
	if f.suite != string(content.Intl) && f.suite != string(content.GM) {
		return usageError{fmt.Errorf("--suite: want %s or %s, not %q", content.Intl, content.GM, f.suite)}
	}
	if f.printKey {
		key, err := witness.Key(witness.Config{Dir: f.dir, Name: f.name, SM2: f.suite == string(content.GM)})
		if err == nil {
			fmt.Fprintln(a.env.stdout, key)
		}
		return err
	}
	cfg, err := f.config()
	if err != nil {
		return usageError{err}
	}
	w, err := witness.Open(cfg, slog.New(slog.NewTextHandler(a.env.stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintln(a.env.stdout, w.Key())
	err = a.runWitness(ctx, w, f)
	if errors.Is(err, witness.ErrAlarm) { // said in the log already
		err = errFindings
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
	fmt.Fprintf(a.env.stderr, "state at http://%s/\n", listener.Addr())
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
		return cfg, errors.New("a witness needs --log and --key; the owner of the log prints the key with sluice audit key")
	}
	if f.every <= 0 {
		return cfg, errors.New("--every: must be more than nothing")
	}
	var err error
	if cfg.Verifier, err = checkpoint.NewVerifier(strings.Join(f.keys, "\n")); err != nil {
		return cfg, fmt.Errorf("--key: %w", err)
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
		return "", fmt.Errorf("--log: want an address such as https://sluice.example, not %q", address)
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
		return checkpoint.Tree{}, errors.New("--first-size and --first-root: want both, as a checkpoint or sluice audit verify shows them")
	}
	return checkpoint.Tree{Size: size, Root: h}, nil
}

// token returns what the witness asks for its bearer token; nil without credentials.
func (f witnessFlags) token(logURL string) (func(context.Context, string) (string, error), error) {
	switch {
	case f.tokenFile != "" && f.user != "" || (f.user == "") != (f.passwordFile == ""):
		return nil, errors.New("give either --token-file, or --user with --password-file")
	case f.tokenFile != "":
		return func(context.Context, string) (string, error) { return readSecret(f.tokenFile) }, nil
	case f.user == "":
		return nil, nil
	}
	server, ok := strings.CutSuffix(logURL, logPath)
	if !ok {
		return nil, fmt.Errorf("--user: one signs in at a Sluice server; %s is none, use --token-file", logURL)
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
		return "", fmt.Errorf("%s is empty", path)
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
		return "", fmt.Errorf("sign in as %s: %w", s.user, err)
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
		return adminapi.Session{}, fmt.Errorf("the server answered %s", res.Status)
	}
	var session adminapi.Session
	if err := json.Unmarshal(raw, &session); err != nil || session.AccessToken == "" {
		return adminapi.Session{}, errors.New("the answer is no session")
	}
	return session, nil
}
