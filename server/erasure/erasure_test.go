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
	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/vault"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

type kit struct {
	*Eraser
	t      *testing.T
	log    *audit.Log
	values *vault.Vault
	faults *dbtest.Faults
	forgot []string
}

func newKit(t *testing.T, db *gorm.DB) *kit {
	t.Helper()
	k := &kit{t: t, faults: &dbtest.Faults{}}
	keys, quiet, faulty := keyring.FromBytes([]byte(strings.Repeat("k", 32))), slog.New(slog.DiscardHandler), k.faults.Over(db)
	var err error
	if k.log, err = audit.Open(audit.Config{Dir: filepath.Join(t.TempDir(), "audit")}, faulty, keys, nil, quiet, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.log.Close() })
	if k.values, err = vault.New(vault.Config{}, vault.NewStore(faulty), keys, quiet, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.values.Close() })
	k.Eraser = New(Config{
		Audit: k.log, Values: k.values, Approvals: approval.New(approval.NewStore(faulty), time.Minute, time.Now), Keys: keys,
		Forget: func(tenant string) { k.forgot = append(k.forgot, tenant) },
		Tenant: func(_ context.Context, id string) error {
			if id != "demo" {
				return fault.New(fault.CodeNotFound, fault.Say("tenant", "租户"), id)
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
		err = k.values.Store(k.t.Context(), vault.Turn{
			Tenant: "demo", Scope: fmt.Sprint("session/s", n), Name: fmt.Sprint("s", n), Keep: time.Hour, Subject: subject,
			Values: []vault.Value{{Code: "AAAAA", Class: "cn_mobile", Text: "13800138000"}},
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
	found, err := k.values.Find(k.t.Context(), vault.Target{Tenant: "demo", Name: fmt.Sprint("s", n)}, []string{"AAAAA"})
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
		t.Skip("it waits as erasures do")
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

// TestIncomplete: copies of keys that cannot be removed yet are said to be left, with what went; the caches went all the same.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	id := k.says(1)
	k.faults.Set(func(op string) dbtest.Outcome {
		if strings.Contains(op, "wal_checkpoint") {
			return dbtest.FailsBefore
		}
		return dbtest.Healthy
	})
	done, err := k.Erase(t.Context(), k.alice(), "", officer)
	k.faults.Set(nil)
	if !fault.Is(err, fault.CodeErasureIncomplete) || done.Record == "" || done.Gone != (Figures{1, 1, 1, 1}) || len(k.forgot) != 1 {
		t.Errorf("%+v, %v, %v", done, err, k.forgot)
	}
	if text, value := k.there(id, 1); text || value {
		t.Errorf("text %t, value %t", text, value)
	}
	again, err := k.Erase(t.Context(), k.alice(), "", officer)
	if err != nil || again.Gone != (Figures{}) {
		t.Errorf("%+v, %v", again, err)
	}
}

// Others are erased again though one is held.
func TestRepeat(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t))
	k.says(1)
	h, err := k.log.Hold(t.Context(), audit.Hold{Tenant: "demo", Subject: k.alice().Subject, Reason: "case 17"})
	if err != nil {
		t.Fatal(err)
	}
	bob := k.log.Subject("demo", "bob")
	var went []string
	err = k.Repeat(t.Context(), []audit.Erasure{{Tenant: "demo", Subject: k.alice().Subject}, {Tenant: "demo", Subject: bob}}, officer, func(r Result) { went = append(went, r.Subject) })
	if !fault.Is(err, fault.CodeHeld) || !strings.Contains(err.Error(), h.ID) || len(went) != 1 || went[0] != bob {
		t.Errorf("%v, %v", went, err)
	}
}
