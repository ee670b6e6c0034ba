package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/migrations/dbtest"
	"github.com/sluice-project/sluice/server/adminapi"
)

// TestWrappingKeysAreRotated: texts and values that were kept before, during and after two rotations are read; the rotations are on record with what
// they did; the first random key is destroyed, and no row is of it.
func TestWrappingKeysAreRotated(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		rotating(t, setup{})
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		rotating(t, setup{database: dbtest.PostgresURL(t)})
	})
}

func rotating(t *testing.T, s setup) {
	in := start(t, s)
	in.publish(revealPolicy(50, usualRules))
	db, err := database.Open(t.Context(), in.cfg.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close(db) }()
	officer, auditor, security := in.signIn("compliance"), in.signIn("auditor"), in.signIn("security_admin")
	mobiles := map[string]string{} // by conversation
	tokens, records := map[string][]string{}, map[string]string{}
	say := func(session, mobile string) {
		t.Helper()
		request, found := in.said(session, "call "+mobile)
		mobiles[session], tokens[session], records[session] = mobile, found, in.eventsOf(request, 2)[0].ID
	}
	readAll := func(when string) {
		t.Helper()
		for session, mobile := range mobiles {
			if got := in.sees(officer, session, tokens[session]); !strings.Contains(got, mobile) {
				t.Errorf("%s: the value of %s: %s", when, session, got)
			}
			r := in.send(http.MethodGet, "/api/v1/audit/records/"+records[session]+"/content", officer, nil)
			if r.status != http.StatusOK || !strings.Contains(string(r.body), "call ") {
				t.Errorf("%s: the text of %s: %d %s", when, session, r.status, r.body)
			}
		}
	}
	keyring := func() (k adminapi.Keyring) {
		t.Helper()
		in.send(http.MethodGet, "/api/v1/keyring", security, nil).decode(t, &k)
		return k
	}
	rotate := func(epoch int64) reply {
		t.Helper()
		r := in.send(http.MethodPost, "/api/v1/keyring/rotate", security, nil)
		var k adminapi.Keyring
		if r.decode(t, &k); r.status != http.StatusCreated || k.Epoch != epoch || !k.Rotating {
			t.Fatalf("rotate: %d %s", r.status, r.body)
		}
		wantProblem(t, "a second one", in.send(http.MethodPost, "/api/v1/keyring/rotate", security, nil), http.StatusConflict, "conflict")
		eventually(t, "everything re-wrapped", func() bool {
			k = keyring()
			return k.DestroyAfter != nil
		})
		for _, p := range k.Progress {
			if p.Left != 0 || p.Done != p.Total || p.Unreadable != 0 {
				t.Errorf("%+v", p)
			}
		}
		return r
	}
	finish := func() {
		t.Helper()
		if err := db.Exec("UPDATE wrapping_rotation SET emptied = emptied - 3600000000").Error; err != nil { // an hour goes by
			t.Fatal(err)
		}
		eventually(t, "the end of the rotation", func() bool { return !keyring().Rotating })
	}

	say("first", "13800138000")
	for name, status := range map[string]int{
		"an auditor": in.send(http.MethodPost, "/api/v1/keyring/rotate", auditor, nil).status, "nobody": in.send(http.MethodPost, "/api/v1/keyring/rotate", "", nil).status,
		"a look by an officer": in.send(http.MethodGet, "/api/v1/keyring", officer, nil).status,
	} {
		if status != http.StatusForbidden && status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, status)
		}
	}
	rotate(1)
	say("second", "13900139000")
	readAll("in the first rotation")
	finish()
	act := rotate(2)
	readAll("in the second rotation")
	finish()
	say("third", "13700137000")
	readAll("afterwards")

	k := keyring()
	if len(k.Epochs) != 3 || k.Epochs[1].State != adminapi.KeyringEpochStateDestroyed || k.Epochs[1].DestroyedAt == nil || k.Epochs[2].State != adminapi.KeyringEpochStateActive {
		t.Errorf("%+v", k)
	}
	for _, table := range []string{"vault_keys", "audit_subject_keys", "rag_versions"} {
		var rows, older int64
		if err := db.Raw("SELECT COUNT(*), COALESCE(SUM(CASE WHEN epoch < 2 THEN 1 ELSE 0 END), 0) FROM "+table).Row().Scan(&rows, &older); err != nil || older != 0 {
			t.Errorf("%s: %d of %d rows are of older keys, %v", table, older, rows, err)
		}
		if rows == 0 && table != "rag_versions" {
			t.Errorf("%s is empty", table)
		}
	}
	if got := fmt.Sprintf("%+v", in.eventsOf(act.header.Get("X-Request-Id"), 2)[1]); !strings.Contains(got, "admin.rotateKeyring") || !strings.Contains(got, "epoch/2") || !strings.Contains(got, "content_keys:1") {
		t.Errorf("the record of the act: %s", got)
	}
	for action, want := range map[string]string{"keyring.destroy": `"destroyed":"1"`, "keyring.rotated": `"content_keys":"1"`} {
		eventually(t, "the record "+action, func() bool {
			r := in.send(http.MethodGet, "/api/v1/audit/records?action="+action, auditor, nil)
			return strings.Contains(string(r.body), want) && strings.Contains(string(r.body), `"epoch/2"`)
		})
	}
	if got := in.gauge("sluice_keyring_epoch"); got != "2" {
		t.Errorf("the metric says %s", got)
	}
	if v := in.verify(); v.Status != "finished" || !v.Report.OK {
		t.Errorf("%+v", v)
	}
}
