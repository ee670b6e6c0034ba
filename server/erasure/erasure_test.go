package erasure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

type kit struct {
	*Eraser
	t      *testing.T
	log    *audit.Log
	values *pseudonym.Store
	faults *dbtest.Faults
	forgot []string
}

func newKit(t *testing.T, db *gorm.DB) *kit {
	t.Helper()
	k := &kit{t: t, faults: &dbtest.Faults{}}
	keys, discard, faulty := keyring.FromBytes([]byte(strings.Repeat("k", 32))), slog.New(slog.DiscardHandler), k.faults.Over(db)
	var err error
	if k.log, err = audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit")}, faulty, keys, nil, discard, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.log.Close() })
	if k.values, err = pseudonym.New(pseudonym.Config{}, pseudonym.NewTables(faulty), keys, discard, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.values.Close() })
	k.Eraser = New(Config{
		Audit: k.log, Values: k.values, Approvals: approval.New(approval.NewTables(faulty), time.Minute, time.Now), Keys: keys,
		Forget: func(tenant string) { k.forgot = append(k.forgot, tenant) },
		Tenant: func(_ context.Context, id string) error {
			if id != "demo" {
				return fault.New(fault.CodeNotFound, fault.Say("thing.tenant"), id)
			}
			return nil
		},
	})
	return k
}

func (k *kit) alice() Target { return Target{Tenant: "demo", Subject: k.log.Subject("demo", "alice")} }

// says keeps a text and a value of a person, and returns the id of the record.
func (k *kit) says(n int) string {
	k.t.Helper()
	subject := k.alice().Subject
	e := audit.Event{Request: fmt.Sprint("r", n), Stage: audit.StageAdmitted, Tenant: "demo", Actor: audit.Actor{Kind: "key", ID: "app", OnBehalfOf: subject}, Decision: "allow"}
	r, err := k.log.AppendWith(k.t.Context(), e, subject, audit.Text{Direction: "request", Form: "masked", Text: "a text"})
	if err == nil {
		err = k.values.Store(k.t.Context(), pseudonym.Turn{
			Tenant: "demo", Scope: fmt.Sprint("session/s", n), Name: fmt.Sprint("s", n), Keep: time.Hour, Subject: subject,
			Values: []pseudonym.Value{{Code: "AAAAA", Class: "cn_mobile", Text: "13800138000"}},
		})
	}
	if err == nil {
		err = k.log.Flush(k.t.Context())
	}
	if err != nil {
		k.t.Fatal(err)
	}
	return r.ID
}

// there reports whether the text and the value are.
func (k *kit) there(id string, n int) (text, value bool) {
	k.t.Helper()
	kept, err := k.log.Contents(k.t.Context(), id)
	if err != nil || len(kept) != 1 {
		k.t.Fatal(kept, err)
	}
	found, err := k.values.Find(k.t.Context(), pseudonym.Target{Tenant: "demo", Name: fmt.Sprint("s", n)}, []string{"AAAAA"})
	if err != nil {
		k.t.Fatal(err)
	}
	return !kept[0].Erased, len(found) == 1
}

var officer = audit.Actor{Kind: "user", ID: "u1", Name: "officer"}

// TestEveryFailure fails operations of an erasure in turn, in both flavours: texts and values are both there or both gone, what is said to be
// incomplete is gone from the database, and repeating finishes it.
func TestEveryFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("an erasure waits for sweeps of seconds; make test runs it")
	}
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		t.Parallel()
		k := newKit(t, db)
		failures, incomplete, turn := 0, 0, 0
		for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
			for n := 5 * int(o); ; n += 11 {
				turn++
				id := k.says(turn)
				failed, at := "", n
				k.faults.Set(func(op string) dbtest.Outcome {
					if at--; at == 0 {
						failed = op
						return o
					}
					return dbtest.Healthy
				})
				_, err := k.Erase(t.Context(), k.alice(), "", officer)
				k.faults.Set(nil)
				if (err != nil) != (failed != "") {
					t.Errorf("%s (%d): %v", failed, n, err)
				}
				text, value := k.there(id, turn)
				if text != value || err == nil && text {
					t.Errorf("%s (%d): half erased: text %t, value %t", failed, n, text, value)
				}
				if fault.Is(err, fault.CodeErasureIncomplete) {
					incomplete++
					if f := (*fault.Error)(nil); text || !errors.As(err, &f) || !strings.Contains(f.Message(fault.English), "1 values of 1 conversations") || !strings.Contains(f.Message(fault.Chinese), "密钥") {
						t.Errorf("%s (%d): %v", failed, n, err)
					}
				}
				if failed == "" {
					break
				}
				failures++
				if _, err := k.Erase(t.Context(), k.alice(), "", officer); err != nil {
					t.Fatalf("%s (%d), repeated: %v", failed, n, err)
				}
				if text, value := k.there(id, turn); text || value {
					t.Errorf("%s (%d), repeated: text %t, value %t", failed, n, text, value)
				}
			}
		}
		if failures < 6 {
			t.Errorf("only %d operations failed", failures)
		}
		t.Logf("%d failures, %d incomplete", failures, incomplete)
	})
}

// stuck lets nothing be removed from files.
func stuck(op string) dbtest.Outcome {
	if strings.Contains(op, "wal_checkpoint") {
		return dbtest.FailsBefore
	}
	return dbtest.Healthy
}

// certificates are the records that say that an erasure is done.
func (k *kit) certificates(action string) []search.Entry {
	k.t.Helper()
	page, err := k.log.Search(k.t.Context(), search.Query{Tenant: "demo", Action: action})
	if err != nil {
		k.t.Fatal(err)
	}
	return page.Events
}

// TestIncomplete: copies of keys that cannot be removed yet are said to be left, with what went; the caches went all the same. There is no
// certificate before they are gone, and then it has the figures of what went first.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	id := k.says(1)
	k.faults.Set(stuck)
	done, err := k.Erase(t.Context(), k.alice(), "", officer)
	k.faults.Set(nil)
	if !fault.Is(err, fault.CodeErasureIncomplete) || done.Record == "" || done.Certificate != "" || done.Gone != (Figures{1, 1, 1, 1}) || len(k.forgot) != 1 {
		t.Errorf("%+v, %v, %v", done, err, k.forgot)
	}
	if text, value := k.there(id, 1); text || value {
		t.Errorf("text %t, value %t", text, value)
	}
	if err := k.log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := k.certificates(retention.ActionErasureFailed)
	if len(k.certificates(retention.ActionErased)) != 0 || len(failed) != 1 || failed[0].Detail["erasure"] != done.Record || failed[0].ErrorCode != "erasure_incomplete" {
		t.Errorf("%+v", failed)
	}
	again, err := k.Erase(t.Context(), k.alice(), "", officer)
	if err != nil || again.Gone != (Figures{}) || again.Certificate == "" {
		t.Errorf("%+v, %v", again, err)
	}
	list, err := k.log.Erasures(t.Context(), "demo")
	if err != nil || len(list) != 2 || list[0].Record != done.Record || list[1].Certificate != again.Certificate {
		t.Fatalf("%+v, %v", list, err)
	}
	e, err := k.log.Get(t.Context(), list[0].Certificate)
	if err != nil || e.Action != retention.ActionErased || e.Detail["erasure"] != done.Record || e.Detail["keys"] != "1" || e.Detail["contents"] != "1" || e.Detail["values"] != "1" ||
		e.Detail["stays"] != "records documents others backups callers" || e.Index < 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestNothingDestroyed: an erasure that the database refuses leaves no certificate, a record that it failed, and says that the database is not there.
func TestNothingDestroyed(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	id := k.says(1)
	k.faults.Set(func(op string) dbtest.Outcome {
		if strings.Contains(op, "audit_erased_keys") {
			return dbtest.FailsBefore
		}
		return dbtest.Healthy
	})
	_, err := k.Erase(t.Context(), k.alice(), "", officer)
	k.faults.Set(nil)
	if !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("%v", err)
	}
	if text, value := k.there(id, 1); !text || !value {
		t.Errorf("text %t, value %t", text, value)
	}
	if err := k.log.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	begun, failed := k.certificates(retention.ActionErase), k.certificates(retention.ActionErasureFailed)
	if len(begun) != 1 || len(failed) != 1 || failed[0].Detail["erasure"] != begun[0].ID || len(k.certificates(retention.ActionErased)) != 0 {
		t.Errorf("%+v, %+v", begun, failed)
	}
}

// TestSpentApprovalFinishes: an approval that was spent for an erasure that is not complete ends it, destroys nothing that came since, and is good for
// nothing then.
func TestSpentApprovalFinishes(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.says(1)
	if _, err := k.log.Hold(t.Context(), retention.Hold{Tenant: "demo", Subject: k.alice().Subject, Reason: "case 17"}); err != nil {
		t.Fatal(err)
	}
	a, err := k.Request(t.Context(), k.alice(), "a court wants it", officer)
	if err == nil {
		_, err = k.cfg.Approvals.Approve(t.Context(), approval.KindErasure, "demo", a.ID, identity.Principal{ID: "u2", Name: "boss", SignedIn: time.Now()})
	}
	if err != nil {
		t.Fatal(err)
	}
	k.faults.Set(stuck)
	_, err = k.Erase(t.Context(), k.alice(), a.ID, officer)
	k.faults.Set(nil)
	if !fault.Is(err, fault.CodeErasureIncomplete) {
		t.Fatal(err)
	}
	later := k.says(2)
	if _, err := k.Erase(t.Context(), k.alice(), "another", officer); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("%v", err)
	}
	done, err := k.Erase(t.Context(), k.alice(), a.ID, officer)
	if err != nil || done.Certificate == "" || done.Gone != (Figures{1, 1, 1, 1}) || done.Override == nil || done.Override.ApprovedBy != "boss" || len(done.Override.Holds) != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	if text, value := k.there(later, 2); !text || !value {
		t.Errorf("what came since: text %t, value %t", text, value)
	}
	if _, err := k.Erase(t.Context(), k.alice(), a.ID, officer); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("spent: %v", err)
	}
}

// What stays is told for where it is.
func TestStays(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.cfg.Log, k.cfg.Spill, k.cfg.Remote = true, true, true
	for want, target := range map[string]Target{
		"records documents others wal spill backups remote callers": k.alice(),
		"records texts wal backups remote callers":                  {Tenant: "demo", Conversation: &pseudonym.Target{Tenant: "demo", Name: "s1"}},
	} {
		p, err := k.Preview(t.Context(), target, officer)
		var got []string
		for _, s := range p.Remainders {
			got = append(got, s.Code)
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
}

// TestFilesStay: files and batches are named where the tenant has some, before and in the certificate; who cannot tell erases nothing.
func TestFilesStay(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	var has bool
	var failure error
	inside := 0
	k.cfg.Files = func(_ context.Context, tx *gorm.DB, tenant string) (bool, error) {
		if tx != nil {
			inside++
		}
		return has && tenant == "demo", failure
	}
	for _, has = range []bool{false, true} {
		k.says(1)
		p, err := k.Preview(t.Context(), k.alice(), officer)
		if err != nil || strings.Contains(Codes(p.Remainders), "documents files others") != has {
			t.Errorf("%+v, %v", p.Remainders, err)
		}
		done, err := k.Erase(t.Context(), k.alice(), "", officer)
		if err != nil || inside == 0 || strings.Contains(Codes(done.Stays), StaysFiles) != has {
			t.Fatalf("%+v, %v", done, err)
		}
		if e, err := k.log.Get(t.Context(), done.Certificate); err != nil || strings.Contains(e.Detail["stays"], StaysFiles) != has {
			t.Errorf("%+v, %v", e, err)
		}
	}
	failure = fault.New(fault.CodeDatabaseUnavailable)
	id := k.says(2)
	if _, err := k.Erase(t.Context(), k.alice(), "", officer); !fault.Is(err, fault.CodeDatabaseUnavailable) {
		t.Errorf("%v", err)
	}
	if text, value := k.there(id, 2); !text || !value {
		t.Errorf("text %t, value %t", text, value)
	}
}

// Logs and caches of others are told of an erasure by a command, and where another writer is known; in the certificate, too.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	k := newKit(t, db)
	k.says(1)
	check := func(want bool) {
		t.Helper()
		p, err := k.Preview(t.Context(), k.alice(), officer)
		if err != nil || strings.Contains(Codes(p.Remainders), StaysReplicas) != want {
			t.Errorf("%+v, %v", p.Remainders, err)
		}
		done, err := k.Erase(t.Context(), k.alice(), "", officer)
		if err != nil || strings.Contains(Codes(done.Stays), StaysReplicas) != want {
			t.Fatalf("%+v, %v", done.Stays, err)
		}
		if e, err := k.log.Get(t.Context(), done.Certificate); err != nil || strings.Contains(e.Detail["stays"], StaysReplicas) != want {
			t.Errorf("%+v, %v", e, err)
		}
	}
	check(false)
	k.cfg.Command = true
	check(true)
	k.cfg.Command = false
	check(false)
	other, err := audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "other")}, db, keyring.FromBytes([]byte(strings.Repeat("k", 32))), nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Append(t.Context(), audit.Event{Stage: audit.StageAction, Tenant: "demo", Actor: officer, Action: "x", Decision: "allow", Outcome: "ok"}); err != nil {
		t.Fatal(err)
	}
	if err := other.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	check(true)
}

// What stays is what is there when the rest is gone: not the values that went with it.
func TestStaysAfterwards(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.says(1)
	err := k.values.Store(t.Context(), pseudonym.Turn{ // by somebody unknown, in the same conversation
		Tenant: "demo", Scope: "session/s1", Name: "s1", Keep: time.Hour, Values: []pseudonym.Value{{Code: "BBBBB", Class: "cn_mobile", Text: "13900139001"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := k.Preview(t.Context(), k.alice(), officer)
	if err != nil || !strings.Contains(Codes(p.Remainders), StaysUnattributed) {
		t.Fatalf("%+v, %v", p.Remainders, err)
	}
	done, err := k.Erase(t.Context(), k.alice(), "", officer)
	if err != nil || strings.Contains(Codes(done.Stays), StaysUnattributed) {
		t.Errorf("%+v, %v", done.Stays, err)
	}
	if e, err := k.log.Get(t.Context(), done.Certificate); err != nil || e.Detail["stays"] != Codes(done.Stays) {
		t.Errorf("%+v, %v", e, err)
	}
}

// The values of a conversation leave no copy in the log of SQLite; if it cannot be emptied, the answer says so.
func TestValuesInTheLogOfTheDatabase(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	for n, busy := range []bool{false, true} {
		k.says(n)
		emptied := 0
		k.faults.Set(func(op string) dbtest.Outcome {
			if strings.Contains(op, "wal_checkpoint") {
				emptied++
			}
			if busy {
				return stuck(op)
			}
			return dbtest.Healthy
		})
		done, err := k.Erase(t.Context(), Target{Tenant: "demo", Conversation: &pseudonym.Target{Tenant: "demo", Name: fmt.Sprint("s", n)}}, "", officer)
		k.faults.Set(nil)
		if err != nil || done.Gone.Values != 1 || emptied != 1 || strings.Contains(Codes(done.Stays), StaysLog) != busy {
			t.Errorf("%+v, %v, emptied %d times", done, err, emptied)
		}
	}
}

// A tenant is named, and there.
func TestTenantOfAnErasure(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	for tenant, code := range map[string]fault.Code{"*": fault.CodeInvalidValue, "none": fault.CodeNotFound} {
		for name, target := range map[string]Target{
			"person": {Tenant: tenant, Subject: k.alice().Subject}, "values": {Tenant: tenant, Conversation: &pseudonym.Target{Tenant: tenant, Name: "s1"}},
		} {
			if _, err := k.Erase(t.Context(), target, "", officer); !fault.Is(err, code) {
				t.Errorf("%s of %s: %v", name, tenant, err)
			}
			if _, err := k.Preview(t.Context(), target, officer); !fault.Is(err, code) {
				t.Errorf("preview of %s of %s: %v", name, tenant, err)
			}
		}
	}
}

// Others are erased again though one is held.
func TestRepeat(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.says(1)
	h, err := k.log.Hold(t.Context(), retention.Hold{Tenant: "demo", Subject: k.alice().Subject, Reason: "case 17"})
	if err != nil {
		t.Fatal(err)
	}
	bob := k.log.Subject("demo", "bob")
	var went []string
	err = Repeat([]retention.Erasure{{Tenant: "demo", Subject: k.alice().Subject}, {Tenant: "demo", Subject: bob}}, func(to Target) error {
		_, err := k.Erase(t.Context(), to, "", officer)
		if err == nil {
			went = append(went, to.Subject)
		}
		return err
	})
	if !fault.Is(err, fault.CodeHeld) || !strings.Contains(err.Error(), h.ID) || len(went) != 1 || went[0] != bob {
		t.Errorf("%v, %v", went, err)
	}
}
