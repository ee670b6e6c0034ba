package workflows

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-project/sluice/internal/fault"
	"github.com/sluice-project/sluice/scaling"
	"github.com/sluice-project/sluice/workflows/devserver"
	"github.com/sluice-project/sluice/workflows/devserver/devtest"
)

var update = flag.Bool("update", false, "write testdata/rollout-v2-*.json from the histories of the integration test")

var alice, bob = Actor{Kind: "user", ID: "alice", Name: "Alice"}, Actor{Kind: "user", ID: "bob", Name: "Bob"}

// platform is a service on a real Temporal.
type platform struct {
	*Service
	t      *testing.T
	w      *world
	server *devserver.Server
	config devserver.Config
}

func newPlatform(t *testing.T, cfg Config) *platform {
	t.Helper()
	dev := devserver.Config{Binary: devtest.Binary(t), DBFile: filepath.Join(t.TempDir(), "temporal.db"), Namespace: "sluice", StopTimeout: 200 * time.Millisecond}
	server, err := devserver.Start(t.Context(), dev)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	p := &platform{t: t, w: newWorld(), server: server, config: dev}
	cfg.Address, cfg.Namespace = server.Address(), "sluice"
	p.Service, err = New(cfg, p.w.deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.callTimeout, p.poll = 30*time.Second, 100*time.Millisecond // the machine may be busy
	t.Cleanup(p.Close)
	return p
}

// serve runs the worker until the test ends or stop is called.
func (p *platform) serve() (stop func()) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("run: %v", err)
		}
	})
	p.t.Cleanup(stop)
	return stop
}

// restart brings Temporal back where it was.
func (p *platform) restart() {
	p.t.Helper()
	_, port, err := net.SplitHostPort(p.server.Address())
	if err != nil {
		p.t.Fatal(err)
	}
	if p.config.Port, err = strconv.Atoi(port); err != nil {
		p.t.Fatal(err)
	}
	again, err := devserver.Start(p.t.Context(), p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = again.Close() })
}

// quick is a rollout in seconds.
func quick() Spec {
	return Spec{
		Preset: Trial,
		Model:  "m", Candidate: "v2", Dwell: 300 * time.Millisecond, Poll: 200 * time.Millisecond, Deadline: time.Minute, Reason: "try it",
	}
}

// wait polls the projection, as the console does, until the rollout is as ok says.
func (p *platform) wait(id, what string, ok func(State) bool) State {
	p.t.Helper()
	var st State
	until(p.t, what, func() bool {
		var err error
		if st, err = p.Get(p.t.Context(), id); err != nil {
			p.t.Fatal(err)
		}
		return ok(st)
	}, func() any { return st })
	return st
}

// until polls because what it waits for happens in another process.
func until(t *testing.T, what string, ok func() bool, describe func() any) {
	t.Helper()
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("%s did not happen: %+v", what, describe())
		case <-tick.C:
		}
	}
}

func in(phase string) func(State) bool { return func(s State) bool { return s.Phase == phase } }

// record stores the history of the latest rollout of the model, if asked to.
func (p *platform) record(name string) {
	p.t.Helper()
	if !*update {
		return
	}
	var h history.History
	it := p.client.GetWorkflowHistory(p.t.Context(), workflowID("m"), "", false, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			p.t.Fatal(err)
		}
		h.Events = append(h.Events, e)
	}
	body, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(&h)
	if err != nil {
		p.t.Fatal(err)
	}
	body = regexp.MustCompile(`("identity": *)"[^"]*"`).ReplaceAll(body, []byte(`$1"worker"`)) // names the machine
	if err := os.WriteFile(filepath.Join("testdata", name), append(body, '\n'), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// TestRolloutsOnARealServer goes through the lives of rollouts one after the other on one Temporal.
func TestRolloutsOnARealServer(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, Config{})
	p.serve()
	start := func(spec Spec) State {
		t.Helper()
		p.w.change(func() { p.w.cur = Assignment{Model: "m", Stable: "v1"}; p.w.moves = nil })
		st, err := p.StartRollout(t.Context(), spec, alice) // while the workflow of the one before may not be over
		if err != nil {
			t.Fatal(err)
		}
		return st
	}

	st := start(quick())
	if _, err := p.StartRollout(t.Context(), quick(), bob); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("a second rollout of the model: %v", err)
	}
	done := p.wait(st.ID, "completion", in(PhaseCompleted))
	if got, want := path(done), "baseline canary-20 canary-40 canary-80 canary-100 completed"; got != want {
		t.Errorf("path %q, want %q", got, want)
	}
	if got, want := p.w.bases(), []int{0, 2000, 4000, 8000, 10000, 0}; !slices.Equal(got, want) || p.w.cur.Stable != "v2" {
		t.Errorf("shares %v, want %v; then %+v", got, want, p.w.cur)
	}
	if err := p.Abort(t.Context(), st.ID, bob, "too late"); !fault.Is(err, fault.CodeConflict) {
		t.Errorf("abort of a finished rollout: %v", err)
	}
	p.record("rollout-v2-completed.json")

	p.w.change(func() { p.w.stats = p.w.traffic(500, sim0, behaviour{70, 100}) })
	st = start(quick())
	done = p.wait(st.ID, "rollback", in(PhaseRolledBack))
	if got, want := path(done), "baseline canary-20 rolled_back"; got != want || done.Decision.Outcome != Fail {
		t.Errorf("path %q with %s, want %q", got, done.Decision.Outcome, want)
	}
	p.record("rollout-v2-rolled-back.json")

	p.w.change(func() { p.w.stats = p.w.traffic(500, sim0, sim0) })
	gated := quick()
	gated.RequireApproval, gated.SecondPerson = []int{20, 40}, true
	st = start(gated)
	p.wait(st.ID, "the first gate", func(s State) bool { return s.Awaiting && s.Share == 20 })
	if err := p.Approve(t.Context(), st.ID, alice, "I trust myself", nil); fault.KindOf(err) != fault.Denied {
		t.Errorf("the starter approved: %v", err)
	}
	stale, now := 40, 20
	if err := p.Approve(t.Context(), st.ID, bob, "looked at another step", &stale); fault.KindOf(err) != fault.Conflict {
		t.Errorf("an approval of another step: %v", err)
	}
	if err := p.Approve(t.Context(), st.ID, bob, "looks good", &now); err != nil {
		t.Errorf("approve: %v", err)
	}
	p.wait(st.ID, "the second gate", func(s State) bool { return s.Awaiting && s.Share == 40 })
	if err := p.Abort(t.Context(), st.ID, bob, "phones ring"); err != nil {
		t.Errorf("abort: %v", err)
	}
	done = p.wait(st.ID, "abort", in(PhaseAborted))
	last := done.History[len(done.History)-1]
	if last.Actor != bob || last.Reason != "phones ring" || done.History[2].Actor != bob || p.w.cur.Stable != "v1" || p.w.cur.Basis != 0 {
		t.Errorf("aborted as %+v, then %+v", done.History, p.w.cur)
	}
	p.record("rollout-v2-aborted.json")

	page, next, err := p.List(t.Context(), "", 2)
	if err != nil || len(page) != 2 || page[0].ID != st.ID || next == "" {
		t.Fatalf("list: %d, %q, %v", len(page), next, err)
	}
	if rest, next, err := p.List(t.Context(), next, 50); err != nil || len(rest) < 1 || next != "" {
		t.Errorf("the rest: %d, %q, %v", len(rest), next, err)
	}
	seen, left, err := p.Evaluations(t.Context(), done)
	if err != nil || seen == nil || seen.Evidence.Hash() != last.Evidence {
		t.Fatalf("the last look at an aborted rollout: %+v %v", seen, err)
	}
	for _, h := range done.History[1:] {
		if evaluation, ok := left[h.Evidence]; !ok || evaluation.Evidence.Phase != h.From || Verdict(evaluation.Evidence, evaluation.Thresholds).Outcome != Pass {
			t.Errorf("%s was left on %+v", h.From, evaluation.Decision)
		}
	}
}

// TestTemporalIsKilledDuringARollout: the assignment stays, the abort works past Temporal, and when Temporal is back the workflow
// finds that it was taken back and ends without a second word.
func TestTemporalIsKilledDuringARollout(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, Config{})
	p.callTimeout = 3 * time.Second // every call after the outage waits it out
	p.serve()
	p.w.change(func() { // everything passes, but the step at 20 goes on for ever
		p.w.stats = p.w.traffic(500, sim0, sim0)
	})
	spec := quick()
	spec.RequireApproval = []int{20}
	st, err := p.StartRollout(t.Context(), spec, alice)
	if err != nil {
		t.Fatal(err)
	}
	p.wait(st.ID, "the gate", func(s State) bool { return s.Awaiting })
	if err := p.Ready(t.Context()); err != nil {
		t.Errorf("ready: %v", err)
	}
	stray, err := New(Config{Address: p.server.Address(), Namespace: "elsewhere"}, p.w.deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	if err := stray.Ready(t.Context()); !fault.Is(err, fault.CodeWorkflowUnavailable) {
		t.Errorf("ready without its namespace: %v", err)
	}
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	if b := p.w.bases(); b[len(b)-1] != 2000 {
		t.Errorf("the assignment moved when Temporal died: %v", b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.Ready(ctx); !fault.Is(err, fault.CodeWorkflowUnavailable) {
		t.Errorf("ready: %v", err)
	}
	if err := p.Approve(ctx, st.ID, bob, "go", nil); !fault.Is(err, fault.CodeWorkflowUnavailable) {
		t.Errorf("approve: %v", err)
	}
	if err := p.Abort(ctx, st.ID, bob, "now"); err != nil {
		t.Fatalf("abort without Temporal: %v", err)
	}
	if p.w.cur.Rollout != "" || p.w.cur.Basis != 0 || p.w.cur.Stable != "v1" {
		t.Errorf("after the abort: %+v", p.w.cur)
	}
	if _, err := p.StartRollout(ctx, quick(), alice); !fault.Is(err, fault.CodeWorkflowUnavailable) {
		t.Errorf("start: %v", err)
	}
	p.restart()
	until(t, "the end of the workflow", func() bool {
		d, err := p.client.DescribeWorkflowExecution(t.Context(), workflowID("m"), "")
		return err == nil && d.WorkflowExecutionInfo.Status == enums.WORKFLOW_EXECUTION_STATUS_COMPLETED
	}, func() any { return nil })
	done, err := p.Get(t.Context(), st.ID)
	if err != nil || done.Phase != PhaseAborted || path(done) != "baseline canary-20 aborted" {
		t.Errorf("the record says %q, %v", path(done), err)
	}
	n := 0
	for _, r := range p.w.records {
		if r.Detail["to"] == PhaseAborted {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d audit records of one abort", n)
	}
}

// TestScheduleOnARealServer: the schedule has the plan's edges, and firing it brings the engine to the slot of the hour.
func TestScheduleOnARealServer(t *testing.T) {
	t.Parallel()
	plan := office()
	p := newPlatform(t, Config{Capacity: plan})
	p.callTimeout = 5 * time.Second // a call during the outage waits it out
	var mu sync.Mutex
	clock := at(t, "Asia/Shanghai", "2026-11-02 06:59:00")
	p.plan.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	p.serve()
	engine := func(want ...int) {
		t.Helper()
		until(t, "the change of the engine", func() bool {
			p.w.mu.Lock()
			defer p.w.mu.Unlock()
			return slices.Equal(p.w.engine, want)
		}, func() any { return p.w.engine })
	}
	engine(3) // at the start, without waiting for an edge
	h := p.client.ScheduleClient().GetHandle(t.Context(), capacityScheduleID)
	var d *client.ScheduleDescription
	describe := func(edges int) {
		t.Helper()
		until(t, "the schedule", func() bool {
			var err error
			d, err = h.Describe(t.Context())
			return err == nil && len(d.Schedule.Spec.Calendars) == edges
		}, func() any { return d })
	}
	describe(2)
	if s := d.Schedule.Spec; s.TimeZoneName != "Asia/Shanghai" || d.Schedule.Policy.CatchupWindow != time.Minute ||
		d.Schedule.Policy.Overlap != enums.SCHEDULE_OVERLAP_POLICY_SKIP {
		t.Errorf("schedule %+v %+v", s, d.Schedule.Policy)
	}
	for _, next := range d.Info.NextActionTimes {
		local := next.In(at(t, "Asia/Shanghai", "2026-11-02 00:00:00").Location())
		if h := local.Hour(); local.Minute() != 0 || h != 7 && h != 22 || local.Weekday() == time.Sunday || local.Weekday() == time.Saturday {
			t.Errorf("it would fire at %s", local)
		}
	}
	mu.Lock()
	clock = clock.Add(time.Minute)
	mu.Unlock()
	if err := h.Trigger(t.Context(), client.ScheduleTriggerOptions{}); err != nil {
		t.Fatal(err)
	}
	engine(3, 8)
	plan.Peak = append(plan.Peak, scaling.Window{Days: []int{6}, From: "10:00", To: "12:00"})
	plan.PeakConcurrency = 9
	if _, err := p.SetCapacity(t.Context(), plan, alice, "more on Saturdays"); err != nil {
		t.Fatal(err)
	}
	engine(3, 8, 9)
	describe(4)
	if c, err := p.Capacity(t.Context()); err != nil || c.Slot != Peak || c.Concurrency != 9 || c.Source != fromAdmin {
		t.Errorf("in force: %+v, %v", c, err)
	}

	// The schedule goes with the plan, also if Temporal is away when the plan is removed.
	if err := p.server.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c, err := p.RemoveCapacity(t.Context(), alice, "no plan"); err != nil || c.Concurrency != configured || c.Configured != configured || !c.Plan.IsZero() {
			t.Errorf("removed: %+v, %v", c, err)
		}
	}
	engine(3, 8, 9, configured)
	p.restart()
	until(t, "the end of the schedule", func() bool {
		_, err := h.Describe(t.Context())
		absent := (*serviceerror.NotFound)(nil)
		return errors.As(err, &absent)
	}, func() any { return nil })
	if c, err := p.Capacity(t.Context()); err != nil || c.Concurrency != configured || !c.Plan.IsZero() {
		t.Errorf("in force: %+v, %v", c, err)
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld()
	s, err := New(Config{Address: "127.0.0.1:1"}, w.deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	tests := map[string]struct {
		spec  func(*Spec)
		world func(*world)
		want  fault.Code
	}{
		"no model":           {func(s *Spec) { s.Model = "" }, nil, fault.CodeInvalidValue},
		"falling steps":      {func(s *Spec) { s.Steps = []int{40, 20, 100} }, nil, fault.CodeInvalidValue},
		"not to the end":     {func(s *Spec) { s.Steps = []int{40, 80} }, nil, fault.CodeInvalidValue},
		"nothing":            {func(s *Spec) { s.Steps = []int{0, 100} }, nil, fault.CodeInvalidValue},
		"no time":            {func(s *Spec) { s.Deadline = s.Dwell }, nil, fault.CodeInvalidValue},
		"gate nowhere":       {func(s *Spec) { s.RequireApproval = []int{30} }, nil, fault.CodeInvalidValue},
		"alpha":              {func(s *Spec) { s.Thresholds.PromoteAlpha = 0.9 }, nil, fault.CodeInvalidValue},
		"unknown version":    {func(s *Spec) { s.Candidate = "v9" }, nil, fault.CodeNotFound},
		"stable itself":      {func(s *Spec) { s.Candidate = "v1" }, nil, fault.CodeConflict},
		"another is running": {func(*Spec) {}, func(w *world) { w.cur.Rollout = "r-0" }, fault.CodeConflict},
		"nothing to compare": {func(*Spec) {}, func(w *world) { w.cur.Stable = "" }, fault.CodeConflict},
		"no such feature":    {func(s *Spec) { s.AcceptLosses = []string{"tools", "moon"} }, nil, fault.CodeInvalidValue},
		"a feature less":     {func(*Spec) {}, func(w *world) { w.can["v2"] = Abilities{[]string{"chat"}, 4096} }, fault.CodeCandidateLacks},
		"shorter":            {func(*Spec) {}, func(w *world) { w.can["v2"] = Abilities{[]string{"chat", "tools"}, 4095} }, fault.CodeCandidateLacks},
		"one loss too many":  {func(s *Spec) { s.AcceptLosses = []string{"tools"} }, func(w *world) { w.can["v2"] = Abilities{[]string{"chat"}, 0} }, fault.CodeCandidateLacks},
		"no candidate there": {func(s *Spec) { s.AcceptLosses = []string{"tools"} }, func(w *world) { delete(w.can, "v2") }, fault.CodeConflict},
		"no stable there":    {func(*Spec) {}, func(w *world) { delete(w.can, "v1") }, fault.CodeConflict},
	}
	for name, tt := range tests {
		w.change(func() { w.cur, w.can = Assignment{Model: "m", Stable: "v1"}, newWorld().can })
		if tt.world != nil {
			w.change(func() { tt.world(w) })
		}
		spec := quick()
		tt.spec(&spec)
		if _, err := s.StartRollout(t.Context(), spec, alice); !fault.Is(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.change(func() { w.cur, w.can = Assignment{Model: "m", Stable: "v1"}, newWorld().can; w.can["v2"] = Abilities{} })
	if _, err := s.StartRollout(t.Context(), quick(), alice); !strings.Contains(fault.Public(err).Message(fault.English), "chat, tools, context_tokens") {
		t.Errorf("the refusal does not name what is lost: %v", err)
	}
	accepting := quick()
	accepting.AcceptLosses = []string{"chat", "tools", "context_tokens"}
	if _, err := s.startable(t.Context(), accepting); err != nil {
		t.Error(err)
	}
	if got, err := s.need(t.Context(), accepting, "v1"); err != nil || !reflect.DeepEqual(*got, w.can["v1"]) {
		t.Errorf("what was accepted: %+v, %v", got, err)
	}
	w.change(func() { w.cur = Assignment{Model: "m", Stable: "v1"}; w.fail.routes = errors.New("down") })
	if _, err := s.StartRollout(t.Context(), quick(), alice); err == nil {
		t.Error("started without knowing the assignment")
	}
	if all, _, err := s.List(t.Context(), "", 10); err != nil || len(all) != 0 {
		t.Errorf("refused rollouts are listed: %v %v", all, err)
	}
	if _, err := s.Get(t.Context(), "nobody"); !fault.Is(err, fault.CodeNotFound) {
		t.Errorf("get: %v", err)
	}
}

// TestUnjudged: rollouts whose candidate answers, whatever their rows say, and whose last verdict is old are found without Temporal, and no others; an
// abort ends each.
func TestUnjudged(t *testing.T) {
	t.Parallel()
	w := newWorld()
	s, err := New(Config{Address: "127.0.0.1:1"}, w.deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, now, spec := t.Context(), time.Now(), quick().withDefaults()
	// Each rollout stands on its first transition; the second is begun, and the row does not say so.
	begin := func(id string, ago time.Duration, moves ...string) {
		t.Helper()
		errs := []error{s.store.create(ctx, State{ID: id, Model: "m", Stable: "v1", Candidate: "v2", Spec: spec, Starter: alice, Phase: PhaseStarting})}
		from := PhaseStarting
		for i, to := range moves {
			tr := Transition{ID: fmt.Sprint(id, "/", i+1), Seq: i + 1, From: from, To: to, Share: shareOf(to), At: now.Add(-ago).UnixMicro(), Actor: alice}
			_, _, err := s.store.transition(ctx, id, tr)
			errs, from = append(errs, err), to
			if i == 0 {
				errs = append(errs, s.store.entered(ctx, id, tr))
			}
		}
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	begin("baseline", time.Hour, PhaseBaseline)
	begin("completes", time.Hour, "canary-100", PhaseCompleted)
	begin("done", time.Hour, PhaseRolledBack)
	begin("fresh", 20*time.Minute, "canary-20")
	begin("goes back", time.Hour, "canary-20", PhaseRolledBack)
	begin("judged", time.Hour, "canary-20")
	begin("moves", time.Hour, PhaseBaseline, "canary-20")
	begin("moves now", time.Minute, PhaseBaseline, "canary-20")
	begin("old", time.Hour, "canary-20")
	ev := Evidence{Rollout: "judged", Phase: "canary-20"}
	if err := s.store.checked(ctx, ev, Verdict(ev, spec.Thresholds), now.Add(-20*time.Minute)); err != nil {
		t.Fatal(err)
	}
	found, err := s.Unjudged(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range found {
		got = append(got, fmt.Sprintf("%s at %d since %v", u.ID, u.Share, now.Sub(u.Since).Round(time.Minute)))
	}
	if want := []string{"goes back at 20 since 1h0m0s", "moves at 20 since 1h0m0s", "old at 20 since 1h0m0s"}; !slices.Equal(got, want) {
		t.Errorf("found %q", got)
	}
	for _, u := range found {
		w.change(func() { w.cur = Assignment{Model: "m", Stable: "v1", Candidate: "v2", Basis: 2000, Rollout: u.ID} })
		if err := s.Abort(ctx, u.ID, alice, "nobody judges it"); err != nil {
			t.Error(err)
		}
		if cur, _ := w.Assignment(ctx, "m"); cur.Rollout != "" || cur.Basis != 0 {
			t.Errorf("the candidate of %s still answers: %+v", u.ID, cur)
		}
	}
	if found, err := s.Unjudged(ctx); err != nil || len(found) != 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// TestStartWithoutTemporal: the caller is told within seconds, and the row says that nothing runs.
func TestStartWithoutTemporal(t *testing.T) {
	t.Parallel()
	w := newWorld()
	s, err := New(Config{Address: "127.0.0.1:1"}, w.deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.StartRollout(t.Context(), quick(), alice); !fault.Is(err, fault.CodeWorkflowUnavailable) {
		t.Errorf("got %v", err)
	}
	all, _, err := s.List(t.Context(), "", 10)
	if err != nil || len(all) != 1 || all[0].Phase != PhaseFailed || all[0].FinishedAt == 0 {
		t.Errorf("listed: %+v %v", all, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestConfigValidate(t *testing.T) {
	t.Parallel()
	if err := (Config{Address: "temporal:7233", Capacity: office()}).Validate(); err != nil {
		t.Error(err)
	}
	bad := Config{Address: "temporal", TLSCert: "x", Capacity: Plan{Timezone: "UTC"}}
	err := bad.Validate()
	for _, want := range []string{"address", "tls_cert", "capacity"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(Config{Address: "a:1", TLSCA: "/nonexistent"}, newWorld().deps(t), slog.New(slog.DiscardHandler), nil); err == nil {
		t.Error("a missing CA file was accepted")
	}
}

// TestRunEndsWhileTemporalIsSilent: a front end that accepts connections and never answers does not keep the process from ending.
func TestRunEndsWhileTemporalIsSilent(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s, err := New(Config{Address: l.Addr().String(), Capacity: office()}, newWorld().deps(t), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cancel()
	begin := time.Now()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s to end", took)
	}
}
