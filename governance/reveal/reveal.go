// Package reveal is a façade over the pseudonym store: it shows people the values behind pseudonyms, as much of each as the policy allows.
//
// [Rules] decide by the person's roles, the stated purpose and the class of the value. An hourly limit bounds the values that one person sees
// in clear or in part, since collected parts reveal as much. A value in clear also needs a recent sign-in. Above a number of values in clear per
// hour it needs the approval of a second person, which is bound to exactly this request and spent by it; approved values do not count towards
// that number. The database counts the hour for all replicas, and a count stays even if the answer is lost.
//
// The caller checks the permission before and writes the audit record between [Service.Reveal] and the answer. No error holds a value.
package reveal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Config bounds what one person may see. Zero values mean the defaults named at each field.
type Config struct {
	Fresh         time.Duration `koanf:"fresh"`          // age of a sign-in up to which values are shown in clear; 5m
	PerHour       int           `koanf:"per_hour"`       // values in clear or in part; 200
	SweepSessions int           `koanf:"sweep_sessions"` // conversations in an hour beyond which there is an alarm; 20
}

// WithDefaults fills the zero values.
func (c Config) WithDefaults() Config {
	if c.Fresh == 0 {
		c.Fresh = 5 * time.Minute
	}
	if c.PerHour == 0 {
		c.PerHour = 200
	}
	if c.SweepSessions == 0 {
		c.SweepSessions = 20
	}
	return c
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	c = c.WithDefaults()
	if c.Fresh < time.Second || c.Fresh > 12*time.Hour {
		return errors.New("fresh: must lie between 1s and 12h")
	}
	if c.PerHour < 1 || c.SweepSessions < 1 {
		return errors.New("per_hour and sweep_sessions: must be positive")
	}
	return nil
}

// Visibility is how much of a value a person sees.
type Visibility string

// The visibilities, the least first.
const (
	VisibleToken   Visibility = "token"   // its pseudonym
	VisiblePartial Visibility = "partial" // its ends
	VisibleClear   Visibility = "clear"   // the value
	// VisibleUnknown is that of a pseudonym without a value: it was never stored, or it has expired.
	VisibleUnknown Visibility = "unknown"
)

// Rules are the reveal rules of a tenant's policy for one person and purpose.
type Rules struct {
	Detectors        *classify.Set // of the policy, for the tags of pseudonyms
	Visibility       func(classify.Class) Visibility
	Grade            func(classify.Class) int
	SecondPersonFrom int // so many values in clear within an hour need a second person
}

// Request is a request to see values again.
type Request struct {
	Principal identity.Principal
	Target    pseudonym.Target
	Purpose   string
	Text      string   // in which every pseudonym is looked up, and
	Tokens    []string // pseudonyms or their codes
	Approval  string   // id; "" if nobody approved. It is spent if a value is shown in clear, needed or not
}

// Value is a pseudonym and what is shown of it. A result has each pseudonym once.
type Value struct {
	Token      string // as it was asked for
	Code       string
	Class      string // "" if it is unknown
	Grade      int
	Visibility Visibility
	Text       keyring.Secret // if Visibility is VisiblePartial or VisibleClear
}

// Result is what may be shown. Text is the text of the request with values in it.
type Result struct {
	Text     keyring.Secret
	Values   []Value
	Approval string // that was spent; "" if none was
	// Sessions is how many conversations this person has asked for within the hour; Alarm is set when this request made it more than is usual.
	Sessions int
	Alarm    bool
}

// Counts returns how many values of each class are shown in which way, as "class/show", for records.
func (r Result) Counts() map[string]int {
	out := map[string]int{}
	for _, v := range r.Values {
		out[cmp.Or(v.Class, "-")+"/"+string(v.Visibility)]++
	}
	return out
}

// Service shows values. It is safe for concurrent use.
type Service struct {
	cfg       Config
	values    *pseudonym.Store
	store     tables
	approvals *approval.Store
	rules     func(tenant string, roles []string, purpose string) (Rules, error)
	digest    func(parts ...string) string
	metrics   *metrics
	log       *slog.Logger
	now       func() time.Time
}

// New returns a service over a pseudonym store and a migrated database. reg may be nil.
func New(cfg Config, v *pseudonym.Store, s Tables, book *approval.Store, rules func(tenant string, roles []string, purpose string) (Rules, error), keys *keyring.Ring,
	log *slog.Logger, reg prometheus.Registerer,
) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("reveal: %w", err)
	}
	return &Service{
		cfg: cfg.WithDefaults(), values: v, store: tables(s), approvals: book, rules: rules, metrics: newMetrics(reg), log: log.With(slog.String("component", "reveal")),
		now: time.Now, digest: func(parts ...string) string { return fmt.Sprintf("%x", keys.MAC("reveal/approval/v1", parts...)) },
	}, nil
}

const (
	maxTokens  = 500 // of a request
	maxPurpose = 200 // bytes
	hour       = time.Hour
)

// Target returns the digest of a target for records.
func (s *Service) Target(t pseudonym.Target) string { return s.values.Digest(t) }

// Reveal returns what may be shown. Errors: CodeInvalidValue, CodeMissing; CodeReauthenticate for a sign-in that is too old; CodeApprovalNeeded;
// CodeConflict for an approval that does not fit; CodeRevealLimited; CodeVaultUnavailable, CodePolicyUnavailable, CodeDatabaseUnavailable.
func (s *Service) Reveal(ctx context.Context, ask Request) (Result, error) {
	out, err := s.reveal(ctx, ask)
	if err != nil {
		s.metrics.refusals.WithLabelValues(string(fault.Public(err).Code())).Inc()
		return Result{}, err
	}
	for _, v := range out.Values {
		s.metrics.values.WithLabelValues(string(v.Visibility)).Inc()
	}
	if out.Alarm {
		s.metrics.sweeps.Inc()
		s.log.Warn("somebody looks at the values of unusually many conversations", slog.String("user", ask.Principal.ID), slog.String("tenant", ask.Target.Tenant),
			slog.Int("sessions", out.Sessions), slog.Int("usual", s.cfg.SweepSessions))
	}
	return out, nil
}

func (s *Service) reveal(ctx context.Context, ask Request) (Result, error) {
	p, err := s.prepare(ctx, &ask)
	if err != nil {
		return Result{}, err
	}
	u := s.usageOf(ask, p)
	if p.clear > 0 {
		if err := s.approvals.RequireFreshSignIn(ask.Principal); err != nil {
			return Result{}, err
		}
		if ask.Approval != "" {
			u.approval = ask.Approval
		}
	}
	before, after, err := s.store.spend(ctx, s.approvals, u, s.now())
	if err != nil {
		return Result{}, err
	}
	return Result{
		Text: p.restore(ask.Text), Values: p.values, Approval: u.approval, Sessions: after, Alarm: after > before && after > s.cfg.SweepSessions,
	}, nil
}

// usageOf returns what a request counts if it succeeds.
func (s *Service) usageOf(ask Request, p *lookup) usage {
	return usage{
		person: ask.Principal.ID, target: s.values.Digest(ask.Target), clear: p.clear, partial: p.partial, limit: s.cfg.PerHour, second: p.rules.SecondPersonFrom,
		digest: s.binding(ask, p),
	}
}

// binding returns the digest that an approval is bound to: person, target, purpose and pseudonyms.
func (s *Service) binding(ask Request, p *lookup) string {
	var codes []string
	for _, v := range p.values {
		if v.Visibility == VisibleClear {
			codes = append(codes, v.Code)
		}
	}
	slices.Sort(codes)
	return s.digest(ask.Target.Tenant, s.values.Digest(ask.Target), ask.Principal.ID, ask.Purpose, strings.Join(codes, " "))
}

// RequestApproval asks for an approval of what [Service.Reveal] with the same request needs one for; it is good for an hour. Errors: as of Reveal,
// CodeConflict if no approval is needed or too many of this person wait.
func (s *Service) RequestApproval(ctx context.Context, ask Request) (approval.Approval, error) {
	p, err := s.prepare(ctx, &ask)
	if err != nil {
		return approval.Approval{}, err
	}
	if p.clear == 0 {
		return approval.Approval{}, fault.New(fault.CodeConflict, fault.Say("reveal.nothing_in_full"))
	}
	a, err := s.approvals.New(approval.Approval{
		Tenant: ask.Target.Tenant, Kind: approval.KindReveal, Target: s.values.Digest(ask.Target), Purpose: ask.Purpose,
		Counts: Result{Values: p.values}.Counts(), AskedBy: ask.Principal.ID, AskedName: ask.Principal.Name,
	})
	if err != nil {
		return approval.Approval{}, err
	}
	return a, s.store.addApproval(ctx, s.approvals, a, s.usageOf(ask, p), a.Created)
}

// lookup is a request with what is known of its pseudonyms, before anything is decided about the person.
type lookup struct {
	rules   Rules
	values  []Value
	clear   int // how many of them are shown so
	partial int
	tokens  []mask.Token // in the text
}

// prepare looks up what is asked for, and tidies the request.
func (s *Service) prepare(ctx context.Context, ask *Request) (*lookup, error) {
	ask.Purpose = strings.TrimSpace(ask.Purpose)
	if ask.Purpose == "" {
		return nil, fault.New(fault.CodeMissing, "purpose").WithParam("purpose")
	}
	if len(ask.Purpose) > maxPurpose || !utf8.ValidString(ask.Purpose) {
		return nil, fault.New(fault.CodeInvalidValue, "purpose", fault.Say("value.text_bytes", maxPurpose)).WithParam("purpose")
	}
	rules, err := s.rules(ask.Target.Tenant, ask.Principal.Roles, ask.Purpose)
	if err != nil {
		return nil, err
	}
	p := &lookup{rules: rules, tokens: mask.Tokens(rules.Detectors, ask.Text)}
	codes := p.collect(ask)
	if len(codes) > maxTokens {
		return nil, fault.New(fault.CodeInvalidValue, "tokens", fault.Say("reveal.too_many_pseudonyms", len(codes), maxTokens)).WithParam("tokens")
	}
	found, err := s.values.Find(ctx, ask.Target, codes)
	if err != nil {
		return nil, err
	}
	p.applyRules(found)
	if n := p.clear + p.partial; n > s.cfg.PerHour {
		return nil, fault.New(fault.CodeInvalidValue, "tokens", fault.Say("reveal.too_many_values", n, s.cfg.PerHour)).WithParam("tokens")
	}
	return p, nil
}

// collect lists the pseudonyms of a request, each once, and returns their codes.
func (p *lookup) collect(ask *Request) (codes []string) {
	seen := map[string]bool{}
	add := func(token, code string) {
		if code != "" && seen[code] {
			return
		}
		seen[code] = true
		p.values = append(p.values, Value{Token: token, Code: code, Visibility: VisibleUnknown})
		if code != "" {
			codes = append(codes, code)
		}
	}
	for _, t := range p.tokens {
		add(ask.Text[t.Start:t.End], t.Code)
	}
	for _, t := range ask.Tokens {
		code, _ := mask.Code(p.rules.Detectors, t)
		add(t, code)
	}
	return codes
}

// applyRules decides the visibility of each value. It drops text that only looks like a pseudonym and has no value.
func (p *lookup) applyRules(found map[string]pseudonym.Value) {
	whole := map[string]bool{}
	for _, t := range p.tokens {
		whole[t.Code] = whole[t.Code] || t.Whole
	}
	p.values = slices.DeleteFunc(p.values, func(v Value) bool {
		_, there := found[v.Code]
		meant, inText := whole[v.Code]
		return !there && inText && !meant
	})
	for i := range p.values {
		v := &p.values[i]
		f, ok := found[v.Code]
		if !ok {
			continue
		}
		class := classify.Class(f.Class)
		v.Class, v.Grade, v.Visibility = f.Class, p.rules.Grade(class), p.rules.Visibility(class)
		switch v.Visibility {
		case VisibleClear:
			v.Text = f.Text
			p.clear++
		case VisiblePartial:
			v.Text = keyring.Secret(mask.Partial(class, p.tag(class), f.Text.Reveal()))
			p.partial++
		case VisibleToken, VisibleUnknown:
		default: // a rule nobody knows shows nothing
			v.Visibility = VisibleToken
		}
	}
}

func (p *lookup) tag(c classify.Class) string {
	if t, ok := p.rules.Detectors.TypeOf(c); ok {
		return t.Tag
	}
	return string(c)
}

// restore returns the text with visible values in place of their pseudonyms.
func (p *lookup) restore(text string) keyring.Secret {
	shown := map[string]string{}
	for _, v := range p.values {
		if v.Visibility == VisibleClear || v.Visibility == VisiblePartial {
			shown[v.Code] = v.Text.Reveal()
		}
	}
	var b strings.Builder
	from := 0
	for _, t := range p.tokens {
		if v, ok := shown[t.Code]; ok {
			b.WriteString(text[from:t.Start])
			b.WriteString(v)
			from = t.End
		}
	}
	b.WriteString(text[from:])
	return keyring.Secret(b.String())
}
