package audit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/fault"
)

const contentBatch = 32 // ciphertexts per statement, since each may be large

type contentRow struct {
	Record     string
	Direction  string
	KeyID      string
	Digest     string
	Ciphertext []byte
}

func (contentRow) TableName() string { return "audit_contents" }

type keyRow struct {
	ID      string
	Nonce   string
	Tenant  string
	Subject string
	Suite   string
	Created int64
	Wrapped []byte
}

func (keyRow) TableName() string { return "audit_subject_keys" }

func (r keyRow) key() content.Key {
	return content.Key{ID: r.ID, Nonce: r.Nonce, Tenant: r.Tenant, Subject: r.Subject, Suite: content.Suite(r.Suite), Created: r.Created, Wrapped: r.Wrapped}
}

// erasedRow is what is left of the key of an erased subject: enough to show whose it was.
type erasedRow struct {
	ID      string
	Nonce   string
	Tenant  string
	Subject string
	Created int64
}

func (erasedRow) TableName() string { return "audit_erased_keys" }

type erasureRow struct {
	Record  string
	Tenant  string
	Subject string
	Time    int64
}

func (erasureRow) TableName() string { return "audit_erasures" }

// shareErasures waits for an erasure in progress and holds off the next one until tx ends; with alone it holds off the keeping of keys, too.
func shareErasures(tx *gorm.DB, alone bool) error {
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
func keep(tx *gorm.DB, fresh []arrival) (erased []string, err error) {
	if !slices.ContainsFunc(fresh, func(a arrival) bool { return len(a.attached) > 0 || len(a.event.Contents) > 0 }) {
		return nil, nil
	}
	if err := shareErasures(tx, false); err != nil {
		return nil, err
	}
	var rows []contentRow
	keys := map[string]content.Key{}
	for _, a := range fresh {
		if rows, err = unpackContents(a, rows, keys); err != nil {
			return nil, fmt.Errorf("record %s/%d: %w", a.row.Writer, a.row.Seq, err)
		}
	}
	if erased, err = keepKeys(tx, keys); err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r contentRow) bool { return slices.Contains(erased, r.KeyID) })
	if len(rows) == 0 {
		return erased, nil
	}
	return erased, tx.CreateInBatches(rows, contentBatch).Error
}

// unpackContents adds what a keeps to rows and keys. What stands before the record and what the record says must be the same.
func unpackContents(a arrival, rows []contentRow, keys map[string]content.Key) ([]contentRow, error) {
	mine := map[string]bool{}
	ciphertexts := map[string][]byte{}
	for _, x := range a.attached {
		if x.Kind == wal.KindContent {
			ciphertexts[contentDigest(x.Payload)] = x.Payload
			continue
		}
		k, err := content.ParseKey(x.Payload)
		if err != nil {
			return nil, err
		}
		keys[k.ID], mine[k.ID] = k, true
	}
	for _, c := range a.event.Contents {
		b, ok := ciphertexts[c.Digest]
		if !ok || !mine[c.Key] {
			return nil, fmt.Errorf("the write-ahead log does not hold the %s that the record says is kept: run `sluice audit verify`", c.Direction)
		}
		rows = append(rows, contentRow{Record: a.event.ID, Direction: c.Direction, KeyID: c.Key, Digest: c.Digest, Ciphertext: b})
	}
	if len(ciphertexts) != len(a.event.Contents) {
		return nil, errors.New("the write-ahead log holds more than the record says is kept: run `sluice audit verify`")
	}
	return rows, nil
}

// keepKeys stores the keys that are not there yet and may be. It returns the ids of the others.
func keepKeys(tx *gorm.DB, keys map[string]content.Key) (erased []string, err error) {
	var ids, subjects, there, gone []string
	for id, k := range keys {
		ids, subjects = append(ids, id), append(subjects, k.Subject)
	}
	slices.Sort(ids) // two replicas that ship copies of one directory must not lock each other out
	if err := tx.Model(&keyRow{}).Where("id IN ?", ids).Pluck("id", &there).Error; err != nil {
		return nil, err
	}
	if err := tx.Model(&erasedRow{}).Where("id IN ?", ids).Pluck("id", &gone).Error; err != nil {
		return nil, err
	}
	var tombs []erasureRow
	if err := tx.Select("record", "tenant", "subject", "time").Where("subject IN ?", subjects).Find(&tombs).Error; err != nil {
		return nil, err
	}
	var rows []keyRow
	var left []erasedRow
	for _, id := range ids {
		k := keys[id]
		late := slices.ContainsFunc(tombs, func(e erasureRow) bool {
			return e.Tenant == k.Tenant && e.Subject == k.Subject && k.Created <= e.Time
		})
		switch {
		case slices.Contains(gone, id):
			erased = append(erased, id)
		case late:
			erased = append(erased, id)
			left = append(left, erasedRow{id, k.Nonce, k.Tenant, k.Subject, k.Created})
		case !slices.Contains(there, id):
			rows = append(rows, keyRow{id, k.Nonce, k.Tenant, k.Subject, string(k.Suite), k.Created, k.Wrapped})
		}
	}
	if len(rows) > 0 {
		if err := tx.CreateInBatches(rows, insertBatch).Error; err != nil {
			return nil, err
		}
	}
	if len(left) > 0 {
		return erased, tx.CreateInBatches(left, insertBatch).Error
	}
	return erased, nil
}

// Kept is a prompt or an answer that was kept with a record.
type Kept struct {
	Direction string `json:"direction"`
	Form      string `json:"form"`
	Text      string `json:"text"`
	Bytes     int64  `json:"bytes"`  // of the ciphertext
	Erased    bool   `json:"erased"` // the text is gone, since its person was erased
}

// Contents returns what was kept with the record called id, in the order of the record. The caller records who read it, first.
func (l *Log) Contents(ctx context.Context, id string) ([]Kept, error) {
	e, err := l.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(e.Contents) == 0 {
		return []Kept{}, nil
	}
	found, keys, err := l.store.contents(ctx, e.Event)
	if err != nil {
		return nil, err
	}
	out := make([]Kept, 0, len(e.Contents))
	for _, c := range e.Contents {
		kept := Kept{Direction: c.Direction, Form: c.Form, Bytes: c.Bytes}
		b, ok := found[c.Digest]
		k, there := keys[c.Key]
		if !ok || !there {
			erased, err := erasedKeys(l.store.db.WithContext(ctx), l.reads, []string{c.Key})
			if err != nil {
				return nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
			}
			if !erased[c.Key] {
				return nil, fmt.Errorf("read contents: the %s of record %s is gone, and no erasure says so; run `sluice audit verify`", c.Direction, id)
			}
			kept.Erased = true
			out = append(out, kept)
			continue
		}
		if contentDigest(b) != c.Digest {
			return nil, fmt.Errorf("read contents: the %s of record %s was changed; run `sluice audit verify`", c.Direction, id)
		}
		data, err := l.contents.cipher.Unwrap(k)
		if err != nil {
			return nil, fmt.Errorf("read contents: %w", err)
		}
		text, err := data.Open(id, c.Direction, b)
		if err != nil {
			return nil, fmt.Errorf("read contents: %w", err)
		}
		kept.Text = string(text)
		out = append(out, kept)
	}
	return out, nil
}

// contents returns the ciphertexts of a record by digest and the keys by id.
func (s *store) contents(ctx context.Context, e Event) (map[string][]byte, map[string]content.Key, error) {
	db := s.db.WithContext(ctx)
	var rows []contentRow
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
	var stored []keyRow
	err = db.Select("id", "nonce", "tenant", "subject", "suite", "created", "wrapped").Where("id IN ?", ids).Find(&stored).Error
	if err != nil {
		return nil, nil, fault.Wrap(err, fault.CodeDatabaseUnavailable)
	}
	keys := map[string]content.Key{}
	for _, r := range stored {
		keys[r.ID] = r.key()
	}
	return found, keys, nil
}
