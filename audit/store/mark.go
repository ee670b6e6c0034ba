package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/wal"
	"github.com/sluice-project/sluice/internal/database"
)

// Mark is what another concern keeps with a record: this one does not know what it says.
type Mark struct {
	Record  string // its id
	Request string
	Tenant  string
	Subject string // digest of the person whom it is about; "": nobody known
	Time    int64  // of the record, UTC unix microseconds
	Data    []byte
}

// Beside keeps marks. Both methods work in the transaction that stores or removes records, and on no other connection; an error rolls it back.
type Beside interface {
	// Keep stores marks of records that the database has not had before.
	Keep(tx *gorm.DB, marks []Mark) error
	// Drop removes what is kept with records that are removed; of most there is nothing.
	Drop(tx *gorm.DB, records []string) error
}

// EncodeMark is how a mark stands in the write-ahead log, with the person whom it is about.
func EncodeMark(subject, data string) []byte {
	b := binary.AppendUvarint(nil, uint64(len(subject)))
	return append(append(b, subject...), data...)
}

func decodeMark(b []byte) (subject string, data []byte, err error) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return "", nil, errors.New("the write-ahead log holds a mark that does not read: run `sluice audit verify`")
	}
	b = b[size:]
	return string(b[:n]), b[n:], nil
}

// keepMarks stores the marks of records that arrived, but for those about people who were erased meanwhile: the lock of erasures is held.
func (s *Store) keepMarks(tx *gorm.DB, fresh []Arrival) error {
	var marks []Mark
	for _, a := range fresh {
		for _, x := range a.Attached {
			if x.Kind != wal.KindMark {
				continue
			}
			subject, data, err := decodeMark(x.Payload)
			if err != nil {
				return fmt.Errorf("record %s/%d: %w", a.Row.Writer, a.Row.Seq, err)
			}
			m := Mark{Record: a.Row.ID, Request: a.Row.Request, Tenant: a.Row.Tenant, Subject: database.Text(subject), Time: a.Row.Time, Data: data}
			marks = append(marks, m)
		}
	}
	if len(marks) == 0 {
		return nil
	}
	if s.Beside == nil {
		return errors.New("the write-ahead log holds marks, and nothing here keeps them")
	}
	erased, err := erasedOf(tx, marks)
	if err != nil {
		return err
	}
	if marks = slices.DeleteFunc(marks, erased); len(marks) == 0 {
		return nil
	}
	return s.Beside.Keep(tx, marks)
}

// erasedOf returns what says of a mark whether what was kept of its person was erased later.
func erasedOf(db *gorm.DB, marks []Mark) (func(Mark) bool, error) {
	var subjects []string
	for _, m := range marks {
		if m.Subject != "" && !slices.Contains(subjects, m.Subject) {
			subjects = append(subjects, m.Subject)
		}
	}
	var erasures []ErasureRow
	for part := range slices.Chunk(subjects, insertBatch) {
		var found []ErasureRow
		if err := db.Select("record", "tenant", "subject", "time").Where("subject IN ?", part).Find(&found).Error; err != nil {
			return nil, err
		}
		erasures = append(erasures, found...)
	}
	return func(m Mark) bool {
		return slices.ContainsFunc(erasures, func(e ErasureRow) bool { return e.Tenant == m.Tenant && e.Subject == m.Subject && m.Time <= e.Time })
	}, nil
}

// Gone returns which marks should be kept no more, of any number: their records are gone, or what was kept of their people was erased. A release that knows no marks leaves
// such behind when it prunes and erases.
func Gone(db *gorm.DB, marks []Mark) ([]Mark, error) {
	there := map[string]bool{}
	for part := range slices.Chunk(marks, insertBatch) {
		ids, oldest, newest := make([]string, len(part)), part[0].Time, part[0].Time
		for i, m := range part {
			ids[i], oldest, newest = m.Record, min(oldest, m.Time), max(newest, m.Time)
		}
		var found []string // the times say in which months PostgreSQL looks
		if err := db.Table("audit_events").Where("id IN ? AND time BETWEEN ? AND ?", ids, oldest, newest).Pluck("id", &found).Error; err != nil {
			return nil, fmt.Errorf("look for records: %w", err)
		}
		for _, id := range found {
			there[id] = true
		}
	}
	erased, err := erasedOf(db, marks)
	if err != nil {
		return nil, fmt.Errorf("look for erasures: %w", err)
	}
	var out []Mark
	for _, m := range marks {
		if !there[m.Record] || erased(m) {
			out = append(out, m)
		}
	}
	return out, nil
}
