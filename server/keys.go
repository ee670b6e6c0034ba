package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/config"
	"github.com/sluice-project/sluice/server/keysource"
)

// openKeys opens the master key of an installation that has one.
func openKeys(ctx context.Context, cfg *config.Config) (*keyring.Ring, error) {
	keys, err := keysource.New(cfg.KeySource).Open(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; a new installation is set up by `sluice up`", err)
	}
	return keys, err
}

// KeyShares says how the shares of a key are made and who gets them.
type KeyShares struct {
	keysource.Split

	Hand keysource.Handover
}

// SealKey seals the plain master key of an installation under the configured source, between two records of it, and destroys the plain file once
// confirm has returned true. It returns how the key is stored then.
func SealKey(ctx context.Context, cfg *config.Config, shares KeyShares, confirm func() (bool, error), log *slog.Logger) (keysource.Status, error) {
	custodian := keysource.New(cfg.KeySource)
	keys, err := keyring.Open(cfg.MasterKeyFile)
	if errors.Is(err, fs.ErrNotExist) { // sealed already, or nearly
		if err := custodian.Seal(ctx, shares.Split, shares.Hand); err != nil {
			return keysource.Status{}, err
		}
		keys, err = custodian.Open(ctx)
	}
	if err != nil {
		return keysource.Status{}, err
	}
	return keyAct(ctx, cfg, keys, custodian, "installation.seal_key", log, func() error {
		if err := custodian.Seal(ctx, shares.Split, shares.Hand); err != nil {
			return err
		}
		ok, err := confirm()
		if err != nil || !ok {
			return err
		}
		return custodian.Shred(ctx)
	})
}

// ResealKey seals the master key of an installation anew under a new key of the configured source, between two records of it. from is the
// configuration by which it opens until then.
func ResealKey(ctx context.Context, from, cfg *config.Config, shares KeyShares, log *slog.Logger) (keysource.Status, error) {
	source := from.KeySource
	source.Kind = "" // what it is moved away from need not be what is demanded
	before, custodian := keysource.New(source), keysource.New(cfg.KeySource)
	keys, err := before.Open(ctx)
	if err != nil {
		return keysource.Status{}, err
	}
	return keyAct(ctx, cfg, keys, custodian, "installation.reseal_key", log, func() error {
		return custodian.Reseal(ctx, before, shares.Split, shares.Hand)
	})
}

// keyAct does something to the sealed file, and records what it was.
func keyAct(ctx context.Context, cfg *config.Config, keys *keyring.Ring, custodian *keysource.Custodian, action string, log *slog.Logger, do func() error) (st keysource.Status, err error) {
	err = withKeys(ctx, cfg, keys, log, func(p *parts) error {
		if err := errors.Join(p.openIdentity(ctx), p.openCommandLog(nil)); err != nil {
			return err
		}
		act := audit.Event{Tenant: p.identity.Operator(), Actor: commander(), Action: action, Detail: map[string]string{}}
		if old, err := custodian.Status(); err == nil {
			act.Detail["before"] = old.Kind + " " + old.KeyID
		}
		return recorded(ctx, p.audit, act, func() error {
			derr := do()
			if st, err = custodian.Status(); err == nil {
				act.Detail["after"] = st.Kind + " " + st.KeyID
			}
			return derr
		})
	})
	return st, err
}

// ExportKey writes a recovery copy of the master key, between two records of it: hand gets one text, or shares.
func ExportKey(ctx context.Context, cfg *config.Config, shares KeyShares, log *slog.Logger) error {
	source := cfg.KeySource
	source.Kind = "" // before sealing as well as after it
	custodian := keysource.New(source)
	keys, err := custodian.Open(ctx)
	if err != nil {
		return err
	}
	_, err = keyAct(ctx, cfg, keys, custodian, "installation.export_key", log, func() error {
		texts, err := custodian.Export(ctx, shares.Split)
		if err != nil {
			return err
		}
		return shares.Hand(texts)
	})
	return err
}
