package sla

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/sluice-project/sluice/audit/record"
)

// Counts sum up requests. They are exact, and those of several tenants, models, classes and times add up.
type Counts struct {
	Requests  int64 `json:"requests"` // Answered + Failures + Refused + Left
	Answered  int64 `json:"answered"`
	Failures  int64 `json:"failures"`  // the service's
	Refused   int64 `json:"refused"`   // the caller's
	Left      int64 `json:"left"`      // callers who left
	Fallbacks int64 `json:"fallbacks"` // of Requests: in the place of another model
	Judged    int64 `json:"judged"`    // answered or failed, and under an objective
	Good      int64 `json:"good"`      // of Judged: answered, and within each latency of the objective

	Availability Spent `json:"-"`
	FirstToken   Spent `json:"-"`
	Total        Spent `json:"-"`
}

// Spent is what an objective allowed and what of it was spent.
type Spent struct {
	Of      int64 // requests that it is about
	Missed  int64 // of these
	Allowed int64 // millionths of requests that were allowed to
}

// numbers are all numbers of the counts, in the order in which they are stored: new ones come behind. A row with more is of a later release, and cannot be read.
func (c *Counts) numbers() []*int64 {
	return []*int64{
		&c.Requests, &c.Answered, &c.Failures, &c.Refused, &c.Left, &c.Fallbacks, &c.Judged, &c.Good,
		&c.Availability.Of, &c.Availability.Missed, &c.Availability.Allowed, &c.FirstToken.Of, &c.FirstToken.Missed, &c.FirstToken.Allowed,
		&c.Total.Of, &c.Total.Missed, &c.Total.Allowed,
	}
}

func (c *Counts) add(o *Counts) {
	to, from := c.numbers(), o.numbers()
	for i := range to {
		*to[i] += *from[i]
	}
}

func (s *Spent) judge(percent float64, missed bool) {
	s.Of++
	s.Allowed += allowed(percent)
	if missed {
		s.Missed++
	}
}

const (
	slot     = 5 * time.Minute
	slots    = int(time.Hour / slot)
	sigBits  = 7 // of a latency
	maxIndex = 64 * (64 - sigBits + 1)
)

// histogram counts latencies in microseconds by bin.
type histogram map[int64]int64

// binOf is the number of the bin of a value: values with the same seven significant bits have the same.
func binOf(v int64) int64 {
	v = max(0, v)
	drop := max(0, bits.Len64(uint64(v))-sigBits)
	return int64(drop)<<(sigBits-1) + v>>drop
}

// upperEdge is the largest value of a bin.
func upperEdge(bin int64) int64 {
	if bin < 1<<sigBits {
		return bin
	}
	drop := bin>>(sigBits-1) - 1
	return (bin-drop<<(sigBits-1)+1)<<drop - 1
}

func (h histogram) merge(o histogram) {
	for bin, n := range o {
		h[bin] += n
	}
}

// quantile returns the upper edge of the bin with the least value that a share q does not exceed; ok is false without any.
func (h histogram) quantile(q float64) (us int64, ok bool) {
	var n, below int64
	for _, c := range h {
		n += c
	}
	for _, bin := range slices.Sorted(maps.Keys(h)) {
		if below += h[bin]; float64(below) >= q*float64(n) {
			return upperEdge(bin), true
		}
	}
	return 0, false
}

// latencies are the histograms of one row.
type latencies struct{ firstToken, between, total histogram }

func newLatencies() latencies { return latencies{histogram{}, histogram{}, histogram{}} }

func (l latencies) all() []histogram { return []histogram{l.firstToken, l.between, l.total} }

func (l latencies) merge(o latencies) {
	for i, h := range l.all() {
		h.merge(o.all()[i])
	}
}

// key says where requests are counted.
type key struct {
	hour int64 // unix µs of its begin
	scope
}

// cell is what is counted under a key.
type cell struct {
	counts    [slots]Counts
	latencies latencies
}

func newCell() *cell { return &cell{latencies: newLatencies()} }

func (c *cell) merge(o *cell) {
	for i := range c.counts {
		c.counts[i].add(&o.counts[i])
	}
	c.latencies.merge(o.latencies)
}

// counted are the actions that ask a model.
func counted(action string) bool {
	return slices.Contains([]string{"chat.completions", "completions", "embeddings", "rerank", "score"}, action)
}

const hourMicro = int64(time.Hour / time.Microsecond)

// hourOf is the begin of the hour of a time in unix microseconds.
func hourOf(at int64) int64 {
	rest := at % hourMicro
	if rest < 0 {
		rest += hourMicro
	}
	return at - rest
}

// count adds a record to the cells. Records of anything but the outcome of a request to a model, and of before since, are left out.
func (c Config) count(cells map[key]*cell, e *record.Event, since int64) {
	if e.Stage != record.StageOutcome || !counted(e.Action) || e.Detail["parent"] != "" {
		return
	}
	at := e.Time
	if e.Detail["by"] == "reconciliation" { // the request was lost when it was admitted, not when somebody noticed
		at -= e.Latency.Total
	}
	if at < since {
		return
	}
	refusedByUs := e.Outcome == "refused" && e.Status >= 500 && e.ErrorKind != "timeout" && e.Detail["limit"] != "caller" // a deadline, or the part of a queue, of his own
	failed := e.Outcome == "failed" || refusedByUs || e.Outcome == "aborted" && e.Detail["cut"] != ""                     // by a server that stopped
	model, _, _ := strings.Cut(e.Model.Asked, "@")
	if e.Model.Routed == "" && !slices.ContainsFunc(c.Objectives, func(o Objective) bool { return o.Model == model }) { // the name may be of the caller's own invention
		model = ""
	}
	class := e.Detail["class"]
	if !slices.Contains(classes(), class) {
		class = ""
	}
	k := key{hour: hourOf(at), scope: scope{model: stored(model), tenant: stored(e.Tenant), class: class}}
	to := cells[k]
	if to == nil {
		to = newCell()
		cells[k] = to
	}
	n := &to.counts[(at-k.hour)/int64(slot/time.Microsecond)]
	var o Objective
	promised := c.objectiveOf(k.scope)
	if promised >= 0 {
		o = c.Objectives[promised]
	}
	limit := o.Total.Within.Microseconds() // not that of the first token: nobody knows when that of an answer in one piece came
	failed = failed || e.Outcome == "aborted" && e.Latency.FirstToken == 0 && limit > 0 && e.Latency.Total > limit
	n.Requests++
	if e.Detail["fallback_of"] != "" {
		n.Fallbacks++
	}
	switch {
	case failed:
		n.Failures++
	case e.Outcome == "ok":
		n.Answered++
	case e.Outcome == "aborted":
		n.Left++
		return
	default:
		n.Refused++
		return
	}
	if !failed {
		to.latencies.add(e)
	}
	if promised >= 0 {
		o.judge(n, e, failed)
	}
}

// judge holds a request that was answered or failed to the objective.
func (o Objective) judge(n *Counts, e *record.Event, failed bool) {
	n.Judged++
	if o.Availability > 0 {
		n.Availability.judge(o.Availability, failed)
	}
	if failed {
		return
	}
	good := true
	if o.FirstToken.Within > 0 && e.Latency.FirstToken > 0 { // an embedding has none
		slow := e.Latency.FirstToken > o.FirstToken.Within.Microseconds()
		n.FirstToken.judge(o.FirstToken.Percent, slow)
		good = !slow
	}
	if o.Total.Within > 0 {
		slow := e.Latency.Total > o.Total.Within.Microseconds()
		n.Total.judge(o.Total.Percent, slow)
		good = good && !slow
	}
	if good {
		n.Good++
	}
}

func (l latencies) add(e *record.Event) {
	l.total[binOf(e.Latency.Total)]++
	if e.Latency.FirstToken <= 0 {
		return
	}
	l.firstToken[binOf(e.Latency.FirstToken)]++
	if behind := e.Usage.CompletionTokens - 1; behind > 0 {
		l.between[binOf((e.Latency.Total-e.Latency.FirstToken)/behind)]++
	}
}

// form is the first byte of what is stored.
const form = 1

var errForm = errors.New("the counts of an hour cannot be read")

// encode returns the counts of the slots: of each that has any its number, how many numbers it has, and these.
func encodeCounts(all *[slots]Counts) []byte {
	out := []byte{form}
	for i := range all {
		if all[i].Requests == 0 {
			continue
		}
		numbers := all[i].numbers()
		out = binary.AppendUvarint(out, uint64(i))
		out = binary.AppendUvarint(out, uint64(len(numbers)))
		for _, n := range numbers {
			out = binary.AppendUvarint(out, uint64(*n))
		}
	}
	return out
}

func decodeCounts(b []byte) (all [slots]Counts, err error) {
	r, err := newReader(b)
	if err != nil {
		return all, err
	}
	for len(r.rest) > 0 {
		i, n := r.next(), r.next()
		if r.failed || i >= int64(slots) || n > int64(len(r.rest)) {
			return all, errForm
		}
		numbers := all[i].numbers()
		if n > int64(len(numbers)) { // to write it again would lose them
			return all, errForm
		}
		for j := range n {
			*numbers[j] = r.next()
		}
	}
	if r.failed {
		return all, errForm
	}
	return all, nil
}

// encode returns the histograms: of each how many bins it has, and of each bin how far it lies behind the one before and how many it counts.
func (l latencies) encode() []byte {
	out := []byte{form}
	for _, h := range l.all() {
		out = binary.AppendUvarint(out, uint64(len(h)))
		last := int64(0)
		for _, bin := range slices.Sorted(maps.Keys(h)) {
			out = binary.AppendUvarint(out, uint64(bin-last))
			out = binary.AppendUvarint(out, uint64(h[bin]))
			last = bin
		}
	}
	return out
}

func decodeLatencies(b []byte) (latencies, error) {
	l := newLatencies()
	r, err := newReader(b)
	if err != nil {
		return l, err
	}
	for _, h := range l.all() {
		n := r.next()
		if r.failed || n > int64(len(r.rest)) {
			return l, errForm
		}
		bin := int64(0)
		for range n {
			step, count := r.next(), r.next()
			if r.failed || step > maxIndex || bin+step > maxIndex {
				return l, errForm
			}
			bin += step
			h[bin] += count
		}
	}
	if r.failed || len(r.rest) > 0 {
		return l, errForm
	}
	return l, nil
}

// reader reads numbers that are not negative, and remembers that it could not.
type reader struct {
	rest   []byte
	failed bool
}

func newReader(b []byte) (*reader, error) {
	if len(b) == 0 || b[0] != form {
		return nil, errForm
	}
	return &reader{rest: b[1:]}, nil
}

func (r *reader) next() int64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<62 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return int64(v)
}
