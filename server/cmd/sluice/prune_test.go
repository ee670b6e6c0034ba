package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/server/adminapi"
)

// An operator holds records, sees and releases the hold, asks what is due, and checks a range: beside nothing but the database, and each act is
// recorded.
func TestHoldAndPrune(t *testing.T) {
	s := newSite(t, nil, quiet)
	if err := s.up().stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.run("audit", "hold").wants(t, exitFailed, "reason")
	s.run("audit", "hold", "--list", "--reason", "x").wants(t, exitUsage, "want --reason")
	s.run("audit", "hold", "--reason", "case 17", "--from", "yesterday").wants(t, exitUsage, "--from")
	made := s.run("audit", "hold", "--tenant", "demo", "--from", "2026-11-01", "--reason", "case 17")
	made.wants(t, exitOK, "case 17", "held: records of tenant demo")
	var h adminapi.Hold // as the API shows it
	if err := json.Unmarshal([]byte(made.out), &h); err != nil || h.Tenant != "demo" || h.ReleasedAt != nil || !strings.Contains(made.out, `"from":"2026-11-01T00:00:00Z"`) {
		t.Fatalf("%+v, %v", h, err)
	}
	listed := s.run("audit", "hold", "--list")
	if listed.wants(t, exitOK, h.Id); listed.out != made.out {
		t.Errorf("made as %s, listed as %s", made.out, listed.out)
	}
	s.run("audit", "hold", "--release", h.Id, "--from", "2026-11-01").wants(t, exitUsage, "want --reason")
	s.env = append(s.env, "LANG=zh_CN.UTF-8")
	s.run("audit", "hold", "--release", h.Id, "--reason", "case 17 is closed").wants(t, exitOK, `"released_at":"2`, "已解除（租户 demo")
	s.run("audit", "prune", "--dry-run").wants(t, exitOK, "到期：无")
	s.run("audit", "verify").wants(t, exitOK, "通过：没有记录被更改")
	s.env = s.env[:len(s.env)-1]
	s.run("audit", "hold", "--release", h.Id).wants(t, exitUsage, "say why it is released")
	s.run("audit", "hold", "--release", h.Id, "--reason", "again").wants(t, exitFailed, "released before")
	s.run("audit", "prune", "--dry-run").wants(t, exitOK, "nothing")
	s.run("audit", "prune").wants(t, exitFailed, "archive_dir")
	s.run("audit", "verify", "--from-index", "0", "--to-index", "2").wants(t, exitOK, "only the records from index 0 to 1")
	s.run("audit", "verify", "--from-index", "1").wants(t, exitOK, "OK")
	s.run("audit", "verify", "--from-index", "2", "--to-index", "2").wants(t, exitUsage, "must lie behind")
	all := s.run("audit", "verify")
	all.wants(t, exitOK, "OK")
	if strings.Contains(all.out, "only the records") {
		t.Error(all.out)
	}
}

// Two commands at once: the second says who is at it, and what to do, and has changed nothing.
func TestCommandsTakeTurns(t *testing.T) {
	s := newSite(t, nil, quiet)
	if err := s.up().stop(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.run("audit", "hold", "--list").wants(t, exitOK, "")
	lock, err := os.OpenFile(filepath.Join(s.data, "audit", "cli", "lock"), os.O_RDWR|os.O_TRUNC, 0)
	if err == nil {
		_, err = lock.WriteString("4242\n")
	}
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"hold", "--list"}, {"reconcile"}, {"prune"}, {"erase", "--list"}} {
		r := s.run(append([]string{"audit"}, args...)...)
		r.wants(t, exitFailed, "another sluice command (pid 4242)", "wait until it has ended", "进程号 4242")
		if strings.Contains(r.err, "replica") {
			t.Errorf("advice for a server: %s", r.err)
		}
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	s.run("audit", "hold", "--list").wants(t, exitOK, "")
}
