package rag

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/segment"
)

// VersionInfo describes a version of a document.
type VersionInfo struct {
	Version, Title, MIME, Digest string
	Chunks, Bytes                int
	CreatedAt                    time.Time
	ValidFrom, ValidUntil        time.Time // ValidUntil is zero for no end
	InEffect                     bool
	Damaged                      bool      // it cannot be read
	Revision                     int64     // of the document
	WasFrom, WasUntil            time.Time // before a change of its dates; set by SetValidity
}

// known returns a document as the tables have it, with what its versions say if whole. Errors: CodeCollectionNotFound, CodeNotFound.
func (s *Service) known(ctx context.Context, tenant, collection, id string, whole bool) (*collectionIndex, *indexedDocument, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return nil, nil, err
	}
	for range 3 { // while others change it
		b, err := s.readDocument(ctx, ci, id, whole)
		if errors.Is(err, errChanged) {
			continue
		}
		if err == nil && b == nil {
			err = fault.New(fault.CodeNotFound, fault.Say("thing.document"), id)
		}
		return ci, b, err
	}
	return nil, nil, dbError("read document", errChanged)
}

// readDocument reads a document; nil if it is not of the collection, or its labels cannot be read. Error: errChanged if it changed meanwhile.
func (s *Service) readDocument(ctx context.Context, ci *collectionIndex, id string, whole bool) (*indexedDocument, error) {
	d, found, err := s.store.state(ctx, id)
	if err != nil {
		return nil, err
	}
	if !found || d.Collection != ci.id {
		_, found, err := s.store.collection(ctx, ci.id)
		if err == nil && !found {
			err = noCollection(ci.key.name)
		}
		return nil, err
	}
	b, err := s.document(d)
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // it is there for nobody
	}
	if !whole {
		return b, nil
	}
	for _, row := range d.versions {
		v, err := s.store.content(ctx, row.ID)
		broken := errors.Is(err, errDamaged)
		if broken {
			v, err = &indexedVersion{versionRow: row}, nil
		}
		if err != nil {
			return nil, err
		}
		b.versions = append(b.versions, datedVersion{indexedVersion: v, from: row.ValidFrom, until: row.ValidUntil, broken: broken})
	}
	return b, nil
}

// Versions returns the versions of a document, the newest first, for those who manage it. Errors: CodeCollectionNotFound, CodeNotFound.
func (s *Service) Versions(ctx context.Context, tenant, collection, id string) ([]VersionInfo, error) {
	ci, b, err := s.known(ctx, tenant, collection, id, true)
	if err != nil {
		return nil, err
	}
	now := ci.time()
	var out []VersionInfo
	for _, d := range slices.Backward(b.versions) {
		v := d.indexedVersion.versionRow
		v.ValidFrom, v.ValidUntil = d.from, d.until
		out = append(out, v.info(now, d.broken, b.Revision))
	}
	return out, nil
}

// info describes a version as it is at a time.
func (r *versionRow) info(now int64, damaged bool, revision int64) VersionInfo {
	out := VersionInfo{
		Version: versionName(r.Version), Title: r.Title, MIME: r.MIME, Digest: r.Digest, Chunks: r.Chunks, Bytes: len(r.Content),
		CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), InEffect: r.ValidFrom <= now && now < until0(r.ValidUntil), Damaged: damaged, Revision: revision,
	}
	out.ValidFrom, out.ValidUntil = times(r.ValidFrom, r.ValidUntil)
	return out
}

// Validity is when a version is in effect. The zero value of a field leaves it as it is.
type Validity struct {
	From, Until time.Time
	NoEnd       bool // Until is taken away
}

// SetValidity changes when a version is in effect, if the document still has that revision. What has ended is not found from the next search on. Errors:
// CodeNotFound; CodeConflict for another revision; CodeInvalidValue for an end before the beginning, or where two versions would be in effect at once.
func (s *Service) SetValidity(ctx context.Context, tenant, collection, id, version string, revision int64, to Validity) (VersionInfo, error) {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return VersionInfo{}, err
	}
	from, until, err := period(to.From, to.Until)
	if err != nil {
		return VersionInfo{}, err
	}
	number, err := versionNumber(version)
	if err != nil {
		return VersionInfo{}, noVersion(version)
	}
	now := s.now()
	var was versionRow
	state, err := s.store.changeDocument(ctx, ci.id, id, revision, now, func(tx *gorm.DB, d *documentState) error {
		i := slices.IndexFunc(d.versions, func(v versionRow) bool { return v.Version == number })
		if i < 0 {
			return noVersion(version)
		}
		v := &d.versions[i]
		was = *v
		if from != 0 {
			v.ValidFrom = from
		}
		if until != 0 || to.NoEnd {
			v.ValidUntil = until
		}
		if v.ValidUntil != 0 && v.ValidUntil <= v.ValidFrom {
			return fault.New(fault.CodeInvalidValue, "valid_until", fault.Say("rag.validity_order")).WithParam("valid_until")
		}
		for j, o := range d.versions {
			if j != i && o.ValidFrom < until0(o.ValidUntil) && o.ValidFrom < until0(v.ValidUntil) && v.ValidFrom < until0(o.ValidUntil) {
				return fault.New(fault.CodeInvalidValue, "valid_until", fault.Say("rag.validity_overlaps", versionName(o.Version))).WithParam("valid_until")
			}
		}
		return tx.Model(&versionRow{}).Where("id = ?", v.ID).Updates(map[string]any{"valid_from": v.ValidFrom, "valid_until": v.ValidUntil}).Error
	})
	if err != nil {
		return VersionInfo{}, err
	}
	s.show(ctx, ci, state)
	out, err := s.versionInfo(ctx, state, number)
	out.WasFrom, out.WasUntil = times(was.ValidFrom, was.ValidUntil)
	return out, err
}

// versionInfo describes a version after a change of its document, as far as it can be read.
func (s *Service) versionInfo(ctx context.Context, state documentState, number int64) (VersionInfo, error) {
	i := slices.IndexFunc(state.versions, func(v versionRow) bool { return v.Version == number })
	if i < 0 {
		return VersionInfo{}, noVersion(versionName(number))
	}
	row := state.versions[i]
	v, err := s.store.content(ctx, row.ID)
	if err == nil {
		row.Title, row.Digest, row.Content = v.Title, v.Digest, v.Content
	}
	return row.info(s.now().UnixMicro(), errors.Is(err, errDamaged), state.Revision), nil
}

func noVersion(name string) error {
	return fault.New(fault.CodeNotFound, fault.Say("thing.version"), name).WithParam("version")
}

// DeleteVersion deletes one version, with its text and vectors. The one before does not come back; but one that it would have ended, as it has not begun,
// lasts as long as both. Errors: CodeNotFound; CodeConflict for the only one: the
// document is deleted as a whole.
func (s *Service) DeleteVersion(ctx context.Context, tenant, collection, id, version string) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	number, err := versionNumber(version)
	if err != nil {
		return noVersion(version)
	}
	return s.deleteVersions(ctx, ci, id, func(tx *gorm.DB, d *documentState) ([]int64, error) {
		i := slices.IndexFunc(d.versions, func(v versionRow) bool { return v.Version == number })
		if i < 0 {
			return nil, noVersion(version)
		}
		if len(d.versions) == 1 {
			return nil, fault.New(fault.CodeConflict, fault.Say("rag.only_version"))
		}
		if planned := d.versions[i]; planned.ValidFrom > s.now().UnixMicro() {
			err := tx.Model(&versionRow{}).Where("document = ? AND version <> ? AND valid_until = ?", id, number, planned.ValidFrom).Update("valid_until", planned.ValidUntil).Error
			if err != nil {
				return nil, err
			}
		}
		return []int64{number}, nil
	})
}

func (s *Service) deleteVersions(ctx context.Context, ci *collectionIndex, id string, which func(*gorm.DB, *documentState) ([]int64, error)) error {
	state, err := s.store.changeDocument(ctx, ci.id, id, 0, s.now(), func(tx *gorm.DB, d *documentState) error {
		numbers, err := which(tx, d)
		if err != nil || len(numbers) == 0 {
			return err
		}
		return deleteVersions(tx, id, numbers)
	})
	if err != nil {
		return err
	}
	s.show(ctx, ci, state)
	return nil
}

// Retention says how long a collection keeps versions that are no longer in effect. The zero value keeps all of them for good.
type Retention struct {
	KeepVersions int   // of each document, the newest of them; 0: all
	KeepDays     int   // after their end; 0: for good
	Revision     int64 // of these settings; set by lists
}

func (r Retention) check() error {
	if r.KeepVersions < 0 || r.KeepVersions > 10_000 {
		return fault.New(fault.CodeInvalidValue, "keep_versions", fault.Say("value.between", 0, 10_000)).WithParam("keep_versions")
	}
	if r.KeepDays < 0 || r.KeepDays > 36_500 {
		return fault.New(fault.CodeInvalidValue, "keep_days", fault.Say("value.between", 0, 36_500)).WithParam("keep_days")
	}
	return nil
}

// SetRetention changes how long a collection keeps versions, if its settings still have the revision of r. [Service.Run] deletes what is kept no longer, at once.
// Errors: CodeCollectionNotFound, CodeInvalidValue, CodeConflict.
func (s *Service) SetRetention(ctx context.Context, tenant, collection string, r Retention) error {
	ci, err := s.findFresh(ctx, tenant, collection)
	if err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return err
	}
	row, err := s.store.setRetention(ctx, ci.id, int64(r.KeepVersions), int64(r.KeepDays), r.Revision)
	if err != nil {
		return err
	}
	ci.change.Lock()
	if row.Settings > ci.settings.Load().Settings {
		ci.settings.Store(&row)
	}
	ci.change.Unlock()
	select {
	case s.pruneNow <- struct{}{}:
	default: // it is asked for already
	}
	return nil
}

// prune deletes the versions of a collection that are kept no longer. What fails is tried again by pruneVersions.
func (s *Service) prune(ctx context.Context, ci *collectionIndex) {
	row := ci.settings.Load()
	if !row.prunes() {
		return
	}
	ids, err := s.store.withSurplus(ctx, *row, s.now())
	if err != nil {
		s.log.Warn("rag: looking for versions that are kept no longer failed; will be tried again", slog.String("collection", ci.id), slog.Any("error", err))
	}
	for _, id := range ids {
		if ctx.Err() != nil {
			return
		}
		s.pruneDocument(ctx, ci, id)
	}
}

// prunes reports whether the collection does not keep everything.
func (r collectionRow) prunes() bool { return r.KeepVersions != 0 || r.KeepDays != 0 }

// pruneDocument deletes the versions of one document that are kept no longer.
func (s *Service) pruneDocument(ctx context.Context, ci *collectionIndex, id string) {
	state, err := s.store.pruneDocument(ctx, ci.id, id, s.now())
	switch {
	case errors.Is(err, errUnchanged) || fault.Is(err, fault.CodeNotFound):
	case err != nil:
		s.log.Warn("rag: deleting versions that are kept no longer failed; will be tried again", slog.String("document", id), slog.Any("error", err))
	case state.gone:
		s.log.Info("rag: a document of which nothing is kept any longer is deleted", slog.String("collection", ci.id), slog.String("document", id))
		s.show(ctx, ci, state)
	default:
		s.log.Info("rag: versions that are kept no longer are deleted", slog.String("document", id), slog.Int("left", len(state.versions)))
		s.show(ctx, ci, state)
	}
}

// pruneEvery is how often collections are looked at for versions that are kept no longer.
const pruneEvery = 10 * time.Minute

func (s *Service) pruneVersions(ctx context.Context) {
	for ctx.Err() == nil {
		for _, ci := range s.all() {
			s.prune(ctx, ci)
		}
		pause := time.NewTimer(pruneEvery)
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-s.pruneNow:
		}
		pause.Stop()
	}
}

// DocumentAccess returns who may see a document. It waits for nothing that is being read. Errors: CodeCollectionNotFound, CodeNotFound; CodeConflict for a
// rule that is damaged; CodeRetrievalFailed for sections that cannot be read.
func (s *Service) DocumentAccess(ctx context.Context, tenant, collection, id string) (Access, error) {
	ci, b, err := s.known(ctx, tenant, collection, id, false)
	if err != nil {
		return Access{}, err
	}
	if b.damaged {
		return Access{}, fault.New(fault.CodeConflict, fault.Say("rag.rule_damaged"))
	}
	out := b.access()
	if out.Sections, err = ci.sections(b, s.store.rules); err != nil {
		return Access{}, fault.Wrap(err, fault.CodeRetrievalFailed, collection)
	}
	return out, nil
}

// AccessAfterChange is [Service.DocumentAccess] as a change that was made here has left it. It does not look at the tables, and does not fail: the change is
// done. Sections that cannot be read are missing.
func (s *Service) AccessAfterChange(tenant, collection string, change AccessChange) Access {
	out := change.now.access()
	if ci, err := s.collection(tenant, collection); err == nil {
		if out.Sections, err = ci.sections(change.now, s.store.rules); err != nil {
			s.log.Warn("rag: the sections of a document cannot be read", slog.String("document", change.Document), slog.Any("error", err))
		}
	}
	return out
}

func (b *indexedDocument) access() Access {
	return Access{Labels: slices.Clone(b.labels), Rule: b.rule, Revision: b.Revision}
}

// SetAccess replaces who may see a document, if it still has the revision of a; 0 is any, which repairs a damaged rule. The next search here goes by it, and
// within the poll interval those of other replicas. Parts may name sections by headings or ids. Errors: CodeCollectionNotFound, CodeNotFound,
// CodeInvalidValue, CodeConflict for another revision.
func (s *Service) SetAccess(ctx context.Context, tenant, collection, id string, a Access) (AccessChange, error) {
	ci, b, err := s.known(ctx, tenant, collection, id, len(a.Rule.Parts) > 0)
	if err != nil {
		return AccessChange{}, err
	}
	labels, err := cleanLabels(a.Labels)
	if err != nil {
		return AccessChange{}, err
	}
	rule, err := cleanRule(a.Rule)
	if err != nil {
		return AccessChange{}, err
	}
	resolved, err := s.store.rules.resolve(id, rule, b.rule, b.undated())
	if err != nil {
		return AccessChange{}, err
	}
	stored, err := s.store.rules.encode(id, encodeLabels(labels), resolved)
	if err != nil {
		return AccessChange{}, err
	}
	out := AccessChange{Document: id}
	state, err := s.store.changeDocument(ctx, ci.id, id, a.Revision, s.now(), func(_ *gorm.DB, d *documentState) error {
		out.Before = s.store.rules.digest(id, d.Labels, d.Rule)
		d.Labels, d.Rule = encodeLabels(labels), stored
		out.After = s.store.rules.digest(id, d.Labels, d.Rule)
		return nil
	})
	if err != nil {
		return AccessChange{}, err
	}
	out.Revision = state.Revision
	out.now = &indexedDocument{documentRow: state.documentRow, rows: state.versions, labels: labels, rule: resolved}
	s.show(ctx, ci, state)
	return out, nil
}

// Section is a section of a version, by its id: headings are text of the document, which only a search shows, masked as the policy says.
type Section struct {
	ID, Version string
	First, Last int // its passages
}

// sections returns those that Access tells of a document, by version, the newest first, and by passage.
func (ci *collectionIndex) sections(b *indexedDocument, rules ruleKeeper) (out []Section, err error) {
	now, last := ci.time(), true
	for _, e := range slices.Backward(ci.passages.View().Find(b.ID)) {
		i := slices.IndexFunc(b.rows, func(r versionRow) bool { return r.Version == e.Version })
		if i < 0 {
			continue
		}
		name := versionName(e.Version)
		named := slices.ContainsFunc(b.rule.Parts, func(p PartRule) bool { return p.Version == name })
		if until0(b.rows[i].ValidUntil) <= now && !last && !named {
			continue
		}
		last = false
		texts, err := e.Texts()
		if err != nil {
			if errors.Is(err, segment.ErrDamaged) {
				ci.fail(err)
			}
			return nil, err
		}
		headings, section := "", ""
		for i, c := range texts {
			of := cutPlace(c.Section).Section
			if of == "" {
				continue
			}
			if of != headings { // each costs a digest
				headings, section = of, rules.section(b.ID, of)
			}
			if n := len(out) - 1; n >= 0 && out[n].ID == section && out[n].Version == name && out[n].Last == i-1 {
				out[n].Last = i
				continue
			}
			out = append(out, Section{section, name, i, i})
		}
	}
	return out, nil
}

// The reasons why a reader does not see a document, or all of it.
const (
	HiddenByCollection = "collection_labels" // the reader has none of the collection's labels
	HiddenByLabels     = "document_labels"   // none of the document's
	HiddenByRule       = "rule"              // its rule does not let him in
	HiddenByDamage     = "rule_damaged"      // its rule cannot be read: nobody sees it
	HiddenParts        = "parts"             // some of its passages are for others
	HiddenByTime       = "not_in_effect"     // no version is in effect at that time
	HiddenUnreadable   = "unreadable"        // what is stored cannot be read
)

// Explanation says why a reader does not see a document. Without reasons he sees it, and it depends on the question whether it is found.
type Explanation struct {
	Reasons         []string
	Version         string // in effect at that time; "" for none
	Passages, Shown int    // of that version; shown to him
}

// Explain says why a reader does not see a document at a time; zero is now. It is for those who manage access: it tells of rules. Errors:
// CodeCollectionNotFound, CodeNotFound, CodeInvalidValue.
func (s *Service) Explain(ctx context.Context, tenant, collection, id string, r Reader, asOf time.Time) (Explanation, error) {
	ci, b, err := s.known(ctx, tenant, collection, id, true)
	if err != nil {
		return Explanation{}, err
	}
	at, err := s.asOf(asOf)
	if err != nil {
		return Explanation{}, err
	}
	return ci.explain(b, r.viewer(), cmp.Or(at, ci.time()), s.store.rules), nil
}

func (ci *collectionIndex) explain(b *indexedDocument, v viewer, at int64, keep ruleKeeper) (out Explanation) {
	because := func(reason string, is bool) {
		if is {
			out.Reasons = append(out.Reasons, reason)
		}
	}
	because(HiddenByCollection, !permits(ci.labels, v.labels))
	because(HiddenByLabels, !permits(b.labels, v.labels))
	because(HiddenByDamage, b.damaged)
	because(HiddenByRule, !b.damaged && b.rule.Restricted && !oneLets(b.rule.Allow, v))
	i := slices.IndexFunc(b.versions, func(d datedVersion) bool { return d.in(at) })
	because(HiddenByTime, i < 0)
	if i < 0 {
		return out
	}
	d := b.versions[i]
	out.Version, out.Passages = versionName(d.Version), len(d.chunks)
	because(HiddenUnreadable, d.broken)
	if d.broken {
		return out
	}
	for _, p := range b.parts(&d, keep) {
		if permits(ci.labels, v.labels) && permitted(p.conditions, v) {
			out.Shown += p.count(len(d.chunks))
		}
	}
	because(HiddenParts, len(out.Reasons) == 0 && out.Shown < out.Passages)
	return out
}
