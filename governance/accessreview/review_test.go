package accessreview

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/access"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

const password = "correct horse battery staple"

// world is a tenant "bank" with people, keys and a service whose clock the test sets.
type world struct {
	*Service
	t       *testing.T
	people  map[string]identity.Principal
	lapses  []string // recorded, with the code of why one could not be ended
	refuse  error    // what Record returns
	elapsed time.Duration
}

func newWorld(t *testing.T, db *gorm.DB) *world {
	t.Helper()
	ids, err := identity.New(identity.Config{PasswordCost: identity.PasswordCost{MemoryKiB: 64, Passes: 1}}, identity.Limits{}, db, keyring.FromBytes([]byte("0123456789abcdef0123456789abcdef")), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	must(t, ids.Load(t.Context()))
	if _, err := ids.EnsureAdmin(t.Context(), "operator", "root", password); err != nil {
		t.Fatal(err)
	}
	must(t, ids.CreateTenant(t.Context(), identity.Tenant{ID: "bank", Name: "Bank"}))
	enforcer, err := access.New()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, people: map[string]identity.Principal{}}
	w.Service = New(Config{Identity: ids, Access: enforcer, Notice: time.Minute, Record: func(_ context.Context, _ Campaign, i Item) error {
		if w.refuse == nil {
			w.lapses = append(w.lapses, strings.TrimSpace(i.Name+" "+string(i.Failure)))
		}
		return w.refuse
	}}, db, slog.New(slog.DiscardHandler))
	w.now = func() time.Time { return time.Now().Add(w.elapsed) }
	w.person("root-made-guard", "security_admin", "elsewhere")
	w.person("checker", "auditor", "elsewhere")
	w.person("dev", "developer", "elsewhere")
	return w
}

// person makes an account of the bank that an account with the id by has created.
func (w *world) person(name, role, by string) identity.Principal {
	w.t.Helper()
	u, err := w.cfg.Identity.CreateUser(w.t.Context(), identity.NewUser{Tenant: "bank", Name: name, Password: password, Roles: []string{role}, CreatedBy: by})
	must(w.t, err)
	w.people[name] = identity.Principal{Tenant: "bank", Kind: "user", ID: u.ID, Name: name, Roles: u.Roles}
	return w.people[name]
}

func (w *world) key(name, by, owner string) identity.Key {
	w.t.Helper()
	k, _, err := w.cfg.Identity.CreateKey(w.t.Context(), identity.NewKey{Tenant: "bank", Name: name, CreatedBy: by, Owner: owner, Scopes: []string{"chat"}})
	must(w.t, err)
	return k
}

// start begins a review that checker owns.
func (w *world) start() Campaign {
	w.t.Helper()
	c, err := w.Start(w.t.Context(), NewCampaign{Tenant: "bank", Name: "autumn", Owner: "Checker ", Due: w.now().Add(time.Hour)}, w.people["root-made-guard"])
	must(w.t, err)
	return c
}

func (w *world) decide(c Campaign, kind Kind, id string, keep bool, by string) (Item, error) {
	v := Verdict{Kind: kind, ID: id, Keep: keep}
	_, items, err := w.Campaign(w.t.Context(), "bank", c.ID)
	if err != nil {
		return Item{}, err
	}
	if at := slices.IndexFunc(items, func(i Item) bool { return i.ID == id }); at >= 0 {
		v.Holds = items[at].Holds
	}
	if !keep {
		v.Reason = "left"
	}
	return w.Decide(w.t.Context(), "bank", c.ID, v, w.people[by])
}

// item reads an entry.
func (w *world) item(c Campaign, id string) Item {
	w.t.Helper()
	_, items, err := w.Campaign(w.t.Context(), "bank", c.ID)
	must(w.t, err)
	at := slices.IndexFunc(items, func(i Item) bool { return i.ID == id })
	if at < 0 {
		w.t.Fatalf("no entry %s in %+v", id, items)
	}
	return items[at]
}

func (w *world) active(kind Kind, id string) bool {
	w.t.Helper()
	if kind == KindKey {
		k, err := w.cfg.Identity.Key(w.t.Context(), "bank", id)
		must(w.t, err)
		return k.RevokedAt.IsZero()
	}
	u, err := w.cfg.Identity.User(w.t.Context(), "bank", id)
	must(w.t, err)
	return !u.Disabled
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if err == nil || fault.Public(err).Code() != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

// TestDecisions: what is confirmed stays, what is ended ends at once, and a campaign without anything that waits is over.
func TestDecisions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		app, old := w.key("app", "elsewhere", ""), w.key("old", "elsewhere", "")
		c := w.start()
		if c.All != 5 || c.Waiting != 5 {
			t.Errorf("%d of %d entries wait", c.Waiting, c.All)
		}
		if i := w.item(c, app.ID); i.Kind != KindKey || !slices.Contains(i.Holds, "scope chat") {
			t.Errorf("%+v", i)
		}
		dev, guard, checker := w.people["dev"].ID, w.people["root-made-guard"].ID, w.people["checker"].ID
		for _, d := range []struct {
			kind Kind
			id   string
			keep bool
			by   string
		}{{KindUser, dev, false, "checker"}, {KindUser, guard, true, "checker"}, {KindUser, checker, true, "root-made-guard"}, {KindKey, app.ID, true, "checker"}, {KindKey, old.ID, false, "checker"}} {
			if _, err := w.decide(c, d.kind, d.id, d.keep, d.by); err != nil {
				t.Fatalf("%s: %v", d.id, err)
			}
			if w.active(d.kind, d.id) != d.keep {
				t.Errorf("%s keeps %v", d.id, !d.keep)
			}
		}
		if i := w.item(c, dev); i.Decision != Ended || i.ByName != "checker" || i.Reason != "left" || i.Done.IsZero() || i.Failure != "" {
			t.Errorf("%+v", i)
		}
		_, err := w.decide(c, KindUser, dev, true, "checker")
		wantCode(t, "confirmed after it was ended", err, fault.CodeConflict)
		if _, err := w.decide(c, KindUser, dev, false, "checker"); err != nil {
			t.Errorf("said again: %v", err)
		}
		must(t, w.Sweep(t.Context()))
		if c, _, err := w.Campaign(t.Context(), "bank", c.ID); err != nil || c.Ended.IsZero() || len(w.lapses) != 0 {
			t.Errorf("%+v %v, lapsed %v", c, err, w.lapses)
		}
	})
}

// TestWhoDecides: the owner, not about himself or his work; for that the one who started it, not about himself, either.
func TestWhoDecides(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		made := w.person("made", "developer", w.people["checker"].ID)
		both := w.person("both", "developer", w.people["root-made-guard"].ID) // and roles from the owner
		roles := []string{"developer", "witness"}
		if _, _, err := w.cfg.Identity.ChangeUser(t.Context(), identity.Administrator{ID: w.people["checker"].ID}, "bank", both.ID, identity.UserChange{Roles: &roles}); err != nil {
			t.Fatal(err)
		}
		w.person("third", "security_admin", "elsewhere")
		own := w.key("own", w.people["checker"].ID, "")
		c := w.start()
		guard, checker, dev := w.people["root-made-guard"].ID, w.people["checker"].ID, w.people["dev"].ID
		for _, d := range []struct {
			what string
			kind Kind
			id   string
			by   string
			code fault.Code
		}{
			{"the owner about himself", KindUser, checker, "checker", fault.CodeSecondPerson},
			{"the owner about an account that he made", KindUser, made.ID, "checker", fault.CodeSecondPerson},
			{"the owner about a key that he made", KindKey, own.ID, "checker", fault.CodeSecondPerson},
			{"a third person", KindUser, dev, "dev", fault.CodeNotReviewer},
			{"a third person about the owner", KindUser, checker, "dev", fault.CodeNotReviewer},
			{"who started it, about what is the owner's to decide", KindUser, dev, "root-made-guard", fault.CodeNotReviewer},
			{"who started it, about himself", KindUser, guard, "root-made-guard", fault.CodeNotReviewer},
			{"who started it, about an account that he made", KindUser, both.ID, "root-made-guard", fault.CodeSecondPerson},
			{"a third person without the right to manage accounts", KindUser, both.ID, "dev", fault.CodeNotReviewer},
			{"a third person who may manage accounts, about what is another's to decide", KindUser, made.ID, "third", fault.CodeNotReviewer},
			{"about what is not in it", KindUser, "nobody", "checker", fault.CodeNotFound},
		} {
			_, err := w.decide(c, d.kind, d.id, true, d.by)
			wantCode(t, d.what, err, d.code)
		}
		for _, id := range []string{checker, made.ID} {
			if _, err := w.decide(c, KindUser, id, true, "root-made-guard"); err != nil {
				t.Errorf("who started it, in the owner's place: %v", err)
			}
		}
		if _, err := w.decide(c, KindUser, both.ID, true, "third"); err != nil {
			t.Errorf("a third person about what neither may: %v", err)
		}
		_, err := w.Decide(t.Context(), "bank", c.ID, Verdict{Kind: KindUser, ID: dev}, w.people["checker"])
		wantCode(t, "ended without a reason", err, fault.CodeMissing)
		_, err = w.Decide(t.Context(), "operator", c.ID, Verdict{Kind: KindUser, ID: dev, Keep: true}, w.people["checker"])
		wantCode(t, "by another tenant's name", err, fault.CodeNotFound)
	})
}

func TestWhatIsStarted(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	by := w.people["root-made-guard"]
	for _, c := range []struct {
		what string
		in   NewCampaign
		code fault.Code
	}{
		{"no name", NewCampaign{Tenant: "bank", Owner: "checker", Due: w.now().Add(time.Hour)}, fault.CodeMissing},
		{"in the past", NewCampaign{Tenant: "bank", Name: "a", Owner: "checker", Due: w.now().Add(-time.Second)}, fault.CodeInvalidValue},
		{"at once", NewCampaign{Tenant: "bank", Name: "a", Owner: "checker", Due: w.now().Add(time.Second)}, fault.CodeInvalidValue},
		{"the operator's, by a stranger", NewCampaign{Tenant: "bank", Name: "a", Owner: "root", Due: w.now().Add(time.Hour)}, fault.CodeNotFound},
		{"too far", NewCampaign{Tenant: "bank", Name: "a", Owner: "checker", Due: w.now().Add(367 * 24 * time.Hour)}, fault.CodeInvalidValue},
		{"nobody's", NewCampaign{Tenant: "bank", Name: "a", Owner: "ghost", Due: w.now().Add(time.Hour)}, fault.CodeNotFound},
		{"owner who may not read", NewCampaign{Tenant: "bank", Name: "a", Owner: "dev", Due: w.now().Add(time.Hour)}, fault.CodeConflict},
		{"one's own", NewCampaign{Tenant: "bank", Name: "a", Owner: "root-made-guard", Due: w.now().Add(time.Hour)}, fault.CodeConflict},
	} {
		_, err := w.Start(t.Context(), c.in, by)
		wantCode(t, c.what, err, c.code)
	}
	c := w.start()
	_, err := w.Start(t.Context(), NewCampaign{Tenant: "bank", Name: "b", Owner: "checker", Due: w.now().Add(time.Hour)}, by)
	wantCode(t, "a second one", err, fault.CodeConflict)
	if all, err := w.Campaigns(t.Context(), "bank"); err != nil || len(all) != 1 || all[0].ID != c.ID || all[0].Waiting != 3 {
		t.Errorf("%+v %v", all, err)
	}
	if all, err := w.Campaigns(t.Context(), "operator"); err != nil || len(all) != 0 {
		t.Errorf("another tenant has %+v %v", all, err)
	}
}

// TestChangedSince: what holds something else than was shown is not confirmed until it was shown again.
func TestChangedSince(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	c, dev := w.start(), w.people["dev"].ID
	roles := []string{"security_admin"}
	_, _, err := w.cfg.Identity.ChangeUser(t.Context(), identity.Administrator{ID: "elsewhere"}, "bank", dev, identity.UserChange{Roles: &roles})
	must(t, err)
	_, err = w.decide(c, KindUser, dev, true, "checker")
	wantCode(t, "confirmed unseen", err, fault.CodeConflict)
	i := w.item(c, dev)
	if i.Decision != "" || !slices.Contains(i.Holds, "role security_admin") {
		t.Errorf("%+v", i)
	}
	_, err = w.Decide(t.Context(), "bank", c.ID, Verdict{Kind: KindUser, ID: dev, Keep: true, Holds: []string{"role developer"}}, w.people["checker"])
	wantCode(t, "confirmed by what was shown before", err, fault.CodeConflict)
	if _, err := w.decide(c, KindUser, dev, true, "checker"); err != nil {
		t.Errorf("confirmed after a look: %v", err)
	}
}

// TestLapses: what nobody decided about when it is due ends, recorded first; what cannot be recorded does not end, and what protects the last
// administrator is said.
func TestLapses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		app := w.key("app", "elsewhere", "")
		c := w.start()
		must(t, w.Sweep(t.Context()))
		if !w.active(KindKey, app.ID) {
			t.Fatal("ended before it was due")
		}
		w.elapsed = 2 * time.Hour
		_, err := w.decide(c, KindKey, app.ID, true, "checker")
		wantCode(t, "decided after the due date", err, fault.CodeConflict)
		w.refuse = errors.New("the log is away")
		if err := w.Sweep(t.Context()); !errors.Is(err, w.refuse) {
			t.Errorf("%v", err)
		}
		if !w.active(KindKey, app.ID) || !w.active(KindUser, w.people["dev"].ID) {
			t.Fatal("ended without a record")
		}
		w.refuse = nil
		must(t, w.Sweep(t.Context()))
		must(t, w.Sweep(t.Context()))
		slices.Sort(w.lapses)
		if !slices.Equal(w.lapses, []string{"app", "checker", "dev", "root-made-guard"}) {
			t.Errorf("recorded: %v", w.lapses)
		}
		if w.active(KindKey, app.ID) || w.active(KindUser, w.people["dev"].ID) {
			t.Error("still active")
		}
		if c, _, err := w.Campaign(t.Context(), "bank", c.ID); err != nil || c.Ended.IsZero() || c.Waiting != 0 {
			t.Errorf("%+v %v", c, err)
		}
	})
}

// TestLastAdministratorStays: the only platform administrator cannot lapse; the entry says so, and the campaign ends.
func TestLastAdministratorStays(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	users, err := w.cfg.Identity.ListUsers(t.Context(), "operator")
	must(t, err)
	boss := identity.Principal{Tenant: "operator", Kind: "user", ID: users[0].ID, Name: "root", Roles: users[0].Roles, Operator: true}
	_, err = w.cfg.Identity.CreateUser(t.Context(), identity.NewUser{Tenant: "operator", Name: "second", Password: password, Roles: []string{"auditor"}, CreatedBy: "elsewhere"})
	must(t, err)
	c, err := w.Start(t.Context(), NewCampaign{Tenant: "operator", Name: "own", Owner: "second", Due: w.now().Add(time.Hour)}, boss)
	must(t, err)
	w.elapsed = 2 * time.Hour
	must(t, w.Sweep(t.Context()))
	got, items, err := w.Campaign(t.Context(), "operator", c.ID)
	must(t, err)
	at := slices.IndexFunc(items, func(i Item) bool { return i.ID == boss.ID })
	if items[at].Failure != fault.CodeConflict || got.Ended.IsZero() || !slices.Contains(w.lapses, "root conflict") {
		t.Errorf("%+v of %+v", items[at], got)
	}
	if u, err := w.cfg.Identity.User(t.Context(), "operator", boss.ID); err != nil || u.Disabled {
		t.Errorf("%+v %v", u, err)
	}
}

// TestSeparatedDutiesStay: with separated duties those who can bring others back do not lapse, and the installation goes on.
func TestSeparatedDutiesStay(t *testing.T) {
	w := newWorld(t, dbtest.SQLite(t))
	admins, err := w.cfg.Identity.SplitDuties(t.Context(), "test", identity.SeparateAdmins{System: "sys", Security: "sec", Audit: "aud", Compliance: "com"})
	must(t, err)
	starter := identity.Principal{Tenant: "operator", Kind: "user", ID: admins[1].User.ID, Name: "sec", Roles: admins[1].User.Roles, Operator: true}
	_, err = w.Start(t.Context(), NewCampaign{Tenant: "operator", Name: "own", Owner: "aud", Due: w.now().Add(time.Hour)}, starter)
	must(t, err)
	w.elapsed = 2 * time.Hour
	must(t, w.Sweep(t.Context()))
	users, err := w.cfg.Identity.ListUsers(t.Context(), "operator")
	must(t, err)
	security, approvers := 0, 0
	for _, u := range users {
		if !u.Disabled && slices.Contains(u.Roles, "security_admin") {
			security++
		}
		if !u.Disabled && !slices.Contains(u.Roles, "auditor") {
			approvers++
		}
	}
	if security != 1 || approvers != 2 {
		t.Errorf("%d security administrators and %d who approve are left: %+v", security, approvers, users)
	}
}

// TestCancel: what waits when a review is cancelled stays, what was decided stands.
func TestCancel(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		app := w.key("app", "elsewhere", "")
		c := w.start()
		_, err := w.decide(c, KindKey, app.ID, false, "checker")
		must(t, err)
		_, err = w.Cancel(t.Context(), "bank", c.ID, " ", w.people["root-made-guard"])
		wantCode(t, "without a reason", err, fault.CodeMissing)
		if c, err = w.Cancel(t.Context(), "bank", c.ID, "the owner left", w.people["root-made-guard"]); err != nil || c.CancelledBy == "" || c.Waiting != 0 {
			t.Fatalf("%+v %v", c, err)
		}
		_, err = w.Cancel(t.Context(), "bank", c.ID, "again", w.people["root-made-guard"])
		wantCode(t, "twice", err, fault.CodeConflict)
		w.elapsed = 2 * time.Hour
		must(t, w.Sweep(t.Context()))
		if !w.active(KindUser, w.people["dev"].ID) || w.active(KindKey, app.ID) || len(w.lapses) != 0 {
			t.Errorf("after it: %v", w.lapses)
		}
		if i := w.item(c, w.people["dev"].ID); i.Decision != Cancelled {
			t.Errorf("%+v", i)
		}
		if got, _, err := w.Campaign(t.Context(), "bank", c.ID); err != nil || got.Ended.IsZero() {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// TestWhatBrokeOffIsRecorded: what a request decided and did not end is ended with a record.
func TestWhatBrokeOffIsRecorded(t *testing.T) {
	db := dbtest.SQLite(t)
	w := newWorld(t, db)
	c := w.start()
	i := w.item(c, w.people["dev"].ID)
	i.Decision, i.By, i.Reason, i.Decided = Ended, w.people["checker"].ID, "left", w.now()
	must(t, w.Service.decide(t.Context(), c, i))
	must(t, w.Sweep(t.Context()))
	if w.active(KindUser, i.ID) || !slices.Equal(w.lapses, []string{"dev"}) {
		t.Errorf("ended: %v, recorded %v", !w.active(KindUser, i.ID), w.lapses)
	}
}

// TestEveryFailure breaks each statement of a decision and of a sweep, persisted or not: what is repeated afterwards ends what was to end, and a
// confirmed entry stays.
func TestEveryFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("breaks a hundred campaigns")
	}
	for _, outcome := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
		for n := 0; ; n++ {
			db := dbtest.SQLite(t)
			w := newWorld(t, db)
			app, kept := w.key("app", "elsewhere", ""), w.key("kept", "elsewhere", "")
			c := w.start()
			_, err := w.decide(c, KindKey, kept.ID, true, "checker")
			must(t, err)
			var faults dbtest.Faults
			w.db = faults.Over(db)
			seen, broken := 0, false
			faults.Set(func(string) dbtest.Outcome {
				seen++
				if seen == n+1 {
					broken = true
					return outcome
				}
				return dbtest.Healthy
			})
			_, derr := w.decide(c, KindKey, app.ID, false, "checker")
			w.elapsed = 2 * time.Hour
			serr := w.Sweep(t.Context())
			faults.Set(nil)
			w.elapsed += 2 * claimTime
			must(t, w.Sweep(t.Context()))
			must(t, w.Sweep(t.Context()))
			if w.active(KindKey, app.ID) || w.active(KindUser, w.people["dev"].ID) || !w.active(KindKey, kept.ID) {
				t.Errorf("statement %d broken (%v, %v): app ends %v, kept ends %v", n, derr, serr, !w.active(KindKey, app.ID), !w.active(KindKey, kept.ID))
			}
			if got, _, err := w.Campaign(t.Context(), "bank", c.ID); err != nil || got.Ended.IsZero() {
				t.Errorf("statement %d broken: %+v %v", n, got, err)
			}
			if !broken {
				if n < 10 {
					t.Errorf("only %d statements were broken", n)
				}
				break
			}
		}
	}
}

// TestTwoReplicas: two services that sweep at once end everything once.
func TestTwoReplicas(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		w := newWorld(t, db)
		c := w.start()
		w.elapsed = 2 * time.Hour
		other := New(w.cfg, db, slog.New(slog.DiscardHandler))
		other.now = w.now
		must(t, w.lapse(t.Context(), c))
		i := w.item(c, w.people["dev"].ID)
		if ok, err := other.claim(t.Context(), c, i); err != nil || !ok {
			t.Fatal(ok, err)
		}
		must(t, w.Sweep(t.Context()))
		if slices.Contains(w.lapses, "dev") || !w.active(KindUser, i.ID) {
			t.Error("ended what another replica was at")
		}
		w.elapsed += claimTime
		must(t, w.Sweep(t.Context()))
		if !slices.Contains(w.lapses, "dev") || w.active(KindUser, i.ID) {
			t.Error("what another replica left is not ended")
		}
	})
}
