package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestRevealCommand walks through the guide: an answer with pseudonyms is shown with its values; many need somebody else.
func TestRevealCommand(t *testing.T) {
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	admin := &cli.App{Environ: s.env, Stdin: strings.NewReader("")}
	r, err := admin.Login(t.Context(), cli.RemoteFlags{URL: admin.Getenv("SLUICE_URL"), User: admin.Getenv("SLUICE_ADMIN_USER")})
	if err != nil {
		t.Fatal(err)
	}
	call := func(path string, in any) {
		t.Helper()
		if err := r.Call(t.Context(), http.MethodPost, path, in, nil); err != nil {
			t.Fatal(err)
		}
	}
	call("/policies", map[string]string{"yaml": `schema: 2
name: reveals
models: ["*"]
collections: ["*"]
entities: {default: {request: token, passage: token, answer: observe}}
reveal:
  second: 2
  rules: [{roles: [compliance], purposes: [complaint], classes: ["*"], show: clear}]
`})
	officer, boss := s.as(t, "zhao", "compliance"), s.as(t, "qian", "security_admin")

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.ready["base_url"]+"/chat/completions",
		strings.NewReader(`{"model":"scripted","messages":[{"role":"user","content":"打13800138000，或者13900139001。"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.ready["api_key"])
	req.Header.Set("X-Sluice-Session", "case-17")
	res, err := http.DefaultClient.Do(req)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatal(res, err)
	}
	_ = res.Body.Close()
	seen := s.scripted.Requests()[0].Messages[0].Content
	tokens := regexp.MustCompile(`⟦[^⟧]*⟧`).FindAllString(seen, -1)
	if len(tokens) != 2 || strings.Contains(seen, "13800138000") {
		t.Fatalf("the engine saw %q", seen)
	}

	where := []string{"--session", "case-17", "--purpose", "complaint"}
	show := func(who *site, args ...string) result {
		return who.run(append(append([]string{"reveal"}, where...), args...)...)
	}
	one := show(officer, tokens[0])
	one.wants(t, exitOK, "in full 1, in part 0, not shown to you 0, unknown 0")
	if one.out != tokens[0]+"\tclear\t13800138000\n" {
		t.Errorf("%q", one.out)
	}
	show(boss, tokens[0]).wants(t, exitOK, "not shown to you 1")
	file := filepath.Join(s.dir, "answer.txt")
	if err := os.WriteFile(file, []byte(seen), 0o600); err != nil {
		t.Fatal(err)
	}
	show(officer, "--file", file).wants(t, exitFailed, "approval_required", "second person", "sluice approval ask")
	officer.stdin = seen
	asked := officer.run(append([]string{"approval", "ask"}, where...)...)
	asked.wants(t, exitOK, "sluice approval give")
	id := strings.TrimSpace(asked.out)
	officer.run("approval", "give", id).wants(t, exitFailed, "not_allowed")
	officer.run("approval", "list").wants(t, exitOK, id, "zhao", "complaint", "waiting")
	boss.run("approval", "give", id).wants(t, exitOK, "Approved for zhao")
	boss.run("approval", "give", id).wants(t, exitFailed, "approved before")
	whole := show(officer, "--approval", id)
	whole.wants(t, exitOK, "in full 2")
	if whole.out != "打13800138000，或者13900139001。" {
		t.Errorf("%q", whole.out)
	}
	boss.run("approval", "list").wants(t, exitOK, "used")
	again := officer.run(append([]string{"approval", "ask"}, append(where, "--file", file)...)...)
	no := strings.TrimSpace(again.out)
	boss.run("approval", "decline", no).wants(t, exitUsage, "--reason")
	officer.run("approval", "decline", no, "--reason", "mine").wants(t, exitFailed, "not_allowed")
	boss.run("approval", "decline", no, "--reason", "too many").wants(t, exitOK, "Declined for zhao: too many")
	officer.run("approval", "list").wants(t, exitOK, "declined", "qian", "too many")
	show(officer, "--file", file, "--approval", no).wants(t, exitFailed, "declined by qian: too many")

	officer.stdin = " \n"
	show(officer).wants(t, exitUsage, "is empty")
	officer.run("reveal", "--session", "s", "x").wants(t, exitUsage, "--purpose")
	officer.run("reveal", "--session", "s", "--request", "r", "--purpose", "p", "x").wants(t, exitUsage, "either")
	officer.stdin = strings.Repeat("x", 256<<10+1)
	show(officer).wants(t, exitUsage, "larger than")
	show(officer, "--file", filepath.Join(s.dir, "none")).wants(t, exitFailed, "none")
	zh := *officer
	zh.env = append([]string{"LANG=zh_CN.UTF-8"}, officer.env...)
	show(&zh, tokens...).wants(t, exitFailed, "需要第二人批准")
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
}

// as is the site for somebody else, whose account it creates.
func (s *site) as(t *testing.T, name, role string) *site {
	t.Helper()
	const password = "correct horse battery staple"
	admin := &cli.App{Environ: s.env, Stdin: strings.NewReader("")}
	in := map[string]any{"name": name, "password": password, "roles": []string{role}}
	if err := admin.Ask(t.Context(), cli.RemoteFlags{URL: admin.Getenv("SLUICE_URL"), User: admin.Getenv("SLUICE_ADMIN_USER")}, http.MethodPost, "/users", in, nil); err != nil {
		t.Fatal(err)
	}
	other := *s
	other.env = append([]string{"SLUICE_ADMIN_USER=" + name, "SLUICE_ADMIN_PASSWORD=" + password}, s.env...)
	return &other
}
