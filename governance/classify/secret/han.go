package secret

import (
	"strings"

	"github.com/sluice-project/sluice/governance/classify/finding"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// hanSecretWords are words for credentials.
const hanSecretWords = "密码 口令 密钥 令牌 秘钥 授权码 私钥 提取码 解压码 访问码 暗号 密令 凭据 提取密码 密匙" //nolint:gosec // words

// joinsSecret may stand between such a word and its value: words for setting it, and marks.
const joinsSecret = ":=是为改成换重置设初始化默认还都用就叫已统一变更新暂时临即先了的、“”\"'「『【([` \n->和我你他给由回呢?在邮件里信" //nolint:gosec // words

// signsSecret are those of them that assign.
const signsSecret = ":=是为成叫" //nolint:gosec // words

// hanKeyword finds the value behind one of some words such as 密码.
func hanKeyword(w *Detector, i int, words []string) (finding.Candidate, text.Verdict) {
	k, v := w.OneOf(i, words)
	if v != text.Yes {
		return finding.Candidate{}, v
	}
	k, signs, quote, v := w.hanAssignment(k)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	end, more, v := w.secretValue(k, quote)
	if v == text.Open {
		return finding.Candidate{}, text.Open
	}
	m := finding.Candidate{Kind: finding.Secret, Start: k, End: end, Form: 0.7, More: more}
	if more != nil {
		return m, text.Yes
	}
	if end < k+4 || w.placeholder(k, end) || w.term(k, end) {
		return finding.Candidate{}, text.No
	}
	for _, other := range []string{"http://", "https://", "bearer ", "basic "} {
		if _, v := w.Literal(k, other); v == text.Yes {
			return finding.Candidate{}, text.No
		}
	}
	next := w.At(end)
	if next == text.Unknown {
		return finding.Candidate{}, text.Open
	}
	digits, letters := w.Any(k, end, text.IsDigit), w.Any(k, end, text.IsLetter)
	symbols := w.Any(k, end, func(r rune) bool { return strings.ContainsRune("@#$%^&*!_+=~?", r) })
	switch {
	case next > 0 && strings.ContainsRune("位个次天分秒元年月日号期种", next), text.IsHan(w.At(k-1)) && !letters && end-k < 6: // 密码8-16位
		return finding.Candidate{}, text.No
	case signs > 0 || quote != 0:
		return m, text.When(end-k >= 6 && w.guessless(k, end) || digits && letters || symbols && letters, text.Yes, text.No)
	case end-k < 6:
		return finding.Candidate{}, text.No
	}
	return m, text.When(letters && (digits || symbols) && (w.At(k-1) != ' ' || w.strong(k, end) || symbols || end-k >= 8), text.Yes, text.No)
}

// hanAssignment returns where the value begins that belongs to the word before cell k.
func (w *Detector) hanAssignment(k int) (value, signs int, quote rune, v text.Verdict) {
	for range 12 {
		r := w.At(k)
		if r == text.Unknown {
			return k, 0, 0, text.Open
		}
		if next := w.At(k + 1); r == ',' && next == text.Unknown {
			return k, 0, 0, text.Open
		} else if r == text.Edge || !strings.ContainsRune(joinsSecret, r) && !(r == ',' && next == '是') {
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
	return k, signs, quote, text.Yes
}

// term reports whether the cells are a word of the trade: 密码 SHA256 加盐.
func (w *Detector) term(k, end int) bool {
	return strings.Contains(" sha1 sha128 sha256 sha384 sha512 sha-256 aes128 aes192 aes256 aes-128 aes-256 rsa1024 rsa2048 rsa4096 rsa-2048 base64 base32 base58 oauth2 oauth2.0 hs256 rs256 utf8 utf-8 bcrypt "+
		"md5 sm2 sm3 sm4 ed25519 x509 ipv4 ipv6 windows10 win10 win11 office365 http2 totp 2fa ", " "+strings.ToLower(w.ASCII(k, end))+" ")
}
