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
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/server/sla"
	"github.com/sluice-project/sluice/workflows"
)

const (
	shipLate    = 5 * time.Minute  // records wait this long for the database
	sealLate    = 10 * time.Minute // records wait this long under no checkpoint
	witnessLate = time.Hour        // a witness has not cosigned for this long
	monitorLate = 10 * time.Minute // security monitoring confirms nothing for this long
	nearPercent = 80               // of a budget

	expirySoon    = 7 * 24 * time.Hour
	keyInUse      = 30 * 24 * time.Hour // since its last use
	budgetEvery   = 5 * time.Minute
	keyEvery      = time.Hour
	controlsEvery = 10 * time.Minute
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
		where := detail(fault.Say("alerts.replica"), node)
		var out []notify.Alert
		switch {
		case r.Rewritten:
			out = append(out, notify.Alert{
				Code: "audit.rewritten", About: node, Severity: notify.Critical, Title: fault.Say("alerts.log_altered_title"),
				Text: fault.Say("alerts.log_altered"), Details: []notify.Detail{where},
			})
		case r.Unavailable:
			out = append(out, notify.Alert{
				Code: "audit.unavailable", About: node, Severity: notify.Critical, Title: fault.Say("alerts.log_unwritable_title"),
				Text: fault.Say("alerts.log_unwritable"), Details: []notify.Detail{where},
			})
		}
		if !r.Oldest.IsZero() && time.Since(r.Oldest) > shipLate {
			out = append(out, notify.Alert{
				Code: "audit.backlog", About: node, Severity: notify.Warning, Title: fault.Say("alerts.records_wait_title"),
				Text:    fault.Say("alerts.records_wait"),
				Details: []notify.Detail{where, detail(fault.Say("alerts.records"), r.Waiting), detail(fault.Say("alerts.oldest"), inUTC(r.Oldest))},
			})
		}
		if r.Lost > 0 {
			out = append(out, notify.Alert{
				Code: "audit.lost", About: node, Severity: notify.Critical, Title: fault.Say("alerts.records_lost_title"),
				Text:    fault.Say("alerts.records_lost"),
				Details: []notify.Detail{where, detail(fault.Say("alerts.records_since_start"), r.Lost)},
			})
		}
		return out, nil
	}}
}

// Stall says since when something that should move has not. Its zero value has seen nothing.
type Stall struct{ since, mark time.Time }

// Lasts returns for how long there was work and mark, a time of the newest progress, stayed the same.
func (s *Stall) Lasts(work bool, mark time.Time) time.Duration {
	now := time.Now()
	if !work || !mark.Equal(s.mark) || s.since.IsZero() {
		s.since, s.mark = now, mark
	}
	return now.Sub(s.since)
}

// Sealing looks at whether checkpoints come while records wait for one. newest is when the newest was seen.
func Sealing(read func(ctx context.Context) (unsealed int64, newest time.Time, err error)) Check {
	var s Stall
	return Check{Name: "sealing", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		unsealed, newest, err := read(ctx)
		if err != nil || s.Lasts(unsealed > 0, newest) < sealLate {
			return nil, err
		}
		return []notify.Alert{{
			Code: "audit.unsealed", Severity: notify.Warning, Title: fault.Say("alerts.unsealed_title"),
			Text:    fault.Say("alerts.unsealed"),
			Details: []notify.Detail{detail(fault.Say("alerts.records"), unsealed), detail(fault.Say("alerts.since"), inUTC(s.since))},
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
	stalls := map[string]*Stall{}
	return Check{Name: "witnesses", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, w := range list {
			s := stalls[w.Name]
			if s == nil {
				s = &Stall{}
				stalls[w.Name] = s
			}
			if s.Lasts(w.Behind > 0, w.Time) < witnessLate {
				continue
			}
			out = append(out, notify.Alert{
				Code: "audit.witness_late", About: w.Name, Severity: notify.Warning, Title: fault.Say("alerts.witness_title"),
				Text:    fault.Say("alerts.witness_away"),
				Details: []notify.Detail{detail(fault.Say("alerts.witness"), w.Name), detail(fault.Say("alerts.records_behind"), w.Behind), detail(fault.Say("alerts.since"), inUTC(s.since))},
			})
		}
		return out, err
	}}
}

// Destination says how far security monitoring has come.
type Destination struct {
	Name    string
	Behind  int64     // records
	Oldest  time.Time // of them; zero: none
	Failure string    // "" if the newest attempt did not fail
}

// Monitoring looks at whether security monitoring takes what is recorded. How long records wait for a checkpoint first is another alert's.
func Monitoring(read func(ctx context.Context) ([]Destination, error)) Check {
	stalls := map[string]*Stall{}
	return Check{Name: "siem", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, d := range list {
			s := stalls[d.Name]
			if s == nil {
				s = &Stall{}
				stalls[d.Name] = s
			}
			if s.Lasts(d.Behind > 0, d.Oldest) < monitorLate {
				continue
			}
			details := []notify.Detail{detail(fault.Say("alerts.destination"), d.Name), detail(fault.Say("alerts.records_behind"), d.Behind), detail(fault.Say("alerts.since"), inUTC(s.since))}
			if d.Failure != "" {
				details = append(details, detail(fault.Say("alerts.cause"), d.Failure))
			}
			out = append(out, notify.Alert{
				Code: "audit.siem_late", About: d.Name, Severity: notify.Warning, Title: fault.Say("alerts.monitoring_title"), Text: fault.Say("alerts.monitoring"), Details: details,
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
				Code: "audit.finding", About: kind, Severity: notify.Warning, Title: fault.Say("alerts.books_title"),
				Text:    fault.Say("alerts.books"),
				Details: []notify.Detail{detail(fault.Say("alerts.kind"), kind), detail(fault.Say("alerts.open_findings"), open[kind])},
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
			about := budgetAbout(b)
			details := budgetDetails(b)
			percent := strconv.FormatFloat(100*float64(b.Spent)/float64(b.Limit), 'f', 0, 64)
			details = append(details, detail(fault.Say("alerts.spent"), percent+" %"))
			out = append(out, notify.Alert{
				Code: "billing.budget_near", About: about, Severity: notify.Warning, Title: fault.Say("alerts.budget_low_title", nearPercent),
				Text: fault.Say("alerts.budget_low"), Details: details,
			})
			if b.Spent >= b.Limit {
				out = append(out, notify.Alert{
					Code: "billing.budget_spent", About: about, Severity: notify.Critical, Title: fault.Say("alerts.budget_spent_title"),
					Text: fault.Say("alerts.budget_spent"), Details: details,
				})
			}
		}
		return out, err
	}}
}

// budgetAbout tells one budget of a period from all others.
func budgetAbout(b billing.BudgetState) string {
	of := b.Tenant + "/" + b.Key
	switch {
	case b.Organisation != "":
		of = "org:" + b.Organisation
	case b.Project != "":
		of = b.Tenant + "/project:" + b.Project
	}
	return fmt.Sprintf("%s/%s/%s", of, b.Period, b.Current)
}

// budgetDetails says what a budget is of.
func budgetDetails(b billing.BudgetState) []notify.Detail {
	var out []notify.Detail
	for _, d := range []struct {
		name  fault.Phrase
		value string
	}{
		{fault.Say("alerts.organisation"), b.Organisation},
		{fault.Say("alerts.tenant"), b.Tenant},
		{fault.Say("alerts.period"), b.Current},
		{fault.Say("alerts.project"), b.Project},
		{fault.Say("alerts.api_key"), b.Key},
	} {
		if d.value != "" {
			out = append(out, detail(d.name, d.value))
		}
	}
	return out
}

// Rollouts looks at which rollouts wait for a person.
func Rollouts(read func(ctx context.Context) ([]workflows.State, error)) Check {
	return Check{Name: "rollouts", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, r := range list {
			if r.Awaiting {
				out = append(out, notify.Alert{
					Code: "rollout.approval", About: fmt.Sprintf("%s/%d", r.ID, r.Share), Severity: notify.Warning, Title: fault.Say("alerts.approval_title"),
					Text:    fault.Say("alerts.approval"),
					Details: append(aboutRollout(r.Model, r.ID, r.Candidate), detail(fault.Say("alerts.share"), strconv.Itoa(r.Share)+" %")),
				})
			}
		}
		return out, err
	}}
}

// Unjudged looks at which candidates answer without a verdict: where no workflow runs, nothing takes a bad one back but a person.
func Unjudged(read func(ctx context.Context) ([]workflows.Unjudged, error)) Check {
	return Check{Name: "verdicts", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, u := range list {
			out = append(out, notify.Alert{
				Code: "rollout.unjudged", About: u.ID, Severity: notify.Critical, Title: fault.Say("alerts.unjudged_title"),
				Text: fault.Say("alerts.unjudged"),
				Details: append(aboutRollout(u.Model, u.ID, u.Candidate),
					detail(fault.Say("alerts.share"), strconv.Itoa(u.Share)+" %"), detail(fault.Say("alerts.since"), inUTC(u.Since))),
			})
		}
		return out, err
	}}
}

func aboutRollout(model, id, candidate string) []notify.Detail {
	return []notify.Detail{detail(fault.Say("alerts.model"), model), detail(fault.Say("alerts.candidate"), candidate), detail(fault.Say("alerts.rollout"), id)}
}

// RolloutBack is what to tell when a rollout went back by itself from a phase.
func RolloutBack(model, id, candidate, phase string) notify.Alert {
	return notify.Alert{
		Code: "rollout.rolled_back", About: id, Severity: notify.Warning, Title: fault.Say("alerts.taken_back_title"),
		Text:    fault.Say("alerts.taken_back"),
		Details: append(aboutRollout(model, id, candidate), detail(fault.Say("alerts.from"), phase)),
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
				Code: "identity.key_expires", About: k.ID, Severity: notify.Warning, Title: fault.Say("alerts.key_expires_title"),
				Text:    fault.Say("alerts.key_expires"),
				Details: []notify.Detail{detail(fault.Say("alerts.tenant"), k.Tenant), detail(fault.Say("alerts.api_key"), cmp.Or(k.Name, k.ID)), detail(fault.Say("alerts.expires"), inUTC(k.ExpiresAt))},
			})
		}
		return out, err
	}}
}

// Burns looks at which error budgets are spent too fast: fast calls people at once, slow one in working hours. Hours that cannot be read hide no others.
func Burns(read func(ctx context.Context) (list []sla.Burn, unreadable int, err error)) Check {
	return Check{Name: "service level", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, unreadable, err := read(ctx)
		var out []notify.Alert
		if unreadable > 0 {
			out = append(out, notify.Alert{
				Code: "sla.unreadable", Severity: notify.Warning, Title: fault.Say("alerts.sla_unreadable_title"), Text: fault.Say("alerts.sla_unreadable"),
				Details: []notify.Detail{detail(fault.Say("alerts.sla_rows"), unreadable)},
			})
		}
		for _, b := range list {
			rate := func(r *float64) string {
				if r == nil {
					return "-"
				}
				return strconv.FormatFloat(*r, 'f', 1, 64)
			}
			a := notify.Alert{
				Code: "sla.burn_slow", About: b.Objective.Name() + " " + b.Budget.Of, Severity: notify.Warning, Title: fault.Say("alerts.burn_title"), Text: fault.Say("alerts.burn_slow"),
				Details: []notify.Detail{
					detail(fault.Say("alerts.objective"), b.Objective.Name()), detail(fault.Say("alerts.burn_of"), b.Budget.Of), detail(fault.Say("alerts.missed"), b.Budget.Missed),
					detail(fault.Say("alerts.burn_rates"), rate(b.Budget.Burn1h)+", "+rate(b.Budget.Burn6h)+", "+rate(b.Budget.Burn3d)),
				},
			}
			if b.Budget.Burning == sla.BurningFast {
				a.Code, a.Severity, a.Text = "sla.burn_fast", notify.Critical, fault.Say("alerts.burn_fast")
			}
			out = append(out, a)
		}
		return out, err
	}}
}

// ScaledPool is a scaled pool of this replica with its latest decision.
type ScaledPool struct {
	Name     string
	Most     int // instances that it may have
	Decision scaling.Decision
}

// CapacityLine looks at which pools do not carry the head room of their policy times their peak.
func CapacityLine(node string, read func() []ScaledPool) Check {
	return Check{Name: "capacity", Find: func(context.Context) ([]notify.Alert, error) {
		var out []notify.Alert
		for _, p := range read() {
			if !slices.Contains(p.Decision.Alarms, scaling.AlarmLine) {
				continue
			}
			out = append(out, notify.Alert{
				Code: "scaling.capacity_line", About: node + "/" + p.Name, Severity: notify.Warning, Title: fault.Say("alerts.line_title"), Text: fault.Say("alerts.line"),
				Details: []notify.Detail{
					detail(fault.Say("alerts.pool"), p.Name), detail(fault.Say("alerts.replica"), node), detail(fault.Say("alerts.line_needs"), p.Decision.Line), detail(fault.Say("alerts.line_most"), p.Most),
				},
			})
		}
		return out, nil
	}}
}

// VerificationFailed is what to tell when a verification of the audit log found problems.
func VerificationFailed(problems int) notify.Alert {
	return notify.Alert{
		Code: "audit.verification_failed", Severity: notify.Critical, Title: fault.Say("alerts.problems_title"),
		Text:    fault.Say("alerts.problems_found"),
		Details: []notify.Detail{detail(fault.Say("alerts.problems"), problems)},
	}
}

// BreakGlassOpened is what to tell when an emergency session has begun.
func BreakGlassOpened(use identity.EmergencyUse) notify.Alert {
	return notify.Alert{
		Code: "identity.break_glass_open", About: use.ID, Severity: notify.Critical, Title: fault.Say("alerts.break_glass_title"), Text: fault.Say("alerts.break_glass"),
		Details: emergencyDetails(use),
	}
}

func emergencyDetails(use identity.EmergencyUse) []notify.Detail {
	return []notify.Detail{
		detail(fault.Say("alerts.reason"), use.Reason), detail(fault.Say("alerts.emergency_source"), use.Source), detail(fault.Say("alerts.begun"), inUTC(use.Started)),
		detail(fault.Say("alerts.ends"), inUTC(use.Expires)), detail(fault.Say("alerts.review_due"), inUTC(use.ReviewDue)),
	}
}

// BreakGlass looks at emergency sessions that are open, and at reviews of them that are overdue.
func BreakGlass(list func(ctx context.Context) ([]identity.EmergencyUse, error)) Check {
	return Check{Name: "break-glass", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		uses, err := list(ctx)
		var out []notify.Alert
		for _, use := range uses {
			switch now := time.Now(); {
			case use.Open(now):
				out = append(out, BreakGlassOpened(use))
			case use.Reviewed.IsZero() && now.After(use.ReviewDue):
				out = append(out, notify.Alert{
					Code: "identity.break_glass_review", About: use.ID, Severity: notify.Critical, Title: fault.Say("alerts.break_glass_review_title"),
					Text: fault.Say("alerts.break_glass_review"), Details: emergencyDetails(use),
				})
			}
		}
		return out, err
	}}
}

// RevealSweep is what to tell when a person looked at the values of unusually many conversations.
func RevealSweep(tenant string, conversations int) notify.Alert {
	return notify.Alert{
		Code: "governance.reveal_sweep", About: tenant, Severity: notify.Critical, Title: fault.Say("alerts.sweep_title"),
		Text:    fault.Say("alerts.sweep"),
		Details: []notify.Detail{detail(fault.Say("alerts.tenant"), tenant), detail(fault.Say("alerts.conversations"), conversations)},
	}
}

// SuspectKeys looks at which security keys are not accepted any more since their count went backwards: there may be copies.
func SuspectKeys(read func(ctx context.Context) ([]identity.Suspect, error)) Check {
	return Check{Name: "security keys", Shared: true, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		var out []notify.Alert
		for _, k := range list {
			out = append(out, notify.Alert{
				Code: "identity.key_cloned", About: k.Factor, Severity: notify.Critical, Title: fault.Say("alerts.key_cloned_title"), Text: fault.Say("alerts.key_cloned"),
				Details: []notify.Detail{detail(fault.Say("alerts.tenant"), k.Tenant), detail(fault.Say("alerts.account"), k.User), detail(fault.Say("alerts.since"), inUTC(k.Since))},
			})
		}
		return out, err
	}}
}

// Control is how a control of the compliance matrix stands. None of Holds, Broken and Unknown is one that is off, or in part.
type Control struct {
	ID                     string
	Name, Remedy           fault.Phrase
	Holds, Broken, Unknown bool
}

// Controls looks at whether the controls of the compliance matrix do what they should: one that is broken, or held since the start and holds no more. What
// was never set up is no alarm. Of a control that cannot be asked it stays as it was.
func Controls(read func(ctx context.Context) ([]Control, error)) Check {
	held, told := map[string]bool{}, map[string]bool{}
	return Check{Name: "controls", Shared: true, Every: controlsEvery, Find: func(ctx context.Context) ([]notify.Alert, error) {
		list, err := read(ctx)
		if err != nil {
			return nil, err
		}
		var out []notify.Alert
		for _, c := range list {
			if !c.Unknown {
				held[c.ID] = held[c.ID] || c.Holds
				told[c.ID] = c.Broken || held[c.ID] && !c.Holds
			}
			if told[c.ID] {
				out = append(out, notify.Alert{
					Code: "compliance.control", About: c.ID, Severity: notify.Warning, Title: fault.Say("alerts.control_title", c.Name), Text: fault.Say("alerts.control", c.Remedy),
				})
			}
		}
		return out, nil
	}}
}
