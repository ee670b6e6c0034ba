package prefix

import (
	"errors"
	"fmt"

	"github.com/sluice-project/sluice/engine/native/exec"
)

// addResident puts a node into memory.
func (t *Tree) addResident(v *node, pg *exec.Page) {
	v.page = pg
	v.parent.warm++
	t.resident.push(v)
	v.space.resident.push(v)
}

// removeResident takes a node out of memory and returns its page, which the caller drops.
func (t *Tree) removeResident(v *node) *exec.Page {
	pg := v.page
	v.page = nil
	v.parent.warm--
	t.resident.remove(v)
	v.space.resident.remove(v)
	return pg
}

// addSpilled puts a node that is not in memory into the spill file.
func (t *Tree) addSpilled(v *node, at slot) {
	v.slot = at
	t.spilled.push(v)
	v.space.spilled.push(v)
}

func (t *Tree) removeSpilled(v *node) {
	t.spill.free(v.slot)
	v.slot = noSlot()
	t.spilled.remove(v)
	v.space.spilled.remove(v)
}

// forget drops a node and those below it.
func (t *Tree) forget(v *node) {
	for v.children.first != nil {
		t.forget(v.children.first)
	}
	switch {
	case v.page != nil:
		t.pages.Drop(t.removeResident(v))
	case v.slot != noSlot():
		t.removeSpilled(v)
	}
	delete(t.edges, edge{v.parent.id, v.tokens})
	v.parent.children.remove(v)
	if s := v.space; s.root.children.len == 0 {
		delete(t.spaces, s.id)
	}
	v.parent = nil
}

// room evicts what has to go so that n more pages of a namespace can come in below a node, and returns how many can.
func (t *Tree) room(s *space, below *node, n int) int {
	if below.page != nil {
		t.pages.Hold(below.page) // so that it stays
		defer t.pages.Drop(below.page)
	}
	n = min(n, t.quota)
	t.evict(&s.resident, s.resident.len+n-t.quota)
	t.evict(&t.resident, t.resident.len+n-t.bound)
	return max(0, min(n, t.quota-s.resident.len, t.bound-t.resident.len))
}

// victim is a node on its way out of memory.
type victim struct {
	node *node
	page *exec.Page
}

// evict frees up to n pages of a list: of those that nobody else holds and that have no children in memory the ones used least
// recently. The last of them, which are the beginnings of prompts, go to the spill file, as many as this call may write.
func (t *Tree) evict(l *list, n int) int {
	if n <= 0 {
		return 0
	}
	victims := t.victims[:0]
	for v := l.last; v != nil && len(victims) < n; {
		before := v.links[l.by].before
		if v.warm == 0 && v.page.Holders() == 1 {
			victims = append(victims, victim{v, t.removeResident(v)})
		}
		v = before
	}
	for i, v := range victims {
		if len(victims)-i > t.writes || !t.spillPage(v.node, v.page) {
			t.forget(v.node)
		}
		t.pages.Drop(v.page)
	}
	t.writes = max(0, t.writes-len(victims))
	t.stats.Evicted += uint64(len(victims))
	clear(victims)
	t.victims = victims
	return len(victims)
}

// spillPage writes the page of a node that has left the memory into the spill file, and reports whether it could.
func (t *Tree) spillPage(v *node, pg *exec.Page) bool {
	if t.spill == nil {
		return false
	}
	if v.space.spilled.len >= t.spillQuota {
		t.discard(&v.space.spilled)
	}
	if t.spilled.len >= t.spill.slots {
		t.discard(&t.spilled)
	}
	at, err := t.spill.write(pg.Memory())
	if err != nil {
		t.endSpill(err)
		return false
	}
	t.addSpilled(v, at)
	t.stats.Spilled++
	return true
}

// discard makes room in the spill file: the node used least recently that has no children goes.
func (t *Tree) discard(l *list) {
	v := l.last
	for v.children.len > 0 {
		v = v.links[l.by].before
	}
	t.forget(v)
	t.stats.SpillDropped++
}

// endSpill goes on without the spill file.
func (t *Tree) endSpill(err error) {
	for t.spilled.last != nil {
		t.forget(t.spilled.last)
	}
	t.spillErr = fmt.Errorf("the prefix cache goes on without its file: %w; mend the disk under spill_dir and restart", errors.Join(err, t.spill.close()))
	t.spill = nil
}

// fetch brings the nodes of a path into memory, those that come first first, as many as this call may read and there is room for.
// It returns how many are in memory, and whether another call could bring more.
func (t *Tree) fetch(path []*node) (in int, more bool) {
	for in < len(path) && path[in].page != nil {
		in++
	}
	if in == len(path) {
		return in, false
	}
	parent, begin := path[in].parent, in
	if parent.page != nil {
		t.pages.Hold(parent.page)
		defer t.pages.Drop(parent.page)
	}
	want := min(len(path)-in, t.reads)
	t.evict(&t.resident, want-t.pages.Free())
	want = t.room(path[in].space, parent, want)
	for in < begin+want && path[in].parent != nil && t.promote(path[in]) { // making room may have dropped some
		in++
	}
	t.touch(path[:in]) // each came in before its parent
	if in == begin+t.reads && in < len(path) && path[in].parent != nil {
		t.spill.announce(path[in].slot)
		more = true
	}
	return in, more
}

// promote reads the page of a node from the spill file, and reports whether it could. One that is damaged goes.
func (t *Tree) promote(v *node) bool {
	pg := t.pages.Take()
	if pg == nil {
		return false
	}
	switch err := t.spill.read(v.slot, pg.Memory()); {
	case err == nil:
		t.removeSpilled(v)
		t.addResident(v, pg)
		t.stats.Promoted++
		return true
	case errors.Is(err, errDamaged):
		t.stats.SpillDamaged++
		t.forget(v)
	default:
		t.endSpill(err)
	}
	t.pages.Drop(pg)
	return false
}
