package reveal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/governance/approval"
	"github.com/sluice-project/sluice/governance/classify"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/governance/pseudonym"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/keyring"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// kit is a service over real parts, in which everybody sees mobiles in clear, addresses in part and the rest as pseudonyms.
type kit struct {
	*Service

	t      *testing.T
	faults *dbtest.Faults
	values *pseudonym.Store
	time   time.Time
	second int
}

func newKit(t *testing.T, db *gorm.DB, cfg Config) *kit {
	t.Helper()
	k := &kit{t: t, faults: &dbtest.Faults{}, time: time.Now().Truncate(time.Microsecond), second: 3}
	keys := keyring.FromBytes([]byte(strings.Repeat("k", 32)))
	log := slog.New(slog.DiscardHandler)
	var err error
	if k.values, err = pseudonym.New(pseudonym.Config{}, pseudonym.NewTables(db), keys, log, nil); err != nil {
		t.Fatal(err)
	}
	rules := func(_ string, roles []string, purpose string) (Rules, error) {
		show := map[classify.Class]Visibility{classify.Mobile: VisibleClear, classify.Email: VisiblePartial}
		if roles[0] != "compliance" || purpose == "curiosity" {
			show = nil
		}
		return Rules{
			Detectors: classify.New(classify.Classes()...), SecondPersonFrom: k.second, Grade: func(classify.Class) int { return 4 },
			Visibility: func(c classify.Class) Visibility { return show[c] },
		}, nil
	}
	if k.Service, err = New(cfg, k.values, NewTables(k.faults.Over(db)), approval.New(approval.NewTables(k.faults.Over(db)), cfg.WithDefaults().Fresh, func() time.Time { return k.now() }), rules, keys, log, nil); err != nil {
		t.Fatal(err)
	}
	k.now = func() time.Time { return k.time }
	t.Cleanup(func() { _ = k.values.Close() })
	return k
}

// keep stores n mobiles of a session, with the codes M0001 …, and a mail address.
func (k *kit) keep(session string, n int) {
	k.t.Helper()
	turn := pseudonym.Turn{Tenant: "acme", Scope: "session/" + session, Name: session, Keep: 100 * time.Hour}
	for i := range n {
		turn.Values = append(turn.Values, pseudonym.Value{Code: code(i), Class: "cn_mobile", Text: keyring.Secret(fmt.Sprintf("1380013%04d", i))})
	}
	turn.Values = append(turn.Values, pseudonym.Value{Code: "MAAAA", Class: "email", Text: "zhang@example.com"}, pseudonym.Value{Code: "PPPPP", Class: "person", Text: "张三"})
	if err := k.values.Store(k.t.Context(), turn); err != nil {
		k.t.Fatal(err)
	}
}

func code(i int) string {
	digits := "23456789ABCDEFGH"
	return "M" + string([]byte{digits[i>>12&15], digits[i>>8&15], digits[i>>4&15], digits[i&15]})
}

func (k *kit) ask(session string, n int) Request {
	a := Request{
		Principal: identity.Principal{ID: "u1", Name: "zhao", Tenant: "acme", Roles: []string{"compliance"}, SignedIn: k.time},
		Target:    pseudonym.Target{Tenant: "acme", Name: session}, Purpose: "complaint",
	}
	for i := range n {
		a.Tokens = append(a.Tokens, code(i))
	}
	return a
}

func (k *kit) want(a Request, c fault.Code) *fault.Error {
	k.t.Helper()
	got, err := k.Reveal(k.t.Context(), a)
	if !fault.Is(err, c) || len(got.Values) > 0 || got.Text != "" {
		k.t.Fatalf("%v, want %s", err, c)
	}
	return fault.Public(err)
}

func (k *kit) shown(a Request) Result {
	k.t.Helper()
	got, err := k.Reveal(k.t.Context(), a)
	if err != nil {
		k.t.Fatal(err)
	}
	return got
}

func TestWhatIsShown(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t), Config{})
	k.keep("s", 1)
	a := k.ask("s", 0)
	a.Text = "打⟦手机·M2222⟧或发【邮箱·maaaa】给⟦姓名·PPPPP⟧，不是⟦手机·ZZZZZ⟧；手机 M2222，手机 M3333。"
	a.Tokens = []string{"PPPPP", "nonsense", "⟦手机·M2222⟧"}
	got := k.shown(a)
	if want := "打13800130000或发z***@example.com给⟦姓名·PPPPP⟧，不是⟦手机·ZZZZZ⟧；13800130000，手机 M3333。"; got.Text.Reveal() != want {
		t.Errorf("%s\nwant %s", got.Text.Reveal(), want)
	}
	var all []string
	for _, v := range got.Values {
		all = append(all, fmt.Sprintf("%s %s %d %s %s", v.Token, v.Class, v.Grade, v.Visibility, v.Text.Reveal()))
	}
	want := []string{
		"⟦手机·M2222⟧ cn_mobile 4 clear 13800130000", "【邮箱·maaaa】 email 4 partial z***@example.com", "⟦姓名·PPPPP⟧ person 4 token ",
		"⟦手机·ZZZZZ⟧  0 unknown ", "nonsense  0 unknown ",
	}
	if fmt.Sprint(all) != fmt.Sprint(want) {
		t.Errorf("%q\nwant %q", all, want)
	}
	if c := got.Counts(); c["cn_mobile/clear"] != 1 || c["email/partial"] != 1 || c["person/token"] != 1 || c["-/unknown"] != 2 || len(c) != 4 {
		t.Errorf("%v", c)
	}
	if s := fmt.Sprintf("%v %+v", got, got.Values); strings.Contains(s, "138001") || strings.Contains(s, "example") {
		t.Error(s)
	}
	for name, change := range map[string]func(*Request){
		"role":    func(a *Request) { a.Principal.Roles = []string{"developer"} },
		"purpose": func(a *Request) { a.Purpose = "curiosity" },
		"session": func(a *Request) { a.Target.Name = "t" },
		"tenant":  func(a *Request) { a.Target.Tenant = "other" },
	} {
		b := a
		change(&b)
		if got := k.shown(b); got.Text.Reveal() != a.Text {
			t.Errorf("%s: %s", name, got.Text.Reveal())
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t), Config{PerHour: 2})
	k.keep("s", 4)
	a := k.ask("s", 1)
	a.Purpose = " \n"
	k.want(a, fault.CodeMissing)
	a.Purpose = strings.Repeat("x", maxPurpose+1)
	k.want(a, fault.CodeInvalidValue)
	k.want(k.ask("s", maxTokens+1), fault.CodeInvalidValue)
	k.want(k.ask("s", 3), fault.CodeInvalidValue) // more than an hour holds
	a = k.ask("s", 2)
	a.Tokens = append(a.Tokens, "MAAAA")
	k.want(a, fault.CodeInvalidValue)
	if _, err := k.RequestApproval(t.Context(), a); !fault.Is(err, fault.CodeInvalidValue) {
		t.Errorf("%v", err)
	}
	for name, c := range map[string]Config{"fresh": {Fresh: time.Millisecond}, "per_hour": {PerHour: -1}, "sweep_sessions": {SweepSessions: -1}} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A sign-in that is too old, and one of unknown age, shows nothing in clear; parts of values do not need it.
func TestFreshSignIn(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t), Config{})
	k.keep("s", 1)
	a := k.ask("s", 1)
	k.time = k.time.Add(5 * time.Minute)
	k.shown(a)
	k.time = k.time.Add(time.Microsecond)
	k.want(a, fault.CodeReauthenticate)
	a.Principal.SignedIn = time.Time{}
	k.want(a, fault.CodeReauthenticate)
	a.Tokens = []string{"MAAAA"}
	if got := k.shown(a); got.Values[0].Visibility != VisiblePartial {
		t.Errorf("%+v", got)
	}
}

// One person sees so many values in an hour, on all replicas, however many ask at once; then waits until the first of them are an hour old.
func TestPerHour(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		cfg := Config{PerHour: 5}
		k, other := newKit(t, db, cfg), newKit(t, db, cfg)
		other.time = k.time
		k.second, other.second = 100, 100
		k.keep("s", 5)
		var all sync.WaitGroup
		errs := make([]error, 12)
		for i := range errs {
			all.Go(func() {
				_, errs[i] = []*kit{k, other}[i%2].Reveal(t.Context(), k.ask("s", 1))
			})
		}
		all.Wait()
		passed := 0
		for _, err := range errs {
			if err == nil {
				passed++
			} else if !fault.Is(err, fault.CodeRevealLimited) {
				t.Error(err)
			}
		}
		if passed != 5 {
			t.Errorf("%d passed", passed)
		}
		if wait := k.want(k.ask("s", 2), fault.CodeRevealLimited).RetryAfter(); wait < 59*time.Minute || wait > time.Hour {
			t.Errorf("wait %s", wait)
		}
		someone := k.ask("s", 2)
		someone.Principal.ID = "u2"
		k.shown(someone)
		k.time = k.time.Add(hour)
		k.shown(k.ask("s", 2))
	})
}

// Parts of values count as whole ones do; neither a fresh sign-in nor a second person is asked for.
func TestPartsPerHour(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db, Config{PerHour: 5})
		k.second = 4
		k.keep("s", 2)
		part := k.ask("s", 0)
		part.Tokens, part.Principal.SignedIn = []string{"MAAAA", "PPPPP"}, time.Time{}
		for range 3 {
			k.shown(part)
		}
		k.time = k.time.Add(time.Minute)
		k.shown(k.ask("s", 2))
		if wait := k.want(part, fault.CodeRevealLimited).RetryAfter(); wait != 59*time.Minute {
			t.Errorf("wait %s", wait)
		}
		k.want(k.ask("s", 1), fault.CodeRevealLimited)
		none := k.ask("s", 0)
		none.Tokens = []string{"PPPPP"}
		k.shown(none) // what is not shown does not count
		k.time = k.time.Add(59 * time.Minute)
		k.shown(part)
	})
}

// Many small requests need an approval as one large one does: together, in whatever conversations, on whatever replica, at the same time or
// after each other. What was approved is not among them, and an hour later none is.
func TestSplitRequestsNeedApproval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k, other := newKit(t, db, Config{}), newKit(t, db, Config{})
		k.second, other.second, other.time = 5, 5, k.time
		k.keep("s", 6)
		k.keep("t", 6)
		approved := func(session string, n int) {
			t.Helper()
			asked, err := k.RequestApproval(t.Context(), k.ask(session, n))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.approvals.Approve(t.Context(), approval.KindReveal, "acme", asked.ID, identity.Principal{ID: "u2", SignedIn: k.time}); err != nil {
				t.Fatal(err)
			}
			a := k.ask(session, n)
			a.Approval = asked.ID
			k.shown(a)
		}
		approved("s", 6)
		k.time = k.time.Add(time.Minute)
		other.time = k.time
		var all sync.WaitGroup
		errs := make([]error, 12)
		for i := range errs {
			all.Go(func() {
				_, errs[i] = []*kit{k, other}[i%2].Reveal(t.Context(), k.ask([]string{"s", "t"}[i/2%2], 1))
			})
		}
		all.Wait()
		passed := 0
		for _, err := range errs {
			if err == nil {
				passed++
			} else if !fault.Is(err, fault.CodeApprovalNeeded) {
				t.Error(err)
			}
		}
		if passed != 4 {
			t.Errorf("%d values were shown without an approval", passed)
		}
		if err := k.want(k.ask("s", 1), fault.CodeApprovalNeeded); !strings.Contains(err.Error(), "5 values") {
			t.Error(err)
		}
		a := k.ask("s", 0)
		a.Tokens = []string{"MAAAA"}
		k.shown(a) // nothing in clear
		k.second = 4
		if _, err := k.RequestApproval(t.Context(), a); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("an approval of nothing: %v", err)
		}
		k.second = 5
		someone := k.ask("s", 4)
		someone.Principal.ID = "u3"
		k.shown(someone)
		approved("t", 1)
		k.want(k.ask("t", 1), fault.CodeApprovalNeeded)
		k.time = k.time.Add(hour)
		if _, err := k.RequestApproval(t.Context(), k.ask("s", 4)); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("needed an hour later: %v", err)
		}
		k.shown(k.ask("s", 4))
	})
}

// Looking into more conversations than is usual raises the alarm, once for each further one.
func TestSweepAlarm(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t), Config{SweepSessions: 3})
	k.keep("s0", 1)
	var alarms []bool
	for _, s := range []string{"s0", "s1", "s0", "s2", "s3", "s3", "s4"} {
		got := k.shown(k.ask(s, 1))
		alarms = append(alarms, got.Alarm)
	}
	if s := fmt.Sprint(alarms); s != "[false false false false true false true]" {
		t.Error(s)
	}
	k.time = k.time.Add(hour)
	if got := k.shown(k.ask("s5", 1)); got.Alarm || got.Sessions != 1 {
		t.Errorf("%+v", got)
	}
}

// Many values need somebody else, whose approval is for exactly them, once, for an hour.
func TestApproval(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db, Config{})
		k.keep("s", 5)
		k.want(k.ask("s", 3), fault.CodeApprovalNeeded)
		if _, err := k.RequestApproval(t.Context(), k.ask("s", 2)); !fault.Is(err, fault.CodeConflict) {
			t.Errorf("needed for two: %v", err)
		}
		k.shown(k.ask("s", 2))
		k.want(k.ask("s", 3), fault.CodeApprovalNeeded)
		boss := identity.Principal{ID: "u2", Name: "qian", SignedIn: k.time}
		request := func() approval.Approval {
			t.Helper()
			a, err := k.RequestApproval(t.Context(), k.ask("s", 3))
			if err != nil || a.Counts["cn_mobile/clear"] != 3 || a.AskedBy != "u1" || a.Purpose != "complaint" {
				t.Fatalf("%+v, %v", a, err)
			}
			return a
		}
		asked := request()
		with := func(n int, id string) Request {
			a := k.ask("s", n)
			a.Approval = id
			return a
		}
		says := func(err *fault.Error, what string) {
			t.Helper()
			if !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %s", err, what)
			}
		}
		says(k.want(with(3, asked.ID), fault.CodeConflict), "not been given")
		approve := func(id string, who identity.Principal, want fault.Code) {
			t.Helper()
			a, err := k.approvals.Approve(t.Context(), approval.KindReveal, "acme", id, who)
			if want == "" && (err != nil || a.ApprovedBy != who.ID || a.Approved.IsZero()) || want != "" && !fault.Is(err, want) {
				t.Errorf("%+v, %v, want %q", a, err, want)
			}
		}
		approve(asked.ID, k.ask("s", 0).Principal, fault.CodeSecondPerson)
		approve("none", boss, fault.CodeNotFound)
		if _, err := k.approvals.Approve(t.Context(), approval.KindReveal, "other", asked.ID, boss); !fault.Is(err, fault.CodeNotFound) {
			t.Errorf("from another tenant: %v", err)
		}
		stale := boss
		stale.SignedIn = k.time.Add(-time.Hour)
		approve(asked.ID, stale, fault.CodeReauthenticate)
		approve(asked.ID, boss, "")
		approve(asked.ID, boss, fault.CodeConflict)
		says(k.want(with(4, asked.ID), fault.CodeConflict), "something else")
		says(k.want(with(3, "none"), fault.CodeConflict), "something else")
		b := with(3, asked.ID)
		b.Purpose = "another"
		k.want(b, fault.CodeConflict)
		b = with(3, asked.ID)
		b.Principal.ID = "u3"
		k.want(b, fault.CodeConflict)
		b = with(0, asked.ID)
		b.Tokens = []string{"MAAAA"}
		if got := k.shown(b); got.Approval != "" { // nothing in clear
			t.Errorf("%+v", got)
		}
		if got := k.shown(with(3, asked.ID)); len(got.Values) != 3 || got.Values[2].Text == "" || got.Approval != asked.ID {
			t.Errorf("%+v", got)
		}
		says(k.want(with(3, asked.ID), fault.CodeConflict), "used before")

		late := request()
		approve(late.ID, boss, "")
		k.time = k.time.Add(time.Hour)
		says(k.want(with(3, late.ID), fault.CodeConflict), "expired")
		later := request()
		k.time = k.time.Add(time.Hour)
		boss.SignedIn = k.time
		approve(later.ID, boss, fault.CodeConflict)
		list, err := k.approvals.List(t.Context(), approval.KindReveal, "acme")
		if err != nil || len(list) != 3 || list[2].ID != asked.ID || list[2].Used.IsZero() || !list[0].Approved.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err := k.approvals.List(t.Context(), approval.KindReveal, "other"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// One approval, asked for by many at once, is spent once.
func TestApprovalIsSpentOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db, Config{})
		k.keep("s", 3)
		asked, err := k.RequestApproval(t.Context(), k.ask("s", 3))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.approvals.Approve(t.Context(), approval.KindReveal, "acme", asked.ID, identity.Principal{ID: "u2", SignedIn: k.time}); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() {
				a := k.ask("s", 3)
				a.Approval = asked.ID
				_, errs[i] = k.Reveal(t.Context(), a)
			})
		}
		all.Wait()
		passed := 0
		for _, err := range errs {
			if err == nil {
				passed++
			} else if !fault.Is(err, fault.CodeConflict) {
				t.Error(err)
			}
		}
		if passed != 1 {
			t.Errorf("%d passed", passed)
		}
	})
}

// Where the hour has no room, nobody is bothered for an approval: it would be over before there is some.
func TestNoApprovalWithoutRoom(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db, Config{PerHour: 4})
		k.keep("s", 3)
		k.shown(k.ask("s", 2))
		wait := k.want(k.ask("s", 3), fault.CodeRevealLimited).RetryAfter()
		_, err := k.RequestApproval(t.Context(), k.ask("s", 3))
		if !fault.Is(err, fault.CodeRevealLimited) || wait != hour || fault.Public(err).RetryAfter() != wait {
			t.Errorf("wait %s, %v", wait, err)
		}
		k.want(k.ask("s", 1), fault.CodeApprovalNeeded)
		if _, err := k.RequestApproval(t.Context(), k.ask("s", 1)); err != nil {
			t.Error(err)
		}
	})
}

func TestTooManyWaitingRequests(t *testing.T) {
	t.Parallel()
	k := newKit(t, dbtest.SQLite(t), Config{})
	k.keep("s", 3)
	for range 20 {
		if _, err := k.RequestApproval(t.Context(), k.ask("s", 3)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := k.RequestApproval(t.Context(), k.ask("s", 3)); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("%v", err)
	}
}

// TestEveryFailure fails each operation of counting, asking and approving in turn, in both flavours: nothing is shown, and what may have been
// counted is at most counted once for each attempt.
func TestEveryFailure(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		k := newKit(t, db, Config{PerHour: 1000})
		k.keep("s", 3)
		boss := identity.Principal{ID: "u2", SignedIn: k.time}
		run := func(name string, do func(n int) error) {
			for _, o := range []dbtest.Outcome{dbtest.FailsBefore, dbtest.FailsAfter} {
				for n := 1; ; n++ {
					failed, at := "", n
					k.faults.Set(func(op string) dbtest.Outcome {
						if at--; at == 0 {
							failed = op
							return o
						}
						return dbtest.Healthy
					})
					err := do(n)
					k.faults.Set(nil)
					if failed == "" {
						if err != nil || n < 4 {
							t.Errorf("%s: %v after %d operations", name, err, n)
						}
						break
					}
					if !fault.Is(err, fault.CodeDatabaseUnavailable) || !errors.Is(err, dbtest.ErrInjected) {
						t.Errorf("%s: %s (%d) outcome %d: %v", name, failed, n, o, err)
					}
				}
			}
		}
		approved := func() string {
			t.Helper()
			k.faults.Set(nil)
			a, err := k.RequestApproval(t.Context(), k.ask("s", 3))
			if err == nil {
				_, err = k.approvals.Approve(t.Context(), approval.KindReveal, "acme", a.ID, boss)
			}
			if err != nil {
				t.Fatal(err)
			}
			return a.ID
		}
		people := 0
		run("reveal", func(int) error {
			people++
			a := k.ask("s", 2)
			a.Principal.ID = fmt.Sprintf("p%d", people)
			got, err := k.Reveal(t.Context(), a)
			if err != nil && len(got.Values) > 0 {
				t.Errorf("shown beside %v", err)
			}
			return err
		})
		ids := make([]string, 40)
		for i := range ids {
			ids[i] = approved()
		}
		run("reveal with approval", func(int) error {
			a := k.ask("s", 3)
			a.Approval, ids = ids[0], ids[1:]
			_, err := k.Reveal(t.Context(), a)
			return err
		})
		run("ask", func(n int) error {
			a := k.ask("s", 3)
			a.Principal.ID = fmt.Sprintf("q%d", n)
			_, err := k.RequestApproval(t.Context(), a)
			return err
		})
		waiting := make([]string, 19)
		for i := range waiting {
			a, err := k.RequestApproval(t.Context(), k.ask("s", 3))
			if err != nil {
				t.Fatal(err)
			}
			waiting[i] = a.ID
		}
		run("approve", func(int) error {
			id := waiting[0]
			waiting = waiting[1:]
			_, err := k.approvals.Approve(t.Context(), approval.KindReveal, "acme", id, boss)
			return err
		})
	})
}
