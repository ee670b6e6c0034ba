package server_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// edgeAttacks are about HTTP itself.
func edgeAttacks() []attack {
	opened := func(s *scene, what string, answers []reply) {
		s.t.Helper()
		if len(answers) == 0 {
			s.t.Errorf("%s: no answer at all", what)
		}
		for _, a := range answers {
			if a.status < 300 && !bytes.Contains(a.body, []byte("Sluice")) || strings.Contains(string(a.body), s.other.id) {
				s.t.Errorf("%s: %d %.300s", what, a.status, a.body)
			}
		}
	}
	return []attack{
		{"HTTP-01", "a Host that confuses which route is protected", "CVE-2026-49468", "chain.authenticate", func(_ *testing.T, s *scene) {
			for _, host := range []string{"x#@y", "x/healthz?", "x/healthz#", "/healthz", "x@healthz", "x\\healthz", "readyz", "x:80/healthz", "[::1]#@", "a,b"} {
				opened(s, host, s.raw(s.line(http.MethodGet, "/api/v1/users", "", "Host: "+host)))
				opened(s, host, s.raw(s.line(http.MethodGet, "/metrics", "", "Host: "+host)))
			}
			opened(s, "two hosts", s.raw(s.line(http.MethodGet, "/api/v1/users", "", "Host: a", "Host: b")))
			for _, h := range []string{"X-Forwarded-Host: healthz", "X-Original-URL: /healthz", "X-Rewrite-URL: /healthz", "X-Forwarded-Prefix: /healthz", "X-Forwarded-Path: /healthz"} {
				opened(s, h, s.raw(s.line(http.MethodGet, "/api/v1/users", "", h)))
			}
		}},
		{"HTTP-02", "a target in absolute form, which names another path than the route", "RFC 9112, section 3.2.2", "chain.authenticate", func(_ *testing.T, s *scene) {
			for _, target := range []string{"http://x/api/v1/users", "http://x/healthz/../api/v1/users", "http://healthz@x/api/v1/users", "http://" + s.host() + "/api/v1/users?/healthz", "https://x/api/v1/users#/healthz"} {
				opened(s, target, s.raw(s.line(http.MethodGet, target, "")))
			}
		}},
		{"HTTP-03", "a path written otherwise: doubled, climbing, encoded, cut, in capitals", "RFC 3986, section 6.2.2", "chain.authenticate", func(_ *testing.T, s *scene) {
			for _, path := range []string{
				"//api/v1/users", "/api//v1/users", "/api/v1//users", "/api/v1/./users", "/api/v1/session/../users", "/healthz/../api/v1/users", "/healthz/..%2fapi/v1/users", "/%2e%2e/api/v1/users", "/api/v1/%2e/users",
				"/api%2fv1%2fusers", "/api/v1/users%00", "/api/v1/users%00.png", "/api/v1/users;x=1", "/api/v1/users/", "/API/V1/USERS", "/api/v1/users%20", "/api/v1/users%09", "/api/v1\\users", "/console/../api/v1/users",
				"/console/..%2f..%2fapi/v1/users", "/readyz/%2e%2e/metrics", "/metrics/", "//metrics", "/Metrics", "/v1/%2e%2e/api/v1/users", "/api/v1/%75sers", "/.well-known/jwks.json/../../api/v1/users", "/%61pi/v1/users",
			} {
				for _, a := range s.raw(s.line(http.MethodGet, path, "")) {
					if a.status < 300 && !bytes.Contains(a.body, []byte("Sluice")) {
						s.t.Errorf("%s: %d %.200s", path, a.status, a.body)
					}
				}
			}
		}},
		{"HTTP-04", "read files of the server through the console and through names in paths", "CVE-2021-41773", "NoRoute of NewEngine", func(_ *testing.T, s *scene) {
			for _, path := range []string{
				"/console/../../../../etc/passwd", "/console/..%2f..%2f..%2fetc%2fpasswd", "/console/%2e%2e/%2e%2e/etc/passwd", "/console/....//....//etc/passwd", "/console//etc/passwd", "/v1/models/..%2f..%2f..%2fetc%2fpasswd",
				"/api/v1/policies/..%2f..%2fetc%2fpasswd", "/api/v1/audit/log/tile/../../../../etc/passwd", "/api/v1/audit/log/tile/..%2f..%2f..%2fetc%2fpasswd", "/api/v1/audit/log/tile/0/../../../keys/master.key",
			} {
				credential := s.session()
				if strings.HasPrefix(path, "/v1/") {
					credential = s.loot.key.secret
				}
				for _, a := range s.raw(s.line(http.MethodGet, path, credential)) {
					if strings.Contains(string(a.body), "root:") || a.status == http.StatusOK && !bytes.Contains(a.body, []byte("<html")) {
						s.t.Errorf("%s: %d %.200s", path, a.status, a.body)
					}
				}
			}
		}},
		{"HTTP-05", "two requests in one, by a length and chunks that contradict each other", "RFC 9112, section 6.1", "", func(_ *testing.T, s *scene) {
			hidden := s.line(http.MethodGet, "/api/v1/users", "")
			head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer " + s.loot.key.secret + "\r\n"
			for what, text := range map[string]string{
				"both":                   head + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", len(hidden)+5, hidden),
				"two lengths":            head + "Content-Length: 0\r\nContent-Length: 5\r\n\r\n" + hidden,
				"a length with a sign":   head + "Content-Length: +5\r\n\r\n" + hidden,
				"a length of two":        head + "Content-Length: 0, 5\r\n\r\n" + hidden,
				"an unknown coding":      head + "Transfer-Encoding: xchunked\r\n\r\n" + hidden,
				"two codings":            head + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + hidden,
				"a coding written twice": head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + hidden,
				"a space before a colon": head + "Content-Length : 0\r\n\r\n" + hidden,
				"a folded header":        head + "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
				"a bare return":          head + "X: a\rTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" + hidden,
			} {
				answers := s.raw(text)
				if len(answers) == 0 {
					s.t.Errorf("%s: no answer", what)
				}
				for _, a := range answers {
					if a.status < 400 || strings.Contains(string(a.body), s.other.id) {
						s.t.Errorf("%s: %d %.200s", what, a.status, a.body)
					}
				}
			}
		}},
		{"HTTP-06", "a chunk whose length ends in a bare line feed", "CVE-2025-22871", "", func(_ *testing.T, s *scene) {
			head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\nAuthorization: Bearer " + s.loot.key.secret + "\r\n\r\n"
			raw, _ := json.Marshal(question("hi"))
			good := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(raw), raw)
			for _, a := range s.raw(head + good) {
				s.want("chunks as they should be", a, http.StatusOK)
			}
			for _, chunks := range []string{fmt.Sprintf("%x\n%s\r\n0\r\n\r\n", len(raw), raw), fmt.Sprintf("%x;a\nb\r\n%s\r\n0\r\n\r\n", len(raw), raw), "-1\r\nx\r\n0\r\n\r\n", "ffffffffffffffff1\r\nx\r\n0\r\n\r\n"} {
				for _, a := range s.raw(head + chunks) {
					if a.status < 400 {
						s.t.Errorf("%q: %d %.200s", chunks[:12], a.status, a.body)
					}
				}
			}
		}},
		{"HTTP-07", "an upgrade to another protocol behind a proxy that looks at HTTP/1.1 only", "RFC 9113, section 3.1", "", func(_ *testing.T, s *scene) {
			for _, h := range [][]string{{"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"}, {"Upgrade: websocket", "Sec-WebSocket-Key: x", "Sec-WebSocket-Version: 13"}} {
				text := "GET /api/v1/users HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n" + strings.Join(h, "\r\n") + "\r\n\r\n" + s.line(http.MethodGet, "/healthz", "")
				for _, a := range s.raw(text) {
					if a.status == http.StatusSwitchingProtocols {
						s.t.Errorf("%v: switched", h)
					}
				}
			}
			for _, a := range s.raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") {
				if a.status < 400 {
					s.t.Errorf("a preface of HTTP/2: %d", a.status)
				}
			}
			for _, a := range s.raw(s.line(http.MethodConnect, "internal.example:443", "")) {
				if a.status < 400 {
					s.t.Errorf("CONNECT: %d", a.status)
				}
			}
		}},
		{"HTTP-08", "choose the id under which a request is billed and recorded, and break lines by it", "API8:2023", "the id of Middleware", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "ids"})
			seen := map[string]bool{}
			for _, id := range []string{"mine-1", "mine-1", s.loot.request, strings.Repeat("x", 5000), `"},{"x":"`, "a\tb", "<script>", "ünïcode"} {
				r := s.send(http.MethodPost, "/v1/chat/completions", key.secret, question("hi"), "X-Request-Id", id, "X-Client-Request-Id", id)
				got := r.header.Get("X-Request-Id")
				if r.status != http.StatusOK || got == id || seen[got] || len(got) != 36 {
					s.t.Errorf("%.20q: %d, the id is %q", id, r.status, got)
				}
				seen[got] = true
				if e := s.records(got, 2)[0]; len(e.raw) > 20_000 || strings.Contains(string(e.raw), strings.Repeat("x", 300)) {
					s.t.Errorf("the record has it whole: %d bytes", len(e.raw))
				}
			}
			eventually(s.t, "each to be billed", func() bool { return s.usage("?key="+key.id).Requests == int64(len(seen)) })
		}},
		{"HTTP-09", "add headers to an answer, and lines to the log, by what a request has", "RFC 9110, section 5.5", "Middleware without headers of the path", func(_ *testing.T, s *scene) {
			for _, path := range []string{"/v1/x%0d%0aSet-Cookie:%20evil=1", "/api/v1/x%0d%0aSet-Cookie:%20evil=1", "/console/%0d%0aSet-Cookie:%20evil=1", "/api/v1/billing/statements/2026-10%0d%0aX:1", "/v1/models/%0a%7B%22level%22:%22forged%22%7D"} {
				for _, credential := range []string{s.session(), s.loot.key.secret} {
					r := s.send(http.MethodGet, path, credential, nil, "User-Agent", `x","level":"forged`, "X-Sluice-Session", "a\tb", "Accept-Language", "zh\tx")
					if r.header.Get("Set-Cookie") != "" || r.header.Get("X") != "" {
						s.t.Errorf("%s: %v", path, r.header)
					}
				}
			}
			for line := range strings.Lines(s.logs.String()) {
				var entry struct{ Level string }
				if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Level == "forged" {
					s.t.Errorf("a line of the log was forged: %s", line)
				}
			}
		}},
		{"HTTP-10", "a prefix of a proxy in redirections that a cache keeps for others", "CVE-2023-26125", "NoRoute of NewEngine", func(_ *testing.T, s *scene) {
			for _, path := range []string{"/api/v1/users/", "/v1/models/", "/console", "/", "//console"} {
				for _, a := range s.raw(s.line(http.MethodGet, path, "", "X-Forwarded-Prefix: //evil.example", "X-Forwarded-Host: evil.example", "Host: evil.example")) {
					if strings.Contains(fmt.Sprint(a.header["Location"]), "evil") {
						s.t.Errorf("%s leads to %v", path, a.header["Location"])
					}
				}
			}
		}},
		{"HTTP-11", "a script in a name that the management API repeats and the console shows", "CVE-2025-3801", "NoRoute of NewEngine", func(_ *testing.T, s *scene) {
			const script = `<script>alert(1)</script>`
			s.issueKey(map[string]any{"name": script})
			s.send(http.MethodGet, "/api/v1/keys?limit=200", s.session(), nil)
			for _, r := range []reply{
				s.admin(http.MethodGet, "/keys?limit=200", nil, nil), s.send(http.MethodGet, "/v1/"+url.PathEscape(script), s.loot.key.secret, nil), s.admin(http.MethodGet, "/"+url.PathEscape(script), nil, nil),
				s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, question(script)), s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, merged(question("x"), map[string]any{"model": script})),
			} {
				if kind := r.header.Get("Content-Type"); !strings.Contains(kind, "json") || r.header.Get("X-Content-Type-Options") != "nosniff" || bytes.Contains(r.body, []byte("<script")) && strings.Contains(kind, "html") {
					s.t.Errorf("%d %s: %.200s", r.status, kind, r.body)
				}
			}
		}},
		{"HTTP-12", "run a script on the console's page, frame it, or guess the kind of an answer", "CVE-2025-3801; API8:2023", "the headers of Middleware", func(_ *testing.T, s *scene) {
			page := s.send(http.MethodGet, "/console/", "", nil)
			csp := page.header.Get("Content-Security-Policy")
			for _, part := range []string{"script-src 'self'", "object-src 'none'", "base-uri 'self'", "frame-ancestors 'none'", "default-src 'self'"} {
				if !strings.Contains(csp, part) {
					s.t.Errorf("the console's policy %q lacks %s", csp, part)
				}
			}
			if strings.Contains(strings.Split(csp, "style-src")[0], "unsafe") || strings.Contains(csp, "unsafe-eval") || strings.Contains(csp, "*") {
				s.t.Errorf("%s", csp)
			}
			if page.header.Get("X-Content-Type-Options") != "nosniff" || page.header.Get("Referrer-Policy") != "no-referrer" {
				s.t.Errorf("%v", page.header)
			}
			for _, r := range []reply{
				s.send(http.MethodGet, "/api/v1/me", s.session(), nil), s.send(http.MethodGet, "/api/v1/me", "", nil), s.send(http.MethodGet, "/v1/models", s.loot.key.secret, nil), s.send(http.MethodGet, "/nothing", "", nil),
				s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, "{"),
			} {
				if r.header.Get("X-Content-Type-Options") != "nosniff" || r.header.Get("X-Frame-Options") != "DENY" || r.header.Get("Referrer-Policy") != "no-referrer" {
					s.t.Errorf("%d: %v", r.status, r.header)
				}
			}
			if r := s.send(http.MethodGet, "/api/v1/me", s.session(), nil); r.header.Get("Cache-Control") != "no-store" {
				s.t.Errorf("an answer of the management API may be kept: %v", r.header)
			}
		}},
		{"HTTP-13", "read metrics, profiles and the state of parts as a stranger, a user or an application", "API8:2023", "operated", func(_ *testing.T, s *scene) {
			for _, credential := range []string{"", s.session(), s.loot.key.secret, operationsToken[:10], operationsToken + "x", strings.ToUpper(operationsToken)} {
				for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/cmdline", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=2", "/debug/pprof/symbol", "/debug/pprof/trace?seconds=1"} {
					s.want(path, s.send(http.MethodGet, path, credential, nil), http.StatusUnauthorized)
				}
				for _, path := range []string{"/readyz", "/healthz"} {
					if r := s.send(http.MethodGet, path, credential, nil); r.status != http.StatusOK || strings.Contains(string(r.body), "parts") || strings.Contains(string(r.body), "upstream") {
						s.t.Errorf("%s: %d %s", path, r.status, r.body)
					}
				}
			}
			s.want("an operator", s.send(http.MethodGet, "/metrics", operationsToken, nil), http.StatusOK)
		}},
		{"HTTP-14", "provoke errors that tell of code, paths, statements and versions", "API8:2023", "Fail", func(_ *testing.T, s *scene) {
			for _, route := range s.routes() {
				for _, body := range []any{nil, "", "{", "[]", `"x"`, `{"x":1}`, "\x00", `{"name":` + strings.Repeat("[", 40) + "}"} {
					if route.Method == http.MethodGet && body != nil || route.Operation == "logout" {
						continue
					}
					r := s.send(route.Method, fill(route.Path), s.session(), body)
					if r.status >= 400 && trace.Match(r.body) || r.status == http.StatusInternalServerError {
						s.t.Errorf("%s %s %v: %d %.300s", route.Method, route.Path, body, r.status, r.body)
					}
					if r.header.Get("Server") != "" || r.header.Get("X-Powered-By") != "" {
						s.t.Errorf("%s: %v", route.Path, r.header)
					}
				}
			}
			if log := s.logs.String(); strings.Contains(log, `"msg":"panic"`) {
				s.t.Error("something panicked")
			}
		}},
		{"HTTP-15", "look for credentials, prompts and answers in the log", "API8:2023; LLM02:2025", "the line of Middleware", func(_ *testing.T, s *scene) {
			const planted = "planted-in-a-prompt"
			s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, question(planted), "X-Api-Key", planted, "Cookie", "a="+planted)
			s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, `{"model":"`+planted+`","messages":[`, "X-Sluice-On-Behalf-Of", planted)
			s.send(http.MethodGet, "/api/v1/me?token="+planted, planted, nil)
			log := s.logs.String()
			for _, secret := range []string{planted, s.loot.key.secret, s.bankKey.secret, adminPassword, longPassword, operationsToken, s.session(), strings.TrimPrefix(s.demo["auditor"].cookie, "sluice_refresh="), lootNumber} {
				if strings.Contains(log, secret) {
					s.t.Errorf("the log has %.14s…", secret)
				}
			}
		}},
	}
}

// bodyAttacks are about what a body costs.
func bodyAttacks() []attack {
	soon := func(s *scene, what string, do func()) {
		s.t.Helper()
		began := time.Now()
		do()
		if took := time.Since(began); took > 20*time.Second {
			s.t.Errorf("%s took %s", what, took)
		}
	}
	return []attack{
		{"BODY-01", "a body that grows when it is unpacked", "API4:2023", "Content-Encoding in body", func(_ *testing.T, s *scene) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write([]byte(`{"model":"scripted","messages":[{"role":"user","content":"hi"}]}`))
			_, _ = z.Write(bytes.Repeat([]byte(" "), 32<<20))
			_ = z.Close()
			for _, coding := range []string{"gzip", "deflate", "br", "zstd", "gzip, gzip", "GZIP"} {
				s.want(coding, s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, packed.String(), "Content-Encoding", coding), http.StatusBadRequest, http.StatusUnsupportedMediaType)
				s.want(coding, s.send(http.MethodPost, "/api/v1/keys", s.session(), packed.String(), "Content-Encoding", coding), http.StatusBadRequest, http.StatusUnsupportedMediaType)
			}
		}},
		{"BODY-02", "a body of gigabytes, announced and sent in chunks", "API4:2023", "MaxBodyBytes", func(_ *testing.T, s *scene) {
			for path, credential := range map[string]string{"/v1/chat/completions": s.loot.key.secret, "/api/v1/keys": s.session()} {
				answers := s.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10000000000\r\nAuthorization: Bearer " + credential + "\r\n\r\n{")
				if len(answers) != 1 || answers[0].status != http.StatusRequestEntityTooLarge {
					s.t.Errorf("%s: %+v", path, answers)
				}
			}
			r := s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, `{"model":"`+strings.Repeat("x", 5<<20)+`"}`)
			s.want("five megabytes", r, http.StatusRequestEntityTooLarge)
		}},
		{"BODY-03", "a body of a stranger, which the server should not even read", "API4:2023", "Middleware that does not read bodies", func(_ *testing.T, s *scene) {
			for _, path := range []string{"/v1/chat/completions", "/api/v1/keys", "/api/v1/rag/collections/x/documents"} {
				answers := s.raw("POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\nAuthorization: Bearer nobody\r\n\r\n{")
				if len(answers) != 1 || answers[0].status != http.StatusUnauthorized { // and the connection is closed: nobody waits for the rest
					s.t.Errorf("%s: %+v", path, answers)
				}
			}
		}},
		{"BODY-04", "JSON nested ten thousand times", "RFC 8259, section 9", "tooDeep", func(_ *testing.T, s *scene) {
			for _, deep := range []string{strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat(`{"a":`, 10_000), strings.Repeat("[", 2_000_000)} {
				body := `{"model":"scripted","messages":` + deep + "}"
				r := s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, body)
				if s.want("the business API", r, http.StatusRequestEntityTooLarge); !strings.Contains(string(r.body), `"nesting_too_deep"`) {
					s.t.Errorf("refused for another reason: %s", r.body)
				}
				s.want("the management API", s.send(http.MethodPost, "/api/v1/keys", s.session(), `{"name":`+deep+"}"), http.StatusBadRequest, http.StatusRequestEntityTooLarge)
			}
		}},
		{"BODY-05", "numbers that no machine has, and members that are given twice", "RFC 8259, section 6", "Principal.MayUse", func(_ *testing.T, s *scene) {
			for _, member := range []string{`"max_tokens":1e999`, `"max_tokens":99999999999999999999`, `"max_tokens":-1`, `"max_tokens":0`, `"temperature":1e400`, `"n":9223372036854775808`, `"seed":1e40`, `"temperature":NaN`, `"top_p":-0.5`, `"max_tokens":0x10`, `"n":1.5`} {
				body := `{"model":"scripted","messages":[{"role":"user","content":"hi"}],` + member + "}"
				s.want(member, s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, body), http.StatusBadRequest)
			}
			for _, member := range []string{`"limit_nano":1e30`, `"limit_nano":-1`, `"limit_nano":9223372036854775808`, `"limit_nano":1.5`, `"limit_nano":"1"`} {
				s.want(member, s.send(http.MethodPut, "/api/v1/budgets", s.session(), `{"period":"day","key":"`+s.bankKey.id+`","tenant":"bank",`+member+"}"), http.StatusBadRequest)
			}
			bound := s.issueKey(map[string]any{"name": "bound", "models": []string{"other"}}).secret
			for _, body := range []string{
				`{"model":"other","model":"scripted","messages":[{"role":"user","content":"hi"}]}`, `{"model":"scripted","model":"other","messages":[{"role":"user","content":"hi"}]}`,
				`{"model":"other","Model":"scripted","messages":[{"role":"user","content":"hi"}]}`,
			} {
				s.want(body, s.send(http.MethodPost, "/v1/chat/completions", bound, body), http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound)
			}
		}},
		{"BODY-06", "ask for more than a machine has: tokens, choices, stops, tools, biases", "LLM10:2025", "the bounds of integer and number", func(_ *testing.T, s *scene) {
			list := func(n int, of func(i int) any) (out []any) {
				for i := range n {
					out = append(out, of(i))
				}
				return out
			}
			biases := map[string]any{}
			for i := range 100_000 {
				biases[fmt.Sprint(i)] = 1
			}
			for what, more := range map[string]map[string]any{
				"choices": {"n": 1000}, "choices and streams": {"n": 129, "stream": true}, "stops": {"stop": list(1000, func(i int) any { return fmt.Sprint("s", i) })},
				"a long stop": {"stop": strings.Repeat("x", 100_000)}, "log probabilities": {"logprobs": true, "top_logprobs": 10_000}, "biases": {"logit_bias": biases},
				"tools": {"tools": list(5000, func(i int) any {
					return map[string]any{"type": "function", "function": map[string]any{"name": fmt.Sprint("f", i)}}
				})},
				"no messages": {"messages": []any{}}, "known values": {"sluice": map[string]any{"known": list(5000, func(i int) any { return fmt.Sprint("name ", i) })}},
			} {
				soon(s, what, func() {
					s.want(what, s.send(http.MethodPost, "/v1/chat/completions", s.loot.key.secret, merged(question("hi"), more)), http.StatusBadRequest, http.StatusRequestEntityTooLarge)
				})
			}
		}},
		{"BODY-07", "a pattern in a policy that takes for ever", "API4:2023", "", func(_ *testing.T, s *scene) {
			for _, pattern := range []string{`(a+)+$`, `(a|aa)+$`, `(.*a){30}`, `((a{1,30}){1,30}){1,30}`, `(?=a)a`, `(a)\1`} {
				policy := openPolicy + "  employee: {request: token}\ncustom:\n  - {class: employee, tag: E, pattern: '" + pattern + "'}\n"
				soon(s, pattern, func() {
					r := s.admin(http.MethodPost, "/policies/validations", map[string]any{"yaml": policy}, nil)
					if r.status >= 500 {
						s.t.Errorf("%s: %d %s", pattern, r.status, r.body)
					}
					p := s.admin(http.MethodPost, "/masking/preview", map[string]any{"yaml": policy, "text": strings.Repeat("a", 20_000) + "!"}, nil)
					if p.status >= 500 {
						s.t.Errorf("%s: %d %.300s", pattern, p.status, p.body)
					}
				})
			}
		}},
		{"BODY-08", "YAML whose aliases multiply", "CVE-2019-11253", "", func(_ *testing.T, s *scene) {
			bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
			for c := 'b'; c <= 'j'; c++ {
				bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ","))
			}
			for path, body := range map[string]map[string]any{
				"/policies": {"yaml": bomb}, "/policies/validations": {"yaml": openPolicy + bomb}, "/price-books": {"yaml": bomb}, "/cost-books": {"yaml": bomb}, "/masking/preview": {"yaml": bomb, "text": "x"},
			} {
				soon(s, path, func() {
					r := s.admin(http.MethodPost, path, body, nil)
					if r.status >= 500 || r.status < 400 && path != "/policies/validations" {
						s.t.Errorf("%s: %d %.300s", path, r.status, r.body)
					}
				})
			}
		}},
		{"BODY-09", "pages without end, and wildcards that a database searches without end", "CVE-2026-25591; API4:2023", "chain.validate", func(_ *testing.T, s *scene) {
			for _, path := range []string{"/keys?limit=", "/users?limit=", "/audit/records?limit=", "/policies?limit="} {
				for _, limit := range []string{"100000000", "-1", "0", "1e9", "99999999999999999999", "201"} {
					s.want(path+limit, s.admin(http.MethodGet, path+limit, nil, nil), http.StatusBadRequest)
				}
			}
			for _, q := range []string{"actor=%25", "actor=_%25", "action=%25admin%25", "model=%25", "session=%25", "request=%25", "source=%25", "text=%25%25"} {
				soon(s, q, func() {
					r := s.admin(http.MethodGet, "/audit/records?limit=200&"+q, nil, nil)
					if r.status == http.StatusOK && strings.Contains(string(r.body), s.loot.record) {
						s.t.Errorf("%s is a wildcard", q)
					}
				})
			}
		}},
		{"BODY-10", "spend a budget that is spent, by another path, a stream, another name or another session", "API6:2023", "Ledger.reserve", func(_ *testing.T, s *scene) {
			broke := s.issueKey(map[string]any{"name": "broke"})
			s.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "key": broke.id, "limit_nano": 0}, new(any))
			for _, more := range []map[string]any{{}, {"stream": true}, {"max_tokens": 1}, {"user": "somebody else"}, {"service_tier": "flex"}, {"metadata": map[string]string{"budget": "none"}}} {
				s.want(fmt.Sprint(more), s.send(http.MethodPost, "/v1/chat/completions", broke.secret, merged(question("hi"), more), "X-Sluice-Session", "new", "X-Sluice-Project", "other"), http.StatusTooManyRequests)
			}
			s.want("a completion", s.send(http.MethodPost, "/v1/completions", broke.secret, dataBodies["/v1/completions"]), http.StatusTooManyRequests)
			if n := s.usage("?key=" + broke.id).Requests; n != 0 {
				s.t.Errorf("%d requests were answered", n)
			}
		}},
		{"BODY-11", "ask more often than a key may, from other addresses and in other sessions", "API4:2023", "limit of the gateway", func(_ *testing.T, s *scene) {
			key := s.issueKey(map[string]any{"name": "slow", "limits": map[string]int{"requests_per_minute": 1, "tokens_per_minute": 0, "concurrent": 0}}).secret
			refused := 0
			for i := range 6 {
				r := s.send(http.MethodPost, "/v1/chat/completions", key, merged(question("hi"), map[string]any{"user": fmt.Sprint(i)}), "X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i), "X-Sluice-Session", fmt.Sprint("s", i), "User-Agent", fmt.Sprint(i))
				if r.status == http.StatusTooManyRequests {
					refused++
				}
			}
			if refused < 4 {
				s.t.Errorf("only %d of 6 were refused", refused)
			}
		}},
		{"BODY-12", "give oneself credit: a correction, a negative budget, a price of nothing", "API6:2023", "mayBudget, Enforcer.Allow", func(_ *testing.T, s *scene) {
			for name, by := range map[string]string{"a customer": s.bank["system_admin"].token, "an auditor": s.demo["auditor"].token, "a key": s.loot.key.secret, "nobody": ""} {
				r := s.send(http.MethodPost, "/api/v1/billing/corrections", by, map[string]any{"amount_nano": -1_000_000_000, "reason": "credit", "tenant": "bank"})
				s.want(name, r, http.StatusForbidden, http.StatusUnauthorized)
			}
			s.want("the own tenant's budget", s.send(http.MethodPut, "/api/v1/budgets", s.bank["system_admin"].token, map[string]any{"period": "month", "limit_nano": 1_000_000}), http.StatusForbidden)
			for _, path := range []string{"/api/v1/billing/webhook", "/webhook", "/api/stripe/webhook", "/api/user/topup"} {
				s.want(path, s.send(http.MethodPost, path, "", "{}"), http.StatusNotFound)
			}
		}},
	}
}
