package main

import (
	"fmt"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/compliance"
)

// printReport says what a verification found, to people or to programs.
func (a *app) printReport(r audit.Report, asJSON bool) error {
	if asJSON {
		if err := printJSON(a.env.stdout, r); err != nil {
			return err
		}
	} else {
		a.sayReport(r)
	}
	if !r.OK {
		return errFindings
	}
	return nil
}

func (a *app) sayReport(r audit.Report) {
	line := func(english, chinese string, args ...any) {
		fmt.Fprintf(a.env.stdout, a.say(english, chinese)+"\n", args...)
	}
	if r.OK {
		line("OK: nothing was altered, removed, reordered or cut off", "通过：没有记录被更改、删除、调序或截断")
	} else {
		line("FAILED: problems found: %d", "未通过：发现问题 %d 个", len(r.Problems))
	}
	line("records %d (sealed %d, waiting %d, in the write-ahead log %d), checkpoint size %d, root %s",
		"记录 %d 条（已封存 %d，待封存 %d，预写日志中 %d），检查点覆盖 %d 条，树根 %s",
		r.Records, r.Sealed, r.Unsealed, r.WALRecords, r.CheckpointSize, r.Root)
	if r.UntilIndex != 0 {
		line("only the records from index %d to %d were checked", "仅校验了序号 %d 至 %d 的记录", r.FirstIndex, r.UntilIndex-1)
	}
	if r.Least > 0 {
		line("records below index %d were pruned, but for those that are kept; the tree over them was checked by its hashes",
			"序号 %d 之前的记录除应保留者外均已清理；其上的树以哈希校验", r.Least)
	}
	for _, w := range r.Witnessed {
		line("witness %s: cosigned up to record %d, at %s", "见证方 %s：已联署至第 %d 条记录，时间 %s", w.Witness, w.Size, w.Time.Format(time.RFC3339))
	}
	for _, p := range r.Problems {
		line("  %s", "  %s", a.describe(p))
	}
	for _, p := range r.Findings {
		line("  note, not a failure: %s", "  提示，并非失败：%s", a.describe(p))
	}
	if r.More {
		line("  and more of the same", "  以及更多同类问题")
	}
}

// describe puts a problem into one line, without the names it does not have. Its cause is in the words of the verifier, which a report in
// JSON and the management API have too.
func (a *app) describe(p audit.Problem) string {
	text := p.Kind
	if name := compliance.ProblemName(p.Kind, message.Chinese); name != "" {
		text = a.say(text, text+"（"+name+"）")
	}
	if p.Record != "" {
		text += a.say(", record ", "，记录 ") + p.Record
	}
	if p.Index >= 0 {
		text += fmt.Sprintf(a.say(", index %d", "，序号 %d"), p.Index)
	}
	return text + a.say(": ", "：") + p.Cause
}
