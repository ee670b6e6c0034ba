package server_test

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/httpapi"
)

// forge makes tokens as somebody does who has the signing key of the installation, so that nothing but what they say can refuse them.
type forge struct {
	head, claims map[string]any
	private      ed25519.PrivateKey
}

// forgeFor takes a good token apart.
func (s *scene) forgeFor(token string) forge {
	s.t.Helper()
	f := forge{head: map[string]any{}, claims: map[string]any{}}
	parts := strings.Split(token, ".")
	for i, into := range []*map[string]any{&f.head, &f.claims} {
		raw, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			s.t.Fatalf("%s: %v", parts[i], err)
		}
	}
	keys, err := keyring.Open(s.cfg.MasterKeyFile)
	if err != nil {
		s.t.Fatal(err)
	}
	const period = 30 * 24 * 3600
	f.private = ed25519.NewKeyFromSeed(keys.Derive(fmt.Sprintf("identity/session/ed25519/v1/%d/%d", period, time.Now().Unix()/period)))
	return f
}

func segment(v any) string {
	raw, _ := json.Marshal(v) // of maps of plain values
	return base64.RawURLEncoding.EncodeToString(raw)
}

// with returns a token whose head and claims are changed; nil takes one out.
func (f forge) with(head, claims map[string]any, sign func(text string) []byte) string {
	change := func(of, by map[string]any) map[string]any {
		out := maps.Clone(of)
		for k, v := range by {
			if out[k] = v; v == nil {
				delete(out, k)
			}
		}
		return out
	}
	text := segment(change(f.head, head)) + "." + segment(change(f.claims, claims))
	if sign == nil {
		sign = func(text string) []byte { return ed25519.Sign(f.private, []byte(text)) }
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(text))
}

// shut fails if a credential opens the management API. The forge's own token has to open it, else it proves nothing.
func (s *scene) shut(what, token string) {
	s.t.Helper()
	wantProblem(s.t, what, s.send(http.MethodGet, "/api/v1/me", token, nil), http.StatusUnauthorized, "invalid_session")
}

func (s *scene) goodForge() forge {
	s.t.Helper()
	f := s.forgeFor(s.demo["auditor"].token)
	s.want("a token as the server makes it", s.send(http.MethodGet, "/api/v1/me", f.with(nil, nil, nil), nil), http.StatusOK)
	return f
}

// storedSecrets are what the database keeps of passwords, keys and sessions.
func (s *scene) storedSecrets() (out []string) {
	s.t.Helper()
	db, err := database.Open(s.t.Context(), s.cfg.Database)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	for _, q := range []string{"SELECT password_hash FROM identity_users", "SELECT digest FROM identity_keys", "SELECT digest FROM identity_sessions"} {
		var column []string
		if err := db.Raw(q).Scan(&column).Error; err != nil || len(column) < 3 {
			s.t.Fatalf("%s: %d rows, %v", q, len(column), err)
		}
		out = append(out, column...)
	}
	return out
}

// tokenAttacks forge, bend and confuse credentials.
func tokenAttacks() []attack {
	now := func() int64 { return time.Now().Unix() }
	return []attack{
		{"TOK-01", "a session token with the algorithm none", "RFC 8725, section 3.1", "the signature in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
				for _, sign := range []func(string) []byte{nil, func(string) []byte { return nil }} {
					s.shut(alg, f.with(map[string]any{"alg": alg}, nil, sign))
				}
			}
		}},
		{"TOK-02", "a session token signed by HMAC with the published public key as the secret", "CVE-2015-9235; RFC 8725, section 2.1", "the signature in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			var set struct {
				Keys []map[string]string
			}
			published := s.send(http.MethodGet, "/.well-known/jwks.json", "", nil)
			published.decode(s.t, &set)
			for _, k := range set.Keys {
				raw, err := base64.RawURLEncoding.DecodeString(k["x"])
				if err != nil || len(raw) != ed25519.PublicKeySize {
					s.t.Fatalf("%v: %v", k, err)
				}
				for _, secret := range [][]byte{raw, []byte(k["x"]), published.body, nil} {
					s.shut("HS256", f.with(map[string]any{"alg": "HS256", "kid": k["kid"]}, nil, func(text string) []byte {
						m := hmac.New(sha256.New, secret)
						m.Write([]byte(text))
						return m.Sum(nil)
					}))
				}
			}
		}},
		{"TOK-03", "a session token that names a file, a statement, a command or nothing as its key", "RFC 8725, section 3.10", "the signature in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			_, own, err := ed25519.GenerateKey(nil)
			if err != nil {
				s.t.Fatal(err)
			}
			for _, kid := range []any{"../../../../dev/null", "/etc/passwd", "' UNION SELECT 'x' --", "x; sleep 9", "", 7, []string{"a"}, nil, strings.Repeat("k", 3000), "\x00"} {
				for _, sign := range []func(string) []byte{func(text string) []byte { return ed25519.Sign(own, []byte(text)) }, nil, func(string) []byte { return nil }} {
					s.shut(fmt.Sprint(kid), f.with(map[string]any{"kid": kid}, nil, sign))
				}
			}
		}},
		{"TOK-04", "a session token that brings its own key, or the address of one", "CVE-2018-0114", "the signature in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			trap, called := s.trap()
			public, own, err := ed25519.GenerateKey(nil)
			if err != nil {
				s.t.Fatal(err)
			}
			jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(public), "kid": "own"}
			for _, head := range []map[string]any{{"jwk": jwk}, {"jwk": jwk, "kid": "own"}, {"jku": trap, "kid": "own"}, {"x5u": trap}, {"x5c": []string{"AAAA"}}, {"crit": []string{"b64"}, "b64": false}} {
				s.shut(fmt.Sprint(head), f.with(head, nil, func(text string) []byte { return ed25519.Sign(own, []byte(text)) }))
			}
			if called() {
				s.t.Error("the server fetched a key from an address that a stranger named")
			}
		}},
		{"TOK-05", "a session token that is over, or says no end, or one too far away", "RFC 8725, section 3.8", "the claims in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			for what, claims := range map[string]map[string]any{
				"over": {"iat": now() - 1000, "exp": now() - 100}, "no end": {"exp": nil}, "a year": {"exp": now() + 31_536_000}, "no beginning": {"iat": nil},
				"from the future": {"iat": now() + 600, "exp": now() + 1200}, "not yet": {"nbf": now() + 600}, "the end as text": {"exp": "2099"}, "far beyond numbers": {"exp": 1e300}, "before all": {"exp": -1},
			} {
				s.shut(what, f.with(nil, claims, nil))
			}
		}},
		{"TOK-06", "a token under the right key that is for another audience or from another issuer", "RFC 8725, section 3.9", "the claims in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			for _, claims := range []map[string]any{{"aud": "sluice-data"}, {"aud": nil}, {"aud": []string{}}, {"aud": ""}, {"iss": "elsewhere"}, {"iss": nil}, {"iss": ""}} {
				s.shut(fmt.Sprint(claims), f.with(nil, claims, nil))
			}
		}},
		{"TOK-07", "a token under the right key for an account that is not, a sign-in that is none, or rights of before", "API2:2023", "the account's epoch in authenticateSession", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			for _, claims := range []map[string]any{{"sub": "nobody"}, {"sub": nil}, {"sub": s.loot.key.id}, {"sid": nil}, {"sid": ""}, {"ep": 99}, {"ep": -1}, {"jti": nil}} {
				s.shut(fmt.Sprint(claims), f.with(nil, claims, nil))
			}
		}},
		{"TOK-08", "a token cut short, grown, or written in another way with the same bits", "CVE-2024-51744; RFC 7515, section 2", "jwt.WithStrictDecoding", func(_ *testing.T, s *scene) {
			f := s.goodForge()
			good := f.with(nil, nil, nil)
			parts := strings.Split(good, ".")
			last := good[len(good)-1]
			bent := map[string]string{
				"one letter less": good[:len(good)-1], "no signature": parts[0] + "." + parts[1] + ".", "two parts": parts[0] + "." + parts[1], "four parts": good + ".x", "padded": good + "==", "a space": good + " x",
				"claims of another": parts[0] + "." + strings.Split(s.demo["security_admin"].token, ".")[1] + "." + parts[2],
				"a line":            good + "\tx",
			}
			for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" { // the last letter has bits that nobody needs
				if byte(c) != last {
					bent["the last letter is "+string(c)] = good[:len(good)-1] + string(c)
				}
			}
			for what, token := range bent {
				s.shut(what, token)
			}
		}},
		{"TOK-09", "a header of dots that a parser splits without end", "CVE-2025-30204", "", func(_ *testing.T, s *scene) {
			for _, dots := range []int{3, 4000, 60_000} {
				began := time.Now()
				r := s.send(http.MethodGet, "/api/v1/me", strings.Repeat(".", dots), nil)
				if r.status != http.StatusUnauthorized || time.Since(began) > 5*time.Second {
					s.t.Errorf("%d dots: %d after %s", dots, r.status, time.Since(began))
				}
			}
		}},
		{"TOK-10", "a header of a megabyte", "CVE-2025-30204; API4:2023", "MaxHeaderBytes", func(_ *testing.T, s *scene) {
			for _, target := range []string{"/api/v1/me", "/v1/models", "/metrics"} {
				for _, a := range s.raw(s.line(http.MethodGet, target, strings.Repeat("x", 1<<20))) {
					s.want(target, a, http.StatusRequestHeaderFieldsTooLarge)
				}
			}
		}},
		{"TOK-11", "a credential that begins as one that was just good", "CVE-2026-35030", "the whole digest in findKey", func(_ *testing.T, s *scene) {
			f := s.goodForge() // its token was just taken
			good := f.with(nil, nil, nil)
			for _, keep := range []int{20, 64, len(good) - 20, len(good) - 4} {
				s.shut(fmt.Sprint("the first ", keep), good[:keep]+strings.Repeat("A", len(good)-keep))
			}
			s.works("the key", s.loot.key.secret)
			for _, keep := range []int{20, 24, len(s.loot.key.secret) - 1} {
				other := "0"
				if strings.HasSuffix(s.loot.key.secret, "0") {
					other = "1"
				}
				r := s.send(http.MethodGet, "/v1/models", s.loot.key.secret[:keep]+strings.Repeat(other, len(s.loot.key.secret)-keep), nil)
				s.want("a key", r, http.StatusUnauthorized)
			}
		}},
		{"TOK-12", "a statement of SQL in the Authorization header", "CVE-2026-42208", "parameters of SQL in the look for a key", func(_ *testing.T, s *scene) {
			for _, text := range []string{
				"' OR '1'='1", `" OR 1=1 --`, "sk-sluice-' OR 1=1 --", "sk-sluice-" + strings.Repeat("%", 12) + "-" + strings.Repeat("%", 40), "sk-sluice-" + strings.Repeat("_", 12) + "-" + strings.Repeat("_", 40),
				"'; DROP TABLE identity_keys; --", "1) UNION SELECT password_hash FROM identity_users--", "sk-sluice-x' AND pg_sleep(9)--", `\' OR 1=1 #`, "{\"$gt\":\"\"}",
			} {
				for _, target := range []string{"/v1/models", "/api/v1/me", "/metrics"} {
					r := s.send(http.MethodGet, target, text, nil)
					s.want(target+" "+text, r, http.StatusUnauthorized)
					if trace.Match(r.body) {
						s.t.Errorf("%s", r.body)
					}
				}
			}
			s.works("the table of keys", s.loot.key.secret)
		}},
		{"TOK-13", "a statement of SQL in names, ids, filters and cursors", "CVE-2019-15562", "parameters of SQL in the look for a key", func(_ *testing.T, s *scene) {
			for _, text := range []string{"1=1", "x' OR '1'='1", "x) OR (1=1", "x; DROP TABLE identity_keys", "x\" OR \"1\"=\"1", "0 OR 1=1--"} {
				e := url.PathEscape(text)
				for _, target := range []string{"/audit/records/" + e, "/audit/records/" + e + "/content", "/policies/" + e, "/rollouts/" + e} {
					s.want(target, s.send(http.MethodGet, "/api/v1"+target, s.session(), nil), http.StatusNotFound, http.StatusBadRequest, http.StatusConflict) // workflows are off
				}
				for _, target := range []string{"/keys/" + e + "/revoke", "/users/" + e + "/disable"} {
					s.want(target, s.send(http.MethodPost, "/api/v1"+target, s.session(), nil), http.StatusNotFound, http.StatusBadRequest)
				}
				q := url.QueryEscape(text)
				for _, target := range []string{"request=" + q, "actor=" + q, "model=" + q, "session=" + q, "source=" + q, "text=" + q, "cursor=" + q, "class=" + q, "version=" + q, "policy=" + q} {
					r := s.send(http.MethodGet, "/api/v1/audit/records?"+target, s.demo["auditor"].token, nil)
					if r.status >= 500 || r.status == http.StatusOK && strings.Contains(string(r.body), s.loot.record) || trace.Match(r.body) && r.status != http.StatusOK {
						s.t.Errorf("%s: %d %.300s", target, r.status, r.body)
					}
				}
				s.want("group_by", s.send(http.MethodGet, "/api/v1/usage?group_by="+q, s.session(), nil), http.StatusBadRequest)
				s.want("sign-in", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "admin" + text, "password": ""}), http.StatusBadRequest, http.StatusUnauthorized)
			}
			s.works("the table of keys", s.loot.key.secret)
		}},
		{"TOK-14", "what the database keeps of a password or a key, shown as the password or the key", "GHSA-69x8-hrgq-fjj8", "the digest in findKey, checkLogin", func(_ *testing.T, s *scene) {
			for _, stored := range s.storedSecrets() {
				s.want("a key", s.send(http.MethodGet, "/v1/models", stored, nil), http.StatusUnauthorized)
				s.want("a session", s.send(http.MethodGet, "/api/v1/me", stored, nil), http.StatusUnauthorized)
				s.want("a refresh token", s.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", "sluice_refresh="+stored), http.StatusUnauthorized)
				if strings.HasPrefix(stored, "$") && !strings.HasPrefix(stored, "$argon2id$") && !strings.HasPrefix(stored, "$scrypt$") {
					s.t.Errorf("a password is kept as %.12s…", stored)
				}
			}
			var hash string
			db, err := database.Open(s.t.Context(), s.cfg.Database)
			if err != nil {
				s.t.Fatal(err)
			}
			defer func() { _ = database.Close(db) }()
			if err := db.Raw("SELECT password_hash FROM identity_users WHERE name = 'demo-auditor'").Scan(&hash).Error; err != nil || hash == "" {
				s.t.Fatal(err)
			}
			s.want("a password", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "demo-auditor", "password": hash}), http.StatusUnauthorized)
		}},
		{"TOK-15", "look for hashes, digests and secrets in every answer of the management API, as its document promises them", "GHSA-69x8-hrgq-fjj8; API3:2023", "openapi.yaml without hashes", func(_ *testing.T, s *scene) {
			s.scanSchemas()
		}},
		{"TOK-16", "look for hashes, digests and secrets in every answer that the management API gives", "GHSA-6x2c-phff-wx57; API3:2023", "userRow.public", func(_ *testing.T, s *scene) {
			secrets := append(s.storedSecrets(), s.loot.key.secret, s.bankKey.secret, s.started.Welcome.APIKey.Reveal(), longPassword, adminPassword)
			n := 0
			for _, route := range s.routes() {
				if route.Method != http.MethodGet {
					continue
				}
				path := strings.NewReplacer(":month", time.Now().UTC().Format("2006-01")).Replace(route.Path)
				if strings.Contains(path, "/audit/records/:id") {
					path = strings.ReplaceAll(path, ":id", s.loot.record)
				}
				for _, by := range []string{s.session(), s.demo["security_admin"].token, s.demo["auditor"].token} {
					r := s.send(http.MethodGet, fill(path), by, nil)
					if r.status == http.StatusOK {
						n++
					}
					for _, secret := range secrets {
						if strings.Contains(string(r.body), secret) {
							s.t.Errorf("GET %s shows %.12s…", path, secret)
						}
					}
				}
			}
			if n < 50 {
				s.t.Errorf("only %d answers were looked at", n)
			}
		}},
		{"TOK-17", "use the right credential in the wrong place: query, cookie, body, another header, another scheme", "RFC 6750, section 5.3", "adminapi.bearer", func(_ *testing.T, s *scene) {
			token, key := s.session(), s.loot.key.secret
			for _, q := range []string{"access_token=", "token=", "api_key=", "key=", "authorization=Bearer%20"} {
				s.want(q, s.send(http.MethodGet, "/api/v1/me?"+q+token, "", nil), http.StatusUnauthorized)
				s.want(q, s.send(http.MethodGet, "/v1/models?"+q+key, "", nil), http.StatusUnauthorized)
			}
			for _, h := range [][]string{
				{"Cookie", "access_token=" + token + "; session=" + token + "; sluice_refresh=" + token},
				{"Cookie", s.demo["auditor"].cookie},
				{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+adminPassword))},
				{"Authorization", "Token " + token},
				{"Proxy-Authorization", "Bearer " + token},
				{"X-Forwarded-Authorization", "Bearer " + token},
				{"Authorization", token},
				{"Authorization", "Bearer  "},
				{"Authorization", "Bearer"},
			} {
				s.want(h[0]+" "+h[1][:min(12, len(h[1]))], s.send(http.MethodGet, "/api/v1/me", "", nil, h...), http.StatusUnauthorized)
			}
			s.want("a refresh token as a session", s.send(http.MethodGet, "/api/v1/me", strings.TrimPrefix(s.demo["auditor"].cookie, "sluice_refresh="), nil), http.StatusUnauthorized)
			s.want("a refresh token as a key", s.send(http.MethodGet, "/v1/models", strings.TrimPrefix(s.demo["auditor"].cookie, "sluice_refresh="), nil), http.StatusUnauthorized)
		}},
		{"TOK-18", "two Authorization headers, of which the server and a proxy may each take another", "RFC 9110, section 5.3", "oneCredential", func(_ *testing.T, s *scene) {
			good, bad := "Authorization: Bearer "+s.session(), "Authorization: Bearer x"
			key := "Authorization: Bearer " + s.loot.key.secret
			for _, pair := range [][]string{{bad, good}, {good, bad}} {
				for _, a := range s.raw(s.line(http.MethodGet, "/api/v1/me", "", pair...)) {
					s.want("the management API", a, http.StatusBadRequest, http.StatusUnauthorized)
				}
			}
			for _, pair := range [][]string{{bad, key}, {key, bad}} {
				for _, a := range s.raw(s.line(http.MethodGet, "/v1/models", "", pair...)) {
					s.want("the business API", a, http.StatusBadRequest, http.StatusUnauthorized)
				}
			}
			for _, a := range s.raw(s.line(http.MethodGet, "/metrics", operationsToken, bad)) {
				s.want("the operators' data", a, http.StatusBadRequest, http.StatusUnauthorized)
			}
		}},
		{"TOK-19", "a key beyond its scopes", "API2:2023", "scopes in Enforcer.Allow", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "embeds", "scopes": []string{"embed"}}).secret
			for _, r := range httpapi.Routes() {
				if !opens("embed", r) {
					s.want(r.Method+" "+r.Path, s.send(r.Method, r.Path, key, dataBodies[r.Path]), http.StatusForbidden)
				}
			}
		}},
		{"TOK-20", "a key beyond its models", "API2:2023", "Principal.MayUse", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "other models", "models": []string{"other*"}}).secret
			for _, model := range []string{"scripted", "Scripted", "other/../scripted", "scripted\x00other", "otherscripted,scripted", "*"} {
				body := question("hi")
				body["model"] = model
				s.want(model, s.send(http.MethodPost, "/v1/chat/completions", key, body), http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest)
			}
		}},
		{"TOK-21", "a key beyond its networks, with an address that the caller claims", "CVE-2020-28483", "SetTrustedProxies", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "edge", "networks": []string{"192.0.2.0/24"}, "scopes": []string{"chat", "admin-read"}}).secret
			for _, h := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "X-Client-Ip", "True-Client-Ip", "CF-Connecting-IP", "X-Appengine-Remote-Addr", "X-Originating-Ip", "Fly-Client-IP", "X-Cluster-Client-Ip"} {
				for _, value := range []string{"192.0.2.9", "for=192.0.2.9", "192.0.2.9, 127.0.0.1", "127.0.0.1, 192.0.2.9"} {
					s.want(h+": "+value, s.send(http.MethodPost, "/v1/chat/completions", key, question("hi"), h, value), http.StatusForbidden)
					s.want(h+": "+value, s.send(http.MethodGet, "/api/v1/models", key, nil, h, value), http.StatusForbidden)
				}
			}
		}},
		{"TOK-22", "a key that was revoked, a secret that was retired, a secret of before a rotation", "API2:2023", "revokedAt in findKey", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "to end"})
			var second, third adminapi.CreatedKey
			s.works("the key", key.secret)
			s.admin(http.MethodPost, "/keys/"+key.id+"/rotate", map[string]any{}, &second)
			s.admin(http.MethodPost, "/keys/"+key.id+"/retire", nil, new(any))
			ask := func(secret string) reply { return s.send(http.MethodGet, "/v1/models", secret, nil) }
			s.want("retired", ask(key.secret), http.StatusUnauthorized)
			s.admin(http.MethodPost, "/keys/"+key.id+"/rotate", map[string]any{"overlap_hours": 0}, &third)
			s.want("of before", ask(second.Secret), http.StatusUnauthorized)
			s.works("the last", third.Secret)
			s.admin(http.MethodPost, "/keys/"+key.id+"/revoke", nil, new(any))
			for _, secret := range []string{key.secret, second.Secret, third.Secret} {
				s.want("revoked", ask(secret), http.StatusUnauthorized)
			}
		}},
		{"TOK-23", "a key that has ended", "API2:2023", "expires in findKey", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "short", "expires_at": time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)}).secret
			eventually(s.t, "the end of a key", func() bool { return s.send(http.MethodGet, "/v1/models", key, nil).status == http.StatusUnauthorized })
			s.want("a key that never was good", s.send(http.MethodPost, "/api/v1/keys", s.session(), map[string]any{"name": "past", "expires_at": "2020-01-01T00:00:00Z"}), http.StatusBadRequest)
		}},
		{"TOK-24", "the key and the session of somebody who was disabled", "API2:2023", "suspended in findKey", func(_ *testing.T, s *scene) {
			leaver := s.newAccount("leaver", nil, "developer")
			var made adminapi.CreatedKey
			s.send(http.MethodPost, "/api/v1/keys", leaver.token, map[string]any{"name": "of the leaver"}).decode(s.t, &made)
			s.works("the key", made.Secret)
			s.admin(http.MethodPost, "/users/"+leaver.id+"/disable", nil, new(any))
			s.want("the key", s.send(http.MethodPost, "/v1/chat/completions", made.Secret, question("hi")), http.StatusUnauthorized)
			s.shut("the session", leaver.token)
			s.want("its renewal", s.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", leaver.cookie), http.StatusUnauthorized)
			s.want("a sign-in", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "leaver", "password": longPassword}), http.StatusUnauthorized)
		}},
		{"TOK-25", "the private half of a published key", "RFC 7517, section 9.2", "PublicKeys", func(_ *testing.T, s *scene) {
			var set struct{ Keys []map[string]any }
			s.send(http.MethodGet, "/.well-known/jwks.json", "", nil).decode(s.t, &set)
			for _, k := range set.Keys {
				for member := range k {
					if !slices.Contains([]string{"kty", "crv", "x", "kid", "use", "alg"}, member) {
						s.t.Errorf("a published key has %q", member)
					}
				}
			}
			if len(set.Keys) == 0 {
				s.t.Error("no keys")
			}
		}},
	}
}

// secretWords are names of members that no answer has, and mayTell the answers that may have one: they show a credential once, to whom it is for.
var (
	secretWords = []string{"password", "hash", "digest", "secret", "token", "credential", "private"}
	mayTell     = map[string][]string{
		"startTotp": {"secret"}, "confirmTotp": {"access_token", "token_type"}, "showSecondFactor": {"access_token", "token_type"}, "confirmWebauthn": {"access_token", "token_type"},
		"createKey": {"secret"}, "rotateKey": {"secret"}, "resetPassword": {"password"}, "openBreakGlass": {"access_token", "token_type"}, "sealBreakGlass": {"secrets"}, "createServiceAccount": {"secret"}, "rotateServiceSecret": {"secret"}, "inviteUser": {"token"},
		"login": {"access_token", "token_type"}, "refreshSession": {"access_token", "token_type"}, "changePassword": {"access_token", "token_type"},
	}
)

// harmless are members that only sound secret.
var harmless = []string{
	"must_change_password", "former_secret", "has_secret", "former_secret_expires_at", "token_url", "token", "tokens", "first_token", "first_token_us", "first_token_p95_us", "tokens_per_minute", "tokens_per_unit", "tokens_per_joule", // pseudonyms and counts
	"content_credentials", "credentials", // what C2PA calls its manifests in files
}

// scanSchemas goes through what the document says of every answer.
func (s *scene) scanSchemas() {
	s.t.Helper()
	doc, err := openapi3.NewLoader().LoadFromFile("adminapi/openapi.yaml")
	if err != nil {
		s.t.Fatal(err)
	}
	found := map[string]bool{}
	for _, item := range doc.Paths.Map() {
		for _, op := range item.Operations() {
			for _, answer := range op.Responses.Map() {
				for _, media := range answer.Value.Content {
					if media.Schema != nil {
						s.scanSchema(op.OperationID, media.Schema.Value, 0, found)
					}
				}
			}
		}
	}
	if !found["createKey secret"] || !found["login access_token"] {
		s.t.Errorf("the scan finds not even what is there: %v", found)
	}
}

func (s *scene) scanSchema(op string, schema *openapi3.Schema, depth int, found map[string]bool) {
	if schema == nil || depth > 8 {
		return
	}
	for _, sub := range slices.Concat(schema.AllOf, schema.AnyOf, schema.OneOf) {
		s.scanSchema(op, sub.Value, depth+1, found)
	}
	if schema.Items != nil {
		s.scanSchema(op, schema.Items.Value, depth+1, found)
	}
	for name, property := range schema.Properties {
		for _, word := range secretWords {
			if strings.Contains(name, word) && !slices.Contains(harmless, name) && !strings.HasSuffix(name, "_tokens") {
				found[op+" "+name] = true
				if !slices.Contains(mayTell[op], name) && !slices.Contains(harmlessDigests, name) {
					s.t.Errorf("the answer of %s has a member %s", op, name)
				}
			}
		}
		s.scanSchema(op, property.Value, depth+1, found)
	}
}

// harmlessDigests are digests of what is no credential: files, records, people.
var harmlessDigests = []string{"digest", "text_digest", "prompt_digest", "answer_digest", "policy_digest", "hash", "hashes", "leaf_hash", "export_digest", "book_digest", "price_book_digest"}

// sessionAttacks are about sign-ins.
func sessionAttacks() []attack {
	renew := func(s *scene, cookie string) reply {
		return s.send(http.MethodPost, "/api/v1/session/refresh", "", nil, "Cookie", cookie)
	}
	return []attack{
		{"SES-01", "use a refresh token a second time: the thief and the owner both lose the sign-in", "RFC 9700, section 4.14.2", "reuse in identity's rotate", func(_ *testing.T, s *scene) {
			first := s.newAccount("reused", nil, "developer")
			second := renew(s, first.cookie)
			token := tokenOf(s.t, second)
			s.want("the token of before", renew(s, first.cookie), http.StatusUnauthorized)
			s.want("the one that followed", renew(s, cookieOf(second)), http.StatusUnauthorized)
			s.shut("the session", token)
		}},
		{"SES-02", "go on after signing out", "CVE-2026-12772", "endFamily", func(_ *testing.T, s *scene) {
			a := s.newAccount("left", nil, "developer")
			s.want("sign out", s.send(http.MethodDelete, "/api/v1/session", "", nil, "Cookie", a.cookie), http.StatusNoContent)
			s.want("the renewal", renew(s, a.cookie), http.StatusUnauthorized)
			s.shut("the session", a.token)
		}},
		{"SES-03", "have somebody sign in under a session that the attacker knows", "RFC 6265, section 8.4", "startSession", func(_ *testing.T, s *scene) {
			mine := s.newAccount("fixing", nil, "developer")
			s.newAccount("fixed", nil, "developer")
			r := s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "fixed", "password": longPassword}, "Cookie", mine.cookie)
			if r.status != http.StatusOK || cookieOf(r) == mine.cookie {
				s.t.Fatalf("%d %s", r.status, r.header)
			}
			var me adminapi.Me
			s.send(http.MethodGet, "/api/v1/me", tokenOf(s.t, renew(s, mine.cookie)), nil).decode(s.t, &me)
			if me.Name != "fixing" {
				s.t.Errorf("the known cookie now leads to %s", me.Name)
			}
		}},
		{"SES-04", "read the refresh token in a script, or have another site send it", "RFC 6265, section 4.1.2", "setRefreshCookie", func(_ *testing.T, s *scene) {
			s.newAccount("flags", nil, "developer")
			r := s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "flags", "password": longPassword})
			cookies := (&http.Response{Header: r.header}).Cookies()
			if len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Path != "/api/v1/session" || cookies[0].Domain != "" {
				s.t.Errorf("%v", r.header["Set-Cookie"])
			}
			if strings.Contains(string(r.body), "sr-sluice-") {
				s.t.Errorf("a script can read the refresh token: %s", r.body)
			}
		}},
		{"SES-05", "do something with nothing but the cookie, as a forged request of another site does", "RFC 6265, section 8.2", "chain.authenticate", func(_ *testing.T, s *scene) {
			for _, route := range s.routes() {
				if !route.Public {
					s.want(route.Operation, s.send(route.Method, fill(route.Path), "", bodyFor(route.Method), "Cookie", s.demo["security_admin"].cookie, "Origin", "https://evil.example"), http.StatusUnauthorized)
				}
			}
		}},
		{"SES-06", "read an answer from a page of another site", "API8:2023", "Middleware without CORS", func(_ *testing.T, s *scene) {
			for _, method := range []string{http.MethodOptions, http.MethodGet} {
				for _, path := range []string{"/api/v1/me", "/v1/models", "/api/v1/session", "/.well-known/jwks.json", "/readyz", "/console/"} {
					r := s.send(method, path, s.session(), nil, "Origin", "https://evil.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "authorization")
					for name := range r.header {
						if strings.HasPrefix(name, "Access-Control-") {
							s.t.Errorf("%s %s: %s", method, path, name)
						}
					}
				}
			}
		}},
		{"SES-07", "tell accounts that exist from those that do not by the answer to a wrong password", "API2:2023", "checkLogin", func(_ *testing.T, s *scene) {
			shape := func(user string) string {
				r := s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": user, "password": "wrong horse battery"})
				return fmt.Sprint(r.status, " ", strings.ReplaceAll(string(r.body), r.header.Get("X-Request-Id"), ""))
			}
			if a, b := shape("demo-compliance"), shape("nobody-at-all"); a != b {
				s.t.Errorf("%s, %s", a, b)
			}
		}},
		{"SES-08", "guess passwords; sign in as oneself in between, and write the name otherwise, to be let guess on", "API2:2023", "attempt.succeeded", func(t *testing.T, _ *scene) {
			s := &scene{installation: start(t, setup{})}
			s.newAccount("helper", nil, "developer")
			s.newAccount("target", nil, "developer")
			guess := func(i int) reply {
				name := []string{"target", "TARGET", " target", "target ", "Target"}[i%5]
				return s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": name, "password": "wrong horse battery"}, "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i%250))
			}
			refused := false
			for i := range 12 {
				r := guess(i)
				if i%2 == 0 {
					s.enter("helper", longPassword)
				}
				refused = refused || r.status == http.StatusTooManyRequests
			}
			if !refused {
				t.Error("twelve guesses were answered")
			}
			// Waits double from a second: guess on until one is long enough that a slow machine does not sit it out.
			for i, deadline := 0, time.Now().Add(time.Minute); ; i++ {
				r := guess(i)
				if seconds, _ := strconv.Atoi(r.header.Get("Retry-After")); r.status == http.StatusTooManyRequests && seconds >= 5 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("no guess had to wait for five seconds")
				}
			}
			wantProblem(t, "the right password meanwhile", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "target", "password": longPassword}), http.StatusTooManyRequests, "login_throttled")
		}},
		{"SES-09", "use a one-time password for more than its change, or twice", "API2:2023", "MustChange in mayAct", func(_ *testing.T, s *scene) {
			a := s.newAccount("once", nil, "developer")
			var reset adminapi.PasswordReset
			s.admin(http.MethodPost, "/users/"+a.id+"/password-reset", nil, &reset)
			s.shut("the sign-in of before", a.token)
			once := s.enter("once", reset.Password)
			for _, path := range []string{"/keys", "/models", "/usage", "/roles"} {
				s.want(path, s.send(http.MethodGet, "/api/v1"+path, once.token, nil), http.StatusForbidden)
			}
			s.want("the renewed session", s.send(http.MethodGet, "/api/v1/keys", tokenOf(s.t, renew(s, once.cookie)), nil), http.StatusForbidden)
			change := map[string]string{"current_password": reset.Password, "new_password": "nine purple lanterns sing"}
			s.want("its change", s.send(http.MethodPost, "/api/v1/me/password", once.token, change), http.StatusOK)
			s.want("again", s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "once", "password": reset.Password}), http.StatusUnauthorized)
			s.shut("the sign-in with it", once.token)
		}},
		{"SES-10", "change the password of an open session without knowing it", "API2:2023", "the current password in ChangePassword", func(_ *testing.T, s *scene) {
			a := s.newAccount("open", nil, "developer")
			for _, current := range []any{"", "wrong horse battery", nil, longPassword + " ", strings.ToUpper(longPassword)} {
				r := s.send(http.MethodPost, "/api/v1/me/password", a.token, map[string]any{"current_password": current, "new_password": "nine purple lanterns sing"})
				s.want(fmt.Sprint(current), r, http.StatusForbidden, http.StatusBadRequest)
			}
			s.enter("open", longPassword)
		}},
		{"SES-11", "keep a session whose account got other roles", "API5:2023", "the account's epoch in authenticateSession", func(_ *testing.T, s *scene) {
			a := s.newAccount("demoted", nil, "security_admin")
			s.want("before", s.send(http.MethodGet, "/api/v1/users", a.token, nil), http.StatusOK)
			s.admin(http.MethodPatch, "/users/"+a.id, map[string]any{"roles": []string{"developer"}}, new(any))
			s.shut("the token of before", a.token)
			s.want("the renewed one", s.send(http.MethodGet, "/api/v1/users", tokenOf(s.t, renew(s, a.cookie)), nil), http.StatusForbidden)
		}},
		{"SES-12", "sign in by a form of another site, which sends no JSON", "RFC 9110, section 8.3", "chain.validate", func(_ *testing.T, s *scene) {
			body := `{"user":"demo-developer","password":"` + longPassword + `"}`
			for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/html"} {
				r := s.send(http.MethodPost, "/api/v1/session", "", body, "Content-Type", kind)
				s.want(kind, r, http.StatusBadRequest, http.StatusUnsupportedMediaType)
				if r.header.Get("Set-Cookie") != "" {
					s.t.Errorf("%s: signed in", kind)
				}
			}
		}},
		{"SES-13", "sign in with a password of a megabyte, which costs the server more than the sender", "API4:2023", "chain.validate", func(_ *testing.T, s *scene) {
			for _, size := range []int{1025, 15_000, 20 << 10, 1 << 20} {
				r := s.send(http.MethodPost, "/api/v1/session", "", map[string]string{"user": "long", "password": strings.Repeat("x", size)})
				s.want(fmt.Sprint(size), r, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
			}
		}},
	}
}
