package rag

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"
)

// attributeSet is what decides whether a search may find a chunk, beside the time, and the chunks for which it is the same. So a search asks once for
// each set that could let its viewer in, never for each document.
type attributeSet struct {
	conditions [][]Allow // one of each is needed
	embedder   string
	numbers    *roaring.Bitmap
}

func (a *attributeSet) permits(v viewer) bool {
	return !slices.ContainsFunc(a.conditions, func(c []Allow) bool { return !oneLets(c, v) })
}

// subjects are the values of one of which a viewer has to have at least one, as tokens; "" stands for everybody. None: nobody is let in.
func (a *attributeSet) subjects() []string {
	if len(a.conditions) == 0 {
		return []string{""}
	}
	var out []string
	for _, c := range a.conditions[0] {
		switch {
		case len(c.Principals) > 0:
			out = append(out, tokens('p', c.Principals)...)
		case len(c.Labels) > 0:
			out = append(out, tokens('l', c.Labels)...)
		case len(c.Roles) > 0:
			out = append(out, tokens('r', c.Roles)...)
		default:
			out = append(out, tokens('u', c.Purposes)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func tokens(kind byte, values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(kind) + v
	}
	return out
}

func (v viewer) tokens() []string {
	out := slices.Concat([]string{""}, tokens('p', v.principals), tokens('l', v.labels), tokens('r', v.roles))
	if v.purpose != "" {
		out = append(out, "u"+v.purpose)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// attributeSets holds the sets of a collection. It is guarded by the collection's mutex.
type attributeSets struct {
	byKey     map[string]*attributeSet
	bySubject map[string]map[*attributeSet]struct{}
}

func newAttributeSets() attributeSets {
	return attributeSets{map[string]*attributeSet{}, map[string]map[*attributeSet]struct{}{}}
}

// attributed are chunks of one version that need the same.
type attributed struct {
	key        string
	conditions [][]Allow
	chunks     []int
}

func (s *attributeSets) add(p attributed, embedder string, numbers []uint32) {
	key := p.key + "\x00" + embedder
	set := s.byKey[key]
	if set == nil {
		set = &attributeSet{p.conditions, embedder, roaring.New()}
		s.byKey[key] = set
		for _, t := range set.subjects() {
			if s.bySubject[t] == nil {
				s.bySubject[t] = map[*attributeSet]struct{}{}
			}
			s.bySubject[t][set] = struct{}{}
		}
	}
	for _, c := range p.chunks {
		set.numbers.Add(numbers[c])
	}
}

func (s *attributeSets) remove(p attributed, embedder string, numbers []uint32) {
	key := p.key + "\x00" + embedder
	set := s.byKey[key]
	if set == nil {
		return
	}
	for _, c := range p.chunks {
		set.numbers.Remove(numbers[c])
	}
	if !set.numbers.IsEmpty() {
		return
	}
	delete(s.byKey, key)
	for _, t := range set.subjects() {
		delete(s.bySubject[t], set)
		if len(s.bySubject[t]) == 0 {
			delete(s.bySubject, t)
		}
	}
}

// permitted returns the sets that let a viewer in.
func (s *attributeSets) permitted(v viewer) (out []*attributeSet) {
	for _, t := range v.tokens() {
		for set := range s.bySubject[t] {
			if set.permits(v) {
				out = append(out, set) // twice, if under two tokens: it does not matter
			}
		}
	}
	return out
}

// conditions are those of the document itself.
func (b *indexedDocument) conditions() [][]Allow {
	var out [][]Allow
	if len(b.labels) > 0 {
		out = append(out, []Allow{{Labels: b.labels}})
	}
	if b.damaged {
		return append(out, []Allow{})
	}
	if b.rule.Restricted {
		out = append(out, b.rule.Allow)
	}
	return out
}

// parts returns the chunks of a version by what they need.
func (b *indexedDocument) parts(v *indexedVersion, keep ruleKeeper) []attributed {
	base := b.conditions()
	if b.damaged || len(b.rule.Parts) == 0 {
		all := make([]int, len(v.chunks))
		for i := range all {
			all[i] = i
		}
		return []attributed{{conditionsKey(base), base, all}}
	}
	index := map[string]int{}
	var out []attributed
	for i := range v.chunks {
		conditions := slices.Clone(base)
		sections := keep.sections(b.ID, v.chunks[i].Section)
		for _, p := range b.rule.Parts {
			if p.covers(v, i, sections) {
				conditions = append(conditions, p.Allow)
			}
		}
		key := conditionsKey(conditions)
		at, known := index[key]
		if !known {
			at = len(out)
			index[key] = at
			out = append(out, attributed{key, conditions, nil})
		}
		out[at].chunks = append(out[at].chunks, i)
	}
	return out
}

// covers reports whether a chunk is of the part, or shares text with it. sections are the ids of the chunk's.
func (p PartRule) covers(v *indexedVersion, chunk int, sections []string) bool {
	if p.Section != "" {
		return slices.Contains(sections, p.Section)
	}
	if p.Version != versionName(v.Version) {
		return false
	}
	return slices.ContainsFunc(p.Chunks, func(n int) bool {
		return n == chunk || n < len(v.chunks) && v.chunks[n].Start < v.chunks[chunk].End && v.chunks[chunk].Start < v.chunks[n].End
	})
}

func conditionsKey(conditions [][]Allow) string {
	var out strings.Builder
	for _, c := range conditions {
		raw, _ := json.Marshal(c) // lists of strings always encode
		out.WriteString("\x00" + string(raw))
	}
	return out.String()
}
