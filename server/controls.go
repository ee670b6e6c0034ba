package server

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine/pool"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/message"
	"github.com/sluice-project/sluice/server/alerts"
	"github.com/sluice-project/sluice/server/compliance"
	"github.com/sluice-project/sluice/server/keysource"
)

const (
	leastRecordDays    = 190 // six months are 184 days at most
	leastSensitiveDays = 1096
	reviewEvery        = 366 * 24 * time.Hour
	libraryAge         = 7 * 24 * time.Hour // after which a library of content safety is old
	standardWords      = 10_000             // of a library, and its risks, as GB/T 45654 wants them
	standardRisks      = 31
	lateAfter          = time.Hour     // without progress
	comparedWithin     = 3 * time.Hour // audit and billing
)

// lateness remembers since when something that should move has not, from one look to the next.
type lateness struct {
	mu     sync.Mutex
	stalls map[string]*alerts.Stall
}

// lasts returns for how long there was work of that name and mark, a time of the newest progress, stayed the same.
func (l *lateness) lasts(name string, work bool, mark time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stalls == nil {
		l.stalls = map[string]*alerts.Stall{}
	}
	if l.stalls[name] == nil {
		l.stalls[name] = &alerts.Stall{}
	}
	return l.stalls[name].Lasts(work, mark)
}

// aboutInstallation are the controls whose facts are those of the installation, not of a tenant.
func aboutInstallation(id string) bool {
	switch id {
	case "audit-records", "audit-integrity", "audit-witnesses", "audit-monitoring", "encryption", "transport", "local-only", "models", "alarms", "duties":
		return true
	}
	return false
}

// controls are the questions to this installation how the controls of the compliance matrix stand for a tenant. Facts of the installation are told to the
// operator's tenant alone.
func (p *parts) controls(tenant string) map[string]compliance.Probe {
	asked := map[string]func(ctx context.Context, tenant string) (compliance.Answer, error){
		"audit-records": p.askRecords, "audit-integrity": p.askSeals, "audit-witnesses": p.askWitnesses, "audit-retention": p.askRetention,
		"audit-monitoring": p.askMonitoring, "books": p.askBooks, "duties": p.askDuties, "second-factor": p.askSecondFactor, "access-rights": p.builtSo,
		"access-review": p.askReviews, "key-hygiene": p.askKeys, "tenants-apart": p.builtSo, "encryption": p.askEncryption, "transport": p.askTransport,
		"masking": p.askMasking, "local-only": p.askEgress, "erasure": p.builtSo, "content-safety": p.askSafety, "refusal": p.askRefusal, "labels": p.askLabels, "visible-labels": p.askVisible, "injection": p.askInjection,
		"provenance": p.askProvenance, "limits": p.askLimits, "rollouts": p.askRollouts, "models": p.askModels, "documents": p.askDocuments, "alarms": p.askAlarms,
		"emergency": p.askEmergency,
	}
	out := map[string]compliance.Probe{}
	for id, ask := range asked {
		out[id] = func(ctx context.Context) (compliance.Answer, error) {
			a, err := ask(ctx, tenant)
			if tenant != p.identity.Operator() && aboutInstallation(id) {
				a.Facts = nil
			}
			return a, err
		}
	}
	return out
}

// evaluate asks all controls of the matrix for a tenant. All who ask of one at a time get the same answers.
func (p *parts) evaluate(ctx context.Context, tenant string) (compliance.Evaluation, error) {
	v, err, _ := p.evaluations.Do(tenant, func() (any, error) {
		m, err := compliance.ReadMatrix()
		if err != nil {
			return compliance.Evaluation{}, err
		}
		return m.Evaluate(context.WithoutCancel(ctx), p.controls(tenant), time.Now()), nil
	})
	return v.(compliance.Evaluation), err //nolint:forcetypeassert // what the function returns
}

// controlStates says how the controls stand in the operator's tenant, for the alert.
func (p *parts) controlStates(ctx context.Context) ([]alerts.Control, error) {
	e, err := p.evaluate(ctx, p.identity.Operator())
	var out []alerts.Control
	for _, c := range e.Matrix.Controls {
		state := e.Answers[c.ID].State
		out = append(out, alerts.Control{
			ID: c.ID, Name: message.Quote(c.Name.EN, c.Name.ZH), Remedy: message.Quote(c.Remedy.EN, c.Remedy.ZH),
			Holds: state == compliance.Holds || state == compliance.Built, Broken: state == compliance.Broken, Unknown: state == compliance.Unknown,
		})
	}
	return out, err
}

func (p *parts) askRecords(_ context.Context, tenant string) (compliance.Answer, error) {
	lost := p.audit.Losses()[tenant]
	a := compliance.Stands(true, p.audit.Ready() == nil && lost == 0, compliance.Figure(message.Say("compliance.fact_lost"), lost), compliance.Words(message.Say("compliance.fact_mode"), string(p.audit.Mode(tenant))))
	if p.audit.Mode(tenant) == audit.ModeBestEffort && a.State == compliance.Holds { // requests go on without a record while the log cannot be written
		a.State = compliance.Partly
	}
	return a, nil
}

func (p *parts) askSeals(ctx context.Context, _ string) (compliance.Answer, error) {
	state, err := p.audit.Status()
	if err != nil {
		return compliance.Answer{}, err
	}
	unsealed, err := p.audit.Unsealed(ctx)
	late := p.late.lasts("seals", unsealed > 0, state.Seen) > lateAfter
	return compliance.Stands(true, state.Rewritten == "" && !late,
		compliance.Figure(message.Say("compliance.fact_sealed"), state.Checkpoint.Size), compliance.Figure(message.Say("compliance.fact_unsealed"), unsealed), compliance.Moment(message.Say("compliance.fact_checkpoint"), state.Seen)), err
}

func (p *parts) askWitnesses(ctx context.Context, _ string) (compliance.Answer, error) {
	list, err := p.witnesses(ctx)
	well := true
	for _, w := range list {
		well = p.late.lasts("witness "+w.Name, w.Behind > 0, w.Time) <= lateAfter && well
	}
	return compliance.Stands(len(list) > 0, well, compliance.Figure(message.Say("compliance.fact_witnesses"), int64(len(list)))), err
}

func (p *parts) askRetention(_ context.Context, tenant string) (compliance.Answer, error) {
	r := p.audit.Retention()
	records, sensitive := max(r.RecordsDays, r.TenantDays[tenant]), max(r.SensitiveDays, r.TenantDays[tenant])
	return compliance.Stands(true, (records == 0 || records >= leastRecordDays) && (sensitive == 0 || sensitive >= leastSensitiveDays),
		compliance.Figure(message.Say("compliance.fact_record_days"), int64(records)), compliance.Figure(message.Say("compliance.fact_sensitive_days"), int64(sensitive))), nil
}

func (p *parts) askMonitoring(ctx context.Context, _ string) (compliance.Answer, error) {
	list, err := p.monitoring(ctx)
	well := true
	for _, d := range list {
		well = p.late.lasts("destination "+d.Name, d.Behind > 0, d.Oldest) <= lateAfter && well
	}
	return compliance.Stands(len(list) > 0, well, compliance.Figure(message.Say("compliance.fact_destinations"), int64(len(list)))), err
}

// askBooks: what was never compared, or not for hours, agrees with nothing.
func (p *parts) askBooks(ctx context.Context, tenant string) (compliance.Answer, error) {
	state, err := p.reconciler.State(ctx, tenant)
	open := int64(0)
	for _, n := range state.Open {
		open += n
	}
	compared := !state.Finished.IsZero()
	return compliance.Stands(compared || open > 0, open == 0 && time.Since(state.Finished) < comparedWithin,
		compliance.Figure(message.Say("compliance.fact_findings"), open), compliance.Moment(message.Say("compliance.fact_compared"), state.Finished)), err
}

func (p *parts) askDuties(context.Context, string) (compliance.Answer, error) {
	duties, err := p.identity.Duties()
	return compliance.Stands(duties == identity.DutiesSeparated, true, compliance.Words(message.Say("compliance.fact_duties"), string(duties))), err
}

func (p *parts) askSecondFactor(ctx context.Context, tenant string) (compliance.Answer, error) {
	users, err := p.identity.ListUsers(ctx, tenant)
	all, with := 0, 0
	for _, u := range users {
		if u.Disabled || !identity.Administers(u.Roles) {
			continue
		}
		all++
		if p.identity.ShowsSecondFactor(u.ID) {
			with++
		}
	}
	demanded := p.cfg.Identity.SecondFactor == identity.SecondFactorsAdministrators
	a := compliance.StandsFor(with, all, compliance.Part(message.Say("compliance.fact_second_factor"), with, all), compliance.Setting(message.Say("compliance.fact_demanded"), demanded))
	if a.State == compliance.Holds && !demanded || a.State == compliance.Off && demanded { // the next one need not, or nobody has signed in yet
		a.State = compliance.Partly
	}
	return a, err
}

// builtSo answers for what the program is made of, and nobody can switch off.
func (p *parts) builtSo(context.Context, string) (compliance.Answer, error) {
	return compliance.Answer{State: compliance.Built}, nil
}

func (p *parts) askReviews(ctx context.Context, tenant string) (compliance.Answer, error) {
	list, err := p.reviews.Campaigns(ctx, tenant)
	var last time.Time
	overdue := 0
	for _, c := range list {
		switch {
		case c.CancelledBy != "":
		case c.Ended.IsZero() && time.Now().After(c.Due):
			overdue++
		case c.Ended.After(last):
			last = c.Ended
		}
	}
	return compliance.Stands(!last.IsZero() || overdue > 0, overdue == 0 && time.Since(last) < reviewEvery, compliance.Moment(message.Say("compliance.fact_reviewed"), last), compliance.Figure(message.Say("compliance.fact_overdue"), int64(overdue))), err
}

func (p *parts) askKeys(ctx context.Context, tenant string) (compliance.Answer, error) {
	keys, err := p.identity.ListKeys(ctx, tenant, "")
	if err != nil {
		return compliance.Answer{}, err
	}
	active := int64(0)
	for _, k := range keys {
		if k.RevokedAt.IsZero() && time.Now().Before(k.ExpiresAt) {
			active++
		}
	}
	suspects, err := p.identity.Suspects(ctx)
	bad := int64(0)
	for _, s := range suspects {
		if s.Tenant == tenant {
			bad++
		}
	}
	return compliance.Stands(true, bad == 0, compliance.Figure(message.Say("compliance.fact_keys"), active), compliance.Figure(message.Say("compliance.fact_suspects"), bad)), err
}

func (p *parts) askEncryption(ctx context.Context, _ string) (compliance.Answer, error) {
	key, err := keysource.New(p.cfg.KeySource).Status()
	if err != nil {
		return compliance.Answer{}, err
	}
	ring, err := p.rotator.Status(ctx)
	a := compliance.Stands(true, true, compliance.Words(message.Say("compliance.fact_master_key"), key.Kind), compliance.Figure(message.Say("compliance.fact_epoch"), ring.Active), compliance.Moment(message.Say("compliance.fact_rotated"), ring.Finished))
	if key.Kind == keysource.Plain || key.Leftover { // what is encrypted with it lies beside it
		a.State = compliance.Partly
	}
	return a, err
}

func (p *parts) askTransport(context.Context, string) (compliance.Answer, error) {
	own := p.cfg.TLS.CertFile != ""
	outside := strings.HasPrefix(p.cfg.PublicURL, "https://")
	local := true
	for _, address := range []string{p.cfg.Listen, p.cfg.AdminListen, p.cfg.InferenceListen, p.cfg.Operations.Listen} {
		host, _, err := net.SplitHostPort(address)
		ip := net.ParseIP(host)
		local = local && (address == "" || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback()))
	}
	a := compliance.Stands(own || outside || local, true, compliance.Setting(message.Say("compliance.fact_tls"), own), compliance.Setting(message.Say("compliance.fact_proxy"), outside && !own), compliance.Setting(message.Say("compliance.fact_loopback"), local))
	if a.State == compliance.Holds && !own && !local { // whoever reaches the listener itself speaks in clear
		a.State = compliance.Partly
	}
	return a, nil
}

func (p *parts) askMasking(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	a := compliance.Stands(true, c.Unusable == 0, compliance.Figure(message.Say("compliance.fact_policies"), int64(c.Policies)), compliance.Figure(message.Say("compliance.fact_unusable"), int64(c.Unusable)),
		compliance.Words(message.Say("compliance.fact_exposed"), strings.Join(c.Exposed, ", ")))
	if a.State == compliance.Holds && len(c.Exposed) > 0 {
		a.State = compliance.Partly
	}
	return a, err
}

// askEgress: what runs outside of this process gets what the policies let through.
func (p *parts) askEgress(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	a := compliance.Stands(true, true, compliance.Setting(message.Say("compliance.fact_outside"), p.outside()), compliance.Words(message.Say("compliance.fact_exposed"), strings.Join(c.Exposed, ", ")))
	if p.outside() && len(c.Exposed) > 0 {
		a.State = compliance.Partly
	}
	return a, err
}

// askSafety: the starter alone is none to rest on, and the floors are those of GB/T 45654.
func (p *parts) askSafety(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	a := compliance.StandsFor(c.Safe, c.Policies, compliance.Part(message.Say("compliance.fact_safe"), c.Safe, c.Policies), compliance.Figure(message.Say("compliance.fact_words"), int64(c.Words)),
		compliance.Part(message.Say("compliance.fact_risks"), c.Risks, standardRisks), compliance.Moment(message.Say("compliance.fact_library"), c.Library))
	age := time.Since(c.Library)
	if a.State == compliance.Holds && (c.Words < standardWords || c.Risks < standardRisks || age > libraryAge || age < -24*time.Hour) {
		a.State = compliance.Partly
	}
	return a, err
}

// askInjection: rules find a part of the injections, and never all.
func (p *parts) askInjection(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	a := compliance.StandsFor(c.Safe, c.Policies, compliance.Part(message.Say("compliance.fact_safe"), c.Safe, c.Policies))
	if a.State == compliance.Holds {
		a.State = compliance.Partly
	}
	return a, err
}

func (p *parts) askRefusal(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	return compliance.StandsFor(c.Answering, c.Policies, compliance.Part(message.Say("compliance.fact_answering"), c.Answering, c.Policies)), err
}

// askLabels makes a label and reads it back.
func (p *parts) askLabels(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	well := p.labels.Verify(p.labels.Make("00000000-0000-0000-0000-000000000000", tenant), tenant) == nil
	a := compliance.Stands(true, well && c.Unusable == 0, compliance.Words(message.Say("compliance.fact_producer"), p.cfg.Label.Producer))
	if a.State == compliance.Holds && p.cfg.Label.Producer == "" {
		a.State = compliance.Partly
	}
	return a, err
}

func (p *parts) askVisible(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	visible := c.Visible
	if p.cfg.Label.RequireAgreement {
		visible = c.Policies
	}
	return compliance.StandsFor(visible, c.Policies, compliance.Part(message.Say("compliance.fact_visible"), visible, c.Policies)), err
}

func (p *parts) askProvenance(_ context.Context, tenant string) (compliance.Answer, error) {
	c, err := p.guard.Coverage(tenant)
	a := compliance.Stands(p.cfg.Registry.Enabled, true, compliance.Setting(message.Say("compliance.fact_registry"), p.cfg.Registry.Enabled),
		compliance.Part(message.Say("compliance.fact_signed"), c.Signed, c.Policies), compliance.Part(message.Say("compliance.fact_watermarked"), c.Watermarked, c.Policies))
	if a.State == compliance.Holds && (c.Signed < c.Policies || c.Watermarked < c.Policies) || a.State == compliance.Off && c.Signed+c.Watermarked > 0 {
		a.State = compliance.Partly
	}
	return a, err
}

func (p *parts) askLimits(ctx context.Context, tenant string) (compliance.Answer, error) {
	l := p.cfg.Limits
	own, err := p.ledger.Budgets(ctx, tenant)
	bounded := l.Key.TokensPerMinute > 0 && l.Tenant.TokensPerMinute > 0
	a := compliance.Stands(bounded || len(own) > 0, true, compliance.Figure(message.Say("compliance.fact_tokens_key"), int64(l.Key.TokensPerMinute)),
		compliance.Figure(message.Say("compliance.fact_tokens_tenant"), int64(l.Tenant.TokensPerMinute)), compliance.Figure(message.Say("compliance.fact_budgets"), int64(len(own))))
	if !bounded && a.State == compliance.Holds { // money is bounded, and not how much at a time
		a.State = compliance.Partly
	}
	return a, err
}

// askRollouts: gates are how the program is made, where there are workflows.
func (p *parts) askRollouts(context.Context, string) (compliance.Answer, error) {
	if p.flows == nil {
		return compliance.Answer{State: compliance.Off}, nil
	}
	return compliance.Answer{State: compliance.Built}, nil
}

// askModels: only engines of our own check digests; what an administrator says of an upstream is his word.
func (p *parts) askModels(context.Context, string) (compliance.Answer, error) {
	all, known, sick := 0, 0, 0
	for _, m := range p.router.Models() {
		all++
		switch {
		case m.Err != nil:
			sick++
		case m.Info.Digest != "" && !slices.ContainsFunc(p.pools.Instances(m.Engine), func(i *pool.Instance) bool { return i.Kind == pool.KindRemote }):
			known++
		}
	}
	facts := []compliance.Fact{compliance.Part(message.Say("compliance.fact_digests"), known, all), compliance.Figure(message.Say("compliance.fact_sick"), int64(sick))}
	if sick > 0 {
		return compliance.Stands(true, false, facts...), nil
	}
	return compliance.StandsFor(known, all, facts...), nil
}

func (p *parts) askDocuments(context.Context, string) (compliance.Answer, error) {
	if p.rag == nil {
		return compliance.Answer{State: compliance.Off}, nil
	}
	a := compliance.Stands(true, p.rag.Ready() == nil)
	if a.State == compliance.Holds {
		a.State = compliance.Built
	}
	return a, nil
}

// askAlarms: whether a channel delivers is known when something is delivered, so that one that is set up is no more than that.
func (p *parts) askAlarms(context.Context, string) (compliance.Answer, error) {
	n := len(p.cfg.Notify.Channels)
	a := compliance.Stands(n > 0, true, compliance.Figure(message.Say("compliance.fact_channels"), int64(n)))
	if n > 0 {
		a.State = compliance.Partly
	}
	return a, nil
}

func (p *parts) askEmergency(ctx context.Context, tenant string) (compliance.Answer, error) {
	if tenant != p.identity.Operator() { // emergency access is the operator's
		return compliance.Stands(true, true), nil
	}
	uses, err := p.identity.EmergencyUses(ctx)
	seals, serr := p.identity.Seals(ctx)
	unseen, sealed := int64(0), int64(0)
	for _, u := range uses {
		if u.Reviewed.IsZero() && !u.ReviewDue.IsZero() && time.Now().After(u.ReviewDue) {
			unseen++
		}
	}
	for _, s := range seals {
		if s.Spent.IsZero() && s.RevokedAt.IsZero() {
			sealed++
		}
	}
	return compliance.Stands(true, unseen == 0, compliance.Figure(message.Say("compliance.fact_seals"), sealed), compliance.Figure(message.Say("compliance.fact_unreviewed"), unseen)), errors.Join(err, serr)
}
