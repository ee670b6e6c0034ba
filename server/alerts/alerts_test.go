package alerts

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-project/sluice/billing"
	"github.com/sluice-project/sluice/governance/identity"
	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/internal/notify"
	"github.com/sluice-project/sluice/workflows"
)

// told collects what a watcher raises, without the repetitions that a notifier leaves out.
type told []string

func (l *told) notify(_ context.Context, a notify.Alert) {
	s := a.Code + " " + a.About
	if a.Resolved {
		s += " resolved"
	}
	if len(*l) == 0 || !slices.Contains((*l)[len(*l)-1:], s) {
		*l = append(*l, s)
	}
}

// TestWatcher: a state is raised while it lasts and its end is told; one that cannot be read stays; one replica looks at what is shared.
func TestWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards what follows against the watcher
		var said told
		var found []notify.Alert
		var failure error
		leads, looks, raised := true, 0, 0
		w := &Watcher{
			Checks: []Check{{Name: "c", Shared: true, Every: 5 * time.Minute, Find: func(context.Context) ([]notify.Alert, error) {
				mu.Lock()
				defer mu.Unlock()
				looks++
				return found, failure
			}}},
			Leads: func(context.Context) (bool, error) {
				mu.Lock()
				defer mu.Unlock()
				return leads, nil
			},
			Notify: func(ctx context.Context, a notify.Alert) {
				mu.Lock()
				defer mu.Unlock()
				raised++
				said.notify(ctx, a)
			}, Log: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		mu.Lock()
		wait := func(d time.Duration) {
			mu.Unlock()
			time.Sleep(d)
			synctest.Wait()
			mu.Lock()
		}
		wait(time.Second)
		found = []notify.Alert{{Code: "x", About: "1"}}
		wait(10 * time.Minute)
		if looks != 3 || raised < 6 {
			t.Errorf("%d looks in ten minutes, %d times raised", looks, raised)
		}
		failure = errors.New("the database is away")
		wait(10 * time.Minute)
		failure, found = nil, nil
		wait(10 * time.Minute)
		if want := (told{"x 1", "x 1 resolved"}); !slices.Equal(said, want) {
			t.Errorf("got %q", said)
		}
		found = []notify.Alert{{Code: "y"}}
		wait(6 * time.Minute)
		leads = false
		wait(10 * time.Minute)
		found, leads = nil, true // what this replica said before is another's to resolve
		wait(10 * time.Minute)
		if want := (told{"x 1", "x 1 resolved", "y "}); !slices.Equal(said, want) {
			t.Errorf("got %q", said)
		}
		mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// find runs a check and lists what it found.
func find(t *testing.T, c Check) []string {
	t.Helper()
	list, err := c.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, a := range list {
		inspect(t, a)
		out = append(out, a.Code+" "+a.About)
	}
	return out
}

// inspect holds what every alert must be: known by a code, and readable in both languages.
func inspect(t *testing.T, a notify.Alert) {
	t.Helper()
	if !regexp.MustCompile(`^[a-z]+\.[a-z_]+$`).MatchString(a.Code) || a.Severity == "" {
		t.Errorf("%+v", a)
	}
	phrases := []fault.Phrase{a.Title, a.Text}
	for _, d := range a.Details {
		phrases = append(phrases, d.Name)
		if d.Value == "" {
			t.Errorf("%s: %s has no value", a.Code, d.Name)
		}
	}
	for _, p := range phrases {
		if en, zh := p.In(fault.English), p.In(fault.Chinese); en == "" || en == zh || strings.Contains(en+zh, "%!") || strings.HasSuffix(en, ".") {
			t.Errorf("%s: %q %q", a.Code, en, zh)
		}
	}
}

func TestChecks(t *testing.T) {
	now := time.Now()
	replica := func(r Replica) Check {
		return AuditOfReplica("n1", func() (Replica, error) { return r, nil })
	}
	for name, tc := range map[string]struct {
		check Check
		want  []string
	}{
		"all is well":  {replica(Replica{Waiting: 3, Oldest: now.Add(-time.Minute)}), nil},
		"altered":      {replica(Replica{Rewritten: true, Unavailable: true}), []string{"audit.rewritten n1"}},
		"no disk":      {replica(Replica{Unavailable: true, Lost: 4}), []string{"audit.unavailable n1", "audit.lost n1"}},
		"no database":  {replica(Replica{Waiting: 3, Oldest: now.Add(-6 * time.Minute)}), []string{"audit.backlog n1"}},
		"nothing open": {Findings(func(context.Context) (map[string]int64, error) { return map[string]int64{"sums": 0}, nil }), nil},
		"findings":     {Findings(func(context.Context) (map[string]int64, error) { return map[string]int64{"sums": 1, "missing": 2}, nil }), []string{"audit.finding missing", "audit.finding sums"}},
		"budgets": {Budgets(func(context.Context) ([]billing.BudgetState, error) {
			b := func(tenant string, spent billing.Money) billing.BudgetState {
				return billing.BudgetState{Budget: billing.Budget{Scope: billing.Scope{Tenant: tenant}, Period: "month", Limit: 1000}, Current: "2026-11", Spent: spent}
			}
			nothing := b("closed", 0)
			nothing.Limit = 0
			return []billing.BudgetState{b("a", 799), b("b", 800), b("c", 1000), nothing}, nil
		}), []string{"billing.budget_near b//month/2026-11", "billing.budget_near c//month/2026-11", "billing.budget_spent c//month/2026-11"}},
		"rollouts": {Rollouts(func(context.Context) ([]workflows.State, error) {
			return []workflows.State{{ID: "r1", Model: "m", Candidate: "2", Share: 10, Awaiting: true}, {ID: "r2"}}, nil
		}), []string{"rollout.approval r1/10"}},
		"verdicts": {Unjudged(func(context.Context) ([]workflows.Unjudged, error) {
			return []workflows.Unjudged{{State: workflows.State{ID: "r1", Model: "m", Candidate: "2", Share: 10}, Since: now}}, nil
		}), []string{"rollout.unjudged r1"}},
		"keys": {Keys(func(context.Context) ([]identity.Key, error) {
			k := func(id string, left, unused time.Duration) identity.Key {
				return identity.Key{ID: id, Tenant: "t", ExpiresAt: now.Add(left), LastUsedAt: now.Add(-unused)}
			}
			revoked := k("revoked", time.Hour, 0)
			revoked.RevokedAt = now
			never := k("never used", time.Hour, 0)
			never.LastUsedAt = time.Time{}
			return []identity.Key{k("soon", time.Hour, time.Hour), k("later", 30*24*time.Hour, 0), k("unused", time.Hour, 60*24*time.Hour), revoked, never}, nil
		}), []string{"identity.key_expires soon"}},
		"emergencies": {BreakGlass(func(context.Context) ([]identity.EmergencyUse, error) {
			return []identity.EmergencyUse{
				{ID: "open", Reason: "outage", Source: "10.0.0.9", Expires: now.Add(time.Hour), ReviewDue: now.Add(-time.Second)},
				{ID: "over", Reason: "outage", Source: "10.0.0.9", Expires: now.Add(-time.Hour), ReviewDue: now.Add(time.Hour)},
				{ID: "due", Reason: "outage", Source: "10.0.0.9", Expires: now.Add(-time.Hour), ReviewDue: now.Add(-time.Second)},
				{ID: "done", Reason: "outage", Source: "10.0.0.9", Expires: now.Add(-time.Hour), ReviewDue: now.Add(-time.Second), Reviewed: now},
			}, nil
		}), []string{"identity.break_glass_open open", "identity.break_glass_review due"}},
		"security keys": {SuspectKeys(func(context.Context) ([]identity.Suspect, error) {
			return []identity.Suspect{{Factor: "f1", Tenant: "t", User: "u1", Since: now}}, nil
		}), []string{"identity.key_cloned f1"}},
	} {
		if got := find(t, tc.check); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	for _, a := range []notify.Alert{VerificationFailed(3), RevealSweep("t", 30), RolloutBack("m", "r", "2", "canary-10")} {
		inspect(t, a)
	}
	failing := errors.New("away")
	if _, err := Findings(func(context.Context) (map[string]int64, error) { return nil, failing }).Find(t.Context()); !errors.Is(err, failing) {
		t.Errorf("got %v", err)
	}
}

// TestStalls: what waits for the next checkpoint, or for a witness, is told only when nothing has come for a long time though there was work.
func TestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		unsealed, behind, mark := int64(0), int64(0), time.Now()
		checks := []Check{
			Sealing(func(context.Context) (int64, time.Time, error) { return unsealed, mark, nil }),
			Witnesses(func(context.Context) ([]Witness, error) {
				return []Witness{{Name: "w", Behind: behind, Time: mark}}, nil
			}),
			Monitoring(func(context.Context) ([]Destination, error) {
				return []Destination{{Name: "soc", Behind: behind, Oldest: mark}}, nil
			}),
		}
		look := func(want ...string) {
			t.Helper()
			var got []string
			for _, c := range checks {
				got = append(got, find(t, c)...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("at %s: got %q, want %q", time.Now(), got, want)
			}
		}
		look()
		time.Sleep(24 * time.Hour) // nobody asks for anything
		look()
		unsealed, behind = 1, 1
		look()
		time.Sleep(15 * time.Minute)
		look("audit.unsealed ", "audit.siem_late soc")
		time.Sleep(time.Hour)
		look("audit.unsealed ", "audit.witness_late w", "audit.siem_late soc")
		mark = time.Now()
		look()
		for range 100 { // there is always work, and it goes on
			time.Sleep(5 * time.Minute)
			mark = time.Now()
			look()
		}
	})
}

// TestControls: somebody hears of a control that breaks, or held and holds no more, until it holds again; of what was never set up, and of what cannot be asked, nobody hears anew.
func TestControls(t *testing.T) {
	t.Parallel()
	var now []Control
	var failure error
	check := Controls(func(context.Context) ([]Control, error) { return now, failure })
	control := Control{ID: "c"}
	for i, step := range []struct {
		holds, broken, unknown, told bool
	}{
		{}, {unknown: true}, {holds: true}, {unknown: true}, {told: true}, {unknown: true, told: true}, {holds: true}, {broken: true, told: true}, {unknown: true, told: true}, {holds: true},
	} {
		c := control
		c.Holds, c.Broken, c.Unknown = step.holds, step.broken, step.unknown
		now = []Control{c}
		got, err := check.Find(t.Context())
		if err != nil || (len(got) == 1) != step.told || step.told && (got[0].About != "c" || got[0].Code != "compliance.control") {
			t.Errorf("step %d %+v: %+v, %v", i, step, got, err)
		}
	}
	failure = errors.New("no matrix")
	if _, err := check.Find(t.Context()); err == nil {
		t.Error("a failure is taken for no alarm")
	}
}
