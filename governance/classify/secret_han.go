package classify

import "strings"

// hanSecretWords are words for credentials.
const hanSecretWords = "密码 口令 密钥 令牌 秘钥 授权码 私钥 提取码 解压码 访问码 暗号 密令 凭据 提取密码 密匙" //nolint:gosec // words

// joinsSecret may stand between such a word and its value: words for setting it, and marks.
const joinsSecret = ":=是为改成换重置设初始化默认还都用就叫已统一变更新暂时临即先了的、“”\"'「『【([` \n->和我你他给由回呢?在邮件里信" //nolint:gosec // words

// signsSecret are those of them that assign.
const signsSecret = ":=是为成叫" //nolint:gosec // words

// hanKeyword finds the value behind one of some words such as 密码.
func hanKeyword(w *window, i int, words []string) (match, verdict) {
	k, v := w.oneOf(i, words)
	if v != yes {
		return match{}, v
	}
	k, signs, quote, v := w.hanAssignment(k)
	if v == open {
		return match{}, open
	}
	end, more, v := w.secretValue(k, quote)
	if v == open {
		return match{}, open
	}
	m := match{kind: kSecret, start: k, end: end, form: 0.7, more: more}
	if more != nil {
		return m, yes
	}
	if end < k+4 || w.placeholder(k, end) || w.term(k, end) {
		return match{}, no
	}
	for _, other := range []string{"http://", "https://", "bearer ", "basic "} {
		if _, v := w.literal(k, other); v == yes {
			return match{}, no
		}
	}
	next := w.at(end)
	if next == unknown {
		return match{}, open
	}
	digits, letters := w.any(k, end, isDigit), w.any(k, end, isLetter)
	symbols := w.any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!_+=~?", r) })
	switch {
	case next > 0 && strings.ContainsRune("位个次天分秒元年月日号期种", next), isHan(w.at(k-1)) && !letters && end-k < 6: // 密码8-16位
		return match{}, no
	case signs > 0 || quote != 0:
		return m, when(end-k >= 6 && w.guessless(k, end) || digits && letters || symbols && letters, yes, no)
	case end-k < 6:
		return match{}, no
	}
	return m, when(letters && (digits || symbols) && (w.at(k-1) != ' ' || w.strong(k, end) || symbols || end-k >= 8), yes, no)
}

// hanAssignment returns where the value begins that belongs to the word before cell k.
func (w *window) hanAssignment(k int) (value, signs int, quote rune, v verdict) {
	for range 12 {
		r := w.at(k)
		if r == unknown {
			return k, 0, 0, open
		}
		if next := w.at(k + 1); r == ',' && next == unknown {
			return k, 0, 0, open
		} else if r == edge || !strings.ContainsRune(joinsSecret, r) && !(r == ',' && next == '是') {
			break
		}
		switch {
		case strings.ContainsRune(signsSecret, r):
			signs++
			quote = 0
		case r == '"' || r == '\'' || r == '`':
			quote = r
		case r == '“' || r == '‘' || r == '「':
			quote = r + 1
		}
		k++
	}
	return k, signs, quote, yes
}

// term reports whether the cells are a word of the trade: 密码 SHA256 加盐.
func (w *window) term(k, end int) bool {
	return strings.Contains(" sha1 sha128 sha256 sha384 sha512 sha-256 aes128 aes192 aes256 aes-128 aes-256 rsa1024 rsa2048 rsa4096 rsa-2048 base64 base32 base58 oauth2 oauth2.0 hs256 rs256 utf8 utf-8 bcrypt "+
		"md5 sm2 sm3 sm4 ed25519 x509 ipv4 ipv6 windows10 win10 win11 office365 http2 totp 2fa ", " "+strings.ToLower(w.ascii(k, end))+" ")
}
