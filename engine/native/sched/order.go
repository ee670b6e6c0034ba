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

// fairOrder is one call of Order.
type fairOrder struct {
	f          *Fair
	candidates []Candidate
	classes    [Classes][]*tenantQueue // the tenants that have candidates of the class
	debt       [Classes]float64
}

// tenantQueue is a tenant during one call.
type tenantQueue struct {
	name    string
	weight  float64
	counter float64 // with what is ahead in the order
	open    int
	heaps   [Classes][]int // indices of its candidates by class, the first one at the top
}

func (f *Fair) gather(candidates []Candidate, now time.Time) *fairOrder {
	o := &fairOrder{f: f, candidates: candidates, debt: f.debt}
	turns := map[string]*tenantQueue{}
	var oldest [Classes]time.Time
	for i, c := range candidates {
		t := turns[c.Tenant]
		if t == nil {
			t = &tenantQueue{name: c.Tenant, weight: f.weight(c.Tenant), counter: f.Counter(c.Tenant)}
			if known := f.tenants[c.Tenant]; known != nil {
				t.open = known.open()
			}
			turns[c.Tenant] = t
		}
		if len(t.heaps[c.Class]) == 0 {
			o.classes[c.Class] = append(o.classes[c.Class], t)
		}
		t.heaps[c.Class] = append(t.heaps[c.Class], i)
		if oldest[c.Class].IsZero() || c.Arrived.Before(oldest[c.Class]) {
			oldest[c.Class] = c.Arrived
		}
	}
	for class, list := range o.classes {
		if len(list) == 0 {
			continue
		}
		if f.starved[class] = now.Sub(oldest[class]) > f.cfg.MaxWait; !f.starved[class] {
			f.debt[class], o.debt[class] = 0, 0
		}
		for _, t := range list {
			for i := len(t.heaps[class])/2 - 1; i >= 0; i-- {
				o.siftDown(t.heaps[class], i)
			}
		}
	}
	return o
}

// before orders the candidates of one tenant and class.
func (o *fairOrder) before(i, j int) bool {
	a, b := &o.candidates[i], &o.candidates[j]
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if !a.Arrived.Equal(b.Arrived) {
		return a.Arrived.Before(b.Arrived)
	}
	return i < j
}

// siftDown restores the heap below i.
func (o *fairOrder) siftDown(heap []int, i int) {
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
func (o *fairOrder) next() int {
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
func (o *fairOrder) take(class int) int {
	list := o.classes[class]
	least := list[0].counter
	for _, t := range list[1:] {
		least = min(least, t.counter)
	}
	at := -1
	for i, t := range list {
		if t.counter <= least+o.f.cfg.Quantum && (at < 0 || o.less(t, list[at], class)) {
			at = i
		}
	}
	t := list[at]
	heap := t.heaps[class]
	first, last := heap[0], len(heap)-1
	t.counter += o.f.cfg.Prefill * float64(o.candidates[first].Tokens) / t.weight
	heap[0] = heap[last]
	t.heaps[class] = heap[:last]
	if last == 0 {
		list[at] = list[len(list)-1]
		o.classes[class] = list[:len(list)-1]
	} else {
		o.siftDown(t.heaps[class], 0)
	}
	return first
}

// less orders tenants whose counters are about even.
func (o *fairOrder) less(a, b *tenantQueue, class int) bool {
	x, y := o.candidates[a.heaps[class][0]], o.candidates[b.heaps[class][0]]
	return cmp.Or(cmp.Compare(a.open, b.open), cmp.Compare(a.counter, b.counter), x.Arrived.Compare(y.Arrived), cmp.Compare(a.name, b.name)) < 0
}
