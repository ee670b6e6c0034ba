package governance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/mask"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const (
	testPhone = "13800138000"
	testID    = "11010519491231002X"
)

func newGuard(t *testing.T, db *gorm.DB, logTo *bytes.Buffer) *Guard {
	t.Helper()
	handler := slog.DiscardHandler
	if logTo != nil {
		handler = slog.NewTextHandler(logTo, nil)
	}
	keys := keyring.FromBytes(bytes.Repeat([]byte{5}, 32))
	g, err := New(Config{}, NewPolicyStore(db), keys, classify.New(classify.Classes()...), slog.New(handler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g
}

func withDefault(t *testing.T) *Guard {
	t.Helper()
	g := newGuard(t, dbtest.SQLite(t), nil)
	if created, err := g.EnsureDefault(t.Context(), "system"); err != nil || !created {
		t.Fatal(created, err)
	}
	return g
}

func publish(t *testing.T, g *Guard, tenant, entities string) Version {
	t.Helper()
	doc := "schema: 2\nname: test\nmodels: [\"smol*\"]\ncollections: [faq]\nentities:\n" + entities
	v, err := g.Publish(t.Context(), tenant, []byte(doc), "tester")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func ask(fields ...*string) AdmitRequest {
	a := AdmitRequest{Request: "r1", Tenant: "acme", Session: "s1", Action: "chat.completions", Model: "smollm2"}
	for i, f := range fields {
		a.Fields = append(a.Fields, Field{Path: fmt.Sprintf("messages[%d].content", i), Text: f})
	}
	return a
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("error is %v, want code %s", err, code)
	}
}

func TestAdmitAndRelease(t *testing.T) {
	g := withDefault(t)
	system, user := "你是客服。", "我的电话"+testPhone+"，身份证"+testID+"，邮箱zs@example.com"
	before := user
	a, err := g.Admit(t.Context(), ask(&system, nil, &user))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{testPhone, testID, "zs@example.com"} {
		if strings.Contains(user, secret) {
			t.Errorf("the model would see a value: %q", user)
		}
	}
	if system != "你是客服。" || !a.Masked() {
		t.Error("plain fields must stay")
	}
	passage, err := a.MaskPassage("联系" + testPhone + "或13900139000")
	if err != nil {
		t.Fatal(err)
	}
	token := user[strings.Index(user, "⟦手机"):]
	token = token[:strings.Index(token, "⟧")+len("⟧")]
	if !strings.Contains(passage, token) || strings.Contains(passage, "139001") {
		t.Errorf("a passage must be masked with the same pseudonyms: %q", passage)
	}
	release := a.Release()
	var shown strings.Builder
	for _, c := range "原文：" + user + "；资料：" + passage + "；密钥sk-abcd1234efgh5678ijkl；⟦手机·ZZZZZ⟧" {
		s, err := release.Write(string(c))
		if err != nil {
			t.Fatal(err)
		}
		shown.WriteString(s)
	}
	rest, err := release.Close()
	if err != nil {
		t.Fatal(err)
	}
	want := "原文：" + before + "；资料：联系" + testPhone + "或13900139000；密钥〔已屏蔽:密钥〕；⟦手机·ZZZZZ⟧"
	if got := shown.String() + rest; got != want {
		t.Errorf("shown %q\nwant  %q", got, want)
	}
	wantFindings := "[{answer api_secret api_secret@5 redact 1 0} {answer pseudonym pseudonym@4 unknown 1 0} {passage cn_mobile cn_mobile@5 token 2 3} " +
		"{request cn_mobile cn_mobile@5 token 1 2} {request cn_resident_id cn_resident_id@5 token 1 1} {request email email@5 token 1 1}]" // the last figure: put back
	if got := fmt.Sprint(a.Findings()); got != wantFindings {
		t.Errorf("findings %s\nwant     %s", got, wantFindings)
	}
	if a.Policy().Version != "*@1" || len(a.Policy().Digest) != 64 {
		t.Errorf("policy %+v", a.Policy())
	}
}

func TestPseudonymsFollowSessionAndPolicy(t *testing.T) {
	g := withDefault(t)
	admit := func(edit func(*AdmitRequest)) string {
		text := testPhone
		q := ask(&text)
		edit(&q)
		if _, err := g.Admit(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		return text
	}
	base := admit(func(*AdmitRequest) {})
	if admit(func(q *AdmitRequest) { q.Request = "r2" }) != base {
		t.Error("another turn of the conversation must get the same pseudonym")
	}
	for name, other := range map[string]string{
		"session": admit(func(q *AdmitRequest) { q.Session = "s2" }), "tenant": admit(func(q *AdmitRequest) { q.Tenant = "other" }),
		"no session": admit(func(q *AdmitRequest) { q.Session = "" }), "nothing": admit(func(q *AdmitRequest) { q.Session, q.Request = "", "" }),
		// A session named like a request must not share its pseudonyms.
		"request": admit(func(q *AdmitRequest) { q.Session, q.Request = "", "s1" }),
	} {
		if other == base {
			t.Errorf("%s: pseudonyms can be linked", name)
		}
	}
	_, err := g.Publish(t.Context(), "acme", bytes.Replace(defaultPolicy, []byte("pseudonyms: session"), []byte("pseudonyms: request"), 1), "x")
	if err != nil {
		t.Fatal(err)
	}
	if one, two := admit(func(*AdmitRequest) {}), admit(func(q *AdmitRequest) { q.Request = "r2" }); one == two {
		t.Error("pseudonyms per request must differ between requests")
	}
}

func TestModelsAndPurposes(t *testing.T) {
	g := withDefault(t)
	publish(t, g, "acme", "  default: {request: token, passage: token, answer: observe}\n")
	q := ask()
	q.Model = "gpt"
	_, err := g.Admit(t.Context(), q)
	wantCode(t, err, fault.CodeModelNotAllowed)
	if got := g.Models(t.Context(), "acme", "", []string{"gpt", "smollm2", "smollm2@v1"}); fmt.Sprint(got) != "[smollm2 smollm2@v1]" {
		t.Errorf("models %v", got)
	}
	if got := g.Models(t.Context(), "other", "", []string{"gpt"}); len(got) != 1 {
		t.Errorf("the policy of one tenant acted on another: %v", got)
	}
	a, err := g.Admit(t.Context(), ask())
	if err != nil || !a.AllowsCollection("faq") || a.AllowsCollection("secret") {
		t.Errorf("collections: %v", err)
	}
	if a.Urgency("interactive") != "interactive" || a.Urgency("batch") != "batch" || a.Urgency("") != "" {
		t.Error("a policy that says nothing of urgency changes it")
	}
	if a.SharesPrefixCache() || !a.UpstreamNonStreaming() {
		t.Error("a policy that says nothing of prefixes shares them, or one that says nothing of answers wants streams")
	}
	open := strings.Replace(string(defaultPolicy), "prefixes: private", "prefixes: shared", 1)
	open = strings.Replace(open, "upstream: whole", "upstream: streamed", 1)
	open = strings.Replace(open, "urgency: interactive", "urgency: standard", 1)
	if _, err := g.Publish(t.Context(), "open", []byte(open), "tester"); err != nil {
		t.Fatal(err)
	}
	q = ask()
	q.Tenant = "open"
	if a, err := g.Admit(t.Context(), q); err != nil || !a.SharesPrefixCache() || a.UpstreamNonStreaming() {
		t.Errorf("a policy that shares prefixes and wants streams: %v", err)
	} else if a.Urgency("interactive") != "standard" || a.Urgency("batch") != "batch" {
		t.Errorf("interactive became %q, batch %q", a.Urgency("interactive"), a.Urgency("batch"))
	}
	if a.LabelMode("") != "metadata" || a.LabelMode("text") != "text" {
		t.Error("label mode")
	}
	doc := strings.Replace(string(defaultPolicy), "purposes: []", "purposes: [billing]", 1)
	if _, err := g.Publish(t.Context(), "acme", []byte(doc), "x"); err != nil {
		t.Fatal(err)
	}
	_, err = g.Admit(t.Context(), ask())
	wantCode(t, err, fault.CodePurpose)
	q = ask()
	q.Ingest = true // answers nobody
	if a, err = g.Admit(t.Context(), q); err != nil || a.Policy().Purpose != "" {
		t.Errorf("%+v, %v", a.Policy(), err)
	}
	q = ask()
	q.Purpose = "billing"
	if a, err = g.Admit(t.Context(), q); err != nil || a.Policy().Purpose != "billing" {
		t.Errorf("%+v, %v", a.Policy(), err)
	}
	q.Tenant = "other" // whose policy lists none: what a caller makes up is not recorded
	if a, err = g.Admit(t.Context(), q); err != nil || a.Policy().Purpose != "" {
		t.Errorf("%+v, %v", a.Policy(), err)
	}
}

func TestBlockedContentChangesNothing(t *testing.T) {
	g := withDefault(t)
	publish(t, g, "acme", "  default: {request: token, passage: block, answer: block}\n  cn_resident_id: {request: block}\n  email: {request: observe, answer: observe}\n")
	first, second := "电话"+testPhone, "证件"+testID+"，zs@example.com"
	wantFirst, wantSecond := first, second
	a, err := g.Admit(t.Context(), ask(&first, &second))
	wantCode(t, err, fault.CodeBlockedContent)
	public := fault.Public(err)
	if public.Param() != "messages[1].content" || !strings.Contains(public.Message(fault.Chinese), "cn_resident_id") || strings.Contains(err.Error(), testID) {
		t.Errorf("error %v at %q", err, public.Param())
	}
	if first != wantFirst || second != wantSecond {
		t.Error("a refused request must stay as it was")
	}
	want := "[{request cn_mobile cn_mobile@5 token 1 0} {request cn_resident_id cn_resident_id@5 block 1 0} {request email email@5 observe 1 0}]"
	if got := fmt.Sprint(a.Findings()); got != want {
		t.Errorf("findings %s, want %s", got, want)
	}
	text := "只有邮箱zs@example.com"
	if a, err = g.Admit(t.Context(), ask(&text)); err != nil || a.Masked() || text != "只有邮箱zs@example.com" {
		t.Errorf("%q, %v", text, err)
	}
	_, err = a.MaskPassage(testPhone)
	wantCode(t, err, fault.CodeBlockedContent)
	r := a.Release()
	shown, err := r.Write("打" + testPhone + "。")
	wantCode(t, err, fault.CodeBlockedAnswer)
	if shown != "" || strings.Contains(err.Error(), testPhone) {
		t.Errorf("shown %q, error %v", shown, err)
	}
}

// TestMilderRuleDoesNotDecideForBoth: the password is masked although the address around it passes.
func TestMilderRuleDoesNotDecideForBoth(t *testing.T) {
	g := withDefault(t)
	publish(t, g, "acme", "  default: {request: observe, passage: observe, answer: observe}\n  api_secret: {request: token}\n")
	text := "mysql://root:pw123456@db.example.com/x"
	if _, err := g.Admit(t.Context(), ask(&text)); err != nil || strings.Contains(text, "pw123456") {
		t.Errorf("%q %v", text, err)
	}
}

func TestNoPolicyNoService(t *testing.T) {
	var faults dbtest.Faults
	db := faults.Over(dbtest.SQLite(t))
	g := newGuard(t, db, nil)
	_, err := g.Admit(t.Context(), ask())
	wantCode(t, err, fault.CodePolicyUnavailable)
	_, err = g.Preview(t.Context(), PreviewRequest{Tenant: "acme", Text: "x"})
	wantCode(t, err, fault.CodePolicyUnavailable)
	if g.Models(t.Context(), "acme", "", []string{"m"}) != nil {
		t.Error("no policy, no models")
	}
	publish(t, g, "acme", "  default: {request: token, passage: token, answer: observe}\n")
	q := ask()
	q.Tenant = "other"
	_, err = g.Admit(t.Context(), q)
	wantCode(t, err, fault.CodePolicyUnavailable)
	q.Tenant = ""
	_, err = g.Admit(t.Context(), q)
	wantCode(t, err, fault.CodePolicyUnavailable)

	unloaded, err := New(Config{}, NewPolicyStore(db), keyring.FromBytes(make([]byte, 32)), classify.New(classify.Classes()...), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = unloaded.Admit(t.Context(), ask())
	wantCode(t, err, fault.CodePolicyUnavailable)

	// The database goes away: the last policies hold for MaxStale, then nothing does until it is back.
	start := time.Now()
	g.now = func() time.Time { return start.Add(g.cfg.MaxStale - time.Minute) }
	faults.Set(func(string) dbtest.Outcome { return dbtest.FailsBefore })
	if g.policies.Refresh(t.Context()) == nil {
		t.Fatal("a look at a database that is away must fail")
	}
	if _, err := g.Admit(t.Context(), ask()); err != nil {
		t.Error(err)
	}
	g.now = func() time.Time { return start.Add(g.cfg.MaxStale + time.Minute) }
	_, err = g.Admit(t.Context(), ask())
	wantCode(t, err, fault.CodePolicyUnavailable)
	_, err = g.Publish(t.Context(), "acme", defaultPolicy, "x")
	wantCode(t, err, fault.CodeDatabaseUnavailable)
	faults.Set(nil)
	if err := g.policies.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Admit(t.Context(), ask()); err != nil {
		t.Error("the database is back:", err)
	}
}

func TestPublishIsVersionedAndSeenByReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		a, b := newGuard(t, db, nil), newGuard(t, db, nil)
		if created, err := a.EnsureDefault(t.Context(), "system"); err != nil || !created {
			t.Fatal(created, err)
		}
		if created, err := a.EnsureDefault(t.Context(), "system"); err != nil || created {
			t.Errorf("a second start must publish nothing: %v %v", created, err)
		}
		_, err := b.Admit(t.Context(), ask())
		wantCode(t, err, fault.CodePolicyUnavailable)

		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- b.Run(ctx) }()
		deadline, tick := time.After(2*time.Second), time.NewTicker(20*time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := b.Admit(ctx, ask()); err == nil {
				break
			}
			select {
			case <-deadline:
				t.Fatal("the policy was not seen within 2 seconds")
			case <-tick.C:
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}

		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := a.Publish(t.Context(), "acme", defaultPolicy, "u1")
				errs <- err
			}()
		}
		for range 4 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		versions, err := a.Versions(t.Context(), "acme")
		if err != nil || len(versions) != 4 || versions[0].Version != 4 || versions[0].CreatedBy != "u1" {
			t.Fatalf("%+v %v", versions, err)
		}
		v, source, err := a.Get(t.Context(), "acme", 2)
		if err != nil || v.Version != 2 || !bytes.Equal(source, defaultPolicy) {
			t.Errorf("%+v %v", v, err)
		}
		for tenant, now := range map[string]string{"acme": "acme@4", "other": "*@1", EveryTenant: "*@1"} { // "other" has none of its own
			for _, stale := range []string{"", "acme@3", "*@9"} {
				_, err := a.PublishAfter(t.Context(), tenant, defaultPolicy, "u1", stale)
				wantCode(t, err, fault.CodePolicyChanged)
				if !strings.Contains(err.Error(), now) {
					t.Errorf("%v does not name %s", err, now)
				}
			}
		}
		outcomes := make(chan error)
		for range 4 { // of those who compared with the same version one comes first
			go func() {
				_, err := b.PublishAfter(t.Context(), "late", defaultPolicy, "u1", "*@1")
				outcomes <- err
			}()
		}
		refused := 0
		for range 4 {
			if err := <-outcomes; fault.Is(err, fault.CodePolicyChanged) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		}
		if refused != 3 {
			t.Errorf("%d of 4 were refused", refused)
		}
		_, _, err = a.Get(t.Context(), "acme", 9)
		wantCode(t, err, fault.CodeNotFound)
		adm, err := a.Admit(t.Context(), ask())
		if err != nil || adm.Policy().Version != "acme@4" {
			t.Errorf("%v", err)
		}

		for _, sql := range []string{"UPDATE policy_documents SET canonical = '{}'", "DELETE FROM policy_documents"} {
			if db.Exec(sql).Error == nil {
				t.Errorf("%s must be refused", sql)
			}
		}
	})
}

// TestTamperedPolicyLocksItsTenant: a row that does not match its digest refuses the tenant, and does not fall back to the default.
func TestTamperedPolicyLocksItsTenant(t *testing.T) {
	db := dbtest.SQLite(t)
	var logged bytes.Buffer
	g := newGuard(t, db, &logged)
	if _, err := g.EnsureDefault(t.Context(), "system"); err != nil {
		t.Fatal(err)
	}
	publish(t, g, "acme", "  default: {request: block, passage: block, answer: block}\n")
	for _, sql := range []string{
		"DROP TRIGGER policy_documents_no_update",
		`UPDATE policy_documents SET canonical = REPLACE(canonical, 'block', 'pass') WHERE tenant = 'acme'`,
	} {
		if err := db.Exec(sql).Error; err != nil {
			t.Fatal(err)
		}
	}
	if err := g.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, err := g.Admit(t.Context(), ask())
	wantCode(t, err, fault.CodePolicyUnavailable)
	q := ask()
	q.Tenant = "other"
	if _, err := g.Admit(t.Context(), q); err != nil {
		t.Error("other tenants must go on:", err)
	}
	if !strings.Contains(logged.String(), "scope=acme") {
		t.Error("a human must learn of it")
	}
}

// TestPreviewIsTrue: whatever a policy does, in whatever direction and channel, a preview that says hidden shows the value nowhere but where a
// pseudonym is put back, and says observe where it stays.
func TestPreviewIsTrue(t *testing.T) {
	g := withDefault(t)
	text := "电话" + testPhone
	for _, action := range mask.Actions() {
		for _, d := range directions() {
			for _, channel := range []string{"", "chat", "completions", "embeddings", "rerank", "score", "search"} {
				draft := fmt.Sprintf("schema: 2\nname: T\nmodels: [\"*\"]\ncollections: [\"*\"]\nentities:\n  default: {request: allow, passage: allow, answer: allow}\n  cn_mobile: {%s: %s}\n", d, action)
				seen, err := g.Preview(t.Context(), PreviewRequest{Tenant: "acme", Text: text, Direction: d, Channel: channel, Document: []byte(draft)})
				if err != nil {
					t.Fatal(err)
				}
				want, masked, restored := string(action), !action.Leaves(), !action.Leaves()
				switch {
				case action == mask.ActionToken && d == DirectionPassage && channel == "search":
					want, masked, restored = "observe", false, false
				case action == mask.ActionToken && d != DirectionAnswer:
					restored = false
				}
				if action == mask.ActionAllow && len(seen.Spans) != 0 || action != mask.ActionAllow && (len(seen.Spans) != 1 || seen.Spans[0].Action != want) {
					t.Errorf("%s of %s in %q: %+v", action, d, channel, seen.Spans)
				}
				if strings.Contains(seen.Masked, testPhone) == masked || strings.Contains(seen.Restored, testPhone) == restored || seen.Blocked != (action == mask.ActionBlock) {
					t.Errorf("%s of %s in %q: %+v", action, d, channel, seen)
				}
			}
		}
	}
}

func TestPreview(t *testing.T) {
	g := withDefault(t)
	publish(t, g, "acme", "  default: {request: token, passage: token, answer: observe}\n  email: {request: observe}\n  api_secret: {request: block}\n")
	text := "电话" + testPhone + " zs@example.com sk-abcd1234efgh5678ijkl"
	seen, err := g.Preview(t.Context(), PreviewRequest{Tenant: "acme", Text: text})
	masked := seen.Masked
	if err != nil || !seen.Blocked || seen.Restored != "" || strings.Contains(masked, testPhone) || strings.Contains(masked, "sk-") || !strings.Contains(masked, "zs@example.com") {
		t.Errorf("%q %v", masked, err)
	}
	var got []string
	for _, s := range seen.Spans {
		got = append(got, s.Class+" "+s.Action+" "+text[s.Start:s.End])
		if s.Score <= 0 || s.Grade != maxGrade || s.Why == (classify.Why{}) {
			t.Errorf("%+v", s)
		}
	}
	want := []string{"cn_mobile token " + testPhone, "email observe zs@example.com", "api_secret block sk-abcd1234efgh5678ijkl"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		preview PreviewRequest
		want    string
	}{
		{PreviewRequest{Direction: DirectionPassage, Channel: "search"}, text}, // no engine sees it
		{PreviewRequest{Direction: DirectionPassage, Channel: "chat"}, "电话⟦手机·"},
		{PreviewRequest{Direction: DirectionAnswer}, text},
		{PreviewRequest{Document: []byte(string(defaultPolicy) + richPolicy), Channel: "embeddings"}, "电话138****8000 "},
		{PreviewRequest{Document: []byte(string(defaultPolicy) + richPolicy), Channel: "chat"}, "电话⟦手机·"},
		{PreviewRequest{Document: []byte(string(defaultPolicy) + richPolicy), Direction: DirectionAnswer}, "电话" + testPhone + " zs@example.com 〔已屏蔽:密钥〕"},
	} {
		c.preview.Tenant, c.preview.Text = "acme", text
		if seen, err := g.Preview(t.Context(), c.preview); err != nil || !strings.HasPrefix(seen.Masked, c.want) {
			t.Errorf("%+v: %+v %v", c.preview.Direction, seen, err)
		}
	}
	for param, preview := range map[string]PreviewRequest{"direction": {Direction: "up"}, "channel": {Channel: "fax"}} {
		preview.Tenant = "acme"
		_, err := g.Preview(t.Context(), preview)
		wantCode(t, err, fault.CodeInvalidValue)
		if got := fault.Public(err).Param(); got != param {
			t.Errorf("%s: %s", param, got)
		}
	}
	_, err = g.Preview(t.Context(), PreviewRequest{Tenant: "acme", Document: []byte("schema: 9")})
	wantCode(t, err, fault.CodeInvalidPolicy)
}

// TestChoicesInterleave: several choices of one answer are released at once, each from its own goroutine.
func TestChoicesInterleave(t *testing.T) {
	g := withDefault(t)
	text := testPhone
	a, err := g.Admit(t.Context(), ask(&text))
	if err != nil {
		t.Fatal(err)
	}
	results := make(chan string)
	const choices = 8
	for n := range choices {
		go func() {
			r := a.Release()
			shown := ""
			for _, c := range fmt.Sprintf("%d号：%s，sk-abcd1234efgh5678ijkl。", n, text) {
				s, err := r.Write(string(c))
				if err != nil {
					s = err.Error()
				}
				shown += s
				a.Findings()
			}
			rest, err := r.Close()
			if err != nil {
				rest = err.Error()
			}
			results <- shown + rest
		}()
	}
	seen := map[string]bool{}
	for range choices {
		seen[<-results] = true
	}
	for n := range choices {
		if want := fmt.Sprintf("%d号：%s，〔已屏蔽:密钥〕。", n, testPhone); !seen[want] {
			t.Errorf("no choice reads %q: %v", want, seen)
		}
	}
	if f := a.Findings(); f[0].Class != "api_secret" || f[0].Count != choices {
		t.Errorf("findings %+v", f)
	}
}

// TestNothingSensitiveIsLogged drives every path with a log attached.
func TestNothingSensitiveIsLogged(t *testing.T) {
	var logged bytes.Buffer
	g := newGuard(t, dbtest.SQLite(t), &logged)
	publish(t, g, EveryTenant, "  default: {request: token, passage: block, answer: block}\n")
	text := testPhone
	a, err := g.Admit(t.Context(), ask(&text))
	if err != nil {
		t.Fatal(err)
	}
	_, perr := a.MaskPassage(testID)
	_, aerr := a.Release().Write(testID + "。")
	fmt.Fprintf(&logged, "%v %+v %#v %v", a.Findings(), a.Findings(), a.pseudonyms, errors.Join(perr, aerr))
	if _, err := g.Publish(t.Context(), "acme", []byte("schema: 2\nname: "+testPhone+"\nmodels: "+testPhone+"\n"), "x"); err != nil {
		fmt.Fprint(&logged, err)
	}
	for _, secret := range []string{testPhone, testID} {
		if strings.Contains(logged.String(), secret) {
			t.Errorf("a value was logged: %s", logged.String())
		}
	}
}

func TestConfig(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	for _, bad := range []Config{{Poll: time.Minute}, {Poll: -1}, {MaxStale: time.Millisecond}} {
		if _, err := New(bad, nil, nil, nil, slog.New(slog.DiscardHandler), nil); err == nil {
			t.Errorf("%+v must be refused", bad)
		}
	}
}

func BenchmarkAdmit(b *testing.B) {
	db := dbtest.SQLite(b)
	keys := keyring.FromBytes(make([]byte, 32))
	g, err := New(Config{}, NewPolicyStore(db), keys, classify.New(classify.Classes()...), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := g.EnsureDefault(b.Context(), "x"); err != nil {
		b.Fatal(err)
	}
	prompt := "市民张女士来电反映小区供暖不足，联系电话13800138000，希望尽快处理。Please answer in two sentences."
	for b.Loop() {
		text := prompt
		if _, err := g.Admit(b.Context(), ask(&text)); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRecord: the policy says what is kept; one that is older than the key keeps nothing. What is kept masked has no value in it, neither
// the caller's nor one that the engine brings and the answer may show.
func TestRecord(t *testing.T) {
	g := withDefault(t)
	record := func(tenant string) string {
		q := ask()
		q.Tenant = tenant
		a, err := g.Admit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return a.Record()
	}
	publish(t, g, "old", "  default: {request: token, passage: token, answer: observe}\n")
	for _, form := range []string{"masked", "clear"} {
		doc := strings.Replace(string(defaultPolicy), "record: none", "record: "+form, 1)
		if _, err := g.Publish(t.Context(), form, []byte(doc), "tester"); err != nil {
			t.Fatal(err)
		}
	}
	for tenant, want := range map[string]string{"any": "", "old": "", "masked": RecordMasked, "clear": RecordClear} {
		if got := record(tenant); got != want {
			t.Errorf("tenant %s: %q is kept, want %q", tenant, got, want)
		}
	}

	user := "电话" + testPhone
	a, err := g.Admit(t.Context(), ask(&user))
	if err != nil {
		t.Fatal(err)
	}
	release, shown, masked := a.Release(), "", ""
	for _, piece := range []string{"您的" + user[:12], user[12:], "，另有1390013", "9000 和 sk-abcd1234efgh", "5678ijkl", ""} {
		s, err := release.Write(piece)
		if piece == "" {
			s, err = release.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		shown += s
		masked += release.Masked()
	}
	if want := "您的电话" + testPhone + "，另有13900139000 和 〔已屏蔽:密钥〕"; shown != want {
		t.Errorf("shown %q, want %q", shown, want)
	}
	if want := "您的" + user + "，另有〔已屏蔽:手机〕 和 〔已屏蔽:密钥〕"; a.Redact(masked) != want {
		t.Errorf("kept %q, want %q", a.Redact(masked), want)
	}
}
