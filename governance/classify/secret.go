package classify

func isBearer(r rune) bool {
	return isToken(r) || r == '.' || r == '~' || r == '+' || r == '/' || r == '='
}

// secrets runs the detectors of credentials that words or their beginnings give away, apart from private keys.
func (d *decision) secrets(w *window, i int) {
	r, left, known := lower(w.at(i)), w.at(i-1), &secretIndex
	switch {
	case r >= 0x80:
		if words := known.han[r]; words != nil {
			d.ask(hanKeyword(w, i, words))
		}
	case r == ':':
		d.ask(dsn(w, i))
	case r == '-' && (isBlank(left) || left == edge):
		d.ask(secretFlag(w, i))
	case isAlnum(r) && known.begin(w, i):
		d.keywords(w, i, r, left)
		if !isAlnum(left) && left != '_' {
			d.headed(w, i, r)
		}
	}
}

// logins runs the detectors of credentials that are known by a sign inside.
func (d *decision) logins(w *window, i int) {
	r, left := lower(w.at(i)), w.at(i-1)
	apart := !isAlnum(left)
	if isDigit(r) && (apart || lower(left) == 't') {
		d.ask(botToken(w, i))
	}
	if isLetter(r) && apart && left != '_' {
		d.ask(goDSN(w, i))
	}
	if isHex(r) && apart && (left != '_' || isDigit(r)) {
		d.ask(zhipuKey(w, i))
	}
}

// headed runs the detectors of credentials that are known by what they begin with.
func (d *decision) headed(w *window, i int, r rune) {
	known := &secretIndex
	for n := range known.forms[r] {
		d.ask(formed(w, i, &known.forms[r][n]))
	}
	for _, u := range known.urls[r] {
		d.ask(secretURL(w, i, u))
	}
	switch r {
	case 'e':
		d.ask(jwt(w, i))
	case 'b':
		d.ask(authorization(w, i, "bearer ", 16))
		d.ask(authorization(w, i, "basic ", 12))
	}
	d.ask(loginPair(w, i))
}

// zhipuKey finds 32 hexadecimal digits, a dot and 16 letters and digits.
func zhipuKey(w *window, i int) (match, verdict) {
	k, v := w.while(i, 33, isHex)
	if v == open || k-i != 32 || w.at(k) != '.' {
		return match{}, when(v == open || k-i == 32 && w.at(k) == unknown, open, no)
	}
	end, v := w.while(k+1, 17, isAlnum)
	if v == open || end-k != 17 || !w.any(k+1, end, isLetter) {
		return match{}, v & open
	}
	return match{kind: kSecret, start: i, end: end, form: 0.9}, yes
}

// token returns the end of a secret's characters from i on, also behind one blank or line break where what follows is no word either; more
// is set when it is longer than one piece. size is how many there are, 0 where that is not known.
func (w *window) token(i, size int, in func(rune) bool) (end int, more *run, v verdict) {
	end, v = w.while(i, maxSecret, in)
	if v == open {
		return end, nil, open
	}
	if end-i == maxSecret {
		return end, &run{kSecret, in}, yes
	}
	if !isBlank(w.at(end)) {
		return end, nil, yes
	}
	rest, v := w.while(end+1, maxSecret-(end-i), in)
	if v == open {
		return end, nil, open
	}
	if w.tokenGoesOn(i, end, rest, size) {
		return rest, nil, yes
	}
	return end, nil, yes
}

// tokenGoesOn reports whether the characters between the blank at end and rest belong to what begins at cell i.
func (w *window) tokenGoesOn(i, end, rest, size int) bool {
	tail := rest - end - 1
	digits, letters := w.any(end+1, rest, isDigit), w.any(end+1, rest, isLetter)
	switch {
	case tail == 0:
		return false
	case size > 0 && end-i+tail == size:
		return true
	case w.any(end+1, rest-1, func(r rune) bool { return r == '=' || r == ':' }): // an assignment of its own
		return false
	case end-i < 4:
		return end > i && tail >= 12 && digits && letters
	}
	return tail > 3 && digits && letters || tail > 2 && w.mixed(end+1, rest)
}

func formed(w *window, i int, f *secretForm) (match, verdict) {
	body, v := w.literal(i, f.head)
	if v != yes {
		return match{}, v
	}
	if f.caps && w.any(i, body, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
		return match{}, no
	}
	end, more, v := w.token(body, f.size, f.in)
	if v == open {
		return match{}, open
	}
	if end-body < f.min || !w.any(body+1, end-1, func(r rune) bool { return r != w.at(body) }) || f.min == f.size && end-body == f.min && isAlnum(w.at(end)) || !w.any(body, end, isDigit) && !(f.caps && end-body == f.min) {
		return match{}, no
	}
	return match{kind: kSecret, start: i, end: end, form: 0.95, more: more}, yes
}

// secretURL finds the part of an address that whoever knows it may post to.
func secretURL(w *window, i int, head string) (match, verdict) {
	body, v := w.literal(i, head)
	if v != yes {
		return match{}, v
	}
	end, more, v := w.token(body, 0, func(r rune) bool { return isPath(r) || r == ':' })
	if v == open {
		return match{}, open
	}
	if end-body < 20 {
		return match{}, no
	}
	return match{kind: kSecret, start: body, end: end, form: 0.9, more: more}, yes
}

// jwt: three base64url parts; the first begins with the encoding of `{"`. Paper may have a full stop for a dot.
func jwt(w *window, i int) (match, verdict) {
	if _, v := w.literal(i, "eyj"); v != yes {
		return match{}, v
	}
	end, more, v := w.token(i, 0, isJWT)
	for v == yes && more == nil && w.at(end) == '。' {
		if end, more, v = w.token(end+1, 0, isJWT); more != nil {
			break
		}
	}
	if v == open {
		return match{}, open
	}
	dots := 0
	for _, c := range w.cells[i:end] {
		if c.r == '.' || c.r == '。' {
			dots++
		}
	}
	if more == nil && (dots < 2 || end-i < 32) {
		return match{}, no
	}
	return match{kind: kSecret, start: i, end: end, form: 0.95, more: more}, yes
}

func authorization(w *window, i int, scheme string, least int) (match, verdict) {
	body, v := w.literal(i, scheme)
	if v != yes {
		return match{}, v
	}
	if isBlank(w.at(body)) {
		body++
	}
	end, more, v := w.token(body, 0, isBearer)
	if v == open {
		return match{}, open
	}
	if end-body < least || !w.any(body, end, isDigit) && !w.mixed(body, end) {
		return match{}, no
	}
	return match{kind: kSecret, start: body, end: end, form: 0.9, more: more}, yes
}

// botToken finds the tokens of Telegram's bots: their number, a colon and 35 characters that begin with AA.
func botToken(w *window, i int) (match, verdict) {
	k, v := w.while(i, 11, isDigit)
	if v == open {
		return match{}, open
	}
	if k-i < 8 || k-i > 10 || w.at(k) != ':' {
		return match{}, when(k-i >= 8 && w.at(k) == unknown, open, no)
	}
	if _, v = w.literal(k+1, "aa"); v != yes {
		return match{}, v
	}
	end, _, v := w.token(k+1, 35, isToken)
	if v != yes || end-k < 34 {
		return match{}, v & open
	}
	return match{kind: kSecret, start: i, end: end, form: 0.95}, yes
}

// mixed reports whether both cases of letters occur behind the first character.
func (w *window) mixed(i, end int) bool {
	return w.any(i+1, end, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		w.any(i, end, func(r rune) bool { return r >= 'a' && r <= 'z' })
}
