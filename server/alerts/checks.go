package alerts

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/workflows"
)

const (
	shipLate    = 5 * time.Minute  // records wait this long for the database
	sealLate    = 10 * time.Minute // records wait this long under no checkpoint
	witnessLate = time.Hour        // a witness has not cosigned for this long
	nearPercent = 80               // of a budget

	expirySoon  = 7 * 24 * time.Hour
	keyInUse    = 30 * 24 * time.Hour // since its last use
	budgetEvery = 5 * time.Minute
	keyEvery    = time.Hour
)

func detail(name fault.Phrase, value any) notify.Detail {
	return notify.Detail{Name: name, Value: fmt.Sprint(value)}
}

func inUTC(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Replica is the state of the audit log at one replica.
type Replica struct {
	Rewritten   bool      // the database is not what it was
	Unavailable bool      // no record can be made durable
	Waiting     int64     // records on their way to the database
	Oldest      time.Time // of them; zero: none
	Lost        int64     // records since the start that nothing took
}

// AuditOfReplica looks at the log of this replica.
func AuditOfReplica(node string, read func() (Replica, error)) Check {
	return Check{Name: "audit", Find: func(context.Context) ([]notify.Alert, error) {
		r, err := read()
		if err != nil {
			return nil, err
		}
		where := detail(fault.Say("Replica", "副本"), node)
		var out []notify.Alert
		switch {
		case r.Rewritten:
			out = append(out, notify.Alert{
				Code: "audit.rewritten", About: node, Severity: notify.Critical, Title: fault.Say("The audit log in the database was altered", "数据库中的审计日志被改动"),
				Text: fault.Say("Requests are refused. Keep the database as it is and run `sluice audit verify`", "请求已被拒绝。请保持数据库原状并运行 `sluice audit verify`"), Details: []notify.Detail{where},
			})
		case r.Unavailable:
			out = append(out, notify.Alert{
				Code: "audit.unavailable", About: node, Severity: notify.Critical, Title: fault.Say("The audit log cannot be written", "审计日志无法写入"),
				Text: fault.Say("Requests are refused. Check the disk of audit.dir", "请求已被拒绝。请检查 audit.dir 所在磁盘"), Details: []notify.Detail{where},
			})
		}
		if !r.Oldest.IsZero() && time.Since(r.Oldest) > shipLate {
			out = append(out, notify.Alert{
				Code: "audit.backlog", About: node, Severity: notify.Warning, Title: fault.Say("Audit records wait for the database", "审计记录等待入库"),
				Text: fault.Say("They are safe on the disk until audit.max_bytes is reached; then requests are refused. Check the database",
					"记录已安全落盘；达到 audit.max_bytes 后请求将被拒绝。请检查数据库"),
				Details: []notify.Detail{where, detail(fault.Say("Records", "记录数"), r.Waiting), detail(fault.Say("Oldest", "最早记录"), inUTC(r.Oldest))},
			})
		}
		if r.Lost > 0 {
			out = append(out, notify.Alert{
				Code: "audit.lost", About: node, Severity: notify.Critical, Title: fault.Say("Answers went out without an audit record", "部分回答未留下审计记录"),
				Text:    fault.Say("The mode of their tenants is best-effort. Check the disk of audit.dir", "所属租户的模式为 best-effort。请检查 audit.dir 所在磁盘"),
				Details: []notify.Detail{where, detail(fault.Say("Records since the start", "启动以来的丢失数"), r.Lost)},
			})
		}
		return out, nil
	}}
}

// stall says since when something that should move has not.
type stall struct{ since, mark time.Time }

// lasts returns for how long there was work and mark, a time of the newest progress, stayed the same.
func (s *stall) lasts(work bool, mark time.Time) time.Duration {
	now := time.Now()
	if !work || !mark.Equal(s.mark) || s.since.IsZero() {
		s.since, s.mark = now, mark
	}
	return now.Sub(s.since)
}

// Sealing looks at whether checkpoints come while records wait for one. newest is when the newest was seen.
func Sealing(read func(ctx context.Context) (unsealed int64, newest time.Time, err error)) Check {
	var s stall
	return Check{Name: "sealing", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		unsealed, newest, err := read(ctx)
		if err != nil || s.lasts(unsealed > 0, newest) < sealLate {
			return nil, err
		}
		return []notify.Alert{{
			Code: "audit.unsealed", Severity: notify.Warning, Title: fault.Say("Audit records are not sealed", "审计记录未能封存"),
			Text:    fault.Say("No replica signs a checkpoint over the newest records; the logs of the servers say why", "没有副本为最新记录签署检查点，原因见服务器日志"),
			Details: []notify.Detail{detail(fault.Say("Records", "记录数"), unsealed), detail(fault.Say("Since", "始于"), inUTC(s.since))},
		}}, nil
	}}
}

// Witness says how far a witness is behind.
type Witness struct {
	Name   string
	Behind int64     // records under no cosignature of its
	Time   time.Time // of its newest cosignature; zero: none yet
}

// Witnesses looks at whether the witnesses of the configuration cosign while there is something to.
func Witnesses(read func(ctx context.Context) ([]Witness, error)) Check {
	stalls := map[string]*stall{}
	return Check{Name: "witnesses", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, w := range list {
			s := stalls[w.Name]
			if s == nil {
				s = &stall{}
				stalls[w.Name] = s
			}
			if s.lasts(w.Behind > 0, w.Time) < witnessLate {
				continue
			}
			out = append(out, notify.Alert{
				Code: "audit.witness_late", About: w.Name, Severity: notify.Warning, Title: fault.Say("A witness does not cosign", "见证方未联署"),
				Text:    fault.Say("Check that `sluice audit witness` runs there and reaches this server", "请确认其 `sluice audit witness` 正在运行且可访问本服务器"),
				Details: []notify.Detail{detail(fault.Say("Witness", "见证方"), w.Name), detail(fault.Say("Records behind", "落后记录数"), w.Behind), detail(fault.Say("Since", "始于"), inUTC(s.since))},
			})
		}
		return out, err
	}}
}

// Findings looks at what the reconciliation of audit and billing has open, by kind.
func Findings(read func(ctx context.Context) (map[string]int64, error)) Check {
	return Check{Name: "reconciliation", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		open, err := read(ctx)
		var out []notify.Alert
		for _, kind := range slices.Sorted(maps.Keys(open)) {
			if open[kind] == 0 {
				continue
			}
			out = append(out, notify.Alert{
				Code: "audit.finding", About: kind, Severity: notify.Warning, Title: fault.Say("The audit log and the books do not agree", "审计日志与账目不一致"),
				Text:    fault.Say("`sluice audit reconcile` lists what is open", "`sluice audit reconcile` 可列出未解决的问题"),
				Details: []notify.Detail{detail(fault.Say("Kind", "类别"), kind), detail(fault.Say("Open findings", "未解决的问题"), open[kind])},
			})
		}
		return out, err
	}}
}

// Budgets looks at which budgets are nearly or wholly spent.
func Budgets(read func(ctx context.Context) ([]billing.BudgetState, error)) Check {
	return Check{Name: "budgets", Shared: true, Every: budgetEvery, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, b := range list {
			if b.Limit == 0 || float64(b.Spent) < nearPercent/100.0*float64(b.Limit) {
				continue
			}
			about := fmt.Sprintf("%s/%s/%s/%s", b.Tenant, b.Key, b.Period, b.Current)
			details := []notify.Detail{detail(fault.Say("Tenant", "租户"), b.Tenant), detail(fault.Say("Period", "周期"), b.Current)}
			if b.Key != "" {
				details = append(details, detail(fault.Say("API key", "API 密钥"), b.Key))
			}
			percent := strconv.FormatFloat(100*float64(b.Spent)/float64(b.Limit), 'f', 0, 64)
			details = append(details, detail(fault.Say("Spent", "已用"), percent+" %"))
			out = append(out, notify.Alert{
				Code: "billing.budget_near", About: about, Severity: notify.Warning, Title: fault.Say("A budget is spent by %d %% or more", "预算已用 %d %% 或以上", nearPercent),
				Text: fault.Say("When it is spent, requests are refused until the period ends or the budget is raised", "用尽后，请求将被拒绝，直至周期结束或预算提高"), Details: details,
			})
			if b.Spent >= b.Limit {
				out = append(out, notify.Alert{
					Code: "billing.budget_spent", About: about, Severity: notify.Critical, Title: fault.Say("A budget is spent", "预算已用尽"),
					Text: fault.Say("Requests are refused until the period ends or the budget is raised", "请求将被拒绝，直至周期结束或预算提高"), Details: details,
				})
			}
		}
		return out, err
	}}
}

// Rollouts looks at which rollouts wait for a person.
func Rollouts(read func(ctx context.Context) ([]workflows.State, error)) Check {
	return Check{Name: "rollouts", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, r := range list {
			if r.Awaiting {
				out = append(out, notify.Alert{
					Code: "rollout.approval", About: fmt.Sprintf("%s/%d", r.ID, r.Share), Severity: notify.Warning, Title: fault.Say("A rollout waits for approval", "灰度发布等待批准"),
					Text:    fault.Say("The evidence of its step passes; approve or abort it", "本步骤的证据已通过，请批准或中止"),
					Details: append(aboutRollout(r.Model, r.ID, r.Candidate), detail(fault.Say("Share", "流量占比"), strconv.Itoa(r.Share)+" %")),
				})
			}
		}
		return out, err
	}}
}

func aboutRollout(model, id, candidate string) []notify.Detail {
	return []notify.Detail{detail(fault.Say("Model", "模型"), model), detail(fault.Say("Candidate", "候选版本"), candidate), detail(fault.Say("Rollout", "灰度发布"), id)}
}

// RolloutBack is what to tell when a rollout went back by itself from a phase.
func RolloutBack(model, id, candidate, phase string) notify.Alert {
	return notify.Alert{
		Code: "rollout.rolled_back", About: id, Severity: notify.Warning, Title: fault.Say("A rollout was taken back", "灰度发布已回退"),
		Text:    fault.Say("The stable version answers every conversation again; the rollout shows the evidence", "稳定版本重新承担全部会话；证据见该灰度发布"),
		Details: append(aboutRollout(model, id, candidate), detail(fault.Say("From", "回退前阶段"), phase)),
	}
}

// Keys looks at which keys of applications end soon though they are in use.
func Keys(read func(ctx context.Context) ([]identity.Key, error)) Check {
	return Check{Name: "keys", Shared: true, Every: keyEvery, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, k := range list {
			left := time.Until(k.ExpiresAt)
			if !k.RevokedAt.IsZero() || left > expirySoon || left < -expirySoon || time.Since(k.LastUsedAt) > keyInUse {
				continue
			}
			out = append(out, notify.Alert{
				Code: "identity.key_expires", About: k.ID, Severity: notify.Warning, Title: fault.Say("An API key that is in use expires", "使用中的 API 密钥即将到期"),
				Text:    fault.Say("Make a new key and give it to the application before that", "请在到期前创建新密钥并更换"),
				Details: []notify.Detail{detail(fault.Say("Tenant", "租户"), k.Tenant), detail(fault.Say("API key", "API 密钥"), cmp.Or(k.Name, k.ID)), detail(fault.Say("Expires", "到期时间"), inUTC(k.ExpiresAt))},
			})
		}
		return out, err
	}}
}

// VerificationFailed is what to tell when a verification of the audit log found problems.
func VerificationFailed(problems int) notify.Alert {
	return notify.Alert{
		Code: "audit.verification_failed", Severity: notify.Critical, Title: fault.Say("The verification of the audit log found problems", "审计日志校验发现问题"),
		Text:    fault.Say("Keep the database and the files as they are; `sluice audit verify` lists the problems", "请保持数据库与文件原状；`sluice audit verify` 可列出问题"),
		Details: []notify.Detail{detail(fault.Say("Problems", "问题数"), problems)},
	}
}

// RevealSweep is what to tell when a person looked at the values of unusually many conversations.
func RevealSweep(tenant string, conversations int) notify.Alert {
	return notify.Alert{
		Code: "governance.reveal_sweep", About: tenant, Severity: notify.Critical, Title: fault.Say("Somebody looks at the values of unusually many conversations", "有人查看了大量会话的原值"),
		Text:    fault.Say("The audit log names the person under the action governance.reveal_sweep", "操作者见审计日志中的 governance.reveal_sweep"),
		Details: []notify.Detail{detail(fault.Say("Tenant", "租户"), tenant), detail(fault.Say("Conversations within an hour", "一小时内的会话数"), conversations)},
	}
}
