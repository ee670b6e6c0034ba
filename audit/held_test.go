package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit/durable"
	"github.com/sluice-project/sluice/audit/durable/durabletest"
	"github.com/sluice-project/sluice/audit/retention"
	"github.com/sluice-project/sluice/audit/search"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// spoke appends a record of a person, with a text: of an actor, who may act on behalf of somebody, at a time.
func spoke(t *testing.T, l *Log, request, actor, onBehalf string, at int64) string {
	t.Helper()
	subject := onBehalf
	if subject == "" {
		subject = Subject(testKeys(), "demo", actor)
	}
	e := Event{Request: request, Stage: StageAdmitted, Tenant: "demo", Actor: Actor{Kind: "key", ID: actor, OnBehalfOf: onBehalf}, Action: "chat.completions", Decision: "allow", Time: at}
	r, err := l.AppendWith(t.Context(), e, subject, Text{"request", "masked", "text of " + request})
	must(t, err)
	return r.ID
}

func held409(t *testing.T, err error, id string) {
	t.Helper()
	if !fault.Is(err, fault.CodeHeld) || !strings.Contains(err.Error(), id) || !strings.Contains(err.Error(), "case 17") && !strings.Contains(err.Error(), "of all tenants") {
		t.Errorf("%v, want the hold %s", err, id)
	}
}

// TestAHoldStopsAnErasure: a hold that covers any record of a person, or the person, refuses the erasure, whatever it selects by; one that covers
// others does not. A hold that a second person lets pass does not, either.
func TestAHoldStopsAnErasure(t *testing.T) {
	skipShort(t)
	t.Parallel()
	const hour = int64(time.Hour / time.Microsecond)
	app := Subject(testKeys(), "demo", "app")
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		now := time.Now().UnixMicro()
		mine := spoke(t, l, "r1", "app", alice, now-48*hour)
		spoke(t, l, "r2", "app", bob, now-40*hour)
		spoke(t, l, "r4", "k7", Subject(testKeys(), "demo", "u7"), now-40*hour) // a key of the account u7
		own := spoke(t, l, "r3", "app", "", now-30*hour)                        // the key itself, on nobody's behalf
		flush(t, l)
		reach := func(subject string) retention.Reach {
			return retention.Reach{Parts: []retention.Part{{Subject: subject}}}
		}
		for name, c := range map[string]struct {
			hold        retention.Hold
			alice, app  bool
			aliceRecord int64
		}{
			"tenant":                  {retention.Hold{Tenant: "demo"}, true, true, 1},
			"all tenants":             {retention.Hold{From: 1}, true, true, 1},
			"another tenant":          {retention.Hold{Tenant: "other"}, false, false, 0},
			"request":                 {retention.Hold{Tenant: "demo", Request: "r1"}, true, false, 1},
			"another's request":       {retention.Hold{Tenant: "demo", Request: "r2"}, false, false, 0},
			"request, all tenants":    {retention.Hold{Request: "r3"}, false, true, 0},
			"actor":                   {retention.Hold{Tenant: "demo", Actor: "app"}, true, true, 1},
			"account":                 {retention.Hold{Tenant: "demo", Actor: "u7"}, false, false, 0},
			"another actor":           {retention.Hold{Tenant: "demo", Actor: "k9"}, false, false, 0},
			"time with a record":      {retention.Hold{Tenant: "demo", From: now - 49*hour, To: now - 47*hour}, true, false, 1},
			"time without one":        {retention.Hold{Tenant: "demo", From: now - 47*hour, To: now - 31*hour}, false, false, 0},
			"time before":             {retention.Hold{Tenant: "demo", To: now - 50*hour}, false, false, 0},
			"from now on":             {retention.Hold{Tenant: "demo", From: now - hour}, true, true, 0},
			"from tomorrow on":        {retention.Hold{Tenant: "demo", From: now + 24*hour}, false, false, 0},
			"person":                  {retention.Hold{Tenant: "demo", Subject: alice}, true, false, 1},
			"person in a time":        {retention.Hold{Tenant: "demo", Subject: alice, To: now - 100*hour}, true, false, 0},
			"person, another request": {retention.Hold{Tenant: "demo", Subject: alice, Request: "r2"}, false, false, 0},
			"another person":          {retention.Hold{Tenant: "demo", Subject: bob}, false, false, 0},
			"key as a person":         {retention.Hold{Tenant: "demo", Subject: app}, false, true, 0},
		} {
			c.hold.Reason = "case 17 " + name
			h, err := l.Hold(t.Context(), c.hold)
			must(t, err)
			for subject, want := range map[string]bool{alice: c.alice, app: c.app} {
				got, err := l.Covering(t.Context(), "demo", officer, reach(subject))
				if err != nil || (len(got) == 1) != want || want && got[0].Hold.ID != h.ID {
					t.Errorf("%s: %+v, %v, want %t", name, got, err, want)
				}
				if subject == alice && len(got) == 1 && (got[0].Records != c.aliceRecord || c.aliceRecord == 1 && !slices.Equal(got[0].Examples, []string{mine})) {
					t.Errorf("%s: %+v", name, got)
				}
			}
			if got, err := l.Covering(t.Context(), "demo", officer, reach(Subject(testKeys(), "demo", "u7"))); err != nil || name == "account" && (len(got) != 1 || got[0].Records != 1) {
				t.Errorf("%s: of the account: %+v, %v", name, got, err)
			}
			if got, err := l.Covering(t.Context(), "demo", officer, retention.Reach{Unknown: true}); err != nil || (len(got) == 1) != (h.Tenant != "other") {
				t.Errorf("%s: of somebody unknown: %+v, %v", name, got, err)
			}
			if c.alice {
				_, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
				held409(t, err, h.ID)
				_, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Pass: []string{"another"}})
				held409(t, err, h.ID)
			}
			_, err = l.ReleaseHold(t.Context(), "", h.ID, Actor{Kind: "user", ID: "other"})
			must(t, err)
		}
		if list, err := l.Erasures(t.Context(), "demo"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		flush(t, l)
		for _, action := range []string{retention.ActionErase, retention.ActionErasureRefused} { // what is held is refused before anything says that it is done
			if page, err := l.Search(t.Context(), search.Query{Tenant: "demo", Action: action}); err != nil || len(page.Events) != 0 {
				t.Errorf("%+v, %v", page, err)
			}
		}
		for id, text := range map[string]string{mine: "text of r1", own: "text of r3"} {
			if got := texts(t, l, id); !slices.Equal(got, []string{text}) {
				t.Errorf("%q", got)
			}
		}
		if n, newest, err := l.CountRecords(t.Context(), "demo", app); err != nil || n != 1 || newest != now-30*hour {
			t.Errorf("%d, %d, %v", n, newest, err)
		}

		h, err := l.Hold(t.Context(), retention.Hold{Tenant: "demo", Request: "r1", Reason: "case 17"})
		must(t, err)
		done, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Pass: []string{h.ID}, Detail: map[string]string{"holds": h.ID}})
		if err != nil || done.Contents != 1 || !done.Done {
			t.Errorf("%+v, %v", done, err)
		}
		if e, err := l.Get(t.Context(), done.Record); err != nil || e.Detail["holds"] != h.ID {
			t.Errorf("%+v, %v", e, err)
		}
		mustVerify(t, l, db)
	})
}

// CountPeriod counts the records of one tenant in a period.
func TestCountPeriod(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		for i := range int64(5) {
			spoke(t, l, "r", "app", "", 1_767_225_600_000_000+i)
		}
		flush(t, l)
		const at = 1_767_225_600_000_000
		for _, c := range []struct {
			tenant         string
			from, to, want int64
		}{{"demo", 0, 0, 5}, {"demo", at + 1, 0, 4}, {"demo", 0, at + 1, 1}, {"demo", at + 1, at + 3, 2}, {"other", 0, 0, 0}} {
			if n, more, err := l.CountPeriod(t.Context(), c.tenant, c.from, c.to); n != c.want || more || err != nil {
				t.Errorf("%+v: %d, %t, %v", c, n, more, err)
			}
		}
	})
}

// windows of a conversation: a hold covers it if it covers what was said in its time by who took part.
func TestAHoldCoversATime(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Microsecond)
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	now := time.Now().UnixMicro()
	spoke(t, l, "r1", "app", alice, now-48*hour)
	spoke(t, l, "r2", "app", alice, now-24*hour)
	flush(t, l)
	for name, c := range map[string]struct {
		hold retention.Hold
		want bool
	}{
		"request in it":    {retention.Hold{Tenant: "demo", Request: "r1"}, true},
		"request outside":  {retention.Hold{Tenant: "demo", Request: "r2"}, false},
		"time in it":       {retention.Hold{Tenant: "demo", From: now - 48*hour, To: now - 47*hour}, true},
		"time outside":     {retention.Hold{Tenant: "demo", From: now - 24*hour}, false},
		"person":           {retention.Hold{Tenant: "demo", Subject: alice}, true},
		"time behind it":   {retention.Hold{Tenant: "demo", From: now - 24*hour, To: now - 23*hour}, false},
		"person, outside":  {retention.Hold{Tenant: "demo", Subject: alice, From: now - 24*hour}, false},
		"tenant":           {retention.Hold{Tenant: "demo"}, true},
		"another's person": {retention.Hold{Tenant: "demo", Subject: bob}, false},
	} {
		c.hold.Reason = "case 17"
		h, err := l.Hold(t.Context(), c.hold)
		must(t, err)
		got, err := l.Covering(t.Context(), "demo", officer, retention.Reach{Parts: []retention.Part{{Subject: alice, From: now - 49*hour, To: now - 47*hour}}})
		if err != nil || (len(got) == 1) != c.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		_, err = l.ReleaseHold(t.Context(), "", h.ID, Actor{Kind: "user", ID: "other"})
		must(t, err)
	}
}

// A conversation that lives is covered by a hold on a time in which nothing new was noted of it, and not by one on a time to come.
func TestAHoldCoversWhatLives(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour / time.Microsecond)
	l := openTest(t, testConfig(t.TempDir()), dbtest.SQLite(t), nil, durable.OS{})
	now := time.Now().UnixMicro()
	for want, h := range map[bool]retention.Hold{
		true:  {Tenant: "demo", From: now - 5*hour, To: now - 4*hour, Reason: "r"},
		false: {Tenant: "demo", From: now + 24*hour, Reason: "r"},
	} {
		h, err := l.Hold(t.Context(), h)
		must(t, err)
		got, err := l.Covering(t.Context(), "demo", officer, retention.Reach{Parts: []retention.Part{{Subject: bob, From: now - 49*hour, To: now + 48*hour}}})
		if err != nil || (len(got) == 1) != want {
			t.Errorf("%+v: %+v, %v", h, got, err)
		}
		_, err = l.ReleaseHold(t.Context(), "", h.ID, Actor{Kind: "user", ID: "other"})
		must(t, err)
	}
}

// Whoever releases a hold is bound by it for a day; somebody else is not. Why the operator holds what is of all tenants is not said.
func TestAReleasedHoldBindsWhoReleasedIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		now := time.Now()
		l.now = func() time.Time { return now }
		spoke(t, l, "r1", "app", alice, now.UnixMicro())
		flush(t, l)
		mine, err := l.Hold(t.Context(), retention.Hold{Tenant: "demo", Request: "r1", Reason: "case 17"})
		must(t, err)
		all, err := l.Hold(t.Context(), retention.Hold{Request: "r1", Reason: "a secret"})
		must(t, err)
		for _, h := range []retention.Hold{mine, all} {
			_, err = l.ReleaseHold(t.Context(), "", h.ID, officer)
			must(t, err)
		}
		_, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		held409(t, err, mine.ID)
		if s := fmt.Sprint(err); !strings.Contains(s, all.ID) || strings.Contains(s, "secret") || !strings.Contains(s, "released by yourself") {
			t.Error(s)
		}
		for name, c := range map[string]struct {
			by    Actor
			after time.Duration
			held  int
		}{
			"at once":               {officer, 0, 2},
			"nearly a day later":    {officer, 24*time.Hour - time.Second, 2},
			"a day later":           {officer, 24 * time.Hour, 0},
			"another":               {Actor{Kind: "user", ID: "u2", Name: officer.Name}, 0, 0},
			"a command of the name": {Actor{Kind: "system", ID: "command", Name: officer.ID}, 0, 0},
			"nobody":                {Actor{Kind: "user"}, 0, 0},
		} {
			l.now = func() time.Time { return now.Add(c.after) }
			got, err := l.Covering(t.Context(), "demo", c.by, retention.Reach{Parts: []retention.Part{{Subject: alice}}})
			if err != nil || len(got) != c.held {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
		}
		l.now = func() time.Time { return now }
		if spans, err := l.SpanTenants(t.Context(), []string{mine.ID}); err != nil || spans {
			t.Errorf("%t, %v", spans, err)
		}
		if spans, err := l.SpanTenants(t.Context(), []string{mine.ID, all.ID}); err != nil || !spans {
			t.Errorf("%t, %v", spans, err)
		}
		if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Pass: []string{mine.ID, all.ID}}); err != nil {
			t.Error(err)
		}
	})
}

// A hold that was released by no account binds everybody for a day: it may have been any of them.
func TestAHoldReleasedByACommandBindsEverybody(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		now := time.Now()
		l.now = func() time.Time { return now }
		spoke(t, l, "r1", "app", alice, now.UnixMicro())
		flush(t, l)
		h, err := l.Hold(t.Context(), retention.Hold{Tenant: "demo", Request: "r1", Reason: "case 17"})
		must(t, err)
		command := Actor{Kind: "system", ID: "command", Name: "root"}
		if h, err = l.ReleaseHold(t.Context(), "", h.ID, command); err != nil || h.Releaser != "" || h.ReleasedBy != "root" {
			t.Errorf("%+v, %v", h, err)
		}
		_, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		held409(t, err, h.ID)
		if s := fmt.Sprint(err); !strings.Contains(s, "not signed in") {
			t.Error(s)
		}
		for after, held := range map[time.Duration]int{0: 1, 24*time.Hour - time.Second: 1, 24 * time.Hour: 0} {
			l.now = func() time.Time { return now.Add(after) }
			for _, by := range []Actor{officer, command, {Kind: "user"}} {
				if got, err := l.Covering(t.Context(), "demo", by, retention.Reach{Parts: []retention.Part{{Subject: alice}}}); err != nil || len(got) != held {
					t.Errorf("%s, %+v: %+v, %v", after, by, got, err)
				}
			}
		}
	})
}

// TestAHoldThatComesBetween is placed after the erasure was recorded and before anything is destroyed: nothing is, and another record says so.
func TestAHoldThatComesBetween(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		faulty := &dbtest.Faults{}
		l := openTest(t, testConfig(t.TempDir()), faulty.Over(db), nil, durable.OS{})
		other := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		id := spoke(t, l, "r1", "app", alice, 0)
		flush(t, l)
		var hold retention.Hold
		faulty.Set(func(op string) durabletest.Mode {
			if hold.ID == "" && strings.Contains(op, "audit_subject_keys") && strings.Contains(op, "COUNT") { // behind the first look at the holds
				var err error
				if hold, err = other.Hold(t.Context(), retention.Hold{Tenant: "demo", Request: "r1", Reason: "case 17"}); err != nil {
					t.Error(err)
				}
			}
			return durabletest.Healthy
		})
		_, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
		faulty.Set(nil)
		if hold.ID == "" {
			t.Fatal("no hold came between")
		}
		held409(t, err, hold.ID)
		if got := texts(t, l, id); !slices.Equal(got, []string{"text of r1"}) {
			t.Errorf("%q", got)
		}
		flush(t, l)
		page, err := l.Search(t.Context(), search.Query{Tenant: "demo", Action: retention.ActionErasureRefused})
		if err != nil || len(page.Events) != 1 || page.Events[0].Detail["erasure"] == "" || page.Events[0].ErrorCode != "legal_hold" {
			t.Errorf("%+v, %v", page, err)
		}
		if list, err := l.Erasures(t.Context(), "demo"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
		mustVerify(t, l, db)
	})
}

// beside destroys what a test counts.
type beside struct {
	reach     retention.Reach
	destroyed int
	err       error
}

func (b *beside) Take(*gorm.DB) (retention.Reach, error) { return b.reach, nil }

func (b *beside) Destroy(*gorm.DB) (map[string]string, error) {
	b.destroyed++
	return map[string]string{"values": "7"}, b.err
}

// What goes with the texts is held as they are, goes in their transaction, and can still refuse.
func TestWhatGoesBeside(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
	id := spoke(t, l, "r1", "app", alice, 0)
	spoke(t, l, "r2", "app", bob, 0)
	flush(t, l)
	h, err := l.Hold(t.Context(), retention.Hold{Tenant: "demo", Request: "r2", Reason: "case 17"})
	must(t, err)
	now := time.Now().UnixMicro()
	shared := &beside{reach: retention.Reach{Parts: []retention.Part{{Subject: bob, From: now - 1, To: now}}}}
	_, err = l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Beside: shared})
	held409(t, err, h.ID)
	refusing := &beside{err: fault.New(fault.CodeConflict, "no")}
	if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Beside: refusing}); !fault.Is(err, fault.CodeConflict) || refusing.destroyed != 1 {
		t.Errorf("%v", err)
	}
	if got := texts(t, l, id); shared.destroyed != 0 || !slices.Equal(got, []string{"text of r1"}) {
		t.Errorf("%d, %q", shared.destroyed, got)
	}
	both := &beside{}
	if _, err := l.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer, Beside: both}); err != nil || both.destroyed != 1 {
		t.Errorf("%v", err)
	}
	unheld := func(pass ...string) error {
		return l.WithoutHold(t.Context(), "demo", officer, pass, func(tx *gorm.DB) (retention.Reach, error) { return retention.Reach{Unknown: true}, nil }, func(*gorm.DB) error { return errors.New("done") })
	}
	held409(t, unheld(), h.ID)
	if err := unheld(h.ID); !fault.Is(err, fault.CodeDatabaseUnavailable) || !strings.Contains(err.Error(), "done") {
		t.Errorf("%v", err)
	}
}

// A hold on a person keeps that person's records from being pruned, those on nobody's behalf too; it cannot name somebody in clear.
func TestAHoldOnAPerson(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		l := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		for name, h := range map[string]retention.Hold{"no tenant": {Subject: alice}, "in clear": {Tenant: "demo", Subject: "alice"}, "upper case": {Tenant: "demo", Subject: strings.ToUpper(alice)}} {
			h.Reason = "r"
			if _, err := l.Hold(t.Context(), h); !fault.Is(err, fault.CodeInvalidValue) {
				t.Errorf("%s: %v", name, err)
			}
		}
		made, err := l.Hold(t.Context(), retention.Hold{Tenant: "demo", Subject: Subject(testKeys(), "demo", "app"), Reason: "r"})
		must(t, err)
		if list, err := l.Holds(t.Context(), "demo"); err != nil || len(list) != 1 || list[0].Subject != made.Subject {
			t.Errorf("%+v, %v", list, err)
		}
		if db.Exec("UPDATE audit_holds SET subject = '', released = 1").Error == nil {
			t.Error("the person of a hold can be changed")
		}
		for e, want := range map[*Event]bool{
			{Tenant: "demo", Actor: Actor{ID: "app"}}:                    true,
			{Tenant: "demo", Actor: Actor{ID: "app", OnBehalfOf: alice}}: false,
			{Tenant: "demo", Actor: Actor{ID: "k9"}}:                     false,
			{Tenant: "other", Actor: Actor{ID: "app"}}:                   false,
		} {
			if _, reason, stays := l.cfg.Retention.Keeps(*e, []retention.Hold{made}, l.Keeper.Subject, time.Now().AddDate(10, 0, 0)); stays != want || want && reason != "hold "+made.ID {
				t.Errorf("%+v stays: %t, %s", e.Actor, stays, reason)
			}
		}
	})
}

// Whoever keeps more than this log is told of every erasure, on each replica.
func TestOthersAreToldOfErasures(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		here, there := openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{}), openTest(t, testConfig(t.TempDir()), db, nil, durable.OS{})
		told := map[string][]string{}
		here.WhenErased(func(tenant string) { told["here"] = append(told["here"], tenant) })
		there.WhenErased(func(tenant string) { told["there"] = append(told["there"], tenant) })
		spoke(t, here, "r1", "app", alice, 0)
		flush(t, here)
		flush(t, there)
		if len(told) != 0 {
			t.Errorf("%v before anything was erased", told)
		}
		for range 2 {
			_, err := here.Erase(t.Context(), retention.Order{Tenant: "demo", Subject: alice, By: officer})
			must(t, err)
			flush(t, there)
		}
		if !slices.Equal(told["here"], []string{"demo", "demo"}) || !slices.Equal(told["there"], []string{"demo", "demo"}) {
			t.Errorf("%v", told)
		}
	})
}
