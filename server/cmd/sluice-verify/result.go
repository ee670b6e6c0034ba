package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/sluice-project/sluice/audit/evidence"
)

// result is a report with the key that it rests on.
type result struct {
	evidence.BundleReport
	Key      string `json:"key"`
	KeyGiven bool   `json:"key_given"` // false: it is the one inside the bundle
}

// broken is the result for a bundle that does not even give a key.
func broken(err error) result {
	return result{BundleReport: evidence.BundleReport{
		Cosignatures: []evidence.Cosignature{},
		Problems:     []evidence.Problem{{Kind: "zip", Index: -1, Cause: err.Error()}},
	}}
}

func (r result) code() int { return exitCode(r.OK, r.KeyGiven) }

func exitCode(ok, given bool) int {
	switch {
	case !ok:
		return exitProblems
	case !given:
		return exitConsistent
	default:
		return exitProven
	}
}

func (r result) print(w io.Writer, asJSON bool) error { return show(w, asJSON, r, r.text) }

func show(w io.Writer, asJSON bool, r any, text func() string) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	_, err := io.WriteString(w, text())
	return err
}

// subject is what was verified: what is proven of it, and what it is called.
type subject struct{ proven, english, chinese string }

// verdict writes how a verification ended, and what was found.
func verdict(line func(format string, args ...any), code int, problems []evidence.Problem, of subject) {
	switch code {
	case exitProven:
		line("OK: %s", of.proven)
	case exitConsistent:
		line("CONSISTENT, but with the key inside the %s: this does not show who made it. Compare the key with the one that the owner of the log"+
			" publishes, or give that one with --key\n自洽，但只用了%s内的公钥：这不能说明由谁制作。请与日志所有者公布的公钥比对，或用 --key 给出", of.english, of.chinese)
	default:
		line("FAILED: problems found: %d\n未通过：发现问题 %d 个", len(problems), len(problems))
	}
	for _, p := range problems {
		line("  %s", problem(p))
	}
}

// text is the report for people. What comes from the bundle is cleaned, as a terminal obeys what it is shown.
func (r result) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	verdict(line, r.code(), r.Problems, subject{
		proven:  "every record is one that the log sealed, unchanged and at its place\n通过：每条记录都由日志封存，未经改动，位置正确",
		english: "bundle", chinese: "包",
	})
	if r.More {
		line("  and more of the same / 以及更多同类问题")
	}
	if r.Manifest.Format != "" {
		r.scope(line)
	}
	for _, key := range strings.Fields(r.Key) {
		line("key / 公钥: %s", clean(key))
	}
	return b.String()
}

func (r result) scope(line func(string, ...any)) {
	m := r.Manifest
	line("log / 日志: %s", clean(m.Origin))
	line("records / 记录: %d (proven / 已证明: %d), index / 序号 %d–%d", r.Records, r.Proven, m.First, m.Last)
	line("checkpoint / 检查点: %d records / 条, root / 树根 %s", r.Size, clean(r.Root))
	for _, c := range r.Cosignatures {
		line("cosigned / 联署: %s, %s", clean(c.Witness), c.Time.Format("2006-01-02 15:04:05 UTC"))
	}
	switch {
	case r.Filtered:
		line("A selection (tenant %q): it cannot show by itself that nothing was left out\n这是筛选的结果（租户 %q）：它本身不能证明没有遗漏", m.Tenant, m.Tenant)
	case r.Complete:
		line("Complete: all records of the log from index %d to the checkpoint\n完整：日志中自序号 %d 至检查点的全部记录", m.Least, m.Least)
	case r.OK:
		line("Complete in its range: all records of the log from index %d up to, but not including, %d\n区间完整：日志中自序号 %d 至 %d（不含）的全部记录", m.Least, m.Until, m.Least, m.Until)
	}
}

// problem puts a problem into one line, without the names it does not have.
func problem(p evidence.Problem) string {
	text := p.Kind + " / " + chinese(p.Kind)
	if p.Record != "" {
		text += ", record / 记录 " + p.Record
	}
	if p.Index >= 0 {
		text += fmt.Sprintf(", index / 序号 %d", p.Index)
	}
	return clean(text + ": " + p.Cause)
}

func chinese(kind string) string {
	switch kind {
	case "zip":
		return "压缩包"
	case "signature":
		return "清单签名"
	case "manifest":
		return "清单"
	case "file":
		return "文件"
	case "checkpoint":
		return "检查点"
	case "cosignature":
		return "联署"
	case "tree":
		return "树哈希"
	case "line":
		return "行"
	case "record":
		return "记录不可读"
	case "order":
		return "顺序"
	case "gap":
		return "缺失"
	case "scope":
		return "范围"
	case "inclusion":
		return "收录证明"
	case "table":
		return "表格"
	case "count":
		return "数量"
	case "proof":
		return "证明"
	case "key":
		return "公钥"
	default:
		return kind
	}
}

func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
