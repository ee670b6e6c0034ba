package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/sluice-project/sluice/server/cmd/sluice/cli"
)

// enrol enrols a second factor as somebody does with an authenticator app at hand, and returns the recovery codes.
func (s *site) enrol() []string {
	s.t.Helper()
	in, typed := io.Pipe()
	shown, out := io.Pipe()
	var errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(s.t.Context(), []string{"user", "factor", "enrol"}, &cli.App{Environ: append([]string{"SLUICE_CONFIG=" + s.config}, s.env...), Stdin: in, Stdout: out, Stderr: &errOut, Version: version})
		_ = out.Close()
	}()
	lines := bufio.NewScanner(shown)
	if !lines.Scan() {
		s.t.Fatalf("no secret: exit code %d\n%s", <-code, errOut.String())
	}
	first, err := totp.GenerateCode(lines.Text(), time.Now())
	if err != nil {
		s.t.Fatal(err)
	}
	var codes []string
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "otpauth://totp/") {
			if _, err := typed.Write([]byte(first + "\n")); err != nil {
				s.t.Fatal(err)
			}
			continue
		}
		codes = append(codes, lines.Text())
	}
	if got := <-code; got != exitOK || len(codes) != 10 {
		s.t.Fatalf("exit code %d, %d recovery codes\n%s", got, len(codes), errOut.String())
	}
	return codes
}

// TestSecondFactorOnTheCommandLine: enrolled, asked for at the sign-in, removed by its owner, and by an administrator where it is lost.
func TestSecondFactorOnTheCommandLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = p.client()
	as := func(password string, more ...string) *site {
		c := *s
		c.env = append(append(append([]string{}, more...), "SLUICE_ADMIN_USER=wang.fang", "SLUICE_ADMIN_PASSWORD="+password), s.env...) // the first setting wins
		return &c
	}
	once := strings.TrimSpace(s.run("user", "create", "wang.fang", "--role", "security_admin").out)
	const password = "a long and new password"
	as(once, "SLUICE_NEW_PASSWORD="+password).run("user", "password").wants(t, exitOK, "changed the password")
	as(password).run("user", "factor", "remove").wants(t, exitFailed, "conflict", "no second factor")
	as(password).run("user", "factor", "enrol").wants(t, exitUsage, "no code")

	codes := as(password).enrol()
	s.run("user", "list").wants(t, exitOK, "SECOND FACTOR", "yes")
	as(password).run("key", "list").wants(t, exitFailed, "SLUICE_ADMIN_CODE")
	as(password, "SLUICE_ADMIN_CODE=000000").run("key", "list").wants(t, exitFailed, "wrong_code")
	as(password, "SLUICE_ADMIN_CODE="+codes[0]).run("key", "create", "app").wants(t, exitOK, "sk-sluice-")
	as(password, "SLUICE_ADMIN_CODE="+codes[0]).run("key", "list").wants(t, exitFailed, "wrong_code")
	listed := as(password, "SLUICE_ADMIN_CODE="+codes[1]).run("user", "factor", "list")
	listed.wants(t, exitOK, "LAST USED", "totp", "active")
	id := strings.Fields(strings.Split(listed.out, "\n")[1])[0]
	as(password, "SLUICE_ADMIN_CODE="+codes[2]).run("user", "factor", "remove", "none").wants(t, exitFailed, "not_found")
	as(password, "SLUICE_ADMIN_CODE="+codes[3]).run("user", "factor", "remove", id).wants(t, exitOK, "removed second factor "+id+" of wang.fang")
	as(password).run("key", "list").wants(t, exitOK, "app")

	codes = as(password).enrol()
	as(password, "SLUICE_ADMIN_CODE="+codes[1]).run("user", "factor", "remove").wants(t, exitOK, "removed every second factor of wang.fang")
	as(password).run("key", "list").wants(t, exitOK, "app")

	as(password).enrol()
	s.run("user", "reset-factor", "wang.fang").wants(t, exitOK, "removed every second factor of wang.fang")
	as(password).run("key", "list").wants(t, exitOK, "app")
	s.run("user", "reset-factor", "wang.fang").wants(t, exitFailed, "conflict")

	// Where nobody is left who could do that, whoever has the machine does.
	as(password).enrol()
	as(password).run("key", "list").wants(t, exitFailed, "SLUICE_ADMIN_CODE")
	s.run("factors", "reset", "nobody").wants(t, exitFailed, "nobody")
	s.run("factors", "reset", "wang.fang").wants(t, exitOK, "removed every second factor of wang.fang")
	as(password).run("key", "list").wants(t, exitOK, "app")
}
