package search

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

// insertBatch is how many rows, or ids to look for, go into one statement of the ORM.
const insertBatch = 500

// listUnit is what oldest and newest of a list are rounded to, in microseconds: a list is touched once an hour, not with every record.
const listUnit = int64(time.Hour / time.Microsecond)

// newestFor is newest of a list that has a record of a time: behind the end of its hour.
func newestFor(at int64) int64 {
	if at > math.MaxInt64-listUnit {
		return math.MaxInt64
	}
	return (at/listUnit + 1) * listUnit
}

// oldestFor is oldest of a list that has a record of a time: before the beginning of its hour, also for times before 1970.
func oldestFor(at int64) int64 {
	if at < math.MinInt64+2*listUnit {
		return math.MinInt64
	}
	return (at/listUnit - 1) * listUnit
}

// head is what a list of records is kept up to date by: all its records are from oldest on, and from before newest.
type head struct {
	ID             []byte
	Oldest, Newest int64
}

// holds reports whether h reaches as far as o in both directions.
func (h head) holds(o head) bool { return h.Oldest <= o.Oldest && h.Newest >= o.Newest }

// join returns what reaches as far as both.
func (h head) join(o head) head { return head{h.ID, min(h.Oldest, o.Oldest), max(h.Newest, o.Newest)} }

// list is a row of a list of records, which a search reads newest first.
type list interface{ head() *head }

// setRow is the list of an attribute set. Text is what a search for text looks at.
type setRow struct {
	Head       head       `gorm:"embedded"`
	Attributes attributes `gorm:"embedded"`
	Text       string
}

func (*setRow) TableName() string { return "audit_facets" }
func (r *setRow) head() *head     { return &r.Head }

// termRow is a text that few records have: a resource or a document.
type termRow struct {
	Head   head `gorm:"embedded"`
	Tenant string
	Text   string
}

func (*termRow) TableName() string { return "audit_terms" }
func (r *termRow) head() *head     { return &r.Head }

// sourceRow is an address that records of an attribute set came from. Its id is the id of the set in hexadecimal and the address.
type sourceRow struct {
	Head   head `gorm:"embedded"`
	Source string
	Set    []byte `gorm:"column:facet"`
}

func (*sourceRow) TableName() string { return "audit_sources" }
func (r *sourceRow) head() *head     { return &r.Head }

// postingRow says that a record has a term.
type postingRow struct {
	Term []byte
	Time int64
	ID   string
	Set  []byte `gorm:"column:facet"`
}

func (postingRow) TableName() string { return "audit_postings" }

// Lists are the lists that a record is on, and its postings. They depend on nothing but the record.
type Lists struct {
	set      setRow
	sources  []sourceRow // none without an address
	terms    []termRow
	postings []postingRow
}

// ListsOf returns the lists of a record.
func ListsOf(e *record.Event) Lists {
	of := func(id []byte) head { return head{id, oldestFor(e.Time), newestFor(e.Time)} }
	a := attributesOf(e)
	id := a.id()
	l := Lists{set: setRow{Head: of(id), Attributes: a, Text: a.text()}}
	if source := database.Text(e.Source); source != "" {
		l.sources = []sourceRow{{Head: of(append(hex.AppendEncode(nil, id), source...)), Source: source, Set: id}}
	}
	for _, t := range termsOf(e.Tenant, e.Resource, e.Detail, e.Documents) {
		term := t.id()
		l.terms = append(l.terms, termRow{Head: of(term), Tenant: t.Tenant, Text: t.Text})
		l.postings = append(l.postings, postingRow{Term: term, Time: e.Time, ID: database.Text(e.ID), Set: id})
	}
	return l
}

// Set returns the id of the attribute set of the record.
func (l Lists) Set() []byte { return l.set.Head.ID }

// Add puts records on their lists, in the transaction that stores them. Lists are stored in the order of their ids, so that two replicas
// wait for each other and do not lock each other out.
func Add(tx *gorm.DB, records []*Lists) error {
	if !database.IsSQLite(tx) { // keeps a pruning from removing a list that is only looked at here
		if err := tx.Exec("LOCK TABLE audit_facets IN ROW EXCLUSIVE MODE").Error; err != nil {
			return fmt.Errorf("lock attribute sets: %w", err)
		}
	}
	sets, sources, terms := map[string]*setRow{}, map[string]*sourceRow{}, map[string]*termRow{}
	var postings []postingRow
	for _, r := range records {
		collect(sets, []setRow{r.set})
		collect(sources, r.sources)
		collect(terms, r.terms)
		postings = append(postings, r.postings...)
	}
	if err := addNew(tx, sets); err != nil {
		return fmt.Errorf("store attribute sets: %w", err)
	}
	if err := addNew(tx, sources); err != nil {
		return fmt.Errorf("store sources: %w", err)
	}
	if err := addNew(tx, terms); err != nil {
		return fmt.Errorf("store terms: %w", err)
	}
	return database.Insert(tx, postings, "")
}

// pointer is a pointer to a row of a list.
type pointer[R any] interface {
	*R
	list
}

// collect notes copies of rows by their ids, each with the times of all that came.
func collect[R any, P pointer[R]](in map[string]P, rows []R) {
	for i := range rows {
		h := P(&rows[i]).head()
		if old, ok := in[string(h.ID)]; ok {
			*old.head() = old.head().join(*h)
		} else {
			r := rows[i]
			in[string(h.ID)] = &r
		}
	}
}

// addNew stores the lists that are not there yet, and widens the others where they do not reach. Most are there and reach: asking is cheaper
// than trying.
func addNew[R any, P pointer[R]](tx *gorm.DB, rows map[string]P) error {
	ids := make([][]byte, 0, len(rows))
	for id := range rows {
		ids = append(ids, []byte(id))
	}
	slices.SortFunc(ids, bytes.Compare)
	var short []head
	for part := range slices.Chunk(ids, insertBatch) {
		var there []head
		if err := tx.Model(new(R)).Select("id", "oldest", "newest").Where("id IN ?", part).Find(&there).Error; err != nil {
			return err
		}
		have := make(map[string]head, len(there))
		for _, h := range there {
			have[string(h.ID)] = h
		}
		var fresh []P
		for _, id := range part {
			r := rows[string(id)]
			if h, ok := have[string(id)]; !ok {
				fresh = append(fresh, r)
			} else if !h.holds(*r.head()) {
				short = append(short, *r.head())
			}
		}
		if len(fresh) == 0 {
			continue
		}
		res := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&fresh)
		if res.Error != nil {
			return res.Error
		}
		if res.RowsAffected < int64(len(fresh)) { // another replica stored one of them meanwhile
			for _, r := range fresh {
				short = append(short, *r.head())
			}
		}
	}
	slices.SortFunc(short, func(a, b head) int { return bytes.Compare(a.ID, b.ID) })
	for _, h := range short {
		err := tx.Model(new(R)).Where("id = ? AND (oldest > ? OR newest < ?)", h.ID, h.Oldest, h.Newest).Updates(map[string]any{
			"oldest": gorm.Expr("CASE WHEN oldest > ? THEN ? ELSE oldest END", h.Oldest, h.Oldest),
			"newest": gorm.Expr("CASE WHEN newest < ? THEN ? ELSE newest END", h.Newest, h.Newest),
		}).Error
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove takes records off their lists by removing their postings, in the transaction that removes the records. [RemoveUnused] comes behind it.
func Remove(tx *gorm.DB, records []record.Event) error {
	var postings []any
	for i := range records {
		for _, p := range ListsOf(&records[i]).postings {
			postings = append(postings, p.Time, p.Term, p.ID) // the bytes not first: gorm would take them for a list
		}
	}
	for part := range slices.Chunk(postings, 3*insertBatch) {
		if err := tx.Exec("DELETE FROM audit_postings WHERE "+database.OneOf(tx, len(part)/3, "time", "term", "id"), part...).Error; err != nil {
			return err
		}
	}
	return nil
}

// RemoveUnused removes the lists whose records are all gone, after a pruning of records up to a time. It holds off whoever indexes.
func RemoveUnused(tx *gorm.DB, upTo int64) error {
	if !database.IsSQLite(tx) {
		if err := tx.Exec("LOCK TABLE audit_facets IN SHARE ROW EXCLUSIVE MODE").Error; err != nil {
			return fmt.Errorf("lock attribute sets: %w", err)
		}
	}
	for _, statement := range []string{
		"DELETE FROM audit_facets WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.facet = audit_facets.id)",
		"DELETE FROM audit_sources WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_events AS e WHERE e.source = audit_sources.source AND e.source <> '' AND e.facet = audit_sources.facet)",
		"DELETE FROM audit_terms WHERE newest <= ? AND NOT EXISTS (SELECT 1 FROM audit_postings AS p WHERE p.term = audit_terms.id)",
	} {
		if err := tx.Exec(statement, newestFor(upTo)).Error; err != nil {
			return fmt.Errorf("remove what no record has any more: %w", err)
		}
	}
	return nil
}
