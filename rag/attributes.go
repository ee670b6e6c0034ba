package rag

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/sluice-project/sluice/rag/segment"
)

// groupSets are the groups of a view of the store, in which passages with the same needs lie, and the ways to those that could let somebody in. So a search
// asks once for each of these, never for each document. It is immutable.
type groupSets struct {
	groups     [][]byte // of the view
	known      []*needs // by number; nil where no passage is
	bySubject  map[string][]uint32
	foreign    *roaring.Bitmap // with vectors of another model
	broken     *roaring.Bitmap // in which searches fail while they are in effect
	unreadable *roaring.Bitmap // of documents of which nothing can be said
	ruled      *roaring.Bitmap // of documents with a rule
}

// newGroupSets reads the groups of a view. Those that before has are not read again.
func newGroupSets(view *segment.View, before *groupSets, embedder string) (*groupSets, error) {
	x := &groupSets{groups: view.Groups(), bySubject: map[string][]uint32{}, foreign: roaring.New(), broken: roaring.New(), unreadable: roaring.New(), ruled: roaring.New()}
	x.known = make([]*needs, len(x.groups))
	for i, g := range x.groups {
		if g == nil {
			continue
		}
		if before != nil && i < len(before.groups) && before.groups[i] != nil && &before.groups[i][0] == &g[0] {
			x.known[i] = before.known[i]
		} else {
			x.known[i] = &needs{}
			if json.Unmarshal(g, x.known[i]) != nil { // the error might quote it
				return nil, fmt.Errorf("%w: a group of passages", segment.ErrDamaged)
			}
		}
		n := x.known[i]
		switch number := uint32(i); {
		case n.Unreadable:
			x.broken.Add(number)
			x.unreadable.Add(number)
		default:
			if n.Broken {
				x.broken.Add(number)
			}
			if n.Embedder != embedder {
				x.foreign.Add(number)
			}
			if n.Ruled {
				x.ruled.Add(number)
			}
			for _, t := range n.subjects() {
				x.bySubject[t] = append(x.bySubject[t], number)
			}
		}
	}
	return x, nil
}

// of reports whether they are those of a view.
func (x *groupSets) of(view *segment.View) bool {
	groups := view.Groups()
	return len(groups) == len(x.groups) && (len(groups) == 0 || &groups[0] == &x.groups[0])
}

// permitted returns the groups that let a viewer in.
func (x *groupSets) permitted(v viewer) *roaring.Bitmap {
	out := roaring.New()
	for _, t := range v.tokens() {
		for _, number := range x.bySubject[t] {
			if permitted(x.known[number].Conditions, v) {
				out.Add(number)
			}
		}
	}
	return out
}

// permitted reports whether a viewer meets one of each of the conditions.
func permitted(conditions [][]Allow, v viewer) bool {
	return !slices.ContainsFunc(conditions, func(c []Allow) bool { return !oneLets(c, v) })
}

// subjects are the values of one of which a viewer has to have at least one, as tokens; "" stands for everybody. None: nobody is let in. They are those of
// the condition that the fewest meet: a label of many would lead each of them to the sets of every other.
func (n *needs) subjects() []string {
	if len(n.Conditions) == 0 {
		return []string{""}
	}
	var out []string
	for _, e := range slices.MinFunc(n.Conditions, func(a, b []Allow) int { return cmp.Compare(width(a), width(b)) }) {
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

// attributed are chunks of one version that need the same.
type attributed struct {
	conditions [][]Allow
	all        bool  // of the version
	chunks     []int // if not all
}

// count returns how many chunks they are, of a version with n.
func (p *attributed) count(n int) int {
	if p.all {
		return n
	}
	return len(p.chunks)
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

// parts returns the chunks of a version by what they need. One that cannot be read is judged by what holds for the whole document.
func (b *indexedDocument) parts(v *datedVersion, keep ruleKeeper) []attributed {
	base := b.conditions()
	if b.damaged || v.broken || len(b.rule.Parts) == 0 {
		return []attributed{{conditions: base, all: true}}
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
			out = append(out, attributed{conditions: conditions})
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
