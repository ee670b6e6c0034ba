// Package facet condenses what audit records are searched by. Most of what a record says, many others say too: who, what, which model,
// which outcome, what was found. These parts together are its [Facet], of which there are few beside the records; a search picks facets
// first and then reads the newest records of each. What is said by few records, such as a document, is a [Term].
//
// Both have an identifier that depends on nothing but their content, so that it can be recomputed from a record.
package facet

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxValue bounds a value in bytes: callers choose some of them, and databases bound what an index takes.
const maxValue = 512

// Facet is what many records have in common. Its values are as [Of] makes them.
type Facet struct {
	Tenant    string
	Project   string
	ActorKind string
	Actor     string
	ActorName string
	Action    string
	Stage     string
	Model     string // as asked
	Routed    string
	Version   string
	Policy    string
	Rollout   string
	Arm       string
	Decision  string
	Outcome   string
	ErrorCode string
	Classes   string // as Classes makes them
}

// Of makes a facet of values as they come: each is brought into the form in which it is stored and asked for.
func Of(f Facet, classes []string) Facet {
	for _, v := range f.values() {
		*v = Value(*v)
	}
	f.Classes = Classes(classes)
	return f
}

func (f *Facet) values() []*string {
	return []*string{
		&f.Tenant, &f.Project, &f.ActorKind, &f.Actor, &f.ActorName, &f.Action, &f.Stage, &f.Model, &f.Routed, &f.Version, &f.Policy, &f.Rollout,
		&f.Arm, &f.Decision, &f.Outcome, &f.ErrorCode, &f.Classes,
	}
}

// ID names the facet.
func (f Facet) ID() []byte {
	values := f.values()
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = *v
	}
	return sum("facet", parts...)
}

// Text is what a search for text looks at, in the form that [Fold] gives what is searched for.
func (f Facet) Text() string {
	return Fold(strings.Join([]string{f.Actor, f.ActorName, f.Action, f.Model, f.Routed, f.ErrorCode, f.Rollout, f.Policy}, "\n"))
}

// Term is a text that few records of a tenant have.
type Term struct{ Tenant, Text string }

// Terms returns the terms of a record without repetition: its resource, and its documents without the place in them.
func Terms(tenant, resource string, documents []string) []Term {
	texts := []string{resource}
	for _, d := range documents {
		whole, _, _ := strings.Cut(d, "#")
		texts = append(texts, whole)
	}
	var out []Term
	for _, text := range texts {
		t := Term{Value(tenant), Value(Fold(text))}
		if text != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// ID names the term.
func (t Term) ID() []byte { return sum("term", t.Tenant, t.Text) }

// Value is s as it is stored: without NUL, which PostgreSQL does not take, and cut at a length that an index takes.
func Value(s string) string {
	s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	if len(s) <= maxValue {
		return s
	}
	end := maxValue
	for end > maxValue-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// Classes writes classes in one value, so that [Class] is part of it for each: sorted, each between newlines, "" for none.
func Classes(classes []string) string {
	if len(classes) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(classes))
	for i, c := range sorted {
		sorted[i] = strings.Trim(Class(c), "\n")
	}
	return "\n" + strings.Join(slices.Compact(sorted), "\n") + "\n"
}

// Class is the part of [Classes] that stands for a class.
func Class(class string) string { return "\n" + strings.ReplaceAll(Value(class), "\n", " ") + "\n" }

// Fold makes texts that differ in case only equal.
func Fold(s string) string { return strings.ToLower(s) }

func sum(kind string, parts ...string) []byte {
	b := append(make([]byte, 0, 512), "sluice/"+kind+"/v1"...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	h := sha256.Sum256(b)
	return h[:16]
}
