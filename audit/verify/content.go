package verify

import (
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/content"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/store"
)

const keptBytes = 8 << 20 // how much ciphertext is read at once

// keeper is a record with what it says is kept.
type keeper struct {
	event record.Event
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
	var rows []store.ContentRow
	err := db.Select("record", "direction", "key_id", "digest", "ciphertext").Where("record IN ?", ids).Find(&rows).Error
	if err != nil {
		return err
	}
	var there []store.KeyRow
	err = db.Select("id", "nonce", "tenant", "subject", "created").Where("id IN ?", keys).Find(&there).Error
	if err != nil {
		return err
	}
	erased, err := retention.ErasedKeys(db, w.v, keys) // after the contents: what an erasure took meanwhile is among them
	if err != nil {
		return err
	}
	for _, r := range records {
		w.kept(r, rows, there, erased)
	}
	return nil
}

// kept compares one record with the rows that were found.
func (w *walk) kept(r keeper, rows []store.ContentRow, keys []store.KeyRow, erased map[string]bool) {
	said := 0
	for _, c := range r.event.Contents {
		at := slices.IndexFunc(rows, func(x store.ContentRow) bool { return x.Record == r.event.ID && x.Direction == c.Direction })
		switch {
		case at < 0 && !erased[c.Key]:
			w.problem("content", r.event.ID, r.index, "the "+c.Direction+" that was kept is gone, and no erasure says why")
		case at < 0:
		case rows[at].Digest != c.Digest || content.Digest(rows[at].Ciphertext) != c.Digest || rows[at].KeyID != c.Key:
			said++
			w.problem("content", r.event.ID, r.index, "the "+c.Direction+" that was kept was changed")
		default:
			said++
			k := slices.IndexFunc(keys, func(x store.KeyRow) bool { return x.ID == c.Key })
			switch {
			case erased[c.Key]:
				w.problem("content", r.event.ID, r.index, "the "+c.Direction+" of an erased subject is still there: erase the subject again")
			case k < 0:
				w.problem("content", r.event.ID, r.index, "the key of the "+c.Direction+" that was kept is gone, and no erasure says why")
			case !keys[k].Key().Sound():
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
	var late []store.ErasureRow
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
