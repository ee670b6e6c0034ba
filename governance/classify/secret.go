package classify

import (
	"strings"
	"unicode/utf8"
)

// secretForm is a kind of credential that its beginning gives away.
type secretForm struct {
	head string // lower case
	in   func(rune) bool
	min  int  // characters behind the head
	caps bool // the head is written in upper case
}

func isToken(r rune) bool { return isAlnum(r) || r == '-' || r == '_' }
func isBearer(r rune) bool {
	return isToken(r) || r == '.' || r == '~' || r == '+' || r == '/' || r == '='
}
func isPath(r rune) bool    { return isToken(r) || r == '/' }
func isJWT(r rune) bool     { return isToken(r) || r == '.' || r == '=' }
func isValue(r rune) bool   { return r > ' ' && r < 0x7f && !strings.ContainsRune("\"'`,;<>(){}", r) }
func isDSNText(r rune) bool { return r > ' ' && r < 0x7f && !strings.ContainsRune("/@\"'`<>", r) }

var secretForms = []secretForm{ //nolint:gochecknoglobals // a constant table
	// Clouds.
	{"akia", isAlnum, 16, true},
	{"asia", isAlnum, 16, true},
	{"abia", isAlnum, 16, true},
	{"acca", isAlnum, 16, true},
	{"ltai", isAlnum, 12, false},
	{"akid", isAlnum, 20, false},
	{"aklt", isToken, 20, true},
	{"altak-", isToken, 16, false},
	{"bce-v3/", isPath, 30, false},
	{"aiza", isToken, 35, false},
	{"ya29.", isToken, 30, false},
	{"gocspx-", isToken, 20, false},
	{"dop_v1_", isAlnum, 40, false},
	{"doo_v1_", isAlnum, 40, false},
	{"dor_v1_", isAlnum, 40, false},
	{"dapi", isHex, 32, false},
	{"eaaa", isToken, 50, true},
	// Code and packages.
	{"ghp_", isAlnum, 30, false},
	{"gho_", isAlnum, 30, false},
	{"ghu_", isAlnum, 30, false},
	{"ghs_", isAlnum, 30, false},
	{"ghr_", isAlnum, 30, false},
	{"github_pat_", isToken, 22, false},
	{"glpat-", isToken, 20, false},
	{"gldt-", isToken, 20, false},
	{"glrt-", isToken, 20, false},
	{"glptt-", isToken, 20, false},
	{"glcbt-", isToken, 20, false},
	{"glsoat-", isToken, 20, false},
	{"glagent-", isToken, 20, false},
	{"npm_", isAlnum, 36, false},
	{"pypi-", isToken, 50, false},
	{"rubygems_", isHex, 40, false},
	{"dckr_pat_", isToken, 20, false},
	{"sntrys_", isToken, 30, false},
	{"sntryu_", isToken, 30, false},
	{"atatt3", isToken, 50, false},
	{"atctt3", isToken, 50, false},
	{"lin_api_", isAlnum, 30, false},
	{"pmak-", isToken, 30, false},
	{"figd_", isToken, 30, false},
	{"ntn_", isAlnum, 30, false},
	// Models.
	{"sk-", isToken, 16, false},
	{"hf_", isAlnum, 30, false},
	{"gsk_", isAlnum, 30, false},
	{"r8_", isAlnum, 30, false},
	{"pplx-", isAlnum, 30, false},
	{"xai-", isAlnum, 30, false},
	{"nvapi-", isToken, 30, false},
	// Money.
	{"sk_live_", isAlnum, 16, false},
	{"rk_live_", isAlnum, 16, false},
	{"sk_test_", isAlnum, 16, false},
	{"rk_test_", isAlnum, 16, false},
	{"whsec_", isBase64, 20, false},
	{"sq0atp-", isToken, 20, false},
	{"sq0csp-", isToken, 30, false},
	{"shpat_", isHex, 32, false},
	{"shpss_", isHex, 32, false},
	{"shpca_", isHex, 32, false},
	{"shppa_", isHex, 32, false},
	// Messages.
	{"xoxb-", isToken, 10, false},
	{"xoxp-", isToken, 10, false},
	{"xoxa-", isToken, 10, false},
	{"xoxs-", isToken, 10, false},
	{"xoxe-", isToken, 10, false},
	{"xoxr-", isToken, 10, false},
	{"xapp-", isToken, 20, false},
	{"sg.", isJWT, 40, false},
	{"xkeysib-", isToken, 40, false},
	{"key-", isHex, 32, false},
	// Operation.
	{"hvs.", isToken, 20, false},
	{"hvb.", isToken, 20, false},
	{"glc_", isBase64, 30, false},
	{"glsa_", isToken, 30, false},
	{"nrak-", isAlnum, 20, false},
	{"phx_", isToken, 30, false},
	{"pscale_tkn_", isJWT, 30, false},
	{"pscale_pw_", isJWT, 30, false},
	{"sbp_", isHex, 40, false},
	{"dp.pt.", isAlnum, 40, false},
	{"pul-", isHex, 40, false},
	{"age-secret-key-1", isAlnum, 50, false},
	{"ops_", isToken, 40, false},
	{"sqp_", isHex, 40, false},
	{"sqa_", isHex, 40, false},
	{"squ_", isHex, 40, false},
	{"shippo_live_", isHex, 32, false},
	{"shippo_test_", isHex, 32, false},
	{"pat-na1-", isToken, 30, false},
	{"pat-eu1-", isToken, 30, false},
	{"dp.st.", isJWT, 30, false},
	{"dp.ct.", isJWT, 30, false},
	{"fo1_", isToken, 40, false},
}

// Places of the internet whose address is the secret.
var secretURLs = []string{ //nolint:gochecknoglobals // a constant table
	"hooks.slack.com/services/", "qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", "oapi.dingtalk.com/robot/send?access_token=",
	"open.feishu.cn/open-apis/bot/v2/hook/", "open.larksuite.com/open-apis/bot/v2/hook/", "discord.com/api/webhooks/", "api.telegram.org/bot",
	"outlook.office.com/webhook/",
}

var schemes = []string{ //nolint:gochecknoglobals // a constant table
	"postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "rediss", "amqp", "amqps", "http", "https", "ftp", "sftp",
	"ssh", "jdbc:mysql", "jdbc:postgresql", "kafka", "nats", "ldap", "ldaps", "smtp", "smtps", "clickhouse", "sqlserver",
}

var secretWords = []string{ //nolint:gochecknoglobals // a constant table
	"password", "passwd", "passphrase", "pwd", "secret", "token", "api_key", "apikey", "api-key", "access_key", "accesskey",
	"access-key", "secret_key", "secretkey", "secret-key", "private_key", "client_secret", "credential", "appsecret", "app_secret",
	"accesssecret", "access_secret", "accesstoken", "access_token", "refresh_token", "auth_token", "authorization", "secretid", "secret_id",
	"sign_key", "signkey", "encrypt_key", "aeskey", "aes_key", "cookie", "sessionid", "session_id", "jsessionid", "passcode", "ak", "sk",
	"密码", "口令", "密钥", "令牌", "秘钥", "授权码", "私钥",
}

// keywordHeads begin the Chinese ones.
const keywordHeads = "密口令秘授私"

// secrets runs the detectors of credentials that may begin at cell i, apart from private keys.
func (d *decision) secrets(w *window, i int) {
	r, left := lower(w.at(i)), w.at(i-1)
	if !isLetter(r) && r < 0x3400 {
		return
	}
	if r >= 0x80 {
		if strings.ContainsRune(keywordHeads, r) {
			d.keywords(w, i, r)
		}
		return
	}
	known := &secretIndex
	if !known.begin(w, i) {
		return
	}
	if !isLetter(left) {
		d.keywords(w, i, r)
	}
	if isAlnum(left) || left == '_' {
		return
	}
	for _, f := range known.forms[r] {
		d.ask(formed(w, i, f))
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
	for _, s := range known.schemes[r] {
		d.ask(dsn(w, i, s))
	}
}

func (d *decision) keywords(w *window, i int, r rune) {
	if r < 0x80 {
		for _, word := range secretIndex.words[r] {
			d.ask(keyword(w, i, word))
		}
		return
	}
	for _, word := range secretIndex.hanWords {
		if first, _ := utf8.DecodeRuneInString(word); first == r {
			d.ask(keyword(w, i, word))
		}
	}
}

// token returns the end of a secret's characters from i on, also behind one blank or line break where what follows is no word either; more
// is set when it is longer than one piece.
func (w *window) token(i int, in func(rune) bool) (end int, more *run, v verdict) {
	end, v = w.while(i, maxSecret, in)
	if v == open {
		return end, nil, open
	}
	if end-i == maxSecret {
		return end, &run{kSecret, in}, yes
	}
	if end-i < 4 || !isBlank(w.at(end)) {
		return end, nil, yes
	}
	rest, v := w.while(end+1, maxSecret-(end-i), in)
	if v == open {
		return end, nil, open
	}
	if rest-end > 4 && w.any(end+1, rest, isDigit) && (w.mixed(end+1, rest) || w.any(end+1, rest, isLetter) && rest-end > 12) {
		return rest, nil, yes
	}
	return end, nil, yes
}

func formed(w *window, i int, f secretForm) (match, verdict) {
	body, v := w.literal(i, f.head)
	if v != yes {
		return match{}, v
	}
	if f.caps && w.any(i, body, func(r rune) bool { return r >= 'a' && r <= 'z' }) {
		return match{}, no
	}
	end, more, v := w.token(body, f.in)
	if v == open {
		return match{}, open
	}
	if end-body < f.min || !w.any(body, end, isDigit) && !(f.caps && end-body == f.min) {
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
	end, more, v := w.token(body, func(r rune) bool { return isPath(r) || r == ':' })
	if v == open {
		return match{}, open
	}
	if end-body < 20 {
		return match{}, no
	}
	return match{kind: kSecret, start: body, end: end, form: 0.9, more: more}, yes
}

// jwt: three base64url parts; the first begins with the encoding of `{"`.
func jwt(w *window, i int) (match, verdict) {
	if _, v := w.literal(i, "eyj"); v != yes {
		return match{}, v
	}
	end, more, v := w.token(i, isJWT)
	if v == open {
		return match{}, open
	}
	dots := 0
	for _, c := range w.cells[i:end] {
		if c.r == '.' {
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
	end, more, v := w.token(body, isBearer)
	if v == open {
		return match{}, open
	}
	if end-body < least || !w.any(body, end, isDigit) && !w.mixed(body, end) {
		return match{}, no
	}
	return match{kind: kSecret, start: body, end: end, form: 0.9, more: more}, yes
}

// keyword finds the value behind a word such as password: after a colon or an equals sign, or 是 and 为 in Chinese; quotes and
// spaces may stand between. The value needs six characters and something that is no plain word.
func keyword(w *window, i int, word string) (match, verdict) {
	k, v := w.literal(i, word)
	if v != yes {
		return match{}, v
	}
	han := word[0] >= 0x80
	after, v := w.assignment(k)
	if v == open || v == no && !han {
		return match{}, v
	}
	if v == no {
		return bare(w, k)
	}
	k = after
	end, more, v := w.token(k, isValue)
	if v == open {
		return match{}, open
	}
	if end-k < 6 || w.at(k) == '$' && end-k < 40 || !w.any(k, end, isDigit) && !w.mixed(k, end) && !w.any(k, end, isSymbol) {
		return match{}, no
	}
	for _, other := range []string{"http://", "https://", "bearer ", "basic "} { // they have rules of their own
		if _, v := w.literal(k, other); v == yes {
			return match{}, no
		}
	}
	return match{kind: kSecret, start: k, end: end, form: 0.7, more: more}, yes
}

// bare finds the value directly behind a Chinese word, without a sign between: long, and of letters and digits in no order.
func bare(w *window, k int) (match, verdict) {
	if isBlank(w.at(k)) {
		k++
	}
	end, more, v := w.token(k, func(r rune) bool { return isBearer(r) || r == ':' })
	if v == open {
		return match{}, open
	}
	if end-k < 16 || !w.any(k, end, isDigit) || !w.any(k, end, isLetter) {
		return match{}, no
	}
	return match{kind: kSecret, start: k, end: end, form: 0.7, more: more}, yes
}

// assignment returns where the value begins, no if nothing is assigned.
func (w *window) assignment(k int) (int, verdict) {
	signs := 0
	for n := 0; n < 8; n++ {
		switch r := w.at(k); {
		case r == unknown:
			return k, open
		case r == ':' || r == '=' || r == '是' || r == '为':
			signs++
		case r == ' ' || r == '\n' && signs > 0 || r == '"' || r == '\'' || r == '`' || r == '>' && signs > 0:
		default:
			if signs == 0 {
				return k, no
			}
			return k, yes
		}
		k++
	}
	if signs == 0 {
		return k, no
	}
	return k, yes
}

func isSymbol(r rune) bool { return strings.ContainsRune("@#$%^&*!_-+=~?", r) && r > 0 }

// mixed reports whether both cases of letters occur behind the first character.
func (w *window) mixed(i, end int) bool {
	return w.any(i+1, end, func(r rune) bool { return r >= 'A' && r <= 'Z' }) &&
		w.any(i, end, func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// dsn finds the password in scheme://user:password@host.
func dsn(w *window, i int, scheme string) (match, verdict) {
	k, v := w.literal(i, scheme)
	if v != yes {
		return match{}, v
	}
	if k, v = w.literal(k, "://"); v != yes {
		return match{}, v
	}
	k, v = w.while(k, 64, func(r rune) bool { return isDSNText(r) && r != ':' })
	if v == open {
		return match{}, open
	}
	if r := w.at(k); r == unknown {
		return match{}, open
	} else if r != ':' {
		return match{}, no
	}
	k++
	end, v := w.while(k, maxSecret, isDSNText)
	if v == open {
		return match{}, open
	}
	if end-k == maxSecret { // undecided at the limit
		return match{kind: kSecret, start: k, end: end, form: 0.5, more: &run{kSecret, isDSNText}}, yes
	}
	if r := w.at(end); r == unknown {
		return match{}, open
	} else if r != '@' || end == k {
		return match{}, no
	}
	return match{kind: kSecret, start: k, end: end, form: 0.9}, yes
}

// pem finds private keys from their begin mark to their end mark; without an end mark everything that follows belongs to it.
func pem(w *window, i int) (match, verdict) {
	k, v := w.literal(i, "-----begin ")
	if v != yes {
		return match{}, v
	}
	label, v := w.while(k, 40, func(r rune) bool { return isAlnum(r) || r == ' ' })
	if v == open {
		return match{}, open
	}
	name := strings.TrimSuffix(strings.ToUpper(w.ascii(k, label)), " BLOCK") // as PGP has it
	if !strings.HasSuffix(name, "PRIVATE KEY") {
		return match{}, no
	}
	m := match{kind: kSecret, start: i, form: 1, block: true}
	end, last, v := w.pemPiece(i + 5)
	if v == open {
		return match{}, open
	}
	m.end = end
	if !last {
		m.more = &run{kind: kSecret}
	}
	return m, yes
}

// pemPiece looks for the end mark from i on.
func (w *window) pemPiece(i int) (end int, last bool, v verdict) {
	for k := i; k < i+maxPEM; k++ {
		switch w.at(k) {
		case unknown:
			return 0, false, open
		case edge:
			return k, true, yes
		case '-':
			mark, v := w.literal(k, "-----end ")
			if v == open {
				return 0, false, open
			}
			if v == no {
				continue
			}
			if end, v = w.while(mark, 40, func(r rune) bool { return isAlnum(r) || r == ' ' }); v == yes {
				end, v = w.while(end, 5, func(r rune) bool { return r == '-' })
			}
			return end, true, v
		}
	}
	return i + maxPEM, false, yes
}
