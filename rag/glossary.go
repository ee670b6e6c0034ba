package rag

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/internal/seal"
	"github.com/sluice-project/sluice/internal/wrapkey"
	"github.com/sluice-project/sluice/rag/glossary"
)

// What a collection's glossary, and one change of it, have at most.
const (
	MaxGlossary       = 5000
	MaxGlossaryChange = 500
	maxGlossaryBytes  = 1 << 20 // as they are stored
)

// GlossaryTerm is a term of a collection's glossary. Searches for one of its names find passages with any of them.
type GlossaryTerm struct {
	ID        string // set by the service
	Term      string
	Synonyms  []string
	Damaged   bool // it cannot be read, and expands nothing: delete it, and add it again
	UpdatedAt time.Time
}

// Order is what lists of terms are ordered by.
func (t GlossaryTerm) Order() string {
	if t.Damaged {
		return "\xff" + t.ID // behind every text
	}
	return t.Term + "\x00" + t.ID
}

// Expansion is what a name in a question has added to its search.
type Expansion = glossary.Expansion

// storedGlossary is a glossary as it is searched with.
type storedGlossary struct {
	revision int64 // at which it was last changed, or that of a later change
	terms    *glossary.Glossary
}

// forms returns a question as it is searched: as it stands, and with the other names of what it is about.
func (ci *collectionIndex) forms(question string) ([]string, []Expansion) {
	g := ci.glossary.Load()
	if g == nil {
		return []string{question}, nil
	}
	return g.terms.Forms(question)
}

// Glossary returns the terms of a collection, by name; those that are damaged come last. Errors: CodeCollectionNotFound; those of the database.
func (s *Service) Glossary(ctx context.Context, tenant, collection string) ([]GlossaryTerm, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, err
	}
	out, err := s.store.glossary(ctx, ci.id)
	slices.SortFunc(out, func(a, b GlossaryTerm) int { return strings.Compare(a.Order(), b.Order()) })
	return out, err
}

// PutGlossary adds terms, or replaces those of the same name, however it is written. The next search goes by it, on other replicas within the poll interval. All are
// stored or none. Errors: CodeCollectionNotFound, CodeInvalidValue; those of the database.
func (s *Service) PutGlossary(ctx context.Context, tenant, collection string, terms []GlossaryTerm) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	if len(terms) == 0 || len(terms) > MaxGlossaryChange {
		return fault.New(fault.CodeInvalidValue, "terms", fault.Say("rag.glossary_change", MaxGlossaryChange)).WithParam("terms")
	}
	texts, seen := map[string]glossaryText{}, map[string]bool{}
	for _, t := range terms {
		text, err := cleanTerm(t)
		if err != nil {
			return err
		}
		id := s.termID(ci.id, text.Term)
		if seen[id] {
			return fault.New(fault.CodeInvalidValue, "terms", fault.Say("rag.glossary_twice")).WithParam("terms")
		}
		seen[id] = true
		texts[id] = text
	}
	row, err := s.store.putGlossary(ctx, ci.id, texts, s.now())
	if err != nil {
		return err
	}
	s.changed(ctx, ci, row)
	return nil
}

// DeleteGlossaryTerm deletes a term by its id. Errors: CodeCollectionNotFound, CodeNotFound; those of the database.
func (s *Service) DeleteGlossaryTerm(ctx context.Context, tenant, collection, id string) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	row, err := s.store.deleteTerm(ctx, ci.id, id)
	if err != nil {
		return err
	}
	s.changed(ctx, ci, row)
	return nil
}

// changed makes searches go by a glossary that was changed. If it cannot be read now, following the tables tries again.
func (s *Service) changed(ctx context.Context, ci *collectionIndex, row collectionRow) {
	ci = s.current(ci)
	if err := s.readGlossary(context.WithoutCancel(ctx), ci, row); err != nil {
		s.log.Warn("rag: a changed glossary could not be read; will be tried again", slog.String("collection", ci.id), slog.Any("error", err))
	}
}

// readGlossary reads the glossary of a collection unless it is known as of the row, or newer.
func (s *Service) readGlossary(ctx context.Context, ci *collectionIndex, row collectionRow) error {
	before := ci.glossary.Load()
	if before == nil && row.Glossary == 0 || before != nil && before.revision >= row.Glossary {
		return nil
	}
	stored, err := s.store.glossary(ctx, ci.id)
	if err != nil {
		return err
	}
	var terms []glossary.Term
	damaged := 0
	for _, t := range stored {
		if t.Damaged {
			damaged++
			continue
		}
		terms = append(terms, glossary.Term{Name: t.Term, Synonyms: t.Synonyms})
	}
	if damaged > 0 {
		s.log.Warn("rag: terms of a glossary cannot be read and expand nothing", slog.String("collection", ci.id), slog.Int("terms", damaged))
	}
	next := &storedGlossary{row.Glossary, glossary.Compile(terms)}
	for { // somebody else may have read a newer one
		if before != nil && before.revision >= next.revision || ci.glossary.CompareAndSwap(before, next) {
			return nil
		}
		before = ci.glossary.Load()
	}
}

// termID is the id of the term of a name, however it is written.
func (s *Service) termID(collection, name string) string {
	return hex.EncodeToString(s.keys.MAC("rag/glossary/term/v1", collection, glossary.Key(name))[:16])
}

// cleanTerm checks a term, and drops synonyms that are written like another of its names.
func cleanTerm(t GlossaryTerm) (glossaryText, error) {
	out := glossaryText{Term: strings.TrimSpace(t.Term), Synonyms: []string{}}
	seen := map[string]bool{}
	for i, name := range append([]string{t.Term}, t.Synonyms...) {
		name = strings.TrimSpace(name)
		key := glossary.Key(name)
		if key == "" || len(name) > glossary.MaxName || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
			return out, fault.New(fault.CodeInvalidValue, "terms", fault.Say("rag.glossary_name", glossary.MaxName)).WithParam("terms")
		}
		if i > 0 && !seen[key] {
			out.Synonyms = append(out.Synonyms, name)
		}
		seen[key] = true
	}
	if len(out.Synonyms) == 0 || len(out.Synonyms) > glossary.MaxSynonyms {
		return out, fault.New(fault.CodeInvalidValue, "terms", fault.Say("rag.glossary_synonyms", glossary.MaxSynonyms)).WithParam("terms")
	}
	return out, nil
}

type glossaryRow struct {
	ID         string `gorm:"column:id"`
	Collection string `gorm:"column:collection"`
	Suite      string `gorm:"column:suite"`
	Epoch      int64  `gorm:"column:epoch"`
	Sealed     []byte `gorm:"column:sealed"`
	UpdatedAt  int64  `gorm:"column:updated_at;autoUpdateTime:false"`
}

func (glossaryRow) TableName() string { return "rag_glossary" }

// label binds a ciphertext to the term that it is of.
func (r glossaryRow) label() []byte { return seal.Label("rag glossary", r.Collection, r.ID) }

func (r glossaryRow) envelope() wrapkey.Envelope {
	return wrapkey.Envelope{Epoch: r.Epoch, Suite: seal.Suite(r.Suite), Sealed: r.Sealed}
}

// glossaryText is what stands encrypted in a row.
type glossaryText struct {
	Term     string   `json:"term"`
	Synonyms []string `json:"synonyms"`
}

// WrappedGlossaries are the terms of glossaries as a rotation of the wrapping keys sees them: their texts are encrypted anew.
func WrappedGlossaries(ring *keyring.Ring) wrapkey.Kind {
	return wrapkey.Table[glossaryRow]{
		Kind: "glossaries", Keys: documentKeys(ring), Table: glossaryRow{}.TableName(), Sealed: "sealed", Limit: 100,
		Columns: []string{"id", "collection", "suite", "epoch", "sealed"},
		Label:   func(r glossaryRow) []byte { return r.label() },
		Row:     func(r glossaryRow) (string, wrapkey.Envelope) { return r.ID, r.envelope() },
	}
}

// glossary reads the terms of a collection, in an order that all replicas have. One that cannot be read is damaged.
func (s store) glossary(ctx context.Context, collection string) ([]GlossaryTerm, error) {
	var rows []glossaryRow
	db := s.db.WithContext(ctx)
	err := db.Select("id", "collection", "suite", "epoch", "sealed", "updated_at").Where("collection = ?", collection).Order("id").Find(&rows).Error
	if err != nil {
		return nil, dbError("read glossary", err)
	}
	out := make([]GlossaryTerm, len(rows))
	for i, r := range rows {
		out[i] = GlossaryTerm{ID: r.ID, UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC()}
		plain, err := s.cipher.keys.Open(db, r.envelope(), r.label())
		// What a rotation has destroyed while it was read is there again, wrapped anew.
		if fault.Is(err, fault.CodeDatabaseUnavailable) || errors.Is(err, wrapkey.ErrDestroyed) || ctx.Err() != nil {
			return nil, fmt.Errorf("read glossary: %w", errors.Join(err, ctx.Err()))
		}
		var text glossaryText
		if err != nil || json.Unmarshal(plain, &text) != nil {
			out[i].Damaged = true
			continue
		}
		out[i].Term, out[i].Synonyms = text.Term, text.Synonyms
	}
	return out, nil
}

// changeGlossary changes the terms of a collection, and notes that.
func (s store) changeGlossary(ctx context.Context, collection string, change func(tx *gorm.DB) error) (out collectionRow, err error) {
	err = s.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		revision, err := touch(tx, collection) // whoever changes it waits for whoever does, too
		if err != nil {
			return err
		}
		if err := note(tx, collection, revision, ""); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		if err := tx.Model(&collectionRow{}).Where("id = ?", collection).Update("glossary", revision).Error; err != nil {
			return err
		}
		return tx.Select(collectionRow{}.columns()).Where("id = ?", collection).Take(&out).Error
	})
	return out, dbError("change glossary", err)
}

// putGlossary stores terms by their ids. Error: CodeInvalidValue if the collection would have too many.
func (s store) putGlossary(ctx context.Context, collection string, texts map[string]glossaryText, now time.Time) (collectionRow, error) {
	return s.changeGlossary(ctx, collection, func(tx *gorm.DB) error {
		active, err := s.cipher.keys.Active(tx)
		if err != nil {
			return err
		}
		rows := make([]glossaryRow, 0, len(texts))
		for id, text := range texts {
			plain, err := json.Marshal(text)
			if err != nil {
				return fmt.Errorf("encrypt term: %w", err)
			}
			row := glossaryRow{ID: id, Collection: collection, UpdatedAt: now.UnixMicro()}
			e, err := active.Seal(s.cipher.suite, plain, row.label())
			if err != nil {
				return fmt.Errorf("encrypt term: %w", err)
			}
			row.Suite, row.Epoch, row.Sealed = string(e.Suite), e.Epoch, e.Sealed
			rows = append(rows, row)
		}
		slices.SortFunc(rows, func(a, b glossaryRow) int { return strings.Compare(a.ID, b.ID) })
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).CreateInBatches(rows, 100).Error; err != nil {
			return err
		}
		var size struct{ N, Bytes int64 }
		err = tx.Model(&glossaryRow{}).Select("COUNT(*) AS n, COALESCE(SUM(LENGTH(sealed)), 0) AS bytes").Where("collection = ?", collection).Scan(&size).Error
		if err == nil && (size.N > MaxGlossary || size.Bytes > maxGlossaryBytes) {
			err = fault.New(fault.CodeInvalidValue, "terms", fault.Say("rag.glossary_full", MaxGlossary, maxGlossaryBytes>>10)).WithParam("terms")
		}
		return err
	})
}

func (s store) deleteTerm(ctx context.Context, collection, id string) (collectionRow, error) {
	return s.changeGlossary(ctx, collection, func(tx *gorm.DB) error {
		res := tx.Where("collection = ? AND id = ?", collection, id).Delete(&glossaryRow{})
		if res.Error == nil && res.RowsAffected == 0 {
			return fault.New(fault.CodeNotFound, fault.Say("thing.glossary_term"), id).WithParam("id")
		}
		return res.Error
	})
}
