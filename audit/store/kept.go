package store

import (
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

const (
	contentBatch = 32  // ciphertexts per statement, since each may be large
	insertBatch  = 500 // rows in one statement
)

// ContentRow is a row of audit_contents: the ciphertext of a kept text.
type ContentRow struct {
	Record     string
	Direction  string
	KeyID      string
	Digest     string
	Ciphertext []byte
}

// TableName implements gorm's Tabler.
func (ContentRow) TableName() string { return "audit_contents" }

// KeyRow is a row of audit_subject_keys: a wrapped data key of a person.
type KeyRow struct {
	ID      string
	Nonce   string
	Tenant  string
	Subject string
	Suite   string
	Created int64
	Epoch   int64
	Wrapped []byte
}

// TableName implements gorm's Tabler.
func (KeyRow) TableName() string { return "audit_subject_keys" }

// Key returns the key as the ciphers know it.
func (r KeyRow) Key() content.Key {
	return content.Key{ID: r.ID, Nonce: r.Nonce, Tenant: r.Tenant, Subject: r.Subject, Suite: content.Suite(r.Suite), Created: r.Created, Epoch: r.Epoch, Wrapped: r.Wrapped}
}

// Wrapped are the data keys of people as a rotation of the wrapping keys sees them.
func Wrapped(keys *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[KeyRow]{
		Kind: "content_keys", Keys: content.WrappingKeys(keys), Table: KeyRow{}.TableName(), Sealed: "wrapped", Limit: 200,
		Columns: []string{"id", "suite", "epoch", "wrapped"},
		Label:   func(r KeyRow) []byte { return r.Key().Label() },
		Row:     func(r KeyRow) (string, wrapkey.Envelope) { return r.ID, r.Key().Envelope() },
	}
}

// ErasedKeyRow is what is left of the key of an erased subject: enough to show whose it was.
type ErasedKeyRow struct {
	ID      string
	Nonce   string
	Tenant  string
	Subject string
	Created int64
}

// TableName implements gorm's Tabler.
func (ErasedKeyRow) TableName() string { return "audit_erased_keys" }

// ErasureRow is a row of audit_erasures: whose keys a record erased.
type ErasureRow struct {
	Record  string
	Tenant  string
	Subject string
	Time    int64
}

// TableName implements gorm's Tabler.
func (ErasureRow) TableName() string { return "audit_erasures" }

// LockErasures waits for an erasure in progress and holds off the next one until tx ends; with alone it holds off the keeping of keys, too.
func LockErasures(tx *gorm.DB, alone bool) error {
	strength := clause.LockingStrengthShare
	if alone {
		strength = clause.LockingStrengthUpdate
	}
	var names []string
	err := tx.Table("audit_lease").Select("name").Where("name = 'erase'").Clauses(clause.Locking{Strength: strength}).Find(&names).Error
	if err == nil && len(names) == 0 {
		err = errors.New("the row erase of audit_lease is gone; put it back: without it a key could slip by an erasure")
	}
	return err
}

// keep stores what the records keep, with its keys, except for subjects that were erased after the key was made. It returns the ids of the
// keys left out.
func (s *Store) keep(tx *gorm.DB, fresh []Arrival) (erased []string, err error) {
	some := false
	for i := range fresh {
		some = some || len(fresh[i].Attached) > 0 || len(fresh[i].Event.Contents) > 0
	}
	if !some {
		return nil, nil
	}
	if err := LockErasures(tx, false); err != nil {
		return nil, err
	}
	var rows []ContentRow
	keys := map[string]content.Key{}
	for _, a := range fresh {
		if rows, err = Unpack(a, rows, keys); err != nil {
			return nil, fmt.Errorf("record %s/%d: %w", a.Row.Writer, a.Row.Seq, err)
		}
	}
	if len(keys) == 0 { // nothing but marks
		return nil, nil
	}
	if erased, err = s.keepKeys(tx, keys); err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r ContentRow) bool { return slices.Contains(erased, r.KeyID) })
	if len(rows) == 0 {
		return erased, nil
	}
	return erased, tx.CreateInBatches(rows, contentBatch).Error
}

// Unpack adds what a keeps to rows and keys. What stands before the record and what the record says must be the same.
func Unpack(a Arrival, rows []ContentRow, keys map[string]content.Key) ([]ContentRow, error) {
	mine := map[string]bool{}
	ciphertexts := map[string][]byte{}
	for _, x := range a.Attached {
		if x.Kind == wal.KindMark {
			continue
		}
		if x.Kind == wal.KindContent {
			ciphertexts[content.Digest(x.Payload)] = x.Payload
			continue
		}
		k, err := content.ParseKey(x.Payload)
		if err != nil {
			return nil, err
		}
		keys[k.ID], mine[k.ID] = k, true
	}
	for _, c := range a.Event.Contents {
		b, ok := ciphertexts[c.Digest]
		if !ok || !mine[c.Key] {
			return nil, fmt.Errorf("the write-ahead log does not hold the %s that the record says is kept: run `sluice audit verify`", c.Direction)
		}
		rows = append(rows, ContentRow{Record: a.Event.ID, Direction: c.Direction, KeyID: c.Key, Digest: c.Digest, Ciphertext: b})
	}
	if len(ciphertexts) != len(a.Event.Contents) {
		return nil, errors.New("the write-ahead log holds more than the record says is kept: run `sluice audit verify`")
	}
	return rows, nil
}

// keepKeys stores the keys that are not there yet and may be. It returns the ids of the others.
func (s *Store) keepKeys(tx *gorm.DB, keys map[string]content.Key) (erased []string, err error) {
	var ids, subjects, there, gone []string
	for id, k := range keys {
		ids, subjects = append(ids, id), append(subjects, k.Subject)
	}
	slices.Sort(ids) // two replicas that ship copies of one directory must not lock each other out
	if err := tx.Model(&KeyRow{}).Where("id IN ?", ids).Pluck("id", &there).Error; err != nil {
		return nil, err
	}
	if err := tx.Model(&ErasedKeyRow{}).Where("id IN ?", ids).Pluck("id", &gone).Error; err != nil {
		return nil, err
	}
	var tombs []ErasureRow
	if err := tx.Select("record", "tenant", "subject", "time").Where("subject IN ?", subjects).Find(&tombs).Error; err != nil {
		return nil, err
	}
	var fresh []content.Key
	var left []ErasedKeyRow
	for _, id := range ids {
		k := keys[id]
		late := slices.ContainsFunc(tombs, func(e ErasureRow) bool {
			return e.Tenant == k.Tenant && e.Subject == k.Subject && k.Created <= e.Time
		})
		switch {
		case slices.Contains(gone, id):
			erased = append(erased, id)
		case late:
			erased = append(erased, id)
			left = append(left, ErasedKeyRow{id, k.Nonce, k.Tenant, k.Subject, k.Created})
		case !slices.Contains(there, id):
			fresh = append(fresh, k)
		}
	}
	if len(fresh) > 0 {
		if s.Wrap != nil {
			if err := s.Wrap(tx, fresh); err != nil {
				return nil, err
			}
		}
		rows := make([]KeyRow, len(fresh))
		for i, k := range fresh {
			rows[i] = KeyRow{k.ID, k.Nonce, k.Tenant, k.Subject, string(k.Suite), k.Created, k.Epoch, k.Wrapped}
		}
		if err := tx.CreateInBatches(rows, insertBatch).Error; err != nil {
			return nil, err
		}
	}
	if len(left) > 0 {
		return erased, tx.CreateInBatches(left, insertBatch).Error
	}
	return erased, nil
}

// ContentsOf returns the ciphertexts of a record by digest and the keys by id.
func ContentsOf(db *gorm.DB, e record.Event) (map[string][]byte, map[string]content.Key, error) {
	var rows []ContentRow
	err := db.Select("record", "direction", "key_id", "digest", "ciphertext").Where("record = ?", e.ID).Find(&rows).Error
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	found := map[string][]byte{}
	for _, r := range rows {
		found[r.Digest] = r.Ciphertext
	}
	var ids []string
	for _, c := range e.Contents {
		ids = append(ids, c.Key)
	}
	var stored []KeyRow
	err = db.Select("id", "nonce", "tenant", "subject", "suite", "created", "epoch", "wrapped").Where("id IN ?", ids).Find(&stored).Error
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	keys := map[string]content.Key{}
	for _, r := range stored {
		keys[r.ID] = r.Key()
	}
	return found, keys, nil
}
