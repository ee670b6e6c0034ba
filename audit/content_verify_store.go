package audit

import (
	"fmt"
	"slices"
	"strconv"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

const keptBytes = 8 << 20 // how much ciphertext is read at once

// keeper is a record with what it says is kept.
type keeper struct {
	event Event
	index int64
}

// compareContents compares the records read since the last call with what is kept of them. That ciphertexts are gone is a problem unless
// their key is among the erased ones, and that one only if a record says that its subject was erased.
func (w *walk) compareContents(db *gorm.DB) error {
	for len(w.keepers) > 0 {
		n, bytes := 0, int64(0)
		for n < len(w.keepers) && n < verifyBatch && bytes < keptBytes {
			for _, c := range w.keepers[n].event.Contents {
				bytes += c.Bytes
			}
			n++
		}
		if err := w.compareKept(db, w.keepers[:n]); err != nil {
			return fmt.Errorf("compare what is kept: %w", err)
		}
		w.keepers = w.keepers[n:]
	}
	return nil
}

func (w *walk) compareKept(db *gorm.DB, records []keeper) error {
	var ids, keys []string
	for _, r := range records {
		ids = append(ids, r.event.ID)
		for _, c := range r.event.Contents {
			keys = append(keys, c.Key)
		}
	}
	var rows []contentRow
	err := db.Select("record", "direction", "key_id", "digest", "ciphertext").Where("record IN ?", ids).Find(&rows).Error
	if err != nil {
		return err
	}
	var there []keyRow
	err = db.Select("id", "nonce", "tenant", "subject", "created").Where("id IN ?", keys).Find(&there).Error
	if err != nil {
		return err
	}
	erased, err := erasedKeys(db, w.v, keys) // after the contents: what an erasure took meanwhile is among them
	if err != nil {
		return err
	}
	for _, r := range records {
		w.kept(r, rows, there, erased)
	}
	return nil
}

// kept compares one record with the rows that were found.
func (w *walk) kept(r keeper, rows []contentRow, keys []keyRow, erased map[string]bool) {
	said := 0
	for _, c := range r.event.Contents {
		at := slices.IndexFunc(rows, func(x contentRow) bool { return x.Record == r.event.ID && x.Direction == c.Direction })
		switch {
		case at < 0 && !erased[c.Key]:
			w.problem("content", r.event.ID, r.index, "the "+c.Direction+" that was kept is gone, and no erasure says why")
		case at < 0:
		case rows[at].Digest != c.Digest || contentDigest(rows[at].Ciphertext) != c.Digest || rows[at].KeyID != c.Key:
			said++
			w.problem("content", r.event.ID, r.index, "the "+c.Direction+" that was kept was changed")
		default:
			said++
			k := slices.IndexFunc(keys, func(x keyRow) bool { return x.ID == c.Key })
			switch {
			case erased[c.Key]:
				w.problem("content", r.event.ID, r.index, "the "+c.Direction+" of an erased subject is still there: erase the subject again")
			case k < 0:
				w.problem("content", r.event.ID, r.index, "the key of the "+c.Direction+" that was kept is gone, and no erasure says why")
			case !keys[k].key().Sound():
				w.problem("content", r.event.ID, r.index, "the key of the "+c.Direction+" that was kept was changed")
			}
		}
	}
	here := 0
	for _, x := range rows {
		if x.Record == r.event.ID {
			here++
		}
	}
	if here > said {
		w.problem("content", r.event.ID, r.index, "more is kept with the record than it says")
	}
}

// erasedKeys returns those of the keys that an erasure took, which its record must confirm: a row alone explains nothing.
func erasedKeys(db *gorm.DB, v checkpoint.Verifier, ids []string) (map[string]bool, error) {
	var rows []erasedRow
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
	var said []eventRow
	err := db.Table("audit_erasures AS x").Select("e.id", "e.time", "e.payload").
		Joins("JOIN audit_events AS e ON e.id = x.record AND e.time = x.time").Joins("JOIN audit_leaves AS l ON l.writer = e.writer AND l.seq = e.seq").Where("x.subject IN ?", subjects).Find(&said).Error
	if err != nil {
		return nil, err
	}
	for _, s := range said {
		e, err := record.Decode(s.Payload)
		if err != nil || e.Action != ActionErase || e.Detail["time"] != strconv.FormatInt(e.Time, 10) || !warranted(v, e) {
			continue // the walk over the records says so
		}
		for _, r := range rows {
			k := keyRow{ID: r.ID, Nonce: r.Nonce, Tenant: r.Tenant, Subject: r.Subject, Created: r.Created}.key()
			if k.Sound() && database.Text(e.Tenant) == r.Tenant && database.Text(e.Resource) == r.Subject && r.Created <= e.Time {
				out[r.ID] = true
			}
		}
	}
	return out, nil
}

// strayContents looks for ciphertexts that no record vouches for and for keys that outlived the erasure of their subject.
func (w *walk) strayContents(db *gorm.DB) error {
	var stray []string
	err := db.Table("audit_contents AS c").Distinct("c.record").
		Where("NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.id = c.record)").Limit(maxProblems).Pluck("record", &stray).Error
	if err != nil {
		return fmt.Errorf("read what is kept: %w", err)
	}
	for _, id := range stray {
		w.problem("content", id, -1, "a text is kept for a record that is not there")
	}
	var late []erasureRow
	err = db.Table("audit_erasures AS x").Distinct("x.record").
		Where("EXISTS (SELECT 1 FROM audit_subject_keys AS k WHERE k.tenant = x.tenant AND k.subject = x.subject AND k.created <= x.time)").
		Limit(maxProblems).Find(&late).Error
	if err != nil {
		return fmt.Errorf("read erasures: %w", err)
	}
	for _, x := range late {
		w.problem("content", x.Record, -1, "a key of the erased subject is there again: erase the subject again")
	}
	return nil
}
