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
	var subjects []string
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
			if m.Subject != "" && !slices.Contains(subjects, m.Subject) {
				subjects = append(subjects, m.Subject)
			}
		}
	}
	if len(marks) == 0 {
		return nil
	}
	if s.Beside == nil {
		return errors.New("the write-ahead log holds marks, and nothing here keeps them")
	}
	var erasures []ErasureRow
	if len(subjects) > 0 {
		if err := tx.Select("record", "tenant", "subject", "time").Where("subject IN ?", subjects).Find(&erasures).Error; err != nil {
			return err
		}
	}
	marks = slices.DeleteFunc(marks, func(m Mark) bool {
		return slices.ContainsFunc(erasures, func(e ErasureRow) bool { return e.Tenant == m.Tenant && e.Subject == m.Subject && m.Time <= e.Time })
	})
	if len(marks) == 0 {
		return nil
	}
	return s.Beside.Keep(tx, marks)
}
