// Package secret finds credentials: keys and tokens by what they begin with, private keys by their marks, passwords behind words for them and in
// connection strings. What only stands for a credential, such as ${TOKEN}, is left alone.
package secret

import (
	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// A secret that is longer than a piece becomes several findings.
const (
	maxSecret = 256   // characters of a piece
	maxPEM    = 16384 // of a piece of a private key
)

func isBearer(r rune) bool {
	return text.IsToken(r) || r == '.' || r == '~' || r == '+' || r == '/' || r == '='
}

// Detector finds credentials.
type Detector struct {
	finding.Window
	block text.Place // the place behind the last PEM block: none begins inside another
}

// Accept is told of every candidate that is taken.
func (w *Detector) Accept(m finding.Candidate) {
	if m.Block {
		w.block = w.Place(m.End)
	}
}

// Detect looks for the credentials that begin at place i.
func (w *Detector) Detect(d *finding.Decision, i int) {
	if !d.On.Has(finding.Secret) {
		return
	}
	ascii := w.At(i) < 0x80
	if ascii && d.Triggers&finding.TriggerKey != 0 && w.Place(i) >= w.block {
		d.Ask(pem(w, i))
	}
	if d.Triggers&finding.TriggerSecret != 0 {
		w.secrets(d, i)
	}
	if ascii && d.Triggers&finding.TriggerLogin != 0 {
		w.logins(d, i)
	}
}

// Triggers says what may begin with r behind left.
func Triggers(r, left rune) (b finding.Triggers) {
	if r >= 0x80 {
		if prefixes.han[r] != nil {
			b = finding.TriggerSecret
		}
		return b
	}
	boundary := !text.IsAlnum(left)
	if text.IsLetter(r) {
		if !text.IsLetter(left) || innerSecret(r, left) {
			b |= finding.TriggerSecret
		}
		if boundary && left != '_' {
			b |= finding.TriggerLogin
		}
	}
	if text.IsDigit(r) && (boundary || text.Lower(left) == 't') {
		b |= finding.TriggerLogin
		if r == '1' {
			b |= finding.TriggerSecret
		}
	}
	if r == ':' && !boundary || r == '-' && !endsRow.Has(left) {
		b |= finding.TriggerSecret
	}
	if r == '-' {
		b |= finding.TriggerKey
	}
	return b
}

// Refine takes away what does not begin at place i, where a row of letters and digits begins that ends before place e with next behind it.
func (w *Detector) Refine(i, e int, next rune, may finding.Triggers) finding.Triggers {
	if may&finding.TriggerLogin != 0 && !w.loginAhead(i, e, next) {
		may &^= finding.TriggerLogin
	}
	return may
}

// secrets runs the detectors of credentials that words or their beginnings give away, apart from private keys.
func (w *Detector) secrets(d *finding.Decision, i int) {
	r, left, known := text.Lower(w.At(i)), w.At(i-1), &prefixes
	switch {
	case r >= 0x80:
		if words := known.han[r]; words != nil {
			d.Ask(hanKeyword(w, i, words))
		}
	case r == ':':
		d.Ask(dsn(w, i))
	case r == '-' && (text.IsBlank(left) || left == text.Edge):
		d.Ask(secretFlag(w, i))
	case text.IsAlnum(r) && known.mayBegin(w, i):
		w.keywords(d, i, r, left)
		if !text.IsAlnum(left) && left != '_' {
			w.headed(d, i, r)
		}
	}
}

// logins runs the detectors of credentials that are known by a sign inside.
func (w *Detector) logins(d *finding.Decision, i int) {
	r, left := text.Lower(w.At(i)), w.At(i-1)
	apart := !text.IsAlnum(left)
	if text.IsDigit(r) && (apart || text.Lower(left) == 't') {
		d.Ask(botToken(w, i))
	}
	if text.IsLetter(r) && apart && left != '_' {
		d.Ask(goDSN(w, i))
	}
	if text.IsHex(r) && apart && (left != '_' || text.IsDigit(r)) {
		d.Ask(zhipuKey(w, i))
	}
}

// headed runs the detectors of credentials that are known by what they begin with.
func (w *Detector) headed(d *finding.Decision, i int, r rune) {
	known := &prefixes
	for n := range known.forms[r] {
		d.Ask(formed(w, i, &known.forms[r][n]))
	}
	for _, u := range known.urls[r] {
		d.Ask(secretURL(w, i, u))
	}
	switch r {
	case 'e':
		d.Ask(jwt(w, i))
	case 'b':
		d.Ask(authorization(w, i, "bearer ", 16))
		d.Ask(authorization(w, i, "basic ", 12))
	}
	d.Ask(loginPair(w, i))
}

// zhipuKey finds 32 hexadecimal digits, a dot and 16 letters and digits.
func zhipuKey(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.While(i, 33, text.IsHex)
	if v == text.Open || k-i != 32 || w.At(k) != '.' {
		return finding.Candidate{}, text.When(v == text.Open || k-i == 32 && w.At(k) == text.Unknown, text.Open, text.No)
	}
	end, v := w.While(k+1, 17, text.IsAlnum)
	if v == text.Open || end-k != 17 || !w.Any(k+1, end, text.IsLetter) {
		return finding.Candidate{}, v & text.Open
	}
	return finding.Candidate{Kind: finding.Secret, Start: i, End: end, Form: 0.9}, text.Yes
}

// token returns the end of a secret's characters from i on, also behind one blank or line break where what follows is no word either; more
// is set when it is longer than one piece. size is how many there are, 0 where that is not known.
func (w *Detector) token(i, size int, in func(rune) bool) (end int, more *finding.Run, v text.Verdict) {
	end, v = w.While(i, maxSecret, in)
	if v == text.Open {
		return end, nil, text.Open
	}
	if end-i == maxSecret {
		return end, &finding.Run{Kind: finding.Secret, In: in}, text.Yes
	}
	if !text.IsBlank(w.At(end)) {
		return end, nil, text.Yes
	}
	rest, v := w.While(end+1, maxSecret-(end-i), in)
	if v == text.Open {
		return end, nil, text.Open
	}
	if w.tokenGoesOn(i, end, rest, size) {
		return rest, nil, text.Yes
	}
	return end, nil, text.Yes
}

// tokenGoesOn reports whether the characters between the blank at end and rest belong to what begins at cell i.
func (w *Detector) tokenGoesOn(i, end, rest, size int) bool {
	tail := rest - end - 1
	digits, letters := w.Any(end+1, rest, text.IsDigit), w.Any(end+1, rest, text.IsLetter)
	switch {
	case tail == 0:
		return false
	case size > 0 && end-i+tail == size:
		return true
	case w.Any(end+1, rest-1, func(r rune) bool { return r == '=' || r == ':' }): // an assignment of its own
		return false
	case end-i < 4:
		return end > i && tail >= 12 && digits && letters
	}
	return tail > 3 && digits && letters || tail > 2 && w.mixed(end+1, rest)
}

func formed(w *Detector, i int, f *form) (finding.Candidate, text.Verdict) {
	body, v := w.Literal(i, f.head)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	if f.caps && w.Any(i, body, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
		return finding.Candidate{}, text.No
	}
	end, more, v := w.token(body, f.size, f.in)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end-body < f.min || !w.Any(body+1, end-1, func(r rune) bool { return r != w.At(body) }) || f.min == f.size && end-body == f.min && text.IsAlnum(w.At(end)) || !w.Any(body, end, text.IsDigit) && !(f.caps && end-body == f.min) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: i, End: end, Form: 0.95, More: more}, text.Yes
}

// secretURL finds the part of an address that whoever knows it may post to.
func secretURL(w *Detector, i int, head string) (finding.Candidate, text.Verdict) {
	body, v := w.Literal(i, head)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	end, more, v := w.token(body, 0, func(r rune) bool { return isPath(r) || r == ':' })
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end-body < 20 {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: body, End: end, Form: 0.9, More: more}, text.Yes
}

// jwt: three base64url parts; the first begins with the encoding of `{"`. Paper may have a full stop for a dot.
func jwt(w *Detector, i int) (finding.Candidate, text.Verdict) {
	if _, v := w.Literal(i, "eyj"); v != text.Yes {
		return finding.Candidate{}, v
	}
	end, more, v := w.token(i, 0, isJWT)
	for v == text.Yes && more == nil && w.At(end) == '。' {
		if end, more, v = w.token(end+1, 0, isJWT); more != nil {
			break
		}
	}
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	dots := 0
	for _, c := range w.Cells(i, end) {
		if c.R == '.' || c.R == '。' {
			dots++
		}
	}
	if more == nil && (dots < 2 || end-i < 32) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: i, End: end, Form: 0.95, More: more}, text.Yes
}

func authorization(w *Detector, i int, scheme string, least int) (finding.Candidate, text.Verdict) {
	body, v := w.Literal(i, scheme)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	if text.IsBlank(w.At(body)) {
		body++
	}
	end, more, v := w.token(body, 0, isBearer)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if end-body < least || !w.Any(body, end, text.IsDigit) && !w.mixed(body, end) {
		return finding.Candidate{}, text.No
	}
	return finding.Candidate{Kind: finding.Secret, Start: body, End: end, Form: 0.9, More: more}, text.Yes
}

// botToken finds the tokens of Telegram's bots: their number, a colon and 35 characters that begin with AA.
func botToken(w *Detector, i int) (finding.Candidate, text.Verdict) {
	k, v := w.While(i, 11, text.IsDigit)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	if k-i < 8 || k-i > 10 || w.At(k) != ':' {
		return finding.Candidate{}, text.When(k-i >= 8 && w.At(k) == text.Unknown, text.Open, text.No)
	}
	if _, v = w.Literal(k+1, "aa"); v != text.Yes {
		return finding.Candidate{}, v
	}
	end, _, v := w.token(k+1, 35, text.IsToken)
	if v != text.Yes || end-k < 34 {
		return finding.Candidate{}, v & text.Open
	}
	return finding.Candidate{Kind: finding.Secret, Start: i, End: end, Form: 0.95}, text.Yes
}

// mixed reports whether both cases of letters occur behind the first character.
func (w *Detector) mixed(i, end int) bool {
	return w.Any(i+1, end, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		w.Any(i, end, func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// loginAhead reports whether what stands behind a row of letters and digits may stand inside a credential: name:password@tcp(host), the number
// of a bot and its token, two parts of a key.
func (w *Detector) loginAhead(i, end int, next rune) bool {
	switch next {
	case ':':
		return text.IsLetter(w.At(i)) || end-i >= 8 && end-i <= 10
	case '.':
		return text.IsLetter(w.At(i)) || end-i == 32
	}
	return (next == '-' || next == '_') && text.IsLetter(w.At(i))
}

// innerSecret reports whether a word for a credential may begin with r inside of another word: userPassword, PGPASSWORD.
func innerSecret(r, left rune) bool {
	return len(prefixes.inner[text.Lower(r)]) > 0 && (text.Lower(r) == 'p' || text.Lower(r) == 's' || r < 'a' && left >= 'a')
}

// endsRow are what stands behind a name, where a - begins no option.
var endsRow = text.RunesOf("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-.+%:/@")
