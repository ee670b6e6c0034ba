package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/erasure"
)

// eraseFlags say whom to erase, and how.
type eraseFlags struct {
	tenant, subject, again, ask, approval, certificate string
	list, preview, yes                                 bool
	remote                                             remoteFlags
}

func (a *app) eraseCommand() *cobra.Command {
	var f eraseFlags
	cmd := &cobra.Command{
		Use: "erase", Short: both("cli.erase.short"), Args: exactly(0),
		Long: message.Both("cli.erase.long", "\n"),
		Example: `  sluice audit erase --tenant demo --subject alice@example.com
  sluice audit erase --tenant demo --subject alice@example.com --preview
  sluice audit erase --tenant demo --subject alice@example.com --yes --certificate alice.json
  sluice audit erase --list > erasures.jsonl
  sluice audit erase --again erasures.jsonl --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.eraseAs(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.tenant, "tenant", "", both("cli.erase.tenant"))
	cmd.Flags().StringVar(&f.subject, "subject", "", both("cli.erase.subject"))
	cmd.Flags().BoolVar(&f.preview, "preview", false, both("cli.erase.preview"))
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, both("cli.erase.yes"))
	cmd.Flags().StringVar(&f.ask, "ask", "", both("cli.erase.ask"))
	cmd.Flags().StringVar(&f.approval, "approval", "", both("cli.shared.approval"))
	cmd.Flags().StringVar(&f.certificate, "certificate", "", both("cli.erase.certificate"))
	cmd.Flags().BoolVar(&f.list, "list", false, both("cli.erase.list"))
	cmd.Flags().StringVar(&f.again, "again", "", both("cli.erase.again"))
	f.remote.register(cmd, a.env)
	cmd.MarkFlagsMutuallyExclusive("preview", "ask", "approval")
	cmd.MarkFlagsMutuallyExclusive("preview", "yes")
	cmd.MarkFlagsMutuallyExclusive("preview", "certificate")
	return cmd
}

// check refuses flags that do not go together.
func (f eraseFlags) check() error {
	chosen := 0
	for _, set := range []bool{f.subject != "", f.again != "", f.list} {
		if set {
			chosen++
		}
	}
	if chosen != 1 || f.subject != "" && f.tenant == "" {
		return usageError{errors.New("want --tenant with --subject, or --list, or --again")}
	}
	if f.subject == "" && (f.preview || f.ask != "" || f.approval != "" || f.certificate != "") {
		return usageError{errors.New("--preview, --ask, --approval and --certificate go with --subject")}
	}
	return nil
}

func (a *app) eraseAs(ctx context.Context, f eraseFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	cfg, log, err := a.site()
	if err != nil {
		return err
	}
	switch {
	case f.list:
		erasures, err := server.Erasures(ctx, cfg, f.tenant, log)
		if err != nil {
			return err
		}
		return adminapi.WriteErasures(a.env.stdout, erasures)
	case f.again != "":
		return a.eraseAgain(ctx, cfg, f, log)
	case f.ask != "":
		return a.askToErase(ctx, f)
	}
	return a.erasePerson(ctx, cfg, f, log)
}

// eraseAgain reads the whole list before it erases anything.
func (a *app) eraseAgain(ctx context.Context, cfg *config.Config, f eraseFlags, log *slog.Logger) error {
	list, err := os.ReadFile(f.again)
	if err != nil {
		return err
	}
	erasures, err := adminapi.ParseErasures(list)
	if err != nil {
		return err
	}
	if err := a.confirm(f.yes, fmt.Sprintf(a.say("Erase %d persons again?", "重新擦除 %d 人？"), len(erasures))); err != nil {
		return err
	}
	return server.EraseAgain(ctx, cfg, erasures, a.erased, log)
}

func (a *app) askToErase(ctx context.Context, f eraseFlags) error {
	var asked adminapi.ErasureApproval
	in := adminapi.NewErasureApproval{Tenant: &f.tenant, Subject: &f.subject, Reason: f.ask}
	if err := a.ask(ctx, f.remote, http.MethodPost, "/audit/erasures/approvals", in, &asked); err != nil {
		return err
	}
	fmt.Fprintf(a.env.stderr, a.say("It waits until %s for somebody else: sluice approval give --erasures %s\n", "请在 %s 前由他人批准：sluice approval give --erasures %s\n"),
		asked.ExpiresAt.Format(time.RFC3339), asked.Id)
	fmt.Fprintln(a.env.stdout, asked.Id)
	return nil
}

func (a *app) erasePerson(ctx context.Context, cfg *config.Config, f eraseFlags, log *slog.Logger) error {
	p, err := server.PreviewErasure(ctx, cfg, f.tenant, f.subject, log)
	if err != nil {
		return err
	}
	if f.preview || !f.yes {
		a.previewed(p)
	}
	if f.preview {
		return nil
	}
	if len(p.Holds) == 0 || f.approval != "" {
		if err := a.confirm(f.yes, a.say("What goes cannot be had back. Erase?", "擦除后无法恢复。确定擦除？")); err != nil {
			return err
		}
	}
	var done erasure.Result
	if f.approval != "" {
		done, err = a.eraseApproved(ctx, f)
	} else {
		done, err = server.Erase(ctx, cfg, f.tenant, f.subject, log)
	}
	if err == nil || fault.Is(err, fault.CodeErasureIncomplete) {
		a.erased(done)
	}
	if err != nil || f.certificate == "" {
		return err
	}
	return a.prove(ctx, cfg, done.Certificate, f.certificate, log)
}

// eraseApproved erases as the account that has asked for the approval.
func (a *app) eraseApproved(ctx context.Context, f eraseFlags) (erasure.Result, error) {
	var e adminapi.Erasure
	in := adminapi.NewErasure{Tenant: &f.tenant, Subject: &f.subject, Approval: &f.approval}
	if err := a.ask(ctx, f.remote, http.MethodPost, "/audit/erasures", in, &e); err != nil {
		return erasure.Result{}, err
	}
	return adminapi.ErasureOf(e), nil
}

// confirm asks whether to go on, unless that was answered by a flag. What is no clear yes is a no.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(a.env.stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(a.env.stdin).ReadString('\n')
	if !isTerminal(a.env.stdin) { // where nobody has pressed a key, the line has not ended
		fmt.Fprintln(a.env.stderr)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return errors.New(a.say("nothing was done: it was not confirmed (--yes confirms it)", "未执行任何操作：未获确认（可用 --yes 确认）"))
	}
	return nil
}

// previewed says what would go and what would stay.
func (a *app) previewed(p erasure.Preview) {
	out := a.env.stdout
	fmt.Fprintf(out, a.say("person %s of tenant %s: %s records", "租户 %[2]s 的人员 %[1]s：审计记录 %[3]s 条"), p.Subject, p.Tenant, atMost(p.Records))
	if p.Newest != 0 {
		fmt.Fprintf(out, a.say(", the newest of %s", "，最近一条 %s"), stamp(p.Newest))
	}
	fmt.Fprintln(out)
	fmt.Fprintln(out, a.say("would go:", "将擦除："))
	fmt.Fprintf(out, a.say("  %d keys with %d kept prompts and answers\n  %d values of pseudonyms in %d conversations\n  the tenant's part of engine caches\n",
		"  密钥 %d 个，留存的提示词与回答 %d 段\n  假名原值 %d 个（会话 %d 个）\n  该租户的引擎缓存\n"), p.Goes.Keys, p.Goes.Contents, p.Goes.Values, p.Goes.Conversations)
	a.stays(a.say("would stay:", "仍会保留："), p.Remainders)
	if len(p.Holds) > 0 {
		fmt.Fprintln(out, a.say("held, so that it is refused (see --ask):", "以下法律保全阻止擦除（参见 --ask）："))
	}
	for _, h := range p.Holds {
		fmt.Fprintf(out, a.say("  %s: %s (%s records, such as %s)\n", "  %s：%s（记录 %s 条，例如 %s）\n"), h.Hold.ID, h.Hold.Reason, atMost(h.Records), strings.Join(append(h.Examples, "…"), ", "))
	}
}

// atMost is a count of records, which ends at 10000.
func atMost(n int64) string {
	if n >= 10_000 {
		return "10000+"
	}
	return fmt.Sprint(n)
}

func (a *app) stays(title string, stays []erasure.Remainder) {
	if len(stays) == 0 {
		return
	}
	fmt.Fprintln(a.env.stdout, title)
	for _, s := range stays {
		text := a.why(s.Code)
		if s.Count > 0 {
			text += fmt.Sprintf(a.say(" (%s)", "（%s）"), atMost(s.Count))
		}
		if s.Until != 0 {
			text += fmt.Sprintf(a.say(", until %s", "，至 %s"), stamp(s.Until))
		}
		fmt.Fprintln(a.env.stdout, "  "+text)
	}
}

// why says what stays, and why.
func (a *app) why(code string) string {
	switch code {
	case erasure.StaysRecords:
		return a.say("audit records: they prove what happened, and hold identifiers, digests and counts", "审计记录：用于证明发生过的事，仅含标识、摘要与计数")
	case erasure.StaysTexts:
		return a.say("kept prompts and answers: erase the person for these", "留存的提示词与回答：需擦除人员")
	case erasure.StaysDocuments:
		return a.say("documents of knowledge bases: whoever put them there is responsible for them", "知识库文档：由上传者负责")
	case erasure.StaysOthers:
		return a.say("what others wrote about the person in conversations of their own: nobody can tell it", "他人在自己会话中写到此人的内容：无法识别")
	case erasure.StaysUnattributed:
		return a.say("values kept without knowing of whom, such as those of before this release", "无法归属到人的假名原值（例如升级前保存的）")
	case erasure.StaysReplicas:
		return a.say("write-ahead logs and caches of other servers of this installation, if there are any, until they next seal or start", "本安装其他服务器（如有）的预写日志与缓存，直至其下次封存或启动")
	case erasure.StaysPages:
		return a.say("encrypted copies in free pages of the database, until these are used again", "数据库空闲页中的加密副本，直至该页被重新使用")
	case erasure.StaysLog:
		return a.say("encrypted copies in the write-ahead log of the database, its archive and replicas, until these are recycled", "数据库预写日志、其归档与副本中的加密副本，直至被回收")
	case erasure.StaysSpill:
		return a.say("in the engine's spill file, what was computed from prompts, encrypted under a key that is in memory only, until its place is used again",
			"引擎溢出文件中由提示计算所得的数据，以仅存于内存的密钥加密，直至其位置被重新使用")
	case erasure.StaysBackups:
		return a.say("backups made before, and archives: erase again after a restore", "此前的备份与归档：恢复后请重新擦除")
	case erasure.StaysRemote:
		return a.say("what remote engines and their caches hold: it is theirs to erase", "远程引擎及其缓存所持有的内容：由其运营方擦除")
	case erasure.StaysCallers:
		return a.say("what applications and their users got", "应用及其用户已取得的内容")
	default:
		return code
	}
}

func (a *app) erased(r erasure.Result) {
	fmt.Fprintf(a.env.stdout, a.say("erased: %d keys, %d texts, %d values of %d conversations\n", "已擦除：密钥 %d 个，文本 %d 段，假名原值 %d 个（会话 %d 个）\n"),
		r.Gone.Keys, r.Gone.Contents, r.Gone.Values, r.Gone.Conversations)
	if r.Certificate != "" {
		fmt.Fprintf(a.env.stdout, a.say("certificate: record %s\n", "擦除证明：记录 %s\n"), r.Certificate)
	}
	a.stays(a.say("stays:", "仍保留："), r.Stays)
	if o := r.Override; o != nil {
		fmt.Fprintf(a.env.stdout, a.say("past the holds %s, approved by %s (%s)\n", "越过保全 %s，由 %s 批准（%s）\n"), strings.Join(o.Holds, ", "), o.ApprovedBy, o.Approval)
	}
	if r.Gone == (erasure.Figures{}) {
		fmt.Fprintln(a.env.stderr, a.say("nothing was kept of this person; is the name right, and the tenant?", "未留存此人的内容，请核对名称与租户"))
	}
}
