package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sluice-project/sluice/governance/signature"
)

// maxAnswer bounds an answer, and the file of keys.
const maxAnswer = 64 << 20

// answerResult is the report on a signed answer.
type answerResult struct {
	OK        bool                 `json:"ok"`
	Reason    string               `json:"reason,omitempty"`
	Key       string               `json:"key,omitempty"`       // the one that the signature names
	Statement *signature.Statement `json:"statement,omitempty"` // what the signature says, where it is authentic

	chinese string // Reason
}

// checkAnswer checks a signed answer: a text with its signature beside it, or the whole body of an answer, which has its own.
func checkAnswer(f io.Reader, o options) (outcome, error) {
	body, err := io.ReadAll(io.LimitReader(f, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%s is larger than %d MiB / 文件过大", o.file, maxAnswer>>20)
	}
	set, err := os.ReadFile(o.keys)
	if err != nil {
		return nil, err
	}
	keys, err := signature.ParseKeys(set)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.keys, err)
	}
	kept, whole := signature.ParseBody(body)
	text := kept.Signature
	if o.signature != "" { // then the file is the text itself, whatever it looks like
		given, err := os.ReadFile(o.signature)
		if err != nil {
			return nil, err
		}
		text, whole = string(given), false
	}
	if text == "" {
		return nil, errors.New("the file has no signature in it; give it with --signature FILE / 文件中没有签名，请用 --signature 给出")
	}
	r := answerResult{}
	r.Key, _ = signature.KeyOf(text)
	x, err := signature.Verify(text, keys)
	if err == nil || errors.Is(err, signature.ErrRevoked) {
		r.Statement = &x
	}
	if err == nil && !(whole && x.MatchesBody(kept) || !whole && x.MatchesText(string(body)) >= 0) {
		err = signature.ErrOtherAnswer
	}
	if err != nil {
		r.Reason, r.chinese = err.Error(), chineseOf(err)
	}
	r.OK = err == nil
	return r, nil
}

func chineseOf(err error) string {
	switch {
	case errors.Is(err, signature.ErrUnknownKey):
		return "签名所指的密钥不在所给的公钥之中"
	case errors.Is(err, signature.ErrAltered):
		return "签名与其陈述不符：其一被改动，或由另一密钥制作"
	case errors.Is(err, signature.ErrRevoked):
		return "签名所用密钥已被吊销：请按回执检索审计日志"
	case errors.Is(err, signature.ErrOtherAnswer):
		return "签名真实，但对应另一回答：有内容被改动、遗漏或增加"
	default:
		return "这不是已签名的结果"
	}
}

func (r answerResult) code() int { return exitCode(r.OK, true) }

func (r answerResult) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

// text is the report for people.
func (r answerResult) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if r.OK {
		line("OK: these are the texts and calls that were signed, byte for byte\n通过：这正是签名时的文字与调用，逐字节一致")
	} else {
		line("FAILED: %s\n未通过：%s", r.Reason, r.chinese)
	}
	if x := r.Statement; x != nil {
		line("signed by / 签名方: %s, %s", clean(x.Issuer), clean(x.Tenant))
		line("time / 时间: %s", time.UnixMicro(x.Time).UTC().Format("2006-01-02 15:04:05 UTC"))
		line("request / 请求: %s", clean(x.Request))
		line("receipt / 回执: %s", clean(x.Receipt))
		line("model / 模型: %s %s %s", clean(x.Model.Name), clean(x.Model.Version), clean(x.Model.Digest))
	}
	if r.OK {
		for _, a := range r.Statement.Answers {
			line("ended / 结束原因: %s", clean(a.Finish))
		}
	}
	line("key / 公钥: %s", clean(r.Key))
	return b.String()
}
