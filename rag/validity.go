package rag

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// Times are UTC unix µs. A version is in effect from its beginning until, but not at, its end.

// never is the end of what has none.
const never = math.MaxInt64

// clockBack is how far the clock may go back before it counts as having been wrong: until then what has ended stays ended.
const clockBack = int64(time.Minute / time.Microsecond)

// validity knows which chunks are in effect. The set for now is kept and moves on at the boundaries, without any change of the tables; for another time
// two columns are scanned. It is guarded by the collection's mutex.
type validity struct {
	from, until []int64 // by number; from is never for numbers that nothing uses
	active      *roaring.Bitmap
	at          int64      // for which active holds
	boundaries  []boundary // after at, in order; some may have lost their meaning
	listed      int        // numbers in boundaries
}

// boundary is a time at which chunks may begin or end.
type boundary struct {
	at      int64
	numbers []uint32
}

func newValidity() *validity { return &validity{active: roaring.New()} }

// until0 is the end as the columns have it.
func until0(stored int64) int64 {
	if stored == 0 {
		return never
	}
	return stored
}

// set says when chunks are in effect.
func (x *validity) set(numbers []uint32, from, until int64) {
	if len(numbers) == 0 {
		return
	}
	top := int(slices.Max(numbers))
	for len(x.from) <= top {
		x.from, x.until = append(x.from, never), append(x.until, never)
	}
	for _, n := range numbers {
		x.from[n], x.until[n] = from, until0(until)
	}
	x.judge(numbers)
	x.expect(from, numbers)
	x.expect(until0(until), numbers)
}

// clear forgets chunks.
func (x *validity) clear(numbers []uint32) {
	for _, n := range numbers {
		if int(n) < len(x.from) {
			x.from[n], x.until[n] = never, never
			x.active.Remove(n)
		}
	}
}

func (x *validity) judge(numbers []uint32) {
	for _, n := range numbers {
		if x.from[n] <= x.at && x.at < x.until[n] {
			x.active.Add(n)
		} else {
			x.active.Remove(n)
		}
	}
}

func (x *validity) expect(at int64, numbers []uint32) {
	if at <= x.at || at == never {
		return
	}
	x.listed += len(numbers)
	if x.listed > 4*len(x.from)+1024 { // most have lost their meaning: what is in the columns is not more than twice as many
		x.relist()
		return
	}
	i, there := slices.BinarySearchFunc(x.boundaries, at, func(b boundary, at int64) int { return cmp.Compare(b.at, at) })
	if there {
		x.boundaries[i].numbers = append(x.boundaries[i].numbers, numbers...)
		return
	}
	x.boundaries = slices.Insert(x.boundaries, i, boundary{at, slices.Clone(numbers)})
}

// relist makes the boundaries anew of the columns.
func (x *validity) relist() {
	at := map[int64][]uint32{}
	x.listed = 0
	for n := range x.from {
		for _, t := range []int64{x.from[n], x.until[n]} {
			if t > x.at && t != never {
				at[t] = append(at[t], uint32(n))
				x.listed++
			}
		}
	}
	x.boundaries = nil
	for t, numbers := range at {
		x.boundaries = append(x.boundaries, boundary{t, numbers})
	}
	slices.SortFunc(x.boundaries, func(a, b boundary) int { return cmp.Compare(a.at, b.at) })
}

// due reports whether active no longer holds at a time.
func (x *validity) due(now int64) bool {
	return len(x.boundaries) > 0 && x.boundaries[0].at <= now || now < x.at-clockBack
}

// advance makes active hold at a time. One that lies a little before that of the last call is taken for that.
func (x *validity) advance(now int64) {
	if now < x.at-clockBack { // the clock was wrong
		x.at, x.active = now, x.scan(now)
		x.relist()
		return
	}
	x.at = max(x.at, now)
	passed := 0
	for passed < len(x.boundaries) && x.boundaries[passed].at <= x.at {
		x.judge(x.boundaries[passed].numbers)
		x.listed -= len(x.boundaries[passed].numbers)
		passed++
	}
	x.boundaries = x.boundaries[passed:]
}

// scan returns what is in effect at a time.
func (x *validity) scan(at int64) *roaring.Bitmap {
	words := make([]uint64, (len(x.from)+63)/64)
	until := x.until[:len(x.from)]
	for i, from := range x.from { // without a branch that nobody can predict: the sign of each difference says on which side it lies; no time is negative
		outside := uint64((at-from)|(until[i]-1-at)) >> 63
		words[i>>6] |= (outside ^ 1) << (i & 63)
	}
	return roaring.FromDense(words, false)
}

// allowedAt returns what of the chunks is in effect at a time; 0 is now, for which advance was called. chunks is changed.
func (x *validity) allowedAt(chunks *roaring.Bitmap, at int64) *roaring.Bitmap {
	if at == 0 {
		chunks.And(x.active)
	} else {
		chunks.And(x.scan(at))
	}
	return chunks
}
