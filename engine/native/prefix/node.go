package prefix

import "github.com/sluice-project/sluice/engine/native/exec"

// chunk is the tokens of one page.
type chunk [exec.PagePositions]int32

// edge leads from a node to the child with these tokens. It is compared as a whole, so that no two texts can be taken for each other.
type edge struct {
	parent uint64
	tokens chunk
}

// node is one page of a prompt. The page is in memory, in a slot of the spill file, or, on its way between them, in neither.
// A node in memory has its parent in memory.
type node struct {
	id       uint64
	space    *space
	parent   *node // nil: the root of a namespace, or no longer in the tree
	tokens   chunk
	children list // last used first
	warm     int  // children in memory
	page     *exec.Page
	slot     slot
	links    [3]link
}

// space is one namespace.
type space struct {
	id       NamespaceID
	root     *node
	resident list
	spilled  list
}

// The lists that a node may be in.
const (
	byTree  = iota // all nodes in memory, or all in the spill file
	bySpace        // those of its namespace
	bySibling
)

type link struct{ before, after *node }

// list is a list of nodes through their links, last used first. In those of nodes in memory and in the spill file, parents come
// before their children.
type list struct {
	by          int
	first, last *node
	len         int
}

func (l *list) push(v *node) {
	at := &v.links[l.by]
	at.before, at.after = nil, l.first
	if l.first != nil {
		l.first.links[l.by].before = v
	} else {
		l.last = v
	}
	l.first = v
	l.len++
}

func (l *list) remove(v *node) {
	at := &v.links[l.by]
	if at.before != nil {
		at.before.links[l.by].after = at.after
	} else {
		l.first = at.after
	}
	if at.after != nil {
		at.after.links[l.by].before = at.before
	} else {
		l.last = at.before
	}
	*at = link{}
	l.len--
}

// touch moves a node to the front.
func (l *list) touch(v *node) {
	if l.first != v {
		l.remove(v)
		l.push(v)
	}
}

// comparedChildren bounds the children that closest looks at.
const comparedChildren = 16

// closest returns the child, among those last used, with the most tokens in common with the beginning of tokens, and how many.
func (v *node) closest(tokens []int32) (best *node, common int) {
	child := v.children.first
	for range comparedChildren {
		if child == nil || common == len(tokens) {
			break
		}
		n := 0
		for n < len(tokens) && child.tokens[n] == tokens[n] {
			n++
		}
		if n > common {
			best, common = child, n
		}
		child = child.links[bySibling].after
	}
	return best, common
}
