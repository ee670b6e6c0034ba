package pseudonym

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

const (
	// erasureMemory is how long erasures stay recorded: longer than any turn takes.
	erasureMemory = 24 * time.Hour
	// maxRewrite is the largest number of values for which an erasure rewrites the table, while everyone waits. Above it sealed copies of
	// erased values stay in free database pages until these are reused.
	maxRewrite = 50_000 // see Found.Pages
)

// Erasure deletes values: all scopes in which a person took part, or those of a target. It is used once, in this order: [Erasure.Lock] and
// [Erasure.Delete] in a transaction of the caller, who may inspect Found in between and roll back; after the commit [Erasure.AwaitReplicas].
// It is not safe for concurrent use.
type Erasure struct {
	Found Found

	store           *Store
	tenant, subject string
	target          Target
	whole           bool // all that is of the tenant
	scopes          []digest
	generation      int64
}

// Found is what an erasure deletes.
type Found struct {
	Values, Scopes int64
	// Others are the other participants of the scopes and their times; for a target, all participants.
	Others []Participant
	// Unknown reports that an unknown person took part.
	Unknown bool
	// Pages reports that there are too many values to rewrite the table: sealed copies stay in free pages until these are reused.
	Pages bool
}

// Participant is the time in which somebody may have taken part, in unix microseconds. It lasts until the scope expires, since turns
// without new values leave no trace here.
type Participant struct {
	Subject      string
	First, Until int64
}

// Unattributed counts values without a known person.
type Unattributed struct {
	Values, Scopes int64
	Until          int64 // unix microseconds; by then all of them are gone
}

// ErasePerson returns the erasure of all values of a person, named by digest.
func (v *Store) ErasePerson(tenant, subject string) *Erasure {
	return &Erasure{store: v, tenant: tenant, subject: subject}
}

// EraseConversation returns the erasure of the values of a target.
func (v *Store) EraseConversation(t Target) *Erasure {
	return &Erasure{store: v, tenant: t.Tenant, target: t}
}

// Preview fills Found and changes nothing. Error: CodeVaultUnavailable.
func (r *Erasure) Preview(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	err := database.Snapshot(ctx, r.store.store.db, r.find)
	return r.store.unavailable("look for values", err)
}

// Lock blocks all writers of values until tx ends, and fills Found with what Delete deletes.
func (r *Erasure) Lock(tx *gorm.DB) error {
	res := tx.Exec("UPDATE vault_state SET generation = generation + 1 WHERE id = 1")
	if res.Error == nil && res.RowsAffected != 1 {
		res.Error = errNoState
	}
	if res.Error != nil {
		return fmt.Errorf("erase values: %w", res.Error)
	}
	var err error
	if r.generation, err = generation(tx); err == nil {
		err = lockValues(tx)
	}
	if err == nil {
		err = r.find(tx)
	}
	if err != nil {
		return fmt.Errorf("erase values: %w", err)
	}
	return nil
}

// Delete deletes what Lock found.
func (r *Erasure) Delete(tx *gorm.DB) error {
	if err := r.delete(tx); err != nil {
		return fmt.Errorf("erase values: %w", err)
	}
	return nil
}

func (r *Erasure) delete(tx *gorm.DB) error {
	if database.IsSQLite(tx) { // SQLite overwrites what it deletes
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	r.Found.Values = 0
	held := map[string]int64{}
	for part := range slices.Chunk(r.scopes, readBatch) {
		n, err := removeScopes(tx, part, noExpiry)
		if err != nil {
			return err
		}
		for tenant, values := range n {
			held[tenant] += values
			r.Found.Values += values
		}
	}
	if err := subtractHeld(tx, held); err != nil {
		return err
	}
	now := r.store.now().UnixMicro()
	var rows []erasureRow
	if r.subject != "" {
		rows = append(rows, erasureRow{r.tenant, r.subject, r.generation, now})
	}
	for _, s := range r.scopes {
		rows = append(rows, erasureRow{r.tenant, s.String(), r.generation, now})
	}
	if len(rows) > 0 {
		if err := tx.CreateInBatches(rows, insertBatch).Error; err != nil {
			return err
		}
	}
	if r.whole {
		if err := r.deleteKeys(tx); err != nil {
			return err
		}
	}
	if r.Found.Pages {
		return nil
	}
	return rewriteValues(tx)
}

// AwaitReplicas ends a committed erasure: it waits until no replica's cache shows erased values as stored, or until ctx ends.
func (r *Erasure) AwaitReplicas(ctx context.Context) {
	v := r.store
	v.metrics.removed.WithLabelValues("erased").Add(float64(r.Found.Values))
	v.mu.Lock()
	v.observeGeneration(r.generation, v.checkedAt)
	v.mu.Unlock()
	wait := time.NewTimer(v.settleTime)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// Unattributed counts the values of a tenant that no erasure of a person finds, as tx sees them; tx may be nil.
func (v *Store) Unattributed(ctx context.Context, tx *gorm.DB, tenant string) (u Unattributed, err error) {
	if tx == nil {
		tx = v.store.db
	}
	ctx, cancel := context.WithTimeout(ctx, v.cfg.Timeout)
	defer cancel()
	err = tx.WithContext(ctx).Table("vault_scopes AS s").
		Select("COALESCE(SUM(s.held), 0) AS \"values\"", "COUNT(*) AS scopes", "COALESCE(MAX(s.expires), 0) AS until").
		Where("s.tenant = ? AND s.held > 0 AND s.expires > ?", tenant, v.now().UnixMicro()).
		Where("(EXISTS (SELECT 1 FROM vault_subjects AS p WHERE p.scope = s.scope AND p.subject = '') OR NOT EXISTS (SELECT 1 FROM vault_subjects AS p WHERE p.scope = s.scope))").
		Scan(&u).Error
	return u, v.unavailable("look for values", err)
}

func (v *Store) unavailable(step string, err error) error {
	if err == nil {
		return nil
	}
	return v.countRefusal(fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeVaultUnavailable))
}

// find fills in scopes and Found. Expired scopes count too.
func (r *Erasure) find(tx *gorm.DB) error {
	db := tx.Table("vault_scopes AS s").Select("s.scope", "s.held", "s.expires").Where("s.tenant = ?", r.tenant)
	switch {
	case r.whole:
	case r.subject != "":
		db = db.Where("s.scope IN (?)", tx.Model(&subjectRow{}).Select("scope").Where("tenant = ? AND subject = ?", r.tenant, r.subject))
	case r.target.Name != "":
		name := r.store.digest("name", r.tenant, r.target.Name)
		db = db.Where("s.name = ?", name[:])
	default:
		all := make([]digest, len(r.target.Scopes))
		for i, s := range r.target.Scopes {
			all[i] = r.store.digest("scope", r.tenant, s)
		}
		db = db.Where("s.scope IN ?", bytesOf(all))
	}
	var rows []scopeRow
	if err := db.Order("s.scope").Find(&rows).Error; err != nil {
		return err
	}
	pages, err := tooManyToRewrite(tx)
	if err != nil {
		return err
	}
	r.scopes, r.Found = nil, Found{Scopes: int64(len(rows)), Pages: pages}
	until := map[digest]int64{}
	for _, row := range rows {
		r.scopes = append(r.scopes, digest(row.Scope))
		until[digest(row.Scope)] = row.Expires
		r.Found.Values += row.Held
	}
	return r.findOthers(tx, until)
}

// findOthers adds the other participants of the scopes. until is when each scope expires.
func (r *Erasure) findOthers(tx *gorm.DB, until map[digest]int64) error {
	others, known := map[string]Participant{}, map[digest]bool{}
	for part := range slices.Chunk(r.scopes, readBatch) {
		var rows []subjectRow
		if err := tx.Select("scope", "subject", "first_seen").Where("scope IN ?", bytesOf(part)).Find(&rows).Error; err != nil {
			return err
		}
		for _, row := range rows {
			known[digest(row.Scope)] = true
			switch row.Subject {
			case "":
				r.Found.Unknown = true
			case r.subject:
			default:
				end := until[digest(row.Scope)]
				p, seen := others[row.Subject]
				if !seen {
					p = Participant{row.Subject, row.FirstSeen, end}
				}
				p.First, p.Until = min(p.First, row.FirstSeen), max(p.Until, end)
				others[row.Subject] = p
			}
		}
	}
	r.Found.Unknown = r.Found.Unknown || len(known) < len(r.scopes)
	for _, p := range others {
		r.Found.Others = append(r.Found.Others, p)
	}
	slices.SortFunc(r.Found.Others, func(a, b Participant) int { return strings.Compare(a.Subject, b.Subject) })
	return nil
}

// tooManyToRewrite reports whether the table has more than maxRewrite values.
func tooManyToRewrite(tx *gorm.DB) (bool, error) {
	var n int64
	err := tx.Raw("SELECT COUNT(*) FROM (SELECT 1 FROM vault_values LIMIT ?) AS part", maxRewrite+1).Scan(&n).Error
	return n > maxRewrite, err
}

// lockValues locks the table of values if [rewriteValues] rewrites it. It does so before locking any row, which avoids deadlocks with readers.
func lockValues(tx *gorm.DB) error {
	many, err := tooManyToRewrite(tx)
	if err != nil || many || database.IsSQLite(tx) {
		return err
	}
	return tx.Exec("LOCK TABLE vault_values IN ACCESS EXCLUSIVE MODE").Error
}

// rewriteValues rewrites the table of values, because deleted rows survive in pages: PostgreSQL keeps them until it needs the room, and SQLite
// may leave bytes behind when it moves rows between pages. SQLite overwrites the pages that it frees.
func rewriteValues(tx *gorm.DB) error {
	empty, end := "TRUNCATE vault_values", "ON COMMIT DROP"
	if database.IsSQLite(tx) {
		empty, end = "DELETE FROM vault_values", ""
	}
	for _, statement := range []string{
		"CREATE TEMP TABLE vault_remaining " + end + " AS SELECT scope, entry, code, class, key_id, sealed FROM vault_values",
		empty,
		`INSERT INTO vault_values (scope, entry, code, class, key_id, sealed)
			SELECT scope, entry, code, class, key_id, sealed FROM vault_remaining ORDER BY scope, entry`,
		"DROP TABLE vault_remaining",
	} {
		if err := tx.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

func generation(db *gorm.DB) (n int64, err error) {
	err = db.Raw("SELECT generation FROM vault_state WHERE id = 1").Scan(&n).Error
	return n, err
}

func (s tables) generation(ctx context.Context) (int64, error) {
	return generation(s.db.WithContext(ctx))
}

// deleteStale deletes old erasures, and participants of scopes that a replica of an earlier release deleted.
func (s tables) deleteStale(ctx context.Context, now time.Time) error {
	db, before := s.db.WithContext(ctx), now.Add(-erasureMemory).UnixMicro()
	if err := db.Where("time < ?", before).Delete(&erasureRow{}).Error; err != nil {
		return fmt.Errorf("forget erasures: %w", err)
	}
	err := db.Where("NOT EXISTS (SELECT 1 FROM vault_scopes AS s WHERE s.scope = vault_subjects.scope)").Delete(&subjectRow{}).Error
	if err != nil {
		return fmt.Errorf("forget who took part: %w", err)
	}
	return nil
}
