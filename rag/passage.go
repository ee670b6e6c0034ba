package rag

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-project/sluice/internal/fault"
)

// PassageRef names a passage as a citation does.
type PassageRef struct {
	Tenant, Collection  string
	Labels              []string // the principal's
	DocumentID, Version string
	Chunk               int
	Context             int // how many passages before it, and after it, are wanted too
}

// MaxContext is the most passages that may be asked for on either side of a quoted one.
const MaxContext = 3

// Passages returns the quoted passage with those around it, in the order of the document. It is never of another version than the quoted
// one, and nobody sees here what a search would not find for him. Errors: CodeCollectionNotFound, CodeNotFound (document, passage),
// CodePassageReplaced, CodeRetrievalFailed for a document that is damaged.
func (s *Service) Passages(_ context.Context, q PassageRef) ([]Passage, error) {
	ci, err := s.visible(q.Tenant, q.Collection, q.Labels)
	if err != nil {
		return nil, err
	}
	return ci.passagesAround(q)
}

func (ci *collectionIndex) passagesAround(q PassageRef) ([]Passage, error) {
	ci.mu.RLock()
	defer ci.mu.RUnlock()
	if ci.unreadable[q.DocumentID] {
		return nil, fault.Wrap(errDamaged, fault.CodeRetrievalFailed, q.Collection)
	}
	b := ci.docs[q.DocumentID]
	if b == nil || !permits(b.labels, q.Labels) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.document"), q.DocumentID).WithParam("document_id")
	}
	version, err := versionNumber(q.Version)
	if err != nil || version > b.Version {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.version"), q.Version).WithParam("version")
	}
	if version < b.Version {
		return nil, fault.New(fault.CodePassageReplaced, q.Version, q.DocumentID, versionName(b.Version)).WithParam("version")
	}
	if q.Chunk < 0 || q.Chunk >= len(b.chunks) {
		return nil, fault.New(fault.CodeNotFound, fault.Say("thing.passage"), strconv.Itoa(q.Chunk)).WithParam("chunk")
	}
	around := max(0, min(q.Context, MaxContext))
	var out []Passage
	for i := max(0, q.Chunk-around); i <= min(len(b.chunks)-1, q.Chunk+around); i++ {
		out = append(out, ci.passage(chunkRef{b, i}, ci.newest))
	}
	return out, nil
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
