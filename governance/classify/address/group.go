package address

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/text"
)

// take adds what ends before place end.
func (t *tail) take(end int, s unitSort) {
	switch r := t.at(end - 1); {
	case t.groups == 0:
		t.first, t.deep = s, s == floor && strings.ContainsRune("组社队村", r)
	case s == bareUnit || s == gate || strings.ContainsRune("室户房间厢", r):
		t.flat = true
	}
	if t.groups == 0 && strings.ContainsRune("栋幢棟#", t.at(end-1)) {
		t.tower = true
	}
	t.groups++
	if s == door {
		t.doors++
	}
	t.k, t.last = end, s
}

// group takes the number at place k with what it counts. A number that counts nothing is taken where bare allows it.
func (t *tail) group(bare bool) bool {
	k := t.k
	if end := t.lettered(k); end > 0 {
		s := door
		if strings.ContainsRune("区楼层馆", t.at(end-1)) && t.at(end-2) != '号' {
			s = floor
		}
		t.take(end, s)
		return true
	}
	if bare && text.IsLetter(t.at(k)) && text.Misread(t.at(k)) == 0 {
		from := k + 1
		if t.at(from) == '-' {
			from++
		}
		if end := t.digits(from); end-from >= 2 && end-from <= 4 && !text.IsAlnum(t.at(end)) {
			t.take(end, bareUnit)
			return true
		}
		return false
	}
	end, ok := t.count(k)
	if !ok {
		return false
	}
	end, links := t.links(k, end)
	if n, s := t.unit(end); n > 0 {
		if s == gate && t.groups == 0 && t.any(end+n, notGate) > 0 && t.sort(t.end) != road {
			return false
		}
		t.take(end+n, s)
		t.chain = max(t.chain, links)
		return true
	}
	switch {
	case text.IsAlnum(t.at(end)) && !t.blank(end), t.at(end) == '-' && !t.blank(end), t.at(end) == '.' && text.IsDigit(t.at(end+1)), t.at(end) == ':', t.at(end) == '%', !t.blank(end) && counted(t.at(end)):
		return false
	case links > 1:
		t.take(end, bareUnit)
		t.groups += links - 2
		t.chain = links
		if links > 2 && t.end > 0 {
			t.doors++
			t.flat = true
		}
		return true
	case !bare:
		return false
	case isNumeral(t.at(k)):
		if end-k < 3 {
			return false
		}
	case t.groups == 0 && end-k < 3 && k > 0 && t.at(k-1) == '塔':
		t.take(end, door)
		return true
	case end-k < 2 || end-k > 5 || t.blank(k) && end-k < 3:
		if t.last != bareUnit || end-k > 2 {
			return false
		}
	}
	t.take(end, bareUnit)
	return true
}

// links returns the end of a row of numbers such as 3-2-501, whose first one stands in the places [k, end), and how many they are.
func (t *tail) links(k, end int) (to, n int) {
	size := end - k
	to, n = end, 1
	for n < 5 && (t.at(to) == '-' || t.at(to) == '之' && t.sort(t.end) != other) && size <= 3 && (n == 1 || size <= 2) {
		next := to + 1
		if text.IsLetter(t.at(next)) && text.IsDigit(t.at(next+1)) {
			next++
		}
		last, ok := t.count(next)
		if !ok || last-next > 5 {
			break
		}
		size = last - next
		to, n = last, n+1
	}
	if n > 2 && t.blank(to) && size < 4 {
		if rest := t.digits(to); rest > to && rest-to+size <= 4 {
			return rest, n
		}
	}
	if unit, _ := t.unit(to); n > 1 && unit == 0 && size < 3 && t.at(to-size-1) != '之' {
		if n > 2 && t.end > 0 && (size == 2 || t.groups > 0) || n == 2 && t.groups > 0 && !t.blank(k) && t.at(to) != '-' {
			return to, n
		}
		return end, 1
	}
	return to, n
}

// more takes what may stand next, and reports whether anything did.
func (t *tail) more(kind placeSort) bool {
	if n := t.any(t.k, lastWords); n > 0 {
		t.k += n
		return true
	}
	if kind == village {
		if n := t.any(t.k, houseWords); n > 0 {
			t.k += n
			return true
		}
	}
	saved := *t
	if t.at(t.k) == '之' && t.last == gate {
		if end, ok := t.count(t.k + 1); ok {
			t.k = end
			return true
		}
	}
	switch r := t.at(t.k); {
	case r == ',' || r == '、':
		t.k++
		if t.group(false) && t.last == door {
			return true
		}
	case r == '-' || r == '/':
		t.k++
		if t.group(true) {
			return true
		}
	case r == '(':
		for k := t.k + 1; k < t.k+12; k++ {
			if c := t.at(k); c == ')' {
				t.k = k + 1
				if t.group(false) {
					return true
				}
				break
			} else if !text.IsHan(c) && !text.IsAlnum(c) {
				break
			}
		}
	case text.IsLetter(r) && t.last != gate && !text.IsAlnum(t.at(t.k+1)) && !text.IsHan(t.at(t.k+1)) && !t.blank(t.k):
		t.k++
		return true
	case text.IsDigit(r) || text.IsLetter(r) || text.Misread(r) != 0 || isNumeral(r) || r == '#':
		if t.group(true) || !text.IsDigit(r) && t.name() {
			return true
		}
	case text.IsHan(r):
		if t.lettered(t.k) > 0 || t.at(t.k+1) != text.Edge && text.IsDigit(t.at(t.k+1)) && strings.ContainsRune("甲乙丙丁附第", r) {
			if t.group(true) {
				return true
			}
		}
		if t.name() {
			return true
		}
	}
	*t = saved
	return false
}

// name takes the name of an estate or a building between two numbers, or behind the last one.
func (t *tail) name() bool {
	from := t.k
	ended := 0
	k := from
	for ; k-from <= maxName; k++ {
		r := t.at(k)
		if k > from && t.blank(k) && !text.IsDigit(r) {
			break
		}
		if text.IsDigit(r) || k > from && (t.spelt(k) || t.lettered(k) > 0) {
			t.k = k
			if t.group(ended == k) {
				return true
			}
			break
		}
		if text.IsLetter(r) {
			continue
		}
		if !text.IsHan(r) || t.stop(k, t.table.of(r)) > 0 {
			break
		}
		if t.table.of(r)&placeEnd != 0 && k > from {
			ended = k + 1
		}
	}
	t.k = from
	if t.groups > 1 || t.last != gate && t.last != door {
		return false
	}
	if ended-from >= 3 && ended-from <= 7 && !t.blank(from) && (t.sort(ended) == estate || t.at(ended-2) == '新' && t.at(ended-1) == '村') {
		t.k = ended
		return true
	}
	if r := t.at(k); t.last == gate && !t.blank(from) && k-from >= 2 && k-from <= 6 && !text.IsHan(r) && !text.IsAlnum(r) && !t.ordinary(from, k) {
		t.k = k
		return true
	}
	if k-from >= 4 && !t.blank(from) && !text.IsHan(t.at(k)) && t.endsWith(from, k, houses) {
		t.k = k
		return true
	}
	return false
}
