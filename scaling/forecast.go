package scaling

import (
	"math"
	"slices"
	"time"
)

// Forecaster predicts the rate of requests from the same time of earlier weeks, or of earlier days while there are no two weeks, times what the last
// half hour was above or below that. How wrong it was over the last season, against what it would have said then, gives the intervals.
// It is not safe for concurrent use.
type Forecaster struct {
	start     time.Time // of values[0]
	values    []float64 // mean rate of each step; NaN: nobody measured
	count     int       // readings in the last value
	season    int       // steps; 0: there is too little to predict from
	residuals []float64 // relative, sorted
	meanError float64
	fitted    time.Time
}

const (
	forecastStep  = 5 * time.Minute
	daySteps      = int(24 * time.Hour / forecastStep)
	keptSteps     = 5 * 7 * daySteps
	levelSteps    = 6
	refitAfter    = time.Hour
	fewResiduals  = 48
	seasonsLooked = 4
)

// Observe notes the rate at a moment, in requests a second. Readings of one step are averaged; those that come out of order or are no number are dropped.
func (f *Forecaster) Observe(at time.Time, rate float64) {
	if math.IsNaN(rate) || math.IsInf(rate, 0) || rate < 0 {
		return
	}
	at = at.Truncate(forecastStep)
	if len(f.values) == 0 || at.Sub(f.last()) > time.Duration(keptSteps)*forecastStep {
		f.start, f.values, f.count = at, []float64{rate}, 1
		f.season, f.residuals, f.fitted = 0, nil, time.Time{}
		return
	}
	i := int(at.Sub(f.start) / forecastStep)
	switch last := len(f.values) - 1; {
	case i < last:
		return
	case i == last:
		f.count++
		f.values[i] += (rate - f.values[i]) / float64(f.count)
		return
	}
	for len(f.values) < i {
		f.values = append(f.values, math.NaN())
	}
	f.values, f.count = append(f.values, rate), 1
	if over := len(f.values) - keptSteps; over > 0 {
		f.values = slices.Delete(f.values, 0, over)
		f.start = f.start.Add(time.Duration(over) * forecastStep)
	}
	if f.fitted.IsZero() || at.Sub(f.fitted) >= refitAfter {
		f.fit(at)
	}
}

func (f *Forecaster) last() time.Time {
	return f.start.Add(time.Duration(len(f.values)-1) * forecastStep)
}

// fit chooses the season and learns how wrong predictions were.
func (f *Forecaster) fit(at time.Time) {
	f.fitted, f.season, f.residuals = at, 0, nil
	switch n := len(f.values); {
	case n >= 2*7*daySteps:
		f.season = 7 * daySteps
	case n >= 2*daySteps:
		f.season = daySteps
	default:
		return
	}
	sum := 0.0
	for i := len(f.values) - f.season; i < len(f.values); i++ {
		said, ok := f.predict(i, i-levelSteps)
		if !ok || said <= 0 || math.IsNaN(f.values[i]) {
			continue
		}
		r := f.values[i]/said - 1
		f.residuals = append(f.residuals, r)
		sum += math.Abs(r)
	}
	if len(f.residuals) < fewResiduals {
		f.season, f.residuals = 0, nil
		return
	}
	f.meanError = sum / float64(len(f.residuals))
	slices.Sort(f.residuals)
}

// profile is the mean of the same step in earlier seasons, of which newer ones weigh twice as much as the one before.
func (f *Forecaster) profile(i int) (float64, bool) {
	sum, weights, w := 0.0, 0.0, 1.0
	for k := 1; k <= seasonsLooked; k, w = k+1, w/2 {
		j := i - k*f.season
		if j < 0 || j >= len(f.values) || math.IsNaN(f.values[j]) {
			continue
		}
		sum, weights = sum+w*f.values[j], weights+w
	}
	return sum / weights, weights > 0
}

// predict says the value of step i from what was known before step known.
func (f *Forecaster) predict(i, known int) (float64, bool) {
	base, ok := f.profile(i)
	if !ok {
		return 0, false
	}
	was, should := 0.0, 0.0
	for j := max(0, known-levelSteps); j < min(known, len(f.values)); j++ {
		if p, ok := f.profile(j); ok && !math.IsNaN(f.values[j]) {
			was, should = was+f.values[j], should+p
		}
	}
	if should > 0 {
		base *= min(2, max(0.5, was/should))
	}
	return base, true
}

// Band is a prediction with an interval.
type Band struct {
	Low  float64 `json:"low"`  // in requests a second; one of ten values lay below
	Mid  float64 `json:"mid"`  // the median
	High float64 `json:"high"` // one of ten values lay above
	// At is the quantile that was asked for.
	At    float64 `json:"at"`
	Error float64 `json:"error"` // mean relative error over the last season
}

// At predicts the rate at a moment, with the quantile q of it. ok is false while too little is known: less than two days, or nothing of that time.
func (f *Forecaster) At(t time.Time, q float64) (b Band, ok bool) {
	if f == nil || f.season == 0 || t.Before(f.start) {
		return Band{}, false
	}
	i := int(t.Sub(f.start) / forecastStep)
	if i-len(f.values) >= f.season { // what is asked is further away than what repeats
		return Band{}, false
	}
	mid, ok := f.predict(i, min(i, len(f.values)))
	if !ok {
		return Band{}, false
	}
	at := func(q float64) float64 { return max(0, mid*(1+f.residual(q))) }
	return Band{Low: at(0.1), Mid: at(0.5), High: at(0.9), At: at(q), Error: f.meanError}, true
}

func (f *Forecaster) residual(q float64) float64 {
	return f.residuals[min(len(f.residuals)-1, max(0, int(q*float64(len(f.residuals)))))]
}

// Until returns the highest prediction, by its quantile q, from a moment to the end of a span.
func (f *Forecaster) Until(from time.Time, span time.Duration, q float64) (most Band, ok bool) {
	for t := from; ; t = t.Add(forecastStep) {
		if t.After(from.Add(span)) {
			t = from.Add(span)
		}
		if b, there := f.At(t, q); there && (!ok || b.At > most.At) {
			most, ok = b, true
		}
		if !t.Before(from.Add(span)) {
			return most, ok
		}
	}
}

// Peak returns the highest mean rate of a step within the last week, and whether anything is known of it.
func (f *Forecaster) Peak() (peak float64, ok bool) {
	if f == nil {
		return 0, false
	}
	for _, v := range f.values[max(0, len(f.values)-7*daySteps):] {
		if !math.IsNaN(v) {
			peak, ok = max(peak, v), true
		}
	}
	return peak, ok
}

// LeadTime learns how long instances take from the order to readiness. The zero value knows nothing. It is not safe for concurrent use.
type LeadTime struct {
	seen []time.Duration // the last ones, newest last
}

const (
	leadKept  = 64
	fewLeads  = 20
	firstLead = 2 * time.Minute // until an instance has come
	mostLead  = time.Hour
)

// Observe notes how long an instance took. Times below zero, as after a change of the clock, are dropped.
func (l *LeadTime) Observe(d time.Duration) {
	if d < 0 {
		return
	}
	if l.seen = append(l.seen, d); len(l.seen) > leadKept {
		l.seen = slices.Delete(l.seen, 0, len(l.seen)-leadKept)
	}
}

// Ahead is how long before a need an instance is to be ordered: one and a half times what 95 of 100 took, at most an hour. While few have come it is not
// below two minutes: the few may have been the quick ones.
func (l *LeadTime) Ahead() time.Duration {
	if len(l.seen) == 0 {
		return firstLead
	}
	sorted := slices.Sorted(slices.Values(l.seen))
	p95 := sorted[min(len(sorted)-1, int(math.Ceil(0.95*float64(len(sorted))))-1)]
	ahead := p95 * 3 / 2
	if len(sorted) < fewLeads {
		ahead = max(firstLead, ahead)
	}
	return min(mostLead, ahead)
}
