package sched

import (
	"cmp"
	"time"
)

// Order appends the indices of the first limit candidates in the order of their turns: by class, then the tenant's counter, then
// priority within the tenant, then arrival. What is ahead in the order is counted as if computed, so tenants alternate in it. A late
// class comes first as long as it is owed tokens: so none starves.
//
// Give the sequences whose prompts are being computed and the requests that wait to be admitted together, or each for itself.
func (f *Fair) Order(dst []int, candidates []Candidate, now time.Time, limit int) []int {
	o := f.gather(candidates, now)
	for range min(limit, len(candidates)) {
		dst = append(dst, o.next())
	}
	return dst
}

// ordering is one call of Order.
type ordering struct {
	f          *Fair
	candidates []Candidate
	classes    [Classes][]*bucket
	debt       [Classes]float64
}

// turn is a tenant during one call.
type turn struct {
	name    string
	counter float64 // with what is ahead in the order
	open    int
}

// bucket is what a tenant has in a class.
type bucket struct {
	*turn
	heap []int // indices of candidates, the first one at the top
}

func (f *Fair) gather(candidates []Candidate, now time.Time) *ordering {
	o := &ordering{f: f, candidates: candidates, debt: f.debt}
	type place struct {
		name  string
		class int
	}
	turns, buckets := map[string]*turn{}, map[place]*bucket{}
	var oldest [Classes]time.Time
	for i, c := range candidates {
		b := buckets[place{c.Tenant, c.Class}]
		if b == nil {
			t := turns[c.Tenant]
			if t == nil {
				t = &turn{name: c.Tenant, counter: f.Counter(c.Tenant)}
				if known := f.tenants[c.Tenant]; known != nil {
					t.open = known.open()
				}
				turns[c.Tenant] = t
			}
			b = &bucket{turn: t}
			buckets[place{c.Tenant, c.Class}] = b
			o.classes[c.Class] = append(o.classes[c.Class], b)
		}
		b.heap = append(b.heap, i)
		if oldest[c.Class].IsZero() || c.Arrived.Before(oldest[c.Class]) {
			oldest[c.Class] = c.Arrived
		}
	}
	for class, list := range o.classes {
		if len(list) == 0 {
			continue
		}
		if f.late[class] = now.Sub(oldest[class]) > f.cfg.MaxWait; !f.late[class] {
			f.debt[class], o.debt[class] = 0, 0
		}
		for _, b := range list {
			for i := len(b.heap)/2 - 1; i >= 0; i-- {
				o.sink(b.heap, i)
			}
		}
	}
	return o
}

// before orders the candidates of one tenant and class.
func (o *ordering) before(i, j int) bool {
	a, b := o.candidates[i], o.candidates[j]
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Arrived.Compare(b.Arrived), cmp.Compare(i, j)) < 0
}

// sink restores the heap below i.
func (o *ordering) sink(heap []int, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(heap); child++ {
			if o.before(heap[child], heap[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// next takes the candidate whose turn it is.
func (o *ordering) next() int {
	for class := Classes - 1; class > 0; class-- {
		if o.debt[class] > 0 && len(o.classes[class]) > 0 {
			i := o.take(class)
			o.debt[class] -= o.f.cfg.Prefill * float64(max(o.candidates[i].Tokens, 1))
			return i
		}
	}
	class := 0
	for len(o.classes[class]) == 0 {
		class++
	}
	return o.take(class)
}

// take takes the next candidate of a class.
func (o *ordering) take(class int) int {
	list := o.classes[class]
	least := list[0].counter
	for _, b := range list[1:] {
		least = min(least, b.counter)
	}
	at := -1
	for i, b := range list {
		if b.counter <= least+o.f.cfg.Quantum && (at < 0 || o.sooner(b, list[at])) {
			at = i
		}
	}
	b := list[at]
	first := b.heap[0]
	b.counter += o.f.cfg.Prefill * float64(o.candidates[first].Tokens) / o.f.weight(b.name)
	last := len(b.heap) - 1
	b.heap[0] = b.heap[last]
	b.heap = b.heap[:last]
	if last == 0 {
		list[at] = list[len(list)-1]
		o.classes[class] = list[:len(list)-1]
	} else {
		o.sink(b.heap, 0)
	}
	return first
}

// sooner orders tenants whose counters are about even.
func (o *ordering) sooner(a, b *bucket) bool {
	x, y := o.candidates[a.heap[0]], o.candidates[b.heap[0]]
	return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(a.counter, b.counter), x.Arrived.Compare(y.Arrived), cmp.Compare(a.name, b.name)) < 0
}
