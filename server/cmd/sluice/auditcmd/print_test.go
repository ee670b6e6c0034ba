package auditcmd

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/seal"
	"github.com/sluice-project/sluice/audit/verify"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
	"github.com/sluice-project/sluice/server/erasure"
)

// said returns what print writes to stdout and stderr in a language.
func said(lang string, print func(a *app)) string {
	var out bytes.Buffer
	print(&app{&cli.App{Stdout: &out, Stderr: &out, Environ: []string{"SLUICE_LANG=" + lang}}})
	return out.String()
}

// TestAuditCommandsSpeakBothLanguages: what the audit commands print for people, word by word.
func TestAuditCommandsSpeakBothLanguages(t *testing.T) {
	t.Parallel()
	report := func(a *app) {
		err := a.printReport(verify.Report{
			Records: 9, Sealed: 8, Unsealed: 1, WALRecords: 2, CheckpointSize: 8, Root: "ab", Least: 3, FirstIndex: 4, UntilIndex: 8,
			Witnessed: []seal.Witnessed{{Witness: "w.example", Size: 7, Time: time.Unix(0, 0).UTC()}},
			Problems:  []verify.Problem{{Kind: "leaf", Record: "r1", Index: 5, Cause: "the payload differs"}, {Kind: "new", Index: -1, Cause: "x"}},
			Findings:  []verify.Problem{{Kind: "torn", Index: -1, Cause: "cut"}}, More: true,
		}, false)
		if !errors.Is(err, cli.ErrFindings) {
			t.Error(err)
		}
	}
	sound := func(a *app) {
		if err := a.printReport(verify.Report{OK: true}, false); err != nil {
			t.Error(err)
		}
	}
	currency, hours, mended := "CNY", int64(48), int64(1)
	finding := func(kind, item string, detail map[string]string) adminapi.ReconciliationFinding {
		return adminapi.ReconciliationFinding{Kind: kind, Item: item, Tenant: "bank", FirstSeen: time.Unix(0, 0).UTC(), Detail: detail}
	}
	reconciled := func(a *app) {
		err := a.printReconciliation(adminapi.Reconciliation{
			Hours: &hours, Repaired: &mended, Currency: &currency, Open: map[string]int64{"sums": 1, "unbooked": 2},
			Items: []adminapi.ReconciliationFinding{
				finding("sums", "h/bank", map[string]string{"books_cost": "1500000001", "records_cost": "0", "books_requests": "2"}),
				finding("unbooked", "w/7", map[string]string{"code": "invalid_value", "time": "1000000"}),
			},
		}, false)
		if !errors.Is(err, cli.ErrFindings) {
			t.Error(err)
		}
	}
	pruning := audit.Pruning{First: 0, Until: 256, Kept: 6, Oldest: 0, Newest: 1_000_000, Archive: "audit-0-256.zip", Digest: "cd", Unseen: 4}
	hold := retention.Hold{Tenant: "demo", Request: "q", Actor: "k", From: 1_000_000, To: 2_000_000}
	released := retention.Hold{Released: 1}
	for name, c := range map[string]struct {
		print            func(a *app)
		english, chinese string
	}{
		"verify": {report, `FAILED: problems found: 2
records 9 (sealed 8, waiting 1, in the write-ahead log 2), checkpoint size 8, root ab
only the records from index 4 to 7 were checked
records below index 3 were pruned, but for those that are kept; the tree over them was checked by its hashes
witness w.example: cosigned up to record 7, at 1970-01-01T00:00:00Z
  leaf, record r1, index 5: the payload differs
  new: x
  note, not a failure: torn: cut
  and more of the same
`, `未通过：发现问题 2 个
记录 9 条（已封存 8，待封存 1，预写日志中 2），检查点覆盖 8 条，树根 ab
仅校验了序号 4 至 7 的记录
序号 3 之前的记录除应保留者外均已清理；其上的树以哈希校验
见证方 w.example：已联署至第 7 条记录，时间 1970-01-01T00:00:00Z
  leaf（记录被改动），记录 r1，序号 5：the payload differs
  new：x
  提示，并非失败：torn（未完成的写入）：cut
  以及更多同类问题
`},
		"verify, sound": {sound, `OK: nothing was altered, removed, reordered or cut off
records 0 (sealed 0, waiting 0, in the write-ahead log 0), checkpoint size 0, root 
`, `通过：没有记录被更改、删除、调序或截断
记录 0 条（已封存 0，待封存 0，预写日志中 0），检查点覆盖 0 条，树根 
`},
		"reconcile": {reconciled, `compared 48 hours, mended 1, open findings: 3
  sums, tenant bank, since 1970-01-01T00:00:00Z: the books and the records of "h/bank" do not sum up to the same (books cost 1.500000001 CNY, books requests 2, records cost 0 CNY)
  unbooked, tenant bank, since 1970-01-01T00:00:00Z: the ledger refuses the usage of record "w/7" (code invalid_value, time 1970-01-01T00:00:01Z)
  and more of the same
`, `已比对 48 个小时，修复 1 处，未解决的问题：3
  sums，租户 bank，始于 1970-01-01T00:00:00Z："h/bank" 的账目与记录合计不一致（账目费用 1.500000001 CNY，账目请求数 2，记录费用 0 CNY）
  unbooked，租户 bank，始于 1970-01-01T00:00:00Z：账本拒绝记录 "w/7" 的用量（账本答复 invalid_value，时间 1970-01-01T00:00:01Z）
  以及更多同类问题
`},
		"erase": {
			func(a *app) {
				a.erased(erasure.Result{
					Gone: erasure.Figures{Keys: 2, Contents: 3, Values: 4, Conversations: 1}, Record: "r", Certificate: "c", Stays: []erasure.Remainder{{Code: "records", Count: 10_000}, {Code: "backups"}},
					Override: &erasure.Override{Approval: "a1", ApprovedBy: "boss", Holds: []string{"h1", "h2"}},
				})
			},
			`erased: 2 keys, 3 texts, 4 values of 1 conversations
certificate: record c
stays:
  audit records: they prove what happened, and hold identifiers, digests and counts (10000+)
  backups made before, and archives: erase again after a restore
past the holds h1, h2, approved by boss (a1)
`, `已擦除：密钥 2 个，文本 3 段，假名原值 4 个（会话 1 个）
擦除证明：记录 c
仍保留：
  审计记录：用于证明发生过的事，仅含标识、摘要与计数（10000+）
  此前的备份与归档：恢复后请重新擦除
越过保全 h1, h2，由 boss 批准（a1）
`,
		},
		"erase, nothing kept": {
			func(a *app) { a.erased(erasure.Result{Record: "r"}) },
			"erased: 0 keys, 0 texts, 0 values of 0 conversations\nnothing was kept of this person; is the name right, and the tenant?\n",
			"已擦除：密钥 0 个，文本 0 段，假名原值 0 个（会话 0 个）\n未留存此人的内容，请核对名称与租户\n",
		},
		"erase, preview": {
			func(a *app) {
				a.previewed(erasure.Preview{
					Tenant: "demo", Subject: "ab12", Goes: erasure.Figures{Keys: 1, Contents: 2, Values: 3, Conversations: 4}, Records: 12_000, Newest: 1_000_000,
					Remainders: []erasure.Remainder{{Code: "unattributed", Count: 5, Until: 2_000_000}, {Code: "callers"}},
					Holds:      []retention.Covered{{Hold: retention.Hold{ID: "h1", Reason: "case 17"}, Records: 7, Examples: []string{"r1", "r2"}}},
				})
			},
			`person ab12 of tenant demo: 10000+ records, the newest of 1970-01-01T00:00:01Z
would go:
  1 keys with 2 kept prompts and answers
  3 values of pseudonyms in 4 conversations
  the tenant's part of engine caches
would stay:
  values kept without knowing of whom, such as those of before this release (5), until 1970-01-01T00:00:02Z
  what applications and their users got
held, so that it is refused (see --ask):
  h1: case 17 (7 records, such as r1, r2, …)
`, `租户 demo 的人员 ab12：审计记录 10000+ 条，最近一条 1970-01-01T00:00:01Z
将擦除：
  密钥 1 个，留存的提示词与回答 2 段
  假名原值 3 个（会话 4 个）
  该租户的引擎缓存
仍会保留：
  无法归属到人的假名原值（例如升级前保存的）（5），至 1970-01-01T00:00:02Z
  应用及其用户已取得的内容
以下法律保全阻止擦除（参见 --ask）：
  h1：case 17（记录 7 条，例如 r1, r2, …）
`,
		},
		"prune": {
			func(a *app) { a.pruned(a.Say("cli.prune.pruned"), pruning) },
			"4 records wait for the witnesses (audit.witnesses), which have not cosigned them\n" +
				"pruned: 250 records, index 0 to 255, of 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z; 6 stay; archive audit-0-256.zip, sha256 cd\n",
			"4 条记录等待见证方（audit.witnesses）联署\n" +
				"已清理：250 条记录，序号 0 至 255，时间 1970-01-01T00:00:00Z 至 1970-01-01T00:00:01Z；留下 6 条；归档 audit-0-256.zip，sha256 cd\n",
		},
		"prune, nothing due": {func(a *app) { a.pruned(a.Say("cli.prune.due"), audit.Pruning{}) }, "due: nothing\n", "到期：无\n"},
		"hold": {
			func(a *app) { a.sayHold(hold) },
			"held: records of tenant demo, request q, actor k, from 1970-01-01T00:00:01Z, before 1970-01-01T00:00:02Z stay until the hold is released, " +
				"and what is kept of these persons is not erased; what was pruned before is in the archives\n",
			"已保全（租户 demo，请求 q，操作者 k，自 1970-01-01T00:00:01Z，早于 1970-01-01T00:00:02Z）：解除之前，所选记录不会被清理，所涉人员的留存内容不会被擦除；此前已清理的记录在归档中\n",
		},
		"hold, released": {
			func(a *app) { a.sayHold(released) },
			"released: what only this hold kept of all tenants goes at the next pruning\n", "已解除（所有租户）：仅因此保全而留下的记录将在下次清理时移除\n",
		},
	} {
		for lang, want := range map[string]string{"en": c.english, "zh": c.chinese} {
			if got := said(lang, c.print); got != want {
				t.Errorf("%s, %s:\n%s\nwant:\n%s", name, lang, got, want)
			}
		}
	}
}

// TestHoldTellsPeopleOnStderr: stdout of the command is for programs.
func TestHoldTellsPeopleOnStderr(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	a := &app{&cli.App{Stdout: &out, Stderr: &errOut}}
	a.sayHold(retention.Hold{Tenant: "demo"})
	if out.Len() != 0 || !strings.HasPrefix(errOut.String(), "held: records of tenant demo stay") {
		t.Errorf("%q, %q", out.String(), errOut.String())
	}
}
