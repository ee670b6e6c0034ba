package corpus

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// tokens are the shapes of keys that their prefix tells apart. In a shape, a letter stands for a run of characters:
// a letters and digits, u capitals and digits, l small letters and digits, h small hexadecimal digits, b as base64url, d digits.
// "3h" after a percent sign means three of them.
const tokens = /* #nosec G101 -- shapes, nobody's keys */ `AKIA%16u ASIA%16u LTAI5t%18a LTAI%12a AKID%32a AIza%35b ghp_%36a gho_%36a ghs_%36a ghu_%36a ghr_%36a github_pat_%22a_%59a
	glpat-%20b glptt-%40h gldt-%20b glrt-%20b sk-%48a sk-proj-%48b sk-ant-api03-%93bAA sk_live_%24a sk_test_%24a rk_live_%24a whsec_%32a
	xoxb-%11d-%12d-%24a xoxp-%11d-%11d-%12d-%32h xapp-1-A%10u-%12d-%64h hf_%34a npm_%36a pypi-AgEIcHlwaS5vcmc%70b dckr_pat_%27b SG.%22b.%43b
	key-%32h EAAG%60a ya29.%68b GOCSPX-%28b SK%32h dop_v1_%64h doo_v1_%64h shpat_%32h shpss_%32h sqp_%40h squ_%40h hvs.%90b hvb.%90b
	ATATT3xFfGF0%60b lin_api_%40a ntn_%46a PMAK-%24h-%34h rubygems_%48h tskey-auth-%12a-%32a tfp_%44b glsa_%32a_%8h glc_%40a
	eyJrIjoi%52a pscale_tkn_%43b nvapi-%64b gsk_%52a r8_%37a xai-%80a pplx-%48a dapi%32h dp.pt.%43a dp.st.prd_%40a AGE-SECRET-KEY-1%58u
	sntrys_%80b NRAK-%27u FLWSECK_TEST-%32h-X oy2%43l pat-na1-%8h-%4h-%4h-%4h-%12h bce-v3/ALTAK-%21a/%40h ZHIPU%32h.%16a sl.%60b t1.%30b
	sk-sluice-%12l-%43b v1.0-%32h-%146h shippo_live_%40h sk-or-v1-%64h figd_%40b CFPAT-%43b fo1_%43b ops_eyJ%80b`

// expand fills a shape.
func (r *random) expand(shape string) string {
	out := strings.Builder{}
	for {
		before, rest, ok := strings.Cut(shape, "%")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		n := 0
		i := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
		_, _ = fmt.Sscan(rest[:i], &n)
		shape = rest[i+1:]
		switch rest[i] {
		case 'a':
			out.WriteString(r.mixed(n))
		case 'u':
			out.WriteString(r.chars("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", n))
		case 'l':
			out.WriteString(r.chars(lower+decimal, n))
		case 'h':
			out.WriteString(r.chars(hexLower, n))
		case 'b':
			out.WriteString(r.mixed(n/2) + r.chars("_-", 1) + r.mixed(n-n/2-1))
		case 'd':
			out.WriteString(r.number(n))
		}
	}
}

func (s *scene) secret() value {
	switch s.nearest("口令", "密码", "password", "passwd", "pwd", "数据库", "jdbc", "dsn", "连接串", "连接字符串", "私钥", "pem", "证书", "jwt", "bearer", "authorization", "webhook") {
	case "口令", "密码", "password", "passwd", "pwd":
		return value{text: s.password()}
	case "数据库", "jdbc", "dsn", "连接串", "连接字符串":
		return s.connection()
	case "私钥", "pem", "证书":
		return value{text: s.privateKey()}
	case "jwt":
		return value{text: s.jwt()}
	case "bearer":
		return value{text: s.of(s.jwt(), s.mixed(40), s.expand(s.word(tokens)))}
	case "authorization":
		return value{pre: "Bearer ", text: s.of(s.jwt(), s.mixed(40))}
	case "webhook":
		return s.hook()
	}
	labelled := strings.HasSuffix(s.before, "：") || strings.HasSuffix(s.before, ":") || strings.HasSuffix(s.before, "=") ||
		s.near("secret", "token", "密钥", "apikey", "api_key", "api key", "access_key", "accesskey", "appsecret", "sk", "令牌", "授权码")
	if labelled && s.chance(20) { // no prefix tells these: only what stands before them does
		return value{text: s.of(s.chars(hexLower, 32), s.mixed(32), s.mixed(40), s.chars(hexLower, 40), base64.StdEncoding.EncodeToString(s.bytes(24)), s.chars(hexLower, 64))}
	}
	if s.chance(8) {
		return value{text: s.jwt()}
	}
	return value{text: s.expand(s.word(tokens))}
}

func (s *scene) password() string {
	return s.of(
		s.mixed(s.in(8, 12))+s.chars("!@#$%^&*", 1), s.word(syllables)+s.word(syllables)+s.chars("@#!_", 1)+s.digits(4), strings.ToUpper(s.chars(lower, 1))+s.word(syllables)+s.word(syllables)+s.digits(s.in(3, 6)),
		s.chars(lower, 1)+s.mixed(s.in(7, 14)), "P@ss"+s.word(syllables)+s.digits(4), s.word(syllables)+"@"+s.day(1975, 2005).Format("20060102"), "Admin"+s.chars("@#!", 1)+s.digits(s.in(3, 6)),
	)
}

func (s *scene) connection() value {
	user, host := s.of("root", "app", "sluice", "admin", "report"), s.of("db.internal", "mysql-prod", "pg-master", "redis-01.local")
	password := s.mixed(s.in(10, 16))
	switch s.n(5) {
	case 0:
		return value{"postgres://" + user + ":", password, "@" + host + ":5432/core"}
	case 1:
		return value{"mysql://" + user + ":", password, "@" + host + ":3306/crm"}
	case 2:
		return value{"redis://:", password, "@" + host + ":6379/0"}
	case 3:
		return value{"jdbc:mysql://" + host + ":3306/his?user=" + user + "&password=", password, "&useSSL=true"}
	}
	return value{"Server=" + host + ";Database=mes;User Id=" + user + ";Password=", password, ";"}
}

func (s *scene) hook() value {
	switch s.n(3) {
	case 0:
		return value{pre: "https://oapi.dingtalk.com/robot/send?access_token=", text: s.chars(hexLower, 64)}
	case 1:
		return value{pre: "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=", text: s.uuid()}
	}
	return value{pre: "https://open.feishu.cn/open-apis/bot/v2/hook/", text: s.uuid()}
}

func (s *scene) uuid() string {
	h := s.chars(hexLower, 32)
	return h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-a" + h[17:20] + "-" + h[20:]
}

func (s *scene) jwt() string {
	part := func(v map[string]any) string {
		raw, _ := json.Marshal(v) // maps of words and numbers have a form
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	head := part(map[string]any{"alg": s.of("HS256", "RS256", "ES256"), "typ": "JWT"})
	body := part(map[string]any{"sub": s.number(8), "iat": 1700000000 + s.n(1e8), "role": s.of("user", "admin", "teller")})
	return head + "." + body + "." + base64.RawURLEncoding.EncodeToString(s.bytes(32))
}

func (s *scene) privateKey() string {
	kind := s.of("RSA PRIVATE KEY", "PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
	body := base64.StdEncoding.EncodeToString(s.bytes(96))
	return "-----BEGIN " + kind + "-----\n" + body[:64] + "\n" + body[64:] + "\n-----END " + kind + "-----"
}
