package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// TestRetention: nothing lowers the floors, and each class has its time.
func TestRetention(t *testing.T) {
	for _, r := range []Retention{
		{RecordsDays: 189}, {RecordsDays: -1}, {SensitiveDays: 1095}, {RecordsDays: 1200, SensitiveDays: 1100}, {TenantDays: map[string]int{"a": 189}}, {RecordsDays: 1 << 40},
	} {
		if len(r.validate()) == 0 {
			t.Errorf("%+v is taken", r)
		}
	}
	for _, r := range []Retention{{}, {RecordsDays: 190}, {RecordsDays: 2000}, {SensitiveDays: 4000, TenantDays: map[string]int{"a": 190}}} {
		if errs := r.validate(); len(errs) > 0 {
			t.Errorf("%+v: %v", r, errs)
		}
	}
	r := Retention{TenantDays: map[string]int{"long": 2000, "short": 200}}.withDefaults()
	remote := Event{Model: Model{Engine: "cloud"}, Findings: []Finding{{Action: "passed"}}}
	for name, c := range map[string]struct {
		e    Event
		days int
	}{
		"a request":        {Event{Action: "chat.completions"}, 190},
		"of a tenant":      {Event{Tenant: "long"}, 2000},
		"of another":       {Event{Tenant: "short", Action: "admin.publishPolicy"}, 1096},
		"handed on":        {remote, 1096},
		"observed":         {Event{Model: Model{Engine: "cloud"}, Findings: []Finding{{Action: "token"}, {Action: "observe"}}}, 1096},
		"token":            {Event{Model: Model{Engine: "cloud"}, Findings: []Finding{{Action: "token"}}}, 190},
		"masked":           {Event{Model: Model{Engine: "cloud"}, Findings: []Finding{{Action: "masked"}}}, 190},
		"our own engine":   {Event{Model: Model{Engine: "native"}, Findings: []Finding{{Action: "passed"}}}, 190},
		"with its version": {Event{Model: Model{Engine: "native/3"}, Findings: []Finding{{Action: "passed"}}}, 190},
		"a policy":         {Event{Action: "admin.publishPolicy"}, 1096},
		"an export":        {Event{Action: "admin.exportAudit"}, 1096},
	} {
		if until, _ := r.until(c.e); until != (time.Duration(c.days) * day).Microseconds() {
			t.Errorf("%s: %v days", name, time.Duration(until)*time.Microsecond/day)
		}
	}
	for _, action := range []string{ActionPrune, ActionErase, ActionErased} {
		if until, _ := r.until(Event{Action: action}); until != 1<<63-1 {
			t.Errorf("%s goes", action)
		}
	}
	if until, _ := r.until(Event{Time: 1<<63 - 5}); until != 1<<63-1 {
		t.Errorf("a record of the end of time stays until %d", until)
	}
}

// A hold on an account keeps what is done with keys of its own, which is on its behalf.
func TestAHoldOnAnAccountKeepsItsKeys(t *testing.T) {
	t.Parallel()
	of := func(tenant, who string) string { return Subject(testKeys(), tenant, who) }
	h := Hold{Actor: "u7"}
	for want, e := range map[bool]Event{
		true:  {Tenant: "demo", Actor: Actor{Kind: "key", ID: "k1", OnBehalfOf: of("demo", "u7")}},
		false: {Tenant: "demo", Actor: Actor{Kind: "key", ID: "k1", OnBehalfOf: of("other", "u7")}},
	} {
		if h.matches(e, of) != want {
			t.Errorf("%+v: %t", e, !want)
		}
	}
	if h.matches(Event{Tenant: "demo", Actor: Actor{ID: "k1"}}, of) {
		t.Error("a key of nobody")
	}
}

// The tenant of a hold is found however many are newer.
func TestHoldTenant(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	h, err := l.Hold(t.Context(), Hold{Tenant: "a", Reason: "r"})
	must(t, err)
	newer := make([]holdRow, maxHolds)
	for i := range newer {
		newer[i] = holdRow{ID: fmt.Sprintf("z%d", i), Tenant: "c", Reason: "r", Created: h.Created + 1}
	}
	must(t, db.CreateInBatches(newer, 100).Error)
	for id, want := range map[string]string{h.ID: "a", "none": ""} {
		if tenant, err := l.HoldTenant(t.Context(), id); err != nil || tenant != want {
			t.Errorf("%s: %q, %v", id, tenant, err)
		}
	}
}

// TestHolds: what is refused, and who finds what.
func TestHolds(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l, ctx := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{}), t.Context()
		for name, h := range map[string]Hold{
			"no reason": {Tenant: "a"}, "a blank reason": {Tenant: "a", Reason: " \n"}, "no selection": {Reason: "r"}, "order": {Tenant: "a", Reason: "r", From: 5, To: 5},
			"too long": {Tenant: strings.Repeat("x", 2000), Reason: "r"}, "no text": {Tenant: "\xff", Reason: "r"}, "before time": {Reason: "r", From: -1, Tenant: "a"},
		} {
			if _, err := l.Hold(ctx, h); fault.Public(err).Code() != fault.CodeInvalidValue {
				t.Errorf("%s: %v", name, err)
			}
		}
		a, err := l.Hold(ctx, Hold{Tenant: "a\x00", Reason: "r", From: 3, To: 9, Actor: "k1", CreatedBy: "me"})
		must(t, err)
		_, err = l.Hold(ctx, Hold{Tenant: "b", Reason: "r"})
		must(t, err)
		all, err := l.Holds(ctx, "")
		if err != nil || len(all) != 2 {
			t.Errorf("%+v, %v", all, err)
		}
		one, err := l.Holds(ctx, "a\x00")
		if err != nil || len(one) != 1 || one[0] != a {
			t.Errorf("%+v, %v", one, err)
		}
		if _, err := l.ReleaseHold(ctx, "b", a.ID, Actor{Kind: "user", ID: "u9", Name: "me"}); fault.Public(err).Code() != fault.CodeNotFound {
			t.Errorf("another tenant's hold: %v", err)
		}
		_, err = l.ReleaseHold(ctx, "a\x00", a.ID, Actor{Kind: "user", ID: "u9", Name: "me"})
		must(t, err)
		if _, err := l.ReleaseHold(ctx, "", a.ID, Actor{Kind: "user", ID: "u9", Name: "me"}); fault.Public(err).Code() != fault.CodeConflict {
			t.Errorf("released twice: %v", err)
		}
		for _, statement := range []string{"DELETE FROM audit_holds", "UPDATE audit_holds SET reason = 'x'", "UPDATE audit_holds SET released = 0"} {
			if db.Exec(statement).Error == nil {
				t.Errorf("%s was taken", statement)
			}
		}
	})
	h := Hold{Tenant: "a", Actor: "k", From: 10, To: 20}
	for _, c := range []struct {
		e    Event
		want bool
	}{
		{Event{Tenant: "a", Actor: Actor{ID: "k"}, Time: 10}, true},
		{Event{Tenant: "a", Actor: Actor{ID: "k"}, Time: 20}, false},
		{Event{Tenant: "b", Actor: Actor{ID: "k"}, Time: 10}, false},
		{Event{Tenant: "a", Time: 10}, false},
		{Event{Tenant: "a", Actor: Actor{ID: "k"}, Time: 9}, false},
	} {
		if h.matches(c.e, nil) != c.want {
			t.Errorf("%+v: %v", c.e, !c.want)
		}
	}
}
