package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-project/sluice/engine"
	"github.com/sluice-project/sluice/engine/enginetest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// attack is one thing that somebody hostile does over HTTP to an installation that has just started. It fails unless the server holds.
type attack struct {
	id, what string
	source   string // the CVE, the row of an OWASP list, or the section of an RFC that describes it
	weakened string // what was taken out of the product when the case was seen failing; empty: nobody did it yet
	run      func(t *testing.T, s *scene)
}

// attackGroups are the attacks by the installation that they are made on.
func attackGroups() []struct {
	name    string
	set     func(t *testing.T) *scene
	attacks [][]attack
} {
	return []struct {
		name    string
		set     func(t *testing.T) *scene
		attacks [][]attack
	}{
		{"plain", newScene, [][]attack{objectAttacks(), functionAttacks(), assignmentAttacks(), tokenAttacks(), sessionAttacks(), keyAttacks(), edgeAttacks(), bodyAttacks(), modelAttacks(), emergencyAttacks()}},
		{"documents", newDocumentScene, [][]attack{documentAttacks()}},
		{"duties", newDutyScene, [][]attack{dutyAttacks()}},
		{"programs", newProgramScene, [][]attack{serviceAttacks()}},
	}
}

// TestAttacks makes every attack of the list. Those of a group share an installation and run at the same time, as attacks do.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, group := range attackGroups() {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			s := group.set(t)
			for _, list := range group.attacks {
				for _, a := range list {
					t.Run(a.id, func(t *testing.T) {
						t.Parallel()
						a.run(t, s.seenBy(t))
					})
				}
			}
		})
	}
}

var attackSource = regexp.MustCompile(`^(CVE-\d{4}-\d{4,}|GHSA(-[0-9a-z]{4}){3}|API([1-9]|10):2023|LLM(0[1-9]|10):2025|RFC \d{4}, section [\d.]+|W3C WebAuthn Level 3, section [\d.]+)$`)

// TestAttackList holds the list: long enough, no id twice, a source for each, and a page that people read.
func TestAttackList(t *testing.T) {
	t.Parallel()
	ids, n := map[string]bool{}, 0
	var page strings.Builder
	page.WriteString(attackPage)
	for _, group := range attackGroups() {
		for _, list := range group.attacks {
			for _, a := range list {
				n++
				if ids[a.id] || a.id == "" || a.what == "" || a.run == nil {
					t.Errorf("%s: twice, or without what it does", a.id)
				}
				ids[a.id] = true
				for _, source := range strings.Split(a.source, "; ") {
					if !attackSource.MatchString(source) {
						t.Errorf("%s cites %q", a.id, source)
					}
				}
				fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", a.id, a.what, a.source, a.weakened)
			}
		}
	}
	if n < 60 {
		t.Errorf("only %d attacks", n)
	}
	const file = "../docs/security/attacks.md"
	if os.Getenv("SLUICE_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(page.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != page.String() {
		t.Errorf("%s is not the list (%v): run with SLUICE_UPDATE=1", file, err)
	}
}

const attackPage = `# Attacks that the tests make

` + "`go test ./server -run TestAttacks`" + ` starts fresh servers and attacks them over HTTP in the ways below. The list is written by the test
` + "(`SLUICE_UPDATE=1 go test ./server -run TestAttackList`)" + ` and held to it.

*Source* is where such an attack is described: a CVE or an advisory of a product like this one or of a library, a row of the OWASP API
Security Top 10 (API, 2023) or of the OWASP Top 10 for LLM applications (LLM, 2025), or a section of an RFC or of W3C Web Authentication. *Seen
failing without* names the function that was weakened by hand when the case was seen to fail; where it is empty, nobody did that yet.

| Case | Attack | Source | Seen failing without |
| --- | --- | --- | --- |
`

// scene is an installation with people, two tenants, and things that one of them has.
type scene struct {
	*installation

	demo, bank map[string]account // by role; demo is the operator's tenant
	other      account            // another developer of demo
	bankKey    issuedKey
	loot       *loot
	sent       *upstreamTap
	proxied    bool // it believes what a proxy says about where somebody is
	emergency  *emergency
}

// loot is what demo has.
type loot struct {
	key      issuedKey
	request  string   // of a chat for alice, whose texts are kept
	record   string   // of the audit log, about it
	tokens   []string // pseudonyms in it, of her number
	hold     string
	erasure  string // the request for an approval of one
	reveal   string // the same of a reveal
	fix      string // the reason of a correction
	document string // id, where there are documents
	project  string
}

const (
	lootSession = "loot-1"
	lootNumber  = "13800138000"
)

// seenBy returns the scene for a sub-test.
func (s *scene) seenBy(t *testing.T) *scene {
	mine, in := *s, *s.installation
	in.t = t
	if s.proxied { // each comes from a network of its own, so that the guesses of one do not slow the others
		in.from = fmt.Sprintf("2001:db8:%x::1", crc32.ChecksumIEEE([]byte(t.Name()))&0xffff)
	}
	mine.installation = &in
	return &mine
}

// unlimited keeps attacks from being refused for coming fast.
const unlimited = "limits: {key: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}, tenant: {requests_per_minute: 0, tokens_per_minute: 0, concurrent: 0}}\n"

// upstreamTap keeps what the server sends to its upstream.
type upstreamTap struct {
	mu     sync.Mutex
	seen   []string // header, path and body
	called int      // of where a redirection leads
	trap   string
}

// What a question has that the upstream is to answer as a hostile one does.
const (
	wantsRedirect = "upstream: lead elsewhere"
	wantsEcho     = "upstream: fail and tell"
)

func (u *upstreamTap) wire(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		u.mu.Lock()
		u.seen = append(u.seen, fmt.Sprint(r.Host, " ", r.RequestURI, " ", r.Header, " ", string(body)))
		u.mu.Unlock()
		switch {
		case bytes.Contains(body, []byte(wantsRedirect)):
			http.Redirect(w, r, u.trap, http.StatusTemporaryRedirect)
		case bytes.Contains(body, []byte(wantsEcho)):
			http.Error(w, `{"error":{"message":"secret-of-the-upstream at /srv/upstream/main.py:17 `+r.Header.Get("Authorization")+`"}}`, http.StatusBadRequest)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (u *upstreamTap) text() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.seen, "\n")
}

// people makes the accounts of both tenants.
func (s *scene) people() {
	s.admin(http.MethodPost, "/tenants", map[string]string{"id": "bank", "name": "Bank"}, new(any))
	s.demo, s.bank = map[string]account{}, map[string]account{}
	for _, role := range []string{"developer", "security_admin", "system_admin", "auditor", "compliance"} {
		short := strings.TrimSuffix(role, "_admin")
		s.demo[role] = s.newAccount("demo-"+short, nil, role)
		s.bank[role] = s.newAccount("bank-"+short, map[string]any{"tenant": "bank"}, role)
	}
	s.other = s.newAccount("demo-other", nil, "developer")
	s.bankKey = s.issueKey(map[string]any{"tenant": "bank", "name": "of the bank"})
}

// newScene is an installation without documents whose administrator holds all duties.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{sent: &upstreamTap{}}
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		s.sent.mu.Lock()
		defer s.sent.mu.Unlock()
		s.sent.called++
	}))
	t.Cleanup(trap.Close)
	s.sent.trap = trap.URL
	s.installation = start(t, setup{extra: unlimited + glass, wire: s.sent.wire, plan: scriptedAttack, overrides: map[string]any{
		"operations.pprof": true, "console": true, "identity.webauthn.origins": []string{keyOrigin},
	}})
	s.people()
	for _, tenant := range []string{"demo", "bank"} {
		s.admin(http.MethodPost, "/policies", map[string]string{"tenant": tenant, "yaml": revealPolicy(20, usualRules)}, new(any))
	}
	l := &loot{key: s.issueKey(map[string]any{"name": "loot"}), fix: "a promise to the customer", project: "secret-project"}
	s.admin(http.MethodPost, "/projects", map[string]any{"id": l.project, "name": "Secret"}, new(any))
	var many strings.Builder
	for i := range 24 {
		fmt.Fprintf(&many, "手机1390013%04d。", 9000+i)
	}
	bulk := s.saidAs("bob", "loot-2", many.String()) // so many values need a second person
	l.tokens = s.saidAs("alice", lootSession, "我的手机是"+lootNumber+"。")
	s.eachRecord("stage=outcome&action=chat.completions", func(e auditEvent, _ json.RawMessage) {
		if l.record == "" { // the newest comes first
			l.record, l.request = e.ID, e.Request
		}
	})
	officer := s.demo["compliance"].token
	var made struct{ ID string }
	s.send(http.MethodPost, "/api/v1/audit/holds", officer, map[string]any{"reason": "case 17", "subject": "alice"}).decode(t, &made)
	l.hold = made.ID
	s.send(http.MethodPost, approvalsPath, officer, map[string]any{"subject": "alice", "reason": "a court wants it"}).decode(t, &made)
	l.erasure = made.ID
	s.send(http.MethodPost, "/api/v1/reveal/approvals", officer, map[string]any{"session": "loot-2", "tokens": bulk, "purpose": "complaint"}).decode(t, &made)
	l.reveal = made.ID
	s.admin(http.MethodPut, "/budgets", map[string]any{"period": "month", "key": l.key.id, "limit_nano": int64(1e15)}, new(any))
	s.admin(http.MethodPost, "/billing/corrections", map[string]any{"amount_nano": 5, "reason": l.fix}, new(any))
	s.loot, s.emergency = l, s.openEmergency()
	if l.record == "" || l.hold == "" || l.erasure == "" || l.reveal == "" || len(l.tokens) != 1 {
		t.Fatalf("there is nothing to steal: %+v", l)
	}
	return s
}

// scriptedAttack answers as a hostile model does where the question says so, and repeats the question otherwise.
func scriptedAttack(_ int, req *engine.Request) enginetest.Plan {
	last := req.Messages[len(req.Messages)-1].Content
	if _, answer, ok := strings.Cut(last, "answer with:"); ok {
		return enginetest.Plan{Texts: []string{answer}}
	}
	return enginetest.Plan{Texts: []string{last}}
}

// foreign does something to what demo has as somebody of the bank with that role: in his own tenant it does not exist, and he may do nothing
// in another.
func (s *scene) foreign(role, method, path string, body any) {
	s.t.Helper()
	r := s.send(method, "/api/v1"+path, s.bank[role].token, body)
	if r.status != http.StatusNotFound {
		s.t.Errorf("%s %s of another tenant: %d %s", method, path, r.status, r.body)
	}
	s.forbidden(role, method, path, body)
}

// forbidden does it in demo's name, and in that of all tenants.
func (s *scene) forbidden(role, method, path string, body any) {
	s.t.Helper()
	join := "?"
	if strings.Contains(path, "?") {
		join = "&"
	}
	for _, tenant := range []string{"demo", "*"} {
		at, sent := path+join+"tenant="+url.QueryEscape(tenant), body
		if named, ok := body.(map[string]any); ok && s.takesTenant(path) {
			at, sent = path, merged(named, map[string]any{"tenant": tenant})
		}
		if r := s.send(method, "/api/v1"+at, s.bank[role].token, sent); r.status != http.StatusForbidden {
			s.t.Errorf("%s %s: %d %s", method, at, r.status, r.body)
		}
	}
}

// takesTenant reports whether the body of a call to path names the tenant.
func (s *scene) takesTenant(path string) bool {
	for _, p := range []string{
		"/keys", "/projects", "/users", "/policies", "/budgets", "/rag/collections", "/audit/holds", erasuresPath[len("/api/v1"):], previewPath[len("/api/v1"):], approvalsPath[len("/api/v1"):],
		"/reveal", "/reveal/approvals", "/reveal/erasures", "/service-accounts", "/invitations", "/billing/corrections", "/audit/subjects",
	} {
		if path == p {
			return true
		}
	}
	return false
}

// hidden reads a list: who has the role in demo sees needle there, who has it in the bank does not.
func (s *scene) hidden(role, path, needle string) {
	s.t.Helper()
	if r := s.send(http.MethodGet, "/api/v1"+path, s.demo[role].token, nil); r.status != http.StatusOK || !strings.Contains(string(r.body), needle) {
		s.t.Errorf("GET %s: who may see %s does not: %d %s", path, needle, r.status, r.body)
	}
	if r := s.send(http.MethodGet, "/api/v1"+path, s.bank[role].token, nil); r.status != http.StatusOK || strings.Contains(string(r.body), needle) {
		s.t.Errorf("GET %s from another tenant: %d %s", path, r.status, r.body)
	}
	s.forbidden(role, http.MethodGet, path, nil)
}

func merged(a, b map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

// works fails unless a key is good.
func (s *scene) works(what, secret string) {
	s.t.Helper()
	if r := s.send(http.MethodPost, "/v1/chat/completions", secret, dataBodies["/v1/chat/completions"]); r.status != http.StatusOK {
		s.t.Errorf("%s does not work any more: %d %s", what, r.status, r.body)
	}
}

// want fails unless the answer has one of the statuses.
func (s *scene) want(what string, r reply, statuses ...int) {
	s.t.Helper()
	for _, status := range statuses {
		if r.status == status {
			return
		}
	}
	s.t.Errorf("%s: %d %.300s, want %v", what, r.status, r.body, statuses)
}

// host is where the server listens.
func (s *scene) host() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.started.BaseURL, "http://"), "/v1")
}

// raw sends bytes that no client would, and returns the answers up to the end of the connection. The last request has to ask for that end,
// unless the server hangs up.
func (s *scene) raw(text string) (answers []reply) {
	s.t.Helper()
	conn, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.host())
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	go func() { _, _ = io.WriteString(conn, text) }() // the server may refuse before it has read all
	in := bufio.NewReader(conn)
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			var late net.Error
			if ok := errors.As(err, &late); ok && late.Timeout() {
				s.t.Errorf("the connection stays open after %d answers", len(answers))
			}
			return answers
		}
		body, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		answers = append(answers, reply{res.StatusCode, res.Header, body})
	}
}

// line is a raw request without a body that ends its connection.
func (s *scene) line(method, target, credential string, header ...string) string {
	out := method + " " + target + " HTTP/1.1\r\nConnection: close\r\n"
	if !strings.Contains(strings.ToLower(strings.Join(header, "\n")), "host:") {
		out += "Host: " + s.host() + "\r\n"
	}
	if credential != "" {
		out += "Authorization: Bearer " + credential + "\r\n"
	}
	for _, h := range header {
		out += h + "\r\n"
	}
	return out + "\r\n"
}

// trap is a server that nobody should call.
func (s *scene) trap() (address string, called func() bool) {
	var mu sync.Mutex
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
	}))
	s.t.Cleanup(srv.Close)
	return srv.URL, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return n > 0
	}
}

// question is a chat of one message.
func question(text string) map[string]any {
	return map[string]any{"model": "scripted", "messages": []any{map[string]any{"role": "user", "content": text}}}
}

// routes are the routes of the management API.
func (s *scene) routes() []adminapi.Route {
	s.t.Helper()
	routes, err := adminapi.Routes()
	if err != nil || len(routes) < 60 {
		s.t.Fatalf("%d routes, %v", len(routes), err)
	}
	return routes
}
