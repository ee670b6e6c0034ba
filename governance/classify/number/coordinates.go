package number

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// coordinate is one of two: a latitude or a longitude.
type coordinate struct {
	axis   byte    // 'N', 'E', or 0 if nothing says
	degree float64 // its value
	places int     // digits behind the point; 9 for minutes
	mark   bool    // ° or a direction stands at it
	han    bool    // the direction is a word: 北纬
	word   byte    // the axis that 经度 or another word before it names
	start  int
	end    int
}

// coordinates finds pairs, and single ones that say what they are. Brackets around a pair belong to it.
func coordinates(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k := i
	bracket := false
	if r := w.At(k); r == '(' || r == '[' || r == '（' {
		bracket = true
		k++
	}
	first, v := w.coordinate(k)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	gap, v := w.While(first.end, 4, func(r rune) bool { return text.IsBlank(r) || strings.ContainsRune(",，、;；/|", r) })
	if v == text.Open || w.At(gap) == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	if gap > first.end || first.mark {
		second, v := w.coordinate(gap)
		if v == text.Open {
			return finding.Candidate{}, text.Open
		} else if v == text.Yes && pair(first, second) {
			m := finding.Candidate{Kind: finding.Coordinates, Start: i, End: second.end, Form: 0.2}
			switch places := min(first.places, second.places); {
			case first.axis != 0 && second.axis != 0:
				m.Form = 0.75
			case places >= 4:
				m.Form = 0.7
			case places == 3:
				m.Form = 0.4
			}
			if bracket {
				if r := w.At(m.End); r == text.Unknown {
					return finding.Candidate{}, text.Open
				} else if r == ')' || r == ']' || r == '）' {
					m.End++
				} else {
					m.Start++
				}
			}
			return w.Anchor(m, w.Hints(i))
		}
	}
	if bracket {
		return finding.Candidate{}, text.No // the one inside speaks for itself
	}
	m := finding.Candidate{Kind: finding.Coordinates, Start: first.start, End: first.end}
	switch {
	case first.places == 9 && first.axis != 0, first.han && first.places >= 2:
		m.Form = 0.55
	case first.axis != 0 && first.places >= 3, first.word != 0 && first.places >= 2, first.places >= 4, first.places == 9:
		m.Form = 0.15
	default:
		return finding.Candidate{}, text.No
	}
	h := w.Hints(i)
	if !h.Of.Has(finding.Coordinates) || !h.Tight && m.Form < 0.5 {
		return m, text.When(m.Form >= finding.Threshold, text.Yes, text.No)
	}
	return w.Anchor(m, h)
}

// pair reports whether two coordinates are a latitude and a longitude of China and its surroundings.
func pair(a, b coordinate) bool {
	if a.axis == 'E' || b.axis == 'N' || a.axis == 0 && b.axis == 0 && a.degree > b.degree {
		a, b = b, a
	}
	return a.axis != 'E' && b.axis != 'N' && a.degree >= 3 && a.degree <= 54 && b.degree >= 72 && b.degree <= 136
}

// coordinate reads a direction before, degrees with a point or with minutes and seconds, and a direction behind.
func (w *Detector) coordinate(i int) (c coordinate, v text.Verdict) {
	c.start = i
	k, v := w.direction(i, &c)
	if v == text.Open {
		return c, text.Open
	}
	whole, end, v := w.degrees(k)
	if v != text.Yes {
		return c, v
	}
	c.degree, k = float64(decimal(whole)), end
	if r := w.At(k); r == text.Unknown {
		return c, text.Open
	} else if r == '.' || r == '。' {
		fraction, end, v := w.fraction(k + 1)
		if v == text.Open {
			return c, text.Open
		}
		if end == k+1 || text.IsLetter(w.At(end)) && !strings.ContainsRune("NESWnesw", w.At(end)) {
			return c, text.No
		}
		c.places, k = len(fraction), end
	} else if r != '°' && r != '度' && r != 'º' {
		return c, text.No
	}
	if k, v = w.minutes(k, &c); v == text.Open {
		return c, text.Open
	}
	if c.degree > 180 || c.places == 0 {
		return c, text.No
	}
	if c.axis == 0 {
		switch {
		case w.WordBefore(i, longitudeWords):
			c.word = 'E'
		case w.WordBefore(i, latitudeWords):
			c.word = 'N'
		}
	}
	if c.axis == 0 {
		if k, v = w.directionBehind(k, &c); v == text.Open {
			return c, text.Open
		}
	}
	c.end = k
	return c, text.Yes
}

// degrees reads the digits before a point or a sign, over one stray blank.
func (w *Detector) degrees(k int) (whole string, end int, v text.Verdict) {
	whole, end, v = w.digits(k, 3)
	if v != text.Yes || end == k || end-k > 3 {
		return "", k, v & text.Open
	}
	if !text.IsBlank(w.At(end)) || end-k > 2 && text.IsDigit(w.At(end+1)) {
		return whole, end, text.When(w.At(end) == text.Unknown, text.Open, text.Yes)
	}
	if r := w.At(end + 1); r == text.Unknown || r == '°' || r == '.' {
		return whole, end + 1, text.When(r == text.Unknown, text.Open, text.Yes)
	}
	more, to, v := w.digits(end+1, 2)
	if v == text.Open || w.At(to) == text.Unknown {
		return "", k, text.Open
	}
	if v == text.Yes && len(whole)+len(more) <= 3 && strings.ContainsRune(".。°", w.At(to)) {
		return whole + more, to, text.Yes
	}
	return whole, end, text.Yes
}

// digits reads up to most digits, which are sixteen or fewer.
func (w *Detector) digits(i, most int) (s string, end int, v text.Verdict) {
	end, v = w.While(i, most+1, func(r rune) bool { return text.IsDigit(r) || text.Misread(r) > 0 })
	if v == text.Open {
		return "", end, text.Open
	}
	var room [16]byte
	b := room[:0]
	for k := i; k < end; k++ {
		r := w.At(k)
		if sign := text.Misread(r); sign > 0 {
			r = rune(sign)
		}
		b = append(b, byte(r))
	}
	if len(b) > 0 && !w.Any(i, end, text.IsDigit) {
		return "", i, text.No
	}
	return string(b), end, text.Yes
}

// fraction reads the digits behind a point, over one stray blank.
func (w *Detector) fraction(i int) (s string, end int, v text.Verdict) {
	s, end, v = w.digits(i, 12)
	if v == text.No {
		return "", i, text.Yes
	}
	if v == text.Open || !text.IsBlank(w.At(end)) || len(s) > 5 {
		if w.At(end) == text.Unknown {
			v = text.Open
		}
		return s, end, v
	}
	more, to, v := w.digits(end+1, 6)
	if v == text.Open || v == text.Yes && w.At(to) == text.Unknown {
		return s, end, text.Open
	}
	if v == text.Yes && to > end+1 && len(more)+len(s) <= 6 && !strings.ContainsRune(".。", w.At(to)) {
		return s + more, to, text.Yes
	}
	return s, end, text.Yes
}

// minutes reads what stands behind whole degrees: a sign, minutes, seconds.
func (w *Detector) minutes(k int, c *coordinate) (int, text.Verdict) {
	r := w.At(k)
	if r == ' ' {
		if next := w.At(k + 1); next == text.Unknown {
			return k, text.Open
		} else if next == '°' {
			k, r = k+1, next
		}
	}
	if r != '°' && r != '度' && r != 'º' {
		return k, text.Yes
	}
	c.mark = true
	k++
	for part := 60.0; part <= 3600; part *= 60 {
		from, v := w.While(k, 1, text.IsBlank)
		if v == text.Open {
			return k, text.Open
		}
		s, end, v := w.digits(from, 3)
		if v == text.Open {
			return k, text.Open
		}
		if v == text.No || end == from || len(s) > 2 {
			return k, text.Yes
		}
		if text.IsBlank(w.At(end)) { // a stray blank
			more, to, v := w.digits(end+1, 1)
			if v == text.Open || w.At(to) == text.Unknown {
				return k, text.Open
			}
			if v == text.Yes && len(s)+len(more) <= 2 && w.At(to) > 0 && strings.ContainsRune("′'’\"″”分秒`", w.At(to)) {
				s, end = s+more, to
			}
		}
		if r := w.At(end); r == '.' {
			_, to, v := w.digits(end+1, 6)
			if v == text.Open {
				return k, text.Open
			}
			end = to
		}
		to, v := w.While(end, 2, func(r rune) bool { return strings.ContainsRune("′'’\"″”分秒`", r) })
		if v == text.Open {
			return k, text.Open
		}
		if to == end {
			return k, text.Yes
		}
		c.places = 9
		c.degree += float64(decimal(s)) / part
		k = to
	}
	return k, text.Yes
}

var (
	longitudeWords = text.ListOf("经度", "lng", "lon", "longitude")
	latitudeWords  = text.ListOf("纬度", "lat", "latitude")
)

// directionWords name an axis; longer ones first.
var directionWords = []struct {
	word string
	axis byte
	sign bool // N and the like: only right before a number
}{
	{"北纬", 'N', false}, {"南纬", 'N', false}, {"东经", 'E', false}, {"西经", 'E', false}, {"n", 'N', true}, {"e", 'E', true},
}

// direction reads a direction before a coordinate at cell i.
func (w *Detector) direction(i int, c *coordinate) (int, text.Verdict) {
	switch text.Lower(w.At(i)) {
	case 'n', 'e', '北', '南', '东', '西', text.Unknown:
	default:
		return i, text.Yes
	}
	for _, d := range directionWords {
		k, v := w.Literal(i, d.word)
		if v == text.Open {
			return i, text.Open
		}
		if v == text.No {
			continue
		}
		k, v = w.While(k, 2, func(r rune) bool { return text.IsBlank(r) || r == ':' || r == '约' })
		if v == text.Open {
			return i, text.Open
		}
		if d.sign && k == i+1 && !text.IsDigit(w.At(k)) && text.Misread(w.At(k)) == 0 {
			return i, text.When(w.At(k) == text.Unknown, text.Open, text.Yes)
		}
		c.axis, c.mark, c.han = d.axis, true, !d.sign
		return k, text.Yes
	}
	return i, text.Yes
}

// directionBehind reads N, E, 北 behind a coordinate.
func (w *Detector) directionBehind(k int, c *coordinate) (int, text.Verdict) {
	at, v := w.While(k, 1, text.IsBlank)
	if v == text.Open {
		return k, text.Open
	}
	r, next := w.At(at), w.At(at+1)
	if r == text.Unknown {
		return k, text.Open
	}
	axis := byte(0)
	switch {
	case r == 'N', c.mark && text.Upper(r) == 'N' || c.mark && text.Upper(r) == 'S':
		axis = 'N'
	case r == 'E', c.mark && text.Upper(r) == 'E' || c.mark && text.Upper(r) == 'W':
		axis = 'E'
	}
	if axis == 0 {
		return k, text.Yes
	}
	if next == text.Unknown {
		return k, text.Open
	}
	if text.IsLetter(next) || at > k && text.IsAlnum(next) {
		return k, text.Yes
	}
	c.axis, c.mark = axis, true
	return at + 1, text.Yes
}

// degreesAhead reports whether a coordinate may begin at cell i with r: a direction before a number, or up to three digits and what stands
// behind degrees.
func (w *Detector) degreesAhead(i int, r rune) bool {
	if next := w.At(i + 1); text.IsLetter(r) && text.Misread(r) == 0 {
		return text.IsDigit(next) || text.Misread(next) != 0 || text.IsBlank(next) || next == ':' || next == '约' || next == text.Unknown
	} else if !text.IsDigit(r) && text.Misread(r) == 0 {
		return true
	}
	for k := i + 1; k < i+4; k++ {
		if r = w.At(k); !text.IsDigit(r) && text.Misread(r) == 0 {
			return text.IsBlank(r) || r == '.' || r == '。' || r == '°' || r == '度' || r == 'º' || r == text.Unknown
		}
	}
	return false
}
