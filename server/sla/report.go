package sla

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"

	"github.com/sluice-project/sluice/internal/database"
	"github.com/sluice-project/sluice/internal/fault"
)

// longestSpan bounds a report.
const longestSpan = 93 * 24 * time.Hour

// Query says of what a report is wanted. An empty Tenant, Model or Class is all of them.
type Query struct {
	Tenant, Model, Class string
	// From and To are widened to whole hours.
	From, To time.Time
	// Month, as 2026-11, takes the place of From and To, and of the window of the budgets. Where the zone is half an hour off, it begins and ends half an hour
	// before its time.
	Month string
	// GroupBy are the dimensions of the lines: model, tenant and class. None: by model.
	GroupBy []string
}

// Report is the service level of a span. Sums of its lines are its total.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Zone string    `json:"zone"` // in which a month begins
	// CountedFrom is when counting began, or what lies further back than is kept. Nothing is known of before.
	CountedFrom time.Time `json:"counted_from"`
	AsOf        time.Time `json:"as_of"`
	// BudgetFrom and BudgetTo are the window of the budgets.
	BudgetFrom       time.Time   `json:"budget_from"`
	BudgetTo         time.Time   `json:"budget_to"`
	Objectives       []Objective `json:"objectives"`
	HoursOver        int         `json:"hours_over"` // hours of the span that have begun
	HoursWithTraffic int         `json:"hours_with_traffic"`
	Lines            []Line      `json:"lines"`
	Total            Line        `json:"total"`
	Hours            []Hour      `json:"hours"` // that have begun
}

// Line sums up some requests of the span. What is not known is absent: no traffic is no data.
type Line struct {
	Model  *string `json:"model,omitempty"`
	Tenant *string `json:"tenant,omitempty"`
	Class  *string `json:"class,omitempty"`
	Counts

	Availability *float64 `json:"availability,omitempty"` // share, up to 1
	FailureRate  *float64 `json:"failure_rate,omitempty"` // share
	GoodShare    *float64 `json:"good_share,omitempty"`   // of those that are under an objective
	Goodput      *float64 `json:"goodput,omitempty"`      // good requests a second
	FirstToken   *Spread  `json:"first_token,omitempty"`
	Between      *Spread  `json:"between_tokens,omitempty"`
	Total        *Spread  `json:"total,omitempty"`
	Budgets      []Budget `json:"budgets"`
	Burning      Burning  `json:"burning"`
}

// Spread says how latencies are spread, in microseconds.
type Spread struct {
	Requests int64    `json:"requests"`
	P50      int64    `json:"p50_us"`
	P95      int64    `json:"p95_us"`
	P99      int64    `json:"p99_us"`
	P999     int64    `json:"p999_us"`
	Jitter   *float64 `json:"jitter,omitempty"` // (P95 − P50) / P50
}

// Budget is what an objective allows in the window, and how fast it is spent. The rates are those of the spans that end with the report, or now.
type Budget struct {
	Of       string   `json:"of"` // availability, first_token or total
	Requests int64    `json:"requests"`
	Missed   int64    `json:"missed"`
	Allowed  float64  `json:"allowed"`
	Left     *float64 `json:"left,omitempty"` // share of the budget; below 0 where it is overspent
	Burn1h   *float64 `json:"burn_1h,omitempty"`
	Burn6h   *float64 `json:"burn_6h,omitempty"`
	Burn3d   *float64 `json:"burn_3d,omitempty"`
	Burning  Burning  `json:"burning"`
}

// Burning says whether a budget is spent too fast.
type Burning string

// What burns: fast is a budget of 30 days gone in five days or less, slow one that will not last.
const (
	BurningNot  Burning = ""
	BurningSlow Burning = "slow"
	BurningFast Burning = "fast"
)

// Hour is one hour of all lines together.
type Hour struct {
	At           time.Time `json:"at"`
	Requests     int64     `json:"requests"`
	Failures     int64     `json:"failures"`
	Availability *float64  `json:"availability,omitempty"`
	FirstToken95 *int64    `json:"first_token_p95_us,omitempty"`
	Total95      *int64    `json:"total_p95_us,omitempty"`
}

// spans are those that burn rates are about, the longest last. Those that only confirm have no name in a report.
func spans() []time.Duration {
	return []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 6 * time.Hour, 72 * time.Hour}
}

const (
	span5m = iota
	span30m
	span1h
	span6h
	span3d
	spanCount
)

// group gathers what a line is made of.
type group struct {
	counts    Counts
	latencies latencies
	window    Counts // of the budgets
	recent    [spanCount]Counts
}

func newGroup() *group { return &group{latencies: newLatencies()} }

// frame is where times of a report lie. All are unix microseconds; what lies from burnFrom[i] on and before end is in span i.
type frame struct{ from, to, budgetFrom, end int64 }

func (f frame) earliest() int64 {
	return min(f.from, f.budgetFrom, f.end-spans()[span3d].Microseconds()-slot.Microseconds())
}

// take adds the counts of a cell wherever they belong.
func (f frame) take(g *group, k key, c *cell) {
	for i := range c.counts {
		n := &c.counts[i]
		if n.Requests == 0 {
			continue
		}
		at := k.hour + int64(i)*slot.Microseconds()
		if at >= f.from && at < f.to {
			g.counts.add(n)
		}
		if at >= f.budgetFrom && at < f.end {
			g.window.add(n)
		}
		for j, span := range spans() {
			since := f.end - span.Microseconds()
			if at >= since-since%slot.Microseconds() && at < f.end {
				g.recent[j].add(n)
			}
		}
	}
}

// Report returns the service level of a span. It fails with invalid_value where the span is none or is longer than 93 days.
func (s *Service) Report(ctx context.Context, q Query) (Report, error) {
	now := s.now().UTC()
	from, to, err := s.span(q)
	if err != nil {
		return Report{}, err
	}
	r := Report{From: from, To: to, AsOf: now.Truncate(time.Millisecond), Zone: s.zone.String(), Objectives: s.objectives(q), Lines: []Line{}, Hours: []Hour{}}
	end := to
	if now.Before(end) {
		end = now
	}
	r.BudgetFrom, r.BudgetTo = time.UnixMicro(hourOf(end.Add(-s.cfg.Window).UnixMicro())).UTC(), end
	if q.Month != "" {
		r.BudgetFrom = from
	}
	f := frame{from.UnixMicro(), to.UnixMicro(), r.BudgetFrom.UnixMicro(), end.UnixMicro()}
	groups, total, hours := map[scope]*group{}, newGroup(), map[int64]*group{}
	by := q.groupBy()
	groupOf := func(k key) *group {
		name := scope{}
		if slices.Contains(by, "model") {
			name.model = k.model
		}
		if slices.Contains(by, "tenant") {
			name.tenant = k.tenant
		}
		if slices.Contains(by, "class") {
			name.class = k.class
		}
		if groups[name] == nil {
			groups[name] = newGroup()
		}
		return groups[name]
	}
	err = database.Snapshot(ctx, s.db, func(tx *gorm.DB) error {
		since, err := s.countedSince(tx)
		if err != nil {
			return err
		}
		r.CountedFrom = time.UnixMicro(max(since, now.Add(-s.cfg.Keep).UnixMicro())).UTC().Truncate(time.Second)
		err = s.each(ctx, tx, q, time.UnixMicro(f.earliest()), time.UnixMicro(max(f.to, f.end)), false, func(k key, c *cell) {
			f.take(groupOf(k), k, c)
			f.take(total, k, c)
		}, nil)
		if err != nil {
			return err
		}
		return s.each(ctx, tx, q, from, to, true, func(k key, c *cell) {
			groupOf(k).latencies.merge(c.latencies)
			total.latencies.merge(c.latencies)
			if hours[k.hour] == nil {
				hours[k.hour] = newGroup()
			}
			f.take(hours[k.hour], k, c)
			hours[k.hour].latencies.merge(c.latencies)
		}, nil)
	})
	if err != nil {
		return Report{}, database.Unavailable("report the service level", err)
	}
	seconds := min(end.Sub(from), end.Sub(r.CountedFrom)).Seconds()
	for name, g := range groups {
		if g.counts.Requests == 0 && g.window.Requests == 0 {
			continue
		}
		l := g.line(seconds)
		for _, d := range by {
			switch d {
			case "model":
				l.Model = &name.model
			case "tenant":
				l.Tenant = &name.tenant
			case "class":
				l.Class = &name.class
			}
		}
		r.Lines = append(r.Lines, l)
	}
	slices.SortFunc(r.Lines, compareLines)
	r.Total = total.line(seconds)
	r.fillHours(hours, end)
	return r, nil
}

// fillHours lists every hour that has begun. One without traffic has no figures.
func (r *Report) fillHours(hours map[int64]*group, end time.Time) {
	for at := r.From; at.Before(end) && at.Before(r.To); at = at.Add(time.Hour) {
		r.HoursOver++
		h := Hour{At: at}
		if g := hours[at.UnixMicro()]; g != nil {
			h.Requests, h.Failures = g.counts.Requests, g.counts.Failures
			h.Availability = share(g.counts.Answered, g.counts.Answered+g.counts.Failures)
			if us, ok := g.latencies.firstToken.quantile(0.95); ok {
				h.FirstToken95 = &us
			}
			if us, ok := g.latencies.total.quantile(0.95); ok {
				h.Total95 = &us
			}
		}
		if h.Requests > 0 {
			r.HoursWithTraffic++
		}
		r.Hours = append(r.Hours, h)
	}
}

// span returns what a query is about, in whole hours.
func (s *Service) span(q Query) (from, to time.Time, err error) {
	from, to = q.From, q.To
	if q.Month != "" {
		begin, err := time.ParseInLocation("2006-01", q.Month, s.zone)
		if err != nil {
			return from, to, fault.New(fault.CodeInvalidValue, "month", fault.Say("sla.month")).WithParam("month")
		}
		from, to = begin, begin.AddDate(0, 1, 0)
	}
	if !to.After(from) {
		return from, to, fault.New(fault.CodeInvalidValue, "to", fault.Say("adminapi.period")).WithParam("to")
	}
	from = time.UnixMicro(hourOf(from.UnixMicro())).UTC()
	if end := time.UnixMicro(hourOf(to.UnixMicro())).UTC(); end.Before(to) && q.Month == "" { // months follow each other
		to = end.Add(time.Hour)
	} else {
		to = end
	}
	if to.Sub(from) > longestSpan {
		return from, to, fault.New(fault.CodeInvalidValue, "to", fault.Say("sla.span", int(longestSpan/(24*time.Hour)))).WithParam("to")
	}
	return from, to, nil
}

// objectives are those that may hold for what is asked for.
func (s *Service) objectives(q Query) []Objective {
	out := []Objective{}
	for _, o := range s.cfg.Objectives {
		differs := func(has, want string) bool { return has != "" && want != "" && has != want }
		if !differs(o.Tenant, q.Tenant) && !differs(o.Model, q.Model) && !differs(o.Class, q.Class) {
			out = append(out, o)
		}
	}
	return out
}

func (q Query) groupBy() []string {
	if len(q.GroupBy) == 0 {
		return []string{"model"}
	}
	return q.GroupBy
}

// compareLines puts first what burns, and then by name.
func compareLines(a, b Line) int {
	rank := func(l Line) int { return slices.Index([]Burning{BurningFast, BurningSlow, BurningNot}, l.Burning) }
	return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(name(a.Model), name(b.Model)), strings.Compare(name(a.Tenant), name(b.Tenant)), strings.Compare(name(a.Class), name(b.Class)))
}

func share(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	s := float64(part) / float64(whole)
	return &s
}

func (g *group) line(seconds float64) Line {
	n := g.counts
	l := Line{
		Counts: n, Availability: share(n.Answered, n.Answered+n.Failures), FailureRate: share(n.Failures, n.Answered+n.Failures), GoodShare: share(n.Good, n.Judged),
		FirstToken: g.latencies.firstToken.spread(), Between: g.latencies.between.spread(), Total: g.latencies.total.spread(), Budgets: g.budgets(),
	}
	if n.Judged > 0 && seconds > 0 {
		per := float64(n.Good) / seconds
		l.Goodput = &per
	}
	for _, b := range l.Budgets {
		if b.Burning == BurningFast || l.Burning == BurningNot {
			l.Burning = b.Burning
		}
	}
	return l
}

func (h histogram) spread() *Spread {
	s := Spread{}
	for n := range maps.Values(h) {
		s.Requests += n
	}
	if s.Requests == 0 {
		return nil
	}
	for _, q := range []struct {
		of float64
		to *int64
	}{{0.5, &s.P50}, {0.95, &s.P95}, {0.99, &s.P99}, {0.999, &s.P999}} {
		*q.to, _ = h.quantile(q.of)
	}
	if s.P50 > 0 {
		j := float64(s.P95-s.P50) / float64(s.P50)
		s.Jitter = &j
	}
	return &s
}

// budgets returns those of the objectives that anything in the window or lately was under.
func (g *group) budgets() []Budget {
	out := []Budget{}
	for _, of := range []struct {
		name string
		get  func(*Counts) Spent
	}{
		{"availability", func(c *Counts) Spent { return c.Availability }},
		{"first_token", func(c *Counts) Spent { return c.FirstToken }},
		{"total", func(c *Counts) Spent { return c.Total }},
	} {
		window := of.get(&g.window)
		var recent [spanCount]Spent
		for i := range recent {
			recent[i] = of.get(&g.recent[i])
		}
		if window.Of == 0 && recent[span3d].Of == 0 {
			continue
		}
		b := Budget{Of: of.name, Requests: window.Of, Missed: window.Missed, Allowed: float64(window.Allowed) / million, Burn1h: recent[span1h].burn(), Burn6h: recent[span6h].burn(), Burn3d: recent[span3d].burn(), Burning: burning(recent)}
		if burn := window.burn(); burn != nil {
			left := 1 - *burn
			b.Left = &left
		}
		out = append(out, b)
	}
	return out
}

// burn is how many times what was allowed has missed; nil without a request.
func (s Spent) burn() *float64 {
	if s.Allowed == 0 {
		return nil
	}
	b := float64(s.Missed) * million / float64(s.Allowed)
	return &b
}

// fewMisses is how many requests must have missed before anybody is told: where there is little traffic, one says nothing.
const fewMisses = 5

// burning judges by two spans each, of which the short one says that it goes on: 14.4 over an hour spends 2 % of a budget of 30 days, 6 over six hours 5 %,
// 1 over three days 10 %. These are the thresholds of the Site Reliability Workbook.
func burning(recent [spanCount]Spent) Burning {
	over := func(long, short int, rate float64) bool {
		a, b := recent[long].burn(), recent[short].burn()
		return recent[long].Missed >= fewMisses && a != nil && b != nil && *a >= rate && *b >= rate
	}
	switch {
	case over(span1h, span5m, 14.4), over(span6h, span30m, 6):
		return BurningFast
	case over(span3d, span6h, 1):
		return BurningSlow
	}
	return BurningNot
}

// Burn is a budget of an objective that is spent too fast.
type Burn struct {
	Objective Objective
	Budget    Budget
}

// Burns returns what is spent too fast now, in the order of the objectives, and how many rows it could not read and so left out. Requests are put under the
// objective that holds now, with what they were held to when their records were stored: after a change of objectives the two differ for three days.
func (s *Service) Burns(ctx context.Context) (out []Burn, unreadable int, err error) {
	if len(s.cfg.Objectives) == 0 {
		return nil, 0, nil
	}
	end := s.now()
	groups := make([]*group, len(s.cfg.Objectives))
	for i := range groups {
		groups[i] = newGroup()
	}
	f := frame{from: end.UnixMicro(), to: end.UnixMicro(), budgetFrom: end.Add(-spans()[span3d]).UnixMicro(), end: end.UnixMicro()}
	err = s.each(ctx, s.db, Query{}, time.UnixMicro(f.earliest()), end, false, func(k key, c *cell) {
		if i := s.cfg.objectiveOf(k.scope); i >= 0 {
			f.take(groups[i], k, c)
		}
	}, func(key) { unreadable++ })
	if err != nil {
		return nil, 0, database.Unavailable("read what was counted", err)
	}
	for i, g := range groups {
		for _, b := range g.budgets() {
			if b.Burning != BurningNot {
				out = append(out, Burn{s.cfg.Objectives[i], b})
			}
		}
	}
	return out, unreadable, nil
}
