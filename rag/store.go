package rag

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
)

// store is the tables. What documents say stands in them encrypted.
type store struct {
	db     *gorm.DB
	cipher *documentCipher
	rules  ruleKeeper
}

type changeRow struct {
	Name    string `gorm:"column:name"`
	Version int64  `gorm:"column:version"`
}

func (changeRow) TableName() string { return "rag_changes" }

type collectionRow struct {
	ID           string `gorm:"column:id"`
	Tenant       string `gorm:"column:tenant"`
	Name         string `gorm:"column:name"`
	Title        string `gorm:"column:title"`
	Labels       string `gorm:"column:labels"`
	Revision     int64  `gorm:"column:revision"`
	CreatedAt    int64  `gorm:"column:created_at;autoCreateTime:false"`
	KeepVersions int64  `gorm:"column:keep_versions"`
	KeepDays     int64  `gorm:"column:keep_days"`
	Settings     int64  `gorm:"column:settings"` // version of these two
	Glossary     int64  `gorm:"column:glossary"` // revision at which it was last changed
}

func (collectionRow) TableName() string { return "rag_collections" }

func (collectionRow) columns() []string {
	return []string{"id", "tenant", "name", "title", "labels", "revision", "created_at", "keep_versions", "keep_days", "settings", "glossary"}
}

// documentRow is what holds for all versions of a document.
type documentRow struct {
	ID         string `gorm:"column:id"`
	Collection string `gorm:"column:collection"`
	Name       string `gorm:"column:name"`
	Labels     string `gorm:"column:labels"`
	Rule       string `gorm:"column:rule"`    // see ruleKeeper
	Version    int64  `gorm:"column:version"` // the last number that was given, also if that version is deleted
	Revision   int64  `gorm:"column:revision"`
	CreatedAt  int64  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt  int64  `gorm:"column:updated_at;autoUpdateTime:false"`
	Creator    string `gorm:"column:creator"` // who brought it, such as user:ID; "" for a document of a release before
}

func (documentRow) TableName() string { return "rag_documents" }

func (documentRow) columns() []string {
	return []string{"id", "collection", "name", "labels", "rule", "version", "revision", "created_at", "updated_at", "creator"}
}

// versionRow is a version of a document. What it says does not change; when it is in effect may.
type versionRow struct {
	ID         string `gorm:"column:id"`
	Collection string `gorm:"column:collection"`
	Document   string `gorm:"column:document"`
	Version    int64  `gorm:"column:version"`
	MIME       string `gorm:"column:mime"`
	Title      string `gorm:"column:title"`
	Digest     string `gorm:"column:digest"`
	Embedder   string `gorm:"column:embedder"`
	Content    string `gorm:"column:content"`
	Known      string `gorm:"column:known"` // JSON, "" for none
	FAQ        string `gorm:"-"`            // of an entry, as encodeFAQ writes it; stored with the text
	Sealed     []byte `gorm:"column:sealed"`
	Suite      string `gorm:"column:suite"` // of Sealed; "": stored in clear by a release before
	Epoch      int64  `gorm:"column:epoch"` // of Sealed
	Chunks     int    `gorm:"column:chunks"`
	ValidFrom  int64  `gorm:"column:valid_from"`
	ValidUntil int64  `gorm:"column:valid_until"` // 0: no end
	CreatedAt  int64  `gorm:"column:created_at;autoCreateTime:false"`
}

func (versionRow) TableName() string { return "rag_versions" }

func (versionRow) columns() []string {
	return append(versionRow{}.dates(), "content", "sealed", "suite", "epoch", "title", "digest", "known")
}

// dates are the columns that say when a version is in effect, and not what it says.
func (versionRow) dates() []string {
	return []string{"id", "collection", "document", "version", "mime", "embedder", "chunks", "valid_from", "valid_until", "created_at"}
}

func versionID(document string, n int64) string { return document + "." + versionName(n) }

type chunkRow struct {
	Document string `gorm:"column:document"`
	Version  int64  `gorm:"column:version"`
	Chunk    int    `gorm:"column:chunk"`
	Section  string `gorm:"column:section"`
	Place    string `gorm:"-"` // such as its pages; stored with the text
	Start    int    `gorm:"column:start_at"`
	End      int    `gorm:"column:end_at"`
	Vector   []byte `gorm:"column:vector"`
}

func (chunkRow) TableName() string { return "rag_chunks" }

// dbError marks a failure of the database.
func dbError(step string, err error) error {
	if err == nil || fault.KindOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(fmt.Errorf("%s: %w", step, err), fault.CodeDatabaseUnavailable)
}

func (s store) version(ctx context.Context) (int64, error) {
	var r changeRow
	err := s.db.WithContext(ctx).Select("name", "version").Where("name = ?", "rag").Take(&r).Error
	return r.Version, dbError("read change counter", err)
}

// bump advances the change counter and returns it. Its row is locked until tx ends: changes happen one at a time, and revisions
// become visible in order.
func bump(tx *gorm.DB) (int64, error) {
	err := tx.Model(&changeRow{}).Where("name = ?", "rag").Update("version", gorm.Expr("version + 1")).Error
	if err != nil {
		return 0, err
	}
	return store{db: tx}.version(tx.Statement.Context)
}

// journalRow is an entry of the journal of changes: document was changed at revision, or the collection itself if document is "". mark is random.
type journalRow struct {
	Collection string `gorm:"column:collection"`
	Revision   int64  `gorm:"column:revision"`
	Document   string `gorm:"column:document"`
	Mark       string `gorm:"column:mark"`
}

func (journalRow) TableName() string { return "rag_journal" }

// keptJournal is for how many revisions, of all collections together, the journal goes back, and to the last entry before: the collection was as that says all
// the time. A replica that was away for more reads everything again.
const keptJournal = 100_000

// note writes the entry of a change, which each has, and drops the ones that are kept no longer.
func note(tx *gorm.DB, collection string, revision int64, document string) error {
	entry := journalRow{collection, revision, document, hex.EncodeToString(seal.Random(8))}
	if err := tx.Create(&entry).Error; err != nil {
		return err
	}
	last := tx.Model(&journalRow{}).Select("MAX(revision)").Where("collection = ? AND revision <= ?", collection, revision-keptJournal)
	return tx.Where("collection = ? AND revision < (?)", collection, last).Delete(&journalRow{}).Error
}

// journal returns the entries of a collection behind one, in order, at most n. Error: errHistory if the tables do not have that one.
func (s store) journal(ctx context.Context, collection string, after int64, mark string, n int) ([]journalRow, error) {
	var rows []journalRow
	err := s.db.WithContext(ctx).Select("collection", "revision", "document", "mark").
		Where("collection = ? AND revision >= ?", collection, after).Order("revision").Limit(n + 1).Find(&rows).Error
	if err != nil {
		return nil, dbError("read journal", err)
	}
	if len(rows) == 0 || rows[0].Revision != after || rows[0].Mark != mark {
		return nil, errHistory
	}
	return rows[1:], nil
}

// mark returns the mark of a revision of a collection. Error: errHistory if the journal does not have it.
func (s store) mark(ctx context.Context, collection string, revision int64) (string, error) {
	var marks []string
	err := s.db.WithContext(ctx).Model(&journalRow{}).Where("collection = ? AND revision = ?", collection, revision).Pluck("mark", &marks).Error
	if err == nil && len(marks) == 0 {
		err = errHistory
	}
	if errors.Is(err, errHistory) {
		return "", err
	}
	return strings.Join(marks, ""), dbError("read journal", err)
}

// beginning returns the entry of the last change of a collection, from which it is followed by who reads it as a whole. If that change has none, it gets one,
// and what was noted before is dropped: nobody can follow it across that change. found is false if the collection is gone.
func (s store) beginning(ctx context.Context, collection string) (out journalRow, found bool, err error) {
	row, found, err := s.collection(ctx, collection)
	if err != nil || !found {
		return out, false, err
	}
	out = journalRow{Collection: collection, Revision: row.Revision}
	if out.Mark, err = s.mark(ctx, collection, row.Revision); !errors.Is(err, errHistory) {
		return out, err == nil, err
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := holdChanges(tx); err != nil {
			return err
		}
		if err := dropGap(tx, collection); err != nil {
			return err
		}
		again := store{db: tx}
		if row, found, err = again.collection(ctx, collection); err != nil || !found {
			return err
		}
		out.Revision = row.Revision
		if out.Mark, err = again.mark(ctx, collection, row.Revision); !errors.Is(err, errHistory) { // somebody else has done it
			return err
		}
		out.Mark = hex.EncodeToString(seal.Random(8))
		return tx.Create(&out).Error
	})
	return out, found && err == nil, dbError("begin journal", err)
}

// dropGap drops the journal of a collection that was changed by somebody who did not note it: a release of before, or a hand in the tables. Who stands on one
// of its entries reads everything again. The counter's row must be locked.
func dropGap(tx *gorm.DB, collection string) error {
	noted := tx.Table("rag_journal AS j").Select("1").Joins("JOIN rag_collections AS c ON c.id = j.collection AND c.revision = j.revision").Where("c.id = ?", collection)
	return tx.Where("collection = ? AND NOT EXISTS (?)", collection, noted).Delete(&journalRow{}).Error
}

var errHistory = errors.New("the tables have another history than what is stored here: they were put back from a copy, or have forgotten changes that are not here yet")

func forUpdate(tx *gorm.DB) *gorm.DB { return tx.Clauses(clause.Locking{Strength: "UPDATE"}) }

func (s store) createCollection(ctx context.Context, id string, c Collection, labels string, now time.Time) (collectionRow, error) {
	row := collectionRow{
		ID: id, Tenant: c.Tenant, Name: c.Name, Title: c.Title, Labels: labels, CreatedAt: now.UnixMicro(), Settings: 1,
		KeepVersions: int64(c.Retention.KeepVersions), KeepDays: int64(c.Retention.KeepDays),
	}
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if row.Revision, err = bump(tx); err != nil {
			return err
		}
		if err := note(tx, row.ID, row.Revision, ""); err != nil {
			return err
		}
		return tx.Create(&row).Error
	})
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return row, fault.New(fault.CodeExists, fault.Say("thing.collection"), c.Name)
	}
	return row, dbError("create collection", err)
}

func (s store) collections(ctx context.Context) ([]collectionRow, error) {
	var rows []collectionRow
	err := s.db.WithContext(ctx).Select(collectionRow{}.columns()).Order("id").Find(&rows).Error
	return rows, dbError("read collections", err)
}

// collection reads one collection; found is false if there is none of that id.
func (s store) collection(ctx context.Context, id string) (row collectionRow, found bool, err error) {
	var rows []collectionRow
	if err := s.db.WithContext(ctx).Select(collectionRow{}.columns()).Where("id = ?", id).Find(&rows).Error; err != nil || len(rows) == 0 {
		return row, false, dbError("read collection", err)
	}
	return rows[0], true, nil
}

func (s store) deleteCollection(ctx context.Context, id string) error {
	err := s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := bump(tx); err != nil {
			return err
		}
		docs := tx.Model(&documentRow{}).Select("id").Where("collection = ?", id)
		if err := tx.Where("document IN (?)", docs).Delete(&chunkRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("collection = ?", id).Delete(&versionRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("collection = ?", id).Delete(&journalRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("collection = ?", id).Delete(&documentRow{}).Error; err != nil {
			return err
		}
		if err := tx.Where("collection = ?", id).Delete(&glossaryRow{}).Error; err != nil {
			return err
		}
		return tx.Where("id = ?", id).Delete(&collectionRow{}).Error
	})
	return dbError("delete collection", err)
}

// touch advances the counter and the revision of a collection, which must still exist. Whoever calls it notes what changed: see note.
func touch(tx *gorm.DB, collection string) (int64, error) {
	revision, err := bump(tx)
	if err != nil {
		return 0, err
	}
	if err := dropGap(tx, collection); err != nil { // an entry behind a gap would hide it
		return 0, err
	}
	res := tx.Model(&collectionRow{}).Where("id = ?", collection).Update("revision", revision)
	if res.Error == nil && res.RowsAffected == 0 {
		return 0, fault.New(fault.CodeConflict, fault.Say("rag.collection_deleted"))
	}
	return revision, res.Error
}

// documentState is a document as the tables have it, without what its versions say.
type documentState struct {
	documentRow
	versions []versionRow // by number
	gone     bool         // a change has deleted the document
}

// state reads a document, which the transaction has locked or changed; found is false if there is none.
func state(tx *gorm.DB, id string) (out documentState, found bool, err error) {
	var rows []documentRow
	if err := tx.Select(documentRow{}.columns()).Where("id = ?", id).Find(&rows).Error; err != nil || len(rows) == 0 {
		return out, false, err
	}
	out.documentRow = rows[0]
	err = tx.Select(versionRow{}.dates()).Where("document = ?", id).Order("version").Find(&out.versions).Error
	return out, true, err
}

// changeDocument has a function change a document in a transaction of its own, and returns what it is afterwards. want is the revision that it must have;
// 0 for any. A change that returns errUnchanged leaves everything as it is, the revision too. Errors: CodeNotFound; CodeConflict for another revision.
func (s store) changeDocument(ctx context.Context, collection, id string, want int64, now time.Time, change func(tx *gorm.DB, d *documentState) error) (out documentState, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		revision, err := touch(tx, collection)
		if err != nil {
			return err
		}
		d, found, err := state(tx, id)
		if err != nil {
			return err
		}
		if !found || d.Collection != collection {
			return fault.New(fault.CodeNotFound, fault.Say("thing.document"), id)
		}
		if err := note(tx, collection, revision, id); err != nil {
			return err
		}
		if want != 0 && d.Revision != want {
			return fault.New(fault.CodeConflict, fault.Say("rag.changed_meanwhile")).WithParam("revision")
		}
		if err := change(tx, &d); err != nil {
			return err
		}
		if d.gone {
			d.Revision, out = revision, d
			return nil
		}
		err = tx.Model(&documentRow{}).Where("id = ?", id).Updates(map[string]any{
			"revision": revision, "updated_at": now.UnixMicro(), "labels": d.Labels, "rule": d.Rule, "version": d.Version,
		}).Error
		if err != nil {
			return err
		}
		out, _, err = state(tx, id)
		return err
	})
	if errors.Is(err, errUnchanged) {
		return out, errUnchanged
	}
	return out, dbError("change document", err)
}

var errUnchanged = errors.New("nothing to change")

// newVersion is a version to be stored, and what is asked for with it.
type newVersion struct {
	row             versionRow
	chunks          []chunkRow
	name            string
	labels          string // "": as they are; none for a new document
	rule            *Rule  // in canonical form, with ids of sections, or with headings; nil: as it is
	mayChangeAccess bool
	by              Reader       // who brings it
	collection      []string     // labels of the collection
	from, until     int64        // 0: by default
	access          AccessChange // what it has changed of who may see the document
}

// saveVersion stores a version of a document, which is new if the collection has none of that name. It completes n, and returns what the document is
// afterwards. Errors: CodeNotAllowed for a change of access without the right to; CodeInvalidValue; CodeConflict.
func (s store) saveVersion(ctx context.Context, n *newVersion, now time.Time) (out documentState, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		revision, err := touch(tx, n.row.Collection)
		if err != nil {
			return err
		}
		var ids []string
		if err := forUpdate(tx.Model(&documentRow{})).Where("collection = ? AND name = ?", n.row.Collection, n.name).Pluck("id", &ids).Error; err != nil {
			return err
		}
		d := documentState{documentRow: documentRow{ID: uuid.NewString(), Collection: n.row.Collection, Name: n.name, Labels: encodeLabels(nil), CreatedAt: now.UnixMicro(), Creator: n.by.bringer()}}
		isNew := len(ids) == 0
		if !isNew {
			if d, _, err = state(tx, ids[0]); err != nil {
				return err
			}
		}
		if err := note(tx, d.Collection, revision, d.ID); err != nil {
			return err
		}
		d.Version++
		d.Revision, d.UpdatedAt = revision, now.UnixMicro()
		n.row.ID, n.row.Document, n.row.Version = versionID(d.ID, d.Version), d.ID, d.Version
		n.row.Chunks, n.row.CreatedAt = len(n.chunks), now.UnixMicro()
		if err := s.access(tx, &d, n, isNew); err != nil {
			return err
		}
		if err := date(tx, d.versions, n, now.UnixMicro()); err != nil {
			return err
		}
		for i := range n.chunks {
			n.chunks[i].Document, n.chunks[i].Version = d.ID, d.Version
		}
		sealed, stored, err := s.cipher.seal(tx, n.row, n.chunks)
		if err != nil {
			return err
		}
		if isNew {
			err = tx.Create(&d.documentRow).Error
		} else {
			err = tx.Model(&documentRow{}).Where("id = ?", d.ID).Updates(map[string]any{
				"labels": d.Labels, "rule": d.Rule, "version": d.Version, "revision": d.Revision, "updated_at": d.UpdatedAt,
			}).Error
		}
		if err != nil {
			return err
		}
		if err := tx.Create(&sealed).Error; err != nil {
			return err
		}
		if err := tx.CreateInBatches(stored, 200).Error; err != nil {
			return err
		}
		out, _, err = state(tx, d.ID)
		return err
	})
	return out, dbError("save document", err)
}

// access decides who may see a document that gets a version. Whoever writes documents cannot open one to others: only who may change access changes what
// a document has, and a version that has lost a part that is restricted, or may have text of it elsewhere, is refused. A rule that comes with a version holds for the earlier ones too, and
// what it does not speak of, because only they have it, stays as restricted as it was: see [ruleKeeper.carry].
func (s store) access(tx *gorm.DB, d *documentState, n *newVersion, isNew bool) error {
	may, before := isNew || n.mayChangeAccess, d.documentRow
	defer func() {
		if d.Labels != before.Labels || d.Rule != before.Rule {
			n.access = AccessChange{
				Document: d.ID, Revision: d.Revision,
				Before: s.rules.digest(d.ID, before.Labels, before.Rule), After: s.rules.digest(d.ID, d.Labels, d.Rule),
			}
		}
	}()
	was, err := s.rules.decode(d.ID, before.Labels, d.Rule)
	if !may && !n.shownTo(d, was, err != nil) {
		return nameTaken()
	}
	if n.labels != "" && n.labels != d.Labels {
		if !may {
			return fault.New(fault.CodeNotAllowed, accessPermission)
		}
		d.Labels = n.labels
	}
	if err != nil {
		return fault.Wrap(err, fault.CodeConflict, fault.Say("rag.rule_damaged"))
	}
	if n.rule == nil {
		if d.Rule, err = s.rules.encode(d.ID, d.Labels, was); err != nil || len(was.Parts) == 0 {
			return err
		}
	}
	earlier, err := s.readable(tx, d.versions)
	if err != nil {
		return err
	}
	of := &indexedVersion{versionRow: n.row, chunks: n.chunks}
	if n.rule != nil {
		rule, err := s.rules.resolve(d.ID, *n.rule, was, append(slices.Clone(earlier), of))
		if err != nil {
			return err
		}
		if rule, err = s.rules.carry(d.ID, rule, was, of); err != nil {
			return err
		}
		stored, err := s.rules.encode(d.ID, d.Labels, rule)
		if err != nil {
			return err
		}
		if stored != d.Rule && !may {
			return fault.New(fault.CodeNotAllowed, accessPermission)
		}
		d.Rule = stored
		if may {
			return nil // it was made for this version
		}
	}
	// What the last version has lost, somebody who may change access has decided about.
	var last *indexedVersion
	if i := len(earlier) - 1; i >= 0 && earlier[i].ID == d.versions[len(d.versions)-1].ID {
		last = earlier[i]
	}
	lost := func(p PartRule) bool {
		return (last == nil || s.rules.partOf(d.ID, p, last)) && !s.rules.partOf(d.ID, p, of)
	}
	if slices.ContainsFunc(was.Parts, lost) {
		return fault.New(fault.CodeConflict, fault.Say("rag.rule_lost"))
	}
	if s.rules.moved(d.ID, was, earlier, last, of) {
		return fault.New(fault.CodeConflict, fault.Say("rag.rule_moved"))
	}
	return nil
}

// shownTo reports whether a document that is there is one that lists show to whoever brings a version of it, as far as the tables tell: which parts are for
// others the store of passages has held him to. damaged is whether its rule is.
func (n *newVersion) shownTo(d *documentState, rule Rule, damaged bool) bool {
	if d.Creator == "" && !damaged && rule.none() || slices.Contains(n.by.Principals, d.Creator) {
		return true
	}
	labels, err := decodeLabels(d.Labels)
	begun := slices.ContainsFunc(d.versions, func(v versionRow) bool { return v.ValidFrom <= n.row.CreatedAt })
	return err == nil && !damaged && begun && permits(n.collection, n.by.Labels) && permits(labels, n.by.Labels) && (!rule.Restricted || oneLets(rule.Allow, n.by.viewer()))
}

// nameTaken refuses a version of a document that is not there for whoever brings it. That a name is taken cannot be hidden: names are unique.
func nameTaken() error {
	return fault.New(fault.CodeConflict, fault.Say("rag.name_taken")).WithParam("name")
}

// readable reads what versions say, by number. Those that are damaged are left out.
func (s store) readable(tx *gorm.DB, rows []versionRow) (out []*indexedVersion, err error) {
	for _, r := range rows {
		v, err := (store{tx, s.cipher, s.rules}).content(tx.Statement.Context, r.ID)
		if errors.Is(err, errDamaged) {
			continue
		} else if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// accessPermission is what a refused change of access lacks.
const accessPermission = "rag.access"

// date decides when a new version is in effect, and ends those that it replaces, so that at no time two are. Errors: CodeInvalidValue.
func date(tx *gorm.DB, others []versionRow, n *newVersion, now int64) error {
	from, until := n.from, n.until
	if from == 0 {
		from = now
		for _, o := range others {
			if o.ValidFrom <= o.CreatedAt { // not dated ahead: the clock of another replica may be ahead
				from = max(from, o.ValidFrom)
			}
		}
	}
	for _, o := range others {
		if o.ValidFrom <= from || o.ValidUntil != 0 && o.ValidUntil <= o.ValidFrom {
			continue
		}
		if n.until == 0 && o.ValidFrom < until0(until) {
			until = o.ValidFrom
		}
		if n.until != 0 && o.ValidFrom < n.until {
			return fault.New(fault.CodeInvalidValue, "valid_until", fault.Say("rag.validity_overlaps", versionName(o.Version))).WithParam("valid_until")
		}
	}
	if until != 0 && until <= from {
		return fault.New(fault.CodeInvalidValue, "valid_until", fault.Say("rag.validity_order")).WithParam("valid_until")
	}
	n.row.ValidFrom, n.row.ValidUntil = from, until
	for _, o := range others {
		if o.ValidFrom <= from && until0(o.ValidUntil) > from {
			if err := tx.Model(&versionRow{}).Where("id = ?", o.ID).Update("valid_until", from).Error; err != nil {
				return err
			}
		}
	}
	return nil
}

func deleteRows(tx *gorm.DB, document string) error {
	if err := tx.Where("document = ?", document).Delete(&chunkRow{}).Error; err != nil {
		return err
	}
	if err := tx.Where("document = ?", document).Delete(&versionRow{}).Error; err != nil {
		return err
	}
	return tx.Where("id = ?", document).Delete(&documentRow{}).Error
}

// deleteVersions deletes versions of a document within a change of it.
func deleteVersions(tx *gorm.DB, document string, numbers []int64) error {
	if err := tx.Where("document = ? AND version IN ?", document, numbers).Delete(&chunkRow{}).Error; err != nil {
		return err
	}
	return tx.Where("document = ? AND version IN ?", document, numbers).Delete(&versionRow{}).Error
}

// deleteDocument deletes a document by its name, or by its id if name is empty, with all its versions. It returns its id and the revision of the
// deletion.
func (s store) deleteDocument(ctx context.Context, collection, name, id string) (_ string, revision int64, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) (err error) {
		if revision, err = touch(tx, collection); err != nil {
			return err
		}
		find := tx.Select("id").Where("collection = ?", collection)
		if name != "" {
			find = find.Where("name = ?", name)
		} else {
			find = find.Where("id = ?", id)
		}
		var rows []documentRow
		if err := find.Find(&rows).Error; err != nil {
			return err
		}
		if len(rows) == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.document"), cmp.Or(name, id))
		}
		id = rows[0].ID
		if err := note(tx, collection, revision, id); err != nil {
			return err
		}
		return deleteRows(tx, id)
	})
	return id, revision, dbError("delete document", err)
}

// page returns the ids of the next documents of a collection behind one, in order.
func (s store) page(ctx context.Context, collection, after string, most int) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&documentRow{}).Where("collection = ? AND id > ?", collection, after).Order("id").Limit(most).Pluck("id", &ids).Error
	return ids, dbError("read documents", err)
}

// states reads documents as they are, without what their versions say; those that are not there are left out. Dates are never older than the revision
// that they come with.
func (s store) states(ctx context.Context, ids []string) (map[string]documentState, error) {
	out := make(map[string]documentState, len(ids))
	db := s.db.WithContext(ctx)
	for part := range slices.Chunk(ids, 500) {
		var docs []documentRow
		if err := db.Select(documentRow{}.columns()).Where("id IN ?", part).Find(&docs).Error; err != nil {
			return nil, dbError("read documents", err)
		}
		var versions []versionRow
		if err := db.Select(versionRow{}.dates()).Where("document IN ?", part).Order("document, version").Find(&versions).Error; err != nil {
			return nil, dbError("read versions", err)
		}
		for _, d := range docs {
			out[d.ID] = documentState{documentRow: d}
		}
		for _, v := range versions {
			if d, ok := out[v.Document]; ok {
				d.versions = append(d.versions, v)
				out[v.Document] = d
			}
		}
	}
	return out, nil
}

// documents reads the rows of all documents of a collection by name, with the dates of their versions.
func (s store) documents(ctx context.Context, collection string) ([]documentState, error) {
	db := s.db.WithContext(ctx)
	var docs []documentRow
	if err := db.Select(documentRow{}.columns()).Where("collection = ?", collection).Order("name").Find(&docs).Error; err != nil {
		return nil, dbError("read documents", err)
	}
	var versions []versionRow
	if err := db.Select(versionRow{}.dates()).Where("collection = ?", collection).Order("document, version").Find(&versions).Error; err != nil {
		return nil, dbError("read versions", err)
	}
	by := map[string][]versionRow{}
	for _, v := range versions {
		by[v.Document] = append(by[v.Document], v)
	}
	out := make([]documentState, len(docs))
	for i, d := range docs {
		out[i] = documentState{documentRow: d, versions: by[d.ID]}
	}
	return out, nil
}

// named returns the id of a document by its name; "" if there is none.
func (s store) named(ctx context.Context, collection, name string) (string, error) {
	var ids []string
	err := s.db.WithContext(ctx).Model(&documentRow{}).Where("collection = ? AND name = ?", collection, name).Pluck("id", &ids).Error
	return strings.Join(ids, ""), dbError("read document", err)
}

// faqRow is the last version of an entry of a FAQ.
type faqRow struct {
	Document, Name string
	Version        int64
}

// renamable returns the entries of a collection whose question may be another than the one that they are named after, by name: those with more than one version, and
// those with another name than new ones get.
func (s store) renamable(ctx context.Context, collection string) (out []faqRow, err error) {
	err = s.db.WithContext(ctx).Raw(`SELECT v.document, d.name, v.version FROM rag_documents d JOIN rag_versions v ON v.document = d.id
		WHERE d.collection = ? AND v.mime = ? AND (d.version > 1 OR length(d.name) <> ? OR d.name NOT LIKE ?)
		AND v.version = (SELECT max(last.version) FROM rag_versions last WHERE last.document = d.id) ORDER BY d.name`,
		collection, FAQType, len(faqNameHead)+2*faqNameBytes, faqNameHead+"%").Scan(&out).Error
	return out, dbError("read entries", err)
}

// lastVersion returns the last number that a version of a document was given; 0 if it is not there.
func (s store) lastVersion(ctx context.Context, id string) (int64, error) {
	var all []int64
	err := s.db.WithContext(ctx).Model(&documentRow{}).Where("id = ?", id).Pluck("version", &all).Error
	if err != nil || len(all) == 0 {
		return 0, dbError("read document", err)
	}
	return all[0], nil
}

// Who brought documents, as seen by a reader.
const (
	nobodys = 0 // somebody else
	his     = 1 // he
	unknown = 2 // a release before, which did not keep it; only of documents without a rule
)

// documentCount is how many documents of a collection are alike for lists.
type documentCount struct {
	Collection, Labels string
	Ruled              bool
	Begun              bool // a version has
	Whose              int
	N                  int
}

// count returns how many documents collections have, by their ids, as a reader sees them; nil is anybody.
func (s store) count(ctx context.Context, collections []string, r *Reader, now time.Time) (map[string][]documentCount, error) {
	var principals []string
	if r != nil {
		principals = r.Principals
	}
	var rows []documentCount
	err := s.db.WithContext(ctx).Raw(`SELECT collection, labels, ruled, begun, whose, COUNT(*) AS n FROM (
			SELECT d.collection, d.labels, d.rule <> '' AS ruled,
				EXISTS (SELECT 1 FROM rag_versions v WHERE v.document = d.id AND v.valid_from <= ?) AS begun,
				CASE WHEN d.creator = '' THEN CASE WHEN d.rule = '' THEN 2 ELSE 0 END WHEN d.creator IN ? THEN 1 ELSE 0 END AS whose
			FROM rag_documents d WHERE d.collection IN ?
		) x GROUP BY collection, labels, ruled, begun, whose`, now.UnixMicro(), principals, collections).Scan(&rows).Error
	out := map[string][]documentCount{}
	for _, c := range rows {
		out[c.Collection] = append(out[c.Collection], c)
	}
	return out, dbError("count documents", err)
}

// ruledOf returns the documents of a collection with a rule that somebody has brought.
func (s store) ruledOf(ctx context.Context, collection string, principals []string) (ids []string, err error) {
	err = s.db.WithContext(ctx).Model(&documentRow{}).Where("collection = ? AND rule <> '' AND creator <> '' AND creator IN ?", collection, principals).Pluck("id", &ids).Error
	return ids, dbError("read documents", err)
}

// state reads a document; found is false if there is none. Error: errChanged if it changed meanwhile.
func (s store) state(ctx context.Context, id string) (documentState, bool, error) {
	db := s.db.WithContext(ctx)
	out, found, err := state(db, id)
	if err != nil || !found {
		return out, found, dbError("read document", err)
	}
	var again documentRow
	if err := db.Select("revision").Where("id = ?", id).Find(&again).Error; err != nil {
		return out, false, dbError("read document", err)
	}
	if again.Revision != out.Revision {
		return out, false, errChanged
	}
	return out, true, nil
}

var (
	errChanged = errors.New("document changed while it was read")
	errDamaged = errors.New("stored document is damaged; ingest it again, or delete it")
)

// content reads what one version says. Errors: errChanged if it is not there; errDamaged.
func (s store) content(ctx context.Context, id string) (*indexedVersion, error) {
	all, err := s.contents(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	return all[0].version, all[0].err
}

// readVersion is a version, or why it could not be read.
type readVersion struct {
	id      string
	version *indexedVersion
	err     error // errChanged if it is not there; errDamaged
}

// contents reads what some versions say, in their order.
func (s store) contents(ctx context.Context, ids []string) ([]readVersion, error) {
	db := s.db.WithContext(ctx)
	out, err := s.readVersions(db, ids)
	if err != nil {
		return nil, err
	}
	var again []string
	for _, r := range out {
		if errors.Is(r.err, errParts) {
			again = append(again, r.id)
		}
	}
	if len(again) == 0 {
		return out, nil
	}
	// Versions and passages are read one after the other, so a change may lie between. While nothing changes, what is not whole has lost something.
	var still []readVersion
	err = db.Transaction(func(tx *gorm.DB) error {
		if err := holdChanges(tx); err != nil {
			return err
		}
		still, err = s.readVersions(tx, again)
		return err
	})
	if err != nil {
		return nil, dbError("read versions", err)
	}
	for i, r := range out {
		if !errors.Is(r.err, errParts) {
			continue
		}
		out[i], still = still[0], still[1:]
		if errors.Is(out[i].err, errParts) {
			out[i].err = errors.Join(errDamaged, errParts)
		}
	}
	return out, nil
}

// errParts says that a version was read without some of its passages.
var errParts = errors.New("some passages of the version are not there")

// holdChanges keeps changes apart until tx ends, as bump does, without making one.
func holdChanges(tx *gorm.DB) error {
	return tx.Model(&changeRow{}).Where("name = ?", "rag").Update("version", gorm.Expr("version")).Error
}

// readVersions reads versions for contents; those that lack passages are errParts.
func (s store) readVersions(db *gorm.DB, ids []string) ([]readVersion, error) {
	var rows []versionRow
	if err := db.Select(versionRow{}.columns()).Where("id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, dbError("read versions", err)
	}
	found, by := map[string]*indexedVersion{}, map[string][]*indexedVersion{}
	for _, r := range rows {
		v := &indexedVersion{versionRow: r}
		found[r.ID] = v
		by[r.Embedder] = append(by[r.Embedder], v)
	}
	for embedder, versions := range by {
		if err := readChunks(db, embedder, versions); err != nil {
			return nil, dbError("read chunks", err)
		}
	}
	out := make([]readVersion, len(ids))
	for i, id := range ids {
		out[i].id = id
		v := found[id]
		if v == nil {
			out[i].err = errChanged
			continue
		}
		if len(v.chunks) != v.Chunks {
			out[i].err = errParts
			continue
		}
		if out[i].err = s.open(db, v); out[i].err == nil {
			out[i].version = v
		} else if !errors.Is(out[i].err, errDamaged) {
			return nil, out[i].err
		}
	}
	return out, nil
}

// readChunks reads the passages of versions. Vectors may change while a version stays: the statement reads them only of versions whose vectors still are of the
// model that was read.
func readChunks(db *gorm.DB, embedder string, versions []*indexedVersion) error {
	some, by := db.Session(&gorm.Session{NewDB: true}), map[string]*indexedVersion{}
	for _, v := range versions {
		some = some.Or("document = ? AND version = ?", v.Document, v.Version)
		by[versionID(v.Document, v.Version)] = v
	}
	same := db.Session(&gorm.Session{NewDB: true}).Table("rag_versions AS v").Select("1").
		Where("v.document = rag_chunks.document AND v.version = rag_chunks.version AND v.embedder = ?", embedder)
	var chunks []chunkRow
	err := db.Select("document", "version", "chunk", "section", "start_at", "end_at", "vector").Where(some).Where("EXISTS (?)", same).
		Order("document, version, chunk").Find(&chunks).Error
	for _, c := range chunks {
		v := by[versionID(c.Document, c.Version)]
		v.chunks = append(v.chunks, c)
	}
	return err
}

// open decrypts what a version says and checks it. Error: errDamaged, or one that is not the version's fault.
func (s store) open(db *gorm.DB, v *indexedVersion) error {
	if err := s.cipher.open(db, &v.versionRow, v.chunks); err != nil {
		if fault.Is(err, fault.CodeDatabaseUnavailable) || errors.Is(err, wrapkey.ErrDestroyed) { // the row is fine: read again
			return err
		}
		return errors.Join(errDamaged, err)
	}
	if _, err := decodeKnown(v.Known); err != nil {
		return errors.Join(errDamaged, err)
	}
	if _, err := decodeFAQ(v.FAQ); err != nil {
		return errors.Join(errDamaged, err)
	}
	for _, c := range v.chunks {
		if c.Start < 0 || c.Start > c.End || c.End > len(v.Content) || len(c.Vector)%4 != 0 {
			return fmt.Errorf("%w: chunk %d", errDamaged, c.Chunk)
		}
	}
	return nil
}

// sealOne encrypts one version that a release before has stored in clear; found is false when there is none left. What it says is the same
// before and after, so no revision changes.
func (s store) sealOne(ctx context.Context) (found bool, err error) {
	var ids []string // looked for without a lock: nearly always there is none
	if err := s.db.WithContext(ctx).Model(&versionRow{}).Where("suite = ''").Order("id").Limit(1).Pluck("id", &ids).Error; err != nil || len(ids) == 0 {
		return false, dbError("look for documents in clear", err)
	}
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := holdChanges(tx); err != nil { // and other replicas that do the same
			return err
		}
		var rows []versionRow
		if err := tx.Select(versionRow{}.columns()).Where("id = ? AND suite = ''", ids[0]).Find(&rows).Error; err != nil || len(rows) == 0 {
			return err
		}
		var chunks []chunkRow
		if err := tx.Select("document", "version", "chunk", "section").Where("document = ? AND version = ?", rows[0].Document, rows[0].Version).Order("chunk").Find(&chunks).Error; err != nil {
			return err
		}
		doc, _, err := s.cipher.seal(tx, rows[0], chunks)
		if err != nil {
			return err
		}
		err = tx.Model(&versionRow{}).Where("id = ?", doc.ID).Updates(map[string]any{
			"title": "", "digest": "", "content": "", "known": "", "sealed": doc.Sealed, "suite": doc.Suite, "epoch": doc.Epoch,
		}).Error
		if err != nil {
			return err
		}
		return tx.Model(&chunkRow{}).Where("document = ? AND version = ?", doc.Document, doc.Version).Update("section", "").Error
	})
	return err == nil, dbError("encrypt document", err)
}

// withSurplus returns the documents of a collection that have versions that it keeps no longer: see surplus. A change of one that has none would be one of
// nothing, and others wait for each.
func (s store) withSurplus(ctx context.Context, r collectionRow, now time.Time) (ids []string, err error) {
	most, oldest := int64(math.MaxInt64), int64(math.MinInt64)
	if r.KeepVersions > 0 {
		most = r.KeepVersions
	}
	if r.KeepDays > 0 {
		oldest = r.oldest(now)
	}
	err = s.db.WithContext(ctx).Model(&versionRow{}).
		Where("collection = ? AND valid_until <> 0 AND valid_until <= ?", r.ID, now.UnixMicro()).
		Group("document").Having("COUNT(*) > ? OR MIN(valid_until) < ?", most, oldest).Order("document").Pluck("document", &ids).Error
	return ids, dbError("look for versions that are kept no longer", err)
}

// oldest is before when versions must have ended that are kept no longer for their days.
func (r collectionRow) oldest(now time.Time) int64 {
	return now.AddDate(0, 0, -int(r.KeepDays)).UnixMicro()
}

// surplus returns which versions of a document, in order, its collection keeps no longer.
func (r collectionRow) surplus(versions []versionRow, now time.Time) (out []int64) {
	kept, oldest := int64(0), r.oldest(now)
	for _, v := range slices.Backward(versions) {
		if v.ValidUntil == 0 || v.ValidUntil > now.UnixMicro() {
			continue
		}
		if kept++; r.KeepVersions > 0 && kept > r.KeepVersions || r.KeepDays > 0 && v.ValidUntil < oldest {
			out = append(out, v.Version)
		}
	}
	return out
}

// pruneDocument deletes the versions of a document that its collection keeps no longer; the document, if none is left. What is judged is what is deleted:
// a version that comes in meanwhile waits until it is. Errors: errUnchanged, CodeNotFound.
func (s store) pruneDocument(ctx context.Context, collection, id string, now time.Time) (documentState, error) {
	return s.changeDocument(ctx, collection, id, 0, now, func(tx *gorm.DB, d *documentState) error {
		var settings collectionRow
		if err := tx.Select(collectionRow{}.columns()).Where("id = ?", collection).Take(&settings).Error; err != nil {
			return err
		}
		numbers := settings.surplus(d.versions, now)
		switch len(numbers) {
		case 0:
			return errUnchanged
		case len(d.versions):
			d.gone = true
			return deleteRows(tx, id)
		}
		return deleteVersions(tx, id, numbers)
	})
}

// setRetention changes how long a collection keeps what is no longer in effect. Error: CodeConflict for another version of the settings than want.
func (s store) setRetention(ctx context.Context, id string, keepVersions, keepDays, want int64) (out collectionRow, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		revision, err := touch(tx, id)
		if err != nil {
			return err
		}
		if err := note(tx, id, revision, ""); err != nil {
			return err
		}
		res := tx.Model(&collectionRow{}).Where("id = ? AND settings = ?", id, want).Updates(map[string]any{
			"keep_versions": keepVersions, "keep_days": keepDays, "settings": gorm.Expr("settings + 1"),
		})
		if res.Error == nil && res.RowsAffected == 0 {
			return fault.New(fault.CodeConflict, fault.Say("rag.changed_meanwhile")).WithParam("revision")
		}
		if res.Error != nil {
			return res.Error
		}
		return tx.Select(collectionRow{}.columns()).Where("id = ?", id).Take(&out).Error
	})
	return out, dbError("change collection", err)
}

func encodeLabels(labels []string) string {
	if len(labels) == 0 {
		return "[]"
	}
	b, err := json.Marshal(labels)
	if err != nil { // strings always encode
		return "[]"
	}
	return string(b)
}

// decodeLabels fails on anything but a list of strings: no labels would mean that everybody may see.
func decodeLabels(s string) ([]string, error) {
	var out []string
	if err := json.Unmarshal([]byte(s), &out); err != nil || out == nil {
		return nil, fmt.Errorf("labels are damaged: %w", errors.Join(err, errors.New("not a list")))
	}
	return out, nil
}

// encodeVector writes little-endian float32.
func encodeVector(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

func decodeVector(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}
