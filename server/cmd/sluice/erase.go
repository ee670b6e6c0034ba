package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/strictjson"
	"github.com/sluice-project/sluice/server"
	"github.com/sluice-project/sluice/server/adminapi"
)

func (a *app) eraseCommand() *cobra.Command {
	var tenant, subject, again string
	var list bool
	cmd := &cobra.Command{
		Use: "erase", Short: "Erase what was kept of a person's prompts and answers / 擦除某人的留存文本", Args: exactly(0),
		Long: `Destroys the keys and the ciphertexts of one person: in the database, in its pages, and in the write-ahead logs (those of running replicas
within seconds, that of a stopped one when it starts). The records stay, and every proof of them holds. The erasure is itself recorded. The person
is named as requests name them: the value of on-behalf-of, else the user, else the id of the API key. A backup made before still holds what was erased: keep the list apart from
the backups, and erase again after a restore.
销毁某人的密钥与密文：数据库及其页面，以及各副本的预写日志（运行中的副本数秒内完成，已停止的副本在启动时完成）。审计记录保留，其证明依然有效；
擦除行为本身也会记录。人员按请求中的名称指定：on-behalf-of 的值，否则为用户，否则为 API 密钥的 ID。此前的备份仍含被擦除的内容：请将清单与备份分开保存，恢复备份后重新擦除。`,
		Example: `  sluice audit erase --tenant demo --subject alice@example.com
  sluice audit erase --list > erasures.jsonl
  sluice audit erase --again erasures.jsonl`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen := 0
			for _, set := range []bool{subject != "", again != "", list} {
				if set {
					chosen++
				}
			}
			if chosen != 1 || subject != "" && tenant == "" {
				return usageError{errors.New("want --tenant with --subject, or --list, or --again")}
			}
			cfg, log, err := a.site()
			if err != nil {
				return err
			}
			switch {
			case list:
				erasures, err := server.Erasures(cmd.Context(), cfg, tenant, log)
				if err != nil {
					return err
				}
				return printErasures(a.env.stdout, erasures)
			case again != "":
				erasures, err := readErasures(again)
				if err != nil {
					return err
				}
				return server.EraseAgain(cmd.Context(), cfg, erasures, a.erased, log)
			default:
				done, err := server.Erase(cmd.Context(), cfg, tenant, subject, log)
				if err != nil {
					return err
				}
				a.erased(done)
				return nil
			}
		},
	}
	cmd.Flags().StringVar(&tenant, "tenant", "", "`TENANT` of the person / 所属租户")
	cmd.Flags().StringVar(&subject, "subject", "", "`PERSON` to erase / 要擦除的人员")
	cmd.Flags().BoolVar(&list, "list", false, "print the erasures as JSON Lines; persons are keyed digests / 以 JSON Lines 输出擦除清单（人员为带密钥摘要）")
	cmd.Flags().StringVar(&again, "again", "", "`FILE` of such a list whose erasures are repeated / 按清单文件重新擦除")
	return cmd
}

func (a *app) erased(e audit.Erasure) {
	fmt.Fprintf(a.env.stdout, a.say("erased: %d keys, %d texts; record %s\n", "已擦除：密钥 %d 个，文本 %d 段；记录 %s\n"), e.Keys, e.Contents, e.Record)
	if e.Keys == 0 {
		fmt.Fprintln(a.env.stderr, a.say("nothing was kept of this person; is the name right, and the tenant?", "未留存此人的内容，请核对名称与租户"))
	}
}

func printErasures(w io.Writer, list []audit.Erasure) error {
	enc := json.NewEncoder(w)
	for _, e := range list {
		if err := enc.Encode(adminapi.ErasureView(e)); err != nil {
			return err
		}
	}
	return nil
}

// readErasures reads whom the lines of printErasures are about. All of it is read before anything is erased.
func readErasures(path string) ([]audit.Erasure, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseErasures(b)
}

func parseErasures(b []byte) (list []audit.Erasure, err error) {
	digest := regexp.MustCompile(`^[0-9a-f]{64}$`)
	n := 0
	for line := range bytes.Lines(b) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		e, err := strictjson.Decode[adminapi.Erasure](line)
		if err == nil && (e.Tenant == "" || !digest.MatchString(e.Subject)) {
			err = errors.New("tenant or subject is missing; subject is the digest that --list prints")
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the list of erasures: %w", n, err)
		}
		list = append(list, audit.Erasure{Tenant: e.Tenant, Subject: e.Subject})
	}
	return list, nil
}
