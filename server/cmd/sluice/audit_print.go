package main

import (
	"fmt"
	"time"

	"github.com/sluice-project/sluice/audit"
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
	if name := problemName(p.Kind); name != "" {
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

// problemName is what a kind of problem is called in Chinese, as in the console; "" for one that has no name.
func problemName(kind string) string {
	return map[string]string{
		"payload": "内容不可读", "column": "检索列被改动", "leaf": "记录被改动", "tree": "树哈希被改动", "root": "树根不符", "fork": "存在两份历史",
		"truncated": "尾部被截断", "checkpoint": "检查点无效", "cosignature": "联署无效", "gap": "位置为空", "missing": "记录被删除", "extra": "记录被添加",
		"sequence": "序号中断", "wal": "预写日志损坏", "storage": "数据库文件损坏或被改动", "usage": "已入账用量与记录不符", "content": "留存文本缺失或被更改",
		"pruning": "清理未获记录证实", "early": "记录提前清理", "vault": "应保留的记录缺失", "archive": "归档缺失或被更改", "unfinished": "请求缺少结果", "unbooked": "用量未入账",
		"torn": "未完成的写入", "unpinned": "数据库之外没有检查点",
	}[kind]
}
