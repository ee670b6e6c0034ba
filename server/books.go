package server

import (
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/server/config"
)

// recordUsage is the audit log's sink: the usage row of a request is written in the transaction that ships its outcome, so audit
// and billing cannot disagree, and neither happens twice.
func (p *parts) recordUsage(tx *gorm.DB, events []audit.Event) error {
	usages := make([]billing.Usage, 0, (len(events)+1)/2) // most often one of a request's two records says some
	for _, e := range events {
		if u, booked := usageOf(e); booked {
			usages = append(usages, u)
		}
	}
	return p.ledger.RecordUsage(tx, usages...)
}

// usageOf is the usage that an outcome record says; admin acts, and requests that never reached an engine, say none.
func usageOf(e audit.Event) (u billing.Usage, booked bool) {
	if e.Stage != audit.StageOutcome || e.PriceBook == "" {
		return billing.Usage{}, false
	}
	return billing.Usage{
		Request: e.Request, Tenant: e.Tenant, Project: e.Project, Key: e.Actor.ID, Actor: e.Actor.Name, Action: e.Action,
		Model: modelName(e.Model.Asked), Version: e.Model.Version, At: e.Time - e.Latency.Total,
		Tokens:    billing.Tokens{Prompt: e.Usage.PromptTokens, Cached: e.Usage.CachedTokens, Completion: e.Usage.CompletionTokens},
		Estimated: e.Usage.Estimated, Cost: billing.Money(e.Usage.Cost), Currency: e.Usage.Currency, PriceBook: e.PriceBook,
		Energy: e.Usage.Energy, EnergyMethod: e.Usage.EnergyMethod, Outcome: e.Outcome,
	}, true
}

// VerifySource is what a verification of cfg's installation reads: the write-ahead log, the checkpoint files, the database, and the
// usage that was booked with the records.
func VerifySource(cfg *config.Config, db *gorm.DB, verifierKey string) audit.VerifySource {
	witnesses, _ := checkpoint.NewWitnesses(strings.Join(cfg.Audit.Witnesses, "\n")) // the configuration is valid
	return audit.VerifySource{Dir: cfg.Audit.Dir, SpoolDir: cfg.Audit.SpoolDir, DB: db, VerifierKey: verifierKey, Witnesses: witnesses, Books: books{}, ArchiveDir: cfg.Audit.Retention.ArchiveDir}
}

// books compares the ledger with the audit log. It implements [audit.Books].
type books struct{}

func (books) Differences(db *gorm.DB, events []audit.Event) (map[string]string, error) {
	var want []billing.Usage
	ids := map[string]string{} // by request
	for _, e := range events {
		if u, booked := usageOf(e); booked {
			want = append(want, u)
			ids[u.Request] = e.ID
		}
	}
	if len(want) == 0 {
		return nil, nil
	}
	differences, err := billing.Differences(db, want)
	if err != nil {
		return nil, err
	}
	out := make(map[string]string, len(differences))
	for request, cause := range differences {
		out[ids[request]] = cause
	}
	return out, nil
}

// Surplus joins the tables of two concerns, which nothing else may: usage and its record come in one transaction, so one statement
// sees both or neither, also on a running installation.
func (books) Surplus(db *gorm.DB, since int64, limit int) ([]string, error) {
	var requests []string
	err := db.Raw(`SELECT u.request FROM billing_usage AS u WHERE u.at >= ? AND NOT EXISTS (
		SELECT 1 FROM audit_events AS e WHERE e.request = u.request AND e.stage = ?) ORDER BY u.request LIMIT ?`,
		since, string(audit.StageOutcome), limit).Scan(&requests).Error
	return requests, err
}
