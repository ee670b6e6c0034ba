package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/compliance"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "Verify the audit log / 校验审计日志"}
	cmd.AddCommand(
		a.verifyCommand(), a.verifierKeyCommand(), a.exportCommand(), a.proofCommand(), a.reconcileCommand(), a.eraseCommand(), a.pruneCommand(), a.holdCommand(), a.adoptCommand(), a.witnessCommand(),
	)
	return cmd
}

func (a *app) verifyCommand() *cobra.Command {
	var v server.Verification
	var asJSON bool
	var out string
	cmd := &cobra.Command{
		Use: "verify", Short: "Check every record, the tree and the checkpoints / 校验每条记录、树与检查点", Args: exactly(0),
		Long: `Works on a running and on a stopped installation and changes nothing. Exit code 3: problems were found.
With --from-index or --to-index only these records are checked, and that they, with all before them, are what the newest checkpoint covers.
With --key the checkpoints are verified with that key alone, so an auditor need not trust the installation's own.
With --report the result is also written for the files, as PDF, DOCX or Markdown, in the language of the command.
可在运行中或停止的安装上执行，不做任何更改。退出码 3 表示发现问题。给出 --key 时仅用该公钥校验检查点，审计人员无需信任本安装自身的密钥。给出 --from-index 或 --to-index 时仅校验该区间，以及其与之前的记录正是最新检查点所覆盖的内容。使用 --report 时，结果同时写成可归档的报告（PDF、DOCX 或 Markdown），语言与命令一致。`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := indexRange(cmd, &v); err != nil {
				return err
			}
			return a.verify(cmd.Context(), v, asJSON, out)
		},
	}
	cmd.Flags().StringVar(&v.VerifierKey, "key", "", "verifier `KEY` of the checkpoints, as sluice audit key printed it / 校验公钥")
	cmd.Flags().Int64Var(&v.FirstIndex, "from-index", 0, "check from the record at this `INDEX` / 起始序号")
	cmd.Flags().Int64Var(&v.UntilIndex, "to-index", 0, "check up to, but not including, this `INDEX` / 结束序号（不含）")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON / 以 JSON 输出报告")
	cmd.Flags().StringVar(&out, "report", "", "also write the result to `FILE`, .pdf, .docx or .md; it must not exist / 将结果另存为报告")
	return cmd
}

// verify verifies with the key of the installation unless v names another. The report is written whatever was found.
func (a *app) verify(ctx context.Context, v server.Verification, asJSON bool, out string) error {
	if err := reportable(out); err != nil {
		return err
	}
	cfg, err := a.load(nil)
	if err != nil {
		return err
	}
	if v.VerifierKey == "" {
		v.VerifierKey, err = server.VerifierKey(cfg)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("no master key at %s: is --data right? Or give the verifier key with --key", cfg.MasterKeyFile)
		}
		if err != nil {
			return err
		}
	}
	if show := a.progress("records", "条记录"); show != nil {
		v.Progress = func(done, total int64) { show(int(done), int(total)) }
	}
	result, err := server.Verify(ctx, cfg, v)
	if err != nil {
		return err
	}
	if out != "" {
		d, err := compliance.Verification{VerifierKey: v.VerifierKey, Finished: time.Now(), Program: version, Result: result}.Document(a.lang())
		if err != nil {
			return err
		}
		if err := writeReport(out, d); err != nil {
			return err
		}
	}
	return a.printReport(result, asJSON)
}

func (a *app) verifierKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "key", Short: "Print the public key that verifies checkpoints; give it to the auditor / 打印校验公钥", Args: exactly(0),
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.load(nil)
			if err != nil {
				return err
			}
			k, err := server.VerifierKey(cfg)
			if err != nil {
				return err
			}
			fmt.Fprintln(a.env.stdout, k)
			return nil
		},
	}
}

func (a *app) adoptCommand() *cobra.Command {
	return &cobra.Command{
		Use: "adopt DIR", Short: "Take over the audit records that a lost replica left in DIR / 接管失联副本遗留的审计记录", Args: exactly(1),
		Long: `DIR is the audit directory of a replica that does not come back, its spool, or a copy of either. Its records, and the usage booked with
them, are moved into the database and sealed. It may run beside the other replicas, and again after it was cut off.
DIR 为不再恢复的副本的审计目录、其备用目录或其副本。其中的记录及其用量会移入数据库并封存。可与其他副本同时运行，中断后可重复执行。`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, log, err := a.site()
			if err != nil {
				return err
			}
			n, err := server.Adopt(cmd.Context(), cfg, args[0], log)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.env.stdout, a.say("adopted %d records\n", "已接管 %d 条记录\n"), n)
			return nil
		},
	}
}

// indexRange completes the range to check, 0 to 0 for all.
func indexRange(cmd *cobra.Command, v *server.Verification) error {
	if !cmd.Flags().Changed("from-index") && !cmd.Flags().Changed("to-index") {
		return nil
	}
	if !cmd.Flags().Changed("to-index") {
		v.UntilIndex = math.MaxInt64
	}
	if v.FirstIndex < 0 || v.UntilIndex <= v.FirstIndex {
		return errors.New("--to-index must lie behind --from-index, and neither below 0")
	}
	return nil
}
