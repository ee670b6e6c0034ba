package classify

import "strings"

func isDSNText(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune("/@\"'`<>", r) }

// dsn finds the password in scheme://user:password@host, from the colon of the scheme on. One blank or line break may be in it, and signs
// that belong into an escape.
func dsn(w *window, i int) (match, verdict) {
	if !isAlnum(w.at(i - 1)) {
		return match{}, no
	}
	k, v := w.literal(i, "://")
	if v != yes {
		return match{}, v
	}
	k, v = w.while(k, 64, func(r rune) bool { return isDSNText(r) && r != ':' })
	if v == open {
		return match{}, open
	}
	if r := w.at(k); r != ':' {
		user := i + len("://")
		if r == '@' && w.strong(user, k) && k-user >= 20 {
			return match{kind: kSecret, start: user, end: k, form: 0.8}, yes // a key without a password
		}
		return match{}, when(r == unknown, open, no)
	}
	k, v = w.while(k+1, 1, isBlank)
	if v == open {
		return match{}, open
	}
	end, v := w.while(k, maxSecret, isDSNText)
	if v == open {
		return match{}, open
	}
	if end-k == maxSecret { // undecided at the limit
		return match{kind: kSecret, start: k, end: end, form: 0.5, more: &run{kSecret, isDSNText}}, yes
	}
	if isBlank(w.at(end)) && w.any(k, end, isLetter) {
		if end, v = w.while(end+1, maxSecret-(end-k), isDSNText); v == open {
			return match{}, open
		}
	}
	if r := w.at(end); r != '@' || end == k {
		return match{}, when(r == unknown, open, no)
	}
	host, v := w.while(end+1, 64, func(r rune) bool { return isDSNText(r) || r == '@' })
	if v == open {
		return match{}, open
	}
	for n := end + 1; n < host; n++ { // the last one counts
		if w.cells[n].r == '@' {
			end = n
		}
	}
	if w.placeholder(k, end) {
		return match{}, no
	}
	return match{kind: kSecret, start: k, end: end, form: 0.9}, yes
}

// goDSN finds the password in user:password@tcp(host), as drivers of Go have it.
func goDSN(w *window, i int) (match, verdict) {
	k, v := w.while(i, 24, func(r rune) bool { return isToken(r) || r == '.' })
	if v == open || w.at(k) != ':' {
		return match{}, when(v == open || w.at(k) == unknown, open, no)
	}
	end, v := w.while(k+1, 64, isDSNText)
	if v == open || end < k+5 || w.at(end) != '@' {
		return match{}, when(v == open || w.at(end) == unknown, open, no)
	}
	for _, net := range []string{"@tcp(", "@unix("} {
		if _, v = w.literal(end, net); v != no {
			return match{kind: kSecret, start: k + 1, end: end, form: 0.9}, v
		}
	}
	return match{}, no
}

// secretFlag finds the value of -u name:password and of -p glued to it.
func secretFlag(w *window, i int) (match, verdict) {
	for _, flag := range []string{"-u ", "--user "} {
		k, v := w.literal(i, flag)
		if v == open {
			return match{}, open
		}
		if v == no {
			continue
		}
		k, _ = w.while(k, 1, func(r rune) bool { return r == '"' || r == '\'' })
		k, v = w.while(k, 48, func(r rune) bool { return isValue(r) && r != ':' })
		if v == open || w.at(k) != ':' {
			return match{}, when(v == open || w.at(k) == unknown, open, no)
		}
		end, _, v := w.token(k+1, 0, isValue)
		if v == open || end-k < 5 || w.placeholder(k+1, end) || !w.any(k+1, end, isLetter) || !w.guessless(k+1, end) {
			return match{}, when(v == open, open, no)
		}
		return match{kind: kSecret, start: k + 1, end: end, form: 0.8}, yes
	}
	flag := lower(w.at(i + 1))
	if flag != 'p' && flag != 'a' && flag != 'w' {
		return match{}, when(flag == unknown, open, no)
	}
	k, v := w.while(i+2, 1, isBlank)
	if v == open || k == i+2 && flag != 'p' {
		return match{}, when(v == open, open, no)
	}
	quoted, _ := w.while(k, 1, func(r rune) bool { return r == '"' || r == '\'' })
	end, v := w.while(quoted, 64, isValue)
	if v == open || !w.strong(quoted, end) || w.any(quoted, end, func(r rune) bool { return strings.ContainsRune(":/=.", r) }) {
		return match{}, when(v == open, open, no)
	}
	return match{kind: kSecret, start: quoted, end: end, form: 0.7}, yes
}

// logins are words that a name and a password with a slash between follow.
var logins = []string{"jdbc:oracle:thin:", "sqlplus", "expdp", "impdp", "exp", "imp", "rman"} //nolint:gochecknoglobals // a constant table

// loginNames are names of users that everybody has.
var loginNames = []string{ //nolint:gochecknoglobals // a constant table
	"root", "admin", "administrator", "sa", "postgres", "sysadmin", "superuser", "guest", "dba",
}

// loginPair finds the password of name/password@host behind the commands of a database, and of root/password.
func loginPair(w *window, i int) (match, verdict) {
	r := lower(w.at(i))
	for _, word := range logins {
		if rune(word[0]) != r {
			continue
		}
		k, v := w.literal(i, word)
		if v == open {
			return match{}, open
		}
		if v == no || word[len(word)-1] != ':' && !isBlank(w.at(k)) {
			continue
		}
		name, _ := w.while(k, 1, isBlank)
		slash, v := w.while(name, 32, func(r rune) bool { return isToken(r) || r == '.' })
		if v == open || w.at(slash) != '/' || slash == name {
			return match{}, when(v == open || w.at(slash) == unknown, open, no)
		}
		end, v := w.while(slash+1, 64, isDSNText)
		if v == open || end < slash+5 || w.placeholder(slash+1, end) {
			return match{}, when(v == open, open, no)
		}
		return match{kind: kSecret, start: slash + 1, end: end, form: 0.8}, yes
	}
	return rootPair(w, i)
}

// rootPair finds the password behind root / and the like; it has a sign, a digit and a letter.
func rootPair(w *window, i int) (match, verdict) {
	k, v := w.oneOf(i, loginNames)
	if v != yes {
		return match{}, v
	}
	k, _ = w.while(k, 1, isBlank)
	if r := w.at(k); r != '/' && r != '|' {
		return match{}, when(r == unknown, open, no)
	}
	k, _ = w.while(k+1, 1, isBlank)
	end, v := w.while(k, 40, isValue)
	if v == open || end < k+6 || w.any(k, end, func(r rune) bool { return r == '/' || r == '\\' }) {
		return match{}, when(v == open, open, no)
	}
	if !w.any(k, end, isLetter) || !w.any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!", r) }) {
		return match{}, no
	}
	return match{kind: kSecret, start: k, end: end, form: 0.7}, yes
}
