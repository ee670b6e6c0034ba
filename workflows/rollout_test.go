package workflows

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// world is the platform around the workflows: an assignment, an audit log, and traffic whose behaviour the test chooses. Each
// part fails while its fail field says so.
type world struct {
	mu       sync.Mutex
	cur      Assignment
	moves    []Assignment
	records  []Record
	stats    func(rollout string, since int64) map[string]ArmStats
	fail     struct{ routes, stats, audit error }
	refuse   error // of every assignment that gives the candidate a share
	versions []string
	engine   []int
	hangs    bool                 // statistics answer nothing until the caller gives up
	keeps    [][]int64            // what ForgetArmSums was told to keep
	asked    []int64              // since when ArmSums was asked for
	ceiling  int                  // of this engine's configuration, if it is another
	can      map[string]Abilities // of versions that an instance runs
	learning map[string]bool      // versions of which one has not told what it is
}

func newWorld() *world {
	w := &world{cur: Assignment{Model: "m", Stable: "v1"}, versions: []string{"v1", "v2"}}
	w.can = map[string]Abilities{"v1": {[]string{"chat", "tools"}, 4096}, "v2": {[]string{"chat", "seed", "tools"}, 8192}}
	w.stats = w.traffic(500, sim0, sim0)
	return w
}

// behaviour of one arm: failures in percent, latency in milliseconds.
type behaviour struct{ failing, latency int64 }

var sim0 = behaviour{0, 100}

// traffic gives each arm its share of n requests, according to the assignment in force.
func (w *world) traffic(n int64, stable, candidate behaviour) func(string, int64) map[string]ArmStats {
	return func(rollout string, _ int64) map[string]ArmStats {
		basis := int64(w.cur.Basis)
		if rollout != w.cur.Rollout {
			return nil
		}
		return map[string]ArmStats{
			"stable": stable.stats(max(n*(10000-basis)/10000, 300)), "candidate": candidate.stats(n * basis / 10000 * 5),
		}
	}
}

func (b behaviour) stats(n int64) ArmStats {
	s := ArmStats{Requests: n, Errors: n * b.failing / 100}
	for range n {
		s.FirstToken = append(s.FirstToken, b.latency*1000)
		s.Total = append(s.Total, b.latency*10000)
	}
	return s
}

func (w *world) Assignment(context.Context, string) (Assignment, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cur, w.fail.routes
}

func (w *world) SetAssignment(_ context.Context, a Assignment) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail.routes != nil {
		return w.fail.routes
	}
	if w.refuse != nil && a.Rollout != "" {
		return w.refuse
	}
	w.cur = a
	w.moves = append(w.moves, a)
	return nil
}

func (w *world) HasVersion(_ context.Context, _, version string) (bool, error) {
	return slices.Contains(w.versions, version), nil
}

func (w *world) Abilities(_ context.Context, _, version string) (Abilities, Sight, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sight := Absent
	have, seen := w.can[version]
	if seen {
		sight = Whole
	}
	if w.learning[version] {
		sight = Partial
	}
	return have, sight, w.fail.routes
}

func (w *world) ArmStats(ctx context.Context, rollout string, since int64) (map[string]ArmStats, error) {
	w.mu.Lock()
	hangs := w.hangs
	w.mu.Unlock()
	if hangs {
		if _, bounded := ctx.Deadline(); !bounded {
			panic("this would wait for ever")
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail.stats != nil {
		return nil, w.fail.stats
	}
	return w.stats(rollout, since), nil
}

func (w *world) ArmSums(ctx context.Context, rollout, arm string, since int64) (ArmSums, error) {
	arms, err := w.ArmStats(ctx, rollout, since)
	w.change(func() { w.asked = append(w.asked, since) })
	s := arms[arm]
	n, failed := float64(s.Requests), float64(s.Errors)
	each := func(mean float64) Ratio { return Ratio{Y: mean * n, N: n, YY: mean * mean * n, YN: mean * n, NN: n} }
	out := ArmSums{FirstToken: map[int64]int64{}, Total: map[int64]int64{}, Sums: Sums{
		Failures: Ratio{Y: failed, N: n, YY: failed, YN: failed, NN: n}, Refusals: each(0), Tokens: each(100), Cost: each(1000), Slow: Ratio{Y: n / 20, N: n, YY: n / 20, YN: n / 20, NN: n},
	}}
	for _, b := range bins(s.FirstToken) {
		out.FirstToken[b.Micros] = b.Count
	}
	for _, b := range bins(s.Total) {
		out.Total[b.Micros] = b.Count
	}
	return out, err
}

func (w *world) ForgetArmSums(_ context.Context, _ string, except ...int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keeps = append(w.keeps, except)
	if errors.Is(w.fail.stats, ErrCounting) { // which is of sums
		return nil
	}
	return w.fail.stats
}

func (w *world) Append(_ context.Context, r Record) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fail.audit != nil {
		return "", w.fail.audit
	}
	w.records = append(w.records, r)
	return "audit-" + r.Detail["transition"], nil
}

// configured is the concurrency of the engines of these tests.
const configured = 64

func (w *world) Configured() int { return or(w.ceiling, configured) }

func (w *world) SetConcurrency(_ context.Context, n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engine = append(w.engine, n)
	return nil
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// bases returns the shares the candidate had, one after the other.
func (w *world) bases() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []int
	for _, a := range w.moves {
		out = append(out, a.Basis)
	}
	return out
}

func (w *world) deps(t testing.TB) Deps {
	return Deps{DB: dbtest.SQLite(t), Routes: w, Stats: w, Audit: w, Engine: w}
}

// rehearsal runs the workflow in the SDK's test environment, whose clock skips all waiting.
type rehearsal struct {
	*testsuite.TestWorkflowEnvironment
	t     *testing.T
	w     *world
	acts  *activities
	input rolloutInput
}

func rehearse(t *testing.T, w *world, change func(*Spec)) *rehearsal {
	t.Helper()
	spec := Spec{
		Model: "m", Candidate: "v2", Dwell: 10 * time.Minute, Deadline: 2 * time.Hour, Poll: time.Minute, Reason: "try it",
	}
	if change != nil {
		change(&spec)
	}
	spec = spec.withDefaults()
	if err := spec.check(); err != nil {
		t.Fatal(err)
	}
	deps := w.deps(t)
	a := &activities{deps: deps, store: &store{db: deps.DB}, now: time.Now, log: slog.New(slog.DiscardHandler), m: newMetrics(nil), settleTimeout: 10 * time.Millisecond}
	in := rolloutInput{Schema: 1, ID: "r-1", Stable: "v1", Salt: "salt", Spec: spec, Starter: Actor{Kind: "user", ID: "alice"}}
	err := a.store.create(t.Context(), State{
		ID: in.ID, Model: "m", Stable: "v1", Candidate: "v2", Spec: spec, Starter: in.Starter, Phase: PhaseStarting,
	})
	if err != nil {
		t.Fatal(err)
	}
	return rehearseOn(t, w, a, in)
}

func rehearseOn(t *testing.T, w *world, a *activities, in rolloutInput) *rehearsal {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(silentLogger{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute}) // the machine may be busy
	env.SetStartTime(time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC))
	env.RegisterWorkflowWithOptions(rollout, workflow.RegisterOptions{Name: rolloutName})
	env.RegisterActivityWithOptions(a.Transition, activity.RegisterOptions{Name: transitionName})
	env.RegisterActivityWithOptions(a.Evaluate, activity.RegisterOptions{Name: evaluateName})
	env.RegisterActivityWithOptions(a.Evaluate, activity.RegisterOptions{Name: gatesEvaluate})
	return &rehearsal{TestWorkflowEnvironment: env, t: t, w: w, acts: a, input: in}
}

type silentLogger struct{}

func (silentLogger) Debug(string, ...any) {}
func (silentLogger) Info(string, ...any)  {}
func (silentLogger) Warn(string, ...any)  {}
func (silentLogger) Error(string, ...any) {}

// run executes the workflow to its end and checks what must hold at every end.
func (r *rehearsal) run() State {
	r.t.Helper()
	r.ExecuteWorkflow(rollout, r.input)
	if err := r.GetWorkflowError(); err != nil {
		r.t.Fatalf("workflow: %v", err)
	}
	var st State
	if err := r.GetWorkflowResult(&st); err != nil {
		r.t.Fatal(err)
	}
	r.check(st)
	return st
}

// check holds the invariants: the assignment is free again and names the right version, every transition has one audit record
// written under its id, the projection agrees with the workflow, and evidence that is referred to can be replayed.
func (r *rehearsal) check(st State) {
	r.t.Helper()
	want := "v1"
	if st.Phase == PhaseCompleted {
		want = "v2"
	}
	if c := r.w.cur; c.Rollout != "" || c.Basis != 0 || c.Candidate != "" || c.Stable != want {
		r.t.Errorf("the assignment at the end is %+v", c)
	}
	seen := map[string]int{}
	for _, rec := range r.w.records {
		seen[rec.Detail["transition"]]++
	}
	for _, h := range st.History {
		if seen[h.ID] != 1 || h.Audit == "" {
			r.t.Errorf("transition %s has %d audit records, receipt %q", h.ID, seen[h.ID], h.Audit)
		}
	}
	kept, err := r.acts.store.get(r.t.Context(), r.input.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	evaluations, err := r.acts.store.evaluations(r.t.Context(), kept)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, h := range kept.History {
		if h.From == PhaseStarting { // nothing was left
			continue
		}
		evaluation, ok := evaluations[h.Evidence]
		if !ok || evaluation.Evidence.Hash() != h.Evidence || evaluation.Evidence.Phase != h.From || evaluation.At == 0 {
			r.t.Errorf("what %s was left on is lost: %q %+v", h.From, h.Evidence, evaluation)
			continue
		}
		if d := Verdict(evaluation.Evidence, evaluation.Thresholds); !reflect.DeepEqual(d, evaluation.Decision) {
			r.t.Errorf("the decision on %s does not replay: %+v, %+v", h.From, d, evaluation.Decision)
		} else if h.To == PhaseCompleted && d.Outcome != Pass || strings.HasPrefix(h.To, PhaseCanary) && d.Outcome != Pass {
			r.t.Errorf("%s was entered on the verdict %s", h.To, d.Outcome)
		}
	}
	if kept.Phase != st.Phase || kept.Share != st.Share || kept.FinishedAt == 0 || len(kept.History) < len(st.History) {
		r.t.Errorf("the projection says %s %d %d with %d transitions, the workflow %s %d with %d", kept.Phase, kept.Share, kept.FinishedAt,
			len(kept.History), st.Phase, st.Share, len(st.History))
	}
}

func path(st State) string {
	var out []string
	for _, h := range st.History {
		out = append(out, h.To)
	}
	return strings.Join(out, " ")
}

func TestHealthyCandidateReachesEveryone(t *testing.T) {
	t.Parallel()
	r := rehearse(t, newWorld(), nil)
	start := r.Now()
	st := r.run()
	if got, want := path(st), "baseline canary-20 canary-40 canary-80 canary-100 completed"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	if got, want := r.w.bases(), []int{0, 2000, 4000, 8000, 10000, 0}; !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
	for _, m := range r.w.moves {
		if m.Salt != "salt" {
			t.Errorf("the salt changed to %q: conversations would change sides", m.Salt)
		}
	}
	if took := r.Now().Sub(start); took < 50*time.Minute {
		t.Errorf("five steps of ten minutes took %v", took)
	}
	for _, h := range st.History[1:] {
		if h.Evidence == "" || h.Reason == "" || h.Actor.ID != "rollout" {
			t.Errorf("%s was entered without evidence, reason or actor: %+v", h.To, h)
		}
	}
	if a := st.History[0].Actor; a.ID != "alice" {
		t.Errorf("the rollout was begun by %+v", a)
	}
}

func TestFailingCandidateGoesBackQuickly(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]behaviour{"errors": {60, 100}, "latency": {0, 400}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.stats = w.traffic(500, sim0, bad)
			r := rehearse(t, w, nil)
			start := r.Now()
			st := r.run()
			if got, want := path(st), "baseline canary-20 rolled_back"; got != want {
				t.Errorf("path %q, want %q", got, want)
			}
			if took := r.Now().Sub(start); took > 11*time.Minute {
				t.Errorf("the abort waited for the dwell: %v", took)
			}
			if st.Decision.Outcome != Fail {
				t.Errorf("decision %+v", st.Decision)
			}
		})
	}
}

func TestCandidateThatBreaksUnderLoadGoesBackFromThere(t *testing.T) {
	t.Parallel()
	w := newWorld()
	good, bad := w.stats, w.traffic(500, sim0, behaviour{60, 100})
	w.stats = func(id string, since int64) map[string]ArmStats {
		if w.cur.Basis == 8000 {
			return bad(id, since)
		}
		return good(id, since)
	}
	if got, want := path(rehearse(t, w, nil).run()), "baseline canary-20 canary-40 canary-80 rolled_back"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}

func TestNoTrafficHoldsAndGoesBackAtTheDeadline(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		silentAt int
		path     string
	}{
		"from the beginning": {0, "baseline rolled_back"},
		"in the canary":      {2000, "baseline canary-20 rolled_back"},
		"at the end":         {10000, "baseline canary-20 canary-40 canary-80 canary-100 rolled_back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			busy := w.stats
			w.stats = func(id string, since int64) map[string]ArmStats {
				if w.cur.Basis == tt.silentAt {
					return nil
				}
				return busy(id, since)
			}
			r := rehearse(t, w, nil)
			start := r.Now()
			st := r.run()
			if got := path(st); got != tt.path {
				t.Errorf("path %q, want %q", got, tt.path)
			}
			if took := r.Now().Sub(start); took < 2*time.Hour {
				t.Errorf("it did not hold: %v", took)
			}
			last := st.History[len(st.History)-1]
			if !strings.HasPrefix(last.Reason, "the deadline of the step passed: ") || last.Cause.Code != causeDeadline || last.Evidence == "" || st.Decision.Outcome != NoData {
				t.Errorf("it went back for %q with the verdict %s", last.Reason, st.Decision.Outcome)
			}
		})
	}
}

func TestTrafficThatComesLateIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld()
	busy := w.stats
	r := rehearse(t, w, nil)
	begin := r.Now()
	w.stats = func(id string, since int64) map[string]ArmStats {
		if r.Now().Sub(begin) < 90*time.Minute {
			return nil
		}
		return busy(id, since)
	}
	if st := r.run(); st.Phase != PhaseCompleted {
		t.Errorf("ended as %s: %s", st.Phase, path(st))
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	bob := Actor{Kind: "user", ID: "bob"}
	for name, tt := range map[string]struct {
		at   time.Duration
		path string
	}{
		"in the baseline": {time.Minute, "baseline aborted"},
		"in the canary":   {15 * time.Minute, "baseline canary-20 aborted"},
		"at 80":           {35 * time.Minute, "baseline canary-20 canary-40 canary-80 aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rehearse(t, newWorld(), nil)
			r.RegisterDelayedCallback(func() {
				r.SignalWorkflow(abortSignal, command{Rollout: "another", Actor: bob, Reason: "stale"})
			}, time.Second)
			r.RegisterDelayedCallback(func() {
				r.SignalWorkflow(abortSignal, command{Rollout: "r-1", Actor: bob, Reason: "phones ring"})
			}, tt.at)
			st := r.run()
			if got := path(st); got != tt.path {
				t.Errorf("path %q, want %q", got, tt.path)
			}
			last := st.History[len(st.History)-1]
			if last.Actor != bob || last.Reason != "phones ring" {
				t.Errorf("the abort is recorded as %+v", last)
			}
		})
	}
}

// answer collects what an update returned.
type answer struct{ rejected, failed error }

func (a *answer) Accept()                 {}
func (a *answer) Reject(err error)        { a.rejected = err }
func (a *answer) Complete(_ any, e error) { a.failed = e }

func TestApproval(t *testing.T) {
	t.Parallel()
	carol := Actor{Kind: "user", ID: "carol"}
	approve := func(r *rehearsal, at time.Duration, c command) *answer {
		var a answer
		r.RegisterDelayedCallback(func() { r.UpdateWorkflow(approveUpdate, at.String(), &a, c) }, at)
		return &a
	}
	t.Run("a gate waits for a person past the deadline", func(t *testing.T) {
		t.Parallel()
		r := rehearse(t, newWorld(), func(s *Spec) { s.RequireApproval = []int{20} })
		r.RegisterDelayedCallback(func() {
			v, err := r.QueryWorkflow(stateQuery)
			var st State
			if err == nil {
				err = v.Get(&st)
			}
			if err != nil || !st.Awaiting || !st.Holding() || st.Share != 20 {
				t.Errorf("it should wait at 20: %+v %v", st, err)
			}
		}, 4*time.Hour)
		a := approve(r, 5*time.Hour, command{Rollout: "r-1", Actor: carol, Reason: "looked at it"})
		st := r.run()
		if st.Phase != PhaseCompleted || a.rejected != nil {
			t.Fatalf("ended as %s, answer %+v", st.Phase, a)
		}
		if h := st.History[2]; h.To != "canary-40" || h.Actor != carol || h.Reason != "looked at it" {
			t.Errorf("the gate was passed by %+v", h)
		}
		if h := st.History[3]; h.Actor.ID != "rollout" {
			t.Errorf("one approval opened two steps: %+v", h)
		}
	})
	t.Run("cuts the dwell short", func(t *testing.T) {
		t.Parallel()
		r := rehearse(t, newWorld(), nil)
		start := r.Now()
		approve(r, time.Minute, command{Rollout: "r-1", Actor: carol, Reason: "go"})
		st := r.run()
		if at := time.UnixMicro(st.History[1].At).Sub(start); at > 2*time.Minute {
			t.Errorf("the baseline was left after %v", at)
		}
	})
	t.Run("does not replace evidence", func(t *testing.T) {
		t.Parallel()
		w := newWorld()
		w.stats = func(string, int64) map[string]ArmStats { return nil }
		r := rehearse(t, w, nil)
		approve(r, time.Minute, command{Rollout: "r-1", Actor: carol, Reason: "go"})
		if st := r.run(); st.Phase != PhaseRolledBack {
			t.Errorf("approval promoted without data: %s", path(st))
		}
	})
	t.Run("is refused", func(t *testing.T) {
		t.Parallel()
		r := rehearse(t, newWorld(), func(s *Spec) { s.SecondPerson = true })
		other := approve(r, time.Minute, command{Rollout: "r-0", Actor: carol})
		self := approve(r, 2*time.Minute, command{Rollout: "r-1", Actor: Actor{Kind: "user", ID: "alice"}})
		r.run()
		if other.rejected == nil || self.rejected == nil {
			t.Errorf("other rollout: %v, starter: %v", other.rejected, self.rejected)
		}
	})
}

func TestOutagesHoldTheRollout(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(*world) *error{
		"routes": func(w *world) *error { return &w.fail.routes },
		"stats":  func(w *world) *error { return &w.fail.stats },
		"audit":  func(w *world) *error { return &w.fail.audit },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			r := rehearse(t, w, nil)
			r.RegisterDelayedCallback(func() { w.change(func() { *part(w) = errors.New("down") }) }, 9*time.Minute)
			var during []int
			r.RegisterDelayedCallback(func() { during = w.bases() }, 79*time.Minute)
			r.RegisterDelayedCallback(func() { w.change(func() { *part(w) = nil }) }, 80*time.Minute)
			st := r.run()
			if st.Phase != PhaseCompleted {
				t.Errorf("ended as %s", path(st))
			}
			if slices.Max(during) > 0 {
				t.Errorf("the candidate got conversations during the outage: %v", during)
			}
		})
	}
}

// TestCandidateThatNobodyJudgesGoesBack: with gates and without, statistics that fail for long, and only such, take a candidate back that answers.
func TestCandidateThatNobodyJudgesGoesBack(t *testing.T) {
	t.Parallel()
	const all = "baseline canary-20 canary-40 canary-80 canary-100 completed"
	for name, tt := range map[string]struct {
		from, until time.Duration // of the outage; 0: it does not end
		change      func(*Spec)
		old         bool // the rollout came to this before there was such a rule
		path, code  string
		most        time.Duration
		counting    bool // statistics are on their way, instead
	}{
		"for long": {15 * time.Minute, 0, nil, false, "baseline canary-20 rolled_back", causeUnjudged, 50 * time.Minute, false},
		"with gates": {75 * time.Minute, 0, func(s *Spec) {
			*s = standardSpec()
			s.Dwell, s.Deadline, s.Thresholds.Gates = time.Hour, 3*time.Hour, nil
		}, false, "baseline canary-20 rolled_back", causeUnjudged, 110 * time.Minute, false},
		"for a while":    {15 * time.Minute, 40 * time.Minute, nil, false, all, "", 3 * time.Hour, false},
		"on the last":    {50 * time.Minute, 0, nil, false, "baseline canary-20 canary-40 canary-80 canary-100 rolled_back", causeUnjudged, 2 * time.Hour, false},
		"an old rollout": {15 * time.Minute, 0, nil, true, "baseline canary-20 rolled_back", causeDeadline, 3 * time.Hour, false},
		"seldom judged": {40 * time.Minute, 120 * time.Minute, func(s *Spec) {
			s.Poll, s.Dwell, s.Deadline = 25*time.Minute, 25*time.Minute, 20*time.Hour
		}, false, all, "", 24 * time.Hour, false},
		"still counting": {75 * time.Minute, 150 * time.Minute, func(s *Spec) {
			*s = standardSpec()
			s.Dwell, s.Deadline, s.Thresholds.Gates = time.Hour, 3*time.Hour, nil
		}, false, all, "", 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.stats = w.traffic(8_000, sim0, sim0)
			r := rehearse(t, w, tt.change)
			if tt.old {
				r.OnGetVersion(unjudgedChange, workflow.DefaultVersion, workflow.Version(1)).Return(workflow.DefaultVersion)
			}
			start, outage := r.Now(), errors.New("down")
			if tt.counting {
				outage = fmt.Errorf("count: %w", ErrCounting)
			}
			r.RegisterDelayedCallback(func() { w.change(func() { w.fail.stats = outage }) }, tt.from)
			if tt.until > 0 {
				r.RegisterDelayedCallback(func() { w.change(func() { w.fail.stats = nil }) }, tt.until)
			}
			st := r.run()
			if got := path(st); got != tt.path {
				t.Errorf("path %q, want %q: %s", got, tt.path, st.History[len(st.History)-1].Reason)
			}
			if last := st.History[len(st.History)-1]; tt.code != "" && (last.Cause == nil || last.Cause.Code != tt.code) {
				t.Errorf("it ended because of %+v, want %s", last.Cause, tt.code)
			}
			if took := r.Now().Sub(start); took > tt.most {
				t.Errorf("it took %v, at most %v was due", took, tt.most)
			}
		})
	}
}

// TestStepIsLeftOnTheSumsThatAreKept: a step that is left before its first evaluation asks for sums since the times for which evaluations keep them.
func TestStepIsLeftOnTheSumsThatAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stats = w.traffic(8_000, sim0, sim0)
	r := rehearse(t, w, func(s *Spec) {
		*s = standardSpec()
		s.Thresholds.Gates = nil
	})
	last := Transition{ID: "r-1/1", Seq: 1, From: PhaseStarting, To: "canary-100", Share: 100, At: 1}
	back := Transition{ID: "r-1/2", Seq: 2, From: "canary-100", To: PhaseAborted, At: 2}
	in := transitionInput{Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Transition: last}
	if _, err := r.acts.Transition(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	left := (&run{in: r.input, progress: progress{StableAt: 7, State: State{EnteredAt: 9}}}).transition(back)
	if _, err := r.acts.Transition(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if want := []int64{9, 7}; !slices.Equal(w.asked, want) {
		t.Errorf("asked since %v, want %v", w.asked, want)
	}
}

// TestStatisticsThatHangKeepNothing: a step of which no statistics come at all is left all the same.
func TestStatisticsThatHangKeepNothing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	w.hangs = true
	step := Transition{ID: "r-1/1", Seq: 1, From: PhaseStarting, To: "canary-20", Share: 20, At: 1}
	back := Transition{ID: "r-1/2", Seq: 2, From: "canary-20", To: PhaseRolledBack, At: 2}
	for _, tr := range []Transition{step, back} {
		in := transitionInput{Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Transition: tr}
		if audit, err := r.acts.Transition(t.Context(), in); err != nil || audit == "" {
			t.Errorf("%s: %q, %v", tr.To, audit, err)
		}
	}
	if kept, err := r.acts.store.get(t.Context(), "r-1"); err != nil || kept.Phase != PhaseRolledBack || w.cur.Basis != 0 {
		t.Errorf("%+v, %v", kept, err)
	}
	if n := len(w.keeps); n != 1 || len(w.keeps[0]) != 0 {
		t.Errorf("what was summed up is kept: %v", w.keeps)
	}
}

func TestAbortWorksDuringAnAuditOutage(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	r.RegisterDelayedCallback(func() { w.change(func() { w.fail.audit = errors.New("down") }) }, 15*time.Minute)
	r.RegisterDelayedCallback(func() {
		r.SignalWorkflow(abortSignal, command{Rollout: "r-1", Actor: Actor{Kind: "user", ID: "bob"}, Reason: "stop"})
	}, 16*time.Minute)
	r.RegisterDelayedCallback(func() {
		if b := w.bases(); b[len(b)-1] != 0 {
			t.Errorf("the candidate still answers: %v", b)
		}
	}, 17*time.Minute)
	r.RegisterDelayedCallback(func() { w.change(func() { w.fail.audit = nil }) }, 30*time.Minute)
	if st := r.run(); st.Phase != PhaseAborted {
		t.Errorf("ended as %s", path(st))
	}
}

// TestAbortDuringATransition: the abandoned step has begun and has its row; the abort that follows must not be taken for it.
func TestAbortDuringATransition(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	r.RegisterDelayedCallback(func() { w.change(func() { w.fail.audit = errors.New("down") }) }, 19*time.Minute)
	r.RegisterDelayedCallback(func() {
		r.SignalWorkflow(abortSignal, command{Rollout: "r-1", Actor: bob, Reason: "stop"})
	}, 25*time.Minute)
	r.RegisterDelayedCallback(func() { w.change(func() { w.fail.audit = nil }) }, 30*time.Minute)
	st := r.run()
	if got, want := path(st), "baseline canary-20 aborted"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	if got, want := w.bases(), []int{0, 2000, 0}; !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
	if last := w.records[len(w.records)-1]; last.Detail["to"] != PhaseAborted || last.Actor != bob {
		t.Errorf("the last record is %+v", last)
	}
}

func TestOperatorWhoTakesTheAssignmentWins(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	r.RegisterDelayedCallback(func() {
		w.change(func() { w.cur = Assignment{Model: "m", Stable: "v1"} })
	}, 15*time.Minute)
	st := r.run()
	if st.Phase != PhaseAborted {
		t.Errorf("ended as %s", path(st))
	}
	if got, want := w.bases(), []int{0, 2000}; !slices.Equal(got, want) {
		t.Errorf("it went on moving the assignment: %v", got)
	}
}

func TestRefusedAssignmentFails(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.refuse = fault.New(fault.CodeNotFound, "version", "m@v2")
	st := rehearse(t, w, nil).run()
	if st.Phase != PhaseFailed || !strings.Contains(st.History[0].Reason, "m@v2") {
		t.Errorf("ended as %s: %+v", st.Phase, st.History)
	}
}

func TestCancelledWorkflowGoesBack(t *testing.T) {
	t.Parallel()
	r := rehearse(t, newWorld(), nil)
	r.RegisterDelayedCallback(r.CancelWorkflow, 15*time.Minute)
	st := r.run()
	if got, want := path(st), "baseline canary-20 aborted"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
}

// TestTransitionIsRepeatable interrupts the activity after each of its effects and runs it again.
func TestTransitionIsRepeatable(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*world, error){
		"audit":  func(w *world, err error) { w.fail.audit = err },
		"routes": func(w *world, err error) { w.fail.routes = err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			r := rehearse(t, w, nil)
			in := transitionInput{
				Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Salt: "s",
				Transition: Transition{ID: "r-1/1", Seq: 1, To: PhaseBaseline, At: 5},
			}
			fail(w, errors.New("down"))
			if _, err := r.acts.Transition(t.Context(), in); err == nil {
				t.Fatal("the failure was swallowed")
			}
			if name == "audit" && len(w.moves) > 0 {
				t.Error("it acted before it was audited")
			}
			fail(w, nil)
			for range 3 {
				if _, err := r.acts.Transition(t.Context(), in); err != nil {
					t.Fatal(err)
				}
			}
			if len(w.records) != 1 {
				t.Errorf("%d audit records for one transition", len(w.records))
			}
		})
	}
}

// TestLateAttemptDoesNotUndoTheRetreat: an attempt that outlived its timeout finds that a later transition has begun.
func TestLateAttemptDoesNotUndoTheRetreat(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	do := func(seq int, to string, share int) {
		t.Helper()
		in := transitionInput{Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Transition: Transition{
			ID: "r-1/" + string(rune('0'+seq)), Seq: seq, To: to, Share: share, At: int64(seq),
		}}
		if _, err := r.acts.Transition(t.Context(), in); err != nil && seq > 1 && w.cur.Rollout != "" {
			t.Fatal(err)
		}
	}
	do(1, PhaseBaseline, 0)
	do(2, "canary-20", 20)
	do(4, PhaseRolledBack, 0)
	do(3, "canary-40", 40)
	if w.cur.Basis != 0 || w.cur.Rollout != "" {
		t.Errorf("the late attempt moved the assignment: %+v", w.cur)
	}
	st, err := r.acts.store.get(t.Context(), "r-1")
	if err != nil || st.Phase != PhaseRolledBack {
		t.Errorf("the projection says %s, %v", st.Phase, err)
	}
}

// TestAbortBeforeTheFirstTransition: an abort past Temporal, before the workflow has done anything, is not undone by its first
// transition, which has the same number.
func TestAbortBeforeTheFirstTransition(t *testing.T) {
	t.Parallel()
	w := newWorld()
	r := rehearse(t, w, nil)
	do := func(to string) error {
		_, err := r.acts.Transition(t.Context(), transitionInput{
			Rollout: "r-1", Model: "m", Stable: "v1", Candidate: "v2", Transition: Transition{ID: "r-1/1", Seq: 1, To: to, At: 1},
		})
		return err
	}
	if err := do(PhaseAborted); err != nil {
		t.Fatal(err)
	}
	var app *temporal.ApplicationError
	if err := do(PhaseBaseline); !errors.As(err, &app) || app.Type() != errSuperseded {
		t.Errorf("the first transition after the abort: %v", err)
	}
	if w.cur.Rollout != "" || len(w.moves) > 0 {
		t.Errorf("the assignment moved: %+v", w.cur)
	}
	if err := do(PhaseRolledBack); err != nil {
		t.Errorf("going back twice: %v", err)
	}
}

// TestLongRolloutContinuesAsNew: when the history grows long the workflow goes on as a new run that remembers where it stood.
func TestLongRolloutContinuesAsNew(t *testing.T) {
	t.Parallel()
	r := rehearse(t, newWorld(), func(s *Spec) { s.RequireApproval = []int{40} })
	r.RegisterDelayedCallback(func() { r.SetContinueAsNewSuggested(true) }, 25*time.Minute)
	r.ExecuteWorkflow(rollout, r.input)
	var next *workflow.ContinueAsNewError
	if err := r.GetWorkflowError(); !errors.As(err, &next) {
		t.Fatalf("ended with %v", err)
	}
	var in rolloutInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	second := rehearseOn(t, r.w, r.acts, in)
	second.SetStartTime(r.Now())
	second.RegisterDelayedCallback(func() {
		second.UpdateWorkflow(approveUpdate, "a", &answer{}, command{Rollout: "r-1", Actor: bob, Reason: "go"})
	}, time.Hour)
	st := second.run()
	if got, want := path(st), "baseline canary-20 canary-40 canary-80 canary-100 completed"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	if got, want := r.w.bases(), []int{0, 2000, 4000, 8000, 10000, 0}; !slices.Equal(got, want) {
		t.Errorf("shares %v, want %v", got, want)
	}
}

// TestAbortIsNotLostByContinueAsNew: an abort that arrives with the last task of a run is obeyed.
func TestAbortIsNotLostByContinueAsNew(t *testing.T) {
	t.Parallel()
	r := rehearse(t, newWorld(), nil)
	r.RegisterDelayedCallback(func() {
		r.SetContinueAsNewSuggested(true)
		r.SignalWorkflow(abortSignal, command{Rollout: "r-1", Actor: bob, Reason: "stop"})
	}, 15*time.Minute)
	if st := r.run(); st.Phase != PhaseAborted {
		t.Errorf("ended as %s", st.Phase)
	}
}
