package finding

import (
	"slices"

	"github.com/sluice-project/sluice/governance/classify/lexicon"
	"github.com/sluice-project/sluice/governance/classify/text"
)

// labels are the known ones, to be found from their ends and from their beginnings.
type labels struct{ byEnd, byStart *labelTrie }

// labelTrie is a tree of labels, from their first characters to their last or the other way round. The nodes below one lie side by side,
// in the order of their characters.
type labelTrie struct {
	ascii [0x80]int16
	han   [lexicon.Places]int16 // the roots by their characters, plus one
	nodes []labelNode
	roots int
}

type labelNode struct {
	r       rune
	kids    int32 // the first one
	count   int16
	longest int16 // characters of the longest label that goes through here
	label   *Label
}

func newLabelTrie(known []Label, backward bool) *labelTrie {
	type entry struct {
		word  []rune
		label *Label
	}
	var entries []entry
	for i := range known {
		word := slices.Clone(known[i].word)
		if backward {
			slices.Reverse(word)
		}
		entries = append(entries, entry{word, &known[i]})
	}
	slices.SortFunc(entries, func(a, b entry) int { return slices.Compare(a.word, b.word) })
	t := new(labelTrie)
	type part struct{ node, from, to, depth int }
	for queue := []part{{-1, 0, len(entries), 0}}; len(queue) > 0; queue = queue[1:] {
		p, start := queue[0], len(t.nodes)
		for i := p.from; i < p.to; {
			if len(entries[i].word) == p.depth {
				t.nodes[p.node].label = entries[i].label
				i++
				continue
			}
			n, j := labelNode{r: entries[i].word[p.depth]}, i
			for ; j < p.to && entries[j].word[p.depth] == n.r; j++ {
				n.longest = max(n.longest, int16(len(entries[j].word)))
			}
			queue = append(queue, part{len(t.nodes), i, j, p.depth + 1})
			t.nodes = append(t.nodes, n)
			i = j
		}
		if p.node < 0 {
			t.roots = len(t.nodes)
			continue
		}
		t.nodes[p.node].kids, t.nodes[p.node].count = int32(start), int16(len(t.nodes)-start)
	}
	for i, n := range t.nodes[:t.roots] {
		if n.r < 0x80 {
			t.ascii[n.r] = int16(i + 1)
		} else if place, ok := lexicon.Place(n.r); ok {
			t.han[place] = int16(i + 1)
		}
	}
	return t
}

// role says what a character does where labels are looked for, as bits.
type role uint8

const (
	mayEndLabel role = 1 << iota
	endsSentence
	isNumberDigit
	connects
)

// roles are those of the characters of ASCII.
var roles = func() (t [0x80]role) {
	for r := range t {
		t[r] = findRole(rune(r))
	}
	return t
}()

func roleOf(r rune) role {
	if uint32(r) < 0x80 {
		return roles[r]
	}
	if place, ok := lexicon.Place(r); ok {
		return hanRoles[place]
	}
	return findRole(r)
}

// hanRoles are those of the common Chinese characters.
var hanRoles = func() *[lexicon.Places]role {
	t := new([lexicon.Places]role)
	for _, n := range knownLabels.byEnd.nodes[:knownLabels.byEnd.roots] {
		if place, ok := lexicon.Place(n.r); ok {
			t[place] |= mayEndLabel
		}
	}
	for _, r := range connectors.Others {
		if place, ok := lexicon.Place(r); ok {
			t[place] |= connects
		}
	}
	return t
}()

func findRole(r rune) (role role) {
	if knownLabels.byEnd.root(text.Lower(r)) >= 0 {
		role |= mayEndLabel
	}
	if isSentenceEnd(r) {
		role |= endsSentence
	}
	if text.IsDigit(r) {
		role |= isNumberDigit
	}
	if isConnector(r) {
		role |= connects
	}
	return role
}

// root returns the node of an outermost character, or -1.
func (t *labelTrie) root(r rune) int {
	if uint32(r) < 0x80 {
		return int(t.ascii[r]) - 1
	}
	if place, ok := lexicon.Place(r); ok {
		return int(t.han[place]) - 1
	}
	if r < 0x2600 { // few labels are signs
		return -1
	}
	return t.find(0, t.roots, r)
}

// kid returns the node below another for a character, or -1.
func (t *labelTrie) kid(node int, r rune) int {
	n := &t.nodes[node]
	return t.find(int(n.kids), int(n.kids)+int(n.count), r)
}

func (t *labelTrie) find(low, high int, r rune) int {
	for low < high {
		middle := int(uint(low+high) >> 1)
		switch have := t.nodes[middle].r; {
		case have == r:
			return middle
		case have < r:
			low = middle + 1
		default:
			high = middle
		}
	}
	return -1
}

// labelBlanks is how many blanks in a row may stand in a label to the right: a form has long lines of them, and what is before waits meanwhile.
const labelBlanks = 8

// labelSearch looks for the longest label. Blanks between its characters do not matter.
type labelSearch struct {
	w     *Window
	trie  *labelTrie
	least int // no cell before this one

	found *Label
	open  bool // it is not known whether the longest one is there
	size  int  // characters of the longest one
	at    int  // where it ends, or begins
}

// left goes on to the left from a node whose character stands at cell k.
func (s *labelSearch) left(node, k int) {
	n := &s.trie.nodes[node]
	if n.label != nil && len(n.label.word) > s.size && !(text.IsLetter(n.r) && k > 0 && text.IsLetter(s.w.At(k-1))) {
		s.found, s.size, s.at = n.label, len(n.label.word), k
	}
	apart := false // a space was left out, so that none belongs to the label here
	for n.count > 0 && int(n.longest) > s.size && k > s.least {
		r := labelRune(s.w.At(k - 1))
		if kid := s.trie.kid(node, r); kid >= 0 && !(apart && r == ' ') {
			s.left(kid, k-1)
		}
		if !text.IsBlank(r) {
			return
		}
		apart = apart || r == ' '
		k--
	}
}

// right goes on to the right from a node whose character stands before cell k.
func (s *labelSearch) right(node, k int) {
	n := &s.trie.nodes[node]
	if n.label != nil && len(n.label.word) > s.size {
		next := text.Edge
		if text.IsLetter(n.r) {
			next = s.w.At(k)
		}
		if !text.IsLetter(next) {
			s.found, s.size, s.at, s.open = n.label, len(n.label.word), k, next == text.Unknown
		}
	}
	apart := false
	for last := k + labelBlanks; n.count > 0 && int(n.longest) > s.size && k <= last; k++ {
		r := s.w.At(k)
		if r == text.Unknown {
			s.wait(n, k, apart)
			return
		}
		r = labelRune(r)
		if kid := s.trie.kid(node, r); kid >= 0 && !(apart && r == ' ') {
			s.right(kid, k+1)
		}
		if !text.IsBlank(r) {
			return
		}
		apart = apart || r == ' '
	}
}

// labelRune is a character as labels are written: the blank of patient id may be an underscore.
func labelRune(r rune) rune {
	if r == '_' {
		return ' '
	}
	return text.Lower(r)
}

// wait says that one of the labels below a node may go on at cell k, which has not arrived.
func (s *labelSearch) wait(n *labelNode, k int, apart bool) {
	for _, kid := range s.trie.nodes[n.kids : n.kids+int32(n.count)] {
		if int(kid.longest) > s.size && !(apart && kid.r == ' ') {
			s.size, s.at, s.open = int(kid.longest), k, true
		}
	}
}
