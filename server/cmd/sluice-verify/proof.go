package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/record"
)

// proofResult is the report on the proof of a record, with the key that it rests on.
type proofResult struct {
	evidence.ProofReport
	Key      string `json:"key"`
	KeyGiven bool   `json:"key_given"` // false: it is the one inside the file
}

// brokenProof is the result for a file that cannot be read as a proof.
func brokenProof(kind string, err error) proofResult {
	return proofResult{ProofReport: evidence.ProofReport{
		Index: -1, Cosignatures: []evidence.Cosignature{}, Problems: []evidence.Problem{{Kind: kind, Index: -1, Cause: err.Error()}},
	}}
}

func (r proofResult) code() int { return exitCode(r.OK, r.KeyGiven) }

func (r proofResult) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

// text is the report for people.
func (r proofResult) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict(line, r.code(), r.Problems, subject{
		proven:  "the record is one that the log sealed, unchanged and at its place\n通过：该记录由日志封存，未经改动，位置正确",
		english: "file", chinese: "文件",
	})
	if r.Event != nil {
		line("log / 日志: %s", clean(r.Origin))
		line("checkpoint / 检查点: %d records / 条, root / 树根 %s", r.Size, clean(r.Root))
		for _, c := range r.Cosignatures {
			line("cosigned / 联署: %s, %s", clean(c.Witness), c.Time.Format("2006-01-02 15:04:05 UTC"))
		}
		if r.Unchecked > 0 {
			line("signatures not checked, since their keys were not given (--witness) / 未给出公钥而未校验的签名: %d", r.Unchecked)
		}
		line("record / 记录: %s, index / 序号 %d", clean(r.ID), r.Index)
		told(line, *r.Event)
	}
	for _, key := range strings.Fields(r.Key) {
		line("key / 公钥: %s", clean(key))
	}
	return b.String()
}

// told prints what a record says, field by field. What is empty is left out, and so is the signature that a record of a removal has for verifiers.
func told(line func(string, ...any), e record.Event) {
	say := func(english, chinese, value string) {
		if value != "" {
			line("  %s / %s: %s", english, chinese, clean(value))
		}
	}
	say("time", "时间", time.UnixMicro(e.Time).UTC().Format("2006-01-02 15:04:05.000000 UTC"))
	say("tenant", "租户", e.Tenant)
	say("action", "操作", e.Action)
	say("stage", "阶段", string(e.Stage))
	say("actor", "操作者", strings.TrimSpace(strings.Join([]string{e.Actor.Kind, e.Actor.Name, e.Actor.ID}, " ")))
	say("on behalf of", "代表", e.Actor.OnBehalfOf)
	say("about", "对象", e.Resource)
	say("request", "请求", e.Request)
	say("model", "模型", strings.TrimSpace(e.Model.Asked+" "+e.Model.Version))
	say("decision", "决定", e.Decision)
	say("outcome", "结果", strings.TrimSpace(e.Outcome+" "+e.ErrorCode))
	for _, f := range e.Findings {
		say("found", "发现", fmt.Sprintf("%s %s %s × %d", f.Direction, f.Class, f.Action, f.Count))
	}
	for _, k := range slices.Sorted(maps.Keys(e.Detail)) {
		if k != "warrant" {
			say(clean(k), label(k), e.Detail[k])
		}
	}
}

// label is the Chinese name of a detail: those of erasures are certificates, which people read.
func label(detail string) string {
	switch detail {
	case "keys":
		return "已销毁密钥（个）"
	case "contents":
		return "已擦除文本（段）"
	case "values":
		return "已擦除假名原值（个）"
	case "conversations":
		return "涉及会话（个）"
	case "records":
		return "保留的审计记录（条）"
	case "stays":
		return "仍保留的内容"
	case "holds":
		return "所涉法律保全"
	case "approval":
		return "批准编号"
	case "approved_by":
		return "批准人"
	case "time":
		return "截止时间（微秒）"
	case "reason":
		return "理由"
	default:
		return "详情"
	}
}
