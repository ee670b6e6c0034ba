package classify

import "strings"

// Know returns s that also finds these values, wherever they stand. Values of fewer than two characters, and of classes that s does not
// have, are left out.
func (s *Set) Know(values []Known) *Set {
	out := *s
	out.known = &words{}
	for _, v := range values {
		if k, ok := out.kindOf(v.Class); ok {
			out.known.add(v.Value, k)
		}
	}
	return &out
}

// Insist returns s that also finds these values, wherever they stand, whether or not it looks for values of their classes otherwise. Values
// of fewer than two characters, and of classes that nobody defined, are left out.
func (s *Set) Insist(values []Known) *Set {
	out := *s
	out.known, out.insists = &words{}, true
	for _, v := range values {
		if k, ok := out.named(v.Class); ok {
			out.known.add(v.Value, k)
		}
	}
	return &out
}

// Allow returns s that leaves these values alone, in whatever spelling: numbers of one's own hotline, names that are public.
func (s *Set) Allow(values []string) *Set {
	out := *s
	out.allowed = map[string]bool{}
	for v := range s.allowed {
		out.allowed[v] = true
	}
	for _, v := range values {
		var n normaliser
		cells, _ := n.add(nil, v, 0, true)
		for k := range kinds { // each kind of value has a form of its own
			out.allowed[canonical(k, cells)] = true
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
func (s *Set) named(c Class) (kind, bool) {
	if k := kindOf(c); k < kinds {
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
func (s *Set) kindOf(c Class) (kind, bool) {
	k, ok := s.named(c)
	return k, ok && s.looksFor(k)
}

func (s *Set) looksFor(k kind) bool {
	if k < kinds {
		return s.on.has(k)
	}
	return !s.custom[k-kinds].off
}

// class is the name of a kind.
func (s *Set) class(k kind) Class {
	if k < kinds {
		return types[k].Class
	}
	return s.custom[k-kinds].Class
}

// custom runs what a tenant defined, and what the caller knows, at cell i.
func (s *Scanner) custom(d *decision, i int) {
	w := &s.w
	if t := s.set.known; t != nil {
		if end, k, v := t.longest(w, i); v == open || v == yes && (s.set.insists || s.set.looksFor(k)) {
			d.ask(match{kind: k, start: i, end: end, form: threshold, why: listed}, v)
		}
	}
	if len(s.set.custom) > len(s.until) {
		s.until = make([]int, len(s.set.custom))
	}
	for n, c := range s.set.custom {
		if c.off || i < s.until[n] || !c.begins(w.cells[i].r) {
			continue
		}
		d.ask(c.at(w, &s.machine, i))
	}
}

func (d *defined) begins(r rune) bool {
	switch {
	case d.words != nil:
		return true
	case r < 0x80:
		return d.ascii[r/64]>>(r%64)&1 == 1
	}
	return d.opens(r)
}

// at looks for a value of the class that begins at cell i.
func (d *defined) at(w *window, run *machine, i int) (match, verdict) {
	m := match{kind: d.kind, start: i, form: d.form}
	var v verdict
	if d.words != nil {
		m.end, _, v = d.words.longest(w, i)
	} else {
		run.prog = d.prog
		m.end, v = run.longest(w, i)
	}
	if v == open {
		return match{}, open
	}
	if v == no || m.end <= i+1 || !passes(d.Check, w.cells[i:m.end]) {
		return match{}, no
	}
	if len(d.Context) == 0 {
		return m, yes
	}
	if w.cued(i, d.Context...) {
		m.why |= cueBefore
		return m, yes
	}
	cued, v := w.cuedBehind(m.end, d.Context...)
	if cued {
		m.why |= cueBehind
	}
	return m, v
}

// passes reports whether the digits and letters of a value pass a check.
func passes(check string, cells []cell) bool {
	if check == "" {
		return true
	}
	var b strings.Builder
	for _, c := range cells {
		if isAlnum(c.r) {
			b.WriteRune(upper(c.r))
		}
	}
	s := b.String()
	switch check {
	case "luhn":
		return !strings.ContainsFunc(s, func(r rune) bool { return !isDigit(r) }) && luhn(s)
	case "mod11_2": // ISO/IEC 7064: digits, and an X at the end
		sum := 0
		for n, r := range s {
			if !isDigit(r) && (r != 'X' || n != len(s)-1) {
				return false
			}
			value := 10
			if isDigit(r) {
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
			if isDigit(r) {
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
func (s *Scanner) leaves(m match) bool {
	return len(s.set.allowed) > 0 && m.why&listed == 0 && s.set.allowed[canonical(m.kind, s.w.cells[m.start:m.end])]
}
