package rag

import (
	"cmp"
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
	users      int // parts of versions that have it
}

func (a *attributeSet) permits(v viewer) bool { return permitted(a.conditions, v) }

// permitted reports whether a viewer meets one of each of the conditions.
func permitted(conditions [][]Allow, v viewer) bool {
	return !slices.ContainsFunc(conditions, func(c []Allow) bool { return !oneLets(c, v) })
}

// subjects are the values of one of which a viewer has to have at least one, as tokens; "" stands for everybody. None: nobody is let in. They are those of
// the condition that the fewest meet: a label of many would lead each of them to the sets of every other.
func (a *attributeSet) subjects() []string {
	if len(a.conditions) == 0 {
		return []string{""}
	}
	var out []string
	for _, e := range slices.MinFunc(a.conditions, func(a, b []Allow) int { return cmp.Compare(width(a), width(b)) }) {
		switch {
		case len(e.Principals) > 0:
			out = append(out, tokens('p', e.Principals)...)
		case len(e.Labels) > 0:
			out = append(out, tokens('l', e.Labels)...)
		case len(e.Roles) > 0:
			out = append(out, tokens('r', e.Roles)...)
		default:
			out = append(out, tokens('u', e.Purposes)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// width says how many may meet a condition: nobody, those who are named, those with a label, or everybody with a role or purpose.
func width(condition []Allow) (out int) {
	for _, e := range condition {
		switch {
		case len(e.Principals) > 0:
			out = max(out, 1)
		case len(e.Labels) > 0:
			out = max(out, 2)
		default:
			out = max(out, 3)
		}
	}
	return out
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
	all        bool          // of the version
	chunks     []int         // if not all
	set        *attributeSet // while they are shown; guarded by the collection's mutex
}

// of returns the numbers of the chunks.
func (p *attributed) of(numbers []uint32) []uint32 {
	if p.all {
		return numbers
	}
	out := make([]uint32, len(p.chunks))
	for i, c := range p.chunks {
		out[i] = numbers[c]
	}
	return out
}

// count returns how many chunks they are, of a version with n.
func (p *attributed) count(n int) int {
	if p.all {
		return n
	}
	return len(p.chunks)
}

func (s *attributeSets) add(p *attributed, embedder string, numbers []uint32) {
	key := p.key + "\x00" + embedder
	set := s.byKey[key]
	if set == nil {
		set = &attributeSet{conditions: p.conditions, embedder: embedder, numbers: roaring.New()}
		s.byKey[key] = set
		for _, t := range set.subjects() {
			if s.bySubject[t] == nil {
				s.bySubject[t] = map[*attributeSet]struct{}{}
			}
			s.bySubject[t][set] = struct{}{}
		}
	}
	set.users++
	set.numbers.AddMany(p.of(numbers))
	p.set = set
}

func (s *attributeSets) remove(p *attributed, embedder string, numbers []uint32) {
	key := p.key + "\x00" + embedder
	set := s.byKey[key]
	if set == nil {
		return
	}
	for _, n := range p.of(numbers) {
		set.numbers.Remove(n)
	}
	if set.users--; set.users > 0 {
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

// decide works out what the versions of a document need, once for each: those of old that need the same have the same slice. It takes long for a large
// document with parts, and needs no lock.
func (b *indexedDocument) decide(old *indexedDocument, keep ruleKeeper) {
	same := old != nil && b.Labels == old.Labels && b.documentRow.Rule == old.documentRow.Rule && b.damaged == old.damaged
	for i := range b.versions {
		v := &b.versions[i]
		v.parts = nil
		if same {
			if at := slices.IndexFunc(old.versions, func(o datedVersion) bool { return o.indexedVersion == v.indexedVersion && o.broken == v.broken }); at >= 0 {
				v.parts = old.versions[at].parts
			}
		}
		if v.parts == nil {
			v.parts = b.parts(v, keep)
		}
	}
}

// parts returns the chunks of a version by what they need. One that cannot be read is judged by what holds for the whole document.
func (b *indexedDocument) parts(v *datedVersion, keep ruleKeeper) []attributed {
	base := b.conditions()
	if b.damaged || v.broken || len(b.rule.Parts) == 0 {
		return []attributed{{key: conditionsKey(base), conditions: base, all: true}}
	}
	index := map[string]int{}
	sections := map[string][]string{} // by headings
	var out []attributed
	for i := range v.chunks {
		conditions := slices.Clone(base)
		headings := v.chunks[i].Section
		ids, known := sections[headings]
		if !known {
			ids = keep.sections(b.ID, headings)
			sections[headings] = ids
		}
		for _, p := range b.rule.Parts {
			if p.covers(v.indexedVersion, i, ids) {
				conditions = append(conditions, p.Allow)
			}
		}
		key := conditionsKey(conditions)
		at, known := index[key]
		if !known {
			at = len(out)
			index[key] = at
			out = append(out, attributed{key: key, conditions: conditions})
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
