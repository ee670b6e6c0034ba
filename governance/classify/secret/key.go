package secret

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

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

// keyName is one of them.
type keyName struct {
	word string
	weak bool
}

// keywords runs the detector of assignments for every word that may begin at cell i.
func (w *Detector) keywords(d *finding.Decision, i int, r, left rune) {
	inner := text.IsLetter(left)
	if inner && !(w.At(i) < 'a' && left >= 'a') && r != 'p' && r != 's' { // userPassword, PGPASSWORD
		return
	}
	keys := prefixes.keys[r]
	if inner {
		keys = prefixes.inner[r]
	}
	for n := range keys {
		d.Ask(keyword(w, i, &keys[n]))
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
func keyword(w *Detector, i int, key *keyName) (finding.Candidate, text.Verdict) {
	k, v := w.key(i, key.word)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	if key.word == "pin码" && text.IsDigit(w.At(k)) {
		return pin(w, k)
	}
	how := bySign
	if r := w.At(k); text.IsToken(r) || r == '.' {
		if text.IsLetter(r) && !(r <= 'Z' && w.At(k-1) >= 'a') {
			return finding.Candidate{}, text.No // another word
		}
		end, v := w.While(k, 24, func(r rune) bool { return text.IsToken(r) || r == '.' })
		if v == text.Open {
			return finding.Candidate{}, text.Open
		}
		if w.notSecret(k, end) {
			return finding.Candidate{}, text.No
		}
		k, how = end, bySuffix
	}
	k, quote, signs, v := w.assignment(k)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	if signs == 0 && key.word != "pin码" {
		if how == bySuffix && !isUpperKey(w, i) {
			return finding.Candidate{}, text.No
		}
		how = byBlank
	}
	end, more, v := w.secretValue(k, quote)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if more == nil && !w.isSecretValue(i, k, end, how, key, quote) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: k, End: end, Form: 0.7, More: more}, text.Yes
}

// pin finds the digits that open a token or a card, right behind their label.
func pin(w *Detector, i int) (finding.Candidate, text.Verdict) {
	end, v := w.While(i, 9, text.IsDigit)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if r := w.At(end); end-i < 4 || end-i > 8 || text.IsAlnum(r) || r > 0 && strings.ContainsRune("位个次", r) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: i, End: end, Form: 0.7}, text.Yes
}

// key compares the cells at i with a key: where it has an underscore a dash, a dot, a blank or nothing may be.
func (w *Detector) key(i int, word string) (end int, v text.Verdict) {
	for _, want := range word {
		got := w.At(i)
		switch {
		case got == text.Unknown:
			return i, text.Open
		case want == '_':
			if got != '_' && got != '-' && got != '.' && got != ' ' {
				continue
			}
		case text.Lower(got) != want:
			return i, text.No
		}
		i++
	}
	return i, text.Yes
}

// isUpperKey reports whether the key at cell i is written as the variables of an environment are.
func isUpperKey(w *Detector, i int) bool { r := w.At(i); return r >= 'A' && r <= 'Z' }

// notSecret reports whether the last part of the key that ends before cell end speaks about a credential.
func (w *Detector) notSecret(k, end int) bool {
	start := end
	for start > k && text.IsAlnum(w.At(start-1)) && !(start < end && w.At(start) <= 'Z' && w.At(start-1) >= 'a') {
		start--
	}
	last := strings.ToLower(w.ASCII(start, end))
	return last == "" || strings.Contains(notSecret, " "+last+" ")
}

// isSecretValue reports whether cells k to end are a value and no word of a program or of prose.
func (w *Detector) isSecretValue(i, k, end, how int, key *keyName, quote rune) bool {
	if end-k < 6 || w.placeholder(k, end) {
		return false
	}
	for _, other := range []string{"http://", "https://", "bearer ", "basic "} { // they have rules of their own
		if _, v := w.Literal(k, other); v == text.Yes {
			return false
		}
	}
	switch {
	case quote == 0 && (w.At(end) == '(' && w.Cell(end).Size == 1 || w.path(k, end)): // a call, or a field of something
		return false
	case how == byBlank && quote == 0:
		flag := w.At(i-1) == '-' || isUpperKey(w, i) && w.Any(i, k, func(r rune) bool { return r == '_' })
		return w.strong(k, end) || flag && w.guessless(k, end)
	case key.word == "key":
		return end-k >= 20 && w.Any(k, end, text.IsDigit) && w.Any(k, end, text.IsLetter) && !w.otherKey(i)
	case how != bySign, key.weak:
		return end-k >= 8 && w.Any(k, end, text.IsDigit) && w.Any(k, end, text.IsLetter)
	}
	return w.guessless(k, end)
}

// otherKey reports whether the word before the key at cell i makes it one of a table or of a cache.
func (w *Detector) otherKey(i int) bool {
	k := i
	for k > max(0, i-16) && (text.IsLetter(w.At(k-1)) || w.At(k-1) == '-' || w.At(k-1) == '_' || w.At(k-1) == ' ') {
		k--
	}
	before := strings.ToLower(strings.Trim(w.ASCII(k, i), " -_"))
	last := before[strings.LastIndexAny(before, " -_")+1:]
	return last != "" && strings.Contains(" primary foreign cache public partition idempotency sort row routing object hash unique map dict redis lock s3 file index the a same ", " "+last+" ")
}

// guessless reports whether the cells have something that plain words have not.
func (w *Detector) guessless(k, end int) bool {
	return w.Any(k, end, text.IsDigit) || w.mixed(k, end) || w.Any(k, end, isSymbol)
}

// strong reports whether the cells look like a credential by themselves.
func (w *Detector) strong(k, end int) bool {
	digits, letters := w.Any(k, end, text.IsDigit), w.Any(k, end, text.IsLetter)
	if end-k < 8 || !digits || !letters {
		return false
	}
	return end-k >= 16 || w.mixed(k, end) || w.Any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!+=~?", r) })
}

// path reports whether the cells are names of a program that dots join, without a digit.
func (w *Detector) path(k, end int) bool {
	dots := 0
	for _, c := range w.Cells(k, end) {
		switch {
		case c.R == '.':
			dots++
		case !text.IsLetter(c.R) && c.R != '_' && c.R != '[' && c.R != ']':
			return false
		}
	}
	return dots > 0
}

// placeholders are how such values begin.
var placeholders = []string{
	"your", "xxx", "***", "...", "process.env", "os.environ", "os.getenv", "env.", "config.", "secrets.", "settings.", "vault:", "vault.", "var.", "ref+", "arn:", "self.", "this.",
	"request.", "example", "placeholder", "changeme_", "replace",
}

// placeholder reports whether the cells stand for a value that is filled in elsewhere.
func (w *Detector) placeholder(k, end int) bool {
	first := w.At(k)
	if first == '$' && end-k < 40 || first == '@' && w.At(end-1) == '@' || first == '{' || first == '%' && end-k < 12 || first == '<' {
		return true
	}
	same := 1
	for n := k + 1; n < end; n++ {
		if same++; w.At(n) != w.At(n-1) || !strings.ContainsRune("xX*.#", w.At(n)) {
			same = 1
		}
		if same > 5 {
			return true
		}
	}
	for _, head := range placeholders {
		if _, v := w.Literal(k, head); v == text.Yes {
			return true
		}
	}
	return false
}

// secretValue returns the end of the value at cell k: up to the quote that it is in, or of the characters of values.
func (w *Detector) secretValue(k int, quote rune) (end int, more *finding.Run, v text.Verdict) {
	if quote != 0 {
		end, v = w.While(k, maxSecret, func(r rune) bool { return r != quote && r >= ' ' && r < 0x7f })
		if v == text.Open {
			return end, nil, text.Open
		}
		if end > k && w.At(end) == quote {
			return end, nil, text.Yes
		}
	}
	if end, more, v = w.token(k, 0, isValue); v == text.Open || more != nil {
		return end, more, v
	}
	for n := k + 1; n < end; n++ { // the next parameter of an address
		if w.At(n) != '&' {
			continue
		}
		name, _ := w.While(n+1, 24, func(r rune) bool { return text.IsLetter(r) || r == '_' })
		if name > n+1 && w.At(name) == '=' {
			return n, nil, text.Yes
		}
	}
	return end, nil, text.Yes
}

// assignment returns where the value of the key that ends before cell k begins, the quote it is in, and how many signs assign it. It is no
// where nothing is assigned.
func (w *Detector) assignment(k int) (value int, quote rune, signs int, v text.Verdict) {
	from := k
	for n := 0; n < 12; n++ {
		r := w.At(k)
		switch {
		case r == text.Unknown:
			return k, 0, 0, text.Open
		case r == ':' || r == '=' || r == '是' || r == '为' || r == '>' && (signs > 0 || n == 0):
			signs++
			quote = 0
		case r == '"' || r == '\'' || r == '`':
			quote = r
		case r == '“' || r == '‘':
			quote = r + 1
		case r == '[' && n == 0, r == ']' && quote != 0, r == '|' && signs == 0 && n < 2:
		case r == '(' && n == 0:
			next := w.At(k + 1)
			if next == text.Unknown {
				return k, 0, 0, text.Open
			}
			if next != '"' && next != '\'' {
				return k, 0, 0, text.No
			}
			signs++
		case r == ' ', r == '\n' && signs > 0, r == '→', r == '-' && w.At(k+1) == '>':
		case text.IsHan(r) && strings.ContainsRune("返回填写值改换成新旧的给你我他里面串放贴发", r):
		case r == ',' && w.At(k+1) == '是':
		case r == ',' || r == '\n':
			named, v := w.namedValue(k + 1)
			if v != text.Yes {
				return k, 0, 0, v
			}
			k = named
			quote = 0
			continue
		default:
			if quote != 0 && signs == 0 {
				if named, v := w.Literal(k, "value"); v != text.No {
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
func (w *Detector) assigned(from, k int, quote rune, signs int) (int, rune, int, text.Verdict) {
	if signs == 0 && k == from {
		return k, 0, 0, text.No
	}
	if signs == 0 && quote == 0 {
		for _, word := range []string{"is ", "was ", "to ", "by "} {
			if end, v := w.Literal(k, word); v != text.No {
				return end, 0, 0, v
			}
		}
	}
	return k, quote, signs, text.Yes
}

// namedValue returns the end of the word value where the name of a key and its value stand apart: - name: KEY, value: ….
func (w *Detector) namedValue(k int) (int, text.Verdict) {
	k, v := w.While(k, 24, func(r rune) bool { return text.IsBlank(r) || r == '"' || r == '\'' || r == '-' })
	if v == text.Open {
		return k, text.Open
	}
	return w.Literal(k, "value")
}

func isSymbol(r rune) bool { return strings.ContainsRune("@#$%^&*!_-+=~?", r) && r > 0 }
