package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluice-project/sluice/audit/checkpoint"
	"github.com/sluice-project/sluice/audit/evidence"
	"github.com/sluice-project/sluice/audit/retention"
)

func TestEraseWantsOneOfThree(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--tenant", "demo"}, {"--subject", "alice"}, {"--list", "--again", "x"}, {"--tenant", "demo", "--subject", "alice", "--list"},
	} {
		r := runCommand(t.Context(), nil, "", append([]string{"audit", "erase"}, args...)...)
		if r.code == exitOK || !strings.Contains(r.err, "--subject, or --list, or --again") {
			t.Errorf("%v: %d %s", args, r.code, r.err)
		}
	}
}

// TestEraseCommand: the command shows what would happen and asks; a hold refuses it until somebody else has approved it; and what it leaves is a
// certificate that sluice-verify can check.
func TestEraseCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, quiet)
	p := s.up()
	s.env = append(p.client(), s.env...)
	officer, boss := s.as(t, "zhao", "compliance"), s.as(t, "qian", "compliance")
	person := func(more ...string) []string {
		return append([]string{"audit", "erase", "--tenant", "demo", "--subject", "alice"}, more...)
	}
	s.run(person("--preview")...).wants(t, exitOK, "0 records", "0 keys", "would stay:", "what applications and their users got")
	s.run(person()...).wants(t, exitFailed, "not confirmed", "would go:", "[y/N]")
	s.stdin = "n\n"
	s.run(person()...).wants(t, exitFailed, "not confirmed")
	s.stdin = "y\n"
	s.run(person()...).wants(t, exitOK, "erased: 0 keys", "nothing was kept of this person")
	s.stdin = ""
	s.run("audit", "hold", "--subject", "alice", "--reason", "case 17").wants(t, exitUsage, "--tenant")
	held := s.run("audit", "hold", "--tenant", "demo", "--subject", "alice", "--reason", "case 17")
	held.wants(t, exitOK, `"subject":"`, "tenant demo, person ")
	if strings.Contains(held.out+held.err, "alice") {
		t.Errorf("the person is in clear in %s%s", held.out, held.err)
	}
	s.run(person("--yes")...).wants(t, exitFailed, "legal hold covers", "case 17")
	s.run(person()...).wants(t, exitFailed, "held, so that it is refused", "legal hold covers")
	s.run(person("--yes", "--approval", "none")...).wants(t, exitFailed, "something else")
	asked := officer.run(person("--ask", "a court wants it")...)
	asked.wants(t, exitOK, "sluice approval give --erasures")
	id := strings.TrimSpace(asked.out)
	officer.run(person("--yes", "--approval", id)...).wants(t, exitFailed, "not been given yet")
	s.run("approval", "list", "--erasures").wants(t, exitOK, id, "a court wants it", "zhao", "waiting")
	officer.run("approval", "give", "--erasures", id).wants(t, exitFailed, "second_person_required")
	s.run("approval", "give", "--erasures", id).wants(t, exitFailed, "second_person_required") // created zhao
	boss.run("approval", "give", "--erasures", id).wants(t, exitOK, "Approved for zhao")
	s.run(person("--yes", "--approval", id)...).wants(t, exitFailed, "something else") // of another asker
	file := filepath.Join(s.dir, "alice.json")
	officer.run(person("--yes", "--approval", id, "--certificate", file)...).wants(t, exitOK, "past the holds", "approved by qian", "proof of the record")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := evidence.ParseProofFile(b)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := checkpoint.NewVerifier(strings.TrimSpace(s.run("audit", "key").out))
	if err != nil {
		t.Fatal(err)
	}
	r := evidence.VerifyProofFile(proof, keys, checkpoint.Witnesses{})
	if !r.OK || r.Event.Action != retention.ActionErased || r.Event.Detail["approved_by"] != "qian" {
		t.Errorf("%+v", r)
	}
	s.run("audit", "proof", proof.ID, "--out", file).wants(t, exitFailed, "exists")
	second := officer.run(person("--ask", "again")...)
	s.run("approval", "decline", "--erasures", strings.TrimSpace(second.out), "--reason", "the case is open").wants(t, exitOK, "Declined for")
	officer.run(person("--yes", "--approval", strings.TrimSpace(second.out))...).wants(t, exitFailed, "the case is open")
	list := filepath.Join(s.dir, "erasures.jsonl")
	if err := os.WriteFile(list, []byte(s.run("audit", "erase", "--list").out), 0o600); err != nil {
		t.Fatal(err)
	}
	s.run("audit", "erase", "--again", list).wants(t, exitFailed, "Erase 2 persons again?", "not confirmed")
	s.run("audit", "erase", "--again", list, "--yes").wants(t, exitFailed, "legal hold covers")
	if err := p.stop(syscall.SIGINT); err != nil {
		t.Error(err)
	}
}
