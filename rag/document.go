package rag

import (
	"strings"
)

// indexedDocument is a document as the tables have it at its revision. It is immutable.
type indexedDocument struct {
	documentRow

	rows     []versionRow // of its versions, by number, with their dates
	labels   []string
	rule     Rule
	damaged  bool           // its rule cannot be read: nobody sees it
	versions []datedVersion // by number, with what they say, where that was asked for
}

// datedVersion is a version, and when it is in effect.
type datedVersion struct {
	*indexedVersion

	from, until int64 // until is 0 for no end
	broken      bool  // it cannot be read: at a time when it is in effect searches fail
}

func (d datedVersion) in(at int64) bool { return d.from <= at && at < until0(d.until) }

// indexedVersion is what a version of a document says. It is immutable; its dates are not used, see datedVersion.
type indexedVersion struct {
	versionRow

	chunks []chunkRow
}

// indexText returns what the indexes get for a chunk: its title and section, then its text.
func (v *indexedVersion) indexText(i int) string {
	return withContext(v.Title, v.chunks[i].Section, v.text(i))
}

func (v *indexedVersion) text(i int) string { return v.Content[v.chunks[i].Start:v.chunks[i].End] }

func withContext(title, section, text string) string {
	var head []string
	if title != "" && !strings.HasPrefix(section, title) {
		head = append(head, title)
	}
	if section != "" {
		head = append(head, section)
	}
	if len(head) == 0 {
		return text
	}
	return strings.Join(head, " > ") + "\n" + text
}

// restricted reports whether it, or a part of it, has a rule.
func (b *indexedDocument) restricted() bool { return b.damaged || !b.rule.none() }

func (b *indexedDocument) last() versionRow { return b.rows[len(b.rows)-1] }

// undated are what its versions say.
func (b *indexedDocument) undated() (out []*indexedVersion) {
	for _, d := range b.versions {
		out = append(out, d.indexedVersion)
	}
	return out
}

// never is the end of what has none.
const never = 1<<63 - 1

// until0 is an end of validity as times are compared with it.
func until0(stored int64) int64 {
	if stored == 0 {
		return never
	}
	return stored
}
