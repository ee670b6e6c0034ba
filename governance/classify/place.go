package classify

import (
	"strings"
	"unicode/utf8"
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
func coordinates(w *window, i int) (match, verdict) {
	k := i
	bracket := false
	if r := w.at(k); r == '(' || r == '[' || r == '（' {
		bracket = true
		k++
	}
	first, v := w.coordinate(k)
	if v != yes {
		return match{}, v
	}
	gap, v := w.while(first.end, 4, func(r rune) bool { return isBlank(r) || strings.ContainsRune(",，、;；/|", r) })
	if v == open || w.at(gap) == unknown {
		return match{}, open
	}
	if gap > first.end || first.mark {
		second, v := w.coordinate(gap)
		if v == open {
			return match{}, open
		} else if v == yes && pair(first, second) {
			m := match{kind: kCoordinates, start: i, end: second.end, form: 0.2}
			switch places := min(first.places, second.places); {
			case first.axis != 0 && second.axis != 0:
				m.form = 0.75
			case places >= 4:
				m.form = 0.7
			case places == 3:
				m.form = 0.4
			}
			if bracket {
				if r := w.at(m.end); r == unknown {
					return match{}, open
				} else if r == ')' || r == ']' || r == '）' {
					m.end++
				} else {
					m.start++
				}
			}
			return w.anchor(m, w.hints(i))
		}
	}
	if bracket {
		return match{}, no // the one inside speaks for itself
	}
	m := match{kind: kCoordinates, start: first.start, end: first.end}
	switch {
	case first.places == 9 && first.axis != 0, first.han && first.places >= 2:
		m.form = 0.55
	case first.axis != 0 && first.places >= 3, first.word != 0 && first.places >= 2, first.places >= 4, first.places == 9:
		m.form = 0.15
	default:
		return match{}, no
	}
	h := w.hints(i)
	if !h.of.has(kCoordinates) || !h.tight && m.form < 0.5 {
		return m, when(m.form >= threshold, yes, no)
	}
	return w.anchor(m, h)
}

// pair reports whether two coordinates are a latitude and a longitude of China and its surroundings.
func pair(a, b coordinate) bool {
	if a.axis == 'E' || b.axis == 'N' || a.axis == 0 && b.axis == 0 && a.degree > b.degree {
		a, b = b, a
	}
	return a.axis != 'E' && b.axis != 'N' && a.degree >= 3 && a.degree <= 54 && b.degree >= 72 && b.degree <= 136
}

// coordinate reads a direction before, degrees with a point or with minutes and seconds, and a direction behind.
func (w *window) coordinate(i int) (c coordinate, v verdict) {
	c.start = i
	k, v := w.direction(i, &c)
	if v == open {
		return c, open
	}
	whole, end, v := w.degrees(k)
	if v != yes {
		return c, v
	}
	c.degree, k = float64(decimal(whole)), end
	if r := w.at(k); r == unknown {
		return c, open
	} else if r == '.' || r == '。' {
		fraction, end, v := w.fraction(k + 1)
		if v == open {
			return c, open
		}
		if end == k+1 || isLetter(w.at(end)) && !strings.ContainsRune("NESWnesw", w.at(end)) {
			return c, no
		}
		c.places, k = len(fraction), end
	} else if r != '°' && r != '度' && r != 'º' {
		return c, no
	}
	if k, v = w.minutes(k, &c); v == open {
		return c, open
	}
	if c.degree > 180 || c.places == 0 {
		return c, no
	}
	if c.axis == 0 {
		switch {
		case w.wordBefore(i, longitudeWords):
			c.word = 'E'
		case w.wordBefore(i, latitudeWords):
			c.word = 'N'
		}
	}
	if c.axis == 0 {
		if k, v = w.directionBehind(k, &c); v == open {
			return c, open
		}
	}
	c.end = k
	return c, yes
}

// degrees reads the digits before a point or a sign, over one stray blank.
func (w *window) degrees(k int) (whole string, end int, v verdict) {
	whole, end, v = w.digits(k, 3)
	if v != yes || end == k || end-k > 3 {
		return "", k, v & open
	}
	if !isBlank(w.at(end)) || end-k > 2 && isDigit(w.at(end+1)) {
		return whole, end, when(w.at(end) == unknown, open, yes)
	}
	if r := w.at(end + 1); r == unknown || r == '°' || r == '.' {
		return whole, end + 1, when(r == unknown, open, yes)
	}
	more, to, v := w.digits(end+1, 2)
	if v == open || w.at(to) == unknown {
		return "", k, open
	}
	if v == yes && len(whole)+len(more) <= 3 && strings.ContainsRune(".。°", w.at(to)) {
		return whole + more, to, yes
	}
	return whole, end, yes
}

// digits reads up to most digits, which are sixteen or fewer.
func (w *window) digits(i, most int) (text string, end int, v verdict) {
	end, v = w.while(i, most+1, func(r rune) bool { return isDigit(r) || misread(r) > 0 })
	if v == open {
		return "", end, open
	}
	var room [16]byte
	b := room[:0]
	for k := i; k < end; k++ {
		r := w.at(k)
		if sign := misread(r); sign > 0 {
			r = rune(sign)
		}
		b = append(b, byte(r))
	}
	if len(b) > 0 && !w.any(i, end, isDigit) {
		return "", i, no
	}
	return string(b), end, yes
}

// fraction reads the digits behind a point, over one stray blank.
func (w *window) fraction(i int) (text string, end int, v verdict) {
	text, end, v = w.digits(i, 12)
	if v == no {
		return "", i, yes
	}
	if v == open || !isBlank(w.at(end)) || len(text) > 5 {
		if w.at(end) == unknown {
			v = open
		}
		return text, end, v
	}
	more, to, v := w.digits(end+1, 6)
	if v == open || v == yes && w.at(to) == unknown {
		return text, end, open
	}
	if v == yes && to > end+1 && len(more)+len(text) <= 6 && !strings.ContainsRune(".。", w.at(to)) {
		return text + more, to, yes
	}
	return text, end, yes
}

// minutes reads what stands behind whole degrees: a sign, minutes, seconds.
func (w *window) minutes(k int, c *coordinate) (int, verdict) {
	r := w.at(k)
	if r == ' ' {
		if next := w.at(k + 1); next == unknown {
			return k, open
		} else if next == '°' {
			k, r = k+1, next
		}
	}
	if r != '°' && r != '度' && r != 'º' {
		return k, yes
	}
	c.mark = true
	k++
	for part := 60.0; part <= 3600; part *= 60 {
		from, v := w.while(k, 1, isBlank)
		if v == open {
			return k, open
		}
		text, end, v := w.digits(from, 3)
		if v == open {
			return k, open
		}
		if v == no || end == from || len(text) > 2 {
			return k, yes
		}
		if isBlank(w.at(end)) { // a stray blank
			more, to, v := w.digits(end+1, 1)
			if v == open || w.at(to) == unknown {
				return k, open
			}
			if v == yes && len(text)+len(more) <= 2 && w.at(to) > 0 && strings.ContainsRune("′'’\"″”分秒`", w.at(to)) {
				text, end = text+more, to
			}
		}
		if r := w.at(end); r == '.' {
			_, to, v := w.digits(end+1, 6)
			if v == open {
				return k, open
			}
			end = to
		}
		to, v := w.while(end, 2, func(r rune) bool { return strings.ContainsRune("′'’\"″”分秒`", r) })
		if v == open {
			return k, open
		}
		if to == end {
			return k, yes
		}
		c.places = 9
		c.degree += float64(decimal(text)) / part
		k = to
	}
	return k, yes
}

//nolint:gochecknoglobals // constant tables
var (
	longitudeWords = listOf("经度", "lng", "lon", "longitude")
	latitudeWords  = listOf("纬度", "lat", "latitude")
)

// directionWords name an axis; longer ones first.
var directionWords = []struct { //nolint:gochecknoglobals // a constant table
	word string
	axis byte
	sign bool // N and the like: only right before a number
}{
	{"北纬", 'N', false}, {"南纬", 'N', false}, {"东经", 'E', false}, {"西经", 'E', false}, {"n", 'N', true}, {"e", 'E', true},
}

// direction reads a direction before a coordinate at cell i.
func (w *window) direction(i int, c *coordinate) (int, verdict) {
	switch lower(w.at(i)) {
	case 'n', 'e', '北', '南', '东', '西', unknown:
	default:
		return i, yes
	}
	for _, d := range directionWords {
		k, v := w.literal(i, d.word)
		if v == open {
			return i, open
		}
		if v == no {
			continue
		}
		k, v = w.while(k, 2, func(r rune) bool { return isBlank(r) || r == ':' || r == '约' })
		if v == open {
			return i, open
		}
		if d.sign && k == i+1 && !isDigit(w.at(k)) && misread(w.at(k)) == 0 {
			return i, when(w.at(k) == unknown, open, yes)
		}
		c.axis, c.mark, c.han = d.axis, true, !d.sign
		return k, yes
	}
	return i, yes
}

// wordBefore reports whether one of the words stands before cell i with nothing but marks between.
func (w *window) wordBefore(i int, list *wordList) bool {
	e := i
	for e > max(0, i-6) && isConnector(w.cells[e-1].r) && !isHan(w.cells[e-1].r) || e > max(0, i-6) && e > 0 && (w.cells[e-1].r == '为' || w.cells[e-1].r == '是') {
		e--
	}
	if e == 0 || !list.last.has(lower(w.cells[e-1].r)) {
		return false
	}
	for _, word := range list.words {
		k := e
		for word != "" && k > 0 && k > i-leftMemory/2 {
			r, size := utf8.DecodeLastRuneInString(word)
			if lower(w.cells[k-1].r) != r {
				break
			}
			word = word[:len(word)-size]
			k--
		}
		if word == "" && (k == 0 || w.cells[k-1].r != '经') { // 经纬度 names both
			return true
		}
	}
	return false
}

// directionBehind reads N, E, 北 behind a coordinate.
func (w *window) directionBehind(k int, c *coordinate) (int, verdict) {
	at, v := w.while(k, 1, isBlank)
	if v == open {
		return k, open
	}
	r, next := w.at(at), w.at(at+1)
	if r == unknown {
		return k, open
	}
	axis := byte(0)
	switch {
	case r == 'N', c.mark && upper(r) == 'N' || c.mark && upper(r) == 'S':
		axis = 'N'
	case r == 'E', c.mark && upper(r) == 'E' || c.mark && upper(r) == 'W':
		axis = 'E'
	}
	if axis == 0 {
		return k, yes
	}
	if next == unknown {
		return k, open
	}
	if isLetter(next) || at > k && isAlnum(next) {
		return k, yes
	}
	c.axis, c.mark = axis, true
	return at + 1, yes
}
