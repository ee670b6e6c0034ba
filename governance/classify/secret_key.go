package classify

import "strings"

func isValue(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune("\"'`,;<>(){}", r) }

// secretKeys are words, in lower case, whose value is a credential. Behind those of the second row only what looks like one counts; the
// third row may be the end of a word.
const (
	secretKeys = "password passwd passphrase passcode pwd psw secret token api_key app_key access_key private_key client_secret credential credentials app_secret " +
		"access_secret access_token secret_id authorization sign_key signing_key encrypt_key encryption_key master_key aes_key des_key hmac_key jwt_key cookie " +
		"session_id jsessionid phpsessid ak sk account_key shared_access_key masterauth requirepass auth_token secret_key pin码"
	weakSecretKeys  = " pass auth session sid sig csrf key pat " //nolint:gosec // words
	innerSecretKeys = " password passwd secret passphrase api_key token pwd "
)

// notSecret are the ends of keys that say something about a credential.
const notSecret = " type types name length len expire expires expiry expired ttl url uri path file version count policy field label hint min max size status state usage limit " +
	"limits endpoint hash_algo algorithm algo id_type in at required reset manager service provider class prefix header rotation days index format valid "

// secretKey is one of them.
type secretKey struct {
	word string
	weak bool
}

// keywords runs the detector of assignments for every word that may begin at cell i.
func (d *decision) keywords(w *window, i int, r, left rune) {
	inner := isLetter(left)
	if inner && !(w.at(i) < 'a' && left >= 'a') && r != 'p' && r != 's' { // userPassword, PGPASSWORD
		return
	}
	keys := secretIndex.keys[r]
	if inner {
		keys = secretIndex.inner[r]
	}
	for n := range keys {
		d.ask(keyword(w, i, &keys[n]))
	}
}

// How a value is assigned.
const (
	bySign   = iota // password=x
	byBlank         // password x, password is x
	bySuffix        // password_2=x
)

// keyword finds the value behind a word such as password: after a colon or an equals sign, or is and 是; quotes, blanks and brackets may
// stand between.
func keyword(w *window, i int, key *secretKey) (match, verdict) {
	k, v := w.key(i, key.word)
	if v != yes {
		return match{}, v
	}
	if key.word == "pin码" && isDigit(w.at(k)) {
		return pin(w, k)
	}
	how := bySign
	if r := w.at(k); isToken(r) || r == '.' {
		if isLetter(r) && !(r <= 'Z' && w.at(k-1) >= 'a') {
			return match{}, no // another word
		}
		end, v := w.while(k, 24, func(r rune) bool { return isToken(r) || r == '.' })
		if v == open {
			return match{}, open
		}
		if w.notSecret(k, end) {
			return match{}, no
		}
		k, how = end, bySuffix
	}
	k, quote, signs, v := w.assignment(k)
	if v != yes {
		return match{}, v
	}
	if signs == 0 && key.word != "pin码" {
		if how == bySuffix && !isUpperKey(w, i) {
			return match{}, no
		}
		how = byBlank
	}
	end, more, v := w.secretValue(k, quote)
	if v == open {
		return match{}, open
	}
	if more == nil && !w.isSecretValue(i, k, end, how, key, quote) {
		return match{}, no
	}
	return match{kind: kSecret, start: k, end: end, form: 0.7, more: more}, yes
}

// pin finds the digits that open a token or a card, right behind their label.
func pin(w *window, i int) (match, verdict) {
	end, v := w.while(i, 9, isDigit)
	if v == open {
		return match{}, open
	}
	if r := w.at(end); end-i < 4 || end-i > 8 || isAlnum(r) || r > 0 && strings.ContainsRune("位个次", r) {
		return match{}, no
	}
	return match{kind: kSecret, start: i, end: end, form: 0.7}, yes
}

// key compares the cells at i with a key: where it has an underscore a dash, a dot, a blank or nothing may be.
func (w *window) key(i int, word string) (end int, v verdict) {
	for _, want := range word {
		got := w.at(i)
		switch {
		case got == unknown:
			return i, open
		case want == '_':
			if got != '_' && got != '-' && got != '.' && got != ' ' {
				continue
			}
		case lower(got) != want:
			return i, no
		}
		i++
	}
	return i, yes
}

// isUpperKey reports whether the key at cell i is written as the variables of an environment are.
func isUpperKey(w *window, i int) bool { r := w.at(i); return r >= 'A' && r <= 'Z' }

// notSecret reports whether the last part of the key that ends before cell end speaks about a credential.
func (w *window) notSecret(k, end int) bool {
	start := end
	for start > k && isAlnum(w.cells[start-1].r) && !(start < end && w.cells[start].r <= 'Z' && w.cells[start-1].r >= 'a') {
		start--
	}
	last := strings.ToLower(w.ascii(start, end))
	return last == "" || strings.Contains(notSecret, " "+last+" ")
}

// isSecretValue reports whether cells k to end are a value and no word of a program or of prose.
func (w *window) isSecretValue(i, k, end, how int, key *secretKey, quote rune) bool {
	if end-k < 6 || w.placeholder(k, end) {
		return false
	}
	for _, other := range []string{"http://", "https://", "bearer ", "basic "} { // they have rules of their own
		if _, v := w.literal(k, other); v == yes {
			return false
		}
	}
	switch {
	case quote == 0 && (w.at(end) == '(' && w.cells[end].size == 1 || w.path(k, end)): // a call, or a field of something
		return false
	case how == byBlank && quote == 0:
		flag := w.at(i-1) == '-' || isUpperKey(w, i) && w.any(i, k, func(r rune) bool { return r == '_' })
		return w.strong(k, end) || flag && w.guessless(k, end)
	case key.word == "key":
		return end-k >= 20 && w.any(k, end, isDigit) && w.any(k, end, isLetter) && !w.otherKey(i)
	case how != bySign, key.weak:
		return end-k >= 8 && w.any(k, end, isDigit) && w.any(k, end, isLetter)
	}
	return w.guessless(k, end)
}

// otherKey reports whether the word before the key at cell i makes it one of a table or of a cache.
func (w *window) otherKey(i int) bool {
	k := i
	for k > max(0, i-16) && (isLetter(w.at(k-1)) || w.at(k-1) == '-' || w.at(k-1) == '_' || w.at(k-1) == ' ') {
		k--
	}
	before := strings.ToLower(strings.Trim(w.ascii(k, i), " -_"))
	last := before[strings.LastIndexAny(before, " -_")+1:]
	return last != "" && strings.Contains(" primary foreign cache public partition idempotency sort row routing object hash unique map dict redis lock s3 file index the a same ", " "+last+" ")
}

// guessless reports whether the cells have something that plain words have not.
func (w *window) guessless(k, end int) bool {
	return w.any(k, end, isDigit) || w.mixed(k, end) || w.any(k, end, isSymbol)
}

// strong reports whether the cells look like a credential by themselves.
func (w *window) strong(k, end int) bool {
	digits, letters := w.any(k, end, isDigit), w.any(k, end, isLetter)
	if end-k < 8 || !digits || !letters {
		return false
	}
	return end-k >= 16 || w.mixed(k, end) || w.any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!+=~?", r) })
}

// path reports whether the cells are names of a program that dots join, without a digit.
func (w *window) path(k, end int) bool {
	dots := 0
	for _, c := range w.cells[k:end] {
		switch {
		case c.r == '.':
			dots++
		case !isLetter(c.r) && c.r != '_' && c.r != '[' && c.r != ']':
			return false
		}
	}
	return dots > 0
}

// placeholders are how such values begin.
var placeholders = []string{ //nolint:gochecknoglobals // a constant table
	"your", "xxx", "***", "...", "process.env", "os.environ", "os.getenv", "env.", "config.", "secrets.", "settings.", "vault:", "vault.", "var.", "ref+", "arn:", "self.", "this.",
	"request.", "example", "placeholder", "changeme_", "replace",
}

// placeholder reports whether the cells stand for a value that is filled in elsewhere.
func (w *window) placeholder(k, end int) bool {
	first := w.at(k)
	if first == '$' && end-k < 40 || first == '@' && w.at(end-1) == '@' || first == '{' || first == '%' && end-k < 12 || first == '<' {
		return true
	}
	same := 1
	for n := k + 1; n < end; n++ {
		if same++; w.cells[n].r != w.cells[n-1].r || !strings.ContainsRune("xX*.#", w.cells[n].r) {
			same = 1
		}
		if same > 5 {
			return true
		}
	}
	for _, head := range placeholders {
		if _, v := w.literal(k, head); v == yes {
			return true
		}
	}
	return false
}

// secretValue returns the end of the value at cell k: up to the quote that it is in, or of the characters of values.
func (w *window) secretValue(k int, quote rune) (end int, more *run, v verdict) {
	if quote != 0 {
		end, v = w.while(k, maxSecret, func(r rune) bool { return r != quote && r >= ' ' && r < 0x7f })
		if v == open {
			return end, nil, open
		}
		if end > k && w.at(end) == quote {
			return end, nil, yes
		}
	}
	if end, more, v = w.token(k, 0, isValue); v == open || more != nil {
		return end, more, v
	}
	for n := k + 1; n < end; n++ { // the next parameter of an address
		if w.cells[n].r != '&' {
			continue
		}
		name, _ := w.while(n+1, 24, func(r rune) bool { return isLetter(r) || r == '_' })
		if name > n+1 && w.at(name) == '=' {
			return n, nil, yes
		}
	}
	return end, nil, yes
}

// assignment returns where the value of the key that ends before cell k begins, the quote it is in, and how many signs assign it. It is no
// where nothing is assigned.
func (w *window) assignment(k int) (value int, quote rune, signs int, v verdict) {
	from := k
	for n := 0; n < 12; n++ {
		r := w.at(k)
		switch {
		case r == unknown:
			return k, 0, 0, open
		case r == ':' || r == '=' || r == '是' || r == '为' || r == '>' && (signs > 0 || n == 0):
			signs++
			quote = 0
		case r == '"' || r == '\'' || r == '`':
			quote = r
		case r == '“' || r == '‘':
			quote = r + 1
		case r == '[' && n == 0, r == ']' && quote != 0, r == '|' && signs == 0 && n < 2:
		case r == '(' && n == 0:
			next := w.at(k + 1)
			if next == unknown {
				return k, 0, 0, open
			}
			if next != '"' && next != '\'' {
				return k, 0, 0, no
			}
			signs++
		case r == ' ', r == '\n' && signs > 0, r == '→', r == '-' && w.at(k+1) == '>':
		case isHan(r) && strings.ContainsRune("返回填写值改换成新旧的给你我他里面串放贴发", r):
		case r == ',' && w.at(k+1) == '是':
		case r == ',' || r == '\n':
			named, v := w.namedValue(k + 1)
			if v != yes {
				return k, 0, 0, v
			}
			k = named
			quote = 0
			continue
		default:
			if quote != 0 && signs == 0 {
				if named, v := w.literal(k, "value"); v != no {
					k, quote = named, 0
					continue
				}
			}
			return w.assigned(from, k, quote, signs)
		}
		k++
	}
	return w.assigned(from, k, quote, signs)
}

// assigned looks once more at what stands between a key and a value: is and to in English, and at least a blank or a quote.
func (w *window) assigned(from, k int, quote rune, signs int) (int, rune, int, verdict) {
	if signs == 0 && k == from {
		return k, 0, 0, no
	}
	if signs == 0 && quote == 0 {
		for _, word := range []string{"is ", "was ", "to ", "by "} {
			if end, v := w.literal(k, word); v != no {
				return end, 0, 0, v
			}
		}
	}
	return k, quote, signs, yes
}

// namedValue returns the end of the word value where the name of a key and its value stand apart: - name: KEY, value: ….
func (w *window) namedValue(k int) (int, verdict) {
	k, v := w.while(k, 24, func(r rune) bool { return isBlank(r) || r == '"' || r == '\'' || r == '-' })
	if v == open {
		return k, open
	}
	return w.literal(k, "value")
}

func isSymbol(r rune) bool { return strings.ContainsRune("@#$%^&*!_-+=~?", r) && r > 0 }
