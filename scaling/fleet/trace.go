package fleet

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxLine  = 1 << 20
	maxSteps = 4 << 20
)

// Read reads a recorded trace, in any of the forms that are published: CSV with a header whose columns are those of the Azure LLM inference traces
// (TIMESTAMP, ContextTokens, GeneratedTokens), of BurstGPT (Timestamp, Request tokens, Response tokens) or ours (seconds, input_tokens, output_tokens),
// or the JSON lines of Mooncake (timestamp in milliseconds, input_length, output_length). Rows need not be in order of time. Requests without any token
// are left out: in these traces they are failures. step is the length of the steps.
func Read(r io.Reader, start time.Time, step time.Duration) (Trace, error) {
	if step <= 0 {
		return Trace{}, errors.New("trace: a step must be longer than 0")
	}
	in := bufio.NewReaderSize(r, 64<<10)
	first, err := in.Peek(1)
	if err != nil {
		return Trace{}, fmt.Errorf("read trace: %w", err)
	}
	t := Trace{Start: start, Step: step}
	a := adder{trace: &t}
	if first[0] == '{' {
		err = readLines(in, &a)
	} else {
		err = readCSV(in, &a)
	}
	if err != nil {
		return Trace{}, fmt.Errorf("read trace: %w", err)
	}
	if len(t.Loads) == 0 {
		return Trace{}, errors.New("read trace: there is no request in it")
	}
	return t, nil
}

// adder puts requests into steps.
type adder struct {
	trace *Trace
	line  int
}

func (a *adder) add(seconds, in, out float64) error {
	if !(in >= 0 && in < 1e9) || !(out >= 0 && out < 1e9) {
		return fmt.Errorf("line %d: tokens must be numbers that are not negative", a.line)
	}
	i := seconds / a.trace.Step.Seconds()
	if !(i >= 0 && i < maxSteps) {
		return fmt.Errorf("line %d: it lies before the beginning or more than %d steps after it", a.line, maxSteps)
	}
	if in+out == 0 {
		return nil
	}
	if n := int(i) + 1 - len(a.trace.Loads); n > 0 {
		a.trace.Loads = append(a.trace.Loads, make([]Load, n)...)
	}
	l := &a.trace.Loads[int(i)]
	l.Requests, l.In, l.Out = l.Requests+1, l.In+in, l.Out+out
	return nil
}

func readLines(r io.Reader, a *adder) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for a.line = 1; lines.Scan(); a.line++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var q struct {
			Timestamp *float64 `json:"timestamp"`
			In        *float64 `json:"input_length"`
			Out       *float64 `json:"output_length"`
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil || q.Timestamp == nil || q.In == nil || q.Out == nil {
			return fmt.Errorf("line %d: timestamp, input_length and output_length must be numbers", a.line)
		}
		if err := a.add(*q.Timestamp/1000, *q.In, *q.Out); err != nil {
			return err
		}
	}
	return lines.Err()
}

func readCSV(r io.Reader, a *adder) error {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return err
	}
	column := func(names ...string) int {
		return slices.IndexFunc(head, func(h string) bool { return slices.Contains(names, strings.ToLower(strings.TrimSpace(h))) })
	}
	at, in, out := column("timestamp", "seconds"), column("contexttokens", "request tokens", "input_tokens"), column("generatedtokens", "response tokens", "output_tokens")
	if at < 0 || in < 0 || out < 0 {
		return errors.New("line 1: these are not the columns of a known trace")
	}
	var zero time.Time
	for a.line = 2; ; a.line++ {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		seconds, err1 := strconv.ParseFloat(row[at], 64)
		if err1 != nil {
			when, err := time.Parse("2006-01-02 15:04:05", strings.TrimSuffix(row[at], "+00:00"))
			if err != nil {
				return fmt.Errorf("line %d: %q is no time", a.line, row[at])
			}
			if zero.IsZero() {
				zero = when
			}
			seconds = when.Sub(zero).Seconds()
		}
		n, err2 := strconv.ParseFloat(row[in], 64)
		m, err3 := strconv.ParseFloat(row[out], 64)
		if err2 != nil || err3 != nil {
			return fmt.Errorf("line %d: tokens must be numbers", a.line)
		}
		if err := a.add(seconds, n, m); err != nil {
			return err
		}
	}
}

// Shape is a load like one that was published: the lengths are theirs, the course of the day is ours.
type Shape struct {
	Name    string
	In, Out float64 // tokens of a request
	Source  string
}

// Shapes returns the shapes that there are.
func Shapes() []Shape {
	return []Shape{
		{"azure-conversation", 1020, 129, "medians of the conversation trace, Splitwise, arXiv 2311.18677"},
		{"azure-code", 1500, 13, "medians of the coding trace, Splitwise, arXiv 2311.18677"},
		{"mooncake", 7590, 182, "means of the trace of 23,608 requests in an hour, Mooncake, arXiv 2407.00079"},
	}
}

// Day is the course of a load that is made.
type Day struct {
	Peak    float64 // requests a second, the mean at the highest hour of a working day
	Night   float64 // share of Peak that is left at night
	Weekend float64 // share of a working day
	Noise   float64 // relative standard deviation from one five minutes to the next
	Bursts  float64 // a day, of ten minutes each in which the load doubles
	Zone    *time.Location
	Seed    uint64
}

// Make makes a load of whole days: it climbs from 6 to 10 o'clock, is highest until 18 and has fallen by 23.
func (s Shape) Make(d Day, start time.Time, days int, step time.Duration) Trace {
	t := Trace{Start: start, Step: step, Loads: make([]Load, int(time.Duration(days)*24*time.Hour/step))}
	random := rand.New(rand.NewPCG(d.Seed, 0xda7)) //nolint:gosec // a load repeats
	zone := d.Zone
	if zone == nil {
		zone = time.UTC
	}
	factor, burst, until := 1.0, 0.0, start
	for i := range t.Loads {
		at := start.Add(time.Duration(i) * step)
		if at.Truncate(5*time.Minute).Equal(at) || i == 0 {
			factor = max(0, 1+d.Noise*random.NormFloat64())
			if burst = 0; random.Float64() < d.Bursts/288 {
				until = at.Add(10 * time.Minute)
			}
		}
		if at.Before(until) {
			burst = 1
		}
		local := at.In(zone)
		rate := d.Peak * (d.Night + (1-d.Night)*course(float64(local.Hour())+float64(local.Minute())/60+float64(local.Second())/3600))
		if w := local.Weekday(); w == time.Saturday || w == time.Sunday {
			rate *= d.Weekend
		}
		mean := rate * factor * (1 + burst) * step.Seconds()
		n := poisson(random, mean)
		t.Loads[i] = Load{Requests: n, In: n * s.In, Out: n * s.Out}
	}
	return t
}

// course is the share of the day's height at an hour: soft flanks.
func course(hour float64) float64 {
	soft := func(x float64) float64 {
		x = min(1, max(0, x))
		return x * x * (3 - 2*x)
	}
	return soft((hour-6)/4) * (1 - soft((hour-18)/5))
}

// poisson draws a number of arrivals; large means by the normal distribution.
func poisson(random *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*random.NormFloat64()))
	}
	n, p, limit := 0.0, random.Float64(), math.Exp(-mean)
	for ; p > limit; n++ {
		p *= random.Float64()
	}
	return n
}

// Peak returns the highest mean rate of five minutes, in requests a second.
func (t Trace) Peak() float64 {
	n := max(1, int(5*time.Minute/t.Step))
	most, sum := 0.0, 0.0
	for i, l := range t.Loads {
		if sum += l.Requests; i >= n {
			sum -= t.Loads[i-n].Requests
		}
		most = max(most, sum)
	}
	return most / (time.Duration(n) * t.Step).Seconds()
}

// SecondsEach returns the work of the mean request on a machine; a trace without requests gives 1.
func (t Trace) SecondsEach(m Machine) float64 {
	var sum Load
	for _, l := range t.Loads {
		sum.Requests, sum.In, sum.Out = sum.Requests+l.Requests, sum.In+l.In, sum.Out+l.Out
	}
	if sum.Requests == 0 {
		return 1
	}
	return m.seconds(sum) / sum.Requests
}
