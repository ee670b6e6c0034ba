package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/internal/progress"
)

// Exit codes, for scripts.
const (
	exitProven     = 0
	exitFailed     = 1 // it could not run
	exitConsistent = 2 // all holds, but by no key other than the one inside the bundle
	exitProblems   = 3
)

const usage = `usage: sluice-verify [--key KEY | --key-file FILE] [--witness KEY]... [--json] BUNDLE.zip | PROOF.json | TENANT.zip | ORIGIN.zip
       sluice-verify --keys KEYS.json [--signature FILE] [--json] ANSWER

Checks an evidence bundle of a Sluice audit log: the signature of the manifest, every file, every record up to the root of the signed
checkpoint, the order, gaps, the table, and the cosignatures of witnesses. Or the proof of one record, as the console downloads it: the
record up to the root of the signed checkpoint, and the cosignatures; it prints the record. Or the export of a tenant: the signature of the manifest and every
file; unpack audit/evidence.zip and check it, too. Or the evidence of where a text
comes from: the same, and each record that it rests on. Or a signed answer: the whole body of one, or its text with the signature in a file of its own. It needs
no network and changes nothing.
校验 Sluice 审计日志的证据包：清单签名、每个文件、每条记录直至已签名检查点的树根、顺序、缺失、表格以及见证方的联署。也可校验控制台下载的
单条记录证明：记录直至已签名检查点的树根以及联署，并显示该记录。也可校验租户的导出包：清单签名与每个文件；其中的 audit/evidence.zip 须解出后另行校验。也可校验
文本来源核验的证据：同上，并校验其所依据的每条记录。也可校验已签名的回答：完整的回答正文，或其文字与另一文件中的签名。无需网络，不做任何更改。

  --key KEY        public key of the log (name+hash+base64), from its owner and not from the file; several with spaces between
                   日志的公钥，应取自日志所有者而非所校验的文件；可用空格分隔多个
  --key-file FILE  the same in a file / 同上，取自文件
  --witness KEY    public key of a witness that must have cosigned; may be repeated / 必须已联署的见证方公钥，可重复
  --keys FILE      public keys of signed answers, as the server publishes them at /.well-known/sluice-signing-keys.json
                   已签名回答的公钥，即服务器在上述地址公布的文件
  --signature FILE the signature of a text / 文字的签名
  --json           print the report as JSON / 以 JSON 输出报告

Without --key the key inside the file is used. That shows that the file is consistent, and not who made it.
不给出 --key 时使用文件内的公钥：这只能说明其自洽，不能说明由谁制作。

Exit codes / 退出码:
  0  all holds / 全部成立
  1  could not run: usage, unreadable file / 无法执行：用法错误或文件不可读
  2  all holds, but with the key inside the file only / 自洽，但只用了文件内的公钥
  3  problems were found / 发现问题
`

// options is what the command line asks for.
type options struct {
	key, witnesses string
	json           bool

	keys, signature string // of a signed answer
	file            string
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("sluice-verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.key, "key", "", "")
	keyFile := flags.String("key-file", "", "")
	flags.Func("witness", "", func(s string) error { o.witnesses += " " + s; return nil })
	flags.BoolVar(&o.json, "json", false, "")
	flags.StringVar(&o.keys, "keys", "", "")
	flags.StringVar(&o.signature, "signature", "", "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() != 1 {
		return o, fmt.Errorf("want one bundle or proof, got %d; see --help / 需要一个证据包或证明", flags.NArg())
	}
	o.file = flags.Arg(0)
	if o.keys != "" && (given(flags, "key") || given(flags, "key-file") || o.witnesses != "") {
		return o, errors.New("--keys is for signed answers; leave --key, --key-file and --witness out / --keys 用于已签名的回答，不得同时给出其他公钥")
	}
	if o.signature != "" && o.keys == "" {
		return o, errors.New("--signature needs --keys / --signature 须与 --keys 一同给出")
	}
	if *keyFile == "" {
		if given(flags, "key") && strings.TrimSpace(o.key) == "" { // an unset variable in a script must not mean: trust the file
			return o, errors.New("--key is empty; leave it out to use the key inside the file / --key 为空")
		}
		return o, nil
	}
	if given(flags, "key") {
		return o, errors.New("give --key or --key-file, not both / --key 与 --key-file 只能给出一个")
	}
	b, err := os.ReadFile(*keyFile)
	if err != nil {
		return o, err
	}
	if o.key = strings.TrimSpace(string(b)); o.key == "" {
		return o, fmt.Errorf("%s holds no key / 文件中没有公钥", *keyFile)
	}
	return o, nil
}

// given reports whether the command line has a flag.
func given(flags *flag.FlagSet, name string) (yes bool) {
	flags.Visit(func(f *flag.Flag) { yes = yes || f.Name == name })
	return yes
}

// run checks one bundle or proof and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, terminal bool) int {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitProven
	}
	var r outcome
	if err == nil {
		r, err = check(ctx, o, stderr, terminal)
	}
	if err == nil {
		err = r.print(stdout, o.json)
	}
	if err != nil {
		fmt.Fprintf(stderr, "sluice-verify: %v\n", err)
		return exitFailed
	}
	return r.code()
}

// outcome is what was found out, about a bundle or a proof.
type outcome interface {
	code() int
	print(w io.Writer, asJSON bool) error
}

func check(ctx context.Context, o options, stderr io.Writer, terminal bool) (outcome, error) {
	f, err := os.Open(o.file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file / 不是文件", o.file)
	}
	if o.keys != "" {
		return checkAnswer(f, o)
	}
	witnesses, err := checkpoint.NewWitnesses(o.witnesses)
	if err != nil {
		return nil, err
	}
	first := make([]byte, 1)
	if n, err := f.ReadAt(first, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else if n == 1 && first[0] == '{' {
		return checkProof(f, o.key, witnesses)
	}
	if inside, yes := evidence.IsParcel(f, info.Size()); yes {
		return checkParcel(f, info.Size(), o.key, inside, witnesses)
	}
	return checkBundle(ctx, f, info.Size(), o, witnesses, stderr, terminal)
}

// checkProof checks the proof of one record, with the key inside if none is given.
func checkProof(f io.Reader, key string, witnesses checkpoint.Witnesses) (outcome, error) {
	b, err := io.ReadAll(io.LimitReader(f, evidence.MaxProofFile+1))
	if err != nil {
		return nil, err
	}
	given := key != ""
	verifier, err := checkpoint.NewVerifier(key)
	if given && err != nil {
		return nil, err
	}
	p, err := evidence.ParseProofFile(b)
	if err != nil {
		return brokenProof("proof", err), nil
	}
	if !given {
		key = p.VerifierKey
		if verifier, err = checkpoint.NewVerifier(key); err != nil {
			return brokenProof("key", fmt.Errorf("the key inside the proof: %w", err)), nil
		}
	}
	return proofResult{ProofReport: evidence.VerifyProofFile(p, verifier, witnesses), Key: key, KeyGiven: given}, nil
}

func checkBundle(ctx context.Context, f io.ReaderAt, size int64, o options, witnesses checkpoint.Witnesses, stderr io.Writer, terminal bool) (outcome, error) {
	var err error
	key, own := o.key, o.key != ""
	if !own {
		if key, err = evidence.BundleKey(f, size); err != nil {
			return broken(err), nil
		}
	}
	verifier, err := checkpoint.NewVerifier(key)
	if err != nil && !own {
		return broken(fmt.Errorf("the key inside the bundle: %w", err)), nil
	}
	if err != nil {
		return nil, err
	}
	show := func(int64, int64) {}
	if terminal {
		line := progress.New(stderr, "records / 条记录", "left / 剩余", time.Now)
		defer line.End()
		show = line.Update
	}
	report, err := evidence.VerifyBundle(ctx, f, size, verifier, witnesses, show)
	return result{BundleReport: report, Key: key, KeyGiven: own}, err
}
