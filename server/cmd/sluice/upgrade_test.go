package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// TestUpgradeKeepsEverything takes the data directory of an earlier release, as that release left it, through the migration: every account signs in
// with its password and its roles, also a pair of roles that nobody gets any more; keys work and what was revoked stays revoked; usage, holds,
// kept texts and the log are there, and the log verifies. The keys of the directory end in November 2031; make another one then.
func TestUpgradeKeepsEverything(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	unpack(t, "testdata/release-8cdbd6f.tar.gz", s.data)
	var was struct {
		AdminPassword string `json:"admin_password"`
		Password      string `json:"password"`
		AppKey        string `json:"app_key"`
		BankKey       string `json:"bank_key"`
		RevokedKey    string `json:"revoked_key"`
		KeptRequest   string `json:"kept_request"`
	}
	raw, err := os.ReadFile(filepath.Join(s.data, "facts.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &was); err != nil {
		t.Fatal(err)
	}
	s.run("migrate", "--check").wants(t, exitFindings, "schema version 22")
	s.run("serve").wants(t, exitFailed, "sluice migrate")
	s.run("migrate").wants(t, exitOK, "schema version")
	s.run("serve").wants(t, exitFailed, "duties") // one administrator did everything in that release: to be separated, or wanted
	p := s.up()
	if p.ready["admin_password"] != "" {
		t.Error("an upgrade gave out another password")
	}
	base := strings.TrimSuffix(p.ready["base_url"], "/v1")
	call := func(method, path, bearer string, in any) (int, []byte) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+bearer)
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = got.Body.Close() }()
		out, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode, out
	}
	// read reads from the management API as somebody.
	read := func(user, password, path string, out any) {
		t.Helper()
		a := &cli.App{Environ: []string{"SLUICE_ADMIN_PASSWORD=" + password}, Stdin: strings.NewReader("")}
		r, err := a.Login(t.Context(), cli.RemoteFlags{URL: base, User: user})
		if err == nil {
			err = r.Call(t.Context(), http.MethodGet, path, nil, out)
		}
		if err != nil {
			t.Fatalf("%s as %s: %v", path, user, err)
		}
	}

	for user, want := range map[string]string{
		"admin": "demo: platform_admin", "dev": "demo: developer", "officer": "demo: compliance auditor", "clerk": "bank: security_admin",
	} {
		password := was.Password
		if user == "admin" {
			password = was.AdminPassword
		}
		var me adminapi.Me
		read(user, password, "/me", &me)
		if got := me.Tenant + ": " + strings.Join(me.Roles, " "); got != want || me.MustChangePassword != nil {
			t.Errorf("%s is %q, %+v, want %q", user, got, me, want)
		}
	}

	chat := map[string]any{"model": "scripted", "messages": []any{map[string]string{"role": "user", "content": "hi"}}}
	for key, want := range map[string]int{was.AppKey: http.StatusOK, was.BankKey: http.StatusOK, was.RevokedKey: http.StatusUnauthorized} {
		if status, body := call(http.MethodPost, "/v1/chat/completions", key, chat); status != want {
			t.Errorf("%d %s, want %d", status, body, want)
		}
	}
	var keys adminapi.KeyPage
	read("admin", was.AdminPassword, "/keys?tenant=*", &keys)
	names := map[string]adminapi.Key{}
	for _, k := range keys.Items {
		names[k.Name] = k
	}
	if len(keys.Items) != 5 || names["app"].Project != "hotline" || names["app"].Limits.RequestsPerMinute != 100 || names["own"].Owner == nil || names["gone"].State != "revoked" {
		t.Errorf("%+v", keys.Items)
	}
	var tenants adminapi.TenantPage
	read("admin", was.AdminPassword, "/tenants", &tenants)
	if len(tenants.Items) != 2 || tenants.Items[0].Suspension != nil || !tenants.Items[1].Operator || tenants.Items[0].Organisation != "default" || tenants.Items[1].Organisation != "default" {
		t.Errorf("%+v", tenants)
	}
	var organisations adminapi.OrganisationPage
	read("admin", was.AdminPassword, "/organisations", &organisations)
	if len(organisations.Items) != 1 || organisations.Items[0].Id != "default" || !organisations.Items[0].Operator {
		t.Errorf("%+v", organisations)
	}
	var projects adminapi.ProjectPage // each text that keys had as one is a project
	read("admin", was.AdminPassword, "/projects?tenant=*", &projects)
	there := map[string]bool{}
	for _, p := range projects.Items {
		there[p.Tenant+"/"+p.Id] = true
	}
	for _, k := range keys.Items {
		if k.Project != "" && !there[k.Tenant+"/"+k.Project] {
			t.Errorf("%s of %s is no project", k.Project, k.Tenant)
		}
	}
	if !there["demo/hotline"] {
		t.Errorf("%+v", projects)
	}

	var records adminapi.AuditPage
	p.eventually("the records of before", func() bool {
		read("officer", was.Password, "/audit/records?request="+was.KeptRequest, &records)
		return len(records.Items) == 2
	})
	var event struct{ ID string }
	if err := json.Unmarshal(records.Items[1].Event, &event); err != nil {
		t.Fatal(err)
	}
	var kept adminapi.AuditContents
	read("officer", was.Password, "/audit/records/"+event.ID+"/content", &kept)
	if len(kept.Items) == 0 || !strings.Contains(kept.Items[0].Text, "我的手机号是⟦") {
		t.Errorf("%+v", kept)
	}
	var holds adminapi.HoldList
	read("officer", was.Password, "/audit/holds", &holds)
	if len(holds.Items) != 1 || holds.Items[0].Reason != "case 7" {
		t.Errorf("%+v", holds)
	}
	p.eventually("the usage of before and of now", func() bool {
		var demo, bank adminapi.UsageReport
		read("admin", was.AdminPassword, "/usage", &demo)
		read("admin", was.AdminPassword, "/usage?tenant=bank", &bank)
		return demo.Total.Requests == 3 && bank.Total.Requests == 2
	})
	s.run("audit", "verify").wants(t, exitOK, "OK: nothing was altered")
	if err := p.stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// unpack unpacks a compressed tar archive into a new directory.
func unpack(t *testing.T, archive, to string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, filepath.FromSlash(h.Name))
		if h.FileInfo().IsDir() {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
