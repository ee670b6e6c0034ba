package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/store"
	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// The actions of the records of an erasure, whose resource is the digest of the subject.
const (
	// ActionErase is that of the record before anything is destroyed. It says what is about to be; those that follow name it in their detail.
	ActionErase = "audit.erase"
	// ActionErased is that of the certificate: everything is gone, from files of this server too, and this is how much it was.
	ActionErased = "audit.erased"
	// ActionErasureRefused takes an erasure back: before anything was destroyed a hold came or an approval went.
	ActionErasureRefused = "audit.erasure_refused"
	// ActionErasureFailed is that of an erasure that broke off: it is to be repeated.
	ActionErasureFailed = "audit.erasure_failed"
)

// Order is an erasure to be made. Only Tenant, Subject and By are needed.
type Order struct {
	Tenant  string
	Subject string // as Subject returns it
	By      record.Actor
	// Beside is what goes with the texts, in one transaction with them.
	Beside Beside
	// Pass are the ids of holds that a second person lets pass.
	Pass []string
	// Detail is what the record says besides its own figures.
	Detail map[string]string
}

// Erasure says that what was kept of a subject was erased: what had been kept up to Time.
type Erasure struct {
	Tenant   string
	Subject  string // as Subject returns it
	Time     int64  // UTC unix microseconds
	Record   string // that says so
	Keys     int64  // destroyed
	Contents int64
	Done     bool // all of it is gone from the database
	Clean    bool // and from files of this server
	// Certificate is the record that says that it was done, "" for one that is not complete or that an earlier release made.
	Certificate string
	// Detail is what the certificate says; nil in lists.
	Detail map[string]string
}

// Beside is what an erasure destroys with the texts, in the same transaction.
type Beside interface {
	// Take says what Destroy is about, and holds off whoever would add to it until tx ends.
	Take(tx *gorm.DB) (Reach, error)
	// Destroy says what went, for the certificate. It may still refuse.
	Destroy(tx *gorm.DB) (map[string]string, error)
}

// CountKept counts what is kept of the subject of e, and returns the time of the newest key.
func CountKept(ctx context.Context, db *gorm.DB, e *Erasure) (newest int64, err error) {
	db = db.WithContext(ctx)
	var n struct{ Keys, Newest int64 }
	err = db.Model(&store.KeyRow{}).Select("COUNT(*) AS keys", "COALESCE(MAX(created), 0) AS newest").
		Where("tenant = ? AND subject = ?", e.Tenant, e.Subject).Scan(&n).Error
	if err == nil {
		err = db.Model(&store.ContentRow{}).Where("key_id IN (?)", db.Model(&store.KeyRow{}).Select("id").Where("tenant = ? AND subject = ?", e.Tenant, e.Subject)).
			Count(&e.Contents).Error
	}
	if err != nil {
		return 0, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	e.Keys = n.Keys
	return n.Newest, nil
}

// Destroy destroys the keys of a subject that were made up to e.Time, with what they encrypted, and remembers whose they were. It fills in how
// many there were.
func (x *Keeper) Destroy(ctx context.Context, e *Erasure, o Order, now int64) error {
	take := func(*gorm.DB) (Reach, error) { return Reach{}, nil }
	if o.Beside != nil {
		take = o.Beside.Take
	}
	return x.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		return x.withoutHold(tx, o.Tenant, o.By, o.Pass, now, func(tx *gorm.DB) (Reach, error) {
			reach, err := take(tx)
			reach.Parts = append(reach.Parts, Part{Subject: o.Subject})
			return reach, err
		}, func(tx *gorm.DB) error { return eraseIn(tx, e, o) })
	})
}

func eraseIn(tx *gorm.DB, e *Erasure, o Order) error {
	if err := store.LockErasures(tx, true); err != nil {
		return err
	}
	if database.IsSQLite(tx) { // what is deleted is overwritten
		if err := tx.Exec("PRAGMA secure_delete = ON").Error; err != nil {
			return err
		}
	}
	mine := func() *gorm.DB {
		return tx.Model(&store.KeyRow{}).Where("tenant = ? AND subject = ? AND created <= ?", e.Tenant, e.Subject, e.Time)
	}
	res := tx.Where("key_id IN (?)", mine().Select("id")).Delete(&store.ContentRow{})
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
	if res = mine().Delete(&store.KeyRow{}); res.Error != nil {
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
	if err := tx.Create(&ResultRow{Record: e.Record, Tenant: e.Tenant, Subject: e.Subject, Detail: string(detail)}).Error; err != nil {
		return err
	}
	return tx.Create(&store.ErasureRow{Record: e.Record, Tenant: e.Tenant, Subject: e.Subject, Time: e.Time}).Error
}

// ResultRow is what an erasure did.
type ResultRow struct {
	Record      string
	Tenant      string
	Subject     string
	Detail      string // JSON
	Certificate string // "" while it is not complete
}

// TableName implements gorm's Tabler.
func (ResultRow) TableName() string { return "audit_erasure_results" }

// Uncertified returns the erasures of a person that are not complete, those of a whole tenant for "".
func Uncertified(ctx context.Context, db *gorm.DB, tenant, subject string) ([]Erasure, error) {
	var rows []ResultRow
	db = db.WithContext(ctx).Select("record", "tenant", "subject", "detail").Where("tenant = ? AND certificate = ''", tenant)
	if subject != "" {
		db = db.Where("subject = ?", subject)
	}
	err := db.Order("record").Find(&rows).Error
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

// Certify notes which records certify which erasures, and returns that of one of them.
func Certify(ctx context.Context, db *gorm.DB, certificates map[string]string, of string) (string, error) {
	for erasure, certificate := range certificates {
		err := db.WithContext(ctx).Model(&ResultRow{}).Where("record = ? AND certificate = ''", erasure).Update("certificate", certificate).Error
		if err != nil {
			return "", database.Unavailable("certify the erasure", err)
		}
	}
	var row ResultRow
	err := db.WithContext(ctx).Select("certificate").Where("record = ?", of).Take(&row).Error
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
		"CREATE TEMP TABLE audit_remaining_keys AS SELECT id, nonce, tenant, subject, suite, created, epoch, wrapped FROM audit_subject_keys",
		"DELETE FROM audit_subject_keys",
		`INSERT INTO audit_subject_keys (id, nonce, tenant, subject, suite, created, epoch, wrapped)
			SELECT id, nonce, tenant, subject, suite, created, epoch, wrapped FROM audit_remaining_keys ORDER BY id`,
		"DROP TABLE audit_remaining_keys",
	} {
		if err := tx.Exec(statement).Error; err != nil {
			return err
		}
	}
	return nil
}

// Scrub removes what deleted keys left in the files of the database: in the log of SQLite, in dead rows of PostgreSQL.
func Scrub(ctx context.Context, db *gorm.DB) error {
	db = db.WithContext(ctx)
	if !database.IsSQLite(db) {
		// Only a full vacuum gives up the pages; the keys are few. A ciphertext without its key needs no such pains.
		for _, statement := range []string{"VACUUM FULL audit_subject_keys", "VACUUM audit_contents"} {
			if err := db.Exec(statement).Error; err != nil {
				return fmt.Errorf("clean the pages of the database: %w", err)
			}
		}
		return nil
	}
	return EmptyLog(ctx, db)
}

// EmptyLog empties the log of SQLite. That of PostgreSQL is not ours.
func EmptyLog(ctx context.Context, db *gorm.DB) error {
	db = db.WithContext(ctx)
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

// CountErasures returns how many erasures there were, by tenant.
func CountErasures(ctx context.Context, db *gorm.DB) (map[string]int64, error) {
	var rows []struct {
		Tenant string
		N      int64
	}
	if err := db.WithContext(ctx).Model(&store.ErasureRow{}).Select("tenant", "COUNT(*) AS n").Group("tenant").Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("read erasures: %w", err)
	}
	out := make(map[string]int64, len(rows))
	for _, r := range rows {
		out[r.Tenant] = r.N
	}
	return out, nil
}

// Erasures returns the erasures of a tenant, of all for "". How much was destroyed is in their records.
func Erasures(ctx context.Context, db *gorm.DB, tenant string) ([]Erasure, error) {
	db = db.WithContext(ctx).Table("audit_erasures AS e").Select("e.record", "e.tenant", "e.subject", "e.time", "r.certificate").
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

// ErasedKeys returns those of the keys that an erasure took, which its record must confirm: a row alone explains nothing.
func ErasedKeys(db *gorm.DB, v checkpoint.Verifier, ids []string) (map[string]bool, error) {
	var rows []store.ErasedKeyRow
	if err := db.Select("id", "nonce", "tenant", "subject", "created").Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, err
	}
	out := map[string]bool{}
	if len(rows) == 0 {
		return out, nil
	}
	var subjects []string
	for _, r := range rows {
		subjects = append(subjects, r.Subject)
	}
	var said []store.EventRow
	err := db.Table("audit_erasures AS x").Select("e.id", "e.time", "e.payload").
		Joins("JOIN audit_events AS e ON e.id = x.record AND e.time = x.time").Joins("JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq").Where("x.subject IN ?", subjects).Find(&said).Error
	if err != nil {
		return nil, err
	}
	for _, s := range said {
		e, err := record.Decode(s.Payload)
		if err != nil || e.Action != ActionErase || e.Detail["time"] != strconv.FormatInt(e.Time, 10) || !Attested(v, e) {
			continue // the walk over the records says so
		}
		for _, r := range rows {
			k := store.KeyRow{ID: r.ID, Nonce: r.Nonce, Tenant: r.Tenant, Subject: r.Subject, Created: r.Created}.Key()
			if k.Sound() && database.Text(e.Tenant) == r.Tenant && database.Text(e.Resource) == r.Subject && r.Created <= e.Time {
				out[r.ID] = true
			}
		}
	}
	return out, nil
}
