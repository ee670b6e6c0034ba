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

	"github.com/sluice-project/sluice/internal/fault"
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
func (s *Service) Passages(_ context.Context, q PassageRef) ([]Passage, error) {
	ci, err := s.visible(q.Tenant, q.Collection, q.Labels)
	if err != nil {
		return nil, err
	}
	at, err := s.asOf(q.AsOf)
	if err != nil {
		return nil, err
	}
	return ci.passagesAround(q, at)
}

func (ci *collectionIndex) passagesAround(q PassageRef, at int64) ([]Passage, error) {
	now := ci.rlock()
	defer ci.mu.RUnlock()
	at = cmp.Or(at, now)
	who := viewer{labels: q.Labels, principals: q.Principals, roles: q.Roles, purpose: q.Purpose}
	b := ci.docs[q.DocumentID]
	// Whoever sees nothing of it that is or was in effect does not learn that it is there.
	shown, _ := ci.reveals(b, who, now)
	// Of what cannot be read nobody knows whether it is his: as with a search, an answer that it is not there would be no answer, whichever is asked for.
	if !shown && len(ci.unreadable) > 0 || ci.unreadable[q.DocumentID] {
		return nil, fault.Wrap(errDamaged, fault.CodeRetrievalFailed, q.Collection)
	}
	if !shown {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.document"), q.DocumentID).WithParam("document_id")
	}
	number, err := versionNumber(q.Version)
	i := slices.IndexFunc(b.versions, func(d datedVersion) bool { return d.Version == number })
	// One that was deleted is answered like one that has ended.
	if err != nil || i < 0 && number > b.Version || i >= 0 && b.versions[i].from > now {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.version"), q.Version).WithParam("version")
	}
	if i < 0 || !b.versions[i].in(at) {
		return nil, replaced(b, q, who, at)
	}
	d := b.versions[i]
	if d.broken {
		return nil, fault.Wrap(errDamaged, fault.CodeRetrievalFailed, q.Collection)
	}
	visible := make([]bool, len(d.chunks))
	for _, p := range d.parts {
		if !permitted(p.conditions, who) {
			continue
		}
		for _, c := range p.chunks {
			visible[c] = true
		}
		for c := range visible {
			visible[c] = visible[c] || p.all
		}
	}
	if q.Chunk < 0 || q.Chunk >= len(d.chunks) || !visible[q.Chunk] {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.passage"), strconv.Itoa(q.Chunk)).WithParam("chunk")
	}
	around := max(0, min(q.Context, MaxContext))
	var out []Passage
	for i := max(0, q.Chunk-around); i <= min(len(d.chunks)-1, q.Chunk+around); i++ {
		if visible[i] {
			out = append(out, ci.passage(chunkRef{d.indexedVersion, i}, ci.newest))
		}
	}
	return out, nil
}

// reveals reports whether a viewer may see any passage of a version that has begun; b is nil for a document that is not there. It does the same work for
// one that is hidden, however large, and for none: rules are evaluated as for a search, whichever document is asked for, and then looked up as often as
// for the document of the collection that needs it most. It returns the number of these look-ups. The caller holds mu.
func (ci *collectionIndex) reveals(b *indexedDocument, who viewer, now int64) (shown bool, lookups int) {
	sets := map[*attributeSet]bool{}
	for _, set := range ci.sets.permitted(who) {
		sets[set] = true
	}
	if b == nil {
		b = &indexedDocument{}
	}
	for _, d := range b.versions {
		for _, p := range d.parts {
			lookups++
			if sets[p.set] && d.from <= now {
				shown = true
			}
		}
	}
	for ; lookups < ci.mostParts; lookups++ {
		if sets[nil] { // none is
			shown = false
		}
	}
	return shown, lookups
}

// replaced says which version is in effect instead, if one is of which the viewer sees something.
func replaced(b *indexedDocument, q PassageRef, who viewer, at int64) error {
	instead := fault.Say("rag.no_version")
	for _, d := range b.versions {
		if d.in(at) && slices.ContainsFunc(d.parts, func(p attributed) bool { return permitted(p.conditions, who) }) {
			instead = fault.Say("rag.version_in_effect", versionName(d.Version))
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
