package pseudonym

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

// Target says where to find values: in the conversations of a tenant with a name, or in scopes.
type Target struct {
	Tenant string
	Name   string   // or
	Scopes []string // as turns name them
}

// maxScopes bounds the conversations of one name. Callers choose names independently, so one name may have several; Find reads the newest.
const maxScopes = 16

// Digest identifies a target in records: the same target has the same digest, and nobody reads its name from it.
func (v *Store) Digest(t Target) string {
	if t.Name != "" {
		return v.digest("name", t.Tenant, t.Name).String()
	}
	return v.digest("scopes", append([]string{t.Tenant}, t.Scopes...)...).String()
}

// Find returns the unexpired values of codes, by code. It omits a code with different values, from two requests or two conversations of one
// name: it is ambiguous. Error: CodeVaultUnavailable.
func (v *Store) Find(ctx context.Context, t Target, codes []string) (map[string]Value, error) {
	out, err := v.find(ctx, t, codes)
	if err != nil {
		return nil, v.countRefusal(fault.Wrap(fmt.Errorf("find values: %w", err), fault.CodeVaultUnavailable))
	}
	return out, nil
}

func (v *Store) find(ctx context.Context, t Target, codes []string) (map[string]Value, error) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	scopes, err := v.scopes(ctx, t)
	if err != nil {
		return nil, err
	}
	out, ambiguous := map[string]Value{}, map[string]bool{}
	for _, s := range scopes {
		found, err := v.decrypt(ctx, t.Tenant, s, codes)
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

// scopes returns the unexpired scopes of a target.
func (v *Store) scopes(ctx context.Context, t Target) ([]digest, error) {
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	if t.Name != "" {
		return v.store.scopesByName(ctx, t.Tenant, v.digest("name", t.Tenant, t.Name), v.now(), maxScopes)
	}
	all := make([]digest, len(t.Scopes))
	for i, s := range t.Scopes {
		all[i] = v.digest("scope", t.Tenant, s)
	}
	return v.store.liveScopes(ctx, t.Tenant, all, v.now())
}

// decrypt reads and decrypts the values of codes in a scope.
func (v *Store) decrypt(ctx context.Context, tenant string, scope digest, codes []string) ([]Value, error) {
	spelled, all := map[digest]string{}, make([]digest, 0, len(codes))
	for _, c := range codes {
		d := v.codeDigest(scope, c)
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
		text, err := k.key.Open(r.text, additionalData(tenant, scope, r.code, r.class))
		if err != nil {
			return nil, fmt.Errorf("a value of class %s was changed in the database", r.class)
		}
		out = append(out, Value{Code: spelled[r.code], Class: r.class, Text: keyring.Secret(text)})
	}
	return out, nil
}

// eraseTimeout bounds a transaction that deletes values. It may delete many, so it is longer than Config.Timeout.
const eraseTimeout = time.Minute

// expire deletes scopes that expired before a time.
func (v *Store) expire(ctx context.Context, scopes []digest, before int64) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	n, err := v.store.remove(ctx, scopes, before)
	v.forgetScopes(scopes) // also when the outcome is unknown
	if err != nil {
		return err
	}
	v.metrics.removed.WithLabelValues("expired").Add(float64(n))
	return nil
}

// clockSkew is how long expired values stay in the database: another replica's clock may be behind.
const clockSkew = time.Minute

// Sweep deletes expired values, and retired keys without values.
func (v *Store) Sweep(ctx context.Context) error {
	before := v.now().Add(-clockSkew).UnixMicro()
	for more := true; more; {
		var err error
		if more, err = v.sweepOnce(ctx, before); err != nil {
			return fmt.Errorf("sweep values: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	return errors.Join(v.keys.deleteUnused(ctx, v.now()), v.store.deleteStale(ctx, v.now()))
}

// sweepOnce deletes one batch of scopes that expired before a time, and reports whether there were any.
func (v *Store) sweepOnce(ctx context.Context, before int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	scopes, err := v.store.expired(ctx, before, sweepValues)
	if err != nil || len(scopes) == 0 {
		return false, err
	}
	return true, v.expire(ctx, scopes, before)
}

// Run sweeps, and checks for erasures by other replicas, until ctx ends.
func (v *Store) Run(ctx context.Context) error {
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { v.watchErasures(ctx) })
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

// watchErasures checks for erasures until ctx ends. While it fails, every turn reads the database and reports its own error.
func (v *Store) watchErasures(ctx context.Context) {
	tick := time.NewTicker(erasureCheckInterval)
	defer tick.Stop()
	failing := false
	for {
		err := v.checkErasures(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			v.log.Warn("the pseudonym store cannot look for erasures; it asks the database for every value until it can", slog.Any("error", err))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
