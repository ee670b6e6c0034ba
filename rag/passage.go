package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/rag/segment"
)

// PassageRef names a passage as a citation does.
type PassageRef struct {
	Tenant, Collection  string
	Labels              []string // the principal's
	Principals, Roles   []string // see Reader
	Purpose             string
	AsOf                time.Time // the version was in effect then; zero: it is now
	DocumentID, Version string
	Chunk               int
	Context             int // how many passages before it, and after it, are wanted too
}

// MaxContext is the most passages that may be asked for on either side of a quoted one.
const MaxContext = 3

// Passages returns the quoted passage with those around it that the reader may see, in the order of the document. It is never of another version than the
// quoted one, and nobody sees here what a search would not find for him: what he may not see is answered like what is not there. Errors:
// CodeCollectionNotFound, CodeNotFound (document, version, passage), CodePassageReplaced for a version that is not in effect at the time,
// CodeRetrievalFailed for one that is damaged.
func (s *Service) Passages(ctx context.Context, q PassageRef) ([]Passage, error) {
	ci, err := s.visible(q.Tenant, q.Collection, q.Labels)
	if err != nil {
		return nil, err
	}
	at, err := s.asOf(q.AsOf)
	if err != nil {
		return nil, err
	}
	out, err := ci.passagesAround(q, at, func() (int64, error) { return s.store.lastVersion(ctx, q.DocumentID) })
	if err != nil && fault.KindOf(err) == fault.Internal {
		if errors.Is(err, segment.ErrDamaged) {
			ci.fail(err)
		}
		err = fault.Wrap(err, fault.CodeRetrievalFailed, q.Collection)
	}
	return out, err
}

// passagesAround answers [Service.Passages]; last reads the last version that the document was given, which is only asked for what the reader sees.
func (ci *collectionIndex) passagesAround(q PassageRef, at int64, last func() (int64, error)) ([]Passage, error) {
	newest, view, now := ci.revised.Load(), ci.passages.View(), ci.time()
	at = cmp.Or(at, now)
	sets, err := ci.groups(view)
	if err != nil {
		return nil, err
	}
	who := viewer{labels: q.Labels, principals: q.Principals, roles: q.Roles, purpose: q.Purpose}
	versions := view.Find(q.DocumentID)
	mine := view.In(sets.permitted(who))
	// Whoever sees nothing of it that is or was in effect does not learn that it is there.
	shown, _ := ci.reveals(versions, mine, now)
	// Of what cannot be read nobody knows whether it is his: as with a search, an answer that it is not there would be no answer, whichever is asked for.
	if !shown && view.In(sets.unreadable).Len() > 0 {
		return nil, errDamaged
	}
	if !shown {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.document"), q.DocumentID).WithParam("document_id")
	}
	absent := fault.New(fault.CodeNotFound, fault.Say("thing.version"), q.Version).WithParam("version")
	number, err := versionNumber(q.Version)
	if err != nil {
		return nil, absent
	}
	i := slices.IndexFunc(versions, func(e segment.Entry) bool { return e.Version == number })
	switch {
	case i >= 0 && versions[i].From > now:
		return nil, absent
	case i < 0: // one that was deleted is answered like one that has ended
		if given, err := last(); err != nil {
			return nil, err
		} else if number > given {
			return nil, absent
		}
		return nil, replaced(versions, mine, q, at)
	case !effective(versions[i], at):
		return nil, replaced(versions, mine, q, at)
	}
	e := versions[i]
	if in(view, sets.broken, e) {
		return nil, errDamaged
	}
	if q.Chunk < 0 || q.Chunk >= e.Passages || !mine.Has(e.First+uint32(q.Chunk)) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.passage"), strconv.Itoa(q.Chunk)).WithParam("chunk")
	}
	around := max(0, min(q.Context, MaxContext))
	var ids []uint32
	for i := max(0, q.Chunk-around); i <= min(e.Passages-1, q.Chunk+around); i++ {
		if id := e.First + uint32(i); mine.Has(id) {
			ids = append(ids, id)
		}
	}
	texts, err := mine.Passages(ids)
	if err != nil {
		return nil, err
	}
	out := make([]Passage, len(texts))
	for n, t := range texts {
		if out[n], err = ci.passage(t, newest); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// effective reports whether a version is in effect at a time.
func effective(e segment.Entry, at int64) bool { return e.From <= at && at < until0(e.Until) }

// in reports whether a passage of a version is in one of some groups, of which there are few.
func in(view *segment.View, groups *roaring.Bitmap, e segment.Entry) bool {
	return !groups.IsEmpty() && view.In(groups).HasAny(e)
}

// reveals reports whether a viewer, who may see some passages, may see any of a version that has begun; a document that is not there has none. It does the same
// work for one that is hidden, however large, and for none: what he may see was worked out as for a search, and is looked up as often as for the document of
// the collection that needs it most. It returns the number of these look-ups.
func (ci *collectionIndex) reveals(versions []segment.Entry, mine *segment.Filter, now int64) (shown bool, lookups int) {
	for _, e := range versions {
		lookups++
		if mine.HasAny(e) && e.From <= now {
			shown = true
		}
	}
	for most := max(usualVersions, int(ci.mostVersions.Load())); lookups < most; lookups++ {
		if mine.HasAny(segment.Entry{}) { // none is
			shown = false
		}
	}
	return shown, lookups
}

// usualVersions is how many versions hardly any document has: how many one has is not known as long as the store was not told of it since it was opened.
const usualVersions = 256

// replaced says which version is in effect instead, if one is of which the viewer, who may see some passages, sees something.
func replaced(versions []segment.Entry, mine *segment.Filter, q PassageRef, at int64) error {
	instead := fault.Say("rag.no_version")
	for _, e := range versions {
		if effective(e, at) && mine.HasAny(e) {
			instead = fault.Say("rag.version_in_effect", versionName(e.Version))
		}
	}
	return fault.New(fault.CodePassageReplaced, q.Version, q.DocumentID, instead).WithParam("version")
}

// versionNumber reads what versionName writes.
func versionNumber(name string) (int64, error) {
	digits, ok := strings.CutPrefix(name, "v")
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 1 || versionName(n) != name {
		return 0, errors.Join(fmt.Errorf("%.20q is no version", name), err)
	}
	return n, nil
}
