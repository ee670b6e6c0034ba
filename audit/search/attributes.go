package search

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/internal/database"
)

// maxValue bounds a value in bytes: callers choose some of them, and databases bound what an index takes.
const maxValue = 512

// attributes is the attribute set of a record: the values that it shares with many others. Its id depends on nothing but the values, so that
// a verification can compute it from a record.
type attributes struct {
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
	Classes   string // as classList makes them
}

// attributesOf returns the attribute set of e, each value in the form in which it is stored and asked for.
func attributesOf(e *record.Event) attributes {
	a := attributes{
		Tenant: e.Tenant, Project: e.Project, ActorKind: e.Actor.Kind, Actor: e.Actor.ID, ActorName: e.Actor.Name, Action: e.Action,
		Stage: string(e.Stage), Model: e.Model.Asked, Routed: e.Model.Routed, Version: e.Model.Version, Policy: e.Policy, Rollout: e.Rollout,
		Arm: e.Arm, Decision: e.Decision, Outcome: e.Outcome, ErrorCode: e.ErrorCode,
	}
	for _, v := range a.values() {
		*v = value(*v)
	}
	var classes []string
	for _, f := range e.Findings {
		classes = append(classes, f.Class)
	}
	a.Classes = classList(classes)
	return a
}

func (a *attributes) values() []*string {
	return []*string{
		&a.Tenant, &a.Project, &a.ActorKind, &a.Actor, &a.ActorName, &a.Action, &a.Stage, &a.Model, &a.Routed, &a.Version, &a.Policy, &a.Rollout,
		&a.Arm, &a.Decision, &a.Outcome, &a.ErrorCode, &a.Classes,
	}
}

// id names the attribute set. The word in it is that of the table, and stays as it is.
func (a attributes) id() []byte {
	values := a.values()
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = *v
	}
	return digest("facet", parts...)
}

// text is what a search for text looks at, in the form that [fold] gives what is searched for.
func (a attributes) text() string {
	return fold(strings.Join([]string{a.Actor, a.ActorName, a.Action, a.Model, a.Routed, a.ErrorCode, a.Rollout, a.Policy}, "\n"))
}

// term is a text that few records of a tenant have.
type term struct{ Tenant, Text string }

// termsOf returns the terms of a record without repetition: its resource, the agreement under which its answer has no visible label, or why it has none all the
// same, and its documents without the place in them.
func termsOf(tenant, resource string, detail map[string]string, documents []string) []term {
	texts := []string{resource}
	if agreement := detail[record.LabelAgreement]; agreement != "" {
		texts = append(texts, AgreementTerm(agreement))
	}
	if why := detail[record.VisibleLabel]; why != "" {
		texts = append(texts, record.VisibleLabel+"/"+why)
	}
	for _, d := range documents {
		whole, _, _ := strings.Cut(d, "#")
		texts = append(texts, whole)
	}
	var out []term
	for _, text := range texts {
		t := term{value(tenant), value(fold(text))}
		if text != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// AgreementTerm is the text by which the records of what has gone out under an agreement are found, and those of the agreement itself are not.
func AgreementTerm(agreement string) string { return record.LabelAgreement + "/" + agreement }

// id names the term.
func (t term) id() []byte { return digest("term", t.Tenant, t.Text) }

// value is s as it is stored: as a database takes it, and cut at a length that an index takes.
func value(s string) string {
	s = database.Text(s)
	if len(s) <= maxValue {
		return s
	}
	end := maxValue
	for end > maxValue-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// classList writes classes in one value, so that [class] is part of it for each: sorted, each between newlines, "" for none.
func classList(classes []string) string {
	if len(classes) == 0 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(classes))
	for i, c := range sorted {
		sorted[i] = strings.Trim(class(c), "\n")
	}
	return "\n" + strings.Join(slices.Compact(sorted), "\n") + "\n"
}

// class is the part of [classList] that stands for a class.
func class(name string) string { return "\n" + strings.ReplaceAll(value(name), "\n", " ") + "\n" }

// fold makes texts that differ in case only equal.
func fold(s string) string { return strings.ToLower(s) }

func digest(kind string, parts ...string) []byte {
	b := append(make([]byte, 0, 512), "sluice/"+kind+"/v1"...)
	for _, p := range parts {
		b = binary.BigEndian.AppendUint32(b, uint32(len(p)))
		b = append(b, p...)
	}
	h := sha256.Sum256(b)
	return h[:16]
}
