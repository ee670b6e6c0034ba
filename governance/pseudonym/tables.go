package pseudonym

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
)

const (
	insertBatch = 200 // rows per statement
	readBatch   = 500 // parameters per statement
	sweepBatch  = 200 // scopes per transaction of a sweep, with so many values:
	sweepValues = 20_000
)

// Tables are the database tables of a store.
type Tables struct{ db *gorm.DB }

// NewTables returns the tables of a migrated database.
func NewTables(db *gorm.DB) Tables { return Tables{db} }

type tables Tables

type (
	tenantRow struct {
		Tenant string
		Held   int64
	}
	keyRow struct {
		ID      string
		Tenant  string
		Suite   string
		Created int64
		Epoch   int64
		Wrapped []byte
	}
	scopeRow struct {
		Scope   []byte
		Tenant  string
		Name    []byte
		Held    int64
		Expires int64
	}
	valueRow struct {
		Scope  []byte
		Entry  []byte
		Code   []byte
		Class  string
		KeyID  string
		Sealed []byte
	}
	subjectRow struct {
		Scope     []byte
		Subject   string
		Tenant    string
		FirstSeen int64
	}
	erasureRow struct {
		Tenant     string
		What       string
		Generation int64
		Time       int64
	}
)

func (tenantRow) TableName() string  { return "vault_tenants" }
func (keyRow) TableName() string     { return "vault_keys" }
func (scopeRow) TableName() string   { return "vault_scopes" }
func (valueRow) TableName() string   { return "vault_values" }
func (subjectRow) TableName() string { return "vault_subjects" }
func (erasureRow) TableName() string { return "vault_erasures" }

// sealed is a value as it is stored.
type sealed struct {
	entry, code  digest
	class, keyID string
	text         []byte
}

// put stores a batch in one transaction and returns the number of new values. It leaves out a turn that exceeds a limit, with an error, and a
// turn whose person or scope was erased since it began. It stores nothing and fails with [keysGoneError] where a key is no longer there. Erasures are serialised against it: each is before or after the generation that put
// returns. put locks the rows of scopes in the order of [lockKey], then those of tenants in order, so that two batches never deadlock.
func (s tables) put(ctx context.Context, batch []*pending, now time.Time, cfg Config) (generation, fresh int64, err error) {
	turns := slices.DeleteFunc(slices.Clone(batch), func(p *pending) bool { return p.err != nil })
	slices.SortStableFunc(turns, func(a, b *pending) int {
		return strings.Compare(lockKey(a.turn.Tenant, a.scope[:]), lockKey(b.turn.Tenant, b.scope[:]))
	})
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		fresh = 0
		if err := database.SetIdleTimeout(tx, cfg.Timeout/2); err != nil {
			return err
		}
		if generation, err = shareErasureState(tx); err != nil {
			return err
		}
		if turns, err = withoutErased(tx, turns, generation); err != nil {
			return err
		}
		if err := shareKeys(tx, turns); err != nil {
			return err
		}
		for _, p := range turns {
			if err := upsertScope(tx, p, now); err != nil {
				return err
			}
		}
		for _, p := range turns {
			n, err := insertValues(tx, p, cfg)
			if err != nil {
				return err
			}
			fresh += n
		}
		return nil
	})
	if err != nil {
		return 0, 0, fmt.Errorf("store values: %w", err)
	}
	return generation, fresh, nil
}

// lockKey orders the scopes that a transaction locks: by tenant first, because tenants are locked next in that order.
func lockKey(tenant string, scope []byte) string { return tenant + "\x00" + string(scope) }

// shareErasureState blocks erasures with a shared lock until tx ends, and returns the generation.
func shareErasureState(tx *gorm.DB) (int64, error) {
	var found []int64
	err := tx.Table("vault_state").Where("id = 1").Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).Pluck("generation", &found).Error
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, errNoState
	}
	return found[0], nil
}

var errNoState = errors.New("the row of vault_state is gone; put it back: without it an erasure could be slipped by")

// keysGoneError lists keys that values were sealed under and that are no longer stored: a replica that rotates sooner has deleted them.
type keysGoneError []string

func (e keysGoneError) Error() string { return fmt.Sprintf("%d keys are no longer stored", len(e)) }

// shareKeys blocks the deletion of the keys of turns with shared locks until tx ends. Error: keysGoneError.
func shareKeys(tx *gorm.DB, turns []*pending) error {
	var wanted []string
	for _, p := range turns {
		for _, v := range p.sealed {
			wanted = append(wanted, v.keyID)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	for part := range slices.Chunk(wanted, readBatch) {
		var there []string
		err := tx.Model(&keyRow{}).Where("id IN ?", part).Order("id").Clauses(clause.Locking{Strength: clause.LockingStrengthShare}).Pluck("id", &there).Error
		if err != nil {
			return err
		}
		if len(there) < len(part) {
			return keysGoneError(slices.DeleteFunc(part, func(id string) bool { return slices.Contains(there, id) }))
		}
	}
	return nil
}

// withoutErased returns the turns whose person and scope were not erased since they began.
func withoutErased(tx *gorm.DB, turns []*pending, generation int64) ([]*pending, error) {
	var what []string
	for _, p := range turns {
		if b := p.turn.Began; b.olderThan(generation) {
			what = append(what, p.scope.String())
			if p.turn.Subject != "" {
				what = append(what, p.turn.Subject)
			}
		}
	}
	if len(what) == 0 {
		return turns, nil
	}
	newest := map[[2]string]int64{}
	for part := range slices.Chunk(what, readBatch) {
		var rows []erasureRow
		err := tx.Select("tenant", "what", "MAX(generation) AS generation").Where("what IN ?", part).Group("tenant, what").Find(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			newest[[2]string{r.Tenant, r.What}] = r.Generation
		}
	}
	return slices.DeleteFunc(turns, func(p *pending) bool {
		last := max(newest[[2]string{p.turn.Tenant, p.scope.String()}], newest[[2]string{p.turn.Tenant, p.turn.Subject}])
		p.erased = p.turn.Began.olderThan(last)
		if p.erased && !p.turn.Began.known { // it may have begun behind the erasure, and then its values are to be stored: let it begin again
			p.err = fault.New(fault.CodeVaultUnavailable).WithRetryAfter(time.Second)
		}
		return p.erased
	}), nil
}

// addSubject records the person of a turn as a participant of its scope, whose row is locked. A scope without participants comes from a replica
// of an earlier release; it gets an unknown participant too.
func addSubject(tx *gorm.DB, p *pending, now time.Time, there bool) error {
	row := subjectRow{Scope: p.scope[:], Subject: p.turn.Subject, Tenant: p.turn.Tenant, FirstSeen: now.UnixMicro()}
	res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	if res.Error != nil || res.RowsAffected == 0 || !there || row.Subject == "" {
		return res.Error
	}
	var others int64
	err := tx.Model(&subjectRow{}).Where("scope = ? AND subject <> ?", row.Scope, row.Subject).Limit(1).Count(&others).Error
	if err != nil || others > 0 {
		return err
	}
	row.Subject, row.FirstSeen = "", 0
	return tx.Create(&row).Error
}

// upsertScope creates the scope of a turn or extends its expiry, and locks its row.
func upsertScope(tx *gorm.DB, p *pending, now time.Time) error {
	change := map[string]any{"expires": now.Add(p.turn.Keep).UnixMicro()}
	if len(p.name) > 0 {
		change["name"] = p.name
	}
	there := true
	for range 2 {
		res := tx.Model(&scopeRow{}).Where("scope = ?", p.scope[:]).Updates(change)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected > 0 {
			return addSubject(tx, p, now, there)
		}
		row := scopeRow{Scope: p.scope[:], Tenant: p.turn.Tenant, Name: append([]byte{}, p.name...)}
		made := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if made.Error != nil {
			return made.Error
		}
		there = made.RowsAffected == 0
	}
	return fmt.Errorf("the scope %s cannot be made", p.scope)
}

// insertValues inserts the values that are not stored yet. Other writers of the scope wait for its row.
func insertValues(tx *gorm.DB, p *pending, cfg Config) (fresh int64, err error) {
	there := map[digest]bool{}
	for part := range slices.Chunk(p.entries, readBatch) {
		var entries [][]byte
		if err := tx.Model(&valueRow{}).Where("scope = ? AND entry IN ?", p.scope[:], bytesOf(part)).Pluck("entry", &entries).Error; err != nil {
			return 0, err
		}
		for _, e := range entries {
			there[digest(e)] = true
		}
	}
	var rows []valueRow
	for _, v := range p.sealed {
		if !there[v.entry] {
			there[v.entry] = true
			rows = append(rows, valueRow{Scope: p.scope[:], Entry: v.entry[:], Code: v.code[:], Class: v.class, KeyID: v.keyID, Sealed: v.text})
		}
	}
	n := int64(len(rows))
	if n == 0 {
		return 0, nil
	}
	switch ok, err := addHeld(tx, &scopeRow{}, "scope = ?", p.scope[:], n, cfg.PerSession); {
	case err != nil:
		return 0, err
	case !ok:
		p.err = errFull(fault.Say("pseudonym.this_conversation"), cfg.PerSession, fault.Say("pseudonym.new_conversation"))
		return 0, nil
	}
	tenant := tenantRow{Tenant: p.turn.Tenant}
	if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&tenant).Error; err != nil {
		return 0, err
	}
	switch ok, err := addHeld(tx, &tenantRow{}, "tenant = ?", p.turn.Tenant, n, cfg.PerTenant); {
	case err != nil:
		return 0, err
	case !ok:
		p.err = errFull(fault.Say("pseudonym.the_tenant"), cfg.PerTenant,
			fault.Say("pseudonym.raise_limit"))
		_, err := addHeld(tx, &scopeRow{}, "scope = ?", p.scope[:], -n, cfg.PerSession)
		return 0, err
	}
	return n, tx.CreateInBatches(rows, insertBatch).Error
}

func errFull(whose fault.Phrase, limit int64, remedy fault.Phrase) error {
	return fault.New(fault.CodeVaultFull, limit, whose, remedy)
}

// addHeld adds n to the count of a row unless that exceeds limit; ok reports whether it did.
func addHeld(tx *gorm.DB, table any, where string, key any, n, limit int64) (ok bool, err error) {
	res := tx.Model(table).Where(where+" AND held + ? <= ?", key, n, limit).Update("held", gorm.Expr("held + ?", n))
	return res.RowsAffected > 0, res.Error
}

func bytesOf(digests []digest) [][]byte {
	out := make([][]byte, len(digests))
	for i := range digests {
		out[i] = digests[i][:]
	}
	return out
}

// scopesByName returns the unexpired scopes of a name, the newest first.
func (s tables) scopesByName(ctx context.Context, tenant string, name digest, now time.Time, limit int) ([]digest, error) {
	return s.scopes(s.db.WithContext(ctx).Where("name = ? AND tenant = ? AND expires > ?", name[:], tenant, now.UnixMicro()).Order("expires DESC, scope").Limit(limit))
}

// liveScopes returns the unexpired ones of scopes.
func (s tables) liveScopes(ctx context.Context, tenant string, scopes []digest, now time.Time) ([]digest, error) {
	return s.scopes(s.db.WithContext(ctx).Where("scope IN ? AND tenant = ? AND expires > ?", bytesOf(scopes), tenant, now.UnixMicro()).Order("scope"))
}

// expired returns scopes that expired before a time, holding at most the given number of values together, but at least one scope.
func (s tables) expired(ctx context.Context, before, values int64) ([]digest, error) {
	var rows []scopeRow
	err := s.db.WithContext(ctx).Select("scope", "held").Where("expires <= ?", before).Order("expires, scope").Limit(sweepBatch).Find(&rows).Error
	if err != nil {
		return nil, err
	}
	var out []digest
	for _, r := range rows {
		if values -= r.Held; values < 0 && len(out) > 0 {
			break
		}
		out = append(out, digest(r.Scope))
	}
	return out, nil
}

func (s tables) scopes(db *gorm.DB) ([]digest, error) {
	var found [][]byte
	if err := db.Model(&scopeRow{}).Pluck("scope", &found).Error; err != nil {
		return nil, err
	}
	out := make([]digest, len(found))
	for i, b := range found {
		out[i] = digest(b)
	}
	return out, nil
}

// values reads the values of codes in a scope.
func (s tables) values(ctx context.Context, scope digest, codes []digest) ([]sealed, error) {
	var out []sealed
	for part := range slices.Chunk(codes, readBatch) {
		var rows []valueRow
		err := s.db.WithContext(ctx).Select("scope", "entry", "code", "class", "key_id", "sealed").Where("scope = ? AND code IN ?", scope[:], bytesOf(part)).Find(&rows).Error
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			out = append(out, sealed{digest(r.Entry), digest(r.Code), r.Class, r.KeyID, r.Sealed})
		}
	}
	return out, nil
}

// lockTimeout is how long a deletion may be idle in its transaction before the database ends it.
const lockTimeout = 2 * time.Second

// noExpiry is a time after every expiry.
const noExpiry = math.MaxInt64

// remove deletes scopes, at most readBatch, with their values, unless a turn has extended them beyond before meanwhile.
func (s tables) remove(ctx context.Context, scopes []digest, before int64) (removed int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := database.SetIdleTimeout(tx, lockTimeout); err != nil {
			return err
		}
		if _, err := shareErasureState(tx); err != nil { // before any row: an erasure that has it locks the table of values next
			return err
		}
		held, err := removeScopes(tx, scopes, before)
		if err != nil {
			return err
		}
		removed = 0
		for _, n := range held {
			removed += n
		}
		return subtractHeld(tx, held)
	})
	return removed, err
}

// removeScopes deletes scopes and returns how many values each tenant lost. It locks rows in the same order as put.
func removeScopes(tx *gorm.DB, scopes []digest, before int64) (held map[string]int64, err error) {
	var rows []scopeRow // another replica may have been faster
	if err := tx.Select("scope", "tenant").Where("scope IN ?", bytesOf(scopes)).Find(&rows).Error; err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b scopeRow) int {
		return strings.Compare(lockKey(a.Tenant, a.Scope), lockKey(b.Tenant, b.Scope))
	})
	held = map[string]int64{}
	for _, r := range rows {
		res := tx.Where("scope = ? AND expires <= ?", r.Scope, before).Delete(&scopeRow{})
		if res.Error != nil {
			return nil, res.Error
		}
		if res.RowsAffected == 0 {
			continue
		}
		values := tx.Where("scope = ?", r.Scope).Delete(&valueRow{})
		if values.Error != nil {
			return nil, values.Error
		}
		if err := tx.Where("scope = ?", r.Scope).Delete(&subjectRow{}).Error; err != nil {
			return nil, err
		}
		held[r.Tenant] += values.RowsAffected
	}
	return held, nil
}

func subtractHeld(tx *gorm.DB, held map[string]int64) error {
	tenants := make([]string, 0, len(held))
	for t := range held {
		tenants = append(tenants, t)
	}
	slices.Sort(tenants)
	for _, t := range tenants {
		if err := tx.Model(&tenantRow{}).Where("tenant = ?", t).Update("held", gorm.Expr("held - ?", held[t])).Error; err != nil {
			return err
		}
	}
	return nil
}

// newestKey returns the newest key of a tenant and suite that was created after a time.
func (s tables) newestKey(ctx context.Context, tenant string, suite seal.Suite, after int64) (wrappedKey, bool, error) {
	var rows []keyRow
	err := s.db.WithContext(ctx).Select(keyColumns()).
		Where("tenant = ? AND suite = ? AND created > ?", tenant, string(suite), after).Order("created DESC, id DESC").Limit(1).Find(&rows).Error
	if err != nil || len(rows) == 0 {
		return wrappedKey{}, false, err
	}
	return rows[0].key(), true, nil
}

func keyColumns() []string { return []string{"id", "tenant", "suite", "created", "epoch", "wrapped"} }

func (r keyRow) key() wrappedKey {
	return wrappedKey{r.ID, r.Tenant, seal.Suite(r.Suite), r.Created, r.Epoch, r.Wrapped}
}

func (s tables) key(ctx context.Context, tenant, id string) (wrappedKey, error) {
	var rows []keyRow
	err := s.db.WithContext(ctx).Select(keyColumns()).Where("id = ? AND tenant = ?", id, tenant).Find(&rows).Error
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("the key %s, which a value names, is gone", id)
	}
	if err != nil {
		return wrappedKey{}, err
	}
	return rows[0].key(), nil
}

func addKey(tx *gorm.DB, w wrappedKey) error {
	return tx.Create(&keyRow{w.id, w.tenant, string(w.suite), w.created, w.epoch, w.wrapped}).Error
}

// dropKeys deletes unused keys created before a time. It locks them first and looks for their values only then: a writer that holds a key has
// committed its values by that time, and a later one finds the key gone.
func (s tables) dropKeys(ctx context.Context, before int64) error {
	const unused = "NOT EXISTS (SELECT 1 FROM vault_values AS v WHERE v.key_id = vault_keys.id)"
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		var old []string
		err := tx.Model(&keyRow{}).Where("created < ? AND "+unused, before).Order("id").Limit(readBatch).
			Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Pluck("id", &old).Error
		if err != nil || len(old) == 0 {
			return err
		}
		return tx.Where("id IN ? AND "+unused, old).Delete(&keyRow{}).Error
	})
	if err != nil {
		return fmt.Errorf("remove keys: %w", err)
	}
	return nil
}
