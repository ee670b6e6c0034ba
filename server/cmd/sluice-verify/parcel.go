package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/governance/signature"
)

// parcelResult is the report on the export of a tenant or on the evidence of a verdict, with the key that it rests on.
type parcelResult struct {
	evidence.ParcelReport
	Provenance *evidence.Provenance `json:"provenance,omitempty"` // of the evidence of a verdict

	Key      string `json:"key"`
	KeyGiven bool   `json:"key_given"` // false: it is the one inside the file
}

// checkParcel checks the export of a tenant, with the key inside if none is given.
func checkParcel(f io.ReaderAt, size int64, key, inside string, witnesses checkpoint.Witnesses) (outcome, error) {
	given := key != ""
	if !given {
		key = inside
	}
	verifier, err := checkpoint.NewVerifier(key)
	if err != nil && !given {
		return parcelResult{ParcelReport: evidence.ParcelReport{Problems: []evidence.Problem{{Kind: "key", Index: -1, Cause: err.Error()}}}}, nil
	}
	if err != nil {
		return nil, err
	}
	r := parcelResult{Key: key, KeyGiven: given}
	if r.ParcelReport, err = evidence.VerifyParcel(f, size, verifier); err != nil || !r.OK {
		return r, err
	}
	if r.Manifest.Kind != evidence.ProvenanceKind {
		if len(witnesses.Names()) > 0 {
			return nil, errors.New("--witness is for files with a checkpoint, and this has none / --witness 用于带检查点的文件")
		}
		return r, nil
	}
	p, err := evidence.VerifyProvenance(f, size, verifier, witnesses, inspect, &r.ParcelReport)
	r.Provenance = &p
	return r, err
}

// inspect checks the signature of a result.
func inspect(subject []byte, beside string, keySet []byte) (evidence.ProvenanceSigned, error) {
	x, err := signature.Inspect(subject, beside, keySet)
	return evidence.ProvenanceSigned(x), err
}

func (r parcelResult) code() int { return exitCode(r.OK, r.KeyGiven) }

func (r parcelResult) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

// text is the report for people.
func (r parcelResult) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict(line, r.code(), r.Problems, subject{
		proven:  "every file is as the owner of the log has signed it\n通过：每个文件均与日志所有者签名时一致",
		english: "file", chinese: "文件",
	})
	if m := r.Manifest; m.Format != "" {
		line("log / 日志: %s", clean(m.Origin))
		line("%s / 租户: %s, %s", clean(m.Kind), clean(m.About["tenant"]), m.Time.Format("2006-01-02 15:04:05 UTC"))
		line("files / 文件: %d", len(m.Files))
		line("manifest / 清单: sha256 %s", r.Digest)
	}
	if p := r.Provenance; p != nil && r.OK {
		line("the installation states / 该安装的陈述: %s", conclusion(p.Conclusion))
		line("text in question / 核验文本: sha256 %s", clean(p.Subject))
		line("signature of the result / 结果签名: %s", signed(p.Signature))
		line("proven records / 已证明的记录: %d", len(p.Records))
		for _, e := range p.Records {
			line("record / 记录: %s", clean(e.ID))
			told(line, e)
		}
	}
	for _, key := range strings.Fields(r.Key) {
		line("key / 公钥: %s", clean(key))
	}
	return b.String()
}

// signed says what was found of the signature inside, with the keys inside.
func signed(s evidence.ProvenanceSigned) string {
	switch {
	case s.State == signature.Authentic && s.Covers:
		return "checked here: authentic, of exactly this text, request / 已在此校验：真实，正是这段文本的签名，请求 " + clean(s.Request)
	case s.State == signature.Authentic:
		return "checked here: authentic, and not of these bytes, request / 已在此校验：真实，但并非对这些字节的签名，请求 " + clean(s.Request)
	case s.State == signature.Unsigned:
		return "none / 无"
	case s.State == signature.Altered:
		return "checked here: altered or made up, as the statement says / 已在此校验：被改动或伪造，与陈述一致"
	case s.State == signature.UnknownKey:
		return "by a key that is not among those inside, as the statement says / 所用密钥不在文件所附公钥之中，与陈述一致"
	case s.State == signature.Revoked:
		return "by a key that has been revoked, as the statement says / 所用密钥已被吊销，与陈述一致"
	default:
		return "it cannot be read, as the statement says / 无法读取，与陈述一致"
	}
}

// conclusion says what a verdict on the origin of a text concludes.
func conclusion(code string) string {
	switch code {
	case "unchanged":
		return "the installation delivered exactly this text / 该安装输出的正是这段文本"
	case "derived":
		return "most of the text, or all of it, stands in an answer of the installation; this does not say which was written first / 文本的大部分或全部见于该安装的某一回答，但不表明孰先写成"
	case "wording":
		return "the wording of a model of the tenant; the answer is not known / 行文用词出自该租户的模型，具体回答不详"
	case "other_text":
		return "an authentic signature came with it, and is of another text / 所附签名真实，但属于另一文本"
	case "contradictory":
		return "the marks contradict each other: something was altered, made up or moved / 各标记相互矛盾：有被改动、伪造或移用者"
	case "nothing_found", "too_little":
		return "nothing was found, or nothing could be judged; this proves nothing / 未发现或无法判断，不构成证明"
	case "hint", "labelled_here", "labelled_away":
		return clean(code) + ": nothing proves that the text comes from the installation / 不足以证明该文本出自该安装"
	default:
		return clean(code)
	}
}
