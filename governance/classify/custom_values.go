package classify

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/number"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// Know returns s that also finds these values, wherever they stand. Values of fewer than two characters, and of classes that s does not
// have, are left out.
func (s *Set) Know(values []Known) *Set {
	out := *s
	out.known = known(values, out.kindOf)
	return &out
}

// Insist returns s that also finds these values, wherever they stand, whether or not it looks for values of their classes otherwise. Values
// of fewer than two characters, and of classes that nobody defined, are left out.
func (s *Set) Insist(values []Known) *Set {
	out := *s
	out.known, out.insists = known(values, out.named), true
	return &out
}

// known are the values of the classes that kind knows.
func known(values []Known, kind func(Class) (finding.Kind, bool)) *words {
	out := &words{}
	for _, v := range values {
		if k, ok := kind(v.Class); ok {
			out.add(v.Value, k)
		}
	}
	return out
}

// Allow returns s that leaves these values alone, in whatever spelling: numbers of one's own hotline, names that are public.
func (s *Set) Allow(values []string) *Set {
	out := *s
	out.allowed = map[string]bool{}
	for v := range s.allowed {
		out.allowed[v] = true
	}
	for _, v := range values {
		var w text.Buffer
		w.Read(v, 0, true)
		for k := range finding.Count { // each kind of value has a form of its own
			out.allowed[canonical(k, w.Cells(0, w.End()))] = true
		}
	}
	delete(out.allowed, "")
	return &out
}

// TypeOf describes a class of s, own ones and those of a tenant.
func (s *Set) TypeOf(c Class) (t Type, ok bool) {
	if t, ok := TypeOf(c); ok {
		return t, true
	}
	for _, d := range s.custom {
		if d.Class == c {
			return Type{Class: c, Tag: d.Tag, English: d.Tag, Chinese: d.Tag, Checked: d.Check != ""}, true
		}
	}
	return Type{}, false
}

// Types describes every class that s can look for, whether or not it does.
func (s *Set) Types() []Type {
	out := Types()
	for _, d := range s.custom {
		t, _ := s.TypeOf(d.Class)
		out = append(out, t)
	}
	return out
}

// tags are those of all classes.
func (s *Set) tags() []string {
	var out []string
	for _, t := range s.Types() {
		out = append(out, t.Tag)
	}
	return out
}

// named returns the number of a class.
func (s *Set) named(c Class) (finding.Kind, bool) {
	if k := kindOf(c); k < finding.Count {
		return k, true
	}
	for _, d := range s.custom {
		if d.Class == c {
			return d.kind, true
		}
	}
	return 0, false
}

// kindOf returns the number of a class that s looks for.
func (s *Set) kindOf(c Class) (finding.Kind, bool) {
	k, ok := s.named(c)
	return k, ok && s.looksFor(k)
}

func (s *Set) looksFor(k finding.Kind) bool {
	if k < finding.Count {
		return s.on.Has(k)
	}
	return !s.custom[k-finding.Count].off
}

// class is the name of a kind.
func (s *Set) class(k finding.Kind) Class {
	if k < finding.Count {
		return types[k].Class
	}
	return s.custom[k-finding.Count].Class
}

// custom runs what a tenant defined, and what the caller knows, at cell i.
func (s *Scanner) custom(d *finding.Decision, i int) {
	w := &s.w
	if t := s.set.known; t != nil {
		if end, k, v := t.longest(&w.Window, i); v == text.Open || v == text.Yes && (s.set.insists || s.set.looksFor(k)) {
			d.Ask(finding.Candidate{Kind: k, Start: i, End: end, Form: finding.Threshold, Evidence: finding.Listed}, v)
		}
	}
	if len(s.set.custom) > len(s.until) {
		s.until = make([]text.Place, len(s.set.custom))
	}
	for n, c := range s.set.custom {
		if c.off || w.Place(i) < s.until[n] || !c.mayBegin(w.At(i)) {
			continue
		}
		d.Ask(c.at(&w.Window, &s.machine, i))
	}
}

func (d *defined) mayBegin(r rune) bool {
	switch {
	case d.words != nil:
		return true
	case r < 0x80:
		return d.ascii[r/64]>>(r%64)&1 == 1
	}
	return d.opens(r)
}

// at looks for a value of the class that begins at cell i.
func (d *defined) at(w *text.Window, run *machine, i int) (finding.Candidate, text.Verdict) {
	m := finding.Candidate{Kind: d.kind, Start: i, Form: d.form}
	var v text.Verdict
	if d.words != nil {
		m.End, _, v = d.words.longest(w, i)
	} else {
		run.prog = d.prog
		m.End, v = run.longest(w, i)
	}
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if v == text.No || m.End <= i+1 || !passes(d.Check, w.Cells(i, m.End)) {
		return finding.Candidate{}, text.No
	}
	if len(d.Context) == 0 {
		return m, text.Yes
	}
	if w.PrecededBy(i, d.Context...) {
		m.Evidence |= finding.CueBefore
		return m, text.Yes
	}
	cued, v := w.FollowedBy(m.End, d.Context...)
	if cued {
		m.Evidence |= finding.CueBehind
	}
	return m, v
}

// passes reports whether the digits and letters of a value pass a check.
func passes(check string, cells []text.Cell) bool {
	if check == "" {
		return true
	}
	var b strings.Builder
	for _, c := range cells {
		if text.IsAlnum(c.R) {
			b.WriteRune(text.Upper(c.R))
		}
	}
	s := b.String()
	switch check {
	case "luhn":
		return !strings.ContainsFunc(s, func(r rune) bool { return !text.IsDigit(r) }) && number.Luhn(s)
	case "mod11_2": // ISO/IEC 7064: digits, and an X at the end
		sum := 0
		for n, r := range s {
			if !text.IsDigit(r) && (r != 'X' || n != len(s)-1) {
				return false
			}
			value := 10
			if text.IsDigit(r) {
				value = int(r - '0')
			}
			sum = sum*2 + value
			if n < len(s)-1 {
				sum %= 11
			}
		}
		return sum%11 == 1
	case "mod97_10": // ISO/IEC 7064: letters count from ten
		sum := 0
		for _, r := range s {
			if text.IsDigit(r) {
				sum = (sum*10 + int(r-'0')) % 97
			} else {
				sum = (sum*100 + int(r-'A') + 10) % 97
			}
		}
		return sum == 1
	}
	return false
}

// leaves reports whether a finding is on the list of what is left alone.
func (s *Scanner) leaves(m finding.Candidate) bool {
	return len(s.set.allowed) > 0 && m.Evidence&finding.Listed == 0 && s.set.allowed[canonical(m.Kind, s.w.Cells(m.Start, m.End))]
}
