package sla

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/audit"
	"github.com/sluice-project/sluice/audit/audittest"
	"github.com/sluice-project/sluice/audit/record"
	"github.com/sluice-project/sluice/migrations/dbtest"
)

// noon is an hour in which tests look at what was before.
func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func service(t *testing.T, db *gorm.DB, cfg Config) *Service {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s := New(cfg, db, time.UTC, slog.New(slog.DiscardHandler))
	s.now, s.since = func() time.Time { return noon() }, new(int64)
	return s
}

func request(n int, at time.Time, change func(*record.Event)) record.Event {
	e := record.Event{
		ID: fmt.Sprintf("id-%d", n), Request: fmt.Sprintf("r-%d", n), Stage: record.StageOutcome, Time: at.UnixMicro(), Tenant: "bank", Action: "chat.completions",
		Model: record.Model{Asked: "m", Routed: "m@1"}, Decision: "allow", Outcome: "ok", Status: 200,
		Usage: record.Usage{CompletionTokens: 11}, Latency: record.Latency{FirstToken: 200_000, Total: 1_200_000}, Detail: map[string]string{},
	}
	if change != nil {
		change(&e)
	}
	return e
}

func promises() Config {
	return Config{Objectives: []Objective{
		{Availability: 99.9},
		{Model: "m", Availability: 99, FirstToken: Latency{95, 800 * time.Millisecond}, Total: Latency{99, 3 * time.Second}},
		{Model: "m", Tenant: "gold", Availability: 99.999, FirstToken: Latency{99, 300 * time.Millisecond}},
		{Class: "batch", Availability: 90},
	}}
}

// random are requests of three days, of every kind, in no order.
func random(r *rand.Rand, n int) []record.Event {
	out := make([]record.Event, n)
	for i := range out {
		at := noon().Add(-time.Duration(r.Int64N(int64(72 * time.Hour))))
		out[i] = request(i, at, func(e *record.Event) {
			e.Tenant, e.Model.Asked = []string{"bank", "gold", "shop"}[r.IntN(3)], []string{"m", "m@2", "n"}[r.IntN(3)]
			if r.IntN(4) == 0 {
				e.Detail["class"] = []string{"batch", "interactive"}[r.IntN(2)]
			}
			e.Latency.Total = int64(1e3 * (1 + r.ExpFloat64()*2e3))
			e.Latency.FirstToken = r.Int64N(e.Latency.Total + 1)
			e.Usage.CompletionTokens = r.Int64N(100)
			switch r.IntN(12) {
			case 0:
				e.Outcome, e.Status, e.ErrorKind = "failed", 503, "unavailable"
			case 1:
				e.Outcome, e.Status, e.ErrorKind = "refused", []int{429, 403, 503, 504}[r.IntN(4)], "x"
				switch {
				case e.Status == 504:
					e.ErrorKind = "timeout"
				case r.IntN(2) == 0:
					e.Detail["limit"] = "caller"
				}
			case 2:
				e.Outcome, e.Status, e.Latency.FirstToken = "aborted", 499, r.Int64N(2)
				if r.IntN(3) == 0 {
					e.Detail["cut"] = "stopping"
				}
			case 3:
				e.Detail["parent"] = "another"
			case 4:
				e.Action = "rag.search"
			case 5:
				e.Stage = record.StageAdmitted
			case 6:
				e.Detail["fallback_of"] = "another"
			}
		})
	}
	return out
}

// exact is the report's promise, said once more over all events: what doc.go says, without bins, hours or sums.
type exact struct {
	requests, answered, failures, refused, left int64
	firstToken, total                           []int64
}

func exactly(events []record.Event, q Query) exact {
	var x exact
	for _, e := range events {
		model, _, _ := strings.Cut(e.Model.Asked, "@")
		at := time.UnixMicro(e.Time)
		if e.Stage != record.StageOutcome || e.Action != "chat.completions" || e.Detail["parent"] != "" || at.Before(q.From) || !at.Before(q.To) ||
			q.Tenant != "" && q.Tenant != e.Tenant || q.Model != "" && q.Model != model || q.Class != "" && q.Class != e.Detail["class"] {
			continue
		}
		x.requests++
		limit := int64(0) // how long the objective lets somebody wait who then leaves
		switch {
		case e.Detail["class"] == "batch": // its objective has no latency
		case model == "m" && e.Tenant != "gold":
			limit = 3_000_000
		}
		switch {
		case e.Outcome == "failed", e.Outcome == "refused" && e.Status == 503 && e.Detail["limit"] == "", e.Detail["cut"] != "", e.Outcome == "aborted" && e.Latency.FirstToken == 0 && limit > 0 && e.Latency.Total > limit:
			x.failures++
		case e.Outcome == "ok":
			x.answered++
			x.total = append(x.total, e.Latency.Total)
			if e.Latency.FirstToken > 0 {
				x.firstToken = append(x.firstToken, e.Latency.FirstToken)
			}
		case e.Outcome == "refused":
			x.refused++
		default:
			x.left++
		}
	}
	return x
}

func quantileOf(all []int64, q float64) int64 {
	all = slices.Sorted(slices.Values(all))
	for i, v := range all {
		if float64(i+1) >= q*float64(len(all)) {
			return v
		}
	}
	return 0
}

func compareSpread(t *testing.T, what string, got *Spread, all []int64) {
	t.Helper()
	if len(all) == 0 {
		if got != nil {
			t.Errorf("%s: %+v of no request", what, got)
		}
		return
	}
	if got == nil || got.Requests != int64(len(all)) {
		t.Fatalf("%s: %+v of %d requests", what, got, len(all))
	}
	for q, us := range map[float64]int64{0.5: got.P50, 0.95: got.P95, 0.99: got.P99, 0.999: got.P999} {
		if true := quantileOf(all, q); us < true || us > true+true/64 {
			t.Errorf("%s: the quantile %g is %d, and is given as %d", what, q, true, us)
		}
	}
}

// TestReportIsWhatTheRecordsSay: records that come in any order, through the audit log and in many batches, give under every filter the counts that
// they give when they are counted one by one, and quantiles within 1/64; lines add up to the total.
func TestReportIsWhatTheRecordsSay(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, promises())
		events := random(rand.New(rand.NewPCG(7, 11)), 700)
		l := audittest.Open(t, db, func(c *audit.Config) { c.Rollup = s.Add })
		for i, e := range events {
			e.ID = "" // the log gives one
			if _, err := l.Log.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			if i%200 == 0 {
				l.Flush()
			}
		}
		l.Flush()
		for _, q := range []Query{
			{From: noon().Add(-72 * time.Hour), To: noon()},
			{From: noon().Add(-5 * time.Hour), To: noon().Add(-2 * time.Hour)},
			{From: noon().Add(-72 * time.Hour), To: noon(), Tenant: "gold"},
			{From: noon().Add(-72 * time.Hour), To: noon(), Model: "m", Class: "batch"},
			{From: noon().Add(-30 * time.Hour), To: noon(), Tenant: "shop", Model: "n", GroupBy: []string{"tenant", "class"}},
			{From: noon().Add(-72 * time.Hour), To: noon(), Tenant: "nobody"},
		} {
			r, err := s.Report(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			x := exactly(events, q)
			n := r.Total.Counts
			if got := (exact{n.Requests, n.Answered, n.Failures, n.Refused, n.Left, nil, nil}); fmt.Sprint(got) != fmt.Sprint(exact{x.requests, x.answered, x.failures, x.refused, x.left, nil, nil}) {
				t.Errorf("%+v: %+v, want %+v", q, got, x)
			}
			compareSpread(t, "first token", r.Total.FirstToken, x.firstToken)
			compareSpread(t, "total", r.Total.Total, x.total)
			if (r.Total.Availability == nil) != (x.answered+x.failures == 0) {
				t.Errorf("%+v: the availability of %d requests is %v", q, x.answered+x.failures, r.Total.Availability)
			}
			var sum Counts
			for _, line := range r.Lines {
				sum.add(&line.Counts)
			}
			if sum != n {
				t.Errorf("%+v: the lines add up to %+v, and the total is %+v", q, sum, n)
			}
			var hours int64
			for _, h := range r.Hours {
				hours += h.Requests
				if (h.Requests == 0) && h.Availability != nil {
					t.Errorf("an hour without traffic has an availability of %v", *h.Availability)
				}
			}
			if hours != n.Requests {
				t.Errorf("%+v: the hours have %d requests, the total %d", q, hours, n.Requests)
			}
		}
	})
}

// TestMonthByHand: a month of which everything is worked out by hand.
func TestMonthByHand(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	s := service(t, db, Config{Objectives: []Objective{{Model: "m", Availability: 99.9, FirstToken: Latency{90, 800 * time.Millisecond}, Total: Latency{50, 2 * time.Second}}}})
	var events []record.Event
	at := time.Date(2026, 11, 3, 8, 0, 0, 0, time.UTC)
	for i := range 1000 {
		events = append(events, request(i, at.Add(time.Duration(i)*time.Second), func(e *record.Event) {
			switch {
			case i < 2:
				e.Outcome, e.Status = "failed", 500
			case i < 102:
				e.Latency.FirstToken = 900_000 // too late
			}
		}))
	}
	// Lost on the last of October, and found in November.
	events = append(events, request(2000, time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC), func(e *record.Event) {
		e.Outcome, e.Status, e.Detail["by"], e.Latency = "failed", 500, "reconciliation", record.Latency{Total: (4 * time.Hour).Microseconds()}
	}))
	if err := db.Transaction(func(tx *gorm.DB) error { return s.Add(tx, events) }); err != nil {
		t.Fatal(err)
	}
	r, err := s.Report(t.Context(), Query{Month: "2026-11"})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Lines[0]
	for name, x := range map[string][2]float64{
		"requests": {float64(l.Requests), 1000}, "failures": {float64(l.Failures), 2}, "availability": {*l.Availability, 0.998}, "good": {float64(l.Good), 898},
		"good share": {*l.GoodShare, 0.898}, "goodput": {*l.Goodput * noon().Sub(r.From).Seconds(), 898}, "hours with traffic": {float64(r.HoursWithTraffic), 1},
		"hours over": {float64(r.HoursOver), 19*24 + 12}, "allowed failures": {l.Budgets[0].Allowed, 1}, "left": {*l.Budgets[0].Left, -1},
		"slow": {float64(l.Budgets[1].Missed), 100}, "allowed slow": {l.Budgets[1].Allowed, 99.8}, "total missed": {float64(l.Budgets[2].Missed), 0},
		"between tokens": {float64(l.Between.P50), float64(upperEdge(binOf(100_000)))},
	} {
		if d := x[0] - x[1]; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v, want %v", name, x[0], x[1])
		}
	}
	october, err := s.Report(t.Context(), Query{Month: "2026-10"})
	if err != nil || october.Total.Failures != 1 {
		t.Errorf("October has %d failures: %v", october.Total.Failures, err)
	}
	if len(l.Budgets) != 3 || l.Budgets[0].Burn1h != nil {
		t.Errorf("an hour without traffic burns: %+v", l.Budgets)
	}
}

// TestBurning: what burns by both of its spans is told, with enough misses only.
func TestBurning(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		requests, failures int
		from, to           time.Duration // ago
		want               Burning
	}{
		"an outage now":              {100, 20, 50 * time.Minute, 0, BurningFast},
		"an outage that is over":     {100, 20, 3 * time.Hour, 40 * time.Minute, BurningSlow},
		"one of yesterday":           {100, 20, 30 * time.Hour, 20 * time.Hour, BurningNot},
		"a little for days":          {9000, 30, 70 * time.Hour, 0, BurningSlow},
		"one failure of few":         {20, 1, 50 * time.Minute, 0, BurningNot},
		"within the budget":          {9000, 5, 70 * time.Hour, 0, BurningNot},
		"nothing in the last 5 days": {100, 100, 200 * time.Hour, 130 * time.Hour, BurningNot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := dbtest.SQLite(t)
			s := service(t, db, Config{Objectives: []Objective{{Availability: 99.9}}})
			var events []record.Event
			for i := range x.requests {
				at := noon().Add(-x.from + time.Duration(int64(x.from-x.to)*int64(i)/int64(x.requests)))
				events = append(events, request(i, at, func(e *record.Event) {
					if i*x.failures/x.requests != (i+1)*x.failures/x.requests {
						e.Outcome, e.Status = "failed", 500
					}
				}))
			}
			if err := db.Transaction(func(tx *gorm.DB) error { return s.Add(tx, events) }); err != nil {
				t.Fatal(err)
			}
			burns, _, err := s.Burns(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := BurningNot
			if len(burns) > 0 {
				got = burns[0].Budget.Burning
			}
			r, err := s.Report(t.Context(), Query{From: noon().Add(-time.Hour), To: noon()})
			if err != nil || got != x.want || r.Total.Burning != x.want {
				t.Errorf("%q and %q, want %q (%v)", got, r.Total.Burning, x.want, err)
			}
		})
	}
}

// TestUnreadableHour: an hour that cannot be read, or has numbers of a later release, keeps no record from being stored, keeps what it has, makes reports fail,
// and hides no budget that burns.
func TestUnreadableHour(t *testing.T) {
	t.Parallel()
	later := append([]byte{form, 0, 18}, make([]byte, 18)...)
	for _, odd := range [][]byte{{9, 9}, later} {
		db := dbtest.SQLite(t)
		s := service(t, db, Config{Objectives: []Objective{{Availability: 99.9}}})
		add := func(events ...record.Event) {
			if err := db.Transaction(func(tx *gorm.DB) error { return s.Add(tx, events) }); err != nil {
				t.Fatal(err)
			}
		}
		add(request(1, noon().Add(-time.Hour), nil))
		if err := db.Exec("UPDATE sla_hours SET counts = ?", odd).Error; err != nil {
			t.Fatal(err)
		}
		add(request(2, noon().Add(-time.Hour), nil))
		var left []byte
		if err := db.Raw("SELECT counts FROM sla_hours").Row().Scan(&left); err != nil || string(left) != string(odd) {
			t.Errorf("%v: %v", left, err)
		}
		if _, err := s.Report(t.Context(), Query{From: noon().Add(-time.Hour), To: noon()}); err == nil {
			t.Error("a report of what cannot be read")
		}
		for i := range 10 {
			add(request(10+i, noon().Add(-time.Minute), func(e *record.Event) { e.Tenant, e.Outcome = "shop", "failed" }))
		}
		if burns, unreadable, err := s.Burns(t.Context()); err != nil || unreadable != 1 || len(burns) != 1 {
			t.Errorf("%v, %d rows cannot be read: %v", burns, unreadable, err)
		}
	}
}

// TestCountedSince: records of before the migration are not counted, also those that come late, and the report says since when others are.
func TestCountedSince(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *gorm.DB) {
		s := service(t, db, Config{})
		s.since, s.now = nil, time.Now
		now := time.Now()
		lost := request(3, now.Add(time.Minute), func(e *record.Event) {
			e.Outcome, e.Detail["by"], e.Latency.Total = "failed", "reconciliation", (24 * time.Hour).Microseconds()
		})
		events := []record.Event{request(1, now.Add(-24*time.Hour), nil), request(2, now.Add(time.Minute), nil), lost}
		if err := db.Transaction(func(tx *gorm.DB) error { return s.Add(tx, events) }); err != nil {
			t.Fatal(err)
		}
		r, err := s.Report(t.Context(), Query{From: now.Add(-48 * time.Hour), To: now.Add(time.Hour)})
		if since := now.Sub(r.CountedFrom); err != nil || r.Total.Requests != 1 || since < 0 || since > time.Hour {
			t.Errorf("%d requests, counted since %s: %v", r.Total.Requests, r.CountedFrom, err)
		}
	})
}

// TestReplicasWaitInNoCircle: two replicas that count in the same hours, one of them in more rows than are made at once, both end. A third one holds the row
// that both need, so that each has made what rows it can before any is locked.
func TestReplicasWaitInNoCircle(t *testing.T) {
	t.Parallel()
	db := dbtest.Postgres(t)
	s := service(t, db, Config{})
	of := func(from, to int) (out []record.Event) {
		for i := from; i < to; i++ {
			out = append(out, request(i, noon(), func(e *record.Event) { e.Tenant = fmt.Sprintf("t%04d", i) }))
		}
		return out
	}
	add := func(events []record.Event) error {
		return db.Transaction(func(tx *gorm.DB) error { return s.Add(tx, events) })
	}
	if err := add(of(0, 100)); err != nil {
		t.Fatal(err)
	}
	third := db.Begin()
	if err := third.Exec("SELECT 1 FROM sla_hours WHERE tenant = 't0000' FOR UPDATE").Error; err != nil {
		t.Fatal(err)
	}
	waiting := func(n int) {
		for until := time.Now().Add(20 * time.Second); ; {
			var have int
			if err := db.Raw("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&have).Error; err != nil || time.Now().After(until) {
				t.Fatalf("%d replicas wait: %v", have, err)
			}
			if have == n {
				return
			}
		}
	}
	ended := make(chan error, 2)
	go func() { ended <- add(of(0, 400)) }()
	waiting(1)
	go func() { ended <- add(append(of(0, 100), of(300, 400)...)) }()
	waiting(2)
	if err := third.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	r, err := s.Report(t.Context(), Query{From: noon(), To: noon().Add(time.Hour)})
	if err != nil || r.Total.Requests != 100+400+200 {
		t.Errorf("%d requests: %v", r.Total.Requests, err)
	}
}

// TestNamesOfTheCaller: names that a caller makes up name no rows, whatever became of the request; one that an objective names does.
func TestNamesOfTheCaller(t *testing.T) {
	t.Parallel()
	cells := map[key]*cell{}
	for i := range 50 {
		e := request(i, noon(), func(e *record.Event) {
			e.Model, e.Outcome, e.Status = record.Model{Asked: fmt.Sprint("made-up-", i)}, "refused", 404
			if i%2 == 0 {
				e.Status = 503
			}
			e.Detail["class"] = fmt.Sprint("made-up-", i)
		})
		promises().count(cells, &e, 0)
		e.Outcome, e.Status = "failed", 503
		promises().count(cells, &e, 0)
	}
	named := request(99, noon(), func(e *record.Event) { e.Model.Routed, e.Outcome, e.Status = "", "failed", 503 })
	promises().count(cells, &named, 0)
	if len(cells) != 2 || cells[key{noon().UnixMicro(), scope{model: "m", tenant: "bank"}}] == nil {
		t.Errorf("%d rows", len(cells))
	}
}

// TestOldHoursGo: hours are removed after their time, and no others.
func TestOldHoursGo(t *testing.T) {
	t.Parallel()
	db := dbtest.SQLite(t)
	s := service(t, db, Config{})
	for i, age := range []time.Duration{0, 399 * 24 * time.Hour, 401 * 24 * time.Hour} {
		err := db.Transaction(func(tx *gorm.DB) error {
			s.pruned = time.Time{}
			return s.Add(tx, []record.Event{request(i, noon().Add(-age), nil)})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var n int64
	if err := db.Model(&hourRow{}).Count(&n).Error; err != nil || n != 2 {
		t.Errorf("%d hours: %v", n, err)
	}
}

// TestObjectives: what is refused, and which of several holds.
func TestObjectives(t *testing.T) {
	t.Parallel()
	for _, bad := range []Config{
		{Window: 90 * time.Minute},
		{Window: 100 * 24 * time.Hour},
		{Keep: time.Hour},
		{Objectives: []Objective{{}}},
		{Objectives: []Objective{{Availability: 100}}},
		{Objectives: []Objective{{Availability: 99}, {Availability: 98}}},
		{Objectives: []Objective{{Class: "urgent", Availability: 99}}},
		{Objectives: []Objective{{FirstToken: Latency{95, 0}}}},
		{Objectives: []Objective{{Total: Latency{0, time.Second}}}},
		{Objectives: make([]Objective, maxObjectives+1)},
		{Objectives: []Objective{{Model: "m@2", Availability: 99}}},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	c := promises()
	for want, s := range map[int]scope{0: {"n", "bank", ""}, 1: {"m", "bank", ""}, 2: {"m", "gold", "standard"}, 3: {"n", "gold", "batch"}} {
		if got := c.objectiveOf(s); got != want {
			t.Errorf("%+v: %d, want %d", s, got, want)
		}
	}
	if (Config{Objectives: []Objective{{Availability: 99}}}).objectiveOf(scope{class: "batch"}) != -1 {
		t.Error("something is promised of a batch")
	}
	for percent, want := range map[float64]int64{99.9: 1000, 99.99: 100, 99.999: 10, 99.9999: 1, 95: 50_000} {
		if got := allowed(percent); got != want {
			t.Errorf("%g: %d of a million", percent, got)
		}
	}
}

// TestBins: a bin holds its values, bins follow each other without a gap, and are no wider than 1/64.
func TestBins(t *testing.T) {
	t.Parallel()
	last := int64(-1)
	for bin := range int64(2000) {
		edge := upperEdge(bin)
		if binOf(last+1) != bin || binOf(edge) != bin || edge-(last+1) > (last+1)/64 {
			t.Fatalf("bin %d goes from %d to %d", bin, last+1, edge)
		}
		last = edge
	}
	if binOf(-5) != 0 || binOf(1<<62) > maxIndex {
		t.Error("the ends")
	}
}

// FuzzDecode: nothing that a row may hold breaks its reader, and what is read is written alike.
func FuzzDecode(f *testing.F) {
	c := newCell()
	c.counts[3].Requests, c.counts[3].Total.Allowed = 5, 1000
	c.latencies.total[70], c.latencies.between[3000] = 4, 1
	f.Add(encodeCounts(&c.counts), c.latencies.encode())
	f.Add([]byte{form}, []byte{form, 0, 0, 0})
	f.Fuzz(func(t *testing.T, counts, lat []byte) {
		r := hourRow{Counts: counts, Latencies: lat}
		got, err := r.cell()
		if err != nil {
			return
		}
		again, err := hourRow{Counts: encodeCounts(&got.counts), Latencies: got.latencies.encode()}.cell()
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.counts {
			if got.counts[i].Requests > 0 && got.counts[i] != again.counts[i] {
				t.Errorf("slot %d", i)
			}
		}
		if fmt.Sprint(got.latencies) != fmt.Sprint(again.latencies) {
			t.Error("latencies")
		}
	})
}
