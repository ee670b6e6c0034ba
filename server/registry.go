package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"
	"unicode"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/gateway/replies"
	"github.com/sluice-project/sluice/governance/label"
	"github.com/sluice-project/sluice/governance/registry"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/seal"
)

var errNotMerging = errors.New("another replica merges the registry")

// registryLease keeps the merging of the registry with one replica, which prolongs it while it works. It is longer than the clocks of replicas may differ: else
// one that is ahead takes it from one that prolongs it in time.
func registryLease() audit.Lease {
	return audit.Lease{Name: "registry", For: 5 * time.Minute, Taken: errNotMerging}
}

// buildRegistry opens what remembers answers. Commands need it as well: they store and remove records with what is kept beside them.
func (p *parts) buildRegistry() (err error) {
	suite := p.cfg.Audit.Suite
	if suite == "" {
		suite = seal.Intl
	}
	p.registry, err = registry.New(registry.Config{
		DB: p.db, Keys: p.keys, Suite: suite, Enabled: p.cfg.Registry.Enabled, Log: p.log.With(slog.String("component", "registry")), Metrics: p.reg,
		Gone: goneBeside, Variants: variants,
		Leads: func(ctx context.Context) (bool, error) {
			err := registryLease().Take(p.db.WithContext(ctx), p.audit.Writer(), time.Now())
			if errors.Is(err, errNotMerging) {
				return false, nil
			}
			return err == nil, database.Unavailable("take the lease of the registry", err)
		},
	})
	return err
}

// runRegistry puts the registry in order until ctx ends, and lets others do so then.
func (p *parts) runRegistry(ctx context.Context) error {
	err := p.registry.Run(ctx)
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if rerr := registryLease().Release(p.db.WithContext(release), p.audit.Writer()); rerr != nil {
		p.log.LogAttrs(release, slog.LevelWarn, "the lease of the registry stays until it expires", slog.String("error", rerr.Error()))
	}
	return err
}

// auditConfig is the configuration of the audit log, with what is kept beside its records.
func (p *parts) auditConfig() audit.Config {
	cfg := p.cfg.Audit.Config
	cfg.Beside = beside{p.registry}
	cfg.Rollup = p.serviceLevel().Add
	return cfg
}

// beside keeps what the registry remembers with the records of the answers.
type beside struct{ *registry.Service }

// Keep implements store.Beside.
func (b beside) Keep(tx *gorm.DB, marks []store.Mark) error {
	all := make([]registry.Mark, len(marks))
	for i, m := range marks {
		all[i] = registry.Mark{Tenant: m.Tenant, Record: m.Record, Request: m.Request, Subject: m.Subject, Time: m.Time, Data: m.Data}
	}
	return b.Service.Keep(tx, all)
}

// variants returns the forms in which a text may have been answered: its visible label, which the key or the policy adds as the last line, falls off where somebody copies a text.
func variants(text string) []string {
	text = strings.TrimRightFunc(text, unicode.IsSpace)
	if i := strings.LastIndexAny(text, "\r\n"); i >= 0 && label.Marks(text[i+1:]) {
		text = text[:i]
	}
	return []string{text, text + "\n\n" + label.Wording(label.ChannelAPI, false), text + "\n\n" + label.Wording(label.ChannelAPI, true)}
}

// goneBeside returns the records of entries that the release before left when it pruned or erased.
func goneBeside(db *gorm.DB, of []registry.Mark) ([]string, error) {
	marks := make([]store.Mark, len(of))
	for i, m := range of {
		marks[i] = store.Mark{Tenant: m.Tenant, Record: m.Record, Request: m.Request, Subject: m.Subject, Time: m.Time}
	}
	gone, err := store.Gone(db, marks)
	records := make([]string, len(gone))
	for i, m := range gone {
		records[i] = m.Record
	}
	return records, err
}

// Drop implements store.Beside.
func (beside) Drop(tx *gorm.DB, records []string) error { return registry.Drop(tx, records) }

// eraseBeside removes what else was made for a person: answers that are kept for a while, and what the registry remembers of all.
func eraseBeside(tx *gorm.DB, tenant, subject string) (map[string]int64, error) {
	registered, err := registry.EraseSubject(tx, tenant, subject)
	if err != nil {
		return nil, err
	}
	answers, err := replies.EraseSubject(tx, tenant, subject)
	return map[string]int64{"answers": answers, "registered": registered}, err
}
