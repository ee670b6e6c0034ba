package audit

import (
	"fmt"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// A hold on an account keeps what is done with keys of its own, which is on its behalf.
func TestAHoldOnAnAccountKeepsItsKeys(t *testing.T) {
	t.Parallel()
	of := func(tenant, who string) string { return Subject(testKeys(), tenant, who) }
	h := retention.Hold{Actor: "u7"}
	for want, e := range map[bool]Event{
		true:  {Tenant: "demo", Actor: Actor{Kind: "key", ID: "k1", OnBehalfOf: of("demo", "u7")}},
		false: {Tenant: "demo", Actor: Actor{Kind: "key", ID: "k1", OnBehalfOf: of("other", "u7")}},
	} {
		if h.Matches(e, of) != want {
			t.Errorf("%+v: %t", e, !want)
		}
	}
	if h.Matches(Event{Tenant: "demo", Actor: Actor{ID: "k1"}}, of) {
		t.Error("a key of nobody")
	}
}

// The tenant of a hold is found however many are newer.
func TestHoldTenant(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	h, err := l.Hold(t.Context(), retention.Hold{Tenant: "a", Reason: "r"})
	must(t, err)
	newer := make([]retention.HoldRow, retention.MaxHolds)
	for i := range newer {
		newer[i] = retention.HoldRow{ID: fmt.Sprintf("z%d", i), Tenant: "c", Reason: "r", Created: h.Created + 1}
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
		for name, h := range map[string]retention.Hold{
			"no reason": {Tenant: "a"}, "a blank reason": {Tenant: "a", Reason: " \n"}, "no selection": {Reason: "r"}, "order": {Tenant: "a", Reason: "r", From: 5, To: 5},
			"too long": {Tenant: strings.Repeat("x", 2000), Reason: "r"}, "no text": {Tenant: "\xff", Reason: "r"}, "before time": {Reason: "r", From: -1, Tenant: "a"},
		} {
			if _, err := l.Hold(ctx, h); fault.Public(err).Code() != fault.CodeInvalidValue {
				t.Errorf("%s: %v", name, err)
			}
		}
		a, err := l.Hold(ctx, retention.Hold{Tenant: "a\x00", Reason: "r", From: 3, To: 9, Actor: "k1", CreatedBy: "me"})
		must(t, err)
		_, err = l.Hold(ctx, retention.Hold{Tenant: "b", Reason: "r"})
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
	h := retention.Hold{Tenant: "a", Actor: "k", From: 10, To: 20}
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
		if h.Matches(c.e, nil) != c.want {
			t.Errorf("%+v: %v", c.e, !c.want)
		}
	}
}
