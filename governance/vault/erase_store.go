package vault

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
	// forgetErasures is how long it is remembered what was erased: longer than any turn takes.
	forgetErasures = 24 * time.Hour
	// rewritable is how many values there may be for their table to be written anew with an erasure: everyone waits meanwhile. Beyond it sealed
	// copies of what is erased stay in pages that are free until these are used again.
	rewritable = 50_000 // see Found.Pages
)

// Removal erases values: of a person, all scopes in which the person took part; or of a target. It is used once, in this order: in a
// transaction of the caller, who may look at what it finds and decide otherwise, [Removal.Take] and [Removal.Destroy]; after the commit
// [Removal.Settle]. It is not safe for concurrent use.
type Removal struct {
	Found Found

	vault           *Vault
	tenant, subject string
	target          Target
	scopes          []digest
	generation      int64
}

// Found is what a removal destroys.
type Found struct {
	Values, Scopes int64
	// Others are the other persons who took part in the scopes, and the time in which they may have. Of a target it is everybody.
	Others []Part
	// Unknown says that somebody whom nobody knows took part.
	Unknown bool
	// Pages says that there are too many values for their table to be written anew: sealed copies stay in free pages until these are used again.
	Pages bool
}

// Part is the time in which somebody may have taken part, in unix microseconds: from the first turn until the time of the scope is over, since
// turns that bring nothing new leave no trace here.
type Part struct {
	Subject      string
	First, Until int64
}

// Unattributed are values that are kept without knowing of whom.
type Unattributed struct {
	Values, Scopes int64
	Until          int64 // unix microseconds; by then all of them are gone
}

// Person is the removal of what is kept of a person, who is named by digest.
func (v *Vault) Person(tenant, subject string) *Removal {
	return &Removal{vault: v, tenant: tenant, subject: subject}
}

// Conversation is the removal of the values of a target.
func (v *Vault) Conversation(t Target) *Removal {
	return &Removal{vault: v, tenant: t.Tenant, target: t}
}

// Look fills Found and changes nothing. Error: CodeVaultUnavailable.
func (r *Removal) Look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removal)
	defer cancel()
	err := database.Snapshot(ctx, r.vault.store.db, r.find)
	return r.vault.unreachable("look for values", err)
}

// Take holds off everybody who stores values until tx ends, and fills Found: what is destroyed is this.
func (r *Removal) Take(tx *gorm.DB) error {
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

// Destroy removes what Take found.
func (r *Removal) Destroy(tx *gorm.DB) error {
	if err := r.destroy(tx); err != nil {
		return fmt.Errorf("erase values: %w", err)
	}
	return nil
}

func (r *Removal) destroy(tx *gorm.DB) error {
	if database.IsSQLite(tx) { // what is deleted is overwritten
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	r.Found.Values = 0
	held := map[string]int64{}
	for part := range slices.Chunk(r.scopes, readBatch) {
		n, err := removeScopes(tx, part, always)
		if err != nil {
			return err
		}
		for tenant, values := range n {
			held[tenant] += values
			r.Found.Values += values
		}
	}
	if err := shrink(tx, held); err != nil {
		return err
	}
	now := r.vault.now().UnixMicro()
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
	if r.Found.Pages {
		return nil
	}
	return rewriteValues(tx)
}

// Settle ends a removal that was committed: it waits until no replica takes for stored what is gone. The end of ctx ends the wait.
func (r *Removal) Settle(ctx context.Context) {
	v := r.vault
	v.metrics.removed.WithLabelValues("erased").Add(float64(r.Found.Values))
	v.mu.Lock()
	v.saw(r.generation, v.looked)
	v.mu.Unlock()
	wait := time.NewTimer(v.settle)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
	}
}

// Unattributed says which values of a tenant nobody can find by person, as tx sees it; nil for none.
func (v *Vault) Unattributed(ctx context.Context, tx *gorm.DB, tenant string) (u Unattributed, err error) {
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
	return u, v.unreachable("look for values", err)
}

func (v *Vault) unreachable(step string, err error) error {
	if err == nil {
		return nil
	}
	return v.refused(fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeVaultUnavailable))
}

// find fills in what a removal is about. Whether the time of a scope is over is no matter.
func (r *Removal) find(tx *gorm.DB) error {
	db := tx.Table("vault_scopes AS s").Select("s.scope", "s.held", "s.expires").Where("s.tenant = ?", r.tenant)
	switch {
	case r.subject != "":
		db = db.Where("s.scope IN (?)", tx.Model(&subjectRow{}).Select("scope").Where("tenant = ? AND subject = ?", r.tenant, r.subject))
	case r.target.Name != "":
		name := r.vault.digest("name", r.tenant, r.target.Name)
		db = db.Where("s.name = ?", name[:])
	default:
		all := make([]digest, len(r.target.Scopes))
		for i, s := range r.target.Scopes {
			all[i] = r.vault.digest("scope", r.tenant, s)
		}
		db = db.Where("s.scope IN ?", raw(all))
	}
	var rows []scopeRow
	if err := db.Order("s.scope").Find(&rows).Error; err != nil {
		return err
	}
	pages, err := tooMany(tx)
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
	return r.whoElse(tx, until)
}

// whoElse finds the others who took part in the scopes, whose times are over then.
func (r *Removal) whoElse(tx *gorm.DB, until map[digest]int64) error {
	others, known := map[string]Part{}, map[digest]bool{}
	for part := range slices.Chunk(r.scopes, readBatch) {
		var rows []subjectRow
		if err := tx.Select("scope", "subject", "first_seen").Where("scope IN ?", raw(part)).Find(&rows).Error; err != nil {
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
					p = Part{row.Subject, row.FirstSeen, end}
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
	slices.SortFunc(r.Found.Others, func(a, b Part) int { return strings.Compare(a.Subject, b.Subject) })
	return nil
}

// tooMany reports whether there are too many values for their table to be written anew.
func tooMany(tx *gorm.DB) (bool, error) {
	var n int64
	err := tx.Raw("SELECT COUNT(*) FROM (SELECT 1 FROM vault_values LIMIT ?) AS part", rewritable+1).Scan(&n).Error
	return n > rewritable, err
}

// lockValues locks the table of values if it is to be written anew by [rewriteValues]: before any row, so that nobody who uses it waits for a row
// that the removal has.
func lockValues(tx *gorm.DB) error {
	many, err := tooMany(tx)
	if err != nil || many || database.IsSQLite(tx) {
		return err
	}
	return tx.Exec("LOCK TABLE vault_values IN ACCESS EXCLUSIVE MODE").Error
}

// rewriteValues writes the table of values anew: PostgreSQL keeps what is deleted in its pages until it needs the room, and SQLite, when rows
// once moved from a page to another, may have left bytes of them behind. SQLite overwrites the pages that are given back.
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

func (s store) generation(ctx context.Context) (int64, error) {
	return generation(s.db.WithContext(ctx))
}

// tidy removes what nobody needs any more: old erasures, and who took part in scopes that a replica of an earlier release removed.
func (s store) tidy(ctx context.Context, now time.Time) error {
	db, before := s.db.WithContext(ctx), now.Add(-forgetErasures).UnixMicro()
	if err := db.Where("time < ?", before).Delete(&erasureRow{}).Error; err != nil {
		return fmt.Errorf("forget erasures: %w", err)
	}
	err := db.Where("NOT EXISTS (SELECT 1 FROM vault_scopes AS s WHERE s.scope = vault_subjects.scope)").Delete(&subjectRow{}).Error
	if err != nil {
		return fmt.Errorf("forget who took part: %w", err)
	}
	return nil
}
