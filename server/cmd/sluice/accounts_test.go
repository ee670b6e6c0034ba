package main

import (
	"strings"
	"testing"
	"time"
)

// TestAccountsOnTheCommandLine: people, their keys and budgets, as an administrator and as a developer manage them.
func TestAccountsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	as := func(user, password string, more ...string) *site {
		c := *s
		c.env = append(append(append([]string{}, more...), "SLUICE_ADMIN_USER="+user, "SLUICE_ADMIN_PASSWORD="+password), s.env...) // the first setting wins
		return &c
	}

	created := s.run("user", "create", "Wang.Fang", "--role", "developer", "--label", "public")
	created.wants(t, exitOK, "has to be changed at the first sign-in")
	once := strings.TrimSpace(created.out)
	as("wang.fang", once).run("key", "list").wants(t, exitFailed, "password_change_required", "POST /api/v1/me/password")
	as("wang.fang", once).run("user", "password").wants(t, exitUsage, "SLUICE_NEW_PASSWORD")
	as("wang.fang", once, "SLUICE_NEW_PASSWORD="+once).run("user", "password").wants(t, exitFailed, "another password")
	const password = "a long and new password"
	changed := as("wang.fang", once, "SLUICE_NEW_PASSWORD="+password).run("user", "password")
	changed.wants(t, exitOK, "changed the password of wang.fang")
	dev := as("wang.fang", password)

	s.run("project", "create", "hotline").wants(t, exitOK)
	made := dev.run("key", "create", "mine", "--label", "public", "--project", "hotline", "--label-mode", "text", "--requests-per-minute", "30", "--days", "9")
	made.wants(t, exitOK, "Base URL: http://127.0.0.1:", "/v1\n", "curl http://127.0.0.1:", "$SLUICE_API_KEY")
	id := strings.Split(strings.TrimSpace(made.out), "-")[2]
	if strings.Contains(made.err, strings.TrimSpace(made.out)) {
		t.Error("stderr shows the secret")
	}
	dev.run("key", "create", "wide", "--label", "secret").wants(t, exitFailed, "invalid_value", "does not have the label 'secret'")
	row := func(r result) []string {
		for line := range strings.Lines(r.out) {
			if f := strings.Fields(line); len(f) > 0 && f[0] == id {
				return f
			}
		}
		t.Fatalf("no key %s in\n%s", id, r.out)
		return nil
	}
	mine := dev.run("key", "list")
	mine.wants(t, exitOK, "OWNER", "LAST USED")
	if strings.Contains(mine.out, "first key") {
		t.Errorf("a developer sees a key of the tenant:\n%s", mine.out)
	}
	if got := strings.Join(row(s.run("key", "list"))[1:15], " "); got != "mine demo wang.fang hotline sk-sluice-"+id+" active - - - public text 30 default default" {
		t.Errorf("listed as %q", got)
	}
	dev.run("key", "edit", id).wants(t, exitUsage, "say what to change")
	dev.run("key", "edit", id, "--concurrent", "4", "--name", "ours", "--label", "").wants(t, exitOK, "changed "+id)
	if got := strings.Join(row(dev.run("key", "list"))[1:15], " "); got != "ours demo wang.fang hotline sk-sluice-"+id+" active - - - - text 30 default 4" {
		t.Errorf("after the change %q", got)
	}

	dev.run("key", "edit", id, "--scope", "chat,search", "--model", "script*", "--network", "127.0.0.1,10.0.0.0/8").wants(t, exitOK, "changed "+id)
	if got := strings.Join(row(dev.run("key", "list"))[6:10], " "); got != "active chat,search script* 127.0.0.1/32,10.0.0.0/8" {
		t.Errorf("bound as %q", got)
	}
	dev.run("key", "edit", id, "--network", "").wants(t, exitFailed, "may only be narrowed")
	rotated := dev.run("key", "rotate", id, "--overlap-hours", "2")
	rotated.wants(t, exitOK, "sk-sluice-"+id+"-", "sluice key retire")
	dev.run("key", "rotate", id).wants(t, exitFailed, "still accepted")
	dev.run("key", "retire", id).wants(t, exitOK, "retired the former secret of "+id)
	dev.run("key", "rotate", id).wants(t, exitOK, "sk-sluice-"+id+"-")

	s.run("user", "edit", "wang.fang").wants(t, exitUsage, "--role or --label")
	s.run("user", "edit", "wang.fang", "--role", "auditor", "--role", "security_admin").wants(t, exitFailed, "conflicting_roles")
	s.run("user", "edit", "wang.fang", "--role", "auditor", "--role", "developer", "--label", "").wants(t, exitOK, "changed wang.fang: auditor,developer")
	s.run("user", "edit", "admin", "--role", "auditor").wants(t, exitFailed, "conflict", "somebody else")
	auditor := as("wang.fang", password)
	due := time.Now().AddDate(0, 1, 0).Format(time.DateOnly)
	s.run("review", "start", "--name", "autumn", "--owner", "wang.fang").wants(t, exitUsage, "--due")
	s.run("review", "start", "--name", "autumn", "--owner", "wang.fang", "--due", "tomorrow").wants(t, exitUsage, `--due "tomorrow"`, "2026-11-22T08:00:00+08:00")
	begun := s.run("review", "start", "--name", "autumn", "--owner", "wang.fang", "--due", due)
	begun.wants(t, exitOK, "decided by wang.fang until")
	review := strings.Fields(begun.out)[1]
	s.run("review", "list").wants(t, exitOK, review, "autumn", "wang.fang")
	auditor.run("review", "show", review).wants(t, exitOK, "key/"+id, "waiting", "scope chat")
	auditor.run("review", "end", review, "key/"+id).wants(t, exitUsage, "--reason")
	auditor.run("review", "keep", review, id).wants(t, exitUsage, "user/ID")
	auditor.run("review", "keep", review, "key/"+id).wants(t, exitFailed, "second_person_required") // his own
	s.run("review", "keep", review, "key/"+id).wants(t, exitOK, "key/"+id+": confirmed (scope chat, ")
	s.run("review", "keep", review, "key/none").wants(t, exitFailed, "no entry key/none")
	s.run("review", "cancel", review).wants(t, exitUsage, "--reason")
	s.run("review", "cancel", review, "--reason", "by mistake").wants(t, exitOK, "cancelled review "+review)
	labelAgreements(t, s)
	s.run("user", "disable", "wang.fang").wants(t, exitOK, "disabled wang.fang")
	dev.run("key", "list").wants(t, exitFailed, "invalid_login")
	if got := row(s.run("key", "list")); got[6] != "suspended" {
		t.Errorf("the key of a disabled user: %v", got)
	}
	s.run("user", "enable", "wang.fang").wants(t, exitOK, "enabled wang.fang")
	s.run("user", "list").wants(t, exitOK, "wang.fang", "auditor,developer", "LAST SIGN-IN")
	reset := s.run("user", "reset-password", "wang.fang")
	reset.wants(t, exitOK, "shown once")
	s.run("user", "list").wants(t, exitOK, "one-time password")
	as("wang.fang", strings.TrimSpace(reset.out)).run("key", "list").wants(t, exitFailed, "password_change_required")
	s.run("user", "disable", "nobody").wants(t, exitFailed, "not_found")
	s.run("user", "create", "x").wants(t, exitUsage, "--role")

	s.run("budget", "set", "12.000000001", "--key", id, "--period", "day").wants(t, exitOK, "set: 12.000000001 CNY per day, 0 spent")
	s.run("budget", "list").wants(t, exitOK, id, "12.000000001", "CNY")
	for _, bad := range []string{"1e3", "0.0000000001", "much", "1/2"} {
		s.run("budget", "set", bad, "--period", "day").wants(t, exitUsage, "amount")
	}
	s.run("budget", "remove", "--key", id).wants(t, exitFailed, "not_found")
	s.run("budget", "remove", "--key", id, "--period", "day").wants(t, exitOK, "removed")
	if r := s.run("budget", "list"); strings.Contains(r.out, id) {
		t.Errorf("the budget is still there:\n%s", r.out)
	}
}

// TestTenantsOnTheCommandLine: a tenant is made, limited, suspended and resumed, and so are an organisation and a project.
func TestTenantsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	s.run("tenant", "create", "bank", "--name", "First Bank", "--concurrent", "4").wants(t, exitOK, "bank was created")
	s.run("tenant", "create", "bank").wants(t, exitFailed, "already_exists")
	s.run("tenant", "edit", "bank").wants(t, exitUsage, "--name")
	s.run("tenant", "edit", "bank", "--tokens-per-minute", "9000").wants(t, exitOK, "bank was changed")
	row := func() string {
		r := s.run("tenant", "list")
		r.wants(t, exitOK, "TOKENS/MIN", "operator")
		for line := range strings.Lines(r.out) {
			if f := strings.Fields(line); len(f) > 0 && f[0] == "bank" {
				return strings.Join(f, " ")
			}
		}
		t.Fatalf("no bank in\n%s", r.out)
		return ""
	}
	if got := row(); !strings.HasPrefix(got, "bank First Bank default active ") || !strings.HasSuffix(got, " default 9000 4 - -") {
		t.Errorf("listed as %q", got)
	}
	s.run("tenant", "suspend", "bank").wants(t, exitUsage, "--reason")
	s.run("tenant", "suspend", "demo", "--reason", "x").wants(t, exitFailed, "runs the installation")
	s.run("tenant", "suspend", "bank", "--reason", "contract ended").wants(t, exitOK, "bank is suspended")
	if got := row(); !strings.HasPrefix(got, "bank First Bank default suspended ") || !strings.HasSuffix(got, " contract ended") {
		t.Errorf("listed as %q", got)
	}
	s.run("tenant", "resume", "bank").wants(t, exitOK, "bank is no longer suspended")

	s.run("organisation", "create", "group", "--name", "First Group", "--label", "cost_center=4711,system=core").wants(t, exitOK, "group was created")
	s.run("organisation", "edit", "group", "--label", "system=", "--requests-per-minute", "70").wants(t, exitOK, "group was changed")
	s.run("organisation", "list").wants(t, exitOK, "First Group", "cost_center=4711", "70", "operator")
	s.run("tenant", "move", "bank", "group").wants(t, exitOK, "bank was moved")
	if got := row(); !strings.HasPrefix(got, "bank First Bank group ") {
		t.Errorf("listed as %q", got)
	}
	s.run("organisation", "suspend", "default", "--reason", "x").wants(t, exitFailed, "conflict")
	s.run("organisation", "suspend", "group", "--reason", "contract ended").wants(t, exitOK, "group is suspended")
	s.run("organisation", "resume", "group").wants(t, exitOK, "group is no longer suspended")
	s.run("organisation", "resume", "nobody").wants(t, exitFailed, "there is no organisation nobody")
	s.run("project", "create", "service", "--tenant", "bank", "--concurrent", "3").wants(t, exitOK, "service was created")
	s.run("project", "list", "--tenant", "bank").wants(t, exitOK, "service", "3")
	s.run("key", "create", "hotline", "--tenant", "bank", "--project", "elsewhere").wants(t, exitFailed, "not_found")
	s.run("key", "create", "hotline", "--tenant", "bank", "--project", "service").wants(t, exitOK)
	s.run("project", "suspend", "service", "--tenant", "bank", "--reason", "leak").wants(t, exitOK, "service is suspended")
	s.run("project", "resume", "service", "--tenant", "bank").wants(t, exitOK, "service is no longer suspended")
	s.run("budget", "set", "200", "--tenant", "bank", "--project", "service").wants(t, exitOK, "set: 200 ")
	s.run("budget", "set", "5000", "--organisation", "group").wants(t, exitOK, "set: 5000 ")
	s.run("budget", "list", "--organisation", "group").wants(t, exitOK, "group", "5000")
	s.run("budget", "remove", "--organisation", "group").wants(t, exitOK, "removed")
}

// labelAgreements asks for an agreement on answers without a visible label, which nobody but a second person can approve, and takes it back.
func labelAgreements(t *testing.T, s *site) {
	t.Helper()
	run := func(args ...string) result { return s.run(append([]string{"label", "agreements"}, args...)...) }
	text := run("text")
	text.wants(t, exitOK, "第九条", "Article 9", "SHA-256: ")
	words := strings.Fields(text.out)
	ask := []string{"ask", "--recipient", "Example Press", "--contact", "legal@example.com", "--purpose", "drafts", "--text-digest", words[len(words)-1]}
	run(ask...).wants(t, exitUsage, "--until")
	run(append(ask, "--until", "soon")...).wants(t, exitUsage, "--until")
	asked := run(append(ask, "--until", time.Now().AddDate(0, 6, 0).Format(time.DateOnly))...)
	asked.wants(t, exitOK, "asked for: ", "somebody else")
	id := strings.TrimSuffix(strings.Fields(asked.out)[2], ".")
	run("list").wants(t, exitOK, id, "asked", "Example Press", "application")
	run("show", id).wants(t, exitOK, "legal@example.com", "第九条")
	run("approve", id).wants(t, exitFailed, "second_person_required")
	run("revoke", id).wants(t, exitUsage, "--reason")
	run("revoke", id, "--reason", "by mistake").wants(t, exitOK, "revoked: "+id)
	run("list").wants(t, exitOK, "declined")
	run("export", "--from", "2026-01-01").wants(t, exitUsage, "--to")
	run("export", "--from", "2026-01-01", "--to", "2026-02-01", "--format", "xml").wants(t, exitUsage, "csv or json")
	run("export", "--from", "2026-01-01", "--to", "2026-02-01", "--format", "csv").wants(t, exitOK, "recipient", "answers")
}
