package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// Beside is what an erasure destroys with the texts, in the same transaction.
type Beside interface {
	// Take says what Destroy is about, and holds off whoever would add to it until tx ends.
	Take(tx *gorm.DB) (Reach, error)
	// Destroy says what went, for the certificate. It may still refuse.
	Destroy(tx *gorm.DB) (map[string]string, error)
}

// kept counts what is kept of the subject of e, and returns the time of the newest key.
func (s *store) kept(ctx context.Context, e *Erasure) (newest int64, err error) {
	db := s.db.WithContext(ctx)
	var n struct{ Keys, Newest int64 }
	err = db.Model(&keyRow{}).Select("COUNT(*) AS keys", "COALESCE(MAX(created), 0) AS newest").
		Where("tenant = ? AND subject = ?", e.Tenant, e.Subject).Scan(&n).Error
	if err == nil {
		err = db.Model(&contentRow{}).Where("key_id IN (?)", db.Model(&keyRow{}).Select("id").Where("tenant = ? AND subject = ?", e.Tenant, e.Subject)).
			Count(&e.Contents).Error
	}
	if err != nil {
		return 0, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	e.Keys = n.Keys
	return n.Newest, nil
}

// erase destroys the keys of a subject that were made up to e.Time, with what they encrypted, and remembers whose they were. It fills in how
// many there were.
func (s *store) erase(ctx context.Context, e *Erasure, o Order, now int64) error {
	take := func(*gorm.DB) (Reach, error) { return Reach{}, nil }
	if o.Beside != nil {
		take = o.Beside.Take
	}
	return s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return s.withoutHold(tx, o.Tenant, o.By, o.Pass, now, func(tx *gorm.DB) (Reach, error) {
			reach, err := take(tx)
			reach.Parts = append(reach.Parts, Part{Subject: o.Subject})
			return reach, err
		}, func(tx *gorm.DB) error { return s.eraseIn(tx, e, o) })
	})
}

func (s *store) eraseIn(tx *gorm.DB, e *Erasure, o Order) error {
	if err := shareErasures(tx, true); err != nil {
		return err
	}
	if database.IsSQLite(tx) { // what is deleted is overwritten
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	mine := func() *gorm.DB {
		return tx.Model(&keyRow{}).Where("tenant = ? AND subject = ? AND created <= ?", e.Tenant, e.Subject, e.Time)
	}
	res := tx.Where("key_id IN (?)", mine().Select("id")).Delete(&contentRow{})
	if res.Error != nil {
		return res.Error
	}
	e.Contents = res.RowsAffected
	err := tx.Exec(`INSERT INTO audit_erased_keys (id, nonce, tenant, subject, created)
			SELECT id, nonce, tenant, subject, created FROM audit_subject_keys
			WHERE tenant = ? AND subject = ? AND created <= ? AND id NOT IN (SELECT id FROM audit_erased_keys)`, e.Tenant, e.Subject, e.Time).Error
	if err != nil {
		return err
	}
	if res = mine().Delete(&keyRow{}); res.Error != nil {
		return res.Error
	}
	e.Keys = res.RowsAffected
	if err := rewriteKeys(tx); err != nil {
		return err
	}
	e.Detail = map[string]string{}
	maps.Copy(e.Detail, o.Detail)
	if o.Beside != nil {
		went, err := o.Beside.Destroy(tx)
		if err != nil {
			return err
		}
		maps.Copy(e.Detail, went)
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	maps.Copy(e.Detail, map[string]string{"keys": number(e.Keys), "contents": number(e.Contents), "time": number(e.Time)})
	detail, err := json.Marshal(e.Detail)
	if err != nil {
		return err
	}
	if err := tx.Create(&resultRow{Record: e.Record, Tenant: e.Tenant, Subject: e.Subject, Detail: string(detail)}).Error; err != nil {
		return err
	}
	return tx.Create(&erasureRow{Record: e.Record, Tenant: e.Tenant, Subject: e.Subject, Time: e.Time}).Error
}

// resultRow is what an erasure did.
type resultRow struct {
	Record      string
	Tenant      string
	Subject     string
	Detail      string // JSON
	Certificate string // "" while it is not complete
}

func (resultRow) TableName() string { return "audit_erasure_results" }

// uncertified returns the erasures of a person that are not complete.
func (s *store) uncertified(ctx context.Context, tenant, subject string) ([]Erasure, error) {
	var rows []resultRow
	err := s.db.WithContext(ctx).Select("record", "tenant", "subject", "detail").
		Where("tenant = ? AND subject = ? AND certificate = ''", tenant, subject).Order("record").Find(&rows).Error
	if err != nil {
		return nil, database.Unavailable("read erasures", err)
	}
	var out []Erasure
	for _, r := range rows {
		e := Erasure{Tenant: r.Tenant, Subject: r.Subject, Record: r.Record, Done: true}
		if err := json.Unmarshal([]byte(r.Detail), &e.Detail); err != nil {
			return nil, fmt.Errorf("read the erasure %s: %w", r.Record, err)
		}
		for name, field := range map[string]*int64{"keys": &e.Keys, "contents": &e.Contents, "time": &e.Time} {
			if *field, err = strconv.ParseInt(e.Detail[name], 10, 64); err != nil {
				return nil, fmt.Errorf("read the erasure %s: %w", r.Record, err)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// certified notes which records certify which erasures, and returns that of one of them.
func (s *store) certified(ctx context.Context, certificates map[string]string, of string) (string, error) {
	for erasure, certificate := range certificates {
		err := s.db.WithContext(ctx).Model(&resultRow{}).Where("record = ? AND certificate = ''", erasure).Update("certificate", certificate).Error
		if err != nil {
			return "", database.Unavailable("certify the erasure", err)
		}
	}
	var row resultRow
	err := s.db.WithContext(ctx).Select("certificate").Where("record = ?", of).Take(&row).Error
	if err != nil {
		return "", database.Unavailable("read the certificate", err)
	}
	return row.Certificate, nil
}

// rewriteKeys writes the table of keys anew on SQLite: when rows once moved from a page to another, bytes of them may have stayed behind.
// Pages given back are overwritten; see erase.
func rewriteKeys(tx *gorm.DB) error {
	if !database.IsSQLite(tx) {
		return nil
	}
	for _, statement := range []string{
		"CREATE TEMP TABLE audit_remaining_keys AS SELECT id, nonce, tenant, subject, suite, created, wrapped FROM audit_subject_keys",
		"DELETE FROM audit_subject_keys",
		`INSERT INTO audit_subject_keys (id, nonce, tenant, subject, suite, created, wrapped)
			SELECT id, nonce, tenant, subject, suite, created, wrapped FROM audit_remaining_keys ORDER BY id`,
		"DROP TABLE audit_remaining_keys",
	} {
		if err := tx.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

// scrub removes what deleted keys left in the files of the database: in the log of SQLite, in dead rows of PostgreSQL.
func (s *store) scrub(ctx context.Context) error {
	db := s.db.WithContext(ctx)
	if !database.IsSQLite(db) {
		// Only a full vacuum gives up the pages; the keys are few. A ciphertext without its key needs no such pains.
		for _, statement := range []string{"VACUUM FULL audit_subject_keys", "VACUUM audit_contents"} {
			if err := db.Exec(statement).Error; err != nil {
				return fmt.Errorf("clean the pages of the database: %w", err)
			}
		}
		return nil
	}
	return s.emptyLog(ctx)
}

// emptyLog empties the log of SQLite. That of PostgreSQL is not ours.
func (s *store) emptyLog(ctx context.Context) error {
	db := s.db.WithContext(ctx)
	if !database.IsSQLite(db) {
		return nil
	}
	var r struct{ Busy, Log, Checkpointed int64 }
	if err := db.Raw("PRAGMA wal_checkpoint(TRUNCATE)").Scan(&r).Error; err != nil {
		return fmt.Errorf("empty the log of the database: %w", err)
	}
	if r.Busy != 0 {
		return errors.New("empty the log of the database: a long read held it")
	}
	return nil
}

// Others reports whether other processes than this one may have a write-ahead log, which only they can empty: whether another writer is known, of
// which nobody has found that it is over. tx is the transaction that asks; nil for none.
func (l *Log) Others(ctx context.Context, tx *gorm.DB) (bool, error) {
	var mine []string
	for _, w := range l.logs() {
		mine = append(append(mine, w.Writer), w.Former...)
	}
	if tx == nil {
		tx = l.store.db
	}
	var n int64
	err := tx.WithContext(ctx).Model(&writerRow{}).Where("drained < ? AND writer NOT IN ?", int64(forever), mine).Count(&n).Error
	return n > 0, database.Unavailable("look for other writers", err)
}

// countErasures returns how many erasures there were, by tenant.
func (s *store) countErasures(ctx context.Context) (map[string]int64, error) {
	var rows []struct {
		Tenant string
		N      int64
	}
	if err := s.db.WithContext(ctx).Model(&erasureRow{}).Select("tenant", "COUNT(*) AS n").Group("tenant").Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read erasures: %w", err)
	}
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Tenant] = r.N
	}
	return out, nil
}

// erasures returns the erasures of a tenant, of all for "". How much was destroyed is in their records.
func (s *store) erasures(ctx context.Context, tenant string) ([]Erasure, error) {
	db := s.db.WithContext(ctx).Table("audit_erasures AS e").Select("e.record", "e.tenant", "e.subject", "e.time", "r.certificate").
		Joins("LEFT JOIN audit_erasure_results AS r ON r.record = e.record")
	if tenant != "" {
		db = db.Where("e.tenant = ?", database.Text(tenant))
	}
	var rows []struct {
		Record      string
		Tenant      string
		Subject     string
		Time        int64
		Certificate string
	}
	if err := db.Order("e.time, e.record").Find(&rows).Error; err != nil {
		return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	out := make([]Erasure, 0, len(rows))
	for _, r := range rows {
		out = append(out, Erasure{Tenant: r.Tenant, Subject: r.Subject, Time: r.Time, Record: r.Record, Certificate: r.Certificate})
	}
	return out, nil
}
