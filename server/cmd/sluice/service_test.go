package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestServiceAccountsOnTheCommandLine: made, shown, given keys, rotated, disabled, enabled and removed; and people are invited.
func TestServiceAccountsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "deploy.pub.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}

	s.run("service-account", "create", "crm").wants(t, exitUsage, "--role")
	s.run("service-account", "create", "crm", "--role", "application", "--scope", "chat").wants(t, exitOK, "ss-sluice-svc-", "/oauth2/token")
	s.run("service-account", "create", "deploy", "--role", "auditor", "--key-file", file).wants(t, exitOK, "svc-")
	s.run("service-account", "list").wants(t, exitOK, "crm", "deploy", "application", "active")
	s.run("service-account", "rotate", "crm", "--overlap-hours", "1").wants(t, exitOK, "ss-sluice-svc-")
	shown := s.run("service-account", "add-key", "crm", file)
	shown.wants(t, exitOK, "EdDSA")
	key, _, _ := strings.Cut(shown.out, " ")
	s.run("service-account", "show", "crm").wants(t, exitOK, "two until", key)
	s.run("service-account", "remove-key", "--", "crm", key).wants(t, exitOK, "removed the key "+key)
	s.run("service-account", "disable", "crm").wants(t, exitOK, "disabled crm")
	s.run("service-account", "list").wants(t, exitOK, "disabled")
	s.run("service-account", "enable", "crm").wants(t, exitOK, "enabled crm")
	s.run("service-account", "remove", "crm").wants(t, exitOK, "removed crm")
	s.run("service-account", "show", "crm").wants(t, exitFailed, "not_found")

	s.run("user", "invite", "wang.fang", "--role", "developer").wants(t, exitOK, "#si-sluice-", "Invited wang.fang")
	listed := s.run("user", "invitations")
	listed.wants(t, exitOK, "wang.fang", "open")
	id := regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`).FindString(listed.out)
	s.run("user", "withdraw", id).wants(t, exitOK, "withdrew the invitation of wang.fang")
	s.run("user", "invitations").wants(t, exitOK, "withdrawn")
}
