package reconcile

import (
	"strings"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/billing"
)

// UsageOf returns the usage that an outcome record says. Acts of the management API say none, nor do requests that never reached an engine.
func UsageOf(e audit.Event) (u billing.Usage, billed bool) {
	if e.Stage != audit.StageOutcome || e.PriceBook == "" {
		return billing.Usage{}, false
	}
	model, _, _ := strings.Cut(e.Model.Asked, "@") // the rest pins a version
	return billing.Usage{
		Request: e.Request, Tenant: e.Tenant, Project: e.Project, Key: e.Actor.ID, Actor: e.Actor.Name, Action: e.Action,
		Model: model, Version: e.Model.Version, At: e.Time - e.Latency.Total,
		Tokens:    billing.Tokens{Prompt: e.Usage.PromptTokens, Cached: e.Usage.CachedTokens, Completion: e.Usage.CompletionTokens},
		Estimated: e.Usage.Estimated, Cost: billing.Money(e.Usage.Cost), Currency: e.Usage.Currency, PriceBook: e.PriceBook,
		Energy: e.Usage.Energy, EnergyMethod: e.Usage.EnergyMethod, Outcome: e.Outcome,
		FirstToken: e.Latency.FirstToken, Total: e.Latency.Total,
		Once: e.Detail["batch"] != "", // a line that a dead process had answered is asked again under its id
	}, true
}

// Sink bills the usage of records in the transaction that stores them, so that audit and billing cannot disagree, and nothing is billed twice.
func Sink(l *billing.Ledger) audit.Sink {
	return func(tx *gorm.DB, events []audit.Event) error {
		usages := make([]billing.Usage, 0, (len(events)+1)/2) // most often one of a request's two records says some
		for _, e := range events {
			if u, billed := UsageOf(e); billed {
				usages = append(usages, u)
			}
		}
		return l.RecordUsage(tx, usages...)
	}
}

// Books compares the books of billing with audit records, for the verification of the audit log. It implements [verify.Books].
type Books struct{}

// Differences returns, by record id, what the books lack or say differently.
func (Books) Differences(db *gorm.DB, events []audit.Event) (map[string]string, error) {
	var want []billing.Usage
	ids := map[string]string{} // by request
	for _, e := range events {
		if u, billed := UsageOf(e); billed {
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
	for _, u := range want {
		if _, differs := differences[u.Request]; differs && u.Once {
			if err := forgiveRepeat(db, differences, u.Request); err != nil {
				return nil, err
			}
		}
	}
	out := make(map[string]string, len(differences))
	for request, cause := range differences {
		out[ids[request]] = cause
	}
	return out, nil
}

// Surplus returns the requests of at most limit entries, made since a time in unix microseconds, that no outcome record stands for. An entry and its
// record come in one transaction, so one statement sees both or neither, even on a running installation.
func (Books) Surplus(db *gorm.DB, since int64, limit int) ([]string, error) {
	var requests []string
	err := db.Raw(`SELECT u.request FROM billing_usage AS u WHERE u.at >= ? AND NOT EXISTS (
		SELECT 1 FROM audit_events AS e WHERE e.request = u.request AND e.stage = ?) ORDER BY u.request LIMIT ?`,
		since, string(audit.StageOutcome), limit).Scan(&requests).Error
	return requests, err
}

// forgiveRepeat takes a request out of the differences that has several outcome records, where the books agree with one of them.
func forgiveRepeat(db *gorm.DB, differences map[string]string, request string) error {
	outcomes, err := store{db: db}.outcomes(db.Statement.Context, []string{request})
	if err != nil {
		return err
	}
	for _, e := range outcomes[request] {
		u, billed := UsageOf(e)
		if !billed {
			continue
		}
		still, err := billing.Differences(db, []billing.Usage{u})
		if err != nil {
			return err
		}
		if len(still) == 0 {
			delete(differences, request)
			return nil
		}
	}
	return nil
}
