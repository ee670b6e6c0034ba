package search

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

// latencyBinSQL is the SQL expression that rounds a latency down to seven significant bits, alike in both dialects.
func latencyBinSQL(column string) string {
	var b strings.Builder
	b.WriteString("CASE")
	for drop := 0; drop <= 40; drop++ {
		fmt.Fprintf(&b, " WHEN %s < %d THEN %s / %d * %d", column, int64(128)<<drop, column, int64(1)<<drop, int64(1)<<drop)
	}
	return b.String() + " ELSE " + column + " END"
}

// ratioColumns sums y and n of units, named with a prefix. The casts keep squares of costs from overflowing.
func ratioColumns(name, y, n string) string {
	f := func(s string) string { return "CAST(" + s + " AS DOUBLE PRECISION)" }
	sum := func(suffix, s string) string { return "SUM(" + s + ") AS " + name + "_" + suffix }
	return strings.Join([]string{
		sum("y", f(y)), sum("n", f(n)), sum("yy", f(y)+" * "+f(y)), sum("yn", f(y)+" * "+f(n)), sum("nn", f(n)+" * "+f(n)),
	}, ", ")
}

// FullArmSums is what [Reader.ArmSums] must return: a sum over every record, as releases before the sums were kept made it.
func (r *Reader) FullArmSums(ctx context.Context, rollout, arm string, since int64) (ArmSums, error) {
	rows := func() *gorm.DB {
		return r.db.WithContext(ctx).Table("audit_events").
			Where("rollout = ? AND rollout <> '' AND arm <> '' AND stage = ? AND time >= ? AND outcome IN ?", database.Text(rollout), string(record.StageOutcome), since, []string{"ok", "failed", "aborted", "refused"})
	}
	const columns = "arm, request, MAX(CASE WHEN session = '' THEN request ELSE session END) AS unit, MAX(tenant) AS tenant, " +
		"MIN(CASE WHEN outcome = 'failed' THEN 1 ELSE 0 END) AS failed, MIN(CASE WHEN outcome = 'refused' OR outcome = 'ok' AND decision = 'refuse' THEN 1 ELSE 0 END) AS refused, " +
		"MAX(CASE WHEN outcome = 'ok' THEN 1 ELSE 0 END) AS answered, MAX(CASE WHEN outcome = 'ok' THEN completion_tokens ELSE 0 END) AS tokens, SUM(cost) AS cost"
	units := r.db.WithContext(ctx).Table("(?) AS each_request", rows().Where("arm = ?", database.Text(arm)).Select(columns).Group("arm, request")).
		Select("unit, COUNT(*) AS n, SUM(failed) AS failed, SUM(refused) AS refused, SUM(answered) AS answered, SUM(tokens) AS tokens, SUM(cost) AS cost").Group("unit")
	var sums []struct {
		Failures RatioSums `gorm:"embedded;embeddedPrefix:failures_"`
		Refusals RatioSums `gorm:"embedded;embeddedPrefix:refusals_"`
		Tokens   RatioSums `gorm:"embedded;embeddedPrefix:tokens_"`
		Cost     RatioSums `gorm:"embedded;embeddedPrefix:cost_"`
	}
	err := r.db.WithContext(ctx).Table("(?) AS each_unit", units).Select(strings.Join([]string{
		ratioColumns("failures", "failed", "n"), ratioColumns("refusals", "refused", "n"), ratioColumns("tokens", "tokens", "answered"), ratioColumns("cost", "cost", "n"),
	}, ", ")).Having("COUNT(*) > 0").Find(&sums).Error
	if err != nil || len(sums) == 0 {
		return ArmSums{}, err
	}
	s := sums[0]
	out := ArmSums{Failures: s.Failures, Refusals: s.Refusals, Tokens: s.Tokens, Cost: s.Cost, Tenants: map[string]TenantSums{}}
	answered := func() *gorm.DB { return rows().Where("arm = ? AND outcome = ?", database.Text(arm), "ok") }
	if out.FirstToken, err = latencies(answered().Where("first_token > 0"), "first_token"); err != nil {
		return ArmSums{}, err
	}
	if out.Total, err = latencies(answered(), "total"); err != nil {
		return ArmSums{}, err
	}
	if len(out.Total) > 0 {
		slow := answered().Select("CASE WHEN session = '' THEN request ELSE session END AS unit, COUNT(*) AS n, SUM(CASE WHEN total > ? THEN 1 ELSE 0 END) AS slow", percentile(out.Total, 0.95)).
			Group("CASE WHEN session = '' THEN request ELSE session END")
		var sum []struct {
			Slow RatioSums `gorm:"embedded;embeddedPrefix:slow_"`
		}
		if err = r.db.WithContext(ctx).Table("(?) AS each_unit", slow).Select(ratioColumns("slow", "slow", "n")).Find(&sum).Error; err != nil {
			return ArmSums{}, err
		}
		out.Slow = sum[0].Slow
	}
	var tenants []struct {
		Arm, Tenant               string
		Requests, Errors, Refused int64
	}
	err = r.db.WithContext(ctx).Table("(?) AS each_request", rows().Select(columns).Group("arm, request")).
		Select("arm, tenant, COUNT(*) AS requests, SUM(failed) AS errors, SUM(refused) AS refused").Group("arm, tenant").Order("COUNT(*) DESC, tenant").Find(&tenants).Error
	kept := map[string]bool{}
	for _, t := range tenants { // of both arms, so that they keep the same ones
		if len(kept) < MaxArmTenants {
			kept[t.Tenant] = true
		}
		if t.Arm == arm && kept[t.Tenant] {
			out.Tenants[t.Tenant] = TenantSums{Requests: t.Requests, Errors: t.Errors, Refused: t.Refused}
		}
	}
	return out, err
}

func latencies(db *gorm.DB, column string) (map[int64]int64, error) {
	var bins []struct{ Bin, N int64 }
	err := db.Select(latencyBinSQL(column) + " AS bin, COUNT(*) AS n").Group(latencyBinSQL(column)).Find(&bins).Error
	out := make(map[int64]int64, len(bins))
	for _, b := range bins {
		out[b.Bin] = b.N
	}
	return out, err
}
