package billing

import "time"

// Period is how long a budget lasts before it starts anew.
type Period string

// The periods. Days and months begin at midnight in the budget's time zone.
const (
	Day   Period = "day"
	Month Period = "month"
	Total Period = "total"
)

func (p Period) valid() bool { return p == Day || p == Month || p == Total }

// id names the period that at lies in.
func (p Period) id(at time.Time, zone *time.Location) string {
	switch p {
	case Day:
		return at.In(zone).Format(time.DateOnly)
	case Month:
		return at.In(zone).Format("2006-01")
	case Total:
		return "total"
	}
	return string(p)
}

// bounds returns the first instant of the period that at lies in and the first after it, in Unix microseconds. They enclose
// exactly the instants with the same id, also where a clock change skips midnight.
func (p Period) bounds(at time.Time, zone *time.Location) (from, to int64) {
	y, m, d := at.In(zone).Date()
	switch p {
	case Day:
		return start(y, m, d, zone), start(y, m, d+1, zone)
	case Month:
		return start(y, m, 1, zone), start(y, m+1, 1, zone)
	case Total:
	}
	return minTime, maxTime
}

const (
	minTime = -1 << 62
	maxTime = 1 << 62
)

// start returns the first instant whose local date is at least the given one.
func start(y int, m time.Month, d int, zone *time.Location) int64 {
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	noon := time.Date(y, m, d, 12, 0, 0, 0, zone).Unix()
	lo, hi := noon-36*3600, noon // lo lies before the day, hi in it
	for hi-lo > 1 {
		mid := lo + (hi-lo)/2
		if time.Unix(mid, 0).In(zone).Format(time.DateOnly) < want {
			lo = mid
		} else {
			hi = mid
		}
	}
	return time.Unix(hi, 0).UnixMicro()
}
