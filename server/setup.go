package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/gateway/route"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/keysource"
)

// What the first start creates.
const (
	operatorTenant  = "demo"
	operatorProject = "default"
	adminUser       = "admin"
	firstVersion    = "v1"
)

// settingInitialised marks a database whose first start is complete. It is written last: a first start that was interrupted is
// repeated, and every step of it can be.
const settingInitialised = "initialised_at"

// Welcome is what the first start shows once. It is empty on later starts.
type Welcome struct {
	AdminUser     string
	AdminPassword keyring.Secret
	APIKey        keyring.Secret
}

// prepare makes the directories, the master key, which it returns, and the schema; `serve` never does.
func prepare(ctx context.Context, cfg *config.Config) (keys *keyring.Ring, err error) {
	if err := writable(cfg.Data); err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, cfg.Database)
	if err != nil {
		return nil, err
	}
	st, err := migrations.Apply(ctx, db)
	if err == nil {
		err = st.Usable()
	}
	if err == nil {
		keys, err = prepareKey(ctx, cfg, db)
	}
	return keys, errors.Join(err, database.Close(db))
}

// writable makes the data directory if it is missing and tries it with a file, so that the first thing that fails is said plainly.
func writable(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(dir, ".probe-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("the data directory %s cannot be written: %w; give this user the right to write there, or choose another directory with --data", dir, err)
	}
	return nil
}

// prepareKey opens the master key, or makes it for a new installation. An installation that has lost its key gets no other: with
// another, every stored digest would be void and the audit log would not verify.
func prepareKey(ctx context.Context, cfg *config.Config, db *gorm.DB) (*keyring.Ring, error) {
	custodian := keysource.New(cfg.KeySource)
	if _, err := custodian.Status(); !errors.Is(err, fs.ErrNotExist) {
		return custodian.Open(ctx)
	}
	done, err := setting(ctx, db, settingInitialised)
	if err != nil {
		return nil, err
	}
	if done != "" {
		return nil, fmt.Errorf("the database is in use since %s but its master key %s is missing; restore that file from your backup", done, cfg.MasterKeyFile)
	}
	return custodian.Create(ctx)
}

// bootstrap fills an empty installation: the demo tenant with an administrator and a key, the default policy and price book, and
// the models of the configured engines. It runs once; interrupted, it is repeated with a new password and key.
func (p *parts) bootstrap(ctx context.Context) (Welcome, error) {
	done, err := setting(ctx, p.db, settingInitialised)
	if err != nil || done != "" {
		return Welcome{}, err
	}
	w := Welcome{AdminUser: adminUser, AdminPassword: keyring.Secret(rand.Text())}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"administrator", func(ctx context.Context) error { return p.createAdmin(ctx, w.AdminPassword.Reveal()) }},
		{"policy", p.publishDefaultPolicy},
		{"models", p.registerModels},
		{"API key", func(ctx context.Context) error {
			err := p.identity.CreateProject(ctx, identity.Project{Tenant: operatorTenant, ID: operatorProject, Name: "Default"})
			if err != nil && !fault.Is(err, fault.CodeExists) {
				return err
			}
			_, secret, err := p.identity.CreateKey(ctx, identity.NewKey{Tenant: operatorTenant, Project: operatorProject, Name: "first key", CreatedBy: "setup"})
			w.APIKey = keyring.Secret(secret)
			return err
		}},
		{"record", func(ctx context.Context) error {
			_, err := p.audit.Append(ctx, audit.Event{
				Stage: audit.StageAction, Tenant: operatorTenant, Actor: audit.Actor{Kind: "system", ID: "setup"},
				Action: "installation.setup", Resource: adminUser, Decision: "allow", Outcome: "ok",
				Detail: map[string]string{"duties": string(identity.DutiesMerged)},
			})
			return err
		}},
		{"mark", func(ctx context.Context) error {
			return setSetting(ctx, p.db, settingInitialised, time.Now().UTC().Format(time.RFC3339))
		}},
	} {
		if err := step.do(ctx); err != nil {
			return Welcome{}, fmt.Errorf("first start: %s: %w", step.name, err)
		}
	}
	p.log.LogAttrs(ctx, slog.LevelInfo, "installation set up", slog.String("tenant", operatorTenant))
	return w, nil
}

func (p *parts) createAdmin(ctx context.Context, password string) error {
	err := p.identity.CreateTenant(ctx, identity.Tenant{ID: operatorTenant, Name: "Demo"})
	if err != nil && !fault.Is(err, fault.CodeExists) {
		return err
	}
	created, err := p.identity.EnsureAdmin(ctx, operatorTenant, adminUser, password)
	if err != nil || created {
		return err
	}
	// A first start that was interrupted has made the account; its password was never shown.
	users, err := p.identity.ListUsers(ctx, operatorTenant)
	if err != nil {
		return err
	}
	for _, u := range users {
		if u.Name == adminUser {
			return p.identity.SetPassword(ctx, operatorTenant, u.ID, password)
		}
	}
	return fmt.Errorf("the account %s cannot be found", adminUser)
}

func (p *parts) publishDefaultPolicy(ctx context.Context) error {
	_, err := p.guard.EnsureDefault(ctx, "setup")
	return err
}

// registerModels makes the models of every engine callable: one version each, which takes all traffic.
func (p *parts) registerModels(ctx context.Context) error {
	p.pools.Refresh(ctx)
	for _, name := range p.pooled() {
		seen := map[engine.ModelID]bool{}
		for _, i := range p.pools.Instances(name) {
			st := i.Status()
			if st.Cause != nil && p.workers[i.Name] != nil { // it may start later than this process
				p.log.LogAttrs(ctx, slog.LevelWarn, "a worker does not list its models yet; register a version of each to make them callable",
					slog.String("engine", i.Name), slog.String("error", st.Cause.Error()))
				continue
			}
			if st.Cause != nil {
				return fmt.Errorf("list models of engine %s: %w", i.Name, st.Cause)
			}
			for _, m := range st.Models {
				if seen[m.ID] {
					continue
				}
				seen[m.ID] = true
				if err := p.registerModel(ctx, name, m); err != nil {
					return fmt.Errorf("register model %s: %w", m.ID, err)
				}
			}
		}
	}
	return p.router.Load(ctx)
}

func (p *parts) registerModel(ctx context.Context, engineName string, m engine.Model) error {
	name := string(m.ID)
	v := route.Version{Model: name, Version: firstVersion, Engine: engineName, EngineModel: m.ID, Precision: m.Precision}
	if (engineName == nativeEngine || p.workers[engineName] != nil) && m.CanGenerate {
		v.Defaults = defaultSampling()
	}
	err := p.router.Register(ctx, v)
	if err != nil && !fault.Is(err, fault.CodeExists) {
		return err
	}
	if a, err := p.router.Assignment(ctx, name); err == nil && a.Stable != "" {
		return nil
	}
	return p.router.SetAssignment(ctx, route.Assignment{Model: name, Stable: firstVersion})
}

// defaultSampling is the sampling of native models for callers who do not say: the wire format's own default, temperature 1, makes models
// small enough for a CPU ramble.
func defaultSampling() route.Defaults {
	temperature, topP := 0.2, 0.9
	return route.Defaults{Temperature: &temperature, TopP: &topP}
}

type settingRow struct {
	Name, Value string
}

func setting(ctx context.Context, db *gorm.DB, name string) (string, error) {
	var row settingRow
	err := db.WithContext(ctx).Table("installation_settings").Select("name", "value").Where("name = ?", name).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read setting %s: %w", name, err)
	}
	return row.Value, nil
}

func setSetting(ctx context.Context, db *gorm.DB, name, value string) error {
	if err := db.WithContext(ctx).Table("installation_settings").Create(&settingRow{Name: name, Value: value}).Error; err != nil {
		return fmt.Errorf("write setting %s: %w", name, err)
	}
	return nil
}
