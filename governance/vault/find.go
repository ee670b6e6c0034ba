package vault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
)

// Target is where values are looked for: in the conversations of a tenant that their callers gave a name, or in scopes.
type Target struct {
	Tenant string
	Name   string   // or
	Scopes []string // as turns name them
}

// maxScopes bounds the conversations that one name stands for, since callers do not know of each other: the newest are looked at.
const maxScopes = 16

// Digest identifies a target in records: the same target has the same digest, and nobody reads its name from it.
func (v *Vault) Digest(t Target) string {
	if t.Name != "" {
		return v.digest("name", t.Tenant, t.Name).String()
	}
	return v.digest("scopes", append([]string{t.Tenant}, t.Scopes...)...).String()
}

// Find returns the values of these codes that live, by code. A code that stands for different values, in two requests or in two conversations
// of the same name, is left out: nobody could say which is meant. Error: CodeVaultUnavailable.
func (v *Vault) Find(ctx context.Context, t Target, codes []string) (map[string]Value, error) {
	out, err := v.find(ctx, t, codes)
	if err != nil {
		return nil, v.refused(fault.Wrap(fmt.Errorf("find values: %w", err), fault.CodeVaultUnavailable))
	}
	return out, nil
}

func (v *Vault) find(ctx context.Context, t Target, codes []string) (map[string]Value, error) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	scopes, err := v.scopes(ctx, t)
	if err != nil {
		return nil, err
	}
	out, ambiguous := map[string]Value{}, map[string]bool{}
	for _, s := range scopes {
		found, err := v.open(ctx, t.Tenant, s, codes)
		if err != nil {
			return nil, err
		}
		for _, value := range found {
			if other, ok := out[value.Code]; ok && other != value {
				ambiguous[value.Code] = true
			}
			out[value.Code] = value
		}
	}
	for code := range ambiguous {
		delete(out, code)
	}
	return out, nil
}

// scopes returns those of a target whose time is not over.
func (v *Vault) scopes(ctx context.Context, t Target) ([]digest, error) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	if t.Name != "" {
		return v.store.named(ctx, t.Tenant, v.digest("name", t.Tenant, t.Name), v.now(), maxScopes)
	}
	all := make([]digest, len(t.Scopes))
	for i, s := range t.Scopes {
		all[i] = v.digest("scope", t.Tenant, s)
	}
	return v.store.alive(ctx, t.Tenant, all, v.now())
}

// open reads and decrypts the values of codes in a scope.
func (v *Vault) open(ctx context.Context, tenant string, scope digest, codes []string) ([]Value, error) {
	spelled, all := map[digest]string{}, make([]digest, 0, len(codes))
	for _, c := range codes {
		d := v.code(scope, c)
		if _, twice := spelled[d]; !twice {
			spelled[d], all = c, append(all, d)
		}
	}
	rows, err := v.store.values(ctx, scope, all)
	if err != nil {
		return nil, err
	}
	var out []Value
	for _, r := range rows {
		k, err := v.keys.byID(ctx, tenant, r.keyID)
		if err != nil {
			return nil, err
		}
		text, err := k.key.Open(r.text, place(tenant, scope, r.code, r.class))
		if err != nil {
			return nil, fmt.Errorf("a value of class %s was changed in the database", r.class)
		}
		out = append(out, Value{Code: spelled[r.code], Class: r.class, Text: keyring.Secret(text)})
	}
	return out, nil
}

// removal is the time for one transaction that removes values, of which it may have many: longer than what somebody waits for.
const removal = time.Minute

// expire removes scopes whose time was over before a moment.
func (v *Vault) expire(ctx context.Context, scopes []digest, before int64) error {
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	n, err := v.store.remove(ctx, scopes, before)
	v.forget(scopes) // also if nobody knows whether they are gone
	if err != nil {
		return err
	}
	v.metrics.removed.WithLabelValues("expired").Add(float64(n))
	return nil
}

// grace is how long values stay in the database after their time: another replica's clock may be behind.
const grace = time.Minute

// Sweep removes the values whose time is over, and the keys under which none is left that new values do not get.
func (v *Vault) Sweep(ctx context.Context) error {
	before := v.now().Add(-grace).UnixMicro()
	for more := true; more; {
		var err error
		if more, err = v.sweepSome(ctx, before); err != nil {
			return fmt.Errorf("sweep values: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	return errors.Join(v.keys.drop(ctx, v.now()), v.store.tidy(ctx, v.now()))
}

// sweepSome removes some of the scopes whose time was over before a moment, and reports whether there were any.
func (v *Vault) sweepSome(ctx context.Context, before int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	scopes, err := v.store.expired(ctx, before, sweepValues)
	if err != nil || len(scopes) == 0 {
		return false, err
	}
	return true, v.expire(ctx, scopes, before)
}

// Run sweeps, and looks for erasures of other replicas, until ctx ends.
func (v *Vault) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { v.keepLooking(ctx) })
	tick := time.NewTicker(v.cfg.Sweep)
	defer tick.Stop()
	for {
		if err := v.Sweep(ctx); err != nil && ctx.Err() == nil {
			v.metrics.failures.Inc()
			v.log.Error("values past their time could not be removed; they are not shown, and the next sweep tries again", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// keepLooking looks for erasures until ctx ends. While it cannot, every turn asks the database, and says so itself if that is away.
func (v *Vault) keepLooking(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	failing := false
	for {
		err := v.look(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			v.log.Warn("the vault cannot look for erasures; it asks the database for every value until it can", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
